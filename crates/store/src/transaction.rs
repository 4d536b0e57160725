//! Transactions and what comes of them.

use std::num::NonZeroU32;

use bytes::Bytes;

use crate::{
    Entry, Revision,
    read::{ReadError, Stopped},
};

/// The longest key. Names, namespaces and groups of 253 bytes fit several times.
pub const MAX_KEY_BYTES: usize = 4096;
/// The most bytes of keys and values in one transaction; room for the largest
/// request body (3 MiB) and what the server adds to it.
pub const MAX_TRANSACTION_BYTES: usize = 8 << 20;
/// The most compares and, separately, the most writes in one transaction; etcd's bound.
pub const MAX_OPERATIONS: usize = 128;

/// Writes that happen together, if every compare holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub compares: Vec<Compare>,
    /// A key may be written only once.
    pub writes: Vec<Write>,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    Absent {
        key: Bytes,
    },
    Present {
        key: Bytes,
    },
    /// The key exists and this revision wrote it last.
    Modified {
        key: Bytes,
        revision: Revision,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put {
        key: Bytes,
        value: Bytes,
        /// Time to live in seconds. A put without one takes away that of the put before.
        ///
        /// A store that [expires](crate::Store::expires) deletes the key itself, at a revision that no commit
        /// has, and not before so many seconds have passed since the commit was asked for. How much later is
        /// the store's choice, and keys may go together.
        ttl: Option<NonZeroU32>,
    },
    /// Nothing happens if the key is absent.
    Delete { key: Bytes },
}

/// The answer to a transaction whose compares held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of the changes; the current one if nothing changed.
    pub revision: Revision,
    /// Whether the transaction took a revision.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A compare did not hold; nothing was written.
    #[error("a compared key has changed, as of revision {revision}")]
    Conflict {
        revision: Revision,
        /// For each compare, in the order given, what is there.
        current: Vec<Option<Entry>>,
    },
    #[error(transparent)]
    Invalid(#[from] InvalidTransaction),
    /// The outcome is not known: the transaction may have happened, wholly.
    #[error("outcome of the commit is unknown: {reason}")]
    Uncertain { reason: String },
    /// The store does not take such a transaction, and will not later; nothing was written.
    #[error("store refuses the transaction: {reason}")]
    Refused { reason: String },
    /// Nothing is ever written by this server.
    #[error("this server only reads")]
    ReadOnly,
    /// Nothing was written; trying again later may help.
    #[error("store is not available: {reason}")]
    Unavailable { reason: String },
    /// Nothing was written.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Transactions that no store accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTransaction {
    #[error("key is empty")]
    EmptyKey,
    #[error("key has {length} bytes, more than {MAX_KEY_BYTES}")]
    KeyTooLong { length: usize },
    #[error("key is written twice")]
    DuplicateKey,
    #[error("transaction has {count} operations, more than {MAX_OPERATIONS}")]
    TooManyOperations { count: usize },
    #[error("transaction has {size} bytes, more than {MAX_TRANSACTION_BYTES}")]
    TooLarge { size: usize },
}

impl Transaction {
    /// Makes the key if it does not exist.
    pub fn create(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        let key = key.into();
        Self { compares: vec![Compare::Absent { key: key.clone() }], writes: vec![Write::put(key, value)] }
    }

    /// Replaces the value if `revision` wrote it.
    pub fn update(key: impl Into<Bytes>, revision: Revision, value: impl Into<Bytes>) -> Self {
        let key = key.into();
        let compares = vec![Compare::Modified { key: key.clone(), revision }];
        Self { compares, writes: vec![Write::put(key, value)] }
    }

    /// Removes the key if `revision` wrote it.
    pub fn delete(key: impl Into<Bytes>, revision: Revision) -> Self {
        let key = key.into();
        let compares = vec![Compare::Modified { key: key.clone(), revision }];
        Self { compares, writes: vec![Write::delete(key)] }
    }

    /// Writes without a condition.
    pub fn write(writes: impl IntoIterator<Item = Write>) -> Self {
        Self { compares: Vec::new(), writes: writes.into_iter().collect() }
    }

