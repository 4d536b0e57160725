//! How each kind is written and deleted, where kinds differ.

use serde_json::Value;
use sternpost_crd::definition::Version;
use sternpost_meta::format::{self, Problems};

use sternpost_registry::{
    kinds::{certificate_signing_request, ip_address, namespace, role, service, stateful_set},
    object::Fields,
};

#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// PUT of a missing object creates it.
    pub create_on_update: bool,
    /// PUT without a resource version replaces whatever is there.
    pub unconditional_update: bool,
    pub delete_answer: DeleteAnswer,
    pub generation: Generation,
    /// What upstream's kind checks again in the metadata of an update, after
    /// the checks that all kinds share. It shows in the causes.
    pub checks_again: &'static [MetadataCheck],
    /// The same of an update of its status, or through another subresource.
    pub status_checks_again: &'static [MetadataCheck],
    /// Whether finalizers must be standard ones or fully qualified.
    pub qualified_finalizers: bool,
    /// What is wrong with a name of this kind.
    pub name: fn(&str) -> Problems,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteAnswer {
    Status,
    Object,
}

/// When `metadata.generation` grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Not by the server: what the creator sent is kept.
    Untracked,
    /// One on create, and one more whenever one of these fields changes.
    Tracks(&'static [&'static str]),
    /// As `Tracks`, but what the creator sent is kept.
    TracksFromSent(&'static [&'static str]),
    /// As `Tracks`, of all fields but these.
    TracksAllBut(&'static [&'static str]),
}

impl Generation {
    /// The fields whose change counts; `metadata.x` reaches into metadata.
    pub fn changed(self, new: &Value, old: &Value) -> bool {
        let fields = match self {
            Generation::Untracked => return false,
            Generation::Tracks(fields) | Generation::TracksFromSent(fields) => fields,
            Generation::TracksAllBut(others) => {
                let counted = |object: &Value| -> Vec<(String, Value)> {
                    let fields = object.as_object().into_iter().flatten();
                    let counted = fields.filter(|(name, _)| !others.contains(&name.as_str()));
                    counted.map(|(name, value)| (name.clone(), value.clone())).collect()
                };
                return counted(new) != counted(old);
            }
        };
        fields.iter().any(|field| match field.split_once('.') {
            Some((outer, inner)) => new.field(outer).field(inner) != old.field(outer).field(inner),
            None => new.field(field) != old.field(field),
        })
    }
}

/// The policy of a kind, by group and kind.
pub fn policy(group: &str, kind: &str) -> Policy {
    Policy {
        create_on_update: matches!(
            (group, kind),
            ("", "Endpoints" | "Event" | "LimitRange" | "Service")
                | ("events.k8s.io", "Event")
                | ("rbac.authorization.k8s.io", _)
                | ("coordination.k8s.io", "Lease")
                | ("node.k8s.io", "RuntimeClass")
        ),
        unconditional_update: !matches!(
            (group, kind),
            ("apiregistration.k8s.io" | "apiextensions.k8s.io" | "admissionregistration.k8s.io", _)
                | ("policy", "PodDisruptionBudget")
                | ("storage.k8s.io", "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "VolumeAttachment")
                | ("coordination.k8s.io", "Lease")
                | ("node.k8s.io", "RuntimeClass")
        ),
        delete_answer: delete_answer(group, kind),
        generation: generation(group, kind),
        checks_again: checks_again(group, kind),
        status_checks_again: status_checks_again(group, kind),
        qualified_finalizers: !matches!(
            (group, kind),
            (
                "admissionregistration.k8s.io"
                    | "apiextensions.k8s.io"
                    | "apiregistration.k8s.io"
                    | "coordination.k8s.io"
                    | "events.k8s.io"
                    | "node.k8s.io"
                    | "policy",
                _
            ) | ("", "Event")
        ),
        name: name(group, kind),
    }
}

/// The policy of all custom resources.
pub fn of_custom(version: &Version) -> Policy {
    let untracked: &[&str] = if version.status {
        &["apiVersion", "kind", "metadata", "status"]
    } else {
        &["apiVersion", "kind", "metadata"]
    };
    Policy {
        create_on_update: false,
        unconditional_update: false,
        delete_answer: DeleteAnswer::Status,
        generation: Generation::TracksAllBut(untracked),
        checks_again: &[MetadataCheck::Changed],
        status_checks_again: &[],
        qualified_finalizers: false,
        name: format::dns_subdomain,
    }
}

/// Part of the rules for metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataCheck {
    /// What anybody may write.
    Written,
    /// What an update may not change.
    Changed,
}

