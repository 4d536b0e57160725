//! Objects as kube-apiserver has them, in a store in memory in the place of etcd.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};
use sternpost_cache::{
    Cache, Divided, DividedStore, Indexer, Labelled, Overrides, Pairs, ResourceId, Share, encode, encode_in,
    value_of,
};
use sternpost_clock::{Clock, machine};
use sternpost_encryption::{
    Encryption, Opened,
    kms::{Service, Settings},
};
use sternpost_layout::{NODE_PORTS, Ports};
use sternpost_store::{
    CommitError, Compare, Delivery, KeyRange, ReadError, Revision, Store, Transaction, Watch, Write,
    memory::{self, MemoryStore},
};
use sternpost_store_kube::{Encrypting, KubeStore, Options, PORT_CLAIMS};
use sternpost_testkit::{
    etcd::recorded,
    shared_store::{SharedStore, Writers},
};

const RECORDED: &str = include_str!("../../layout/tests/recorded/kube-apiserver-1.36.4.tsv");

fn etcd() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(memory::Options::default()))
}

fn options() -> Options {
    Options {
        prefix: "/registry/".to_owned(),
        encryption: Arc::new(Encryption::default()),
        node_ports: 30_000..=32_767,
        read_only: false,
        share: Share::default(),
    }
}

fn on(etcd: &Arc<MemoryStore>) -> KubeStore {
    KubeStore::new(etcd.clone(), options())
}

async fn put(etcd: &MemoryStore, key: &'static str, value: impl Into<Bytes>) -> Revision {
    etcd.commit(Transaction::write([Write::put(key, value)])).await.unwrap().revision
}

async fn bytes(etcd: &MemoryStore, key: &'static str) -> Option<Bytes> {
    let found = etcd.get(Bytes::from(key), None).await.unwrap().entry;
    found.map(|entry| Bytes::copy_from_slice(entry.value()))
}

/// All keys, read in pages.
async fn keys(store: &dyn Store, limit: usize) -> BTreeSet<String> {
    let (mut range, mut at) = (KeyRange::all(), None);
    let mut keys = BTreeSet::new();
    loop {
        let page = store.range(range.clone(), at, limit).await.unwrap();
        at = Some(page.revision);
        for entry in &page.entries {
            assert!(keys.insert(String::from_utf8(entry.key().to_vec()).unwrap()), "twice");
        }
        match page.entries.last() {
            Some(last) if page.more => range = KeyRange::all().after(last.key()),
            _ => return keys,
        }
    }
}

async fn next(watch: &mut Watch) -> Vec<(String, bool)> {
    match watch.next().await.unwrap() {
        Delivery::Changes(changes) => changes
            .events()
            .iter()
            .map(|event| (String::from_utf8(event.key().to_vec()).unwrap(), event.entry().is_some()))
            .collect(),
        Delivery::Progress(_) => Vec::new(),
    }
}

fn config_map(text: &str) -> Bytes {
    encode(&json!({"metadata": {"name": "b", "namespace": "a", "uid": "u"}, "data": {"k": text}}))
}

fn port(port: u16) -> String {
    format!("internal.sternpost/serviceports//{port}")
}

fn claim(number: u16) -> Transaction {
    Transaction::create(port(number), "")
}

#[tokio::test]
async fn everything_that_kube_apiserver_has_is_there_and_stays_the_same() {
    let etcd = etcd();
    for (key, value) in recorded(RECORDED) {
        put(&etcd, key, value).await;
    }
    // Of others, and of kinds that are not served.
    for key in ["masterleases/192.0.2.7", "peerserverleases/x", "leaderelections/a", "health"] {
        put(&etcd, key, "theirs").await;
    }
    let store = on(&etcd);
    let all = keys(&store, 1000).await;
    let taken = Ports::read(&bytes(&etcd, NODE_PORTS).await.unwrap()).unwrap().taken;
    assert_eq!(all.len(), recorded(RECORDED).count() - 1 + taken.len());
    assert!(all.iter().any(|key| key.starts_with("/nodes//")), "{all:?}");
    assert!(taken.iter().all(|taken| all.contains(&port(*taken))));
    for limit in [1, 2, 7] {
        assert_eq!(keys(&store, limit).await, all, "in pages of {limit}");
    }
    assert_eq!(store.unreadable(), []);

    // Written again as it is, nothing changes but its revision.
    for key in all.iter().filter(|key| !key.starts_with("internal.")) {
        let entry = store.get(Bytes::from(key.clone()), None).await.unwrap().entry.unwrap();
        let value = Bytes::copy_from_slice(entry.value());
        store.commit(Transaction::update(key.clone(), entry.modified, value)).await.unwrap();
    }
    for (key, value) in recorded(RECORDED) {
        assert_eq!(bytes(&etcd, key).await.as_deref(), Some(&*value), "{key}");
    }
}

