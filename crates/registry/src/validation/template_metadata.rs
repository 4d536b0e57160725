//! The metadata of claims that are made from a template: labels and annotations, and nothing else.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::labels::{validate_annotations, validate_labels};
use crate::object::Fields;

/// Everything but labels and annotations, in the order of the Go type.
const FORBIDDEN: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

pub fn validate_template_metadata(metadata: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_annotations(metadata, "annotations", &path.child("annotations"), errors);
    validate_labels(metadata, "labels", &path.child("labels"), errors);
    for name in FORBIDDEN.into_iter().filter(|name| is_set(metadata.field(name))) {
        // Go's field is UID; upstream lowers its first letter only.
        let shown = if name == "uid" { "uID" } else { name };
        errors.forbidden(path.child(shown), "cannot be set");
    }
}

/// Whether a value is not the zero value of its Go type.
fn is_set(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        _ => !value.is_null(),
    }
}
