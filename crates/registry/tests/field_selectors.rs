//! Field selectors against answers recorded from kube-apiserver 1.36.4.
//!
//! A line is a selector for a kind and either the message of a 400 (`error`),
//! nothing (it was understood), or an `object` and whether the list had it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use serde_json::Value;
use sternpost_meta::selector::FieldSelector;
use sternpost_registry::{
    field_selectors::{Scope, matches, resolve, resolve_custom},
    kinds::strategy,
    object::Fields,
};

const RECORDED: &str = include_str!("field_selectors.jsonl");

#[test]
fn fields_are_known_and_matched_as_recorded() {
    let (mut refused, mut matched) = (0, 0);
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let selector = FieldSelector::parse(case.text("selector")).unwrap();
        let strategy = strategy(case.text("group"), case.text("kind"));
        let resolved = resolve(strategy, selector);
        match (resolved, case["error"].as_str()) {
            (Err(error), wanted) => {
                assert_eq!(Some(error.to_string().as_str()), wanted, "{line}");
                refused += 1;
            }
            (Ok(_), Some(_)) => panic!("accepted: {line}"),
            (Ok(selector), None) if case.has("object") => {
                let found = matches(&selector, strategy, &case["object"]);
                assert_eq!(found, case.flag("matches"), "{line}");
                matched += 1;
            }
            (Ok(_), None) => {}
        }
    }
    assert!(refused > 60 && matched > 60, "{refused} {matched}");
}

#[test]
fn custom_resources_offer_what_they_declare() {
    let resolve = |scope, text: &str| {
        resolve_custom(scope, &["spec.color"], FieldSelector::parse(text).unwrap())
            .map(|selector| selector.to_string())
            .map_err(|error| error.to_string())
    };
    for (scope, text, expected) in [
        (Scope::Namespaced, "metadata.namespace=a,spec.color=red", Ok("metadata.namespace=a,spec.color=red")),
        (Scope::Cluster, "metadata.namespace=a", Err("field label not supported: metadata.namespace")),
        (Scope::Cluster, "metadata.name=a", Ok("metadata.name=a")),
        (Scope::Namespaced, "spec.size=1", Err("field label not supported: spec.size")),
    ] {
        assert_eq!(resolve(scope, text), expected.map(str::to_owned).map_err(str::to_owned));
    }
}
