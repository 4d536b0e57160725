//! Which custom resources are served.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use serde_json::Value;
use sternpost_cache::ResourceId;
use sternpost_clock::machine;
use sternpost_crd::{
    definition::{self, Definition, Scope as CustomScope, Version},
    pattern::Patterns,
};
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    resource::{Resource, Scope, Subresource, Verb},
};
use sternpost_registry::{kinds::scale, object::Fields};
use sternpost_store::Revision;
use tokio::sync::watch;

use super::{Custom, Life};
use crate::served::{Served, definition_key, is_built_in, key};

/// How long a write of a definition waits until it serves.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The custom resources that are served, swapped as a whole with every change.
#[derive(Debug)]
pub struct Customs {
    table: ArcSwap<Table>,
    installed: Mutex<HashMap<String, Arc<Installed>>>,
    /// Definitions up to this revision are in the table.
    applied: watch::Sender<u64>,
    patterns: Patterns,
    /// Whether anybody keeps the table up with definitions.
    is_kept: AtomicBool,
}

#[derive(Debug, Default, Clone)]
struct Table {
    /// By `GROUP/VERSION/PLURAL`.
    served: HashTrieMapSync<String, Arc<Served>>,
    /// By group, then by `PLURAL.VERSION`.
    groups: RedBlackTreeMapSync<Arc<str>, RedBlackTreeMapSync<String, Arc<Served>>>,
}

/// A definition as it is in the table.
#[derive(Debug)]
pub struct Installed {
    pub definition: Arc<Definition>,
    pub served: Vec<Arc<Served>>,
    /// The storage version, served or not: whoever has to reach all objects.
    pub stored: Option<Arc<Served>>,
    /// Of a definition in a built-in group, which hides it: there are no objects, but discovery tells of the
    /// versions that are not built in.
    pub told: Vec<Arc<Resource>>,
    life: Arc<Life>,
    identity: Identity,
}

/// What must be the same for nothing to change about how a definition serves.
#[derive(Debug, PartialEq)]
struct Identity {
    uid: String,
    generation: i64,
    accepted: Value,
    established: bool,
    terminating: bool,
}

/// What a definition changed about what is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    None,
    /// Only what may be done: it is going away.
    Verbs,
    All,
}

impl Identity {
    /// Whether objects are what they are under the other, whatever may be done to them.
    fn serves_as(&self, other: &Self) -> bool {
        let Self { uid, generation, accepted, established, terminating: _ } = other;
        *established
            && (&self.uid, self.generation, &self.accepted, self.established)
                == (uid, *generation, accepted, *established)
    }

    fn of(crd: &Value) -> Self {
        Self {
            uid: crd.field("metadata").text("uid").into(),
            generation: crd.field("metadata").int("generation").unwrap_or_default(),
            accepted: crd.field("status").field("acceptedNames").clone(),
            established: definition::is_established(crd),
            terminating: definition::is_terminating(crd),
        }
    }
}

impl Default for Customs {
    fn default() -> Self {
        Self {
            table: ArcSwap::default(),
            installed: Mutex::default(),
            applied: watch::Sender::new(0),
            patterns: Patterns::default(),
            is_kept: AtomicBool::new(false),
        }
    }
}

impl Customs {
    /// By `GROUP/VERSION/PLURAL`.
    pub fn get(&self, key: &str) -> Option<Arc<Served>> {
        self.table.load().served.get(key).cloned()
    }

    /// What is served in a group, by plural, then by version.
    pub fn in_group(&self, group: &str) -> Vec<Arc<Served>> {
        let table = self.table.load();
        table.groups.get(group).into_iter().flat_map(|served| served.values().cloned()).collect()
    }

    /// What discovery tells of definitions in a built-in group, beside what is built in.
    pub fn told_in(&self, group: &str) -> Vec<Arc<Resource>> {
        let all = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        let of_group = all.values().filter(|installed| installed.definition.group == group);
        let mut told: Vec<_> = of_group.flat_map(|installed| installed.told.iter().cloned()).collect();
        told.sort_by(|a, b| a.plural.cmp(&b.plural));
        told
    }

    /// The groups that have any.
    pub fn groups(&self) -> Vec<Arc<str>> {
        self.table.load().groups.keys().cloned().collect()
    }

    /// All that is served, of every definition and version.
    pub fn all(&self) -> Vec<Arc<Served>> {
        self.table.load().groups.values().flat_map(|served| served.values().cloned()).collect()
    }

