//! Admission: what looks at a write between its decoding and the store.
//!
//! Start with [`plugins::ORDER`], the chain in upstream's order. A write goes through it
//! twice: [`mutate`] before the kind prepares the object, so that a plugin sees no
//! generated name, uid or time of creation, and [`validate`] after the kind found
//! nothing wrong. The first refusal ends a pass. Defaults are not set again after
//! the mutating pass: the plugins write whole values.
//!
//! Every plugin is a file of plain functions and reads other objects from the
//! cache's snapshots. Those who have to wait for others stand last in upstream's
//! order: policies, webhooks and quota. The chain only has their names, and
//! [`mutate`] and [`validate`] call them where it ends. When one of them has
//! changed the object, the mutating pass is gone through a second time. For the
//! account of a new pod, and for a namespace that another server may have made,
//! [`mutate`] waits before the chain.

mod about;
mod expressions;
mod plugins;
pub(crate) mod pod_resources;
mod policies;
pub(crate) mod policy_rules;
mod policy_types;
mod reinvocation;
mod request;
mod resource_quota;
mod switches;
mod versions;
mod webhook_calls;
pub(crate) mod webhook_rules;
mod webhooks;

use std::sync::Arc;

use serde_json::Value;
pub use sternpost_admission::{request::Operation, webhook::Pass};
use sternpost_cache::{ResourceId, Snapshot};
use sternpost_clock::machine;
use sternpost_meta::{
    audit::Annotations, gvk::GroupVersionKind, status::Status, user::User, warning::Warnings,
};
use sternpost_registry::object::Fields;
use sternpost_store::KeyRange;
pub(crate) use webhook_calls::NoObserver;
pub use webhook_calls::{CallObserver, CallOutcome, WebhookCall};

pub use plugins::pod_security::PodSecurityConfiguration;
pub(crate) use policies::Policies;
use reinvocation::{Reinvocation, Round};
pub use resource_quota::LimitedResources;
pub(crate) use resource_quota::{Charged, Charges};
pub use switches::{Chain, SwitchError, check_available};
pub(crate) use webhooks::{GROUP, Webhooks};

use crate::{
    delete::DeleteOptions,
    failure::Failure,
    latency::LatencyTracker,
    ownership::set_owners,
    served::Served,
    unreadable::corrupt,
    verbs::{DryRun, SentOptions, Target, Verbs, Writer},
};

/// One entry of the chain; what a plugin does not do, does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Plugin {
    pub name: &'static str,
    mutate: fn(&Request<'_>, &mut Value) -> Result<(), Status>,
    /// May add warnings, which reach the client whatever becomes of the write.
    validate: fn(&Request<'_>, &Value) -> Result<(), Status>,
}

impl Plugin {
    const NONE: Plugin = Plugin { name: "", mutate: |_, _| Ok(()), validate: |_, _| Ok(()) };
}

/// Those that wait for others and stand last in upstream's order. They are more than these functions.
const WAITING: [&Plugin; 5] =
    [&MUTATING_POLICY, &MUTATING_WEBHOOK, &VALIDATING_POLICY, &VALIDATING_WEBHOOK, &RESOURCE_QUOTA];

const MUTATING_POLICY: Plugin = Plugin { name: "MutatingAdmissionPolicy", ..Plugin::NONE };
const VALIDATING_POLICY: Plugin = Plugin { name: "ValidatingAdmissionPolicy", ..Plugin::NONE };
const MUTATING_WEBHOOK: Plugin = Plugin { name: "MutatingAdmissionWebhook", ..Plugin::NONE };
const VALIDATING_WEBHOOK: Plugin = Plugin { name: "ValidatingAdmissionWebhook", ..Plugin::NONE };
const RESOURCE_QUOTA: Plugin = Plugin { name: "ResourceQuota", ..Plugin::NONE };

/// What is asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub target: Target<'a>,
    /// What the object is: the target's own kind, or that of a subresource, such as a scale.
    pub served: &'a Served,
    /// Of the object where that is served nowhere: the options of a connection.
    pub kind: Option<&'a GroupVersionKind>,
    /// What is said to be written. Of a new object it is what was sent; empty if it is still to be
    /// made, and of a member of a collection.
    pub name: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub user: &'a User,
    pub dry_run: DryRun,
    pub options: Options<'a>,
    /// Where to note what an audit log should have.
    pub audit: Option<&'a Annotations>,
    /// What the client is told beside the answer.
    pub warnings: Option<&'a Warnings>,
    /// Where the time of webhooks is counted.
    pub latency: Option<&'a LatencyTracker>,
    /// When the request must be done.
    pub deadline: Option<machine::Instant>,
}

