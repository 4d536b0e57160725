//! The `ephemeralcontainers` subresource: containers are added to a pod, never changed or taken away.

use std::collections::HashMap;

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::validate_metadata_and_spec;
use crate::{
    internal_form::{Shape, indented, same_form},
    object::{Fields, FieldsMut},
    status_subresource::reset_metadata,
    unified_diff::unified_diff,
    validation::{pod_annotations::MIRROR, pod_spec::EPHEMERAL_CONTAINER},
};

/// The stored pod with the ephemeral containers of the request.
pub fn prepare(request: &mut Value, old: &Value) {
    let containers = request.field("spec").field("ephemeralContainers").clone();
    *request = with_request_metadata(request, old);
    if containers.is_null() {
        request.object_mut("spec").remove("ephemeralContainers");
    } else {
        request.object_mut("spec").set("ephemeralContainers", containers);
    }
}

pub fn validate(pod: &Value, old: &Value, errors: &mut Errors) {
    // Nobody would start them: the node's own file says what a static pod runs.
    if pod.field("metadata").field("annotations").has(MIRROR) {
        return errors.forbidden("[]", "static pods do not support ephemeral containers");
    }
    validate_metadata_and_spec(pod, Some(old), errors);
    let spec = Path::new("spec");
    let path = spec.child("ephemeralContainers");
    let mut by_name: HashMap<&str, &Value> = HashMap::new();
    for container in pod.field("spec").items("ephemeralContainers") {
        by_name.entry(container.text("name")).or_insert(container);
    }
    for old in old.field("spec").items("ephemeralContainers") {
        let name = old.text("name");
        match by_name.get(name).copied() {
            None => {
                let problem = format!("existing ephemeral containers \"{name}\" may not be removed\n");
                errors.forbidden(path, &problem);
            }
            Some(new) if same_form(Shape::Struct(EPHEMERAL_CONTAINER), new, old) => {}
            Some(new) => {
                let shape = Shape::Struct(EPHEMERAL_CONTAINER);
                let diff = unified_diff(&indented(shape, old), &indented(shape, new));
                let problem = format!("existing ephemeral containers \"{name}\" may not be changed\n{diff}");
                errors.forbidden(path, &problem);
            }
        }
    }
}

/// Subresources of the spec take of the metadata only what guards the write, and what is compared.
pub fn with_request_metadata(request: &Value, old: &Value) -> Value {
    let mut pod = old.clone();
    pod.set("metadata", request.field("metadata").clone());
    reset_metadata(&mut pod, old);
    pod
}
