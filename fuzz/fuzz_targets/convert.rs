//! Converting, filtering and merging never panic, and nothing that comes out refers to nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use sternpost_openapi::{
    convert, filter, merge,
    references::{self, dangling},
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return };
    let both = ["info", "paths", "tags", "security"];
    let v2 = document(
        &fields,
        ("swagger", "2.0"),
        &[&both[..], &["definitions", "parameters", "responses", "consumes", "produces", "schemes"]].concat(),
    );
    let v3 = document(&fields, ("openapi", "3.0.0"), &[&both[..], &["components", "servers"]].concat());
    if let Ok(converted) = convert::to_v3(&v2) {
        assert!(dangling(&converted.document).is_empty(), "{}", converted.document);
        let back = convert::to_v2(&converted.document).expect("what was converted converts back").document;
        assert!(dangling(&back).is_empty(), "{back}");
        let filtered = filter::v2(v2.clone(), "/a");
        let merged = merge::v2([v2.clone(), back]).document;
        if is_whole(&v2, references::V2) {
            assert!(dangling(&filtered).is_empty(), "{filtered}");
            assert!(dangling(&merged).is_empty(), "{merged}");
        }
    }
    if let Ok(converted) = convert::to_v2(&v3) {
        assert!(dangling(&converted.document).is_empty(), "{}", converted.document);
        let filtered = filter::v3(v3.clone(), "/a");
        let first = document(&fields, ("openapi", "3.0.0"), &["components"]);
        let merged = merge::v3([first, v3.clone(), v3.clone()]).document;
        if is_whole(&v3, references::V3) {
            assert!(dangling(&filtered).is_empty(), "{filtered}");
            assert!(dangling(&merged).is_empty(), "{merged}");
        }
    }
});

fn document(fields: &Map<String, Value>, (key, version): (&str, &str), keep: &[&str]) -> Value {
    let mut fields = fields.clone();
    fields.retain(|key, _| keep.contains(&key.as_str()));
    fields.insert(key.into(), version.into());
    Value::Object(fields)
}

/// Whether every reference leads to something that has a name.
fn is_whole(document: &Value, sections: &[&str]) -> bool {
    let mut is_whole = dangling(document).is_empty();
    references::each(document, &mut |reference| {
        let rest = sections.iter().find_map(|section| reference.strip_prefix('#')?.strip_prefix(section));
        is_whole &= rest.is_some_and(|rest| rest.starts_with('/'));
    });
    is_whole
}
