//! The verbs, and what they share.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_cache::{Cache, Object, ResourceCache, ResourceId, Snapshot};
use sternpost_clock::{Clock, machine};
use sternpost_golang::time::Timestamp;
use sternpost_meta::{
    audit::Annotations,
    authorize::{AlwaysAllow, Authorizer},
    field::Errors,
    format,
    status::{ResourceName, Status},
    user::User,
    warning::Warnings,
};
use sternpost_registry::{
    kinds::service::allocation::Ranges,
    object::{Fields, FieldsMut},
};
use sternpost_store::{CommitError, Revision, Store, Transaction, Write};

use crate::{
    admission::{self, CallObserver, Chain, Charges, NoObserver, Policies, Webhooks},
    claims::Claimed,
    custom::{Callouts, Life, NoCallouts},
    definitions,
    etcd_limit::ObjectSize,
    failure::Failure,
    latency::LatencyTracker,
    served::{Served, ServedResources},
    unreadable::UnsafeDeletion,
};

/// How long an answer waits for the cache to show what was just written. The
/// cache is fed by the store that already answered, so this is not reached
/// unless the process is starved.
pub(crate) const CATCH_UP: Duration = Duration::from_secs(10);

/// Those of both groups are kept as one.
const EVENTS: &str = "events";

/// Objects and what may be done to them.
#[derive(Debug)]
pub struct Verbs {
    pub served: ServedResources,
    pub cache: Arc<Cache>,
    /// Where the definitions of custom resources are.
    definitions: Arc<ResourceCache>,
    pub(crate) store: Arc<dyn Store>,
    /// When everything here happens.
    pub clock: Clock,
    pub(crate) admission: Chain,
    pub(crate) object_size: ObjectSize,
    pub(crate) webhooks: Webhooks,
    /// Of those who are charged to quotas.
    pub(crate) charges: Charges,
    pub(crate) policies: Policies,
    pub(crate) callouts: Arc<dyn Callouts>,
    /// Is told how webhooks do.
    pub(crate) call_observer: Arc<dyn CallObserver>,
    /// Who may grant what; everybody everything, unless somebody else decides.
    pub authorizer: Arc<dyn Authorizer>,
    pub(crate) service_ranges: Ranges,
    /// How long an event stays after it was written, on a store that sees to that itself.
    event_lifetime: Option<NonZeroU32>,
    /// Whether nothing is written.
    is_read_only: bool,
    pub(crate) unsafe_deletion: UnsafeDeletion,
}

/// Which object, or which collection, a request is about.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub served: &'a Served,
    /// Empty at the cluster scope, and for all namespaces.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    pub fn resource_name(&self) -> ResourceName<'a> {
        self.served.resource_name()
    }

    /// Of a name that no object can have, that is what is wrong.
    pub(crate) fn not_found(&self) -> Status {
        self.check_name().err().unwrap_or_else(|| Status::not_found(self.resource_name(), self.name))
    }

    /// Whether an object of this name could be stored at all.
    pub(crate) fn check_name(&self) -> Result<(), Status> {
        let problems = format::path_segment(self.name);
        if problems.is_empty() { Ok(()) } else { Err(Status::invalid_name_parameter(self.name, &problems)) }
    }

    /// The namespace to list: all if none is named.
    pub fn scope(&self) -> Option<&'a str> {
        (!self.namespace.is_empty() || !self.served.is_namespaced()).then_some(self.namespace)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    No,
    All,
}

/// Whether something had to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InEffect {
    Before,
    Since,
}

/// Who writes, and how.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    pub dry_run: DryRun,
    /// In whose name fields are owned.
    pub manager: &'a str,
    /// Through which subresource; empty for the object itself.
    pub subresource: &'a str,
    pub user: &'a User,
    pub sent: SentOptions<'a>,
    /// Where to note what an audit log should have.
    pub audit: Option<&'a Annotations>,
    /// What the client is told beside the answer.
    pub warnings: Option<&'a Warnings>,
    /// Where the time of webhooks is counted.
    pub latency: Option<&'a LatencyTracker>,
    /// When it must be done; whoever is asked on the way has until then.
    pub deadline: Option<machine::Instant>,
}

/// Options of a write as they were sent; empty if they were not.
#[derive(Debug, Clone, Copy, Default)]
pub struct SentOptions<'a> {
    pub field_manager: &'a str,
    pub field_validation: &'a str,
}

impl Writer<'static> {
    /// The server on its own account.
    pub fn server() -> Self {
        Self {
            dry_run: DryRun::No,
            manager: "kube-apiserver",
            subresource: "",
            user: User::server(),
            sent: SentOptions::default(),
            audit: None,
            warnings: None,
            latency: None,
            deadline: None,
        }
    }
}

