//! Random operations, one after the other, against the model.

use std::sync::Arc;

use super::{
    Rng, drain, list,
    model::{Expected, Model},
};
use crate::{Bytes, CommitError, Compare, KeyRange, ReadError, Revision, Store, Transaction, Watch, Write};

const STEPS: u64 = 300;
const KEYS: u64 = 12;

pub async fn check(store: Arc<dyn Store>, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    // Each with its range and what of the model it has seen.
    let mut watches: Vec<(Watch, KeyRange, Revision)> = Vec::new();
    for step in 0..STEPS {
        match rng.below(10) {
            0..=5 => {
                let transaction = transaction(&mut rng, &model, step);
                commit(store.as_ref(), &mut model, transaction).await;
            }
            6 => read(store.as_ref(), &model, &mut rng).await,
            7 => {
                let (range, after) = (some_range(&mut rng), model.some_retained(rng.draw()));
                let watch = store.watch(range.clone(), after).await.unwrap();
                watches.push((watch, range, after));
            }
            8 if !watches.is_empty() => {
                let index = usize::try_from(rng.below(watches.len() as u64)).unwrap();
                let (watch, range, after) = &mut watches[index];
                if *after >= model.compacted {
                    assert_eq!(drain(watch).await, model.events_after(range, *after));
                    *after = model.current();
                } else {
                    watches.swap_remove(index);
                }
            }
            9 if rng.one_in(4) => {
                let to = model.some_retained(rng.draw());
                store.compact(to).await.unwrap();
                model.compacted = to;
            }
            _ => {}
        }
        assert_eq!(store.current_revision().await, Ok(model.current()));
    }
    let all = list(store.as_ref(), &KeyRange::all(), None, 5).await;
    assert_eq!(all.entries, model.entries_at(&KeyRange::all(), model.current()));
}

/// Commits and compares the answer; the model takes the store's revision.
pub async fn commit(store: &dyn Store, model: &mut Model, transaction: Transaction) {
    let expected = model.expect(&transaction);
    match store.commit(transaction.clone()).await {
        Ok(committed) => {
            expected.check(&committed, model.current());
            if committed.changed {
                model.apply(&transaction, committed.revision);
            }
        }
        Err(CommitError::Conflict { revision, current }) => {
            assert_eq!(revision, model.current());
            assert_eq!(expected, Expected::Conflict(current));
        }
        Err(other) => panic!("{other}"),
    }
}

/// A transaction with one to three writes, about half with a compare that mostly holds.
pub fn transaction(rng: &mut Rng, model: &Model, unique: u64) -> Transaction {
    let mut transaction = Transaction::default();
    let mut keys: Vec<Bytes> = (0..=rng.below(3)).map(|_| some_key(rng)).collect();
    keys.sort();
    keys.dedup();
    // Writes need not come in key order.
    if rng.one_in(2) {
        keys.reverse();
    }
    for key in keys {
        let current = model.state().get(&key);
        match rng.below(6) {
            0 => transaction.compares.push(Compare::Absent { key: key.clone() }),
            1 => transaction.compares.push(Compare::Present { key: key.clone() }),
            2 => {
                let revision = current.map_or(Revision::FIRST, |entry| entry.modified);
                transaction.compares.push(Compare::Modified { key: key.clone(), revision });
            }
            _ => {}
        }
        let value = format!("{unique}-{}", rng.below(1000));
        transaction.writes.push(if rng.one_in(3) { Write::delete(key) } else { Write::put(key, value) });
    }
    transaction
}

pub fn some_key(rng: &mut Rng) -> Bytes {
    Bytes::from(format!("{}/{}", ["a", "b", "c"][(rng.draw() % 3) as usize], rng.below(KEYS / 3)))
}

pub fn some_range(rng: &mut Rng) -> KeyRange {
    match rng.below(4) {
        0 => KeyRange::all(),
        1 => KeyRange::single(some_key(rng)),
        2 => KeyRange::between(some_key(rng), some_key(rng)),
        _ => KeyRange::prefix(["a/", "b/", "c/"][(rng.draw() % 3) as usize]),
    }
}

async fn read(store: &dyn Store, model: &Model, rng: &mut Rng) {
    let (range, at) = (some_range(rng), model.some_retained(rng.draw()));
    let page = list(store, &range, Some(at), 1 + (rng.below(5) as usize)).await;
    assert_eq!((page.entries, page.revision), (model.entries_at(&range, at), at));
    let key = some_key(rng);
    let found = store.get(key.clone(), Some(at)).await.unwrap();
    assert_eq!((found.entry.as_ref(), found.revision), (model.state_at(at).get(&key), at));

    let current = model.current();
    let future = current.plus(1 + rng.below(3)).unwrap();
    assert_eq!(store.get(key.clone(), Some(future)).await, Err(ReadError::Future { current }));
    let oldest = model.compacted;
    if let Some(past) = Revision::new(oldest.get() - 1) {
        assert_eq!(store.get(key, Some(past)).await, Err(ReadError::Compacted { oldest }));
    }
}
