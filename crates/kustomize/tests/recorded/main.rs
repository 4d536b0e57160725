//! Recorded answers of kustomize, and who wrote what: every case is a test by its name.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod builds;
mod commands;
mod why;

fn main() -> std::process::ExitCode {
    let mut suite = sternpost_testkit::recorded::Suite::default();
    builds::add(&mut suite);
    commands::add(&mut suite);
    why::add(&mut suite);
    suite.run()
}
