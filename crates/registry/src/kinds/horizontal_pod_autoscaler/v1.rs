//! `HorizontalPodAutoscaler` as `autoscaling/v1` shows it.
//!
//! That version knows one metric, the use of CPU. Everything else travels in
//! annotations, so that a client of `v1` can write back what it has read:
//! metrics in a form older than `v2`, the behaviour in upstream's internal one.

use serde_json::{Map, Value, json};

use super::cpu_metric;
use crate::{
    internal_form::{Form, LABEL_SELECTOR, Shape, compact, field, optional},
    object::{Fields, FieldsMut},
    strategy::Conversion,
};

pub const CONVERSION: Conversion =
    Conversion { version: "v1", stored_as: "autoscaling/v2", to_stored: to_v2, from_stored: to_v1 };

pub const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
pub const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
pub const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
pub const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// None of these is stored.
const ROUND_TRIP: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// From `v1` to `v2`. Their defaults are the same, and are not filled in here: who
/// applies in one version must see what was left out in the other.
pub fn to_v2(v1: &Value) -> Value {
    let mut v2 = v1.clone();
    v2.set("apiVersion", "autoscaling/v2");
    let annotations = v1.field("metadata").field("annotations");
    let read = |name: &str| serde_json::from_str::<Value>(annotations.text(name)).ok();
    let list = |name: &str| match read(name) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };

    let spec = v2.object_mut("spec");
    let utilization = spec.remove("targetCPUUtilizationPercentage").and_then(|value| value.as_i64());
    let mut metrics: Vec<Value> =
        list(METRICS).into_iter().flatten().map(|metric| metric_to_v2(&metric, &TARGETS)).collect();
    metrics.iter_mut().for_each(set_target_types);
    metrics.extend(utilization.map(cpu_metric));
    if !metrics.is_empty() {
        spec.set("metrics", metrics);
    }
    let behavior = read(BEHAVIOR).map(|behavior| external_names(&behavior)).unwrap_or_default();
    if behavior.has("scaleUp") || behavior.has("scaleDown") {
        spec.set("behavior", behavior);
    }

    if v1.has("status") || annotations.has(CURRENT_METRICS) || annotations.has(CONDITIONS) {
        let status = v2.object_mut("status");
        if let Some(percentage) = status.remove("currentCPUUtilizationPercentage") {
            let current = json!({"averageUtilization": percentage});
            status.set(
                "currentMetrics",
                json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]),
            );
        }
        if let Some(metrics) = list(CURRENT_METRICS) {
            let metrics: Vec<Value> = metrics.iter().map(|metric| metric_to_v2(metric, &CURRENTS)).collect();
            status.set("currentMetrics", metrics);
        }
        if let Some(conditions) = list(CONDITIONS) {
            status.set("conditions", conditions);
        }
    }
    drop_annotations(&mut v2);
    v2
}

/// From `v2` to `v1`.
pub fn to_v1(v2: &Value) -> Value {
    let mut v1 = v2.clone();
    v1.set("apiVersion", "autoscaling/v1");
    drop_annotations(&mut v1);
    let mut annotations = Map::new();

    let spec = v2.field("spec");
    let (cpu, others): (Vec<&Value>, Vec<&Value>) =
        spec.items("metrics").iter().partition(|metric| cpu_utilization(metric, "target").is_some());
    if !others.is_empty() {
        let others: Vec<Value> = others.into_iter().map(|metric| metric_to_v1(metric, &TARGETS)).collect();
        annotations.insert(METRICS.into(), compact(Shape::List(V1_METRIC), &others.into()).into());
    }
    if let Some(behavior) = spec.get_field("behavior") {
        annotations.insert(BEHAVIOR.into(), compact(Shape::Ptr(BEHAVIOR_FORM), behavior).into());
    }
    let out = v1.object_mut("spec");
    out.remove("metrics");
    out.remove("behavior");
    if let Some(percentage) = cpu.first().and_then(|metric| cpu_utilization(metric, "target")) {
        out.set("targetCPUUtilizationPercentage", percentage.clone());
    }

    if let Some(status) = v2.get_field("status") {
        let current = status.items("currentMetrics");
        if !current.is_empty() {
            let old: Value = current.iter().map(|metric| metric_to_v1(metric, &CURRENTS)).collect();
            annotations.insert(CURRENT_METRICS.into(), compact(Shape::List(V1_CURRENT_METRIC), &old).into());
        }
        if !status.items("conditions").is_empty() {
            let text = compact(Shape::List(CONDITION), status.field("conditions"));
            annotations.insert(CONDITIONS.into(), text.into());
        }
        let out = v1.object_mut("status");
        out.remove("currentMetrics");
        out.remove("conditions");
        // The last one wins.
        if let Some(percentage) = current.iter().rev().find_map(|metric| cpu_utilization(metric, "current")) {
            out.set("currentCPUUtilizationPercentage", percentage.clone());
        }
    }
    for (name, text) in annotations {
        v1.object_mut("metadata").object_mut("annotations").set(&name, text);
    }
    v1
}

