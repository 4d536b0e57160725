//! The `resize` subresource: compute resources of a pod that stays where it is.

use std::ops::ControlFlow;

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::{ephemeral_containers::with_request_metadata, update::put_back, validate_metadata_and_spec};
use crate::{
    object::{Fields, FieldsMut},
    validation::{pod_annotations::MIRROR, pod_spec},
};

/// What a resize may change.
const MUTABLE: &[&str] = &["cpu", "memory"];
const LISTS: &[&str] = &["containers", "initContainers"];

/// The stored pod with the resources of the request. Containers keep the names the
/// request has for them, so that [`validate`] sees a change of their order.
pub fn prepare(request: &mut Value, old: &Value) {
    let mut pod = with_request_metadata(request, old);
    let spec = pod.object_mut("spec");
    for list in LISTS {
        let before = old.field("spec").items(list);
        let containers: Vec<Value> = request
            .field("spec")
            .items(list)
            .iter()
            .enumerate()
            .map(|(index, new)| {
                let Some(old) = before.get(index) else { return new.clone() };
                let mut container = old.clone();
                for name in ["name", "resources", "resizePolicy"] {
                    put_back(&mut container, new, name);
                }
                container
            })
            .collect();
        if !(containers.is_empty() && before.is_empty()) {
            spec.set(list, containers);
        }
    }
    put_back(spec, request.field("spec"), "resources");
    *request = pod;
}

pub fn validate(pod: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old_spec) = (pod.field("spec"), old.field("spec"));
    if old.field("metadata").field("annotations").has(MIRROR) {
        return errors.forbidden("[]", "static pods cannot be resized");
    }
    if old_spec.field("os").text("name") == "windows" {
        return errors.forbidden("[]", "windows pods cannot be resized");
    }
    validate_metadata_and_spec(pod, Some(old), errors);
    let path = Path::new("spec");
    let class = qos_class(old);
    if class != pod_spec::qos_class(spec) {
        let problem = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(path, BadValue::Json(class.into()), problem);
    }
    if runs_where_resize_is_unknown(old) {
        errors.forbidden(path, "Pod running on node without support for resize");
    }
    let before = errors.len();
    for list in LISTS {
        if validate_names(list, spec, old_spec, &path.child(list), errors).is_break() {
            return;
        }
    }
    // Containers that are not the same ones have nothing to compare.
    if errors.len() > before {
        return;
    }
    for list in LISTS {
        for (index, (new, old)) in spec.items(list).iter().zip(old_spec.items(list)).enumerate() {
            let containers = path.child(list);
            let container = containers.index(index);
            validate_nothing_removed(
                new.field("resources"),
                old.field("resources"),
                "resource",
                &container.child("resources"),
                errors,
            );
        }
    }
    let mut rest = spec.clone();
    for list in LISTS {
        for (container, old) in rest.items_mut(list).iter_mut().zip(old_spec.items(list)) {
            put_back_mutable(container, old);
        }
    }
    put_back(&mut rest, old_spec, "resources");
    if !pod_spec::same_spec(&rest, old_spec) {
        errors.forbidden(path, "only cpu and memory resources are mutable");
    }
    validate_pod_level(spec, old_spec, &path, errors);
}

fn validate_pod_level(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (new, old_resources) = (spec.field("resources"), old.field("resources"));
    if old_resources.is_null() {
        return;
    }
    let resources = path.child("resources");
    if new.is_null() {
        return errors.forbidden(resources, "pod-level resources cannot be removed");
    }
    validate_nothing_removed(new, old_resources, "pod-level resource", &resources, errors);
    let mut rest = spec.clone();
    put_back_mutable(&mut rest, old);
    let same = ["limits", "requests"].iter().all(|list| {
        let (rest, old) = (rest.field("resources").field(list), old_resources.field(list));
        crate::validation::form::same(rest, old)
    });
    if !same {
        errors.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// The class that was given to the pod, if it has one.
fn qos_class(pod: &Value) -> &str {
    match pod.field("status").text("qosClass") {
        "" => pod_spec::qos_class(pod.field("spec")),
        class => class,
    }
}

/// A node that knows how to resize reports what running containers have.
fn runs_where_resize_is_unknown(pod: &Value) -> bool {
    pod.field("status")
        .items("containerStatuses")
        .iter()
        .any(|status| status.field("state").has("running") && !status.has("resources"))
}

fn validate_names(
    list: &str,
    spec: &Value,
    old: &Value,
    path: &Path<'_>,
    errors: &mut Errors,
) -> ControlFlow<()> {
    let (new, old) = (spec.items(list), old.items(list));
    if new.len() != old.len() {
        errors.forbidden(path, &format!("{list} may not be added or removed on resize"));
        return ControlFlow::Break(());
    }
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        if new.text("name") != old.text("name") {
            let problem = format!("{list} may not be renamed or reordered on resize");
            errors.forbidden(path.index(index).child("name"), &problem);
        }
    }
    ControlFlow::Continue(())
}

/// `what` begins the text: `resource`, or with the level it is at.
fn validate_nothing_removed(new: &Value, old: &Value, what: &str, path: &Path<'_>, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        if old.entries(list).any(|(name, _)| !new.field(list).has(name)) {
            errors.forbidden(path.child(list), &format!("{what} {list} cannot be removed"));
        }
    }
}

/// Amounts of cpu and memory as they were, so that only other changes show.
fn put_back_mutable(holder: &mut Value, old: &Value) {
    for list in ["limits", "requests"] {
        let before = old.field("resources").field(list);
        if !holder.field("resources").has(list) && before.is_null() {
            continue;
        }
        let amounts = holder.object_mut("resources").object_mut(list);
        for name in MUTABLE {
            put_back(amounts, before, name);
        }
    }
}
