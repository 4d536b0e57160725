//! `--etcd-servers`: a cluster's objects, read from its etcd. `STERNPOST_ETCD` is the path of an etcd, and
//! `STERNPOST_KUBE_APISERVER` of a kube-apiserver; without the latter, what one has written is from a recording.

use std::{collections::BTreeMap, process::Command, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_store::{Store, Transaction, Write};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, Endpoint, EtcdStore, Options};
use sternpost_testkit::{
    authority::Authority,
    etcd::{self, Etcd, recorded},
    peer::{self, KubeApiserver, Shared},
    process::{self, Log, Process, serve},
    server::{AT_LAST, Client, Server},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

const RECORDED: &str = include_str!("../../../layout/tests/recorded/kube-apiserver-1.36.4.tsv");

fn store(etcd: &Etcd) -> EtcdStore {
    let endpoints = vec![Endpoint::parse(&etcd.url()).unwrap()];
    let access = Access { endpoints, tls: None, user: None };
    let options = Options { access, prefix: "/registry/".into(), patience: DEFAULT_PATIENCE };
    EtcdStore::new(options, tokio::runtime::Handle::current())
}

async fn put(store: &EtcdStore, key: &str, value: impl Into<Bytes>) {
    store.commit(Transaction::write([Write::put(key.to_owned(), value)])).await.unwrap();
}

async fn replica(data: &tempfile::TempDir, etcd: &Etcd) -> Server {
    let servers = format!("--etcd-servers={}", etcd.url());
    Server::start_on("etcd", data.path().to_str().unwrap(), &[&servers, "--etcd-read-only"]).await
}

/// What is listed of a resource, without what lists do not have.
async fn listed(server: &Server, path: &str) -> Vec<Value> {
    server.get(path).await.expect(200)["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_has_is_served_and_never_written() {
    let Some(program) = etcd::program() else { return };
    let mut etcd = Etcd::start(&program, &[]);
    let cluster = store(&etcd);
    for (key, value) in recorded(RECORDED) {
        put(&cluster, key, value).await;
    }
    put(&cluster, "configmaps/default/damaged", "k8s\0damaged").await;
    put(&cluster, "masterleases/192.0.2.7", "of others").await;
    let before = cluster.current_revision().await.unwrap();

    let data = tempfile::tempdir().unwrap();
    let server = replica(&data, &etcd).await;
    let deployments = listed(&server, "/apis/apps/v1/deployments").await;
    assert!(!deployments.is_empty());
    let buoys = listed(&server, "/apis/sea.example/v1/buoys").await;
    assert_eq!(buoys[0]["kind"], "Buoy");
    // In this one nothing is made up: it has what was recorded.
    assert_eq!(listed(&server, "/apis/scheduling.k8s.io/v1/priorityclasses").await.len(), 1);
    server.get("/api/v1/namespaces/default/configmaps/damaged").await.expect(500);

    let map = json!({"metadata": {"name": "new"}});
    let refused = server.post(MAPS, &map).await;
    assert_eq!(refused.message(), "configmaps is forbidden: this server only reads");
    refused.expect(403);
    server.delete("/apis/sea.example/v1/namespaces/default/buoys/red").await.expect(403);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let node = listed(&server, "/api/v1/nodes").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let node = format!("/api/v1/nodes/{node}");
    server.patch(&node, "application/merge-patch+json", &label).await.expect(403);
    let shown = server.patch(&format!("{node}?dryRun=All"), "application/merge-patch+json", &label).await;
    assert_eq!(shown.expect(200)["metadata"]["labels"]["a"], "b");
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let review = server.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await;
    assert_eq!(review.expect(201)["status"]["allowed"], true);
    assert_eq!(cluster.current_revision().await.unwrap(), before);

    // What others write is there at once, and watched.
    cluster.commit(Transaction::write([Write::delete("configmaps/default/damaged")])).await.unwrap();
    let from = server.get(MAPS).await.expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = server.watch(&format!("{MAPS}?watch=true&resourceVersion={from}")).await;
    let (_, bytes) = recorded(RECORDED).find(|(key, _)| key.starts_with("configmaps/")).unwrap();
    for count in 0..20 {
        put(&cluster, &format!("configmaps/default/m{count}"), bytes.clone()).await;
        server.get(&format!("{MAPS}/m{count}")).await.expect(200);
        let (kind, ..) = watch.told().await.unwrap();
        assert_eq!(kind, "ADDED");
    }

    // Without etcd it is not ready; with it again, it goes on.
    etcd.kill();
    server.until("/readyz", |code, _| code == 500).await;
    etcd.restart();
    server.until("/readyz", |code, _| code == 200).await;
    put(&store(&etcd), "configmaps/default/again", bytes).await;
    server.get(&format!("{MAPS}/again")).await.expect(200);
    assert_eq!(watch.told().await.unwrap().0, "ADDED");
    server.terminate().await;
}

/// Between a server and its etcd, with connections that the test can cut.
struct Between {
    port: u16,
    is_cut: watch::Sender<bool>,
}

impl Between {
    async fn start(etcd: &Etcd) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_cut, cut) = watch::channel(false);
        let to = etcd.url().strip_prefix("http://").unwrap().to_owned();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (mut cut, to) = (cut.clone(), to.clone());
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(to).await else { return };
                    tokio::select! {
                        biased;
                        _ = cut.wait_for(|cut| *cut) => {}
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    }
                });
            }
        });
        Self { port, is_cut }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_missed_what_was_compacted_begins_anew() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let cluster = store(&etcd);
    let (_, bytes) = recorded(RECORDED).find(|(key, _)| key.starts_with("configmaps/")).unwrap();
    put(&cluster, "configmaps/default/gone", bytes.clone()).await;
    put(&cluster, "configmaps/default/stays", bytes.clone()).await;
    let between = Between::start(&etcd).await;
    let data = tempfile::tempdir().unwrap();
    let flags = [&format!("--etcd-servers={}", between.url()), "--etcd-read-only"];
    let server = Server::start_on("etcd", data.path().to_str().unwrap(), &flags).await;
    let from = server.get(MAPS).await.expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = server.watch(&format!("{MAPS}?watch=true&resourceVersion={from}")).await;

    between.is_cut.send_replace(true);
    cluster.commit(Transaction::write([Write::delete("configmaps/default/gone")])).await.unwrap();
    put(&cluster, "configmaps/default/new", bytes.clone()).await;
    let now = cluster.current_revision().await.unwrap();
    cluster.compact(now).await.unwrap();
    between.is_cut.send_replace(false);

    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    server.until("/readyz", |code, _| code == 200).await;
    for (name, code) in [("gone", 404), ("stays", 200), ("new", 200)] {
        server.get(&format!("{MAPS}/{name}")).await.expect(code);
    }
    assert_eq!(listed(&server, MAPS).await.len(), 2);
    let log = server.log();
    assert!(log.text().contains("reading everything anew"), "{}", log.text());

    // It goes on from there.
    let mut watch = server.watch(&format!("{MAPS}?watch=true&resourceVersion={now}")).await;
    put(&cluster, "configmaps/default/next", bytes).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    server.terminate().await;
}

