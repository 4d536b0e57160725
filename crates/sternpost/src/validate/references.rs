//! Names of other objects that an object holds.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_kustomize::{Gvk, Reference, references};
use sternpost_meta::gvk::GroupVersion;

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
    let namespace_of = |manifest: &Manifest| match manifest.namespace() {
        "" => namespace.to_owned(),
        namespace => namespace.to_owned(),
    };
    let known: HashSet<(&str, String, &str)> =
        objects.iter().map(|manifest| (manifest.kind(), namespace_of(manifest), manifest.name())).collect();
    // Objects of the cluster may be written with a namespace or without.
    let anywhere: HashSet<(&str, &str)> =
        objects.iter().map(|manifest| (manifest.kind(), manifest.name())).collect();
    let mut asked: HashSet<(&'static str, String, String)> = HashSet::new();
    for (number, manifest) in objects.iter().enumerate() {
        let own = namespace_of(manifest);
        for reference in references(&gvk_of(manifest)) {
            let Some(target) = Target::of(within, &reference) else { continue };
            let mut held = Vec::new();
            let path: Vec<&str> = reference.path().collect();
            if path.iter().any(|segment| NO_NEED.contains(segment)) {
                continue;
            }
            find(&manifest.object, &path, reference.kind, String::new(), &mut held);
            for Held { field, name } in held {
                let is_there = match target.is_namespaced {
                    true => known.contains(&(reference.kind, own.clone(), name)),
                    false => anywhere.contains(&(reference.kind, name)),
                };
                // Every namespace has this one before anything is in it.
                let is_default = reference.kind == "ServiceAccount" && name == "default";
                if is_there || is_default {
                    continue;
                }
                let key = (reference.kind, own.clone(), name.to_owned());
                if !asked.contains(&key) && target.is_served(within, &own, name).await? {
                    continue;
                }
                asked.insert(key);
                warn(number, field, format!("there is no {} `{name}` among the objects", reference.kind));
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

/// What a reference names.
struct Target {
    /// Where its objects are, by whether they are in namespaces.
    resource: std::sync::Arc<sternpost_meta::resource::Resource>,
    is_namespaced: bool,
}

impl Target {
    fn of(within: &Within, reference: &Reference) -> Option<Self> {
        let discovery = within.api().discovery.load();
        let group = discovery.group(reference.group)?;
        let resource = group.versions.iter().find_map(|version| {
            version.resources.iter().find(|resource| *resource.kind == *reference.kind).cloned()
        })?;
        let is_namespaced = resource.scope == sternpost_meta::resource::Scope::Namespaced;
        Some(Self { resource, is_namespaced })
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
            let is_optional = fields.get("optional").is_some_and(|optional| *optional == true);
            let is_other = fields.get("kind").and_then(Value::as_str).is_some_and(|found| found != kind);
            // The object itself has a kind, too.
            let is_root = field.is_empty();
            if let Some(value) = fields.get(*next).filter(|_| is_root || !(is_optional || is_other)) {
                let separator = if is_root { "" } else { "." };
                find(value, rest, kind, format!("{field}{separator}{next}"), held);
            }
        }
        _ => {}
    }
}
