//! The OpenAPI documents of other API servers, seen through this one.

use std::{
    collections::BTreeSet,
    io::Read,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sternpost_openapi::{
    read::{self, Encoding},
    references::dangling,
};

use sternpost_testkit::server::{AT_LAST, MERGE, Server};
use sternpost_testkit::webhook::{Call, Reply};

use crate::extension::remote::{API_SERVICES, RemoteServer};

const FOR_EVER: &str = "public, max-age=31536000, immutable";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
const KEY: &str = "apis/one.example/v1";
const DOCUMENT: &str = "/openapi/v3/apis/one.example/v1";

#[tokio::test]
async fn documents_of_a_remote_are_listed_with_its_hashes_and_fetched_from_it() {
    let server = Server::start("remote-openapi-listed").await;
    let before = root(&server).await;
    let modern = Modern::new("one.example");
    let one = RemoteServer::start(modern.replies()).await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    let listed = until_listed(&server, KEY, "HASH1").await;
    assert_eq!(listed["apis/one.example"]["serverRelativeURL"], "/openapi/v3/apis/one.example?hash=GROUP");

    // It is registered for nothing else, whatever it lists.
    for key in ["version", "apis", "apis/apps/v1"] {
        assert_eq!(listed[key], before[key], "{key}");
    }
    assert_eq!(listed.as_object().unwrap().len(), before.as_object().unwrap().len() + 2);

    // What is asked for by hash may be kept, what is asked for without may not.
    let url = format!("{DOCUMENT}?hash=HASH1");
    let kept = ask(&server, &url, &[]).await;
    assert_eq!((kept.code, kept.header("cache-control"), kept.header("etag")), (200, FOR_EVER, "\"HASH1\""));
    assert_eq!(kept.json()["info"]["title"], "HASH1");
    assert!(kept.header("expires").ends_with(" GMT"));
    let plain = ask(&server, DOCUMENT, &[]).await;
    assert_eq!((plain.code, plain.header("cache-control")), (200, "no-cache, private"));
    assert_eq!(ask(&server, &format!("{DOCUMENT}?etag=HASH1"), &[]).await.header("cache-control"), FOR_EVER);
    let unchanged = ask(&server, &url, &[("if-none-match", "\"HASH1\"")]).await;
    assert_eq!((unchanged.code, unchanged.header("cache-control"), unchanged.body.len()), (304, FOR_EVER, 0));
    assert_eq!(ask(&server, &url, &[("accept", PROTOBUF)]).await.body, "protobuf");

    // A stale hash is redirected here; the remote does not hear of it.
    let calls = one.calls().len();
    let stale = ask(&server, &format!("{DOCUMENT}?hash=STALE"), &[]).await;
    assert_eq!((stale.code, stale.header("location"), stale.body.len()), (301, &*url, 0));
    assert_eq!(one.calls().len(), calls);

    // The remote has a newer document than is known: that one, but not for ever.
    *modern.hash.lock().unwrap() = "HASH2".to_owned();
    let newer = ask(&server, &url, &[]).await;
    assert_eq!((newer.code, newer.header("cache-control")), (200, "no-cache, private"));
    assert_eq!(newer.json()["info"]["title"], "HASH2");
    look_again(&server, "v1.one.example").await;
    until_listed(&server, KEY, "HASH2").await;

    // Documents are fetched by whom they are for, and by nobody else.
    let calls = one.calls();
    let of =
        |path: &'static str| calls.iter().filter(move |call| call.target.split('?').next() == Some(path));
    for call in of("/openapi/v3") {
        assert_eq!(header(call, "x-remote-user"), "system:aggregator");
        assert_eq!(header(call, "x-remote-group"), "");
    }
    for call in of(DOCUMENT) {
        assert_ne!(header(call, "x-remote-user"), "system:aggregator");
        assert_eq!(call.target, DOCUMENT);
    }
    assert_eq!(of(DOCUMENT).count(), 6);
    assert_eq!(of("/openapi/v2").count(), 0);

    server.delete(&format!("{API_SERVICES}/v1.one.example")).await.expect(200);
    until("it is gone", async || root(&server).await == before).await;
    assert_eq!(ask(&server, &url, &[]).await.code, 404);
    server.stop();
}

#[tokio::test]
async fn a_document_of_a_remote_that_is_away_is_unavailable_and_stays_listed() {
    let server = Server::start("remote-openapi-away").await;
    let mut one = RemoteServer::start(Modern::new("one.example").replies()).await;
    let two = RemoteServer::start(Modern::new("two.example").replies()).await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    two.register(&server, "two.example", "v1", (2000, 10)).await;
    until_listed(&server, KEY, "HASH1").await;
    let listed = until_listed(&server, "apis/two.example/v1", "HASH1").await;
    one.stop().await;
    look_again(&server, "v1.one.example").await;
    until("it is known to be away", async || {
        let answer = ask(&server, DOCUMENT, &[]).await;
        assert_eq!(answer.code, 503);
        answer.body == "service unavailable\n"
    })
    .await;
    assert_eq!(root(&server).await, listed);
    assert_eq!(ask(&server, "/openapi/v3/apis/two.example/v1?hash=HASH1", &[]).await.code, 200);
    assert_eq!(ask(&server, "/openapi/v3/apis/apps/v1", &[]).await.code, 200);
    server.stop();
}

#[tokio::test]
async fn a_remote_that_redirects_is_a_bad_gateway() {
    let server = Server::start("remote-openapi-redirect").await;
    let modern = Modern::new("one.example").replies();
    let one = RemoteServer::start(move |call| {
        if call.target.starts_with(DOCUMENT) {
            let location = vec![("location", "https://127.0.0.1:1/".to_owned())];
            return Reply::Answer { code: 301, headers: location, body: Bytes::new() };
        }
        modern(call)
    })
    .await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    until_listed(&server, KEY, "HASH1").await;
    for url in [DOCUMENT.to_owned(), format!("{DOCUMENT}?hash=HASH1")] {
        let answer = ask(&server, &url, &[]).await;
        assert_eq!((answer.code, answer.header("location")), (502, ""), "{url}");
    }
    server.stop();
}

#[tokio::test]
async fn an_old_remote_is_converted_until_it_is_a_newer_one() {
    let server = Server::start("remote-openapi-old").await;
    let is_new = Arc::new(AtomicBool::new(false));
    let (modern, newer) = (Modern::new("one.example").replies(), is_new.clone());
    let one = RemoteServer::start(move |call| match call.target.as_str() {
        "/openapi/v2" if header(call, "if-none-match") == "\"old\"" => {
            Reply::Answer { code: 304, headers: vec![], body: Bytes::new() }
        }
        "/openapi/v2" => {
            let headers =
                vec![("etag", "\"old\"".to_owned()), ("content-type", "application/json".to_owned())];
            Reply::Answer {
                code: 200,
                headers,
                body: v2_document("one.example", "string").to_string().into(),
            }
        }
        "/openapi/v3" if !newer.load(Ordering::Relaxed) => {
            Reply::code(404, "text/plain", "404 page not found")
        }
        _ => modern(call),
    })
    .await;
    one.register(&server, "one.example", "v1", (2000, 10)).await;
    let url = until_some("it is listed", async || {
        Some(root(&server).await[KEY]["serverRelativeURL"].as_str()?.to_owned())
    })
    .await;
    let (path, hash) = url.split_once("?hash=").unwrap();
    assert_eq!((path, hash.len()), (DOCUMENT, 128));
    let converted = ask(&server, &url, &[]).await;
    assert_eq!((converted.code, converted.header("cache-control")), (200, FOR_EVER));
    assert_eq!(converted.header("etag"), format!("\"{hash}\""));
    let document = converted.json();
    assert_eq!(dangling(&document), Vec::<String>::new());
    // Restricted to what it is registered for.
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/apis/one.example/v1/things"]);
    assert_eq!(document["components"]["schemas"].get("example.Foreign"), None);
    // Bodies that are shared, media types of the document, numbers or strings.
    let post = &document["paths"]["/apis/one.example/v1/things"]["post"];
    let thing = json!({"$ref": "#/components/schemas/example.Thing"});
    assert_eq!(post["requestBody"]["content"]["application/json"]["schema"], thing);
    assert_eq!(post["parameters"], json!([{"$ref": "#/components/parameters/pretty"}]));
    let port = &document["components"]["schemas"]["example.Thing"]["properties"]["port"];
    assert_eq!(port["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));

    // Like a document of our own.
    let stale = ask(&server, &format!("{DOCUMENT}?hash=STALE"), &[]).await;
    assert_eq!((stale.code, stale.header("location")), (301, &*url));
    let packed = ask(&server, &url, &[("accept-encoding", "gzip")]).await;
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, converted.body);
    let protobuf = ask(&server, &url, &[("accept", PROTOBUF)]).await;
    assert_eq!(&*read::parse(&protobuf.body, Encoding::Protobuf).unwrap().1.title, "t");
    assert_eq!(ask(&server, &url, &[("if-none-match", converted.header("etag"))]).await.code, 304);

    // Asked again, it need not say it again; newer, it is noticed.
    look_again(&server, "v1.one.example").await;
    until("it was asked again", async || {
        one.calls().iter().any(|call| header(call, "if-none-match") == "\"old\"")
    })
    .await;
    assert_eq!(root(&server).await[KEY]["serverRelativeURL"], url);
    is_new.store(true, Ordering::Relaxed);
    look_again(&server, "v1.one.example").await;
    until_listed(&server, KEY, "HASH1").await;
    assert_eq!(ask(&server, DOCUMENT, &[]).await.json()["info"]["title"], "HASH1");
    server.stop();
}

#[tokio::test]
async fn an_old_remote_is_listed_whatever_its_v2_lacks() {
    let server = Server::start("remote-openapi-lacking").await;
    let whole = |group: &str| {
        let operation = json!({"get": {"responses": {"200": {"description": ""}}}});
        json!({"swagger": "2.0", "info": {"title": "t", "version": "1"},
            "paths": {format!("/apis/{group}/v1/things"): operation}})
    };
    let without = |group: &str, field: &str| {
        let mut document = whole(group);
        document.as_object_mut().unwrap().remove(field);
        document
    };
    let with = |group: &str, field: &str, value: Value| {
        let mut document = whole(group);
        document[field] = value;
        document
    };
    let silent = "/apis/silent.example/v1/things";
    // What the server says at `/openapi/v2`, and whether its path is in the aggregate; it is in
    // `/openapi/v3` always.
    let documents = [
        ("whole.example", whole("whole.example"), true),
        ("untold.example", without("untold.example", "swagger"), true),
        ("other.example", with("other.example", "swagger", json!("3.0")), true),
        ("noinfo.example", without("noinfo.example", "info"), true),
        ("untitled.example", with("untitled.example", "info", json!({})), true),
        ("pathless.example", without("pathless.example", "paths"), false),
        ("nopaths.example", with("nopaths.example", "paths", json!({})), false),
        ("foreign.example", whole("elsewhere.example"), false),
        ("empty.example", json!({}), false),
        // On this one kube-apiserver ends itself.
        (
            "silent.example",
            with("silent.example", "paths", json!({silent: {"get": {"operationId": "x"}}})),
            true,
        ),
    ];
    let begun = Instant::now();
    let mut extensions = Vec::new();
    for (group, document, _) in documents.clone() {
        let extension = RemoteServer::start(move |call| match call.target.as_str() {
            "/openapi/v2" => Reply::ok(document.to_string()),
            _ => discovery(call),
        })
        .await;
        extension.register(&server, group, "v1", (1000, 10)).await;
        extensions.push(extension);
    }
    for (group, ..) in &documents {
        let key = format!("apis/{group}/v1");
        until(&format!("{group} is listed"), async || root(&server).await.get(&key).is_some()).await;
        let document = ask(&server, &format!("/openapi/v3/{key}"), &[]).await;
        assert_eq!((document.code, &document.json()["openapi"]), (200, &json!("3.0.0")), "{group}");
    }
    // What is listed was made of v2, so that v2 is there.
    let merged = ask(&server, "/openapi/v2", &[]).await.json();
    for (group, _, is_there) in &documents {
        let path = format!("/apis/{group}/v1/things");
        assert_eq!(merged["paths"].get(&path).is_some(), *is_there, "{group}");
    }
    assert_eq!(merged["paths"].get("/apis/elsewhere.example/v1/things"), None);
    // All that from the first look, which comes at once: none had to wait for the next, a minute later.
    let minutes = usize::try_from(begun.elapsed().as_secs() / 60).unwrap();
    for (extension, (group, ..)) in extensions.iter().zip(&documents) {
        let looks = extension.calls().iter().filter(|call| call.target == "/openapi/v2").count();
        assert!((1..=1 + minutes).contains(&looks), "{group} was asked {looks} times");
    }
    server.stop();
}

#[tokio::test]
async fn v2_is_merged_by_priority_when_it_is_asked_for() {
    let server = Server::start("remote-openapi-v2").await;
    let local = ask(&server, "/openapi/v2", &[]).await;
    let with_v2 = |group: &'static str, kind: &'static str| {
        let modern = Modern::new(group).replies();
        move |call: &Call| match call.target.as_str() {
            "/openapi/v2" => Reply::ok(v2_document(group, kind).to_string()),
            _ => modern(call),
        }
    };
    let mut low = RemoteServer::start(with_v2("low.example", "integer")).await;
    let high = RemoteServer::start(with_v2("high.example", "string")).await;
    let hanging = Modern::new("hang.example").replies();
    let hanging = RemoteServer::start(move |call| match call.target.as_str() {
        "/openapi/v2" => Reply::Hang,
        _ => hanging(call),
    })
    .await;
    let broken = Modern::new("broken.example").replies();
    let broken = RemoteServer::start(move |call| match call.target.as_str() {
        "/openapi/v2" => Reply::ok("[".repeat(1000)),
        _ => broken(call),
    })
    .await;
    low.register(&server, "low.example", "v1", (1000, 10)).await;
    high.register(&server, "high.example", "v1", (3000, 10)).await;
    hanging.register(&server, "hang.example", "v1", (4000, 10)).await;
    broken.register(&server, "broken.example", "v1", (5000, 10)).await;
    for group in ["low", "high", "hang", "broken"] {
        until_listed(&server, &format!("apis/{group}.example/v1"), "HASH1").await;
    }
    for extension in [&low, &high, &hanging, &broken] {
        assert!(extension.calls().iter().all(|call| call.target != "/openapi/v2"));
    }

    // Those that never were asked are waited for, but not for long, and once.
    let merged = ask(&server, "/openapi/v2", &[]).await;
    assert_eq!(merged.code, 200);
    let document = merged.json();
    assert_eq!(dangling(&document), Vec::<String>::new());
    let paths = document["paths"].as_object().unwrap();
    for (path, is_there) in [
        ("/apis/high.example/v1/things", true),
        ("/apis/low.example/v1/things", true),
        ("/apis/hang.example/v1/things", false),
        ("/apis/broken.example/v1/things", false),
        ("/apis/foreign.example/v1/things", false),
        ("/apis/apps/v1/deployments", true),
    ] {
        assert_eq!(paths.contains_key(path), is_there, "{path}");
    }
    // The better one keeps the name; both say the same version of the same kind.
    let of = |name: &str| document["definitions"][name]["properties"]["size"]["type"].clone();
    assert_eq!((of("example.Thing"), of("example.Thing_v2")), (json!("string"), json!("integer")));
    let used = &paths["/apis/low.example/v1/things"]["get"]["responses"]["200"]["schema"];
    assert_eq!(*used, json!({"$ref": "#/definitions/example.Thing_v2"}));
    let mut kinds = BTreeSet::new();
    for (name, definition) in document["definitions"].as_object().unwrap() {
        for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            assert!(kinds.insert(kind.to_string()), "{name} {kind}");
        }
    }
    let info = &local.json()["info"];
    assert_eq!(document["info"], *info);

    let etag = merged.header("etag").to_owned();
    assert_ne!(etag, local.header("etag"));
    assert_eq!(ask(&server, "/openapi/v2", &[("if-none-match", &etag)]).await.code, 304);
    let accept = PROTOBUF.replace("v3", "v2");
    let protobuf = ask(&server, "/openapi/v2", &[("accept", &accept)]).await;
    let (_, decoded) = read::parse(&protobuf.body, Encoding::Protobuf).unwrap();
    assert!(decoded.paths.contains_key("/apis/low.example/v1/things"));

    // Who is away is skipped.
    low.stop().await;
    look_again(&server, "v1.low.example").await;
    until("it is left out", async || {
        let paths = ask(&server, "/openapi/v2", &[]).await.json()["paths"].clone();
        assert!(paths.get("/apis/high.example/v1/things").is_some());
        paths.get("/apis/low.example/v1/things").is_none()
    })
    .await;

    // Without them, every byte is as before.
    for name in ["v1.low.example", "v1.high.example", "v1.hang.example", "v1.broken.example"] {
        server.delete(&format!("{API_SERVICES}/{name}")).await.expect(200);
    }
    until("all is as before", async || {
        let now = ask(&server, "/openapi/v2", &[]).await;
        now.body == local.body && now.headers.get("etag") == local.headers.get("etag")
    })
    .await;
    server.stop();
}

#[tokio::test]
async fn a_hundred_remotes_of_which_ten_hang_are_nobodys_trouble_but_their_own() {
    let server = Server::start("remote-openapi-hundred").await;
    // One process is as good as ninety: each group is told apart by its path.
    let good = RemoteServer::start(many).await;
    let hanging = RemoteServer::start(|call| match call.target.as_str() {
        target if target.starts_with("/openapi") => Reply::Hang,
        _ => many(call),
    })
    .await;
    for number in 0..100 {
        let extension = if number % 10 == 0 { &hanging } else { &good };
        extension.register(&server, &group(number), "v1", (1000, 10)).await;
    }
    let held = || hanging.calls().iter().filter(|call| call.target == "/openapi/v3").count();
    until("ten connections are held", async || held() >= 10).await;
    until("ninety are listed", async || {
        let listed = root(&server).await;
        (0..100).filter(|number| listed.get(format!("apis/{}/v1", group(*number))).is_some()).count() == 90
    })
    .await;
    // All the while ten are waited for, everything else is answered.
    for number in 0..100 {
        let answer = ask(&server, &format!("/openapi/v3/apis/{}/v1", group(number)), &[]).await;
        let expected = if number % 10 == 0 { 404 } else { 200 };
        assert_eq!(answer.code, expected, "{number}");
    }
    assert_eq!(ask(&server, "/openapi/v3/apis/apps/v1", &[]).await.code, 200);
    until("v2 has what can be had", async || {
        let paths = ask(&server, "/openapi/v2", &[]).await.json()["paths"].clone();
        assert!(paths.get("/apis/apps/v1/deployments").is_some());
        (0..100).filter(|number| paths.get(format!("/apis/{}/v1/things", group(*number))).is_some()).count()
            == 90
    })
    .await;
    // Nobody gave up on those that hang, and nobody waited for them.
    assert!(held() >= 10);
    server.stop();
}

#[tokio::test]
async fn roots_that_are_no_roots_list_nothing() {
    let server = Server::start("remote-openapi-hostile").await;
    let before = root(&server).await;
    let huge = format!("{{\"paths\":{{}},\"x\":\"{}\"}}", "x".repeat(4 * 1024 * 1024));
    let answers: Vec<(&str, Reply)> = vec![
        ("malformed.example", Reply::ok("{\"paths\": {")),
        ("huge.example", Reply::ok(huge)),
        (
            "endless.example",
            Reply::Drip { body: vec![b' '; 1 << 20].into(), pause: Duration::from_millis(50) },
        ),
        ("short.example", Reply::Short(Bytes::from_static(b"{\"paths\":{}}"))),
        ("dropping.example", Reply::Drop),
        ("deep.example", Reply::ok("[".repeat(100_000))),
        ("shape.example", Reply::ok(json!({"paths": {"apis/shape.example/v1": [1]}}).to_string())),
        ("html.example", Reply::code(200, "text/html", "<html></html>")),
        ("failing.example", Reply::code(500, "text/plain", "no")),
        ("forbidding.example", Reply::code(403, "text/plain", "no")),
    ];
    let mut extensions = Vec::new();
    for (group, answer) in answers {
        let modern = Modern::new(group).replies();
        let reply =
            move |call: &Call| if call.target == "/openapi/v3" { answer.clone() } else { modern(call) };
        let extension = RemoteServer::start(reply).await;
        extension.register(&server, group, "v1", (1000, 10)).await;
        extensions.push(extension);
    }
    let good = RemoteServer::start(Modern::new("one.example").replies()).await;
    good.register(&server, "one.example", "v1", (1000, 10)).await;
    for extension in &extensions {
        until("it was asked", async || extension.calls().iter().any(|call| call.target == "/openapi/v3"))
            .await;
    }
    until_listed(&server, KEY, "HASH1").await;
    let keys = |root: &Value| root.as_object().unwrap().len();
    assert_eq!(keys(&root(&server).await), keys(&before) + 2);
    server.stop();
}

fn group(number: usize) -> String {
    format!("g{number}.example")
}

/// A server for any group of [`group`].
fn many(call: &Call) -> Reply {
    let parts: Vec<&str> = call.target.trim_start_matches('/').split('/').collect();
    let tag = vec![("etag", "\"HASH1\"".to_owned()), ("content-type", "application/json".to_owned())];
    match parts[..] {
        ["openapi", "v3"] => {
            let entries = (0..100).map(|number| {
                let key = format!("apis/{}/v1", group(number));
                let url = format!("/openapi/v3/{key}?hash=HASH1");
                (key, json!({"serverRelativeURL": url}))
            });
            let paths: serde_json::Map<String, Value> = entries.collect();
            Reply::ok(json!({"paths": paths}).to_string())
        }
        ["openapi", "v3", "apis", _, _] => {
            Reply::Answer { code: 200, headers: tag, body: v3_document("HASH1").to_string().into() }
        }
        ["openapi", "v2"] => {
            let operation = json!({"get": {"responses": {"200": {"description": ""}}}});
            let paths: serde_json::Map<String, Value> = (0..100)
                .map(|number| (format!("/apis/{}/v1/things", group(number)), operation.clone()))
                .collect();
            let info = json!({"title": "t", "version": "1"});
            Reply::ok(json!({"swagger": "2.0", "info": info, "paths": paths}).to_string())
        }
        _ => discovery(call),
    }
}

fn discovery(call: &Call) -> Reply {
    let parts: Vec<&str> = call.target.trim_start_matches('/').split('/').collect();
    match parts[..] {
        ["apis"] => Reply::ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}).to_string()),
        ["apis", group, version] => Reply::ok(
            json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": format!("{group}/{version}"), "resources": []})
            .to_string(),
        ),
        _ => Reply::code(404, "text/plain", "404 page not found"),
    }
}

