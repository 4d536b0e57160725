//! A store that is as difficult as a test wants.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use sternpost_store::{
    BoxFuture, CommitError, Committed, Follower, GetAnswer, KeyRange, Page, ReadError, Revision, Stopped,
    Store, Transaction, Watch, memory::MemoryStore,
};

/// What happens before a transaction is committed.
type BeforeCommit = Box<dyn for<'a> Fn(&'a MemoryStore, &Transaction) -> BoxFuture<'a, ()> + Send + Sync>;

/// A store in memory.
pub struct DifficultStore {
    store: MemoryStore,
    before_commit: Option<BeforeCommit>,
    /// Whether its changes have to be watched, as if they were made elsewhere too.
    is_watched: bool,
    /// Whether keys from [`OTHERS`] on are not for those who watch.
    is_shared: bool,
}

/// Keys from this one on are others', in a store that is shared.
pub const OTHERS: &str = "~";

impl DifficultStore {
    pub fn watched() -> Self {
        Self { store: MemoryStore::default(), before_commit: None, is_watched: true, is_shared: false }
    }

    /// As [`watched`](Self::watched), and others have keys in it that take revisions and are not shown.
    pub fn shared() -> Self {
        Self { is_shared: true, ..Self::watched() }
    }

    /// In which something happens before each commit.
    pub fn before_commit(
        happens: impl for<'a> Fn(&'a MemoryStore, &Transaction) -> BoxFuture<'a, ()> + Send + Sync + 'static,
    ) -> Self {
        let before_commit = Some(Box::new(happens) as BeforeCommit);
        Self { store: MemoryStore::default(), before_commit, is_watched: false, is_shared: false }
    }
}

impl fmt::Debug for DifficultStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(formatter)
    }
}

impl Store for DifficultStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.store.current_revision()
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        self.store.get(key, at)
    }

    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        self.store.range(range, at, limit)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            if let Some(happens) = &self.before_commit {
                happens(&self.store, &transaction).await;
            }
            self.store.commit(transaction).await
        })
    }

    fn expires(&self) -> bool {
        self.store.expires()
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        match self.is_shared {
            true => self.store.watch(KeyRange::between(range.start().clone(), OTHERS), after),
            false => self.store.watch(range, after),
        }
    }

    fn follow(&self, after: Revision, follower: Arc<dyn Follower>) -> Option<Result<(), ReadError>> {
        if self.is_watched { None } else { self.store.follow(after, follower) }
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.compact(to)
    }

    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        self.store.stopped()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}
