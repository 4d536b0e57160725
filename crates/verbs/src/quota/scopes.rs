//! Which objects a quota is about.

use serde_json::{Value, json};
use sternpost_registry::object::Fields;

/// Whether the object is within all scopes of a quota's spec. Only pods and claims of volumes have any:
/// everything else is outside of every scope.
pub fn matches_scopes(spec: &Value, group: &str, resource: &str, object: &Value) -> bool {
    scopes(spec).all(|scope| matches_scope(&scope, group, resource, object))
}

/// The scopes of a quota's spec, all in the form of `scopeSelector`.
pub fn scopes(spec: &Value) -> impl Iterator<Item = Value> {
    let scopes = spec.items("scopes").iter().map(|name| json!({"scopeName": name, "operator": "Exists"}));
    scopes.chain(spec.field("scopeSelector").items("matchExpressions").iter().cloned())
}

pub fn matches_scope(scope: &Value, group: &str, resource: &str, object: &Value) -> bool {
    match (group, resource) {
        ("", "pods") => pod_matches(object, scope),
        ("", "persistentvolumeclaims") => claim_matches(object, scope),
        _ => false,
    }
}

fn pod_matches(pod: &Value, scope: &Value) -> bool {
    let spec = pod.field("spec");
    let has_deadline = spec.int("activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    match scope.text("scopeName") {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => selects(scope, spec.text("priorityClassName")),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(spec),
        _ => false,
    }
}

fn claim_matches(claim: &Value, scope: &Value) -> bool {
    let status = claim.field("status");
    let names = [
        claim.field("spec").text("volumeAttributesClassName"),
        status.text("currentVolumeAttributesClassName"),
        status.field("modifyVolumeStatus").text("targetVolumeAttributesClassName"),
    ];
    if scope.text("scopeName") != "VolumeAttributesClass" {
        return false;
    }
    let mut named = names.iter().filter(|name| !name.is_empty()).peekable();
    if named.peek().is_none() { selects(scope, "") } else { named.any(|name| selects(scope, name)) }
}

/// Whether a name, empty for none, is among those that a scope selects.
fn selects(scope: &Value, name: &str) -> bool {
    let is_listed = scope.items("values").iter().any(|value| value == name);
    match scope.text("operator") {
        "Exists" => !name.is_empty(),
        "DoesNotExist" => name.is_empty(),
        "In" => !name.is_empty() && is_listed,
        "NotIn" => name.is_empty() || !is_listed,
        _ => false,
    }
}

/// Nothing in the pod asks for, or is limited in, processors or memory.
fn is_best_effort(pod: &Value) -> bool {
    let spec = pod.field("spec");
    let all = spec.items("containers").iter().chain(spec.items("initContainers"));
    let mut resources = all.map(|container| container.field("resources")).chain([spec.field("resources")]);
    let is_some = |value: &Value| {
        super::amounts(value)
            .iter()
            .any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    };
    !resources.any(|resources| is_some(resources.field("requests")) || is_some(resources.field("limits")))
}

fn reaches_other_namespaces(spec: &Value) -> bool {
    let affinity = spec.field("affinity");
    ["podAffinity", "podAntiAffinity"].into_iter().map(|kind| affinity.field(kind)).any(|affinity| {
        let required = affinity.items("requiredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = affinity.items("preferredDuringSchedulingIgnoredDuringExecution").iter();
        let mut terms = required.chain(preferred.map(|term| term.field("podAffinityTerm")));
        terms.any(|term| !term.items("namespaces").is_empty() || term.has("namespaceSelector"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_within_scopes() {
        let asks = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
        let limited = json!({"spec": {"initContainers": [{"resources": {"limits": {"memory": "1"}}}]}});
        let other = json!({"spec": {"containers": [{"resources": {"requests": {"example.com/x": "1"}}}]}});
        let timed = json!({"spec": {"activeDeadlineSeconds": 0}});
        let high = json!({"spec": {"priorityClassName": "high"}});
        let term = json!({"topologyKey": "k", "namespaces": ["other"]});
        let weighted = json!({"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}});
        let required = |kind: &str| json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}});
        let preferred = json!({"spec": {"affinity": {"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [weighted],
        }}}});
        let plain = json!({"spec": {"containers": [{}]}});
        let scope = |name: &str| json!({"scopes": [name]});
        let select = |operator: &str, values: Value| {
            let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
            json!({"scopeSelector": {"matchExpressions": [expression]}})
        };
        for (spec, pod, expected) in [
            (json!({}), &plain, true),
            (scope("Terminating"), &timed, true),
            (scope("Terminating"), &plain, false),
            (scope("NotTerminating"), &plain, true),
            (scope("NotTerminating"), &timed, false),
            (scope("BestEffort"), &plain, true),
            (scope("BestEffort"), &other, true),
            (scope("BestEffort"), &asks, false),
            (scope("NotBestEffort"), &limited, true),
            (scope("PriorityClass"), &high, true),
            (scope("PriorityClass"), &plain, false),
            (scope("CrossNamespacePodAffinity"), &required("podAffinity"), true),
            (scope("CrossNamespacePodAffinity"), &preferred, true),
            (scope("CrossNamespacePodAffinity"), &plain, false),
            (select("In", json!(["high"])), &high, true),
            (select("In", json!(["low"])), &high, false),
            (select("In", json!(["low"])), &plain, false),
            (select("NotIn", json!(["low"])), &high, true),
            (select("NotIn", json!(["high"])), &high, false),
            (select("NotIn", json!(["high"])), &plain, true),
            (select("Exists", json!(null)), &high, true),
            (select("DoesNotExist", json!(null)), &high, false),
            (select("DoesNotExist", json!(null)), &plain, true),
            (json!({"scopes": ["NotTerminating", "BestEffort"]}), &plain, true),
            (json!({"scopes": ["NotTerminating", "BestEffort"]}), &asks, false),
        ] {
            assert_eq!(matches_scopes(&spec, "", "pods", pod), expected, "{spec} {pod}");
        }
    }

    #[test]
    fn claims_have_one_scope_and_others_none() {
        let expression = |operator: &str| json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": ["gold"]});
        let spec = |operator: &str| json!({"scopeSelector": {"matchExpressions": [expression(operator)]}});
        let gold = json!({"spec": {"volumeAttributesClassName": "gold"}});
        let changing = json!({
            "spec": {"volumeAttributesClassName": "tin"},
            "status": {"currentVolumeAttributesClassName": "gold"},
        });
        for (operator, claim, expected) in [
            ("In", &gold, true),
            ("In", &changing, true),
            ("In", &json!({}), false),
            ("Exists", &gold, true),
            ("DoesNotExist", &json!({}), true),
        ] {
            let found = matches_scopes(&spec(operator), "", "persistentvolumeclaims", claim);
            assert_eq!(found, expected, "{operator} {claim}");
        }
        assert!(!matches_scopes(&json!({"scopes": ["BestEffort"]}), "", "persistentvolumeclaims", &gold));
        assert!(!matches_scopes(&spec("Exists"), "", "secrets", &json!({})));
        assert!(matches_scopes(&json!({}), "", "secrets", &json!({})));
    }
}
