//! What a pod as a whole asks for.

use std::collections::BTreeMap;

use serde_json::Value;
use sternpost_meta::quantity::Quantity;
use sternpost_registry::object::Fields;

pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// The quantities of a list of resources.
pub(super) fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value).ok()?))).collect()
}

/// The most that a pod has of `list`, `requests` or `limits`, at any time of its
/// life: its containers run together, beside the sidecars; init containers run one
/// by one, each beside the sidecars started before it. What is set for the whole
/// pod counts instead. The overhead of the runtime is not in it.
pub(crate) fn of_pod(pod: &Value, list: &str) -> Amounts {
    let spec = pod.field("spec");
    let of = |container: &Value| amounts(container.field("resources").field(list));
    let mut running = Amounts::new();
    for container in spec.items("containers") {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let mut own = of(container);
        if container.text("restartPolicy") == "Always" {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            own.clone_from(&sidecars);
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut starting, own);
    }
    raise(&mut running, starting);
    let whole = amounts(spec.field("resources").field(list));
    running.extend(whole.into_iter().filter(|(name, _)| can_be_set_for_pods(name)));
    running
}

/// Adds what the pod's runtime takes for itself.
pub(crate) fn overhead(pod: &Value, requests: &mut Amounts) {
    add(requests, &amounts(pod.field("spec").field("overhead")));
}

fn can_be_set_for_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, quantity) in more {
        let total = sum.get(name).map_or_else(|| quantity.clone(), |found| found.plus(quantity));
        sum.insert(name.clone(), total);
    }
}

fn raise(most: &mut Amounts, other: Amounts) {
    for (name, quantity) in other {
        if most.get(&name).is_none_or(|found| *found < quantity) {
            most.insert(name, quantity);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_run_together_and_init_containers_one_by_one() {
        let container = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"limits": {"cpu": cpu}}});
        for (containers, init, expected) in [
            (vec![container("1"), container("500m")], vec![], "1500m"),
            (vec![container("1")], vec![container("2"), container("3")], "3"),
            (vec![container("1")], vec![container("2"), sidecar("3")], "4"),
            (vec![container("1")], vec![sidecar("3"), container("2")], "5"),
            (vec![container("1")], vec![sidecar("3"), container("2"), sidecar("3")], "7"),
        ] {
            let pod = json!({"spec": {"containers": containers, "initContainers": init}});
            let cpu = of_pod(&pod, "limits").remove("cpu").map(|cpu| cpu.to_string());
            assert_eq!(cpu.as_deref(), Some(expected), "{pod}");
        }
    }

    #[test]
    fn what_is_set_for_the_pod_counts_instead() {
        let pod = json!({"spec": {
            "resources": {"limits": {"cpu": "2", "example.com/x": "9"}},
            "containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi", "example.com/x": "1"}}}],
        }});
        let found: Vec<String> =
            of_pod(&pod, "limits").iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(found, ["cpu=2", "example.com/x=1", "memory=1Gi"]);
    }
}
