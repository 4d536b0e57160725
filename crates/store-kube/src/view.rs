//! What is there, as this server has it.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use bytes::Bytes;
use serde::Deserialize;
use sternpost_cache::{ResourceId, object_key, read, resource_of};
use sternpost_layout::{Customs, Layout, NODE_PORTS, PORT_CLAIMS, Ports, ReadError};
use sternpost_store::{Entry, Event, Revision};

use crate::Encrypting;

const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// A value that this server does not understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value at `{key}` cannot be read: {reason}")]
pub struct Unreadable {
    pub key: String,
    pub cause: Cause,
    pub reason: String,
}

/// Why a value is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is encrypted, and none of the keys opens it.
    Encrypted,
    /// It is in another version than this server stores, or in a form that it does not read.
    Version,
    /// It is nothing that a server has written.
    Damaged,
}

impl Cause {
    fn of(error: &ReadError) -> Self {
        match error {
            ReadError::Encrypted => Self::Encrypted,
            ReadError::Cbor | ReadError::Kind { .. } => Self::Version,
            ReadError::Key(_) | ReadError::Protobuf(_) | ReadError::Json(_) => Self::Damaged,
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
    unreadable: Mutex<BTreeMap<String, Unreadable>>,
}

impl View {
    pub fn new(prefix: String, encryption: Arc<dyn Encrypting>) -> Self {
        let definitions = Arc::new(Definitions::default());
        Self {
            layout: Layout::new(definitions.clone()),
            definitions,
            prefix,
            encryption,
            unreadable: Mutex::default(),
        }
    }

    /// All values that could not be read when they were last seen.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The object at a key of theirs; `None` for what is none, or of a kind that is not served.
    pub fn object(&self, theirs: &Entry) -> Option<Result<Entry, Unreadable>> {
        let key = self.layout.our_key(theirs.key())?;
        Some(self.stored(&key, theirs).map(|stored| {
            self.learn(&key, &stored);
            Entry::new(&key, &stored, theirs.created, theirs.modified)
        }))
    }

    fn stored(&self, key: &[u8], theirs: &Entry) -> Result<Bytes, Unreadable> {
        let resource = resource_of(key).unwrap_or_default();
        self.read(theirs, |place, value| {
            let opened = self.encryption.open(resource, place.as_bytes(), value);
            let opened = opened.map_err(|reason| (Cause::Encrypted, reason))?;
            let stored = self.layout.stored(key, opened.as_deref().unwrap_or(value));
            stored.map_err(|error| (Cause::of(&error), error.to_string()))
        })
    }

    /// What a value is. One that cannot be read is remembered, and told of once.
    fn read<T>(
        &self,
        theirs: &Entry,
        read: impl FnOnce(&str, &[u8]) -> Result<T, (Cause, String)>,
    ) -> Result<T, Unreadable> {
        let place = self.place(theirs.key());
        let found = read(&place, theirs.value());
        let found = found.map_err(|(cause, reason)| Unreadable { key: place.clone(), cause, reason });
        let is_news = {
            let mut known = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
            match &found {
                Ok(_) if known.is_empty() => false,
                Ok(_) => {
                    known.remove(&place);
                    false
                }
                Err(error) => known.insert(place, error.clone()).as_ref() != Some(error),
            }
        };
        if let (Err(error), true) = (&found, is_news) {
            tracing::warn!("{error}; to clients the object is not there");
        }
        found
    }

    /// What is gone is not unreadable any more.
    fn forget(&self, theirs: &[u8]) {
        let mut known = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.is_empty() {
            known.remove(&self.place(theirs));
        }
    }

    /// The bytes of a value of ours.
    pub fn value(&self, key: &[u8], their_key: &[u8], stored: &[u8]) -> Result<Bytes, String> {
        self.learn(key, stored);
        let value = self.layout.value(key, stored).map_err(|error| error.to_string())?;
        let resource = resource_of(key).unwrap_or_default();
        let sealed = self.encryption.seal(resource, self.place(their_key).as_bytes(), &value)?;
        Ok(sealed.map_or(value, Bytes::from))
    }

    /// A key as etcd has it.
    pub fn place(&self, theirs: &[u8]) -> String {
        format!("{}{}", self.prefix, String::from_utf8_lossy(theirs))
    }

    /// Objects of a definition are written with its kind. One that was removed is remembered: its objects may outlive it.
    fn learn(&self, key: &[u8], stored: &[u8]) {
        if resource_of(key) != Some(DEFINITIONS) {
            return;
        }
        let Some(Definition { spec: DefinitionSpec { group, names } }) = read(stored) else { return };
        let mut kinds = self.definitions.0.write().unwrap_or_else(PoisonError::into_inner);
        kinds.insert((group, names.plural), names.kind);
    }

    /// What there is of ours at a key of theirs.
    pub fn entries(&self, theirs: &Entry) -> Vec<Entry> {
        if theirs.key() == NODE_PORTS.as_bytes() {
            return match self.ports(theirs) {
                Ok(ports) => ports
                    .taken
                    .iter()
                    .map(|port| claim_entry(*port, theirs.created, theirs.modified))
                    .collect(),
                Err(_) => Vec::new(),
            };
        }
        self.object(theirs).and_then(Result::ok).into_iter().collect()
    }

    pub fn ports(&self, theirs: &Entry) -> Result<Ports, Unreadable> {
        // Never encrypted, whatever is said of services.
        self.read(theirs, |_, value| Ports::read(value).map_err(|error| (Cause::Damaged, error.to_string())))
    }

    /// What a change of theirs is here.
    pub fn events(&self, theirs: &Event) -> Vec<Event> {
        let before = theirs.previous().map(|previous| self.entries(previous)).unwrap_or_default();
        let after = match theirs.entry() {
            Some(entry) => self.entries(entry),
            None => {
                self.forget(theirs.key());
                Vec::new()
            }
        };
        // Several, and most of them unchanged, only of ports, which have no value.
        let is_one_object = theirs.key() != NODE_PORTS.as_bytes();
        let mut events = Vec::new();
        let mut before: BTreeMap<&[u8], &Entry> = before.iter().map(|entry| (entry.key(), entry)).collect();
        for entry in after {
            let previous = before.remove(entry.key()).cloned();
            if is_one_object || previous.is_none() {
                events.push(Event::Put { entry, previous });
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
