//! Answers of structured-merge-diff 6.3.3 and of apimachinery 0.36.4 to random questions.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::needless_pass_by_value)]

#[path = "../kinds/mod.rs"]
mod kinds;
mod replay;
mod server;

use std::process::ExitCode;

use replay::{Differences, fields_case, sequence_case, typed_case};
use serde_json::Value;
use sternpost_testkit::recorded::Suite;

type Replay = fn(&Value, &Value) -> Differences;

/// Every line is a test, by its number.
fn main() -> ExitCode {
    let mut suite = Suite::default();
    for (group, at_least, recorded, replay) in [
        ("fields", 280, include_str!("fields.jsonl"), fields_case as Replay),
        ("typed", 230, include_str!("typed.jsonl"), typed_case),
        ("sequences", 100, include_str!("sequences.jsonl"), sequence_case),
    ] {
        let cases = recorded.lines().zip(1..);
        let cases = cases.map(|(line, number)| (format!("{number}"), move || check(line, replay)));
        suite.group(group, at_least, cases);
    }
    server::add(&mut suite);
    suite.run()
}

fn check(line: &str, replay: Replay) -> Result<(), String> {
    let recorded: Value = serde_json::from_str(line).unwrap();
    match replay(&recorded["request"], &recorded["answer"]).first() {
        Some((what, expected, found)) => Err(format!("{what}\n  expected {expected}\n  found    {found}")),
        None => Ok(()),
    }
}
