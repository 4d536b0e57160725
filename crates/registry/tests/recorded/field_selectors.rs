//! Field selectors against answers recorded from kube-apiserver 1.36.4.
//!
//! A line is a selector for a kind and either the message of a 400 (`error`),
//! nothing (it was understood), or an `object` and whether the list had it.
use serde_json::Value;
use sternpost_meta::{resource::Scope, selector::FieldSelector};
use sternpost_registry::{
    field_selectors::{matches, resolve, resolve_custom},
    kinds::strategy,
    object::Fields,
};
use sternpost_testkit::recorded::Suite;

use crate::lines;

const RECORDED: &str = include_str!("../field_selectors.jsonl");

pub fn add(suite: &mut Suite) {
    let refused = lines(RECORDED).filter(|case| case.has("error")).count();
    let matched = lines(RECORDED).filter(|case| case.has("object")).count();
    suite.test("field selectors are refused and matched more than 60 times each", move || {
        assert!(refused > 60 && matched > 60, "{refused} {matched}");
    });
    let cases = lines(RECORDED).map(|case| {
        let name = format!("{} {}", case.text("kind"), case.text("selector"));
        (name, move || check(&case))
    });
    suite.group("field selectors", 120, cases);
    suite.test("custom_resources_offer_what_they_declare", custom_resources_offer_what_they_declare);
}

fn check(case: &Value) -> Result<(), String> {
    let selector = FieldSelector::parse(case.text("selector")).unwrap();
    let strategy = strategy(case.text("group"), case.text("kind"));
    let resolved = resolve(strategy, selector);
    match (resolved, case["error"].as_str()) {
        (Err(error), wanted) => assert_eq!(Some(error.to_string().as_str()), wanted),
        (Ok(_), Some(wanted)) => return Err(format!("accepted instead of {wanted}")),
        (Ok(selector), None) if case.has("object") => {
            assert_eq!(matches(&selector, strategy, &case["object"]), case.flag("matches"));
        }
        (Ok(_), None) => {}
    }
    Ok(())
}

fn custom_resources_offer_what_they_declare() {
    let resolve = |scope, text: &str| {
        resolve_custom(scope, &["spec.color".to_owned()], FieldSelector::parse(text).unwrap())
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