#[tokio::test]
async fn writes_are_where_and_as_kube_apiserver_has_them() {
    let etcd = etcd();
    let store = on(&etcd);
    let key = "/configmaps/a/b";
    let made = store.commit(Transaction::create(key, config_map("1"))).await.unwrap();
    assert!(bytes(&etcd, "configmaps/a/b").await.unwrap().starts_with(b"k8s\0"));
    let there = store.commit(Transaction::create(key, config_map("2"))).await;
    let Err(CommitError::Conflict { current, .. }) = there else { panic!("{there:?}") };
    let current = current[0].as_ref().unwrap();
    assert_eq!((current.key(), current.value()), (key.as_bytes(), &*config_map("1")));
    assert_eq!(current.modified, made.revision);
    let changed = store.commit(Transaction::update(key, made.revision, config_map("2"))).await.unwrap();
    store.commit(Transaction::delete(key, changed.revision)).await.unwrap();
    assert_eq!(bytes(&etcd, "configmaps/a/b").await, None);
    assert_eq!(keys(&*etcd, 1000).await, BTreeSet::new());
}

#[tokio::test]
async fn objects_of_a_definition_are_written_with_its_kind() {
    let etcd = etcd();
    let buoy = || encode_in(&json!({"metadata": {"name": "b", "namespace": "a"}, "spec": {"x": 1}}), "v1");
    let unknown = on(&etcd).commit(Transaction::create("sea.example/buoys/a/b", buoy())).await;
    assert!(matches!(unknown, Err(CommitError::Refused { .. })), "{unknown:?}");
    let definition = json!({
        "metadata": {"name": "buoys.sea.example"},
        "spec": {
            "group": "sea.example", "scope": "Namespaced",
            "names": {"plural": "buoys", "singular": "buoy", "kind": "Buoy", "listKind": "BuoyList"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
        "status": {},
    });
    let store = on(&etcd);
    let key = "apiextensions.k8s.io/customresourcedefinitions//buoys.sea.example";
    store.commit(Transaction::create(key, encode(&definition))).await.unwrap();
    store.commit(Transaction::create("sea.example/buoys/a/b", buoy())).await.unwrap();
    let written: Value =
        serde_json::from_slice(&bytes(&etcd, "sea.example/buoys/a/b").await.unwrap()).unwrap();
    assert_eq!((&written["apiVersion"], &written["kind"]), (&json!("sea.example/v1"), &json!("Buoy")));

    // Another server has not seen it be written. It reads objects that come before definitions, too.
    put(
        &etcd,
        "air.example/kites/k",
        r#"{"apiVersion":"air.example/v1","kind":"Kite","metadata":{"name":"k"}}"#,
    )
    .await;
    let other = on(&etcd);
    let all = keys(&other, 1000).await;
    assert!(all.contains("air.example/kites//k") && all.contains("sea.example/buoys/a/b"), "{all:?}");
    let key = "sea.example/buoys/a/c";
    other.commit(Transaction::create(key, buoy())).await.unwrap();
}

#[tokio::test]
async fn node_ports_are_bits_of_one_value() {
    let etcd = etcd();
    let store = on(&etcd);
    let ports = async || Ports::read(&bytes(&etcd, NODE_PORTS).await.unwrap()).unwrap();
    let service = |name: &str| Transaction {
        compares: vec![Compare::Absent { key: Bytes::from(format!("/services/a/{name}")) }],
        writes: vec![Write::put(
            format!("/services/a/{name}"),
            encode(&json!({"metadata": {"name": name, "namespace": "a"}, "spec": {}, "status": {}})),
        )],
    };
    let with = |mut transaction: Transaction, other: Transaction| {
        transaction.compares.extend(other.compares);
        transaction.writes.extend(other.writes);
        transaction
    };
    store.commit(with(service("one"), claim(30_080))).await.unwrap();
    assert_eq!(ports().await.taken, BTreeSet::from([30_080]));
    let taken = store.commit(with(service("two"), claim(30_080))).await;
    let Err(CommitError::Conflict { current, .. }) = taken else { panic!("{taken:?}") };
    assert_eq!(current[0], None);
    assert_eq!(current[1].as_ref().unwrap().key(), port(30_080).as_bytes());
    assert_eq!(bytes(&etcd, "services/specs/a/two").await, None);
    let twice = store.commit(with(service("one"), claim(30_081))).await;
    assert!(matches!(twice, Err(CommitError::Conflict { .. })), "{twice:?}");
    assert_eq!(ports().await.taken, BTreeSet::from([30_080]));
    let outside = store.commit(claim(40_000)).await;
    assert!(matches!(outside, Err(CommitError::Refused { .. })), "{outside:?}");

    // Kept apart although they are one value, and each taken once.
    let store = Arc::new(store);
    let mut claims = tokio::task::JoinSet::new();
    for number in (30_100..30_108).chain(30_100..30_108) {
        let store = store.clone();
        claims.spawn(async move { store.commit(claim(number)).await.is_ok() });
    }
    let won = claims.join_all().await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 8);
    assert_eq!(ports().await.taken, (30_100..30_108).chain([30_080]).collect());

    store
        .commit(Transaction::write([Write::delete(port(30_080)), Write::delete(port(31_000))]))
        .await
        .unwrap();
    assert_eq!(ports().await.taken, (30_100..30_108).collect());
}

#[tokio::test]
async fn watches_show_what_changed_of_ours() {
    let etcd = etcd();
    let store = on(&etcd);
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    store.commit(Transaction::create("/configmaps/a/b", config_map("1"))).await.unwrap();
    assert_eq!(next(&mut watch).await, [("/configmaps/a/b".to_owned(), true)]);
    // Of others: that it happened is all there is to know.
    let theirs = put(&etcd, "masterleases/192.0.2.7", "x").await;
    assert_eq!(watch.next().await.unwrap(), Delivery::Progress(theirs));
    store.commit(claim(30_001)).await.unwrap();
    assert_eq!(next(&mut watch).await, [(port(30_001), true)]);
    let swap = Transaction::write([Write::put(port(30_002), ""), Write::delete(port(30_001))]);
    store.commit(swap).await.unwrap();
    assert_eq!(next(&mut watch).await, [(port(30_001), false), (port(30_002), true)]);
    etcd.commit(Transaction::write([Write::delete("configmaps/a/b")])).await.unwrap();
    assert_eq!(next(&mut watch).await, [("/configmaps/a/b".to_owned(), false)]);
}

#[tokio::test]
async fn what_cannot_be_read_is_left_alone() {
    let etcd = etcd();
    let store = on(&etcd);
    store.commit(Transaction::create("/configmaps/a/b", config_map("1"))).await.unwrap();
    let mut watch = store.watch(KeyRange::all(), store.current_revision().await.unwrap()).await.unwrap();
    put(&etcd, "configmaps/a/b", "k8s\0damaged").await;
    assert_eq!(next(&mut watch).await, [("/configmaps/a/b".to_owned(), false)]);
    put(&etcd, "secrets/a/s", "k8s:enc:aescbc:v1:key1:xyz").await;
    assert_eq!(keys(&store, 1).await, BTreeSet::new());
    let problems: Vec<String> = store.unreadable().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].starts_with("the value at `/registry/configmaps/a/b` cannot be read: "),
        "{problems:?}"
    );
    assert!(problems[1].starts_with("the value at `/registry/secrets/a/s` cannot be read: "), "{problems:?}");
    let read = store.get(Bytes::from("/configmaps/a/b"), None).await;
    let Err(ReadError::Unreadable(found)) = read else { panic!("{read:?}") };
    assert_eq!(found.place, "/registry/configmaps/a/b");
    assert!(
        found.reason.starts_with(&format!("object not decodable revision={}: ", found.modified)),
        "{found}"
    );
    let ours = |range: &KeyRange| -> Vec<Bytes> {
        Store::unreadable(&store, range).into_iter().map(|found| found.key).collect()
    };
    assert_eq!(ours(&KeyRange::prefix("/configmaps/")), ["/configmaps/a/b"]);
    assert_eq!(ours(&KeyRange::prefix("/secrets/a/")), ["/secrets/a/s"]);
    assert_eq!(ours(&KeyRange::prefix("/secrets/b/")), [""; 0]);
    // That it is there is all that is known, and enough for whoever wants the place.
    let made = store.commit(Transaction::create("/configmaps/a/b", config_map("2"))).await;
    let Err(CommitError::Conflict { current, .. }) = made else { panic!("{made:?}") };
    assert_eq!(current[0].as_ref().map(|entry| entry.modified), Some(found.modified));
    assert_eq!(bytes(&etcd, "configmaps/a/b").await.unwrap(), "k8s\0damaged");
    // By whoever wants it to be gone, and then mended by somebody.
    store.commit(Transaction::delete("/configmaps/a/b", found.modified)).await.unwrap();
    put(&etcd, "configmaps/a/b", "k8s\0damaged").await;
    etcd.commit(Transaction::write([Write::delete("configmaps/a/b")])).await.unwrap();
    store.commit(Transaction::create("/configmaps/a/b", config_map("3"))).await.unwrap();
    assert_eq!(keys(&store, 1).await.len(), 1);
    assert_eq!(store.unreadable().len(), 1);

    put(&etcd, NODE_PORTS, "k8s\0damaged").await;
    let claimed = store.commit(claim(30_000)).await;
    assert!(matches!(claimed, Err(CommitError::Refused { .. })), "{claimed:?}");
    assert_eq!(bytes(&etcd, NODE_PORTS).await.unwrap(), "k8s\0damaged");
}

