//! DenyServiceExternalIPs: services take no addresses that are somebody else's.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::Fields;

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "DenyServiceExternalIPs", validate, ..Plugin::NONE };

fn validate(request: &Request<'_>, service: &Value) -> Result<(), Status> {
    let writes =
        request.is(Operation::Create, "", "services") || request.is(Operation::Update, "", "services");
    if !writes {
        return Ok(());
    }
    let had = request.old.map(|old| old.field("spec").items("externalIPs")).unwrap_or_default();
    let had: HashSet<&Value> = had.iter().collect();
    // What was there before may stay.
    if service.field("spec").items("externalIPs").iter().all(|address| had.contains(address)) {
        return Ok(());
    }
    Err(request.forbidden(service, "Use of external IPs is denied by admission control"))
}
