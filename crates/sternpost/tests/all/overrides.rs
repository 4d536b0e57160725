//! `--etcd-servers-overrides`: resources in an etcd of their own. `STERNPOST_ETCD` is the path of an etcd, and
//! `STERNPOST_KUBE_APISERVER` of a kube-apiserver.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_testkit::{
    etcd::{self, Etcd},
    peer::{self, KubeApiserver, Shared},
    process::program as sternpost,
    server::{AT_LAST, Client, MERGE, Server},
};

use crate::{
    mixed::{start, stored},
    replicas::encrypted_by,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// The etcd of all resources but some, and that of those.
pub struct Etcds {
    pub main: Etcd,
    pub other: Etcd,
}

impl Etcds {
    pub fn start(program: &Path) -> Self {
        Self { main: Etcd::start(program, &[]), other: Etcd::start(program, &[]) }
    }

    /// The flag that has these in the other.
    fn overrides(&self, resources: &[&str]) -> String {
        let url = self.other.url();
        let overrides: Vec<String> = resources.iter().map(|resource| format!("{resource}#{url}")).collect();
        format!("--etcd-servers-overrides={}", overrides.join(","))
    }

    /// What the keys of each begin with.
    async fn folders(&self) -> [BTreeSet<String>; 2] {
        let folders = |keys: BTreeMap<String, _>| {
            keys.into_keys().map(|key| key.split('/').next().unwrap().to_owned()).collect()
        };
        [folders(stored(&self.main).await), folders(stored(&self.other).await)]
    }
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn event(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"namespace": "default", "name": "x"}, "reason": "R", "message": "m",
    })
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
}

const MOVED: [&str; 3] = ["/events", "coordination.k8s.io/leases", "/configmaps"];

