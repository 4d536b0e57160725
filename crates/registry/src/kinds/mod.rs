//! What each built-in kind does beyond its schema.
//!
//! [`rules`] finds a kind's [`Rules`]; a kind without an entry has none of its
//! own. Order of use on create: `default`, `prepare_create`, generic metadata
//! checks, `validate`. On update: `default`, `prepare_update`, generic metadata
//! checks, `validate_update` (which includes what `validate` checks, where
//! upstream does so).

pub mod admission_policy;
pub mod admission_rule;
pub mod api_service;
pub mod binding;
pub mod bounds;
pub mod ca_bundle;
pub mod certificate_signing_request;
pub mod cluster_role;
pub mod cluster_role_binding;
pub mod component_status;
pub mod conditions;
pub mod config_map;
pub mod controller_revision;
pub mod cron_job;
pub mod cron_schedule;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod daemon_set;
pub mod deployment;
pub mod deprecated_label;
pub mod device_class;
pub mod device_config;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
pub mod eviction;
pub mod flow_schema;
pub mod form;
pub mod go_url;
pub mod horizontal_pod_autoscaler;
pub mod horizontal_pod_autoscaler_v1;
pub mod ingress;
pub mod ingress_class;
pub mod int_or_percent;
pub mod internal_form;
pub mod ip_address;
pub mod ip_ranges;
pub mod job;
pub mod job_policies;
pub mod job_status;
pub mod json_syntax;
pub mod label_selector;
pub mod labels;
pub mod lease;
pub mod limit_range;
pub mod match_condition;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod namespace;
pub mod network_policy;
pub mod node;
pub mod node_connection;
pub mod node_selector;
pub mod pem;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod persistent_volume_source;
pub mod pod;
pub mod pod_annotations;
pub mod pod_condition;
pub mod pod_disruption_budget;
pub mod pod_spec;
pub mod pod_template;
pub mod pod_template_spec;
pub mod pod_warnings;
pub mod priority_class;
pub mod priority_level_configuration;
pub mod replica_set;
pub mod replication_controller;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_list;
pub mod resource_name;
pub mod resource_quota;
pub mod resource_slice;
pub mod role;
pub mod role_binding;
pub mod runtime_class;
pub mod scale;
pub mod secret;
pub mod service;
pub mod service_account;
pub mod service_allocation;
pub mod service_cidr;
pub mod stateful_set;
pub mod status_subresource;
pub mod storage_class;
pub mod subject_access_review;
pub mod time_zone;
pub mod token_request;
pub mod token_review;
pub mod unified_diff;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod volume_attachment;
pub mod volume_attributes_class;
pub mod volume_source;
pub mod webhook_client_config;
pub mod webhook_configuration;
pub mod workload;
pub mod x509;

use serde_json::Value;
use sternpost_meta::field::Errors;

/// What a kind does at each step of a write. Everything is a plain function.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Fills in what the user left out. Runs on every write, and is idempotent.
    pub default: fn(&mut Value),
    /// Clears or sets what a creator may not choose.
    pub prepare_create: fn(&mut Value),
    /// Restores what an updater may not change; the generation is not its business.
    pub prepare_update: fn(&mut Value, &Value),
    /// As `prepare_update`, for the `status` subresource.
    pub prepare_status_update: fn(&mut Value, &Value),
    /// Everything but the generic rules for `metadata`.
    pub validate: fn(&Value, &mut Errors),
    /// New object, old object.
    pub validate_update: fn(&Value, &Value, &mut Errors),
    /// As `validate_update`, for the `status` subresource.
    pub validate_status_update: fn(&Value, &Value, &mut Errors),
    /// Texts for `Warning` headers about what a creator sent and preparation
    /// will change: asked before it, and told before the others.
    pub early_warnings: fn(&Value) -> Vec<String>,
    /// Texts for `Warning` headers; the old object on update.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
}

impl Rules {
    /// Rules that do nothing, to build others from.
    pub const NONE: Rules = Rules {
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        prepare_status_update: |_, _| {},
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status_update: |_, _, _| {},
        early_warnings: |_| Vec::new(),
        warnings: |_, _| Vec::new(),
    };
}

