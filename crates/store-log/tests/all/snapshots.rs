//! Snapshots: what they replace, and faults while they are written.

use std::time::Duration;

use crate::support::{
    compare,
    disk::{Disk, Fault, Tear},
    fresh, oldest, open, options as small, try_open,
};
use sternpost_clock::manual::ManualClock;
use sternpost_store::{
    CommitError, KeyRange, Store, Transaction, Write,
    conformance::{
        Rng, block_on,
        model::Model,
        random::{commit, transaction},
    },
};
use sternpost_store_log::{LogStore, Options};

/// One begins after every commit unless one is being written.
fn options() -> Options {
    Options { snapshot_after: 1, ..small() }
}

fn names(disk: &Disk) -> Vec<String> {
    disk.image().into_keys().filter(|name| name != "store.redb").collect()
}

/// Until a condition holds, or something has failed.
fn wait(disk: &Disk, condition: impl Fn(&[String]) -> bool) {
    while !condition(&names(disk)) && !disk.fault_was_hit() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Until the snapshot is written that the first commit begins.
fn wait_for_second(disk: &Disk) {
    wait(disk, |names| names == ["log-2", "snapshot-2"]);
}

async fn run(store: &LogStore, disk: &Disk, model: &mut Model, rng: &mut Rng, steps: u64) {
    for step in 0..steps {
        let transaction = transaction(rng, model, step);
        commit(store, model, transaction).await;
        if step == steps / 2 {
            store.compact(model.current()).await.unwrap();
            model.compacted = model.current();
        }
    }
    let begun =
        |names: &[String]| names.iter().any(|name| name.starts_with("snapshot-") && name != "snapshot-1");
    wait(disk, begun);
}

#[test]
fn a_snapshot_replaces_what_was_before_it_and_history_survives() {
    block_on(async {
        let (disk, mut rng, mut model) = (fresh(), Rng::new(3), Model::default());
        let store = open(&disk, options());
        run(&store, &disk, &mut model, &mut rng, 40).await;
        assert!(!names(&disk).contains(&"log-1".to_owned()), "{:?}", names(&disk));
        compare(&store, &model).await;
        store.close().await;
        let store = open(&disk.after_restart(), options());
        assert_eq!(oldest(&store).await, model.compacted);
        compare(&store, &model).await;
        store.close().await;
    });
}

#[test]
fn none_is_written_before_the_log_is_as_large_as_the_last() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, Options { snapshot_after: 20_000, ..small() });
        let put = |size| store.commit(Transaction::write([Write::put("a", vec![b'v'; size])]));
        put(15_000).await.unwrap();
        assert_eq!(names(&disk), ["log-1", "snapshot-1"]);
        put(15_000).await.unwrap();
        wait_for_second(&disk);
        // It holds both versions, so the log has to have as much again.
        put(10_000).await.unwrap();
        put(10_000).await.unwrap();
        assert_eq!(names(&disk), ["log-2", "snapshot-2"]);
        put(11_000).await.unwrap();
        wait(&disk, |names| names == ["log-3", "snapshot-3"]);
        store.close().await;
    });
}

/// Operations of a commit and the snapshot behind it.
fn length() -> u64 {
    let disk = fresh();
    let store = open(&disk, options());
    let before = disk.operations();
    block_on(store.commit(first())).unwrap();
    wait_for_second(&disk);
    disk.operations() - before
}

fn first() -> Transaction {
    Transaction::write([Write::put("a", vec![b'v'; 3000]), Write::put("b", "1")])
}

fn second() -> Transaction {
    Transaction::write([Write::put("a", "2"), Write::delete("b")])
}

async fn check_recovered(disk: &Disk, model: &Model, unanswered: &[Transaction]) {
    let store = open(disk, small());
    let mut model = model.clone();
    let mut watch = store.watch(KeyRange::all(), model.current()).await.unwrap();
    let events = sternpost_store::conformance::drain(&mut watch).await;
    let mut revisions: Vec<_> = events.iter().map(|(revision, _)| *revision).collect();
    revisions.dedup();
    assert!(revisions.len() <= unanswered.len());
    for (transaction, revision) in unanswered.iter().zip(revisions) {
        model.apply(transaction, revision);
    }
    compare(&store, &model).await;
    store.commit(Transaction::write([Write::put("again", "1")])).await.unwrap();
    store.close().await;
}

