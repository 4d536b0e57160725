//! PUT, on the object and on its status.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_cache::{Object, object_key};
use sternpost_meta::{field::Errors, status::Status};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    strategy::{Action, MetadataCheck},
};
use sternpost_store::{CommitError, Transaction};

use crate::{
    admission::{self, Attributes, Operation},
    claims::Claimed,
    create::Request,
    failure::Failure,
    fresh::Standing,
    list::version_number,
    object_meta::{self, DedupOwners, dedup_owners},
    ownership::Ownership,
    served::Served,
    verbs::{DryRun, Target, Verbs, Writer, Written, invalid, not_stored},
};

/// An object that is there, and its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live<'a> {
    pub object: &'a Arc<Object>,
    pub value: &'a Value,
    /// What admission sees of the object; by default the object.
    pub shown_as: Option<Shown<'a>>,
}

/// What a subresource is of its object. It has been through the mutating pass already.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub served: &'a Served,
    pub show: &'a (dyn Fn(&Value) -> Result<Value, Status> + Sync),
}

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shown").field("kind", &self.served.kind()).finish_non_exhaustive()
    }
}

/// Which part of the object an update may change.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Everything but the status.
    Main,
    Status,
    /// What a subresource of the kind may change.
    Other {
        /// Restores everything else from the stored object.
        prepare: fn(&mut Value, &Value),
        validate: fn(&Value, &Value, &mut Errors),
    },
}

impl Verbs {
    pub async fn update(
        &self,
        target: Target<'_>,
        object: Value,
        part: Part,
        writer: Writer<'_>,
    ) -> Result<Written, Failure> {
        check_named(target, &object)?;
        let mut object = object;
        writer.warn_all(dedup_owners(&mut object, DedupOwners::AsSent));
        // When another writer was faster the next look tells why: the version that was named is no longer
        // there, or what the object claims went to another.
        let object = &object;
        self.attempting(target, move |old| self.update_from(old, target, object, part, writer)).await
    }

    /// `None` if another writer was faster.
    async fn update_from(
        &self,
        old: Option<Arc<Object>>,
        target: Target<'_>,
        object: &Value,
        part: Part,
        writer: Writer<'_>,
    ) -> Result<Option<Written>, Failure> {
        let mut object = object.clone();
        let Some(old) = old else {
            let may_create = target.served.strategy.create_on_update && matches!(part, Part::Main);
            if !may_create {
                return Err(target.not_found().into());
            }
            target.check_name()?;
            // There is nothing that a version could disagree with.
            object.object_mut("metadata").remove("resourceVersion");
            let request = Request::CreateOnUpdate;
            return match self.create_by(request, target, object, Ownership::Track, writer).await {
                Err(failure) if failure.is_already_there() => Ok(None),
                written => written.map(Some),
            };
        };
        let current = self.loaded(target.served, &old).await?;
        check_uid(target, &object, &current)?;
        let live = Live { object: &old, value: &current, shown_as: None };
        self.update_once(target, object, Ownership::Track, live, part, writer).await
    }

    /// The `finalize` subresource of a namespace: the finalizers in its spec, and metadata.
    pub async fn finalize(
        &self,
        target: Target<'_>,
        object: Value,
        writer: Writer<'_>,
    ) -> Result<Written, Failure> {
        check_named(target, &object)?;
        let object = &object;
        self.attempting(target, move |old| self.finalize_from(old, target, object, writer)).await
    }

    /// `None` if another writer was faster.
    async fn finalize_from(
        &self,
        old: Option<Arc<Object>>,
        target: Target<'_>,
        object: &Value,
        writer: Writer<'_>,
    ) -> Result<Option<Written>, Failure> {
        let mut actions = target.served.strategy.subresources.iter().map(|subresource| subresource.action);
        let finalize = actions.find_map(|action| match action {
            Action::Finalize { prepare, validate } => Some((prepare, validate)),
            _ => None,
        });
        let (prepare, validate) = finalize.ok_or_else(Status::no_such_resource)?;
        let old = old.ok_or_else(|| target.not_found())?;
        let current = old.value();
        check_uid(target, object, &current)?;
        let mut new = object.clone();
        (target.served.strategy.default)(&mut new);
        self.track(target, Some(&current), &mut new, writer).await;
        let attributes = Attributes::of_write(Operation::Update, target, writer);
        self.check_writes(target, writer.dry_run)?;
        admission::mutate(self, &attributes, &mut new, Some(&current)).await?;
        writer.warn_all(dedup_owners(&mut new, DedupOwners::AfterMutatingAdmission));
        check_version(target, &new, &old)?;
        keep_identity(&mut new, &current);
        prepare(&mut new, &current);
        let mut errors = Errors::default();
        object_meta::validate(&new, target.served.strategy, &mut errors);
        object_meta::validate_update(&new, &current, &mut errors);
        validate(&new, &mut errors);
        if !errors.is_empty() {
            return Err(invalid(target, &new, errors).into());
        }
        let _charged = admission::validate(self, &attributes, &new, Some(&current)).await?;
        target.served.settle_stored(&mut new);
        keep_times(&current, &mut new);
        self.store_update(target, new, &old, Claimed::default(), writer.dry_run).await
    }

