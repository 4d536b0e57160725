//! The built-in kinds of Kubernetes 1.36, as data.
//!
//! Entry points: [`groups`] (what is served, in discovery order),
//! [`definition`] and [`closure`] (schemas by upstream name, complete with
//! topology, defaults and enums), [`message`] (protobuf fields).
//!
//! The catalogue is made by the build script from the `k8s-openapi` crate and
//! the tables under `facts/`, and embedded compressed, a blob a package.
//! Nothing is decoded before it is asked for; a package is decoded once and
//! kept. A definition is named as upstream names it
//! (`io.k8s.api.core.v1.Pod`), whatever a document calls it.
//!
//! Lookups only: this crate knows no requests, storage or documents.

use std::{
    collections::BTreeMap,
    io::Read,
    sync::{Arc, LazyLock, OnceLock},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::DeflateDecoder;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    resource::{Group, Resource},
};
use sternpost_schema::{Schema, read, topology::Topologies, write::Dialect};

mod facts;
// The build script's join, for its own tests.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../build/join.rs"]
mod join;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../build/type_facts.rs"]
mod type_facts;

pub use facts::{Field, FieldType, Label, Message, Shown};

/// The Kubernetes version whose API this is.
pub const KUBERNETES_VERSION: &str = "1.36";

/// What is served, in discovery order; the core group, whose name is empty, first.
pub fn groups() -> &'static [Group] {
    &KINDS.groups
}

/// `groupPriorityMinimum` and `versionPriority` of each served group-version;
/// the aggregator's own has none.
pub fn priorities() -> &'static [(GroupVersion, Option<(u32, u32)>)] {
    &KINDS.priorities
}

/// Every kind that is stored, as upstream's etcd has it, with a resource that it is served as.
pub fn stored_kinds() -> impl Iterator<Item = (GroupVersionKind, &'static Resource)> {
    let resources =
        KINDS.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources);
    resources.filter_map(|resource| {
        let key = (resource.gv.clone(), resource.plural.clone());
        if KINDS.unstored.contains(&key) {
            return None;
        }
        let stored = KINDS.stored_as.iter().find(|(found, _)| *found == key);
        let elsewhere = stored.and_then(|(_, name)| match *name.split('/').collect::<Vec<_>>() {
            [group, version, kind] => Some(GroupVersionKind::new(group, version, kind)),
            _ => None,
        });
        Some((elsewhere.unwrap_or_else(|| resource.gvk()), &**resource))
    })
}

/// Every group-version that upstream knows, served or not.
pub fn registered_versions() -> Vec<GroupVersion> {
    facts::registered(include_str!("../facts/registered"))
}

/// The schema of a type by its full name.
pub fn definition(name: &str) -> Option<&'static Arc<Schema>> {
    package_of(name)?.definitions().get(name)
}

/// The name of the definition of a served kind, its list, or a kind of the API itself.
pub fn definition_name(gvk: &GroupVersionKind) -> Option<Arc<str>> {
    let label = if gvk.group.is_empty() { "core" } else { gvk.group.split('.').next()? };
    let suffix = format!(".{label}.{}", gvk.version);
    let mut packages = PACKAGES.iter().filter(|package| package.name.ends_with(&suffix));
    packages.find_map(|package| {
        let name = format!("{}.{}", package.name, gvk.kind);
        package.names.binary_search(&&*name).is_ok().then(|| name.into())
    })
}

/// The definitions named, and all they refer to.
pub fn closure(roots: impl IntoIterator<Item = Arc<str>>) -> BTreeMap<Arc<str>, Arc<Schema>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<Arc<str>> = roots.into_iter().collect();
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }
        if let Some(schema) = definition(&name) {
            schema.walk(&mut |node| open.extend(node.reference.clone()));
            found.insert(name, schema.clone());
        }
    }
    found
}

/// True for the name of a built-in type's package: `io.k8s.api.core.v1`.
pub fn is_package(name: &str) -> bool {
    PACKAGES.binary_search_by_key(&name, |package| package.name).is_ok()
}

/// The protobuf message of a type by its full name.
pub fn message(name: &str) -> Option<&'static Message> {
    package_of(name)?.messages().get(name)
}

/// The built-in types as merging sees them.
pub fn topologies() -> &'static Topologies {
    static TOPOLOGIES: LazyLock<Topologies> =
        LazyLock::new(|| Topologies::new(|name| definition(name).cloned()));
    &TOPOLOGIES
}

