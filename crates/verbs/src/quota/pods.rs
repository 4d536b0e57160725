//! Pods: themselves, and what their containers ask for.

use std::collections::HashMap;

use serde_json::Value;
use sternpost_golang::time::Timestamp;
use sternpost_meta::quantity::Quantity;
use sternpost_registry::object::{Fields, FieldsMut};

use super::{Amounts, amounts, one};
use crate::admission::pod_resources;

/// Resources that quotas know without `requests.` too.
const PLAIN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn usage(pod: &Value, now: Timestamp, used: &mut Amounts) {
    if !is_living(pod, now) {
        return;
    }
    used.insert("pods".into(), one());
    let pod = at_most(pod);
    let mut requests = pod_resources::of_pod(&pod, "requests");
    pod_resources::overhead(&pod, &mut requests);
    for (name, amount) in requests {
        if PLAIN.contains(&name.as_str()) || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount.clone());
            used.insert(format!("requests.{name}"), amount);
        } else if name.contains('/') {
            used.insert(format!("requests.{name}"), amount);
        }
    }
    let overhead = amounts(pod.field("spec").field("overhead"));
    for (name, amount) in pod_resources::of_pod(&pod, "limits") {
        if PLAIN.contains(&name.as_str()) {
            let amount = overhead.get(&name).map_or(amount.clone(), |overhead| amount.plus(overhead));
            used.insert(format!("limits.{name}"), amount);
        }
    }
}

/// Whether the pod has not ended, and is not so long past its end that nobody will tell.
fn is_living(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.field("status").text("phase"), "Failed" | "Succeeded") {
        return false;
    }
    let metadata = pod.field("metadata");
    let deleted = Timestamp::parse_time(metadata.text("deletionTimestamp")).ok();
    match (deleted, metadata.int("deletionGracePeriodSeconds")) {
        (Some(deleted), Some(grace)) => now.seconds_since(deleted) <= grace,
        _ => true,
    }
}

/// While a container is resized it has, for each resource, the most of what it asks for, what it was
/// given and what it uses.
fn at_most(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let status = pod.field("status").clone();
    for (containers, statuses) in
        [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
    {
        let mut by_name: HashMap<&str, &Value> = HashMap::new();
        for status in status.items(statuses) {
            by_name.entry(status.text("name")).or_insert(status);
        }
        for container in pod.object_mut("spec").items_mut(containers) {
            let Some(status) = by_name.get(container.text("name")) else { continue };
            let resources = status.field("resources");
            for (list, found) in [
                ("requests", resources.field("requests")),
                ("requests", status.field("allocatedResources")),
                ("limits", resources.field("limits")),
            ] {
                for (name, amount) in amounts(found) {
                    raise(container.object_mut("resources"), list, &name, &amount);
                }
            }
        }
    }
    pod
}

/// Only what is asked for at all can be more.
fn raise(resources: &mut Value, list: &str, name: &str, amount: &Quantity) {
    let asked = super::amount(resources.field(list), name);
    if asked.is_some_and(|asked| asked < *amount) {
        resources.object_mut(list).set(name, amount.to_string());
    }
}
