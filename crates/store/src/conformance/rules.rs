//! The rules of the contract, one function each.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use sternpost_clock::machine;

use super::{drain, entry, list};
use crate::{
    BoxFuture, Bytes, Changes, CommitError, Committed, Compare, Delivery, Event, Follower, KeyRange,
    ReadError, Revision, Stopped, Store, Transaction, Watch, WatchError, Write,
    transaction::{InvalidTransaction, MAX_KEY_BYTES},
};

type Rule = fn(Arc<dyn Store>) -> BoxFuture<'static, ()>;

pub const RULES: &[(&str, Rule)] = &[
    ("an_empty_store_is_at_the_first_revision", |store| Box::pin(empty(store))),
    ("every_change_takes_one_greater_revision", |store| Box::pin(revisions(store))),
    ("a_transaction_happens_wholly_or_not_at_all", |store| Box::pin(atomicity(store))),
    ("compares_hold_or_answer_what_is_there", |store| Box::pin(compares(store))),
    ("a_key_made_again_has_a_new_created_revision", |store| Box::pin(created(store))),
    ("no_effect_takes_no_revision", |store| Box::pin(no_effect(store))),
    ("invalid_transactions_are_refused", |store| Box::pin(invalid(store))),
    ("reads_answer_at_old_revisions", |store| Box::pin(old_revisions(store))),
    ("pages_share_a_revision_and_cover_the_range_once", |store| Box::pin(pages(store))),
    ("keys_are_ordered_as_bytes", |store| Box::pin(order(store))),
    ("a_watch_starts_behind_its_revision", |store| Box::pin(watch_start(store))),
    ("a_watch_gets_all_changes_of_a_revision_at_once_in_key_order", |store| Box::pin(watch_batch(store))),
    ("a_watch_resumes_without_gap_or_repeat", |store| Box::pin(watch_resume(store))),
    ("a_watch_outside_of_its_range_gets_progress_only", |store| Box::pin(watch_filter(store))),
    ("a_dropped_wait_loses_nothing", |store| Box::pin(watch_cancel(store))),
    ("a_watch_has_ready_what_waiting_would_give", |store| Box::pin(watch_ready(store))),
    ("a_follower_has_every_change_when_it_is_answered", |store| Box::pin(follow(store))),
    ("compaction_refuses_what_is_older_and_keeps_the_rest", |store| Box::pin(compaction(store))),
    ("compaction_forgets_deleted_keys_and_keeps_live_ones", |store| Box::pin(compaction_deletes(store))),
    ("a_key_is_deleted_when_its_time_is_over_and_not_before", |store| Box::pin(expiry(store))),
    ("a_closed_store_refuses_everything", |store| Box::pin(closed(store))),
];

async fn put(store: &dyn Store, key: &'static str, value: &'static str) -> Revision {
    store.commit(Transaction::write([Write::put(key, value)])).await.unwrap().revision
}

async fn delete(store: &dyn Store, key: &'static str) -> Revision {
    store.commit(Transaction::write([Write::delete(key)])).await.unwrap().revision
}

async fn empty(store: Arc<dyn Store>) {
    assert_eq!(store.current_revision().await, Ok(Revision::FIRST));
    let page = store.range(KeyRange::all(), None, 10).await.unwrap();
    assert_eq!((page.entries.len(), page.revision, page.more), (0, Revision::FIRST, false));
    assert_eq!(store.get(Bytes::from("a"), None).await.unwrap().entry, None);
}

async fn revisions(store: Arc<dyn Store>) {
    let mut last = store.current_revision().await.unwrap();
    for round in 0..20 {
        let writes = (0..3).map(|n| Write::put(format!("k{n}"), format!("{round}")));
        let committed = store.commit(Transaction::write(writes)).await.unwrap();
        assert!(committed.revision > last && committed.changed);
        assert_eq!(store.current_revision().await, Ok(committed.revision));
        for found in list(store.as_ref(), &KeyRange::all(), None, 2).await.entries {
            assert_eq!(found.modified, committed.revision);
        }
        last = committed.revision;
    }
}

async fn atomicity(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let transaction = Transaction {
        compares: vec![
            Compare::Present { key: Bytes::from("a") },
            Compare::Present { key: Bytes::from("b") },
        ],
        writes: vec![Write::put("a", "2"), Write::put("c", "2")],
    };
    let conflict = store.commit(transaction).await;
    let current = vec![Some(entry("a", "1", first, first)), None];
    assert_eq!(conflict, Err(CommitError::Conflict { revision: first, current }));
    let all = list(store.as_ref(), &KeyRange::all(), None, 10).await;
    assert_eq!((all.entries, all.revision), (vec![entry("a", "1", first, first)], first));
}

