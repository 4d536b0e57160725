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
    let v2 =
        document(&fields, ("swagger", "2.0"), &["info", "paths", "definitions", "parameters", "responses"]);
    let v3 = document(&fields, ("openapi", "3.0.0"), &["info", "paths", "components"]);
    if let Ok(converted) = convert::to_v3(&v2) {
        assert!(dangling(&converted.document).is_empty(), "{}", converted.document);
        let back = convert::to_v2(&converted.document).expect("what was converted converts back").document;
        assert!(dangling(&back).is_empty(), "{back}");
        let filtered = filter::v2(v2.clone(), "/a");
        let merged = merge::v2([v2.clone(), back]).document;
        if is_whole(&v2, &["#/definitions/", "#/parameters/", "#/responses/"]) {
            assert!(dangling(&filtered).is_empty(), "{filtered}");
            assert!(dangling(&merged).is_empty(), "{merged}");
        }
    }
    if let Ok(converted) = convert::to_v2(&v3) {
        assert!(dangling(&converted.document).is_empty(), "{}", converted.document);
        filter::v3(v3.clone(), "/a");
        merge::v3([v3.clone(), v3]);
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
        is_whole &= sections.iter().any(|section| reference.starts_with(section));
    });
    is_whole
}
