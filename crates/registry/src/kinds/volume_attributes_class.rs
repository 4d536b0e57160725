//! VolumeAttributesClass: parameters of a driver that may change after provisioning.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::storage_class::{validate_parameters, validate_provisioner};
use crate::{
    object::Fields,
    strategy::{DeleteAnswer, MetadataCheck, Strategy},
    validation::form::same,
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    columns: columns::COLUMNS,
    ..Strategy::of("storage.k8s.io", "VolumeAttributesClass")
};

fn validate(class: &Value, errors: &mut Errors) {
    validate_provisioner(class.text("driverName"), Path::new("driverName"), errors);
    let parameters = Path::new("parameters");
    if class.entries("parameters").next().is_none() {
        errors.required(parameters, "must contain at least one key/value pair");
    }
    validate_parameters(class, parameters, errors);
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    if new.text("driverName") != old.text("driverName") {
        errors.forbidden("driverName", "updates to driverName are forbidden.");
    }
    if !same(new.field("parameters"), old.field("parameters")) {
        errors.forbidden("parameters", "updates to parameters are forbidden.");
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Column, NAME, text};

    pub(super) const COLUMNS: &[Column] =
        &[NAME, text("DriverName", "/driverName", "The driver that knows the attributes."), AGE];
}
