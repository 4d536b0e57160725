//! RuntimeClass: pods carry the overhead of their runtime and go where it runs.

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::{
    kinds::resource_list,
    object::{Fields, FieldsMut},
};

use super::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "RuntimeClass", mutate, validate };

fn mutate(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "pods") {
        return Ok(());
    }
    let Some(class) = class_of(request, pod)? else { return Ok(()) };
    if let Some(fixed) = class.get_field("overhead") {
        check_overhead(request, pod, fixed.field("podFixed"))?;
        pod.object_mut("spec").set("overhead", fixed.field("podFixed").clone());
    }
    match class.get_field("scheduling") {
        Some(scheduling) => schedule(request, pod, scheduling),
        None => Ok(()),
    }
}

fn validate(request: &Request<'_>, pod: &Value, _: &mut Vec<String>) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "pods") {
        return Ok(());
    }
    let class = class_of(request, pod)?;
    if let Some(fixed) = class.as_ref().and_then(|class| class.get_field("overhead")) {
        return check_overhead(request, pod, fixed.field("podFixed"));
    }
    if pod.field("spec").entries("overhead").next().is_some() {
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(request.forbidden(pod, why));
    }
    Ok(())
}

fn class_of(request: &Request<'_>, pod: &Value) -> Result<Option<Value>, Status> {
    let name = pod.field("spec").text("runtimeClassName");
    if name.is_empty() {
        return Ok(None);
    }
    let found = request.find("node.k8s.io", "runtimeclasses", name);
    let why = || format!("pod rejected: RuntimeClass \"{name}\" not found");
    found.map(Some).ok_or_else(|| request.forbidden(pod, &why()))
}

/// A pod may say its overhead if it says what the class says.
fn check_overhead(request: &Request<'_>, pod: &Value, fixed: &Value) -> Result<(), Status> {
    let said = pod.field("spec").field("overhead");
    let count = said.as_object().map_or(0, serde_json::Map::len);
    let same = count == fixed.as_object().map_or(0, serde_json::Map::len)
        && fixed
            .as_object()
            .into_iter()
            .flat_map(|fixed| fixed.keys())
            .all(|name| resource_list::quantity(said, name) == resource_list::quantity(fixed, name));
    if count == 0 || same {
        return Ok(());
    }
    Err(request.forbidden(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
}

fn schedule(request: &Request<'_>, pod: &mut Value, scheduling: &Value) -> Result<(), Status> {
    let wanted = pod.field("spec").field("nodeSelector");
    for (key, value) in scheduling.entries("nodeSelector") {
        if let Some(other) = wanted.get_field(key).filter(|other| *other != value) {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or_default(),
                other.as_str().unwrap_or_default()
            );
            return Err(request.forbidden(pod, &why));
        }
    }
    let tolerations: Vec<&Value> =
        pod.field("spec").items("tolerations").iter().chain(scheduling.items("tolerations")).collect();
    let tolerations = without_covered(&tolerations);
    let spec = pod.object_mut("spec");
    for (key, value) in scheduling.entries("nodeSelector") {
        spec.object_mut("nodeSelector").set(key, value.clone());
    }
    if !tolerations.is_empty() {
        spec.set("tolerations", tolerations);
    }
    Ok(())
}

/// Leaves out what another toleration covers; of two equal ones the first stays.
fn without_covered(all: &[&Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let later = all.iter().skip(index + 1);
        let covered = kept.iter().any(|other| covers(other, toleration))
            || later.into_iter().any(|other| other != toleration && covers(other, toleration));
        if !covered {
            kept.push((*toleration).clone());
        }
    }
    kept
}

/// Whether `wide` tolerates all that `narrow` tolerates, at least as long.
fn covers(wide: &Value, narrow: &Value) -> bool {
    let exists = wide.text("operator") == "Exists";
    let key = wide.text("key") == narrow.text("key") || (wide.text("key").is_empty() && exists);
    let effect = wide.text("effect") == narrow.text("effect") || wide.text("effect").is_empty();
    let value = exists
        || (wide.text("operator") == narrow.text("operator") && wide.text("value") == narrow.text("value"));
    let seconds = match (wide.int("tolerationSeconds"), narrow.int("tolerationSeconds")) {
        (None, _) => true,
        (Some(wide), Some(narrow)) => wide >= narrow,
        (Some(_), None) => false,
    };
    key && effect && value && seconds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_that_another_covers_is_left_out() {
        let all = json!({"operator": "Exists"});
        let key = json!({"key": "k", "operator": "Exists"});
        let value = json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"});
        let minute =
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60});
        let hour =
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600});
        for (given, expected) in [
            (vec![&key, &key], vec![&key]),
            (vec![&value, &key], vec![&key]),
            (vec![&key, &value], vec![&key]),
            (vec![&minute, &hour], vec![&hour]),
            (vec![&minute, &value], vec![&minute, &value]),
            (vec![&value, &minute, &all], vec![&all]),
        ] {
            let kept = without_covered(&given);
            assert_eq!(kept.iter().collect::<Vec<_>>(), expected, "{given:?}");
        }
    }
}
