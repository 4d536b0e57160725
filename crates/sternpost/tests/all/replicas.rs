//! Several servers on one etcd, whose path is `STERNPOST_ETCD`.

use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_store::{Delivery, KeyRange, Store, Transaction, Write};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, Endpoint, EtcdStore, Options};
use sternpost_testkit::{
    etcd::{self, Etcd},
    process::{Process, serve},
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
        std::fs::write(files.0.join("public"), key.public_key_pem()).unwrap();
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
    let foreign = ["widgets/end/a", "storage.k8s.io/widgets/end/a", "gone.test/buoys/end/a"];
    const DAMAGED: &str = "configmaps/end/damaged";
    for key in foreign.into_iter().chain([DAMAGED]) {
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
    server.until("/api/v1/namespaces/end", |_, it| message(it).contains(DAMAGED)).await;
    store.commit(Transaction::write([Write::delete(DAMAGED)])).await.unwrap();
    // What is not served is looked for when all else is gone.
    let are_told = |message: &str| foreign.iter().all(|key| message.contains(key));
    server.until("/api/v1/namespaces/end", |_, it| are_told(&message(it))).await;
    for key in foreign {
        server.get("/api/v1/namespaces/end").await.expect(200);
        store.commit(Transaction::write([Write::delete(key)])).await.unwrap();
    }
    server.gone("/api/v1/namespaces/end").await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_etcd_is_asked_and_holds_is_counted() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-metrics");
    let flags = ["--etcd-count-metric-poll-period=1s", "--etcd-db-metric-poll-interval=1s"];
    let server = cluster.server("first", &flags).await;
    server.post(SECRETS, &secret("x")).await.expect(201);
    let counted = [
        r#"etcd_requests_total{operation="create",group="",resource="secrets"} 1"#,
        r#"etcd_request_duration_seconds_count{operation="create",group="",resource="secrets"} 1"#,
        r#"apiserver_resource_objects{group="",resource="secrets"} 1"#,
        r#"apiserver_storage_objects{resource="leases.coordination.k8s.io"} 2"#,
        r#"apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} "#,
    ];
    server
        .until("/metrics", |_, text| {
            counted.iter().all(|line| text.as_str().is_some_and(|it| it.contains(line)))
        })
        .await;
    server.stop();
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"text": "hidden"}})
}

async fn raw(store: &EtcdStore, name: &str) -> Vec<u8> {
    let found = store.get(Bytes::from(format!("secrets/default/{name}")), None).await.unwrap();
    found.entry.unwrap().value().to_vec()
}

pub(crate) fn encrypted_by(providers: &str) -> String {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n";
    format!("{head}- resources: [secrets]\n  providers:\n{providers}  - identity: {{}}\n")
}

