//! `PodTemplateSpec`: metadata and spec of pods to come, inside workloads and `PodTemplate`.

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::{
    labels::{validate_annotations, validate_labels},
    pod_annotations, pod_spec,
};
use crate::object::{Fields, FieldsMut};

/// A template that is not set stays so.
pub fn default(template: &mut Value) {
    if template.is_object() {
        template.object_mut("metadata");
        pod_spec::default(template.object_mut("spec"));
    }
}

/// `path` names the template, such as `spec.template`.
pub fn validate(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_update(template, &Value::Null, path, errors);
}

/// As [`validate`]; what the old template got away with stays allowed.
pub fn validate_update(template: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let metadata = template.field("metadata");
    let spec = template.field("spec");
    validate_labels(metadata, "labels", &path.child("labels"), errors);
    validate_annotations(metadata, "annotations", &path.child("annotations"), errors);
    let old_metadata = old.field("metadata");
    pod_annotations::validate(metadata, spec, old_metadata, &path.child("annotations"), errors);
    let options = pod_spec::Options { pod: None, old: old.get_field("spec"), ..Default::default() };
    pod_spec::validate(spec, options, &path.child("spec"), errors);
    pod_annotations::validate_same_as_fields(metadata, spec, &path.child("spec"), errors);
    if !spec.items("ephemeralContainers").is_empty() {
        errors.forbidden(
            path.child("spec").child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// A whole template as a bad value.
pub fn internal_form(template: &Value) -> BadValue {
    pod_spec::internal_template(template)
}

/// Its spec alone as a bad value.
pub fn internal_form_of_spec(spec: &Value) -> BadValue {
    pod_spec::internal_spec(spec)
}
