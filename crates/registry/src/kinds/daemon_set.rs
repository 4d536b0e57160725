//! `DaemonSet`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    selector::LabelSelector,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{
        bounds::{collisions_not_decremented, none_negative, not_negative},
        int_or_percent, label_selector, pod_template_spec, pod_warnings,
        workload::{
            default_template, runs_for_ever, same_template, selector_does_not_match, selector_is_immutable,
            selector_value,
        },
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update,
    validate,
    validate_update,
    validate_status_update,
    warnings,
    generation: Generation::Tracks(&["spec"]),
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    show_to_managers: Some(show_template_generation),
    ..Strategy::of("apps", "DaemonSet")
};

/// Counts the templates a set has had. Users may choose only where it starts.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const UPDATE_STRATEGY: Form = Form::Message("io.k8s.api.apps.v1.DaemonSetUpdateStrategy");

fn default(set: &mut Value) {
    let spec = set.object_mut("spec");
    let strategy = spec.object_mut("updateStrategy");
    strategy.default_field("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling = strategy.object_mut("rollingUpdate");
        rolling.default_field("maxUnavailable", 1);
        rolling.default_field("maxSurge", 0);
    }
    spec.default_field("revisionHistoryLimit", 10);
    default_template(spec);
}

fn prepare_create(set: &mut Value) {
    reset_status(set);
    let generation = template_generation(set).max(1);
    set_template_generation(set, generation);
}

fn prepare_update(set: &mut Value, old: &Value) {
    keep_status(set, old);
    let changed = !same_template(set.field("spec").field("template"), old.field("spec").field("template"));
    let generation = template_generation(old).saturating_add(i64::from(changed));
    set_template_generation(set, generation);
}

fn prepare_status_update(set: &mut Value, old: &Value) {
    keep_spec(set, old);
    set_template_generation(set, template_generation(old));
}

/// Upstream keeps the number elsewhere and writes the annotation whenever it
/// shows the object, so whoever creates or replaces one owns it.
fn show_template_generation(set: &mut Value) {
    set_template_generation(set, template_generation(set));
}

fn template_generation(set: &Value) -> i64 {
    set.field("metadata").field("annotations").text(TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = set.object_mut("metadata").object_mut("annotations");
    annotations.set(TEMPLATE_GENERATION, generation.to_string());
}

fn validate(set: &Value, errors: &mut Errors) {
    validate_spec(set.field("spec"), &Value::Null, errors);
}

fn validate_update(set: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old) = (set.field("spec"), old.field("spec"));
    selector_is_immutable(spec, old, &Path::new("spec"), errors);
    validate_spec(spec, old, errors);
}

/// `old` is `null` on create.
fn validate_spec(spec: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    let (selector_path, template_path) = (path.child("selector"), path.child("template"));
    label_selector::validate_update(selector, old.field("selector"), &selector_path, errors);
    let labels = template.field("metadata").field("labels");
    if LabelSelector::from_object(selector).is_ok_and(|selector| !selector.matches(labels)) {
        selector_does_not_match(labels, &template_path, errors);
    }
    if !selector.is_null() && label_selector::is_empty(selector) {
        errors.invalid(selector_path, selector_value(selector), "empty selector is invalid for daemonset");
    }
    pod_template_spec::validate_update(template, old.field("template"), &template_path, errors);
    runs_for_ever(template, "DaemonSet", &template_path, errors);
    not_negative(spec, "minReadySeconds", &path, errors);
    validate_update_strategy(spec.field("updateStrategy"), &path.child("updateStrategy"), errors);
    not_negative(spec, "revisionHistoryLimit", &path, errors);
}

fn validate_update_strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.required(path.child("rollingUpdate"), ""),
        "RollingUpdate" => validate_rolling_update(rolling, &path.child("rollingUpdate"), errors),
        _ => errors.not_supported(
            path,
            internal(Shape::Struct(UPDATE_STRATEGY), strategy),
            &["RollingUpdate", "OnDelete"],
        ),
    }
}

fn validate_rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    for name in ["maxUnavailable", "maxSurge"] {
        let path = path.child(name);
        int_or_percent::validate(rolling.field(name), &path, errors);
        int_or_percent::at_most_100_percent(rolling.field(name), &path, errors);
    }
    let surge = rolling.field("maxSurge");
    match (int_or_percent::is_zero(rolling.field("maxUnavailable")), int_or_percent::is_zero(surge)) {
        (false, false) => errors.invalid(
            path.child("maxSurge"),
            internal(Shape::Int, surge),
            "may not be set when maxUnavailable is non-zero",
        ),
        (true, true) => errors.required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

fn validate_status_update(set: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = set.field("status");
    none_negative(
        status,
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
        &path,
        errors,
    );
    collisions_not_decremented(status, old.field("status"), &path, errors);
}

/// On an update only of a new template.
fn warnings(set: &Value, old: Option<&Value>) -> Vec<String> {
    let template = set.field("spec").field("template");
    if old.is_some_and(|old| same_template(template, old.field("spec").field("template"))) {
        return Vec::new();
    }
    pod_warnings::of_template(template, &Path::new("spec").child("template"))
}

/// What `kubectl get` shows.
mod columns {
    use crate::{
        object::Fields,
        table::{
            AGE, Column, NAME, computed, integer,
            text::labels,
            workload::{SELECTOR, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        integer("Desired", "/status/desiredNumberScheduled", "Nodes that should run a pod."),
        integer("Current", "/status/currentNumberScheduled", "Nodes that should and do run a pod."),
        integer("Ready", "/status/numberReady", "Nodes whose pod is ready."),
        integer(
            "Up-to-date",
            "/status/updatedNumberScheduled",
            "Nodes whose pod is of the current template.",
        ),
        integer("Available", "/status/numberAvailable", "Nodes whose pod has been ready for long enough."),
        computed(
            "Node Selector",
            |set| labels(set.field("spec").field("template").field("spec").field("nodeSelector")),
            "Labels of the nodes that should run a pod.",
        ),
        AGE,
        TEMPLATE_CONTAINERS,
        TEMPLATE_IMAGES,
        SELECTOR,
    ];
}
