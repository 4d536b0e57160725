//! `Scale`: the number of replicas of a workload, apart from everything else.

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    selector::LabelSelector,
};

use crate::{
    object::{Fields, FieldsMut},
    strategy::Strategy,
    validation::bounds::not_negative,
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |scale, _old, errors| validate(scale, errors),
    columns: columns::COLUMNS,
    ..Strategy::of("autoscaling", "Scale")
};

/// The kind as group, version and kind.
pub const GROUP_VERSION_KIND: (&str, &str, &str) = ("autoscaling", "v1", "Scale");

fn validate(scale: &Value, errors: &mut Errors) {
    not_negative(scale.field("spec"), "replicas", &Path::new("spec"), errors);
}

/// The scale of a `Deployment`, `ReplicaSet`, `StatefulSet` or `ReplicationController`.
pub fn scale_of(parent: &Value) -> Value {
    let count = |part: &str| parent.field(part).int("replicas").unwrap_or_default();
    scale_with(parent, count("spec"), count("status"), &selector_text(parent))
}

/// The scale of an object that wants and has as many replicas, with this selector.
pub fn scale_with(parent: &Value, wanted: i64, found: i64, selector: &str) -> Value {
    let mut metadata = json!({});
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = parent.field("metadata").get_field(name) {
            metadata.set(name, value.clone());
        }
    }
    let mut status = json!({"replicas": found});
    if !selector.is_empty() {
        status.set("selector", selector);
    }
    let mut spec = json!({});
    if wanted != 0 {
        spec.set("replicas", wanted);
    }
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

fn selector_text(parent: &Value) -> String {
    let selector = parent.field("spec").field("selector");
    if parent.text("kind") == "ReplicationController" {
        let pairs: Vec<String> = parent
            .field("spec")
            .entries("selector")
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        return pairs.join(",");
    }
    LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

/// Writes the number of replicas to the parent. The version and uid of the
/// scale, where it has them, replace the parent's, so that the update finds out
/// whether they still hold.
pub fn apply_scale(parent: &mut Value, scale: &Value) {
    let replicas = scale.field("spec").int("replicas").unwrap_or_default();
    parent.object_mut("spec").set("replicas", replicas);
    keep_claims(parent, scale);
}

/// Copies what a scale says it has seen to its parent.
pub fn keep_claims(parent: &mut Value, scale: &Value) {
    for name in ["resourceVersion", "uid"] {
        let value = scale.field("metadata").text(name);
        if !value.is_empty() {
            parent.object_mut("metadata").set(name, value);
        }
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Column, integer, text};

    pub(super) const COLUMNS: &[Column] = &[
        text("Name", "/metadata/name", "Name of the object that is scaled."),
        integer("Desired", "/spec/replicas", "Pods that there should be."),
        integer("Available", "/status/replicas", "Pods that there are."),
        AGE,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_replicas_and_selector_of_its_parent() {
        let mut parent = json!({
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["2", "1"]}]}},
            "status": {"replicas": 2},
        });
        let scale = scale_of(&parent);
        assert_eq!(
            scale["metadata"],
            json!({"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7"})
        );
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b,c in (1,2)"}));

        apply_scale(&mut parent, &json!({"metadata": {"resourceVersion": "6"}, "spec": {}}));
        assert_eq!(parent["spec"]["replicas"], json!(0));
        assert_eq!(parent["metadata"]["resourceVersion"], json!("6"));
        assert_eq!(scale_of(&parent)["spec"], json!({}));
    }

    #[test]
    fn a_replication_controller_selects_by_a_plain_map() {
        let parent = json!({"kind": "ReplicationController", "spec": {"selector": {"b": "2", "a": "1"}}});
        assert_eq!(scale_of(&parent)["status"], json!({"replicas": 0, "selector": "a=1,b=2"}));
    }
}
