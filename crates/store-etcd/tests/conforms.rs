//! The contract on a real etcd, and what only a real one does: `STERNPOST_ETCD` is the path of its server.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

use std::{
    fs,
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use sternpost_clock::{Clock, machine, manual::ManualClock};
use sternpost_store::{
    Bytes, CommitError, Delivery, Event, KeyRange, ReadError, Revision, Store, Transaction, Write,
    conformance::{self, drain},
};
use sternpost_store_etcd::{
    Access, Compactor, DEFAULT_COMPACTION_INTERVAL, DEFAULT_PATIENCE, Endpoint, EtcdStore, Options, User,
};
use sternpost_testkit::etcd::{self, Cluster, Etcd};
use tokio::runtime::{Handle, Runtime};

/// The slow part is each member's start.
const SEEDS: std::ops::Range<u64> = 0..4;

#[test]
fn conforms() {
    let Some(program) = etcd::program() else { return };
    let runtime = runtime();
    for prefix in ["", "/registry/"] {
        // Those before the last are not used any more.
        let last = Mutex::new(None);
        let make = || {
            let etcd = Etcd::start(&program, &[]);
            let options =
                Options { access: access(&[etcd.url()]), prefix: prefix.into(), patience: DEFAULT_PATIENCE };
            *last.lock().unwrap() = Some(etcd);
            Arc::new(EtcdStore::new(options, runtime.handle().clone())) as Arc<dyn Store>
        };
        conformance::run(&make, if prefix.is_empty() { 0..0 } else { SEEDS });
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn access(urls: &[String]) -> Access {
    let endpoints = urls.iter().map(|url| Endpoint::parse(url).unwrap()).collect();
    Access { endpoints, tls: None, user: None }
}

fn open(access: Access) -> EtcdStore {
    open_for(access, DEFAULT_PATIENCE)
}

fn open_for(access: Access, patience: Duration) -> EtcdStore {
    EtcdStore::new(Options { access, prefix: "/registry/".into(), patience }, Handle::current())
}

async fn put(store: &dyn Store, key: &'static str, value: Bytes) -> Result<Revision, CommitError> {
    store.commit(Transaction::write([Write::put(key, value)])).await.map(|committed| committed.revision)
}

#[test]
fn a_watch_and_its_store_outlive_a_member() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let mut etcd = Etcd::start(&program, &[]);
        let store = open(access(&[etcd.url()]));
        let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
        let mut written = vec![put(&store, "a", Bytes::from("1")).await.unwrap()];
        for _ in 0..3 {
            etcd.restart();
            written.push(loop {
                match put(&store, "a", Bytes::from("2")).await {
                    Ok(revision) => break revision,
                    // The connection was found broken while this was under way. It was not: it had broken before.
                    Err(CommitError::Uncertain { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            });
        }
        let seen: Vec<Revision> = drain(&mut watch).await.iter().map(|(revision, _)| *revision).collect();
        assert_eq!(seen, written);
    });
}

/// Each in turn is killed, whether it is the leader or the one in use or neither, while a writer counts and a
/// watcher looks on. Every write whose answer came is seen; one whose outcome is uncertain may be; nothing else is.
#[test]
fn writes_and_watches_are_whole_while_members_are_killed() {
    const ROUNDS: usize = 6;
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let mut cluster = Cluster::start(&program, 3);
        let store = Arc::new(open(access(&cluster.urls())));
        let first = store.current_revision().await.unwrap();
        let mut watch = store.watch(KeyRange::all(), first).await.unwrap();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let writing = tokio::spawn({
            let store = store.clone();
            async move {
                let (mut known, mut uncertain) = (Vec::new(), Vec::new());
                for number in 0.. {
                    if *stopped.borrow() {
                        break;
                    }
                    let key = format!("{number:06}");
                    match store.commit(Transaction::create(key.clone(), "1")).await {
                        Ok(committed) => known.push((committed.revision, key)),
                        Err(CommitError::Uncertain { .. }) => uncertain.push(key),
                        Err(CommitError::Unavailable { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                (known, uncertain)
            }
        });
        for round in 0..ROUNDS {
            machine::sleep(Duration::from_millis(300)).await;
            cluster.member(round % 3).kill();
            machine::sleep(Duration::from_millis(700)).await;
            cluster.member(round % 3).restart();
        }
        stop.send(true).unwrap();
        let (known, uncertain) = writing.await.unwrap();
        assert!(known.len() > 10 * ROUNDS, "{} writes are too few to tell", known.len());
        let events = drain(&mut watch).await;
        let key = |event: &Event| String::from_utf8(event.key().to_vec()).unwrap();
        let seen: Vec<_> = events.iter().map(|(revision, event)| (*revision, key(event))).collect();
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, once");
        let certain: Vec<_> = seen.iter().filter(|(_, key)| !uncertain.contains(key)).cloned().collect();
        assert_eq!(certain, known, "{} uncertain", uncertain.len());
        let listed = conformance::list(store.as_ref(), &KeyRange::all(), None, 100).await.entries;
        assert_eq!(listed.len(), seen.len());
    });
}

#[test]
fn what_etcd_refuses_is_not_written() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let etcd = Etcd::start(&program, &["--quota-backend-bytes", "8388608"]);
        let store = open(access(&[etcd.url()]));
        let size = |megabytes: usize| Bytes::from(vec![b'x'; megabytes << 20]);
        // etcd's own limit, and that of its gRPC.
        for megabytes in [2, 7] {
            let large = put(&store, "large", size(megabytes)).await;
            assert!(matches!(large, Err(CommitError::Refused { .. })), "{large:?}");
        }
        let full = loop {
            match put(&store, "a", size(1)).await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let CommitError::Uncertain { reason } = full else { panic!("{full:?}") };
        assert!(reason.contains("database space exceeded"), "{reason}");
        assert_eq!(store.get(Bytes::from("large"), None).await.unwrap().entry, None);
    });
}

#[test]
fn users_have_a_password() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let etcd = Etcd::start(&program, &[]);
        etcd.post("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#);
        etcd.post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
        etcd.post("/v3/auth/enable", "{}");
        let user = |password: &str| Some(User { name: "root".to_owned(), password: password.to_owned() });
        let store = open(Access { user: user("secret"), ..access(&[etcd.url()]) });
        put(&store, "a", Bytes::from("1")).await.unwrap();
        let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
        assert_eq!(drain(&mut watch).await.len(), 1);
        for user in [user("wrong"), None] {
            let store = open_for(Access { user, ..access(&[etcd.url()]) }, Duration::from_secs(1));
            let refused = store.current_revision().await;
            assert!(matches!(refused, Err(ReadError::Unavailable { .. })), "{refused:?}");
        }
    });
}

#[test]
fn tls_is_spoken_with_certificates_on_both_sides() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issue = || {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            (params.signed_by(&key, &authority).unwrap(), key)
        };
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (certificate, key) = issue();
        let flags = [
            "--cert-file".to_owned(),
            file("cert.pem", certificate.pem()),
            "--key-file".to_owned(),
            file("key.pem", key.serialize_pem()),
            "--client-cert-auth".to_owned(),
            "--trusted-ca-file".to_owned(),
            file("ca.pem", authority.pem()),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let etcd = Etcd::start(&program, &flags);
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let (certificate, key) = issue();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let known = tls.clone().with_client_auth_cert(vec![certificate.der().clone()], key).unwrap();
        let store = open(Access { tls: Some(known), ..access(&[etcd.url()]) });
        put(&store, "a", Bytes::from("1")).await.unwrap();
        let stranger = Access { tls: Some(tls.with_no_client_auth()), ..access(&[etcd.url()]) };
        let refused = open_for(stranger, Duration::from_secs(1)).current_revision().await;
        assert!(matches!(refused, Err(ReadError::Unavailable { .. })), "{refused:?}");
    });
}

