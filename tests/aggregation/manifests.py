"""Objects the suite makes."""

NAMESPACE = "agg"
GROUP = "wardle.example.com"
VERSIONS = ("v1alpha1", "v1beta1")
NESTED = "nested.example.com"

# What an extension server is given so that it can ask the front: who somebody is, what he may do, and, for its own
# admission and flow control, the objects it follows.
SERVER_RULES = [
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["flowcontrol.apiserver.k8s.io"], "resources": ["flowschemas", "prioritylevelconfigurations"],
     "verbs": ["get", "list", "watch"]},
]


def listed(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


# What metrics-server asks for: whose metrics to collect.
METRICS_RULES = [
    {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["flowcontrol.apiserver.k8s.io"], "resources": ["flowschemas", "prioritylevelconfigurations"],
     "verbs": ["get", "list", "watch"]},
]


def access(name, rules):
    """A service account for an extension server, with what it needs."""
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]

    def rbac(kind, called, **more):
        return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": called}, **more}

    def refers(kind, called):
        return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": called}

    reader = rbac("RoleBinding", f"{name}-authentication", subjects=subject,
                  roleRef=refers("Role", "extension-apiserver-authentication-reader"))
    reader["metadata"]["namespace"] = "kube-system"
    return listed(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
        rbac("ClusterRole", f"{name}-server", rules=rules),
        rbac("ClusterRoleBinding", f"{name}-server", subjects=subject, roleRef=refers("ClusterRole", f"{name}-server")),
        rbac("ClusterRoleBinding", f"{name}-delegator", subjects=subject, roleRef=refers("ClusterRole", "system:auth-delegator")),
        reader,
    )


def reader_role(name, group, resource, user):
    """Lets a user read one resource."""
    return listed(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
         "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
         "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}},
    )


def service(name, host, port):
    """A Service without a selector, and where it leads."""
    return listed(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
         "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"name": f"{name}-1", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name}},
         "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
         "ports": [{"name": "https", "port": port, "protocol": "TCP"}]},
    )


def external_name(name, host):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": host}}


def api_service(group, version, name, bundle, port=None, address=None, group_priority=1000, version_priority=15):
    backend = {"name": name, "namespace": NAMESPACE}
    if port:
        backend["port"] = port
    metadata = {"name": f"{version}.{group}"}
    if address:
        metadata["annotations"] = {"aggregation.sternpost.dev/address": address}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata,
            "spec": {"group": group, "version": version, "service": backend, "caBundle": bundle,
                     "groupPriorityMinimum": group_priority, "versionPriority": version_priority}}


def flunder(name, reference="", labels=None):
    metadata = {"name": name, "namespace": NAMESPACE, **({"labels": labels} if labels else {})}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Flunder", "metadata": metadata,
            "spec": {"reference": reference} if reference else {}}


def fischer(name, disallowed):
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Fischer", "metadata": {"name": name},
            "disallowedFlunders": disallowed}


def gadget_definition():
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "description": "What the gadget shall be.", "required": ["size"],
                 "properties": {"size": {"type": "integer", "minimum": 1, "description": "In inches."},
                                "colour": {"type": "string", "enum": ["red", "green"]}}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"gadgets.{NESTED}"},
            "spec": {"group": NESTED, "scope": "Namespaced",
                     "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
                                   "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}]}}


def gadget(name, size, **spec):
    return {"apiVersion": f"{NESTED}/v1", "kind": "Gadget", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"size": size, **spec}}
