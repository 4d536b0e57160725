//! What objects use of a quota: pure functions, for admission and for the status of quotas.
//!
//! [`usage`] says what one object uses, by the names that quotas have for it; [`counted`] which resource
//! such a name counts; [`matches_scopes`] whether a quota is about an object at all. Quantities are
//! summed with [`add`].

mod claims;
mod pods;
mod scopes;
mod services;

use std::collections::BTreeMap;

use serde_json::Value;
use sternpost_golang::time::Timestamp;
use sternpost_meta::quantity::{Format, Quantity};
use sternpost_registry::object::Fields;

pub use scopes::{matches_scope, matches_scopes, scopes};

/// Quantities by the names that quotas have for them.
pub type Amounts = BTreeMap<String, Quantity>;

/// Names of core resources that can be counted without `count/`.
const COUNTED_BY_NAME: [&str; 4] = ["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

/// Ends the names of what a storage class gives.
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Ends the names of devices of a class.
const DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// What one object uses. `now` decides whether a pod is past its time.
pub fn usage(group: &str, resource: &str, object: &Value, now: Timestamp) -> Amounts {
    let mut amounts = Amounts::from([(count_name(group, resource), one())]);
    match (group, resource) {
        ("", "pods") => pods::usage(object, now, &mut amounts),
        ("", "services") => services::usage(object, &mut amounts),
        ("", "persistentvolumeclaims") => claims::of_volumes(object, &mut amounts),
        ("resource.k8s.io", "resourceclaims") => claims::of_devices(object, &mut amounts),
        ("", name) if COUNTED_BY_NAME.contains(&name) => {
            amounts.insert(name.to_owned(), one());
        }
        _ => {}
    }
    amounts
}

/// Group and plural of the resource whose objects use what a quota calls `name`.
pub fn counted(name: &str) -> Option<(&str, &str)> {
    if let Some(resource) = name.strip_prefix("count/") {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        return Some((group, resource));
    }
    match name {
        "services" | "services.nodeports" | "services.loadbalancers" => Some(("", "services")),
        "persistentvolumeclaims" | "requests.storage" => Some(("", "persistentvolumeclaims")),
        "pods" | "cpu" | "memory" | "ephemeral-storage" => Some(("", "pods")),
        _ if name.contains(STORAGE_CLASS) => Some(("", "persistentvolumeclaims")),
        _ if name.ends_with(DEVICE_CLASS) => Some(("resource.k8s.io", "resourceclaims")),
        _ if ["requests.", "limits.", "hugepages-"].iter().any(|start| name.starts_with(start)) => {
            Some(("", "pods"))
        }
        _ => COUNTED_BY_NAME.iter().find(|known| **known == name).map(|known| ("", *known)),
    }
}

/// `count/RESOURCE` or `count/RESOURCE.GROUP`.
pub fn count_name(group: &str, resource: &str) -> String {
    if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") }
}

/// Adds amounts to a sum; what the sum does not have is not added.
pub fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, total) in sum {
        if let Some(amount) = amounts.get(name) {
            *total = total.plus(amount);
        }
    }
}

/// The quantities of a list of resources; what is none is left out.
pub fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value).ok()?))).collect()
}

fn one() -> Quantity {
    number(1)
}

fn number(count: usize) -> Quantity {
    Quantity::from_int(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi)
}