/// Until etcd answers, nobody gets a wrong answer, and whoever asks how the server is gets a right one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_etcd_and_says_so() {
    let Some(program) = etcd::program() else { return };
    let mut etcd = Etcd::start(&program, &[]);
    // etcd 3.7 that is killed in the middle of its first start may never have a leader again.
    etcd.post("/v3/kv/put", r#"{"key": "YQ==", "value": "YQ=="}"#);
    etcd.kill();
    let data = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(process::program());
    command.args(["serve", "--etcd-servers", &etcd.url(), "--listen", &format!("127.0.0.1:{port}")]);
    command.arg("--data-dir").arg(data.path());
    let mut process = Process::spawn(command);
    let ask = |path: &str| {
        let output = Command::new("curl")
            .args(["--silent", "--insecure", "--include", &format!("https://127.0.0.1:{port}{path}")])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().to_ascii_lowercase()
    };
    let log = process.log();
    until(|| log.text().contains("etcd is not reached: http://127.0.0.1:"), &log);
    until(|| ask("/readyz").contains("[-]etcd failed: reason withheld"), &log);
    for path in ["/readyz", "/livez", "/healthz"] {
        let answer = ask(path);
        assert!(answer.starts_with("http/2 500"), "{path}: {answer}");
        assert!(answer.contains("[-]etcd failed: reason withheld"), "{path}: {answer}");
    }
    for path in ["/api", "/api/v1/namespaces/default", "/openapi/v2", "/version", "/nothing"] {
        let answer = ask(path);
        assert!(answer.starts_with("http/2 503"), "{path}: {answer}");
        assert!(answer.contains("\r\nretry-after: 1\r\n"), "{path}: {answer}");
        assert!(answer.contains("the server is waiting for etcd, try again"), "{path}: {answer}");
    }
    assert_eq!(process.has_ended(), None);

    etcd.restart();
    until(|| ask("/readyz").starts_with("http/2 200"), &log);
    process.terminate();
    assert_eq!(process.end().0, Some(0));
}

