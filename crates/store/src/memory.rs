//! The store without a disk: for tests and for servers that may forget.

use std::{num::NonZeroUsize, sync::Arc};

use sternpost_clock::Clock;

use crate::{
    BoxFuture, Bytes, CommitError, Committed, Follower, GetAnswer, KeyRange, Page, ReadError, Revision,
    Stopped, Store, Transaction, Watch,
    hub::{DEFAULT_WATCH_QUEUE, Hub},
    mvcc::Mvcc,
    retention::Retention,
};

#[derive(Debug)]
pub struct MemoryStore {
    hub: Arc<Hub>,
    options: Options,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub retention: Retention,
    /// Deliveries that may wait for one watcher before it is cut off.
    pub watch_queue: NonZeroUsize,
    /// By which history is kept: wall time, because ages must survive a restart. It decides no order: a
    /// leap can do no more than drop history early, or keep it until its other bounds are reached.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self { retention: Retention::default(), watch_queue: DEFAULT_WATCH_QUEUE, clock: Clock::system() }
    }
}

impl MemoryStore {
    pub fn new(options: Options) -> Self {
        Self { hub: Hub::new(Mvcc::default(), options.watch_queue), options }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Store for MemoryStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        Box::pin(async { self.hub.read(|mvcc| Ok(mvcc.current())) })
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        Box::pin(async move { self.hub.read(|mvcc| mvcc.get(&key, at)) })
    }

    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { self.hub.read(|mvcc| mvcc.range(&range, at, limit)) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            self.hub.commit(transaction, &self.options.retention, self.options.clock.unix_millis())
        })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        Box::pin(async move { self.hub.watch(range, after) })
    }

    fn follow(&self, after: Revision, follower: Arc<dyn Follower>) -> Option<Result<(), ReadError>> {
        Some(self.hub.follow(after, follower))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move { self.hub.compact(to) })
    }

    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        self.hub.failed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.hub.stop(Stopped::Closed) })
    }
}
