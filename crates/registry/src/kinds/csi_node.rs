//! CSINode: the drivers that run on a node.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::qualified_name,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, MetadataCheck, Strategy},
    validation::form::{driver_name, not_empty, same, texts},
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    unconditional_update: false,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written],
    columns: columns::COLUMNS,
    ..Strategy::of("storage.k8s.io", "CSINode")
};

/// The most bytes in a driver's name for the node.
pub const MAX_NODE_ID_BYTES: usize = 256;

const DRIVER: Form = Form::Message("io.k8s.api.storage.v1.CSINodeDriver");

fn validate(node: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let list = spec.child("drivers");
    let mut names = HashSet::new();
    for (index, driver) in node.field("spec").items("drivers").iter().enumerate() {
        let path = list.index(index);
        let (name, id) = (driver.text("name"), driver.text("nodeID"));
        driver_name(name, path.child("name"), errors);
        not_empty(id, path.child("nodeID"), errors);
        if id.len() > MAX_NODE_ID_BYTES {
            errors.invalid(path.child("nodeID"), id, "must be 256 characters or less");
        }
        if let Some(count) = driver.field("allocatable").int("count").filter(|count| *count < 0) {
            let path = path.child("allocatable");
            errors.invalid(path.child("count"), count, "must be greater than or equal to 0");
        }
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        let mut keys = HashSet::new();
        for key in texts(driver, "topologyKeys") {
            not_empty(key, path, errors);
            if !keys.insert(key) {
                errors.duplicate(path, key);
            }
            for problem in qualified_name(key) {
                errors.invalid(path, key, &problem);
            }
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    let without_allocatable = |driver: &Value| {
        let mut driver = driver.clone();
        driver.remove("allocatable");
        driver
    };
    // No two that are stored have one name.
    let mut stored: HashMap<&str, Value> = HashMap::new();
    for driver in old.field("spec").items("drivers") {
        stored.entry(driver.text("name")).or_insert_with(|| without_allocatable(driver));
    }
    for driver in new.field("spec").items("drivers") {
        let Some(stored) = stored.get(driver.text("name")) else { continue };
        let driver = without_allocatable(driver);
        if !same(stored, &driver) {
            let value = internal(Shape::Struct(DRIVER), &driver);
            errors.invalid("spec.drivers", value, "field is immutable");
        }
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, column};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        column("Drivers", Cell::Count("/spec/drivers"), "Number of drivers on the node.").typed("integer"),
        AGE,
    ];
}