/// A quantity of a list of resources.
fn amount(list: &Value, name: &str) -> Option<Quantity> {
    list.get_field(name).and_then(|value| Quantity::from_json(value).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(group: &str, resource: &str, object: &Value, expected: &[&str]) {
        let now = Timestamp::parse_time("2026-01-01T00:00:00Z").unwrap();
        let found: Vec<String> = usage(group, resource, object, now)
            .iter()
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect();
        assert_eq!(found, expected, "{object}");
        for name in usage(group, resource, object, now).keys() {
            assert_eq!(counted(name), Some((group, resource)), "{name}");
        }
    }

    #[test]
    fn every_object_counts_by_its_resource() {
        check("", "configmaps", &json!({}), &["configmaps=1", "count/configmaps=1"]);
        check("", "endpoints", &json!({}), &["count/endpoints=1"]);
        check("apps", "deployments", &json!({}), &["count/deployments.apps=1"]);
        check("sea.test", "buoys", &json!({}), &["count/buoys.sea.test=1"]);
    }

    #[test]
    fn services_use_ports_of_nodes_and_balancers() {
        let service = |kind: &str, rest: Value| {
            let mut spec = json!({"type": kind, "ports": [{"port": 1, "nodePort": 30001}, {"port": 2}]});
            spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            json!({"spec": spec})
        };
        for (kind, rest, ports, balancers) in [
            ("ClusterIP", json!({}), 0, 0),
            ("ExternalName", json!({}), 0, 0),
            ("NodePort", json!({}), 2, 0),
            ("LoadBalancer", json!({}), 2, 1),
            ("LoadBalancer", json!({"allocateLoadBalancerNodePorts": true}), 2, 1),
            ("LoadBalancer", json!({"allocateLoadBalancerNodePorts": false}), 1, 1),
        ] {
            check(
                "",
                "services",
                &service(kind, rest),
                &[
                    "count/services=1",
                    "services=1",
                    &format!("services.loadbalancers={balancers}"),
                    &format!("services.nodeports={ports}"),
                ],
            );
        }
    }

    #[test]
    fn claims_use_storage_in_whole_bytes_and_of_their_class() {
        let requests = json!({"requests": {"storage": "1500m"}});
        let plain = ["count/persistentvolumeclaims=1", "persistentvolumeclaims=1", "requests.storage=2"];
        check("", "persistentvolumeclaims", &json!({"spec": {"resources": requests}}), &plain);
        let gold = [
            "count/persistentvolumeclaims=1",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
            "gold.storageclass.storage.k8s.io/requests.storage=2Gi",
            "persistentvolumeclaims=1",
            "requests.storage=2Gi",
        ];
        let requests = json!({"requests": {"storage": "2Gi"}});
        let by_field = json!({"spec": {"resources": requests, "storageClassName": "gold"}});
        let annotations = json!({"volume.beta.kubernetes.io/storage-class": "gold"});
        let by_annotation = json!({
            "metadata": {"annotations": annotations},
            "spec": {"resources": requests, "storageClassName": "tin"},
        });
        let growing = json!({
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "gold"},
            "status": {"allocatedResources": {"storage": "2Gi"}},
        });
        for claim in [by_field, by_annotation, growing] {
            check("", "persistentvolumeclaims", &claim, &gold);
        }
    }

    #[test]
    fn device_claims_use_devices_of_their_classes() {
        let claim = json!({"spec": {"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2}},
            {"name": "b", "exactly": {"deviceClassName": "nic"}},
            {"name": "c", "exactly": {"deviceClassName": "all", "allocationMode": "All"}},
            {"name": "d", "firstAvailable": [
                {"deviceClassName": "gpu", "count": 3}, {"deviceClassName": "gpu", "count": 1},
            ]},
        ]}}});
        let expected = [
            "all.deviceclass.resource.k8s.io/devices=32",
            "count/resourceclaims.resource.k8s.io=1",
            "gpu.deviceclass.resource.k8s.io/devices=5",
            "nic.deviceclass.resource.k8s.io/devices=1",
        ];
        check("resource.k8s.io", "resourceclaims", &claim, &expected);
    }

    #[test]
    fn pods_use_what_their_containers_ask_for_while_they_live() {
        let resources = json!({
            "requests": {"cpu": "500m", "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/x": "3"},
            "limits": {"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/x": "3"},
        });
        let pod = |metadata: Value, phase: &str| {
            json!({
                "metadata": metadata,
                "spec": {
                    "containers": [{"resources": resources}, {"resources": resources}],
                    "overhead": {"cpu": "100m"},
                },
                "status": {"phase": phase},
            })
        };
        let all = [
            "count/pods=1",
            "cpu=1100m",
            "hugepages-2Mi=8Mi",
            "limits.cpu=2100m",
            "memory=2Gi",
            "pods=1",
            "requests.cpu=1100m",
            "requests.example.com/x=6",
            "requests.hugepages-2Mi=8Mi",
            "requests.memory=2Gi",
        ];
        let ending = |time: &str| json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 30});
        for (metadata, phase, living) in [
            (json!({}), "Pending", true),
            (json!({}), "Running", true),
            (json!({}), "Succeeded", false),
            (json!({}), "Failed", false),
            (ending("2025-12-31T23:59:30Z"), "Running", true),
            (ending("2025-12-31T23:59:29Z"), "Running", false),
            (json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}), "Running", true),
        ] {
            check("", "pods", &pod(metadata, phase), if living { &all } else { &["count/pods=1"] });
        }
    }

    #[test]
    fn what_is_resized_counts_at_its_most() {
        let of = |cpu: &str| json!({"requests": {"cpu": cpu}});
        for (spec, actual, allocated, expected) in
            [("1", "2", "1", "2"), ("1", "1", "3", "3"), ("4", "2", "1", "4")]
        {
            let pod = json!({
                "spec": {"containers": [{"name": "c", "resources": of(spec)}]},
                "status": {"containerStatuses": [
                    {"name": "c", "resources": of(actual), "allocatedResources": {"cpu": allocated}},
                ]},
            });
            let expected =
                ["count/pods=1", &format!("cpu={expected}"), "pods=1", &format!("requests.cpu={expected}")];
            check("", "pods", &pod, &expected);
        }
    }

    #[test]
    fn names_lead_to_what_they_count() {
        for (name, expected) in [
            ("count/pods", Some(("", "pods"))),
            ("count/buoys.sea.test", Some(("sea.test", "buoys"))),
            ("limits.memory", Some(("", "pods"))),
            ("requests.nvidia.com/gpu", Some(("", "pods"))),
            ("requests.storage", Some(("", "persistentvolumeclaims"))),
            ("secrets", Some(("", "secrets"))),
            ("deployments", None),
            ("", None),
        ] {
            assert_eq!(counted(name), expected, "{name}");
        }
    }

    #[test]
    fn sums_have_the_names_they_began_with() {
        let mut sum = amounts(&json!({"cpu": "0", "pods": "0"}));
        for _ in 0..3 {
            add(&mut sum, &amounts(&json!({"cpu": "500m", "memory": "1Gi"})));
        }
        let sum: Vec<String> = sum.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(sum, ["cpu=1500m", "pods=0"]);
    }
}
