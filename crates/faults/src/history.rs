//! What clients did and saw, written down while it happens, and what the store says that happened.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use sternpost_clock::machine::{self, Instant};

/// Everything happens in this one.
pub const NAMESPACE: &str = "faults";

/// What the names of all objects begin with that clients write; others are nobody's business here.
pub const PREFIX: &str = "f-";

/// The annotation in which each write puts its own number, so that a version tells who wrote it.
pub const TOKEN: &str = "token";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    ConfigMaps,
    Services,
}

impl Resource {
    pub const ALL: [Self; 2] = [Self::ConfigMaps, Self::Services];

    pub fn path(self) -> String {
        let plural = match self {
            Self::ConfigMaps => "configmaps",
            Self::Services => "services",
        };
        format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
    }

    /// Where kube-apiserver has the objects in etcd.
    pub fn keys(self) -> String {
        match self {
            Self::ConfigMaps => format!("/registry/configmaps/{NAMESPACE}/"),
            Self::Services => format!("/registry/services/specs/{NAMESPACE}/"),
        }
    }
}

/// How a write's number stands in its object: found in the stored bytes of any encoding.
pub fn token(write: u64) -> String {
    format!("<op:{write}>")
}

/// The number of the write in an object's bytes.
pub fn token_in(bytes: &[u8]) -> Option<u64> {
    const BEGIN: &[u8] = b"<op:";
    let start = bytes.windows(BEGIN.len()).position(|window| window == BEGIN)? + BEGIN.len();
    let rest = bytes.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'>')?;
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

/// What the checks compare of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub revision: u64,
    pub name: String,
    pub uid: String,
    /// Of the write that made it.
    pub token: u64,
    pub address: String,
    pub ports: Vec<u64>,
}

impl Version {
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            revision: revision(&metadata["resourceVersion"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            token: token_in(text(&metadata["annotations"][TOKEN]).as_bytes()).unwrap_or_default(),
            address: text(&spec["clusterIP"]),
            ports: ports.iter().filter_map(|port| port["nodePort"].as_u64()).collect(),
        }
    }
}

/// Zero if there is none.
pub fn revision(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// From when a client asked to when it knew, in nanoseconds since the campaign began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub begun: u64,
    pub ended: u64,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub token: u64,
    pub server: usize,
    pub resource: Resource,
    pub name: String,
    pub action: Action,
    pub span: Span,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Create,
    /// Only of this version, if one is given.
    Update {
        of: Option<u64>,
    },
    Delete {
        of: Option<u64>,
    },
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Written(Arc<Version>),
    Deleted {
        uid: String,
    },
    /// It did not happen, and never will.
    Refused {
        code: u16,
        reason: String,
    },
    /// It may have happened, once.
    Uncertain,
}

#[derive(Clone, Debug)]
pub struct Get {
    pub server: usize,
    pub resource: Resource,
    pub name: String,
    pub span: Span,
    pub found: Option<Arc<Version>>,
}

/// A list that asked for no version: it has to be as new as anything that anybody was told before.
#[derive(Clone, Debug)]
pub struct List {
    pub server: usize,
    pub resource: Resource,
    pub span: Span,
    pub revision: u64,
    pub items: Vec<Arc<Version>>,
}

/// What one watch delivered, from its beginning to its end.
#[derive(Clone, Debug)]
pub struct Stream {
    pub server: usize,
    pub resource: Resource,
    /// Events behind this revision were asked for.
    pub after: u64,
    pub frames: Vec<Frame>,
}

#[derive(Clone, Debug)]
pub struct Frame {
    pub at: u64,
    pub kind: Kind,
    pub revision: u64,
    /// None of a bookmark, nor of objects that are nobody's business.
    pub object: Option<Arc<Version>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

/// A change as the store has it: what really happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: u64,
    pub resource: Resource,
    pub name: String,
    /// Of the write; of a deletion there is none.
    pub token: Option<u64>,
}

/// The Lease by which one server runs the controllers, as etcd has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    pub revision: u64,
    /// When the witness heard of it, in nanoseconds.
    pub at: u64,
    /// Nobody, if it was given back.
    pub holder: String,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub writes: Vec<Write>,
    pub gets: Vec<Get>,
    pub lists: Vec<List>,
    pub streams: Vec<Stream>,
    /// All of them, in the order of the store.
    pub changes: Vec<Change>,
    /// In the same order; none of a server on its own store.
    pub leads: Vec<Lead>,
}

/// Writes a history down. Clones of its parts are cheap: versions that are told many times are kept once.
pub struct Recorder {
    began: Instant,
    next_token: AtomicU64,
    history: Mutex<History>,
    versions: Mutex<HashMap<(Resource, u64), Arc<Version>>>,
    /// When each server last acknowledged a write.
    acknowledged: Vec<AtomicU64>,
    /// Requests that were answered with an error, or not, by what was said.
    pub failures: Mutex<std::collections::BTreeMap<String, u64>>,
}

impl Recorder {
    pub fn new(servers: usize) -> Self {
        Self {
            began: machine::now(),
            next_token: AtomicU64::new(1),
            history: Mutex::default(),
            versions: Mutex::default(),
            acknowledged: (0..servers).map(|_| AtomicU64::new(0)).collect(),
            failures: Mutex::default(),
        }
    }

    pub fn now(&self) -> u64 {
        u64::try_from(machine::elapsed(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::SeqCst)
    }

    pub fn since(&self, begun: u64) -> Span {
        Span { begun, ended: self.now() }
    }

    /// The same value for the same version; another one where a server says otherwise.
    pub fn version(&self, resource: Resource, object: &Value) -> Arc<Version> {
        let version = Version::of(object);
        let mut versions = lock(&self.versions);
        let known = versions.entry((resource, version.revision)).or_insert_with(|| Arc::new(version.clone()));
        if **known == version { known.clone() } else { Arc::new(version) }
    }

    pub fn write(&self, write: Write) {
        if let (Outcome::Written(_) | Outcome::Deleted { .. }, Some(last)) =
            (&write.outcome, self.acknowledged.get(write.server))
        {
            last.fetch_max(write.span.ended, Ordering::SeqCst);
        }
        lock(&self.history).writes.push(write);
    }

    pub fn get(&self, get: Get) {
        lock(&self.history).gets.push(get);
    }

    pub fn list(&self, list: List) {
        lock(&self.history).lists.push(list);
    }

    pub fn stream(&self, stream: Stream) {
        lock(&self.history).streams.push(stream);
    }

    pub fn failure(&self, what: &str) {
        *lock(&self.failures).entry(what.to_owned()).or_default() += 1;
    }

    /// Whether a server has acknowledged a write since then.
    pub fn has_acknowledged(&self, server: usize, since: u64) -> bool {
        self.acknowledged.get(server).is_some_and(|last| last.load(Ordering::SeqCst) > since)
    }

    /// All that was written down, and the changes and leads as the store has them.
    pub fn finish(&self, mut changes: Vec<Change>, leads: Vec<Lead>) -> History {
        changes.sort_by_key(|change| change.revision);
        History { changes, leads, ..std::mem::take(&mut *lock(&self.history)) }
    }
}

/// What a panicking task has written so far is still a history.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_write_is_found_in_bytes() {
        assert_eq!(token_in(b"k8s\0\n\x0c<op:17>\x12"), Some(17));
        assert_eq!(token_in(token(4).as_bytes()), Some(4));
        for other in [&b""[..], b"<op:", b"<op:x>", b"<op:1"] {
            assert_eq!(token_in(other), None);
        }
    }
}
