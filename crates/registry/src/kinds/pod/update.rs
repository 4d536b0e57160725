//! Updates of the object itself: little of a pod's spec may change.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::validate_metadata_and_spec;
use crate::{
    internal_form::{Shape, compact, internal},
    object::{Fields, FieldsMut},
    unified_diff::unified_diff,
    validation::{form::same, pod_annotations, pod_spec},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const MAX_DEADLINE: i64 = 2_147_483_647;

pub fn validate(pod: &Value, old: &Value, errors: &mut Errors) {
    validate_metadata_and_spec(pod, Some(old), errors);
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    pod_annotations::validate_update(pod, old, &annotations, errors);
    let (spec, old_spec) = (pod.field("spec"), old.field("spec"));
    let path = Path::new("spec");
    for list in ["containers", "initContainers"] {
        if validate_images(spec.items(list), old_spec.items(list), &path.child(list), errors).is_break() {
            return;
        }
    }
    if validate_deadline(spec, old_spec, &path.child("activeDeadlineSeconds"), errors).is_break() {
        return;
    }
    validate_tolerations(spec, old_spec, &path.child("tolerations"), errors);
    validate_scheduling_gates(spec, old_spec, &path.child("schedulingGates"), errors);
    validate_the_rest(spec, old_spec, &path, errors);
}

type Flow = std::ops::ControlFlow<()>;

fn validate_images(new: &[Value], old: &[Value], path: &Path<'_>, errors: &mut Errors) -> Flow {
    if new.len() != old.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return Flow::Break(());
    }
    for (index, container) in new.iter().enumerate() {
        let path = path.index(index);
        let image = container.text("image");
        if image.is_empty() {
            errors.required(path.child("image"), "");
        }
        if image.trim() != image {
            errors.invalid(path.child("image"), image, "must not have leading or trailing whitespace");
        }
    }
    Flow::Continue(())
}

/// A deadline may be set, and brought forward.
fn validate_deadline(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> Flow {
    let problem = match (spec.int("activeDeadlineSeconds"), old.int("activeDeadlineSeconds")) {
        (Some(new), _) if !(0..=MAX_DEADLINE).contains(&new) => {
            (new, format!("must be between 0 and {MAX_DEADLINE}, inclusive"))
        }
        (Some(new), Some(old)) if new > old => {
            (new, "must be less than or equal to previous value".to_owned())
        }
        (None, Some(_)) => {
            let problem = "must not update from a positive integer to nil value";
            errors.invalid(path, BadValue::Json(Value::Null), problem);
            return Flow::Continue(());
        }
        _ => return Flow::Continue(()),
    };
    errors.invalid(path, problem.0, &problem.1);
    Flow::Break(())
}

/// Tolerations may be added, and how long they last may change.
fn validate_tolerations(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let new = spec.items("tolerations");
    // All but the seconds, by the fields there are: a field that is null is one that is missing.
    let without_seconds = |toleration: &'_ Value| {
        let fields = toleration.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, value)| *name != "tolerationSeconds" && !value.is_null());
        fields.map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<String, Value>>()
    };
    let known: HashSet<BTreeMap<String, Value>> = new.iter().map(without_seconds).collect();
    if !old.items("tolerations").iter().all(|old| known.contains(&without_seconds(old))) {
        errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    pod_spec::validate_tolerations(new, path, errors);
}

fn validate_scheduling_gates(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let known: HashSet<&str> = old.items("schedulingGates").iter().map(|known| known.text("name")).collect();
    for (index, gate) in spec.items("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !known.contains(name) {
            let problem = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(path.index(index).child("name"), &problem);
        }
    }
}

/// What remains when all that may change is put back must be as it was.
fn validate_the_rest(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut rest = spec.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in rest.items_mut(list).iter_mut().zip(old.items(list)) {
            put_back(container, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put_back(&mut rest, old, name);
    }
    let seconds = "terminationGracePeriodSeconds";
    if old.int(seconds).is_some_and(|old| old < 0) && spec.int(seconds) == Some(1) {
        put_back(&mut rest, old, seconds);
    }
    // Nobody has looked at a gated pod yet, so it may still become pickier.
    if !old.items("schedulingGates").is_empty() {
        if !same(spec.field("nodeSelector"), old.field("nodeSelector")) {
            validate_node_selector(spec, old, &path.child("nodeSelector"), errors);
            put_back(&mut rest, old, "nodeSelector");
        }
        let (new, before) = (node_affinity(spec), node_affinity(old));
        if !same(new, before) {
            let affinity = path.child("affinity");
            validate_node_affinity(new, before, &affinity.child("nodeAffinity"), errors);
            match before {
                Value::Null => {
                    rest.object_mut("affinity").remove("nodeAffinity");
                }
                before => rest.object_mut("affinity").set("nodeAffinity", before.clone()),
            }
            if !old.has("affinity") && rest.field("affinity") == &serde_json::json!({}) {
                rest.remove("affinity");
            }
        }
    }
    if pod_spec::same_spec(&rest, old) {
        return;
    }
    let diff = unified_diff(&pod_spec::indented_spec(old), &pod_spec::indented_spec(&rest));
    let problem = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    errors.forbidden(path, &format!("{problem}\n{diff}"));
}

fn validate_node_selector(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let new = spec.field("nodeSelector");
    if !old.entries("nodeSelector").all(|(key, value)| new.get_field(key) == Some(value)) {
        let problem = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(path, BadValue::Json(new.clone()), problem);
    }
}

fn validate_node_affinity(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (required, old_required) = (new.field(REQUIRED), old.field(REQUIRED));
    let (terms, old_terms) = (required.items("nodeSelectorTerms"), old_required.items("nodeSelectorTerms"));
    if old_terms.is_empty() {
        return;
    }
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    if terms.len() != old_terms.len() {
        let shown: Vec<String> =
            terms.iter().map(|term| compact(Shape::Struct(pod_spec::NODE_SELECTOR_TERM), term)).collect();
        let shown = if terms.is_empty() { "null".to_owned() } else { format!("[{}]", shown.join(",")) };
        let problem = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(path, BadValue::Plain(shown), problem);
    }
    for (index, (term, old)) in terms.iter().zip(old_terms).enumerate() {
        if !only_adds(term, old) {
            let shown = internal(Shape::Struct(pod_spec::NODE_SELECTOR_TERM), term);
            errors.invalid(
                path.index(index),
                shown,
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

/// A term without requirements matches nothing and must stay so.
fn only_adds(term: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    if lists.iter().all(|list| old.items(list).is_empty()) {
        return lists.iter().all(|list| term.items(list).is_empty());
    }
    lists.iter().all(|list| term.items(list).starts_with(old.items(list)))
}

fn node_affinity(spec: &Value) -> &Value {
    spec.field("affinity").field("nodeAffinity")
}

pub fn put_back(object: &mut Value, old: &Value, name: &str) {
    match old.get_field(name) {
        Some(value) => object.set(name, value.clone()),
        None => {
            object.remove(name);
        }
    }
}
