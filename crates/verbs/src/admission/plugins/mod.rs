//! The plugins that look at an object and wait for nobody: a file each.
//!
//! A new one is a file with its `PLUGIN`; `cargo xtask generate` lists it. Its place in the chain is
//! upstream's, by [`ORDER`], and so is whether it is on.

use super::Plugin;
use ByDefault::{Off, On};

/// All that kube-apiserver knows, in the order of its chain: `AllOrderedPlugins`. Those that there is no
/// plugin for can be switched off, as command lines written for kube-apiserver do, and not on.
pub(super) const ORDER: [(&str, ByDefault); 41] = [
    ("AlwaysAdmit", Off),
    ("NamespaceAutoProvision", Off),
    ("NamespaceLifecycle", On),
    ("NamespaceExists", Off),
    ("LimitPodHardAntiAffinityTopology", Off),
    ("LimitRanger", On),
    ("ServiceAccount", On),
    ("NodeRestriction", Off),
    ("TaintNodesByCondition", On),
    ("AlwaysPullImages", Off),
    ("ImagePolicyWebhook", Off),
    ("PodSecurity", On),
    ("PodNodeSelector", Off),
    ("Priority", On),
    ("DefaultTolerationSeconds", On),
    ("PodTolerationRestriction", Off),
    ("EventRateLimit", Off),
    ("ExtendedResourceToleration", Off),
    ("DefaultStorageClass", On),
    ("StorageObjectInUseProtection", On),
    ("PodGroupProtection", On),
    ("OwnerReferencesPermissionEnforcement", Off),
    ("PersistentVolumeClaimResize", On),
    ("RuntimeClass", On),
    ("CertificateApproval", On),
    ("CertificateSigning", On),
    ("ClusterTrustBundleAttest", On),
    ("CertificateSubjectRestriction", On),
    ("DefaultIngressClass", On),
    ("DenyServiceExternalIPs", Off),
    ("PodTopologyLabels", On),
    ("PodGroupWorkloadExists", On),
    ("NodeDeclaredFeatureValidator", On),
    ("JobValidation", On),
    ("PodResizeValidator", On),
    ("MutatingAdmissionPolicy", On),
    ("MutatingAdmissionWebhook", On),
    ("ValidatingAdmissionPolicy", On),
    ("ValidatingAdmissionWebhook", On),
    ("ResourceQuota", On),
    ("AlwaysDeny", Off),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByDefault {
    On,
    Off,
}

// Begin of what `cargo xtask generate` writes: a module a file, and what each file has.
pub(super) mod always_admit;
pub(super) mod always_pull_images;
pub(super) mod certificate_subject_restriction;
pub(super) mod default_ingress_class;
pub(super) mod default_storage_class;
pub(super) mod default_toleration_seconds;
pub(super) mod deny_service_external_ips;
pub(super) mod limit_ranger;
pub(super) mod namespace_exists;
pub(super) mod namespace_lifecycle;
pub(super) mod node_declared_feature_validator;
pub(super) mod owner_references_permission_enforcement;
pub(super) mod persistent_volume_claim_resize;
pub(super) mod pod_resize_validator;
pub(super) mod pod_security;
pub(super) mod priority;
pub(super) mod runtime_class;
pub(super) mod service_account;
pub(super) mod signers;
pub(super) mod storage_object_in_use_protection;
pub(super) mod taint_nodes_by_condition;

/// All of them.
pub(super) const PLUGINS: &[&Plugin] = &[
    &always_admit::PLUGIN,
    &always_pull_images::PLUGIN,
    &certificate_subject_restriction::PLUGIN,
    &default_ingress_class::PLUGIN,
    &default_storage_class::PLUGIN,
    &default_toleration_seconds::PLUGIN,
    &deny_service_external_ips::PLUGIN,
    &limit_ranger::PLUGIN,
    &namespace_exists::PLUGIN,
    &namespace_lifecycle::PLUGIN,
    &node_declared_feature_validator::PLUGIN,
    &owner_references_permission_enforcement::PLUGIN,
    &persistent_volume_claim_resize::PLUGIN,
    &pod_resize_validator::PLUGIN,
    &pod_security::PLUGIN,
    &priority::PLUGIN,
    &runtime_class::PLUGIN,
    &service_account::PLUGIN,
    &signers::APPROVAL,
    &signers::SIGNING,
    &storage_object_in_use_protection::PLUGIN,
    &taint_nodes_by_condition::PLUGIN,
];
// End of what `cargo xtask generate` writes.
