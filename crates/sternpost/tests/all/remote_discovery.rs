//! What other API servers serve, in the discovery documents of this one, and what their APIServices
//! say of them. Texts, freshness and order are those of kube-apiserver 1.36.4.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::header::{ACCEPT, IF_NONE_MATCH};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use sternpost_testkit::server::{AT_LAST, MERGE, Server};
use sternpost_testkit::webhook::{Call, Identity, Reply, Signer};

use crate::extension::remote::{API_SERVICES, RemoteServer, identity};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn what_remotes_serve_is_shown_in_both_forms() {
    let server = Server::start("remote-discovery-forms").await;
    let one = RemoteServer::start(|call| aggregated_server("one.example", call)).await;
    let old = RemoteServer::start(legacy_server).await;
    let before = document(&server, "/apis", AGGREGATED, "").await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    one.register(&server, "one.example", "v2", (1500, 20)).await;
    old.register(&server, "old.example", "v1", (19000, 10)).await;
    for gv in ["one.example/v1", "one.example/v2", "old.example/v1"] {
        shown_as(&server, gv, "Current").await;
    }

    // Groups and versions stand where their priorities put them.
    let groups = group_names(&server).await;
    assert_eq!(groups[..2], ["apiregistration.k8s.io v1", "old.example v1"]);
    assert_eq!(groups.last().unwrap(), "one.example v2 v1");
    let aggregated = document(&server, "/apis", AGGREGATED, "").await;
    let items = aggregated.body["items"].as_array().unwrap();
    let names: Vec<&str> = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["apiregistration.k8s.io", "old.example"]);
    assert_eq!(names.last(), Some(&"one.example"));

    // What a server says is passed on as it says it, and of an old one what can be made of it.
    let version = version(&aggregated.body, "one.example/v1").unwrap();
    assert_eq!(version["resources"][0]["verbs"], json!(["get", "weird"]));
    assert_eq!(version["resources"][0]["responseKind"]["kind"], "Flunder");
    let version = self::version(&aggregated.body, "old.example/v1").unwrap();
    assert_eq!(
        version["resources"][0]["responseKind"],
        json!({"group": "", "version": "", "kind": "Flunder"})
    );
    assert_eq!(version["resources"][0]["subresources"][0]["subresource"], "status");

    let group = server.get("/apis/one.example").await.expect(200);
    assert_eq!(group["preferredVersion"]["groupVersion"], "one.example/v2");
    let root = server.get("/").await.expect(200);
    for path in ["/apis/one.example", "/apis/one.example/v2", "/apis/old.example/v1"] {
        assert!(root["paths"].as_array().unwrap().contains(&path.into()), "{path}");
    }
    assert_eq!(server.get("/apis/two.example").await.code, 404);

    // The tag changed with them, holds while nothing does, and comes back when they are gone.
    assert_ne!(aggregated.etag, before.etag);
    assert_eq!(document(&server, "/apis", AGGREGATED, &aggregated.etag).await.code, 304);
    for name in ["v1.one.example", "v2.one.example", "v1.old.example"] {
        server.delete(&format!("{API_SERVICES}/{name}")).await.expect(200);
    }
    until("they are gone", async || document(&server, "/apis", AGGREGATED, "").await.etag == before.etag)
        .await;
    assert_eq!(server.get("/apis/one.example").await.code, 404);

    // Upstream's requests, in the name of the server.
    let call = |target: &str, accept: &str| {
        let mut calls = one.calls().into_iter().filter(|call| call.target == target);
        calls.find(|call| header(call, "accept") == accept).unwrap()
    };
    let check = call("/apis/one.example/v1", "");
    let both = format!("{AGGREGATED},{}", AGGREGATED.replace("v2", "v2beta1"));
    let discovery = call("/apis", &both);
    for call in [check, discovery] {
        assert_eq!(header(&call, "x-remote-user"), "system:kube-aggregator");
        assert_eq!(header(&call, "x-remote-group"), "system:masters");
    }
    server.stop();
}

