//! What a stored spec got away with, and its updates therefore may keep.

use serde_json::Value;

use super::{
    affinity::required_node_selector,
    containers::is_sidecar,
    paths::has_backsteps,
    resources::{is_multiple_of_page, quantity},
    security::is_host_sysctl,
};
use crate::{
    object::Fields,
    validation::{
        label_selector::{self, ExpressionValues},
        node_selector,
        resource_name::is_huge_pages,
    },
};

/// True where a check is off because the stored spec would not pass it.
#[derive(Debug, Clone, Copy)]
pub struct Ratchet {
    pub indivisible_hugepages: bool,
    pub token_path: bool,
    pub host_sysctls: bool,
    pub host_users_devices: bool,
    pub init_resize_policy: bool,
    pub mount_option: bool,
    pub topology_spread_selector: bool,
    pub node_affinity_values: ExpressionValues,
}

impl Ratchet {
    pub fn of(old: Option<&Value>) -> Self {
        let old = old.unwrap_or(&Value::Null);
        let security = old.field("securityContext");
        let bad_affinity = node_selector::has_bad_value(required_node_selector(old));
        Self {
            indivisible_hugepages: holders(old).any(has_indivisible_hugepages),
            token_path: old.items("volumes").iter().any(has_bad_token_path),
            host_sysctls: security
                .items("sysctls")
                .iter()
                .any(|sysctl| is_host_sysctl(old, sysctl.text("name"))),
            host_users_devices: old.field("hostUsers").as_bool() == Some(false)
                && containers(old).any(|container| !container.items("volumeDevices").is_empty()),
            init_resize_policy: old.items("initContainers").iter().any(|container| {
                let policies = container.items("resizePolicy");
                !is_sidecar(container)
                    && policies.iter().any(|policy| policy.text("restartPolicy") == "RestartContainer")
            }),
            mount_option: security.text("seLinuxChangePolicy") == "MountOption",
            topology_spread_selector: old
                .items("topologySpreadConstraints")
                .iter()
                .any(|constraint| label_selector::has_bad_value(constraint.field("labelSelector"))),
            node_affinity_values: if bad_affinity {
                ExpressionValues::Unchecked
            } else {
                ExpressionValues::Checked
            },
        }
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| spec.items(list))
}

/// Everything in a spec that has resources.
fn holders(spec: &Value) -> impl Iterator<Item = &Value> {
    containers(spec).chain([spec]).map(|holder| holder.field("resources"))
}

fn has_indivisible_hugepages(resources: &Value) -> bool {
    resources.entries("limits").chain(resources.entries("requests")).any(|(name, value)| {
        is_huge_pages(name) && quantity(value).is_some_and(|amount| !is_multiple_of_page(name, &amount))
    })
}

fn has_bad_token_path(volume: &Value) -> bool {
    volume.field("projected").items("sources").iter().any(|source| {
        let path = source.field("serviceAccountToken").text("path");
        path.starts_with('/') || path.starts_with("..") || has_backsteps(path)
    })
}
