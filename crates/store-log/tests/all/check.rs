//! Checking stores, and saving what is whole of damaged ones.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use crate::{
    import,
    support::{old, places},
};

use sternpost_store::{KeyRange, Revision, Store, Transaction, Write, conformance::block_on};
use sternpost_store_log::{LogStore, Options, check::check};

type Content = BTreeMap<String, String>;

const KEYS: usize = 300;

fn value(number: usize) -> String {
    // Some larger than a page.
    format!("value-of-{number:04}-").repeat(if number % 50 == 7 { 2000 } else { 20 })
}

/// Where the records of a store are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    Log,
    Snapshot,
}

impl In {
    fn file(self) -> &'static str {
        match self {
            Self::Log => "log-1",
            Self::Snapshot => "snapshot-2",
        }
    }
}

/// A store with deleted, replaced and untouched keys.
fn make(directory: &Path, place: In) -> (Content, Revision) {
    let store = LogStore::open(directory, Options::default()).unwrap();
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
    if place == In::Snapshot {
        let options = Options { snapshot_after: 1, tick: Duration::from_millis(1), ..Options::default() };
        let store = LogStore::open(directory, options).unwrap();
        while directory.join("log-1").exists() || directory.join("snapshot-1").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        block_on(store.close());
    }
    (content, last)
}

fn content(directory: &Path) -> (Content, Revision) {
    let store = LogStore::open(directory, Options::default()).unwrap();
    let page = block_on(store.range(KeyRange::all(), None, usize::MAX)).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let content = page.entries.iter().map(|entry| (text(entry.key()), text(entry.value()))).collect();
    let next = block_on(store.commit(Transaction::write([Write::put("next", "")]))).unwrap().revision;
    block_on(store.close());
    (content, next)
}

/// All files but the lock.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let names =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name != "lock")
        .map(|name| (name.clone(), fs::read(directory.join(name)).unwrap()))
        .collect()
}

#[test]
fn a_store_that_is_whole_is_found_to_be() {
    for place in [In::Log, In::Snapshot] {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (expected, last) = make(root.path(), place);
        let before = files(root.path());
        let findings = check(root.path()).unwrap();
        assert!(findings.problem.is_none(), "{:?}", findings.problem);
        assert_eq!((findings.revision, findings.damaged), (Some(last), 0));
        assert_eq!((findings.entries.len(), findings.whole), (expected.len(), expected.len() as u64));
        assert!(files(root.path()) == before, "{place:?}: it is not changed");
        // Also a whole one can be written anew.
        let to = other.path().join("to");
        findings.salvage_to(&to).unwrap();
        assert!(findings.salvage_to(&to).is_err(), "nothing is replaced");
        assert!(check(&to).unwrap().problem.is_none());
        let (found, next) = content(&to);
        assert_eq!(found, expected);
        assert!(next > last);
    }
}

#[test]
fn a_directory_without_a_store_is_told() {
    let root = tempfile::tempdir().unwrap();
    assert!(check(root.path()).is_err());
    assert!(check(&root.path().join("missing")).is_err());
    assert!(!root.path().join("missing").exists());
}

#[test]
fn of_one_damaged_value_only_that_one_is_lost() {
    for place in [In::Log, In::Snapshot] {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut expected, last) = make(root.path(), place);
        let file = root.path().join(place.file());
        let mut bytes = fs::read(&file).unwrap();
        let found = places(&bytes, value(123).as_bytes());
        assert_eq!(found.len(), 1, "{place:?}");
        bytes[found[0] + 30] ^= 1;
        fs::write(&file, &bytes).unwrap();

        let findings = check(root.path()).unwrap();
        let problem = findings.problem.as_ref().unwrap().to_string();
        assert_eq!(problem, format!("`{}` is corrupt: a record is damaged", file.display()));
        assert_eq!(findings.damaged, 1);
        assert_eq!(findings.expected, Some(findings.whole + 1));
        assert_eq!(fs::read(&file).unwrap(), bytes, "it is not changed");
        let to = other.path().join("to");
        findings.salvage_to(&to).unwrap();
        let (found, next) = content(&to);
        expected.remove("key-0123");
        assert_eq!(found, expected, "{place:?}: and nothing that was deleted is back");
        assert!(findings.entries.values().all(|salvaged| !salvaged.doubtful), "{place:?}");
        assert!(next > last);
    }
}

