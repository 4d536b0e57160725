//! Names of other objects that an object holds.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;
use sternpost_kustomize::{Gvk, Reference, references};
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Resource, Scope},
};

use crate::{
    manifests::Manifest,
    within::{Within, collection, segment},
};

/// Fields that hold names without needing what they name.
const NO_NEED: [&str; 3] = ["resourceNames", "subjects", "annotations"];

/// A name in a field.
struct Held<'a> {
    field: String,
    name: &'a str,
}

/// Tells of names that no object has, neither of the set nor of a server without objects.
pub async fn warn_of_dangling(
    within: &Within,
    objects: &[Manifest],
    namespace: &str,
    mut warn: impl FnMut(usize, String, String),
) -> anyhow::Result<()> {
    let known: HashSet<(&str, &str, &str)> = objects
        .iter()
        .map(|manifest| (manifest.kind(), manifest.namespace_or(namespace), manifest.name()))
        .collect();
    // Objects of the cluster may be written with a namespace or without.
    let anywhere: HashSet<(&str, &str)> =
        objects.iter().map(|manifest| (manifest.kind(), manifest.name())).collect();
    let mut asked: HashSet<(&str, &str, &str)> = HashSet::new();
    // What a kind may refer to is found once.
    let mut of_kinds: HashMap<(&str, &str), Vec<Target>> = HashMap::new();
    for (number, manifest) in objects.iter().enumerate() {
        let kind = (manifest.api_version(), manifest.kind());
        let targets = of_kinds.entry(kind).or_insert_with(|| Target::all(within, &gvk_of(manifest)));
        let mut held = Vec::new();
        for target in targets.iter() {
            find(&manifest.object, &target.path, target.kind, String::new(), &mut held);
            for Held { field, name } in held.drain(..) {
                let own = manifest.namespace_or(namespace);
                let is_there = match target.is_namespaced {
                    true => known.contains(&(target.kind, own, name)),
                    false => anywhere.contains(&(target.kind, name)),
                };
                // Every namespace has this one before anything is in it.
                let is_default = target.kind == "ServiceAccount" && name == "default";
                if is_there || is_default {
                    continue;
                }
                let key = (target.kind, own, name);
                if !asked.contains(&key) && target.is_served(within, own, name).await? {
                    continue;
                }
                asked.insert(key);
                warn(number, field, format!("there is no {} `{name}` among the objects", target.kind));
            }
        }
    }
    Ok(())
}

fn gvk_of(manifest: &Manifest) -> Gvk {
    let gv = GroupVersion::parse(manifest.api_version());
    Gvk {
        group: gv.group.to_string(),
        version: gv.version.to_string(),
        kind: manifest.kind().to_owned(),
        ..Gvk::default()
    }
}

/// What a field of a kind names.
struct Target {
    /// The field.
    path: Vec<&'static str>,
    kind: &'static str,
    resource: Arc<Resource>,
    is_namespaced: bool,
}

impl Target {
    fn all(within: &Within, gvk: &Gvk) -> Vec<Self> {
        references(gvk).filter_map(|reference| Self::of(within, &reference)).collect()
    }

    fn of(within: &Within, reference: &Reference) -> Option<Self> {
        let path: Vec<&str> = reference.path().collect();
        if path.iter().any(|segment| NO_NEED.contains(segment)) {
            return None;
        }
        let discovery = within.api().discovery.load();
        let group = discovery.group(reference.group)?;
        let resource = group.versions.iter().find_map(|version| {
            version.resources.iter().find(|resource| *resource.kind == *reference.kind).cloned()
        })?;
        let is_namespaced = resource.scope == Scope::Namespaced;
        Some(Self { path, kind: reference.kind, resource, is_namespaced })
    }

    async fn is_served(&self, within: &Within, namespace: &str, name: &str) -> anyhow::Result<bool> {
        let namespace = if self.is_namespaced { namespace } else { "" };
        let path = format!("{}/{}", collection(&self.resource, namespace), segment(name));
        Ok(within.get(&path).await?.is_success())
    }
}

/// Every name at the end of the path; lists are gone through. What says that it may be absent, or that it is of
/// another kind, is not looked at.
fn find<'a>(at: &'a Value, path: &[&str], kind: &str, field: String, held: &mut Vec<Held<'a>>) {
    match (at, path) {
        (Value::Array(items), _) => {
            for (index, item) in items.iter().enumerate() {
                find(item, path, kind, format!("{field}[{index}]"), held);
            }
        }
        (Value::String(name), []) if !name.is_empty() => held.push(Held { field, name }),
        (Value::Object(fields), [next, rest @ ..]) => {
            // Most objects do not have most fields.
            let Some(value) = fields.get(*next) else { return };
            let is_optional = fields.get("optional").is_some_and(|optional| *optional == true);
            let is_other = fields.get("kind").and_then(Value::as_str).is_some_and(|found| found != kind);
            // The object itself has a kind, too.
            let is_root = field.is_empty();
            if is_root || !(is_optional || is_other) {
                let separator = if is_root { "" } else { "." };
                find(value, rest, kind, format!("{field}{separator}{next}"), held);
            }
        }
        _ => {}
    }
}
