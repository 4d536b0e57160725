//! What some kinds take from their surroundings, which their rules cannot know:
//! the time, who writes, and the namespace around the object.

use serde_json::Value;
use sternpost_cache::ResourceId;
use sternpost_meta::field::Errors;
use sternpost_registry::{
    kinds::{api_service, certificate_signing_request, persistent_volume, resource_claim, resource_slice},
    object::Fields,
};

use crate::registry::{Registry, Target, Writer};

impl Registry {
    /// Completes an object that is prepared to be created.
    pub(crate) fn stamp_new(&self, target: Target<'_>, object: &mut Value, writer: Writer<'_>) {
        match (target.served.group(), target.served.kind()) {
            ("certificates.k8s.io", "CertificateSigningRequest") => {
                certificate_signing_request::set_requester(object, &writer.user.to_json());
            }
            ("", "PersistentVolume") => persistent_volume::stamp_phase(object, None, &self.now()),
            ("apiregistration.k8s.io", "APIService") => {
                api_service::available_when_local(object, &self.now());
            }
            ("resource.k8s.io", "ResourceSlice") => resource_slice::stamp_taints(object, &self.now()),
            _ => {}
        }
    }

    /// Completes an object that is prepared to replace `old`.
    pub(crate) fn stamp_changed(
        &self,
        target: Target<'_>,
        object: &mut Value,
        old: &Value,
        writer: Writer<'_>,
    ) {
        match (target.served.group(), target.served.kind(), writer.subresource) {
            ("certificates.k8s.io", "CertificateSigningRequest", "status" | "approval") => {
                certificate_signing_request::stamp_conditions(object, old, &self.now());
            }
            ("", "PersistentVolume", "status") => {
                persistent_volume::stamp_phase(object, Some(old), &self.now());
            }
            ("resource.k8s.io", "ResourceSlice", "") => resource_slice::stamp_taints(object, &self.now()),
            _ => {}
        }
    }

    /// Goes before all other checks; `old` on update.
    pub(crate) fn check_surroundings(
        &self,
        target: Target<'_>,
        object: &Value,
        old: Option<&Value>,
        writer: Writer<'_>,
        errors: &mut Errors,
    ) {
        let spec = object.field("spec");
        match (target.served.group(), target.served.kind(), old, writer.subresource) {
            ("resource.k8s.io", "ResourceClaim", None, _) => {
                resource_claim::validate_admin_access(spec, &self.namespace_labels(target), errors);
            }
            ("resource.k8s.io", "ResourceClaimTemplate", None, _) => {
                let labels = self.namespace_labels(target);
                resource_claim::validate_admin_access(spec.field("spec"), &labels, errors);
            }
            ("resource.k8s.io", "ResourceClaim", Some(old), "status") => {
                let (new, old) = (object.field("status"), old.field("status"));
                let labels = self.namespace_labels(target);
                resource_claim::validate_admin_access_status(new, old, &labels, errors);
            }
            _ => {}
        }
    }

    fn namespace_labels(&self, target: Target<'_>) -> Value {
        let namespaces = self.cache.resource(&ResourceId::new("", "namespaces")).snapshot();
        let namespace = namespaces.get("", target.namespace).map(|namespace| namespace.value());
        namespace.map_or(Value::Null, |namespace| namespace.field("metadata").field("labels").clone())
    }
}