/// Sends an object back as it is, and tells its version.
async fn replace(server: &Server, name: &str) -> String {
    let path = format!("{SECRETS}/{name}");
    let object = server.get(&path).await.expect(200);
    let put = server.put(&path, &object).await.expect(200);
    put["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_encryption_configuration_is_used_and_what_is_stale_is_written_again() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-reload");
    let store = cluster.store();
    let file = cluster.files.0.join("encryption.yaml");
    let flag = format!("--encryption-provider-config={}", file.display());
    let flags = [flag.as_str(), "--encryption-provider-config-automatic-reload"];
    let key = |name: &str, byte: char| {
        let secret = std::iter::repeat_n(byte, 42).collect::<String>();
        format!("  - aescbc: {{keys: [{{name: {name}, secret: {secret}A=}}]}}\n")
    };
    std::fs::write(&file, encrypted_by(&key("one", 'a'))).unwrap();
    let server = cluster.server("first", &flags).await;
    server.post(SECRETS, &secret("x")).await.expect(201);
    assert!(raw(&store, "x").await.starts_with(b"k8s:enc:aescbc:v1:one:"));
    let version = replace(&server, "x").await;
    assert_eq!(replace(&server, "x").await, version, "nothing changed");

    std::fs::write(&file, encrypted_by(&(key("two", 'b') + &key("one", 'a')))).unwrap();
    until("it is read again", || server.log().text().contains("read again")).await;
    let dry = format!("{SECRETS}/x?dryRun=All");
    let object = server.get(&format!("{SECRETS}/x")).await.expect(200);
    server.put(&dry, &object).await.expect(200);
    assert!(raw(&store, "x").await.starts_with(b"k8s:enc:aescbc:v1:one:"));
    let newer = replace(&server, "x").await;
    assert_ne!(newer, version);
    assert!(raw(&store, "x").await.starts_with(b"k8s:enc:aescbc:v1:two:"));
    assert_eq!(replace(&server, "x").await, newer, "it is not stale any more");
    assert_eq!(server.get(&format!("{SECRETS}/x")).await.expect(200)["data"]["text"], "aGlkZGVu");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn values_whose_key_comes_with_a_changed_file_are_read_then() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-regain");
    let key = |name: &str, byte: char| {
        let secret = std::iter::repeat_n(byte, 42).collect::<String>();
        format!("  - aescbc: {{keys: [{{name: {name}, secret: {secret}A=}}]}}\n")
    };
    let (one, both) = (encrypted_by(&key("one", 'a')), encrypted_by(&(key("two", 'b') + &key("one", 'a'))));
    let file = |name: &str| cluster.files.0.join(name);
    std::fs::write(file("old"), &one).unwrap();
    std::fs::write(file("new"), &both).unwrap();
    let old = format!("--encryption-provider-config={}", file("old").display());
    let new = format!("--encryption-provider-config={}", file("new").display());
    let first = cluster.server("first", &[&old, "--encryption-provider-config-automatic-reload"]).await;
    first.post(SECRETS, &secret("x")).await.expect(201);
    let second = cluster.server("second", &[&new]).await;
    // The new key is used before all have it.
    let newer = replace(&second, "x").await;
    second.post(SECRETS, &secret("y")).await.expect(201);
    for name in ["x", "y"] {
        first.get(&format!("{SECRETS}/{name}")).await.expect(500);
        first.put(&format!("{SECRETS}/{name}"), &secret(name)).await.expect(500);
    }
    std::fs::write(file("old"), &both).unwrap();
    first.until(&format!("{SECRETS}/x"), |_, it| it["metadata"]["resourceVersion"] == newer).await;
    first.until(SECRETS, |code, it| code == 200 && it["items"].as_array().unwrap().len() == 2).await;
    assert_eq!(replace(&first, "x").await, newer, "it is as it would be written");
    for server in [first, second] {
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_takes_no_address_for_a_service_of_another() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-addresses");
    let store = cluster.store();
    let flags = ["--controllers=-*"];
    let first = cluster.server("first", &flags).await;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let service = first.post(services, &service).await.expect(201);
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    let own = first.get(&format!("{services}/kubernetes")).await.expect(200);
    let own = own["spec"]["clusterIP"].as_str().unwrap();
    // As somebody sees it who reads while the service is deleted.
    for address in [address, own] {
        let key = format!("ipaddresses/{address}");
        assert!(store.get(Bytes::from(key.clone()), None).await.unwrap().entry.is_some(), "{key}");
        store.commit(Transaction::write([Write::delete(key)])).await.unwrap();
    }
    let second = cluster.server("second", &flags).await;
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    second.get(&format!("{addresses}/{own}")).await.expect(200);
    second.get(&format!("{addresses}/{address}")).await.expect(404);
    for server in [first, second] {
        server.stop();
    }
}

/// Both begin with an etcd that is empty, and neither accepts the tokens of the other.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_with_other_keys_that_begin_one_cluster_one_ends() {
    let Some(program) = etcd::program() else { return };
    let cluster = Cluster::start(&program, "replicas-strangers");
    let start = |name: &str| {
        let folder = cluster.files.0.join(name);
        let mut command = serve();
        command.arg(format!("--etcd-servers={}", cluster.etcd.url()));
        command
            .arg("--data-dir")
            .arg(&folder)
            .arg("--kubeconfig")
            .arg(cluster.files.0.join(format!("{name}.yaml")));
        Process::spawn(command)
    };
    let mut servers = [start("one"), start("other")];
    let began = machine::now();
    let ended = loop {
        if let Some(ended) = servers.iter_mut().position(|server| server.has_ended().is_some()) {
            break ended;
        }
        assert!(machine::elapsed(began) < AT_LAST, "both go on");
        machine::sleep(std::time::Duration::from_millis(20)).await;
    };
    let (code, log) = servers[ended].end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("error: this server does not fit the cluster in etcd:"), "{log}");
    assert!(log.contains("do not go with those of apiserver-"), "{log}");
    let mut other = servers.into_iter().enumerate().find(|(at, _)| *at != ended).unwrap().1;
    other.ready().unwrap();
    assert!(other.has_ended().is_none());
    other.terminate();
    assert_eq!(other.end().0, Some(0));
}

