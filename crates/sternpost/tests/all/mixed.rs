//! Servers that share a cluster's etcd: several of ours, or ours beside kube-apiserver. `STERNPOST_ETCD` is the path of
//! an etcd, and `STERNPOST_KUBE_APISERVER` of a kube-apiserver.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use sternpost_clock::seeded::Rng;
use sternpost_layout::{Customs, Layout, NODE_PORTS};
use sternpost_store::{KeyRange, Store, read::MAX_PAGE};
use sternpost_store_etcd::{Access, DEFAULT_PATIENCE, Endpoint, EtcdStore, Options};
use sternpost_testkit::{
    client::{self as connection, Connector, Next, Reply},
    etcd::{self, Etcd, recorded},
    peer::{self, KubeApiserver, Shared},
    process::program,
    server::{AT_LAST, Client, MERGE, Server},
};

const RECORDED: &str = include_str!("../../../layout/tests/recorded/kube-apiserver-1.36.4.tsv");
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";

pub(crate) async fn start(etcd: &Etcd, shared: &Shared, data: &Path, flags: &[&str]) -> Server {
    let mut all = vec![format!("--etcd-servers={}", etcd.url()), "--insecure-file-modes".to_owned()];
    all.extend(shared.flags());
    all.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Server::start_on("mixed", data.to_str().unwrap(), &all).await
}

/// All that is in etcd below the prefix, with the revisions.
pub(crate) async fn stored(etcd: &Etcd) -> BTreeMap<String, (Vec<u8>, u64)> {
    let endpoints = vec![Endpoint::parse(&etcd.url()).unwrap()];
    let access = Access { endpoints, tls: None, user: None };
    let options = Options { access, prefix: "/registry/".into(), patience: DEFAULT_PATIENCE };
    let store = EtcdStore::new(options, tokio::runtime::Handle::current());
    let (mut all, mut range) = (BTreeMap::new(), KeyRange::all());
    loop {
        let page = store.range(range.clone(), None, MAX_PAGE).await.unwrap();
        for entry in &page.entries {
            let key = String::from_utf8(entry.key().to_vec()).unwrap();
            all.insert(key, (entry.value().to_vec(), entry.modified.get()));
        }
        match page.entries.last() {
            Some(last) if page.more => range = range.after(last.key()),
            _ => return all,
        }
    }
}

