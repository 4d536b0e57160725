//! `HorizontalPodAutoscaler`, which is stored as `autoscaling/v2`. How it looks
//! as `autoscaling/v1` is in [`v1`].

mod columns;
pub mod v1;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    format,
    quantity::Quantity,
};

use crate::{
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Strategy, Subresource},
    validation::{
        bounds::{NOT_NEGATIVE, none_negative},
        form::{must_be, named, pointer},
        resource_list,
    },
};

/// For objects in their `v2` form.
pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    validate_status_update,
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    conversions: &[v1::CONVERSION],
    columns: columns::COLUMNS,
    ..Strategy::of("autoscaling", "HorizontalPodAutoscaler")
};

/// The percentage of the CPU asked for that pods use, if nobody says otherwise.
const DEFAULT_CPU_UTILIZATION: i64 = 80;
pub const MAX_STABILIZATION_SECONDS: i64 = 3600;
pub const MAX_PERIOD_SECONDS: i64 = 1800;

const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The order in which sources are looked at: the field, and the type that names it.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

fn default(autoscaler: &mut Value) {
    let spec = autoscaler.object_mut("spec");
    spec.default_field("minReplicas", 1);
    if spec.items("metrics").is_empty() {
        spec.set("metrics", json!([cpu_metric(DEFAULT_CPU_UTILIZATION)]));
    }
    if spec.has("behavior") {
        let behavior = spec.object_mut("behavior");
        let up = behavior.object_mut("scaleUp");
        up.default_field("stabilizationWindowSeconds", 0);
        default_scaling(
            up,
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
        let down = behavior.object_mut("scaleDown");
        default_scaling(down, json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

fn default_scaling(rules: &mut Value, policies: Value) {
    if !rules.has("selectPolicy") {
        rules.set("selectPolicy", "Max");
    }
    if !rules.has("policies") {
        rules.set("policies", policies);
    }
}

/// A metric that holds pods at a percentage of the CPU they ask for.
pub fn cpu_metric(percentage: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percentage}},
    })
}

fn validate(autoscaler: &Value, errors: &mut Errors) {
    validate_spec(autoscaler.field("spec"), None, errors);
}

fn validate_update(autoscaler: &Value, old: &Value, errors: &mut Errors) {
    validate_spec(autoscaler.field("spec"), Some(old.field("spec")), errors);
}

fn validate_status_update(autoscaler: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    none_negative(autoscaler.field("status"), &["currentReplicas", "desiredReplicas"], &path, errors);
}

fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = Path::new("spec");
    let min = spec.int("minReplicas");
    let max = spec.int("maxReplicas").unwrap_or_default();
    let zero_is_stored = old.is_some_and(|old| old.int("minReplicas") == Some(0));
    let lowest = i64::from(!zero_is_stored);
    if let Some(min) = min.filter(|min| *min < lowest) {
        errors.invalid(path.child("minReplicas"), min, &format!("must be greater than or equal to {lowest}"));
    }
    if max == 0 {
        errors.required(path.child("maxReplicas"), "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(path.child("maxReplicas"), max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(path.child("maxReplicas"), max, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    let unchanged = old.is_some_and(|old| {
        let old = old.field("scaleTargetRef");
        ["apiVersion", "kind"].iter().all(|name| old.text(name) == target.text(name))
    });
    let group = match target.text("kind") {
        _ if unchanged => ApiVersion::Unchecked,
        "ReplicationController" => ApiVersion::AnyGroup,
        _ => ApiVersion::NamedGroup,
    };
    validate_reference(target, group, &path.child("scaleTargetRef"), errors);
    validate_metrics(spec, old, &path.child("metrics"), errors);
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.field("behavior").get_field(direction) {
            validate_scaling(rules, &path.child("behavior").child(direction), errors);
        }
    }
}

/// What the version of a reference must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApiVersion {
    Unchecked,
    /// Also the core group, which has no name.
    AnyGroup,
    NamedGroup,
}

