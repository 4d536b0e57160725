//! ValidatingAdmissionPolicyBinding: where a policy holds and what a refusal does.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use crate::{
    object::Fields,
    strategy::{Generation, MetadataCheck, Strategy},
    validation::{
        admission_policy::{default_binding, validate_binding},
        form::{named, one_of, texts},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default: default_binding,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    qualified_finalizers: false,
    columns: columns::COLUMNS,
    ..Strategy::of("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding")
};

fn validate(binding: &Value, errors: &mut Errors) {
    validate_binding(binding, errors);
    let spec = binding.field("spec");
    let path = Path::new("spec");
    let list = path.child("validationActions");
    let mut seen = HashSet::new();
    for (index, action) in texts(spec, "validationActions").enumerate() {
        one_of(&["Audit", "Deny", "Warn"], action, list.index(index), errors);
        if !seen.insert(action) {
            errors.duplicate(list.index(index), named(action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let value = BadValue::Json(spec.field("validationActions").clone());
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(list, value, detail);
    }
    if seen.is_empty() {
        errors.required(list, "at least one validation action is required");
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, UNSET, computed, text},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("PolicyName", "/spec/policyName", "The policy that is put to use."),
        computed("ParamRef", param_ref, "The objects that are its parameters."),
        AGE,
    ];

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
}
