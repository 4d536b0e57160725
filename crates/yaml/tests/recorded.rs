//! Recorded answers of `sigs.k8s.io/yaml`, and where this crate means to differ.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::process::ExitCode;

use serde_json::Value;
use sternpost_testkit::recorded::Suite;
use sternpost_yaml::{from_str, read, write};

/// The cases of a table: the text, and the columns after it.
fn cases(table: &'static str) -> Vec<(String, Vec<&'static str>)> {
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

/// Every row is a test, by its text.
fn main() -> ExitCode {
    let mut suite = Suite::default();
    for (group, table) in [
        ("scalars", include_str!("data/scalars.txt")),
        ("tags", include_str!("data/tags.txt")),
        ("keys", include_str!("data/keys.txt")),
        ("aliases", include_str!("data/aliases.txt")),
        ("structure", include_str!("data/structure.txt")),
    ] {
        let cases = cases(table).into_iter();
        suite.group(group, 40, cases.map(|(text, columns)| (text.clone(), move || read_as(&text, &columns))));
    }
    let cases = cases(include_str!("data/differences.txt")).into_iter();
    let different = cases.map(|(text, columns)| (text.clone(), move || different(&text, &columns)));
    suite.group("differences", 1, different);
    // Recorded from `JSONToYAML` of sigs.k8s.io/yaml v1.6.0.
    let written = include_str!("data/written.jsonl").lines().map(json);
    let written = written.map(|case| (case["value"].to_string(), move || written_as(&case)));
    suite.group("written", 400, written);
    suite.run()
}

fn read_as(text: &str, columns: &[&str]) -> Result<(), String> {
    let [expected] = columns else { panic!("bad case: {text:?}") };
    let actual = match read(text) {
        Err(_) => "error".to_owned(),
        Ok(document) if document.repeated.is_empty() => document.value.to_string(),
        Ok(document) => format!("{} (key set twice)", document.value),
    };
    // Through `Value`, because Go escapes and formats its own way.
    let canonical = match expected.strip_suffix(" (key set twice)") {
        Some(value) => format!("{} (key set twice)", json(value)),
        None if *expected == "error" => (*expected).to_owned(),
        None => json(expected).to_string(),
    };
    if actual == canonical { Ok(()) } else { Err(format!("expected {canonical}, got {actual}")) }
}

/// A chosen difference: what upstream says, and what is said here.
fn different(text: &str, columns: &[&str]) -> Result<(), String> {
    let [upstream, ours] = columns else { panic!("bad case: {text:?}") };
    let actual = match from_str(text) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(actual, *ours);
    let both_refuse = *upstream == "error" && actual.starts_with("error");
    if actual != *upstream && !both_refuse { Ok(()) } else { Err("it is no difference".into()) }
}

/// A value is written as upstream writes it, and comes back.
fn written_as(case: &Value) -> Result<(), String> {
    let text = write(&case["value"]);
    assert_eq!(text, case["yaml"].as_str().unwrap());
    assert_eq!(from_str(&text).unwrap(), case["value"]);
    Ok(())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
