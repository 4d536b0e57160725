//! Reads stores of format version 1: one redb file, `store.redb`. Nothing writes them any more.
//!
//! Entry points: [`load()`] reads a whole one, so that it can be taken over; [`salvage()`] and [`scan`] find
//! what is left of a damaged one. `FORMAT.md` describes the bytes.
//!
//! Invariants:
//! - not a byte of the file changes: redb writes when it opens one, and is given memory to write to;
//! - a file that is not understood is refused, and no damage makes it panic.
//!
//! The crate does not know directories, locks, objects or HTTP.

mod codec;
mod load;
mod probe;
mod salvage;

use std::{borrow::Cow, io};

pub use codec::{FORMAT_VERSION, State};
pub use load::load;
pub use redb::StorageBackend;
pub use salvage::{Found, salvage, scan};

/// Why a file could not be read as a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is not a sternpost store: {0}")]
    Foreign(&'static str),
    #[error("it has format version {0}")]
    UnknownVersion(u32),
    #[error("it is corrupt: {0}")]
    Corrupt(Cow<'static, str>),
    #[error("it cannot be read")]
    Io(#[source] io::Error),
    #[error(transparent)]
    Database(redb::Error),
}