#[tokio::test]
async fn a_remote_that_is_asked_again_need_not_say_it_again() {
    let server = Server::start("remote-discovery-tags").await;
    let unchanged = Arc::new(AtomicU64::new(0));
    let counted = unchanged.clone();
    let one = RemoteServer::start(move |call| {
        if header(call, "if-none-match") == "\"the tag\"" {
            counted.fetch_add(1, Ordering::Relaxed);
            return Reply::Answer { code: 304, headers: vec![], body: Bytes::new() };
        }
        match aggregated_server("one.example", call) {
            Reply::Answer { code, mut headers, body } => {
                headers.push(("etag", "\"the tag\"".to_owned()));
                Reply::Answer { code, headers, body }
            }
            other => other,
        }
    })
    .await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    let first = shown_as(&server, "one.example/v1", "Current").await;
    // Another priority is another registration: it is asked again.
    let priority = json!({"spec": {"versionPriority": 11}});
    server.patch(&format!("{API_SERVICES}/v1.one.example"), MERGE, &priority).await.expect(200);
    until("it was asked again", async || unchanged.load(Ordering::Relaxed) > 0).await;
    assert_eq!(shown_as(&server, "one.example/v1", "Current").await, first);
    server.stop();
}

#[tokio::test]
async fn a_remote_that_fails_is_stale_until_it_is_back() {
    let server = Server::start("remote-discovery-flapping").await;
    let is_well = Arc::new(AtomicBool::new(true));
    let well = is_well.clone();
    let one = RemoteServer::start(move |call| {
        if well.load(Ordering::Relaxed) {
            aggregated_server("one.example", call)
        } else {
            Reply::code(500, "text/plain", "not now")
        }
    })
    .await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    let first = shown_as(&server, "one.example/v1", "Current").await;
    for round in 0..3 {
        is_well.store(false, Ordering::Relaxed);
        one.look_again(&server, "one.example", round * 2).await;
        let stale = shown_as(&server, "one.example/v1", "Stale").await;
        assert_eq!(stale, json!({"version": "v1", "freshness": "Stale"}));
        let url = format!("https://127.0.0.1:{}/apis/one.example/v1", one.port);
        let message = format!("failing or missing response from {url}: bad status from {url}: 500");
        says(&server, "v1.one.example", "FailedDiscoveryCheck", &message).await;
        // The group is registered all the same.
        assert_eq!(group_names(&server).await.last().unwrap(), "one.example v1");
        assert_eq!(server.get("/apis/one.example").await.code, 200);
        is_well.store(true, Ordering::Relaxed);
        one.look_again(&server, "one.example", round * 2 + 1).await;
        assert_eq!(shown_as(&server, "one.example/v1", "Current").await, first);
        says(&server, "v1.one.example", "Passed", "all checks passed").await;
    }
    server.stop();
}

#[tokio::test]
async fn conditions_say_what_is_wrong_with_a_server() {
    let server = Server::start("remote-discovery-conditions").await;
    let code = |code: u16| move |_: &Call| Reply::code(code, "text/plain", "no");
    let redirect = |_: &Call| Reply::Answer {
        code: 302,
        headers: vec![("location", "https://127.0.0.1:1/".into())],
        body: Bytes::new(),
    };
    let html = |_: &Call| Reply::code(200, "text/html", "<html>hi</html>");
    // URL stands for where it was asked, PLACE for its address.
    let failing = "failing or missing response from URL: ";
    let mut servers: Vec<(&str, RemoteServer, String)> = Vec::new();
    let bad = |code: u16| format!("{failing}bad status from URL: {code}");
    servers.push(("c404", RemoteServer::start(code(404)).await, bad(404)));
    servers.push(("c500", RemoteServer::start(code(500)).await, bad(500)));
    servers.push(("c403", RemoteServer::start(code(403)).await, bad(403)));
    servers.push(("c401", RemoteServer::start(code(401)).await, bad(401)));
    servers.push(("redirect", RemoteServer::start(redirect).await, bad(302)));
    servers.push(("created", RemoteServer::start(code(201)).await, String::new()));
    servers.push(("html", RemoteServer::start(html).await, String::new()));
    let hang = |_: &Call| Reply::Hang;
    let timeout = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)";
    servers.push(("hang", RemoteServer::start(hang).await, format!("{failing}Get \"URL\": {timeout}")));
    let stranger = Identity { signer: Signer::Stranger, ..identity() };
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let extension = RemoteServer::start_as(stranger, legacy_server).await;
    servers.push(("stranger", extension, format!("{failing}Get \"URL\": {unknown}")));
    let other_name = Identity { names: vec!["nobody.example"], ..identity() };
    let wrong =
        "tls: failed to verify certificate: x509: certificate is valid for nobody.example, not hook.ns.svc";
    let extension = RemoteServer::start_as(other_name, legacy_server).await;
    servers.push(("othername", extension, format!("{failing}Get \"URL\": {wrong}")));
    // As `openssl req -x509` makes them: they call themselves authorities, and nobody knows them.
    let itself = Identity { signer: Signer::Itself, ..identity() };
    let mut extension = RemoteServer::start_as(itself.clone(), legacy_server).await;
    extension.bundle = servers[0].1.bundle.clone();
    servers.push(("itself", extension, format!("{failing}Get \"URL\": {unknown}")));
    let itself = Identity { names: vec!["nobody.example"], ..itself };
    let mut extension = RemoteServer::start_as(itself, legacy_server).await;
    extension.bundle = servers[0].1.bundle.clone();
    servers.push(("itselfother", extension, format!("{failing}Get \"URL\": {wrong}")));
    let mut refused = RemoteServer::start(legacy_server).await;
    refused.stop().await;
    let dial = "dial tcp PLACE: connect: connection refused";
    servers.push(("refused", refused, format!("{failing}Get \"URL\": {dial}")));

    for (name, extension, _) in &servers {
        extension.register(&server, &format!("{name}.example"), "v1", (10, 10)).await;
    }
    for (name, extension, message) in &servers {
        let place = format!("127.0.0.1:{}", extension.port);
        let message = message.replace("URL", &format!("https://{place}/apis/{name}.example/v1"));
        let message = message.replace("PLACE", &place);
        let (reason, message) = match message.as_str() {
            "" => ("Passed", "all checks passed"),
            message => ("FailedDiscoveryCheck", message),
        };
        says(&server, &format!("v1.{name}.example"), reason, message).await;
        shown_as(&server, &format!("{name}.example/v1"), "Stale").await;
        assert_eq!(server.get(&format!("/apis/{name}.example")).await.code, 200);
    }
    server.stop();
}

