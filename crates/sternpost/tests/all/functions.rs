//! `sternpost kustomize fn run` as a program, against recorded answers of
//! kustomize: functions are scripts, containers a stand-in for docker.
//!
//! `KUSTOMIZE_CASE=part-of-a-name` runs some cases.

use crate::recorded::{answer, answers};

/// Cases whose answer differs on purpose, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "fn-run/head-and-foot-comments",
        "a comment below an object is not shown to functions; it stays in the file",
    ),
    ("fn-run/scalars", "a folded text of one line stays folded"),
    ("fn-run/spec-null-path", "a block of text stays one where a line ends with a space"),
];

#[test]
fn functions_run_as_with_kustomize() {
    let only = std::env::vars().find(|(name, _)| name == "KUSTOMIZE_CASE").map(|(_, value)| value);
    let (mut ran, mut wrong) = (0, Vec::new());
    for case in crate::recorded::cases("fn-run") {
        if only.as_ref().is_some_and(|only| !case.name.contains(only.as_str())) {
            continue;
        }
        ran += 1;
        let (ours, theirs) = (answer(&case, &["kustomize"]), answers(&case));
        let different = DIFFERENCES.iter().any(|(name, _)| *name == case.name);
        if (ours == theirs) == different {
            wrong.push(format!("{}\n--- kustomize\n{theirs:#?}\n--- ours\n{ours:#?}", case.name));
        }
    }
    println!("{ran} cases");
    assert!(wrong.is_empty(), "{} differ: {}", wrong.len(), wrong.join("\n=== "));
    assert!(ran > 0, "no case was run");
}
