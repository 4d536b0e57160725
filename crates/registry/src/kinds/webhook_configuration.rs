//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use std::collections::HashSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns1035_label, fully_qualified_name},
};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{Generation, MetadataCheck, Strategy},
    validation::{
        admission_rule::{FAILURE_POLICIES, MATCH_POLICIES, default_pointers, default_rules, validate_rule},
        form::{one_of, texts},
        label_selector::{self, ExpressionValues, has_bad_value},
        match_condition::{self, ProblemOf},
        webhook_client_config,
    },
};

pub const VALIDATING: Strategy = Strategy {
    default: |configuration| default(configuration, Kind::Validating),
    validate: |configuration, errors| validate(configuration, None, Kind::Validating, |_| None, errors),
    validate_update: |new, old, errors| validate(new, Some(old), Kind::Validating, |_| None, errors),
    unconditional_update: false,
    generation: Generation::Tracks(&["webhooks"]),
    checks_again: &[MetadataCheck::Written],
    qualified_finalizers: false,
    columns: columns::COLUMNS,
    ..Strategy::of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
};

pub const MUTATING: Strategy = Strategy {
    default: |configuration| default(configuration, Kind::Mutating),
    validate: |configuration, errors| validate(configuration, None, Kind::Mutating, |_| None, errors),
    validate_update: |new, old, errors| validate(new, Some(old), Kind::Mutating, |_| None, errors),
    unconditional_update: false,
    generation: Generation::Tracks(&["webhooks"]),
    checks_again: &[MetadataCheck::Written],
    qualified_finalizers: false,
    columns: columns::COLUMNS,
    ..Strategy::of("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
};

/// How long, in seconds, a webhook may be waited for.
pub const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Validating,
    Mutating,
}

fn default(configuration: &mut Value, kind: Kind) {
    for webhook in configuration.items_mut("webhooks") {
        default_pointers(
            webhook,
            &[
                ("failurePolicy", "Fail".into()),
                ("matchPolicy", "Equivalent".into()),
                ("namespaceSelector", json!({})),
                ("objectSelector", json!({})),
                ("timeoutSeconds", 10.into()),
            ],
        );
        if kind == Kind::Mutating {
            default_pointers(webhook, &[("reinvocationPolicy", "Never".into())]);
        }
        webhook_client_config::default(webhook.object_mut("clientConfig"));
        default_rules(webhook.items_mut("rules"));
    }
}

/// What is no longer demanded because what is stored does not have it.
struct Demands {
    no_side_effects: bool,
    known_review_versions: bool,
    unique_names: bool,
    match_conditions: bool,
    selector_values: ExpressionValues,
}

fn demands(new: &Value, old: Option<&Value>) -> Demands {
    let stored = old.map_or(&[][..], |old| old.items("webhooks"));
    let all = |holds: fn(&Value) -> bool| stored.iter().all(holds);
    let mut names = HashSet::new();
    let conditions = |configuration: &Value| -> Vec<Value> {
        let webhooks = configuration.items("webhooks").iter();
        webhooks.map(|webhook| webhook.field("matchConditions").clone()).collect()
    };
    let bad_selector = |webhook: &Value| {
        has_bad_value(webhook.field("namespaceSelector")) || has_bad_value(webhook.field("objectSelector"))
    };
    Demands {
        no_side_effects: all(|webhook| matches!(webhook.text("sideEffects"), "None" | "NoneOnDryRun")),
        known_review_versions: all(|webhook| {
            texts(webhook, "admissionReviewVersions").any(|version| REVIEW_VERSIONS.contains(&version))
        }),
        unique_names: stored.iter().all(|webhook| names.insert(webhook.text("name"))),
        match_conditions: old.is_none_or(|old| conditions(new) != conditions(old)),
        selector_values: if stored.iter().any(bad_selector) {
            ExpressionValues::Unchecked
        } else {
            ExpressionValues::Checked
        },
    }
}

/// Checks a configuration, and what is wrong with its expressions in the words of `problem_of`.
pub fn validate(
    configuration: &Value,
    old: Option<&Value>,
    kind: Kind,
    problem_of: ProblemOf,
    errors: &mut Errors,
) {
    let demands = demands(configuration, old);
    let list = Path::new("webhooks");
    let mut names = HashSet::new();
    for (index, webhook) in configuration.items("webhooks").iter().enumerate() {
        let path = list.index(index);
        validate_webhook(webhook, &demands, kind, problem_of, &path, errors);
        validate_review_versions(webhook, &demands, &path.child("admissionReviewVersions"), errors);
        let name = webhook.text("name");
        if demands.unique_names && !name.is_empty() && !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
    }
}

