//! What the reference parser (gnostic-models 0.7.1, deterministic marshalling)
//! makes of small documents: the bytes, or a refusal (`hex` is null).

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fmt::Write as _;

use serde_json::Value;
use sternpost_wire::gnostic::{decode_v2, decode_v3, encode_v2, encode_v3};

#[test]
fn v2_documents_have_the_bytes_of_the_reference() {
    check(include_str!("data/gnostic_v2.json"), |document| encode_v2(document).ok());
}

#[test]
fn v3_documents_have_the_bytes_of_the_reference() {
    check(include_str!("data/gnostic_v3.json"), |document| encode_v3(document).ok());
}

#[test]
fn bytes_of_the_reference_survive_decoding() {
    for case in cases(include_str!("data/gnostic_v2.json")) {
        if let Some(bytes) = bytes(&case) {
            assert_eq!(encode_v2(&decode_v2(&bytes).unwrap()).unwrap(), bytes, "{}", case["rule"]);
        }
    }
    for case in cases(include_str!("data/gnostic_v3.json")) {
        if let Some(bytes) = bytes(&case) {
            assert_eq!(encode_v3(&decode_v3(&bytes).unwrap()).unwrap(), bytes, "{}", case["rule"]);
        }
    }
}

fn check(recorded: &str, encode: impl Fn(&Value) -> Option<Vec<u8>>) {
    for case in cases(recorded) {
        let hex = encode(&case["document"]).map(|bytes| {
            bytes.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            })
        });
        assert_eq!(hex.as_deref(), case["hex"].as_str(), "{}", case["rule"]);
    }
}

fn cases(recorded: &str) -> Vec<Value> {
    let cases: Vec<Value> = serde_json::from_str(recorded).unwrap();
    assert!(cases.len() > 20);
    cases
}

fn bytes(case: &Value) -> Option<Vec<u8>> {
    let hex = case["hex"].as_str()?;
    Some((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect())
}
