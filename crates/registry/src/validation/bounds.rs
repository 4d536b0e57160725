//! Numbers that may not leave their bounds, with upstream's texts.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::object::Fields;

pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// The field, if it is set, is at least zero.
pub fn not_negative(object: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = object.int(name).filter(|number| *number < 0) {
        errors.invalid(path.child(name), number, NOT_NEGATIVE);
    }
}

pub fn none_negative(object: &Value, names: &[&str], path: &Path<'_>, errors: &mut Errors) {
    for name in names {
        not_negative(object, name, path, errors);
    }
}

/// Each counter is at most `status.replicas`.
pub fn not_above_replicas(status: &Value, names: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let replicas = status.int("replicas").unwrap_or_default();
    for name in names {
        let number = status.int(name).unwrap_or_default();
        if number > replicas {
            errors.invalid(path.child(name), number, "cannot be greater than status.replicas");
        }
    }
}

/// What replica sets and replication controllers count of their pods.
pub fn counted_replicas(status: &Value, path: &Path<'_>, errors: &mut Errors) {
    not_above_replicas(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], path, errors);
    available_are_ready(status, "readyReplicas", path, errors);
}

/// What is available is also ready; `ready` is how the message names the other counter.
pub fn available_are_ready(status: &Value, ready: &str, path: &Path<'_>, errors: &mut Errors) {
    let available = status.int("availableReplicas").unwrap_or_default();
    if available > status.int("readyReplicas").unwrap_or_default() {
        errors.invalid(
            path.child("availableReplicas"),
            available,
            &format!("cannot be greater than {ready}"),
        );
    }
}

/// Collisions are counted up; taking the count away is counting down.
pub fn collisions_not_decremented(status: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(before) = old.int("collisionCount") else { return };
    let now = status.int("collisionCount");
    if now.is_none_or(|now| now < before) {
        errors.invalid(path.child("collisionCount"), now.unwrap_or_default(), "cannot be decremented");
    }
}