/// Keys by which servers show that they live.
fn is_of_servers(key: &str) -> bool {
    ["leases/kube-system/apiserver-", "masterleases/", "peerserverleases/"]
        .iter()
        .any(|start| key.starts_with(start))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_joins_a_cluster_writes_its_lease_alone() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("joins"));
    let data = tempfile::tempdir().unwrap();
    let peer = KubeApiserver::start(&program, &etcd.url(), &shared, &[]).await;
    // Its last hooks run when it is ready already.
    peer.until("/api/v1/namespaces/default/endpoints/kubernetes", |code, _| code == 200).await;
    peer.until("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", |code, _| {
        code == 200
    })
    .await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    peer.until(leases, |_, list| list["items"].as_array().is_some_and(|items| items.len() == 1)).await;
    let before = stored(&etcd).await;
    let server = start(&etcd, &shared, data.path(), &[]).await;
    server.until(leases, |_, list| list["items"].as_array().unwrap().len() == 2).await;
    let after = stored(&etcd).await;
    let changed: Vec<&String> =
        after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, _)| key).collect();
    assert!(changed.iter().all(|key| is_of_servers(key)), "{changed:?}");
    assert!(before.keys().all(|key| after.contains_key(key)));
    server.terminate().await;
    let after = stored(&etcd).await;
    let left: Vec<&String> =
        after.keys().filter(|key| is_of_servers(key) && !before.contains_key(*key)).collect();
    assert!(left.is_empty(), "its lease stays: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_leaves_what_this_server_began_with() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("begins"));
    let data = tempfile::tempdir().unwrap();
    let server = start(&etcd, &shared, data.path(), &[]).await;
    let before = stored(&etcd).await;
    let peer = KubeApiserver::start(&program, &etcd.url(), &shared, &[]).await;
    peer.until("/api/v1/namespaces/default/endpoints/kubernetes", |code, _| code == 200).await;
    let after = stored(&etcd).await;
    let changed = before.iter().filter(|(key, value)| after.get(*key) != Some(value));
    let changed: Vec<&String> = changed.map(|(key, _)| key).filter(|key| !is_of_servers(key)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    server.terminate().await;
}

/// The kinds of the definitions among what was recorded.
struct Sea;

impl Customs for Sea {
    fn kind(&self, group: &str, plural: &str) -> Option<String> {
        etcd::recorded_kind(group, plural)
    }
}

/// Whether it is an event by which kube-apiserver says that it repairs addresses or ports of services. It does so when one of its
/// informers is behind the other, as on a busy machine: a service has come and its address has not.
fn is_of_repairs(layout: &Layout, key: &str, value: &[u8]) -> bool {
    let Some(our_key) = layout.our_key(key.as_bytes()).filter(|_| key.starts_with("events/")) else {
        return false;
    };
    let event: Value = sternpost_cache::read(&layout.stored(&our_key, value).unwrap()).unwrap();
    let teller = event["reportingComponent"].as_str().unwrap_or_default();
    ["ipallocator-repair-controller", "portallocator-repair-controller"].contains(&teller)
}

/// What each server makes up: times and uids.
fn substitute(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_time = text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z');
            let is_uid = text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
            if is_time || is_uid {
                *text = if is_time { "TIME" } else { "UID" }.to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(substitute),
        Value::Object(fields) => fields.values_mut().for_each(substitute),
        _ => {}
    }
}

/// Sends the same to both, and wants the same codes.
async fn send_both(servers: [&Client; 2], method: &str, path: &str, media: &str, body: &Value) -> u16 {
    let mut codes = Vec::new();
    for server in servers {
        let answer = server.send(method, path, media, body.to_string()).await;
        codes.push((answer.code, answer.message().to_owned()));
    }
    assert_eq!(codes[0].0, codes[1].0, "{method} {path}: {codes:?}");
    codes[0].0
}

/// Where an object with this key of ours is made.
async fn collection(server: &Client, key: &str) -> (String, String) {
    let [group, plural, namespace, name] = key.split('/').collect::<Vec<_>>()[..] else { panic!("{key}") };
    let base = match group {
        "" => "/api/v1".to_owned(),
        "sea.example" => {
            let crd = server.established(&format!("{plural}.{group}")).await;
            let versions = crd["spec"]["versions"].as_array().unwrap();
            let stored = versions.iter().find(|version| version["storage"] == true).unwrap();
            format!("/apis/{group}/{}", stored["name"].as_str().unwrap())
        }
        _ => {
            let found = server.until(&format!("/apis/{group}"), |code, _| code == 200).await;
            format!("/apis/{}", found["preferredVersion"]["groupVersion"].as_str().unwrap())
        }
    };
    let namespaced = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    (format!("{base}{namespaced}/{plural}"), name.to_owned())
}

/// The same requests to a kube-apiserver and to this server, each with an etcd of its own: objects of every kind made,
/// labelled and applied. What is in the two etcds is the same but for times and uids.
#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_of_servers_store_the_same_bytes() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    let (theirs, ours) = (Etcd::start(&etcd, &[]), Etcd::start(&etcd, &[]));
    let (shared, data) = (Shared::new("bytes"), tempfile::tempdir().unwrap());
    let flags = ["--disable-admission-plugins=ServiceAccount", "--advertise-address=192.0.2.1"];
    let peer = KubeApiserver::start(&program, &theirs.url(), &shared, &flags).await;
    let (_, port) = peer.address().rsplit_once(':').unwrap();
    let listen = format!("127.0.0.2:{port}");
    let own = ["--listen", &listen, "--tls-san=127.0.0.1"];
    let server = start(&ours, &shared, data.path(), &[&flags[..], &own[..]].concat()).await;
    // Its name is in what some objects say.
    let admin = server.as_token(peer::TOKEN).await;
    let both: [&Client; 2] = [&peer, &admin];

    let layout = Layout::new(Arc::new(Sea));
    let mut objects = Vec::new();
    for (key, value) in recorded(RECORDED).filter(|(key, _)| *key != NODE_PORTS) {
        let our_key = layout.our_key(key.as_bytes()).unwrap();
        let object = layout.stored(&our_key, &value).unwrap();
        let mut object: Value = sternpost_cache::read(&object).unwrap();
        let metadata = object["metadata"].as_object_mut().unwrap();
        for made in ["uid", "creationTimestamp", "managedFields", "generation", "resourceVersion"] {
            metadata.remove(made);
        }
        if key.starts_with("jobs/") {
            // Which is made from the uid.
            object["spec"].as_object_mut().unwrap().remove("selector");
            object["spec"]["template"]["metadata"].as_object_mut().unwrap().remove("labels");
        }
        objects.push((String::from_utf8(our_key.to_vec()).unwrap(), object));
    }
    // Definitions before their objects, services before their addresses.
    let is_first = |key: &str| key.starts_with("apiextensions.k8s.io/") || key.starts_with("/services/");
    objects.sort_by_key(|(key, _)| !is_first(key));
    let (mut made, mut refused) = (0, Vec::new());
    for (key, object) in &objects {
        let (collection, name) = collection(&server, key).await;
        let mut object = object.clone();
        if let ["sea.example", plural, ..] = key.split('/').collect::<Vec<_>>()[..] {
            let version = collection.split('/').nth(3).unwrap();
            object["apiVersion"] = format!("sea.example/{version}").into();
            object["kind"] = Sea.kind("sea.example", plural).into();
            peer.until(&collection, |code, _| code == 200).await;
        }
        let code = send_both(both, "POST", &collection, "application/json", &object).await;
        if code != 201 {
            // Some were there from the beginning.
            refused.extend((code != 409).then(|| format!("{code} {key}")));
            continue;
        }
        made += 1;
        let path = format!("{collection}/{name}");
        let label = json!({"metadata": {"labels": {"port": "home"}, "annotations": {"a/b": "<&>\u{2028}"}}});
        assert_eq!(send_both(both, "PATCH", &path, MERGE, &label).await, 200, "{key}");
    }
    assert!(made > 50 && refused.is_empty(), "{made}, {refused:?}");
    // What controllers of both do afterwards.
    for server in both {
        server
            .until("/apis/apiregistration.k8s.io/v1/apiservices/v1.sea.example", |code, found| {
                code == 200 && found["status"]["conditions"][0]["status"] == "True"
            })
            .await;
        server.until("/api/v1/namespaces/default/endpoints/kubernetes", |code, _| code == 200).await;
        server
            .until("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", |code, _| {
                code == 200
            })
            .await;
    }

    let (mut theirs, ours) = (stored(&theirs).await, stored(&ours).await);
    theirs.retain(|key, (value, _)| !is_of_repairs(&layout, key, value));
    let keys = |all: &BTreeMap<String, (Vec<u8>, u64)>| -> BTreeSet<String> {
        all.keys().filter(|key| !is_of_servers(key)).cloned().collect()
    };
    let mut problems: Vec<String> = keys(&theirs)
        .symmetric_difference(&keys(&ours))
        .map(|key| format!("{key}: only one has it"))
        .collect();
    let mut same = 0;
    for key in keys(&theirs).intersection(&keys(&ours)) {
        let (theirs, ours) = (&theirs[key].0, &ours[key].0);
        let Some(our_key) = layout.our_key(key.as_bytes()) else {
            assert_eq!(theirs, ours, "{key}");
            continue;
        };
        let read = |value: &[u8]| {
            let object = layout.stored(&our_key, value).unwrap();
            assert_eq!(
                layout.value(&our_key, &object).unwrap(),
                value,
                "{key} is written again as other bytes"
            );
            let mut object: Value = sternpost_cache::read(&object).unwrap();
            substitute(&mut object);
            object
        };
        let (mut theirs, mut ours) = (read(theirs), read(ours));
        if key.starts_with("priorityclasses/system-") {
            // Said in words of our own.
            theirs["description"] = Value::Null;
            ours["description"] = Value::Null;
        }
        match theirs == ours {
            true => same += 1,
            false => problems.push(format!("{key}:\n  {theirs}\n  {ours}")),
        }
    }
    assert!(problems.is_empty(), "{same} are the same, {} are not:\n{}", problems.len(), problems.join("\n"));
    assert!(same > 200, "{same}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_both_kinds_share_a_cluster() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("shares-both"));
    let data = tempfile::tempdir().unwrap();
    let peer = KubeApiserver::start(&program, &etcd.url(), &shared, &[]).await;
    let server = start(&etcd, &shared, data.path(), &["--controllers=resourcequota"]).await;
    share(&server, &peer).await;
    server.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_this_kind_share_a_cluster() {
    let Some(etcd) = etcd::program() else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("shares-ours"));
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = start(&etcd, &shared, data[0].path(), &["--controllers=resourcequota"]).await;
    let second = start(&etcd, &shared, data[1].path(), &[]).await;
    share(&first, &second).await;
    share(&second, &first).await;
    first.terminate().await;
    second.terminate().await;
}

/// Everything that one of two servers is told holds at the other. May be called twice, with the servers exchanged.
async fn share(here: &Client, there: &Client) {
    let run = here.address().replace(['.', ':'], "-");
    let namespace = format!("n{run}");
    here.namespace(&namespace).await;
    let inside = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");

    // A write that one has answered is in what the other reads.
    let maps = inside("configmaps");
    let from = there.get(&maps).await.expect(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watches = Vec::new();
    for server in [here, there] {
        watches.push(server.watch(&format!("{maps}?watch=true&resourceVersion={from}")).await);
    }
    let mut told = 0;
    for count in 0..20 {
        let (one, other) = if count % 2 == 0 { (here, there) } else { (there, here) };
        let name = format!("m{count}");
        let made =
            one.post(&maps, &json!({"metadata": {"name": name}, "data": {"count": "0"}})).await.expect(201);
        let path = format!("{maps}/{name}");
        assert_eq!(other.get(&path).await.expect(200), made);
        assert_eq!(other.get(&maps).await.expect(200)["items"].as_array().unwrap().len(), count + 1);
        let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"count": "1"}});
        let apply = format!("{path}?fieldManager=pilot&force=true");
        other.patch(&apply, "application/apply-patch+yaml", &applied).await.expect(200);
        let stale = one.put(&path, &made).await;
        assert_eq!(stale.code, 409, "{}", stale.message());
        told += 2;
    }
    let mut seen = Vec::new();
    for watch in &mut watches {
        let mut events = Vec::new();
        for _ in 0..told {
            events.push(watch.next().await.unwrap());
        }
        seen.push(events);
    }
    assert_eq!(seen[0], seen[1]);

    // A definition of one is served by the other.
    let group = format!("{run}.sea.example");
    let crd = json!({
        "metadata": {"name": format!("buoys.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "buoys", "kind": "Buoy"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "depth": {"type": "integer", "default": 3},
                }, "x-kubernetes-validations": [{"rule": "self.depth < 10"}]}},
            }}}],
        },
    });
    here.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.expect(201);
    let buoys = format!("/apis/{group}/v1/namespaces/{namespace}/buoys");
    there.until(&buoys, |code, _| code == 200).await;
    let deep = there
        .post(
            &buoys,
            &json!({"apiVersion": format!("{group}/v1"), "kind": "Buoy",
        "metadata": {"name": "deep"}, "spec": {"depth": 11}}),
        )
        .await;
    assert_eq!(deep.code, 422, "{}", deep.message());
    let red = there
        .post(
            &buoys,
            &json!({"apiVersion": format!("{group}/v1"), "kind": "Buoy",
        "metadata": {"name": "red"}, "spec": {}}),
        )
        .await
        .expect(201);
    assert_eq!(red["spec"]["depth"], 3);
    here.until(&buoys, |code, _| code == 200).await;
    assert_eq!(here.get(&format!("{buoys}/red")).await.expect(200), red);

    // Addresses and ports are given once.
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    let service = |name: String| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let services = inside("services");
    let made = futures_util::future::join_all((0..30).map(|count| {
        let server = if count % 2 == 0 { here } else { there };
        let (services, service) = (&services, service(format!("s{count}")));
        async move { server.post(services, &service).await.expect(201) }
    }));
    for made in made.await {
        assert!(addresses.insert(made["spec"]["clusterIP"].to_string()), "{made}");
        assert!(ports.insert(made["spec"]["ports"][0]["nodePort"].to_string()), "{made}");
    }
    let taken = json!({"metadata": {"name": "late"}, "spec": {"type": "NodePort", "ports": [
        {"port": 80, "nodePort": ports.first().unwrap().parse::<u16>().unwrap()}]}});
    for server in [here, there] {
        let refused = server.post(&services, &taken).await;
        assert_eq!(refused.code, 422, "{}", refused.message());
        assert!(refused.message().contains("provided port is already allocated"), "{}", refused.message());
    }
    for count in 0..30 {
        let server = if count % 3 == 0 { here } else { there };
        server.delete(&format!("{services}/s{count}")).await.expect(200);
    }

    // Who may do something at one may do it at the other; tokens of one are those of the other.
    let accounts = inside("serviceaccounts");
    here.post(&accounts, &json!({"metadata": {"name": "pilot"}})).await.expect(201);
    let wanted = json!({"spec": {"audiences": []}});
    for (signs, judges) in [(here, there), (there, here)] {
        let token = signs.post(&format!("{accounts}/pilot/token"), &wanted).await.expect(201);
        let token = token["status"]["token"].as_str().unwrap();
        let review = json!({"spec": {"token": token}});
        let review = judges.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.expect(201);
        assert_eq!(review["status"]["authenticated"], true, "{review}");
        let asks = |role: &'static str| {
            let (accounts, services) = (accounts.clone(), services.clone());
            async move {
                let path = if role == "services" { services } else { accounts };
                judges.send_as(token, "test", "GET", &path, "application/json", "").await.code
            }
        };
        let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        if asks("services").await == 403 {
            let role = json!({"metadata": {"name": "reader"}, "rules": [
                {"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}]});
            signs.post(&format!("{roles}/roles"), &role).await.expect(201);
            let binding = json!({"metadata": {"name": "pilot"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "pilot", "namespace": namespace}]});
            signs.post(&format!("{roles}/rolebindings"), &binding).await.expect(201);
            while asks("services").await != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
        assert_eq!(asks("serviceaccounts").await, 403);
    }

    // A quota counts what both make.
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/secrets": "5"}}});
    here.post(&inside("resourcequotas"), &quota).await.expect(201);
    for server in [here, there] {
        server
            .until(&inside("resourcequotas/few"), |_, found| found["status"]["used"]["count/secrets"] == "0")
            .await;
    }
    let secrets = inside("secrets");
    let made = futures_util::future::join_all((0..10).map(|count| {
        let server = if count % 2 == 0 { here } else { there };
        let (secrets, secret) = (&secrets, json!({"metadata": {"name": format!("s{count}")}}));
        async move {
            loop {
                // kube-apiserver gives up after a few attempts to change the quota, and leaves the next to the client.
                match server.post(secrets, &secret).await.code {
                    409 => {}
                    code => return code,
                }
            }
        }
    }));
    let made = made.await;
    assert_eq!(made.iter().filter(|code| **code == 201).count(), 5, "{made:?}");
    assert!(made.iter().all(|code| [201, 403].contains(code)), "{made:?}");
}

/// The servers that there are at a time, of either kind.
#[derive(Clone, Default)]
struct Servers(Arc<Mutex<Vec<(String, Connector)>>>);

impl Servers {
    fn add(&self, server: &Client) {
        self.0.lock().unwrap().push((server.address().to_owned(), server.connector()));
    }

    /// No new request goes there; those that are under way do.
    fn remove(&self, server: &Client) {
        self.0.lock().unwrap().retain(|(address, _)| address != server.address());
    }

    async fn connect(&self, rng: &mut Rng) -> connection::Client {
        loop {
            let servers = self.0.lock().unwrap().clone();
            let (_, chosen) = servers[rng.draw() as usize % servers.len()].clone();
            if let Some(client) = chosen.connect().await {
                return client;
            }
        }
    }
}

/// Answers that a client is not told to try again after.
type Complaints = Arc<Mutex<Vec<String>>>;

/// Counts in a ConfigMap of its own until it is told to end, whichever servers there are; answers how far it came.
async fn count(
    servers: Servers,
    name: String,
    counted: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    complaints: Complaints,
) -> usize {
    let path = format!("{MAPS}/{name}");
    let mut rng = Rng::new(name.len() as u64);
    let mut own = 0;
    while !ends.load(Ordering::SeqCst) {
        let mut client = servers.connect(&mut rng).await;
        let Reply::Answer(code, mut found) = client.call("GET", &path, None).await else { continue };
        if code != 200 {
            complain(&complaints, code, &found);
            continue;
        }
        let seen: usize = found["data"]["count"].as_str().unwrap().parse().unwrap();
        assert!(seen == own || seen == own + 1, "{name}: {seen} after {own}");
        if seen == own + 1 {
            // An answer was lost, and the write was not.
            own = seen;
            counted.fetch_add(1, Ordering::SeqCst);
        }
        found["data"]["count"] = (own + 1).to_string().into();
        let mut client = servers.connect(&mut rng).await;
        match client.call("PUT", &path, Some(&found)).await {
            Reply::Answer(200, _) => {
                own += 1;
                counted.fetch_add(1, Ordering::SeqCst);
            }
            // One of before, whose answer was lost, came later.
            Reply::Answer(409, _) | Reply::Lost => {}
            Reply::Answer(code, body) => complain(&complaints, code, &body),
        }
    }
    own
}

fn complain(complaints: &Complaints, code: u16, body: &Value) {
    if body["details"]["retryAfterSeconds"].is_null() {
        complaints.lock().unwrap().push(format!("{code}: {}", body["message"]));
    }
}

/// Every count of every ConfigMap as watches tell of it, going on at another server where one ends.
async fn follow(servers: Servers, from: String, ends: usize) -> BTreeMap<String, usize> {
    let (mut seen, mut version, mut rng) = (BTreeMap::new(), from, Rng::new(7));
    let mut complete = 0;
    while complete < ends {
        let client = servers.connect(&mut rng).await;
        let path = format!("{MAPS}?watch=true&labelSelector=counts&resourceVersion={version}");
        let Ok(mut lines) = client.watch(&path).await else { continue };
        while complete < ends
            && let Next::Line(event) = lines.next(AT_LAST).await
        {
            assert_eq!(event["type"], "MODIFIED", "{event}");
            let object = &event["object"];
            version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let count: usize = object["data"]["count"].as_str().unwrap().parse().unwrap();
            let before = seen.insert(name.clone(), count).unwrap_or_default();
            assert_eq!(count, before + 1, "{name}");
            complete += usize::from(object["data"]["ends"] == "true");
        }
    }
    seen
}

/// kube-apiserver, then both kinds, then ours alone, and back: nobody who counts meanwhile loses a count.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_to_this_server_and_back_under_load() {
    let (Some(etcd), Some(program)) = (etcd::program(), peer::program()) else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("moves"));
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let servers = Servers::default();
    let theirs = KubeApiserver::start(&program, &etcd.url(), &shared, &[]).await;
    servers.add(&theirs);
    const COUNTERS: usize = 4;
    let names: Vec<String> = (0..COUNTERS).map(|number| format!("c{}", "o".repeat(number))).collect();
    let mut from = String::new();
    for name in &names {
        let map = json!({"metadata": {"name": name, "labels": {"counts": ""}}, "data": {"count": "0"}});
        let made = theirs.post(MAPS, &map).await.expect(201);
        from = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    }
    let (counted, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let complaints = Complaints::default();
    let counters: Vec<_> = names
        .iter()
        .map(|name| {
            let (counted, ends) = (counted.clone(), ends.clone());
            tokio::spawn(count(servers.clone(), name.clone(), counted, ends, complaints.clone()))
        })
        .collect();
    let following = tokio::spawn(follow(servers.clone(), from, COUNTERS));
    let more = async || {
        let (begun, wanted) = (std::time::Instant::now(), counted.load(Ordering::SeqCst) + 40);
        while counted.load(Ordering::SeqCst) < wanted {
            assert!(begun.elapsed() < AT_LAST, "nobody counts: {:?}", complaints.lock().unwrap());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    more().await;
    let ours = start(&etcd, &shared, data[0].path(), &[]).await;
    servers.add(&ours);
    more().await;
    servers.remove(&theirs);
    tokio::task::spawn_blocking(|| theirs.terminate()).await.unwrap();
    more().await;
    // Ours by another of ours, as in an upgrade.
    let next = start(&etcd, &shared, data[1].path(), &[]).await;
    servers.add(&next);
    more().await;
    servers.remove(&ours);
    ours.terminate().await;
    more().await;
    let theirs = KubeApiserver::start(&program, &etcd.url(), &shared, &[]).await;
    servers.add(&theirs);
    more().await;
    servers.remove(&next);
    next.terminate().await;
    more().await;
    ends.store(true, Ordering::SeqCst);
    let mut counts = BTreeMap::new();
    for (name, counter) in names.iter().zip(counters) {
        let own = counter.await.unwrap();
        // The last write of all; what was under way has come or does not come any more.
        let path = format!("{MAPS}/{name}");
        let mut found = theirs.get(&path).await.expect(200);
        let stored: usize = found["data"]["count"].as_str().unwrap().parse().unwrap();
        assert!(stored == own || stored == own + 1, "{name}: {stored} of {own}");
        found["data"] = json!({"count": (stored + 1).to_string(), "ends": "true"});
        theirs.put(&path, &found).await.expect(200);
        counts.insert(name.clone(), stored + 1);
    }
    assert_eq!(following.await.unwrap(), counts);
    assert_eq!(*complaints.lock().unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_end_with_leases_of_etcd() {
    let Some(etcd) = etcd::program() else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("events"));
    let data = tempfile::tempdir().unwrap();
    let server = start(&etcd, &shared, data.path(), &["--event-ttl=2s"]).await;
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    server.post(events, &event).await.expect(201);
    let kept = json!({"metadata": {"name": "kept"}});
    server.post(MAPS, &kept).await.expect(201);
    server.gone(&format!("{events}/e")).await;
    server.get(&format!("{MAPS}/kept")).await.expect(200);
    server.terminate().await;
}

/// The servers of a cluster are at one port, so these are at two addresses of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_endpoints_of_the_service_kubernetes() {
    let Some(etcd) = etcd::program() else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("endpoints"));
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = start(&etcd, &shared, data[0].path(), &["--advertise-address=192.0.2.1"]).await;
    let (_, port) = first.address().rsplit_once(':').unwrap();
    let listen = format!("127.0.0.2:{port}");
    let flags = ["--listen", &listen, "--tls-san=127.0.0.1", "--advertise-address=192.0.2.2"];
    let second = start(&etcd, &shared, data[1].path(), &flags).await;
    let addresses = |expected: &'static [&'static str]| {
        move |_, found: &Value| {
            let found = found["subsets"][0]["addresses"].as_array().into_iter().flatten();
            found.map(|address| address["ip"].as_str().unwrap()).eq(expected.iter().copied())
        }
    };
    const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
    first.until(ENDPOINTS, addresses(&["192.0.2.1", "192.0.2.2"])).await;
    let slice =
        first.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await.expect(200);
    assert_eq!(slice["ports"][0]["port"].to_string(), port);
    second.terminate().await;
    first.until(ENDPOINTS, addresses(&["192.0.2.1"])).await;
    // The last one stays: clients have no better place.
    first.terminate().await;
    assert!(stored(&etcd).await.keys().all(|key| !key.starts_with("masterleases/")));
    assert!(stored(&etcd).await.contains_key("services/endpoints/default/kubernetes"));
}

/// What a server says that does not fit a cluster, and that it writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_fit_a_cluster_refuses_to_start() {
    let Some(etcd) = etcd::program() else { return };
    let (etcd, shared) = (Etcd::start(&etcd, &[]), Shared::new("fits"));
    let data = tempfile::tempdir().unwrap();
    let first = start(&etcd, &shared, data.path(), &["--advertise-address=192.0.2.1"]).await;
    first
        .post(
            SERVICES,
            &json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
        )
        .await
        .expect(201);
    first.until("/api/v1/namespaces/default/endpoints/kubernetes", |code, _| code == 200).await;
    let others = Shared::new("fits-not");
    let refused = |shared: &Shared, flags: &[&str]| {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--insecure-file-modes", "--data-dir"])
            .arg(data.path());
        command
            .arg(format!("--etcd-servers={}", etcd.url()))
            .arg("--kubeconfig")
            .arg(data.path().join("config"));
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let is_given = |flag: &String| flags.iter().any(|given| name(given) == name(flag));
        let shared = shared.flags().into_iter().filter(|flag| !is_given(flag));
        let output = command.args(shared).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (shared, flags, expected) in [
        (
            &shared,
            &["--service-cluster-ip-range=10.96.0.0/12"][..],
            "--service-cluster-ip-range is 10.96.0.0/12, the cluster's is 10.0.0.0/24",
        ),
        (
            &shared,
            &["--service-node-port-range=30000-30100"],
            "--service-node-port-range is 30000-30100, the cluster's is 30000-32767",
        ),
        (&shared, &["--service-account-issuer=https://other.example"], "do not go with those of apiserver-"),
        (&others, &[], "do not go with those of apiserver-"),
        (&shared, &["--advertise-address=192.0.2.2"], "endpoints of the service `kubernetes` have one port"),
        (&shared, &["--advertise-address=2001:db8::1"], "is of another IP family"),
    ] {
        let said = refused(shared, flags);
        assert!(said.contains(expected), "{flags:?}: {said}");
        assert!(said.contains("this server does not fit the cluster in etcd"), "{said}");
        assert!(said.contains("hint: "), "{said}");
    }
    let leases = stored(&etcd).await;
    let leases = leases.keys().filter(|key| key.starts_with("leases/kube-system/apiserver-"));
    assert_eq!(leases.count(), 1, "one that was refused has written");
    first.terminate().await;
}
