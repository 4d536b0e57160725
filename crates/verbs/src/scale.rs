//! Writing an object through its scale.

use std::sync::Arc;

use serde_json::Value;
use sternpost_apply::scale::{to_parent, to_scale};
use sternpost_cache::Object;
use sternpost_crd::{definition::Scale, object::scale as custom};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{field::Errors, status::Status};
use sternpost_registry::{
    kinds::scale::{apply_scale, keep_claims, scale_of, scale_with},
    object::{Fields, FieldsMut},
};

use crate::{
    admission::{self, Attributes, Operation},
    failure::Failure,
    ownership::{KindVersions, Ownership},
    patch::{Patch, PatchRequest},
    served::Served,
    update::{Live, Part, Shown, check_named, check_uid, seen_version},
    verbs::{Target, Verbs, Writer, Written},
};

/// What becomes of a scale.
#[derive(Debug, Clone, Copy)]
pub enum ScaleChange<'a> {
    Replace(&'a Value),
    Patch(&'a PatchRequest),
}

impl Verbs {
    /// The scale of an object.
    pub async fn scale(&self, target: Target<'_>) -> Result<Value, Status> {
        let object = self.get_latest(target).await?;
        let parent = self.loaded(target.served, &object).await?;
        shown(target.served, &target.served.complete(parent, Some(object.revision)))
    }

    /// `scale` is how the scale of the target's kind is served; the answer is one.
    pub async fn write_scale(
        &self,
        target: Target<'_>,
        scale: &Served,
        change: ScaleChange<'_>,
        writer: Writer<'_>,
    ) -> Result<Written, Failure> {
        self.attempting(target, move |old| self.write_scale_from(old, target, scale, change, writer)).await
    }

    /// `None` if another writer was faster.
    async fn write_scale_from(
        &self,
        old: Option<Arc<Object>>,
        target: Target<'_>,
        scale: &Served,
        change: ScaleChange<'_>,
        writer: Writer<'_>,
    ) -> Result<Option<Written>, Failure> {
        let old = old.ok_or_else(|| target.not_found())?;
        let api_version = target.served.resource.gv.to_string();
        let all = target.served.scale_paths();
        let paths: Vec<(&str, &str)> = all.iter().map(|(version, path)| (&**version, &**path)).collect();
        let unreadable =
            |error: sternpost_apply::scale::Malformed| Status::internal_error(&error.to_string());
        let current = self.loaded(target.served, &old).await?;
        let owners = current.field("metadata").get_field("managedFields");
        let parent = target.served.complete(current.clone(), Some(old.revision));
        let mut live = match change {
            // Where replicas were never counted, this is the beginning.
            ScaleChange::Replace(_) => shown_or_none(target.served, &parent)?,
            ScaleChange::Patch(_) => shown(target.served, &parent)?,
        };
        if let Some(owners) = to_scale(owners, &paths).map_err(unreadable)? {
            live.object_mut("metadata").set("managedFields", owners);
        }

        let mut wanted = match change {
            ScaleChange::Replace(wanted) => wanted.clone(),
            ScaleChange::Patch(request) => self.changed(scale, live.clone(), request, writer).await?,
        };
        if wanted.field("metadata").text("name").is_empty() {
            wanted.object_mut("metadata").set("name", target.name);
        }
        check_named(target, &wanted)?;
        wanted.object_mut("metadata").set("namespace", target.namespace);
        if target.served.scale().is_some() {
            match change {
                ScaleChange::Replace(_) => check_uid(target, &wanted, &current)?,
                // Nobody looks at what a patch makes of it.
                ScaleChange::Patch(_) => {
                    wanted.object_mut("metadata").remove("uid");
                }
            }
        }
        seen_version(target, &wanted, &old)?;
        let mut errors = Errors::default();
        if target.served.scale().is_none() {
            (scale.strategy.validate)(&wanted, &mut errors);
        }
        if !errors.is_empty() {
            return Err(
                Status::invalid(scale.group(), scale.kind(), target.name, errors.into_causes()).into()
            );
        }
        let is_apply = matches!(change, ScaleChange::Patch(PatchRequest { patch: Patch::Apply { .. }, .. }));
        if !is_apply {
            scale.settle(&mut wanted);
            let now = self.now();
            let version = scale.resource.gv.to_string();
            let manager = self.manager(scale, writer, &version, &now);
            let versions = KindVersions::new(self, scale);
            // Through a subresource nobody says who the owners are.
            wanted.object_mut("metadata").remove("managedFields");
            sternpost_apply::update(Some(&live), &mut wanted, &manager, &versions);
        }

        let attributes =
            Attributes { served: scale, ..Attributes::of_write(Operation::Update, target, writer) };
        self.check_writes(target, writer.dry_run)?;
        admission::mutate(self, &attributes, &mut wanted, Some(&live)).await?;

        let now_owners = wanted.field("metadata").get_field("managedFields");
        let owners = to_parent(owners, now_owners, &api_version, &paths).map_err(unreadable)?;
        let mut parent = current.clone();
        set(target.served, &mut parent, &wanted)?;
        let metadata = parent.object_mut("metadata");
        match owners {
            Some(owners) => metadata.set("managedFields", owners),
            None => {
                metadata.remove("managedFields");
            }
        }
        let show = |parent: &Value| shown_or_none(target.served, parent);
        let written = self.update_once(
            target,
            parent,
            Ownership::Settled,
            Live { object: &old, value: &current, shown_as: Some(Shown { served: scale, show: &show }) },
            Part::Main,
            writer,
        );
        let Some(written) = written.await? else { return Ok(None) };
        let object = shown(target.served, &written.object)?;
        Ok(Some(Written { object, stored: None, ..written }))
    }
}

/// The scale of an object in full.
fn shown(served: &Served, parent: &Value) -> Result<Value, Status> {
    if let Some(Scale { spec_replicas: path, .. }) = served.scale()
        && matches!(custom::replicas(parent, path), Ok(None))
    {
        let why = format!("the spec replicas field {} does not exist", go_quote(path));
        return Err(Status::internal_error(&why));
    }
    shown_or_none(served, parent)
}

/// The same, of no replicas where they are not counted.
fn shown_or_none(served: &Served, parent: &Value) -> Result<Value, Status> {
    let Some(scale) = served.scale() else { return Ok(scale_of(parent)) };
    let replicas = custom::replicas(parent, &scale.spec_replicas)
        .map_err(|why| Status::internal_error(&why))?
        .unwrap_or_default();
    let ready = custom::replicas(parent, &scale.status_replicas).ok().flatten().unwrap_or_default();
    let selector =
        scale.label_selector.as_deref().and_then(|path| custom::selector(parent, path).ok().flatten());
    Ok(scale_with(parent, replicas, ready, selector.unwrap_or_default()))
}

/// Gives the parent the number of replicas that a scale wants.
fn set(served: &Served, parent: &mut Value, scale: &Value) -> Result<(), Status> {
    let Some(paths) = served.scale() else {
        apply_scale(parent, scale);
        return Ok(());
    };
    let replicas = scale.field("spec").int("replicas").unwrap_or_default();
    custom::set_replicas(parent, &paths.spec_replicas, replicas)
        .map_err(|why| Status::internal_error(&why))?;
    keep_claims(parent, scale);
    Ok(())
}
