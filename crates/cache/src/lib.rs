//! Every object in memory, ready to send: what reads and watches are answered from.
//!
//! [`Cache::start`] loads the store and returns a [`Feeder`] that keeps the cache
//! up with it. Per resource there is a [`ResourceCache`]: an immutable
//! [`Snapshot`], O(1) to take, a window of [`Event`]s to watch from, a [`Waiter`]
//! for each watcher, an index of the labels that lists select by, and [`Run`]s whose
//! encoded bytes all lists share.
//!
//! Invariants: a snapshot holds exactly the objects of its revision, but for those that
//! cannot be read, and [`Seen`] tells two of one revision apart; events are
//! in order, and the window has every event after [`ResourceCache::oldest`]; an
//! object's bytes are those the store holds, shared and never copied, with the
//! resource version spliced in on the way out. A watcher reads from the window:
//! one that is too slow finds its place gone and is told so, whatever the others do.
//! Many watchers are woken at a bounded pace, few at once. Where others write to the
//! store as well, [`Line::catches_up`] is for reads that have to be the latest. A revision
//! is a place on the [`Line`] of its resource, and nothing compares those of two lines.
//!
//! This crate does not know schemas, users or HTTP.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in the machine's time"))]

mod cache;
mod divided;
mod encoding;
mod event;
mod key;
mod labels;
mod line;
mod newest;
mod object;
mod pairs;
mod reader;
mod resource;
mod runs;
mod waiters;

pub use cache::{Cache, Feeder, Moment, Progress, StartError};
pub use divided::DividedStore;
pub use encoding::{encode, encode_in, fields_size, read, read_as, value_of, version_of, write_fields};
pub use event::{Event, EventKind};
pub use key::{ResourceId, object_key, resource_of};
pub use labels::{Labelled, MAX_INDEXED_LABELS};
pub use line::{Behind, Divided, Line, Overrides, Share};
pub use object::{Indexer, Object};
pub use pairs::Pairs;
pub use resource::{Expired, MAX_WINDOW_EVENTS, Reading, ResourceCache, Seen, Snapshot};
pub use runs::{Asked, Coding, Encoded, Encodings, Form, MAX_ENCODED_BYTES, RUN_BYTES, Run, Section};
pub use waiters::Waiter;
