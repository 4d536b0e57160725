//! What each built-in kind does beyond its schema: its [`Strategy`].
//!
//! [`strategy`] finds it by group and kind. CustomResourceDefinitions are not here:
//! the `crd` crate knows them.

use crate::strategy::Strategy;

// Begin of what `cargo xtask generate` writes: a module a file, and what each file has.
pub mod api_service;
pub mod binding;
pub mod certificate_signing_request;
pub mod cluster_role;
pub mod cluster_role_binding;
pub mod component_status;
pub mod config_map;
pub mod controller_revision;
pub mod cron_job;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod daemon_set;
pub mod deployment;
pub mod device_class;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
pub mod eviction;
pub mod flow_schema;
pub mod horizontal_pod_autoscaler;
pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod job;
pub mod lease;
pub mod limit_range;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod namespace;
pub mod network_policy;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_disruption_budget;
pub mod pod_template;
pub mod priority_class;
pub mod priority_level_configuration;
pub mod replica_set;
pub mod replication_controller;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_quota;
pub mod resource_slice;
pub mod role;
pub mod role_binding;
pub mod runtime_class;
pub mod scale;
pub mod secret;
pub mod self_subject_review;
pub mod self_subject_rules_review;
pub mod service;
pub mod service_account;
pub mod service_cidr;
pub mod stateful_set;
pub mod storage_class;
pub mod subject_access_review;
pub mod token_request;
pub mod token_review;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod volume_attachment;
pub mod volume_attributes_class;
pub mod webhook_configuration;

/// All of them.
pub const STRATEGIES: &[&Strategy] = &[
    &api_service::STRATEGY,
    &binding::STRATEGY,
    &certificate_signing_request::STRATEGY,
    &cluster_role::STRATEGY,
    &cluster_role_binding::STRATEGY,
    &component_status::STRATEGY,
    &config_map::STRATEGY,
    &controller_revision::STRATEGY,
    &cron_job::STRATEGY,
    &csi_driver::STRATEGY,
    &csi_node::STRATEGY,
    &csi_storage_capacity::STRATEGY,
    &daemon_set::STRATEGY,
    &deployment::STRATEGY,
    &device_class::STRATEGY,
    &endpoint_slice::STRATEGY,
    &endpoints::STRATEGY,
    &event::STRATEGY,
    &event::EVENTS_STRATEGY,
    &eviction::STRATEGY,
    &flow_schema::STRATEGY,
    &horizontal_pod_autoscaler::STRATEGY,
    &ingress::STRATEGY,
    &ingress_class::STRATEGY,
    &ip_address::STRATEGY,
    &job::STRATEGY,
    &lease::STRATEGY,
    &limit_range::STRATEGY,
    &mutating_admission_policy::STRATEGY,
    &mutating_admission_policy_binding::STRATEGY,
    &namespace::STRATEGY,
    &network_policy::STRATEGY,
    &node::STRATEGY,
    &persistent_volume::STRATEGY,
    &persistent_volume_claim::STRATEGY,
    &pod::STRATEGY,
    &pod_disruption_budget::STRATEGY,
    &pod_template::STRATEGY,
    &priority_class::STRATEGY,
    &priority_level_configuration::STRATEGY,
    &replica_set::STRATEGY,
    &replication_controller::STRATEGY,
    &resource_claim::STRATEGY,
    &resource_claim_template::STRATEGY,
    &resource_quota::STRATEGY,
    &resource_slice::STRATEGY,
    &role::STRATEGY,
    &role_binding::STRATEGY,
    &runtime_class::STRATEGY,
    &scale::STRATEGY,
    &secret::STRATEGY,
    &self_subject_review::STRATEGY,
    &self_subject_rules_review::STRATEGY,
    &service::STRATEGY,
    &service_account::STRATEGY,
    &service_cidr::STRATEGY,
    &stateful_set::STRATEGY,
    &storage_class::STRATEGY,
    &subject_access_review::SUBJECT,
    &subject_access_review::SELF,
    &subject_access_review::LOCAL,
    &token_request::STRATEGY,
    &token_review::STRATEGY,
    &validating_admission_policy::STRATEGY,
    &validating_admission_policy_binding::STRATEGY,
    &volume_attachment::STRATEGY,
    &volume_attributes_class::STRATEGY,
    &webhook_configuration::VALIDATING,
    &webhook_configuration::MUTATING,
];
// End of what `cargo xtask generate` writes.

/// The strategy of a kind; of one that is not built in, what most kinds do.
pub fn strategy(group: &str, kind: &str) -> &'static Strategy {
    const OTHER: &Strategy = &Strategy::of("", "");
    let mut all = STRATEGIES.iter().copied();
    all.find(|strategy| (strategy.group, strategy.kind) == (group, kind)).unwrap_or(OTHER)
}
