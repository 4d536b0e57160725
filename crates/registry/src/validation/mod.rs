//! What kinds have in common: parts of objects that several kinds contain, and the
//! checks that several kinds make.

pub mod admission_policy;
pub mod admission_rule;
pub mod bounds;
pub mod ca_bundle;
pub mod conditions;
pub mod cron_schedule;
pub mod deprecated_label;
pub mod device_config;
pub mod form;
pub mod int_or_percent;
pub mod ip_ranges;
pub mod label_selector;
pub mod labels;
pub mod match_condition;
pub mod node_selector;
pub mod pod_annotations;
pub mod pod_spec;
pub mod pod_template_spec;
pub mod pod_warnings;
pub mod resource_list;
pub mod resource_name;
pub mod template_metadata;
pub mod time_zone;
pub mod volume_source;
pub mod webhook_client_config;
pub mod workload;
