//! Every object in memory, ready to send: what reads and watches are answered from.
//!
//! [`Cache::start`] loads the store and returns a [`Feeder`] that keeps the cache
//! up with it. Per resource there is a [`ResourceCache`]: an immutable
//! [`Snapshot`], O(1) to take, and a window of [`Event`]s to watch from.
//!
//! Invariants: a snapshot holds exactly the objects of its revision; events are
//! in order, and the window has every event after [`ResourceCache::oldest`]; an
//! object's bytes are those the store holds, shared and never copied, with the
//! resource version spliced in on the way out. A watcher reads from the window:
//! one that is too slow finds its place gone and is told so, whatever the others do.
//!
//! This crate does not know schemas, users or HTTP.

mod cache;
mod encoding;
mod event;
mod key;
mod object;
mod resource;

pub use cache::{Cache, Feeder, StartError};
pub use encoding::{encode, value_of};
pub use event::{Event, EventKind};
pub use key::{ResourceId, object_key};
pub use object::{Index, Indexer, Object};
pub use resource::{Expired, MAX_WINDOW_EVENTS, ResourceCache, Snapshot};
