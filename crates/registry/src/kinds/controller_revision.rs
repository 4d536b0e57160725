//! `ControllerRevision`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::{bounds::NOT_NEGATIVE, form::immutable};
use crate::{
    object::Fields,
    strategy::{MetadataCheck, Strategy},
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    ..Strategy::of("apps", "ControllerRevision")
};

fn validate(revision: &Value, errors: &mut Errors) {
    validate_revision(revision, errors);
    match revision.field("data") {
        Value::Null => errors.required(Path::new("data"), "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required(Path::new("data"), "data must be a valid JSON object"),
    }
}

fn validate_update(revision: &Value, old: &Value, errors: &mut Errors) {
    validate_revision(revision, errors);
    immutable(revision, old, "data", Path::new("data"), errors);
}

fn validate_revision(revision: &Value, errors: &mut Errors) {
    if let Some(number) = revision.int("revision").filter(|number| *number < 0) {
        errors.invalid(Path::new("revision"), number, NOT_NEGATIVE);
    }
}
