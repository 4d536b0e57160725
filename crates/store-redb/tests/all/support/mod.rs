//! What the tests of this crate share.

// Each test binary uses its own part, and helpers fail a test like the test itself.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub mod disk;

use std::{
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll, Waker},
};

use sternpost_store::{
    BoxFuture, KeyRange, ReadError, Revision, Store,
    conformance::{drain, list, model::Model},
};
use sternpost_store_redb::{Options, RedbStore};

use disk::Disk;

pub fn open(disk: &Disk, options: Options) -> RedbStore {
    RedbStore::open_on(disk.clone(), options).unwrap()
}

/// A disk with an empty store on it.
pub fn fresh() -> Disk {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let disk = Disk::default();
        RedbStore::create_on(disk.clone()).unwrap();
        disk.image()
    });
    Disk::with(image.clone())
}

/// Polls once, which is enough for a commit to be handed over.
///
/// Unconstrained, because the runtime otherwise makes a future that never had to
/// wait yield at some point, and this one is not polled again before it matters.
pub fn poll<T>(future: &mut BoxFuture<'_, T>) -> Option<T> {
    let mut future = tokio::task::unconstrained(future);
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// The oldest revision that can still be read.
pub async fn oldest(store: &dyn Store) -> Revision {
    match store.watch(KeyRange::all(), Revision::FIRST).await {
        Ok(_) => Revision::FIRST,
        Err(ReadError::Compacted { oldest }) => oldest,
        Err(other) => panic!("{other}"),
    }
}

/// At every retained revision the store reads and replays what the model has.
pub async fn compare(store: &dyn Store, model: &Model) {
    let all = KeyRange::all();
    assert_eq!(store.current_revision().await, Ok(model.current()));
    for revision in model.revisions().filter(|revision| *revision >= model.compacted) {
        let page = list(store, &all, Some(revision), 100).await;
        assert_eq!(page.entries, model.entries_at(&all, revision), "read at {revision}");
        let mut watch = store.watch(all.clone(), revision).await.unwrap();
        assert_eq!(drain(&mut watch).await, model.events_after(&all, revision), "watch after {revision}");
    }
}