#[tokio::test]
async fn services_lead_to_remotes_or_say_why_not() {
    let server = Server::start("remote-discovery-services").await;
    let one = RemoteServer::start(|call| aggregated_server("one.example", call)).await;
    let mut object = one.api_service("one.example", "v1", (2000, 10));
    object["metadata"]["annotations"] = json!({});
    object["spec"]["service"]["port"] = one.port.into();
    server.post(API_SERVICES, &object).await.expect(201);
    says(&server, "v1.one.example", "ServiceNotFound", "service/hook in \"ns\" is not present").await;
    shown_as(&server, "one.example/v1", "Stale").await;
    assert!(one.calls().is_empty());

    server.namespace("ns").await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443, "name": "https"}]}});
    server.post("/api/v1/namespaces/ns/services", &service).await.expect(201);
    let message = format!("service/hook in \"ns\" is not listening on port {}", one.port);
    says(&server, "v1.one.example", "ServicePortError", &message).await;
    let hook = "/api/v1/namespaces/ns/services/hook";
    let port = json!({"spec": {"ports": [{"port": one.port, "name": "https"}]}});
    server.patch(hook, MERGE, &port).await.expect(200);
    let message = "cannot find endpointslices for service/hook in \"ns\"";
    says(&server, "v1.one.example", "EndpointsNotFound", message).await;
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "other", "port": one.port}],
        "endpoints": [{"addresses": ["192.0.2.7"]}],
    });
    server.post("/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices", &slice).await.expect(201);
    let message = "endpointslices for service/hook in \"ns\" have no addresses with port name \"https\"";
    says(&server, "v1.one.example", "MissingEndpoints", message).await;
    assert!(one.calls().is_empty());

    server.delete(hook).await.expect(200);
    let outside =
        json!({"metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    server.post("/api/v1/namespaces/ns/services", &outside).await.expect(201);
    says(&server, "v1.one.example", "Passed", "all checks passed").await;
    shown_as(&server, "one.example/v1", "Current").await;
    server.stop();
}

#[tokio::test]
async fn a_remote_speaks_for_its_own_group_version_and_is_not_believed_otherwise() {
    let server = Server::start("remote-discovery-liars").await;
    let before = document(&server, "/apis", AGGREGATED, "").await;
    // Claims others' groups, those of this server among them, and more versions than it has.
    let claims = RemoteServer::start(|call| {
        let groups =
            ["apps", "other.example", "claims.example"].map(|group| discovery_group(group, &["v1", "v2"]));
        aggregated(call, &json!(groups))
    })
    .await;
    // Says that another list is its own.
    let wrong_list = RemoteServer::start(|call| match call.target.as_str() {
        "/apis" => Reply::code(404, "text/plain", "no"),
        _ => Reply::ok(
            json!({"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": []}).to_string(),
        ),
    })
    .await;
    let broken = RemoteServer::start(|call| match call.target.as_str() {
        "/apis" => Reply::code(200, AGGREGATED, "{\"kind\":\"APIGro"),
        _ => legacy_server(call),
    })
    .await;
    let endless = RemoteServer::start(|call| match call.target.as_str() {
        "/apis" => Reply::code(200, AGGREGATED, vec![b' '; 8 * 1024 * 1024 + 1]),
        _ => legacy_server(call),
    })
    .await;
    let dripping = RemoteServer::start(|call| match call.target.as_str() {
        "/apis" => Reply::Drip { body: vec![b' '; 1000].into(), pause: Duration::from_millis(50) },
        _ => legacy_server(call),
    })
    .await;
    let servers = [
        ("claims", &claims),
        ("wronglist", &wrong_list),
        ("broken", &broken),
        ("endless", &endless),
        ("dripping", &dripping),
    ];
    for (name, extension) in servers {
        extension.register(&server, &format!("{name}.example"), "v1", (10, 10)).await;
        says(&server, &format!("v1.{name}.example"), "Passed", "all checks passed").await;
    }
    // What is served here cannot be taken over.
    claims.register_again(&server, "apps", "v1").await;
    shown_as(&server, "claims.example/v1", "Current").await;
    // Every one of them was heard by now.
    until("it was heard", async || dripping.calls().iter().filter(|call| call.target == "/apis").count() > 1)
        .await;
    let now = document(&server, "/apis", AGGREGATED, "").await.body;
    for (name, _) in &servers[1..] {
        let version = version(&now, &format!("{name}.example/v1")).unwrap();
        assert_eq!(version, &json!({"version": "v1", "freshness": "Stale"}), "{name}");
    }
    assert_eq!(version(&now, "other.example/v1"), None);
    assert_eq!(version(&now, "claims.example/v2"), None);
    let (was, is) = (before.body["items"].as_array().unwrap(), now["items"].as_array().unwrap());
    assert_eq!(is[..was.len()], was[..], "what is built in is as it was");
    server.stop();
}

#[tokio::test]
async fn a_scope_is_shown_as_the_remote_says_it() {
    let server = Server::start("remote-discovery-scopes").await;
    // What is said, and what is shown; a scope that is no text spoils the document.
    let scopes = [
        ("empty.example", Some(json!("")), Some("")),
        ("absent.example", None, Some("")),
        ("null.example", Some(Value::Null), Some("")),
        ("odd.example", Some(json!("Weird")), Some("Weird")),
        ("number.example", Some(json!(5)), None),
    ];
    let mut extensions = Vec::new();
    for (group, said, _) in scopes.clone() {
        let extension = RemoteServer::start(move |call| {
            let mut listed = discovery_group(group, &["v1"]);
            let resource = listed["versions"][0]["resources"][0].as_object_mut().unwrap();
            resource.remove("scope");
            resource.extend(said.clone().map(|said| ("scope".to_owned(), said)));
            aggregated(call, &json!([listed]))
        })
        .await;
        extension.register(&server, group, "v1", (10, 10)).await;
        extensions.push(extension);
    }
    for (extension, (group, _, shown)) in extensions.iter().zip(&scopes) {
        let gv = format!("{group}/v1");
        if let Some(scope) = shown {
            let version = shown_as(&server, &gv, "Current").await;
            assert_eq!(version["resources"][0]["scope"], *scope, "{group}");
            continue;
        }
        // Asked a second time, it was heard.
        let asked = async || extension.calls().iter().filter(|call| call.target == "/apis").count() > 1;
        until("it was heard", asked).await;
        let version = shown_as(&server, &gv, "Stale").await;
        assert_eq!(version, json!({"version": "v1", "freshness": "Stale"}), "{group}");
    }
    server.stop();
}

#[tokio::test]
async fn an_unavailable_remote_whose_discovery_works_is_current() {
    let server = Server::start("remote-discovery-unavailable").await;
    let code = Arc::new(AtomicU64::new(500));
    let (answers, group) = (code.clone(), "one.example");
    // Its group-version fails, and its list of groups does as the code says.
    let one =
        RemoteServer::start(move |call| match (call.target.as_str(), answers.load(Ordering::Relaxed)) {
            ("/apis", 500) | (_, 200) => aggregated_server(group, call),
            ("/apis", _) => Reply::code(503, "text/plain", "not now"),
            _ => Reply::code(500, "text/plain", "no"),
        })
        .await;
    one.register(&server, group, "v1", (2000, 10)).await;
    let url = format!("https://127.0.0.1:{}/apis/one.example/v1", one.port);
    let message = format!("failing or missing response from {url}: bad status from {url}: 500");
    says(&server, "v1.one.example", "FailedDiscoveryCheck", &message).await;
    let first = shown_as(&server, "one.example/v1", "Current").await;
    assert_eq!(first["resources"][0]["resource"], "flunders");
    // What is listed cannot be had.
    assert_eq!(server.get("/apis/one.example/v1/flunders").await.code, 503);

    // It may become available and unavailable again.
    code.store(200, Ordering::Relaxed);
    one.look_again(&server, group, 0).await;
    says(&server, "v1.one.example", "Passed", "all checks passed").await;
    assert_eq!(shown_as(&server, "one.example/v1", "Current").await, first);
    code.store(503, Ordering::Relaxed);
    one.look_again(&server, group, 1).await;
    says(&server, "v1.one.example", "FailedDiscoveryCheck", &message).await;
    let stale = shown_as(&server, "one.example/v1", "Stale").await;
    assert_eq!(stale, json!({"version": "v1", "freshness": "Stale"}));
    server.stop();
}

#[tokio::test]
async fn a_remote_whose_list_of_groups_is_unavailable_is_not_asked_in_the_older_way() {
    let server = Server::start("remote-discovery-503").await;
    let one = RemoteServer::start(|call| match call.target.as_str() {
        "/apis" => Reply::code(503, "text/plain", "not now"),
        _ => legacy_server(call),
    })
    .await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    says(&server, "v1.one.example", "Passed", "all checks passed").await;
    let asked = async || one.calls().iter().filter(|call| call.target == "/apis").count() > 1;
    until("it was heard", asked).await;
    shown_as(&server, "one.example/v1", "Stale").await;
    server.stop();
}

#[tokio::test]
async fn remotes_that_hang_hold_up_neither_discovery_nor_each_other() {
    const HANGING: usize = 30;
    let server = Server::start("remote-discovery-hanging").await;
    let hang = RemoteServer::start(|_| Reply::Hang).await;
    for index in 0..HANGING {
        hang.register(&server, &format!("hang{index}.example"), "v1", (10, 10)).await;
    }
    let good = RemoteServer::start(|call| aggregated_server("good.example", call)).await;
    let begun = Instant::now();
    good.register(&server, "good.example", "v1", (10, 10)).await;
    shown_as(&server, "good.example/v1", "Current").await;
    // In turns they would take ten times as long.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let asked = Instant::now();
    assert_eq!(group_names(&server).await.iter().filter(|name| name.starts_with("hang")).count(), HANGING);
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    server.stop();
}

#[tokio::test]
async fn a_group_may_be_served_here_and_elsewhere() {
    let server = Server::start("remote-discovery-mixed").await;
    let one = RemoteServer::start(|call| aggregated_server("mixed.example", call)).await;
    one.register(&server, "mixed.example", "v2", (2000, 200)).await;
    one.register(&server, "mixed.example", "v3", (500, 50)).await;
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    server
        .define(&json!({"metadata": {"name": "widgets.mixed.example"}, "spec": {
            "group": "mixed.example", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v1beta1", false)],
        }}))
        .await;
    shown_as(&server, "mixed.example/v2", "Current").await;
    assert_eq!(group_names(&server).await.last().unwrap(), "mixed.example v2 v1 v1beta1 v3");
    let now = document(&server, "/apis", AGGREGATED, "").await.body;
    assert_eq!(self::version(&now, "mixed.example/v1").unwrap()["resources"][0]["resource"], "widgets");
    assert_eq!(server.get("/apis/mixed.example/v1").await.expect(200)["groupVersion"], "mixed.example/v1");
    server
        .delete(&format!("{}/widgets.mixed.example", sternpost_testkit::server::DEFINITIONS))
        .await
        .expect(200);
    until("its versions are gone", async || {
        group_names(&server).await.last().unwrap() == "mixed.example v2 v3"
    })
    .await;
    server.stop();
}

impl RemoteServer {
    /// In the place of an APIService that is there.
    async fn register_again(&self, server: &Server, group: &str, version: &str) {
        let path = format!("{API_SERVICES}/{version}.{group}");
        server.patch(&path, MERGE, &self.api_service(group, version, (20_000, 1000))).await.expect(200);
    }

    /// Has the server look at it now and not in half a minute.
    async fn look_again(&self, server: &Server, group: &str, round: u16) {
        let changed = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        server.patch(&format!("{API_SERVICES}/v1.{group}"), MERGE, &changed).await.expect(200);
    }
}

fn aggregated_server(group: &'static str, call: &Call) -> Reply {
    match call.target.as_str() {
        "/apis" => aggregated(call, &json!([discovery_group(group, &["v1", "v2"])])),
        _ => legacy_server(call),
    }
}

fn discovery_group(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| {
        let kind = json!({"group": group, "version": version, "kind": "Flunder"});
        json!({"version": version, "freshness": "Current", "resources": [
            {"resource": "flunders", "responseKind": kind, "scope": "Namespaced", "singularResource": "flunder",
                "verbs": ["get", "weird"]},
        ]})
    };
    json!({"metadata": {"name": group, "creationTimestamp": null},
        "versions": versions.iter().map(version).collect::<Vec<_>>()})
}

fn aggregated(call: &Call, groups: &Value) -> Reply {
    if call.target != "/apis" {
        return legacy_server(call);
    }
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups});
    Reply::code(200, AGGREGATED, list.to_string())
}

