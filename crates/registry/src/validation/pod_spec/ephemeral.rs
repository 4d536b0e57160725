//! Ephemeral containers: added to a running pod, through their own subresource only.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::{
    Context,
    containers::{validate_common, validate_image_padding},
};
use crate::object::Fields;

const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";

/// What only containers have that were planned.
const FORBIDDEN_FIELDS: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

pub fn validate_ephemeral_containers(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("ephemeralContainers");
    let spec = context.spec;
    let planned: BTreeSet<&str> = spec
        .items("containers")
        .iter()
        .chain(spec.items("initContainers"))
        .map(|container| container.text("name"))
        .collect();
    let mut names = planned.clone();
    for (index, container) in spec.items("ephemeralContainers").iter().enumerate() {
        let path = list.index(index);
        validate_common(container, context, &path, errors);
        validate_image_padding(container, &path, errors);
        let name = container.text("name");
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !planned.contains(target) {
            errors.not_found(path.child("targetContainerName"), target);
        }
        for name in FORBIDDEN_FIELDS {
            if is_set(container, name) {
                errors.forbidden(path.child(name), FORBIDDEN);
            }
        }
        for (index, mount) in container.items("volumeMounts").iter().enumerate() {
            for name in ["subPath", "subPathExpr"] {
                if !mount.text(name).is_empty() {
                    errors.forbidden(path.child("volumeMounts").index(index).child(name), FORBIDDEN);
                }
            }
        }
    }
}

/// A list or object that is empty but there is set; only resources are always there.
fn is_set(container: &Value, name: &str) -> bool {
    match container.field(name) {
        Value::Object(members) if name == "resources" => members.values().any(|member| !member.is_null()),
        value => !value.is_null(),
    }
}
