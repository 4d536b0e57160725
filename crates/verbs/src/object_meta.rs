//! The rules for `metadata` that all kinds share.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::{Errors, Path},
    format::{self, Problems},
    object_meta::{check_finalizers, check_owner_references},
};

use sternpost_registry::{object::Fields, strategy::Strategy};

/// All annotations of an object together, keys and values.
pub const MAX_ANNOTATION_BYTES: usize = 262_144;

/// The name of a subresource in `managedFields`.
pub const MAX_SUBRESOURCE_BYTES: usize = 256;

/// What a creator or updater may write.
pub fn validate(object: &Value, strategy: &Strategy, errors: &mut Errors) {
    validate_of_all_kinds(object, strategy, errors);
    validate_finalizer_names(object, strategy, errors);
}

/// As [`validate`], but for what only some kinds ask of finalizers.
pub fn validate_of_all_kinds(object: &Value, strategy: &Strategy, errors: &mut Errors) {
    let metadata = object.field("metadata");
    let root = Path::new("metadata");
    if metadata.has("generateName") {
        let base = metadata.text("generateName");
        let masked = match base.strip_suffix('-') {
            Some(rest) => {
                let mut rest = rest.to_owned();
                rest.pop();
                rest + "a"
            }
            None => base.to_owned(),
        };
        invalid(errors, root.child("generateName"), base, (strategy.name)(&masked));
    }
    let name = metadata.text("name");
    if name.is_empty() {
        errors.required(root.child("name"), "name or generateName is required");
    } else {
        invalid(errors, root.child("name"), name, (strategy.name)(name));
    }
    if metadata.int("generation").is_some_and(|generation| generation < 0) {
        errors.invalid(
            root.child("generation"),
            metadata.field("generation"),
            "must be greater than or equal to 0",
        );
    }
    labels(metadata, errors);
    annotations(metadata, errors);
    check_owner_references(metadata, root, errors);
    check_finalizers(metadata, root, errors);
    managed_fields(metadata, errors);
}

fn labels(metadata: &Value, errors: &mut Errors) {
    let root = Path::new("metadata");
    for (key, value) in metadata.entries("labels") {
        invalid(errors, root.child("labels"), key, format::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        invalid(errors, root.child("labels"), value, format::label_value(value));
    }
}

fn annotations(metadata: &Value, errors: &mut Errors) {
    let root = Path::new("metadata");
    let path = root.child("annotations");
    let mut size = 0;
    for (key, value) in metadata.entries("annotations") {
        invalid(errors, path, key, format::qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATION_BYTES {
        errors.too_long(path, MAX_ANNOTATION_BYTES);
    }
}

/// When owners are looked at; upstream's warnings say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupOwners {
    AsSent,
    AfterMutatingAdmission,
}

/// Removes owners that are named twice, and returns what to say about it.
pub fn dedup_owners(object: &mut Value, when: DedupOwners) -> Option<String> {
    let Some(Value::Array(owners)) =
        object.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"))
    else {
        return None;
    };
    if owners.len() < 2 {
        return None;
    }
    // Equal owners have equal texts: keys come sorted.
    let mut known = HashSet::with_capacity(owners.len());
    let mut repeated = Vec::new();
    owners.retain(|owner| {
        let is_new = known.insert(owner.to_string());
        if !is_new {
            repeated.push(owner.text("uid").to_owned());
        }
        is_new
    });
    if repeated.is_empty() {
        return None;
    }
    let when = match when {
        DedupOwners::AsSent => "",
        DedupOwners::AfterMutatingAdmission => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ))
}

/// Whether finalizers are standard ones or qualified, where that is asked.
pub fn validate_finalizer_names(object: &Value, strategy: &Strategy, errors: &mut Errors) {
    if !strategy.qualified_finalizers {
        return;
    }
    let root = Path::new("metadata");
    let path = root.child("finalizers");
    let finalizers = object.field("metadata").items("finalizers");
    for (index, name) in finalizers.iter().filter_map(Value::as_str).enumerate() {
        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&name);
        if !name.contains('/') && !standard {
            errors.invalid(
                path.index(index),
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
}

/// What an update may not change, and what its metadata may not be, be it said again.
pub fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate_changes(new, old, errors);
    let new = new.field("metadata");
    labels(new, errors);
    annotations(new, errors);
    check_owner_references(new, Path::new("metadata"), errors);
    managed_fields(new, errors);
}

/// What an update may not change.
pub fn validate_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (new.field("metadata"), old.field("metadata"));
    let root = Path::new("metadata");
    if old.has("deletionTimestamp") {
        let known: HashSet<&str> = old.items("finalizers").iter().filter_map(Value::as_str).collect();
        let mut added: Vec<&str> = new
            .items("finalizers")
            .iter()
            .filter_map(Value::as_str)
            .filter(|finalizer| !known.contains(finalizer))
            .collect();
        added.sort_unstable();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|finalizer| go_quote(finalizer)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.forbidden(root.child("finalizers"), &detail);
        }
    }
    const KEPT: [&str; 5] = ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for ((field, new), old) in KEPT.into_iter().zip(new.pick(KEPT)).zip(old.pick(KEPT)) {
        if new != old {
            errors.invalid(root.child(field), new, "field is immutable");
        }
    }
}

/// What is left to check of entries that can be read.
fn managed_fields(metadata: &Value, errors: &mut Errors) {
    let root = Path::new("metadata");
    let path = root.child("managedFields");
    for (index, entry) in metadata.items("managedFields").iter().enumerate() {
        let path = path.index(index);
        errors.field_manager(path.child("manager"), entry.text("manager"));
        if entry.text("subresource").len() > MAX_SUBRESOURCE_BYTES {
            errors.too_long(path.child("subresource"), MAX_SUBRESOURCE_BYTES);
        }
    }
}

fn invalid(errors: &mut Errors, path: Path<'_>, value: &str, problems: Problems) {
    for problem in problems {
        errors.invalid(path, value, &problem);
    }
}