/// One that knows of no other form than the first.
fn legacy_server(call: &Call) -> Reply {
    let parts: Vec<&str> = call.target.trim_start_matches('/').split('/').collect();
    match parts[..] {
        ["apis"] => Reply::ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}).to_string()),
        ["apis", group, version] => {
            let verbs = ["get", "list"];
            Reply::ok(json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": format!("{group}/{version}"), "resources": [
                {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": verbs},
                {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": verbs},
            ]}).to_string())
        }
        _ => Reply::code(404, "text/plain", "404 page not found"),
    }
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    call.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

struct Document {
    code: u16,
    etag: String,
    body: Value,
}

async fn document(server: &Server, path: &str, accept: &str, if_none_match: &str) -> Document {
    let mut request = server.request(path);
    request.headers_mut().insert(ACCEPT, accept.parse().unwrap());
    request.headers_mut().insert(IF_NONE_MATCH, if_none_match.parse().unwrap());
    let answer = tokio::time::timeout(AT_LAST, async {
        let (head, body) = server.apart().await.send_request(request).await.unwrap().into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    });
    let (head, body) = answer.await.unwrap();
    let etag = head.headers.get("etag").map(|etag| etag.to_str().unwrap().to_owned()).unwrap_or_default();
    Document { code: head.status.as_u16(), etag, body: serde_json::from_slice(&body).unwrap_or_default() }
}

