//! `ReplicationController`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::{
    field_selectors::{NAME, NAMESPACE, SelectableFields, number, stored_value},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{
        bounds::{counted_replicas, none_negative, not_negative},
        form::dns_subdomain_in_bytes,
        pod_template_spec,
        workload::{
            default_template, name_warning, runs_for_ever, selector_does_not_match, template_warnings,
        },
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    validate_status_update,
    warnings,
    generation: Generation::Tracks(&["spec"]),
    name: dns_subdomain_in_bytes,
    reset_fields: &[".status"],
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME, NAMESPACE, ("status.replicas", "status.replicas")],
        value: |field, controller| match field {
            "status.replicas" => number(field, controller),
            _ => stored_value(field, controller),
        },
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    storage_prefix: Some("controllers"),
    orphans_dependents: true,
    ..Strategy::of("", "ReplicationController")
};

fn default(controller: &mut Value) {
    let spec = controller.object_mut("spec");
    spec.default_field("replicas", 1);
    if spec.has("template") {
        default_template(spec);
    }
    let labels = spec.field("template").field("metadata").field("labels").clone();
    if labels.as_object().is_none_or(serde_json::Map::is_empty) {
        return;
    }
    if spec.entries("selector").next().is_none() {
        spec.set("selector", labels.clone());
    }
    let metadata = controller.object_mut("metadata");
    if metadata.entries("labels").next().is_none() {
        metadata.set("labels", labels);
    }
}

fn validate(controller: &Value, errors: &mut Errors) {
    validate_update(controller, &Value::Null, errors);
}

/// `old` is `null` on create.
fn validate_update(controller: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = controller.field("spec");
    not_negative(spec, "minReadySeconds", &path, errors);
    if spec.entries("selector").next().is_none() {
        errors.required(path.child("selector"), "");
    }
    if !spec.has("replicas") {
        errors.required(path.child("replicas"), "");
    }
    not_negative(spec, "replicas", &path, errors);
    let path = path.child("template");
    let template = spec.field("template");
    if template.is_null() {
        return errors.required(path, "");
    }
    let labels = template.field("metadata").field("labels");
    if spec.entries("selector").any(|(key, value)| labels.field(key) != value) {
        selector_does_not_match(labels, &path, errors);
    }
    pod_template_spec::validate_update(template, old.field("spec").field("template"), &path, errors);
    runs_for_ever(template, "ReplicationController", &path, errors);
}

fn validate_status_update(controller: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = controller.field("status");
    none_negative(
        status,
        &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
        &path,
        errors,
    );
    counted_replicas(status, &path, errors);
}

fn warnings(controller: &Value, old: Option<&Value>) -> Vec<String> {
    match old {
        None => name_warning(controller).into_iter().chain(template_warnings(controller, None)).collect(),
        // Upstream looks at the template that was there before.
        Some(old) => template_warnings(old, Some(controller)),
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::{
        object::Fields,
        table::{
            AGE, Column, NAME, computed,
            text::labels,
            workload::{CURRENT, DESIRED, READY, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        DESIRED,
        CURRENT,
        READY,
        AGE,
        TEMPLATE_CONTAINERS,
        TEMPLATE_IMAGES,
        computed(
            "Selector",
            |object| labels(object.field("spec").field("selector")),
            "Labels of the pods that are counted.",
        )
        .wide(),
    ];
}