    /// The limits, which are the same for every store. Implementations call this first.
    pub fn check(&self) -> Result<(), InvalidTransaction> {
        for count in [self.compares.len(), self.writes.len()] {
            if count > MAX_OPERATIONS {
                return Err(InvalidTransaction::TooManyOperations { count });
            }
        }
        for key in self.compares.iter().map(Compare::key).chain(self.writes.iter().map(Write::key)) {
            match key.len() {
                0 => return Err(InvalidTransaction::EmptyKey),
                length if length > MAX_KEY_BYTES => return Err(InvalidTransaction::KeyTooLong { length }),
                _ => {}
            }
        }
        let mut keys: Vec<&Bytes> = self.writes.iter().map(Write::key).collect();
        keys.sort_unstable();
        if keys.array_windows().any(|[left, right]| left == right) {
            return Err(InvalidTransaction::DuplicateKey);
        }
        match self.size() {
            size if size > MAX_TRANSACTION_BYTES => Err(InvalidTransaction::TooLarge { size }),
            _ => Ok(()),
        }
    }

    /// Bytes of all keys and values.
    pub fn size(&self) -> usize {
        let compared: usize = self.compares.iter().map(|compare| compare.key().len()).sum();
        let written: usize = self.writes.iter().map(|write| write.key().len() + write.value_length()).sum();
        compared + written
    }
}

impl Compare {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Absent { key } | Self::Present { key } | Self::Modified { key, .. } => key,
        }
    }

    pub fn holds(&self, current: Option<&Entry>) -> bool {
        match self {
            Self::Absent { .. } => current.is_none(),
            Self::Present { .. } => current.is_some(),
            Self::Modified { revision, .. } => current.is_some_and(|entry| entry.modified == *revision),
        }
    }
}

impl Write {
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.into(), value: value.into(), ttl: None }
    }

    /// A put with a time to live in seconds.
    pub fn expiring(key: impl Into<Bytes>, value: impl Into<Bytes>, ttl: NonZeroU32) -> Self {
        Self::Put { key: key.into(), value: value.into(), ttl: Some(ttl) }
    }

    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::Delete { key: key.into() }
    }

    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    fn value_length(&self) -> usize {
        match self {
            Self::Put { value, .. } => value.len(),
            Self::Delete { .. } => 0,
        }
    }
}

impl From<ReadError> for CommitError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Stopped(stopped) => Self::Stopped(stopped),
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_at_the_limit_and_fail_one_past_it() {
        let key = |length: usize| Bytes::from(vec![b'k'; length]);
        let put = |key: Bytes, size: usize| Transaction::write([Write::put(key, vec![0; size])]);
        let numbered = |count: usize| (0..count).map(|n| Bytes::from(format!("k{n}")));
        let writes = |count| Transaction::write(numbered(count).map(Write::delete));
        let compares = |count| Transaction {
            compares: numbered(count).map(|key| Compare::Absent { key }).collect(),
            writes: Vec::new(),
        };
        use InvalidTransaction::*;
        let cases = [
            (Transaction::default(), Ok(())),
            (put(key(0), 0), Err(EmptyKey)),
            (put(key(1), 0), Ok(())),
            (put(key(MAX_KEY_BYTES), 0), Ok(())),
            (put(key(MAX_KEY_BYTES + 1), 0), Err(KeyTooLong { length: MAX_KEY_BYTES + 1 })),
            (put(key(1), MAX_TRANSACTION_BYTES - 1), Ok(())),
            (put(key(1), MAX_TRANSACTION_BYTES), Err(TooLarge { size: MAX_TRANSACTION_BYTES + 1 })),
            (writes(MAX_OPERATIONS), Ok(())),
            (writes(MAX_OPERATIONS + 1), Err(TooManyOperations { count: MAX_OPERATIONS + 1 })),
            (compares(MAX_OPERATIONS), Ok(())),
            (compares(MAX_OPERATIONS + 1), Err(TooManyOperations { count: MAX_OPERATIONS + 1 })),
            (Transaction::write([Write::put("a", "1"), Write::put("b", "2")]), Ok(())),
            (Transaction::write([Write::put("a", "1"), Write::delete("a")]), Err(DuplicateKey)),
        ];
        for (transaction, expected) in cases {
            assert_eq!(transaction.check(), expected, "{} bytes", transaction.size());
        }
    }
}
