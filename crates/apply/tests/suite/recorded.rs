//! Answers of structured-merge-diff 6.3.3 and of apimachinery 0.36.4 to random questions.

use crate::replay::{Differences, fields_case, sequence_case, typed_case};
use serde_json::Value;

fn check(recorded: &str, at_least: usize, case: fn(&Value, &Value) -> Differences) {
    let mut count = 0;
    for (number, line) in recorded.lines().enumerate() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let (request, answer) = (&recorded["request"], &recorded["answer"]);
        if let Some((what, expected, found)) = case(request, answer).first() {
            panic!("line {}: {what}\n  expected {expected}\n  found    {found}", number + 1);
        }
        count += 1;
    }
    assert!(count >= at_least, "only {count} cases");
}

#[test]
fn fields_are_read_and_written_as_recorded() {
    check(include_str!("../recorded/fields.jsonl"), 280, fields_case);
}

#[test]
fn sets_comparisons_merges_and_removals_are_as_recorded() {
    check(include_str!("../recorded/typed.jsonl"), 230, typed_case);
}

#[test]
fn writes_of_several_managers_are_as_recorded() {
    check(include_str!("../recorded/sequences.jsonl"), 100, sequence_case);
}
