//! Keys with a time to live, on a server whose time is moved by hand.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod fake;

use std::{
    num::NonZeroU32,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fake::{Fake, Fault, Faults, memory, open_for, pair, put, runtime, value};
use sternpost_clock::{machine, manual::ManualClock};
use sternpost_store::{
    Bytes, CommitError, Delivery, Event, KeyRange, Revision, Stopped, Store, Transaction, Watch, Write,
    conformance::drain,
};
use sternpost_store_etcd::{DEFAULT_PATIENCE, EtcdStore, grpc::code};
use tokio::runtime::Handle;

const HOUR: u32 = 3600;
const FIFTEEN: NonZeroU32 = NonZeroU32::new(15).unwrap();

/// As `pair`, with the time of the server.
fn timed() -> (ManualClock, Fake, EtcdStore) {
    let time = ManualClock::at(0);
    let fake = Fake::with_clock(&Handle::current(), memory(), Faults::default(), time.clock());
    let store = open_for(fake.access(), DEFAULT_PATIENCE);
    (time, fake, store)
}

fn expiring(key: &str, ttl: u32) -> Write {
    Write::expiring(key.to_owned(), "1", NonZeroU32::new(ttl).unwrap())
}

async fn put_expiring(store: &dyn Store, key: &str, ttl: u32) -> Revision {
    store.commit(Transaction::write([expiring(key, ttl)])).await.unwrap().revision
}

/// The keys that the next change deletes.
async fn deleted(watch: &mut Watch) -> Vec<String> {
    let delivery = watch.next().await.unwrap();
    let Delivery::Changes(changes) = delivery else { panic!("{delivery:?}") };
    let key = |event: &Event| {
        assert_eq!(event.entry(), None, "{event:?}");
        String::from_utf8(event.key().to_vec()).unwrap()
    };
    changes.events().iter().map(key).collect()
}

#[test]
fn keys_of_equal_time_share_a_lease_and_go_with_it() {
    runtime().block_on(async {
        let (time, fake, store) = timed();
        put_expiring(&store, "a", HOUR).await;
        put_expiring(&store, "b", HOUR).await;
        put_expiring(&store, "kept", HOUR).await;
        let several = [expiring("c", HOUR), expiring("d", 100), expiring("e", 100), expiring("f", 1)];
        store.commit(Transaction::write(several)).await.unwrap();
        // In the order of their times within a transaction.
        assert_eq!(fake.granted().await, [3660, 1, 105]);
        let last = put(&store, "kept", "2").await;
        assert_eq!(fake.lease("/registry/kept").await, None);
        let mut watch = store.watch(KeyRange::all(), last).await.unwrap();
        for (passes, keys) in [(1, &["f"][..]), (104, &["d", "e"]), (3555, &["a", "b", "c"])] {
            assert_eq!(drain(&mut watch).await, []);
            time.advance(Duration::from_secs(passes) - Duration::from_nanos(1));
            assert_eq!(drain(&mut watch).await, []);
            time.advance(Duration::from_nanos(1));
            assert_eq!(deleted(&mut watch).await, keys);
        }
        assert_eq!(value(&store, "kept").await, Some(b"2".to_vec()));
    });
}

#[test]
fn those_who_ask_at_once_are_granted_one_lease() {
    runtime().block_on(async {
        let (_, fake, store) = timed();
        let store = Arc::new(store);
        let writers: Vec<_> = (0..20)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { put_expiring(store.as_ref(), &format!("{n}"), HOUR).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(fake.granted().await, [3660]);
    });
}

#[test]
fn the_key_past_a_thousand_goes_with_another_lease() {
    runtime().block_on(async {
        let (_, fake, store) = timed();
        for part in 0..8 {
            let writes = (0..125).map(|n| expiring(&format!("{part}/{n}"), HOUR));
            store.commit(Transaction::write(writes)).await.unwrap();
        }
        assert_eq!(fake.granted().await.len(), 1);
        put_expiring(&store, "last", HOUR).await;
        assert_eq!(fake.lease("/registry/7/124").await, Some(1));
        assert_eq!(fake.lease("/registry/last").await, Some(2));
    });
}

#[test]
fn a_lease_that_is_gone_is_replaced_once_and_nothing_is_written_without() {
    const GONE: Fault = Fault::Status(code::NOT_FOUND, "etcdserver: requested lease not found");
    runtime().block_on(async {
        let (_, fake, store) = timed();
        let first = put_expiring(&store, "a", HOUR).await;
        fake.end_leases().await;
        // What is compared comes first, as for etcd.
        let write = Transaction { writes: vec![expiring("a", HOUR)], ..Transaction::update("a", first, "") };
        let conflict = store.commit(write).await;
        assert!(matches!(conflict, Err(CommitError::Conflict { .. })), "{conflict:?}");
        assert_eq!(fake.granted().await.len(), 1);
        let before = fake.state.transactions.load(Ordering::SeqCst);
        store.commit(Transaction::write([expiring("b", HOUR), Write::put("c", "1")])).await.unwrap();
        assert_eq!(fake.state.transactions.load(Ordering::SeqCst) - before, 2);
        assert_eq!(fake.lease("/registry/b").await, Some(2));

        fake.faults(|faults| faults.transactions.extend([GONE, GONE]));
        let before = fake.state.transactions.load(Ordering::SeqCst);
        let refused = store.commit(Transaction::write([expiring("d", HOUR)])).await;
        assert!(matches!(refused, Err(CommitError::Unavailable { .. })), "{refused:?}");
        assert_eq!(fake.state.transactions.load(Ordering::SeqCst) - before, 2);
        assert_eq!(value(&store, "d").await, None);
        put_expiring(&store, "d", HOUR).await;
    });
}

#[test]
fn without_a_lease_nothing_is_sent() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        let first = put(&store, "a", "1").await;
        fake.faults(|faults| faults.leaderless = true);
        let refused = store.commit(Transaction::write([expiring("a", HOUR)])).await;
        assert!(matches!(refused, Err(CommitError::Unavailable { .. })), "{refused:?}");
        assert_eq!(fake.state.transactions.load(Ordering::SeqCst), 1);
        fake.faults(|faults| faults.leaderless = false);
        assert_eq!(store.get(Bytes::from("a"), None).await.unwrap().entry.unwrap().modified, first);
        put_expiring(&store, "a", HOUR).await;
    });
}

