//! The store contract on etcd: version 3.5.13 or newer, one member or several.
//!
//! Entry point: [`EtcdStore::new`], which connects in the background. `members` chooses the member that is talked
//! to and moves on from one that fails; `store` makes reads of calls and `commit` transactions, with the `leases` of
//! their keys; `watch` keeps a watch going across connections; `sternpost_grpc` carries the messages of `messages`.
//!
//! Invariants:
//! - a transaction is sent a second time only if no member can have acted on it the first time; else its outcome is
//!   [uncertain](sternpost_store::CommitError::Uncertain), and the caller's to find out;
//! - every read goes through etcd's leader, and a revision that is older than one seen before stops the store:
//!   somebody has put an old state back;
//! - a watch asks again for the last revision it has seen, so that etcd refuses it if anything behind is forgotten;
//! - nothing outside of the prefix is read or written, but for the key by which a [`Compactor`] takes turns.
//!
//! Work runs on the runtime that the store is made with, so its futures may be awaited on any. The crate does
//! not know objects, nor which other keys Kubernetes uses.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in the machine's time"))]

mod batches;
mod commit;
mod compactor;
mod convert;
mod endpoint;
mod kept;
mod leases;
mod members;
pub mod messages;
mod observe;
mod store;
mod watch;

pub use bytes::Bytes;
pub use compactor::{Compactor, DEFAULT_COMPACTION_INTERVAL};
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use kept::Kept;
pub use members::{Access, User};
pub use observe::Observe;
pub use sternpost_grpc as grpc;
pub use store::{DEFAULT_PATIENCE, EtcdStore, Options};