#[test]
fn the_power_may_go_at_any_step() {
    for at in 0..length() {
        for tear in [Tear::Nothing, Tear::Everything, Tear::Some, Tear::Some, Tear::Some] {
            println!("cut at {at}, {tear:?} survives");
            block_on(async {
                let (disk, mut model, mut unanswered) = (fresh(), Model::default(), vec![]);
                let store = open(&disk, options());
                disk.fail(Fault::PowerCut, at);
                for transaction in [first(), second()] {
                    match store.commit(transaction.clone()).await {
                        Ok(committed) => model.apply(&transaction, committed.revision),
                        Err(CommitError::Uncertain { .. }) => unanswered.push(transaction),
                        Err(CommitError::Stopped(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                    wait(&disk, |names| names.contains(&"snapshot-2".to_owned()));
                }
                let disk = disk.after_power_cut(tear, &mut Rng::new(at));
                drop(store);
                check_recovered(&disk, &model, &unanswered).await;
            });
        }
    }
}

#[test]
fn an_error_at_any_step_stops_the_store() {
    for at in 0..length() {
        println!("error at {at}");
        block_on(async {
            let (disk, mut model, mut unanswered) = (fresh(), Model::default(), vec![]);
            let store = open(&disk, options());
            disk.fail(Fault::Error, at);
            match store.commit(first()).await {
                Ok(committed) => model.apply(&first(), committed.revision),
                Err(_) => unanswered.push(first()),
            }
            wait_for_second(&disk);
            // What is removed is of no use, and stays.
            if !disk.fault_was_a_removal() {
                store.stopped().await;
                assert!(store.commit(second()).await.is_err());
            }
            drop(store);
            for tear in [Tear::Nothing, Tear::Everything, Tear::Some] {
                let disk = disk.after_power_cut(tear, &mut Rng::new(at));
                check_recovered(&disk, &model, &unanswered).await;
            }
        });
    }
}

/// Writes may be refused for a moment; nothing stops, and the next snapshot succeeds.
#[test]
fn a_full_disk_at_any_step_only_puts_it_off() {
    for fault in [Fault::NoSpace, Fault::Full] {
        for at in 0..length() {
            println!("{fault:?} at {at}");
            block_on(async {
                let (disk, mut model, clock) = (fresh(), Model::default(), ManualClock::at(1000));
                let store = open(&disk, Options { clock: clock.clock(), ..options() });
                disk.fail(fault, at);
                let answer = store.commit(first()).await;
                wait_for_second(&disk);
                // A sync is never for want of space, but for this: nothing rests on a snapshot's.
                if matches!(answer, Err(CommitError::Uncertain { .. })) || disk.fault_was_a_sync() {
                    return;
                }
                match answer {
                    Ok(committed) => model.apply(&first(), committed.revision),
                    Err(CommitError::Unavailable { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
                compare(&store, &model).await;
                for tear in [Tear::Nothing, Tear::Everything, Tear::Some] {
                    let disk = disk.copy_after_power_cut(tear, &mut Rng::new(at));
                    check_recovered(&disk, &model, &[]).await;
                }
                disk.make_room();
                clock.advance(Duration::from_secs(1));
                while names(&disk).contains(&"snapshot-1".to_owned()) {
                    let again = Transaction::write([Write::put("again", vec![b'v'; 1000])]);
                    let committed = store.commit(again.clone()).await.unwrap();
                    model.apply(&again, committed.revision);
                    std::thread::sleep(Duration::from_millis(1));
                }
                compare(&store, &model).await;
                store.close().await;
                check_recovered(&disk.after_restart(), &model, &[]).await;
            });
        }
    }
}

#[test]
fn a_damaged_snapshot_is_refused_though_the_log_is_whole() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, options());
        store.commit(first()).await.unwrap();
        wait_for_second(&disk);
        store.commit(Transaction::write([Write::put("c", "1")])).await.unwrap();
        store.close().await;
        let (image, name) = (disk.image(), "snapshot-2".to_owned());
        assert!(image[&name].len() > 3000, "{}", image[&name].len());
        for at in 0..image[&name].len() {
            let mut damaged = image.clone();
            damaged.get_mut(&name).unwrap()[at] ^= 1 << (at % 8);
            let disk = Disk::with(&damaged);
            let Err(error) = try_open(&disk, small()) else { panic!("byte {at}") };
            let error = error.to_string();
            assert!(error.starts_with(&format!("`disk/{name}` ")), "{error}");
            assert_eq!(disk.operations(), 0);
        }
        for length in (0..image[&name].len()).step_by(7) {
            let mut damaged = image.clone();
            damaged.get_mut(&name).unwrap().truncate(length);
            assert!(try_open(&Disk::with(&damaged), small()).is_err(), "cut to {length}");
        }
    });
}
