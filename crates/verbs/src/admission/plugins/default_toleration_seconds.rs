//! DefaultTolerationSeconds: pods stay a while on nodes that are not ready, or
//! cannot be reached.

use serde_json::{Value, json};
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "DefaultTolerationSeconds", mutate, ..Plugin::NONE };

/// In the order in which they are added.
const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const EFFECT: &str = "NoExecute";
const SECONDS: i64 = 300;

fn mutate(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "pods") && !request.is(Operation::Update, "", "pods") {
        return Ok(());
    }
    let own = pod.field("spec").items("tolerations");
    let missing: Vec<Value> = KEYS
        .into_iter()
        .filter(|key| !own.iter().any(|toleration| speaks_of(toleration, key)))
        .map(|key| json!({"key": key, "operator": "Exists", "effect": EFFECT, "tolerationSeconds": SECONDS}))
        .collect();
    if !missing.is_empty() {
        let all: Vec<Value> = own.iter().cloned().chain(missing).collect();
        pod.object_mut("spec").set("tolerations", all);
    }
    Ok(())
}

/// Whether the pod has said what to do about a taint with this key, whatever the
/// taint's value.
fn speaks_of(toleration: &Value, key: &str) -> bool {
    let (own, effect) = (toleration.text("key"), toleration.text("effect"));
    (own == key || own.is_empty()) && (effect == EFFECT || effect.is_empty())
}