#[tokio::test]
async fn values_are_encrypted_for_their_place() {
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets", "services"], "providers": [
            {"aesgcm": {"keys": [{"name": "key1", "secret": STANDARD.encode([7; 32])}]}}, {"identity": {}},
        ]}],
    });
    let etcd = etcd();
    let store = || {
        let no_plugins = |_: &Settings| -> Box<dyn Service> { unreachable!("none is named") };
        let encryption = Encryption::read(&configuration, &Clock::system(), &no_plugins).unwrap();
        KubeStore::new(etcd.clone(), Options { encryption: Arc::new(encryption), ..options() })
    };
    let secret = encode(
        &json!({"metadata": {"name": "s", "namespace": "a"}, "data": {"k": "dg=="}, "type": "Opaque"}),
    );
    store().commit(Transaction::create("/secrets/a/s", secret.clone())).await.unwrap();
    let sealed = bytes(&etcd, "secrets/a/s").await.unwrap();
    assert!(sealed.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    let found = store().get(Bytes::from("/secrets/a/s"), None).await.unwrap().entry.unwrap();
    assert_eq!(value_of(found.value()), value_of(&secret));
    put(&etcd, "secrets/a/t", sealed).await;
    let moved = store();
    let read = moved.get(Bytes::from("/secrets/a/t"), None).await;
    let Err(ReadError::Unreadable(found)) = read else { panic!("{read:?}") };
    assert!(found.reason.starts_with("data from the storage is not transformable"), "{found}");

    // As kube-apiserver 1.36.4: node ports are not, though services are.
    store().commit(claim(30_001)).await.unwrap();
    store().commit(claim(30_002)).await.unwrap();
    assert!(bytes(&etcd, NODE_PORTS).await.unwrap().starts_with(b"k8s\0"));
    assert_eq!(store().ports().await.unwrap().unwrap().taken, BTreeSet::from([30_001, 30_002]));
}

