//! `core.NodeSelector`: which nodes will do, by label and by name.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_subdomain, label_value},
};

use super::{label_selector::ExpressionValues, labels::validate_label_key};
use crate::object::Fields;

/// A whole selector, whose `nodeSelectorTerms` may not be empty.
pub fn validate(selector: &Value, values: ExpressionValues, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("nodeSelectorTerms");
    if selector.items("nodeSelectorTerms").is_empty() {
        return errors.required(list, "must have at least one node selector term");
    }
    for (index, term) in selector.items("nodeSelectorTerms").iter().enumerate() {
        validate_term(term, values, &list.index(index), errors);
    }
}

pub fn validate_term(term: &Value, values: ExpressionValues, path: &Path<'_>, errors: &mut Errors) {
    let expressions = path.child("matchExpressions");
    for (index, requirement) in term.items("matchExpressions").iter().enumerate() {
        validate_expression(requirement, values, &expressions.index(index), errors);
    }
    let fields = path.child("matchFields");
    for (index, requirement) in term.items("matchFields").iter().enumerate() {
        validate_field(requirement, &fields.index(index), errors);
    }
}

/// Whether an expression has a value that is no label value.
pub fn has_bad_value(selector: &Value) -> bool {
    let requirements =
        selector.items("nodeSelectorTerms").iter().flat_map(|term| term.items("matchExpressions"));
    requirements
        .flat_map(|requirement| requirement.items("values"))
        .any(|value| !label_value(value.as_str().unwrap_or_default()).is_empty())
}

fn validate_expression(requirement: &Value, values: ExpressionValues, path: &Path<'_>, errors: &mut Errors) {
    let given = requirement.items("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if given.is_empty() {
                let problem = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.required(path.child("values"), problem);
            }
        }
        "Exists" | "DoesNotExist" => {
            if !given.is_empty() {
                let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(path.child("values"), problem);
            }
        }
        "Gt" | "Lt" => {
            if given.len() != 1 {
                let problem = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.required(path.child("values"), problem);
            }
        }
        other => not_an_operator(other, path, errors),
    }
    validate_label_key(requirement.text("key"), &path.child("key"), errors);
    if values == ExpressionValues::Unchecked {
        return;
    }
    for (index, value) in given.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for problem in label_value(value) {
            errors.invalid(path.child("values").index(index), value, &problem);
        }
    }
}

/// Nodes can be asked for by one field only, their name.
fn validate_field(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (key, values) = (requirement.text("key"), requirement.items("values"));
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let problem =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(path.child("values"), problem);
            }
        }
        other => not_an_operator(other, path, errors),
    }
    if key != "metadata.name" {
        return errors.invalid(path.child("key"), key, "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for problem in dns_subdomain(value) {
            errors.invalid(path.child("values").index(index), value, &problem);
        }
    }
}

fn not_an_operator(operator: &str, path: &Path<'_>, errors: &mut Errors) {
    errors.invalid(path.child("operator"), BadValue::Json(operator.into()), "not a valid selector operator");
}
