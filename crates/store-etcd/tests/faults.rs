//! What goes wrong between the store and etcd, with a server that fails as it is told.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod fake;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fake::{Fake, Fault, Faults, PATIENCE, memory, open, pair, put, runtime, value};
use sternpost_clock::machine;
use sternpost_store::{
    Bytes, CommitError, KeyRange, ReadError, Revision, Stopped, Store, Transaction, WatchError, Write,
    conformance::{self, Rng, drain},
};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, EtcdStore, Options, User, grpc::code};
use tokio::runtime::Handle;

fn both(fakes: [&Fake; 2]) -> Access {
    Access { endpoints: fakes.map(Fake::endpoint).to_vec(), tls: None, user: None }
}

#[test]
fn conforms() {
    let runtime = runtime();
    for (fragments, deaf, seeds) in [(false, 0, 0..3), (true, 0, 3..6), (false, 2, 0..1)] {
        let fake = std::sync::Mutex::new(None);
        let make = || {
            let faults = Faults { fragments, deaf, ..Faults::default() };
            let new = Fake::start(runtime.handle(), memory(), faults);
            // No prefix: the fake's own store takes no longer keys than this one.
            let options = Options { access: new.access(), prefix: Bytes::new(), patience: DEFAULT_PATIENCE };
            *fake.lock().unwrap() = Some(new);
            Arc::new(EtcdStore::new(options, runtime.handle().clone())) as Arc<dyn Store>
        };
        conformance::run(&make, seeds);
    }
}

#[test]
fn a_transaction_whose_connection_breaks_is_uncertain_and_sent_once() {
    runtime().block_on(async {
        for (fault, happened) in [(Fault::BreakBefore, None), (Fault::BreakAfter, Some(b"1".to_vec()))] {
            let (fake, store) = pair(Faults::default());
            fake.faults(|faults| faults.transactions.push_back(fault));
            let answer = store.commit(Transaction::create("a", "1")).await;
            assert!(matches!(answer, Err(CommitError::Uncertain { .. })), "{fault:?}: {answer:?}");
            assert_eq!(fake.state.transactions.load(Ordering::SeqCst), 1, "{fault:?}");
            // Reads tell what became of it.
            assert_eq!(value(&store, "a").await, happened, "{fault:?}");
            assert_eq!(value(&store, "a").await, happened);
            put(&store, "a", "2").await;
        }
    });
}

#[test]
fn a_transaction_that_no_member_has_seen_is_sent_again() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults { users: true, ..Faults::default() });
        drop(store);
        let user = Some(User { name: "root".to_owned(), password: "secret".to_owned() });
        let store = open(Access { user, ..fake.access() });
        let faults = [
            Fault::Refuse,
            Fault::Status(code::UNAVAILABLE, "etcdserver: no leader"),
            Fault::Status(code::UNAUTHENTICATED, "etcdserver: invalid auth token"),
        ];
        for (round, fault) in faults.into_iter().enumerate() {
            fake.faults(|faults| faults.transactions.push_back(fault));
            let before = fake.state.transactions.load(Ordering::SeqCst);
            let key = format!("a{round}");
            store.commit(Transaction::create(key, "1")).await.unwrap();
            assert_eq!(fake.state.transactions.load(Ordering::SeqCst) - before, 2, "{fault:?}");
        }
        // Tokens expire.
        fake.forget_tokens();
        put(&store, "b", "1").await;
        fake.forget_tokens();
        assert_eq!(value(&store, "b").await, Some(b"1".to_vec()));
    });
}

#[test]
fn a_transaction_that_is_never_answered_is_uncertain_when_patience_ends() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        fake.faults(|faults| faults.transactions.push_back(Fault::Silence));
        let began = machine::now();
        let answer = store.commit(Transaction::create("a", "1")).await;
        assert!(matches!(answer, Err(CommitError::Uncertain { .. })), "{answer:?}");
        assert!(machine::elapsed(began) >= PATIENCE / 2);
        assert_eq!(fake.state.transactions.load(Ordering::SeqCst), 1);
        put(&store, "a", "2").await;
    });
}

#[test]
fn refusals_say_whether_trying_again_helps() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        let refused = |code, message| (Fault::Status(code, message), false);
        let not_now = |code, message| (Fault::Status(code, message), true);
        for (fault, later) in [
            refused(code::INVALID_ARGUMENT, "etcdserver: request is too large"),
            not_now(code::RESOURCE_EXHAUSTED, "etcdserver: too many requests"),
        ] {
            fake.faults(|faults| faults.transactions.push_back(fault));
            match store.commit(Transaction::create("a", "1")).await {
                Err(CommitError::Unavailable { .. }) => assert!(later),
                Err(CommitError::Refused { .. }) => assert!(!later),
                other => panic!("{fault:?}: {other:?}"),
            }
            assert_eq!(value(&store, "a").await, None);
        }
    });
}

#[test]
fn a_member_that_fails_is_left_for_another() {
    runtime().block_on(async {
        // Two members of one cluster.
        let state = memory();
        let first = Fake::start(&Handle::current(), state.clone(), Faults::default());
        let second = Fake::start(&Handle::current(), state, Faults::default());
        let store = open(both([&first, &second]));
        put(&store, "a", "1").await;
        let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
        first.faults(|faults| faults.leaderless = true);
        let after_loss = put(&store, "a", "2").await;
        assert_eq!(second.state.transactions.load(Ordering::SeqCst), 1);
        // Its process ends.
        first.end().await;
        put(&store, "a", "3").await;
        let seen = drain(&mut watch).await;
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[1].0, after_loss);
        second.end().await;
        let gone = store.get(Bytes::from("a"), None);
        let gone = machine::timeout(Duration::from_secs(30), gone).await.unwrap();
        assert!(matches!(gone, Err(ReadError::Unavailable { .. })), "{gone:?}");
        let write = store.commit(Transaction::create("b", "1")).await;
        assert!(matches!(write, Err(CommitError::Unavailable { .. })), "nothing was sent: {write:?}");
    });
}