/// An older value of a key whose newest is damaged is better than none, but not the truth.
#[test]
fn a_value_of_which_a_later_change_is_damaged_is_doubtful() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut expected, _) = make(root.path(), In::Log);
    let file = root.path().join("log-1");
    let mut bytes = fs::read(&file).unwrap();
    // The key 1 was changed to this, and the key 6 has it too.
    let found = places(&bytes, value(6).as_bytes());
    assert_eq!(found.len(), 2);
    bytes[found[1] + 30] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let findings = check(root.path()).unwrap();
    let doubtful: Vec<_> = findings.entries.iter().filter(|(_, salvaged)| salvaged.doubtful).collect();
    assert_eq!(doubtful.len(), 1);
    assert_eq!(
        (doubtful[0].0.as_ref(), doubtful[0].1.entry.value()),
        (&b"key-0001"[..], value(1).as_bytes())
    );
    let to = other.path().join("to");
    findings.salvage_to(&to).unwrap();
    expected.insert("key-0001".to_owned(), value(1));
    assert_eq!(content(&to).0, expected);
}

#[test]
fn without_what_leads_to_them_the_records_are_found_by_themselves() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage, bool); 4] = [
        ("the header is gone", |bytes| bytes[..128].fill(0), true),
        ("the mark is gone", |bytes| bytes[0] ^= 0xff, true),
        ("all is shorter by a little", |bytes| bytes.truncate(bytes.len() - 100), false),
        ("the first frame is gone", |bytes| bytes[128..160].fill(0), false),
    ];
    for place in [In::Log, In::Snapshot] {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (expected, last) = make(root.path(), place);
        let file = root.path().join(place.file());
        let whole = fs::read(&file).unwrap();
        for (what, damage, all) in damages {
            let mut bytes = whole.clone();
            damage(&mut bytes);
            fs::write(&file, &bytes).unwrap();
            let findings = check(root.path()).unwrap();
            assert!(findings.problem.is_some(), "{what}");
            let to = other.path().join(format!("{place:?} {what}"));
            findings.salvage_to(&to).unwrap();
            let (found, next) = content(&to);
            assert!(next > last, "{what}");
            // The first frame of the log has no record, and its end has been zeroes.
            if all || place == In::Log {
                for (key, value) in &expected {
                    assert_eq!(found.get(key), Some(value), "{what}: {key}");
                }
            } else {
                assert!(found.len() + 20 > expected.len(), "{what}: {}", found.len());
            }
            // Whatever else is there is said to be doubtful.
            for (key, value) in found.iter().filter(|(key, value)| expected.get(*key) != Some(*value)) {
                assert!(findings.entries[key.as_bytes()].doubtful, "{what}: {key} {value}");
            }
        }
    }
}

/// Whatever is damaged: no panic, no change, what is saved was written once, and is the newest or
/// said to be doubtful.
#[test]
fn no_damage_makes_up_values() {
    let known = |key: &str, found: &str| {
        let number: usize = key.strip_prefix("key-").unwrap().parse().unwrap();
        found == value(number) || found == value(number + 5)
    };
    for place in [In::Log, In::Snapshot] {
        let root = tempfile::tempdir().unwrap();
        let (expected, _) = make(root.path(), place);
        let file = root.path().join(place.file());
        let whole = fs::read(&file).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let mut lost = vec![];
        for (round, page) in (0..used.div_ceil(4096)).enumerate() {
            let mut bytes = whole.clone();
            let fill = [0x00, 0xff, 0x01, 0x02][round % 4];
            let end = bytes.len().min((page + 1) * 4096);
            bytes[page * 4096..end].fill(fill);
            fs::write(&file, &bytes).unwrap();
            let findings = check(root.path()).unwrap();
            assert!(findings.problem.is_some(), "page {page}");
            assert_eq!(fs::read(&file).unwrap(), bytes, "page {page}");
            for (key, salvaged) in &findings.entries {
                let (key, found) = (std::str::from_utf8(key).unwrap(), salvaged.entry.value());
                let found = std::str::from_utf8(found).unwrap();
                assert!(known(key, found), "page {page}: {key}");
                let newest = expected.get(key).is_some_and(|expected| expected == found);
                assert!(newest || salvaged.doubtful, "{place:?}, page {page}: {key}");
            }
            lost.push(expected.keys().filter(|key| !findings.entries.contains_key(key.as_bytes())).count());
        }
        // One page of four kilobytes holds a few records; none takes others along.
        assert!(lost.iter().all(|lost| *lost <= 40), "{place:?}: {lost:?}");
    }
}