/// `NAME VERSION VERSION...`, in the order of the legacy form.
async fn group_names(server: &Server) -> Vec<String> {
    let list = server.get("/apis").await.expect(200);
    let groups = list["groups"].as_array().unwrap().iter();
    groups
        .map(|group| {
            let versions = group["versions"].as_array().unwrap().iter();
            let versions = versions.map(|version| version["version"].as_str().unwrap());
            [group["name"].as_str().unwrap()].into_iter().chain(versions).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn version<'a>(aggregated: &'a Value, gv: &str) -> Option<&'a Value> {
    let (group, version) = gv.split_once('/').unwrap();
    let group = aggregated["items"].as_array()?.iter().find(|item| item["metadata"]["name"] == group)?;
    group["versions"].as_array()?.iter().find(|item| item["version"] == version)
}

/// Waits until a group-version is shown so, and gives what is shown.
async fn shown_as(server: &Server, gv: &str, freshness: &str) -> Value {
    let begun = Instant::now();
    loop {
        let aggregated = document(server, "/apis", AGGREGATED, "").await.body;
        let shown = version(&aggregated, gv);
        if let Some(shown) = shown.filter(|shown| shown["freshness"] == freshness) {
            return shown.clone();
        }
        assert!(begun.elapsed() < AT_LAST, "{gv} is shown as {shown:?}, not {freshness}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until an APIService says this of its availability.
async fn says(server: &Server, name: &str, reason: &str, message: &str) {
    let begun = Instant::now();
    loop {
        let object = server.get(&format!("{API_SERVICES}/{name}")).await.expect(200);
        let condition = &object["status"]["conditions"][0];
        if condition["reason"] == reason && condition["message"] == message {
            let expected = if reason == "Passed" { "True" } else { "False" };
            assert_eq!((&condition["type"], &condition["status"]), (&json!("Available"), &json!(expected)));
            return;
        }
        assert!(begun.elapsed() < AT_LAST, "{name} says {condition}, not {reason}: {message}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < AT_LAST, "it never came to be that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
