//! Several servers on one etcd, whose path is `STERNPOST_ETCD`.

use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_store::{Delivery, KeyRange, Store, Transaction, Write};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, Endpoint, EtcdStore, Options};
use sternpost_testkit::{
    etcd::{self, Etcd},
    scratch::Scratch,
    server::{AT_LAST, Server},
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/sternpost-controllers";

/// A cluster, and where its servers have what is theirs.
struct Cluster {
    etcd: Etcd,
    files: Scratch,
}

impl Cluster {
    fn start(program: &Path, name: &str) -> Self {
        let files = Scratch::new(name);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(files.0.join("key"), key.serialize_pem()).unwrap();
        Self { etcd: Etcd::start(program, &[]), files }
    }

    fn store(&self) -> EtcdStore {
        let endpoints = vec![Endpoint::parse(&self.etcd.url()).unwrap()];
        let access = Access { endpoints, tls: None, user: None };
        let options = Options { access, prefix: "/registry/".into(), patience: DEFAULT_PATIENCE };
        EtcdStore::new(options, tokio::runtime::Handle::current())
    }

    /// One more server, which takes over from another in seconds.
    async fn server(&self, name: &str, flags: &[&str]) -> Server {
        let data = self.files.0.join(name);
        let servers = format!("--etcd-servers={}", self.etcd.url());
        let key = self.files.0.join("key");
        let key = key.to_str().unwrap();
        let mut all = vec![
            servers.as_str(),
            "--controllers=*",
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=1s",
            "--service-account-signing-key-file",
            key,
            "--service-account-key-file",
            key,
        ];
        all.extend_from_slice(flags);
        Server::start_on("replicas", data.to_str().unwrap(), &all).await
    }
}

fn leads(server: &Server) -> bool {
    server.log().text().contains("this server runs the controllers from now on")
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = machine::now();
    while !is_so() {
        assert!(machine::elapsed(began) < AT_LAST, "it never came to be that {what}");
        machine::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_server_that_runs_the_controllers_is_killed_another_goes_on() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-killed");
    let first = cluster.server("first", &[]).await;
    until("the first leads", || leads(&first)).await;
    let second = cluster.server("second", &[]).await;
    // Whoever asks for it, it is done by the first.
    second.namespace("one").await;
    second.delete("/api/v1/namespaces/one").await.expect(200);
    second.gone("/api/v1/namespaces/one").await;
    let holder = second.get(LEASE).await.expect(200)["spec"]["holderIdentity"].clone();
    assert!(!leads(&second));

    second.namespace("two").await;
    first.kill();
    second.delete("/api/v1/namespaces/two").await.expect(200);
    second.gone("/api/v1/namespaces/two").await;
    assert!(leads(&second));
    let spec = second.get(LEASE).await.expect(200)["spec"].clone();
    assert_ne!(spec["holderIdentity"], holder);
    assert_eq!((&spec["leaseTransitions"], &spec["leaseDurationSeconds"]), (&json!(1), &json!(4)));

    // One that is ended gives it back.
    let third = cluster.server("third", &[]).await;
    assert!(!leads(&third));
    second.terminate().await;
    until("the third leads", || leads(&third)).await;
    third.terminate().await;
    let released = cluster.store().get(Bytes::from("leases/kube-system/sternpost-controllers"), None).await;
    assert!(released.unwrap().entry.is_some());
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": "buoys.sea.test"},
        "spec": {"group": "sea.test", "scope": "Namespaced", "names": {"plural": "buoys", "kind": "Buoy"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    })
}

/// An API whose server is not there, so that every server finds something wrong.
fn missing() -> Value {
    json!({
        "metadata": {"name": "v1.gone.test"},
        "spec": {"group": "gone.test", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "gone"}},
    })
}

/// Of leases in a row, with nothing else written between: longer than anything that several servers would write again and
/// again.
const QUIET: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_have_nothing_to_do_write_nothing_but_leases() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-idle");
    let first = cluster.server("first", &[]).await;
    let second = cluster.server("second", &[]).await;
    let third = cluster.server("third", &[]).await;
    second.define(&definition()).await;
    third.post("/apis/apiregistration.k8s.io/v1/apiservices", &missing()).await.expect(201);
    first.namespace("sea").await;
    let sa = "/api/v1/namespaces/sea/serviceaccounts/default";
    third.until(sa, |code, _| code == 200).await;
    first
        .until("/apis/apiregistration.k8s.io/v1/apiservices/v1.gone.test", |_, it| {
            it["status"]["conditions"][0]["reason"] == "ServiceNotFound"
        })
        .await;

    let store = cluster.store();
    let now = store.current_revision().await.unwrap();
    let mut watch = store.watch(KeyRange::all(), now).await.unwrap();
    let (mut leases, mut others) = (0, Vec::new());
    let began = machine::now();
    while leases < QUIET {
        assert!(machine::elapsed(began) < AT_LAST, "it is never quiet: {others:?}");
        let Delivery::Changes(changes) = watch.next().await.unwrap() else { continue };
        for event in changes.events() {
            let key = String::from_utf8_lossy(event.key()).into_owned();
            if key.starts_with("leases/kube-system/") {
                leases += 1;
            } else {
                (leases, others) = (0, [others, vec![key]].concat());
            }
        }
    }
    for server in [first, second, third] {
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_keys_of_kinds_that_are_not_served_is_not_finalized() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-foreign");
    let store = cluster.store();
    let server = cluster.server("first", &[]).await;
    server.namespace("end").await;
    let foreign =
        ["widgets/end/a", "storage.k8s.io/widgets/end/a", "gone.test/buoys/end/a", "configmaps/end/damaged"];
    for key in foreign {
        store.commit(Transaction::write([Write::put(key, "not for this server")])).await.unwrap();
    }
    // Of other namespaces.
    for key in ["widgets/other/a", "storage.k8s.io/widgets/end", "widgets/end"] {
        store.commit(Transaction::write([Write::put(key, "not for this server")])).await.unwrap();
    }
    server.delete("/api/v1/namespaces/end").await.expect(200);
    let message = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|it| it["reason"] == "ContentDeletionFailed");
        found.map(|condition| condition["message"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    let told = server.until("/api/v1/namespaces/end", |_, it| !message(it).is_empty()).await;
    for key in foreign {
        assert!(message(&told).contains(key), "{key}: {}", message(&told));
    }
    for key in foreign {
        server.get("/api/v1/namespaces/end").await.expect(200);
        store.commit(Transaction::write([Write::delete(key)])).await.unwrap();
    }
    server.gone("/api/v1/namespaces/end").await;
    server.stop();
}