fn until(is_so: impl Fn() -> bool, log: &Log) {
    let began = machine::now();
    while !is_so() {
        assert!(machine::elapsed(began) < AT_LAST, "{}", log.text());
        machine::block(Duration::from_millis(10));
    }
}

/// Whatever is wrong, it is named with the flag that may mend it, and waited for.
#[test]
fn what_keeps_a_server_from_etcd_is_told_with_its_flag() {
    let Some(program) = etcd::program() else { return };
    let data = tempfile::tempdir().unwrap();
    let file = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let authority = Authority::new("etcd");
    std::fs::write(file("ca"), &authority.certificate).unwrap();
    std::fs::write(file("other-ca"), Authority::new("other").certificate).unwrap();
    let (certificate, key) = authority.serving();
    std::fs::write(file("certificate"), certificate).unwrap();
    std::fs::write(file("key"), key).unwrap();
    let (certificate, key, ca) = (file("certificate"), file("key"), file("ca"));
    let flags =
        ["--cert-file", &certificate, "--key-file", &key, "--client-cert-auth", "--trusted-ca-file", &ca];
    let etcd = Etcd::start(&program, &flags);
    let plain = Etcd::start(&program, &[]);
    let no_tls = plain.url().replace("http://", "https://");
    let cases = [
        (etcd.url(), "other-ca", "; --etcd-cafile has to name"),
        (etcd.url(), "ca", "; it does not accept --etcd-certfile and --etcd-keyfile"),
        (etcd.url().replace("https://", "http://"), "ca", "; it seems to speak TLS"),
        (no_tls, "ca", "; it seems not to speak TLS"),
    ];
    let waiting = cases.map(|(url, authority, said)| {
        let mut command = serve();
        command.args(["--etcd-servers", &url, "--etcd-read-only", "--etcd-cafile", &file(authority)]);
        (Process::spawn(command), said)
    });
    for (mut process, said) in waiting {
        let log = process.log();
        until(|| log.text().contains(said), &log);
        assert_eq!(process.has_ended(), None, "{}", log.text());
        process.terminate();
        assert_eq!(process.end().0, Some(0));
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const UNSAFE: &str = r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true}"#;
const UNSAFE_DRY: &str = r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"dryRun":["All"]}"#;
const UNSAFE_NOW: &str =
    r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"gracePeriodSeconds":0}"#;

