//! PodResizeValidator: a pod does not grow beyond its node.

use serde_json::Value;
use sternpost_meta::{
    quantity::Quantity,
    status::{Cause, CauseReason, Status},
};
use sternpost_registry::{object::Fields, validation::resource_list};

use super::node_declared_feature_validator::same_amounts;
use crate::admission::{
    Operation, Plugin, Request,
    pod_resources::{Amounts, of_pod, overhead},
};

pub(super) const PLUGIN: Plugin = Plugin { name: "PodResizeValidator", validate, ..Plugin::NONE };

const OPERATING_SYSTEM: &str = "kubernetes.io/os";

fn validate(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let attributes = request.attributes;
    let resizes = attributes.operation == Operation::Update && attributes.subresource == "resize";
    let Some(old) = request.old.filter(|_| resizes && request.is_about("", "pods")) else { return Ok(()) };
    let name = pod.field("spec").text("nodeName");
    if name.is_empty() || !is_resized(pod, old) {
        return Ok(());
    }
    let Some(node) = request.find("", "nodes", name) else {
        return Err(request.forbidden(pod, &format!("node \"{name}\" not found")));
    };
    let system = node.field("metadata").field("labels").text(OPERATING_SYSTEM);
    if !matches!(system, "" | "linux") {
        let why = format!("pod resize is only supported on linux nodes, node \"{name}\" is \"{system}\"");
        return Err(caused(request.forbidden(pod, &why), CauseReason::UnsupportedPlatform));
    }
    let lacking = lacking(pod, node.field("status").field("allocatable"));
    if lacking.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
    Err(caused(request.forbidden(pod, &why), CauseReason::NodeCapacity))
}

fn is_resized(pod: &Value, old: &Value) -> bool {
    let (new, old) = (pod.field("spec"), old.field("spec"));
    let same = |new: &Value, old: &Value| same_amounts(new.field("resources"), old.field("resources"));
    let lists = ["containers", "initContainers"];
    !same(new, old)
        || lists.into_iter().any(|list| {
            let (new, old) = (new.items(list), old.items(list));
            new.len() != old.len() || new.iter().zip(old).any(|(new, old)| !same(new, old))
        })
}

/// What the whole pod requests beyond what the node has for all its pods.
fn lacking(pod: &Value, allocatable: &Value) -> Vec<String> {
    let mut requests = of_pod(pod, "requests");
    overhead(pod, &mut requests);
    // Processors are counted in thousandths.
    let cpu = lack("cpu", &requests, allocatable, Quantity::milli_value);
    cpu.into_iter().chain(lack("memory", &requests, allocatable, Quantity::value)).collect()
}

fn lack(
    name: &str,
    requests: &Amounts,
    allocatable: &Value,
    count: fn(&Quantity) -> Option<i64>,
) -> Option<String> {
    // What 64 bits do not hold is more than anything.
    let count = |quantity: Option<&Quantity>| quantity.map_or(Some(0), count).unwrap_or(i64::MAX);
    let requested = count(requests.get(name));
    let available = count(resource_list::quantity(allocatable, name).as_ref());
    (requested > available).then(|| format!("{name}, requested: {requested}, allocatable: {available}"))
}

fn caused(mut status: Status, reason: CauseReason) -> Status {
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { reason: Some(reason), message: String::new(), field: String::new() });
    }
    status
}
