//! `backup`, `restore`, `migrate` and `storage report`: `docs/backup.md`. With `STERNPOST_ETCD` also on a real etcd.

#![cfg(unix)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_store::{Delivery, Entry, Store, Transaction, Write};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, Endpoint, EtcdStore, Options};
use sternpost_store_log::Image;
use sternpost_testkit::{
    etcd::{self, Etcd, recorded},
    peer::{self, KubeApiserver, Shared},
    server::{AT_LAST, Client, Server},
};

const RECORDED: &str = include_str!("../../../layout/tests/recorded/kube-apiserver-1.36.4.tsv");
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";
const BUOYS: &str = "/apis/sea.example/v1/namespaces/default/buoys";
/// No controllers: what is compared does not change by itself.
pub(crate) const FLAGS: [&str; 1] = ["--controllers=-*"];

pub(crate) fn sternpost(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// What a command says that succeeds, in JSON.
pub(crate) fn done(args: &[&str]) -> Value {
    let (code, stdout, stderr) = sternpost(&[args, &["-o", "json"]].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}: {stdout}");
    serde_json::from_str(&stdout).unwrap()
}

/// What one says that fails and does nothing.
pub(crate) fn refused(args: &[&str]) -> String {
    let (code, stdout, stderr) = sternpost(args);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
    assert!(stderr.starts_with("error: ") && !stderr.contains("panicked"), "{stderr}");
    stderr
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn number(text: &Value) -> u64 {
    text.as_str().unwrap().parse().unwrap()
}

pub(crate) fn version(object: &Value) -> u64 {
    number(&object["metadata"]["resourceVersion"])
}

/// What is listed at these paths, each by its place and name, but for the server's own service.
pub(crate) async fn listed(server: &Client, paths: &[&str]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for path in paths {
        for item in server.get(path).await.expect(200)["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            if name != "kubernetes" {
                found.insert(format!("{path}/{name}"), item.clone());
            }
        }
    }
    found
}

/// Without what differs from store to store.
pub(crate) fn without_versions(objects: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut objects = objects.clone();
    for object in objects.values_mut() {
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    }
    objects
}

/// Objects of several forms: custom ones, a port, an event.
pub(crate) async fn fill(server: &Server) {
    let definition = json!({
        "metadata": {"name": "buoys.sea.example"},
        "spec": {
            "group": "sea.example",
            "scope": "Namespaced",
            "names": {"plural": "buoys", "kind": "Buoy"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    server.define(&definition).await;
    let buoy =
        json!({"metadata": {"name": "red"}, "apiVersion": "sea.example/v1", "kind": "Buoy", "depth": 1.5});
    server.post(BUOYS, &buoy).await.expect(201);
    server
        .post(SECRETS, &json!({"metadata": {"name": "s"}, "stringData": {"a": "kept from others"}}))
        .await
        .expect(201);
    for name in ["a", "b"] {
        server.post(MAPS, &json!({"metadata": {"name": name}, "data": {"a": "b"}})).await.expect(201);
    }
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}});
    server.post(SERVICES, &service).await.expect(201);
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Because"});
    server.post(EVENTS, &event).await.expect(201);
}

pub(crate) const FILLED: [&str; 5] = [BUOYS, SECRETS, MAPS, SERVICES, EVENTS];

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_is_what_it_had_at_one_moment() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = Arc::new(Server::start_on("backup", text(&data), &FLAGS).await);
    let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writer = {
        let (server, ended, answered) = (server.clone(), ended.clone(), answered.clone());
        tokio::spawn(async move {
            while !ended.load(Ordering::SeqCst) {
                let next = answered.load(Ordering::SeqCst);
                let map = json!({"metadata": {"name": format!("n{next:06}")}, "data": {"text": "x".repeat(next % 3000)}});
                server.post(MAPS, &map).await.expect(201);
                answered.store(next + 1, Ordering::SeqCst);
            }
        })
    };
    let mut counts = vec![];
    for round in 0..6 {
        let (file, restored) =
            (root.path().join(format!("{round}.backup")), root.path().join(format!("r{round}")));
        let before = answered.load(Ordering::SeqCst);
        let report = done(&["backup", "--data-dir", text(&data), "--output-file", text(&file)]);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let again = done(&["restore", text(&file), "--data-dir", text(&restored)]);
        for same in ["revision", "keys", "sha256"] {
            assert_eq!(report[same], again[same]);
        }
        let image = Image::read(&restored.join("objects")).unwrap();
        let keys = image.entries.iter().map(|entry| String::from_utf8(entry.key().to_vec()).unwrap());
        let maps: Vec<String> = keys.filter(|key| key.starts_with("/configmaps/default/n")).collect();
        let expected: Vec<String> =
            (0..maps.len()).map(|at| format!("/configmaps/default/n{at:06}")).collect();
        assert_eq!(maps, expected, "none is missing between others");
        assert!(maps.len() >= before, "{} of {before} that were answered", maps.len());
        counts.push(maps.len());
    }
    ended.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    assert!(counts.last() > counts.first(), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_server_goes_on_with_what_it_had() {
    let root = tempfile::tempdir().unwrap();
    let (data, again, file) = (root.path().join("data"), root.path().join("again"), root.path().join("file"));
    let server = Server::start_on("restore", text(&data), &FLAGS).await;
    fill(&server).await;
    let before = listed(&server, &FILLED).await;
    let report = done(&["backup", "--data-dir", text(&data), "--output-file", text(&file)]);
    // It goes on after that, and is gone then.
    let later = server.post(MAPS, &json!({"metadata": {"name": "later"}})).await.expect(201);
    let token = server.token().to_owned();
    server.terminate().await;

    let restored = done(&["restore", text(&file), "--data-dir", text(&again)]);
    assert!(number(&restored["above"]) >= number(&report["revision"]) + 1_000_000);
    assert_eq!(sternpost(&["check", text(&again)]).0, Some(0));
    let modes = fs::read_dir(&again).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    assert!(modes.into_iter().all(|metadata| metadata.permissions().mode().trailing_zeros() >= 6));

    let server = Server::start_on("restored", text(&again), &FLAGS).await;
    assert_eq!(server.token(), token, "the way in is the same");
    assert_eq!(listed(&server, &FILLED).await, before);
    let list = server.get(MAPS).await.expect(200);
    assert!(version(&list) > version(&later), "no version is given out twice");
    // Whoever watched the server that is gone begins anew, also from a version that was never here.
    for from in [version(&before[&format!("{MAPS}/a")]), version(&later)] {
        let gone = server.get(&format!("{MAPS}?watch=true&resourceVersion={from}")).await.expect(200);
        assert_eq!(
            (&gone["type"], &gone["object"]["code"]),
            (&json!("ERROR"), &json!(410)),
            "{from}: {gone}"
        );
    }
    let mut watch = server.watch(&format!("{MAPS}?watch=true&resourceVersion={}", version(&list))).await;
    let next = server.post(MAPS, &json!({"metadata": {"name": "later"}})).await.expect(201);
    assert!(version(&next) > version(&list));
    assert_eq!(watch.told().await.unwrap().0, "ADDED");
    // The port is taken, as it was.
    let service = json!({"metadata": {"name": "other"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}});
    server.post(SERVICES, &service).await.expect(422);
    server.terminate().await;

    // Without what is not an object, a server makes its own.
    let only = root.path().join("only");
    let report = done(&["backup", "--data-dir", text(&data), "--output-file", text(&only), "--objects-only"]);
    assert_eq!(report["files"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_whole_backup_is_refused_and_nothing_is_made() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let (data, file) = (path("data"), path("file"));
    let server = Server::start_on("damage", text(&data), &FLAGS).await;
    server.terminate().await;
    done(&["backup", "--data-dir", text(&data), "--output-file", text(&file)]);
    let whole = fs::read(&file).unwrap();
    let length = whole.len();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damaged = "it is damaged: its bytes do not have the sum that they had";
    for (what, bytes, message) in [
        ("empty", vec![], "it is no backup that sternpost made".to_owned()),
        ("foreign", b"PK\x03\x04".repeat(100), "it is no backup that sternpost made".to_owned()),
        ("mark", flipped(3), "it is no backup that sternpost made".to_owned()),
        ("version", flipped(19), "it is of format version 0, this program knows versions 1 and 2".to_owned()),
        ("start", whole[..30].to_vec(), "it is cut short: it has 30 of 72 bytes".to_owned()),
        (
            "end",
            whole[..length - 1].to_vec(),
            format!("it is cut short: it has {} of {length} bytes", length - 1),
        ),
        (
            "longer",
            [&whole[..], b"\n"].concat(),
            format!("it has {} bytes, and should have {length}", length + 1),
        ),
        ("header", flipped(40), damaged.to_owned()),
        ("middle", flipped(length / 2), damaged.to_owned()),
        ("sum", flipped(length - 1), damaged.to_owned()),
    ] {
        let damaged = path("damaged");
        fs::write(&damaged, bytes).unwrap();
        let target = path("target");
        let said = refused(&["restore", text(&damaged), "--data-dir", text(&target)]);
        assert_eq!(said, format!("error: cannot use `{}`: {message}\n", damaged.display()), "{what}");
        assert!(!target.exists(), "{what}");
    }

    // Nothing is replaced, and nothing is left behind.
    let said = refused(&["backup", "--data-dir", text(&data), "--output-file", text(&file)]);
    assert!(said.contains("` exists\nhint: "), "{said}");
    assert_eq!(fs::read(&file).unwrap(), whole);
    let said = refused(&["restore", text(&file), "--data-dir", text(&data)]);
    assert!(said.contains("` is not empty\nhint: "), "{said}");
    let said = refused(&["backup", "--data-dir", text(&path("absent")), "--output-file", text(&path("new"))]);
    assert!(said.contains("is no data directory"), "{said}");
    let said = refused(&["backup", "--data-dir", text(&data), "--output-file", text(&path("absent/new"))]);
    assert!(said.contains("cannot write `"), "{said}");
    let log = data.join("objects/log-1");
    let mut bytes = fs::read(&log).unwrap();
    bytes[200] ^= 1;
    fs::write(&log, bytes).unwrap();
    let said = refused(&["backup", "--data-dir", text(&data), "--output-file", text(&path("new"))]);
    assert!(said.contains("is corrupt"), "{said}");
    let mut names: Vec<_> =
        fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["damaged", "data", "file"]);
}

fn keys(name: &str, secret: &str) -> String {
    format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{{resources: [secrets], \
         providers: [{{secretbox: {{keys: [{{name: {name}, secret: {secret}}}]}}}}, {{identity: {{}}}}]}}]}}"
    )
}

