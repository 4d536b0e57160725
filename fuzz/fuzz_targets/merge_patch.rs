//! Nulls aside, a diff applied to the old object makes the new one, and a patch
//! applied twice does no more than once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use sternpost_patch::{
    body::{self, Reading},
    merge_patch::{apply, diff, three_way},
};

fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let read = |bytes| body::merge_patch(bytes, Reading::Checked).map(|body| body.patch);
    let (Ok(old), Ok(new), Ok(current)) = (read(input.0), read(input.1), read(input.2)) else { return };
    let once = apply(Value::Object(current.clone()), &new);
    three_way(&old, &new, &current);
    if !has_null(&new) {
        assert_eq!(apply(once.clone(), &new), once);
        assert_eq!(apply(Value::Object(old.clone()), &diff(&old, &new)), Value::Object(new));
    }
});

fn has_null(map: &Map<String, Value>) -> bool {
    fn inside(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(list) => list.iter().any(inside),
            Value::Object(map) => has_null(map),
            _ => false,
        }
    }
    map.values().any(inside)
}