async fn compares(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let second = put(store.as_ref(), "a", "2").await;
    let key = || Bytes::from("a");
    let missing = || Bytes::from("z");
    let cases = [
        (Compare::Absent { key: key() }, false),
        (Compare::Absent { key: missing() }, true),
        (Compare::Present { key: key() }, true),
        (Compare::Present { key: missing() }, false),
        (Compare::Modified { key: key(), revision: first }, false),
        (Compare::Modified { key: key(), revision: second }, true),
        (Compare::Modified { key: missing(), revision: second }, false),
    ];
    for (compare, holds) in cases {
        let there = (compare.key() == "a").then(|| entry("a", "2", first, second));
        let answer = store.commit(Transaction { compares: vec![compare.clone()], writes: vec![] }).await;
        let expected = match holds {
            true => Ok(Committed { revision: second, changed: false }),
            false => Err(CommitError::Conflict { revision: second, current: vec![there] }),
        };
        assert_eq!(answer, expected, "{compare:?}");
    }
    let update = Transaction::update("a", second, "3");
    let third = store.commit(update.clone()).await.unwrap();
    // The same update again: exactly one of two writers wins.
    let current = vec![Some(entry("a", "3", first, third.revision))];
    let conflict = CommitError::Conflict { revision: third.revision, current };
    assert_eq!(store.commit(update).await, Err(conflict));
}

async fn created(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let second = put(store.as_ref(), "a", "2").await;
    delete(store.as_ref(), "a").await;
    let fourth = put(store.as_ref(), "a", "4").await;
    let at = async |at| store.get(Bytes::from("a"), at).await.unwrap().entry;
    assert_eq!(at(Some(second)).await, Some(entry("a", "2", first, second)));
    assert_eq!(at(None).await, Some(entry("a", "4", fourth, fourth)));
}

async fn no_effect(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let nothing = [
        Transaction::default(),
        Transaction::write([Write::delete("x"), Write::delete("y")]),
        Transaction { compares: vec![Compare::Present { key: Bytes::from("a") }], writes: vec![] },
    ];
    for transaction in nothing {
        let answer = store.commit(transaction).await;
        assert_eq!(answer, Ok(Committed { revision: first, changed: false }));
    }
    // One effective write is enough, and the ineffective one makes no event.
    let both = Transaction::write([Write::delete("x"), Write::put("a", "1")]);
    let second = store.commit(both).await.unwrap();
    assert!(second.changed && second.revision > first, "the same value again is a change");
    let mut watch = store.watch(KeyRange::all(), first).await.unwrap();
    assert_eq!(drain(&mut watch).await.len(), 1);
}

async fn invalid(store: Arc<dyn Store>) {
    let long = Bytes::from(vec![b'k'; MAX_KEY_BYTES + 1]);
    let cases = [
        (vec![Write::put("", "1")], InvalidTransaction::EmptyKey),
        (vec![Write::delete(long)], InvalidTransaction::KeyTooLong { length: MAX_KEY_BYTES + 1 }),
        (vec![Write::put("a", "1"), Write::put("a", "2")], InvalidTransaction::DuplicateKey),
    ];
    for (writes, error) in cases {
        assert_eq!(store.commit(Transaction::write(writes)).await, Err(CommitError::Invalid(error)));
    }
    assert_eq!(store.current_revision().await, Ok(Revision::FIRST));
    // At the limit, and with an empty value, it works.
    let longest = Bytes::from(vec![b'k'; MAX_KEY_BYTES]);
    store.commit(Transaction::write([Write::put(longest.clone(), "")])).await.unwrap();
    let found = store.get(longest, None).await.unwrap().entry.unwrap();
    assert_eq!(found.value(), b"");
}

async fn old_revisions(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let second = put(store.as_ref(), "b", "1").await;
    let third = put(store.as_ref(), "a", "2").await;
    let fourth = delete(store.as_ref(), "b").await;
    let cases = [
        (Revision::FIRST, vec![]),
        (first, vec![entry("a", "1", first, first)]),
        (second, vec![entry("a", "1", first, first), entry("b", "1", second, second)]),
        (third, vec![entry("a", "2", first, third), entry("b", "1", second, second)]),
        (fourth, vec![entry("a", "2", first, third)]),
    ];
    for (at, expected) in cases {
        let page = store.range(KeyRange::all(), Some(at), 10).await.unwrap();
        assert_eq!((page.entries, page.revision), (expected, at));
    }
    let future = fourth.plus(1).unwrap();
    let error = ReadError::Future { current: fourth };
    assert_eq!(store.range(KeyRange::all(), Some(future), 1).await, Err(error.clone()));
    assert_eq!(store.watch(KeyRange::all(), future).await.err(), Some(error.clone()));
    assert_eq!(store.compact(future).await, Err(error));
}

