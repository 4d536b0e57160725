//! Every kind, in every shape, against what client-go 0.36.4 made of the same
//! JSON (`data/object`: `apiVersion kind shape`, SHA-256 of the bytes, SHA-256
//! of the JSON that Go prints of those bytes, keys sorted).
//!
//! To record anew: run the first test with `STERNPOST_RECORD=samples`, then
//! `go run . < SAMPLES > ANSWERS` in `tests/record`, then the test with
//! `STERNPOST_RECORD=goldens`; the files are in cargo's folder for temporary
//! test files.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{fmt::Write, fs, path::PathBuf};

use proptest::{prelude::*, sample::Index};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sternpost_wire::object::{decode, decode_message, encode, encode_message};

mod samples;

use samples::{Shape, kinds, sample};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/object");

#[test]
fn every_kind_is_written_and_read_as_go_does() {
    match recording().as_deref() {
        Some("samples") => write_samples(),
        Some("goldens") => record_goldens(),
        _ => {}
    }
    let golden = fs::read_to_string(GOLDEN).unwrap();
    let mut recorded = golden.lines();
    let mut compared = 0;
    for (label, object) in samples() {
        let bytes = encode(&object).unwrap_or_else(|error| panic!("{label}: {error}"));
        let read = decode(&bytes, None).unwrap_or_else(|error| panic!("{label}: {error}"));
        let line = line(&label, &bytes, &read);
        assert_eq!(recorded.next(), Some(line.as_str()), "{label}");
        if label.ends_with(" full") {
            assert_eq!(read, object, "{label}");
        }
        compared += 1;
    }
    assert_eq!(recorded.next(), None);
    assert!(compared > 450, "{compared}");
}

/// Bytes nearly right come closest to what reading does not expect.
#[test]
fn damaged_bytes_are_refused_or_read_for_good() {
    let samples: Vec<Vec<u8>> = samples()
        .filter(|(label, _)| label.ends_with(" odd"))
        .map(|(label, object)| encode(&object).unwrap_or_else(|error| panic!("{label}: {error}")))
        .filter(|bytes| bytes.len() < 20_000)
        .collect();
    let sample = proptest::sample::select(samples);
    let edits = proptest::collection::vec((any::<Index>(), any::<u8>(), 0..3_u8), 1..4);
    proptest!(ProptestConfig::with_cases(1_000), |(mut bytes in sample, edits in edits)| {
        for (index, byte, edit) in edits {
            let at = index.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
        }
        read_for_good(&bytes);
    });
}

#[test]
fn any_bytes_are_refused_or_read_for_good() {
    let names: Vec<&str> = kinds().into_iter().map(|(_, _, name)| name).collect();
    let name = proptest::sample::select(names);
    let bytes = proptest::collection::vec(any::<u8>(), 0..64);
    proptest!(ProptestConfig::with_cases(20_000), |(name in name, bytes in bytes)| {
        if let Ok(value) = decode_message(name, &bytes) {
            prop_assert!(encode_message(name, &value).is_ok());
        }
    });
}

/// JSON that is wrong somewhere is refused or settled, never half written.
#[test]
fn any_value_in_any_place_is_refused_or_settled() {
    let samples: Vec<Value> = samples()
        .filter(|(label, _)| label.ends_with(" full"))
        .map(|(_, object)| object)
        .filter(|object| object.to_string().len() < 20_000)
        .collect();
    let sample = proptest::sample::select(samples);
    let strings = "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:00:00(\\.[0-9]{1,7})?(Z|[+-][0-2][0-9]:00)\
                   |[+-]?[0-9.]{1,5}([munkMGTPE]|[KMGT]i|[eE][+-]?[0-9]{1,3})?|[a-zA-Z0-9+/=]{0,8}|\\PC{0,8}";
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        strings.prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([{"a": [null, 1, "x"]}, "y"])),
    ];
    let edits = proptest::collection::vec((any::<Index>(), value), 1..4);
    proptest!(ProptestConfig::with_cases(2_000), |(mut object in sample, edits in edits)| {
        for (index, value) in edits {
            let mut places = 0;
            each_member(&mut object, &mut |_| places += 1);
            let mut left = index.index(places);
            each_member(&mut object, &mut |place| {
                if left == 0 {
                    *place = value.clone();
                }
                left = left.wrapping_sub(1);
            });
        }
        if let Ok(bytes) = encode(&object) {
            let settled = decode(&bytes, None).unwrap();
            assert_eq!(decode(&encode(&settled).unwrap(), None).unwrap(), settled);
        }
    });
}

/// All that is inside of a value, parents after their members.
fn each_member(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    let mut below = |member: &mut Value| {
        each_member(member, visit);
        visit(member);
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(&mut below),
        Value::Object(members) => members.values_mut().for_each(&mut below),
        _ => {}
    }
}

/// What was read can be written; and once written, reading and writing change
/// nothing more.
fn read_for_good(bytes: &[u8]) {
    if let Ok(object) = decode(bytes, None) {
        let written = encode(&object).unwrap();
        let settled = decode(&written, None).unwrap();
        assert_eq!(encode(&settled).unwrap(), written);
        let text = settled.to_string();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), settled);
    }
}

#[allow(clippy::disallowed_methods, reason = "recording is asked for through the environment")]
fn recording() -> Option<String> {
    std::env::var("STERNPOST_RECORD").ok()
}

/// Writes the samples that Go is to answer.
fn write_samples() {
    let text: String = samples().map(|(_, object)| format!("{object}\n")).collect();
    fs::write(scratch("samples"), text).unwrap();
}

/// Makes goldens of Go's answers.
#[allow(clippy::print_stdout, reason = "says where ours differ")]
fn record_goldens() {
    let answers = fs::read_to_string(scratch("answers")).unwrap();
    let mut golden = String::new();
    for ((label, object), answer) in samples().zip(answers.lines()) {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let bytes = unhex(answer["bytes"].as_str().unwrap_or_else(|| panic!("{label}: {answer}")));
        writeln!(golden, "{}", line(&label, &bytes, &answer["json"])).unwrap();
        let ours = encode(&object).map_err(|error| error.to_string());
        if ours.as_ref() != Ok(&bytes) {
            println!(
                "{label}: bytes differ\n  go   {}\n  ours {}",
                hex(&bytes),
                ours.map_or_else(|e| e, |b| hex(&b))
            );
        } else if decode(&bytes, None).as_ref() != Ok(&answer["json"]) {
            println!(
                "{label}: JSON differs\n  go   {}\n  ours {:?}",
                answer["json"],
                decode(&bytes, None).map(|v| v.to_string())
            );
        }
    }
    fs::write(GOLDEN, golden).unwrap();
}

fn samples() -> impl Iterator<Item = (String, Value)> {
    kinds().into_iter().flat_map(|(api_version, kind, name)| {
        Shape::ALL.map(|shape| {
            (format!("{api_version} {kind} {}", shape.name()), sample(&api_version, &kind, name, shape))
        })
    })
}

fn line(label: &str, bytes: &[u8], json: &Value) -> String {
    format!("{label} {} {}", hex(&Sha256::digest(bytes)), hex(&Sha256::digest(json.to_string())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("object.{name}"))
}