/// The next change, which puts one key.
async fn next_put(watch: &mut Watch) -> Revision {
    let delivery = watch.next().await.unwrap();
    let Delivery::Changes(changes) = &delivery else { panic!("{delivery:?}") };
    assert!(matches!(changes.events(), [Event::Put { .. }]), "{delivery:?}");
    changes.revision()
}

/// Waits until somebody waits for this time, and lets it pass.
async fn pass(time: &ManualClock, seconds: u64) {
    while time.next_due().is_none() {
        machine::sleep(Duration::from_millis(1)).await;
    }
    time.advance(Duration::from_secs(seconds));
}

#[test]
fn a_key_is_kept_by_a_new_lease_in_two_thirds_of_its_time() {
    runtime().block_on(async {
        let (etcd_time, fake, store) = timed();
        let time = ManualClock::at(0);
        let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
        let kept = store.keep(time.clock(), "masterleases/10.0.0.1", "1", FIFTEEN).unwrap();
        next_put(&mut watch).await;
        for round in 2..5 {
            etcd_time.advance(Duration::from_secs(10));
            pass(&time, 10).await;
            next_put(&mut watch).await;
            assert_eq!(fake.lease("/registry/masterleases/10.0.0.1").await, Some(round));
        }
        assert_eq!(fake.granted().await, [15; 4]);
        // Without its keeper it goes when its time is over.
        drop(kept);
        time.advance(Duration::from_secs(100));
        assert_eq!(drain(&mut watch).await, []);
        etcd_time.advance(Duration::from_secs(15));
        assert_eq!(deleted(&mut watch).await, ["masterleases/10.0.0.1"]);
    });
}

#[test]
fn a_key_that_is_kept_no_more_is_deleted_and_one_that_was_not_put_is_put_sooner() {
    runtime().block_on(async {
        let (_, fake, store) = timed();
        let time = ManualClock::at(0);
        let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
        fake.faults(|faults| faults.transactions.push_back(Fault::Status(code::RESOURCE_EXHAUSTED, "full")));
        let kept = store.keep(time.clock(), "a", "1", FIFTEEN).unwrap();
        pass(&time, 1).await;
        next_put(&mut watch).await;
        kept.end().await.unwrap();
        assert_eq!(deleted(&mut watch).await, ["a"]);
        let kept = store.keep(time.clock(), "a", "2", FIFTEEN).unwrap();
        next_put(&mut watch).await;
        store.close().await;
        assert_eq!(kept.end().await, Err(Stopped::Closed.into()));
        assert!(store.keep(time.clock(), "a", "3", FIFTEEN).is_err());
    });
}
