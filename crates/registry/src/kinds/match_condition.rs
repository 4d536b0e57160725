//! Conditions in CEL under which a webhook or policy is asked.
//!
//! Only the form is checked here; whether an expression compiles is not.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::qualified_name,
};

use super::form::required;
use crate::object::Fields;

/// The most conditions of one webhook or policy.
pub const MAX_MATCH_CONDITIONS: usize = 64;

/// Checks `object.matchConditions`, which stands at `path`.
pub fn validate(object: &Value, path: Path<'_>, errors: &mut Errors) {
    let conditions = object.items("matchConditions");
    if conditions.len() > MAX_MATCH_CONDITIONS {
        errors.too_many(path, conditions.len(), MAX_MATCH_CONDITIONS);
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        if condition.text("expression").trim().is_empty() {
            errors.required(path.child("expression"), "");
        }
        let name = condition.text("name");
        required(qualified_name, name, path.child("name"), errors);
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
    }
}
