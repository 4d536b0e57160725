//! TaintNodesByCondition: nothing is scheduled to a new node until it is ready.

use serde_json::{Value, json};
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "TaintNodesByCondition", mutate, ..Plugin::NONE };

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

fn mutate(request: &Request<'_>, node: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "nodes") {
        return Ok(());
    }
    let mut taints = node.field("spec").items("taints").to_vec();
    // A value makes no other taint of it.
    if !taints.iter().any(|taint| taint.text("key") == KEY && taint.text("effect") == EFFECT) {
        taints.push(json!({"key": KEY, "effect": EFFECT}));
        node.object_mut("spec").set("taints", taints);
    }
    Ok(())
}
