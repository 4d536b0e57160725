//! The status of validating policies: what their expressions get wrong about the kinds they name.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_registry::object::Fields;
use sternpost_verbs::{Failure, Part, Target, Verbs, Writer, served::Served};

use crate::{follow::Follow, identity};

const GROUP: &str = "admissionregistration.k8s.io";

/// In whose name the status is owned.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Checks policies until the process ends.
pub(crate) async fn run(verbs: Arc<Verbs>) {
    let Some(served) = verbs.served.get(GROUP, "v1", "validatingadmissionpolicies") else { return };
    let (_, mut follow) = Follow::start(verbs.clone(), served.clone()).await;
    loop {
        let is_left = settle(&verbs, &served).await;
        follow.changed(is_left).await;
    }
}

/// Whether something is left to do.
async fn settle(verbs: &Verbs, served: &Served) -> bool {
    let policies = verbs.cache.resource(&served.id).snapshot();
    let mut failed = false;
    for policy in policies.iter(None, None) {
        let value = policy.value();
        let generation = value.field("metadata").int("generation");
        if generation.is_none() || value.field("status").int("observedGeneration") == generation {
            continue;
        }
        let status = json!({"observedGeneration": generation, "typeChecking": verbs.type_check(&value)});
        if let Err(problem) = write(verbs, served, policy.name(), status).await
            && problem.code() != 404
        {
            tracing::warn!(policy = policy.name(), %problem, "the status of a policy cannot be written yet");
            failed = true;
        }
    }
    failed
}

async fn write(verbs: &Verbs, served: &Served, name: &str, status: Value) -> Result<(), Failure> {
    let config = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "status": status,
    });
    let writer = Writer { manager: MANAGER, subresource: "status", ..Writer::server() };
    let target = Target { served, namespace: "", name };
    identity::apply(verbs, target, config, Part::Status, writer).await
}
