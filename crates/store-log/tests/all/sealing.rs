//! Values that stand on the disk as something else.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use sternpost_store::{
    CommitError, Store, Transaction, Write,
    conformance::{self, block_on},
    retention::Retention,
};
use sternpost_store_log::{OpenError, Opened, Options, Sealing};

use crate::support::{disk::Disk, fresh, open, options as small, places, try_open};

const SECRET: &[u8] = b"a value that nobody may see";

/// Turns values around behind the name of a key, which must be known to turn them back. What is not
/// turned is taken as it is, but as stale.
#[derive(Debug)]
struct Turned(&'static [&'static str]);

impl Sealing for Turned {
    fn overhead(&self) -> usize {
        256
    }

    fn seal(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        if key.starts_with(b"public/") {
            return Ok(None);
        }
        let name = self.0.first().ok_or("no key")?;
        Ok(Some([b"turned:", name.as_bytes(), b":", &turned(value)].concat()))
    }

    fn open(&self, key: &[u8], written: &[u8]) -> Result<Opened, String> {
        let Some(rest) = written.strip_prefix(b"turned:") else {
            return Ok(Opened { value: None, stale: !key.starts_with(b"public/") });
        };
        for (at, name) in self.0.iter().enumerate() {
            if let Some(rest) = rest.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b":")) {
                return Ok(Opened { value: Some(turned(rest)), stale: at != 0 });
            }
        }
        Err("its key is gone".to_owned())
    }
}

fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

fn options(keys: &'static [&'static str]) -> Options {
    Options { sealing: Arc::new(Turned(keys)), ..small() }
}

fn put(key: &str, value: impl AsRef<[u8]>) -> Transaction {
    Transaction::write([Write::put(key.to_owned(), value.as_ref().to_vec())])
}

fn holds(disk: &Disk, part: &[u8]) -> bool {
    disk.image().values().any(|bytes| !places(bytes, part).is_empty())
}

async fn value(store: &impl Store, key: &'static str) -> Option<Vec<u8>> {
    let found = store.get(key.into(), None).await.unwrap();
    found.entry.map(|entry| entry.value().to_vec())
}

#[test]
fn conforms_with_values_that_are_sealed() {
    let options =
        || Options { retention: Retention::UNBOUNDED, snapshot_after: 1, ..options(&["new", "old"]) };
    conformance::run(&|| Arc::new(open(&fresh(), options())), 0..10);
}

#[test]
fn what_is_sealed_is_neither_in_the_log_nor_in_a_snapshot() {
    block_on(async {
        for (sealed, snapshot_after) in [(false, 1), (true, 1), (false, 1 << 30), (true, 1 << 30)] {
            let disk = fresh();
            let sealing = if sealed { options(&["a"]) } else { small() };
            let store = open(&disk, Options { snapshot_after, ..sealing });
            store.commit(put("secret/x", SECRET)).await.unwrap();
            store.commit(put("secret/x", "another")).await.unwrap();
            store.close().await;
            assert_eq!(holds(&disk, SECRET), !sealed, "snapshot after {snapshot_after}");
        }
    });
}

#[test]
fn what_is_not_sealed_stands_as_it_is() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, options(&["a"]));
        store.commit(put("public/x", SECRET)).await.unwrap();
        store.close().await;
        assert!(holds(&disk, SECRET));
    });
}

#[test]
fn a_key_that_is_gone_is_told_of_and_nothing_is_changed() {
    block_on(async {
        let disk = fresh();
        let store = open(&disk, options(&["old"]));
        store.commit(put("secret/x", SECRET)).await.unwrap();
        store.close().await;
        let disk = disk.after_restart();
        let before = disk.image();
        match try_open(&disk, options(&["new"])) {
            Err(OpenError::Sealed { key, reason, .. }) => {
                assert_eq!((key.as_str(), reason.as_str()), ("secret/x", "its key is gone"));
            }
            other => panic!("{other:?}"),
        }
        assert!(disk.image() == before);
        let store = open(&disk, options(&["new", "old"]));
        assert_eq!(value(&store, "secret/x").await.as_deref(), Some(SECRET));
    });
}

