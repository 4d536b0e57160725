//! Checking stores, and saving what is whole of damaged ones.

use std::{collections::BTreeMap, fs, path::Path};

use sternpost_store::{KeyRange, Revision, Store, Transaction, Write, conformance::block_on};
use sternpost_store_redb::{Options, RedbStore, check::check};

type Content = BTreeMap<String, String>;

const KEYS: usize = 300;

fn value(number: usize) -> String {
    // Some larger than a page.
    format!("value-of-{number:04}-").repeat(if number % 50 == 7 { 2000 } else { 20 })
}

/// A store with deleted, replaced and untouched keys.
fn make(directory: &Path) -> (Content, Revision) {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    let mut content = Content::new();
    let commit = |write| block_on(store.commit(Transaction::write([write]))).unwrap().revision;
    for number in 0..KEYS {
        commit(Write::put(format!("key-{number:04}"), value(number)));
        content.insert(format!("key-{number:04}"), value(number));
    }
    for number in (0..KEYS).step_by(10) {
        commit(Write::delete(format!("key-{number:04}")));
        content.remove(&format!("key-{number:04}"));
    }
    let mut last = Revision::FIRST;
    for number in (1..KEYS).step_by(10) {
        last = commit(Write::put(format!("key-{number:04}"), value(number + 5)));
        content.insert(format!("key-{number:04}"), value(number + 5));
    }
    // Without history, so that deletions have left no record.
    block_on(store.compact(last)).unwrap();
    block_on(store.close());
    (content, last)
}

fn content(directory: &Path) -> (Content, Revision) {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    let page = block_on(store.range(KeyRange::all(), None, usize::MAX)).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let content = page.entries.iter().map(|entry| (text(&entry.key), text(&entry.value))).collect();
    let next = block_on(store.commit(Transaction::write([Write::put("next", "")]))).unwrap().revision;
    block_on(store.close());
    (content, next)
}

#[test]
fn a_store_that_is_whole_is_found_to_be() {
    let root = tempfile::tempdir().unwrap();
    let (expected, last) = make(root.path());
    let before = fs::read(root.path().join("store.redb")).unwrap();
    let findings = check(root.path()).unwrap();
    assert!(findings.problem.is_none(), "{:?}", findings.problem);
    assert_eq!((findings.revision, findings.damaged), (Some(last), 0));
    assert_eq!((findings.entries.len(), findings.whole), (expected.len(), expected.len() as u64));
    assert_eq!(fs::read(root.path().join("store.redb")).unwrap(), before);
    // Also a whole one can be written anew.
    let to = root.path().join("to");
    findings.salvage_to(&to).unwrap();
    assert!(findings.salvage_to(&to).is_err(), "nothing is replaced");
    assert!(check(&to).unwrap().problem.is_none());
    let (found, next) = content(&to);
    assert_eq!(found, expected);
    assert!(next > last);
}

#[test]
fn of_one_damaged_value_only_that_one_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let (mut expected, last) = make(root.path());
    let file = root.path().join("store.redb");
    let mut bytes = fs::read(&file).unwrap();
    let target = value(123);
    let places: Vec<usize> = (0..bytes.len() - target.len())
        .filter(|at| bytes[*at] == b'v' && bytes[*at..].starts_with(target.as_bytes()))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + 30] ^= 1;
    }
    fs::write(&file, &bytes).unwrap();

    let findings = check(root.path()).unwrap();
    let problem = findings.problem.as_ref().unwrap().to_string();
    assert!(problem.ends_with("is corrupt: a record is damaged"), "{problem}");
    assert_eq!(findings.damaged, 1);
    assert_eq!(fs::read(&file).unwrap(), bytes, "it is not changed");
    let to = root.path().join("to");
    findings.salvage_to(&to).unwrap();
    let (found, next) = content(&to);
    expected.remove("key-0123");
    assert_eq!(found, expected, "and nothing that was deleted is back");
    assert!(next > last);
}

#[test]
fn without_an_index_the_records_are_found_by_themselves() {
    let root = tempfile::tempdir().unwrap();
    let (expected, last) = make(root.path());
    let file = root.path().join("store.redb");
    let whole = fs::read(&file).unwrap();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("the header is gone", |bytes| bytes[..4096].fill(0)),
        ("the mark of redb is gone", |bytes| bytes[0] ^= 0xff),
        ("the end is gone", |bytes| bytes.truncate(bytes.len() - 100)),
    ];
    for (what, damage) in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        let findings = check(root.path()).unwrap();
        assert!(findings.problem.is_some(), "{what}");
        let to = root.path().join(what);
        findings.salvage_to(&to).unwrap();
        let (found, next) = content(&to);
        assert!(next > last, "{what}");
        for (key, value) in &expected {
            assert_eq!(found.get(key), Some(value), "{what}: {key}");
        }
        // Whatever else is there is said to be doubtful.
        for key in found.keys().filter(|key| !expected.contains_key(*key)) {
            assert!(findings.entries[key.as_bytes()].doubtful, "{what}: {key}");
        }
    }
}

/// Whatever is damaged: no panic, no change, and what is saved was written once.
#[test]
fn no_damage_makes_up_values() {
    let root = tempfile::tempdir().unwrap();
    let (expected, _) = make(root.path());
    let file = root.path().join("store.redb");
    let whole = fs::read(&file).unwrap();
    let known = |key: &str, found: &str| {
        let number: usize = key.strip_prefix("key-").unwrap().parse().unwrap();
        found == value(number) || found == value(number + 5)
    };
    let mut lost = vec![];
    for (round, page) in (0..whole.len() / 4096).enumerate() {
        let mut bytes = whole.clone();
        let fill = [0x00, 0xff, 0x01, 0x02][round % 4];
        bytes[page * 4096..(page + 1) * 4096].fill(fill);
        fs::write(&file, &bytes).unwrap();
        let findings = check(root.path()).unwrap();
        assert_eq!(fs::read(&file).unwrap(), bytes, "page {page}");
        for (key, salvaged) in &findings.entries {
            let (key, found) = (std::str::from_utf8(key).unwrap(), &salvaged.entry.value);
            assert!(known(key, std::str::from_utf8(found).unwrap()), "page {page}: {key}");
        }
        lost.push(expected.keys().filter(|key| !findings.entries.contains_key(key.as_bytes())).count());
    }
    // One page of four kilobytes holds a few records; none takes others along.
    assert!(lost.iter().all(|lost| *lost <= 40), "{lost:?}");
}