#[test]
fn a_lease_that_is_gone_is_replaced() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let etcd = Etcd::start(&program, &[]);
        let store = open(access(&[etcd.url()]));
        let expiring = |key: &'static str| Write::expiring(key, "1", NonZeroU32::new(3600).unwrap());
        let first = store.commit(Transaction::write([expiring("a")])).await.unwrap().revision;
        let leases = etcd.post("/v3/lease/leases", "{}");
        let (_, id) = leases.split_once(r#"{"ID":""#).unwrap();
        let (id, _) = id.split_once('"').unwrap();
        etcd.post("/v3/lease/revoke", &format!(r#"{{"ID":"{id}"}}"#));
        assert_eq!(store.current_revision().await.unwrap(), first.plus(1).unwrap());
        // Nothing of the transaction was done with the lease that is gone.
        let both = Transaction::write([Write::put("b", "1"), expiring("c")]);
        assert_eq!(store.commit(both).await.unwrap().revision, first.plus(2).unwrap());
        let left = conformance::list(&store, &KeyRange::all(), None, 10).await.entries;
        assert_eq!(left.iter().map(|entry| entry.key()).collect::<Vec<_>>(), [b"b", b"c"]);
    });
}

#[test]
fn a_key_is_kept_and_goes_without_its_keeper() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let etcd = Etcd::start(&program, &[]);
        let store = open(access(&[etcd.url()]));
        store.health("health", DEFAULT_PATIENCE).await.unwrap();
        let mut watch = store.watch(KeyRange::all(), Revision::FIRST).await.unwrap();
        let kept = store.keep(Clock::system(), "a", "1", NonZeroU32::new(2).unwrap()).unwrap();
        let mut puts = 0;
        while puts < 3 {
            let Delivery::Changes(changes) = watch.next().await.unwrap() else { continue };
            // On a slow machine it may be gone for a while.
            puts += usize::from(changes.events()[0].entry().is_some());
        }
        drop(kept);
        loop {
            let Delivery::Changes(changes) = watch.next().await.unwrap() else { continue };
            if let [Event::Delete { .. }] = changes.events()
                && store.get(Bytes::from("a"), None).await.unwrap().entry.is_none()
            {
                break;
            }
        }
    });
}

