//! `Eviction`: deleting a pod only if its disruption budget allows it.
//!
//! Not stored: [`evict`] decides from the pod and the budgets of its
//! namespace. The caller stores what it returns, and deletes the pod.

use serde_json::{Value, json};
use sternpost_meta::{
    selector::LabelSelector,
    status::{Cause, CauseReason, ResourceName, Status},
};

use super::pod::condition;
use crate::{
    context::Cluster,
    object::{Fields, FieldsMut},
    strategy::{Stored, Strategy},
};

pub const STRATEGY: Strategy =
    Strategy { tabular: false, has_managers: false, ..Strategy::of("policy", "Eviction") };

/// A budget with more evictions on their way than this allows no further ones.
pub const MAX_DISRUPTED_PODS: usize = 2000;

/// How long a client waits for a budget's controller, in seconds.
pub const RETRY_AFTER_SECONDS: u16 = 10;

/// Why a pod stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A 500 without reason: two budgets have a say.
    SeveralBudgets,
    /// A 429 with one cause of reason `DisruptionBudget` and this text.
    Budget { cause: String, retry_after_seconds: Option<u16> },
    /// A 403 on the budget of this name, for this reason.
    Forbidden { budget: String, why: &'static str },
}

impl Refusal {
    pub const SEVERAL_BUDGETS: &str =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    /// The message of a 429; the cause says more.
    pub const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
}

/// Whether what is posted to the `eviction` subresource of a pod is done; the budget that pays for it.
pub fn evict_pod(pod: &Value, cluster: &dyn Cluster) -> Result<Option<Stored>, Status> {
    let namespace = pod.field("metadata").text("namespace");
    let budgets = cluster.list(GROUP, BUDGETS, Some(namespace));
    let paid = evict(pod, &budgets, &cluster.now()).map_err(refused)?;
    Ok(paid.map(|object| Stored { group: GROUP, version: "v1", plural: BUDGETS, object }))
}

const GROUP: &str = "policy";
const BUDGETS: &str = "poddisruptionbudgets";

fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::SeveralBudgets => Status::unexpected(Refusal::SEVERAL_BUDGETS),
        Refusal::Budget { cause, retry_after_seconds } => {
            let mut status =
                Status::too_many_requests(Refusal::BUDGET, retry_after_seconds.unwrap_or_default());
            if let Some(details) = &mut status.details {
                let reason = Some(CauseReason::DisruptionBudget);
                details.causes.push(Cause { reason, message: cause, field: String::new() });
            }
            status
        }
        Refusal::Forbidden { budget, why } => {
            let resource = ResourceName { group: GROUP, resource: BUDGETS };
            Status::forbidden_because(resource, &budget, why)
        }
    }
}

/// Whether the pod may go at `now`; if a budget pays for it, the budget as it then is.
pub fn evict(pod: &Value, budgets: &[Value], now: &str) -> Result<Option<Value>, Refusal> {
    if !is_protected(pod) {
        return Ok(None);
    }
    let labels = pod.field("metadata").field("labels");
    let mut matching = budgets.iter().filter(|budget| {
        LabelSelector::from_object(budget.field("spec").field("selector"))
            .is_ok_and(|selector| selector.matches(labels))
    });
    let Some(budget) = matching.next() else { return Ok(None) };
    if matching.next().is_some() {
        return Err(Refusal::SeveralBudgets);
    }
    let status = budget.field("status");
    let number = |name| status.int(name).unwrap_or_default();
    let (current, desired) = (number("currentHealthy"), number("desiredHealthy"));
    if !is_ready(pod) {
        // A pod that is no use to anybody costs the budget nothing.
        let always = budget.field("spec").text("unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || current >= desired && desired > 0 {
            return Ok(None);
        }
    }
    let name = budget.field("metadata").text("name");
    let generation = budget.field("metadata").int("generation").unwrap_or_default();
    if number("observedGeneration") < generation {
        return Err(Refusal::Budget {
            cause: format!("The disruption budget {name} is still being processed by the server."),
            retry_after_seconds: Some(RETRY_AFTER_SECONDS),
        });
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(Refusal::Forbidden { budget: name.into(), why: "pdb disruptions allowed is negative" });
    }
    if status.entries("disruptedPods").count() > MAX_DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Refusal::Forbidden { budget: name.into(), why });
    }
    if allowed == 0 {
        let cause = if current <= desired {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        } else {
            format!("The disruption budget {name} does not allow evicting pods currently")
        };
        return Err(Refusal::Budget { cause, retry_after_seconds: None });
    }
    Ok(Some(charged(budget, pod.field("metadata").text("name"), allowed - 1, now)))
}

/// Marks a pod that is about to be deleted by an eviction.
pub fn mark_disrupted(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    condition::set(pod.object_mut("status"), condition, now);
}

/// Pods that do not run, or not for long, need no budget.
fn is_protected(pod: &Value) -> bool {
    let ending = pod.field("metadata").has("deletionTimestamp");
    !ending && !matches!(pod.field("status").text("phase"), "Pending" | "Succeeded" | "Failed")
}

