//! `Namespace`

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    format::{self, Problems, qualified_name},
};

use crate::{
    field_selectors::{NAME as NAME_FIELD, SelectableFields},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status},
    strategy::{Action, DeleteAnswer, MetadataCheck, Strategy, Subresource},
    validation::form::{must_be, named, texts},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: keep_spec,
    validate,
    validate_update: |object, _, errors| validate(object, errors),
    validate_status_update,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: NAME,
    reset_fields: &[".status"],
    subresources: &[
        Subresource::STATUS,
        Subresource {
            name: "finalize",
            reset_fields: &[".status"],
            action: Action::Finalize { prepare: prepare_finalize, validate: validate_finalize },
        },
    ],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME_FIELD, ("status.phase", "status.phase")],
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    is_namespace: true,
    begin_to_end: Some(|namespace, _| namespace.object_mut("status").set("phase", "Terminating")),
    ..Strategy::of("", "Namespace")
};

/// The rule for names of namespaces.
pub const NAME: fn(&str) -> Problems = format::dns_label;

/// Carries the name, so that selectors can ask for it.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Held by the namespace controller until all content is gone.
pub const FINALIZER: &str = "kubernetes";

const STANDARD_FINALIZERS: [&str; 3] = [FINALIZER, "orphan", "foregroundDeletion"];

fn default(object: &mut Value) {
    let metadata = object.object_mut("metadata");
    let name = metadata.text("name").to_owned();
    if !name.is_empty() {
        metadata.object_mut("labels").set(NAME_LABEL, name);
    }
    object.object_mut("status").default_field("phase", "Active");
}

fn prepare_create(object: &mut Value) {
    object.set("status", json!({"phase": "Active"}));
    let spec = object.object_mut("spec");
    if !texts(spec, "finalizers").any(|finalizer| finalizer == FINALIZER) {
        let mut finalizers = spec.items("finalizers").to_vec();
        finalizers.push(FINALIZER.into());
        spec.set("finalizers", finalizers);
    }
}

/// Only the `finalize` subresource changes finalizers of the spec.
fn prepare_update(object: &mut Value, old: &Value) {
    let finalizers = old.field("spec").field("finalizers").clone();
    object.object_mut("spec").set("finalizers", finalizers);
    keep_status(object, old);
}

/// As `prepare_update`, for the `finalize` subresource.
pub fn prepare_finalize(object: &mut Value, old: &Value) {
    keep_status(object, old);
}

fn validate(object: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    for finalizer in texts(object.field("spec"), "finalizers") {
        validate_finalizer(finalizer, spec.child("finalizers"), errors);
    }
}

/// As `validate_update`, for the `finalize` subresource.
pub fn validate_finalize(object: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let list = spec.child("finalizers");
    for (index, finalizer) in texts(object.field("spec"), "finalizers").enumerate() {
        validate_finalizer(finalizer, list.index(index), errors);
    }
}

fn validate_finalizer(finalizer: &str, path: Path<'_>, errors: &mut Errors) {
    must_be(qualified_name, finalizer, path, errors);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let text = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, text);
    }
}

fn validate_status_update(object: &Value, _old: &Value, errors: &mut Errors) {
    let phase = object.field("status").text("phase");
    let being_deleted = object.field("metadata").has("deletionTimestamp");
    // Upstream spells the field of its Go struct.
    let status = Path::new("status");
    let path = status.child("Phase");
    if being_deleted && phase != "Terminating" {
        let text = "may only be 'Terminating' if `deletionTimestamp` is not empty";
        errors.invalid(path, named(phase), text);
    }
    if !being_deleted && phase != "Active" {
        errors.invalid(path, named(phase), "may only be 'Active' if `deletionTimestamp` is empty");
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Column, NAME, text};

    pub(super) const COLUMNS: &[Column] =
        &[NAME, text("Status", "/status/phase", "Whether the namespace is in use or going away."), AGE];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_label_is_forced_on_every_write() {
        let mut object = json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "b", "c": "d"}}});
        default(&mut object);
        assert_eq!(object["metadata"]["labels"], json!({NAME_LABEL: "a", "c": "d"}));
        let mut nameless = json!({"metadata": {"generateName": "a"}});
        default(&mut nameless);
        assert_eq!(nameless["metadata"], json!({"generateName": "a"}));
    }

    #[test]
    fn finalizers_sent_to_finalize_are_named_by_index() {
        let object = json!({"spec": {"finalizers": ["x.io/y", "foo"]}});
        let mut errors = Errors::default();
        validate_finalize(&object, &mut errors);
        let fields: Vec<&str> = errors.causes().iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["spec.finalizers[1]"]);
    }

    #[test]
    fn finalize_keeps_the_status() {
        let old = json!({"status": {"phase": "Terminating"}});
        let mut object = json!({"spec": {}, "status": {"phase": "Active"}});
        prepare_finalize(&mut object, &old);
        assert_eq!(object, json!({"spec": {}, "status": {"phase": "Terminating"}}));
    }

    #[test]
    fn a_namespace_being_deleted_is_terminating() {
        let mut object = json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Active"}});
        let mut errors = Errors::default();
        validate_status_update(&object, &Value::Null, &mut errors);
        assert_eq!(
            errors.causes()[0].message,
            "Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
        );
        object["status"]["phase"] = "Terminating".into();
        let mut errors = Errors::default();
        validate_status_update(&object, &Value::Null, &mut errors);
        assert!(errors.is_empty());
    }
}