#[test]
fn one_of_two_compacts_in_each_interval() {
    let Some(program) = etcd::program() else { return };
    runtime().block_on(async {
        let etcd = Etcd::start(&program, &[]);
        let stores = [open(access(&[etcd.url()])), open(access(&[etcd.url()]))];
        let times = [ManualClock::at(0), ManualClock::at(0)];
        let compactors = [0, 1].map(|index| {
            Compactor::start(&stores[index], times[index].clock(), DEFAULT_COMPACTION_INTERVAL).unwrap()
        });
        let waits = async |time: &ManualClock| {
            while time.next_due().is_none() {
                machine::sleep(Duration::from_millis(1)).await;
            }
        };
        let options =
            Options { access: access(&[etcd.url()]), prefix: Bytes::new(), patience: DEFAULT_PATIENCE };
        let everything = EtcdStore::new(options, Handle::current());
        let key = KeyRange::single("compact_rev_key");
        let mut watch = everything.watch(key, Revision::FIRST).await.unwrap();
        let first = put(&stores[0], "a", Bytes::from("0")).await.unwrap();
        let mut oldest = None;
        for round in 0..4 {
            for time in &times {
                waits(time).await;
                time.advance(DEFAULT_COMPACTION_INTERVAL);
            }
            for time in &times {
                waits(time).await;
            }
            let turns = drain(&mut watch).await;
            let [(revision, Event::Put { entry, .. })] = &turns[..] else {
                panic!("round {round}: {turns:?}")
            };
            let text = oldest.map_or("0".to_owned(), |oldest: Revision| oldest.to_string());
            assert_eq!(entry.value(), text.as_bytes(), "round {round}");
            let old = stores[1].get(Bytes::from("a"), Some(first)).await;
            match oldest {
                None => assert!(old.is_ok(), "round {round}: {old:?}"),
                Some(oldest) => assert_eq!(old, Err(ReadError::Compacted { oldest }), "round {round}"),
            }
            // What both have seen.
            oldest = Some(*revision);
        }
        drop(compactors);
    });
}
