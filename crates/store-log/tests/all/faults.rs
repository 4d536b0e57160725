//! Single faults at every point of a fixed script, and a slow disk.

// Helpers outside `#[test]` functions fail the test the same way.

use std::time::Duration;

use crate::support::{
    compare,
    disk::{Disk, Fault, Tear},
    fresh, open, options, poll, try_open,
};
use sternpost_clock::manual::ManualClock;
use sternpost_store::{
    Bytes, CommitError, Delivery, KeyRange, ReadError, Revision, Stopped, Store, Transaction, WatchError,
    Write,
    conformance::{Rng, block_on, drain, model::Model},
};
use sternpost_store_log::{OpenError, Options};

/// From a full disk to the next try.
const RETRY_MILLIS: u64 = 1000;

/// Some keys made, changed and removed, and history forgotten.
fn script() -> Vec<Transaction> {
    let put = |key: &'static str, size: usize| Write::put(key, vec![b'v'; size]);
    vec![
        Transaction::write([put("a", 10), put("b", 2_000)]),
        Transaction::write([put("large", 300_000)]),
        Transaction::write([Write::delete("a"), put("b", 1)]),
        Transaction::write([put("a", 10)]),
        Transaction::write([Write::delete("large")]),
        Transaction::write([put("c", 5_000)]),
    ]
}

/// Runs the script until the disk fails; gives what was acknowledged, and the one that was not.
async fn run(store: &dyn Store) -> (Model, Option<Transaction>) {
    let mut model = Model::default();
    for (step, transaction) in script().into_iter().enumerate() {
        match store.commit(transaction.clone()).await {
            Ok(committed) => model.apply(&transaction, committed.revision),
            Err(CommitError::Uncertain { .. }) => return (model, Some(transaction)),
            Err(CommitError::Stopped(_) | CommitError::Unavailable { .. }) => return (model, None),
            Err(other) => panic!("{other}"),
        }
        if step == 3 {
            match store.compact(model.current()).await {
                Ok(()) => model.compacted = model.current(),
                Err(_) => return (model, None),
            }
        }
    }
    (model, None)
}

/// The store has what was acknowledged, and perhaps the transaction that was not answered.
async fn check_recovered(disk: &Disk, model: &Model, unanswered: Option<&Transaction>) {
    let store = open(disk, options());
    let mut model = model.clone();
    model.compacted = crate::support::oldest(&store).await;
    let current = store.current_revision().await.unwrap();
    if current != model.current() {
        model.apply(unanswered.unwrap(), current);
    }
    compare(&store, &model).await;
    store.commit(Transaction::write([Write::put("again", "1")])).await.unwrap();
    store.close().await;
}

/// Operations of the whole script, without faults.
fn length_of_script() -> u64 {
    let disk = fresh();
    let store = open(&disk, options());
    let before = disk.operations();
    block_on(async {
        let (_, unanswered) = run(&store).await;
        assert_eq!(unanswered, None);
    });
    disk.operations() - before
}

