//! The revisioned key-value contract that the API server sits on.
//!
//! Entry point: [`Store`]. An implementation keeps byte keys in order, gives
//! every transaction that changes something one global [`Revision`], answers
//! reads at any retained revision and streams changes from any of them.
//! [`memory::MemoryStore`] is the one without a disk. [`mvcc`] and [`hub`] are
//! the parts that implementations with all keys in memory share.
//!
//! Invariants of every implementation, checked by the `conformance` suite:
//! - a commit is answered after it is durable, and then every read sees it;
//! - revisions strictly increase and are never reused, but may leave gaps;
//! - a watch delivers every change after its start once, in order of revision,
//!   all changes of one revision together in key order;
//! - what was compacted is refused, never answered from what is left.
//!
//! The crate does not know objects, resources or HTTP, and does no I/O; time
//! enters through [`sternpost_clock::Clock`].

use std::{fmt::Debug, future::Future, pin::Pin, sync::Arc};

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod hub;
pub mod key;
pub mod load;
pub mod memory;
pub mod mvcc;
pub mod read;
pub mod retention;
pub mod revision;
pub mod transaction;
pub mod watch;

pub use bytes::Bytes;
pub use key::KeyRange;
pub use read::{Entry, EntryFields, GetAnswer, Page, ReadError, Stopped, Unreadable};
pub use revision::Revision;
pub use transaction::{CommitError, Committed, Compare, Transaction, Write};
pub use watch::{Changes, Delivery, Event, Follower, Watch, WatchError, Watcher};

/// Boxed, because the server picks its store at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An ordered key-value map with history.
///
/// All futures may be dropped at any time. Dropping that of [`commit`](Store::commit)
/// does not undo a transaction that was already handed over.
pub trait Store: Debug + Send + Sync {
    /// The revision of the newest change; every later read is at least this new.
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// One key, now or as it was at a retained revision.
    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>>;

    /// The first `limit` keys of a range, now or at a retained revision.
    ///
    /// A page holds at most [`read::MAX_PAGE`] entries, whatever the limit. To
    /// continue, ask for [`KeyRange::after`] the last key at [`Page::revision`].
    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>>;

    /// Makes all writes at one new revision if all compares hold, else none.
    ///
    /// Answers after the change is durable and readable. A transaction that
    /// changes nothing (no writes, or only deletes of absent keys) succeeds
    /// without taking a revision.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>>;

    /// How many revisions before the newest whoever begins with the store should read, so that watches can go on from
    /// there: all that are left, unless reading them takes long.
    fn replayed(&self) -> u64 {
        u64::MAX
    }

    /// Whether the store deletes keys whose time to live is over. One that does not takes a put with a
    /// time to live as any other put, and whoever wrote the key has to see to its end.
    fn expires(&self) -> bool {
        false
    }

    /// Whether there may be values that cannot be read: asked before each list.
    fn has_unreadable(&self) -> bool {
        false
    }

    /// The values of the range that cannot be read, as of what was last read of it in order: neither pages nor
    /// watches show them. One that becomes unreadable is deleted to watches, and told of here before, with the revision of
    /// that deletion.
    fn unreadable(&self, range: &KeyRange) -> Vec<Unreadable> {
        let _ = range;
        Vec::new()
    }

    /// Every change in the range with a revision greater than `after`.
    ///
    /// `after` must be retained: at least the compacted revision, at most the
    /// current one. A caller that has listed at revision R watches after R.
    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>>;

    /// Hands every change after `after` to a follower for as long as the store
    /// lives: those that have happened before this returns, every later one
    /// before its commit is answered. So whoever has an answer finds it at the
    /// follower. Only for stores that make all changes themselves; `None` from
    /// others, which have to be watched.
    fn follow(&self, after: Revision, follower: Arc<dyn Follower>) -> Option<Result<(), ReadError>> {
        let _ = (after, follower);
        None
    }

    /// Forgets history: afterwards reads below `to` and watches after less
    /// than `to` are refused. Reading at `to` and watching after it still work.
    /// Compacting again to the same or an older revision does nothing.
    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>>;

    /// Resolves if the store had to stop for good; the process must then exit.
    fn stopped(&self) -> BoxFuture<'static, Stopped>;

    /// Finishes what was handed over and releases the store. Everything later
    /// fails as closed; watches end.
    fn close(&self) -> BoxFuture<'_, ()>;
}
