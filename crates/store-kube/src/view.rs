//! What is there, as this server has it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use serde::Deserialize;
use sternpost_cache::{ResourceId, Share, object_key, read, resource_of};
use sternpost_layout::{Customs, Layout, NODE_PORTS, PORT_CLAIMS, Ports, ReadError};
use sternpost_store::{self as store, Entry, Event, KeyRange, Page, Revision};
use tokio::sync::Notify;

use crate::{Encrypting, own::OwnWrites};

const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// A value that this server does not understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value at `{key}` cannot be read: {reason}")]
pub struct Unreadable {
    pub key: Box<str>,
    pub cause: Cause,
    pub reason: Box<str>,
    /// Below the prefix.
    theirs: Bytes,
    /// What it would be here; that of theirs, if it is no object.
    ours: Bytes,
    modified: Revision,
}

impl From<Unreadable> for store::Unreadable {
    /// In the words in which kube-apiserver's store has it.
    fn from(found: Unreadable) -> Self {
        let Unreadable { key, cause, reason, ours, modified, .. } = found;
        let what = match cause {
            Cause::Encrypted => "data from the storage is not transformable",
            Cause::Version | Cause::Damaged => "object not decodable",
        };
        Self {
            key: ours,
            place: key.into(),
            modified,
            reason: format!("{what} revision={modified}: {reason}"),
            sealed: cause == Cause::Encrypted,
        }
    }
}

/// Why a value is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is encrypted, and none of the keys opens it.
    Encrypted,
    /// It is in a version that is not served here, or in a form that is not read.
    Version,
    /// It is nothing that a server has written.
    Damaged,
}

impl Cause {
    fn of(error: &ReadError) -> Self {
        match error {
            ReadError::Encrypted => Self::Encrypted,
            ReadError::Kind { .. } => Self::Version,
            ReadError::Key(_) | ReadError::Protobuf(_) | ReadError::Json(_) | ReadError::Cbor(_) => {
                Self::Damaged
            }
        }
    }
}

/// The kinds of custom resources, by group and plural, as their definitions have passed by.
#[derive(Default)]
struct Definitions(RwLock<HashMap<(String, String), String>>);

impl Customs for Definitions {
    fn kind(&self, group: &str, plural: &str) -> Option<String> {
        let kinds = self.0.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(&(group.to_owned(), plural.to_owned())).cloned()
    }
}

/// Of which resource an object is, by its key in etcd.
#[derive(Debug)]
pub struct Resources(Layout);

impl Default for Resources {
    fn default() -> Self {
        Self(Layout::new(Arc::<Definitions>::default()))
    }
}

impl Resources {
    /// Group and plural; `None` for what is no object.
    pub fn of(&self, theirs: &[u8]) -> Option<(String, String)> {
        resource_at(&self.0, theirs)
    }
}

/// Group and plural of what is at a key of theirs; `None` for what is no object.
pub(crate) fn resource_at(layout: &Layout, theirs: &[u8]) -> Option<(String, String)> {
    let key = layout.our_key(theirs)?;
    resource_of(&key).map(|(group, resource)| (group.to_owned(), resource.to_owned()))
}

#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    group: String,
    names: Names,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
    kind: String,
}

pub(crate) struct View {
    pub layout: Layout,
    definitions: Arc<Definitions>,
    /// Before all keys; ends in a slash.
    prefix: String,
    encryption: Arc<dyn Encrypting>,
    share: Share,
    /// By what they would be here. Kept by those who read in order: by pages, and by the watch that goes on behind.
    unreadable: Mutex<BTreeMap<Bytes, Unreadable>>,
    /// Whether there are any: asked with each read.
    is_any_unreadable: AtomicBool,
    /// Some of these may be decrypted now.
    reopen: Notify,
    /// Those that were, by their keys. They are on their way to whoever has all that can be read.
    regained: Mutex<BTreeMap<Bytes, Entry>>,
    /// There are such.
    is_regained: Notify,
    foreign: Mutex<Foreign>,
    pub own: OwnWrites,
}

/// Where keys of a namespace may be that are of no kind which is served: what came before the segment that may be one.
#[derive(Default)]
struct Foreign {
    folders: BTreeSet<Vec<u8>>,
    /// Whether there are more than are remembered.
    overflows: bool,
}

/// So many kinds that are not served are known apart; no cluster comes near.
const MAX_FOREIGN: usize = 4096;

/// `GROUP/RESOURCE/NAMESPACE/NAME` is as deep as kube-apiserver puts anything.
const MAX_DEPTH: usize = 2;

