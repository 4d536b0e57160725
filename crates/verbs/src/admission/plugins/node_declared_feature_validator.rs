//! NodeDeclaredFeatureValidator: a pod is not changed into what its node cannot run.

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::Fields;

use crate::admission::{Operation, Plugin, Request, pod_resources::amounts};

pub(super) const PLUGIN: Plugin = Plugin { name: "NodeDeclaredFeatureValidator", validate, ..Plugin::NONE };

/// What it takes to resize a pod as a whole: the one change of a running pod that
/// not every node can follow.
const RESIZES_PODS: &str = "InPlacePodLevelResourcesVerticalScaling";

fn validate(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let updates = request.attributes.operation == Operation::Update && request.is_about("", "pods");
    let Some(old) = request.old.filter(|_| updates) else { return Ok(()) };
    let (new_spec, old_spec) = (pod.field("spec"), old.field("spec"));
    let name = new_spec.text("nodeName");
    if name.is_empty() || same_amounts(new_spec.field("resources"), old_spec.field("resources")) {
        return Ok(());
    }
    let Some(node) = request.find("", "nodes", name) else {
        return Err(request.forbidden(pod, &format!("node \"{name}\" not found")));
    };
    if node.field("status").items("declaredFeatures").iter().any(|feature| feature == RESIZES_PODS) {
        return Ok(());
    }
    let why =
        format!("pod update requires features {RESIZES_PODS} which are not available on node \"{name}\"");
    Err(request.forbidden(pod, &why))
}

/// Whether two fields `resources` ask for the same, whatever the spelling.
pub(super) fn same_amounts(one: &Value, other: &Value) -> bool {
    ["requests", "limits"].into_iter().all(|list| amounts(one.field(list)) == amounts(other.field(list)))
}
