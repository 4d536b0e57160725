//! Several stores, each with resources of its own ([`Overrides`]).
//!
//! A transaction is about one of them: what would be about two is refused, and nothing of it is done. There is no
//! revision of all, so whoever reads or watches everything does it by each ([`Cache::start_divided`](crate::Cache::start_divided)).

use std::sync::Arc;

use sternpost_store::{
    BoxFuture, Bytes, CommitError, Committed, Compare, GetAnswer, KeyRange, Page, ReadError, Revision,
    Stopped, Store, Transaction, Unreadable, Watch, Write,
};

use crate::{
    key::resource_of,
    line::{Divided, Overrides},
};

/// See the [module](self).
#[derive(Debug)]
pub struct DividedStore {
    stores: Divided<Arc<dyn Store>>,
    overrides: Overrides,
}

impl DividedStore {
    pub fn new(stores: Divided<Arc<dyn Store>>, overrides: Overrides) -> Self {
        Self { stores, overrides }
    }

    fn number_of(&self, key: &[u8]) -> usize {
        resource_of(key).map_or(0, |(group, resource)| self.overrides.number_of(group, resource))
    }

    /// The store that a transaction is about.
    fn concerned(&self, transaction: &Transaction) -> Result<&Arc<dyn Store>, CommitError> {
        let compares = transaction.compares.iter().map(Compare::key);
        let mut numbers =
            compares.chain(transaction.writes.iter().map(Write::key)).map(|key| self.number_of(key));
        let first = numbers.next().unwrap_or_default();
        match numbers.find(|number| *number != first) {
            None => Ok(self.stores.numbered(first)),
            Some(_) => {
                let reason = "it is about objects in two stores, which cannot be written together".to_owned();
                Err(CommitError::Refused { reason })
            }
        }
    }
}

/// What cannot be asked of all.
fn undivided() -> ReadError {
    ReadError::Unavailable { reason: "there are several stores, each with revisions of its own".to_owned() }
}

impl Store for DividedStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        Box::pin(async { Err(undivided()) })
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        self.stores.numbered(self.number_of(&key)).get(key, at)
    }

    fn range(&self, _: KeyRange, _: Option<Revision>, _: usize) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async { Err(undivided()) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        match self.concerned(&transaction) {
            Ok(store) => store.commit(transaction),
            Err(refused) => Box::pin(async { Err(refused) }),
        }
    }

    fn expires(&self) -> bool {
        self.stores.iter().all(|store| store.expires())
    }

    fn has_unreadable(&self) -> bool {
        self.stores.iter().any(|store| store.has_unreadable())
    }

    fn unreadable(&self, range: &KeyRange) -> Vec<Unreadable> {
        self.stores.iter().flat_map(|store| store.unreadable(range)).collect()
    }

    fn watch(&self, _: KeyRange, _: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        Box::pin(async { Err(undivided()) })
    }

    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async { Err(undivided()) })
    }

    /// One is enough: what it had is not there any more.
    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        let mut all: Vec<_> = self.stores.iter().map(|store| store.stopped()).collect();
        Box::pin(std::future::poll_fn(move |context| {
            let mut ended = all.iter_mut().map(|store| store.as_mut().poll(context));
            ended.find(std::task::Poll::is_ready).unwrap_or(std::task::Poll::Pending)
        }))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for store in self.stores.iter() {
                store.close().await;
            }
        })
    }
}