impl Writer<'_> {
    pub(crate) fn warn_all(&self, texts: impl IntoIterator<Item = String>) {
        if let Some(warnings) = self.warnings {
            warnings.extend(texts);
        }
    }
}

/// What became of a write.
#[derive(Debug, Clone)]
pub struct Written {
    /// The whole object; without a resource version if nothing was stored.
    pub object: Value,
    /// The same as the cache has it, unless another writer was there since.
    pub stored: Option<Arc<Object>>,
    pub created: bool,
}

impl Verbs {
    pub fn new(served: ServedResources, cache: Arc<Cache>, store: Arc<dyn Store>, clock: Clock) -> Self {
        let definitions = cache.resource(&ResourceId::new(definitions::GROUP, definitions::PLURAL));
        let webhooks = Webhooks::of(&cache);
        let policies = Policies::of(&cache);
        Self {
            served,
            definitions,
            webhooks,
            policies,
            cache,
            store,
            clock,
            admission: Chain::default(),
            object_size: ObjectSize::default(),
            charges: Charges::default(),
            callouts: Arc::new(NoCallouts),
            call_observer: Arc::new(NoObserver),
            authorizer: Arc::new(AlwaysAllow),
            service_ranges: Ranges::default(),
            event_lifetime: None,
            is_read_only: false,
            unsafe_deletion: UnsafeDeletion::default(),
        }
    }

    /// The most that expressions may cost when an object of so many bytes is written: rules of its definition,
    /// policies, and conditions of webhooks. What mutations add to it is not counted.
    pub fn expression_cost(&self, served: &Served, bytes: usize) -> u64 {
        // These bring expressions themselves, and compiling takes its time.
        if [definitions::GROUP, admission::GROUP].contains(&served.group()) {
            return u64::MAX;
        }
        let rules = served.rule_costs();
        let policies = self.policies.costs_by_size(&served.resource);
        let conditions = self.webhooks.costs_by_size(&served.resource.plural);
        (rules + policies + conditions).of(bytes)
    }

    /// Of a server that writes nothing.
    #[must_use]
    pub fn only_reading(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Before anybody is asked about a write, who may act on it.
    pub fn check_writes(&self, target: Target<'_>, dry_run: DryRun) -> Result<(), Status> {
        match dry_run {
            DryRun::No if self.is_read_only => {
                Err(Status::only_reads(Some((target.resource_name(), target.name))))
            }
            _ => Ok(()),
        }
    }

    /// With other admission plugins than those that are on by default.
    #[must_use]
    pub fn with_admission(self, admission: Chain) -> Self {
        Self { admission, ..self }
    }

    /// With objects of another size than etcd would let them have.
    #[must_use]
    pub fn with_object_size(self, object_size: ObjectSize) -> Self {
        Self { object_size, ..self }
    }

    /// With other addresses and ports for services.
    #[must_use]
    pub fn with_service_ranges(self, service_ranges: Ranges) -> Self {
        Self { service_ranges, ..self }
    }

    /// With clients who may delete what cannot be read, if they may at all.
    #[must_use]
    pub fn with_unsafe_deletion(self, unsafe_deletion: UnsafeDeletion) -> Self {
        Self { unsafe_deletion, ..self }
    }

    /// With events that end so long after they were last written, if the store lets keys expire.
    #[must_use]
    pub fn with_event_lifetime(self, lifetime: Duration) -> Self {
        let seconds = u32::try_from(lifetime.as_secs()).ok().and_then(NonZeroU32::new);
        Self { event_lifetime: seconds.filter(|_| self.store.expires()), ..self }
    }

    /// Whether the store sees to the end of events.
    pub fn expires_events(&self) -> bool {
        self.event_lifetime.is_some()
    }

    /// With somebody who calls webhooks.
    #[must_use]
    pub fn with_callouts(self, callouts: Arc<dyn Callouts>) -> Self {
        Self { callouts, ..self }
    }

    /// With somebody who is told of every webhook that was asked.
    #[must_use]
    pub fn with_call_observer(self, call_observer: Arc<dyn CallObserver>) -> Self {
        Self { call_observer, ..self }
    }

    /// With somebody who decides who may do what.
    #[must_use]
    pub fn with_authorizer(self, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, ..self }
    }

    /// Whether quotas of a namespace are charged for what nobody can read yet.
    pub fn has_unstored_charges(&self, namespace: &str) -> bool {
        self.charges.are_unstored(namespace)
    }

