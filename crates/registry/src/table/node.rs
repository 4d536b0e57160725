//! Nodes, and what belongs to them: leases and runtime classes.

use serde_json::Value;

use super::text::{condition, or};
use super::{AGE, Cell, Column, NAME, NONE, UNKNOWN, column, computed, text};
use crate::object::Fields;

pub(super) static NODE: &[Column] = &[
    NAME,
    computed("Status", status, "Whether the node is ready, and whether it takes pods."),
    computed("Roles", roles, "Roles that labels give the node."),
    AGE,
    text("Version", "/status/nodeInfo/kubeletVersion", "Version of the kubelet."),
    computed("Internal-IP", |node| address(node, "InternalIP"), "First address inside the cluster.").wide(),
    computed("External-IP", |node| address(node, "ExternalIP"), "First address from outside.").wide(),
    column("OS-Image", Cell::TextOr("/status/nodeInfo/osImage", UNKNOWN), "Operating system.").wide(),
    computed("Kernel-Version", kernel, "Version of the kernel, and the architecture.").wide(),
    column(
        "Container-Runtime",
        Cell::TextOr("/status/nodeInfo/containerRuntimeVersion", UNKNOWN),
        "Name and version of what runs the containers.",
    )
    .wide(),
];

pub(super) static LEASE: &[Column] =
    &[NAME, text("Holder", "/spec/holderIdentity", "Who holds the lease."), AGE];

pub(super) static RUNTIME_CLASS: &[Column] = &[
    NAME,
    text("Handler", "/handler", "Configuration of the runtime on the node that runs such pods."),
    AGE,
];

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

fn status(node: &Value) -> Value {
    let ready = match condition(node, "Ready").map(|ready| ready.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let scheduling = if node.field("spec").flag("unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{ready}{scheduling}").into()
}

fn roles(node: &Value) -> Value {
    let labels = node.field("metadata").entries("labels");
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key {
            ROLE_LABEL => value.as_str(),
            _ => key.strip_prefix(ROLE_PREFIX),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(roles.join(","), NONE).into()
}

fn address(node: &Value, kind: &str) -> Value {
    let addresses = node.field("status").items("addresses");
    let address = addresses.iter().find(|address| address.text("type") == kind);
    address.map_or(NONE, |address| address.text("address")).into()
}

fn kernel(node: &Value) -> Value {
    let info = node.field("status").field("nodeInfo");
    let version = or(info.text("kernelVersion").into(), UNKNOWN);
    match info.text("architecture") {
        "" => version.into(),
        architecture => format!("{version} ({architecture})").into(),
    }
}
