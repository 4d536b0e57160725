//! Custom objects against one version of their definition.
//!
//! A write: [`read_json`], [`decode()`], then [`validate`] of what admission made of
//! it, then [`settle`]. A read of another version's object: [`convert`].

mod check;
mod correlate;
mod decode;
mod fill;
mod lists;
mod meta;
mod prune;
pub mod scale;

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors},
    status::CauseReason,
};

pub use check::MAX_ERRORS;
pub use decode::{Json, MAX_DUPLICATES, read_json};
pub use meta::{MetaError, finalizer_warnings};
pub use prune::MAX_UNKNOWN;

pub(crate) use check::{check, key_of, shown_scalar};
pub(crate) use correlate::{Keyed, is_unchanged};
pub(crate) use meta::{MAX_ANNOTATIONS, check_embedded, coerce_default};
pub(crate) use prune::has_unknown;

use crate::{
    definition::{Definition, Version},
    node::Node,
    number,
    rules::{self, Outcome},
};

/// An object that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub object: Value,
    /// `duplicate field "spec.x"` in document order, then `unknown field "spec.y"`: what
    /// `fieldValidation` warns of or refuses.
    pub complaints: Vec<String>,
}

/// Makes an object of a body: unknown fields go, metadata gets its type, defaults come.
/// An object of another kind or group is left as it is, for [`validate`] to refuse; one of another
/// version is read as that, and one of a version that is not there loses all but its metadata.
pub fn decode(definition: &Definition, version: &Version, json: Json) -> Result<Decoded, MetaError> {
    let Json { value: mut object, duplicates } = json;
    let mut complaints: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    let (group, named) = text_of(&object, "apiVersion").split_once('/').unwrap_or_default();
    let is_other = !named.is_empty() && group != definition.group;
    if text_of(&object, "kind") != definition.names.kind || is_other {
        return Ok(Decoded { object, complaints });
    }
    let none = Node::default();
    let node = match definition.version(named) {
        Some(version) => version.node(),
        None if named.is_empty() => version.node(),
        None => &none,
    };
    let pruned = prune::prune(node, &mut object);
    let (mut unknown, embedded): (Vec<_>, Vec<_>) =
        meta::coerce(node, &mut object)?.into_iter().partition(|path| path.starts_with("metadata."));
    unknown.extend(pruned);
    unknown.extend(embedded);
    complaints.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    fill::fill(node, &mut object);
    Ok(Decoded { object, complaints })
}

/// Of what was applied: the same without complaints, and nulls stay.
pub fn complete_applied(version: &Version, object: &mut Value) -> Result<(), MetaError> {
    let node = version.node();
    prune::prune(node, object);
    meta::coerce(node, object)?;
    fill::fill_keeping_nulls(node, object);
    Ok(())
}

/// After a patch or admission: the same without complaints.
pub fn complete(version: &Version, object: &mut Value) -> Result<(), MetaError> {
    let node = version.node();
    prune::prune(node, object);
    meta::coerce(node, object)?;
    fill::fill(node, object);
    Ok(())
}

/// Gives an object that was created the status that it is shown with: it is checked and stored
/// without one.
pub fn fill_status(version: &Version, object: &mut Value) {
    if version.defaults_status {
        fill::fill(version.node(), object);
    }
}

/// A stored object of any version of the definition as one of this version, by strategy `None`: the
/// schema of the version it is in prunes and defaults, `apiVersion` is rewritten, this version's schema
/// trims.
pub fn convert(definition: &Definition, version: &Version, object: &mut Value) {
    let given = text_of(object, "apiVersion");
    let from = definition.versions.iter().find(|from| definition.api_version(from) == given);
    let from = from.map_or(version, |from| from);
    prune::prune(from.node(), object);
    fill::fill(from.node(), object);
    if from.name != version.name {
        convert_written(definition, version, object);
    } else if let Value::Object(fields) = object {
        fields.insert("apiVersion".into(), definition.api_version(version).into());
    }
}

/// As [`convert`], of an object of another version on its way to the store. It got the defaults that
/// it is to have when it was read; a write of the status gives its spec none.
pub fn convert_written(definition: &Definition, version: &Version, object: &mut Value) {
    trim(version, object);
    if let Value::Object(fields) = object {
        fields.insert("apiVersion".into(), definition.api_version(version).into());
    }
}