    /// The object as the cache has it, which is as it is now unless others write to the store.
    pub fn get(&self, target: Target<'_>) -> Result<Arc<Object>, Status> {
        let found = self.snapshot(target.served).get(target.namespace, target.name).cloned();
        // One that is there may be what was there before, if what is there now cannot be read.
        if found.is_none() || self.store.has_unreadable() {
            self.check_readable(target)?;
        }
        found.ok_or_else(|| target.not_found())
    }

    pub(crate) fn snapshot(&self, served: &Served) -> Arc<Snapshot> {
        self.cache.resource(&served.id).snapshot()
    }

    pub(crate) fn namespaces(&self) -> Arc<Snapshot> {
        self.cache.resource(&ResourceId::new("", "namespaces")).snapshot()
    }

    /// What the cache shows of a write.
    pub(crate) fn written(&self, target: Target<'_>, name: &str, revision: Revision) -> Option<Arc<Object>> {
        let snapshot = self.snapshot(target.served);
        snapshot.get(target.namespace, name).filter(|object| object.revision == revision).cloned()
    }

    /// Commits a write of the target, and waits until it is in effect.
    pub(crate) async fn commit_for(
        &self,
        served: &Served,
        claimed: Claimed,
        mut transaction: Transaction,
    ) -> Result<Revision, CommitError> {
        transaction.compares.extend(served.life().map(Life::holds));
        if &*served.id.resource == EVENTS && served.id.group.is_empty() {
            transaction.writes.iter_mut().for_each(|write| {
                if let Write::Put { ttl, .. } = write {
                    *ttl = self.event_lifetime;
                }
            });
        }
        let committed = self.commit(&served.id, claimed.join(transaction)).await;
        if let (true, Ok(revision)) = (definitions::is_definition(served), &committed) {
            self.served.customs.reaches(*revision).await;
        }
        committed
    }

    /// Waits until all definitions that can be read are in effect.
    pub async fn definitions_in_effect(&self) -> InEffect {
        let revision = self.definitions.snapshot().revision;
        if self.served.customs.has_reached(revision) {
            return InEffect::Before;
        }
        self.served.customs.reaches(revision).await;
        InEffect::Since
    }

    /// After a conflict: whether the definition of a custom resource is another one now, so that
    /// trying again makes sense only from the beginning.
    pub(crate) async fn check_current(&self, served: &Served) -> Result<(), Failure> {
        let Some(life) = served.life() else { return Ok(()) };
        // Not of the newest write of all: the table only ever gets as far as the newest definition.
        self.definitions_in_effect().await;
        if life.is_over() { Err(Failure::Superseded) } else { Ok(()) }
    }

    /// Commits what is about a resource, and waits until reads show it. Whatever else it is about is on the same line.
    pub(crate) async fn commit(
        &self,
        id: &ResourceId,
        transaction: Transaction,
    ) -> Result<Revision, CommitError> {
        let (revision, committed) = match self.store.commit(transaction).await {
            Ok(committed) => (committed.revision, Ok(committed.revision)),
            // Whoever tries again must not find what has just been refused.
            Err(error @ CommitError::Conflict { revision, .. }) => (revision, Err(error)),
            Err(error) => return Err(error),
        };
        let is_shown = self.cache.line(id).reaches(revision, CATCH_UP).await;
        if committed.is_err() && !is_shown {
            let reason = format!("the cache does not show revision {revision}");
            return Err(CommitError::Unavailable { reason });
        }
        committed
    }

    /// The time as objects show it.
    pub fn now(&self) -> String {
        Timestamp::from_unix(self.clock.unix_seconds(), 0).to_time()
    }
}

/// What became of a write that the store did not acknowledge, other than a conflict.
pub(crate) fn not_stored(error: &CommitError) -> Failure {
    Failure::NotStored(Box::new(storage_status(error)))
}

/// What the store refused, other than a conflict.
pub(crate) fn storage_status(error: &CommitError) -> Status {
    match error {
        CommitError::ReadOnly => Status::only_reads(None),
        CommitError::Invalid(invalid) => Status::request_too_large_for_storage(&invalid.to_string()),
        other => Status::internal_error(&other.to_string()),
    }
}

pub(crate) fn invalid(target: Target<'_>, object: &Value, errors: Errors) -> Status {
    let (group, kind) = target.served.group_kind_of(object);
    Status::invalid(group, kind, object.field("metadata").text("name"), errors.into_causes())
}

/// What a DELETE that removed the object says.
pub fn deleted_status(target: Target<'_>, uid: &str) -> Value {
    let mut details = json!({"name": target.name, "kind": &*target.served.resource.plural, "uid": uid});
    if !target.served.group().is_empty() {
        details.set("group", target.served.group());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
