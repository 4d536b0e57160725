//! The store that is built in: one directory with a log and a snapshot, everything in memory.
//!
//! Entry point: [`LogStore::open`]. `FORMAT.md` describes the bytes on disk
//! and what a crash can and cannot do to them.
//!
//! One thread appends to the log. It takes all transactions that wait, writes them
//! in one frame, syncs, publishes and then answers them. Another one, now and then, writes
//! a snapshot, so that older logs can go. Reads and watches are served from memory and never
//! wait for the disk.
//!
//! Invariants:
//! - nothing is answered or readable that is not durable;
//! - the revision is in the same frame as the data it belongs to, and no
//!   revision is given out twice, whatever crashes;
//! - the first failed sync, or write that fails for anything but want of space, is
//!   the last: the store stops for good and
//!   [`Store::stopped`](sternpost_store::Store::stopped) resolves;
//! - without space writes are refused, reads go on, and writes succeed again when
//!   there is space;
//! - a directory that is not understood is refused and not changed.
//!
//! [`check::check`] looks over a store that is not in use, and saves what is whole of it. [`Image::read`] reads one that may
//! be in use.
//! The crate does not know objects, resources or HTTP.

pub mod check;
mod codec;
mod directory;
pub mod disk;
mod engine;
mod frames;
mod image;
mod load;
mod open;
mod sealing;
mod snapshot;
mod store;
mod writer;

pub use image::Image;
pub use sealing::{MAX_SEALING, Opened, Plain, Sealing};
pub use store::{LogStore, OpenError, Options};