/// What is asked while `b` and `c` of three objects cannot be read, and the code and reason of the answer.
const UNREADABLE: &[(&str, &str, &str, u16, &str)] = &[
    ("GET", "/a", "", 200, ""),
    ("GET", "/b", "", 500, "InternalError"),
    ("GET", "/c", "", 500, "InternalError"),
    ("POST", "", r#"{"metadata":{"name":"b"}}"#, 409, "AlreadyExists"),
    ("POST", "", r#"{"metadata":{"name":"d"}}"#, 201, ""),
    ("PUT", "/b", r#"{"metadata":{"name":"b"}}"#, 500, "*"),
    ("DELETE", "/b", "", 500, "InternalError"),
    ("DELETE", "/a", UNSAFE, 422, "Invalid"),
    ("DELETE", "/absent", UNSAFE, 422, "Invalid"),
    ("DELETE", "/b", UNSAFE_DRY, 422, "Invalid"),
    ("DELETE", "/b", UNSAFE_NOW, 422, "Invalid"),
    ("DELETE", "", UNSAFE, 422, "Invalid"),
    ("DELETE", "", "", 500, "*"),
    ("DELETE", "/b", UNSAFE, 200, ""),
    ("DELETE", "/c", UNSAFE, 200, ""),
    ("GET", "/b", "", 404, "NotFound"),
    ("POST", "", r#"{"metadata":{"name":"b"}}"#, 201, ""),
];

const GATE: &str = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true";

async fn damage(cluster: &EtcdStore) {
    put(cluster, "configmaps/default/b", "k8s\0damaged").await;
    put(cluster, "configmaps/default/c", "k8s:enc:aescbc:v1:gone:0123456789abcdef").await;
}

/// Whether an answer is the one that is expected; one of them is not the same everywhere.
fn check_unreadable(asked: &str, (code, body): (u16, &Value), (expected, reason): (u16, &str)) {
    assert_eq!(code, expected, "{asked}: {body}");
    let found = body["reason"].as_str().unwrap_or_default();
    assert!(reason == "*" || found == reason, "{asked}: {body}");
}

/// Who may delete, and not what cannot be read, is told so.
async fn check_unsafe_deletion_is_a_permission_of_its_own(server: &Client) {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "delete"]});
    server
        .post(&format!("{roles}/roles"), &json!({"metadata": {"name": "r"}, "rules": [rule]}))
        .await
        .expect(201);
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    server.post(&format!("{roles}/rolebindings"), &binding).await.expect(201);
    let delete = async |name: &str, body: &'static str| {
        let mut request = server.request(&format!("{MAPS}/{name}"));
        *request.method_mut() = http::Method::DELETE;
        request.headers_mut().insert("impersonate-user", "bob".parse().unwrap());
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        *request.body_mut() = Full::new(Bytes::from_static(body.as_bytes()));
        let (parts, body) = server.apart().await.send_request(request).await.unwrap().into_parts();
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        (parts.status.as_u16(), body)
    };
    // The binding is in effect a little later than it is written.
    let began = machine::now();
    while delete("b", "").await.0 == 403 {
        assert!(machine::elapsed(began) < AT_LAST);
        machine::sleep(Duration::from_millis(20)).await;
    }
    for name in ["b", "absent"] {
        let (code, body) = delete(name, UNSAFE).await;
        let message = format!(
            r#"configmaps "{name}" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: "#
        );
        let told = (code, body["reason"].as_str(), body["message"].as_str());
        assert_eq!(told, (403, Some("Forbidden"), Some(message.as_str())), "{body}");
        assert_eq!(body["details"], json!({"name": name, "kind": "configmaps"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_read_are_neither_there_nor_gone() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let servers = format!("--etcd-servers={}", etcd.url());
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_on("etcd", data.path().to_str().unwrap(), &[&servers, GATE]).await;
    for name in ["a", "b", "c"] {
        server.post(MAPS, &json!({"metadata": {"name": name}})).await.expect(201);
    }
    let from = server.get(MAPS).await.expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = server.watch(&format!("{MAPS}?watch=true&resourceVersion={from}")).await;
    let mut secrets = server.watch("/api/v1/secrets?watch=true").await;
    damage(&store(&etcd)).await;

    // Nobody is told that something was deleted.
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert_eq!(watch.next().await, None);
    let refused = server.get(MAPS).await;
    assert_eq!(refused.message(), "failed to read one or more configmaps from the storage");
    let refused = refused.expect(500);
    assert_eq!(refused["reason"], "StoreReadError");
    let places: Vec<&str> = refused["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["field"].as_str().unwrap())
        .collect();
    assert_eq!(places, ["/registry/configmaps/default/b", "/registry/configmaps/default/c"]);
    server.get(&format!("{MAPS}?watch=true")).await.expect(500);
    // Whatever it is not in works.
    server.get("/api/v1/namespaces/kube-system/configmaps").await.expect(200);
    server.get(&format!("{MAPS}?fieldSelector=metadata.name%3Da")).await.expect(200);
    server.get("/api/v1/namespaces").await.expect(200);
    let dry = json!({"metadata": {"name": "b"}});
    server.post(&format!("{MAPS}?dryRun=All"), &dry).await.expect(409);
    check_unsafe_deletion_is_a_permission_of_its_own(&server).await;

    for (method, path, body, code, reason) in UNREADABLE {
        let asked = format!("{method} {path} {body}");
        let answer = server.send(method, &format!("{MAPS}{path}"), "application/json", *body).await;
        if path.ends_with("/b") && *code == 500 {
            let message = answer.message();
            assert!(
                message.contains("corrupt object, Code: 7, Key: /registry/configmaps/default/b, "),
                "{message}"
            );
            assert!(message.contains("object not decodable revision="), "{message}");
        }
        check_unreadable(&asked, (answer.code, &answer.body), (*code, reason));
    }
    let names: Vec<Value> =
        listed(&server, MAPS).await.iter().map(|item| item["metadata"]["name"].clone()).collect();
    assert!(["a", "b", "d"].iter().all(|name| names.contains(&json!(name))), "{names:?}");

    // Others may be told nothing of it: there was something to tell of secrets only.
    server.post("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await.expect(201);
    while secrets.told().await.unwrap().1 != "s" {}
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_that_an_object_which_cannot_be_read_may_forbid() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let cluster = store(&etcd);
    let servers = format!("--etcd-servers={}", etcd.url());
    let data = tempfile::tempdir().unwrap();
    let server =
        Server::start_on("etcd", data.path().to_str().unwrap(), &[&servers, GATE, "--controllers=*"]).await;

    // Its owner may be gone, or not.
    let owner = server.post(MAPS, &json!({"metadata": {"name": "owner"}})).await.expect(201);
    let owned = |name: &str, uid: &Value| {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
        json!({"metadata": {"name": name, "ownerReferences": [owner]}})
    };
    put(&cluster, "configmaps/default/owner", "k8s\0damaged").await;
    // Whoever reads sees what others have written before; controllers and admission somewhat later.
    server.get(&format!("{MAPS}/owner")).await.expect(500);
    server.post(SECRETS, &owned("kept", &owner["metadata"]["uid"])).await.expect(201);
    let absent = json!({"apiVersion": "v1", "kind": "Secret", "name": "absent", "uid": "u"});
    let absent = json!({"metadata": {"name": "goes", "ownerReferences": [absent]}});
    server.post(SECRETS, &absent).await.expect(201);
    server.gone(&format!("{SECRETS}/goes")).await;
    server.get(&format!("{SECRETS}/kept")).await.expect(200);

    // A namespace waits for what it holds.
    server.namespace("full").await;
    put(&cluster, "secrets/full/s", "k8s\0damaged").await;
    server.get("/api/v1/namespaces/full/secrets/s").await.expect(500);
    server.delete("/api/v1/namespaces/full").await.expect(200);
    let of_content = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|it| it["message"].as_str().unwrap_or_default().contains("/registry/secrets/full/s"))
    };
    server.until("/api/v1/namespaces/full", |_, namespace| of_content(namespace)).await;
    server.send("DELETE", "/api/v1/namespaces/full/secrets/s", "application/json", UNSAFE).await.expect(200);
    server.gone("/api/v1/namespaces/full").await;

    // Who would refuse a write is not known; other namespaces have quotas of their own.
    let map = |name: &str| json!({"metadata": {"name": name}});
    put(&cluster, "resourcequotas/default/q", "k8s\0damaged").await;
    server.get("/api/v1/namespaces/default/resourcequotas/q").await.expect(500);
    let refused = server.post(MAPS, &map("new")).await;
    assert!(refused.message().contains("/registry/resourcequotas/default/q"), "{}", refused.message());
    refused.expect(500);
    server.post("/api/v1/namespaces/kube-system/configmaps", &map("new")).await.expect(201);
    put(&cluster, "validatingwebhookconfigurations/w", "k8s\0damaged").await;
    server.get(&format!("{HOOKS}/w")).await.expect(500);
    server.post("/api/v1/namespaces/kube-system/configmaps", &map("newer")).await.expect(500);
    server.send("DELETE", &format!("{HOOKS}/w"), "application/json", UNSAFE).await.expect(200);
    server.post("/api/v1/namespaces/kube-system/configmaps", &map("newer")).await.expect(201);
    server.terminate().await;

    // Nor is it needed to start.
    put(&cluster, "clusterroles/edit", "k8s\0damaged").await;
    let server = Server::start_on("etcd", data.path().to_str().unwrap(), &[&servers, GATE]).await;
    server.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/edit").await.expect(500);
    server.terminate().await;
}

/// The same table, at kube-apiserver.
#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_has_the_same_answers_for_what_cannot_be_read() {
    let (Some(program), Some(kube_apiserver)) = (etcd::program(), peer::program()) else { return };
    let etcd = Etcd::start(&program, &[]);
    let peer = KubeApiserver::start(&kube_apiserver, &etcd.url(), &Shared::new("unreadable"), &[GATE]).await;
    for name in ["a", "b", "c"] {
        peer.post(MAPS, &json!({"metadata": {"name": name}})).await.expect(201);
    }
    damage(&store(&etcd)).await;
    // With the cache that it began with, and when that begins anew.
    let answer = peer.get(MAPS).await;
    assert!([429, 500].contains(&answer.code), "{answer:?}");
    check_unsafe_deletion_is_a_permission_of_its_own(&peer).await;
    for (method, path, body, code, reason) in UNREADABLE {
        let answer = peer.send(method, &format!("{MAPS}{path}"), "application/json", *body).await;
        check_unreadable(&format!("{method} {path} {body}"), (answer.code, &answer.body), (*code, reason));
    }
}

/// Everything that a kube-apiserver lists, against what is listed here.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_kube_apiserver_beside() {
    let (Some(program), Some(kube_apiserver)) = (etcd::program(), peer::program()) else { return };
    let etcd = Etcd::start(&program, &[]);
    // What the other has written before, of every kind; it adds its own.
    let cluster = store(&etcd);
    for (key, value) in recorded(RECORDED) {
        put(&cluster, key, value).await;
    }
    let peer = KubeApiserver::start(&kube_apiserver, &etcd.url(), &Shared::new("beside"), &[]).await;
    let identity = tempfile::tempdir().unwrap();
    let server = replica(&identity, &etcd).await;
    let mut versions = vec!["/api/v1".to_owned()];
    for group in peer.get("/apis").await.expect(200)["groups"].as_array().unwrap() {
        let all = group["versions"].as_array().unwrap().iter();
        versions.extend(all.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())));
    }
    let (mut objects, mut problems) = (0, Vec::new());
    for version in versions {
        for resource in peer.get(&version).await.expect(200)["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let is_listed = resource["verbs"].as_array().unwrap().contains(&json!("list"));
            // The health of others is not stored; of the leases, some are renewed all the time.
            if !is_listed || ["componentstatuses", "leases"].contains(&name) {
                continue;
            }
            let path = format!("{version}/{name}");
            let by_name = |list: Value| -> BTreeMap<String, Value> {
                let items = list["items"].as_array().cloned().unwrap_or_default().into_iter();
                let key =
                    |item: &Value| format!("{}/{}", item["metadata"]["namespace"], item["metadata"]["name"]);
                items.map(|item| (key(&item), item)).collect()
            };
            let ours = server.get(&path).await;
            // Definitions are in effect a little later than it is ready; conversions fail at both.
            if ours.code == 200 {
                peer.until(&path, |code, _| code == 200).await;
            }
            let (theirs, ours) = (by_name(peer.get(&path).await.body), by_name(ours.body));
            objects += theirs.len();
            for key in theirs.keys().chain(ours.keys()) {
                if theirs.get(key) != ours.get(key) {
                    problems.push(format!("{path} {key}:\n  {:?}\n  {:?}", theirs.get(key), ours.get(key)));
                }
            }
        }
    }
    assert!(objects > 200, "{objects}");
    assert!(problems.is_empty(), "of {objects}: {}", problems.join("\n"));
}

/// What controllers follow from the start, damaged: the server begins all the same, and can be ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_beside_definitions_and_leases_that_cannot_be_read() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let cluster = store(&etcd);
    for key in [
        "apiextensions.k8s.io/customresourcedefinitions/buoys.sea.example",
        "apiregistration.k8s.io/apiservices/v1.sea.example",
        "leases/kube-system/some",
        "namespaces/some",
    ] {
        put(&cluster, key, "k8s\0damaged").await;
    }
    let servers = format!("--etcd-servers={}", etcd.url());
    let data = tempfile::tempdir().unwrap();
    let server =
        Server::start_on("etcd", data.path().to_str().unwrap(), &[&servers, "--controllers=*"]).await;
    server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await.expect(500);
    server.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
    server.terminate().await;
}
