//! Changes as they happen.

use std::{fmt::Debug, ops::Range, sync::Arc};

use crate::{BoxFuture, Entry, KeyRange, Revision, read::Stopped};

/// Is handed every change where it happens, see [`Store::follow`](crate::Store::follow).
pub trait Follower: Debug + Send + Sync {
    /// Some transactions, in order. The store waits: this does no I/O, and
    /// does not call the store.
    fn changed(&self, group: &[Changes]);
}

/// A running watch, see [`Store::watch`](crate::Store::watch).
pub type Watch = Box<dyn Watcher>;

/// The receiving end of a watch. Dropping it ends the watch.
pub trait Watcher: Debug + Send {
    /// Waits for what comes next. The future may be dropped without losing
    /// anything. After an error every further call gives that error.
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, WatchError>>;

    /// The next delivery if it is there already. `None` says nothing about
    /// the end: only [`next`](Watcher::next) tells errors.
    fn ready(&mut self) -> Option<Delivery> {
        None
    }

    /// Values that could not be read when they passed by, and can be now: those that are there as of everything
    /// that was delivered. They are handed over once, and are [unreadable](crate::Store::unreadable) until the next
    /// call of [`next`](Watcher::next). When there are some and nothing else comes, the revision that was
    /// reached already is delivered once more, as [`Delivery::Progress`].
    fn regained(&mut self) -> Vec<Entry> {
        Vec::new()
    }

    /// Asks for a [`Delivery::Progress`] behind everything that has happened so far.
    fn request_progress(&mut self);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    Changes(Changes),
    /// All changes up to this revision were delivered.
    Progress(Revision),
}

/// All that one transaction changed in the watched range.
///
/// Shared between all watchers; cloning is cheap.
#[derive(Clone)]
pub struct Changes {
    batch: Arc<Batch>,
    part: Range<usize>,
}

/// All that one transaction changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    pub revision: Revision,
    /// Milliseconds since 1970, for retention.
    pub time: u64,
    /// In key order, at least one.
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Put { entry: Entry, previous: Option<Entry> },
    Delete { previous: Entry },
}

/// Why a watch ended. The caller may start a new one after the revision it saw last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// More deliveries were waiting than a watch may hold up.
    #[error("watcher is too slow, everything up to revision {delivered} was delivered")]
    Lagged { delivered: Revision },
    /// History was forgotten faster than the watch read it.
    #[error("revision is compacted, the oldest one left is {oldest}")]
    Compacted { oldest: Revision },
    #[error("store is not available: {reason}")]
    Unavailable { reason: String },
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Changes {
    /// `None` if nothing in the range changed.
    pub fn of(batch: &Arc<Batch>, range: &KeyRange) -> Option<Self> {
        let start = batch.events.partition_point(|event| range.is_after(event.key()));
        let end = batch.events.partition_point(|event| !range.is_before(event.key()));
        (start < end).then(|| Self { batch: Arc::clone(batch), part: start..end })
    }

    pub fn revision(&self) -> Revision {
        self.batch.revision
    }

    /// In key order, at least one.
    pub fn events(&self) -> &[Event] {
        self.batch.events.get(self.part.clone()).unwrap_or_default()
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        self.revision() == other.revision() && self.events() == other.events()
    }
}

impl Eq for Changes {}

impl Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("revision", &self.revision()).field("events", &self.events()).finish()
    }
}

impl Event {
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put { entry, .. } => entry.key(),
            Self::Delete { previous } => previous.key(),
        }
    }

    /// What is there afterwards.
    pub fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Put { entry, .. } => Some(entry),
            Self::Delete { .. } => None,
        }
    }

    /// What was there before.
    pub fn previous(&self) -> Option<&Entry> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous } => Some(previous),
        }
    }
}
