//! Objects as webhooks and policies see them: in full, and in the version they ask for.

use std::sync::Arc;

use serde_json::Value;
use sternpost_admission::request::Form;
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    status::Status,
};
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_schema::topology::Type;

use super::Attributes;
use crate::{
    failure::Failure,
    served::{Served, is_known_kind, no_kind},
    verbs::Verbs,
};

/// The other versions in which the resource of a request is served.
pub(super) fn equivalents(verbs: &Verbs, attributes: &Attributes<'_>) -> Vec<Form> {
    let form = |other: &Arc<Served>| {
        let resource = &other.resource;
        // What a subresource is does not depend on the version of its parent, unless it is that.
        let kind = if is_own_kind(attributes) { resource.gvk() } else { attributes.form().kind };
        Form { gv: resource.gv.clone(), resource: resource.plural.clone(), kind }
    };
    verbs.served.other_versions(attributes.target.served).iter().map(form).collect()
}

/// An object of the form that rules know, as `matched` has it.
pub(super) async fn show(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    matched: &Form,
    object: &Value,
) -> Result<Value, Failure> {
    if attributes.kind.is_some() {
        // Options of a connection have no other form.
        return Ok(object.clone());
    }
    if !is_own_kind(attributes) {
        return Ok(attributes.served.in_full(object.clone()));
    }
    let served = attributes.target.served;
    if matched.gv == served.resource.gv {
        return Ok(served.in_full(served.in_served_version(object).into_owned()));
    }
    let other = verbs.served.get(&matched.gv.group, &matched.gv.version, &matched.resource);
    let other = other.ok_or(Failure::Superseded)?;
    // Rules know a custom object in the version that was asked for, others as they are stored.
    let object = if served.is_unstructured() { served.in_full(object.clone()) } else { object.clone() };
    Ok(other.in_full(verbs.converted(&other, object).await?))
}

/// What becomes of fields that a kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Dropped,
    Refused,
}

/// What somebody made of an object that was shown as `matched` has it, in the form that rules
/// know. Fields that are unknown vanish, and defaults come back.
pub(super) async fn read(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    matched: &Form,
    object: &Value,
) -> Result<Value, Failure> {
    read_with(verbs, attributes, matched, object, Unknown::Dropped).await
}

/// The schema of objects that are shown as `matched` has them, as merging sees it, or why there is none.
pub(super) fn topology(verbs: &Verbs, attributes: &Attributes<'_>, matched: &Form) -> Result<Type, String> {
    let none = || {
        let GroupVersionKind { group, version, kind } = &matched.kind;
        format!("no corresponding type for {group}/{version}, Kind={kind}")
    };
    // Upstream knows no schemas of what only subresources are.
    if !is_own_kind(attributes) {
        return Err(none());
    }
    let found = verbs.served.get(&matched.gv.group, &matched.gv.version, &matched.resource);
    found.map(|served| served.topology()).ok_or_else(none)
}

/// As [`read`], where unknown fields may be refused.
pub(super) async fn read_with(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    matched: &Form,
    object: &Value,
    unknown: Unknown,
) -> Result<Value, Failure> {
    let failed = |why: &str| Status::internal_error(why);
    if attributes.kind.is_some() {
        return Ok(object.clone());
    }
    let is_own = is_own_kind(attributes);
    let found;
    let shown_as = if is_own && matched.gv != attributes.target.served.resource.gv {
        found = verbs.served.get(&matched.gv.group, &matched.gv.version, &matched.resource);
        found.as_deref().ok_or(Failure::Superseded)?
    } else {
        attributes.served
    };
    let mut object = object.clone();
    check_kind(verbs, shown_as, &mut object)?;
    let decoded = shown_as.decode_value(object).map_err(|error| failed(&error.0))?;
    if unknown == Unknown::Refused && !decoded.complaints.is_empty() {
        return Err(failed(&format!("strict decoding error: {}", decoded.complaints.join(", "))).into());
    }
    let mut object = decoded.object;
    if is_own {
        let served = attributes.target.served;
        object = if served.is_unstructured() && matched.gv != served.resource.gv {
            verbs.converted(served, object).await?
        } else {
            shown_as.to_stored(object)
        };
    }
    let served = if is_own { attributes.target.served } else { attributes.served };
    (served.strategy.default)(&mut object);
    Ok(object)
}

/// Nothing may become an object of another kind. What it does not say it does not change.
fn check_kind(verbs: &Verbs, served: &Served, object: &mut Value) -> Result<(), Status> {
    let (kind, api_version) = (served.kind(), served.resource.gv.to_string());
    for (field, own) in [("kind", kind), ("apiVersion", api_version.as_str())] {
        if object.text(field).is_empty() {
            object.set(field, own);
        }
    }
    let (found, found_version) = (object.text("kind"), object.text("apiVersion"));
    if (found, found_version) == (kind, api_version.as_str()) {
        return Ok(());
    }
    let gvk = GroupVersion::parse(found_version).kind(found);
    if !is_known_kind(&gvk) {
        return Err(Status::internal_error(&no_kind(found, found_version)));
    }
    // Upstream reads it as what it says it is, and then finds that this is something else.
    let other = verbs.served.all_built_in().find(|other| other.resource.gvk() == gvk);
    if let Some(Err(error)) = other.map(|other| other.decode_borrowed(object)) {
        return Err(Status::internal_error(&error.0));
    }
    let inner = served.group().split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    let version = &gvk.version;
    Err(Status::unexpected(format!("converting ({version}.{found}) to ({inner}.{kind}): unknown conversion")))
}

fn is_own_kind(attributes: &Attributes<'_>) -> bool {
    std::ptr::eq(attributes.served, attributes.target.served)
}
