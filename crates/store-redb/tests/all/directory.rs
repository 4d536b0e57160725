//! Opening a directory: the lock, foreign files, restarts, damage.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{fs, path::Path, time::Duration};

use crate::support::{compare, disk::Disk, fresh, oldest, open as open_disk};
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
use sternpost_store_redb::{OpenError, Options, RedbStore};

fn open(directory: &Path) -> Result<RedbStore, OpenError> {
    RedbStore::open(directory, Options::default())
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
    for file in ["lock", "store.redb"] {
        assert_eq!(fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
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
        let mark = &b"sternpost-store\0\0\0\x02"[..];
        write.open_table(META).unwrap().insert("format", mark).unwrap();
        write.commit().unwrap();
    };
    type Make<'a> = &'a dyn Fn(&Path);
    let cases: [(Make<'_>, &str); 5] = [
        (&|file| fs::write(file, "").unwrap(), "is not a sternpost store: it is empty"),
        (&|file| fs::write(file, "hello").unwrap(), "is not a sternpost store: it is not a redb file"),
        (&|file| fs::write(file, [0; 10_000]).unwrap(), "is not a sternpost store: it is not a redb file"),
        (&theirs, "is not a sternpost store: it is the database of another program"),
        (&newer, "has format version 2, this program knows version 1"),
    ];
    for (make, message) in cases {
        let _ = fs::remove_file(&file);
        make(&file);
        let before = fs::read(&file).unwrap();
        let error = open(root.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` {message}", file.display()));
        assert!(fs::read(&file).unwrap() == before, "{message}: the file was changed");
    }
}

#[test]
fn a_file_whose_making_was_interrupted_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("store.redb.new"), [1; 5_000]).unwrap();
    let store = open(root.path()).unwrap();
    block_on(put(&store, "a", "1"));
    block_on(store.close());
    assert!(!root.path().join("store.redb.new").exists());
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
        assert_eq!(after[1].1.previous().unwrap().value, "2");
    });
}

#[test]
fn history_is_forgotten_on_disk_as_well() {
    block_on(async {
        let clock = ManualClock::at(1000);
        let retention =
            Retention { max_age: Duration::from_secs(300), max_events: 500, max_bytes: usize::MAX };
        let options = || Options { retention, clock: clock.clock(), ..Options::default() };
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
        let options = || Options { retention, clock: clock.clock(), tick, ..Options::default() };
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
        let store = open_disk(&disk, Options::default());
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

#[test]
fn a_changed_byte_is_found_or_harmless() {
    let (disk, model) = sample(7);
    let image = disk.image();
    let used: Vec<usize> = (0..image.len()).filter(|index| image[*index] != 0).collect();
    let (mut rng, mut refused) = (Rng::new(7), 0);
    for case in 0..400 {
        let mut damaged = image.clone();
        let index = used[usize::try_from(rng.below(used.len() as u64)).unwrap()];
        damaged[index] ^= 1 << rng.below(8);
        let disk = Disk::with(damaged);
        match RedbStore::open_on(disk.clone(), Options::default()) {
            Ok(store) => block_on(async {
                println!("case {case}: byte {index} did not matter");
                compare(&store, &model).await;
            }),
            Err(error) => {
                println!("case {case}: {error}");
                assert_eq!(disk.operations(), 0, "a refused file was changed");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}