fn drop_annotations(object: &mut Value) {
    if !object.field("metadata").has("annotations") {
        return;
    }
    let metadata = object.object_mut("metadata");
    let annotations = metadata.object_mut("annotations");
    for name in ROUND_TRIP {
        annotations.remove(name);
    }
    if metadata.entries("annotations").next().is_none() {
        metadata.remove("annotations");
    }
}

fn cpu_utilization<'a>(metric: &'a Value, part: &str) -> Option<&'a Value> {
    let resource = metric.field("resource");
    let cpu = metric.text("type") == "Resource" && resource.text("name") == "cpu";
    resource.field(part).get_field("averageUtilization").filter(|_| cpu)
}

/// Where a field of a metric stands: old name, then the path in `v2`.
type Renamed = (&'static str, &'static [&'static str]);

/// The sources of a metric, each with its fields: what is aimed at and what was
/// measured differ in these names only.
macro_rules! sources {
    ($side:literal, $value:literal, $average:literal, $utilization:literal) => {
        [
            (
                "object",
                &[
                    ("target", &["describedObject"]),
                    ("metricName", &["metric", "name"]),
                    ($value, &[$side, "value"]),
                    ("selector", &["metric", "selector"]),
                    ("averageValue", &[$side, "averageValue"]),
                ],
            ),
            (
                "pods",
                &[
                    ("metricName", &["metric", "name"]),
                    ($average, &[$side, "averageValue"]),
                    ("selector", &["metric", "selector"]),
                ],
            ),
            (
                "resource",
                &[
                    ("name", &["name"]),
                    ($utilization, &[$side, "averageUtilization"]),
                    ($average, &[$side, "averageValue"]),
                ],
            ),
            (
                "containerResource",
                &[
                    ("name", &["name"]),
                    ($utilization, &[$side, "averageUtilization"]),
                    ($average, &[$side, "averageValue"]),
                    ("container", &["container"]),
                ],
            ),
            (
                "external",
                &[
                    ("metricName", &["metric", "name"]),
                    ("metricSelector", &["metric", "selector"]),
                    ($value, &[$side, "value"]),
                    ($average, &[$side, "averageValue"]),
                ],
            ),
        ]
    };
}

const TARGETS: Sources = sources!("target", "targetValue", "targetAverageValue", "targetAverageUtilization");

/// As [`TARGETS`], for what was measured.
const CURRENTS: Sources =
    sources!("current", "currentValue", "currentAverageValue", "currentAverageUtilization");

/// Fields of the older form that are always there, `"0"` for none.
const ALWAYS: [(&str, &str); 7] = [
    ("object", "targetValue"),
    ("pods", "targetAverageValue"),
    ("object", "currentValue"),
    ("pods", "currentAverageValue"),
    ("resource", "currentAverageValue"),
    ("containerResource", "currentAverageValue"),
    ("external", "currentValue"),
];

type Sources = [(&'static str, &'static [Renamed]); 5];

fn metric_to_v1(metric: &Value, sources: &Sources) -> Value {
    let mut out = json!({"type": metric.text("type")});
    for (name, fields) in sources {
        let Some(source) = metric.get_field(name) else { continue };
        let target = out.object_mut(name);
        for (old, path) in *fields {
            let value = path.iter().fold(source, |value, name| value.field(name));
            if !value.is_null() {
                target.set(old, value.clone());
            } else if ALWAYS.contains(&(*name, *old)) {
                target.set(old, "0");
            }
        }
    }
    out
}

fn metric_to_v2(metric: &Value, sources: &Sources) -> Value {
    let mut out = json!({"type": metric.text("type")});
    for (name, fields) in sources {
        let Some(source) = metric.get_field(name) else { continue };
        let target = out.object_mut(name);
        for (old, path) in *fields {
            let value = match source.get_field(old) {
                Some(value) => value.clone(),
                None if ALWAYS.contains(&(*name, *old)) => "0".into(),
                None => continue,
            };
            put(target, path, value);
        }
    }
    out
}

/// The older form has no type of target: it follows from what is there.
fn set_target_types(metric: &mut Value) {
    for (name, _) in TARGETS {
        if !metric.has(name) {
            continue;
        }
        let target = metric.object_mut(name).object_mut("target");
        let kind = match name {
            "resource" | "containerResource" if target.has("averageUtilization") => "Utilization",
            "object" if !target.has("averageValue") => "Value",
            "external" if target.has("value") => "Value",
            _ => "AverageValue",
        };
        target.set("type", kind);
        // Written only because the older form cannot leave it out.
        if name == "object" && kind == "AverageValue" && target.text("value") == "0" {
            target.remove("value");
        }
    }
}

fn put(object: &mut Value, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => object.set(name, value),
        [name, rest @ ..] => put(object.object_mut(name), rest, value),
    }
}

/// Go's field names as users write them, whatever their case.
fn external_names(value: &Value) -> Value {
    match value {
        Value::Object(entries) => entries
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let mut chars = name.chars();
                let first = chars.next().map(|first| first.to_ascii_lowercase());
                (first.into_iter().chain(chars).collect::<String>(), external_names(value))
            })
            .collect(),
        Value::Array(items) => items.iter().map(external_names).collect(),
        other => other.clone(),
    }
}

