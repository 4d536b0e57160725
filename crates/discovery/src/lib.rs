//! Discovery documents: which groups, versions and resources a server has.
//!
//! [`Discovery`] is an immutable snapshot made from the groups that routing
//! knows; its methods give the bodies of `/api`, `/apis`, `/apis/GROUP`,
//! `/api/VERSION`, `/apis/GROUP/VERSION`, and of the aggregated form of `/api`
//! and `/apis`. A change of the groups makes a new snapshot.
//!
//! Bodies are JSON only; clients that also accept protobuf take JSON. Keys
//! stand in the order kube-apiserver 1.36 writes them, as clients and scripts
//! match on the text. Groups, versions, resources, subresources and verbs stay
//! in the order they are given in.
//!
//! This crate does not know HTTP, who may see what, or where resources come
//! from.

mod aggregated;
mod legacy;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rpds::RedBlackTreeMapSync;
use serde::Serialize;
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Verb, Version},
};

#[derive(Debug)]
pub struct Discovery {
    /// In the order in which they are shown.
    first: Arc<[Arc<Group>]>,
    /// Groups that came later, by name: behind the first, or in the place of one of them.
    later: RedBlackTreeMapSync<Arc<str>, Arc<Group>>,
    core: OnceLock<Aggregated>,
    named: OnceLock<Aggregated>,
}

/// Which of the two places that list groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all other groups.
    Groups,
}

/// An `apidiscovery.k8s.io/v2` `APIGroupDiscoveryList`.
#[derive(Debug, Clone)]
pub struct Aggregated {
    pub body: Bytes,
    /// Without the quotes of the header.
    pub etag: Arc<str>,
}

impl Discovery {
    /// `groups` in the order they are to be shown; the core group is the one
    /// without a name. A group without versions is not shown. Nothing is
    /// encoded until it is asked for.
    pub fn new(groups: Vec<Group>) -> Self {
        let first = groups.into_iter().map(Arc::new).collect();
        Self { first, later: RedBlackTreeMapSync::new_sync(), core: OnceLock::new(), named: OnceLock::new() }
    }

    /// The same with this group behind those it was begun with, in the order of names, or in the
    /// place of the one it is called like. Costs no more with many groups than with few.
    #[must_use]
    pub fn with(&self, group: Group) -> Self {
        self.with_later(self.later.insert(group.name.clone(), Arc::new(group)))
    }

    /// The same without a group that came by [`Discovery::with`].
    #[must_use]
    pub fn without(&self, group: &str) -> Self {
        self.with_later(self.later.remove(group))
    }

    fn with_later(&self, later: RedBlackTreeMapSync<Arc<str>, Arc<Group>>) -> Self {
        Self { first: self.first.clone(), later, core: OnceLock::new(), named: OnceLock::new() }
    }

    /// All groups in the order in which they are shown.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        let first = self.first.iter().map(|group| self.later.get(&group.name).unwrap_or(group));
        let is_first = |name: &Arc<str>| self.first.iter().any(|group| group.name == *name);
        let later = self.later.iter().filter(move |(name, _)| !is_first(name)).map(|(_, group)| group);
        first.chain(later).map(|group| &**group)
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        let first = || self.first.iter().find(|group| *group.name == *name);
        self.later.get(name).or_else(first).map(|group| &**group)
    }

    /// One of the groups it was begun with.
    pub fn first(&self, name: &str) -> Option<&Group> {
        self.first.iter().find(|group| *group.name == *name).map(|group| &**group)
    }

    /// `GET /api`. `server_address` is the `host:port` that clients may use.
    pub fn api_versions(&self, server_address: &str) -> Bytes {
        let versions = self.shown(Which::Core).flat_map(|group| &group.versions);
        encode(&legacy::ApiVersions::new(versions, server_address))
    }

    /// `GET /apis`.
    pub fn api_group_list(&self) -> Bytes {
        encode(&legacy::ApiGroupList::new(self.shown(Which::Groups)))
    }

    /// `GET /apis/GROUP`. The core group has no such document.
    pub fn api_group(&self, group: &str) -> Option<Bytes> {
        let group = self.group(group).filter(|group| !group.name.is_empty() && !group.versions.is_empty())?;
        Some(encode(&legacy::SingleApiGroup::new(group)))
    }

    /// `GET /api/VERSION` or `/apis/GROUP/VERSION`.
    pub fn api_resource_list(&self, gv: &GroupVersion) -> Option<Bytes> {
        let group = self.group(&gv.group)?;
        let version = group.versions.iter().find(|version| version.name == gv.version)?;
        Some(encode(&legacy::ApiResourceList::new(gv, version)))
    }

    /// `GET /api` or `/apis` in the aggregated form, encoded once.
    pub fn aggregated(&self, which: Which) -> Aggregated {
        let cell = match which {
            Which::Core => &self.core,
            Which::Groups => &self.named,
        };
        let groups = || self.shown(which).map(|group| (group, self.first(&group.name)));
        cell.get_or_init(|| aggregated::encode(groups())).clone()
    }

    fn shown(&self, which: Which) -> impl Iterator<Item = &Group> {
        self.groups().filter(move |group| {
            let here = if group.name.is_empty() { Which::Core } else { Which::Groups };
            here == which && !group.versions.is_empty()
        })
    }
}

/// One line of JSON with its line break, as every answer of the server ends.
fn encode(document: &impl Serialize) -> Bytes {
    let mut body = json(document);
    body.push(b'\n');
    body.into()
}

fn json(document: &impl Serialize) -> Vec<u8> {
    // Strings, lists and structs of them cannot fail to serialise.
    serde_json::to_vec(document).unwrap_or_default()
}

#[derive(Clone, Copy)]
struct Verbs<'a>(&'a [Verb]);

impl Serialize for Verbs<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|verb| verb.as_str()))
    }
}

fn group_version(group: &Group, version: &Version) -> GroupVersion {
    GroupVersion { group: group.name.clone(), version: version.name.clone() }
}