const FIRST: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const SECOND: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_encrypted_stays_so() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let (data, file, again) = (path("data"), path("file"), path("again"));
    fs::write(path("keys"), keys("one", FIRST)).unwrap();
    fs::write(path("others"), keys("two", SECOND)).unwrap();
    let encrypted = format!("--encryption-provider-config={}", path("keys").display());
    let flags = [FLAGS[0], &encrypted];
    let server = Server::start_on("sealed", text(&data), &flags).await;
    fill(&server).await;
    let before = listed(&server, &FILLED).await;
    done(&["backup", "--data-dir", text(&data), "--output-file", text(&file)]);
    let has = |part: &[u8]| fs::read(&file).unwrap().windows(part.len()).any(|window| window == part);
    assert!(has(b"k8s:enc:secretbox:v1:one:"));
    // As it stands in JSON.
    assert!(!has(b"a2VwdCBmcm9tIG90aGVycw=="));

    let row = |report: &Value| {
        let rows = report["resources"].as_array().unwrap().iter();
        let rows: Vec<Value> = rows.filter(|row| row["resource"] == "secrets").cloned().collect();
        rows
    };
    let report = done(&["storage", "report", "--data-dir", text(&data)]);
    let sealed = json!({"resource": "secrets", "version": null, "form": "unknown", "encryption": "secretbox:one", "objects": 1});
    assert_eq!(row(&report), [sealed], "without its key it is not looked into");
    let report = done(&["storage", "report", "--data-dir", text(&data), &encrypted]);
    let opened = json!({"resource": "secrets", "version": "v1", "form": "json", "encryption": "secretbox:one", "objects": 1});
    assert_eq!(row(&report), [opened]);
    let others = format!("--encryption-provider-config={}", path("others").display());
    let (code, stdout, stderr) = sternpost(&["storage", "report", "--data-dir", text(&data), &others]);
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    let named = "\nvalues that cannot be read:\n  /secrets/default/s: no matching key was found for the provided \
                 Secretbox transformer\n";
    assert!(stdout.ends_with(named), "{stdout}");
    server.terminate().await;

    done(&["restore", text(&file), "--data-dir", text(&again)]);
    let server = Server::start_on("sealed-again", text(&again), &flags).await;
    assert_eq!(listed(&server, &FILLED).await, before);
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_says_how_everything_is_stored() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = Server::start_on("report", text(&data), &FLAGS).await;
    fill(&server).await;
    let (code, stdout, stderr) = sternpost(&["storage", "report", "--data-dir", text(&data)]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let lines: Vec<String> =
        stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "RESOURCE VERSION FORM ENCRYPTION OBJECTS",
        "buoys.sea.example sea.example/v1 json - 1",
        "configmaps v1 json - 4",
        "customresourcedefinitions.apiextensions.k8s.io apiextensions.k8s.io/v1 json - 1",
        "events v1 json - 1",
        "keys that are no objects:",
        "internal.sternpost/serviceports: 1",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line} is not in\n{stdout}");
    }
    server.terminate().await;
    assert_eq!(sternpost(&["storage", "report", "--data-dir", text(&data), "-o", "xml"]).0, Some(2));
    assert_eq!(sternpost(&["storage"]).0, Some(2));
    assert_eq!(sternpost(&["backup"]).0, Some(2));
    assert_eq!(sternpost(&["restore", "file"]).0, Some(2));
    assert_eq!(sternpost(&["migrate", "--to", "etcd", "--data-dir", "x"]).0, Some(2));
}

