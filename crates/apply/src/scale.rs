//! managedFields as seen through `/scale`, and back.
//!
//! A `Scale` is not stored: writing one writes the number of replicas of its
//! parent. So that owners of that number conflict as they would on the parent,
//! the write starts from the owners that [`to_scale`] finds, and what it
//! leaves of them goes back with [`to_parent`].

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    fields_v1,
    managers::{self, Entry, Operation},
    path::{self, Element},
    set::Set,
};

/// The version in which managers of a `Scale` own its replicas.
pub const API_VERSION: &str = "autoscaling/v1";

const REPLICAS: &str = ".spec.replicas";

/// Where each version of the parent keeps its replicas: `("apps/v1", ".spec.replicas")`.
pub type Paths<'a> = [(&'a str, &'a str)];

/// managedFields that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to decode managed fields: {0}")]
pub struct Malformed(String);

/// The owners of the parent's replicas, as managedFields of its `Scale`.
pub fn to_scale(parent: Option<&Value>, paths: &Paths<'_>) -> Result<Option<Value>, Malformed> {
    let replicas = set_of(REPLICAS).to_fields_v1();
    let owners = decode(parent)?.into_iter().filter(|entry| {
        place(paths, &entry.api_version).is_some_and(|path| fields_v1::intersects(&entry.fields, &path))
    });
    let entries =
        owners.map(|entry| Entry { api_version: API_VERSION.into(), fields: replicas.clone(), ..entry });
    Ok(managers::encode(entries.collect()))
}

/// The managedFields of the parent, in `api_version`, after its `Scale` was
/// written. Managers in versions that keep no replicas are dropped.
pub fn to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    paths: &Paths<'_>,
) -> Result<Option<Value>, Malformed> {
    let replicas = set_of(REPLICAS);
    let mut owners = decode(scale)?;
    owners.retain(|entry| fields_v1::intersects(&entry.fields, &replicas));

    let mut appliers: HashMap<(String, String), Vec<usize>> = HashMap::new();
    for (at, owner) in owners.iter().enumerate().rev() {
        if owner.operation == Operation::Apply {
            appliers.entry((owner.manager.clone(), owner.subresource.clone())).or_default().push(at);
        }
    }
    let mut is_known = vec![false; owners.len()];
    let mut entries = Vec::new();
    for mut entry in decode(parent)? {
        let Some(path) = place(paths, &entry.api_version) else { continue };
        if fields_v1::intersects(&entry.fields, &path) {
            // Updates are told apart by version, so an update of the parent is
            // never the same manager as one of the scale.
            let is_applier = entry.operation == Operation::Apply;
            let key = (entry.manager.clone(), entry.subresource.clone());
            let same = if is_applier { appliers.get_mut(&key).and_then(Vec::pop) } else { None };
            match same.and_then(|at| is_known.get_mut(at)) {
                Some(known) => *known = true,
                None => fields_v1::subtract(&mut entry.fields, &path),
            }
        }
        if !fields_v1::is_empty(&entry.fields) {
            entries.push(entry);
        }
    }
    if let Some(path) = place(paths, api_version) {
        let fields = path.to_fields_v1();
        // As upstream writes them, without a time.
        let new = owners.into_iter().zip(is_known).filter(|(_, is_known)| !is_known);
        entries.extend(new.map(|(owner, _)| Entry {
            api_version: api_version.into(),
            fields: fields.clone(),
            time: None,
            ..owner
        }));
    }
    Ok(managers::encode(entries))
}

fn decode(entries: Option<&Value>) -> Result<Vec<Entry>, Malformed> {
    managers::decode_stored(entries.cloned()).map_err(|error| Malformed(error.to_string()))
}

fn place(paths: &Paths<'_>, api_version: &str) -> Option<Set> {
    paths.iter().find(|(version, _)| *version == api_version).map(|(_, path)| set_of(path))
}

fn set_of(path: &str) -> Set {
    let path: Vec<Element> = path::fields(path);
    Set::of([&*path])
}