/// Encryption whose key may be away.
#[derive(Debug, Default)]
struct Lock {
    is_away: AtomicBool,
}

const SEALED: &[u8] = b"k8s:enc:";

impl Encrypting for Lock {
    fn seal(&self, _: (&str, &str), _: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(Some([SEALED, value].concat()))
    }

    fn open(&self, _: (&str, &str), _: &[u8], stored: &[u8]) -> Result<Opened, String> {
        match stored.strip_prefix(SEALED) {
            Some(_) if self.is_away.load(Ordering::Relaxed) => Err("the key is away".to_owned()),
            value => Ok(Opened { value: value.map(<[u8]>::to_vec), stale: false }),
        }
    }
}

impl Lock {
    fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }
}

fn locked(etcd: &Arc<MemoryStore>, lock: &Arc<Lock>) -> Arc<KubeStore> {
    Arc::new(KubeStore::new(etcd.clone(), Options { encryption: lock.clone(), ..options() }))
}

#[derive(Debug)]
struct NoFields;

impl Indexer for NoFields {
    fn fields(&self, _: &ResourceId, _: &[u8]) -> Pairs {
        Pairs::default()
    }
}

#[tokio::test]
async fn what_cannot_be_decrypted_stays_as_it_was_and_is_read_again() {
    let etcd = etcd();
    let lock = Arc::new(Lock::default());
    let store = locked(&etcd, &lock);
    // Another server, which always has the key.
    let other = locked(&etcd, &Arc::default());
    let (key, range) = ("/configmaps/a/b", KeyRange::single("/configmaps/a/b"));
    let first = other.commit(Transaction::create(key, config_map("1"))).await.unwrap().revision;
    let (cache, feeder) = Cache::start(store.clone(), Box::new(NoFields)).await.unwrap();
    tokio::spawn(feeder.run());
    tokio::spawn(store.clone().reopening());
    let maps = cache.resource(&ResourceId::new("", "configmaps"));
    let shown = || maps.snapshot().get("a", "b").map(|found| (found.revision, found.value()["data"].clone()));

    lock.set_away(true);
    let second = other.commit(Transaction::update(key, first, config_map("2"))).await.unwrap().revision;
    // All else goes on.
    let foreign = put(&etcd, "masterleases/192.0.2.7", "x").await;
    assert!(cache.main_line().reaches(foreign, PATIENCE).await);
    let unreadable = Store::unreadable(&*store, &range);
    assert_eq!(
        unreadable.iter().map(|found| (found.modified, found.sealed)).collect::<Vec<_>>(),
        [(second, true)]
    );
    assert_eq!(shown(), Some((first, json!({"k": "1"}))), "it is not gone");
    assert!(maps.events_after(first).is_err(), "watches end");
    // In vain: it is neither gone nor read, whatever else happens.
    store.reopen();
    let foreign = put(&etcd, "masterleases/192.0.2.7", "y").await;
    assert!(cache.main_line().reaches(foreign, PATIENCE).await);
    assert_eq!(shown().map(|(revision, _)| revision), Some(first));

    let moment = cache.moment();
    lock.set_away(false);
    store.reopen();
    until_readable(&store, &range).await;
    assert_eq!(shown(), Some((second, json!({"k": "2"}))), "in its own revision");
    assert!(maps.events_after(second).is_err(), "nobody was told of it in its order");
    assert!(cache.changed_after(moment).unwrap().iter().any(|changed| Arc::ptr_eq(changed, &maps)));

    // One that is deleted while it cannot be read is gone; what it was last, nobody can be told.
    lock.set_away(true);
    let third = other.commit(Transaction::update(key, second, config_map("3"))).await.unwrap().revision;
    let deleted = other.commit(Transaction::delete(key, third)).await.unwrap().revision;
    assert!(cache.main_line().reaches(deleted, PATIENCE).await);
    assert_eq!(shown(), None);
    assert!(maps.events_after(third).is_err());
    assert_eq!(maps.events_after(deleted).unwrap().len(), 0);
    let foreign = put(&etcd, "masterleases/192.0.2.7", "x").await;
    assert!(cache.main_line().reaches(foreign, PATIENCE).await);
    assert_eq!(Store::unreadable(&*store, &range), []);

    // One that is written again so that it can be read is told of from then on.
    lock.set_away(false);
    let fourth = other.commit(Transaction::create(key, config_map("4"))).await.unwrap().revision;
    assert!(cache.main_line().reaches(fourth, PATIENCE).await);
    lock.set_away(true);
    let fifth = other.commit(Transaction::update(key, fourth, config_map("5"))).await.unwrap().revision;
    assert!(cache.main_line().reaches(fifth, PATIENCE).await);
    let plain = on(&etcd);
    let sixth = plain.commit(Transaction::update(key, fifth, config_map("6"))).await.unwrap().revision;
    assert!(cache.main_line().reaches(sixth, PATIENCE).await);
    assert_eq!(shown(), Some((sixth, json!({"k": "6"}))));
    assert!(maps.events_after(fifth).is_err());
    let last = plain.commit(Transaction::delete(key, sixth)).await.unwrap().revision;
    assert!(cache.main_line().reaches(last, PATIENCE).await);
    assert_eq!(maps.events_after(sixth).unwrap().len(), 1);
}