    /// Lets the server change metadata and status of an object, and nothing else of it. What it
    /// writes is its own and is not checked.
    pub async fn change_own(
        &self,
        target: Target<'_>,
        change: impl Fn(&mut Value),
        writer: Writer<'_>,
    ) -> Result<(), Failure> {
        let change = &change;
        let written = self.attempting(target, move |old| self.change_own_from(old, target, change, writer));
        written.await.map(|_| ())
    }

    /// `None` if another writer was faster.
    async fn change_own_from(
        &self,
        old: Option<Arc<Object>>,
        target: Target<'_>,
        change: &impl Fn(&mut Value),
        writer: Writer<'_>,
    ) -> Result<Option<Written>, Failure> {
        let old = old.ok_or_else(|| target.not_found())?;
        let mut object = self.loaded(target.served, &old).await?;
        // Owners of the rest do not change, so the rest need not be looked at.
        let part = |object: &Value| {
            let mut part = json!({"metadata": object.field("metadata")});
            if let Some(status) = object.get_field("status") {
                part.set("status", status.clone());
            }
            part
        };
        let before = part(&object);
        change(&mut object);
        let mut after = part(&object);
        self.track(target, Some(&before), &mut after, writer).await;
        if let Some(metadata) = after.remove("metadata") {
            object.set("metadata", metadata);
        }
        target.served.settle_stored(&mut object);
        keep_times(&before, &mut object);
        self.store_update(target, object, &old, Claimed::default(), writer.dry_run).await
    }

    /// `None` if another writer was faster.
    pub(crate) async fn update_once(
        &self,
        target: Target<'_>,
        object: Value,
        ownership: Ownership,
        live: Live<'_>,
        part: Part,
        writer: Writer<'_>,
    ) -> Result<Option<Written>, Failure> {
        self.check_writes(target, writer.dry_run)?;
        let Live { object: old, value: current, shown_as } = live;
        let served = target.served;
        let mut object = object;
        if served.is_namespaced() {
            object.object_mut("metadata").set("namespace", target.namespace);
        }
        (served.strategy.default)(&mut object);
        if ownership == Ownership::Track {
            self.track(target, Some(current), &mut object, writer).await;
        }
        let attributes = Attributes::of_write(Operation::Update, target, writer);
        if shown_as.is_none() {
            admission::mutate(self, &attributes, &mut object, Some(current)).await?;
            writer.warn_all(dedup_owners(&mut object, DedupOwners::AfterMutatingAdmission));
        }
        if shown_as.is_none() {
            self.check_namespace_of_body(target, &object)?;
        }
        check_version(target, &object, old)?;
        keep_identity(&mut object, current);
        let context = self.context(target, writer);
        (served.strategy.authorize)(&object, Some(current), &context)?;
        // No kind prepares this, but some restore all metadata.
        let managed = object.object_mut("metadata").remove("managedFields");
        let put_managed_back = |object: &mut Value| {
            if let Some(managed) = managed {
                object.object_mut("metadata").set("managedFields", managed);
            }
        };
        let mut errors = Errors::default();
        let mut claimed = Claimed::default();
        match part {
            Part::Main => {
                (served.strategy.prepare_update)(&mut object, current);
                (served.strategy.stamp_update)(&mut object, current, &context);
                claimed = self.claim_for_changed(target, &mut object, current, writer)?;
                put_managed_back(&mut object);
                check_metadata(served, served.strategy.checks_again, &object, current, &mut errors);
                writer.warn_all(served.check(&object, Some(current), &mut errors));
            }
            Part::Other { prepare, validate } => {
                prepare(&mut object, current);
                (served.strategy.stamp_update)(&mut object, current, &context);
                put_managed_back(&mut object);
                check_metadata(served, served.strategy.status_checks_again, &object, current, &mut errors);
                validate(&object, current, &mut errors);
            }
            Part::Status => {
                keep_all_but_status(&mut object, current);
                (served.strategy.prepare_status_update)(&mut object, current);
                (served.strategy.stamp_update)(&mut object, current, &context);
                put_managed_back(&mut object);
                (served.strategy.validate_in_context)(&object, Some(current), &context, &mut errors);
                check_metadata(served, served.strategy.status_checks_again, &object, current, &mut errors);
                writer.warn_all(served.check_status(&object, current, &mut errors));
            }
        }
        if !errors.is_empty() {
            return Err(invalid(target, &object, errors).into());
        }
        writer.warn_all(served.warnings(&object, Some(current)));
        served.settle_stored(&mut object);
        if !matches!(part, Part::Status) && served.strategy.generation.changed(&object, current) {
            let generation = current.field("metadata").int("generation").unwrap_or_default();
            object.object_mut("metadata").set("generation", generation + 1);
        }
        // What is asked about is what would be stored.
        let _charged = match shown_as {
            None => admission::validate(self, &attributes, &object, Some(current)).await?,
            Some(Shown { served, show }) => {
                let attributes = Attributes { served, ..attributes };
                let (new, old) = (show(&object)?, show(current)?);
                admission::validate(self, &attributes, &new, Some(&old)).await?
            }
        };
        keep_times(current, &mut object);
        self.store_update(target, object, old, claimed, writer.dry_run).await
    }

