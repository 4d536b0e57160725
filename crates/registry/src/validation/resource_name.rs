//! Names of resources: what pods ask for and quotas count.

use sternpost_meta::format::qualified_name;

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Known without a domain.
pub fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_for_quota(name)
}

/// Known without a domain, and a quota can limit it.
pub fn is_standard_for_quota(name: &str) -> bool {
    let of_compute = |prefix| name.strip_prefix(prefix).is_some_and(|rest| COMPUTE.contains(&rest));
    COMPUTE.contains(&name)
        || of_compute("requests.")
        || of_compute("limits.")
        || name == "requests.storage"
        || COUNTED.contains(&name)
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

/// Known without a domain, and a container can ask for it.
pub fn is_standard_for_containers(name: &str) -> bool {
    COMPUTE.contains(&name) || is_huge_pages(name)
}

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Of Kubernetes itself: without a domain, or with its own.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Of somebody else's domain.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Comes in whole numbers only.
pub fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether containers may be given more than the node has.
pub fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}
