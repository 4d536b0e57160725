//! Writing an object through its scale.

use serde_json::Value;
use sternpost_apply::scale::{to_parent, to_scale};
use sternpost_meta::{field::Errors, status::Status};
use sternpost_registry::{
    kinds::scale::{apply_scale, scale_of},
    object::{Fields, FieldsMut},
};

use crate::{
    ownership::{KindVersions, Ownership},
    patch::{Patch, PatchRequest},
    registry::{Registry, Target, Writer, Written, complete},
    served::Served,
    typed,
    update::{ATTEMPTS, Live, Part, check_named, modified, seen_version},
};

/// What becomes of a scale.
#[derive(Debug, Clone, Copy)]
pub enum ScaleChange<'a> {
    Replace(&'a Value),
    Patch(&'a PatchRequest),
}

impl Registry {
    /// `scale` is how the scale of the target's kind is served; the answer is one.
    pub async fn write_scale(
        &self,
        target: Target<'_>,
        scale: &Served,
        change: ScaleChange<'_>,
        writer: Writer<'_>,
    ) -> Result<Written, Status> {
        let api_version = target.served.resource.gv.to_string();
        let paths = [(api_version.as_str(), ".spec.replicas")];
        let unreadable =
            |error: sternpost_apply::scale::Malformed| Status::internal_error(&error.to_string());
        for _ in 0..ATTEMPTS {
            let old = self.get(target)?;
            let current = old.value();
            let owners = current.field("metadata").get_field("managedFields");
            let mut live = scale_of(&complete(target.served, current.clone(), Some(old.revision)));
            if let Some(owners) = to_scale(owners, &paths).map_err(unreadable)? {
                live.object_mut("metadata").set("managedFields", owners);
            }

            let (mut wanted, mut warnings) = match change {
                ScaleChange::Replace(wanted) => (wanted.clone(), Vec::new()),
                ScaleChange::Patch(request) => self.changed(scale, live.clone(), request, writer)?,
            };
            if wanted.field("metadata").text("name").is_empty() {
                wanted.object_mut("metadata").set("name", target.name);
            }
            check_named(target, &wanted)?;
            seen_version(target, &wanted, &old)?;
            let mut errors = Errors::default();
            (scale.rules.validate)(&wanted, &mut errors);
            if !errors.is_empty() {
                return Err(Status::invalid(scale.group(), scale.kind(), target.name, errors.into_causes()));
            }
            let is_apply =
                matches!(change, ScaleChange::Patch(PatchRequest { patch: Patch::Apply { .. }, .. }));
            if !is_apply {
                typed::settle(&mut wanted, &scale.definition);
                let now = self.now();
                let version = scale.resource.gv.to_string();
                let manager = self.manager(scale, writer, &version, &now);
                let versions = KindVersions { registry: self, served: scale };
                // Through a subresource nobody says who the owners are.
                wanted.object_mut("metadata").remove("managedFields");
                sternpost_apply::update(Some(&live), &mut wanted, &manager, &versions);
            }

            let now_owners = wanted.field("metadata").get_field("managedFields");
            let owners = to_parent(owners, now_owners, &api_version, &paths).map_err(unreadable)?;
            let mut parent = current.clone();
            apply_scale(&mut parent, &wanted);
            let metadata = parent.object_mut("metadata");
            match owners {
                Some(owners) => metadata.set("managedFields", owners),
                None => {
                    metadata.remove("managedFields");
                }
            }
            let written = self.update_once(
                target,
                parent,
                Ownership::Settled,
                Live { object: &old, value: &current },
                Part::Main,
                writer,
            );
            if let Some(written) = written.await? {
                warnings.extend(written.warnings);
                return Ok(Written { object: scale_of(&written.object), stored: None, warnings, ..written });
            }
        }
        Err(modified(target))
    }
}
