//! Random transactions, with the disk full and the power going at random points,
//! against the model.
//!
//! Everything acknowledged survives, what was not acknowledged appears wholly or
//! not at all and never twice, revisions never go back or repeat, and a watch
//! resumed from any retained revision sees exactly the model's events.

// Helpers outside `#[test]` functions fail the test the same way.

use std::time::Duration;

use crate::support::{
    compare,
    disk::{Disk, Fault, Tear},
    fresh, oldest, open, options as small, poll,
};
use sternpost_clock::manual::ManualClock;
use sternpost_store::{
    CommitError, Committed, Revision, Stopped, Store, Transaction, Write,
    conformance::{
        Rng, block_on,
        model::{Expected, Model},
        random::{some_key, transaction},
    },
    retention::Retention,
};
use sternpost_store_log::Options;

const SEEDS: u64 = 60;
const LIVES: u64 = 5;

#[test]
fn random_crashes() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        block_on(lives(seed, u64::MAX));
    }
}

/// One begins after every commit unless one is being written.
#[test]
fn random_crashes_while_snapshots_are_written() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        block_on(lives(seed, 1));
    }
}

/// What was handed over and not answered. All of it was in one commit: with the first that fails the store ends.
type Unanswered = Vec<Transaction>;

async fn lives(seed: u64, snapshot_after: u64) {
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    let mut disk = fresh();
    let max_events = 30 + usize::try_from(rng.below(100)).unwrap();
    let retention = Retention { max_events, ..Retention::UNBOUNDED };
    let clock = ManualClock::at(1000);
    let options = || Options { retention, clock: clock.clock(), snapshot_after, ..small() };
    let mut unanswered = Unanswered::new();
    for _ in 0..LIVES {
        let store = open(&disk, options());
        recover(&store, &mut model, &unanswered).await;
        let least = model.current().plus(unanswered.len() as u64).unwrap();

        let fault = [Fault::PowerCut, Fault::PowerCut, Fault::Full][(rng.draw() % 3) as usize];
        if !rng.one_in(5) {
            disk.fail(fault, rng.below(120));
        }
        unanswered = live(&store, &disk, &clock, &mut model, &mut rng, least, snapshot_after == 1).await;

        let tear = [Tear::Nothing, Tear::Everything, Tear::Some][(rng.draw() % 3) as usize];
        disk = match rng.below(3) {
            0 if !disk.fault_was_hit() => {
                store.close().await;
                disk.after_restart()
            }
            _ => disk.after_power_cut(tear, &mut rng),
        };
    }
    let store = open(&disk, options());
    recover(&store, &mut model, &unanswered).await;
}

/// Finds out whether what was not answered survived: all of it or nothing.
async fn recover(store: &dyn Store, model: &mut Model, unanswered: &Unanswered) {
    let compacted = oldest(store).await;
    assert!(compacted >= model.compacted);
    let mut watch = store.watch(sternpost_store::KeyRange::all(), model.current()).await.unwrap();
    let events = sternpost_store::conformance::drain(&mut watch).await;
    let mut revisions: Vec<Revision> = events.iter().map(|(revision, _)| *revision).collect();
    revisions.dedup();

    let survivors = [&[], unanswered.as_slice()].into_iter().find_map(|transactions| {
        let mut candidate = model.clone();
        let mut revisions = revisions.iter();
        for transaction in transactions {
            if matches!(candidate.expect(transaction), Expected::Changed) {
                candidate.apply(transaction, *revisions.next()?);
            }
        }
        revisions.next().is_none().then_some(candidate)
    });
    *model = survivors.unwrap_or_else(|| panic!("{events:?} from {unanswered:?}"));
    model.compacted = compacted;
    compare(store, model).await;
}