/// What a request brings beside the object.
#[derive(Debug, Clone, Copy)]
pub enum Options<'a> {
    Write(SentOptions<'a>),
    Delete(&'a DeleteOptions),
    /// Of a connection the options are the object.
    None,
}

impl<'a> Attributes<'a> {
    pub fn of_write(operation: Operation, target: Target<'a>, writer: Writer<'a>) -> Self {
        let Writer { dry_run, subresource, user, sent, audit, warnings, latency, deadline, .. } = writer;
        let (served, name, options) = (target.served, target.name, Options::Write(sent));
        let kind = None;
        Self {
            operation,
            target,
            served,
            kind,
            name,
            subresource,
            user,
            dry_run,
            options,
            audit,
            warnings,
            latency,
            deadline,
        }
    }

    pub fn of_delete(target: Target<'a>, options: &'a DeleteOptions, writer: Writer<'a>) -> Self {
        let dry_run = if options.dry_run { DryRun::All } else { DryRun::No };
        let options = Options::Delete(options);
        Self { dry_run, options, ..Self::of_write(Operation::Delete, target, writer) }
    }

    /// Counts the time that webhooks have taken since then.
    fn waited_since(&self, asked: machine::Instant) {
        if let Some(latency) = self.latency {
            latency.add(machine::elapsed(asked));
        }
    }

    fn warn(&self, text: String) {
        self.warn_all([text]);
    }

    fn warn_all(&self, texts: impl IntoIterator<Item = String>) {
        if let Some(warnings) = self.warnings {
            warnings.extend(texts);
        }
    }
}

/// The mutating pass. `object` is `null` on delete, `old` `None` on create.
pub async fn mutate(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Failure> {
    // Only policies and webhooks change who owns fields.
    let asks_others = verbs.webhooks.are_there() || verbs.policies.are_there();
    let owners = asks_others.then(|| object.field("metadata").get_field("managedFields").cloned());
    let mut reinvocation = Reinvocation::default();
    let mut passed = mutate_once(verbs, attributes, object, old, &mut reinvocation).await;
    if passed.is_ok() && reinvocation.needed {
        reinvocation.round = Round::Second;
        passed = mutate_once(verbs, attributes, object, old, &mut reinvocation).await;
    }
    passed?;
    if let (true, Some(owners)) = (reinvocation.needed, owners)
        && let Err(why) = sternpost_apply::check_managed_fields(object)
    {
        set_owners(object, owners);
        attributes.warn(format!(".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"));
    }
    Ok(())
}

async fn mutate_once(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    reinvocation: &mut Reinvocation,
) -> Result<(), Failure> {
    if verbs.cache.others_write() {
        check_judges(verbs, attributes)?;
        plugins::namespace_lifecycle::look_for_namespace(verbs, attributes).await?;
    }
    if verbs.admission.has(plugins::service_account::PLUGIN) {
        plugins::service_account::wait_for_account(verbs, attributes, object).await;
    }
    let request = Request { verbs, attributes, old };
    let mut chain =
        || verbs.admission.plugins().iter().try_for_each(|plugin| (plugin.mutate)(&request, object));
    if let Err(refused) = chain() {
        look_again(verbs, refused).await?;
        chain()?;
    }
    if verbs.admission.has(MUTATING_POLICY) {
        policies::mutate(verbs, attributes, object, old, reinvocation).await?;
    }
    if verbs.admission.has(MUTATING_WEBHOOK) {
        webhooks::mutate(verbs, attributes, object, old, reinvocation).await?;
    }
    Ok(())
}

/// The validating pass. What quotas were charged is given back to be
/// kept until the write can be read.
pub(crate) async fn validate<'a>(
    verbs: &'a Verbs,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<Charged<'a>, Failure> {
    let request = Request { verbs, attributes, old };
    let chain =
        || verbs.admission.plugins().iter().try_for_each(|plugin| (plugin.validate)(&request, object));
    if let Err(refused) = chain() {
        look_again(verbs, refused).await?;
        chain()?;
    }
    if verbs.admission.has(VALIDATING_POLICY) {
        policies::validate(verbs, attributes, object, old).await?;
    }
    if verbs.admission.has(VALIDATING_WEBHOOK) {
        webhooks::validate(verbs, attributes, object, old).await?;
    }
    if !verbs.admission.has(RESOURCE_QUOTA) {
        return Ok(Charged::NOTHING);
    }
    Ok(resource_quota::validate(verbs, attributes, object, old).await?)
}

/// Whether everything can be read that decides here: webhooks and policies that are not known refuse nothing, nor do
/// quotas and limits. Upstream is not ready then. The server's own writes are not held up.
fn check_judges(verbs: &Verbs, attributes: &Attributes<'_>) -> Result<(), Status> {
    if attributes.user == User::server() || !verbs.store.has_unreadable() {
        return Ok(());
    }
    let mut ranges = vec![format!("{GROUP}/")];
    let namespace = attributes.target.namespace;
    if !namespace.is_empty() {
        ranges.extend(["resourcequotas", "limitranges"].map(|resource| format!("/{resource}/{namespace}/")));
    }
    let unreadable = |range| verbs.store.unreadable(&KeyRange::prefix(range)).into_iter().next();
    ranges.into_iter().find_map(unreadable).map_or(Ok(()), |found| Err(corrupt(&found)))
}

/// What a plugin refuses because of other objects may be allowed by what another server has written to them, which
/// the cache shows after this. Otherwise, or if nobody can say, it is refused.
async fn look_again(verbs: &Verbs, refused: Status) -> Result<(), Status> {
    match verbs.catching_up_with_all() {
        Some(catching_up) => catching_up.await.map_err(|_| refused),
        None => Err(refused),
    }
}

/// What a plugin is told beside the object.
struct Request<'a> {
    verbs: &'a Verbs,
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
        self.verbs.cache.resource(&ResourceId::new(group, resource)).snapshot()
    }

    /// One object of a resource without namespaces.
    fn find(&self, group: &str, resource: &str, name: &str) -> Option<Value> {
        self.objects(group, resource).get("", name).map(|object| object.value())
    }

    fn forbidden(&self, object: &Value, why: &str) -> Status {
        let target = self.attributes.target;
        Status::forbidden_because(target.resource_name(), name_of(target.name, object), why)
    }
}

/// The name that a refusal has for an object, which may have none yet; `said` is that of the request.
fn name_of<'a>(said: &'a str, object: &'a Value) -> &'a str {
    let metadata = object.field("metadata");
    let names = [said, metadata.text("name"), metadata.text("generateName")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}
