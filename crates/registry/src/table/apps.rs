//! Workloads of the `apps` group.

use serde_json::Value;
use sternpost_meta::selector::LabelSelector;

use super::core::{TEMPLATE_CONTAINERS, TEMPLATE_IMAGES};
use super::text::{labels, selector};
use super::{AGE, Cell, Column, NAME, NONE, column, computed, integer};
use crate::object::Fields;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "ControllerRevision" => CONTROLLER_REVISION,
        "DaemonSet" => DAEMON_SET,
        "Deployment" => DEPLOYMENT,
        "ReplicaSet" => REPLICA_SET,
        "StatefulSet" => STATEFUL_SET,
        _ => return None,
    })
}

static CONTROLLER_REVISION: &[Column] = &[
    NAME,
    computed("Controller", controller, "The object whose past this is."),
    column("Revision", Cell::Integer("/revision"), "Number of the revision; later ones are higher."),
    AGE,
];

static DAEMON_SET: &[Column] = &[
    NAME,
    integer("Desired", "/status/desiredNumberScheduled", "Nodes that should run a pod."),
    integer("Current", "/status/currentNumberScheduled", "Nodes that should and do run a pod."),
    integer("Ready", "/status/numberReady", "Nodes whose pod is ready."),
    integer("Up-to-date", "/status/updatedNumberScheduled", "Nodes whose pod is of the current template."),
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

static DEPLOYMENT: &[Column] = &[
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

static REPLICA_SET: &[Column] = &[
    NAME,
    integer("Desired", "/spec/replicas", "Pods that there should be."),
    integer("Current", "/status/replicas", "Pods that there are."),
    integer("Ready", "/status/readyReplicas", "Pods that are ready."),
    AGE,
    TEMPLATE_CONTAINERS,
    TEMPLATE_IMAGES,
    SELECTOR,
];

static STATEFUL_SET: &[Column] = &[NAME, READY_OF_DESIRED, AGE, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES];

const READY_OF_DESIRED: Column =
    computed("Ready", ready_of_desired, "Pods that are ready, of those there should be.");

pub(super) const SELECTOR: Column = computed(
    "Selector",
    |object| selector(object.field("spec").field("selector")),
    "Labels of the pods that are counted.",
)
.wide();

fn ready_of_desired(object: &Value) -> Value {
    let ready = object.field("status").int("readyReplicas").unwrap_or(0);
    let desired = object.field("spec").int("replicas").unwrap_or(0);
    format!("{ready}/{desired}").into()
}

/// Unlike with the other kinds, nothing stands for no requirement.
fn deployment_selector(deployment: &Value) -> Value {
    LabelSelector::from_object(deployment.field("spec").field("selector"))
        .map_or_else(|_| "<invalid>".into(), |selector| selector.to_string())
        .into()
}

fn controller(revision: &Value) -> Value {
    let owners = revision.field("metadata").items("ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner.flag("controller")) else { return NONE.into() };
    let (kind, name) = (owner.text("kind").to_lowercase(), owner.text("name"));
    match owner.text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()).into(),
        None => format!("{kind}/{name}").into(),
    }
}
