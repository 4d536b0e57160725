//! What clients did and saw, written down while it happens.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde_json::Value;

/// Everything happens in this one.
pub const NAMESPACE: &str = "crash";

/// Each write puts its own text here, so that a version tells who wrote it.
pub const TOKEN: &str = "token";

/// The label that watches select by.
pub const COLOR: &str = "color";

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
}

/// What the checks compare of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub revision: u64,
    pub name: String,
    pub uid: String,
    pub created: String,
    pub token: String,
    pub color: String,
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
            created: text(&metadata["creationTimestamp"]),
            token: text(&metadata["annotations"][TOKEN]),
            color: text(&metadata["labels"][COLOR]),
            address: text(&spec["clusterIP"]),
            ports: ports.iter().filter_map(|port| port["nodePort"].as_u64()).collect(),
        }
    }
}

/// Zero if there is none.
pub fn revision(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A write, from the client's side.
#[derive(Clone, Debug)]
pub struct Write {
    pub resource: Resource,
    pub token: String,
    /// What was asked for; the prefix if a name is to be generated.
    pub name: String,
    pub action: Action,
    /// The newest revision anybody had been told when this began.
    pub floor: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Create,
    Generate,
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
    Written(Version),
    Deleted {
        uid: String,
    },
    Refused {
        code: u64,
        reason: String,
    },
    /// No answer. It may have happened, unless the server was asked to stop.
    Lost,
}

#[derive(Clone, Debug)]
pub enum Read {
    Get {
        resource: Resource,
        name: String,
        floor: u64,
        found: Option<Version>,
    },
    /// Whole, of one or more pages.
    List {
        resource: Resource,
        floor: u64,
        revision: u64,
        asked: Option<u64>,
        items: Vec<Version>,
    },
}

/// What a watch delivered.
#[derive(Clone, Debug)]
pub struct Stream {
    pub resource: Resource,
    pub color: Option<String>,
    pub start: Start,
    pub frames: Vec<(String, Version)>,
}

#[derive(Clone, Debug)]
pub enum Start {
    After(u64),
    /// With the state first, and the revision of the bookmark that ended it, if
    /// that came.
    State {
        floor: u64,
        state: Vec<Version>,
        complete: Option<u64>,
    },
}

/// From the start of a server to its end.
#[derive(Debug, Default)]
pub struct Life {
    pub writes: Mutex<Vec<Write>>,
    pub reads: Mutex<Vec<Read>>,
    pub streams: Mutex<Vec<Stream>>,
    /// What must not happen and was seen at once.
    pub violations: Mutex<Vec<String>>,
    /// The newest revision anybody was told, of each resource.
    told: [AtomicU64; 2],
    /// The end is on its way: connections may be lost from now on.
    ending: AtomicBool,
}

impl Life {
    pub fn starting_at(told: u64) -> Self {
        Self { told: [told.into(), told.into()], ..Self::default() }
    }

    /// Of any resource: every later write gets a greater one.
    pub fn told(&self) -> u64 {
        Resource::ALL.map(|resource| self.told_of(resource)).into_iter().max().unwrap()
    }

    /// Of one resource: every later read is at least as new. Two resources may
    /// be a moment apart.
    pub fn told_of(&self, resource: Resource) -> u64 {
        self.told[resource as usize].load(Ordering::SeqCst)
    }

    pub fn tell(&self, resource: Resource, revision: u64) {
        self.told[resource as usize].fetch_max(revision, Ordering::SeqCst);
    }

    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Whether writers had been told of writes and waited for more when it ended. `before` are the
    /// writes that were made before theirs.
    pub fn ended_in_writes(&self, before: usize) -> bool {
        let writes = self.writes.lock().unwrap();
        let mut of_writers = writes.iter().skip(before).map(|write| &write.outcome);
        of_writers.clone().any(|outcome| matches!(outcome, Outcome::Lost))
            && of_writers.any(|outcome| matches!(outcome, Outcome::Written(_) | Outcome::Deleted { .. }))
    }

    /// A connection has ended.
    pub fn lost(&self, what: &str) {
        if !self.ending.load(Ordering::SeqCst) {
            self.violation(format!("the connection ended under {what}, and nobody had stopped the server"));
        }
    }

    pub fn violation(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }
}