#[test]
fn what_is_stale_is_sealed_anew_after_the_next_write() {
    block_on(async {
        for before in [small(), options(&["old"])] {
            let disk = fresh();
            let store = open(&disk, before);
            store.commit(put("secret/x", SECRET)).await.unwrap();
            store.close().await;
            let disk = disk.after_restart();
            let store = open(&disk, options(&["new", "old"]));
            store.commit(put("public/y", "1")).await.unwrap();
            while disk.image().contains_key("log-1") {
                std::thread::sleep(Duration::from_millis(1));
            }
            store.close().await;
            let disk = disk.after_restart();
            assert!(!holds(&disk, SECRET));
            let store = open(&disk, options(&["new"]));
            assert_eq!(value(&store, "secret/x").await.as_deref(), Some(SECRET));
        }
    });
}

/// One that changes while the store is open.
#[derive(Debug)]
struct Changing(Mutex<Now>);

#[derive(Debug, Clone)]
struct Now {
    keys: &'static [&'static str],
    /// Why nothing secret may be written.
    refusing: Option<&'static str>,
    /// The same, said too late.
    failing: Option<&'static str>,
}

impl Changing {
    fn new(keys: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Now { keys, refusing: None, failing: None })))
    }

    fn now(&self) -> Now {
        self.0.lock().unwrap().clone()
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.0.lock().unwrap());
    }
}

impl Sealing for Changing {
    fn overhead(&self) -> usize {
        256
    }

    fn can_seal(&self, key: &[u8]) -> Result<(), String> {
        match self.now().refusing {
            Some(why) if !key.starts_with(b"public/") => Err(why.to_owned()),
            _ => Ok(()),
        }
    }

    fn seal(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self.now().failing {
            Some(why) if !key.starts_with(b"public/") => Err(why.to_owned()),
            _ => Turned(self.now().keys).seal(key, value),
        }
    }

    fn open(&self, key: &[u8], written: &[u8]) -> Result<Opened, String> {
        Turned(self.now().keys).open(key, written)
    }
}

#[test]
fn a_sealing_that_changes_is_used_at_once_and_everything_sealed_anew_when_asked_for() {
    block_on(async {
        let (disk, sealing) = (fresh(), Changing::new(&["old"]));
        let store = open(&disk, Options { sealing: sealing.clone(), ..small() });
        store.commit(put("secret/x", SECRET)).await.unwrap();
        assert!(holds(&disk, b"turned:old:"));
        sealing.change(|now| now.keys = &["new", "old"]);
        store.commit(put("secret/y", "1")).await.unwrap();
        assert!(holds(&disk, b"turned:new:") && holds(&disk, b"turned:old:"));
        store.resealing()();
        while holds(&disk, b"turned:old:") {
            std::thread::sleep(Duration::from_millis(1));
        }
        store.close().await;
        let store = open(&disk.after_restart(), options(&["new"]));
        assert_eq!(value(&store, "secret/x").await.as_deref(), Some(SECRET));
        assert_eq!(value(&store, "secret/y").await.as_deref(), Some(b"1".as_slice()));
    });
}

#[test]
fn what_cannot_be_sealed_now_is_refused_alone_and_the_store_goes_on() {
    block_on(async {
        let (disk, sealing) = (fresh(), Changing::new(&["a"]));
        // Every write begins a snapshot, which cannot be written either while sealing fails.
        let store = open(&disk, Options { sealing: sealing.clone(), snapshot_after: 1, ..small() });
        store.commit(put("secret/x", SECRET)).await.unwrap();
        for too_late in [false, true] {
            sealing.change(|now| {
                (now.refusing, now.failing) =
                    if too_late { (None, Some("no key")) } else { (Some("no key"), None) };
            });
            let refused = store.commit(put("secret/x", "2")).await;
            assert_eq!(refused, Err(CommitError::Unavailable { reason: "no key".to_owned() }));
            store.commit(put("public/y", "1")).await.unwrap();
            store.commit(put("public/y", "2")).await.unwrap();
            store.commit(Transaction::write([Write::delete("secret/z")])).await.unwrap();
            assert_eq!(value(&store, "secret/x").await.as_deref(), Some(SECRET));
            assert_eq!(store.refusing()(), None);
        }
        sealing.change(|now| now.failing = None);
        store.commit(put("secret/x", "3")).await.unwrap();
        store.close().await;
        let store = open(&disk.after_restart(), options(&["a"]));
        assert_eq!(value(&store, "secret/x").await.as_deref(), Some(b"3".as_slice()));
    });
}
