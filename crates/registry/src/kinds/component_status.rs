//! `ComponentStatus`: read only, and computed when asked for.
//!
//! Only `get` and `list`, and nothing is stored. A name that is not known is
//! `componentstatus "x" not found`, with the kind in the singular.

use serde_json::{Value, json};

use crate::object::FieldsMut;

/// What probing one component gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe<'a> {
    pub component: &'a str,
    /// What it said of itself, or why it could not be asked.
    pub outcome: Result<&'a str, &'a str>,
}

/// Components that run beside the server, and where they tell their health.
pub const NEIGHBOURS: [(&str, &str); 2] = [
    ("scheduler", "https://127.0.0.1:10259/healthz"),
    ("controller-manager", "https://127.0.0.1:10257/healthz"),
];

/// The object for one component.
pub fn component_status(probe: &Probe<'_>) -> Value {
    let mut status = item(probe);
    status.set("apiVersion", "v1");
    status.set("kind", "ComponentStatus");
    status
}

/// The list for all of them. Items of a list carry no kind.
pub fn component_status_list(probes: &[Probe<'_>]) -> Value {
    let items: Vec<Value> = probes.iter().map(item).collect();
    json!({"apiVersion": "v1", "kind": "ComponentStatusList", "metadata": {}, "items": items})
}

fn item(probe: &Probe<'_>) -> Value {
    let (status, message) = match probe.outcome {
        Ok(message) => ("True", message),
        Err(message) => ("False", message),
    };
    json!({
        "metadata": {"name": probe.component},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_a_condition() {
        let refused =
            "Get \"https://127.0.0.1:10259/healthz\": dial tcp 127.0.0.1:10259: connect: connection refused";
        let probes = [
            Probe { component: "scheduler", outcome: Err(refused) },
            Probe { component: "etcd-0", outcome: Ok("ok") },
        ];
        assert_eq!(
            component_status_list(&probes),
            json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [
                {"metadata": {"name": "scheduler"}, "conditions": [
                    {"type": "Healthy", "status": "False", "message": refused},
                ]},
                {"metadata": {"name": "etcd-0"}, "conditions": [
                    {"type": "Healthy", "status": "True", "message": "ok"},
                ]},
            ]})
        );
        assert_eq!(
            component_status(&Probe { component: "etcd-0", outcome: Ok("ok") })["kind"],
            "ComponentStatus"
        );
    }
}
