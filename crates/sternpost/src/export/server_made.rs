//! What a control plane makes by itself, and so does every other one.

use serde_json::Value;

/// Kinds that are a running cluster's state or its logs, and nothing that anybody writes down: group and plural.
const STATE: [(&str, &str); 11] = [
    ("", "events"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("coordination.k8s.io", "leasecandidates"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("networking.k8s.io", "ipaddresses"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "volumeattachments"),
];

/// In whose name the control plane's own programs write.
const COMPONENTS: [&str; 7] = [
    "api-priority-and-fairness-config-consumer-v1",
    "api-priority-and-fairness-config-producer-v1",
    "cloud-controller-manager",
    "clusterrole-aggregation-controller",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// Who is said to have set what was there before the first apply, where there were no accounts.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Objects that are the server's own whoever has touched them: kind, namespace if it is a certain one, and name.
const ALWAYS: [(&str, Option<&str>, &str); 6] = [
    ("ConfigMap", None, "kube-root-ca.crt"),
    ("ConfigMap", Some("kube-system"), "extension-apiserver-authentication"),
    ("ConfigMap", Some("kube-system"), "kube-apiserver-legacy-service-account-token-tracking"),
    ("Endpoints", Some("default"), "kubernetes"),
    ("EndpointSlice", Some("default"), "kubernetes"),
    ("Service", Some("default"), "kubernetes"),
];

/// Objects that are the server's own where there are no accounts of who has set their fields.
const BY_NAME: [(&str, Option<&str>, &str); 8] = [
    ("Namespace", None, "default"),
    ("Namespace", None, "kube-node-lease"),
    ("Namespace", None, "kube-public"),
    ("Namespace", None, "kube-system"),
    ("PriorityClass", None, "system-cluster-critical"),
    ("PriorityClass", None, "system-node-critical"),
    ("ServiceAccount", None, "default"),
    ("ServiceCIDR", None, "kubernetes"),
];

/// Labels and annotations by which servers know their own, where there are no accounts.
const BY_MARK: [(&str, &str); 3] = [
    ("labels", "kubernetes.io/bootstrapping"),
    ("labels", "kube-aggregator.kubernetes.io/automanaged"),
    ("annotations", "apf.kubernetes.io/autoupdate-spec"),
];

/// Whether objects of a resource are left out unless it is named.
pub fn is_state(group: &str, plural: &str) -> bool {
    STATE.contains(&(group, plural))
}

/// Whether the object is one that the server has made and nobody else has changed: default namespaces and service
/// accounts, bootstrap roles and flow schemas, local APIServices, endpoints of Services …
pub fn is_server_made(object: &Value) -> bool {
    if is_in(&ALWAYS, object) {
        return true;
    }
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let main = managers.into_iter().flatten().filter(|manager| manager.get("subresource").is_none());
    let managers: Vec<&str> =
        main.filter_map(|manager| manager.get("manager").and_then(Value::as_str)).collect();
    let is_component = |manager: &&str| COMPONENTS.contains(manager);
    if !managers.is_empty() && managers.iter().all(is_component) {
        return true;
    }
    let is_unknown = managers.iter().all(|manager| is_component(manager) || *manager == BEFORE_FIRST_APPLY);
    let is_marked = |(place, name): &(&str, &str)| {
        object.pointer(&format!("/metadata/{place}")).is_some_and(|marks| marks.get(name).is_some())
    };
    is_unknown && (is_in(&BY_NAME, object) || BY_MARK.iter().any(is_marked))
}

fn is_in(table: &[(&str, Option<&str>, &str)], object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    table.iter().any(|(known, wanted, called)| {
        *known == kind && *called == name && wanted.is_none_or(|wanted| wanted == namespace)
    })
}

/// Whether a controller has made the object for another one.
pub fn is_owned(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_controller = |owner: &Value| owner.get("controller").and_then(Value::as_bool).unwrap_or_default();
    owners.into_iter().flatten().any(is_controller)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_the_control_plane_has_written_is_the_servers_own() {
        let namespace = |managers: Value| json!({"kind": "Namespace", "metadata": {"name": "default", "managedFields": managers}});
        let server = json!({"manager": "kube-apiserver"});
        for (managers, expected) in [
            (json!([server]), true),
            (json!([server, {"manager": "kubectl-label"}]), false),
            (json!([server, {"manager": "somebody", "subresource": "status"}]), true),
            (json!([{"manager": "kube-apiserver", "subresource": "status"}]), true),
            // Without accounts its name tells.
            (json!([]), true),
            (json!([{"manager": "before-first-apply"}, {"manager": "kubectl"}]), false),
        ] {
            assert_eq!(is_server_made(&namespace(managers.clone())), expected, "{managers}");
        }
        let certificates =
            json!({"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "n"}});
        assert!(is_server_made(&certificates));
        let elsewhere = json!({"kind": "Service", "metadata": {"name": "kubernetes", "namespace": "n"}});
        assert!(!is_server_made(&elsewhere));
        let role = |label: &str| json!({"kind": "ClusterRole", "metadata": {"name": "view", "labels": {label: "rbac-defaults"}}});
        assert!(is_server_made(&role("kubernetes.io/bootstrapping")));
        assert!(!is_server_made(&role("example.com/bootstrapping")));
        let endpoints = json!({"kind": "Endpoints", "metadata": {"name": "web", "namespace": "n", "managedFields": [
            {"manager": "kube-controller-manager"},
        ]}});
        assert!(is_server_made(&endpoints));
    }

    #[test]
    fn an_owner_that_is_no_controller_has_not_made_it() {
        let owned = |owner: Value| json!({"metadata": {"ownerReferences": [owner]}});
        assert!(is_owned(&owned(json!({"controller": true}))));
        assert!(!is_owned(&owned(json!({"controller": false}))));
        assert!(!is_owned(&owned(json!({}))));
    }
}
