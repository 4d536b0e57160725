//! Conditions in CEL under which a webhook or policy is asked.
//!
//! Only the form is checked here; whether an expression compiles is asked of the caller.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    expression::Problem,
    field::{Errors, Path},
    format::qualified_name,
};

use super::{admission_policy::note, form::required};
use crate::object::Fields;

/// The most conditions of one webhook or policy.
pub const MAX_MATCH_CONDITIONS: usize = 64;

/// What is wrong with an expression, if anything.
pub type ProblemOf = fn(&str) -> Option<String>;

/// Checks `object.matchConditions`, which stands at `path`, but for what the expressions say.
pub fn validate(object: &Value, path: Path<'_>, errors: &mut Errors) {
    validate_with(object, |_| None, path, errors);
}

/// Checks `object.matchConditions`, which stands at `path`.
pub fn validate_with(object: &Value, problem_of: ProblemOf, path: Path<'_>, errors: &mut Errors) {
    validate_each(object, &|expression| problem_of(expression).map(Problem::Invalid), path, errors);
}

/// As [`validate_with`], where what is wrong may be more than the expression.
pub fn validate_each(
    object: &Value,
    problem_of: &dyn Fn(&str) -> Option<Problem>,
    path: Path<'_>,
    errors: &mut Errors,
) {
    let conditions = object.items("matchConditions");
    if conditions.len() > MAX_MATCH_CONDITIONS {
        errors.too_many(path, conditions.len(), MAX_MATCH_CONDITIONS);
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let expression = condition.text("expression").trim();
        if expression.is_empty() {
            errors.required(path.child("expression"), "");
        } else {
            note(problem_of(expression), expression, path.child("expression"), errors);
        }
        let name = condition.text("name");
        required(qualified_name, name, path.child("name"), errors);
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
    }
}
