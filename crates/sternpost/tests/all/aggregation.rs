//! Requests for other API servers, passed on by the whole server: what they are told, what comes back,
//! and what it takes to do harm. Codes and texts are those of kube-apiserver 1.36.4.

use std::{
    fs,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::client::TlsStream;

use crate::extension::{Door, Extension, field, fields, http2::Http2Extension};
use sternpost_testkit::server::{AT_LAST, MERGE, Server};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const TOLD: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

#[tokio::test]
async fn a_server_is_told_who_calls_and_not_how_it_is_known() {
    let server = Server::start("aggregation-identity").await;
    let one = registered(&server, "one.example", Door::Open).await;
    let (code, _, said) = ask(
        &server,
        "POST",
        "/apis/one.example/v1/namespaces/a%2fb/things?do=echo&x=%20",
        &[
            ("x-remote-user", "evil"),
            ("x-remote-group", "evil"),
            ("x-remote-extra-a", "evil"),
            ("proxy-authorization", "secret"),
            ("x-other", "kept"),
        ],
        "hello",
    )
    .await;
    assert_eq!(code, 200);
    let said: Value = serde_json::from_slice(&said).unwrap();
    let head = said["head"].as_str().unwrap();
    assert_eq!((&said["body"], &said["vouched"]), (&json!("hello"), &json!(true)));
    // Escapes are as they were authorized, and the query as it came.
    assert!(
        head.starts_with("post /apis/one.example/v1/namespaces/a/b/things?do=echo&x=%20 http/1.1"),
        "{head}"
    );
    assert_eq!(field(head, "x-remote-user"), Some("kubernetes-admin"));
    let groups: Vec<&str> = fields(head, "x-remote-group").collect();
    assert_eq!(groups, ["system:masters", "system:authenticated"]);
    assert_eq!(field(head, "x-other"), Some("kept"));
    assert_eq!(field(head, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(field(head, "host"), Some(format!("127.0.0.1:{}", one.port).as_str()));
    assert_eq!(field(head, "content-length"), Some("5"));
    for gone in ["authorization:", "proxy-authorization:", "evil", "secret", server.token()] {
        assert!(!head.contains(gone), "{gone} in {head}");
    }

    let (code, _, said) = ask(
        &server,
        "GET",
        &one.path("echo"),
        &[
            ("impersonate-user", "bob"),
            ("impersonate-uid", "u1"),
            ("impersonate-group", "system:masters"),
            ("impersonate-extra-team%2fx", "blue"),
        ],
        "",
    )
    .await;
    assert_eq!(code, 200);
    let said: Value = serde_json::from_slice(&said).unwrap();
    let head = said["head"].as_str().unwrap();
    assert_eq!(field(head, "x-remote-user"), Some("bob"));
    assert_eq!(field(head, "x-remote-uid"), Some("u1"));
    assert_eq!(field(head, "x-remote-extra-team%2fx"), Some("blue"));
    assert!(!head.contains("impersonate-") && !head.contains("kubernetes-admin"), "{head}");

    // Who may not is told so here.
    let (code, _, _) = ask(&server, "GET", &one.path("echo"), &[("impersonate-user", "carol")], "").await;
    assert_eq!(code, 403);
    server.stop();
}

#[tokio::test]
async fn events_come_when_they_happen_and_stop_when_nobody_listens() {
    let server = Server::start("aggregation-watch").await;
    let one = registered(&server, "one.example", Door::Open).await;
    let mut watch = server.watch(&format!("{}&watch=1&timeout=1s", one.path("watch"))).await;
    for _ in 0..3 {
        one.tell();
        assert_eq!(watch.next().await.unwrap()["type"], "ADD");
        sleep(Duration::from_millis(600)).await;
    }
    let before = one.connections();
    drop(watch);
    until("the watch ends there too", || one.connections() < before).await;
    server.stop();
}

/// A watch is a stream, not a connection.
#[tokio::test]
async fn watches_of_a_server_of_http2_share_a_connection() {
    let server = Server::start("aggregation-http2").await;
    let one = registered_http2(&server, "one.example", 250).await;
    let path = format!("{}&watch=1", one.path("watch"));
    let mut watches = join_all((0..50).map(|_| server.watch(&path))).await;
    for _ in 0..2 {
        one.tell();
        for watch in &mut watches {
            assert_eq!(watch.next().await.unwrap()["type"], "ADD");
        }
        let (code, headers, body) =
            ask(&server, "POST", &one.path("echo"), &[("te", "trailers")], "hello").await;
        assert_eq!((code, &*body), (200, b"hello".as_slice()));
        assert!(!headers.contains_key("connection"));
    }
    assert_eq!((one.made(), one.watching()), (1, 50));
    // What it is told is what one of HTTP/1.1 is told.
    let call = one.calls().pop().unwrap();
    assert_eq!(call.version, Version::HTTP_2);
    assert_eq!(call.authority, format!("127.0.0.1:{}", one.port));
    assert_eq!(call.headers["x-remote-user"], "kubernetes-admin");
    assert_eq!(call.headers["content-length"], "5");
    assert_eq!(call.headers["te"], "trailers");
    for gone in ["host", "connection", "authorization", "transfer-encoding"] {
        assert!(!call.headers.contains_key(gone), "{gone}");
    }
    // One that nobody listens to ends there, and the connection does not.
    watches.truncate(20);
    until("the others end there too", || one.watching() == 20).await;

    // Another protocol is not for streams.
    let (head, mut stream) = upgrade(&server, &one.path("upgrade")).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    timeout(AT_LAST, stream.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"HELLO");
    assert_eq!(one.calls().pop().unwrap().version, Version::HTTP_11);
    assert_eq!(one.made(), 2);

    // Nobody reads these, and the others notice nothing.
    let mut senders = Vec::new();
    for _ in 0..10 {
        let mut sender = server.apart().await;
        let endless = server.request(&format!("{}&watch=1", one.path("endless")));
        senders.push((sender.send_request(endless).await.unwrap(), sender));
    }
    one.tell();
    for watch in &mut watches {
        assert_eq!(watch.next().await.unwrap()["type"], "ADD");
    }
    assert_eq!(ask(&server, "POST", &one.path("echo"), &[], "hello").await.0, 200);
    assert_eq!(one.made(), 2);
    server.stop();
}

#[tokio::test]
async fn a_server_that_breaks_off_is_asked_again() {
    let server = Server::start("aggregation-http2-breaks").await;
    let one = registered_http2(&server, "one.example", 250).await;
    let other = registered_http2(&server, "other.example", 250).await;
    let (path, others) =
        (format!("{}&watch=1", one.path("watch")), format!("{}&watch=1", other.path("watch")));
    let mut watches = join_all((0..10).map(|_| server.watch(&path))).await;
    let mut unharmed = server.watch(&others).await;
    one.break_off();
    for watch in &mut watches {
        assert_eq!(watch.next().await, None);
    }
    for _ in 0..5 {
        let (code, _, body) = ask(&server, "POST", &one.path("echo"), &[], "hello").await;
        assert_eq!((code, &*body), (200, b"hello".as_slice()));
    }
    let mut again = join_all((0..10).map(|_| server.watch(&path))).await;
    one.tell();
    for watch in &mut again {
        assert_eq!(watch.next().await.unwrap()["type"], "ADD");
    }
    assert_eq!(one.made(), 2);
    other.tell();
    assert_eq!(unharmed.next().await.unwrap()["type"], "ADD");
    assert_eq!(other.made(), 1);
    server.stop();
}

#[tokio::test]
async fn a_limit_of_streams_holds_up_nobody() {
    let server = Server::start("aggregation-http2-streams").await;
    let one = registered_http2(&server, "one.example", 1).await;
    let path = format!("{}&watch=1", one.path("watch"));
    let mut watches = join_all((0..5).map(|_| server.watch(&path))).await;
    for _ in 0..3 {
        let (code, _, body) = ask(&server, "POST", &one.path("echo"), &[], "hello").await;
        assert_eq!((code, &*body), (200, b"hello".as_slice()));
    }
    one.tell();
    for watch in &mut watches {
        assert_eq!(watch.next().await.unwrap()["type"], "ADD");
    }
    assert_eq!(one.watching(), 5);
    assert!(one.calls().iter().all(|call| call.version == Version::HTTP_2));
    server.stop();
}

#[tokio::test]
async fn another_protocol_goes_through_byte_by_byte() {
    let server = Server::start("aggregation-upgrade").await;
    let one = registered(&server, "one.example", Door::Open).await;
    let (head, mut stream) = upgrade(&server, &one.path("upgrade")).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("upgrade: shout"), "{head}");
    for text in ["hello\0", "\u{ff}world"] {
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut heard = vec![0; text.len()];
        timeout(AT_LAST, stream.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(heard, text.as_bytes().to_ascii_uppercase());
    }
    let told = one.last_seen();
    assert_eq!(field(&told, "upgrade"), Some("shout"));
    assert_eq!(field(&told, "x-remote-user"), Some("kubernetes-admin"));
    assert!(!told.contains("authorization:"), "{told}");
    let before = one.connections();
    drop(stream);
    until("the other side ends too", || one.connections() < before).await;

    // Whatever is not a switch is an answer, and what is sent behind it leads nowhere.
    for (action, expected, text) in [
        ("refuse", "HTTP/1.1 403 ", "no"),
        ("redirect", "HTTP/1.1 503 ", "invalid upgrade response: status code 302\n"),
        ("echo", "HTTP/1.1 503 ", "invalid upgrade response: status code 200\n"),
        ("close", "HTTP/1.1 503 ", "error dialing backend: EOF\n"),
    ] {
        let (head, mut stream) = upgrade(&server, &one.path(action)).await;
        assert!(head.starts_with(expected), "{action}: {head}");
        let mut body = vec![0; text.len()];
        timeout(AT_LAST, stream.read_exact(&mut body)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&body), text, "{action}");
        let seen = one.last_seen();
        let _ = stream
            .write_all(b"GET /apis/one.example/v1/secret?do=echo HTTP/1.1\r\nhost: x\r\naudit-id: x\r\n\r\n")
            .await;
        let mut rest = Vec::new();
        let _ = timeout(Duration::from_millis(300), stream.read_to_end(&mut rest)).await;
        assert!(!String::from_utf8_lossy(&rest).contains("vouched"), "{action}");
        assert_eq!(one.last_seen(), seen, "{action}");
    }
    server.stop();
}

#[tokio::test]
async fn a_server_that_does_harm_does_it_to_those_who_ask_it() {
    let server = Server::start("aggregation-hostile").await;
    let bad = registered(&server, "bad.example", Door::Open).await;
    let good = registered(&server, "good.example", Door::Open).await;
    let echo = good.path("echo");
    let reach = "error trying to reach service: ";
    let late = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";
    for (action, code, text) in [
        ("redirect", 502, Some("the backend attempted to redirect this request, which is not permitted")),
        ("unmodified", 304, Some("")),
        ("refuse", 403, Some("no")),
        ("switch", 502, Some("error trying to reach service: unexpected switch of protocols\n")),
        ("silent", 504, Some(late)),
        ("half-head", 504, Some(late)),
        ("close", 503, Some("error trying to reach service: EOF\n")),
        ("garbage", 503, Some(reach)),
        ("huge-header", 503, Some(reach)),
        ("many-headers", 503, Some(reach)),
        ("half-body", 200, None),
        ("drip", 200, None),
        ("endless", 200, None),
    ] {
        // Those that are to be too late are given less time than those that answer.
        let limit = match (code, text) {
            (504, _) => "1s",
            (_, None) => "5s",
            _ => "60s",
        };
        let path = format!("{}&timeout={limit}", bad.path(action));
        let asked = timeout(AT_LAST, ask_whole(&server, &path));
        // The others notice nothing.
        let others = join_all((0..5).map(|_| ask(&server, "GET", &echo, &[], "")));
        let (asked, others) = tokio::join!(asked, others);
        assert!(others.iter().all(|(code, _, _)| *code == 200), "{action}");
        let (found, headers, body) = asked.unwrap();
        assert_eq!(found, code, "{action}");
        match text {
            // An answer that broke off must not look whole.
            None => assert!(body.is_none(), "{action}"),
            Some(text) => {
                let body = String::from_utf8_lossy(&body.unwrap()).into_owned();
                if text == reach {
                    assert!(body.starts_with(text), "{action}: {body}");
                } else {
                    assert_eq!(body, text, "{action}");
                }
            }
        }
        assert!(!headers.contains_key("access-control-allow-origin"), "{action}");
        assert!(!headers.contains_key("location"), "{action}");
        assert_eq!(headers.get_all("audit-id").iter().count(), 1, "{action}");
    }
    // A client that does not read holds up a server that does not stop sending.
    let memory = server.memory();
    let mut sender = server.apart().await;
    let endless = server.request(&format!("{}&watch=1", bad.path("endless")));
    let answer = sender.send_request(endless).await.unwrap();
    let mut sent = bad.sent();
    loop {
        sleep(Duration::from_millis(500)).await;
        let now = bad.sent();
        if now == sent {
            break;
        }
        sent = now;
        assert!(server.memory() < memory + (128 << 20));
    }
    drop(answer);
    server.stop();
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_is_not_talked_to() {
    let server = Server::start("aggregation-doors").await;
    let proxies = told(&server).await["requestheader-client-ca-file"].as_str().unwrap().to_owned();
    for (group, door, bundle, expected) in [
        ("expired.example", Door::Expired, None, "x509: certificate has expired or is not yet valid"),
        (
            "name.example",
            Door::OtherName,
            None,
            "x509: certificate is valid for other.ns.svc, not ext.ns.svc",
        ),
        ("plain.example", Door::Plain, None, "tls: first record does not look like a TLS handshake"),
        ("mute.example", Door::Mute, None, "Client.Timeout exceeded while awaiting headers"),
        ("stranger.example", Door::Open, Some(""), "x509: certificate signed by unknown authority"),
        ("garbage.example", Door::Open, Some("Z2FyYmFnZQ=="), "unable to parse bytes as PEM block"),
    ] {
        let one = Extension::start(group, door, &proxies).await;
        let mut object = one.api_service();
        if let Some(bundle) = bundle {
            object["spec"]["caBundle"] = json!(bundle);
        }
        server.post(API_SERVICES, &object).await.expect(201);
        let condition = available(&server, group, "False").await;
        assert_eq!(condition["reason"], "FailedDiscoveryCheck", "{group}");
        assert!(condition["message"].as_str().unwrap().contains(expected), "{group}: {condition}");
        let (code, headers, body) = ask(&server, "GET", &one.path("echo"), &[], "").await;
        assert_eq!((code, &*body), (503, b"service unavailable\n".as_slice()), "{group}");
        assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(one.last_seen(), "", "{group}");
        if matches!(door, Door::Expired | Door::OtherName) {
            // Unless somebody wants it so.
            let patch = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
            server.patch(&format!("{API_SERVICES}/v1.{group}"), MERGE, &patch).await.expect(200);
            available(&server, group, "True").await;
            assert_eq!(ask(&server, "GET", &one.path("echo"), &[], "").await.0, 200, "{group}");
        }
    }
    server.stop();
}

#[tokio::test]
async fn a_server_is_found_where_it_is_said_to_be() {
    let server = Server::start("aggregation-places").await;
    let one = registered(&server, "one.example", Door::Open).await;
    server.namespace("ns").await;
    let path = format!("{API_SERVICES}/v1.one.example");
    // Without an address of its own it is where its Service is.
    let patch = json!({
        "metadata": {"annotations": null},
        "spec": {"service": {"port": one.port}},
    });
    server.patch(&path, MERGE, &patch).await.expect(200);
    assert_eq!(available(&server, "one.example", "False").await["reason"], "ServiceNotFound");
    let service = json!({
        "metadata": {"name": "ext"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    server.post("/api/v1/namespaces/ns/services", &service).await.expect(201);
    available(&server, "one.example", "True").await;
    assert_eq!(ask(&server, "GET", &one.path("echo"), &[], "").await.0, 200);

    // A sick one is left alone until it is well.
    one.set_sick(true);
    server.patch(&path, MERGE, &json!({"spec": {"versionPriority": 11}})).await.expect(200);
    available(&server, "one.example", "False").await;
    let (code, _, body) = ask(&server, "GET", &one.path("echo"), &[], "").await;
    assert_eq!((code, &*body), (503, b"service unavailable\n".as_slice()));
    one.set_sick(false);
    available(&server, "one.example", "True").await;
    assert_eq!(ask(&server, "GET", &one.path("echo"), &[], "").await.0, 200);

    server.delete(&path).await.expect(200);
    until_async("the group is gone", async || ask(&server, "GET", &one.path("echo"), &[], "").await.0 == 404)
        .await;
    server.stop();
}

#[tokio::test]
async fn what_is_built_in_is_nobody_elses() {
    let server = Server::start("aggregation-built-in").await;
    let proxies = told(&server).await["requestheader-client-ca-file"].as_str().unwrap().to_owned();
    let thief = Extension::start("apps", Door::Open, &proxies).await;
    let spec = thief.api_service()["spec"].clone();
    let annotations = thief.api_service()["metadata"]["annotations"].clone();
    let patch = json!({"metadata": {"annotations": annotations}, "spec": spec});
    let changed = server.patch(&format!("{API_SERVICES}/v1.apps"), MERGE, &patch).await;
    sleep(Duration::from_millis(500)).await;
    let list = server.get("/apis/apps/v1/deployments").await.expect(200);
    assert_eq!(list["kind"], "DeploymentList", "{changed:?}");
    assert_eq!(thief.last_seen(), "");
    // Another version of the same group is.
    let mut other = thief.api_service();
    other["metadata"]["name"] = "v9.apps".into();
    other["spec"]["version"] = "v9".into();
    server.post(API_SERVICES, &other).await.expect(201);
    until_async("v9 is passed on", async || {
        ask(&server, "GET", "/apis/apps/v9/deployments?do=refuse", &[], "").await.0 == 403
    })
    .await;
    server.stop();
}

#[tokio::test]
async fn other_servers_are_told_whom_to_believe() {
    let dir = std::env::temp_dir().join(format!("sternpost-aggregation-told-files-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (clients, proxies) = (dir.join("clients.crt"), dir.join("proxies.crt"));
    let (first, second, third) = (authority(), authority(), authority());
    fs::write(&clients, &first).unwrap();
    fs::write(&proxies, &second).unwrap();
    let flags = [
        format!("--client-ca-file={}", clients.display()),
        format!("--requestheader-client-ca-file={}", proxies.display()),
        "--requestheader-allowed-names=outer".into(),
        "--requestheader-username-headers=X-Remote-User,X-Outer-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start_with("aggregation-told", &flags).await;
    let data = told(&server).await;
    assert_eq!(data["client-ca-file"], first);
    let believed = data["requestheader-client-ca-file"].as_str().unwrap().to_owned();
    assert!(believed.starts_with(&second) && believed.len() > second.len());
    for (field, expected) in [
        ("requestheader-allowed-names", r#"["outer","front-proxy-client"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User","X-Outer-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ] {
        assert_eq!(data[field], expected, "{field}");
    }

    // Removed or changed, it comes back; what others put beside it stays.
    server.delete(TOLD).await.expect(200);
    assert_eq!(told(&server).await, data);
    let patch = json!({"data": {"client-ca-file": "nobody", "more": "of mine"}});
    server.patch(TOLD, MERGE, &patch).await.expect(200);
    until_async("it is put right", async || told(&server).await["client-ca-file"] == *first).await;
    assert_eq!(told(&server).await["more"], "of mine");

    // A file that changes is told anew.
    fs::write(&clients, &third).unwrap();
    until_async("the new authority is told", async || told(&server).await["client-ca-file"] == *third).await;
    server.stop();
    let _ = fs::remove_dir_all(dir);
}

/// Also to servers that there are connections to already.
#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_from_then_on() {
    let dir = std::env::temp_dir().join(format!("sternpost-aggregation-shown-files-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (certificate, key, clients) = (dir.join("proxy.crt"), dir.join("proxy.key"), dir.join("ca.crt"));
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let replace = || {
        let made = KeyPair::generate().unwrap();
        let signed = CertificateParams::default().signed_by(&made, &issuer).unwrap();
        fs::write(&key, made.serialize_pem()).unwrap();
        fs::write(&certificate, signed.pem()).unwrap();
        Some(signed.der().to_vec())
    };
    fs::write(&clients, &authority).unwrap();
    let first = replace();
    let flags = [
        format!("--proxy-client-cert-file={}", certificate.display()),
        format!("--proxy-client-key-file={}", key.display()),
        format!("--requestheader-client-ca-file={}", clients.display()),
        "--requestheader-username-headers=X-Remote-User".into(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start_with("aggregation-shown", &flags).await;
    let one = Http2Extension::start("one.example", 250, &authority).await;
    server.post(API_SERVICES, &one.api_service()).await.expect(201);
    available(&server, "one.example", "True").await;
    let shown = async || {
        assert_eq!(ask(&server, "GET", &one.path("echo"), &[], "").await.0, 200);
        one.calls().pop().unwrap().shown
    };
    assert_eq!(shown().await, first);
    let second = replace();
    until_async("the new certificate is shown", async || shown().await == second).await;
    server.stop();
    let _ = fs::remove_dir_all(dir);
}

/// This server behind itself: who calls is known there, and what they may do is decided there.
#[tokio::test]
async fn a_server_of_this_kind_stands_behind_another() {
    let front = Server::start("aggregation-front").await;
    let dir = std::env::temp_dir().join(format!("sternpost-aggregation-behind-files-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let proxies = dir.join("proxies.crt");
    fs::write(&proxies, told(&front).await["requestheader-client-ca-file"].as_str().unwrap()).unwrap();
    let flags = [
        format!("--requestheader-client-ca-file={}", proxies.display()),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-uid-headers=X-Remote-Uid".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let behind = Server::start_with("aggregation-behind", &flags).await;
    behind
        .define(&json!({
            "metadata": {"name": "flunders.shop.example"},
            "spec": {
                "group": "shop.example", "scope": "Namespaced",
                "names": {"plural": "flunders", "singular": "flunder", "kind": "Flunder"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        }))
        .await;
    let own = behind.own_config("");
    front
        .post(
            API_SERVICES,
            &json!({
                "metadata": {
                    "name": "v1.shop.example",
                    "annotations": {"aggregation.sternpost.dev/address": behind.address()},
                },
                "spec": {
                    "group": "shop.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                    "caBundle": own["caBundle"],
                    // A name that its certificate has.
                    "service": {"namespace": "default", "name": "kubernetes"},
                },
            }),
        )
        .await
        .expect(201);
    available(&front, "shop.example", "True").await;
    let path = "/apis/shop.example/v1/namespaces/default/flunders";
    let mut watch = front.watch(&format!("{path}?watch=1")).await;
    let flunder = json!({"apiVersion": "shop.example/v1", "kind": "Flunder", "metadata": {"name": "a"}, "spec": {"x": 1}});
    front.post(path, &flunder).await.expect(201);
    assert_eq!(watch.told().await, Some(("ADDED".into(), "a".into(), json!({"x": 1}))));
    front.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"x": 2}})).await.expect(200);
    assert_eq!(watch.told().await, Some(("MODIFIED".into(), "a".into(), json!({"x": 2}))));
    assert_eq!(behind.get(&format!("{path}/a")).await.expect(200)["spec"]["x"], 2);

    // Allowed at the front and not behind: what is behind decides.
    for server in [&front, &behind] {
        let role = json!({
            "metadata": {"name": "looks"},
            "rules": [{"apiGroups": ["shop.example"], "resources": ["flunders"], "verbs": ["get", "list"]}],
        });
        server.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await.expect(201);
    }
    let binding = |name: &str| {
        json!({
            "metadata": {"name": "looks"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}],
        })
    };
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    front.post(bindings, &binding("team")).await.expect(201);
    let as_bob = [("impersonate-user", "bob"), ("impersonate-group", "team")];
    let (code, _, body) = ask(&front, "GET", path, &as_bob, "").await;
    assert_eq!(code, 403);
    assert!(String::from_utf8_lossy(&body).contains("User \\\"bob\\\" cannot list"), "{body:?}");
    behind.post(bindings, &binding("team")).await.expect(201);
    assert_eq!(ask(&front, "GET", path, &as_bob, "").await.0, 200);
    front.stop();
    behind.stop();
    let _ = fs::remove_dir_all(dir);
}

/// A server that is registered and answers.
async fn registered(server: &Server, group: &str, door: Door) -> Extension {
    let proxies = told(server).await["requestheader-client-ca-file"].as_str().unwrap().to_owned();
    let one = Extension::start(group, door, &proxies).await;
    server.post(API_SERVICES, &one.api_service()).await.expect(201);
    available(server, group, "True").await;
    one
}

/// The same of one that speaks HTTP/2, with so many requests at a time on a connection.
async fn registered_http2(server: &Server, group: &str, max_streams: u32) -> Http2Extension {
    let proxies = told(server).await["requestheader-client-ca-file"].as_str().unwrap().to_owned();
    let one = Http2Extension::start(group, max_streams, &proxies).await;
    server.post(API_SERVICES, &one.api_service()).await.expect(201);
    available(server, group, "True").await;
    one
}

/// What the ConfigMap says, when there is one.
async fn told(server: &Server) -> Value {
    loop {
        let answer = server.get(TOLD).await;
        if answer.code == 200 {
            return answer.body["data"].clone();
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// The condition, when it has this status.
async fn available(server: &Server, group: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let object = server.get(&format!("{API_SERVICES}/v1.{group}")).await.expect(200);
        let condition = object["status"]["conditions"][0].clone();
        if condition["status"] == status {
            return condition;
        }
        assert!(begun.elapsed() < AT_LAST, "{group} is not {status}: {condition}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < AT_LAST, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn until_async(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < AT_LAST, "{what}");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, HeaderMap, Bytes) {
    let mut request = server.request(path);
    *request.method_mut() = method.parse().unwrap();
    *request.body_mut() = Full::new(Bytes::from(body.to_owned()));
    for (name, value) in headers {
        request.headers_mut().append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    let (code, headers, body) = send(server, request).await;
    (code, headers, body.unwrap())
}

async fn ask_whole(server: &Server, path: &str) -> (u16, HeaderMap, Option<Bytes>) {
    send(server, server.request(path)).await
}

/// The body is there if it was whole.
async fn send(server: &Server, request: Request<Full<Bytes>>) -> (u16, HeaderMap, Option<Bytes>) {
    let mut sender = server.apart().await;
    let answer = timeout(AT_LAST, sender.send_request(request)).await.unwrap().unwrap();
    let (parts, mut body) = answer.into_parts();
    let mut whole = Vec::new();
    while let Some(frame) = timeout(AT_LAST, body.frame()).await.unwrap() {
        let Ok(frame) = frame else { return (parts.status.as_u16(), parts.headers, None) };
        // Of what does not end, not everything is kept.
        if let Ok(data) = frame.into_data()
            && whole.len() < 1 << 20
        {
            whole.extend_from_slice(&data);
        }
    }
    (parts.status.as_u16(), parts.headers, Some(whole.into()))
}

/// Asks over HTTP/1.1 to go on in another protocol; the head of the answer, and the connection.
async fn upgrade(server: &Server, path: &str) -> (String, TlsStream<TcpStream>) {
    let mut stream = server.raw_http1().await;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: Upgrade\r\nupgrade: shout\r\n\r\n",
        server.address(),
        server.token()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(AT_LAST, stream.read_u8()).await.unwrap().unwrap());
    }
    (String::from_utf8(head).unwrap(), stream)
}

/// A certificate authority, in PEM.
fn authority() -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}