/// The rules of a kind, by group and kind.
pub fn rules(group: &str, kind: &str) -> Rules {
    match (group, kind) {
        ("", "PodTemplate") => pod_template::RULES,
        ("", "Pod") => pod::RULES,
        ("", "PersistentVolume") => persistent_volume::RULES,
        ("", "PersistentVolumeClaim") => persistent_volume_claim::RULES,
        ("rbac.authorization.k8s.io", "Role") => role::RULES,
        ("rbac.authorization.k8s.io", "ClusterRole") => cluster_role::RULES,
        ("rbac.authorization.k8s.io", "RoleBinding") => role_binding::RULES,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => cluster_role_binding::RULES,
        ("storage.k8s.io", "StorageClass") => storage_class::RULES,
        ("storage.k8s.io", "VolumeAttachment") => volume_attachment::RULES,
        ("storage.k8s.io", "VolumeAttributesClass") => volume_attributes_class::RULES,
        ("storage.k8s.io", "CSIDriver") => csi_driver::RULES,
        ("storage.k8s.io", "CSINode") => csi_node::RULES,
        ("storage.k8s.io", "CSIStorageCapacity") => csi_storage_capacity::RULES,
        ("", "ReplicationController") => replication_controller::RULES,
        ("", "LimitRange") => limit_range::RULES,
        ("", "ResourceQuota") => resource_quota::RULES,
        ("apps", "ControllerRevision") => controller_revision::RULES,
        ("apps", "DaemonSet") => daemon_set::RULES,
        ("apps", "Deployment") => deployment::RULES,
        ("apps", "ReplicaSet") => replica_set::RULES,
        ("apps", "StatefulSet") => stateful_set::RULES,
        ("autoscaling", "HorizontalPodAutoscaler") => horizontal_pod_autoscaler::RULES,
        ("autoscaling", "Scale") => scale::RULES,
        ("batch", "CronJob") => cron_job::RULES,
        ("batch", "Job") => job::RULES,
        ("coordination.k8s.io", "Lease") => lease::RULES,
        ("node.k8s.io", "RuntimeClass") => runtime_class::RULES,
        ("policy", "PodDisruptionBudget") => pod_disruption_budget::RULES,
        ("scheduling.k8s.io", "PriorityClass") => priority_class::RULES,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            webhook_configuration::VALIDATING
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => webhook_configuration::MUTATING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => validating_admission_policy::RULES,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            validating_admission_policy_binding::RULES
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => mutating_admission_policy::RULES,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            mutating_admission_policy_binding::RULES
        }
        ("apiregistration.k8s.io", "APIService") => api_service::RULES,
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate_signing_request::RULES,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow_schema::RULES,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => priority_level_configuration::RULES,
        ("resource.k8s.io", "DeviceClass") => device_class::RULES,
        ("resource.k8s.io", "ResourceClaim") => resource_claim::RULES,
        ("resource.k8s.io", "ResourceClaimTemplate") => resource_claim_template::RULES,
        ("resource.k8s.io", "ResourceSlice") => resource_slice::RULES,
        ("authentication.k8s.io", "TokenRequest") => token_request::RULES,
        ("authorization.k8s.io", "SubjectAccessReview") => subject_access_review::SUBJECT,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => subject_access_review::SELF,
        ("authorization.k8s.io", "LocalSubjectAccessReview") => subject_access_review::LOCAL,
        ("", "ConfigMap") => config_map::RULES,
        ("", "Endpoints") => endpoints::RULES,
        ("", "Event") => event::RULES,
        ("", "Namespace") => namespace::RULES,
        ("", "Node") => node::RULES,
        ("", "Secret") => secret::RULES,
        ("", "Service") => service::RULES,
        ("", "ServiceAccount") => service_account::RULES,
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::RULES,
        ("events.k8s.io", "Event") => event::EVENTS_RULES,
        ("networking.k8s.io", "IPAddress") => ip_address::RULES,
        ("networking.k8s.io", "Ingress") => ingress::RULES,
        ("networking.k8s.io", "IngressClass") => ingress_class::RULES,
        ("networking.k8s.io", "NetworkPolicy") => network_policy::RULES,
        ("networking.k8s.io", "ServiceCIDR") => service_cidr::RULES,
        _ => Rules::NONE,
    }
}
