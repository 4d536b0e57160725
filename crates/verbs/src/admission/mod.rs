//! Admission: what looks at a write between its decoding and the store.
//!
//! Start with [`PLUGINS`], the chain in upstream's order. A write goes through it
//! twice: [`mutate`] before the kind prepares the object, so that a plugin sees no
//! generated name, uid or time of creation, and [`validate`] after the kind found
//! nothing wrong. The first refusal ends a pass. Defaults are not set again after
//! the mutating pass: the plugins write whole values.
//!
//! Every plugin is a file of plain functions and reads other objects from the
//! cache's snapshots. Policies, webhooks and quota stand last in upstream's order:
//! they belong at the end of [`mutate`] and [`validate`], where the table ends.

mod certificate_subject_restriction;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod limit_ranger;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod persistent_volume_claim_resize;
mod pod_resize_validator;
mod pod_resources;
mod pod_security;
mod priority;
mod runtime_class;
mod storage_object_in_use_protection;
mod switches;
mod taint_nodes_by_condition;

use std::{mem, sync::Arc};

use serde_json::Value;
use sternpost_cache::{ResourceId, Snapshot};
use sternpost_meta::{status::Status, user::User};
use sternpost_registry::object::Fields;

pub use switches::{Chain, SwitchError};

use crate::registry::{DryRun, Registry, Target, Writer};

/// One entry of the chain; what a plugin does not do, does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Plugin {
    pub name: &'static str,
    mutate: fn(&Request<'_>, &mut Value) -> Result<(), Status>,
    /// May add warnings, which reach the client whatever becomes of the write.
    validate: fn(&Request<'_>, &Value, &mut Vec<String>) -> Result<(), Status>,
}

impl Plugin {
    const NONE: Plugin = Plugin { name: "", mutate: |_, _| Ok(()), validate: |_, _, _| Ok(()) };
}

/// The plugins that kube-apiserver has on by default and that need nothing but
/// objects, in its order.
pub const PLUGINS: [Plugin; 14] = [
    namespace_lifecycle::PLUGIN,
    limit_ranger::PLUGIN,
    taint_nodes_by_condition::PLUGIN,
    pod_security::PLUGIN,
    priority::PLUGIN,
    default_toleration_seconds::PLUGIN,
    default_storage_class::PLUGIN,
    storage_object_in_use_protection::PLUGIN,
    persistent_volume_claim_resize::PLUGIN,
    runtime_class::PLUGIN,
    certificate_subject_restriction::PLUGIN,
    default_ingress_class::PLUGIN,
    node_declared_feature_validator::PLUGIN,
    pod_resize_validator::PLUGIN,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// What is asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub target: Target<'a>,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// `None` where the verb is not told.
    pub user: Option<&'a User>,
    pub dry_run: DryRun,
}

impl<'a> Attributes<'a> {
    pub fn of_write(operation: Operation, target: Target<'a>, writer: Writer<'a>) -> Self {
        let Writer { dry_run, subresource, user, .. } = writer;
        Self { operation, target, subresource, user: Some(user), dry_run }
    }
}

/// The mutating pass. `object` is `null` on delete, `old` `None` on create.
pub fn mutate(
    registry: &Registry,
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let request = Request { registry, attributes, old };
    for plugin in registry.admission.plugins() {
        (plugin.mutate)(&request, object)?;
    }
    Ok(())
}

/// The validating pass. `warnings` are texts for `Warning` headers; it adds its
/// own, and a refusal takes them all along.
pub fn validate(
    registry: &Registry,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let request = Request { registry, attributes, old };
    for plugin in registry.admission.plugins() {
        (plugin.validate)(&request, object, warnings)
            .map_err(|status| status.with_warnings(mem::take(warnings)))?;
    }
    Ok(())
}

/// What a plugin is told beside the object.
struct Request<'a> {
    registry: &'a Registry,
    attributes: &'a Attributes<'a>,
    old: Option<&'a Value>,
}

impl Request<'_> {
    /// Whether it is about objects of this resource as a whole.
    fn is(&self, operation: Operation, group: &str, resource: &str) -> bool {
        self.attributes.operation == operation
            && self.attributes.subresource.is_empty()
            && self.is_about(group, resource)
    }

    /// Whether it is about this resource, or a subresource of it.
    fn is_about(&self, group: &str, resource: &str) -> bool {
        let served = &self.attributes.target.served.resource;
        &*served.gv.group == group && &*served.plural == resource
    }

    fn objects(&self, group: &str, resource: &str) -> Arc<Snapshot> {
        self.registry.cache.resource(&ResourceId::new(group, resource)).snapshot()
    }

    /// One object of a resource without namespaces.
    fn find(&self, group: &str, resource: &str, name: &str) -> Option<Value> {
        self.objects(group, resource).get("", name).map(|object| object.value())
    }

    fn forbidden(&self, object: &Value, why: &str) -> Status {
        let target = self.attributes.target;
        Status::forbidden_because(target.resource_name(), name_of(target, object), why)
    }
}

/// The name that a refusal has for an object, which may have none yet.
fn name_of<'a>(target: Target<'a>, object: &'a Value) -> &'a str {
    let metadata = object.field("metadata");
    let names = [target.name, metadata.text("name"), metadata.text("generateName")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}
