//! The program against recorded answers of kustomize that take more than a library to give. `sternpost build`:
//! flags, files that are written, git, helm, functions and plugins. `sternpost kustomize fn run`: functions are
//! scripts, containers a stand-in for docker. The layout of the cases is told in
//! `crates/kustomize/tests/cases/README.md`.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

#[path = "all/recorded/mod.rs"]
mod recorded;

use recorded::{Case, answer, answers, cases};
use sternpost_testkit::recorded::Suite;

/// Topics of which those cases run here that a library cannot answer.
const BUILDS: [&str; 4] = ["build-command", "build-git", "build-helm", "build-plugins"];

/// Cases whose answer differs on purpose, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("build-plugins/function-validator-passes", "a validator that changes nothing passes"),
    (
        "fn-run/head-and-foot-comments",
        "a comment below an object is not shown to functions; it stays in the file",
    ),
    ("fn-run/scalars", "a folded text of one line stays folded"),
    ("fn-run/spec-null-path", "a block of text stays one where a line ends with a space"),
];

fn main() -> std::process::ExitCode {
    // One at a time: a script that was just written cannot be run while somebody else begins a process.
    let mut suite = Suite::default().at_a_time(1);
    let builds = BUILDS.into_iter().flat_map(cases).filter(needs_the_program);
    suite.group("build", 60, builds.map(|case| check(case, &[])));
    suite.group("fn", 260, cases("fn-run").into_iter().map(|case| check(case, &["kustomize"])));
    suite.run()
}

fn needs_the_program(case: &Case) -> bool {
    let flags = case.words.iter().any(|word| word.starts_with('-'));
    case.words.first().is_some_and(|word| word == "build")
        && (flags || case.name.starts_with("build-command") || case.name.starts_with("build-git"))
}

fn check(case: Case, prefix: &'static [&'static str]) -> (String, impl FnOnce() -> Result<(), String>) {
    let name = case.name.clone();
    let check = move || {
        let (ours, theirs) = (answer(&case, prefix), answers(&case));
        let different = DIFFERENCES.iter().any(|(name, _)| *name == case.name);
        if (ours == theirs) == different {
            return Err(format!("--- kustomize\n{theirs:#?}\n--- ours\n{ours:#?}"));
        }
        Ok(())
    };
    (name, check)
}
