//! `PodDisruptionBudget`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::path_segment,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{bounds::none_negative, conditions, form::named, int_or_percent, label_selector},
};

pub const STRATEGY: Strategy = Strategy {
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    validate_status_update,
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[],
    status_checks_again: &[],
    qualified_finalizers: false,
    name: path_segment,
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    ..Strategy::of("policy", "PodDisruptionBudget")
};

const SPEC: Form = Form::Message("io.k8s.api.policy.v1.PodDisruptionBudgetSpec");

fn validate(budget: &Value, errors: &mut Errors) {
    validate_update(budget, &Value::Null, errors);
}

/// `old` is `null` on create.
fn validate_update(budget: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = budget.field("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        errors.invalid(
            path,
            internal(Shape::Struct(SPEC), spec),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for name in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get_field(name) {
            let path = path.child(name);
            int_or_percent::validate(value, &path, errors);
            int_or_percent::at_most_100_percent(value, &path, errors);
        }
    }
    label_selector::validate_update(
        spec.field("selector"),
        old.field("spec").field("selector"),
        &path.child("selector"),
        errors,
    );
    if let Some(policy) = spec.get_field("unhealthyPodEvictionPolicy") {
        let policy = policy.as_str().unwrap_or_default();
        if !matches!(policy, "AlwaysAllow" | "IfHealthyBudget") {
            errors.not_supported(
                path.child("unhealthyPodEvictionPolicy"),
                named(policy),
                &["AlwaysAllow", "IfHealthyBudget"],
            );
        }
    }
}

fn validate_status_update(budget: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = budget.field("status");
    conditions::validate(status.items("conditions"), &path.child("conditions"), errors);
    none_negative(
        status,
        &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
        &path,
        errors,
    );
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed, integer, text::plain},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Min Available", |budget| amount(budget, "minAvailable"), "Pods that have to stay."),
        computed("Max Unavailable", |budget| amount(budget, "maxUnavailable"), "Pods that may be missing."),
        integer("Allowed Disruptions", "/status/disruptionsAllowed", "Pods that may be evicted now."),
        AGE,
    ];

    fn amount(budget: &Value, field: &str) -> Value {
        budget.field("spec").get_field(field).map_or_else(|| "N/A".into(), plain).into()
    }
}