    pub fn installed(&self, name: &str) -> Option<Arc<Installed>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Serves a definition as it is written at `revision`; one that is not established is not served.
    pub fn install(&self, crd: &Value, revision: Revision) -> Change {
        let name = crd.field("metadata").text("name").to_owned();
        let identity = Identity::of(crd);
        let mut all = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = all.get(&name).filter(|before| before.identity == identity) {
            before.life.seen.fetch_max(revision.get(), Ordering::AcqRel);
            return Change::None;
        }
        let before = all.remove(&name);
        let same = before.as_deref().filter(|before| before.identity.serves_as(&identity));
        let mut now = None;
        if let Some(same) = same {
            now = Some(Arc::new(same.going_away(identity, revision)));
        } else if identity.established {
            match Definition::read_stored(crd, &self.patterns) {
                Ok(definition) => {
                    now = Some(Arc::new(Installed::new(definition, identity, revision, before.as_deref())));
                }
                // Nothing unreadable is let into the store.
                Err(error) => tracing::error!(name, %error, "a stored definition cannot be read"),
            }
        }
        self.table.rcu(|table| {
            let mut table = Table::clone(table);
            before.iter().flat_map(|before| &before.served).for_each(|served| table.remove(served));
            now.iter().flat_map(|now| &now.served).for_each(|served| table.add(served));
            table
        });
        let change = match (&before, &now) {
            (None, None) => Change::None,
            _ if same.is_some() => Change::Verbs,
            _ => Change::All,
        };
        if let Some(now) = now {
            all.insert(name, now);
        }
        if let Some(before) = before {
            before.end(change);
        }
        change
    }

    /// Serves a definition no longer. True if it was served.
    pub fn remove(&self, name: &str) -> bool {
        let mut all = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = all.remove(name) else { return false };
        self.table.rcu(|table| {
            let mut table = Table::clone(table);
            before.served.iter().for_each(|served| table.remove(served));
            table
        });
        before.end(Change::All);
        true
    }

    /// Says that all changes of definitions up to this revision are in the table.
    pub fn applied(&self, revision: u64) {
        self.is_kept.store(true, Ordering::Relaxed);
        self.applied.send_if_modified(|applied| {
            let newer = *applied < revision;
            *applied = revision.max(*applied);
            newer
        });
    }

    pub fn has_reached(&self, revision: Revision) -> bool {
        !self.is_kept.load(Ordering::Relaxed) || *self.applied.borrow() >= revision.get()
    }

    /// Waits for [`Customs::applied`], a while.
    pub async fn reaches(&self, revision: Revision) {
        if self.has_reached(revision) {
            return;
        }
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|applied| *applied >= revision.get());
        // Whoever comes too early finds the definition as it was before.
        let _ = machine::timeout(ESTABLISH_TIMEOUT, reached).await;
    }
}

impl Table {
    fn add(&mut self, served: &Arc<Served>) {
        let gv = &served.resource.gv;
        let plural = &served.resource.plural;
        self.served.insert_mut(key(&gv.group, &gv.version, plural), served.clone());
        let mut group = self.groups.get(&gv.group).cloned().unwrap_or_else(RedBlackTreeMapSync::new_sync);
        group.insert_mut(format!("{plural}.{}", gv.version), served.clone());
        self.groups.insert_mut(gv.group.clone(), group);
    }

    fn remove(&mut self, served: &Arc<Served>) {
        let gv = &served.resource.gv;
        let plural = &served.resource.plural;
        self.served.remove_mut(&key(&gv.group, &gv.version, plural));
        let Some(mut group) = self.groups.get(&gv.group).cloned() else { return };
        group.remove_mut(&format!("{plural}.{}", gv.version));
        if group.is_empty() {
            self.groups.remove_mut(&gv.group);
        } else {
            self.groups.insert_mut(gv.group.clone(), group);
        }
    }
}

impl Installed {
    /// Nobody writes under it any more.
    fn end(&self, change: Change) {
        self.life.is_over.store(true, Ordering::Release);
        if change == Change::All {
            self.life.shown_otherwise.send_replace(true);
        }
    }

