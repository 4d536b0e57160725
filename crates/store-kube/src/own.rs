//! What this server has written itself, until it comes back.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

/// So many bytes are kept. What does not come back, because it was not written after all, is forgotten with the rest.
const MAX_BYTES: usize = 16 << 20;

/// Values on their way to etcd and back, by their keys there: what they are here is known, so they are neither
/// decrypted nor decoded when they come.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    written: HashMap<Bytes, Written>,
    bytes: usize,
}

#[derive(Debug)]
struct Written {
    theirs: Bytes,
    ours: Bytes,
}

impl OwnWrites {
    /// A value that is about to be written, and what it is here.
    pub fn add(&self, key: Bytes, theirs: Bytes, ours: Bytes) {
        let written = Written { theirs, ours };
        let mut waiting = self.lock();
        waiting.remove(&key);
        if waiting.bytes + written.bytes() > MAX_BYTES {
            *waiting = Waiting::default();
        }
        waiting.bytes += written.bytes();
        waiting.written.insert(key, written);
    }

    /// What a value that has come is here, if it is the one that was written last.
    pub fn take(&self, key: &[u8], theirs: &[u8]) -> Option<Bytes> {
        let mut waiting = self.lock();
        waiting.written.get(key).filter(|written| written.theirs == theirs)?;
        waiting.remove(key).map(|written| written.ours)
    }

    /// It was not written.
    pub fn forget(&self, key: &[u8]) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn remove(&mut self, key: &[u8]) -> Option<Written> {
        let removed = self.written.remove(key)?;
        self.bytes = self.bytes.saturating_sub(removed.bytes());
        Some(removed)
    }
}

impl Written {
    fn bytes(&self) -> usize {
        self.theirs.len() + self.ours.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_known_once() {
        let own = OwnWrites::default();
        own.add("a".into(), "theirs".into(), "ours".into());
        assert_eq!(own.take(b"a", b"of another server"), None);
        assert_eq!(own.take(b"b", b"theirs"), None);
        assert_eq!(own.take(b"a", b"theirs"), Some("ours".into()));
        assert_eq!(own.take(b"a", b"theirs"), None);
        own.add("a".into(), "1".into(), "one".into());
        own.add("a".into(), "2".into(), "two".into());
        assert_eq!(own.take(b"a", b"1"), None);
        own.forget(b"a");
        assert_eq!(own.take(b"a", b"2"), None);
        assert_eq!(own.lock().bytes, 0);
    }

    #[test]
    fn what_never_comes_back_is_forgotten() {
        let own = OwnWrites::default();
        let value = Bytes::from(vec![0; MAX_BYTES / 4]);
        for key in ["a", "b", "c"] {
            own.add(key.into(), value.clone(), value.clone());
            assert!(own.lock().bytes <= MAX_BYTES);
        }
        assert_eq!(own.take(b"a", &value), None);
        assert_eq!(own.take(b"c", &value), Some(value));
    }
}
