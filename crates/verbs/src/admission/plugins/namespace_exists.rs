//! NamespaceExists: nothing is written where there is no namespace. NamespaceLifecycle says so too.

use serde_json::Value;
use sternpost_meta::status::{ResourceName, Status};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "NamespaceExists", validate, ..Plugin::NONE };

fn validate(request: &Request<'_>, _: &Value) -> Result<(), Status> {
    let target = request.attributes.target;
    let is_write = request.attributes.operation != Operation::Connect;
    if !target.served.is_namespaced()
        || !is_write
        || request.objects("", "namespaces").get("", target.namespace).is_some()
    {
        return Ok(());
    }
    Err(Status::not_found(ResourceName { group: "", resource: "namespaces" }, target.namespace))
}
