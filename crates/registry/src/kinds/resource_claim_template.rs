//! ResourceClaimTemplate: claims that are made for pods.

use serde_json::{Value, json};
use sternpost_meta::field::{Errors, Path};

use super::resource_claim::{self, default_spec, validate_spec};
use crate::{
    internal_form::{Form, Shape, internal, same_form},
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, MetadataCheck, Strategy},
    table,
    validation::labels::{validate_annotations, validate_labels},
};

pub const STRATEGY: Strategy = Strategy {
    default: |template| {
        let spec = template.object_mut("spec");
        if spec.has("spec") {
            default_spec(spec.object_mut("spec"));
        }
    },
    validate,
    validate_update,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    columns: table::NAME_AND_AGE,
    validate_in_context: |template, old, context, errors| {
        if old.is_none() {
            let labels = resource_claim::namespace_labels(context);
            resource_claim::validate_admin_access(template.field("spec").field("spec"), &labels, errors);
        }
    },
    ..Strategy::of("resource.k8s.io", "ResourceClaimTemplate")
};

fn validate(template: &Value, errors: &mut Errors) {
    let spec = template.field("spec");
    let path = Path::new("spec");
    validate_metadata(spec.field("metadata"), &path.child("metadata"), errors);
    validate_spec(spec.field("spec"), &path.child("spec"), errors);
}

/// Claims get labels and annotations from here, and nothing else.
fn validate_metadata(metadata: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_annotations(metadata, "annotations", &path.child("annotations"), errors);
    validate_labels(metadata, "labels", &path.child("labels"), errors);
    for name in [
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
    ] {
        if metadata.get_field(name).is_some_and(is_set) {
            // Upstream takes the name from Go's, and lowers only its first letter.
            let shown = if name == "uid" { "uID" } else { name };
            errors.forbidden(path.child(shown), "cannot be set");
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        _ => !value.is_null(),
    }
}

/// `resource.ResourceClaimTemplateSpec`: what is in `metadata` stands beside the spec.
const SPEC: Form = Form::Message("io.k8s.api.resource.v1.ResourceClaimTemplateSpec");

fn flat(template: &Value) -> Value {
    let mut flat = template.field("spec").field("metadata").clone();
    if !flat.is_object() {
        flat = json!({});
    }
    flat.set("spec", template.field("spec").field("spec").clone());
    flat
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    let shape = Shape::Struct(SPEC);
    let (new, old) = (flat(new), flat(old));
    if !same_form(shape, &new, &old) {
        errors.invalid("spec", internal(shape, &new), "field is immutable");
    }
}
