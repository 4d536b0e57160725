//! Subresources of pods against answers recorded from kube-apiserver 1.36.4.
//!
//! `tests/pod_subresources.jsonl` has one case a line: the pod sent (`new`), the
//! stored one (`old`), the `subresource`, and the answer: the `causes` of a 422,
//! or the `object`, of which spec and status are compared.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{
    kinds::{
        pod::{ephemeral_containers, resize},
        strategy,
    },
    object::Fields,
};

#[test]
fn subresources_of_pods_answer_as_recorded() {
    let cases: Vec<Value> = include_str!("pod_subresources.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!cases.is_empty());
    let failures: Vec<String> = cases.iter().filter_map(difference).collect();
    assert!(failures.is_empty(), "{} of {} differ\n{}", failures.len(), cases.len(), failures.join("\n"));
}

fn difference(case: &Value) -> Option<String> {
    let (mut pod, old) = (case["new"].clone(), &case["old"]);
    let mut errors = Errors::default();
    (strategy("", "Pod").default)(&mut pod);
    match case.text("subresource") {
        "resize" => {
            resize::prepare(&mut pod, old);
            resize::validate(&pod, old, &mut errors);
        }
        _ => {
            ephemeral_containers::prepare(&mut pod, old);
            ephemeral_containers::validate(&pod, old, &mut errors);
        }
    }
    let causes = json!(errors.causes());
    let name = case.text("name");
    match case.get_field("causes") {
        Some(expected) if *expected == causes => None,
        Some(expected) => Some(format!("{name}\n  expected {expected}\n  found    {causes}")),
        None if !errors.is_empty() => Some(format!("{name}\n  found    {causes}")),
        None => ["spec", "status"].iter().find_map(|part| {
            let (expected, found) = (&case["object"][part], &pod[part]);
            (expected != found).then(|| format!("{name}: {part}\n  expected {expected}\n  found    {found}"))
        }),
    }
}