/// How many packages' schemas have been decoded so far.
pub fn decoded_packages() -> usize {
    PACKAGES.iter().filter(|package| package.decoded_types.get().is_some()).count()
}

/// Names of all definitions; decodes the whole catalogue.
pub fn definition_names() -> impl Iterator<Item = &'static Arc<str>> {
    PACKAGES.iter().flat_map(|package| package.definitions().keys())
}

/// Names of all messages; decodes the whole catalogue.
pub fn message_names() -> impl Iterator<Item = &'static Arc<str>> {
    PACKAGES.iter().flat_map(|package| package.messages().keys())
}

static KINDS: LazyLock<facts::Kinds> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the build script has read this same text with this same code")]
    let mut kinds = facts::kinds(include_str!("../facts/kinds")).expect("the build script checked the kinds");
    let facts::Kinds { groups, stored_as, unstored, .. } = &mut kinds;
    for version in groups.iter_mut().flat_map(|group| &mut group.versions) {
        for resource in version.resources.iter_mut().filter_map(Arc::get_mut) {
            let key = (resource.gv.clone(), resource.plural.clone());
            if !unstored.contains(&key) {
                let stored = stored_as.iter().find(|(found, _)| *found == key).map(|(_, stored)| &**stored);
                let served = format!("{}/{}/{}", resource.gv.group, resource.gv.version, resource.kind);
                resource.storage_version_hash = Some(storage_version_hash(stored.unwrap_or(&served)));
            }
        }
    }
    kinds
});

/// What discovery shows of the version a kind is stored in, named as `group/version/kind`: the
/// first eight bytes of the SHA-256 of that.
pub fn storage_version_hash(stored_as: &str) -> Arc<str> {
    let digest = Sha256::digest(stored_as.as_bytes());
    let first: Vec<u8> = digest.iter().take(8).copied().collect();
    STANDARD.encode(first).into()
}

struct Package {
    name: &'static str,
    /// Of its definitions, sorted: known without decoding anything.
    names: &'static [&'static str],
    types: &'static [u8],
    messages: &'static [u8],
    decoded_types: OnceLock<BTreeMap<Arc<str>, Arc<Schema>>>,
    decoded_messages: OnceLock<BTreeMap<Arc<str>, Message>>,
}

include!(concat!(env!("OUT_DIR"), "/packages.rs"));

fn package_of(name: &str) -> Option<&'static Package> {
    let (package, _) = name.rsplit_once('.')?;
    let index = PACKAGES.binary_search_by_key(&package, |package| package.name).ok()?;
    PACKAGES.get(index)
}

impl Package {
    const fn new(
        name: &'static str,
        names: &'static [&'static str],
        types: &'static [u8],
        messages: &'static [u8],
    ) -> Self {
        Self {
            name,
            names,
            types,
            messages,
            decoded_types: OnceLock::new(),
            decoded_messages: OnceLock::new(),
        }
    }

    fn definitions(&self) -> &BTreeMap<Arc<str>, Arc<Schema>> {
        self.decoded_types.get_or_init(|| {
            #[expect(clippy::expect_used, reason = "the build script wrote these bytes from a JSON map")]
            let map: Map<String, Value> =
                serde_json::from_slice(&inflate(self.types)).expect("the build script wrote JSON");
            let read = |json: &Value| {
                #[expect(clippy::expect_used, reason = "a test decodes every definition of the catalogue")]
                read::schema(json, Dialect::V2).expect("the catalogue holds schemas")
            };
            map.iter().map(|(name, json)| (name.as_str().into(), Arc::new(read(json)))).collect()
        })
    }

    fn messages(&self) -> &BTreeMap<Arc<str>, Message> {
        self.decoded_messages.get_or_init(|| {
            let text = String::from_utf8(inflate(self.messages)).unwrap_or_default();
            if text.is_empty() {
                return BTreeMap::new();
            }
            #[expect(clippy::expect_used, reason = "the build script has read this same text")]
            let messages = facts::messages(&text).expect("the build script checked the messages");
            messages.into_iter().map(|message| (message.name.clone(), message)).collect()
        })
    }
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    #[expect(
        clippy::expect_used,
        reason = "the build script compressed these bytes; reading memory cannot fail"
    )]
    DeflateDecoder::new(bytes).read_to_end(&mut out).expect("the build script wrote deflate");
    out
}

#[cfg(test)]
mod tests;