fn checks_again(group: &str, kind: &str) -> &'static [MetadataCheck] {
    use MetadataCheck::{Changed, Written};
    match (group, kind) {
        ("", "Event") | ("events.k8s.io", _) | ("policy", _) => &[],
        ("", "LimitRange") | ("discovery.k8s.io", _) => &[Written],
        ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
        | ("storage.k8s.io", "CSINode" | "VolumeAttachment") => &[Written],
        ("", "PersistentVolume") => &[Written, Written],
        ("", "ConfigMap" | "Pod" | "Secret" | "ServiceAccount" | "Endpoints" | "PersistentVolumeClaim")
        | ("apps", "ControllerRevision")
        | ("networking.k8s.io", "Ingress" | "IngressClass")
        | ("storage.k8s.io", "VolumeAttributesClass") => &[Changed, Written],
        ("", "Namespace" | "Node")
        | ("batch", "Job")
        | ("certificates.k8s.io", _)
        | ("resource.k8s.io", "DeviceClass" | "ResourceClaim" | "ResourceClaimTemplate")
        | ("rbac.authorization.k8s.io", _)
        | ("storage.k8s.io", "CSIStorageCapacity" | "StorageClass")
        | ("node.k8s.io", _) => &[Written, Changed],
        _ => &[Changed],
    }
}

fn status_checks_again(group: &str, kind: &str) -> &'static [MetadataCheck] {
    use MetadataCheck::{Changed, Written};
    match (group, kind) {
        ("admissionregistration.k8s.io" | "policy" | "storage.k8s.io", _) | ("batch", "CronJob") => &[],
        ("certificates.k8s.io", _) => &[Written, Changed],
        _ => &[Changed],
    }
}

fn delete_answer(group: &str, kind: &str) -> DeleteAnswer {
    let object = match group {
        "" => matches!(
            kind,
            "Namespace"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ),
        "storage.k8s.io" => kind != "CSIStorageCapacity",
        "resource.k8s.io" => true,
        _ => false,
    };
    if object { DeleteAnswer::Object } else { DeleteAnswer::Status }
}

fn generation(group: &str, kind: &str) -> Generation {
    match (group, kind) {
        ("apps", "Deployment") => Generation::Tracks(&["spec", "metadata.annotations"]),
        ("", "PodTemplate") => Generation::Tracks(&["template"]),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => Generation::Tracks(&["webhooks"]),
        ("discovery.k8s.io", "EndpointSlice") => {
            Generation::Tracks(&["endpoints", "ports", "addressType", "metadata.labels"])
        }
        ("scheduling.k8s.io", "PriorityClass") => Generation::Tracks(&[]),
        ("storage.k8s.io", "CSIDriver") => Generation::TracksFromSent(&["spec"]),
        ("", "Pod" | "ReplicationController")
        | ("apps", "DaemonSet" | "ReplicaSet" | "StatefulSet")
        | ("batch", _)
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("policy", _)
        | ("admissionregistration.k8s.io", _)
        | ("apiextensions.k8s.io", _)
        | ("resource.k8s.io", "DeviceClass" | "ResourceSlice")
        | ("flowcontrol.apiserver.k8s.io", _) => Generation::Tracks(&["spec"]),
        _ => Generation::Untracked,
    }
}

fn name(group: &str, kind: &str) -> fn(&str) -> Problems {
    match (group, kind) {
        ("", "Namespace") => namespace::NAME,
        ("", "Service") => service::NAME,
        ("apps", "StatefulSet") => stateful_set::NAME,
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate_signing_request::NAME,
        ("rbac.authorization.k8s.io", _) => role::NAME,
        ("", "Event") | ("policy", "PodDisruptionBudget") => format::path_segment,
        // An API service of the core group is called `v1.`; the kind says how.
        ("apiregistration.k8s.io", _) => |_| Problems::new(),
        ("networking.k8s.io", "IPAddress") => ip_address::NAME,
        ("", "ReplicationController") | ("resource.k8s.io", "DeviceClass") => dns_subdomain_in_bytes,
        _ => format::dns_subdomain,
    }
}

/// As upstream's generated checks say it.
fn dns_subdomain_in_bytes(name: &str) -> Problems {
    let mut problems = format::dns_subdomain(name);
    for problem in &mut problems {
        if let Some(limit) =
            problem.strip_prefix("must be no more than ").and_then(|rest| rest.strip_suffix(" characters"))
        {
            *problem = format!("must be no more than {limit} bytes");
        }
    }
    problems
}
