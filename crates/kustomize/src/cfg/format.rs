//! The usual order of fields in a resource.

use sternpost_yaml::commented::{Content, Entry, Node};

/// Fields that come before all others, in this order, wherever they are.
const FIRST: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "apiVersion",
    "kind",
    "metadata",
    "type",
    "labels",
    "annotations",
    "spec",
    "status",
    "stringData",
    "data",
    "binaryData",
    "parallelism",
    "completions",
    "backoffLimit",
    "replicas",
    "selector",
    "manualSelector",
    "template",
    "ttlSecondsAfterFinished",
    "volumeClaimTemplates",
    "service",
    "serviceName",
    "podManagementPolicy",
    "updateStrategy",
    "strategy",
    "minReadySeconds",
    "revision",
    "revisionHistoryLimit",
    "paused",
    "progressDeadlineSeconds",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "serviceAccountName",
    "serviceAccount",
    "automountServiceAccountToken",
    "nodeName",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostname",
    "subdomain",
    "schedulerName",
    "priorityClassName",
    "priority",
    "runtimeClassName",
    "enableServiceLinks",
    "nodeSelector",
    "hostAliases",
    "initContainers",
    "containers",
    "volumes",
    "imagePullSecrets",
    "affinity",
    "tolerations",
    "dnsConfig",
    "readinessGates",
    "image",
    "command",
    "args",
    "workingDir",
    "ports",
    "envFrom",
    "env",
    "resources",
    "volumeMounts",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "lifecycle",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "clusterIP",
    "externalIPs",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "externalName",
    "externalTrafficPolicy",
    "sessionAffinity",
    "protocol",
    "port",
    "targetPort",
    "hostPort",
    "containerPort",
    "hostIP",
    "readOnly",
    "mountPath",
    "subPath",
    "subPathExpr",
    "mountPropagation",
    "value",
    "valueFrom",
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "prefix",
    "configMapRef",
    "secretRef",
];

/// Lists that are sorted too, by a key of their items or as texts.
const SORTED: &[(&[&str], Option<&str>)] = &[
    (&["spec", "template", "spec", "containers"], Some("name")),
    (&["webhooks", "rules", "operations"], None),
];

/// Puts the fields of a resource, and of all that is in it, into order. What
/// does not say its type stays as it is.
pub(super) fn format(root: &mut Node) {
    let says = |key: &str| root.get(key).and_then(Node::as_text).is_some_and(|text| !text.is_empty());
    if says("apiVersion") && says("kind") {
        sort(root, &mut Vec::new());
    }
}

fn sort(node: &mut Node, path: &mut Vec<String>) {
    let is_sequence = matches!(node.content, Content::Sequence(_));
    let Some(entries) = node.entries_mut() else { return };
    for entry in entries.iter_mut() {
        let key = entry.key.as_ref().and_then(Node::as_text).map(str::to_owned);
        let pushed = key.map(|key| path.push(key)).is_some();
        sort(&mut entry.value, path);
        if pushed {
            path.pop();
        }
    }
    if !is_sequence {
        let order = |entry: &Entry| {
            let key = entry.key.as_ref().and_then(Node::as_text).unwrap_or_default();
            (FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len()), key.to_owned())
        };
        entries.sort_by_cached_key(order);
    } else if let Some((_, by)) = SORTED.iter().find(|(sorted, _)| path == sorted) {
        let text = |entry: &Entry| {
            let value = by.map_or(Some(&entry.value), |key| entry.value.get(key));
            value.and_then(Node::as_text).unwrap_or_default().to_owned()
        };
        entries.sort_by_cached_key(text);
    }
}

/// Where a field comes among those of a container.
pub(super) fn rank(field: &str) -> usize {
    FIRST.iter().position(|first| *first == field).unwrap_or(FIRST.len())
}