impl View {
    pub fn new(prefix: String, encryption: Arc<dyn Encrypting>, share: Share) -> Self {
        let definitions = Arc::new(Definitions::default());
        Self {
            layout: Layout::new(definitions.clone()),
            definitions,
            prefix,
            encryption,
            share,
            unreadable: Mutex::default(),
            is_any_unreadable: AtomicBool::new(false),
            reopen: Notify::new(),
            regained: Mutex::default(),
            is_regained: Notify::new(),
            foreign: Mutex::default(),
            own: OwnWrites::default(),
        }
    }

    /// Folders that may hold folders of namespaces with keys that are no objects here. `None` if there are too many.
    pub fn foreign(&self) -> Option<Vec<Vec<u8>>> {
        let foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        (!foreign.overflows).then(|| foreign.folders.iter().cloned().collect())
    }

    /// Remembers where a key is that is no object.
    fn note_foreign(&self, theirs: &[u8]) {
        let slashes: Vec<usize> =
            theirs.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
        // The last one stands before a name. A segment with a dot is a group, and what follows it a resource.
        let is_group = slashes.first().is_some_and(|end| theirs.iter().take(*end).any(|byte| *byte == b'.'));
        let depth = slashes.len().saturating_sub(1).min(MAX_DEPTH);
        let folders = slashes.iter().take(depth).skip(usize::from(is_group));
        for folder in folders.filter_map(|end| theirs.get(..*end)) {
            let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            if foreign.folders.contains(folder) {
                continue;
            }
            if foreign.folders.len() < MAX_FOREIGN {
                foreign.folders.insert(folder.to_vec());
            } else {
                foreign.overflows = true;
            }
        }
    }

    /// The keys of a namespace whose values cannot be read.
    pub fn unreadable_in(&self, namespace: &str) -> Vec<String> {
        let is_in = |ours: &Bytes| ours.split(|byte| *byte == b'/').nth(2) == Some(namespace.as_bytes());
        self.known().iter().filter(|(ours, _)| is_in(ours)).map(|(_, found)| found.key.to_string()).collect()
    }

    /// The values of a range of ours that could not be read when they were last seen.
    pub fn unreadable(&self, range: &KeyRange) -> Vec<Unreadable> {
        // Most often there is none at all.
        if self.is_all_readable() || range.is_empty() {
            return Vec::new();
        }
        let known = self.known();
        let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (Bound::Included(range.start()), end);
        known.range::<Bytes, _>(range).map(|(_, found)| found.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Bytes, Unreadable>> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<Bytes, Unreadable>)) {
        let mut known = self.known();
        change(&mut known);
        self.is_any_unreadable.store(!known.is_empty(), Ordering::Release);
    }

    /// The object at a key of theirs; `None` for what is none, or of a kind that is not served.
    pub fn object(&self, theirs: &Entry) -> Option<Result<Entry, Unreadable>> {
        self.opened_object(theirs).map(|object| object.map(|(entry, _)| entry))
    }

    /// The same, and whether it would be written otherwise now.
    fn opened_object(&self, theirs: &Entry) -> Option<Result<(Entry, bool), Unreadable>> {
        let key = self.layout.our_key(theirs.key())?;
        Some(self.stored(&key, theirs).map(|(stored, stale)| {
            self.learn(&key, &stored);
            (Entry::new(&key, &stored, theirs.created, theirs.modified), stale)
        }))
    }

    fn stored(&self, key: &[u8], theirs: &Entry) -> Result<(Bytes, bool), Unreadable> {
        let resource = resource_of(key).unwrap_or_default();
        self.read(key, theirs, |place, value| {
            let opened = self.encryption.open(resource, place.as_bytes(), value);
            let opened = opened.map_err(|reason| (Cause::Encrypted, reason))?;
            let stored = self.layout.stored(key, opened.value.as_deref().unwrap_or(value));
            let stored = stored.map_err(|error| (Cause::of(&error), error.to_string()))?;
            Ok((stored, opened.stale))
        })
    }

    /// Says that values which could not be decrypted may be now.
    pub fn reopen(&self) {
        self.reopen.notify_one();
    }

    /// Waits until some may be, and tells the keys of theirs of all that could not.
    pub async fn sealed(&self) -> Vec<Bytes> {
        self.reopen.notified().await;
        let known = self.known();
        known
            .values()
            .filter(|found| found.cause == Cause::Encrypted)
            .map(|found| found.theirs.clone())
            .collect()
    }

    /// Something that could not be read can be.
    pub fn regain(&self, entry: Entry) {
        let key = Bytes::copy_from_slice(entry.key());
        self.regained.lock().unwrap_or_else(PoisonError::into_inner).insert(key, entry);
        self.is_regained.notify_one();
    }

    /// Waits until something may have been regained since the last time.
    pub async fn is_regained(&self) {
        self.is_regained.notified().await;
    }

