//! A change, as watchers see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sternpost_store::Revision;

use crate::{object::Object, runs::Form};

#[derive(Debug)]
pub struct Event {
    pub revision: Revision,
    pub kind: EventKind,
    /// What is there now; for a deletion what was there, under the deletion's revision.
    pub object: Arc<Object>,
    /// What was there before; none when the object is new.
    pub previous: Option<Arc<Object>>,
    frame: OnceLock<Bytes>,
    /// In the first other form that a watcher needed.
    other: OnceLock<Box<(Form, Bytes)>>,
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
        Self { revision, kind, object, previous, frame: OnceLock::new(), other: OnceLock::new() }
    }

    /// The event's bytes, made by the first watcher that needs them and shared
    /// by all others. Every caller must mean the same bytes.
    pub fn frame(&self, make: impl FnOnce() -> Bytes) -> &Bytes {
        self.frame.get_or_init(make)
    }

    /// The event's bytes in another form. One such form is shared; what else there is, is made for each.
    pub fn frame_in(&self, form: Form, make: impl FnOnce() -> Bytes) -> Bytes {
        match self.other.get().map(|other| &**other) {
            Some((known, frame)) if *known == form => frame.clone(),
            Some(_) => make(),
            None => {
                let frame = make();
                // Somebody may have been faster.
                let _ = self.other.set(Box::new((form, frame.clone())));
                frame
            }
        }
    }

    /// The same without its bytes, if it has any.
    pub(crate) fn bare(&self) -> Option<Self> {
        if self.frame.get().is_none() && self.other.get().is_none() {
            return None;
        }
        Some(Self::new(self.revision, self.kind, self.object.clone(), self.previous.clone()))
    }
}
