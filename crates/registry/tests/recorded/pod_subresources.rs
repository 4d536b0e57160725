//! Subresources of pods against answers recorded from kube-apiserver 1.36.4.
//!
//! `tests/pod_subresources.jsonl` has one case a line: the pod sent (`new`), the
//! stored one (`old`), the `subresource`, and the answer: the `causes` of a 422,
//! or the `object`, of which spec and status are compared.
use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{
    kinds::{
        pod::{ephemeral_containers, resize},
        strategy,
    },
    object::Fields,
};
use sternpost_testkit::recorded::Suite;

use crate::{lines, named, same};

pub fn add(suite: &mut Suite) {
    let cases = lines(include_str!("../pod_subresources.jsonl"));
    suite.group("pod subresources", 1, cases.map(|case| named(case, "name", check)));
}

fn check(case: &Value) -> Result<(), String> {
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
    if case.has("causes") || !errors.is_empty() {
        return same(&causes, case.get_field("causes").unwrap_or(&Value::Null));
    }
    same(&pod["spec"], &case["object"]["spec"])?;
    same(&pod["status"], &case["object"]["status"])
}