    /// Stores a finished object in place of `old`, or removes it if it was
    /// waiting only for its last finalizer to go.
    pub(crate) async fn store_update(
        &self,
        target: Target<'_>,
        object: Value,
        old: &Arc<Object>,
        claimed: Claimed,
        dry_run: DryRun,
    ) -> Result<Option<Written>, Failure> {
        let served = target.served;
        let (encoded, object) = self.kept(served, object).await?;
        let unchanged = encoded == *old.stored();
        // No comparison of the store's will tell.
        let standing = match unchanged || dry_run == DryRun::All {
            true => Some(self.standing(target, Some(old.revision)).await?),
            false => None,
        };
        if standing == Some(Standing::Other) {
            return Ok(None);
        }
        // As upstream: what is stored with a key of the past is written again, though nothing changed.
        if standing == Some(Standing::Same) || (standing.is_some() && dry_run == DryRun::All) {
            let object = served.complete(object, Some(old.revision));
            let stored = unchanged.then(|| old.clone());
            return Ok(Some(Written { object, stored, created: false }));
        }
        // Whatever is stored can be deleted, though it grows by that.
        let begins_to_end = object.field("metadata").has("deletionTimestamp") && !old.terminating;
        let (encoded, object) = if begins_to_end {
            (encoded, object)
        } else {
            let place = (target.namespace, target.name);
            self.within_limit(served, place, (encoded, object), Some(old)).await?
        };
        let key = object_key(&served.id, target.namespace, target.name);
        let metadata = object.field("metadata");
        let done = metadata.has("deletionTimestamp")
            && metadata.items("finalizers").is_empty()
            && metadata.int("deletionGracePeriodSeconds").unwrap_or_default() == 0
            && object.field("spec").items("finalizers").is_empty();
        let (claimed, transaction) = if done {
            (self.release(served, &old.value()), Transaction::delete(key, old.revision))
        } else {
            (claimed, Transaction::update(key, old.revision, encoded))
        };
        match self.commit_for(served, claimed, transaction).await {
            Ok(revision) => {
                let stored = self.written(target, target.name, revision);
                let revision = if done { old.revision } else { revision };
                let object = served.complete(object, Some(revision));
                Ok(Some(Written { object, stored, created: false }))
            }
            Err(CommitError::Conflict { .. }) => self.check_current(served).await.map(|()| None),
            Err(error) => Err(not_stored(&error)),
        }
    }
}

/// A body says which object it is, and says what the URL says.
pub(crate) fn check_named(target: Target<'_>, object: &Value) -> Result<(), Status> {
    let name = object.field("metadata").text("name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let namespace = object.field("metadata").text("namespace");
    if target.served.is_namespaced() && !namespace.is_empty() && namespace != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Some kinds want to be told which version the writer has seen.
fn check_version(target: Target<'_>, object: &Value, old: &Object) -> Result<(), Status> {
    match object.field("metadata").text("resourceVersion") {
        "" | "0" if target.served.strategy.unconditional_update => Ok(()),
        "" | "0" => Err(Status::version_required(target.resource_name(), target.name)),
        _ => seen_version(target, object, old),
    }
}

/// A uid that the object carries must be the one that is stored.
pub(crate) fn check_uid(target: Target<'_>, object: &Value, current: &Value) -> Result<(), Status> {
    let uid = object.field("metadata").text("uid");
    let stored = current.field("metadata").text("uid");
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    Err(Status::conflict(
        target.resource_name(),
        target.name,
        &format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}",
            storage_key(target)
        ),
    ))
}

