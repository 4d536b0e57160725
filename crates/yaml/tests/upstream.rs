//! Recorded answers of `sigs.k8s.io/yaml`, and where this crate means to differ.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::panic, clippy::unwrap_used)]

use serde_json::Value;
use sternpost_yaml::{from_str, read};

/// The cases of a table: the text, and the columns after it.
fn cases(table: &str) -> Vec<(String, Vec<&str>)> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let cases: Vec<_> = lines
        .map(|line| {
            let mut columns = line.split(" => ");
            let text = columns.next().and_then(|text| serde_json::from_str(text).ok());
            (text.unwrap_or_else(|| panic!("bad case: {line}")), columns.collect())
        })
        .collect();
    assert!(!cases.is_empty());
    cases
}

fn check(table: &str) {
    let mut wrong = Vec::new();
    for (text, columns) in cases(table) {
        let [expected] = columns[..] else { panic!("bad case: {text:?}") };
        let actual = match read(&text) {
            Err(_) => "error".to_owned(),
            Ok(document) if document.repeated.is_empty() => document.value.to_string(),
            Ok(document) => format!("{} (key set twice)", document.value),
        };
        // Through `Value`, because Go escapes and formats its own way.
        let canonical = match expected.strip_suffix(" (key set twice)") {
            Some(value) => format!("{} (key set twice)", json(value)),
            None if expected == "error" => expected.to_owned(),
            None => json(expected).to_string(),
        };
        if actual != canonical {
            wrong.push(format!("{text:?}: expected {canonical}, got {actual}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn plain_scalars_have_the_types_of_yaml_1_1() {
    check(include_str!("data/scalars.txt"));
}

#[test]
fn tags_decide_or_refuse() {
    check(include_str!("data/tags.txt"));
}

#[test]
fn keys_become_strings() {
    check(include_str!("data/keys.txt"));
}

#[test]
fn aliases_and_merges_are_copied() {
    check(include_str!("data/aliases.txt"));
}

#[test]
fn documents_blocks_and_syntax_errors() {
    check(include_str!("data/structure.txt"));
}

#[test]
fn chosen_differences() {
    for (text, columns) in cases(include_str!("data/differences.txt")) {
        let [upstream, ours] = columns[..] else { panic!("bad case: {text:?}") };
        let actual = match from_str(&text) {
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(actual, ours, "{text:?}");
        let both_refuse = upstream == "error" && actual.starts_with("error");
        assert!(actual != upstream && !both_refuse, "{text:?} is no difference");
    }
}