fn v3_document(title: &str) -> Value {
    json!({"openapi": "3.0.0", "info": {"title": title, "version": "1"}, "paths": {}})
}

/// A document that shares what it can, and says more than its server is registered for.
fn v2_document(group: &str, kind: &str) -> Value {
    let thing = json!({"$ref": "#/definitions/example.Thing"});
    let foreign = json!({"get": {"responses": {"200": {"description": "", "schema": {"$ref": "#/definitions/example.Foreign"}}}}});
    json!({
        "swagger": "2.0",
        "info": {"title": "t", "version": "1"},
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "parameters": {
            "pretty": {"name": "pretty", "in": "query", "type": "string", "uniqueItems": true},
            "body-1": {"name": "body", "in": "body", "required": true, "schema": thing},
        },
        "paths": {
            format!("/apis/{group}/v1/things"): {
                "get": {"responses": {"200": {"description": "", "schema": thing}}},
                "post": {
                    "parameters": [{"$ref": "#/parameters/body-1"}, {"$ref": "#/parameters/pretty"}],
                    "responses": {"200": {"description": "", "schema": thing}},
                },
            },
            "/apis/foreign.example/v1/things": foreign,
            "/version/": foreign,
        },
        "definitions": {
            "example.Thing": {
                "type": "object",
                "description": "Long enough to be worth compressing. ".repeat(50),
                "properties": {"port": {"type": "string", "format": "int-or-string"}, "size": {"type": kind}},
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
            },
            "example.Foreign": {"type": "object"},
        },
    })
}