fn validate_reference(reference: &Value, version: ApiVersion, path: &Path<'_>, errors: &mut Errors) {
    for name in ["kind", "name"] {
        let text = reference.text(name);
        if text.is_empty() {
            errors.required(path.child(name), "");
        } else {
            must_be(format::path_segment, text, path.child(name), errors);
        }
    }
    let text = reference.text("apiVersion");
    if let Some(problem) = version_problem(text, version) {
        errors.invalid(path.child("apiVersion"), text, &problem);
    }
}

fn version_problem(text: &str, version: ApiVersion) -> Option<String> {
    let slashes = text.matches('/').count();
    let has_group = text.split_once('/').is_some_and(|(group, _)| !group.is_empty());
    match version {
        ApiVersion::Unchecked => None,
        _ if slashes > 1 => Some(format!("unexpected GroupVersion string: {text}")),
        ApiVersion::NamedGroup if !has_group => Some("apiVersion must specify API group".into()),
        _ => None,
    }
}

fn validate_metrics(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    // One bad version that is stored takes the check away from all.
    let stored_is_bad = old.is_some_and(|old| {
        old.items("metrics").iter().filter(|metric| metric.text("type") == "Object").any(|metric| {
            let described = metric.field("object").field("describedObject");
            version_problem(described.text("apiVersion"), ApiVersion::AnyGroup).is_some()
        })
    });
    let version = if stored_is_bad { ApiVersion::Unchecked } else { ApiVersion::AnyGroup };
    let metrics = spec.items("metrics");
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(metric, version, &path.index(index), errors);
    }
    let outside = metrics.iter().any(|metric| matches!(metric.text("type"), "Object" | "External"));
    if spec.int("minReplicas") == Some(0) && !outside {
        errors.forbidden(
            path,
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
}

fn validate_metric(metric: &Value, version: ApiVersion, path: &Path<'_>, errors: &mut Errors) {
    let kind = metric.text("type");
    if kind.is_empty() {
        errors.required(path.child("type"), "must specify a metric source type");
    }
    let expected = SOURCES.iter().find(|(_, name)| *name == kind).map(|(field, _)| *field);
    if expected.is_none() {
        errors.not_supported(path.child("type"), named(kind), &SOURCE_TYPES);
    }
    let mut present = SOURCES.iter().map(|(field, _)| *field).filter(|field| metric.has(field));
    // Only the first source is looked into, the others are one too many.
    if let Some(source) = present.clone().next() {
        validate_source(source, metric.field(source), version, &path.child(source), errors);
    }
    match expected {
        Some(field) if !metric.has(field) => {
            errors.required(path.child(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.not_supported(path.child("type"), named(kind), &SOURCE_TYPES),
    }
    if present.clone().count() != 1 {
        for field in present.by_ref().filter(|field| Some(*field) != expected) {
            errors.forbidden(path.child(field), "must populate the given metric source only");
        }
    }
}

fn validate_source(field: &str, source: &Value, version: ApiVersion, path: &Path<'_>, errors: &mut Errors) {
    match field {
        "object" => {
            let described = source.field("describedObject");
            validate_reference(described, version, &path.child("describedObject"), errors);
            validate_metric_name(source, path, errors);
        }
        "external" | "pods" => validate_metric_name(source, path, errors),
        _ => {
            let name = source.text("name");
            if name.is_empty() {
                errors.required(path.child("name"), "must specify a resource name");
            } else if field == "containerResource" {
                resource_list::validate_container_name(name, &path.child("name"), errors);
            }
            if field == "containerResource" {
                let container = source.text("container");
                if container.is_empty() {
                    errors.required(path.child("container"), "must specify a container");
                } else {
                    must_be(format::dns_label, container, path.child("container"), errors);
                }
            }
        }
    }
    let target = source.field("target");
    let path = path.child("target");
    validate_target(target, &path, errors);
    let (value, average, percentage) =
        (target.has("value"), target.has("averageValue"), target.has("averageUtilization"));
    match field {
        "object" if !value && !average => {
            errors.required(path.child("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !value && !average => errors.required(
            path.child("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => errors.forbidden(
            path.child("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            errors.required(path.child("averageValue"), "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !percentage && !average => errors.required(
            path.child("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if percentage && average => errors.forbidden(
            path.child("averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn validate_metric_name(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = source.field("metric").text("name");
    let metric = path.child("metric");
    let path = metric.child("name");
    if name.is_empty() {
        errors.required(path, "must specify a metric name");
    } else {
        must_be(format::path_segment, name, path, errors);
    }
}

fn validate_target(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = target.text("type");
    if kind.is_empty() {
        errors.required(path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(path.child("type"), named(kind), "must be either Utilization, Value, or AverageValue");
    }
    for name in ["value", "averageValue"] {
        if let Some(quantity) = resource_list::quantity(target, name)
            && (quantity.is_negative() || quantity.is_zero())
        {
            errors.invalid(path.child(name), quantity.to_string(), "must be positive");
        }
    }
    if let Some(percentage) = target.int("averageUtilization").filter(|percentage| *percentage < 1) {
        errors.invalid(path.child("averageUtilization"), percentage, "must be greater than 0");
    }
}

fn validate_scaling(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(seconds) = rules.int("stabilizationWindowSeconds") {
        let path = path.child("stabilizationWindowSeconds");
        if seconds < 0 {
            errors.invalid(path, seconds, "must be greater than or equal to zero");
        }
        if seconds > MAX_STABILIZATION_SECONDS {
            let detail = format!("must be less than or equal to {MAX_STABILIZATION_SECONDS}");
            errors.invalid(path, seconds, &detail);
        }
    }
    if rules.has("selectPolicy") && !matches!(rules.text("selectPolicy"), "Disabled" | "Max" | "Min") {
        let bad = pointer(rules, "selectPolicy");
        errors.not_supported(path.child("selectPolicy"), bad, &["Disabled", "Max", "Min"]);
    }
    let policies = path.child("policies");
    if rules.items("policies").is_empty() {
        errors.required(policies, "must specify at least one Policy");
    }
    for (index, policy) in rules.items("policies").iter().enumerate() {
        validate_policy(policy, &policies.index(index), errors);
    }
    let tolerance = rules.get_field("tolerance").and_then(|value| Quantity::from_json(value).ok());
    if let Some(tolerance) = tolerance.filter(Quantity::is_negative) {
        errors.invalid(path.child("tolerance"), tolerance.to_string(), NOT_NEGATIVE);
    }
}

fn validate_policy(policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = policy.text("type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.not_supported(path.child("type"), named(kind), &["Percent", "Pods"]);
    }
    for name in ["value", "periodSeconds"] {
        let number = policy.int(name).unwrap_or_default();
        if number <= 0 {
            errors.invalid(path.child(name), number, "must be greater than zero");
        }
        if name == "periodSeconds" && number > MAX_PERIOD_SECONDS {
            let detail = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
            errors.invalid(path.child(name), number, &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(spec: &Value, old: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        validate_spec(spec, Some(old), &mut errors);
        errors.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    /// Zero and bad versions can only be stored from before.
    #[test]
    fn what_is_stored_stays_allowed() {
        let target = json!({"apiVersion": "v1", "kind": "Deployment", "name": "d"});
        let zero = json!({"minReplicas": 0, "maxReplicas": 1, "scaleTargetRef": target});
        assert_eq!(fields(&zero, &zero), ["spec.metrics"]);
        let one = json!({"minReplicas": 1, "maxReplicas": 1, "scaleTargetRef": target});
        assert_eq!(fields(&zero, &one), ["spec.minReplicas", "spec.metrics"]);

        let described = |version: &str| {
            let mut spec = one.clone();
            let object = json!({
                "describedObject": {"apiVersion": version, "kind": "K", "name": "n"},
                "metric": {"name": "m"},
                "target": {"type": "Value", "value": "1"},
            });
            spec.set("metrics", json!([{"type": "Object", "object": object}]));
            spec
        };
        let place = "spec.metrics[0].object.describedObject.apiVersion";
        assert_eq!(fields(&described("a/b/c"), &described("v1")), [place]);
        assert_eq!(fields(&described("a/b/c"), &described("d/e/f")), Vec::<String>::new());
    }
}
