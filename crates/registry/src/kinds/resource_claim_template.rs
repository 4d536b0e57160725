//! ResourceClaimTemplate: claims that are made for pods.

use serde_json::{Value, json};
use sternpost_meta::field::{Errors, Path};

use super::resource_claim::{self, default_spec, validate_spec};
use crate::{
    internal_form::{Form, Shape, internal, same_form},
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, MetadataCheck, Strategy},
    table,
    validation::template_metadata::validate_template_metadata,
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
    validate_template_metadata(spec.field("metadata"), &path.child("metadata"), errors);
    validate_spec(spec.field("spec"), &path.child("spec"), errors);
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
