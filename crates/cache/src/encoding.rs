//! The stored form of an object.
//!
//! Four bytes, then the object's fields as JSON, without the opening brace,
//! `kind`, `apiVersion` and `metadata.resourceVersion`: `"metadata":{…},"spec":{…}}`.
//! The four bytes say, little end first, where in the JSON the resource version
//! belongs. So one stored form serves a single object, a list item (which has
//! no kind) and an event, under whatever revision the store gave it.

use bytes::Bytes;
use serde_json::{Map, Value};

const OFFSET_BYTES: usize = 4;

/// Puts an object into its stored form. Whatever is no object becomes an empty one.
pub fn encode(object: &Value) -> Bytes {
    static EMPTY: Value = Value::Null;
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    let metadata = fields.get("metadata").unwrap_or(&EMPTY).as_object().unwrap_or(&empty);

    let mut out = vec![0; OFFSET_BYTES];
    out.extend_from_slice(b"\"metadata\":{");
    let mut offset = None;
    let mut first = true;
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        if offset.is_none() && key.as_str() > "resourceVersion" {
            offset = Some(out.len());
        }
        field(&mut out, key, value);
    }
    // Metadata of every stored object ends with `uid`, which sorts behind; for
    // anything else the version leads, and the comma after it must have a follower.
    let offset = offset.unwrap_or_else(|| "\"metadata\":{".len() + OFFSET_BYTES) - OFFSET_BYTES;
    out.push(b'}');
    for (key, value) in fields {
        if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
            out.push(b',');
            field(&mut out, key, value);
        }
    }
    out.push(b'}');
    // Objects are limited to a few megabytes long before they get here.
    let offset = u32::try_from(offset).unwrap_or_default().to_le_bytes();
    for (byte, digit) in out.iter_mut().zip(offset) {
        *byte = digit;
    }
    // Kept for as long as the object: exactly as long as it is, not as the buffer grew.
    Bytes::copy_from_slice(&out)
}

/// Appends the fields of a stored object, with its version, and the closing brace.
pub(crate) fn write_fields(out: &mut Vec<u8>, stored: &[u8], revision: u64) {
    let (head, tail) = parts(stored);
    out.extend_from_slice(head);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    out.push(b'"');
    if !tail.starts_with(b"}") {
        out.push(b',');
    }
    out.extend_from_slice(tail);
}

/// The object as JSON, without kind, apiVersion and resource version.
pub fn value_of(stored: &[u8]) -> Option<Value> {
    let json = stored.get(OFFSET_BYTES..)?;
    let mut text = Vec::with_capacity(json.len() + 1);
    text.push(b'{');
    text.extend_from_slice(json);
    serde_json::from_slice(&text).ok()
}

fn parts(stored: &[u8]) -> (&[u8], &[u8]) {
    let offset = match stored {
        [a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]),
        _ => 0,
    };
    let json = stored.get(OFFSET_BYTES..).unwrap_or_default();
    json.split_at_checked(usize::try_from(offset).unwrap_or_default()).unwrap_or((json, &[]))
}

fn field(out: &mut Vec<u8>, key: &str, value: &Value) {
    // Writing a `Value` to memory has no failing case.
    let key = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let value = serde_json::to_writer(&mut *out, value);
    debug_assert!(key.is_ok() && value.is_ok());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: &Value, expected: &str) {
        let stored = encode(object);
        let mut out = vec![b'{'];
        write_fields(&mut out, &stored, 42);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_version_stands_where_it_sorts() {
        check(
            &json!({"apiVersion": "v1", "kind": "X", "data": {"a": "b"},
                "metadata": {"name": "n", "resourceVersion": "7", "uid": "u", "annotations": {"resourceVersion": ""}}}),
            r#"{"metadata":{"annotations":{"resourceVersion":""},"name":"n","resourceVersion":"42","uid":"u"},"data":{"a":"b"}}"#,
        );
        check(&json!({"metadata": {"uid": "u"}}), r#"{"metadata":{"resourceVersion":"42","uid":"u"}}"#);
        check(&json!({"metadata": {}, "spec": 1}), r#"{"metadata":{"resourceVersion":"42"},"spec":1}"#);
        check(&json!({"metadata": {"name": "n"}}), r#"{"metadata":{"resourceVersion":"42","name":"n"}}"#);
    }

    #[test]
    fn what_is_stored_reads_back() {
        let object = json!({"metadata": {"name": "n", "uid": "u"}, "spec": {"x": [1, null]}});
        assert_eq!(value_of(&encode(&object)), Some(object));
        for damaged in [&b""[..], b"\0\0", b"\xff\xff\xff\xff{}"] {
            let mut out = Vec::new();
            write_fields(&mut out, damaged, 1);
            assert_eq!(value_of(damaged), None);
        }
    }
}
