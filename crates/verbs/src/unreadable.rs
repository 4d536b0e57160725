//! Objects that are stored and cannot be read: encrypted with a key that is gone, in a version that is not known,
//! damaged. They are not in the cache, and not gone either.
//!
//! As upstream: what is about one of them fails, and so does a list that it would be in; its name is taken. Whoever
//! takes it for gone would delete what depends on it.

use serde_json::json;
use sternpost_cache::{ResourceId, object_key};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, ResourceAttributes, What},
    field::{BadValue, Errors, Path},
    selector::Comparison,
    status::Status,
};
use sternpost_store::{CommitError, KeyRange, Transaction, Unreadable};

use crate::{
    claims::Claimed,
    delete::{DeleteOptions, Deleted},
    failure::Failure,
    list::Selection,
    verbs::{Target, Verbs, Writer, storage_status},
};

/// What a client asks for who deletes an object that cannot be read.
const IGNORE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// What the client has to be allowed for it.
const VERB: &str = "unsafe-delete-ignore-read-errors";

/// Whether clients may delete what cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnsafeDeletion {
    #[default]
    Off,
    On,
}

impl Verbs {
    /// Of an object that is not in the cache.
    pub fn check_readable(&self, target: Target<'_>) -> Result<(), Status> {
        match self.unreadable_object(target) {
            Some(found) => Err(corrupt(&found)),
            None => Ok(()),
        }
    }

    fn unreadable_object(&self, target: Target<'_>) -> Option<Unreadable> {
        let key = object_key(&target.served.id, target.namespace, target.name);
        self.store.unreadable(&KeyRange::single(key)).into_iter().next()
    }

    /// Whether all objects of a resource, in a namespace or in all, can be read.
    pub fn check_all_readable(&self, id: &ResourceId, namespace: Option<&str>) -> Result<(), Status> {
        let unreadable = self.unreadable(id, namespace);
        match unreadable.first() {
            Some(found) => Err(corrupt(found)),
            None => Ok(()),
        }
    }

    fn unreadable(&self, id: &ResourceId, namespace: Option<&str>) -> Vec<Unreadable> {
        if !self.store.has_unreadable() {
            return Vec::new();
        }
        let ResourceId { group, resource } = id;
        let prefix = match namespace {
            Some(namespace) => object_key(id, namespace, ""),
            None => format!("{group}/{resource}/").into(),
        };
        self.store.unreadable(&KeyRange::prefix(prefix))
    }

    /// Of a collection that is to be shown.
    pub(crate) fn check_listed(&self, target: Target<'_>, selection: &Selection) -> Result<(), Status> {
        let mut unreadable = self.unreadable(&target.served.id, target.scope());
        if unreadable.is_empty() {
            return Ok(());
        }
        // All that is known of them is their names.
        if let Some(name) = named(selection) {
            let end = format!("/{name}");
            unreadable.retain(|found| found.key.ends_with(end.as_bytes()));
        }
        if unreadable.is_empty() {
            return Ok(());
        }
        let all = unreadable.iter().map(|found| (&*found.place, &*found.reason));
        Err(Status::corrupt_objects(target.resource_name(), all))
    }

    /// What a client may ask for who deletes.
    pub fn check_delete_options(&self, options: &mut DeleteOptions) -> Result<(), Status> {
        if self.unsafe_deletion == UnsafeDeletion::Off {
            options.ignore_read_error = false;
        }
        if !options.ignore_read_error {
            return Ok(());
        }
        let mut errors = Errors::default();
        // The old way to say it has been made the new one.
        let propagates = options.propagation.is_some() && options.orphan_dependents.is_none();
        for (is_set, other) in [
            (options.dry_run, "dryRun"),
            (propagates, "propagationPolicy"),
            (options.orphan_dependents.is_some(), "orphanDependents"),
            (options.grace_period_seconds.is_some(), "gracePeriodSeconds"),
            (options.uid.is_some() || options.resource_version.is_some(), "preconditions"),
        ] {
            if is_set {
                errors.invalid(
                    Path::new(IGNORE),
                    BadValue::Json(true.into()),
                    &format!("cannot be set together with .{other}"),
                );
            }
        }
        invalid_options(errors)
    }

    /// Objects are deleted one by one like this, or not at all.
    pub fn check_delete_collection_options(&self, options: &mut DeleteOptions) -> Result<(), Status> {
        self.check_delete_options(options)?;
        let mut errors = Errors::default();
        if options.ignore_read_error {
            let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
            errors.invalid(Path::new(IGNORE), BadValue::Json(true.into()), why);
        }
        invalid_options(errors)
    }

    /// Deletes an object that cannot be read, whatever it was: nobody is asked, and nothing is waited for.
    pub(crate) async fn delete_unread(
        &self,
        target: Target<'_>,
        writer: Writer<'_>,
    ) -> Result<Deleted, Failure> {
        if let Some(audit) = writer.audit {
            audit.add("apiserver.k8s.io/unsafe-delete-ignore-read-error", "");
        }
        let resource = &target.served.resource;
        let what = What::Resource(ResourceAttributes {
            group: &resource.gv.group,
            version: &resource.gv.version,
            resource: &resource.plural,
            subresource: "",
            namespace: target.namespace,
            name: target.name,
        });
        let attributes = Attributes { user: writer.user, verb: VERB, what };
        let decision = self.authorizer.authorize(&attributes);
        if !decision.is_allowed() {
            let why = format!("not permitted to do {}, reason: {}", go_quote(VERB), decision.reason());
            let status = Status::forbidden_because(target.resource_name(), target.name, &why);
            return Err(Failure::Refused(status));
        }
        self.check_writes(target, writer.dry_run)?;
        if let Some(catching_up) = self.catching_up(&target.served.id) {
            catching_up.await?;
        }
        let Some(found) = self.unreadable_object(target) else {
            let mut errors = Errors::default();
            let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
            errors.invalid(Path::new(IGNORE), BadValue::Json(true.into()), why);
            let resource = target.resource_name();
            let status =
                Status::invalid(resource.group, resource.resource, target.name, errors.into_causes());
            return Err(status.into());
        };
        tracing::warn!("deleting the object at `{}`, which cannot be read", found.place);
        let transaction = Transaction::delete(found.key, found.modified);
        match self.commit_for(target.served, Claimed::default(), transaction).await {
            Ok(_) => Ok(Deleted::Gone(json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": target.name, "kind": target.served.kind()}, "code": 200,
            }))),
            // Somebody else has written it, or deleted it.
            Err(CommitError::Conflict { .. }) => Err(crate::update::modified(target).into()),
            Err(error) => Err(storage_status(&error).into()),
        }
    }
}

pub(crate) fn corrupt(found: &Unreadable) -> Status {
    Status::corrupt_object(&found.place, &found.reason)
}

/// The one object that a selection may have.
fn named(selection: &Selection) -> Option<&str> {
    let terms = selection.fields.terms().iter();
    let mut names = terms
        .filter(|term| &*term.field == "metadata.name" && term.comparison == Comparison::Equal)
        .map(|term| &*term.value);
    selection.name.as_deref().or_else(|| names.next())
}

fn invalid_options(errors: Errors) -> Result<(), Status> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", errors.into_causes())),
    }
}
