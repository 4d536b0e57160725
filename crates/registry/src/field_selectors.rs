//! Which fields a list can be filtered by.
//!
//! [`resolve`] turns the labels of a request into the names of fields of stored
//! objects, or says in upstream's words that the kind has no such field. [`value`]
//! reads a field from a stored object. Every kind has `metadata.name` and, unless
//! its [`Strategy`] names its [`SelectableFields`], `metadata.namespace`.

use std::{borrow::Cow, error, fmt};

use serde_json::Value;
use sternpost_meta::{resource::Scope, selector::FieldSelector};

use crate::{object::Fields, strategy::Strategy};

/// The fields of a kind that offers more, or other, than every kind does.
#[derive(Debug, Clone, Copy)]
pub struct SelectableFields {
    /// Label of a request, and the name of the field in the stored object.
    pub fields: &'static [(&'static str, &'static str)],
    /// What is said of another label.
    pub unsupported: fn(&str) -> String,
    /// The value of a field in a stored object; empty if it has none.
    pub value: for<'a> fn(&str, &'a Value) -> Cow<'a, str>,
}

impl SelectableFields {
    /// None, to build others from.
    pub const DEFAULT: Self =
        Self { fields: &[], unsupported: |label| not_supported(label), value: stored_value };
}

pub const NAME: (&str, &str) = ("metadata.name", "metadata.name");
pub const NAMESPACE: (&str, &str) = ("metadata.namespace", "metadata.namespace");

/// A label the kind cannot be filtered by; a 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedField(String);

impl fmt::Display for UnsupportedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for UnsupportedField {}

/// Checks the fields of a selector and gives them the names [`value`] knows.
pub fn resolve(strategy: &Strategy, selector: FieldSelector) -> Result<FieldSelector, UnsupportedField> {
    selector.rename(|label| {
        let Some(selectable) = &strategy.selectable_fields else {
            return match label {
                "metadata.name" | "metadata.namespace" => Ok(label.to_owned()),
                _ => Err(UnsupportedField(format!(
                    "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                ))),
            };
        };
        let found = selectable.fields.iter().find(|(name, _)| *name == label);
        found
            .map(|(_, field)| (*field).to_owned())
            .ok_or_else(|| UnsupportedField((selectable.unsupported)(label)))
    })
}

/// As [`resolve`], for a custom resource with these `selectableFields`, each
/// without the leading dot. Cluster-scoped ones are not in a namespace.
pub fn resolve_custom(
    scope: Scope,
    selectable: &[String],
    selector: FieldSelector,
) -> Result<FieldSelector, UnsupportedField> {
    selector.rename(|label| {
        let known = label == "metadata.name"
            || label == "metadata.namespace" && scope == Scope::Namespaced
            || selectable.iter().any(|field| field == label);
        if known { Ok(label.to_owned()) } else { Err(UnsupportedField(not_supported(label))) }
    })
}

/// The names of a kind's fields beyond `metadata`, as [`value`] knows them.
pub fn names(strategy: &Strategy) -> impl Iterator<Item = &'static str> {
    let fields = strategy.selectable_fields.map_or(&[][..], |selectable| selectable.fields);
    fields.iter().map(|(_, field)| *field).filter(|field| !field.starts_with("metadata."))
}

/// Whether a stored object is selected. The selector is a resolved one.
pub fn matches(selector: &FieldSelector, strategy: &Strategy, object: &Value) -> bool {
    selector.matches_with(|field| value(strategy, field, object))
}

/// The value of a resolved field in a stored object; empty if it has none.
pub fn value<'a>(strategy: &Strategy, field: &str, object: &'a Value) -> Cow<'a, str> {
    let value = strategy.selectable_fields.map_or(SelectableFields::DEFAULT.value, |fields| fields.value);
    value(field, object)
}

/// What stands in a field, as most kinds offer it.
pub fn stored_value<'a>(field: &str, object: &'a Value) -> Cow<'a, str> {
    match lookup(field, object) {
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Bool(value) => value.to_string().into(),
        _ => "".into(),
    }
}

/// A whole number that is 0 if it is not set.
pub fn number(field: &str, object: &Value) -> Cow<'static, str> {
    lookup(field, object).as_i64().unwrap_or_default().to_string().into()
}

/// A boolean that is false if it is not set.
pub fn boolean(field: &str, object: &Value) -> Cow<'static, str> {
    if lookup(field, object).as_bool().unwrap_or_default() { "true" } else { "false" }.into()
}

fn lookup<'a>(field: &str, object: &'a Value) -> &'a Value {
    field.split('.').fold(object, |value, name| value.field(name))
}

fn not_supported(label: &str) -> String {
    format!("field label not supported: {label}")
}
