//! What is told of etcd: how long it takes, and whether it answers.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod fake;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fake::{Fake, Fault, Faults, PATIENCE, memory, pair, put, runtime, value};
use sternpost_clock::machine;
use sternpost_store::{
    Bytes, CommitError, KeyRange, ReadError, Revision, Stopped, Store, Transaction, Write,
};
use sternpost_store_etcd::{EtcdStore, Observe, Options, grpc::code};
use tokio::runtime::Handle;

#[derive(Debug, Default)]
struct Observed(Mutex<Vec<(&'static str, String, bool)>>);

impl Observe for Observed {
    fn request(&self, operation: &'static str, key: &[u8], _: Duration, ok: bool) {
        let key = String::from_utf8(key.to_vec()).unwrap();
        self.0.lock().unwrap().push((operation, key, ok));
    }
}

#[test]
fn every_call_is_told_once() {
    runtime().block_on(async {
        let fake = Fake::start(&Handle::current(), memory(), Faults::default());
        let observed = Arc::new(Observed::default());
        let options = Options { access: fake.access(), prefix: "/registry/".into(), patience: PATIENCE };
        let store = EtcdStore::observed(options, observed.clone(), Handle::current());
        let told = || std::mem::take(&mut *observed.0.lock().unwrap());
        let key = || Bytes::from("a/1");
        let one = |operation, ok| vec![(operation, "a/1".to_owned(), ok)];

        let first = store.commit(Transaction::create(key(), "1")).await.unwrap().revision;
        assert_eq!(told(), one("create", true));
        // It is an answer.
        let conflict = store.commit(Transaction::create(key(), "1")).await;
        assert!(matches!(conflict, Err(CommitError::Conflict { .. })), "{conflict:?}");
        assert_eq!(told(), one("create", true));
        store.commit(Transaction::update(key(), first, "2")).await.unwrap();
        assert_eq!(told(), one("update", true));
        store.get(key(), None).await.unwrap();
        assert_eq!(told(), one("get", true));
        store.get(key(), Some(Revision::LAST)).await.unwrap_err();
        assert_eq!(told(), one("get", false));
        store.range(KeyRange::prefix("a/1"), None, 10).await.unwrap();
        assert_eq!(told(), one("list", true));
        // However often it is sent.
        fake.faults(|faults| faults.transactions.push_back(Fault::Refuse));
        store.commit(Transaction::write([Write::delete(key())])).await.unwrap();
        assert_eq!(told(), one("delete", true));
        fake.faults(|faults| faults.transactions.push_back(Fault::Status(code::INVALID_ARGUMENT, "large")));
        store.commit(Transaction::write([Write::put(key(), "1")])).await.unwrap_err();
        assert_eq!(told(), one("update", false));
        // What etcd is not asked for, or nobody counts.
        store.commit(Transaction::write([Write::put("", "1")])).await.unwrap_err();
        store.commit(Transaction::default()).await.unwrap();
        let current = store.current_revision().await.unwrap();
        store.compact(current).await.unwrap();
        store.health("health", PATIENCE).await.unwrap();
        assert_eq!(told(), []);
    });
}

#[test]
fn etcd_is_healthy_if_its_leader_answers_in_time() {
    const LIMIT: Duration = Duration::from_millis(300);
    runtime().block_on(async {
        let (fake, store) = pair(Faults::default());
        store.health("health", PATIENCE).await.unwrap();
        put(&store, "health", "it may be there").await;
        store.health("health", PATIENCE).await.unwrap();
        fake.faults(|faults| faults.leaderless = true);
        let begun = machine::now();
        let ill = store.health("health", LIMIT).await;
        assert!(matches!(ill, Err(ReadError::Unavailable { .. })), "{ill:?}");
        assert!(machine::elapsed(begun) >= LIMIT / 2, "a moment's weakness is none");
        fake.faults(|faults| faults.leaderless = false);
        store.health("health", PATIENCE).await.unwrap();
        assert!(value(&store, "health").await.is_some());
        store.close().await;
        assert_eq!(store.health("health", PATIENCE).await, Err(ReadError::Stopped(Stopped::Closed)));
    });
}
