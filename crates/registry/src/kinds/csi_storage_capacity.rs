//! CSIStorageCapacity: what a class can still provision in a part of the cluster.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::dns_subdomain,
    quantity::Quantity,
};

use crate::{
    internal_form::{LABEL_SELECTOR, Shape, internal},
    object::{Fields, FieldsMut},
    strategy::{MetadataCheck, Strategy},
    validation::{deprecated_label::warn_label_selector, form::must_be, label_selector},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate: |capacity, errors| validate(capacity, &Value::Null, errors),
    validate_update,
    warnings,
    unconditional_update: false,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    ..Strategy::of("storage.k8s.io", "CSIStorageCapacity")
};

/// Quantities are written in one way.
fn default(object: &mut Value) {
    for name in ["capacity", "maximumVolumeSize"] {
        if let Ok(quantity) = Quantity::from_json(object.field(name)) {
            object.set(name, quantity.to_string());
        }
    }
}

fn validate(capacity: &Value, old: &Value, errors: &mut Errors) {
    let stored = old.field("nodeTopology");
    let topology = Path::new("nodeTopology");
    label_selector::validate_update(capacity.field("nodeTopology"), stored, &topology, errors);
    must_be(dns_subdomain, capacity.text("storageClassName"), Path::new("storageClassName"), errors);
    if let Ok(quantity) = Quantity::parse(capacity.text("capacity"))
        && quantity.is_negative()
    {
        errors.invalid("capacity", capacity.text("capacity"), "must be greater than or equal to 0");
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, old, errors);
    if new.field("nodeTopology") != old.field("nodeTopology") {
        let value = internal(Shape::Ptr(LABEL_SELECTOR), new.field("nodeTopology"));
        errors.invalid("nodeTopology", value, "field is immutable");
    }
    if new.text("storageClassName") != old.text("storageClassName") {
        errors.invalid("storageClassName", new.text("storageClassName"), "field is immutable");
    }
}

fn warnings(capacity: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    warn_label_selector(capacity.field("nodeTopology"), &Path::new("nodeTopology"), &mut warnings);
    warnings
}
