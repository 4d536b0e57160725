//! `ControllerRevision`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::{
    object::Fields,
    strategy::{MetadataCheck, Strategy},
    validation::{bounds::NOT_NEGATIVE, form::immutable},
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    columns: columns::COLUMNS,
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

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Cell, Column, NAME, NONE, column, computed},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Controller", controller, "The object whose past this is."),
        column("Revision", Cell::Integer("/revision"), "Number of the revision; later ones are higher."),
        AGE,
    ];

    fn controller(revision: &Value) -> Value {
        let owners = revision.field("metadata").items("ownerReferences");
        let Some(owner) = owners.iter().find(|owner| owner.flag("controller")) else { return NONE.into() };
        let (kind, name) = (owner.text("kind").to_lowercase(), owner.text("name"));
        match owner.text("apiVersion").split_once('/') {
            Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()).into(),
            None => format!("{kind}/{name}").into(),
        }
    }
}
