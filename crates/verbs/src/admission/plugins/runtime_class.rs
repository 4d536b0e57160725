//! RuntimeClass: pods carry the overhead of their runtime and go where it runs.

use std::collections::HashMap;

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::{
    object::{Fields, FieldsMut},
    validation::resource_list,
};

use crate::admission::{Operation, Plugin, Request};

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

fn validate(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
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

/// Leaves out what another toleration covers. Of those that cover each other one stays: the first
/// after which there are only equal ones.
fn without_covered(all: &[&Value]) -> Vec<Value> {
    // For each shape how long it is tolerated at most, and which toleration of each duration stays.
    let mut longest: HashMap<Shape<'_>, Duration> = HashMap::new();
    let mut staying: HashMap<(Shape<'_>, Duration), usize> = HashMap::new();
    for (index, toleration) in all.iter().enumerate() {
        let (shape, duration) = (Shape::of(toleration), Duration::of(toleration));
        let most = longest.entry(shape).or_insert(duration);
        *most = duration.max(*most);
        let stays = staying.entry((shape, duration)).or_insert(index);
        if all.get(*stays) != Some(toleration) {
            *stays = index;
        }
    }
    let is_kept = |index: usize, toleration: &Value| {
        let (shape, duration) = (Shape::of(toleration), Duration::of(toleration));
        let covers = |other: &Shape<'_>| {
            longest.get(other).is_some_and(|most| *most > duration || (*most == duration && *other != shape))
        };
        staying.get(&(shape, duration)) == Some(&index) && !shape.covered_by().iter().any(covers)
    };
    let kept = all.iter().enumerate().filter(|(index, toleration)| is_kept(*index, toleration));
    kept.map(|(_, toleration)| (*toleration).clone()).collect()
}

/// What a toleration is for, all but how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shape<'a> {
    key: &'a str,
    effect: &'a str,
    operator: &'a str,
    /// Empty for `Exists`, which has all values.
    value: &'a str,
}

impl<'a> Shape<'a> {
    const EXISTS: &'static str = "Exists";

    fn of(toleration: &'a Value) -> Self {
        let [key, effect, operator, value] =
            ["key", "effect", "operator", "value"].map(|name| toleration.text(name));
        Self { key, effect, operator, value: if operator == Self::EXISTS { "" } else { value } }
    }

    /// The shapes that tolerate all that this one does, itself among them.
    fn covered_by(self) -> Vec<Self> {
        let mut wider = Vec::with_capacity(6);
        for effect in [self.effect, ""] {
            wider.push(Self { effect, ..self });
            wider.push(Self { effect, operator: Self::EXISTS, value: "", ..self });
            // Without a key it is every key, but only for `Exists`.
            wider.push(Self { effect, operator: Self::EXISTS, value: "", key: "" });
        }
        wider
    }
}

/// How long a taint is tolerated: for ever is longer than any number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Duration {
    Seconds(i64),
    Ever,
}

impl Duration {
    fn of(toleration: &Value) -> Self {
        toleration.int("tolerationSeconds").map_or(Self::Ever, Self::Seconds)
    }
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

    /// Whether `wide` tolerates all that `narrow` tolerates, at least as long.
    fn covers(wide: &Value, narrow: &Value) -> bool {
        let exists = wide.text("operator") == "Exists";
        let key = wide.text("key") == narrow.text("key") || (wide.text("key").is_empty() && exists);
        let effect = wide.text("effect") == narrow.text("effect") || wide.text("effect").is_empty();
        let value = exists
            || (wide.text("operator") == narrow.text("operator")
                && wide.text("value") == narrow.text("value"));
        let seconds = match (wide.int("tolerationSeconds"), narrow.int("tolerationSeconds")) {
            (None, _) => true,
            (Some(wide), Some(narrow)) => wide >= narrow,
            (Some(_), None) => false,
        };
        key && effect && value && seconds
    }

    /// Each with each, as upstream goes through them.
    fn without_covered_by_pairs(all: &[&Value]) -> Vec<Value> {
        let mut kept: Vec<Value> = Vec::new();
        for (index, toleration) in all.iter().enumerate() {
            let mut later = all.iter().skip(index + 1);
            let covered = kept.iter().any(|other| covers(other, toleration))
                || later.any(|other| other != toleration && covers(other, toleration));
            if !covered {
                kept.push((*toleration).clone());
            }
        }
        kept
    }

    #[test]
    fn the_same_are_left_out_as_by_comparing_each_with_each() {
        let mut kinds = Vec::new();
        for key in ["", "k"] {
            for (operator, value) in [("Exists", ""), ("Exists", "v"), ("Equal", "v"), ("Equal", "w")] {
                for (effect, seconds) in
                    [("", None), ("NoExecute", None), ("NoExecute", Some(60)), ("NoExecute", Some(90))]
                {
                    let mut toleration =
                        json!({"key": key, "operator": operator, "value": value, "effect": effect});
                    if let Some(seconds) = seconds {
                        toleration["tolerationSeconds"] = json!(seconds);
                    }
                    kinds.push(toleration);
                }
            }
        }
        // Any sequence of numbers does, as long as it is the same every time.
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut next = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % below
            };
            let length = next(6);
            let given: Vec<&Value> = (0..length).map(|_| &kinds[next(kinds.len())]).collect();
            assert_eq!(without_covered(&given), without_covered_by_pairs(&given), "{given:?}");
        }
    }
}