/// What was unreadable in the very last revision, which stays the last.
#[tokio::test]
async fn what_can_be_read_again_shows_without_a_newer_revision() {
    let etcd = etcd();
    let lock = Arc::new(Lock::default());
    let store = locked(&etcd, &lock);
    let other = locked(&etcd, &Arc::default());
    let (key, range) = ("/configmaps/a/b", KeyRange::single("/configmaps/a/b"));
    let labelled = |text: &str| {
        let mut map: Value = sternpost_cache::read(&config_map(text)).unwrap();
        map["metadata"]["labels"] = json!({"text": text});
        encode(&map)
    };
    let first = other.commit(Transaction::create(key, labelled("1"))).await.unwrap().revision;
    let (cache, feeder) = Cache::start(store.clone(), Box::new(NoFields)).await.unwrap();
    tokio::spawn(feeder.run());
    tokio::spawn(store.clone().reopening());
    let maps = cache.resource(&ResourceId::new("", "configmaps"));
    let found = |text: &str| {
        let values = [text.to_owned()];
        let (_, found) = maps.labelled(&[Labelled { key: "text", values: &values }], None, None);
        found.iter().map(|object| object.revision).collect::<Vec<_>>()
    };
    assert_eq!((found("1"), found("2")), (vec![first], vec![]));

    lock.set_away(true);
    let second = other.commit(Transaction::update(key, first, labelled("2"))).await.unwrap().revision;
    assert!(cache.main_line().reaches(second, PATIENCE).await);
    assert_eq!(found("1"), [first], "as it was");
    let (before, waiter, mut progress) = (maps.snapshot().seen(), maps.waiter(), cache.progress());
    assert!(!maps.is_newer_than(before));
    progress.seen();
    lock.set_away(false);
    store.reopen();
    machine::timeout(PATIENCE, waiter.changed(before)).await.unwrap();
    assert!(machine::timeout(PATIENCE, progress.changed()).await.unwrap());
    until_readable(&store, &range).await;
    assert_eq!(etcd.current_revision().await.unwrap(), second, "nothing was written");
    assert_eq!((maps.snapshot().revision, cache.main_line().revision()), (second, second));
    assert_eq!((found("1"), found("2")), (vec![], vec![second]));
    assert!(maps.is_newer_than(before));
    assert!(maps.events_after(before).is_err(), "nobody was told of it in its order");

    // Whoever begins now goes on as ever.
    let seen = maps.snapshot().seen();
    assert_eq!(maps.seen_at(second), seen);
    assert_eq!(maps.events_after(seen).unwrap().len(), 0);
    let third = other.commit(Transaction::update(key, second, labelled("3"))).await.unwrap().revision;
    assert!(cache.main_line().reaches(third, PATIENCE).await);
    let events = maps.events_after(seen).unwrap();
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), [third]);
}