    /// Hands over what was regained and is still known as unreadable in that revision, with its key of theirs.
    pub fn regained(&self) -> Vec<(Bytes, Entry)> {
        let found = std::mem::take(&mut *self.regained.lock().unwrap_or_else(PoisonError::into_inner));
        if found.is_empty() {
            return Vec::new();
        }
        let known = self.known();
        let current = found.into_iter().filter_map(|(ours, entry)| {
            let unreadable = known.get(&ours).filter(|known| known.modified == entry.modified)?;
            Some((unreadable.theirs.clone(), entry))
        });
        current.collect()
    }

    fn read<T>(
        &self,
        ours: &[u8],
        theirs: &Entry,
        read: impl FnOnce(&str, &[u8]) -> Result<T, (Cause, String)>,
    ) -> Result<T, Unreadable> {
        let key = self.place(theirs.key());
        read(&key, theirs.value()).map_err(|(cause, reason)| Unreadable {
            key: key.into(),
            cause,
            reason: reason.into(),
            theirs: Bytes::copy_from_slice(theirs.key()),
            ours: Bytes::copy_from_slice(ours),
            modified: theirs.modified,
        })
    }

    /// What there is of ours on a page. What cannot be read of it is all that cannot be read of its keys.
    pub fn page(&self, range: &KeyRange, page: &Page) -> Vec<Entry> {
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        for entry in &page.entries {
            match self.entries(entry) {
                Ok(found) => entries.extend(found),
                Err(error) => unreadable.push(error),
            }
        }
        let rest = page.entries.last().filter(|_| page.more).map(|last| range.after(last.key()));
        let is_of_page =
            |key: &[u8]| range.contains(key) && rest.as_ref().is_none_or(|rest| !rest.contains(key));
        let found: BTreeSet<Bytes> = unreadable.iter().map(|error| error.ours.clone()).collect();
        self.change(|known| known.retain(|ours, known| !is_of_page(&known.theirs) || found.contains(ours)));
        unreadable.into_iter().for_each(|error| self.remember(error));
        entries
    }

    /// Told of once.
    fn remember(&self, error: Unreadable) {
        let text = error.to_string();
        let is_sealed = error.cause == Cause::Encrypted;
        let mut is_news = false;
        self.change(|known| {
            is_news = known.get(&error.ours) != Some(&error);
            known.insert(error.ours.clone(), error);
        });
        if is_news {
            tracing::warn!("{text}; clients get an error in its place");
        }
        if is_sealed {
            // Whoever was needed for it may have come meanwhile, and will not say so again.
            self.reopen();
        }
    }

    /// Whether nothing is known that cannot be read.
    pub fn is_all_readable(&self) -> bool {
        !self.is_any_unreadable.load(Ordering::Acquire)
    }

    /// What is gone, or can be read again, as of a revision.
    pub fn forget(&self, theirs: &[u8], revision: Revision) {
        let ours = self.layout.our_key(theirs);
        let ours = ours.as_deref().unwrap_or(theirs);
        self.change(|known| {
            // It may have become unreadable again since.
            if known.get(ours).is_some_and(|found| found.modified < revision) {
                known.remove(ours);
            }
        });
    }

    /// The bytes of a value of ours.
    pub fn value(&self, key: &[u8], their_key: &[u8], stored: &[u8]) -> Result<Bytes, String> {
        self.learn(key, stored);
        let value = self.layout.value(key, stored).map_err(|error| error.to_string())?;
        let resource = resource_of(key).unwrap_or_default();
        let sealed = self.encryption.seal(resource, self.place(their_key).as_bytes(), &value)?;
        Ok(sealed.map_or(value, Bytes::from))
    }

    /// The value that is encrypted as this; `None` if it is not.
    pub fn open(
        &self,
        resource: (&str, &str),
        place: &[u8],
        stored: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        Ok(self.encryption.open(resource, place, stored)?.value)
    }

    /// A key as etcd has it.
    pub fn place(&self, theirs: &[u8]) -> String {
        format!("{}{}", self.prefix, String::from_utf8_lossy(theirs))
    }

    /// Objects of a definition are written with its kind. One that was removed is remembered: its objects may outlive it.
    pub fn learn(&self, key: &[u8], stored: &[u8]) {
        if resource_of(key) != Some(DEFINITIONS) {
            return;
        }
        let Some(Definition { spec: DefinitionSpec { group, names } }) = read(stored) else { return };
        let mut kinds = self.definitions.0.write().unwrap_or_else(PoisonError::into_inner);
        kinds.insert((group, names.plural), names.kind);
    }

    /// Whether what is at a key of theirs does not count, because it belongs to another store: it was here before.
    fn is_elsewhere(&self, theirs: &[u8]) -> bool {
        if self.share.is_all() {
            return false;
        }
        if theirs == NODE_PORTS.as_bytes() {
            return !self.share.has(PORT_CLAIMS);
        }
        let ours = self.layout.our_key(theirs);
        ours.as_deref().and_then(resource_of).is_some_and(|resource| !self.share.has(resource))
    }

