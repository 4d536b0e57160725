//! Values that stand on the disk as something else.

use std::{sync::Arc, time::Duration};

use sternpost_store::{
    Store, Transaction, Write,
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
    fn seals(&self) -> bool {
        true
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
