//! Discovery documents: which groups, versions and resources a server has.
//!
//! [`Discovery`] is an immutable snapshot made from the groups that routing
//! knows; its methods give the bodies of `/api`, `/apis`, `/apis/GROUP`,
//! `/api/VERSION`, `/apis/GROUP/VERSION`, and of the aggregated form of `/api`
//! and `/apis`. A change of the groups makes a new snapshot.
//!
//! Bodies are JSON only; clients that also accept protobuf take JSON. Keys
//! stand in the order kube-apiserver 1.36 writes them, as clients and scripts
//! match on the text. Groups and versions stand in the order of their
//! priorities; resources, subresources and verbs stay in the order they are
//! given in.
//!
//! What other servers serve ([`RemoteVersion`]) is shown beside what is built
//! in and never in its place; what one of them says is believed only of the
//! group-version it is registered for ([`read_aggregated`], [`read_legacy`]).
//!
//! This crate does not know HTTP, who may see what, or where resources come
//! from.

mod aggregated;
mod legacy;
mod remote;
mod shown;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use rpds::RedBlackTreeMapSync;
use serde::Serialize;
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Verb},
};

pub use remote::{RemoteResource, RemoteVersion, Unbelievable, read_aggregated, read_legacy};
pub use shown::Priority;
use shown::{Priorities, ShownGroup, ShownVersion, Source};

#[derive(Debug)]
pub struct Discovery {
    /// In the order in which they are shown.
    first: Arc<[Arc<Group>]>,
    /// Groups that came later, by name: behind the first, or in the place of one of them.
    later: RedBlackTreeMapSync<Arc<str>, Arc<Group>>,
    /// Of the versions of the first.
    priorities: Arc<Priorities>,
    remote: Arc<RemoteGroups>,
    core: OnceLock<Aggregated>,
    named: OnceLock<Aggregated>,
    list: OnceLock<Bytes>,
}