fn is_ready(pod: &Value) -> bool {
    condition::find(pod, "Ready").is_some_and(|condition| condition.text("status") == "True")
}

fn charged(budget: &Value, pod: &str, allowed: i64, now: &str) -> Value {
    let mut budget = budget.clone();
    let generation = budget.field("status").field("observedGeneration").clone();
    let status = budget.object_mut("status");
    status.set("disruptionsAllowed", allowed);
    status.object_mut("disruptedPods").set(pod, now);
    if allowed == 0 {
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": generation,
        });
        condition::set(status, condition, now);
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(ready: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn budget(spec: Value, status: Value) -> Value {
        let mut budget = json!({
            "metadata": {"name": "b1", "generation": 1},
            "spec": {"selector": {"matchLabels": {"a": "b"}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 0},
        });
        for (part, changes) in [("spec", spec), ("status", status)] {
            for (name, value) in changes.as_object().unwrap() {
                budget[part][name] = value.clone();
            }
        }
        budget
    }

    fn refused(cause: &str, retry_after_seconds: Option<u16>) -> Result<Option<Value>, Refusal> {
        Err(Refusal::Budget { cause: cause.into(), retry_after_seconds })
    }

    #[test]
    fn budgets_decide_as_recorded() {
        let running = || pod("True", "Running");
        let unready = || pod("False", "Running");
        let none = json!({});
        for (name, pod, budget, expected) in [
            (
                "stale",
                running(),
                budget(none.clone(), json!({"observedGeneration": 0})),
                refused("The disruption budget b1 is still being processed by the server.", Some(10)),
            ),
            (
                "none allowed",
                running(),
                budget(none.clone(), json!({"desiredHealthy": 1, "currentHealthy": 1})),
                refused("The disruption budget b1 needs 1 healthy pods and has 1 currently", None),
            ),
            (
                "none allowed although enough are healthy",
                unready(),
                budget(none.clone(), json!({"desiredHealthy": 0, "currentHealthy": 1})),
                refused("The disruption budget b1 does not allow evicting pods currently", None),
            ),
            (
                "unready, budget healthy",
                unready(),
                budget(none.clone(), json!({"desiredHealthy": 1, "currentHealthy": 1})),
                Ok(None),
            ),
            (
                "unready, budget not healthy",
                unready(),
                budget(none.clone(), json!({"desiredHealthy": 2, "currentHealthy": 1})),
                refused("The disruption budget b1 needs 2 healthy pods and has 1 currently", None),
            ),
            (
                "unready, always allowed, even if stale",
                unready(),
                budget(
                    json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
                    json!({"desiredHealthy": 2, "observedGeneration": 0}),
                ),
                Ok(None),
            ),
            ("pending", pod("True", "Pending"), budget(none.clone(), json!({"desiredHealthy": 2})), Ok(None)),
            ("failed", pod("True", "Failed"), budget(none.clone(), json!({"desiredHealthy": 2})), Ok(None)),
            (
                "empty selector takes all",
                running(),
                budget(json!({"selector": {}}), json!({"desiredHealthy": 1})),
                refused("The disruption budget b1 needs 1 healthy pods and has 0 currently", None),
            ),
            ("no selector takes none", running(), budget(json!({"selector": null}), none.clone()), Ok(None)),
        ] {
            assert_eq!(evict(&pod, &[budget], "now"), expected, "{name}");
        }
        let two = [budget(none.clone(), none.clone()), budget(none.clone(), none)];
        assert_eq!(evict(&running(), &two, "now"), Err(Refusal::SeveralBudgets));
    }

    #[test]
    fn an_allowed_eviction_is_charged_to_the_budget() {
        let budget = budget(json!({}), json!({"disruptionsAllowed": 2}));
        let once = evict(&pod("True", "Running"), &[budget], "t1").unwrap().unwrap();
        assert_eq!(
            once["status"],
            json!({"observedGeneration": 1, "disruptionsAllowed": 1, "disruptedPods": {"p": "t1"}})
        );
        let twice = evict(&pod("True", "Running"), &[once], "t2").unwrap().unwrap();
        assert_eq!(
            twice["status"]["conditions"],
            json!([{
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": 1, "lastTransitionTime": "t2",
            }])
        );
    }

    #[test]
    fn evictions_on_their_way_have_a_limit() {
        for (count, fits) in [(MAX_DISRUPTED_PODS, true), (MAX_DISRUPTED_PODS + 1, false)] {
            let pods: Value =
                (0..count).map(|n| (format!("x{n}"), json!("t"))).collect::<serde_json::Map<_, _>>().into();
            let budget = budget(json!({}), json!({"disruptionsAllowed": 1, "disruptedPods": pods}));
            assert_eq!(evict(&pod("True", "Running"), &[budget], "now").is_ok(), fits, "{count}");
        }
    }
}
