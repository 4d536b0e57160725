//! Calls to webhooks of all manners. Texts are what kube-apiserver 1.36 says of the same webhook.

#![allow(clippy::disallowed_methods, reason = "tests wait and measure in the machine's time")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Version;
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};
use sternpost_outbound::{
    Address, Egress, Resolve,
    egress::{Lookup, Names},
};
use sternpost_testkit::webhook::{Identity, Reply, Server, Signer};
use sternpost_webhook::{
    CallError, Client, ClientConfig,
    client::{MAX_ANSWER, MAX_RETRIES},
    error::MAX_QUOTED,
};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

/// Of a server on loopback, as the webhooks here are.
fn read(config: &Value) -> ClientConfig {
    ClientConfig::read(config, &Egress::new((Ipv4Addr::LOCALHOST, 6443).into(), Vec::new())).unwrap()
}

async fn post(config: &Value, timeout: Duration) -> Result<Bytes, CallError> {
    Client::default().post(&read(config), Bytes::from_static(b"{}"), timeout).await
}

async fn error(config: &Value, timeout: Duration) -> String {
    post(config, timeout).await.unwrap_err().to_string()
}

fn post_text(server: &Server, rest: &str) -> String {
    format!("Post \"{}?timeout=30s\": {rest}", server.url("/a"))
}

#[tokio::test]
async fn a_review_is_posted_as_upstream_posts_it() {
    let server = Server::start(Identity::default(), &["http/1.1"], |call| Reply::ok(call.body.clone())).await;
    let config = read(&server.config("/a//b/../c d/"));
    let (client, body) = (Client::default(), Bytes::from_static(b"{\"x\":1}"));
    let answer = client.post(&config, body, Duration::from_millis(29_001)).await;
    assert_eq!(answer.unwrap(), "{\"x\":1}");
    let [call] = server.calls().try_into().unwrap();
    assert_eq!(call.target, "/a/c%20d?timeout=30s");
    assert_eq!(call.version, Version::HTTP_11);
    for (name, value) in [
        ("host", format!("127.0.0.1:{}", server.port)),
        ("user-agent", "kube-apiserver-admission".into()),
        ("content-type", "application/json".into()),
        ("accept", "application/json, */*".into()),
        ("content-length", "7".into()),
    ] {
        assert_eq!(call.headers[name], value);
    }
}

/// What a name leads to, from one question to the next.
#[derive(Debug)]
struct Rebinding {
    answers: Vec<Vec<&'static str>>,
    asked: Arc<AtomicUsize>,
}

