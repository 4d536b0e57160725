//! SubjectAccessReview, SelfSubjectAccessReview and LocalSubjectAccessReview.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::qualified_name,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    strategy::Strategy,
    validation::form::must_be,
};

pub const SUBJECT: Strategy = Strategy {
    validate: |review, errors| {
        validate_attributes(review, errors);
        validate_subject(review, errors);
        validate_metadata(review, Metadata::Empty, errors);
    },
    tabular: false,
    ..Strategy::of("authorization.k8s.io", "SubjectAccessReview")
};

pub const SELF: Strategy = Strategy {
    validate: |review, errors| {
        validate_attributes(review, errors);
        validate_metadata(review, Metadata::Empty, errors);
    },
    tabular: false,
    ..Strategy::of("authorization.k8s.io", "SelfSubjectAccessReview")
};

pub const LOCAL: Strategy = Strategy {
    validate: validate_local,
    tabular: false,
    ..Strategy::of("authorization.k8s.io", "LocalSubjectAccessReview")
};

fn validate_local(review: &Value, errors: &mut Errors) {
    validate_attributes(review, errors);
    validate_subject(review, errors);
    validate_metadata(review, Metadata::Namespace, errors);
    let spec = review.field("spec");
    let path = Path::new("spec");
    let namespace = spec.field("resourceAttributes").text("namespace");
    if spec.has("resourceAttributes") && namespace != review.field("metadata").text("namespace") {
        let path = path.child("resourceAttributes");
        errors.invalid(path.child("namespace"), namespace, "must match metadata.namespace");
    }
    if spec.has("nonResourceAttributes") {
        let value = non_resource(spec);
        errors.invalid(path.child("nonResourceAttributes"), value, "disallowed on this kind of request");
    }
}

/// A review asks either about a resource or about a path.
fn validate_attributes(review: &Value, errors: &mut Errors) {
    let spec = review.field("spec");
    let path = Path::new("spec");
    match (spec.has("resourceAttributes"), spec.has("nonResourceAttributes")) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.invalid(path.child("nonResourceAttributes"), non_resource(spec), detail);
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let nothing = BadValue::Json(Value::Null);
            errors.invalid(path.child("resourceAttributes"), nothing, detail);
        }
        _ => {}
    }
    let attributes = path.child("resourceAttributes");
    for name in ["fieldSelector", "labelSelector"] {
        if let Some(selector) = spec.field("resourceAttributes").get_field(name) {
            validate_selector(selector, name, &attributes.child(name), errors);
        }
    }
}

fn validate_selector(selector: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let raw = selector.text("rawSelector");
    let given = !selector.items("requirements").is_empty();
    if given && !raw.is_empty() {
        let detail = "may not specified at the same time as requirements";
        errors.invalid(path.child("rawSelector"), raw, detail);
    }
    if !given && raw.is_empty() {
        let detail = format!(
            "when spec.resourceAttributes.{name} is specified, requirements or rawSelector is required"
        );
        errors.required(path.child("requirements"), &detail);
    }
    let list = path.child("requirements");
    for (index, requirement) in selector.items("requirements").iter().enumerate() {
        let path = list.index(index);
        validate_requirement(requirement, &path, errors);
        let key = requirement.text("key");
        if name == "labelSelector" {
            must_be(qualified_name, key, path.child("key"), errors);
        } else if key.is_empty() {
            errors.required(path.child("key"), "must be specified");
        }
    }
}

/// Operators that are not known are not refused.
fn validate_requirement(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let given = !requirement.items("values").is_empty();
    match requirement.text("operator") {
        "In" | "NotIn" if !given => {
            errors.required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if given => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(path.child("values"), detail);
        }
        _ => {}
    }
}

fn validate_subject(review: &Value, errors: &mut Errors) {
    let spec = review.field("spec");
    if spec.text("user").is_empty() && spec.items("groups").is_empty() {
        errors.invalid("spec.user", "", "at least one of user or group must be specified");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Metadata {
    Empty,
    Namespace,
}

/// Reviews are not stored, so they have no metadata.
fn validate_metadata(review: &Value, allowed: Metadata, errors: &mut Errors) {
    let Some(metadata) = review.field("metadata").as_object() else { return };
    let set = |name: &str, value: &Value| match value {
        Value::Null => false,
        Value::String(_) if allowed == Metadata::Namespace && name == "namespace" => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => true,
    };
    // Filled in by the server on the way.
    let own = |name: &str| matches!(name, "managedFields" | "creationTimestamp");
    if metadata.iter().any(|(name, value)| !own(name) && set(name, value)) {
        let detail = match allowed {
            Metadata::Empty => "must be empty",
            Metadata::Namespace => "must be empty except for namespace",
        };
        errors.invalid("metadata", BadValue::Json(review.field("metadata").clone()), detail);
    }
}

fn non_resource(spec: &Value) -> BadValue {
    internal(NON_RESOURCE_ATTRIBUTES, spec.field("nonResourceAttributes"))
}

const NON_RESOURCE_ATTRIBUTES: Shape =
    Shape::Ptr(Form::Message("io.k8s.api.authorization.v1.NonResourceAttributes"));

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_stays_empty() {
        for (metadata, allowed, detail) in [
            (json!({}), Metadata::Empty, None),
            (json!({"namespace": "n"}), Metadata::Namespace, None),
            (json!({"namespace": "n"}), Metadata::Empty, Some("must be empty")),
            (json!({"name": "n"}), Metadata::Namespace, Some("must be empty except for namespace")),
            (json!({"labels": {}}), Metadata::Empty, None),
        ] {
            let mut errors = Errors::default();
            validate_metadata(&json!({"metadata": metadata}), allowed, &mut errors);
            let found = errors.causes().first().and_then(|cause| cause.message.rsplit_once(": "));
            assert_eq!(found.map(|(_, detail)| detail), detail);
        }
    }
}
