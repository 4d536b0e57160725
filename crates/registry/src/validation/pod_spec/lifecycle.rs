//! Lifecycle events of a container, and when it is started again.

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::probes::{Holder, validate_handler};
use crate::object::Fields;

/// The most rules of one container.
const MAX_RESTART_RULES: usize = 20;
/// The most exit codes of one rule.
const MAX_EXIT_CODES: usize = 255;

const RULES_WITHOUT_POLICY: &str = "must specify restartPolicy when restart rules are used";

pub fn validate_lifecycle(lifecycle: &Value, grace_period: i64, path: &Path<'_>, errors: &mut Errors) {
    for event in ["postStart", "preStop"] {
        if let Some(handler) = lifecycle.get_field(event) {
            validate_handler(handler, Holder::Event { grace_period }, &path.child(event), errors);
        }
    }
}

/// As [`validate_restart`], for an init container: without a policy its rules are not looked into.
pub fn validate_init_restart(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    if container.has("restartPolicy") {
        validate_restart(container, path, errors);
    } else if !container.items("restartPolicyRules").is_empty() {
        errors.required(path.child("restartPolicy"), RULES_WITHOUT_POLICY);
    }
}

/// `restartPolicy` and `restartPolicyRules` of a container.
pub fn validate_restart(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rules = container.items("restartPolicyRules");
    let policy = path.child("restartPolicy");
    match container.field("restartPolicy").as_str() {
        None if !rules.is_empty() => errors.required(policy, RULES_WITHOUT_POLICY),
        None | Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => {
            errors.not_supported(policy, BadValue::Json(other.into()), &["Always", "Never", "OnFailure"]);
        }
    }
    let list = path.child("restartPolicyRules");
    if rules.len() > MAX_RESTART_RULES {
        errors.too_many(list, rules.len(), MAX_RESTART_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = list.index(index);
        let action = rule.text("action");
        if !["Restart", "RestartAllContainers"].contains(&action) {
            let known = &["Restart", "RestartAllContainers"];
            errors.not_supported(path.child("action"), BadValue::Json(action.into()), known);
        }
        let path = path.child("exitCodes");
        let Some(codes) = rule.get_field("exitCodes") else {
            errors.required(path, "must be specified");
            continue;
        };
        let operator = codes.text("operator");
        if !["In", "NotIn"].contains(&operator) {
            errors.not_supported(path.child("operator"), BadValue::Json(operator.into()), &["In", "NotIn"]);
        }
        let values = codes.items("values").len();
        if values > MAX_EXIT_CODES {
            errors.too_many(path.child("values"), values, MAX_EXIT_CODES);
        }
    }
}