    /// The same, of which only the end has come nearer, or gone.
    fn going_away(&self, identity: Identity, revision: Revision) -> Self {
        let definition = Arc::new(self.definition.with_terminating(identity.terminating));
        let life = Arc::new(self.life.next(revision));
        let again = |served: &Arc<Served>| {
            let custom = served.custom()?;
            let custom = Custom {
                definition: definition.clone(),
                version: custom.version.clone(),
                storage: custom.storage.clone(),
                life: life.clone(),
                since: custom.since,
                topology: custom.topology.clone(),
            };
            let resource = resource(&definition, &custom.version, &custom.storage);
            Some(Arc::new(Served::custom_of(Arc::new(resource), served.id.clone(), custom)))
        };
        let served = self.served.iter().filter_map(again).collect();
        let stored = self.stored.as_ref().and_then(again);
        let told = told(&definition);
        Self { definition, served, stored, told, life, identity }
    }

    fn new(definition: Definition, identity: Identity, revision: Revision, before: Option<&Self>) -> Self {
        let definition = Arc::new(definition);
        let life = Arc::new(Life::new(definition_key(&definition.name), revision));
        let (mut served, mut stored) = (Vec::new(), None);
        let told = told(&definition);
        if let Some(storage) = definition.storage_version().filter(|_| !is_built_in(&definition.group)) {
            for version in definition.versions.iter().filter(|version| version.served || version.storage) {
                // A version whose schema prunes and fills in the same has shown what it shows
                // now for as long as before.
                let same = before
                    .filter(|before| before.identity.uid == identity.uid)
                    .into_iter()
                    .flat_map(|before| &before.served)
                    .filter_map(|served| served.custom())
                    .find(|before| {
                        before.version.name == version.name && before.version.form == version.form
                    });
                let custom = Custom {
                    definition: definition.clone(),
                    version: version.clone(),
                    storage: storage.clone(),
                    life: life.clone(),
                    since: same.map_or(revision, |same| same.since),
                    topology: Arc::default(),
                };
                let resource = resource(&definition, version, storage);
                let id = ResourceId::new(definition.group.as_str(), resource.plural.clone());
                let made = Arc::new(Served::custom_of(Arc::new(resource), id, custom));
                if version.storage {
                    stored = Some(made.clone());
                }
                if version.served {
                    served.push(made);
                }
            }
        }
        Self { definition, served, stored, told, life, identity }
    }
}

/// What discovery tells of a definition that a built-in group hides.
fn told(definition: &Definition) -> Vec<Arc<Resource>> {
    let mut groups = sternpost_builtin::groups().iter();
    let Some(group) = groups.find(|group| *group.name == *definition.group) else { return Vec::new() };
    let Some(storage) = definition.storage_version() else { return Vec::new() };
    let is_own = |version: &Version| group.versions.iter().any(|own| *own.name == *version.name);
    let told = definition.versions.iter().filter(|version| version.served && !is_own(version));
    told.map(|version| Arc::new(resource(definition, version, storage))).collect()
}

/// A version of a definition as discovery shows it.
fn resource(definition: &Definition, version: &Version, storage: &Version) -> Resource {
    let names = &definition.accepted;
    let gv = GroupVersion::new(definition.group.as_str(), version.name.as_str());
    let texts = |all: &[String]| all.iter().map(|text| text.as_str().into()).collect();
    let verbs = [Verb::Get, Verb::Patch, Verb::Update].to_vec();
    let mut subresources = Vec::new();
    if version.status {
        let kind = gv.kind(names.kind.as_str());
        subresources.push(Subresource { name: "status".into(), verbs: verbs.clone(), kind });
    }
    if version.scale.is_some() {
        let (group, version, kind) = scale::GROUP_VERSION_KIND;
        let kind = GroupVersionKind::new(group, version, kind);
        subresources.push(Subresource { name: "scale".into(), verbs, kind });
    }
    let all: &[Verb] = if definition.terminating {
        &[Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Watch]
    } else {
        &[
            Verb::Delete,
            Verb::DeleteCollection,
            Verb::Get,
            Verb::List,
            Verb::Patch,
            Verb::Create,
            Verb::Update,
            Verb::Watch,
        ]
    };
    Resource {
        gv,
        kind: names.kind.as_str().into(),
        plural: names.plural.as_str().into(),
        singular: names.singular.as_str().into(),
        scope: match definition.scope {
            CustomScope::Cluster => Scope::Cluster,
            CustomScope::Namespaced => Scope::Namespaced,
        },
        verbs: all.to_vec(),
        short_names: texts(&names.short_names),
        categories: texts(&names.categories),
        subresources,
        storage_version_hash: Some(sternpost_builtin::storage_version_hash(&format!(
            "{}/{}/{}",
            definition.group, storage.name, names.kind
        ))),
    }
}