    /// What there is of ours at a key of theirs.
    pub fn entries(&self, theirs: &Entry) -> Result<Vec<Entry>, Unreadable> {
        if self.is_elsewhere(theirs.key()) {
            return Ok(Vec::new());
        }
        if theirs.key() == NODE_PORTS.as_bytes() {
            let taken = self.ports(theirs)?.taken;
            return Ok(taken
                .iter()
                .map(|port| claim_entry(*port, theirs.created, theirs.modified))
                .collect());
        }
        let object = self.object(theirs).transpose()?;
        if object.is_none() {
            self.note_foreign(theirs.key());
        }
        Ok(object.into_iter().collect())
    }

    /// What there is at a key of ours, at the key of theirs that has it, and whether it would be written otherwise now.
    pub fn entry(&self, ours: &[u8], theirs: &Entry) -> Result<Option<(Entry, bool)>, Unreadable> {
        if claimed_port(ours).is_none() {
            return self.opened_object(theirs).transpose();
        }
        let claim = self.entries(theirs)?.into_iter().find(|entry| entry.key() == ours);
        Ok(claim.map(|claim| (claim, false)))
    }

    pub fn ports(&self, theirs: &Entry) -> Result<Ports, Unreadable> {
        // Never encrypted, whatever is said of services.
        self.read(theirs.key(), theirs, |_, value| {
            Ports::read(value).map_err(|error| (Cause::Damaged, error.to_string()))
        })
    }

    /// What a change of theirs is here. Who was unreadable before and is not now is still known as such: see
    /// [`View::forget`].
    pub fn events(&self, theirs: &Event) -> Vec<Event> {
        if self.is_elsewhere(theirs.key()) {
            return Vec::new();
        }
        if theirs.key() == NODE_PORTS.as_bytes() {
            return self.port_events(theirs);
        }
        let own = theirs.entry().and_then(|entry| self.own(entry));
        let entry = match theirs.entry().filter(|_| own.is_none()).map(|entry| self.entries(entry)) {
            // To a reader who has what was there before, it is deleted.
            Some(Err(error)) => {
                self.remember(error);
                None
            }
            Some(Ok(entries)) => entries.into_iter().next(),
            None => own,
        };
        // That there was something is enough: it is neither decrypted nor decoded.
        let previous = theirs.previous().and_then(|previous| {
            let ours = self.layout.our_key(previous.key())?;
            Some(Entry::new(ours, b"", previous.created, previous.modified))
        });
        let event = match (entry, previous) {
            (Some(entry), previous) => Some(Event::Put { entry, previous }),
            (None, Some(previous)) => Some(Event::Delete { previous }),
            (None, None) => None,
        };
        event.into_iter().collect()
    }

    /// What this server has written itself.
    fn own(&self, theirs: &Entry) -> Option<Entry> {
        let stored = self.own.take(theirs.key(), theirs.value())?;
        let key = self.layout.our_key(theirs.key())?;
        let read = || self.stored(&key, theirs).ok().map(|(stored, _)| stored);
        debug_assert!(read().is_none_or(|read| read == stored), "{:?} is read otherwise", theirs.key());
        Some(Entry::new(&key, &stored, theirs.created, theirs.modified))
    }

    /// Claims that came and went; most stay, and have no value that could change.
    fn port_events(&self, theirs: &Event) -> Vec<Event> {
        let claims = |entry: Option<&Entry>| entry.map(|entry| self.entries(entry));
        let before = claims(theirs.previous()).and_then(Result::ok).unwrap_or_default();
        let after = match claims(theirs.entry()) {
            Some(Err(error)) => {
                self.remember(error);
                Vec::new()
            }
            after => after.and_then(Result::ok).unwrap_or_default(),
        };
        let mut before: BTreeMap<&[u8], &Entry> = before.iter().map(|entry| (entry.key(), entry)).collect();
        let mut events = Vec::new();
        for entry in after {
            if before.remove(entry.key()).is_none() {
                events.push(Event::Put { entry, previous: None });
            }
        }
        events.extend(before.into_values().map(|previous| Event::Delete { previous: previous.clone() }));
        events
    }
}

/// The port that a key of ours claims.
pub(crate) fn claimed_port(key: &[u8]) -> Option<u16> {
    if resource_of(key) != Some(PORT_CLAIMS) {
        return None;
    }
    let mut place = std::str::from_utf8(key).ok()?.rsplit('/');
    let (port, namespace) = (place.next()?, place.next()?);
    namespace.is_empty().then(|| port.parse().ok())?
}

pub(crate) fn claim_entry(port: u16, created: Revision, modified: Revision) -> Entry {
    let (group, resource) = PORT_CLAIMS;
    let key = object_key(&ResourceId::new(group, resource), "", &port.to_string());
    Entry::new(key, b"", created, modified)
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