/// A version that the object carries must be the one that is stored.
pub(crate) fn seen_version(target: Target<'_>, object: &Value, old: &Object) -> Result<(), Status> {
    match object.field("metadata").text("resourceVersion") {
        "" | "0" => Ok(()),
        version => match version_number(version) {
            Ok(seen) if seen == old.revision => Ok(()),
            Ok(_) => Err(modified(target)),
            Err(error) => Err(Status::unexpected(error)),
        },
    }
}

/// Checks the metadata of an update: as of all kinds, and then what the kind checks again.
fn check_metadata(
    served: &Served,
    again: &[MetadataCheck],
    object: &Value,
    current: &Value,
    errors: &mut Errors,
) {
    let strategy = served.strategy;
    let before = errors.len();
    object_meta::validate_of_all_kinds(object, strategy, errors);
    // What is well is well whenever it is looked at again.
    let is_well = errors.len() == before;
    let validate_update = if is_well { object_meta::validate_changes } else { object_meta::validate_update };
    let before = errors.len();
    validate_update(object, current, errors);
    let is_well_changed = errors.len() == before;
    for check in again {
        match check {
            MetadataCheck::Written if is_well => {}
            MetadataCheck::Written => object_meta::validate_of_all_kinds(object, strategy, errors),
            MetadataCheck::Changed if is_well_changed => {}
            MetadataCheck::Changed => validate_update(object, current, errors),
        }
        object_meta::validate_finalizer_names(object, strategy, errors);
    }
}

/// What no writer may change is taken from the stored object.
fn keep_identity(object: &mut Value, old: &Value) {
    const IDENTITY: [&str; 6] =
        ["name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"];
    let old = old.field("metadata");
    let metadata = object.object_mut("metadata");
    // What else it is called is found when it is compared.
    let is_named = |field: &str, written: &Value| {
        matches!(field, "name" | "namespace" | "uid") && written.as_str().is_some_and(|text| !text.is_empty())
    };
    let fields = IDENTITY.into_iter().zip(old.pick(IDENTITY)).zip(metadata.pick(IDENTITY));
    // Few, for who has read what it writes.
    let changes: Vec<(&str, &Value)> = fields
        .filter(|((field, kept), written)| kept.is_null() || (kept != written && !is_named(field, written)))
        .map(|(change, _)| change)
        .collect();
    for (field, kept) in changes {
        match kept {
            Value::Null => {
                metadata.remove(field);
            }
            kept => metadata.set(field, kept.clone()),
        }
    }
    metadata.remove("selfLink");
    if let Some(time) = old.get_field("deletionTimestamp") {
        metadata.set("deletionTimestamp", time.clone());
        if let Some(seconds) = old
            .get_field("deletionGracePeriodSeconds")
            .filter(|_| !metadata.has("deletionGracePeriodSeconds"))
        {
            metadata.set("deletionGracePeriodSeconds", seconds.clone());
        }
    }
}

fn keep_all_but_status(object: &mut Value, old: &Value) {
    let status = object.remove("status");
    let metadata = object.remove("metadata");
    *object = old.clone();
    for (name, value) in [("status", status), ("metadata", metadata)] {
        match value {
            Some(value) => object.set(name, value),
            None => {
                object.remove(name);
            }
        }
    }
}

/// A write that changes nothing does not even change when it was made.
fn keep_times(current: &Value, object: &mut Value) {
    for field in ["kind", "apiVersion"] {
        object.remove(field);
    }
    sternpost_apply::restore_times(current, object);
}

pub(crate) fn modified(target: Target<'_>) -> Status {
    Status::conflict(target.resource_name(), target.name, Status::MODIFIED)
}

/// As upstream prints keys of its store.
fn storage_key(target: Target<'_>) -> String {
    let place = if target.namespace.is_empty() {
        target.name.to_owned()
    } else {
        format!("{}/{}", target.namespace, target.name)
    };
    format!("/registry/{}/{place}", target.served.storage_prefix())
}