/// By group.
type RemoteGroups = BTreeMap<Arc<str>, Vec<RemoteVersion>>;

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
        let priorities = priorities(&groups);
        let first = groups.into_iter().map(Arc::new).collect();
        Self::of(first, RedBlackTreeMapSync::new_sync(), Arc::new(priorities), Arc::default())
    }

    /// The same with these priorities of what it was begun with; where there is none it stays
    /// before everything else.
    #[must_use]
    pub fn with_priorities(&self, priority: impl Fn(&GroupVersion) -> Option<Priority>) -> Self {
        let known = self.priorities.iter();
        let priorities = known.map(|(gv, old)| (gv.clone(), priority(gv).unwrap_or(*old))).collect();
        Self::of(self.first.clone(), self.later.clone(), Arc::new(priorities), self.remote.clone())
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
        Self::of(self.first.clone(), later, self.priorities.clone(), self.remote.clone())
    }

    /// The same with these versions of other servers and no others; `None` if it has them already.
    /// They go before definitions, but not before what this server was begun with, nor are they of
    /// the core group.
    pub fn with_remote(&self, versions: impl IntoIterator<Item = RemoteVersion>) -> Option<Self> {
        let mut remote = RemoteGroups::new();
        for version in versions {
            remote.entry(version.gv.group.clone()).or_default().push(version);
        }
        remote.remove("");
        (remote != *self.remote).then(|| {
            Self::of(self.first.clone(), self.later.clone(), self.priorities.clone(), Arc::new(remote))
        })
    }

    fn of(
        first: Arc<[Arc<Group>]>,
        later: RedBlackTreeMapSync<Arc<str>, Arc<Group>>,
        priorities: Arc<Priorities>,
        remote: Arc<RemoteGroups>,
    ) -> Self {
        let (core, named, list) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { first, later, priorities, remote, core, named, list }
    }

    /// All groups that are served here.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        let first = self.first.iter().map(|group| self.later.get(&group.name).unwrap_or(group));
        let is_first = |name: &Arc<str>| self.first.iter().any(|group| group.name == *name);
        let later = self.later.iter().filter(move |(name, _)| !is_first(name)).map(|(_, group)| group);
        first.chain(later).map(|group| &**group)
    }

    /// A group that is served here.
    pub fn group(&self, name: &str) -> Option<&Group> {
        let first = || self.first.iter().find(|group| *group.name == *name);
        self.later.get(name).or_else(first).map(|group| &**group)
    }

    /// One of the groups it was begun with.
    pub fn first(&self, name: &str) -> Option<&Group> {
        self.first.iter().find(|group| *group.name == *name).map(|group| &**group)
    }

    /// All group-versions that are shown, whoever serves them.
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> {
        self.shown().into_iter().flat_map(|group| {
            let gv = |version: &ShownVersion<'_>| GroupVersion {
                group: group.name.clone(),
                version: version.name.clone(),
            };
            group.versions.iter().map(gv).collect::<Vec<_>>()
        })
    }

    /// `GET /api`. `server_address` is the `host:port` that clients may use.
    pub fn api_versions(&self, server_address: &str) -> Bytes {
        encode(&legacy::ApiVersions::new(self.shown_group("").as_ref(), server_address))
    }

    /// `GET /apis`, encoded once.
    pub fn api_group_list(&self) -> Bytes {
        let groups = || {
            let mut groups = self.shown_in(Which::Groups);
            groups.sort_by_cached_key(ShownGroup::legacy_place);
            groups
        };
        self.list.get_or_init(|| encode(&legacy::ApiGroupList::new(&groups()))).clone()
    }

    /// `GET /apis/GROUP`. The core group has no such document.
    pub fn api_group(&self, group: &str) -> Option<Bytes> {
        let group = self.shown_group(group).filter(|group| !group.name.is_empty())?;
        Some(encode(&legacy::SingleApiGroup::new(&group)))
    }

    /// `GET /api/VERSION` or `/apis/GROUP/VERSION`, if it is served here. Of what came later in one of
    /// the first groups only the lists of groups tell, as upstream.
    pub fn api_resource_list(&self, gv: &GroupVersion) -> Option<Bytes> {
        let group = self.first(&gv.group).or_else(|| self.group(&gv.group))?;
        let version = group.versions.iter().find(|version| version.name == gv.version)?;
        Some(encode(&legacy::ApiResourceList::new(gv, version)))
    }

    /// `GET /api` or `/apis` in the aggregated form, encoded once.
    pub fn aggregated(&self, which: Which) -> Aggregated {
        let cell = match which {
            Which::Core => &self.core,
            Which::Groups => &self.named,
        };
        let groups = || {
            let mut groups = self.shown_in(which);
            groups.sort_by_cached_key(ShownGroup::place);
            groups
        };
        cell.get_or_init(|| aggregated::encode(&groups())).clone()
    }

    fn shown_in(&self, which: Which) -> Vec<ShownGroup<'_>> {
        let mut groups = self.shown();
        groups.retain(|group| group.name.is_empty() == (which == Which::Core));
        groups
    }

    /// All groups that have versions.
    fn shown(&self) -> Vec<ShownGroup<'_>> {
        let here = self.groups().map(|group| &group.name);
        let elsewhere = self.remote.keys().filter(|name| self.group(name).is_none());
        here.chain(elsewhere).filter_map(|name| self.shown_group(name)).collect()
    }

    fn shown_group(&self, name: &str) -> Option<ShownGroup<'_>> {
        let here = self.group(name);
        let elsewhere = self.remote.get_key_value(name);
        let name = here.map(|group| &group.name).or(elsewhere.map(|(name, _)| name))?;
        let first = self.first(name).into_iter().flat_map(|group| &group.versions);
        let mut versions = Vec::new();
        for version in here.into_iter().flat_map(|group| &group.versions) {
            let gv = GroupVersion { group: name.clone(), version: version.name.clone() };
            let priority = self.priorities.get(&gv).copied().unwrap_or(Priority::CUSTOM);
            let first = first.clone().find(|first| first.name == version.name);
            let mut registered = elsewhere.into_iter().flat_map(|(_, versions)| versions);
            if first.is_none() && registered.any(|remote| remote.gv.version == version.name) {
                continue;
            }
            let source = Source::Here { version, first };
            versions.push(ShownVersion { name: &version.name, priority, source });
        }
        for version in elsewhere.into_iter().flat_map(|(_, versions)| versions) {
            if versions.iter().any(|shown| *shown.name == version.gv.version) {
                continue;
            }
            let priority = Priority { group: version.group_priority, version: version.version_priority };
            let source = Source::Elsewhere(version);
            versions.push(ShownVersion { name: &version.gv.version, priority, source });
        }
        (!versions.is_empty()).then(|| ShownGroup::new(name, versions))
    }
}

/// Before everything that comes later, in the order of `groups`.
fn priorities(groups: &[Group]) -> Priorities {
    let mut priorities = Priorities::new();
    for (place, group) in (0..).zip(groups.iter().rev()) {
        for (rank, version) in (0..).zip(group.versions.iter().rev()) {
            let gv = GroupVersion { group: group.name.clone(), version: version.name.clone() };
            priorities.insert(gv, Priority { group: FIRST + place, version: FIRST + rank });
        }
    }
    priorities
}

/// Higher than any priority that an APIService may have.
const FIRST: i64 = 1 << 32;

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
