//! Webhook configurations and admission policies.

use serde_json::Value;

use super::{AGE, Cell, Column, NAME, UNSET, column, computed, text};
use crate::object::Fields;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => WEBHOOK_CONFIGURATION,
        "MutatingAdmissionPolicy" => MUTATING_POLICY,
        "ValidatingAdmissionPolicy" => VALIDATING_POLICY,
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => POLICY_BINDING,
        _ => return None,
    })
}

static WEBHOOK_CONFIGURATION: &[Column] =
    &[NAME, column("Webhooks", Cell::Count("/webhooks"), "Number of webhooks.").typed("integer"), AGE];

static MUTATING_POLICY: &[Column] = &[
    NAME,
    column("Mutations", Cell::Count("/spec/mutations"), "Number of mutations.").typed("integer"),
    PARAM_KIND,
    AGE,
];

static VALIDATING_POLICY: &[Column] = &[
    NAME,
    column("Validations", Cell::Count("/spec/validations"), "Number of validations.").typed("integer"),
    PARAM_KIND,
    AGE,
];

static POLICY_BINDING: &[Column] = &[
    NAME,
    text("PolicyName", "/spec/policyName", "The policy that is put to use."),
    computed("ParamRef", param_ref, "The objects that are its parameters."),
    AGE,
];

const PARAM_KIND: Column = computed("ParamKind", param_kind, "Kind of the parameters.");

fn param_kind(policy: &Value) -> Value {
    match policy.field("spec").get_field("paramKind") {
        Some(kind) => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")).into(),
        None => UNSET.into(),
    }
}

fn param_ref(binding: &Value) -> Value {
    let Some(param) = binding.field("spec").get_field("paramRef") else { return UNSET.into() };
    match (param.text("namespace"), param.text("name")) {
        (_, "") => param.get_field("selector").map_or_else(|| "nil".into(), selector_in_go).into(),
        ("", name) => format!("*/{name}").into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }
}

/// Upstream prints the selector with Go's generated debug text, so do we.
fn selector_in_go(selector: &Value) -> String {
    let labels: String = selector
        .entries("matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let requirement = |requirement: &Value| {
        let values: Vec<&str> = requirement.items("values").iter().filter_map(Value::as_str).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            requirement.text("key"),
            requirement.text("operator"),
            values.join(" ")
        )
    };
    let requirements: String = selector.items("matchExpressions").iter().map(requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}