async fn until_readable(store: &KubeStore, range: &KeyRange) {
    let readable = async {
        while !Store::unreadable(store, range).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    machine::timeout(PATIENCE, readable).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_decrypted_stays_when_everything_is_read_anew() {
    let etcd = etcd();
    let (lock, shared) = (Arc::new(Lock::default()), SharedStore::of(etcd.clone(), Writers::Several));
    let options = Options { encryption: lock.clone(), ..options() };
    let store = Arc::new(KubeStore::new(shared.clone(), options));
    let other = locked(&etcd, &Arc::default());
    let keys = ["/configmaps/a/changed", "/configmaps/a/same"];
    let mut made = Vec::new();
    for key in keys {
        made.push(other.commit(Transaction::create(key, config_map("1"))).await.unwrap().revision);
    }
    let (cache, feeder) = Cache::start(store.clone(), Box::new(NoFields)).await.unwrap();
    tokio::spawn(feeder.run());
    let maps = cache.resource(&ResourceId::new("", "configmaps"));
    let shown = || ["changed", "same"].map(|name| maps.snapshot().get("a", name).map(|found| found.revision));

    lock.set_away(true);
    shared.hold_deliveries();
    other.commit(Transaction::update(keys[0], made[0], config_map("2"))).await.unwrap();
    shared.forget().await;
    let now = etcd.current_revision().await.unwrap();
    shared.deliver();
    assert!(cache.main_line().reaches(now, PATIENCE).await);
    assert!(maps.events_after(made[1]).is_err(), "everything was read anew");
    assert_eq!(shown(), [Some(made[0]), Some(made[1])], "as they were");
    assert_eq!(Store::unreadable(&*store, &KeyRange::all()).len(), 2);
}

/// How often values were opened.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Encrypting for Counting {
    fn seal(&self, _: (&str, &str), _: &[u8], _: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    fn open(&self, _: (&str, &str), _: &[u8], _: &[u8]) -> Result<Opened, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Opened { value: None, stale: true })
    }
}

