//! Kinds of the core group that have no file of their own.

use serde_json::Value;

use super::text::{each, first, labels, plain};
use super::{
    AGE, Cell, Column, NAME, NAME_AND_AGE, NONE, column, computed, event, integer, node, pod, service, text,
    volume,
};
use crate::object::Fields;

/// Addresses of an Endpoints object that are shown before they are only counted.
const SHOWN_ENDPOINTS: usize = 3;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "ComponentStatus" => COMPONENT_STATUS,
        "ConfigMap" => CONFIG_MAP,
        "Endpoints" => ENDPOINTS,
        "Event" => event::EVENT,
        "Namespace" => NAMESPACE,
        "Node" => node::NODE,
        "PersistentVolume" => volume::PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => volume::PERSISTENT_VOLUME_CLAIM,
        "Pod" => pod::POD,
        "PodTemplate" => POD_TEMPLATE,
        "ReplicationController" => REPLICATION_CONTROLLER,
        "ResourceQuota" => RESOURCE_QUOTA,
        "Secret" => SECRET,
        "Service" => service::SERVICE,
        "ServiceAccount" => NAME_AND_AGE,
        _ => return None,
    })
}

static COMPONENT_STATUS: &[Column] = &[
    NAME,
    computed("Status", health, "Whether the component answers that it is well."),
    computed(
        "Message",
        |object| healthy(object).map_or("", |healthy| healthy.text("message")).into(),
        "What the component answered.",
    ),
    computed(
        "Error",
        |object| healthy(object).map_or("", |healthy| healthy.text("error")).into(),
        "Why the component could not be asked.",
    ),
];

fn healthy(object: &Value) -> Option<&Value> {
    object.items("conditions").iter().find(|condition| condition.text("type") == "Healthy")
}

fn health(object: &Value) -> Value {
    match healthy(object).map(|healthy| healthy.text("status")) {
        Some("True") => "Healthy".into(),
        Some(_) => "Unhealthy".into(),
        None => "Unknown".into(),
    }
}

static CONFIG_MAP: &[Column] = &[
    NAME,
    computed(
        "Data",
        |object| (object.entries("data").count() + object.entries("binaryData").count()).into(),
        "Number of keys, text and binary.",
    ),
    AGE,
];

static ENDPOINTS: &[Column] =
    &[NAME, computed("Endpoints", endpoints, "Addresses that are ready, with their ports."), AGE];

fn endpoints(object: &Value) -> Value {
    let subsets = object.items("subsets");
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut texts = Vec::new();
    for subset in subsets {
        let addresses = || subset.items("addresses").iter().map(|address| address.text("ip"));
        let ports = subset.items("ports");
        if ports.is_empty() {
            texts.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = port.int("port").unwrap_or_default();
            texts.extend(
                addresses().map(|ip| {
                    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                }),
            );
        }
    }
    first(SHOWN_ENDPOINTS, ",", &texts).into()
}

static NAMESPACE: &[Column] =
    &[NAME, text("Status", "/status/phase", "Whether the namespace is in use or going away."), AGE];

static POD_TEMPLATE: &[Column] = &[
    NAME,
    computed(
        "Containers",
        |object| each(object.field("template").field("spec").items("containers"), "name"),
        "Names of the containers.",
    ),
    computed(
        "Images",
        |object| each(object.field("template").field("spec").items("containers"), "image"),
        "Images of the containers.",
    ),
    computed(
        "Pod Labels",
        |object| labels(object.field("template").field("metadata").field("labels")),
        "Labels that pods made from the template get.",
    ),
];

pub(super) const TEMPLATE_CONTAINERS: Column = computed(
    "Containers",
    |object| each(object.field("spec").field("template").field("spec").items("containers"), "name"),
    "Names of the containers in the pod template.",
)
.wide();

pub(super) const TEMPLATE_IMAGES: Column = computed(
    "Images",
    |object| each(object.field("spec").field("template").field("spec").items("containers"), "image"),
    "Images of the containers in the pod template.",
)
.wide();

static REPLICATION_CONTROLLER: &[Column] = &[
    NAME,
    integer("Desired", "/spec/replicas", "Pods that there should be."),
    integer("Current", "/status/replicas", "Pods that there are."),
    integer("Ready", "/status/readyReplicas", "Pods that are ready."),
    AGE,
    TEMPLATE_CONTAINERS,
    TEMPLATE_IMAGES,
    computed(
        "Selector",
        |object| labels(object.field("spec").field("selector")),
        "Labels of the pods that are counted.",
    )
    .wide(),
];

static RESOURCE_QUOTA: &[Column] = &[
    NAME,
    computed("Request", |object| quota(object, |limit| !limit), "What is used and allowed, limits aside."),
    computed("Limit", |object| quota(object, |limit| limit), "What is used and allowed of the limits."),
    AGE,
];

fn quota(object: &Value, wanted: fn(bool) -> bool) -> Value {
    let status = object.field("status");
    let used = |resource: &str| match status.field("used").get_field(resource) {
        Some(used) => plain(used),
        None => "0".into(),
    };
    let entries = status.entries("hard");
    let entries = entries.filter(|(resource, _)| wanted(resource.split('.').next() == Some("limits")));
    let texts: Vec<String> =
        entries.map(|(resource, hard)| format!("{resource}: {}/{}", used(resource), plain(hard))).collect();
    texts.join(", ").into()
}

static SECRET: &[Column] = &[
    NAME,
    text("Type", "/type", "What the data is for."),
    column("Data", Cell::Count("/data"), "Number of keys."),
    AGE,
];
