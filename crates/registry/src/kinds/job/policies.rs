//! When a `Job` gives up and when it has had enough: `podFailurePolicy` and
//! `successPolicy`.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::{Errors, Path},
    format,
    status::CauseReason,
};

use super::status::count_indexes;
use crate::{
    internal_form::Form,
    object::Fields,
    validation::{
        bounds::not_negative,
        form::{named, pointer},
    },
};

pub const MAX_FAILURE_RULES: usize = 20;
pub const MAX_EXIT_CODES: usize = 255;
pub const MAX_POD_CONDITIONS: usize = 20;
pub const MAX_SUCCESS_RULES: usize = 20;
pub const MAX_SUCCEEDED_INDEXES_BYTES: usize = 64 * 1024;

/// How messages print a success policy.
pub const SUCCESS_POLICY: Form = Form::Message("io.k8s.api.batch.v1.SuccessPolicy");

/// How messages print a failure policy.
pub const POD_FAILURE_POLICY: Form = Form::Message("io.k8s.api.batch.v1.PodFailurePolicy");

pub fn validate_failure_policy(spec: &Value, policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("rules");
    let rules = policy.items("rules");
    if rules.len() > MAX_FAILURE_RULES {
        errors.too_many(path, rules.len(), MAX_FAILURE_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_failure_rule(spec, rule, &path.index(index), errors);
    }
}

fn validate_failure_rule(spec: &Value, rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let action = rule.text("action");
    if action == "FailIndex" {
        if !spec.has("backoffLimitPerIndex") {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.invalid(path.child("action"), named(action), detail);
        }
    } else {
        known_or_required(action, &ACTIONS, &path.child("action"), errors);
    }
    let (codes, conditions) = (rule.field("onExitCodes"), rule.items("onPodConditions"));
    if !codes.is_null() {
        validate_exit_codes(spec, codes, &path.child("onExitCodes"), errors);
    }
    if !conditions.is_empty() {
        validate_pod_conditions(conditions, &path.child("onPodConditions"), errors);
    }
    match (codes.is_null(), conditions.is_empty()) {
        (false, false) => invalid_without_value(
            errors,
            path,
            "specifying both OnExitCodes and OnPodConditions is not supported",
        ),
        (true, true) => invalid_without_value(
            errors,
            path,
            "specifying one of OnExitCodes and OnPodConditions is required",
        ),
        _ => {}
    }
}

/// `supported` is sorted.
fn known_or_required(text: &str, supported: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        let quoted: Vec<String> = supported.iter().map(|value| go_quote(value).to_string()).collect();
        errors.required(path, &format!("valid values: [{}]", quoted.join(" ")));
    } else if !supported.contains(&text) {
        errors.not_supported(path, named(text), supported);
    }
}

/// An error about a value too large to be of use in a message.
pub fn invalid_without_value(errors: &mut Errors, path: &Path<'_>, detail: &str) {
    errors.push(CauseReason::FieldValueInvalid, path, "Invalid value", None, detail);
}

fn validate_exit_codes(spec: &Value, codes: &Value, path: &Path<'_>, errors: &mut Errors) {
    let operator = codes.text("operator");
    known_or_required(operator, &["In", "NotIn"], &path.child("operator"), errors);
    if let Some(name) = codes.get_field("containerName").and_then(Value::as_str) {
        let pod = spec.field("template").field("spec");
        let mut containers = pod.items("containers").iter().chain(pod.items("initContainers"));
        if !containers.any(|container| container.text("name") == name) {
            errors.invalid(
                path.child("containerName"),
                name,
                "must be one of the container or initContainer names in the pod template",
            );
        }
    }
    let path = path.child("values");
    let values = codes.items("values");
    if values.is_empty() {
        errors.invalid(path, pointer(codes, "values"), "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.too_many(path, values.len(), MAX_EXIT_CODES);
    }
    let numbers: Vec<i64> = values.iter().map(|value| value.as_i64().unwrap_or_default()).collect();
    let mut seen = HashSet::new();
    for (index, number) in numbers.iter().enumerate() {
        if operator == "In" && *number == 0 {
            errors.invalid(path.index(index), *number, "must not be 0 for the In operator");
        }
        if !seen.insert(*number) {
            errors.duplicate(path.index(index), *number);
        }
    }
    if !numbers.is_sorted() {
        errors.invalid(path, pointer(codes, "values"), "must be ordered");
    }
}

fn validate_pod_conditions(conditions: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if conditions.len() > MAX_POD_CONDITIONS {
        errors.too_many(path, conditions.len(), MAX_POD_CONDITIONS);
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let text = condition.text("type");
        for problem in format::qualified_name(text) {
            errors.invalid(path.child("type"), text, &problem);
        }
        let status = condition.text("status");
        known_or_required(status, &["False", "True", "Unknown"], &path.child("status"), errors);
    }
}

pub fn validate_success_policy(spec: &Value, policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("rules");
    let rules = policy.items("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(path, detail);
    }
    if rules.len() > MAX_SUCCESS_RULES {
        errors.too_many(path, rules.len(), MAX_SUCCESS_RULES);
    }
    let completions = spec.int("completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        validate_success_rule(rule, completions, &path.index(index), errors);
    }
}

fn validate_success_rule(rule: &Value, completions: i64, path: &Path<'_>, errors: &mut Errors) {
    if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = None;
    if let Some(indexes) = rule.get_field("succeededIndexes").and_then(Value::as_str) {
        let path = path.child("succeededIndexes");
        if indexes.len() > MAX_SUCCEEDED_INDEXES_BYTES {
            errors.too_long(path, MAX_SUCCEEDED_INDEXES_BYTES);
        }
        let count = count_indexes(indexes, completions);
        if let Err(problem) = &count {
            errors.invalid(path, indexes, &format!("error parsing succeededIndexes: {problem}"));
        }
        total = Some(count.unwrap_or_default());
    }
    let Some(count) = rule.int("succeededCount") else { return };
    not_negative(rule, "succeededCount", path, errors);
    let path = path.child("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(path, count, &detail);
    }
    if let Some(total) = total.filter(|total| count > *total) {
        errors.invalid(path, count, &format!("must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"));
    }
}
