//! POST.

use serde_json::Value;
use sternpost_cache::object_key;
use sternpost_meta::{
    field::Errors,
    status::{Cause, Status},
};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    strategy::Generation,
};
use sternpost_store::{CommitError, Transaction};

use crate::{
    admission::{self, Attributes, Operation},
    failure::Failure,
    list::version_number,
    names::{generate_name, new_uid},
    object_meta::{self, DedupOwners, dedup_owners},
    ownership::Ownership,
    verbs::{DryRun, Target, Verbs, Writer, Written, invalid, not_stored},
};

/// How often a generated name may clash before the client is told to try again.
const NAME_ATTEMPTS: usize = 8;

/// What was asked for by whoever creates an object, and so which verb was authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Create,
    /// An update or an apply of what is not there.
    CreateOnUpdate,
}

impl Verbs {
    /// `object` is typed already. The order of steps is upstream's.
    pub async fn create(
        &self,
        target: Target<'_>,
        object: Value,
        writer: Writer<'_>,
    ) -> Result<Written, Failure> {
        self.create_by(Request::Create, target, object, Ownership::Track, writer).await
    }

    pub(crate) async fn create_by(
        &self,
        request: Request,
        target: Target<'_>,
        object: Value,
        ownership: Ownership,
        writer: Writer<'_>,
    ) -> Result<Written, Failure> {
        self.check_writes(target, writer.dry_run)?;
        let mut object = object;
        refuse_while_ending(target, &object)?;
        self.check_namespace_of_body(target, &object)?;
        (target.served.strategy.default)(&mut object);
        if ownership == Ownership::Track {
            writer.warn_all(dedup_owners(&mut object, DedupOwners::AsSent));
            object.object_mut("metadata").remove("managedFields");
            self.track(target, None, &mut object, writer).await;
        }
        if target.served.is_namespaced() {
            object.object_mut("metadata").set("namespace", target.namespace);
        }
        // What it is called when it is asked about is what was sent, whatever becomes of it.
        let sent_name = object.field("metadata").text("name").to_owned();
        let attributes = Attributes::of_write(Operation::Create, target, writer);
        let attributes = Attributes { name: &sent_name, ..attributes };
        admission::mutate(self, &attributes, &mut object, None).await?;
        writer.warn_all(dedup_owners(&mut object, DedupOwners::AfterMutatingAdmission));
        self.check_namespace_of_body(target, &object)?;
        let context = self.context(target, writer);
        (target.served.strategy.authorize)(&object, None, &context)?;

        let generated = object.field("metadata").text("name").is_empty();
        let base = object.field("metadata").text("generateName").to_owned();
        let claimless = target.served.life().is_none() && target.served.strategy.allocation.is_none();
        for attempt in 1..=NAME_ATTEMPTS {
            // Only what may have to be tried again is kept.
            let again = generated || !claimless;
            let mut candidate = if again { object.clone() } else { std::mem::take(&mut object) };
            if generated && !base.is_empty() {
                let name = generate_name(&self.clock, &base);
                candidate.object_mut("metadata").set("name", name);
                // Some defaults are made of the name.
                (target.served.strategy.default)(&mut candidate);
            }
            match self.create_once(request, target, candidate, &sent_name, writer).await {
                Err(CreateError::Exists(name)) => {
                    let last = attempt == NAME_ATTEMPTS;
                    if !generated || base.is_empty() || last {
                        return Err(self.already_exists(target, &name, generated && !base.is_empty()).into());
                    }
                }
                Err(CreateError::Outrun) => self.check_current(target.served).await?,
                Err(CreateError::Failed(failure)) => return Err(*failure),
                Ok(written) => return Ok(written),
            }
        }
        Err(Status::internal_error("no name could be generated").into())
    }