#[tokio::test(flavor = "multi_thread")]
async fn servers_share_two_etcds_each_with_its_own_revisions() {
    let Some(program) = etcd::program() else { return };
    let (etcds, shared) = (Etcds::start(&program), Shared::new("overrides"));
    let flags = [etcds.overrides(&MOVED), "--etcd-compaction-interval=1s".into(), "--controllers=*".into()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let data = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = start(&etcds.main, &shared, data[0].path(), &flags).await;
    let second = start(&etcds.main, &shared, data[1].path(), &flags).await;

    // The last that is made without being asked for.
    second.until(&format!("{MAPS}/kube-root-ca.crt"), |code, _| code == 200).await;
    let maps = second.get(MAPS).await.expect(200);
    let mut watched_maps = second.watch(&format!("{MAPS}?watch=1&resourceVersion={}", version(&maps))).await;
    let secrets = second.get(SECRETS).await.expect(200);
    let from = version(&secrets);
    let mut watched_secrets = second.watch(&format!("{SECRETS}?watch=1&resourceVersion={from}")).await;
    // What one has answered, the other has at once: of both etcds, whichever is ahead.
    for number in 0..20 {
        let name = format!("m{number}");
        let map = first.post(MAPS, &named(&name)).await.expect(201);
        assert_eq!(version(&second.get(&format!("{MAPS}/{name}")).await.expect(200)), version(&map));
        first.post(EVENTS, &event(&name)).await.expect(201);
        second.get(&format!("{EVENTS}/{name}")).await.expect(200);
        let (kind, told, _) = watched_maps.told().await.unwrap();
        assert_eq!((kind.as_str(), told), ("ADDED", name.clone()));
        if number % 5 == 0 {
            first.post(SECRETS, &named(&name)).await.expect(201);
            let listed = second.get(SECRETS).await.expect(200);
            let items = listed["items"].as_array().unwrap();
            assert!(items.iter().any(|secret| secret["metadata"]["name"] == name.as_str()));
            assert_eq!(watched_secrets.told().await.unwrap().1, name);
        }
    }
    // Pages go on at the other server, and a version of the one line is none of the other.
    let page = first.get(&format!("{MAPS}?limit=5")).await.expect(200);
    let rest = format!("{MAPS}?limit=500&continue={}", page["metadata"]["continue"].as_str().unwrap());
    let rest = second.get(&rest).await.expect(200);
    assert_eq!(version(&rest), version(&page));
    assert_eq!(rest["items"].as_array().unwrap().len() + 5, 21, "with the authorities of the cluster");
    let patched = second.patch(&format!("{MAPS}/m0"), MERGE, &json!({"data": {"a": "b"}})).await.expect(200);
    let (maps, secrets) = (first.get(MAPS).await.expect(200), first.get(SECRETS).await.expect(200));
    assert!(version(&maps) >= version(&patched));
    let [in_main, in_other] = [stored(&etcds.main).await, stored(&etcds.other).await];
    assert_eq!(in_other["configmaps/default/m0"].1, version(&patched));
    let newest = in_main["secrets/default/m15"].1;
    assert!(version(&secrets) >= newest);
    for (moved, stays) in [("configmaps/", "secrets/"), ("events/", "namespaces/"), ("leases/", "services/")]
    {
        assert!(in_other.keys().any(|key| key.starts_with(moved)), "{moved}");
        assert!(!in_main.keys().any(|key| key.starts_with(moved)), "{moved}");
        assert!(!in_other.keys().any(|key| key.starts_with(stays)), "{stays}");
        assert!(in_main.keys().any(|key| key.starts_with(stays)), "{stays}");
    }
    // Each is compacted.
    let key = json!({"key": STANDARD.encode("compact_rev_key")}).to_string();
    let is_compacted = |etcd: &Etcd| etcd.post("/v3/kv/range", &key).contains("\"kvs\"");
    let began = machine::now();
    while ![&etcds.main, &etcds.other].into_iter().all(is_compacted) {
        assert!(machine::elapsed(began) < AT_LAST, "both are compacted in turn");
        machine::sleep(std::time::Duration::from_millis(50)).await;
    }
    // A namespace is emptied in both before it goes.
    second.namespace("sea").await;
    for path in ["/api/v1/namespaces/sea/configmaps", "/api/v1/namespaces/sea/secrets"] {
        first.post(path, &named("x")).await.expect(201);
    }
    first.delete("/api/v1/namespaces/sea").await.expect(200);
    second.gone("/api/v1/namespaces/sea").await;
    for etcd in [&etcds.main, &etcds.other] {
        let left = stored(etcd).await.into_keys().filter(|key| key.contains("/sea/"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    }
    let metrics = first.get("/metrics").await.body;
    let metrics = metrics.as_str().unwrap_or_default();
    for number in 0..2 {
        let size = format!("apiserver_storage_size_bytes{{storage_cluster_id=\"etcd-{number}\"}}");
        assert!(metrics.contains(&size), "{size}");
    }
    // One that has others elsewhere does not join.
    second.terminate().await;
    let flag = etcds.overrides(&["/configmaps", "coordination.k8s.io/leases"]);
    let mut command = std::process::Command::new(sternpost());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--insecure-file-modes", "--data-dir"])
        .arg(data[1].path());
    command.arg(format!("--etcd-servers={}", etcds.main.url())).arg(flag).args(shared.flags());
    let refused = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    let ours =
        "--etcd-servers-overrides moves /configmaps,coordination.k8s.io/leases, and that of apiserver-";
    let theirs = " /configmaps,/events,coordination.k8s.io/leases";
    assert!(!refused.status.success() && error.contains(ours) && error.contains(theirs), "{error}");
    first.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_one_etcd_the_resources_of_the_other_are_served() {
    let Some(program) = etcd::program() else { return };
    let (mut etcds, shared) = (Etcds::start(&program), Shared::new("overrides-down"));
    let data = tempfile::tempdir().unwrap();
    let flag = etcds.overrides(&MOVED);
    let server = start(&etcds.main, &shared, data.path(), &[&flag]).await;
    let from = version(&server.post(MAPS, &named("before")).await.expect(201));
    let mut watch = server.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await;

    etcds.other.kill();
    server.until("/readyz", |code, _| code == 500).await;
    server.get("/readyz/etcd-override-0").await.expect(500);
    server.get("/readyz/etcd-override-readiness-0").await.expect(500);
    server.get("/readyz/etcd").await.expect(200);
    server.get("/readyz/etcd-readiness").await.expect(200);
    server.post(SECRETS, &named("meanwhile")).await.expect(201);
    server.get(SECRETS).await.expect(200);
    server.get(MAPS).await.expect(500);
    assert_eq!(server.post(MAPS, &named("meanwhile")).await.code / 100, 5);
    server.get(&format!("{MAPS}/before?resourceVersion=0")).await.expect(200);
    etcds.other.restart();
    server.until("/readyz", |code, _| code == 200).await;
    server.post(MAPS, &named("after")).await.expect(201);
    assert_eq!(watch.told().await.unwrap().1, "after");

    etcds.main.kill();
    server.until("/livez/etcd", |code, _| code == 500).await;
    server.get("/livez/etcd-override-0").await.expect(200);
    server.get(SECRETS).await.expect(500);
    server.get(MAPS).await.expect(200);
    server.patch(&format!("{MAPS}/after"), MERGE, &json!({"data": {"a": "b"}})).await.expect(200);
    etcds.main.restart();
    server.until("/readyz", |code, _| code == 200).await;
    server.get(SECRETS).await.expect(200);
    server.terminate().await;
}

#[test]
fn overrides_that_cannot_be_are_refused() {
    let run = |value: &str| {
        let mut command = std::process::Command::new(sternpost());
        command.args(["serve", "--listen", "127.0.0.1:0", "--etcd-servers=http://127.0.0.1:1"]);
        let output = command.arg(format!("--etcd-servers-overrides={value}")).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for (value, expected) in [
        ("events", "want group/resource#servers, where servers are URLs, semicolon separated"),
        ("/events#http://127.0.0.1:2;", "want group/resource#servers"),
        ("/events#127.0.0.1:2", "`127.0.0.1:2` is not the URL of an etcd"),
        ("/services#http://127.0.0.1:2", "`networking.k8s.io/ipaddresses` are in two etcds"),
    ] {
        let error = run(value);
        assert!(error.contains(expected) && error.contains("--etcd-servers-overrides"), "{value}: {error}");
    }
}

/// Those that say how the etcds are.
async fn checks(server: &Client) -> Vec<String> {
    let verbose = server.get("/readyz?verbose").await.body;
    let lines = verbose.as_str().unwrap().lines().filter(|line| line.contains("]etcd"));
    lines.map(str::to_owned).collect()
}

/// Some of what may be in another etcd, and some that never is.
async fn fill(server: &Client) {
    server.post(MAPS, &named("map")).await.expect(201);
    server.post(SECRETS, &named("secret")).await.expect(201);
    server.post(EVENTS, &event("event")).await.expect(201);
    server.post("/api/v1/namespaces/default/services", &service("service")).await.expect(201);
    server.post(DEPLOYMENTS, &deployment("deployment")).await.expect(201);
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "buoys.sea.test"},
        "spec": {"group": "sea.test", "scope": "Namespaced", "names": {"plural": "buoys", "kind": "Buoy"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    server.define(&crd).await;
    let buoy = json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "metadata": {"name": "buoy"}});
    let buoys = "/apis/sea.test/v1/namespaces/default/buoys";
    server.until(buoys, |code, _| code == 200).await;
    server.post(buoys, &buoy).await.expect(201);
}

/// The same flag for a kube-apiserver and for this server, each with etcds of its own: keys are in the same places.
#[tokio::test(flavor = "multi_thread")]
async fn resources_are_where_kube_apiserver_has_them() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    for (number, moved) in [
        &["/events", "coordination.k8s.io/leases", "apps/*"][..],
        &["/*", "networking.k8s.io/ipaddresses"],
        &["/services", "networking.k8s.io/ipaddresses", "/apiServerIPInfo"],
        &[
            "apiextensions.k8s.io/*",
            "apiregistration.k8s.io/apiservices",
            "sea.test/buoys",
            "events.k8s.io/events",
            "/secrets",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let (theirs, ours) = (Etcds::start(&etcd), Etcds::start(&etcd));
        let (shared, data) = (Shared::new(&format!("placed-{number}")), tempfile::tempdir().unwrap());
        let (moved_theirs, moved_ours) = (theirs.overrides(moved), ours.overrides(moved));
        let address = "--advertise-address=192.0.2.1";
        let peer =
            KubeApiserver::start(&program, &theirs.main.url(), &shared, &[address, &moved_theirs]).await;
        let server = start(&ours.main, &shared, data.path(), &[address, &moved_ours]).await;
        let admin = server.as_token(peer::TOKEN).await;
        for server in [&*peer, &admin] {
            fill(server).await;
            server.until("/api/v1/namespaces/default/endpoints/kubernetes", |code, _| code == 200).await;
            let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
            server.until(slice, |code, _| code == 200).await;
            let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
            server.until(leases, |_, list| list["items"].as_array().is_some_and(|it| !it.is_empty())).await;
        }
        let (theirs, ours) = (theirs.folders().await, ours.folders().await);
        // Of its peers' network, and of deprecated tokens: not here.
        let without = |folders: [BTreeSet<String>; 2]| {
            folders
                .map(|folders| folders.into_iter().filter(|it| it != "peerserverleases").collect::<Vec<_>>())
        };
        assert_eq!(without(ours), without(theirs), "{moved:?}");
        assert_eq!(checks(&server).await, checks(&peer).await, "{moved:?}");
        server.terminate().await;
    }
}

/// Beside a kube-apiserver with the same flag, on the same etcds.
#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_of_servers_share_two_etcds() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    let (etcds, shared) = (Etcds::start(&etcd), Shared::new("overrides-both"));
    let data = tempfile::tempdir().unwrap();
    let flag = etcds.overrides(&MOVED);
    let peer = KubeApiserver::start(&program, &etcds.main.url(), &shared, &[&flag]).await;
    let before = peer.post(MAPS, &named("old")).await.expect(201);
    let server = start(&etcds.main, &shared, data.path(), &[&flag]).await;
    for number in 0..10 {
        let name = format!("m{number}");
        for (writes, reads) in [(&*peer, &*server), (&*server, &*peer)] {
            for (path, object) in [(MAPS, named(&name)), (SECRETS, named(&name)), (EVENTS, event(&name))] {
                let written = writes.post(path, &object).await.expect(201);
                let read = reads.get(&format!("{path}/{name}")).await.expect(200);
                assert_eq!(version(&read), version(&written), "{path}");
                reads.delete(&format!("{path}/{name}")).await.expect(200);
            }
        }
    }
    // A watch that began at the one goes on at the other.
    for path in [MAPS, SECRETS] {
        for (listing, watching) in [(&*peer, &*server), (&*server, &*peer)] {
            let from = version(&listing.get(path).await.expect(200));
            let mut watch = watching.watch(&format!("{path}?watch=1&resourceVersion={from}")).await;
            listing.post(path, &named("told")).await.expect(201);
            assert_eq!(watch.told().await.unwrap().1, "told");
            listing.delete(&format!("{path}/told")).await.expect(200);
            assert_eq!(watch.told().await.unwrap().0, "DELETED");
        }
    }
    assert_eq!(server.get(&format!("{MAPS}/old")).await.expect(200)["metadata"], before["metadata"]);
    server.terminate().await;
}

/// Left in the first etcd by a server without the flag.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_behind_does_not_count() {
    let Some(program) = etcd::program() else { return };
    let (etcds, shared) = (Etcds::start(&program), Shared::new("overrides-left"));
    let data = tempfile::tempdir().unwrap();
    let server = start(&etcds.main, &shared, data.path(), &["--controllers=*"]).await;
    server.namespace("sea").await;
    for namespace in ["sea", "default"] {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        server.post(&maps, &named("left")).await.expect(201);
    }
    server.terminate().await;
    let flag = etcds.overrides(&["/configmaps"]);
    let server: Server = start(&etcds.main, &shared, data.path(), &[&flag, "--controllers=*"]).await;
    server.get(&format!("{MAPS}/left")).await.expect(404);
    server.delete("/api/v1/namespaces/sea").await.expect(200);
    server.gone("/api/v1/namespaces/sea").await;
    assert!(stored(&etcds.main).await.contains_key("configmaps/sea/left"));
    server.terminate().await;
}

/// In an etcd that nobody else writes to.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_decrypted_again_is_served_though_its_etcd_stays_as_it_is() {
    let Some(program) = etcd::program() else { return };
    let (etcds, shared) = (Etcds::start(&program), Shared::new("overrides-regain"));
    let files = tempfile::tempdir().unwrap();
    let key = |name: &str, byte: char| {
        let secret = std::iter::repeat_n(byte, 42).collect::<String>();
        format!("  - aescbc: {{keys: [{{name: {name}, secret: {secret}A=}}]}}\n")
    };
    let both = encrypted_by(&(key("two", 'b') + &key("one", 'a')));
    std::fs::write(files.path().join("old"), encrypted_by(&key("one", 'a'))).unwrap();
    std::fs::write(files.path().join("new"), &both).unwrap();
    let config = |name: &str| format!("--encryption-provider-config={}", files.path().join(name).display());
    let (overrides, still) = (etcds.overrides(&["/secrets"]), "--etcd-compaction-interval=0");
    let (old, new, reload) = (config("old"), config("new"), "--encryption-provider-config-automatic-reload");
    let data = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = start(&etcds.main, &shared, data[0].path(), &[&overrides, still, &old, reload]).await;
    let second = start(&etcds.main, &shared, data[1].path(), &[&overrides, still, &new]).await;
    // The new key is used before all have it.
    let made = second.post(SECRETS, &named("x")).await.expect(201);
    first.get(&format!("{SECRETS}/x")).await.expect(500);
    first.get(SECRETS).await.expect(500);
    let before = stored(&etcds.other).await;
    assert_eq!(before.len(), 1, "{before:?}");
    std::fs::write(files.path().join("old"), &both).unwrap();
    assert_eq!(first.until(&format!("{SECRETS}/x"), |code, _| code == 200).await, made);
    let list = first.until(SECRETS, |code, _| code == 200).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(version(&list), version(&made), "nothing was written since");
    assert_eq!(stored(&etcds.other).await, before);
    // And it goes on from there.
    let from = version(&list);
    let mut watch = first.watch(&format!("{SECRETS}?watch=true&resourceVersion={from}")).await;
    second.post(SECRETS, &named("y")).await.expect(201);
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("y")));
    first.terminate().await;
    second.terminate().await;
}