async fn pages(store: Arc<dyn Store>) {
    let keys: Vec<String> = (0..25).map(|n| format!("p/{n:02}")).collect();
    for key in &keys {
        store.commit(Transaction::write([Write::put(key.clone(), "1")])).await.unwrap();
    }
    put(store.as_ref(), "q", "1").await;
    let range = KeyRange::prefix("p/");
    let first = store.range(range.clone(), None, 10).await.unwrap();
    assert!(first.more && first.entries.len() == 10);
    // Later changes do not show in later pages.
    delete(store.as_ref(), "p/15").await;
    put(store.as_ref(), "p/150", "new").await;
    let rest = range.after(first.entries[9].key());
    let rest = list(store.as_ref(), &rest, Some(first.revision), 10).await;
    let all: Vec<_> =
        first.entries.iter().chain(&rest.entries).map(|entry| Bytes::copy_from_slice(entry.key())).collect();
    assert_eq!(all, keys);
    for (limit, more) in [(0, true), (24, true), (25, false), (26, false)] {
        let page = store.range(range.clone(), Some(first.revision), limit).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (limit.min(25), more), "limit {limit}");
    }
    let backwards = store.range(KeyRange::between("q", "p"), None, 10).await.unwrap();
    assert_eq!((backwards.entries.len(), backwards.more), (0, false));
}