fn validate_webhook(
    webhook: &Value,
    demands: &Demands,
    kind: Kind,
    problem_of: ProblemOf,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let name = webhook.text("name");
    match fully_qualified_name(name) {
        None => errors.required(path.child("name"), ""),
        Some(problems) => {
            for problem in problems {
                errors.invalid(path.child("name"), name, &problem);
            }
        }
    }
    let rules = path.child("rules");
    for (index, rule) in webhook.items("rules").iter().enumerate() {
        validate_rule(rule, &rules.index(index), errors);
    }
    let known = |name: &str, supported: &[&str], errors: &mut Errors| {
        if webhook.has(name) {
            one_of(supported, webhook.text(name), path.child(name), errors);
        }
    };
    known("failurePolicy", &FAILURE_POLICIES, errors);
    known("matchPolicy", &MATCH_POLICIES, errors);
    let effects: &[&str] = if demands.no_side_effects {
        &["None", "NoneOnDryRun"]
    } else {
        &["None", "NoneOnDryRun", "Some", "Unknown"]
    };
    if webhook.has("sideEffects") {
        known("sideEffects", effects, errors);
    } else {
        let detail = format!("must specify one of {}", effects.join(", "));
        errors.required(path.child("sideEffects"), &detail);
    }
    if let Some(seconds) = webhook.int("timeoutSeconds").filter(|seconds| !TIMEOUT_SECONDS.contains(seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(path.child("timeoutSeconds"), seconds, detail);
    }
    for name in ["namespaceSelector", "objectSelector"] {
        let path = path.child(name);
        label_selector::validate_with(webhook.field(name), demands.selector_values, &path, errors);
    }
    if kind == Kind::Mutating {
        known("reinvocationPolicy", &["IfNeeded", "Never"], errors);
    }
    webhook_client_config::validate(webhook.field("clientConfig"), &path.child("clientConfig"), errors);
    if demands.match_conditions {
        match_condition::validate_with(webhook, problem_of, path.child("matchConditions"), errors);
    }
}

fn validate_review_versions(webhook: &Value, demands: &Demands, path: &Path<'_>, errors: &mut Errors) {
    let versions = webhook.items("admissionReviewVersions");
    if versions.is_empty() {
        errors.required(path, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = HashSet::new();
    let mut known = false;
    for (index, version) in texts(webhook, "admissionReviewVersions").enumerate() {
        if !seen.insert(version) {
            errors.invalid(path.index(index), version, "duplicate version");
            continue;
        }
        for problem in dns1035_label(version) {
            errors.invalid(path.index(index), version, &problem);
        }
        known |= REVIEW_VERSIONS.contains(&version);
    }
    if demands.known_review_versions && !known {
        let value = BadValue::Json(webhook.field("admissionReviewVersions").clone());
        errors.invalid(path, value, "must include at least one of v1, v1beta1");
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, column};

    pub(super) const COLUMNS: &[Column] =
        &[NAME, column("Webhooks", Cell::Count("/webhooks"), "Number of webhooks.").typed("integer"), AGE];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::default();
        validate(new, old, Kind::Validating, |_| None, &mut errors);
        errors.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn what_is_stored_with_a_fault_may_keep_it() {
        let webhook = json!({
            "name": "a.b.c",
            "clientConfig": {"url": "https://x"},
            "sideEffects": "Unknown",
            "admissionReviewVersions": ["v2"],
            "namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["b b"]}]},
        });
        let configuration = json!({"webhooks": [webhook, webhook]});
        let first = [
            "webhooks[0].sideEffects",
            "webhooks[0].namespaceSelector.matchExpressions[0].values[0]",
            "webhooks[0].admissionReviewVersions",
        ];
        let found = fields(&configuration, None);
        assert_eq!(found.iter().take(3).collect::<Vec<_>>(), first.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 7);
        assert_eq!(fields(&configuration, Some(&configuration)), Vec::<String>::new());
    }
}
