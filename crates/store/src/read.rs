//! What reads answer.

use std::{borrow::Borrow, cmp::Ordering, ops::Deref, sync::Arc};

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

/// What an [`Entry`] points to. There is one for every object and every change that is remembered, so key and
/// value are one buffer, no larger than they are.
#[derive(Debug, PartialEq, Eq)]
pub struct EntryFields {
    /// The key, then the value.
    bytes: Box<[u8]>,
    key_length: usize,
    /// The revision that made the key; changes when it is deleted and made again.
    pub created: Revision,
    /// The revision that wrote this value.
    pub modified: Revision,
}

impl Entry {
    pub fn new(
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        created: Revision,
        modified: Revision,
    ) -> Self {
        let (key, value) = (key.as_ref(), value.as_ref());
        let bytes = [key, value].concat().into();
        Self(Arc::new(EntryFields { bytes, key_length: key.len(), created, modified }))
    }
}

impl EntryFields {
    pub fn key(&self) -> &[u8] {
        self.bytes.get(..self.key_length).unwrap_or_default()
    }

    pub fn value(&self) -> &[u8] {
        self.bytes.get(self.key_length..).unwrap_or_default()
    }
}

impl Deref for Entry {
    type Target = EntryFields;

    fn deref(&self) -> &EntryFields {
        &self.0
    }
}

/// An entry, known by its key.
#[derive(Clone, Debug)]
pub(crate) struct ByKey(pub Entry);

impl Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

/// The answer for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetAnswer {
    pub entry: Option<Entry>,
    /// The revision at which this is true.
    pub revision: Revision,
    /// Whether it would be stored otherwise if it were written now, such as with another key.
    pub stale: bool,
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
    /// What is there cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// A value that is there, and that this store cannot make sense of. It is not answered, and not gone either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value at `{place}` cannot be read: {reason}")]
pub struct Unreadable {
    pub key: Bytes,
    /// What whoever looks for it below this store has to look for.
    pub place: String,
    pub modified: Revision,
    pub reason: String,
    /// Whether it is only encrypted: it may be read later as it is, so whoever has what was there before keeps that.
    pub sealed: bool,
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
