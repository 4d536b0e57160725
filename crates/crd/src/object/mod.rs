//! Custom objects against one version of their definition.
//!
//! A write: [`read_json`], [`decode()`], then [`validate`] of what admission made of
//! it, then [`settle`]. A read of another version's object: [`convert`].

mod check;
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

pub(crate) use check::check;
pub(crate) use meta::coerce_default;
pub(crate) use prune::has_unknown;

use crate::{
    definition::{Definition, Version},
    number,
    rules::{Outcome, Rules},
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
/// An object of another kind is left as it is, for [`validate`] to refuse.
pub fn decode(definition: &Definition, version: &Version, json: Json) -> Result<Decoded, MetaError> {
    let Json { value: mut object, duplicates } = json;
    let mut complaints: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    if kind_of(&object) != definition.names.kind {
        return Ok(Decoded { object, complaints });
    }
    let node = version.node();
    let mut unknown = prune::prune(node, &mut object);
    unknown.extend(meta::coerce(node, &mut object)?);
    complaints.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    fill::fill(node, &mut object);
    Ok(Decoded { object, complaints })
}

/// After a patch or admission: the same without complaints.
pub fn complete(version: &Version, object: &mut Value) -> Result<(), MetaError> {
    let node = version.node();
    prune::prune(node, object);
    meta::coerce(node, object)?;
    fill::fill(node, object);
    Ok(())
}

/// An object of any version of the definition as one of this version, by strategy `None`:
/// `apiVersion` is rewritten, then the schema's prunes and defaults apply.
pub fn convert(definition: &Definition, version: &Version, object: &mut Value) {
    if let Value::Object(fields) = object {
        fields.insert("apiVersion".into(), definition.api_version(version).into());
    }
    prune::prune(version.node(), object);
    fill::fill(version.node(), object);
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
pub fn validate(
    definition: &Definition,
    version: &Version,
    rules: &dyn Rules,
    object: &Value,
    old: Option<&Value>,
) -> Outcome {
    let mut errors = Errors::default();
    let kind = kind_of(object);
    if kind != definition.names.kind {
        errors.invalid("kind", kind, &format!("must be {}", definition.names.kind));
    }
    let node = version.node();
    errors.extend(check(node, object, old, ""));
    meta::check_embedded(node, object, "", &mut errors);
    let old_is_unique = old.is_none_or(|old| {
        let mut errors = Errors::default();
        lists::check_unique(node, old, "", &mut errors);
        errors.is_empty()
    });
    if old_is_unique {
        lists::check_unique(node, object, "", &mut errors);
    }
    let mut outcome = Outcome { errors, warnings: Vec::new() };
    if version.has_rules {
        if outcome.errors.causes().iter().any(|cause| blocks_rules(cause.reason)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            outcome.errors.invalid("<nil>", BadValue::Plain("null".into()), detail);
        } else {
            let ran = rules.run(&version.json, object, old, "");
            outcome.errors.extend(ran.errors);
            outcome.warnings.extend(ran.warnings);
        }
    }
    if let Some(scale) = &version.scale {
        scale::check_scale(scale, object, &mut outcome.errors);
    }
    outcome
}

/// Gives an object the form in which it is stored and shown: numbers as Go prints them.
pub fn settle(object: &mut Value) {
    *object = number::shown(std::mem::take(object));
}

fn kind_of(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
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