/// A server that has v3, and lists more than it is registered for.
struct Modern {
    group: &'static str,
    hash: Mutex<String>,
}

impl Modern {
    fn new(group: &'static str) -> Arc<Self> {
        Arc::new(Self { group, hash: Mutex::new("HASH1".to_owned()) })
    }

    fn replies(self: &Arc<Self>) -> impl Fn(&Call) -> Reply + Send + Sync + use<> {
        let modern = self.clone();
        move |call| modern.reply(call)
    }

    fn reply(&self, call: &Call) -> Reply {
        let (group, hash) = (self.group, self.hash.lock().unwrap().clone());
        let entry = |key: &str, hash: &str| {
            let url = format!("/openapi/v3/{key}?hash={hash}");
            (key.to_owned(), json!({"serverRelativeURL": url}))
        };
        match call.target.split('?').next().unwrap() {
            "/openapi/v3" => {
                let paths: serde_json::Map<String, Value> = [
                    entry(&format!("apis/{group}/v1"), &hash),
                    entry(&format!("apis/{group}"), "GROUP"),
                    entry("apis/foreign.example/v1", "LIE"),
                    entry("apis/apps/v1", "LIE"),
                    entry("apis", "LIE"),
                    entry("version", "LIE"),
                ]
                .into_iter()
                .collect();
                Reply::ok(json!({"paths": paths}).to_string())
            }
            path if path == format!("/openapi/v3/apis/{group}/v1") => {
                let tag = format!("\"{hash}\"");
                if header(call, "if-none-match") == tag {
                    return Reply::Answer { code: 304, headers: vec![("etag", tag)], body: Bytes::new() };
                }
                let body = match header(call, "accept") {
                    PROTOBUF => Bytes::from_static(b"protobuf"),
                    _ => v3_document(&hash).to_string().into(),
                };
                let headers = vec![
                    ("etag", tag),
                    ("cache-control", "no-cache, private".to_owned()),
                    ("content-type", "application/json".to_owned()),
                ];
                Reply::Answer { code: 200, headers, body }
            }
            _ => discovery(call),
        }
    }
}