const REFERENCE: Shape = Shape::Struct(Form::Written(&[
    field("kind", "kind", Shape::Text),
    field("name", "name", Shape::Text),
    optional("apiVersion", Shape::Text),
]));

const SELECTOR: Shape = Shape::Ptr(LABEL_SELECTOR);

const V1_METRIC: Form = Form::Written(&[
    field("type", "type", Shape::Text),
    optional(
        "object",
        Shape::Ptr(Form::Written(&[
            field("target", "target", REFERENCE),
            field("metricName", "metricName", Shape::Text),
            field("targetValue", "targetValue", Shape::Text),
            optional("selector", SELECTOR),
            optional("averageValue", Shape::Raw),
        ])),
    ),
    optional(
        "pods",
        Shape::Ptr(Form::Written(&[
            field("metricName", "metricName", Shape::Text),
            field("targetAverageValue", "targetAverageValue", Shape::Text),
            optional("selector", SELECTOR),
        ])),
    ),
    optional(
        "resource",
        Shape::Ptr(Form::Written(&[
            field("name", "name", Shape::Text),
            optional("targetAverageUtilization", Shape::Raw),
            optional("targetAverageValue", Shape::Raw),
        ])),
    ),
    optional(
        "containerResource",
        Shape::Ptr(Form::Written(&[
            field("name", "name", Shape::Text),
            optional("targetAverageUtilization", Shape::Raw),
            optional("targetAverageValue", Shape::Raw),
            field("container", "container", Shape::Text),
        ])),
    ),
    optional(
        "external",
        Shape::Ptr(Form::Written(&[
            field("metricName", "metricName", Shape::Text),
            optional("metricSelector", SELECTOR),
            optional("targetValue", Shape::Raw),
            optional("targetAverageValue", Shape::Raw),
        ])),
    ),
]);

const V1_CURRENT_METRIC: Form = Form::Written(&[
    field("type", "type", Shape::Text),
    optional(
        "object",
        Shape::Ptr(Form::Written(&[
            field("target", "target", REFERENCE),
            field("metricName", "metricName", Shape::Text),
            field("currentValue", "currentValue", Shape::Text),
            optional("selector", SELECTOR),
            optional("averageValue", Shape::Raw),
        ])),
    ),
    optional(
        "pods",
        Shape::Ptr(Form::Written(&[
            field("metricName", "metricName", Shape::Text),
            field("currentAverageValue", "currentAverageValue", Shape::Text),
            optional("selector", SELECTOR),
        ])),
    ),
    optional(
        "resource",
        Shape::Ptr(Form::Written(&[
            field("name", "name", Shape::Text),
            optional("currentAverageUtilization", Shape::Raw),
            field("currentAverageValue", "currentAverageValue", Shape::Text),
        ])),
    ),
    optional(
        "containerResource",
        Shape::Ptr(Form::Written(&[
            field("name", "name", Shape::Text),
            optional("currentAverageUtilization", Shape::Raw),
            field("currentAverageValue", "currentAverageValue", Shape::Text),
            field("container", "container", Shape::Text),
        ])),
    ),
    optional(
        "external",
        Shape::Ptr(Form::Written(&[
            field("metricName", "metricName", Shape::Text),
            optional("metricSelector", SELECTOR),
            field("currentValue", "currentValue", Shape::Text),
            optional("currentAverageValue", Shape::Raw),
        ])),
    ),
]);

const CONDITION: Form = Form::Written(&[
    field("type", "type", Shape::Text),
    field("status", "status", Shape::Text),
    field("lastTransitionTime", "lastTransitionTime", Shape::Raw),
    optional("reason", Shape::Text),
    optional("message", Shape::Text),
]);

const BEHAVIOR_FORM: Form = Form::Message("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior");
