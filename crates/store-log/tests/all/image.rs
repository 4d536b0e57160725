//! Stores that are read while they are written to, and made again of what was read.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use sternpost_store::{
    KeyRange, Revision, Store, Transaction, Write, conformance::block_on, retention::Retention,
};
use sternpost_store_log::{Image, LogStore, OpenError, Options, Plain};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn content(image: &Image) -> BTreeMap<String, String> {
    image.entries.iter().map(|entry| (text(entry.key()), text(entry.value()))).collect()
}

/// Every transaction writes its number to two keys, makes a key of its number and takes away an older one. Snapshots are
/// written and logs removed all the time.
#[test]
fn what_is_read_beside_a_writer_is_the_state_after_one_of_its_transactions() {
    const KEPT: u64 = 50;
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        snapshot_after: 20_000,
        tick: Duration::from_millis(1),
        // Little to read each time.
        allocation: 16 << 10,
        retention: Retention { max_events: 100, ..Retention::default() },
        ..Options::default()
    };
    let store = Arc::new(LogStore::open(directory.path(), options).unwrap());
    let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (store, ended, answered) = (store.clone(), ended.clone(), answered.clone());
        std::thread::spawn(move || {
            let mut number = 0_u64;
            while !ended.load(Ordering::SeqCst) {
                number += 1;
                let value = format!("{number:08}-").repeat((number % 40) as usize + 1);
                let mut writes = vec![
                    Write::put("left", value.clone()),
                    Write::put("right", value.clone()),
                    Write::put(format!("number-{number:08}"), value),
                ];
                if number > KEPT {
                    writes.push(Write::delete(format!("number-{:08}", number - KEPT)));
                }
                block_on(store.commit(Transaction::write(writes))).unwrap();
                answered.store(number, Ordering::SeqCst);
            }
        })
    };
    let (mut read, mut last, mut numbers) = (0, Revision::FIRST, vec![]);
    // Until several snapshots have replaced each other.
    let newest_log = || {
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("log-")?.parse::<u64>().ok());
        numbers.max().unwrap_or_default()
    };
    while read < 100 || newest_log() < 6 {
        let before = answered.load(Ordering::SeqCst);
        let image = Image::read(directory.path()).unwrap();
        read += 1;
        assert!(image.revision >= last && image.reserved >= image.revision);
        last = image.revision;
        assert!(image.entries.iter().all(|entry| entry.modified <= image.revision));
        let found = content(&image);
        assert_eq!(found.get("left"), found.get("right"));
        let number = found.get("left").map_or(0, |value| value[..8].parse::<u64>().unwrap());
        assert!(number >= before, "{number} was read after {before} was answered");
        let expected: Vec<String> = (number.saturating_sub(KEPT - 1).max(1)..=number)
            .map(|number| format!("number-{number:08}"))
            .collect();
        let keys: Vec<&String> = found.keys().filter(|key| key.starts_with("number-")).collect();
        assert_eq!(keys, expected.iter().collect::<Vec<_>>());
        numbers.push(number);
    }
    ended.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    assert!(numbers.last() > numbers.first());
    block_on(store.close());
    assert_eq!(
        content(&Image::read(directory.path()).unwrap())["left"][..8].parse(),
        Ok(answered.load(Ordering::SeqCst))
    );
}

#[test]
fn a_store_that_is_made_of_it_goes_on_above_it() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let store = LogStore::open(&from, Options::default()).unwrap();
    for number in 0..30 {
        block_on(store.commit(Transaction::write([Write::put(format!("key-{number}"), "value")]))).unwrap();
    }
    // Beside the open store, whose revisions are reserved ahead.
    let mut image = Image::read(&from).unwrap();
    assert!(image.reserved > image.revision);
    image.revision = image.reserved;
    image.create(&to, Arc::new(Plain)).unwrap();
    let again = Image::read(&to).unwrap();
    assert_eq!(
        (again.revision, again.reserved, &again.entries),
        (image.revision, image.reserved, &image.entries)
    );
    assert!(matches!(image.create(&to, Arc::new(Plain)), Err(OpenError::Io { .. })), "nothing is replaced");

    let copy = LogStore::open(&to, Options::default()).unwrap();
    let page = block_on(copy.range(KeyRange::all(), None, 100)).unwrap();
    assert_eq!(page.entries, image.entries);
    // Whoever watched the other one lists again.
    assert!(block_on(copy.watch(KeyRange::all(), Revision::FIRST)).is_err());
    let next = block_on(copy.commit(Transaction::write([Write::put("next", "")]))).unwrap().revision;
    assert!(next > image.reserved);
}

#[test]
fn damage_is_refused_and_nothing_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    assert!(matches!(Image::read(path), Err(OpenError::Io { .. })));
    let store = LogStore::open(path, Options::default()).unwrap();
    for number in 0..30 {
        let value = format!("value-{number}").repeat(100);
        block_on(store.commit(Transaction::write([Write::put(format!("key-{number}"), value)]))).unwrap();
    }
    block_on(store.close());
    let log = path.join("log-1");
    let whole = fs::read(&log).unwrap();
    for damage in [3_usize, 60, 140, 5_000, 20_000] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 1;
        fs::write(&log, &bytes).unwrap();
        assert!(Image::read(path).is_err(), "{damage}");
        assert_eq!(fs::read(&log).unwrap(), bytes);
    }
    // In the middle, as if it had never been written.
    let mut bytes = whole.clone();
    bytes[4096..8192].fill(0);
    fs::write(&log, &bytes).unwrap();
    assert!(matches!(Image::read(path), Err(OpenError::Corrupt { .. })));
    fs::write(&log, &whole[..whole.len() - 4096]).unwrap();
    assert!(matches!(Image::read(path), Err(OpenError::Corrupt { .. })));
    fs::write(&log, &whole).unwrap();
    assert_eq!(Image::read(path).unwrap().entries.len(), 30);
}