#[tokio::test]
async fn a_value_is_opened_once_and_what_was_before_not_at_all() {
    let etcd = etcd();
    let counting = Arc::new(Counting::default());
    let opened = || counting.0.swap(0, Ordering::Relaxed);
    let store = KubeStore::new(etcd.clone(), Options { encryption: counting.clone(), ..options() });
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    let key = "/configmaps/a/b";
    let other = on(&etcd);
    let made = other.commit(Transaction::create(key, config_map("1"))).await.unwrap().revision;
    let changed = other.commit(Transaction::update(key, made, config_map("2"))).await.unwrap().revision;
    other.commit(Transaction::delete(key, changed)).await.unwrap();
    for (is_there, expected) in [(true, 1), (true, 1), (false, 0)] {
        assert_eq!(next(&mut watch).await, [(key.to_owned(), is_there)]);
        assert_eq!(opened(), expected);
    }
    other.commit(Transaction::create(key, config_map("3"))).await.unwrap();
    assert!(store.get(Bytes::from(key), None).await.unwrap().stale);
    assert_eq!(opened(), 1);
}

/// However slow the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_has_changed_since_is_not_regained() {
    let etcd = etcd();
    let lock = Arc::new(Lock::default());
    let store = locked(&etcd, &lock);
    let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
    tokio::spawn(store.clone().reopening());
    lock.set_away(true);
    let other = locked(&etcd, &Arc::default());
    let mut last =
        other.commit(Transaction::create("/configmaps/a/b", config_map("0"))).await.unwrap().revision;
    assert_eq!(next(&mut watch).await, [], "it was never there");
    for text in ["1", "2"] {
        lock.set_away(false);
        store.reopen();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        last = other
            .commit(Transaction::update("/configmaps/a/b", last, config_map(text)))
            .await
            .unwrap()
            .revision;
        assert_eq!(next(&mut watch).await, [("/configmaps/a/b".to_owned(), true)]);
        assert_eq!(watch.regained(), []);
        assert_eq!(Store::unreadable(&*store, &KeyRange::all()).len(), usize::from(text == "1"));
    }
}

#[tokio::test]
async fn one_that_only_reads_writes_nothing() {
    let etcd = etcd();
    let store = KubeStore::new(etcd.clone(), Options { read_only: true, ..options() });
    let refused = store.commit(Transaction::create("/configmaps/a/b", config_map("1"))).await;
    assert_eq!(refused, Err(CommitError::ReadOnly));
    assert_eq!(keys(&*etcd, 1000).await, BTreeSet::new());
    let compacted = store.compact(Revision::FIRST).await;
    assert!(matches!(compacted, Err(ReadError::Unavailable { .. })), "{compacted:?}");
    let part = store.range(KeyRange::prefix("/configmaps/"), None, 10).await;
    assert!(matches!(part, Err(ReadError::Unavailable { .. })), "{part:?}");
}

#[tokio::test]
async fn keys_of_a_namespace_that_are_no_objects_here_are_told() {
    let etcd = etcd();
    let store = on(&etcd);
    for key in [
        "widgets/a/w",
        "storage.k8s.io/widgets/a/w",
        "widgets/b/w",
        "widgets/a",
        "a/b/c",
        "masterleases/a",
        "storage.k8s.io/a/w",
    ] {
        put(&etcd, key, "of others").await;
    }
    put(&etcd, "configmaps/a/damaged", "k8s\0damaged").await;
    put(&etcd, "configmaps/b/damaged", "k8s\0damaged").await;
    // What has passed by.
    keys(&store, 2).await;
    let told = ["configmaps/a/damaged", "storage.k8s.io/widgets/a/w", "widgets/a/w"];
    assert_eq!(store.unserved("a").await.unwrap(), told.map(|key| format!("/registry/{key}")));
    let mut watch = store.watch(KeyRange::all(), etcd.current_revision().await.unwrap()).await.unwrap();
    put(&etcd, "gadgets/c/g", "of others").await;
    next(&mut watch).await;
    assert_eq!(store.unserved("c").await.unwrap(), ["/registry/gadgets/c/g"]);
    assert_eq!(store.unserved("d").await.unwrap(), [""; 0]);
}

