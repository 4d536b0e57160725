//! Objects without what a server adds to them: as one would write them to have them again elsewhere.
//!
//! What is taken out is said in `docs/export.md`, rule by rule.

use serde_json::{Map, Value};
use sternpost_meta::gvk::GroupVersion;

/// What becomes of fields that a server chooses where nobody does: addresses and ports of Services, nodes of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocated {
    LeftOut,
    Kept,
}

/// What becomes of `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    LeftOut,
    /// It is a field as others are: no subresource writes it.
    Kept,
}

/// Metadata that is another server's, or a time.
const METADATA: [&str; 10] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Annotations that controllers and clients keep their accounts in.
const ANNOTATIONS: [&str; 11] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "batch.kubernetes.io/job-tracking",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "kubernetes.io/service-account.uid",
];

/// Labels that the Job controller finds its pods by.
const JOB_LABELS: [&str; 4] =
    ["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"];

const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What the volume with a pod's token is called, when the server adds it; five characters follow.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Where that volume is mounted.
const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub fn clean(object: &mut Value, allocated: Allocated, status: Status) {
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let group = GroupVersion::split(api_version).0.to_owned();
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if allocated == Allocated::LeftOut {
        // Who has asked for what is in the metadata.
        match (group.as_str(), kind.as_str()) {
            ("", "Service") => service(object),
            ("", "Pod") => pod(object),
            _ => {}
        }
    }
    match (group.as_str(), kind.as_str()) {
        ("", "Namespace") => namespace(object),
        ("", "Pod") => token_volume(object),
        ("", "Secret") => token_secret(object),
        ("", "PersistentVolume") => {
            let claim = object.pointer_mut("/spec/claimRef");
            remove(claim, &["uid", "resourceVersion"]);
        }
        ("batch", "Job") => job(object),
        ("apps", "StatefulSet") => {
            let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
            claims.into_iter().flatten().for_each(|claim| remove(Some(claim), &["status"]));
        }
        _ => {}
    }
    templates(&group, object);
    let Some(object) = object.as_object_mut() else { return };
    if status == Status::LeftOut {
        object.remove("status");
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        clean_metadata(metadata);
    }
}

fn clean_metadata(metadata: &mut Map<String, Value>) {
    metadata.retain(|field, _| !METADATA.contains(&field.as_str()));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    }
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        finalizers.retain(|finalizer| !finalizer.as_str().is_some_and(is_upstream));
    }
    metadata.retain(|field, value| {
        !(matches!(field.as_str(), "annotations" | "labels" | "finalizers") && is_empty(value))
    });
}

/// Whether a finalizer is one that Kubernetes itself sets and takes away.
fn is_upstream(finalizer: &str) -> bool {
    match finalizer.split_once('/') {
        Some((domain, _)) => {
            [".kubernetes.io", ".k8s.io"].iter().any(|end| format!(".{domain}").ends_with(end))
        }
        // `foregroundDeletion`, `orphan`, or that of a definition that is on its way out.
        None => !finalizer.contains('.') || finalizer.ends_with(".k8s.io"),
    }
}

/// Of the metadata of templates, which servers before 1.35 write a time into that is never set.
fn templates(group: &str, object: &mut Value) {
    const PLACES: [&str; 4] = [
        "/spec/template/metadata",
        "/spec/jobTemplate/metadata",
        "/spec/jobTemplate/spec/template/metadata",
        "/template/metadata",
    ];
    // What others mean by such a field is theirs to know.
    if !["", "apps", "batch"].contains(&group) {
        return;
    }
    let without_time = |metadata: &mut Value| {
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.retain(|field, value| !(field == "creationTimestamp" && value.is_null()));
        }
    };
    for place in PLACES {
        object.pointer_mut(place).into_iter().for_each(without_time);
    }
    let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        claim.get_mut("metadata").into_iter().for_each(without_time);
    }
}

/// The label and the finalizer that every namespace gets.
fn namespace(object: &mut Value) {
    remove(object.pointer_mut("/metadata/labels"), &[NAMESPACE_NAME]);
    if let Some(Value::Array(finalizers)) = object.pointer_mut("/spec/finalizers") {
        finalizers.retain(|finalizer| finalizer != "kubernetes");
    }
    remove_empty(object.get_mut("spec"), "finalizers");
    remove_empty(Some(object), "spec");
}

/// Addresses are out of the ranges of one cluster. A port on nodes or a family of addresses stays if somebody has
/// asked for it.
fn service(object: &mut Value) {
    let keeps_ports = has_set(object, "nodePort");
    for field in ["healthCheckNodePort", "ipFamilies", "ipFamilyPolicy"] {
        if !has_set(object, field) {
            remove(object.get_mut("spec"), &[field]);
        }
    }
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    // A Service without an address is made so.
    if spec.get("clusterIP").is_none_or(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).filter(|_| !keeps_ports);
    ports.into_iter().flatten().for_each(|port| remove(Some(port), &["nodePort"]));
}

/// What the scheduler and admission have found out.
fn pod(object: &mut Value) {
    for field in ["nodeName", "priority", "preemptionPolicy"] {
        if !has_set(object, field) {
            remove(object.get_mut("spec"), &[field]);
        }
    }
}

/// The volume with the token of the pod's service account, which each server adds by itself.
fn token_volume(object: &mut Value) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let mut dropped = None;
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| {
            let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_token = name.strip_prefix(TOKEN_VOLUME).is_some_and(|rest| rest.len() == 5)
                && volume.get("projected").is_some();
            if is_token {
                dropped = Some(name.to_owned());
            }
            !is_token
        });
    }
    let Some(dropped) = dropped else { return };
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                let is = |mount: &Value, field: &str, text: &str| {
                    mount.get(field).is_some_and(|value| value == text)
                };
                mounts.retain(|mount| !(is(mount, "name", &dropped) && is(mount, "mountPath", TOKEN_MOUNT)));
            }
            remove_empty(Some(container), "volumeMounts");
        }
    }
    if spec.get("volumes").is_some_and(is_empty) {
        spec.remove("volumes");
    }
}

