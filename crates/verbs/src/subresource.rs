//! What is done to an object through a subresource that is no part of it.

use serde_json::Value;
use sternpost_meta::{gvk::GroupVersionKind, status::Status};
use sternpost_registry::{
    context::Cluster,
    object::{Fields, FieldsMut},
    strategy::Stored,
};

use crate::{
    admission::{self, Attributes, Operation, Options},
    claims::Claimed,
    delete::DeleteOptions,
    failure::Failure,
    served::Served,
    verbs::{DryRun, Target, Verbs, Writer},
};

impl Verbs {
    /// What holds for everything that is created, stored or not. `served` is what `object` is.
    pub async fn admit_new(
        &self,
        target: Target<'_>,
        served: &Served,
        object: &mut Value,
        writer: Writer<'_>,
    ) -> Result<(), Failure> {
        self.check_namespace_of_body(target, object)?;
        self.mutate_new(target, served, object, writer).await?;
        self.validate_new(target, served, object, writer).await
    }

    /// The first half of [`Verbs::admit_new`], for who has something to do in between.
    pub async fn mutate_new(
        &self,
        target: Target<'_>,
        served: &Served,
        object: &mut Value,
        writer: Writer<'_>,
    ) -> Result<(), Failure> {
        if target.served.is_namespaced() {
            object.object_mut("metadata").set("namespace", target.namespace);
        }
        // Of what is not stored nobody owns anything, but webhooks are told who would.
        if (self.webhooks.are_there() || self.policies.are_there()) && served.strategy.has_managers {
            self.track_new(Target { served, ..target }, object, writer);
        }
        let attributes = Attributes { served, ..Attributes::of_write(Operation::Create, target, writer) };
        admission::mutate(self, &attributes, object, None).await
    }

    /// The other half.
    pub async fn validate_new(
        &self,
        target: Target<'_>,
        served: &Served,
        object: &Value,
        writer: Writer<'_>,
    ) -> Result<(), Failure> {
        let attributes = Attributes { served, ..Attributes::of_write(Operation::Create, target, writer) };
        let _ = admission::validate(self, &attributes, object, None).await?;
        Ok(())
    }

    /// What holds for every connection to what an object stands for. `options` say what kind they
    /// are of.
    pub async fn admit_connection(
        &self,
        target: Target<'_>,
        kind: &GroupVersionKind,
        options: &mut Value,
        writer: Writer<'_>,
    ) -> Result<(), Failure> {
        let attributes = Attributes {
            kind: Some(kind),
            options: Options::None,
            ..Attributes::of_write(Operation::Connect, target, writer)
        };
        admission::mutate(self, &attributes, options, None).await?;
        let _ = admission::validate(self, &attributes, options, None).await?;
        Ok(())
    }

    /// Changes an object by what was posted to one of its subresources.
    pub async fn change_by(
        &self,
        target: Target<'_>,
        change: fn(&mut Value, &Value, &dyn Cluster) -> Result<(), Status>,
        posted: &Value,
        dry_run: DryRun,
    ) -> Result<(), Failure> {
        let changed = self.attempting(target, move |old| async move {
            let old = old.ok_or_else(|| target.not_found())?;
            let mut object = old.value();
            change(&mut object, posted, self)?;
            target.served.settle_stored(&mut object);
            self.store_update(target, object, &old, Claimed::default(), dry_run).await
        });
        changed.await.map(|_| ())
    }

    /// Deletes an object through one of its subresources, if `agree` does; what that returns is stored
    /// first.
    pub async fn delete_by(
        &self,
        target: Target<'_>,
        agree: fn(&Value, &dyn Cluster) -> Result<Option<Stored>, Status>,
        options: &DeleteOptions,
    ) -> Result<(), Failure> {
        // Whoever agrees looks at other objects too, and upstream at the latest of them.
        if let Some(catching_up) = self.catching_up_with_all() {
            catching_up.await?;
        }
        let agreed = self.attempting(target, move |old| async move {
            let old = old.ok_or_else(|| target.not_found())?;
            let first = agree(&old.value(), self)?;
            if let Some(Stored { group, version, plural, object: mut other }) =
                first.filter(|_| !options.dry_run)
            {
                let served = self.served.get(group, version, plural);
                let served =
                    served.ok_or_else(|| Status::internal_error(&format!("{plural} are not served")))?;
                let name = other.field("metadata").text("name").to_owned();
                let other_target = Target { served: &served, namespace: target.namespace, name: &name };
                let old = self.get(other_target)?;
                served.settle_stored(&mut other);
                let stored =
                    self.store_update(other_target, other, &old, Claimed::default(), DryRun::No).await?;
                return Ok(stored.map(|_| ()));
            }
            Ok(Some(()))
        });
        agreed.await?;
        // What there was to ask was asked of what was posted.
        self.delete_if(target, options, None).await.map(|_| ())
    }
}