/// The directory of a store of format version 1.
fn make_old(directory: &Path) -> std::path::PathBuf {
    let file = directory.join("store.redb");
    fs::write(&file, old("closed.redb.gz")).unwrap();
    file
}

#[test]
fn an_old_store_is_checked_without_being_taken_over() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_old(root.path());
    let before = files(root.path());
    let findings = check(root.path()).unwrap();
    assert!(findings.problem.is_none(), "{:?}", findings.problem);
    let (expected, _, last) = import::expected();
    assert_eq!((findings.revision, findings.damaged), (Some(last), 0));
    // Those of the state that history begins with, and seven changes.
    assert_eq!((findings.entries.len(), findings.whole), (expected.len(), 270 + 7));
    assert!(files(root.path()) == before);
    let to = other.path().join("to");
    findings.salvage_to(&to).unwrap();
    let (found, next) = content(&to);
    assert_eq!(found, expected);
    assert!(next > last);
}

#[test]
fn of_one_damaged_value_of_an_old_store_only_that_one_is_lost() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = make_old(root.path());
    let mut bytes = fs::read(&file).unwrap();
    let target = value(123);
    let found: Vec<usize> = (0..bytes.len() - target.len())
        .filter(|at| bytes[*at] == b'v' && bytes[*at..].starts_with(target.as_bytes()))
        .collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at + 30] ^= 1;
    }
    fs::write(&file, &bytes).unwrap();

    let findings = check(root.path()).unwrap();
    let problem = findings.problem.as_ref().unwrap().to_string();
    assert!(problem.ends_with("store.redb` is corrupt: a record is damaged"), "{problem}");
    assert_eq!(findings.damaged, 1);
    assert_eq!(fs::read(&file).unwrap(), bytes, "it is not changed");
    let to = other.path().join("to");
    findings.salvage_to(&to).unwrap();
    let (found, next) = content(&to);
    let (mut expected, _, last) = import::expected();
    expected.remove("key-0123");
    assert_eq!(found, expected, "and nothing that was deleted is back");
    assert!(next > last);
}

#[test]
fn without_an_index_the_records_of_an_old_store_are_found_by_themselves() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = make_old(root.path());
    let whole = fs::read(&file).unwrap();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("the header is gone", |bytes| bytes[..4096].fill(0)),
        ("the mark of redb is gone", |bytes| bytes[0] ^= 0xff),
        ("the end is gone", |bytes| bytes.truncate(bytes.len() - 100)),
    ];
    let (expected, _, last) = import::expected();
    for (what, damage) in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        let findings = check(root.path()).unwrap();
        assert!(findings.problem.is_some(), "{what}");
        let to = other.path().join(what);
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

#[test]
fn no_damage_to_an_old_store_makes_up_values() {
    let root = tempfile::tempdir().unwrap();
    let file = make_old(root.path());
    let whole = fs::read(&file).unwrap();
    let (expected, ..) = import::expected();
    let known = |key: &str, found: &str| match key.strip_prefix("key-") {
        Some(number) => {
            let number: usize = number.parse().unwrap();
            found == value(number)
                || found == value(number + 5)
                || expected.get(key).is_some_and(|text| text == found)
        }
        None => ["1", "2"].contains(&found),
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
            let (key, found) = (std::str::from_utf8(key).unwrap(), salvaged.entry.value());
            assert!(known(key, std::str::from_utf8(found).unwrap()), "page {page}: {key}");
        }
        lost.push(expected.keys().filter(|key| !findings.entries.contains_key(key.as_bytes())).count());
    }
    // One page of four kilobytes holds a few records; none takes others along.
    assert!(lost.iter().all(|lost| *lost <= 40), "{lost:?}");
}
