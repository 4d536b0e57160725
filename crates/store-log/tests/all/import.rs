//! Stores of format version 1 are taken over. Those in `tests/format-1` were written by a server of
//! the time; one was closed, the other killed.

use std::collections::BTreeMap;

use crate::support::{
    disk::{Disk, Fault, Image, Tear},
    fresh, old, oldest, open, options, try_open,
};
use sternpost_store::{
    Event, KeyRange, Revision, Store, Transaction, Write,
    conformance::{Rng, block_on, drain, list},
};

const FILES: [&str; 2] = ["closed.redb.gz", "killed.redb.gz"];

pub fn value(number: usize) -> String {
    format!("value-of-{number:04}-").repeat(if number % 50 == 7 { 2000 } else { 20 })
}

/// What is in both of them, and the revisions between which there is history.
pub fn expected() -> (BTreeMap<String, String>, Revision, Revision) {
    let mut content = BTreeMap::new();
    for number in (0..300).filter(|number| number % 10 != 0) {
        let value = if number % 10 == 1 { value(number + 5) } else { value(number) };
        content.insert(format!("key-{number:04}"), value);
    }
    for (key, value) in [("history-a", "2"), ("key-0002", "made again"), ("key-0003", "changed")] {
        content.insert(key.to_owned(), value.to_owned());
    }
    (content, Revision::new(361).unwrap(), Revision::new(365).unwrap())
}

pub fn disk(file: &str) -> Disk {
    Disk::with(&Image::from([("store.redb".to_owned(), old(file))]))
}

async fn content(store: &dyn Store) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let page = list(store, &KeyRange::all(), None, 1000).await;
    page.entries.iter().map(|entry| (text(entry.key()), text(entry.value()))).collect()
}

/// Everything is there, history and all.
async fn check(store: &dyn Store, what: &str) {
    let (expected, compacted, revision) = expected();
    assert_eq!(store.current_revision().await, Ok(revision), "{what}");
    assert!(content(store).await == expected, "{what}");
    assert_eq!(oldest(store).await, compacted, "{what}");
    let mut watch = store.watch(KeyRange::all(), compacted).await.unwrap();
    let events = drain(&mut watch).await;
    let shown: Vec<(u64, String, Option<String>, Option<String>)> = events
        .iter()
        .map(|(revision, event): &(Revision, Event)| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let value = |entry: &sternpost_store::Entry| text(entry.value());
            (revision.get(), text(event.key()), event.previous().map(value), event.entry().map(value))
        })
        .collect();
    let row = |revision, key: &str, before: Option<&str>, after: Option<&str>| {
        (revision, key.to_owned(), before.map(str::to_owned), after.map(str::to_owned))
    };
    let wanted = [
        row(362, "history-a", None, Some("1")),
        row(362, "history-b", None, Some("1")),
        row(363, "history-a", Some("1"), Some("2")),
        row(363, "history-b", Some("1"), None),
        row(364, "key-0002", Some(&value(2)), None),
        row(365, "key-0002", None, Some("made again")),
        row(365, "key-0003", Some(&value(3)), Some("changed")),
    ];
    assert_eq!(shown, wanted, "{what}");
}

#[test]
fn an_old_store_is_taken_over_with_its_history_and_its_reservation() {
    for (file, next) in FILES.into_iter().zip([366, 10_002]) {
        block_on(async {
            let disk = disk(file);
            let store = open(&disk, options());
            check(&store, file).await;
            let write = Transaction::write([Write::put("next", "1")]);
            assert_eq!(store.commit(write).await.unwrap().revision.get(), next, "{file}");
            store.close().await;
            let names: Vec<String> = disk.image().into_keys().collect();
            assert_eq!(names, ["log-1", "snapshot-1", "store.redb"]);
            // An old program finds something that it refuses, and does not begin anew.
            assert!(disk.image()["store.redb"].starts_with(b"sternpost-store 2: "), "{file}");
            let store = open(&disk.after_restart(), options());
            assert_eq!(store.current_revision().await.unwrap().get(), next);
            assert_eq!(content(&store).await.len(), expected().0.len() + 1);
            store.close().await;
        });
    }
}

fn length() -> u64 {
    let disk = disk(FILES[0]);
    drop(open(&disk, options()));
    disk.operations()
}

#[test]
fn the_power_may_go_at_any_step_of_it() {
    for at in 0..length() {
        for tear in [Tear::Nothing, Tear::Everything, Tear::Some, Tear::Some, Tear::Some] {
            let what = format!("cut at {at}, {tear:?} survives");
            println!("{what}");
            let disk = disk(FILES[1]);
            disk.fail(Fault::PowerCut, at);
            // It may be open before the last step, which removes something.
            drop(try_open(&disk, options()));
            let disk = disk.after_power_cut(tear, &mut Rng::new(at));
            block_on(async {
                let store = open(&disk, options());
                check(&store, &what).await;
                store.close().await;
            });
        }
    }
}

#[test]
fn a_failure_at_any_step_leaves_the_old_store() {
    for fault in [Fault::Error, Fault::NoSpace] {
        for at in 0..length() {
            let what = format!("{fault:?} at {at}");
            let disk = disk(FILES[0]);
            disk.fail(fault, at);
            drop(try_open(&disk, options()));
            block_on(async {
                let store = open(&disk.after_restart(), options());
                check(&store, &what).await;
                store.close().await;
            });
        }
    }
}

/// Somebody has put an old store where a new one is. Which of them counts nobody can know.
#[test]
fn an_old_store_beside_a_new_one_is_refused() {
    let store = open(&fresh(), options());
    block_on(store.close());
    let mut image = fresh().image();
    image.insert("store.redb".to_owned(), old(FILES[0]));
    let disk = Disk::with(&image);
    let error = try_open(&disk, options()).unwrap_err().to_string();
    assert_eq!(error, "`disk/store.redb` is corrupt: there is a newer store in the same directory");
    assert_eq!((disk.operations(), disk.image() == image), (0, true));
}

#[test]
fn a_changed_byte_of_an_old_store_is_found_or_harmless() {
    let whole = old(FILES[0]);
    let used: Vec<usize> = (0..whole.len()).filter(|index| whole[*index] != 0).collect();
    let (mut rng, mut refused) = (Rng::new(7), 0);
    for case in 0..60 {
        let mut damaged = whole.clone();
        let index = used[usize::try_from(rng.below(used.len() as u64)).unwrap()];
        damaged[index] ^= 1 << rng.below(8);
        let disk = Disk::with(&Image::from([("store.redb".to_owned(), damaged)]));
        match try_open(&disk, options()) {
            Ok(store) => block_on(async {
                check(&store, &format!("case {case}: byte {index}")).await;
                store.close().await;
            }),
            Err(error) => {
                println!("case {case}: {error}");
                assert_eq!(disk.operations(), 0, "a refused store was changed");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}