    async fn create_once(
        &self,
        request: Request,
        target: Target<'_>,
        mut object: Value,
        sent_name: &str,
        writer: Writer<'_>,
    ) -> Result<Written, CreateError> {
        let served = target.served;
        let sent_version = object.field("metadata").text("resourceVersion").to_owned();
        self.begin(target, &mut object);
        writer.warn_all((served.strategy.early_warnings)(&object));
        (served.strategy.prepare_create)(&mut object);
        let context = self.context(target, writer);
        (served.strategy.stamp_create)(&mut object, &context);
        let claimed = self.claim_for_new(target, &mut object, writer)?;

        let mut errors = Errors::default();
        (served.strategy.validate_in_context)(&object, None, &context, &mut errors);
        object_meta::validate(&object, served.strategy, &mut errors);
        writer.warn_all(served.check(&object, None, &mut errors));
        if !errors.is_empty() {
            return Err(invalid(target, &object, errors).into());
        }
        writer.warn_all(served.warnings(&object, None));
        if request == Request::CreateOnUpdate {
            self.authorize_create_on_update(target, writer)?;
        }
        let attributes = Attributes::of_write(Operation::Create, target, writer);
        let attributes = Attributes { name: sent_name, ..attributes };
        let _charged = admission::validate(self, &attributes, &object, None).await?;
        served.settle_stored(&mut object);

        let name = object.field("metadata").text("name").to_owned();
        if writer.dry_run == DryRun::All {
            if let Some(catching_up) = self.catching_up(&served.id) {
                catching_up.await?;
            }
            let there = Target { name: &name, ..target };
            if self.snapshot(served).get(target.namespace, &name).is_some()
                || self.check_readable(there).is_err()
            {
                return Err(CreateError::Exists(name));
            }
            let mut object = served.complete(object, None);
            // Upstream refuses a version only where it would be stored.
            if !sent_version.is_empty() {
                object.object_mut("metadata").set("resourceVersion", sent_version);
            }
            return Ok(Written { object, stored: None, created: true });
        }
        // What is not a version is not looked at.
        if !sent_version.is_empty() && version_number(&sent_version).is_ok() {
            return Err(Status::version_on_create().into());
        }
        let key = object_key(&served.id, target.namespace, &name);
        let whole = self.kept(served, object).await?;
        let (kept, object) = self.within_limit(served, (target.namespace, &name), whole, None).await?;
        match self.commit_for(served, claimed, Transaction::create(key, kept)).await {
            Ok(revision) => {
                let stored = self.written(target, &name, revision);
                let object = served.complete(object, Some(revision));
                Ok(Written { object, stored, created: true })
            }
            // What was free a moment ago has been claimed by another.
            Err(CommitError::Conflict { current, .. }) if matches!(current.first(), Some(None)) => {
                Err(CreateError::Outrun)
            }
            Err(CommitError::Conflict { .. }) => Err(CreateError::Exists(name)),
            Err(error) => Err(not_stored(&error).into()),
        }
    }

    /// What the server alone decides about a new object.
    pub(crate) fn begin(&self, target: Target<'_>, object: &mut Value) {
        let generation = target.served.strategy.generation;
        let now = self.now();
        let uid = new_uid(&self.clock);
        let metadata = object.object_mut("metadata");
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
            metadata.remove(field);
        }
        metadata.set("uid", uid);
        metadata.set("creationTimestamp", now);
        if target.served.is_namespaced() {
            metadata.set("namespace", target.namespace);
        } else {
            metadata.remove("namespace");
        }
        if let Generation::Tracks(_) | Generation::TracksAllBut(_) = generation {
            metadata.set("generation", 1);
        }
    }

    /// The body may name the namespace of the URL, or none.
    pub(crate) fn check_namespace_of_body(&self, target: Target<'_>, object: &Value) -> Result<(), Status> {
        let named = object.field("metadata").text("namespace");
        if target.served.is_namespaced() && !named.is_empty() && named != target.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    fn already_exists(&self, target: Target<'_>, name: &str, generated: bool) -> Status {
        let mut status = Status::already_exists(target.resource_name(), name);
        if generated {
            status.message += ", the server was not able to generate a unique name for the object";
            if let Some(details) = &mut status.details {
                details.retry_after_seconds = 1;
                details.causes = Vec::<Cause>::new();
            }
            return status;
        }
        let terminating =
            self.snapshot(target.served).get(target.namespace, name).is_some_and(|object| object.terminating);
        if terminating {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }
}

/// Nothing new comes into a resource that is going away.
fn refuse_while_ending(target: Target<'_>, object: &Value) -> Result<(), Status> {
    if !target.served.is_ending() {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    let name = object.field("metadata").text("name");
    Err(Status::forbidden_because(target.resource_name(), name, why))
}

enum CreateError {
    Exists(String),
    /// Another writer was faster; the same may succeed now.
    Outrun,
    Failed(Box<Failure>),
}

impl<F: Into<Failure>> From<F> for CreateError {
    fn from(failure: F) -> Self {
        Self::Failed(Box::new(failure.into()))
    }
}
