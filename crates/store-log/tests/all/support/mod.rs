//! What the tests of this crate share.

// Each test binary uses its own part, and helpers fail a test like the test itself.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub mod disk;

use std::{
    fs,
    io::Read,
    path::Path,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use flate2::read::GzDecoder;
use sternpost_store::{
    BoxFuture, KeyRange, ReadError, Revision, Store,
    conformance::{block_on, drain, list, model::Model},
};
use sternpost_store_log::{LogStore, OpenError, Options};

use disk::{Disk, Image};

pub fn open(disk: &Disk, options: Options) -> LogStore {
    try_open(disk, options).unwrap()
}

pub fn try_open(disk: &Disk, options: Options) -> Result<LogStore, OpenError> {
    LogStore::open_on(Arc::new(disk.clone()), options)
}

/// With files as small as tests need them, and nothing that happens because time goes by.
pub fn options() -> Options {
    Options { allocation: 4096, tick: Duration::MAX, ..Options::default() }
}

/// A disk with an empty store on it.
pub fn fresh() -> Disk {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let disk = Disk::default();
        let store = open(&disk, options());
        // Whoever asks first may have a runtime.
        std::thread::scope(|scope| scope.spawn(|| block_on(store.close())).join()).unwrap();
        disk.image()
    });
    Disk::with(image)
}

/// An old store, as a server of the time had left it.
pub fn old(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1").join(name);
    let mut bytes = vec![];
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Where a file has some bytes, under whatever mask: that repeats after eight.
pub fn places(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    let same = |at: &usize| {
        (8..part.len())
            .all(|index| bytes[at + index] ^ bytes[at + index - 8] == part[index] ^ part[index - 8])
    };
    (0..bytes.len().saturating_sub(part.len())).filter(same).collect()
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
