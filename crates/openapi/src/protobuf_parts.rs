//! A v2 document in protobuf, put together from parts.
//!
//! Definitions and paths are each one field of the message, which holds a list:
//! the lists of several documents one after the other are the list of all. Only
//! the lengths before them have to be written anew.

/// `Paths` and `Definitions` of the message `openapi.v2.Document`.
const PATHS: u64 = 8;
const DEFINITIONS: u64 = 9;
/// The wire type of strings, bytes and messages; a document has no others.
const LENGTH_DELIMITED: u64 = 2;

/// A document taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Fields before the paths.
    pub head: Vec<u8>,
    pub paths: Vec<u8>,
    pub definitions: Vec<u8>,
    /// Fields after the definitions.
    pub tail: Vec<u8>,
}

/// Takes an encoded document apart; what is no document gives what was read of it.
pub fn take_apart(mut bytes: &[u8]) -> Parts {
    let mut parts = Parts::default();
    while let Some((field, content, rest)) = field(bytes) {
        let whole = bytes.get(..bytes.len() - rest.len()).unwrap_or_default();
        match field {
            PATHS => parts.paths.extend_from_slice(content),
            DEFINITIONS => parts.definitions.extend_from_slice(content),
            number if number < PATHS => parts.head.extend_from_slice(whole),
            _ => parts.tail.extend_from_slice(whole),
        }
        bytes = rest;
    }
    parts
}

/// What stands before `length` bytes of paths.
pub fn before_paths(length: u64) -> Vec<u8> {
    opening(PATHS, length)
}

/// What stands before `length` bytes of definitions.
pub fn before_definitions(length: u64) -> Vec<u8> {
    opening(DEFINITIONS, length)
}

fn opening(field: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_varint(&mut out, field << 3 | LENGTH_DELIMITED);
    write_varint(&mut out, length);
    out
}

/// The number of the first field, what it holds, and what follows.
fn field(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (tag, bytes) = varint(bytes)?;
    let (length, bytes) = varint(bytes)?;
    let (content, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    (tag & 7 == LENGTH_DELIMITED).then_some((tag >> 3, content, rest))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(7 * index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_wire::gnostic;

    use super::*;

    #[test]
    fn a_document_put_together_again_is_the_document() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "t", "version": "v"},
            "paths": {"/a": {"get": {"operationId": "a".repeat(300), "responses": {"200": {"description": "OK"}}}}},
            "definitions": {"A": {"type": "object"}, "B": {"type": "string", "description": "b".repeat(20_000)}},
            "parameters": {"p": {"name": "p", "in": "query", "type": "string"}},
            "security": [{"x": []}],
        });
        let bytes = gnostic::encode_v2(&document).unwrap();
        let parts = take_apart(&bytes);
        let again = [
            parts.head,
            before_paths(parts.paths.len() as u64),
            parts.paths,
            before_definitions(parts.definitions.len() as u64),
            parts.definitions,
            parts.tail,
        ];
        assert_eq!(again.concat(), bytes);
    }

    #[test]
    fn what_is_no_document_is_taken_apart_as_far_as_it_can_be() {
        for bytes in [&b""[..], &[0x42], &[0x42, 5, 1], &[0xff; 12], &[0x08, 1]] {
            assert_eq!(take_apart(bytes), Parts::default(), "{bytes:?}");
        }
    }
}
