//! Structure and prose of the built-in types, from the `k8s-openapi` crate.

use k8s_openapi::{
    api, apiextensions_apiserver, apimachinery, apimachinery::pkg::runtime::RawExtension, kube_aggregator,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// Every definition reachable from the kinds the server serves, by its
/// upstream name. References read `#/$defs/NAME`.
pub fn definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    roots(&mut generator);
    generator.take_definitions(false)
}

fn kind<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// The kinds of the catalogue, the kinds of their subresources and what the
/// API itself speaks. The generator pulls in all they refer to.
fn roots(generator: &mut SchemaGenerator) {
    kind::<api::admissionregistration::v1::MutatingAdmissionPolicy>(generator);
    kind::<api::admissionregistration::v1::MutatingAdmissionPolicyBinding>(generator);
    kind::<api::admissionregistration::v1::MutatingWebhookConfiguration>(generator);
    kind::<api::admissionregistration::v1::ValidatingAdmissionPolicy>(generator);
    kind::<api::admissionregistration::v1::ValidatingAdmissionPolicyBinding>(generator);
    kind::<api::admissionregistration::v1::ValidatingWebhookConfiguration>(generator);
    kind::<api::apps::v1::ControllerRevision>(generator);
    kind::<api::apps::v1::DaemonSet>(generator);
    kind::<api::apps::v1::Deployment>(generator);
    kind::<api::apps::v1::ReplicaSet>(generator);
    kind::<api::apps::v1::StatefulSet>(generator);
    kind::<api::authentication::v1::SelfSubjectReview>(generator);
    kind::<api::authentication::v1::TokenRequest>(generator);
    kind::<api::authentication::v1::TokenReview>(generator);
    kind::<api::authorization::v1::LocalSubjectAccessReview>(generator);
    kind::<api::authorization::v1::SelfSubjectAccessReview>(generator);
    kind::<api::authorization::v1::SelfSubjectRulesReview>(generator);
    kind::<api::authorization::v1::SubjectAccessReview>(generator);
    kind::<api::autoscaling::v1::HorizontalPodAutoscaler>(generator);
    kind::<api::autoscaling::v1::Scale>(generator);
    kind::<api::autoscaling::v2::HorizontalPodAutoscaler>(generator);
    kind::<api::batch::v1::CronJob>(generator);
    kind::<api::batch::v1::Job>(generator);
    kind::<api::certificates::v1::CertificateSigningRequest>(generator);
    kind::<api::coordination::v1::Lease>(generator);
    kind::<api::core::v1::Binding>(generator);
    kind::<api::core::v1::ComponentStatus>(generator);
    kind::<api::core::v1::ConfigMap>(generator);
    kind::<api::core::v1::Endpoints>(generator);
    kind::<api::core::v1::Event>(generator);
    kind::<api::core::v1::LimitRange>(generator);
    kind::<api::core::v1::Namespace>(generator);
    kind::<api::core::v1::Node>(generator);
    kind::<api::core::v1::PersistentVolume>(generator);
    kind::<api::core::v1::PersistentVolumeClaim>(generator);
    kind::<api::core::v1::Pod>(generator);
    kind::<api::core::v1::PodTemplate>(generator);
    kind::<api::core::v1::ReplicationController>(generator);
    kind::<api::core::v1::ResourceQuota>(generator);
    kind::<api::core::v1::Secret>(generator);
    kind::<api::core::v1::Service>(generator);
    kind::<api::core::v1::ServiceAccount>(generator);
    kind::<api::discovery::v1::EndpointSlice>(generator);
    kind::<api::events::v1::Event>(generator);
    kind::<api::flowcontrol::v1::FlowSchema>(generator);
    kind::<api::flowcontrol::v1::PriorityLevelConfiguration>(generator);
    kind::<api::networking::v1::IPAddress>(generator);
    kind::<api::networking::v1::Ingress>(generator);
    kind::<api::networking::v1::IngressClass>(generator);
    kind::<api::networking::v1::NetworkPolicy>(generator);
    kind::<api::networking::v1::ServiceCIDR>(generator);
    kind::<api::node::v1::RuntimeClass>(generator);
    kind::<api::policy::v1::Eviction>(generator);
    kind::<api::policy::v1::PodDisruptionBudget>(generator);
    kind::<api::rbac::v1::ClusterRole>(generator);
    kind::<api::rbac::v1::ClusterRoleBinding>(generator);
    kind::<api::rbac::v1::Role>(generator);
    kind::<api::rbac::v1::RoleBinding>(generator);
    kind::<api::resource::v1::DeviceClass>(generator);
    kind::<api::resource::v1::ResourceClaim>(generator);
    kind::<api::resource::v1::ResourceClaimTemplate>(generator);
    kind::<api::resource::v1::ResourceSlice>(generator);
    kind::<api::scheduling::v1::PriorityClass>(generator);
    kind::<api::storage::v1::CSIDriver>(generator);
    kind::<api::storage::v1::CSINode>(generator);
    kind::<api::storage::v1::CSIStorageCapacity>(generator);
    kind::<api::storage::v1::StorageClass>(generator);
    kind::<api::storage::v1::VolumeAttachment>(generator);
    kind::<api::storage::v1::VolumeAttributesClass>(generator);
    kind::<apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::APIGroup>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::APIGroupList>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::APIResourceList>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::APIVersions>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::DeleteOptions>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::Patch>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::Status>(generator);
    kind::<apimachinery::pkg::apis::meta::v1::WatchEvent<RawExtension>>(generator);
    kind::<apimachinery::pkg::version::Info>(generator);
    kind::<kube_aggregator::pkg::apis::apiregistration::v1::APIService>(generator);
}