impl Names for Rebinding {
    fn lookup(&self, _: String, port: u16) -> Lookup {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.get(turn).or(self.answers.last()).unwrap();
        let answer = answer.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect();
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// A name is looked up once for a connection, and what is dialled is what was checked.
#[tokio::test]
async fn a_name_leads_only_where_the_policy_allows() {
    let identity = Identity { names: vec!["hook.example"], ..Identity::default() };
    let server = Server::start(identity, &["http/1.1"], |_| Reply::ok("{}")).await;
    let config = json!({
        "url": format!("https://hook.example:{}/a", server.port), "caBundle": server.bundle,
    });
    let here: SocketAddr = (Ipv4Addr::LOCALHOST, 6443).into();
    for (answers, allowed, expected) in [
        // A second question would lead to the server.
        (vec![vec!["169.254.169.254"], vec!["127.0.0.1"]], None, Some("169.254.169.254")),
        (vec![vec!["::ffff:169.254.169.254"]], None, Some("::ffff:169.254.169.254")),
        (vec![vec!["fd00:ec2::254"]], None, Some("fd00:ec2::254")),
        // Of several addresses the others are tried.
        (vec![vec!["169.254.169.254", "127.0.0.1"]], None, None),
        (vec![vec!["127.0.0.1"], vec!["169.254.169.254"]], None, None),
        // Loopback is refused when the server is elsewhere too, and can be allowed.
        (vec![vec!["127.0.0.1"]], Some(vec![]), Some("127.0.0.1")),
        (vec![vec!["127.0.0.1"]], Some(vec!["127.0.0.0/8".parse().unwrap()]), None),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let names = Box::new(Rebinding { answers, asked: asked.clone() });
        let (listening, allowed) = match allowed {
            Some(allowed) => ((Ipv4Addr::UNSPECIFIED, 6443).into(), allowed),
            None => (here, Vec::new()),
        };
        let egress = Egress::with_names(listening, allowed, names);
        let config = ClientConfig::read(&config, &egress).unwrap();
        let answer = Client::default().post(&config, Bytes::from_static(b"{}"), LONG).await;
        match (answer, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(address)) => {
                let length = if address.contains(':') { 128 } else { 32 };
                let flag = format!("--egress-allow {address}/{length} allows it");
                assert!(error.to_string().ends_with(&flag), "{error}");
            }
            (answer, _) => panic!("{answer:?}, not {expected:?}"),
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn the_protocol_is_what_both_sides_speak() {
    for (protocols, expected) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let server = Server::start(Identity::default(), protocols, |_| Reply::ok("{}")).await;
        post(&server.config("/a"), LONG).await.unwrap();
        assert_eq!(server.calls()[0].version, expected, "{protocols:?}");
    }
}

#[tokio::test]
async fn a_service_is_found_by_the_resolver_and_believed_by_its_name() {
    #[derive(Debug)]
    struct Here(u16);
    impl Resolve for Here {
        fn service(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String> {
            match (namespace, name, port) {
                ("ns", "hook" | "other", 443) => Ok(Address { host: "127.0.0.1".into(), port: self.0 }),
                (_, "hook", port) => Err(format!("no service port {port} found for service \"hook\"")),
                _ => Err(format!("service \"{name}\" not found")),
            }
        }
    }
    let server = Server::replying(Reply::ok("{}")).await;
    let client = Client::new(Arc::new(Here(server.port)));
    let call = async |service: Value| {
        let config = read(&json!({"service": service, "caBundle": server.bundle}));
        client.post(&config, Bytes::from_static(b"{}"), LONG).await.map_err(|error| error.to_string())
    };
    call(json!({"namespace": "ns", "name": "hook", "path": "/convert"})).await.unwrap();
    let [seen] = server.calls().try_into().unwrap();
    assert_eq!(seen.target, "/convert?timeout=30s");
    assert_eq!(seen.headers["host"], "hook.ns.svc:443");
    assert_eq!(seen.version, Version::HTTP_11, "a service is not pinned to one endpoint");
    for (service, expected) in [
        (
            json!({"namespace": "x", "name": "nope"}),
            "Post \"https://nope.x.svc:443/?timeout=30s\": service \"nope\" not found",
        ),
        (
            json!({"namespace": "ns", "name": "hook", "port": 99, "path": "/p"}),
            "Post \"https://hook.ns.svc:99/p?timeout=30s\": no service port 99 found for service \"hook\"",
        ),
        (
            json!({"namespace": "ns", "name": "other"}),
            "Post \"https://other.ns.svc:443/?timeout=30s\": tls: failed to verify certificate: x509: certificate is valid for localhost, hook.ns.svc, not other.ns.svc",
        ),
    ] {
        assert_eq!(call(service).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn certificates_that_do_not_fit_are_refused() {
    let good = Identity::default;
    for (identity, expected) in [
        (Identity { signer: Signer::Stranger, ..good() }, "certificate signed by unknown authority"),
        (
            Identity { names: vec!["else.example.com"], ..good() },
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (
            Identity { names: vec!["127.0.0.2"], ..good() },
            "certificate is valid for 127.0.0.2, not 127.0.0.1",
        ),
        (
            Identity { names: vec!["127.0.0.2"], signer: Signer::Itself, ..good() },
            "certificate is valid for 127.0.0.2, not 127.0.0.1",
        ),
        (
            Identity { purpose: ExtendedKeyUsagePurpose::ClientAuth, ..good() },
            "certificate specifies an incompatible key usage",
        ),
        (
            Identity { not_before: -2, not_after: -1, ..good() },
            "certificate has expired or is not yet valid: current time * is after *",
        ),
        (
            Identity { not_before: 1, not_after: 2, ..good() },
            "certificate has expired or is not yet valid: current time * is before *",
        ),
        (
            Identity { not_before: -2, not_after: -1, signer: Signer::Itself, ..good() },
            "certificate has expired or is not yet valid: current time * is after *",
        ),
        (
            Identity { not_before: -2, not_after: -1, signer: Signer::StrangerInBundle, ..good() },
            "certificate has expired or is not yet valid: current time * is after *",
        ),
        (
            Identity { names: vec!["127.0.0.2"], signer: Signer::StrangerInBundle, ..good() },
            "certificate is valid for 127.0.0.2, not 127.0.0.1",
        ),
        (
            Identity {
                purpose: ExtendedKeyUsagePurpose::ClientAuth,
                signer: Signer::StrangerInBundle,
                ..good()
            },
            "certificate specifies an incompatible key usage",
        ),
    ] {
        let server = Server::start(identity, &["http/1.1"], |_| Reply::ok("{}")).await;
        let found = error(&server.config("/a"), LONG).await;
        let dated = found
            .split(' ')
            .map(|word| if word.ends_with('Z') && word.contains('T') { "*" } else { word })
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(
            dated,
            post_text(&server, &format!("tls: failed to verify certificate: x509: {expected}"))
        );
        assert!(server.calls().is_empty());
    }
}

#[tokio::test]
async fn a_certificate_may_be_the_bundle() {
    for signer in [Signer::Itself, Signer::StrangerInBundle] {
        let identity = Identity { signer, ..Identity::default() };
        let server = Server::start(identity, &["http/1.1"], |_| Reply::ok("{}")).await;
        post(&server.config("/a"), LONG).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_bundle_the_machine_decides() {
    let server = Server::replying(Reply::ok("{}")).await;
    let found = error(&json!({"url": server.url("/a")}), LONG).await;
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert_eq!(found, post_text(&server, unknown));
}

#[tokio::test]
async fn who_does_not_speak_tls_is_told_apart() {
    let server = Server::replying(Reply::ok("{}")).await;
    let refused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let at = |port: u16| json!({"url": format!("https://127.0.0.1:{port}/a"), "caBundle": server.bundle});
    assert_eq!(
        error(&at(refused), LONG).await,
        format!(
            "Post \"https://127.0.0.1:{refused}/a?timeout=30s\": dial tcp 127.0.0.1:{refused}: connect: connection refused"
        )
    );
    for (says, expected) in [
        (&b"hello hello hello\n"[..], "tls: first record does not look like a TLS handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "tls: first record does not look like a TLS handshake"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "remote error: tls: protocol version not supported"),
        (b"", "EOF"),
    ] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Reads first, so that closing does not reset.
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            stream.write_all(says).unwrap();
        });
        let found = error(&at(port), LONG).await;
        thread.join().unwrap();
        assert_eq!(found, format!("Post \"https://127.0.0.1:{port}/a?timeout=30s\": {expected}"));
    }
    let found = error(&json!({"url": "https://nope.invalid/a", "caBundle": server.bundle}), LONG).await;
    assert_eq!(
        found,
        "Post \"https://nope.invalid/a?timeout=30s\": dial tcp: lookup nope.invalid: no such host"
    );
}

#[tokio::test]
async fn answers_that_are_no_success_say_what_upstream_says() {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "status text"});
    let json = "application/json";
    let text = "text/plain; charset=utf-8";
    let server_error =
        |said: &str| format!("an error on the server ({said}) has prevented the request from succeeding");
    for (code, media, body, expected) in [
        (400, json, "bad", "the server rejected our request for an unknown reason".to_owned()),
        (401, json, "who", "the server has asked for the client to provide credentials".into()),
        (402, json, "", "the server responded with the status code 402 but did not return more information".into()),
        (403, json, "no", "unknown".into()),
        (403, text, "nope", "nope".into()),
        (404, text, "nope", "the server could not find the requested resource".into()),
        (405, json, "", "the server does not allow this method on the requested resource".into()),
        (406, json, "na", "the server was unable to respond with a content type that the client supports".into()),
        (406, text, "nope", "nope".into()),
        (409, text, "c", "the server reported a conflict".into()),
        (413, text, "u", "the server responded with the status code 413 but did not return more information".into()),
        (415, json, "u", "unknown".into()),
        (422, text, "u", "the server rejected our request due to an error in our request".into()),
        (429, text, "slow", "the server has received too many requests and has asked us to try again later".into()),
        (500, json, "boom", server_error("\"unknown\"")),
        (500, text, "boom\n", server_error("\"boom\"")),
        (500, "", "plain", server_error("\"plain\"")),
        (500, "text/html", "a \"q\"\nb", server_error(r#""a \"q\"\nb""#)),
        (502, json, "", server_error("\"unknown\"")),
        (503, json, "s", "the server is currently unable to handle the request".into()),
        (504, json, "g", "the server was unable to return a response in the time allotted, but may still be processing the request".into()),
        (500, json, &status.to_string(), "status text".into()),
        (403, json, &status.to_string(), "status text".into()),
        // Upstream would go where these point to.
        (302, json, "", "the server responded with the status code 302 but did not return more information".into()),
        (307, json, "", "the server responded with the status code 307 but did not return more information".into()),
        (200, json, "", "0-length response with status code: 200 and content type: application/json".into()),
        (204, json, "", "0-length response with status code: 204 and content type: application/json".into()),
    ] {
        let mut headers = vec![("location", "https://127.0.0.1:1/moved".to_owned())];
        if !media.is_empty() {
            headers.push(("content-type", media.to_owned()));
        }
        let server =
            Server::replying(Reply::Answer { code, headers, body: Bytes::copy_from_slice(body.as_bytes()) }).await;
        assert_eq!(error(&server.config("/a"), LONG).await, expected, "{code} {media} {body}");
        assert_eq!(server.calls().len(), 1);
    }
}

#[tokio::test]
async fn the_text_of_a_failure_is_repeated_up_to_a_limit() {
    for (length, repeated) in [(MAX_QUOTED, MAX_QUOTED), (MAX_QUOTED + 1, MAX_QUOTED)] {
        let server = Server::replying(Reply::code(500, "text/plain", "y".repeat(length))).await;
        assert_eq!(error(&server.config("/a"), LONG).await.matches('y').count(), repeated);
    }
}

#[tokio::test]
async fn an_answer_has_a_largest_size() {
    let too_large = Err(CallError::TooLarge { limit: MAX_ANSWER });
    for (protocol, size, expected) in [
        ("http/1.1", MAX_ANSWER, Ok(MAX_ANSWER)),
        ("http/1.1", MAX_ANSWER + 1, too_large.clone()),
        ("h2", MAX_ANSWER + 1, too_large),
    ] {
        let body = Bytes::from(vec![b' '; size]);
        let server = Server::start(Identity::default(), &[protocol], move |_| Reply::ok(body.clone())).await;
        let found = post(&server.config("/a"), LONG).await.map(|answer| answer.len());
        assert_eq!(found, expected, "{protocol} {size}");
    }
}

#[tokio::test]
async fn a_webhook_that_takes_its_time_runs_out_of_it() {
    let drip = Reply::Drip { body: Bytes::from(vec![b' '; 1000]), pause: Duration::from_millis(100) };
    let reading = "unexpected error when reading response body. Please retry. Original error: net/http: request canceled (Client.Timeout or context cancellation while reading body)";
    for protocol in ["h2", "http/1.1"] {
        // Dripping has to begin in time, also on a busy machine.
        for (reply, time, expected) in
            [(Reply::Hang, SHORT, None), (drip.clone(), Duration::from_secs(5), Some(reading))]
        {
            let server = Server::start(Identity::default(), &[protocol], move |_| reply.clone()).await;
            let begin = Instant::now();
            let found = post(&server.config("/a"), time).await.unwrap_err();
            assert!(begin.elapsed() < time + LONG, "{:?}", begin.elapsed());
            assert!(found.is_timeout());
            let waiting = format!("Post \"{}?timeout=1s\": context deadline exceeded", server.url("/a"));
            assert_eq!(found.to_string(), expected.unwrap_or(&waiting), "{protocol}");
        }
    }
    // Nobody accepts: the connection is made, the handshake is not.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}/a", listener.local_addr().unwrap());
    let found = error(&json!({"url": url}), SHORT).await;
    assert_eq!(found, format!("Post \"{url}?timeout=1s\": context deadline exceeded"));
}

#[tokio::test]
async fn an_answer_may_be_late_but_in_time() {
    let late = Reply::Late { after: SHORT, reply: Box::new(Reply::ok("{}")) };
    let server = Server::replying(late).await;
    assert_eq!(post(&server.config("/a"), LONG).await.unwrap(), "{}");
}

#[tokio::test]
async fn connections_that_break_off_are_told() {
    let server = Server::start(Identity::default(), &["http/1.1"], |_| Reply::Drop).await;
    assert_eq!(error(&server.config("/a"), LONG).await, post_text(&server, "EOF"));
    let server =
        Server::start(Identity::default(), &["http/1.1"], |_| Reply::Short(Bytes::from_static(b"{\"a\":")))
            .await;
    assert_eq!(
        error(&server.config("/a"), LONG).await,
        "unexpected error when reading response body. Please retry. Original error: unexpected EOF"
    );
}

#[tokio::test]
async fn a_busy_webhook_is_asked_again_when_it_says_so() {
    for (code, busy, expected) in [
        (503, 2, Ok("{}".to_owned())),
        (429, 2, Ok("{}".to_owned())),
        (429, MAX_RETRIES as usize, Ok("{}".to_owned())),
        (
            503,
            MAX_RETRIES as usize + 1,
            Err("the server is currently unable to handle the request".to_owned()),
        ),
        (404, 1, Err("the server could not find the requested resource".to_owned())),
    ] {
        let count = AtomicUsize::new(0);
        let server = Server::start(Identity::default(), &["http/1.1"], move |_| {
            if count.fetch_add(1, Ordering::Relaxed) < busy {
                Reply::Answer { code, headers: vec![("retry-after", "0".to_owned())], body: Bytes::new() }
            } else {
                Reply::ok("{}")
            }
        })
        .await;
        let found = post(&server.config("/a"), LONG).await;
        let found =
            found.map(|body| String::from_utf8_lossy(&body).into_owned()).map_err(|error| error.to_string());
        assert_eq!(found, expected, "{code} {busy}");
    }
    // Longer than the call has.
    let server = Server::start(Identity::default(), &["http/1.1"], |_| Reply::Answer {
        code: 503,
        headers: vec![("retry-after", "3600".to_owned())],
        body: Bytes::new(),
    })
    .await;
    assert!(error(&server.config("/a"), SHORT).await.ends_with("context deadline exceeded"));
}

#[tokio::test]
async fn connections_are_used_again() {
    for protocol in ["h2", "http/1.1"] {
        let server = Server::start(Identity::default(), &[protocol], |_| Reply::ok("{}")).await;
        let config = read(&server.config("/a"));
        let client = Client::default();
        client.post(&config, Bytes::new(), LONG).await.unwrap();
        // The second is answered although nobody listens for connections any more.
        server.stop_accepting();
        client.clone().post(&config.clone(), Bytes::new(), LONG).await.unwrap();
        assert_eq!(server.calls().len(), 2, "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_hangs_holds_up_nobody() {
    let (hanging, good) = (Server::replying(Reply::Hang).await, Server::replying(Reply::ok("{}")).await);
    let client = Client::default();
    let stuck = read(&hanging.config("/a"));
    let config = read(&good.config("/a"));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (client, stuck) = (client.clone(), stuck.clone());
        waiting.spawn(async move { client.post(&stuck, Bytes::from_static(b"{}"), LONG * 10).await });
    }
    while hanging.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..50 {
        client.post(&config, Bytes::from_static(b"{}"), LONG).await.unwrap();
    }
    assert!(waiting.try_join_next().is_none(), "the others still wait");
    waiting.shutdown().await;
}
