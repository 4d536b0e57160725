//! What the database is written through: it notices what went wrong first, and
//! lets nothing more through after that.

use std::{
    io::{self, ErrorKind},
    ops::Bound,
    sync::{Arc, OnceLock},
};

use redb::{BackendError, StorageBackend};

/// One use of a storage by the database library. The storage outlives it: after
/// a failure that lost nothing, a new one is made for the same storage.
#[derive(Clone, Debug)]
pub struct Guarded {
    storage: Arc<dyn StorageBackend>,
    failure: Arc<OnceLock<Failure>>,
}

/// The first thing that went wrong.
#[derive(Clone, Debug)]
pub enum Failure {
    /// There was no room for bytes that were to be written. What had been synced
    /// is as it was.
    NoSpace(Arc<str>),
    /// Anything else. Above all a failed sync, whatever its reason: nobody knows
    /// what of the bytes before it is on the disk.
    Final,
}

impl Guarded {
    pub fn new(storage: Arc<dyn StorageBackend>) -> Self {
        Self { storage, failure: Arc::default() }
    }

    pub fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Does nothing if something has failed before: redb writes when it is
    /// dropped, and must not do so to a file that it no longer knows.
    fn pass<T>(
        &self,
        work: impl FnOnce(&dyn StorageBackend) -> io::Result<T>,
        blame: impl FnOnce(&io::Error) -> Failure,
    ) -> io::Result<T> {
        if self.failure.get().is_some() {
            return Err(io::Error::other("an earlier operation has failed"));
        }
        work(&*self.storage).inspect_err(|error| {
            // Only the first counts.
            let _ = self.failure.set(blame(error));
        })
    }
}

/// Of an error of a write, or of making the file longer.
fn of_writing(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Failure::NoSpace(error.to_string().into())
        }
        _ => Failure::Final,
    }
}

fn of_anything_else(_: &io::Error) -> Failure {
    Failure::Final
}

impl StorageBackend for Guarded {
    fn len(&self) -> io::Result<u64> {
        self.pass(StorageBackend::len, of_anything_else)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.pass(|storage| storage.read(offset, out), of_anything_else)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.pass(|storage| storage.set_len(len), of_writing)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass(StorageBackend::sync_data, of_anything_else)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pass(|storage| storage.write(offset, data), of_writing)
    }

    fn close(&self) -> io::Result<()> {
        self.storage.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}