async fn order(store: Arc<dyn Store>) {
    let keys: [&'static [u8]; 6] = [b"\0", b"a", b"a\0", b"a/", b"b", b"\xff\xff"];
    for key in keys.iter().rev() {
        store.commit(Transaction::write([Write::put(*key, "")])).await.unwrap();
    }
    let found = list(store.as_ref(), &KeyRange::all(), None, 2).await.entries;
    assert_eq!(found.iter().map(|entry| entry.key()).collect::<Vec<_>>(), keys);
}

async fn watch_start(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let second = put(store.as_ref(), "a", "2").await;
    let one = entry("a", "1", first, first);
    let two = entry("a", "2", first, second);
    let events = [
        (first, Event::Put { entry: one.clone(), previous: None }),
        (second, Event::Put { entry: two.clone(), previous: Some(one) }),
    ];
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    assert_eq!(drain(&mut watch).await, events);
    let mut watch = store.watch(KeyRange::all(), first).await.unwrap();
    assert_eq!(drain(&mut watch).await, events[1..]);
    let mut watch = store.watch(KeyRange::all(), second).await.unwrap();
    assert_eq!(drain(&mut watch).await, []);
    // Live, behind the history.
    let third = delete(store.as_ref(), "a").await;
    assert_eq!(drain(&mut watch).await, [(third, Event::Delete { previous: two })]);
}

async fn watch_batch(store: Arc<dyn Store>) {
    let mut live = store.watch(KeyRange::prefix("b/"), Revision::FIRST).await.unwrap();
    assert_eq!(drain(&mut live).await, []);
    let writes = ["b/3", "a", "b/1", "c", "b/2"].map(|key| Write::put(key, "1"));
    let revision = store.commit(Transaction::write(writes)).await.unwrap().revision;
    let late = store.watch(KeyRange::prefix("b/"), Revision::FIRST).await.unwrap();
    for mut watch in [live, late] {
        let Delivery::Changes(changes) = watch.next().await.unwrap() else { panic!("no changes") };
        assert_eq!(changes.revision(), revision);
        let keys: Vec<_> = changes.events().iter().map(Event::key).collect();
        assert_eq!(keys, [b"b/1", b"b/2", b"b/3"]);
    }
}

async fn watch_resume(store: Arc<dyn Store>) {
    let mut first = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    let mut seen = Vec::new();
    for round in 0..10 {
        put(store.as_ref(), "a", "1").await;
        put(store.as_ref(), "b", "1").await;
        let delivery = first.next().await.unwrap();
        seen.push(delivery.revision());
        if round % 3 == 0 {
            let last = *seen.last().unwrap();
            first = store.watch(KeyRange::all(), last).await.unwrap();
        }
    }
    seen.extend(drain(&mut first).await.iter().map(|(revision, _)| *revision));
    let mut all = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    let all: Vec<_> = drain(&mut all).await.iter().map(|(revision, _)| *revision).collect();
    assert_eq!((seen.len(), &seen), (20, &all));
}

async fn watch_filter(store: Arc<dyn Store>) {
    let mut watch = store.watch(KeyRange::single("a"), Revision::FIRST).await.unwrap();
    watch.request_progress();
    assert_eq!(watch.next().await, Ok(Delivery::Progress(Revision::FIRST)));
    let other = put(store.as_ref(), "a/b", "1").await;
    watch.request_progress();
    assert_eq!(watch.next().await, Ok(Delivery::Progress(other)));
    let own = put(store.as_ref(), "a", "1").await;
    watch.request_progress();
    assert_eq!(watch.next().await.unwrap().revision(), own);
    assert_eq!(watch.next().await, Ok(Delivery::Progress(own)));
}

async fn watch_cancel(store: Arc<dyn Store>) {
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    for round in 0..5 {
        assert!(waits(&mut watch), "round {round}");
        let revision = put(store.as_ref(), "a", "1").await;
        assert_eq!(drain(&mut watch).await.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [revision]);
    }
}

/// Whether a watch has nothing to say; polls once and drops the future.
fn waits(watch: &mut Watch) -> bool {
    watch.next().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// A store may have nothing ready; what it has is what comes next.
async fn watch_ready(store: Arc<dyn Store>) {
    let after = store.current_revision().await.unwrap();
    let mut watch = store.watch(KeyRange::all(), after).await.unwrap();
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for round in 0..10 {
        for _ in 0..round {
            expected.push(put(store.as_ref(), "a", "1").await);
        }
        while seen.len() < expected.len() {
            seen.push(watch.next().await.unwrap().revision());
            while let Some(delivery) = watch.ready() {
                seen.push(delivery.revision());
            }
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(watch.ready(), None);
}

async fn follow(store: Arc<dyn Store>) {
    #[derive(Debug, Default)]
    struct RecordedChanges(Mutex<Vec<(Revision, Vec<Event>)>>);
    impl Follower for RecordedChanges {
        fn changed(&self, group: &[Changes]) {
            let changes = group.iter().map(|changes| (changes.revision(), changes.events().to_vec()));
            self.0.lock().unwrap().extend(changes);
        }
    }
    let first = put(store.as_ref(), "a", "1").await;
    let second = put(store.as_ref(), "b", "1").await;
    let seen = Arc::new(RecordedChanges::default());
    let future = second.plus(1_000_000).unwrap();
    let Some(refused) = store.follow(future, seen.clone()) else { return };
    assert_eq!(refused, Err(ReadError::Future { current: second }));
    assert_eq!(store.follow(first, seen.clone()), Some(Ok(())));
    let revisions = || seen.0.lock().unwrap().iter().map(|(revision, _)| *revision).collect::<Vec<_>>();
    assert_eq!(revisions(), [second]);
    let third =
        store.commit(Transaction::write([Write::put("c", "1"), Write::delete("a")])).await.unwrap().revision;
    assert_eq!(revisions(), [second, third]);
    let events = seen.0.lock().unwrap().pop().unwrap().1;
    let keys: Vec<_> = events.iter().map(|event| Bytes::copy_from_slice(event.key())).collect();
    assert_eq!(keys, ["a", "c"]);
    // What changes nothing is nothing to follow.
    store.commit(Transaction::write([Write::delete("a")])).await.unwrap();
    assert_eq!(revisions(), [second]);
}

async fn compaction(store: Arc<dyn Store>) {
    let mut revisions = vec![Revision::FIRST];
    for value in ["1", "2", "3", "4"] {
        revisions.push(put(store.as_ref(), "a", value).await);
    }
    let mut live = store.watch(KeyRange::all(), revisions[1]).await.unwrap();
    assert_eq!(drain(&mut live).await.len(), 3);
    let oldest = revisions[2];
    store.compact(oldest).await.unwrap();
    for (index, at) in revisions.iter().enumerate() {
        let found = store.get(Bytes::from("a"), Some(*at)).await;
        let page = store.range(KeyRange::all(), Some(*at), 1).await;
        let watch = store.watch(KeyRange::all(), *at).await;
        if *at < oldest {
            let error = ReadError::Compacted { oldest };
            assert_eq!(found, Err(error.clone()));
            assert_eq!(page, Err(error.clone()));
            assert_eq!(watch.err(), Some(error));
        } else {
            let value = format!("{index}");
            assert_eq!(found.unwrap().entry.unwrap().value(), value.as_bytes());
            assert_eq!(page.unwrap().entries[0].value(), value.as_bytes());
            assert_eq!(drain(&mut watch.unwrap()).await.len(), revisions.len() - 1 - index);
        }
    }
    // A watch that had seen everything goes on; compacting again does nothing.
    store.compact(revisions[1]).await.unwrap();
    store.compact(oldest).await.unwrap();
    let last = put(store.as_ref(), "a", "5").await;
    assert_eq!(drain(&mut live).await.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [last]);
    store.compact(last).await.unwrap();
    assert_eq!(store.get(Bytes::from("a"), None).await.unwrap().entry.unwrap().value(), b"5");
    assert_eq!(store.current_revision().await, Ok(last));
}

async fn compaction_deletes(store: Arc<dyn Store>) {
    let kept = put(store.as_ref(), "kept", "1").await;
    put(store.as_ref(), "gone", "1").await;
    delete(store.as_ref(), "gone").await;
    put(store.as_ref(), "back", "1").await;
    let deleted = delete(store.as_ref(), "back").await;
    let back = put(store.as_ref(), "back", "2").await;
    for to in [kept, deleted, back] {
        store.compact(to).await.unwrap();
        let all = list(store.as_ref(), &KeyRange::all(), None, 10).await.entries;
        assert_eq!(all, [entry("back", "2", back, back), entry("kept", "1", kept, kept)], "to {to}");
    }
    let mut watch = store.watch(KeyRange::all(), back).await.unwrap();
    let again = put(store.as_ref(), "gone", "2").await;
    let expected = Event::Put { entry: entry("gone", "2", again, again), previous: None };
    assert_eq!(drain(&mut watch).await, [(again, expected)]);
}

async fn expiry(store: Arc<dyn Store>) {
    const TTL: NonZeroU32 = NonZeroU32::MIN;
    let expiring = |key: &'static str| Write::expiring(key, "1", TTL);
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    put(store.as_ref(), "later", "0").await;
    let asked = machine::now();
    let writes = [expiring("a"), expiring("b"), expiring("kept"), Write::put("other", "1")];
    let first = store.commit(Transaction::write(writes)).await.unwrap().revision;
    // Another put takes the time away, or gives one.
    put(store.as_ref(), "kept", "2").await;
    let later = store.commit(Transaction::write([expiring("later")])).await.unwrap().revision;
    let mut written = BTreeMap::from([(&b"a"[..], first), (b"b", first), (b"later", later)]);
    if !store.expires() {
        // As any other put.
        let events = drain(&mut watch).await;
        assert!(events.iter().all(|(_, event)| event.entry().is_some()), "{events:?}");
        return;
    }
    while !written.is_empty() {
        let Delivery::Changes(changes) = watch.next().await.unwrap() else { continue };
        for event in changes.events() {
            // On a slow machine it may go before it is written again.
            let Event::Delete { previous } = event else { continue };
            let age = machine::elapsed(asked);
            assert!(age >= Duration::from_secs(TTL.get().into()), "{previous:?} goes after {age:?}");
            assert!(changes.revision() > first);
            if previous.key() != b"kept" {
                assert_eq!(written.remove(previous.key()), Some(previous.modified), "{previous:?}");
            }
        }
    }
    let left = list(store.as_ref(), &KeyRange::all(), None, 10).await.entries;
    let left: Vec<_> = left.iter().map(|entry| (entry.key(), entry.value())).collect();
    assert_eq!(left, [(&b"kept"[..], &b"2"[..]), (b"other", b"1")]);
    let again = put(store.as_ref(), "a", "2").await;
    let found = store.get(Bytes::from("a"), None).await.unwrap().entry;
    assert_eq!(found, Some(entry("a", "2", again, again)));
}

async fn closed(store: Arc<dyn Store>) {
    let first = put(store.as_ref(), "a", "1").await;
    let mut live = store.watch(KeyRange::all(), first).await.unwrap();
    assert_eq!(drain(&mut live).await, []);
    let mut fresh = store.watch(KeyRange::all(), first).await.unwrap();
    store.close().await;
    store.close().await;
    for watch in [&mut live, &mut fresh] {
        for _ in 0..2 {
            assert_eq!(watch.next().await, Err(WatchError::Stopped(Stopped::Closed)));
        }
    }
    let transaction = Transaction::write([Write::put("a", "2")]);
    assert_eq!(store.commit(transaction).await, Err(CommitError::Stopped(Stopped::Closed)));
    let error = ReadError::Stopped(Stopped::Closed);
    assert_eq!(store.current_revision().await, Err(error.clone()));
    assert_eq!(store.get(Bytes::from("a"), None).await, Err(error.clone()));
    assert_eq!(store.compact(first).await, Err(error.clone()));
    assert_eq!(store.watch(KeyRange::all(), first).await.err(), Some(error));
}
