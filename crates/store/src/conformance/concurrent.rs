//! Writers and readers at the same time: is there one order that explains all answers?
//!
//! Revisions are that order. Every answer is replayed on the model in the order of
//! its revision and must be what the model says; and an operation that began after
//! another had ended must not come before it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{
    Rng, block_on, drain, list,
    model::{Expected, Model, expect},
    random::{some_key, transaction},
};
use crate::{Bytes, CommitError, Committed, GetAnswer, KeyRange, Revision, Store, Transaction};

const WRITERS: u64 = 6;
const OPERATIONS: u64 = 40;

#[derive(Debug)]
struct Record {
    began: u64,
    ended: u64,
    revision: Revision,
    what: What,
}

#[derive(Debug)]
enum What {
    Commit(Transaction, Committed),
    Conflict(Transaction, Vec<Option<crate::Entry>>),
    Get(Bytes, GetAnswer),
}

pub fn check(store: &Arc<dyn Store>, seed: u64) {
    let clock = AtomicU64::new(0);
    let mut watch = block_on(store.watch(KeyRange::all(), Revision::FIRST)).unwrap();
    let records: Vec<Record> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..WRITERS)
            .map(|id| {
                let clock = &clock;
                scope.spawn(move || block_on(client(store.as_ref(), clock, seed, id)))
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let model = replay(&records);
    real_time(&records);
    let all = KeyRange::all();
    assert_eq!(block_on(drain(&mut watch)), model.events_after(&all, Revision::FIRST));
    let listed = block_on(list(store.as_ref(), &all, None, 100));
    assert_eq!(listed.entries, model.entries_at(&all, model.current()));
}

async fn client(store: &dyn Store, clock: &AtomicU64, seed: u64, id: u64) -> Vec<Record> {
    let mut rng = Rng::new(seed.wrapping_mul(WRITERS).wrapping_add(id));
    // What this client last saw, so that its compares have a chance to hold.
    let mut seen = Model::default();
    let mut records = Vec::new();
    for operation in 0..OPERATIONS {
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let (revision, what) = if rng.one_in(4) {
            let key = some_key(&mut rng);
            let found = store.get(key.clone(), None).await.unwrap();
            (found.revision, What::Get(key, found))
        } else {
            let transaction = transaction(&mut rng, &seen, id * OPERATIONS + operation);
            match store.commit(transaction.clone()).await {
                Ok(committed) => {
                    if committed.changed && matches!(seen.expect(&transaction), Expected::Changed) {
                        seen.apply(&transaction, committed.revision);
                    }
                    (committed.revision, What::Commit(transaction, committed))
                }
                Err(CommitError::Conflict { revision, current }) => {
                    (revision, What::Conflict(transaction, current))
                }
                Err(other) => panic!("{other}"),
            }
        };
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        records.push(Record { began, ended, revision, what });
    }
    records
}

fn replay(records: &[Record]) -> Model {
    let mut changes: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.what {
            What::Commit(transaction, committed) if committed.changed => Some((transaction, committed)),
            _ => None,
        })
        .collect();
    changes.sort_by_key(|(_, committed)| committed.revision);
    let mut model = Model::default();
    for (transaction, committed) in changes {
        model.expect(transaction).check(committed, model.current());
        model.apply(transaction, committed.revision);
    }
    for record in records {
        let state = model.state_at(record.revision);
        match &record.what {
            What::Commit(transaction, committed) if !committed.changed => {
                expect(state, transaction).check(committed, record.revision);
            }
            What::Commit(..) => {}
            What::Conflict(transaction, current) => {
                assert_eq!(expect(state, transaction), Expected::Conflict(current.clone()));
            }
            What::Get(key, found) => assert_eq!(found.entry.as_ref(), state.get(key)),
        }
    }
    model
}

/// What ended before an operation began is visible to it.
fn real_time(records: &[Record]) {
    for later in records {
        for earlier in records.iter().filter(|earlier| earlier.ended < later.began) {
            assert!(earlier.revision <= later.revision, "{earlier:?} before {later:?}");
            if let What::Commit(_, committed) = &later.what
                && committed.changed
            {
                assert!(earlier.revision < later.revision, "{earlier:?} before {later:?}");
            }
        }
    }
}
