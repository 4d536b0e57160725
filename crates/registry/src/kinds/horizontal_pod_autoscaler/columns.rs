//! What `kubectl get` shows.

use serde_json::Value;

use crate::{
    object::Fields,
    table::{
        AGE, Cell, Column, NAME, NONE, UNKNOWN, UNSET, column, computed,
        text::{first, plain},
    },
};

/// Metrics that are shown before they are only counted.
const SHOWN_METRICS: usize = 2;

/// Where the v1 form keeps the metrics that it has no fields for.
const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";

const CURRENT_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    computed("Reference", reference, "What is scaled."),
    computed("Targets", targets, "Metrics as they are and as they should be."),
    computed("MinPods", min_pods, "Fewest pods that there may be."),
    column("MaxPods", Cell::Integer("/spec/maxReplicas"), "Most pods that there may be."),
    column("Replicas", Cell::Integer("/status/currentReplicas"), "Pods that there are."),
    AGE,
];

fn reference(autoscaler: &Value) -> Value {
    let target = autoscaler.field("spec").field("scaleTargetRef");
    format!("{}/{}", target.text("kind"), target.text("name")).into()
}

fn min_pods(autoscaler: &Value) -> Value {
    autoscaler.field("spec").int("minReplicas").map_or_else(|| UNSET.into(), |min| min.to_string()).into()
}

fn targets(autoscaler: &Value) -> Value {
    let spec = autoscaler.field("spec");
    let status = autoscaler.field("status");
    let metrics: Vec<Metric> = if spec.has("metrics") {
        let current = status.items("currentMetrics");
        let metrics = spec.items("metrics").iter().enumerate();
        metrics.map(|(index, metric)| Metric::v2(metric, current.get(index))).collect()
    } else {
        v1_metrics(autoscaler)
    };
    if metrics.is_empty() {
        return NONE.into();
    }
    let texts: Vec<String> = metrics.iter().map(Metric::text).collect();
    first(SHOWN_METRICS, ", ", &texts).into()
}

/// The metrics of the v1 form: its CPU target and those kept in annotations.
fn v1_metrics(autoscaler: &Value) -> Vec<Metric> {
    let annotations = autoscaler.field("metadata").field("annotations");
    let list = |annotation| match serde_json::from_str(annotations.text(annotation)) {
        Ok(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let (metrics, current) = (list(METRICS_ANNOTATION), list(CURRENT_ANNOTATION));
    let cpu = autoscaler.field("spec").int("targetCPUUtilizationPercentage").map(|target| {
        serde_json::json!({
            "type": "Resource",
            "resource": {"name": "cpu", "targetAverageUtilization": target},
        })
    });
    // Current metrics are all listed, so they tell where the CPU target stood.
    let is_cpu =
        |metric: &Value| metric.text("type") == "Resource" && metric.field("resource").text("name") == "cpu";
    let position = current.iter().position(is_cpu).unwrap_or(metrics.len()).min(metrics.len());
    let mut all = metrics;
    if let Some(cpu) = cpu {
        all.insert(position, cpu);
    }
    all.iter().enumerate().map(|(index, metric)| Metric::v1(metric, current.get(index))).collect()
}

/// One metric: what it should be and what it is, if known.
struct Metric {
    kind: String,
    /// The resource, if it is about one.
    name: String,
    target: Amounts,
    current: Amounts,
}

impl Metric {
    fn v2(metric: &Value, current: Option<&Value>) -> Self {
        let amounts = |amounts: &Value| Amounts {
            value: amounts.get_field("value").map(plain),
            average_value: amounts.get_field("averageValue").map(plain),
            average_utilization: amounts.int("averageUtilization"),
        };
        let (kind, source) = source(metric);
        let current = current.map(|current| current.field(field_of(kind)).field("current"));
        Self {
            kind: kind.into(),
            name: source.text("name").into(),
            target: amounts(source.field("target")),
            current: current.map(amounts).unwrap_or_default(),
        }
    }

    fn v1(metric: &Value, current: Option<&Value>) -> Self {
        let (kind, source) = source(metric);
        // An object's average has the same name in both lists.
        let amounts = |source: &Value, value: &str, average: &str, utilization: &str| Amounts {
            value: source.get_field(value).map(plain),
            average_value: source.get_field(average).or(source.get_field("averageValue")).map(plain),
            average_utilization: source.int(utilization),
        };
        let current = current.map(|current| current.field(field_of(kind)));
        Self {
            kind: kind.into(),
            name: source.text("name").into(),
            target: amounts(source, "targetValue", "targetAverageValue", "targetAverageUtilization"),
            current: current
                .map(|it| amounts(it, "currentValue", "currentAverageValue", "currentAverageUtilization"))
                .unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        let (target, current) = (&self.target, &self.current);
        let known = |amount: &Option<String>| amount.clone().unwrap_or_else(|| UNKNOWN.into());
        let average = || known(&current.average_value);
        match (self.kind.as_str(), &target.average_value) {
            ("Pods", target) => format!("{}/{}", average(), target.as_deref().unwrap_or("0")),
            ("Object" | "External", Some(target)) => format!("{}/{target} (avg)", average()),
            ("Object" | "External", None) => {
                format!("{}/{}", known(&current.value), target.value.as_deref().unwrap_or("0"))
            }
            ("Resource" | "ContainerResource", Some(target)) => {
                format!("{}: {}/{target}", self.name, average())
            }
            ("Resource" | "ContainerResource", None) => {
                let percent = |number: Option<i64>, missing: &str| {
                    number.map_or_else(|| missing.into(), |number| format!("{number}%"))
                };
                let current = percent(current.average_utilization, UNKNOWN);
                format!("{}: {current}/{}", self.name, percent(target.average_utilization, "<auto>"))
            }
            _ => "<unknown type>".into(),
        }
    }
}

#[derive(Default)]
struct Amounts {
    value: Option<String>,
    average_value: Option<String>,
    average_utilization: Option<i64>,
}

fn source(metric: &Value) -> (&str, &Value) {
    let kind = metric.text("type");
    (kind, metric.field(field_of(kind)))
}

/// The field that describes a metric of a type.
fn field_of(kind: &str) -> &'static str {
    match kind {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        _ => "resource",
    }
}
