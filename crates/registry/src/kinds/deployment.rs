//! `Deployment`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    selector::LabelSelector,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_labels, keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{
        bounds::{
            available_are_ready, collisions_not_decremented, none_negative, not_above_replicas, not_negative,
        },
        form::same,
        int_or_percent, label_selector, pod_template_spec,
        workload::{
            default_template, name_warning, runs_for_ever, selector_is_immutable, selector_matches_template,
            selector_value, template_warnings,
        },
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update,
    validate,
    validate_update,
    validate_status_update,
    warnings,
    generation: Generation::Tracks(&["spec", "metadata.annotations"]),
    reset_fields: &[".status"],
    subresources: &[Subresource::SCALE, Subresource::status(&[".spec", ".metadata.labels"])],
    columns: columns::COLUMNS,
    ..Strategy::of("apps", "Deployment")
};

const DEPLOYMENT_STRATEGY: Form = Form::Message("io.k8s.api.apps.v1.DeploymentStrategy");

fn default(deployment: &mut Value) {
    let spec = deployment.object_mut("spec");
    spec.default_field("replicas", 1);
    let strategy = spec.object_mut("strategy");
    strategy.default_field("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling = strategy.object_mut("rollingUpdate");
        rolling.default_field("maxUnavailable", "25%");
        rolling.default_field("maxSurge", "25%");
    }
    spec.default_field("revisionHistoryLimit", 10);
    spec.default_field("progressDeadlineSeconds", 600);
    default_template(spec);
}

fn prepare_status_update(deployment: &mut Value, old: &Value) {
    keep_spec(deployment, old);
    keep_labels(deployment, old);
}

fn validate(deployment: &Value, errors: &mut Errors) {
    validate_spec(deployment.field("spec"), &Value::Null, errors);
}

fn validate_update(deployment: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old) = (deployment.field("spec"), old.field("spec"));
    validate_spec(spec, old, errors);
    selector_is_immutable(spec, old, &Path::new("spec"), errors);
}

/// `old` is `null` on create.
fn validate_spec(spec: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    not_negative(spec, "replicas", &path, errors);
    validate_selector_and_template(spec, old, &path, errors);
    validate_strategy(spec.field("strategy"), &path.child("strategy"), errors);
    none_negative(
        spec,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        &path,
        errors,
    );
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.int("minReadySeconds").unwrap_or_default()
    {
        let path = path.child("progressDeadlineSeconds");
        errors.invalid(path, deadline, "must be greater than minReadySeconds");
    }
}

/// As replica sets have it too.
pub fn validate_selector_and_template(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selector = spec.field("selector");
    let selector_path = path.child("selector");
    if selector.is_null() {
        errors.required(selector_path, "");
    } else {
        label_selector::validate_update(selector, old.field("selector"), &selector_path, errors);
        if label_selector::is_empty(selector) {
            errors.invalid(
                selector_path,
                selector_value(selector),
                "empty selector is invalid for deployment",
            );
        }
    }
    let Ok(compiled) = LabelSelector::from_object(selector) else {
        return errors.invalid(selector_path, selector_value(selector), "invalid label selector");
    };
    let template = spec.field("template");
    let path = path.child("template");
    selector_matches_template(&compiled, template, &path, errors);
    pod_template_spec::validate_update(template, old.field("template"), &path, errors);
    runs_for_ever(template, "ReplicaSet", &path, errors);
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => {
            errors.forbidden(rolling_path, "may not be specified when strategy `type` is 'Recreate'");
        }
        "RollingUpdate" if rolling.is_null() => {
            errors.required(rolling_path, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => validate_rolling_update(rolling, &rolling_path, errors),
        _ => errors.not_supported(
            path,
            internal(Shape::Struct(DEPLOYMENT_STRATEGY), strategy),
            &["Recreate", "RollingUpdate"],
        ),
    }
}

fn validate_rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    let unavailable_path = path.child("maxUnavailable");
    int_or_percent::validate(unavailable, &unavailable_path, errors);
    int_or_percent::validate(surge, &path.child("maxSurge"), errors);
    if int_or_percent::is_zero(unavailable) && int_or_percent::is_zero(surge) {
        let bad = internal(Shape::Raw, unavailable);
        errors.invalid(unavailable_path, bad, "may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::at_most_100_percent(unavailable, &unavailable_path, errors);
}

fn validate_status_update(deployment: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = deployment.field("status");
    none_negative(
        status,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        &path,
        errors,
    );
    not_above_replicas(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], &path, errors);
    available_are_ready(status, "readyReplicas", &path, errors);
    collisions_not_decremented(status, old.field("status"), &path, errors);
}

fn warnings(deployment: &Value, old: Option<&Value>) -> Vec<String> {
    let name = name_warning(deployment).filter(|_| old.is_none());
    // A change of annotations counts as one of the spec.
    let annotations = |deployment: &Value| deployment.field("metadata").field("annotations").clone();
    let unchanged = old.filter(|old| same(&annotations(deployment), &annotations(old)));
    name.into_iter().chain(template_warnings(deployment, unchanged)).collect()
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;
    use sternpost_meta::selector::LabelSelector;

    use crate::{
        object::Fields,
        table::{
            AGE, Cell, Column, NAME, column, computed,
            workload::{READY_OF_DESIRED, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        READY_OF_DESIRED,
        column("Up-to-date", Cell::Integer("/status/updatedReplicas"), "Pods of the current template."),
        column(
            "Available",
            Cell::Integer("/status/availableReplicas"),
            "Pods that have been ready for long enough.",
        ),
        AGE,
        TEMPLATE_CONTAINERS,
        TEMPLATE_IMAGES,
        computed("Selector", deployment_selector, "Labels of the pods that are counted.").wide(),
    ];

    /// Unlike with the other kinds, nothing stands for no requirement.
    fn deployment_selector(deployment: &Value) -> Value {
        LabelSelector::from_object(deployment.field("spec").field("selector"))
            .map_or_else(|_| "<invalid>".into(), |selector| selector.to_string())
            .into()
    }
}