/// Works until the disk fails or there is nothing more to do.
async fn live(
    store: &dyn Store,
    disk: &Disk,
    clock: &ManualClock,
    model: &mut Model,
    rng: &mut Rng,
    least: Revision,
    snapshots: bool,
) -> Unanswered {
    for step in 0..40 {
        let size = 1 + if rng.one_in(3) { rng.below(8) } else { 0 };
        let unique = rng.draw();
        // What changes nothing does not come to the disk, where the others wait for it.
        let first = match size {
            1 => transaction(rng, model, unique),
            _ => Transaction::write([Write::put(some_key(rng), format!("{unique}"))]),
        };
        let group: Vec<Transaction> = (1..size)
            .map(|_| {
                let unique = rng.draw();
                transaction(rng, model, unique)
            })
            .collect();
        let answers = hand_over(store, disk, &first, &group).await;
        let mut open = Unanswered::new();
        // Those behind the first share a commit, or the end of a snapshot comes between them and they share two.
        for (transaction, answer) in std::iter::once(first).chain(group).zip(answers) {
            let uncertain = matches!(answer, Err(CommitError::Uncertain { .. }));
            assert!(open.is_empty() || uncertain || stopped(&answer), "{answer:?} after the store has ended");
            check(model, &transaction, answer, least);
            if uncertain {
                open.push(transaction);
            }
        }
        if disk.is_full() {
            assert!(open.is_empty(), "a refused write is certain not to be there");
            if rng.one_in(3) {
                disk.make_room();
                // Now and then the power goes after that.
                disk.fail(Fault::PowerCut, rng.below(200));
                clock.advance(Duration::from_secs(1));
            }
        } else if disk.fault_was_hit() {
            let late = Transaction::write([Write::put("late", "1")]);
            let mut again = store.commit(late.clone()).await;
            // Something else than a commit may have come upon the fault, and this is the first to learn of it.
            if snapshots && open.is_empty() && matches!(again, Err(CommitError::Uncertain { .. })) {
                open.push(late.clone());
                again = store.commit(late).await;
            }
            assert!(stopped(&again), "{again:?}");
            assert!(matches!(store.stopped().await, Stopped::Failed { .. }));
            return open;
        }
        // What writes a snapshot may come upon a fault at any time, and end the store.
        if step % 10 == 0 && !(snapshots && disk.may_fail()) {
            let compacted = oldest(store).await;
            assert!(compacted >= model.compacted);
            model.compacted = compacted;
            compare(store, model).await;
        }
    }
    Unanswered::new()
}

fn check(
    model: &mut Model,
    transaction: &Transaction,
    answer: Result<Committed, CommitError>,
    least: Revision,
) {
    match answer {
        Ok(committed) => {
            model.expect(transaction).check(&committed, model.current());
            if committed.changed {
                assert!(committed.revision > least, "{committed:?} is not above {least}");
                model.apply(transaction, committed.revision);
            }
        }
        Err(CommitError::Conflict { current, revision }) => {
            assert_eq!((model.expect(transaction), revision), (Expected::Conflict(current), model.current()));
        }
        Err(CommitError::Uncertain { .. } | CommitError::Stopped(Stopped::Failed { .. })) => {}
        // The disk is full.
        Err(CommitError::Unavailable { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

fn stopped(answer: &Result<Committed, CommitError>) -> bool {
    matches!(answer, Err(CommitError::Stopped(Stopped::Failed { .. })))
}

/// Commits one transaction and, while it waits for the disk, all others, so that
/// these share the next commit. The answers are in their order.
async fn hand_over(
    store: &dyn Store,
    disk: &Disk,
    first: &Transaction,
    group: &[Transaction],
) -> Vec<Result<Committed, CommitError>> {
    if group.is_empty() {
        return vec![store.commit(first.clone()).await];
    }
    disk.hold();
    let mut first = store.commit(first.clone());
    let early = poll(&mut first);
    let mut rest: Vec<_> = Vec::new();
    if early.is_none() {
        disk.wait_until_held();
    }
    for transaction in group {
        let mut future = store.commit(transaction.clone());
        let early = poll(&mut future);
        rest.push((future, early));
    }
    disk.release();
    let mut answers = vec![match early {
        Some(answer) => answer,
        None => first.await,
    }];
    for (future, early) in rest {
        answers.push(match early {
            Some(answer) => answer,
            None => future.await,
        });
    }
    answers
}
