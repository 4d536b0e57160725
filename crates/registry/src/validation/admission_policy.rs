//! What ValidatingAdmissionPolicy and MutatingAdmissionPolicy share.
//!
//! Only the form of expressions is checked here; whether they compile is asked of the caller.

use serde_json::Value;
use sternpost_meta::{
    expression::{Problem, Purpose, is_identifier},
    field::{Errors, Path},
    format::{dns_subdomain, dns1035_label, path_segment},
};

use super::{
    admission_rule::{FAILURE_POLICIES, default_match_resources, default_pointers, validate_match_resources},
    form::{must_be, named, one_of, required},
    label_selector, match_condition,
};
use crate::object::{Fields, FieldsMut};

/// Says whether the expressions of one policy compile; variables are asked about first, in order.
pub trait Expressions {
    fn variable(&mut self, name: &str, expression: &str) -> Option<Problem>;
    fn expression(&self, expression: &str, purpose: Purpose) -> Option<Problem>;
}

/// Finds nothing wrong.
#[derive(Debug)]
pub struct Unchecked;

impl Expressions for Unchecked {
    fn variable(&mut self, _name: &str, _expression: &str) -> Option<Problem> {
        None
    }

    fn expression(&self, _expression: &str, _purpose: Purpose) -> Option<Problem> {
        None
    }
}

/// Notes what is wrong with an expression, if anything.
pub fn note(problem: Option<Problem>, expression: &str, path: Path<'_>, errors: &mut Errors) {
    match problem {
        None => {}
        Some(Problem::Invalid(problem)) => errors.invalid(path, expression, &problem),
        Some(Problem::Internal(problem)) => errors.internal(path, &problem),
    }
}

pub fn default_policy(policy: &mut Value) {
    let spec = policy.object_mut("spec");
    default_pointers(spec, &[("failurePolicy", "Fail".into())]);
    if spec.has("matchConstraints") {
        default_match_resources(spec.object_mut("matchConstraints"));
    }
}

pub fn default_binding(binding: &mut Value) {
    let spec = binding.object_mut("spec");
    if spec.has("matchResources") {
        default_match_resources(spec.object_mut("matchResources"));
    }
}

/// Everything of a policy's spec but what it does about a match.
pub fn validate_policy(
    policy: &Value,
    old: Option<&Value>,
    expressions: &mut dyn Expressions,
    errors: &mut Errors,
) {
    let spec = policy.field("spec");
    let path = Path::new("spec");
    if spec.has("failurePolicy") {
        one_of(&FAILURE_POLICIES, spec.text("failurePolicy"), path.child("failurePolicy"), errors);
    } else {
        errors.required(path.child("failurePolicy"), "");
    }
    if let Some(kind) = spec.get_field("paramKind") {
        validate_param_kind(kind, &path.child("paramKind"), errors);
    }
    let constraints = path.child("matchConstraints");
    match spec.get_field("matchConstraints") {
        None => errors.required(constraints, ""),
        Some(resources) => {
            validate_match_resources(resources, &constraints, errors);
            if resources.items("resourceRules").is_empty() {
                errors.required(constraints.child("resourceRules"), "");
            }
        }
    }
    let unchanged =
        old.is_some_and(|old| old.field("spec").field("matchConditions") == spec.field("matchConditions"));
    if !unchanged {
        let problem_of = |expression: &str| expressions.expression(expression, Purpose::Condition);
        match_condition::validate_each(spec, &problem_of, path.child("matchConditions"), errors);
    }
    let list = path.child("variables");
    for (index, variable) in spec.items("variables").iter().enumerate() {
        validate_variable(variable, &list.index(index), expressions, errors);
    }
}

fn validate_param_kind(kind: &Value, path: &Path<'_>, errors: &mut Errors) {
    let api_version = path.child("apiVersion");
    let text = kind.text("apiVersion");
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [""] => errors.required(api_version, ""),
        [version] => validate_version(version, text, api_version, errors),
        [group, version] => {
            let problems = dns_subdomain(group);
            if !group.is_empty() && !problems.is_empty() {
                errors.invalid(api_version, *group, &problems.join(","));
            }
            validate_version(version, text, api_version, errors);
        }
        _ => errors.invalid(api_version, text, &format!("unexpected GroupVersion string: {text}")),
    }
    let name = kind.text("kind");
    if name.is_empty() {
        errors.required(path.child("kind"), "");
        return;
    }
    let problems = dns1035_label(&name.to_lowercase());
    if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.invalid(path.child("kind"), name, &detail);
    }
}

fn validate_version(version: &str, whole: &str, path: Path<'_>, errors: &mut Errors) {
    if version.is_empty() {
        errors.invalid(path, whole, "version must be specified");
        return;
    }
    let problems = dns1035_label(version);
    if !problems.is_empty() {
        errors.invalid(path, version, &problems.join(","));
    }
}

fn validate_variable(
    variable: &Value,
    path: &Path<'_>,
    expressions: &mut dyn Expressions,
    errors: &mut Errors,
) {
    let name = variable.text("name");
    if name.trim().is_empty() {
        errors.required(path.child("name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(path.child("name"), name, "must be a valid CEL identifier");
    }
    let expression = variable.text("expression");
    if expression.trim().is_empty() {
        errors.required(path.child("expression"), "expression is not specified");
    } else {
        note(expressions.variable(name, expression), expression, path.child("expression"), errors);
    }
}

/// Policy name, parameters and resources of a binding.
pub fn validate_binding(binding: &Value, errors: &mut Errors) {
    let spec = binding.field("spec");
    let path = Path::new("spec");
    required(dns_subdomain, spec.text("policyName"), path.child("policyName"), errors);
    if let Some(reference) = spec.get_field("paramRef") {
        validate_param_ref(reference, &path.child("paramRef"), errors);
    }
    if let Some(resources) = spec.get_field("matchResources") {
        validate_match_resources(resources, &path.child("matchResources"), errors);
    }
}

fn validate_param_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let exclusive = "name and selector are mutually exclusive";
    let (name, selector) = (reference.text("name"), reference.get_field("selector"));
    if !name.is_empty() {
        must_be(path_segment, name, path.child("name"), errors);
        if selector.is_some() {
            errors.forbidden(path.child("name"), exclusive);
        }
    }
    if let Some(selector) = selector {
        label_selector::validate(selector, &path.child("selector"), errors);
        if !name.is_empty() {
            errors.forbidden(path.child("selector"), exclusive);
        }
    } else if name.is_empty() {
        errors.required(path, "one of name or selector must be specified");
    }
    let action = path.child("parameterNotFoundAction");
    match reference.text("parameterNotFoundAction") {
        "" => errors.required(action, ""),
        "Deny" | "Allow" => {}
        other => errors.not_supported(action, named(other), &["Deny", "Allow"]),
    }
}
