//! A change, as watchers see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sternpost_store::Revision;

use crate::object::Object;

#[derive(Debug)]
pub struct Event {
    pub revision: Revision,
    pub kind: EventKind,
    /// What is there now; for a deletion what was there, under the deletion's revision.
    pub object: Arc<Object>,
    /// What was there before; none when the object is new.
    pub previous: Option<Arc<Object>>,
    frame: OnceLock<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }
}

impl Event {
    pub(crate) fn new(
        revision: Revision,
        kind: EventKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        Self { revision, kind, object, previous, frame: OnceLock::new() }
    }

    /// The event's bytes, made by the first watcher that needs them and shared
    /// by all others. Every caller must mean the same bytes.
    pub fn frame(&self, make: impl FnOnce() -> Bytes) -> &Bytes {
        self.frame.get_or_init(make)
    }

    /// The same without its bytes, if it has any.
    pub(crate) fn bare(&self) -> Option<Self> {
        self.frame.get()?;
        Some(Self::new(self.revision, self.kind, self.object.clone(), self.previous.clone()))
    }
}
