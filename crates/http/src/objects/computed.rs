//! Objects that are not stored but made when they are asked for, and read only.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sternpost_meta::{
    resource::Verb,
    status::{ResourceName, Status},
};
use sternpost_registry::{field_selectors, object::Fields, strategy::Computed};
use sternpost_verbs::{Target, served::Served};

use super::{Answer, options, representation::Shape};
use crate::request::Request;

pub fn respond(
    request: &Request,
    served: &Arc<Served>,
    target: Target<'_>,
    kind: &Computed,
    verb: Verb,
) -> Result<Answer, Status> {
    match verb {
        Verb::Get => {
            let shape = Shape::negotiate(request, served)?;
            options::check_export(request)?;
            let mut items = (kind.items)().into_iter();
            let found = items.find(|item| item.field("metadata").text("name") == target.name);
            let mut found = found.ok_or_else(|| {
                // Upstream calls them by the singular here.
                let resource = ResourceName { group: served.group(), resource: kind.called };
                Status::not_found(resource, target.name)
            })?;
            served.set_type(&mut found);
            Ok(shape.object(request, served, &found, StatusCode::OK))
        }
        Verb::List => {
            let shape = Shape::negotiate_list(request, served)?;
            let selection = options::selection(request, served)?;
            options::list(request)?;
            let selects = |object: &Value| {
                selection.labels.matches(object.field("metadata").field("labels"))
                    && field_selectors::matches(&selection.fields, served.strategy, object)
            };
            let items: Vec<Value> = (kind.items)().into_iter().filter(selects).collect();
            Ok(shape.computed(request, served, &items))
        }
        _ => Err(Status::method_not_allowed()),
    }
}
