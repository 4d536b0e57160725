//! Counts checks and prints those that failed.

use std::{collections::BTreeSet, fmt::Debug, fmt::Display};

/// Of a long difference only this many lines are printed.
const MOST_LINES: usize = 20;

#[derive(Debug, Default)]
pub struct Checks {
    ran: usize,
    failed: usize,
}

impl Checks {
    pub fn check(&mut self, ok: bool, message: impl FnOnce() -> String) -> bool {
        self.ran += 1;
        if !ok {
            self.failed += 1;
            println!("FAIL {}", message());
        }
        ok
    }

    pub fn equal<T: PartialEq + Debug>(&mut self, what: &str, got: T, expected: T) -> bool {
        self.check(got == expected, || format!("{what}: {got:?}, expected {expected:?}"))
    }

    /// The value of a call that must succeed.
    pub fn ok<T, E: Display>(&mut self, what: &str, result: Result<T, E>) -> Option<T> {
        let problem = result.as_ref().err().map(ToString::to_string);
        self.check(problem.is_none(), || format!("{what}: {}", problem.unwrap_or_default()));
        result.ok()
    }

    /// Compares lines in any order and names those on one side only.
    pub fn same_lines(&mut self, what: &str, got: &[String], expected: &[String]) {
        if self.check(sorted(got) == sorted(expected), || format!("{what}: answers differ")) {
            return;
        }
        let (got, expected) = (BTreeSet::from_iter(got), BTreeSet::from_iter(expected));
        for (label, lines) in [("unexpected", &got - &expected), ("missing", &expected - &got)] {
            for line in lines.iter().take(MOST_LINES) {
                println!("  {label}: {line}");
            }
        }
    }

    /// Prints the sum; true if nothing failed.
    pub fn finish(self) -> bool {
        println!("checks {} failed {}", self.ran, self.failed);
        self.failed == 0 && self.ran > 0
    }
}

fn sorted(lines: &[String]) -> Vec<&String> {
    let mut lines: Vec<_> = lines.iter().collect();
    lines.sort();
    lines
}
