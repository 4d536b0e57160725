//! What reads answer.

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;

use crate::Revision;

/// The most entries in one [`Page`]. It bounds how long a read can hold up
/// the publishing of a commit.
pub const MAX_PAGE: usize = 10_000;

/// A key with its value as of one revision.
///
/// One pointer: state, history and readers share what it points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry(Arc<EntryFields>);

/// What an [`Entry`] points to.
///
/// A value that is a slice of a larger buffer keeps that buffer alive.
#[derive(Debug, PartialEq, Eq)]
pub struct EntryFields {
    pub key: Bytes,
    pub value: Bytes,
    /// The revision that made the key; changes when it is deleted and made again.
    pub created: Revision,
    /// The revision that wrote this value.
    pub modified: Revision,
}

impl Entry {
    pub fn new(key: Bytes, value: Bytes, created: Revision, modified: Revision) -> Self {
        Self(Arc::new(EntryFields { key, value, created, modified }))
    }
}

impl Deref for Entry {
    type Target = EntryFields;

    fn deref(&self) -> &EntryFields {
        &self.0
    }
}

/// The answer for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetAnswer {
    pub entry: Option<Entry>,
    /// The revision at which this is true.
    pub revision: Revision,
}

/// The answer for a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In key order.
    pub entries: Vec<Entry>,
    /// The revision at which this is true; pages that belong together share it.
    pub revision: Revision,
    /// Whether the range has keys behind the last one here.
    pub more: bool,
}

/// Why a read, the start of a watch or a compaction was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("revision is compacted, the oldest one left is {oldest}")]
    Compacted { oldest: Revision },
    #[error("revision is in the future, the current one is {current}")]
    Future { current: Revision },
    /// A store on other machines cannot be reached now.
    #[error("store is not available: {reason}")]
    Unavailable { reason: String },
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The store serves nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// It was closed on purpose.
    #[error("store is closed")]
    Closed,
    /// Continuing could lose or invent data.
    #[error("store has stopped: {reason}")]
    Failed { reason: Arc<str> },
}
