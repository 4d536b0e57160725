//! Opening a directory: the lock, foreign files, restarts, damage.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{fs, path::Path, time::Duration};

use crate::support::{compare, disk::Disk, fresh, oldest, open as open_disk, options as small, try_open};
use redb::TableDefinition;
use sternpost_clock::manual::ManualClock;
use sternpost_store::{
    KeyRange, Revision, Store, Transaction, Write,
    conformance::{
        Rng, block_on, drain,
        model::Model,
        random::{commit, transaction},
    },
    retention::Retention,
};
use sternpost_store_log::{LogStore, OpenError, Options};

fn open(directory: &Path) -> Result<LogStore, OpenError> {
    LogStore::open(directory, Options::default())
}

async fn put(store: &dyn Store, key: &'static str, value: &'static str) -> Revision {
    store.commit(Transaction::write([Write::put(key, value)])).await.unwrap().revision
}

#[test]
fn two_stores_in_one_directory_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("made/on/the/way");
    let first = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` is in use by another process", path.display()));
    block_on(first.close());
    open(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn the_directory_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    for file in ["lock", "store.redb", "log-1", "snapshot-1"] {
        assert_eq!(fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn an_old_store_that_is_not_ours_is_refused_and_left_alone() {
    const TABLE: TableDefinition<&str, &str> = TableDefinition::new("theirs");
    const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("store.redb");
    let theirs = |file: &Path| {
        let database = redb::Database::create(file).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(TABLE).unwrap().insert("key", "value").unwrap();
        write.commit().unwrap();
    };
    let newer = |file: &Path| {
        let database = redb::Database::create(file).unwrap();
        let write = database.begin_write().unwrap();
        let mark = &b"sternpost-store\0\0\0\x03"[..];
        write.open_table(META).unwrap().insert("format", mark).unwrap();
        write.commit().unwrap();
    };
    type Make<'a> = &'a dyn Fn(&Path);
    let cases: [(Make<'_>, &str); 5] = [
        (&|file| fs::write(file, "").unwrap(), "is not a sternpost store: it is empty"),
        (&|file| fs::write(file, "hello").unwrap(), "is not a sternpost store: it is not a redb file"),
        (&|file| fs::write(file, [0; 10_000]).unwrap(), "is not a sternpost store: it is not a redb file"),
        (&theirs, "is not a sternpost store: it is the database of another program"),
        (&newer, "has format version 3, this program knows version 2"),
    ];
    for (make, message) in cases {
        let _ = fs::remove_file(&file);
        make(&file);
        let before = fs::read(&file).unwrap();
        let error = open(root.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` {message}", file.display()));
        assert!(fs::read(&file).unwrap() == before, "{message}: the file was changed");
        let mut names: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["lock", "store.redb"], "{message}");
    }
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let whole = fresh().image();
    type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);
    let cases: [(Damage<'_>, &str); 6] = [
        (&|bytes| bytes.clear(), "is not a sternpost store: it is empty"),
        (&|bytes| *bytes = b"hello".to_vec(), "is not a sternpost store: it does not begin as one"),
        (&|bytes| bytes.fill(0), "is not a sternpost store: it does not begin as one"),
        (&|bytes| bytes[19] = 3, "has format version 3, this program knows version 2"),
        (&|bytes| bytes[31] = 9, "is corrupt: its header is damaged"),
        (&|bytes| bytes.push(1), "is corrupt: it"),
    ];
    for name in ["log-1", "snapshot-1"] {
        for (damage, message) in cases {
            // A log may have grown.
            if name == "log-1" && message == "is corrupt: it" {
                continue;
            }
            let mut image = whole.clone();
            damage(image.get_mut(name).unwrap());
            let disk = Disk::with(&image);
            let error = try_open(&disk, small()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`disk/{name}` {message}")), "{error}");
            assert_eq!((disk.operations(), disk.image() == image), (0, true), "{message}");
        }
    }
    for (missing, message) in [
        ("log-1", "`disk/snapshot-1` is corrupt: the log that belongs to it is missing"),
        ("snapshot-1", "`disk` is corrupt: there are logs, but no snapshot"),
    ] {
        let mut image = whole.clone();
        image.remove(missing);
        let disk = Disk::with(&image);
        assert_eq!(try_open(&disk, small()).unwrap_err().to_string(), message);
        assert_eq!(disk.operations(), 0);
    }
}

#[test]
fn a_file_whose_making_was_interrupted_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let names = ["store.redb.new", "log.new", "snapshot.new"];
    for name in names {
        fs::write(root.path().join(name), [1; 5_000]).unwrap();
    }
    let store = open(root.path()).unwrap();
    block_on(put(&store, "a", "1"));
    block_on(store.close());
    for name in names {
        assert!(!root.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_watch_resumes_across_restarts() {
    let root = tempfile::tempdir().unwrap();
    block_on(async {
        let store = open(root.path()).unwrap();
        let first = put(&store, "a", "1").await;
        let second = put(&store, "a", "2").await;
        let mut watch = store.watch(KeyRange::all(), first).await.unwrap();
        let before = drain(&mut watch).await;
        store.close().await;
        assert!(watch.next().await.is_err());

        let store = open(root.path()).unwrap();
        assert_eq!(store.current_revision().await, Ok(second));
        let third = put(&store, "a", "3").await;
        assert_eq!(Some(third), second.plus(1), "a clean stop leaves no gap");
        let mut watch = store.watch(KeyRange::all(), first).await.unwrap();
        let after = drain(&mut watch).await;
        assert_eq!((&after[..1], after.len()), (&before[..], 2));
        assert_eq!(after[1].1.previous().unwrap().value(), b"2");
    });
}

#[test]
fn history_is_forgotten_on_disk_as_well() {
    block_on(async {
        let clock = ManualClock::at(1000);
        let retention =
            Retention { max_age: Duration::from_secs(300), max_events: 500, max_bytes: usize::MAX };
        let options = || Options { retention, clock: clock.clock(), ..small() };
        let mut disk = fresh();
        let mut store = open_disk(&disk, options());
        for _ in 0..700 {
            put(&store, "a", "1").await;
        }
        let by_count = oldest(&store).await;
        assert!(by_count > Revision::FIRST);
        store.close().await;
        disk = disk.after_restart();
        store = open_disk(&disk, options());
        assert_eq!(oldest(&store).await, by_count, "forgotten history does not come back");

        // Ages survive a restart.
        clock.advance(Duration::from_secs(300));
        put(&store, "b", "1").await;
        let before = oldest(&store).await;
        clock.advance(Duration::from_millis(1));
        // A few at a time.
        let mut last = before;
        for _ in 0..20 {
            last = put(&store, "b", "1").await;
        }
        assert!(oldest(&store).await > before);
        assert!(oldest(&store).await < last);
        let mut watch = store.watch(KeyRange::all(), oldest(&store).await).await.unwrap();
        assert!(drain(&mut watch).await.len() <= 22);
    });
}

#[test]
fn a_store_that_nobody_writes_to_forgets_as_well() {
    block_on(async {
        let clock = ManualClock::at(1000);
        let retention = Retention { max_age: Duration::from_secs(300), ..Retention::UNBOUNDED };
        let tick = Duration::from_millis(1);
        let options = || Options { retention, clock: clock.clock(), tick, ..small() };
        let disk = fresh();
        let store = open_disk(&disk, options());
        let mut last = Revision::FIRST;
        // More than one tick forgets in one commit.
        for number in 0..2_500 {
            let key = format!("{}", number % 10);
            last = store.commit(Transaction::write([Write::put(key, "1")])).await.unwrap().revision;
        }
        clock.advance(Duration::from_secs(300));
        std::thread::sleep(20 * tick);
        assert_eq!(oldest(&store).await, Revision::FIRST, "none is too old yet");
        clock.advance(Duration::from_millis(1));
        while oldest(&store).await != last {
            std::thread::sleep(tick);
        }
        let before = store.range(KeyRange::all(), None, 100).await.unwrap().entries;
        assert_eq!(before.len(), 10);
        store.close().await;
        let store = open_disk(&disk.after_restart(), options());
        assert_eq!(oldest(&store).await, last);
        assert_eq!(store.range(KeyRange::all(), None, 100).await.unwrap().entries, before);
        let watch = store.watch(KeyRange::all(), last).await;
        assert!(watch.is_ok(), "whoever has seen everything goes on");
    });
}

/// A store with some history, closed, and its model.
fn sample(seed: u64) -> (Disk, Model) {
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    let disk = fresh();
    block_on(async {
        let store = open_disk(&disk, small());
        for step in 0..60 {
            let transaction = transaction(&mut rng, &model, step);
            commit(&store, &mut model, transaction).await;
            if step == 30 {
                store.compact(model.current()).await.unwrap();
                model.compacted = model.current();
            }
        }
        store.close().await;
    });
    (disk, model)
}

/// Every bit of every file.
#[test]
fn a_changed_bit_is_found_or_harmless() {
    let (disk, model) = sample(7);
    let image = disk.image();
    let mut refused = 0;
    for (name, bytes) in &image {
        for (index, byte) in bytes.iter().enumerate() {
            // What was never written is zero; a few of those are enough.
            if *byte == 0 && index % 64 != 0 {
                continue;
            }
            let mut damaged = image.clone();
            damaged.get_mut(name).unwrap()[index] ^= 1 << (index % 8);
            let disk = Disk::with(&damaged);
            match try_open(&disk, small()) {
                Ok(store) => block_on(async {
                    println!("{name}, byte {index}: it did not matter");
                    compare(&store, &model).await;
                    store.close().await;
                }),
                Err(error) => {
                    assert!(error.to_string().contains(name.as_str()), "{name}, byte {index}: {error}");
                    assert_eq!(disk.operations(), 0, "{name}, byte {index}: a refused store was changed");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}
