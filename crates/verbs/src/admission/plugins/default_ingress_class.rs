//! DefaultIngressClass: an ingress that chooses no class gets the default one.

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use super::default_storage_class::newest_default;
use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "DefaultIngressClass", mutate, ..Plugin::NONE };

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// How classes were chosen before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

fn mutate(request: &Request<'_>, ingress: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "networking.k8s.io", "ingresses") {
        return Ok(());
    }
    let annotated = ingress.field("metadata").field("annotations").has(CLASS_ANNOTATION);
    if annotated || ingress.field("spec").has("ingressClassName") {
        return Ok(());
    }
    let classes = request.objects("networking.k8s.io", "ingressclasses");
    if let Some(name) = newest_default(classes.iter(None, None).map(|class| class.value()), &[DEFAULT]) {
        ingress.object_mut("spec").set("ingressClassName", name);
    }
    Ok(())
}
