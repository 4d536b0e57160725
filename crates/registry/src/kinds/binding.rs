//! `Binding`: how a scheduler gives a pod its node.
//!
//! Not stored: [`bind`] changes the pod. The names of pod and binding, the
//! uid and the resource version are compared by the caller.

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    status::{ResourceName, Status},
};

use super::pod::condition;
use crate::{
    context::Cluster,
    object::{Fields, FieldsMut},
    strategy::{PostedTo, Strategy},
    validation::form::named,
};

pub const STRATEGY: Strategy = Strategy {
    tabular: false,
    posted_to: Some(PostedTo { group: "", version: "v1", plural: "pods", subresource: "binding" }),
    ..Strategy::of("", "Binding")
};

/// Copied from a node that exists onto the pod.
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Why a pod was not bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The binding itself is wrong: a 500 without reason, whose message joins these.
    Invalid(Errors),
    /// A 409 on `pods/binding` for this reason.
    Conflict(String),
}

/// What is posted to the `binding` subresource of a pod.
pub fn bind_pod(pod: &mut Value, binding: &Value, cluster: &dyn Cluster) -> Result<(), Status> {
    let node = cluster.get("", "nodes", "", binding.field("target").text("name"));
    bind(pod, binding, node.as_ref(), &cluster.now()).map_err(|refusal| match refusal {
        Refusal::Invalid(errors) => Status::unexpected(joined(&errors)),
        Refusal::Conflict(why) => {
            let resource = ResourceName { group: "", resource: "pods/binding" };
            Status::conflict(resource, pod.field("metadata").text("name"), &why)
        }
    })
}

fn joined(errors: &Errors) -> String {
    let texts: Vec<String> =
        errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Assigns the pod to the binding's target at `now`. `node` is the target, if there is one.
pub fn bind(pod: &mut Value, binding: &Value, node: Option<&Value>, now: &str) -> Result<(), Refusal> {
    let mut errors = Errors::default();
    validate(binding, &mut errors);
    if !errors.is_empty() {
        return Err(Refusal::Invalid(errors));
    }
    let name = pod.field("metadata").text("name");
    let (assigned, spec) = (pod.field("spec").text("nodeName"), pod.field("spec"));
    if pod.field("metadata").has("deletionTimestamp") {
        return Err(Refusal::Conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    if !assigned.is_empty() {
        return Err(Refusal::Conflict(format!("pod {name} is already assigned to node \"{assigned}\"")));
    }
    if !spec.items("schedulingGates").is_empty() {
        return Err(Refusal::Conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    pod.object_mut("spec").set("nodeName", binding.field("target").text("name"));
    for map in ["annotations", "labels"] {
        for (key, value) in binding.field("metadata").entries(map) {
            pod.object_mut("metadata").object_mut(map).set(key, value.clone());
        }
    }
    for label in TOPOLOGY_LABELS {
        let value = node.and_then(|node| node.field("metadata").field("labels").get_field(label));
        if let Some(value) = value {
            pod.object_mut("metadata").object_mut("labels").set(label, value.clone());
        }
    }
    let status = pod.object_mut("status");
    status.remove("nominatedNodeName");
    condition::set(status, json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

fn validate(binding: &Value, errors: &mut Errors) {
    let target = binding.field("target");
    let path = Path::new("target");
    let kind = target.text("kind");
    if !matches!(kind, "" | "Node") {
        errors.not_supported(path.child("kind"), named(kind), &["Node", "<empty>"]);
    }
    if target.text("name").is_empty() {
        errors.required(path.child("name"), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(refusal: Refusal) -> Vec<String> {
        match refusal {
            Refusal::Invalid(errors) => {
                errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
            }
            Refusal::Conflict(text) => vec![text],
        }
    }

    #[test]
    fn what_cannot_be_bound_is_refused_as_upstream_refuses_it() {
        let target = json!({"kind": "Node", "name": "n"});
        for (pod, target, expected) in [
            (
                json!({}),
                json!({"kind": "Foo"}),
                &[
                    "target.kind: Unsupported value: \"Foo\": supported values: \"Node\", \"<empty>\"",
                    "target.name: Required value",
                ][..],
            ),
            (
                json!({"spec": {"nodeName": "m"}}),
                target.clone(),
                &["pod p is already assigned to node \"m\""],
            ),
            (
                json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
                target.clone(),
                &["pod p has non-empty .spec.schedulingGates"],
            ),
            (
                json!({"metadata": {"deletionTimestamp": "t"}}),
                target,
                &["pod p is being deleted, cannot be assigned to a host"],
            ),
        ] {
            let mut pod = pod;
            pod.object_mut("metadata").set("name", "p");
            let before = pod.clone();
            let refusal = bind(&mut pod, &json!({"target": target}), None, "now").unwrap_err();
            assert_eq!(messages(refusal), expected);
            assert_eq!(pod, before);
        }
    }

    #[test]
    fn a_bound_pod_has_its_node_and_what_came_with_it() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"nominatedNodeName": "x"}});
        let binding =
            json!({"metadata": {"annotations": {"a": "b"}, "labels": {"l": "m"}}, "target": {"name": "n"}});
        let node = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z", "other": "o"}}});
        bind(&mut pod, &binding, Some(&node), "now").unwrap();
        assert_eq!(
            pod,
            json!({
                "metadata": {
                    "name": "p",
                    "annotations": {"a": "b"},
                    "labels": {"l": "m", "topology.kubernetes.io/zone": "z"},
                },
                "spec": {"nodeName": "n"},
                "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "now"}]},
            })
        );
    }
}
