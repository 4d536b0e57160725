//! The names of a definition, asked for and accepted.

use serde_json::Value;
use sternpost_meta::{field::Errors, format};

use super::items;
use crate::definition::text;

pub(super) fn check_names(names: &Value, errors: &mut Errors) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.required(format!("spec.names.{name}"), "");
        }
    }
    check(names, "spec.names", errors);
}

/// Accepted names may be missing: they come one by one.
pub(super) fn check_accepted(names: &Value, errors: &mut Errors) {
    check(names, "status.acceptedNames", errors);
}

fn check(names: &Value, path: &str, errors: &mut Errors) {
    for name in ["plural", "singular"] {
        let value = text(names, name);
        let problems = format::dns1035_label(&value);
        if !value.is_empty() && !problems.is_empty() {
            errors.invalid(format!("{path}.{name}"), value, &problems.join(","));
        }
    }
    for name in ["kind", "listKind"] {
        let value = text(names, name);
        let problems = format::dns1035_label(&value.to_lowercase());
        if !value.is_empty() && !problems.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            errors.invalid(format!("{path}.{name}"), value, &detail);
        }
    }
    let labels = |name: &str, errors: &mut Errors| {
        for (index, value) in items(names, name).iter().filter_map(Value::as_str).enumerate() {
            let problems = format::dns1035_label(value);
            if !problems.is_empty() {
                errors.invalid(format!("{path}.{name}[{index}]"), value, &problems.join(","));
            }
        }
    };
    labels("shortNames", errors);
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(format!("{path}.listKind"), list_kind, "kind and listKind may not be the same");
    }
    labels("categories", errors);
}
