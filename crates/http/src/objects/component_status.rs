//! `componentstatuses`: computed when asked for, and read only.
//!
//! The store stands where upstream's etcd stands. The scheduler and the
//! controller manager are asked for by name, so they are listed; they are not
//! part of this server, so they are not healthy.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sternpost_meta::{
    resource::Verb,
    status::{ResourceName, Status},
};
use sternpost_registry::{
    field_selectors,
    kinds::component_status::{Probe, component_status, item},
    object::Fields,
};
use sternpost_verbs::{Target, served::Served};

use super::{Answer, options, representation::Shape};
use crate::request::Request;

const COMPONENTS: [Probe<'static>; 3] = [
    Probe { component: "controller-manager", outcome: Err("this server has no controller manager") },
    Probe { component: "scheduler", outcome: Err("this server has no scheduler") },
    // A store that fails ends the process: whoever answers has a store.
    Probe { component: "etcd-0", outcome: Ok("ok") },
];

pub fn respond(
    request: &Request,
    served: &Arc<Served>,
    target: Target<'_>,
    verb: Verb,
) -> Result<Answer, Status> {
    match verb {
        Verb::Get => {
            let shape = Shape::negotiate(request, served)?;
            options::check_export(request)?;
            let found = COMPONENTS.iter().find(|probe| probe.component == target.name);
            let found = found.ok_or_else(|| {
                // Upstream calls them by the singular here.
                let resource = ResourceName { group: "", resource: "componentstatus" };
                Status::not_found(resource, target.name)
            })?;
            Ok(shape.object(request, served, &component_status(found), StatusCode::OK))
        }
        Verb::List => {
            let shape = Shape::negotiate_list(request, served)?;
            let selection = options::selection(request, served)?;
            options::list(request)?;
            let selects = |object: &Value| {
                selection.labels.matches(object.field("metadata").field("labels"))
                    && field_selectors::matches(&selection.fields, served.strategy, object)
            };
            let items: Vec<Value> = COMPONENTS.iter().map(item).filter(selects).collect();
            Ok(shape.computed(request, served, &items))
        }
        _ => Err(Status::method_not_allowed()),
    }
}
