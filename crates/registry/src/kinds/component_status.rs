//! `ComponentStatus`: read only, and computed when asked for.
//!
//! The store stands where upstream's etcd stands. The scheduler and the
//! controller manager are asked for by name, so they are listed; they are not
//! part of this server, so they are not healthy.
//!
//! Only `get` and `list`, and nothing is stored. A name that is not known is
//! `componentstatus "x" not found`, with the kind in the singular.

use serde_json::{Value, json};

use crate::strategy::{Computed, Strategy};

pub const STRATEGY: Strategy = Strategy {
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: columns::COLUMNS,
    computed: Some(Computed { called: "componentstatus", items: || COMPONENTS.iter().map(item).collect() }),
    ..Strategy::of("", "ComponentStatus")
};

/// What probing one component gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe<'a> {
    pub component: &'a str,
    /// What it said of itself, or why it could not be asked.
    pub outcome: Result<&'a str, &'a str>,
}

const COMPONENTS: [Probe<'static>; 3] = [
    Probe { component: "controller-manager", outcome: Err("this server has no controller manager") },
    Probe { component: "scheduler", outcome: Err("this server has no scheduler") },
    // A store that fails ends the process: whoever answers has a store.
    Probe { component: "etcd-0", outcome: Ok("ok") },
];

/// The object for one component, as an item of a list, which carries no kind.
pub fn item(probe: &Probe<'_>) -> Value {
    let (status, message) = match probe.outcome {
        Ok(message) => ("True", message),
        Err(message) => ("False", message),
    };
    json!({
        "metadata": {"name": probe.component},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{Column, NAME, computed},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Status", health, "Whether the component answers that it is well."),
        computed(
            "Message",
            |object| healthy(object).map_or("", |healthy| healthy.text("message")).into(),
            "What the component answered.",
        ),
        computed(
            "Error",
            |object| healthy(object).map_or("", |healthy| healthy.text("error")).into(),
            "Why the component could not be asked.",
        ),
    ];

    fn healthy(object: &Value) -> Option<&Value> {
        object.items("conditions").iter().find(|condition| condition.text("type") == "Healthy")
    }

    fn health(object: &Value) -> Value {
        match healthy(object).map(|healthy| healthy.text("status")) {
            Some("True") => "Healthy".into(),
            Some(_) => "Unhealthy".into(),
            None => "Unknown".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_a_condition() {
        let refused =
            "Get \"https://127.0.0.1:10259/healthz\": dial tcp 127.0.0.1:10259: connect: connection refused";
        for (outcome, status, message) in [(Err(refused), "False", refused), (Ok("ok"), "True", "ok")] {
            let probe = Probe { component: "scheduler", outcome };
            let conditions = json!([{"type": "Healthy", "status": status, "message": message}]);
            let shown = json!({"metadata": {"name": "scheduler"}, "conditions": conditions});
            assert_eq!(item(&probe), shown);
        }
    }
}