/// An object that a webhook made one of this version: unknown fields go, and nulls that may not be.
/// Defaults do not come: those of the version it was converted from came before.
pub fn trim(version: &Version, object: &mut Value) {
    prune::prune(version.node(), object);
    fill::drop_nulls(version.node(), object);
}

/// An object as a store would give it back: through the storage version and again to this one,
/// which loses what the storage version does not know.
pub fn through_storage(definition: &Definition, version: &Version, object: &mut Value) {
    if let Some(storage) = definition.storage_version().filter(|storage| storage.name != version.name) {
        convert(definition, storage, object);
        convert(definition, version, object);
    }
}

/// All that is wrong with an object beside its own metadata, in upstream's order. With `old`, what
/// did not change is let be.
pub fn validate(definition: &Definition, version: &Version, object: &Value, old: Option<&Value>) -> Outcome {
    let mut errors = check_type(definition, version, object);
    if !errors.is_empty() {
        return Outcome { errors, warnings: Vec::new() };
    }
    errors.extend(check(version.node(), object, old, ""));
    validate_more(version, object, old, errors)
}

/// As [`validate`], of a write of the status alone: the schema has a say in nothing else.
pub fn validate_status(
    definition: &Definition,
    version: &Version,
    object: &Value,
    old: Option<&Value>,
) -> Outcome {
    let mut errors = check_type(definition, version, object);
    if !errors.is_empty() {
        return Outcome { errors, warnings: Vec::new() };
    }
    if let (Some(node), Some(status)) = (version.node().properties.get("status"), object.get("status")) {
        let old = old.and_then(|old| old.get("status"));
        errors.extend(check::check_part(node, status, old, "status"));
    }
    validate_more(version, object, old, errors)
}

/// Whether an object is what it is taken for. If not, nothing else is looked at.
fn check_type(definition: &Definition, version: &Version, object: &Value) -> Errors {
    let mut errors = Errors::default();
    let (kind, api_version) = (text_of(object, "kind"), text_of(object, "apiVersion"));
    if kind != definition.names.kind {
        errors.invalid("kind", kind, &format!("must be {}", definition.names.kind));
    }
    let wanted = definition.api_version(version);
    if api_version != wanted {
        errors.invalid("apiVersion", api_version, &format!("must be {wanted}"));
    }
    errors
}

/// What is not a matter of the schema alone.
fn validate_more(version: &Version, object: &Value, old: Option<&Value>, mut errors: Errors) -> Outcome {
    let node = version.node();
    if let Some(scale) = &version.scale {
        scale::check_scale(scale, object, &mut errors);
    }
    check_embedded(node, object, "", &mut errors);
    let old_is_unique = old.is_none_or(|old| {
        let mut errors = Errors::default();
        lists::check_unique(node, old, "", &mut errors);
        errors.is_empty()
    });
    if old_is_unique {
        lists::check_unique(node, object, "", &mut errors);
    }
    let mut outcome = Outcome { errors, warnings: Vec::new() };
    if let Some(tree) = version.rules() {
        if outcome.errors.causes().iter().any(|cause| blocks_rules(cause.reason)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            outcome.errors.invalid("<nil>", BadValue::Plain("null".into()), detail);
        } else {
            let ran = rules::run(tree, node, object, old, "");
            outcome.errors.extend(ran.errors);
            outcome.warnings.extend(ran.warnings);
        }
    }
    outcome
}

/// Gives an object the form in which it is stored and shown: numbers as Go prints them.
pub fn settle(object: &mut Value) {
    *object = number::shown(std::mem::take(object));
}

fn text_of<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Rules are not run on what they were not written for.
fn blocks_rules(reason: Option<CauseReason>) -> bool {
    matches!(
        reason,
        Some(
            CauseReason::FieldValueRequired
                | CauseReason::FieldValueTooLong
                | CauseReason::FieldValueTooMany
                | CauseReason::FieldValueTypeInvalid
                | CauseReason::FieldValueNotSupported
        )
    )
}
