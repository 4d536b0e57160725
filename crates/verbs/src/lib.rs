//! What one verb does to one resource: the way of a write, a read and a watch.
//!
//! Entry point: [`Verbs`]. A write is typed ([`typed`]), defaulted and checked
//! by the rules of its kind (`sternpost-registry`), compared and stored in one
//! transaction, and answered when the cache shows it. Reads and watches are
//! answered from the cache; of a store that others write to as well they ask how
//! new it is (`fresh`).
//!
//! Invariants: nothing is stored that was not validated; a write that changes
//! nothing takes no revision; a refused write leaves no trace.
//!
//! This crate does not know HTTP, TLS, tokens or which store it sits on.

pub mod admission;
mod claims;
mod context;
mod create;
pub mod custom;
pub mod definitions;
mod delete;
mod etcd_limit;
mod failure;
mod form;
mod fresh;
pub mod index;
mod latency;
mod list;
pub mod names;
mod object_meta;
mod ownership;
mod patch;
pub mod quota;
mod scale;
mod second_verb;
pub mod served;
pub mod startup;
mod subresource;
pub mod typed;
mod unreadable;
mod update;
mod verbs;
mod watch;

pub use delete::{DeleteOptions, Deleted, Propagation};
pub use etcd_limit::{MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, ObjectSize};
pub use failure::Failure;
pub use latency::LatencyTracker;
pub use list::{
    COMPACTION_SECONDS, FUTURE_VERSION_TIMEOUT, ListQuery, Listed, MAX_CONVERTED, Selection, VersionMatch,
    parse_exact_version, parse_version,
};
pub use patch::{Patch, PatchRequest, PatchType, Validation};
pub use scale::ScaleChange;
pub use unreadable::UnsafeDeletion;
pub use update::Part;
pub use verbs::{DryRun, InEffect, SentOptions, Target, Verbs, Writer, Written, deleted_status};
pub use watch::{StateChange, Watch, WatchEvent, WatchQuery};
