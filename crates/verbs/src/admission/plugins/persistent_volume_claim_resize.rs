//! PersistentVolumeClaimResize: a claim grows only if its class can do it.

use serde_json::Value;
use sternpost_meta::{quantity::Quantity, status::Status};
use sternpost_registry::{object::Fields, validation::resource_list};

use super::default_storage_class::CLASS_ANNOTATION;
use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "PersistentVolumeClaimResize", validate, ..Plugin::NONE };

fn validate(request: &Request<'_>, claim: &Value) -> Result<(), Status> {
    let Some(old) = request.old.filter(|_| request.is(Operation::Update, "", "persistentvolumeclaims"))
    else {
        return Ok(());
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old.field("status").text("phase") != "Bound" {
        return Err(request.forbidden(claim, "Only bound persistent volume claims can be expanded"));
    }
    let annotated = claim.field("metadata").field("annotations").get_field(CLASS_ANNOTATION);
    let class = annotated.or_else(|| claim.field("spec").get_field("storageClassName"));
    let class = class.and_then(Value::as_str).unwrap_or_default();
    let grows = request
        .find("storage.k8s.io", "storageclasses", class)
        .is_some_and(|class| class.flag("allowVolumeExpansion"));
    if grows {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(request.forbidden(claim, why))
}

fn size(claim: &Value) -> Quantity {
    let requests = claim.field("spec").field("resources").field("requests");
    resource_list::quantity(requests, "storage").unwrap_or(Quantity::ZERO)
}