/// Has the server look at a remote now and not in a minute: another registration is looked at at once.
async fn look_again(server: &Server, name: &str) {
    let path = format!("{API_SERVICES}/{name}");
    let priority = server.get(&path).await.expect(200)["spec"]["versionPriority"].as_i64().unwrap();
    let changed = json!({"spec": {"versionPriority": priority + 1}});
    server.patch(&path, MERGE, &changed).await.expect(200);
}

async fn root(server: &Server) -> Value {
    let root = ask(server, "/openapi/v3", &[]).await;
    assert_eq!((root.code, root.header("content-type")), (200, "application/json"));
    let tag = root.header("etag").to_owned();
    assert!(!tag.is_empty());
    root.json()["paths"].clone()
}

/// The root, as soon as it lists `key` with this hash.
async fn until_listed(server: &Server, key: &str, hash: &str) -> Value {
    let url = format!("/openapi/v3/{key}?hash={hash}");
    until_some(&format!("{url} is listed"), async || {
        let root = root(server).await;
        (root[key]["serverRelativeURL"] == *url).then_some(root)
    })
    .await
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    call.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

async fn ask(server: &Server, path: &str, headers: &[(&'static str, &str)]) -> Answer {
    let mut request = server.request(path);
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let answer = tokio::time::timeout(AT_LAST, async {
        let (head, body) = server.apart().await.send_request(request).await.unwrap().into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    });
    let (head, body) = answer.await.unwrap_or_else(|_| panic!("{path} is not answered"));
    Answer { code: head.status.as_u16(), headers: head.headers, body }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    until_some(what, async || is_so().await.then_some(())).await;
}

async fn until_some<T>(what: &str, find: impl AsyncFn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find().await {
            return found;
        }
        assert!(begun.elapsed() < AT_LAST, "it never came to be that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
