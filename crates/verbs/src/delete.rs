//! DELETE, of one object and of a collection.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_cache::{Object, encode, object_key};
use sternpost_golang::time::Timestamp;
use sternpost_meta::status::{ResourceName, Status};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    strategy::DeleteAnswer,
};
use sternpost_store::{CommitError, Transaction};

use crate::{
    admission::{self, Attributes, Options},
    claims::Claimed,
    failure::Failure,
    list::{ListQuery, Selection},
    unreadable::UnsafeDeletion,
    verbs::{DryRun, Target, Verbs, Writer, deleted_status, not_stored},
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
    /// The client asked for dependents to go, in the deprecated way.
    pub orphan_dependents: Option<bool>,
    /// Whether it is deleted because it cannot be read.
    pub ignore_read_error: bool,
}

impl DeleteOptions {
    /// As an object of its kind, but for its version and whether it is a dry run.
    pub(crate) fn to_json(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions"});
        if let Some(seconds) = self.grace_period_seconds {
            options.set("gracePeriodSeconds", seconds);
        }
        // One is the old way to say the other.
        match (self.orphan_dependents, self.propagation) {
            (Some(orphan), _) => options.set("orphanDependents", orphan),
            (None, Some(propagation)) => options.set("propagationPolicy", propagation.as_str()),
            (None, None) => {}
        }
        for (field, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(value) = value {
                options.object_mut("preconditions").set(field, value.as_str());
            }
        }
        options
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }
}

/// What a DELETE answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted {
    /// The object is gone: a `Status`, or the object as it was, by kind.
    Gone(Value),
    /// The object waits for finalizers or its grace period.
    Pending(Value),
}

impl Verbs {
    /// Whether to write at all is in the options, not in the writer.
    pub async fn delete(
        &self,
        target: Target<'_>,
        options: &DeleteOptions,
        writer: Writer<'_>,
    ) -> Result<Deleted, Failure> {
        if options.ignore_read_error && self.unsafe_deletion == UnsafeDeletion::On {
            return Box::pin(self.delete_unread(target, writer)).await;
        }
        self.delete_if(target, options, Some(&Attributes::of_delete(target, options, writer))).await
    }

    /// The server on its own account: nobody is asked.
    pub async fn delete_own(&self, target: Target<'_>, options: &DeleteOptions) -> Result<(), Failure> {
        self.delete_if(target, options, None).await.map(|_| ())
    }

    /// Whoever is to be asked is told in `admission`.
    pub(crate) async fn delete_if(
        &self,
        target: Target<'_>,
        options: &DeleteOptions,
        admission: Option<&Attributes<'_>>,
    ) -> Result<Deleted, Failure> {
        self.attempting(target, move |old| self.delete_from(old, target, options, admission)).await
    }

    /// `None` if another writer was faster.
    async fn delete_from(
        &self,
        old: Option<Arc<Object>>,
        target: Target<'_>,
        options: &DeleteOptions,
        admission: Option<&Attributes<'_>>,
    ) -> Result<Option<Deleted>, Failure> {
        let old = old.ok_or_else(|| target.not_found())?;
        let current = self.loaded(target.served, &old).await?;
        check_preconditions(target, &current, options)?;
        self.check_writes(target, if options.dry_run { DryRun::All } else { DryRun::No })?;
        if let Some(attributes) = admission {
            // Upstream holds on to the very namespace that it has found.
            let mut held;
            let mut attributes = *attributes;
            if target.served.strategy.is_namespace {
                held = options.clone();
                held.uid = Some(current.field("metadata").text("uid").to_owned());
                attributes.options = Options::Delete(&held);
            }
            let attributes = &attributes;
            admission::mutate(self, attributes, &mut Value::Null, Some(&current)).await?;
            let _ = admission::validate(self, attributes, &Value::Null, Some(&current)).await?;
        }
        self.delete_once(target, &old, current, options).await
    }

