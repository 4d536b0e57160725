//! What the store needs of a directory and of the files in it: the seam where tests inject faults.

use std::{
    fmt::Debug,
    io::{self, ErrorKind},
    sync::Arc,
};

/// One directory. Nothing done to its names is durable before [`Disk::sync`].
pub trait Disk: Debug + Send + Sync {
    /// The names of the files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A file that is there, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// An empty file, in place of one that may be there.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// In one step, in place of one that may be there.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

/// One file. Nothing that was written to it is durable before [`File::sync`].
pub trait File: Debug + Send + Sync {
    /// In bytes.
    fn length(&self) -> io::Result<u64>;
    /// Fills all of `into`, or fails.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes`, or fails; then any part of them may be there. The file grows as needed.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

/// Why something was not written.
#[derive(Debug)]
pub enum WriteError {
    /// What was synced is as it was before. Writing may be tried again.
    NoSpace { reason: Arc<str> },
    /// Nothing was written: it cannot be sealed, or is too long when it is.
    Unsealed { reason: String },
    /// Nobody knows what is on the disk. Nothing may be written any more.
    Final { reason: String },
}

impl WriteError {
    /// Of an error of a write, or of anything else that makes a file or directory longer.
    pub fn of_writing(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::NoSpace { reason: error.to_string().into() }
            }
            _ => Self::of_anything_else(error),
        }
    }

    /// Above all of a failed sync, whatever its reason: the kernel reports it once, and nobody knows
    /// what of the bytes before it is on the disk.
    pub fn of_anything_else(error: &io::Error) -> Self {
        Self::Final { reason: error.to_string() }
    }
}
