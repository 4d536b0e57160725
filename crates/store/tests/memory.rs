//! The in-memory store: the contract, and its bounds.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use sternpost_clock::manual::ManualClock;
use sternpost_store::{
    Bytes, Delivery, KeyRange, ReadError, Revision, Store, Transaction, WatchError, Write,
    conformance::{self, block_on, drain},
    hub::DEFAULT_WATCH_QUEUE,
    memory::{MemoryStore, Options},
    read::MAX_PAGE,
    retention::Retention,
};

#[test]
fn conforms() {
    let options = || Options { retention: Retention::UNBOUNDED, ..Options::default() };
    conformance::run(&|| Arc::new(MemoryStore::new(options())), 0..100);
}

async fn put(store: &dyn Store, key: impl Into<Bytes>, size: usize) -> Revision {
    store.commit(Transaction::write([Write::put(key, vec![b'v'; size])])).await.unwrap().revision
}

/// The oldest revision that can still be watched after.
async fn oldest(store: &dyn Store) -> Revision {
    match store.watch(KeyRange::all(), Revision::FIRST).await {
        Ok(_) => Revision::FIRST,
        Err(ReadError::Compacted { oldest }) => oldest,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn history_keeps_max_events_and_forgets_the_one_past_it() {
    block_on(async {
        let retention = Retention { max_events: 3, ..Retention::UNBOUNDED };
        let store = MemoryStore::new(Options { retention, ..Options::default() });
        let mut revisions = Vec::new();
        for _ in 0..4 {
            revisions.push(put(&store, "a", 1).await);
        }
        // The commit that comes in is not counted yet: three before it are kept.
        assert_eq!(oldest(&store).await, Revision::FIRST);
        revisions.push(put(&store, "a", 1).await);
        assert_eq!(oldest(&store).await, revisions[0]);
        let mut watch = store.watch(KeyRange::all(), revisions[0]).await.unwrap();
        assert_eq!(drain(&mut watch).await.len(), 4);
    });
}

#[test]
fn history_keeps_max_age_and_forgets_what_is_older() {
    block_on(async {
        let clock = ManualClock::at(1000);
        let retention = Retention { max_age: Duration::from_secs(300), ..Retention::UNBOUNDED };
        let store = MemoryStore::new(Options { retention, clock: clock.clock(), ..Options::default() });
        let first = put(&store, "a", 1).await;
        clock.advance(Duration::from_secs(300));
        put(&store, "a", 1).await;
        assert_eq!(oldest(&store).await, Revision::FIRST);
        clock.advance(Duration::from_millis(1));
        put(&store, "a", 1).await;
        assert_eq!(oldest(&store).await, first);
    });
}

#[test]
fn a_clock_that_goes_back_forgets_nothing_early() {
    block_on(async {
        let retention = Retention { max_age: Duration::from_secs(300), ..Retention::UNBOUNDED };
        let clock = ManualClock::at(1000);
        let store = MemoryStore::new(Options { retention, clock: clock.clock(), ..Options::default() });
        put(&store, "a", 1).await;
        clock.set_wall(500);
        put(&store, "a", 1).await;
        assert_eq!(oldest(&store).await, Revision::FIRST);
    });
}

#[test]
fn history_is_bounded_in_bytes() {
    block_on(async {
        let retention = Retention { max_bytes: 10_000, ..Retention::UNBOUNDED };
        let store = MemoryStore::new(Options { retention, ..Options::default() });
        // A live value is not history, however large it is.
        put(&store, "large", 1 << 20).await;
        put(&store, "a", 5_000).await;
        put(&store, "a", 5_000).await;
        assert_eq!(oldest(&store).await, Revision::FIRST);
        for _ in 0..3 {
            put(&store, "a", 5_000).await;
        }
        assert!(oldest(&store).await > Revision::FIRST);
    });
}

#[test]
fn a_slow_watcher_ends_lagged_one_past_its_queue_and_resumes() {
    block_on(async {
        let watch_queue = NonZeroUsize::new(4).unwrap();
        let store = MemoryStore::new(Options { watch_queue, ..Options::default() });
        for (count, lagged) in [(4, false), (5, true)] {
            let start = store.current_revision().await.unwrap();
            let mut watch = store.watch(KeyRange::all(), start).await.unwrap();
            watch.request_progress();
            assert_eq!(watch.next().await, Ok(Delivery::Progress(start)));
            let mut revisions = Vec::new();
            for _ in 0..count {
                revisions.push(put(&store, "a", 1).await);
            }
            for revision in &revisions[..4] {
                assert_eq!(watch.next().await.unwrap().revision(), *revision);
            }
            let delivered = revisions[3];
            if lagged {
                assert_eq!(watch.next().await, Err(WatchError::Lagged { delivered }));
                watch = store.watch(KeyRange::all(), delivered).await.unwrap();
            }
            let rest: Vec<_> = drain(&mut watch).await.iter().map(|(revision, _)| *revision).collect();
            assert_eq!(rest, revisions[4..]);
        }
    });
}

#[test]
fn a_watch_catches_up_over_a_long_history() {
    block_on(async {
        let store = MemoryStore::default();
        for n in 0..5_000 {
            put(&store, if n % 1_500 == 0 { "rare" } else { "often" }, 1).await;
        }
        for (key, count) in [("rare", 4), ("often", 4_996), ("never", 0)] {
            let mut watch = store.watch(KeyRange::single(key), Revision::FIRST).await.unwrap();
            assert_eq!(drain(&mut watch).await.len(), count, "{key}");
        }
        // Compacting under a watch that has not read on yet ends it.
        let mut watch = store.watch(KeyRange::single("rare"), Revision::FIRST).await.unwrap();
        let current = store.current_revision().await.unwrap();
        store.compact(current).await.unwrap();
        assert_eq!(watch.next().await, Err(WatchError::Compacted { oldest: current }));
    });
}

#[test]
fn a_page_holds_at_most_max_page_entries() {
    block_on(async {
        let store = MemoryStore::default();
        for n in 0..=MAX_PAGE {
            put(&store, format!("{n:06}"), 0).await;
        }
        let page = store.range(KeyRange::all(), None, usize::MAX).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (MAX_PAGE, true));
    });
}

#[test]
fn the_default_queue_is_the_named_one() {
    assert_eq!(Options::default().watch_queue, DEFAULT_WATCH_QUEUE);
}