    /// Deletes everything a query selects; what was there is returned.
    pub async fn delete_collection(
        &self,
        target: Target<'_>,
        selection: &Selection,
        limit: usize,
        options: &DeleteOptions,
        writer: Writer<'_>,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        let query = ListQuery { limit, ..ListQuery::default() };
        let listed = self.list(target, selection, &query).await?;
        let mut deleted = Vec::new();
        for object in listed.objects() {
            let target = Target { namespace: object.namespace(), name: object.name(), ..target };
            // Reviews of a member do not name it, as upstream.
            let attributes = Attributes { name: "", ..Attributes::of_delete(target, options, writer) };
            match self.delete_if(target, options, Some(&attributes)).await {
                Ok(_) => deleted.push(object.clone()),
                // Somebody else was faster, which is as good.
                Err(Failure::Refused(status)) if status.code == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(deleted)
    }

    /// As [`Verbs::delete_from`], of what may be deleted.
    async fn delete_once(
        &self,
        target: Target<'_>,
        old: &Arc<Object>,
        current: Value,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>, Failure> {
        let served = target.served;
        let mut object = current.clone();
        object.object_mut("metadata").remove("resourceVersion");
        if let Some(begin_to_end) = served.strategy.begin_to_end {
            if !current.field("metadata").has("deletionTimestamp") {
                if served.strategy.is_namespace {
                    let finalizers = finalizers(target, &current, options);
                    object.object_mut("metadata").set("finalizers", finalizers);
                }
                begin_to_end(&mut object, &self.now());
                return self.begin_to_end(target, object, old, options).await;
            }
            if !current.field("spec").items("finalizers").is_empty() {
                if !self.is_still(target, Some(old.revision)).await? {
                    return Ok(None);
                }
                return Ok(Some(Deleted::Pending(served.complete(current, Some(old.revision)))));
            }
        }
        let finalizers = finalizers(target, &current, options);
        object.object_mut("metadata").set("finalizers", finalizers.clone());
        let grace =
            served.strategy.grace_period.map_or(0, |grace| grace(&current, options.grace_period_seconds));
        if !finalizers.is_empty() || grace > 0 {
            self.mark(&mut object, &current, grace);
            served.settle_stored(&mut object);
            let dry_run = if options.dry_run { DryRun::All } else { DryRun::No };
            let written = self.store_update(target, object, old, Claimed::default(), dry_run).await?;
            return Ok(written.map(|written| Deleted::Pending(written.object)));
        }

        let uid = current.field("metadata").text("uid").to_owned();
        let mut revision = old.revision;
        if options.dry_run {
            if !self.is_still(target, Some(old.revision)).await? {
                return Ok(None);
            }
        } else {
            let key = object_key(&served.id, target.namespace, target.name);
            let (released, transaction) =
                (self.release(served, &current), Transaction::delete(key, old.revision));
            match self.commit_for(served, released, transaction).await {
                Ok(deleted) => revision = deleted,
                Err(CommitError::Conflict { .. }) => {
                    return self.check_current(served).await.map(|()| None);
                }
                Err(error) => return Err(not_stored(&error)),
            }
        }
        let answer = match served.strategy.delete_answer {
            DeleteAnswer::Status => deleted_status(target, &uid),
            DeleteAnswer::Object => {
                let mut last = current.clone();
                // The last state of what has a grace period shows that it is over.
                if served.strategy.grace_period.is_some() {
                    self.mark(&mut last, &current, 0);
                }
                served.complete(last, Some(revision))
            }
        };
        Ok(Some(Deleted::Gone(answer)))
    }

    /// A namespace or a definition only begins to end, whatever it waits for: content may
    /// still be on its way into it.
    async fn begin_to_end(
        &self,
        target: Target<'_>,
        mut object: Value,
        old: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>, Failure> {
        let served = target.served;
        object.object_mut("metadata").set("deletionTimestamp", self.now());
        served.settle_stored(&mut object);
        let mut revision = old.revision;
        if options.dry_run {
            if !self.is_still(target, Some(old.revision)).await? {
                return Ok(None);
            }
        } else {
            let key = object_key(&served.id, target.namespace, target.name);
            let transaction = Transaction::update(key, old.revision, encode(&object));
            match self.commit_for(served, Claimed::default(), transaction).await {
                Ok(written) => revision = written,
                Err(CommitError::Conflict { .. }) => return Ok(None),
                Err(error) => return Err(not_stored(&error)),
            }
        }
        Ok(Some(Deleted::Pending(served.complete(object, Some(revision)))))
    }

    /// Sets or shortens the time of deletion.
    fn mark(&self, object: &mut Value, current: &Value, grace: i64) {
        let metadata = current.field("metadata");
        if metadata.has("deletionTimestamp") {
            let pending = metadata.int("deletionGracePeriodSeconds");
            if pending.is_none_or(|pending| grace < pending) {
                object.object_mut("metadata").set("deletionGracePeriodSeconds", grace);
            }
            return;
        }
        let time = Timestamp::from_unix(self.clock.unix_seconds() + grace, 0).to_time();
        let generation = metadata.int("generation").unwrap_or_default();
        let metadata = object.object_mut("metadata");
        metadata.set("deletionTimestamp", time);
        metadata.set("deletionGracePeriodSeconds", grace);
        if generation > 0 {
            metadata.set("generation", generation + 1);
        }
    }
}

fn check_preconditions(target: Target<'_>, current: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let metadata = current.field("metadata");
    let is_plain = target.served.strategy.begin_to_end.is_some();
    let conflict = |field: &str, wanted: &str, found: &str, rest: &str| {
        if is_plain {
            let why = format!(
                "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
            );
            return Status::conflict(target.resource_name(), target.name, &why);
        }
        let why = format!(
            "the {field} in the precondition ({wanted}) does not match the {field} in record ({found}). The object might have been {rest}"
        );
        // Upstream names the kind here, where other conflicts have the plural.
        let kind = ResourceName { group: target.served.group(), resource: target.served.kind() };
        Status::conflict(kind, target.name, &why)
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != metadata.text("uid")) {
        return Err(conflict("UID", uid, metadata.text("uid"), "deleted and then recreated"));
    }
    let found = metadata.text("resourceVersion");
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != found) {
        return Err(conflict("ResourceVersion", version, found, "modified"));
    }
    Ok(())
}

/// The finalizers that the way of deletion leaves on the object.
fn finalizers(target: Target<'_>, current: &Value, options: &DeleteOptions) -> Vec<Value> {
    let mut finalizers = current.field("metadata").items("finalizers").to_vec();
    let wanted = match options.propagation {
        Some(Propagation::Orphan) => Some("orphan"),
        Some(Propagation::Foreground) => Some("foregroundDeletion"),
        Some(Propagation::Background) => None,
        None if finalizers.iter().any(|name| name == "orphan" || name == "foregroundDeletion") => {
            return finalizers;
        }
        None => target.served.strategy.orphans_dependents.then_some("orphan"),
    };
    finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
    finalizers.extend(wanted.map(Value::from));
    finalizers
}