pub(crate) fn store(etcd: &Etcd, prefix: &'static str) -> EtcdStore {
    let endpoints = vec![Endpoint::parse(&etcd.url()).unwrap()];
    let access = Access { endpoints, tls: None, user: None };
    let options = Options { access, prefix: prefix.into(), patience: DEFAULT_PATIENCE };
    EtcdStore::new(options, tokio::runtime::Handle::current())
}

/// Lets etcd have more revisions than that.
pub(crate) async fn bump(etcd: &Etcd, above: u64) {
    let others = store(etcd, "/others/");
    while others.current_revision().await.unwrap().get() <= above {
        others.commit(Transaction::write([Write::put("key", "")])).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_move_to_etcd_and_back() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let data = path("data");
    fs::write(path("keys"), keys("one", FIRST)).unwrap();
    let encrypted = format!("--encryption-provider-config={}", path("keys").display());
    let servers = format!("--etcd-servers={}", etcd.url());
    let server = Server::start_on("to-etcd", text(&data), &FLAGS).await;
    fill(&server).await;
    let before = listed(&server, &FILLED).await;
    let migrate = ["migrate", "--to", "etcd", "--data-dir", text(&data), &servers];
    assert!(refused(&migrate).contains("is in use by another sternpost"));
    server.terminate().await;
    let last = Image::read(&data.join("objects")).unwrap().reserved.get();
    let said = refused(&migrate);
    assert!(
        said.starts_with(&format!(
            "error: etcd is at revision 1, and resource versions up to {last} may have been given out"
        )),
        "{said}"
    );
    assert!(
        said.contains(&format!("etcdutl snapshot restore empty.db --bump-revision {last} --mark-compacted")),
        "{said}"
    );
    bump(&etcd, last).await;
    let said = refused(&[&migrate[..], &["--service-node-port-range=31000-32000"]].concat());
    assert!(said.contains("node port 30080 is not in the range 31000-32000"), "{said}");
    assert_eq!(
        store(&etcd, "/registry/").range(sternpost_store::KeyRange::all(), None, 1).await.unwrap().entries,
        []
    );

    let moved = done(&[&migrate[..], &[&encrypted]].concat());
    let said = refused(&migrate);
    assert!(said.contains("`/registry/` in etcd is not empty: there is `/registry/"), "{said}");
    let cluster = store(&etcd, "/registry/");
    let secret = cluster.get("secrets/default/s".into(), None).await.unwrap().entry.unwrap();
    assert!(secret.value().starts_with(b"k8s:enc:secretbox:v1:one:"), "it is encrypted on the way");
    let leases = etcd.post("/v3/lease/leases", "{}");
    assert_eq!(leases.matches("\"ID\"").count(), 1, "the event goes with a lease: {leases}");
    let report = done(&["storage", "report", &servers, &encrypted]);
    let rows = report["resources"].as_array().unwrap();
    for (resource, version, form, encryption) in [
        ("secrets", "v1", "protobuf", json!("secretbox:one")),
        ("buoys.sea.example", "sea.example/v1", "json", Value::Null),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            "apiextensions.k8s.io/v1beta1",
            "json",
            Value::Null,
        ),
    ] {
        let row = json!({"resource": resource, "version": version, "form": form, "encryption": encryption, "objects": 1});
        assert!(rows.contains(&row), "{row} is not in {report}");
    }
    assert_eq!(report["otherKeys"], json!({"ranges": 1}));

    // A server on it has the same.
    let identity = path("identity");
    let server = Server::start_on("on-etcd", text(&identity), &[FLAGS[0], &servers, &encrypted]).await;
    let on_etcd = listed(&server, &FILLED).await;
    assert_eq!(without_versions(&on_etcd), without_versions(&before));
    assert!(on_etcd.values().all(|object| version(object) > last));
    let service = json!({"metadata": {"name": "other"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}});
    server.post(SERVICES, &service).await.expect(422);
    let newer = server.post(MAPS, &json!({"metadata": {"name": "newer"}})).await.expect(201);
    let on_etcd = listed(&server, &FILLED).await;
    server.terminate().await;

    // And back, where it is encrypted, too.
    let back = path("back");
    let home = ["migrate", "--to", "data-dir", "--data-dir", text(&back), &servers];
    let said = refused(&home);
    assert!(said.contains("1 values cannot be read:\n  /registry/secrets/default/s: "), "{said}");
    let moved_back = done(&[&home[..], &[&encrypted]].concat());
    assert!(number(&moved_back["above"]) >= number(&moved["above"]));
    assert!(refused(&[&home[..], &[&encrypted]].concat()).contains("is not empty"));
    let image = Image::read(&back.join("objects")).unwrap();
    let secret = image.entries.iter().find(|entry| entry.key() == b"/secrets/default/s").unwrap();
    assert!(secret.value().starts_with(b"k8s:enc:secretbox:v1:one:"));
    let server = Server::start_on("back", text(&back), &[FLAGS[0], &encrypted]).await;
    // With the versions that they had.
    assert_eq!(listed(&server, &FILLED).await, on_etcd);
    server.post(SERVICES, &service).await.expect(422);
    let next = server.post(MAPS, &json!({"metadata": {"name": "next"}})).await.expect(201);
    assert!(version(&next) > version(&newer));
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_backed_up_and_put_back() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let cluster = store(&etcd, "/registry/");
    for (key, value) in recorded(RECORDED) {
        cluster.commit(Transaction::write([Write::put(key.to_owned(), value)])).await.unwrap();
    }
    let all = || async {
        let page = cluster.range(sternpost_store::KeyRange::all(), None, usize::MAX).await.unwrap();
        let pair = |entry: &Entry| (entry.key().to_vec(), entry.value().to_vec());
        page.entries.iter().map(pair).collect::<Vec<_>>()
    };
    let before = all().await;
    cluster.commit(Transaction::write([Write::put("masterleases/192.0.2.7", "a server")])).await.unwrap();
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let servers = format!("--etcd-servers={}", etcd.url());
    let (file, data) = (path("file"), path("data"));
    let kept = done(&["backup", &servers, "--output-file", text(&file)]);
    assert_eq!(kept["keys"], before.len());
    let said = refused(&["migrate", "--to", "data-dir", "--data-dir", text(&data), &servers]);
    assert!(said.contains("servers run on `/registry/` in etcd:\n  masterleases/192.0.2.7"), "{said}");

    // To a data directory, as objects.
    let restored = done(&["restore", text(&file), "--data-dir", text(&data)]);
    assert!(number(&restored["above"]) > number(&kept["revision"]));
    let server = Server::start_on("of-cluster", text(&data), &FLAGS).await;
    assert!(!listed(&server, &["/apis/apps/v1/deployments"]).await.is_empty());
    server.terminate().await;

    // And from there to etcd again: in the same bytes, all of them.
    let copy = path("copy");
    done(&["restore", text(&file), "--data-dir", text(&copy), "--bump-revision=0"]);
    bump(&etcd, number(&kept["revision"])).await;
    let second = ["migrate", "--to", "etcd", "--data-dir", text(&copy), &servers, "--etcd-prefix=/second"];
    done(&second);
    let there =
        store(&etcd, "/second/").range(sternpost_store::KeyRange::all(), None, usize::MAX).await.unwrap();
    let mut there: BTreeMap<Vec<u8>, Vec<u8>> =
        there.entries.iter().map(|entry| (entry.key().to_vec(), entry.value().to_vec())).collect();
    for (key, value) in &before {
        let found = there.remove(key);
        assert_eq!(found.as_ref(), Some(value), "{}", String::from_utf8_lossy(key));
    }
    assert!(there.is_empty(), "{there:?}");

    // To etcd, as bytes.
    let restore = ["restore", text(&file), &servers, "--bump-revision=0"];
    assert!(refused(&restore).contains("is not empty"));
    let elsewhere = refused(&[&restore[..], &["--etcd-prefix=/other"]].concat());
    assert!(elsewhere.contains("it was below `/registry/`, and --etcd-prefix is `/other/`"), "{elsewhere}");
    for (key, _) in all().await {
        cluster.commit(Transaction::write([Write::delete(key)])).await.unwrap();
    }
    // The server may have gone on after the backup: etcd has to be well above it, unless that is known not to be so.
    let low = refused(&["restore", text(&file), &servers]);
    assert!(low.contains("may have been given out"), "{low}");
    done(&restore);
    assert_eq!(all().await, before);

    // What nobody can read is named, and not moved.
    cluster.commit(Transaction::write([Write::put("configmaps/default/x", "k8s\0damaged")])).await.unwrap();
    cluster.commit(Transaction::write([Write::put("widgets/default/x", "{}")])).await.unwrap();
    let (code, stdout, _) = sternpost(&["storage", "report", &servers]);
    assert_eq!(code, Some(1));
    assert!(
        stdout.contains(
            "\nvalues that cannot be read:\n  /registry/configmaps/default/x: the value is no object"
        ),
        "{stdout}"
    );
    let target = path("target");
    let migrate = ["migrate", "--to", "data-dir", "--data-dir", text(&target), &servers];
    assert!(refused(&migrate).contains("1 values cannot be read:\n  /registry/configmaps/default/x"));
    cluster.commit(Transaction::write([Write::delete("configmaps/default/x")])).await.unwrap();
    let said = refused(&migrate);
    assert!(
        said.contains(
            "kinds that this program does not know:\n  /registry/widgets/ (1)\nhint: with --skip-unknown"
        ),
        "{said}"
    );
    assert!(!target.exists());
    done(&[&migrate[..], &["--skip-unknown"]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_etcd_does_not_take_leaves_nothing_behind() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = Server::start_on("too-large", text(&data), &[FLAGS[0], "--object-size-limit=none"]).await;
    fill(&server).await;
    let large = json!({"metadata": {"name": "zz"}, "apiVersion": "sea.example/v1", "kind": "Buoy", "text": "x".repeat(1_700_000)});
    server.post(BUOYS, &large).await.expect(201);
    server.terminate().await;
    let servers = format!("--etcd-servers={}", etcd.url());
    bump(&etcd, Image::read(&data.join("objects")).unwrap().reserved.get()).await;
    let said = refused(&["migrate", "--to", "etcd", "--data-dir", text(&data), &servers]);
    assert!(said.contains("cannot write `/registry/sea.example/buoys/default/zz`: "), "{said}");
    assert!(said.contains("etcdserver: request is too large"), "{said}");
    let cluster = store(&etcd, "/registry/");
    assert_eq!(cluster.range(sternpost_store::KeyRange::all(), None, 1).await.unwrap().entries, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_migration_left_is_not_served_and_taken_out_by_the_next() {
    let Some(program) = etcd::program() else { return };
    let etcd = Etcd::start(&program, &[]);
    let root = tempfile::tempdir().unwrap();
    let (data, other) = (root.path().join("data"), root.path().join("other"));
    let server = Server::start_on("interrupted", text(&data), &FLAGS).await;
    fill(&server).await;
    let before = listed(&server, &FILLED).await;
    server.terminate().await;
    Server::start_on("interrupted-other", text(&other), &FLAGS).await.terminate().await;
    let servers = format!("--etcd-servers={}", etcd.url());
    bump(&etcd, 10_000).await;
    let cluster = store(&etcd, "/registry/");
    let began = cluster.current_revision().await.unwrap();
    let migrate = |data: &Path, act: &dyn Fn(&[&str]) -> String| {
        act(&["migrate", "--to", "etcd", "--data-dir", text(data), &servers])
    };
    let succeed = |args: &[&str]| done(args)["sha256"].as_str().unwrap().to_owned();
    migrate(&data, &succeed);
    let all = sternpost_store::KeyRange::all;
    let whole = cluster.range(all(), None, 10_000).await.unwrap().entries;
    assert!(whole.iter().all(|entry| !entry.key().starts_with(b"sternpost.dev")), "nothing else is left");

    // As if it had ended after five keys.
    let mut history = cluster.watch(all(), began).await.unwrap();
    let Delivery::Changes(first) = history.next().await.unwrap() else { panic!("no change") };
    let mark = first.events()[0].entry().unwrap();
    assert_eq!(mark.key(), b"sternpost.dev/unfinished");
    let mut mark: Value = serde_json::from_slice(mark.value()).unwrap();
    mark["keys"] = json!(5);
    for entries in whole.chunks(100) {
        let keys = entries.iter().map(|entry| Write::delete(entry.key().to_vec()));
        cluster.commit(Transaction::write(keys)).await.unwrap();
    }
    cluster.commit(Transaction::create("sternpost.dev/unfinished", mark.to_string())).await.unwrap();
    let left = whole.iter().take(5).map(|entry| Write::put(entry.key().to_vec(), entry.value().to_vec()));
    cluster.commit(Transaction::write(left)).await.unwrap();

    let listen = "--listen=127.0.0.1:0";
    for args in [
        &["serve", listen, &servers, "--etcd-read-only"][..],
        &["serve", listen, &servers, "--data-dir", text(&root.path().join("new"))],
        &["backup", "--output-file", text(&root.path().join("backup")), &servers],
    ] {
        let (code, _, said) = sternpost(args);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("holds a part of something: a `sternpost migrate` or `restore`"), "{said}");
        assert!(said.contains("hint: run that again as it was"), "{said}");
    }
    let said = migrate(&other, &|args| refused(args));
    assert!(said.contains("holds a part of something else"), "{said}");
    migrate(&data, &succeed);
    let again = cluster.range(all(), None, 10_000).await.unwrap().entries;
    let keys = |entries: &[Entry]| entries.iter().map(|entry| entry.key().to_vec()).collect::<Vec<_>>();
    assert_eq!(keys(&again), keys(&whole));
    let server = Server::start_on("interrupted-again", text(&data), &[&servers, FLAGS[0]]).await;
    assert_eq!(without_versions(&listed(&server, &FILLED).await), without_versions(&before));
    server.terminate().await;
}

/// A kube-apiserver goes on with what a server of ours had, and that one with what it has written.
#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_goes_on_with_what_was_moved() {
    let (Some(program), Some(kube_apiserver)) = (etcd::program(), peer::program()) else { return };
    let etcd = Etcd::start(&program, &[]);
    let root = tempfile::tempdir().unwrap();
    let (data, back) = (root.path().join("data"), root.path().join("back"));
    let server = Server::start_on("to-peer", text(&data), &FLAGS).await;
    fill(&server).await;
    let before = listed(&server, &FILLED).await;
    server.terminate().await;
    let servers = format!("--etcd-servers={}", etcd.url());
    bump(&etcd, Image::read(&data.join("objects")).unwrap().reserved.get()).await;
    done(&["migrate", "--to", "etcd", "--data-dir", text(&data), &servers]);

    let peer = KubeApiserver::start(&kube_apiserver, &etcd.url(), &Shared::new("moved"), &[]).await;
    // Definitions are in effect a little later than it is ready.
    peer.until(BUOYS, |code, _| code == 200).await;
    let theirs = listed(&peer, &FILLED).await;
    assert_eq!(without_versions(&theirs), without_versions(&before));
    let service = |name: &str, port: u16| json!({"metadata": {"name": name}, "apiVersion": "v1", "kind": "Service", "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}});
    peer.post(SERVICES, &service("clash", 30080)).await.expect(422);
    let made = peer.post(SERVICES, &service("theirs", 30081)).await.expect(201);
    let migrate = ["migrate", "--to", "data-dir", "--data-dir", text(&back), &servers];
    assert!(refused(&migrate).contains("servers run on"));
    drop(peer);

    // When it is known to be gone.
    let began = machine::now();
    while let (code, _, stderr) = sternpost(&migrate)
        && code != Some(0)
    {
        assert!(stderr.contains("servers run on"), "{stderr}");
        assert!(machine::elapsed(began) < AT_LAST);
        machine::sleep(std::time::Duration::from_millis(500)).await;
    }
    let server = Server::start_on("from-peer", text(&back), &FLAGS).await;
    let after = listed(&server, &FILLED).await;
    for (place, object) in &theirs {
        assert_eq!(after.get(place), Some(object), "{place}");
    }
    assert_eq!(version(&after[&format!("{SERVICES}/theirs")]), version(&made));
    server.post(SERVICES, &service("clash", 30081)).await.expect(422);
    let next = server.post(MAPS, &json!({"metadata": {"name": "next"}})).await.expect(201);
    assert!(version(&next) > version(&made));
    server.terminate().await;
}

#[test]
fn what_an_interrupted_restore_left_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("objects.new")).unwrap();
    for dir in [&data, &data.join("objects.new")] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let said = refused(&["serve", "--listen=127.0.0.1:0", "--data-dir", text(&data)]);
    assert!(said.contains("was interrupted"), "{said}");
    assert!(!data.join("objects").exists());
    let file = folder.path().join("backup");
    fs::write(&file, "no backup").unwrap();
    let said = refused(&["restore", text(&file), "--data-dir", text(&data)]);
    assert!(said.contains("no backup that sternpost made"), "{said}");
}