/// A token is good for the server that made it, and is made again by any other.
fn token_secret(object: &mut Value) {
    if object.get("type").is_some_and(|kind| kind == "kubernetes.io/service-account-token") {
        remove(object.get_mut("data"), &["token", "ca.crt", "namespace"]);
        remove_empty(Some(object), "data");
    }
}

/// What a Job that chooses no pods itself finds its own by.
fn job(object: &mut Value) {
    if object.pointer("/spec/manualSelector").and_then(Value::as_bool).unwrap_or_default() {
        return;
    }
    remove(object.get_mut("spec"), &["selector"]);
    for metadata in ["/metadata", "/spec/template/metadata"] {
        let Some(metadata) = object.pointer_mut(metadata) else { continue };
        remove(metadata.get_mut("labels"), &JOB_LABELS);
        remove_empty(Some(metadata), "labels");
    }
}

/// Whether anybody has said a field of that name, by the accounts of who manages what.
fn has_set(object: &Value, field: &str) -> bool {
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let field = format!("f:{field}");
    managers.into_iter().flatten().any(|manager| {
        let is_main = manager.get("subresource").is_none();
        is_main && manager.get("fieldsV1").is_some_and(|fields| contains(fields, &field))
    })
}

fn contains(fields: &Value, field: &str) -> bool {
    let Some(fields) = fields.as_object() else { return false };
    fields.contains_key(field) || fields.values().any(|inner| contains(inner, field))
}

fn remove(object: Option<&mut Value>, fields: &[&str]) {
    if let Some(object) = object.and_then(Value::as_object_mut) {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
}

fn remove_empty(object: Option<&mut Value>, field: &str) {
    if let Some(object) = object.and_then(Value::as_object_mut)
        && object.get(field).is_some_and(is_empty)
    {
        object.remove(field);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(object: &str, expected: &str) {
        let mut object = sternpost_yaml::from_str(object).unwrap();
        clean(&mut object, Allocated::LeftOut, Status::LeftOut);
        assert_eq!(sternpost_yaml::write(&object), expected);
    }

    #[test]
    fn metadata_of_a_server_is_left_out() {
        check(
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: team, uid: u, resourceVersion: '1', \
             generation: 2, selfLink: /x, generateName: w-, creationTimestamp: t, managedFields: [], \
             ownerReferences: [{uid: x}], labels: {a: b}, finalizers: [foregroundDeletion, kubernetes.io/pvc-protection, \
             example.com/mine, customresourcecleanup.apiextensions.k8s.io], \
             annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}}\n\
             spec: {template: {metadata: {creationTimestamp: null}}}\nstatus: {x: y}\n",
            "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  finalizers:\n  - example.com/mine\n  labels:\n    a: b\n  \
             name: w\n  namespace: team\nspec:\n  template:\n    metadata:\n      creationTimestamp: null\n",
        );
    }

    #[test]
    fn addresses_are_left_out_and_ports_that_were_asked_for_are_not() {
        let service = |managed: &str| {
            format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: s, managedFields: [{managed}]}}\n\
                 spec: {{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{{port: 80, nodePort: 30000}}]}}\n"
            )
        };
        let head = "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  ports:\n";
        check(&service(""), &format!("{head}  - port: 80\n"));
        let asked =
            "{fieldsV1: {f:spec: {f:ports: {'k:{\"port\":80,\"protocol\":\"TCP\"}': {f:nodePort: {}}}}}}";
        check(&service(asked), &format!("{head}  - nodePort: 30000\n    port: 80\n"));
        check(
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIP: None, clusterIPs: [None]}\n",
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  clusterIP: None\n  clusterIPs:\n  - None\n",
        );
    }

    #[test]
    fn kinds_lose_what_each_server_adds_again() {
        check(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {kubernetes.io/metadata.name: team}}\nspec: {finalizers: [kubernetes]}\nstatus: {phase: Active}\n",
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n",
        );
        check(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, labels: {job-name: j, a: b}}\nspec: {selector: {matchLabels: {x: y}}, \
             template: {metadata: {creationTimestamp: null, labels: {batch.kubernetes.io/controller-uid: u}}}}\n",
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  labels:\n    a: b\n  name: j\nspec:\n  template:\n    metadata: {}\n",
        );
        check(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: node, priority: 0, volumes: [{name: kube-api-access-abcde, projected: {}}], \
             containers: [{name: c, volumeMounts: [{name: kube-api-access-abcde, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]}\n",
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n",
        );
        check(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {kubernetes.io/service-account.name: a, kubernetes.io/service-account.uid: u}}\n\
             type: kubernetes.io/service-account-token\ndata: {token: dA==, ca.crt: Yw==}\n",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  annotations:\n    kubernetes.io/service-account.name: a\n  name: s\ntype: kubernetes.io/service-account-token\n",
        );
        check(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {claimRef: {name: c, namespace: team, uid: u, resourceVersion: '2'}}\n",
            "apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: v\nspec:\n  claimRef:\n    name: c\n    namespace: team\n",
        );
    }

    #[test]
    fn what_no_subresource_writes_is_no_status() {
        let mut object = serde_json::json!({"kind": "Widget", "status": {"phase": "Ready"}});
        clean(&mut object, Allocated::LeftOut, Status::Kept);
        assert_eq!(object["status"]["phase"], "Ready");
    }
}