#[test]
fn members_that_are_too_old_or_of_another_cluster_are_not_used() {
    runtime().block_on(async {
        let new = |faults| Fake::start(&Handle::current(), memory(), faults);
        let old = new(Faults { version: "3.4.23", ..Faults::default() });
        let good = new(Faults::default());
        let store = open(both([&old, &good]));
        put(&store, "a", "1").await;
        assert_eq!(old.state.transactions.load(Ordering::SeqCst), 0);

        let other = new(Faults { cluster: 8, ..Faults::default() });
        let store = open(both([&good, &other]));
        put(&store, "a", "2").await;
        good.faults(|faults| faults.leaderless = true);
        let refused = store.commit(Transaction::create("b", "1")).await;
        let Err(CommitError::Unavailable { reason }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("it is a member of cluster 8, and the others are of 7"), "{reason}");
        assert_eq!(other.state.transactions.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn an_older_state_that_is_put_back_stops_the_store() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        for _ in 0..5 {
            put(&store, "a", "1").await;
        }
        let stopped = store.stopped();
        fake.replace_store(memory());
        let read = store.current_revision().await;
        assert!(matches!(read, Err(ReadError::Stopped(Stopped::Failed { .. }))), "{read:?}");
        assert!(matches!(stopped.await, Stopped::Failed { .. }));
        let write = store.commit(Transaction::create("b", "1")).await;
        assert!(matches!(write, Err(CommitError::Stopped(Stopped::Failed { .. }))), "{write:?}");
    });
}

#[test]
fn a_watch_goes_on_over_broken_connections_without_gap_or_repeat() {
    runtime().block_on(async {
        for seed in 0..6 {
            let mut rng = Rng::new(seed);
            let (fake, store) = pair(Faults { fragments: seed % 2 == 0, ..Faults::default() });
            let mut watch = store.watch(KeyRange::prefix("a/"), Revision::FIRST).await.unwrap();
            // Written by somebody else, whose connections do not break.
            let server = fake.store();
            let mut expected = Vec::new();
            for round in 0..60 {
                let writes = (0..=rng.below(3))
                    .map(|n| Write::put(format!("/registry/a/{}", n * 7 % 5), format!("{round}")));
                expected.push(server.commit(Transaction::write(writes)).await.unwrap().revision);
                if rng.one_in(3) {
                    put(server.as_ref(), "/registry/b/x", "1").await;
                }
                if rng.one_in(8) {
                    fake.break_connections().await;
                }
                if rng.one_in(4) {
                    machine::sleep(Duration::from_millis(rng.below(80))).await;
                }
            }
            let mut seen: Vec<Revision> = drain(&mut watch).await.iter().map(|(at, _)| *at).collect();
            seen.dedup();
            assert_eq!(seen, expected, "seed {seed}");
        }
    });
}

#[test]
fn a_watch_that_is_behind_a_compaction_ends_and_one_that_is_not_goes_on() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        let first = put(&store, "a", "1").await;
        let mut behind = store.watch(KeyRange::all(), first).await.unwrap();
        let mut idle = store.watch(KeyRange::prefix("z/"), first).await.unwrap();
        assert_eq!(drain(&mut behind).await, []);
        // Nobody can connect; meanwhile two changes happen, and are forgotten.
        fake.faults(|faults| faults.leaderless = true);
        fake.break_connections().await;
        let server = fake.store();
        put(server.as_ref(), "/registry/a", "2").await;
        let newest = put(server.as_ref(), "/registry/a", "3").await;
        server.compact(newest).await.unwrap();
        fake.faults(|faults| faults.leaderless = false);
        for _ in 0..2 {
            assert_eq!(behind.next().await, Err(WatchError::Compacted { oldest: newest }));
        }
        // It had been told of nothing since, and cannot know.
        assert_eq!(idle.next().await, Err(WatchError::Compacted { oldest: newest }));
        // One that has progress of what is left goes on.
        let mut idle = store.watch(KeyRange::prefix("z/"), newest).await.unwrap();
        let later = put(&store, "a", "4").await;
        assert_eq!(drain(&mut idle).await, []);
        server.compact(later).await.unwrap();
        fake.break_connections().await;
        let own = put(server.as_ref(), "/registry/z/1", "1").await;
        assert_eq!(drain(&mut idle).await.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [own]);
    });
}

#[test]
fn closing_waits_for_what_was_handed_over() {
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        fake.faults(|faults| faults.transactions.push_back(Fault::BreakAfter));
        let store = Arc::new(store);
        let writing = tokio::spawn({
            let store = store.clone();
            async move { store.commit(Transaction::create("a", "1")).await }
        });
        while fake.state.transactions.load(Ordering::SeqCst) == 0 {
            machine::sleep(Duration::from_millis(1)).await;
        }
        store.close().await;
        let answer = writing.await.unwrap();
        assert!(matches!(answer, Err(CommitError::Uncertain { .. })), "{answer:?}");
    });
}