/// The stores of two etcds; events, services and what goes with them are in the second.
fn divided(etcds: &[Arc<MemoryStore>; 2]) -> (DividedStore, [Arc<KubeStore>; 2]) {
    let others = [("", "events"), ("", "services"), ("networking.k8s.io", "ipaddresses"), PORT_CLAIMS];
    let overrides = Overrides::new(others.map(|(group, resource)| (ResourceId::new(group, resource), 1)));
    let share = |number| Share::of(overrides.clone(), number);
    let stores = [0, 1].map(|number| {
        Arc::new(KubeStore::new(etcds[number].clone(), Options { share: share(number), ..options() }))
    });
    let [main, other] = stores.clone().map(|store| store as Arc<dyn Store>);
    (DividedStore::new(Divided::new(main, vec![other]), overrides), stores)
}

#[tokio::test]
async fn each_etcd_has_the_resources_that_are_its_own_and_others_do_not_count_in_it() {
    let etcds = [etcd(), etcd()];
    // What was there before they were moved, and what cannot be read of it.
    for (key, value) in recorded(RECORDED) {
        put(&etcds[0], key, value.clone()).await;
        put(&etcds[1], key, value).await;
    }
    put(&etcds[0], "events/a/damaged", "k8s\0damaged").await;
    put(&etcds[1], "configmaps/a/damaged", "k8s\0damaged").await;
    let (store, [main, other]) = divided(&etcds);
    let is_moved = |key: &&String| {
        ["/events/", "/services/", "networking.k8s.io/ipaddresses/", "internal."]
            .iter()
            .any(|start| key.starts_with(start))
    };
    let all = keys(&on(&etcds[0]), 1000).await;
    let (moved, stay): (BTreeSet<String>, BTreeSet<String>) =
        all.iter().cloned().partition(|key| is_moved(&key));
    for limit in [1, 7, 1000] {
        assert_eq!(keys(&*main, limit).await, stay, "in pages of {limit}");
        assert_eq!(keys(&*other, limit).await, moved, "in pages of {limit}");
    }
    assert_eq!((main.unreadable(), other.unreadable()), (Vec::new(), Vec::new()));
    assert!(!store.has_unreadable());
    assert_eq!(main.unserved("a").await.unwrap(), Vec::<String>::new());

    // A watch hears of its own.
    let now = etcds[0].current_revision().await.unwrap();
    let mut watch = main.watch(KeyRange::all(), now).await.unwrap();
    put(&etcds[0], "events/a/damaged", "k8s\0again").await;
    let ports = bytes(&etcds[0], NODE_PORTS).await.unwrap();
    put(&etcds[0], NODE_PORTS, ports).await;
    store.commit(Transaction::create("/configmaps/a/b", config_map("1"))).await.unwrap();
    let mut told = Vec::new();
    while told.is_empty() {
        told = next(&mut watch).await;
    }
    assert_eq!(told, [("/configmaps/a/b".to_owned(), true)]);
}

#[tokio::test]
async fn writes_go_to_one_etcd_or_nowhere() {
    let etcds = [etcd(), etcd()];
    let (store, _) = divided(&etcds);
    let map = store.commit(Transaction::create("/configmaps/a/b", config_map("1"))).await.unwrap();
    let event = encode(&json!({"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {}}));
    store.commit(Transaction::create("/events/a/e", event.clone())).await.unwrap();
    assert!(bytes(&etcds[0], "configmaps/a/b").await.is_some());
    assert!(bytes(&etcds[1], "events/a/e").await.is_some());
    assert!(bytes(&etcds[0], "events/a/e").await.is_none());
    let found = store.get(Bytes::from("/configmaps/a/b"), None).await.unwrap();
    assert_eq!(found.entry.unwrap().modified, map.revision);
    // The value of all ports goes with services.
    store.commit(claim(30_080)).await.unwrap();
    assert!(bytes(&etcds[1], NODE_PORTS).await.is_some() && bytes(&etcds[0], NODE_PORTS).await.is_none());

    let compares = vec![Compare::Absent { key: Bytes::from("/events/a/f") }];
    let writes = vec![Write::put("/events/a/f", event), Write::put("/configmaps/a/c", config_map("1"))];
    let refused = store.commit(Transaction { compares, writes }).await;
    assert!(matches!(refused, Err(CommitError::Refused { .. })), "{refused:?}");
    assert!(bytes(&etcds[1], "events/a/f").await.is_none());
    for refused in [
        store.current_revision().await.map(drop),
        store.range(KeyRange::all(), None, 1).await.map(drop),
        store.watch(KeyRange::all(), Revision::FIRST).await.map(drop),
        store.compact(Revision::FIRST).await,
    ] {
        assert!(matches!(refused, Err(ReadError::Unavailable { .. })), "{refused:?}");
    }
}