#[test]
fn one_failed_operation_stops_the_store_for_good() {
    for fault in [Fault::Error, Fault::NoSpace] {
        for at in 0..length_of_script() {
            println!("{fault:?} at {at}");
            block_on(async {
                // A write for which there is no space is the next test's.
                let disk = fresh();
                let store = open(&disk, options());
                let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
                drain(&mut watch).await;
                disk.fail(fault, at);
                let (model, unanswered) = run(&store).await;
                assert!(disk.fault_was_hit());
                if fault == Fault::NoSpace && !disk.fault_was_a_sync() {
                    return;
                }
                let seen = watch_to_the_end(&mut watch).await;
                assert_eq!(seen, model.events_after(&KeyRange::all(), Revision::FIRST).len());
                check_stopped(&store).await;
                drop(store);
                check_recovered(&disk.after_restart(), &model, unanswered.as_ref()).await;
                for tear in [Tear::Nothing, Tear::Everything, Tear::Some] {
                    let disk = disk.after_power_cut(tear, &mut Rng::new(at));
                    check_recovered(&disk, &model, unanswered.as_ref()).await;
                }
                assert_eq!(disk.operations_after_fault(), 0, "something was tried again");
            });
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing_until_there_is_room() {
    // For one operation only, and for as long as it takes.
    for fault in [Fault::NoSpace, Fault::Full] {
        for at in 0..length_of_script() {
            println!("{fault:?} at {at}");
            block_on(full_and_then_not(fault, at));
        }
    }
}

async fn full_and_then_not(fault: Fault, at: u64) {
    let clock = ManualClock::at(1000);
    let options = || Options { clock: clock.clock(), ..options() };
    let disk = fresh();
    let store = open(&disk, options());
    let refusing = store.refusing();
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    drain(&mut watch).await;
    disk.fail(fault, at);
    let (mut model, unanswered) = run(&store).await;
    // After the last write comes only a sync.
    if disk.fault_was_a_sync() || !disk.fault_was_hit() {
        return;
    }
    assert_eq!(unanswered, None, "a refused write is certain not to be there");
    let mut seen = drain(&mut watch).await;
    assert_eq!(seen, model.events_after(&KeyRange::all(), Revision::FIRST));

    // Reads go on, and a write that could conflict still does.
    compare(&store, &model).await;
    assert!(refusing().is_some());
    let late = Transaction::write([Write::put("late", "1")]);
    let refused = store.commit(late.clone()).await;
    assert!(
        matches!(&refused, Err(CommitError::Unavailable { reason }) if reason.contains("space")),
        "{refused:?}"
    );
    let absent = Transaction::update("absent", Revision::FIRST, "1");
    assert!(matches!(store.commit(absent).await, Err(CommitError::Conflict { .. })));
    assert!(store.compact(model.current()).await.is_err() || model.compacted == model.current());
    clock.advance(Duration::from_millis(RETRY_MILLIS));
    if fault == Fault::Full {
        let refused = store.commit(late.clone()).await;
        assert!(matches!(refused, Err(CommitError::Unavailable { .. })), "{refused:?}");
        clock.advance(Duration::from_millis(RETRY_MILLIS));
    }

    // Whoever dies now finds what was acknowledged, and nothing else.
    for tear in [Tear::Nothing, Tear::Everything, Tear::Some] {
        let disk = disk.copy_after_power_cut(tear, &mut Rng::new(at));
        check_recovered(&disk, &model, None).await;
    }

    disk.make_room();
    let committed = store.commit(late.clone()).await.unwrap();
    assert!(refusing().is_none());
    model.apply(&late, committed.revision);
    seen.extend(drain(&mut watch).await);
    assert_eq!(seen, model.events_after(&KeyRange::all(), Revision::FIRST), "no gap and nothing twice");
    compare(&store, &model).await;
    for tear in [Tear::Nothing, Tear::Everything, Tear::Some] {
        let disk = disk.copy_after_power_cut(tear, &mut Rng::new(at));
        check_recovered(&disk, &model, None).await;
    }
    store.close().await;
    check_recovered(&disk.after_restart(), &model, None).await;
}

#[test]
fn a_disk_that_was_full_is_looked_at_again_without_a_write() {
    block_on(async {
        let clock = ManualClock::at(1000);
        let tick = Duration::from_millis(1);
        let disk = fresh();
        let store = open(&disk, Options { clock: clock.clock(), tick, ..options() });
        let refusing = store.refusing();
        disk.fail(Fault::Full, 0);
        let write = Transaction::write([Write::put("a", "1")]);
        assert!(matches!(store.commit(write).await, Err(CommitError::Unavailable { .. })));
        disk.make_room();
        clock.advance(Duration::from_millis(RETRY_MILLIS));
        while refusing().is_some() {
            std::thread::sleep(tick);
        }
    });
}

async fn watch_to_the_end(watch: &mut sternpost_store::Watch) -> usize {
    let mut events = 0;
    loop {
        match watch.next().await {
            Ok(Delivery::Changes(changes)) => events += changes.events().len(),
            Ok(Delivery::Progress(_)) => {}
            Err(WatchError::Stopped(Stopped::Failed { .. })) => return events,
            Err(other) => panic!("{other}"),
        }
    }
}

async fn check_stopped(store: &dyn Store) {
    let Stopped::Failed { reason } = store.stopped().await else { panic!("only closed") };
    assert!(reason.starts_with("writing the database failed: "), "{reason}");
    let failed = Stopped::Failed { reason };
    let late = Transaction::write([Write::put("late", "1")]);
    assert_eq!(store.commit(late).await, Err(CommitError::Stopped(failed.clone())));
    assert_eq!(store.get(Bytes::from("a"), None).await, Err(ReadError::Stopped(failed.clone())));
    assert_eq!(store.compact(Revision::FIRST).await, Err(ReadError::Stopped(failed.clone())));
    store.close().await;
    assert_eq!(store.current_revision().await, Err(ReadError::Stopped(failed)));
}

#[test]
fn the_power_may_go_at_any_operation() {
    for at in 0..length_of_script() {
        for (tear, seeds) in [(Tear::Nothing, 1), (Tear::Everything, 1), (Tear::Some, 3)] {
            for seed in 0..seeds {
                println!("cut at {at}, {tear:?} survives, seed {seed}");
                block_on(async {
                    let disk = fresh();
                    let store = open(&disk, options());
                    disk.fail(Fault::PowerCut, at);
                    let (model, unanswered) = run(&store).await;
                    assert!(disk.fault_was_hit());
                    let disk = disk.after_power_cut(tear, &mut Rng::new(seed));
                    check_recovered(&disk, &model, unanswered.as_ref()).await;
                });
            }
        }
    }
}

#[test]
fn a_full_disk_at_the_start_is_an_error_and_loses_nothing() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, options());
        let (model, _) = run(&store).await;
        store.close().await;
        let full = disk.after_restart();
        full.fail(Fault::NoSpace, 0);
        match try_open(&full, options()) {
            Err(OpenError::Io { .. }) => {}
            other => panic!("{other:?}"),
        }
        check_recovered(&full.after_restart(), &model, None).await;
    });
}

