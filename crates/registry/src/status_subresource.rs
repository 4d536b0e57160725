//! Spec and status are written apart: the object by its users, `/status` by
//! its controller.

use serde_json::{Value, json};

use crate::object::{Fields, FieldsMut};

/// A new object has no status yet.
pub fn reset_status(object: &mut Value) {
    object.set("status", json!({}));
}

/// A write to the object leaves the status alone.
pub fn keep_status(object: &mut Value, old: &Value) {
    keep(object, old, "status");
}

/// A write to the status leaves the spec alone.
pub fn keep_spec(object: &mut Value, old: &Value) {
    keep(object, old, "spec");
}

pub fn keep_labels(object: &mut Value, old: &Value) {
    keep(object.object_mut("metadata"), old.field("metadata"), "labels");
}

/// For kinds whose status writers may not touch metadata. What else is sent is found when it is
/// compared.
pub fn reset_metadata(object: &mut Value, old: &Value) {
    for name in ["annotations", "deletionTimestamp", "finalizers", "generation", "labels", "ownerReferences"]
    {
        keep(object.object_mut("metadata"), old.field("metadata"), name);
    }
}

/// For kinds whose status writers may send what they like.
pub fn keep_metadata(object: &mut Value, old: &Value) {
    keep(object, old, "metadata");
}

/// As [`keep_spec`], for kinds whose status writers may not touch metadata.
pub fn keep_spec_and_reset_metadata(object: &mut Value, old: &Value) {
    keep_spec(object, old);
    reset_metadata(object, old);
}

/// As [`keep_spec`], for kinds of which only the status is taken.
pub fn keep_spec_and_metadata(object: &mut Value, old: &Value) {
    keep_spec(object, old);
    keep_metadata(object, old);
}

/// A field that a write leaves alone.
pub fn keep(object: &mut Value, old: &Value, name: &str) {
    match old.get_field(name) {
        Some(value) => object.set(name, value.clone()),
        None => {
            object.remove(name);
        }
    }
}