// The plugin for tests needs it.
#[cfg(target_os = "linux")]
mod plugins {
    use std::{
        path::PathBuf,
        process::{Child, Command, Stdio},
        time::Duration,
    };

    use sternpost_testkit::kms::{Fault, Plugin, State};

    use super::*;

    const MARK: &[u8] = b"k8s:enc:kms:v2:a:";

    /// A configuration with a plugin of its own. All have the same keys.
    fn plugin(cluster: &Cluster, of: &str) -> (Plugin, String) {
        let socket = cluster.files.0.join(format!("{of}.sock"));
        let endpoint = format!("unix://{}", socket.display());
        let kms = format!("  - kms: {{apiVersion: v2, name: a, endpoint: '{endpoint}', timeout: 2s}}\n");
        let file = cluster.files.0.join(format!("{of}.yaml"));
        std::fs::write(&file, encrypted_by(&kms)).unwrap();
        let flag = format!("--encryption-provider-config={}", file.display());
        (Plugin::start(&socket, State::default()), flag)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn values_by_a_kms_plugin_are_read_by_all_and_again_when_it_is_back() {
        let Some(program) = etcd::program() else { return };
        let cluster = Cluster::start(&program, "replicas-kms");
        let store = cluster.store();
        let (_one, flag) = plugin(&cluster, "one");
        let first = cluster.server("first", &[&flag]).await;
        let (other, flag) = plugin(&cluster, "other");
        let second = cluster.server("second", &[&flag]).await;
        first.post(SECRETS, &secret("x")).await.expect(201);
        let before = raw(&store, "x").await;
        assert!(before.starts_with(MARK));
        let read = second.get(&format!("{SECRETS}/x")).await.expect(200);
        assert_eq!(read["data"]["text"], "aGlkZGVu");
        let version = replace(&second, "x").await;
        assert_eq!(version, read["metadata"]["resourceVersion"], "it is of the same key");

        // One whose plugin has another key writes it again, though nothing changed.
        let (third, flag) = plugin(&cluster, "third");
        third.state().key_id = "another".to_owned();
        other.state().fault = Fault::Break;
        let third = cluster.server("third", &[&flag]).await;
        let mut watch = second.watch(&format!("{SECRETS}?watch=true&resourceVersion={version}")).await;
        let newer = replace(&third, "x").await;
        assert_ne!(newer, version);
        assert_ne!(raw(&store, "x").await, before);
        third.post(SECRETS, &secret("y")).await.expect(201);
        // Who cannot open it says so, and not that it is gone.
        let refused = second.get(&format!("{SECRETS}/x")).await;
        assert!(refused.message().contains("Key: /registry/secrets/default/x, "), "{}", refused.message());
        refused.expect(500);
        second.get(&format!("{SECRETS}/y")).await.expect(500);
        second.get(SECRETS).await.expect(500);
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
        // Everything else is as new as ever.
        let maps = "/api/v1/namespaces/default/configmaps";
        let map = third.post(maps, &json!({"metadata": {"name": "m"}})).await.expect(201);
        assert_eq!(second.get(&format!("{maps}/m")).await.expect(200), map);
        second.post(maps, &json!({"metadata": {"name": "n"}})).await.expect(201);

        // With its plugin again, it reads what it could not.
        other.state().fault = Fault::None;
        second.until(&format!("{SECRETS}/x"), |_, it| it["metadata"]["resourceVersion"] == newer).await;
        second.until(&format!("{SECRETS}/y"), |_, it| it["data"]["text"] == "aGlkZGVu").await;
        let names = second.get(SECRETS).await.expect(200);
        let names: Vec<&Value> =
            names["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["x", "y"]);
        for server in [first, second, third] {
            server.stop();
        }
    }

    /// Ends with the value.
    struct Peer(Child);

    impl Drop for Peer {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn kube_apiserver_reads_what_is_encrypted_by_a_plugin_and_the_other_way_round() {
        #[allow(clippy::disallowed_methods, reason = "a test's configuration")]
        let kube_apiserver = std::env::var_os("STERNPOST_KUBE_APISERVER").map(PathBuf::from);
        let (Some(program), Some(kube_apiserver)) = (etcd::program(), kube_apiserver) else {
            eprintln!("SKIPPED: STERNPOST_ETCD or STERNPOST_KUBE_APISERVER is not set");
            return;
        };
        let cluster = Cluster::start(&program, "replicas-peer");
        let store = cluster.store();
        let (_plugin, encryption) = plugin(&cluster, "one");
        let file = |name: &str| cluster.files.0.join(name).to_str().unwrap().to_owned();
        std::fs::write(file("tokens"), "token,admin,admin,system:masters\n").unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let issuer = "--service-account-issuer=https://issuer.example";
        let range = "--service-cluster-ip-range=10.0.0.0/24";
        let peer = Command::new(kube_apiserver)
            .args(["--bind-address=127.0.0.1", "--authorization-mode=RBAC", issuer, range, &encryption])
            .args([
                format!("--etcd-servers={}", cluster.etcd.url()),
                format!("--secure-port={port}"),
                format!("--cert-dir={}", file("certificates")),
                format!("--token-auth-file={}", file("tokens")),
                format!("--service-account-key-file={}", file("public")),
                format!("--service-account-signing-key-file={}", file("key")),
            ])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(file("log")).unwrap())
            .spawn()
            .unwrap();
        let mut peer = Peer(peer);
        let ask = |path: &str, body: Option<&Value>| -> Option<Value> {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--insecure", "--fail", "--header", "Authorization: Bearer token"]);
            if let Some(body) = body {
                curl.args(["--header", "Content-Type: application/json", "--data", &body.to_string()]);
            }
            let output = curl.arg(format!("https://127.0.0.1:{port}{path}")).output().unwrap();
            output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap_or_default())
        };
        let began = machine::now();
        while ask("/readyz", None).is_none() || ask("/api/v1/namespaces/default", None).is_none() {
            assert!(
                machine::elapsed(began) < AT_LAST,
                "kube-apiserver is not ready: {}",
                std::fs::read_to_string(file("log")).unwrap()
            );
            assert!(
                peer.0.try_wait().unwrap().is_none(),
                "{}",
                std::fs::read_to_string(file("log")).unwrap()
            );
            machine::sleep(Duration::from_millis(100)).await;
        }
        ask(SECRETS, Some(&secret("theirs"))).unwrap();
        let server = cluster.server("ours", &[issuer, range, &encryption]).await;
        server.post(SECRETS, &secret("ours")).await.expect(201);
        for name in ["theirs", "ours"] {
            assert!(raw(&store, name).await.starts_with(MARK), "{name}");
            let path = format!("{SECRETS}/{name}");
            let (here, there) = (server.get(&path).await.expect(200), ask(&path, None).unwrap());
            assert_eq!(here["data"], json!({"text": "aGlkZGVu"}));
            assert_eq!(here["metadata"], there["metadata"]);
            assert_eq!(here["data"], there["data"]);
        }
        server.stop();
    }
}