#[test]
fn reads_and_watches_do_not_wait_for_a_slow_disk() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, options());
        let first = store.commit(Transaction::write([Write::put("a", "1")])).await.unwrap().revision;
        let mut watch = store.watch(KeyRange::all(), first).await.unwrap();
        disk.hold();
        let mut commit = store.commit(Transaction::write([Write::put("a", "2")]));
        assert!(poll(&mut commit).is_none());
        disk.wait_until_held();

        // What is not durable is not to be seen.
        let found = store.get(Bytes::from("a"), None).await.unwrap();
        assert_eq!((found.entry.unwrap().value().to_vec(), found.revision), (b"1".to_vec(), first));
        assert_eq!(store.range(KeyRange::all(), None, 10).await.unwrap().revision, first);
        assert_eq!(drain(&mut watch).await, []);

        disk.release();
        let second = commit.await.unwrap().revision;
        assert_eq!(store.get(Bytes::from("a"), None).await.unwrap().revision, second);
        assert_eq!(drain(&mut watch).await.len(), 1);
    });
}

#[test]
fn a_commit_whose_caller_has_gone_still_happens() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, options());
        disk.hold();
        let mut commit = store.commit(Transaction::write([Write::put("a", "1")]));
        assert!(poll(&mut commit).is_none());
        drop(commit);
        disk.release();
        // Behind it in the queue.
        store.commit(Transaction::default()).await.unwrap();
        assert!(store.get(Bytes::from("a"), None).await.unwrap().entry.is_some());
    });
}
