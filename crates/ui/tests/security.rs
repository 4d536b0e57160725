//! Who reaches the page and what is behind it, over real connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sternpost_ui::{Body, BoxError, Kustomizations, Settings, serve};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// An explorer on a cluster that says what it was asked.
struct Explorer {
    address: String,
    links: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<(Method, String, HeaderMap)>>>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Writing,
    ReadOnly,
}

impl Drop for Explorer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn explorer(mode: Mode) -> Explorer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (links, asked) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<_>>>::default());
    let (offered, seen) = (links.clone(), asked.clone());
    let settings = Settings {
        name: None,
        tls: None,
        is_read_only: mode == Mode::ReadOnly,
        about: [("cluster".to_owned(), Value::from("test"))].into_iter().collect(),
        forward: Arc::new(move |request: Request<Body>| {
            let seen = seen.clone();
            Box::pin(async move {
                let (head, body) = request.into_parts();
                if head.uri.path() == "/away" {
                    return Err("nobody is there".to_owned());
                }
                let sent = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
                seen.lock().unwrap().push((head.method, head.uri.to_string(), head.headers));
                let body: UnsyncBoxBody<Bytes, BoxError> =
                    Full::new(sent).map_err(|never| match never {}).boxed_unsync();
                Ok(Response::builder()
                    .header("set-cookie", "a=b")
                    .header("warning", "299 - \"x\"")
                    .body(body)
                    .unwrap())
            })
        }),
        kustomizations: Some(Kustomizations {
            names: vec!["overlays/a".into()],
            build: Arc::new(|number| Box::pin(async move { Ok(json!({"built": number})) })),
        }),
        offer: Arc::new(move |link| offered.lock().unwrap().push(link.to_owned())),
    };
    let task = tokio::spawn(async move {
        serve(listener, settings, std::future::pending()).await.unwrap();
    });
    let explorer = Explorer { address, links, asked, task };
    while explorer.links.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    explorer
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Explorer {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", &self.address);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
        connection.abort();
        Answer { status: head.status, headers: head.headers, text }
    }

    fn code(&self) -> String {
        let link = self.links.lock().unwrap().last().unwrap().clone();
        link.strip_prefix(&format!("http://{}", self.address)).unwrap().to_owned()
    }

    fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// As a browser does it: the path of the session, the cookie and the token.
    async fn enter(&self) -> (String, String, String) {
        let opened = self.ask("GET", &self.code(), &[], "").await;
        assert_eq!(opened.status, 303);
        let path = opened.headers["location"].to_str().unwrap().to_owned();
        let cookie = opened.headers["set-cookie"].to_str().unwrap();
        assert!(cookie.ends_with(&format!("; Path={path}; HttpOnly; SameSite=Strict")), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let begun = self.begin(&path, &[("cookie", &cookie)]).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        let about: Value = serde_json::from_str(&begun.text).unwrap();
        assert_eq!(about["cluster"], "test");
        assert_eq!(about["features"]["kustomize"], json!(["overlays/a"]));
        (path, cookie, about["token"].as_str().unwrap().to_owned())
    }

    async fn begin(&self, path: &str, more: &[(&str, &str)]) -> Answer {
        let origin = self.origin();
        let mut headers = vec![("origin", origin.as_str()), ("sec-fetch-site", "same-origin")];
        headers.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        headers.extend(more);
        self.ask("POST", &format!("{path}ui-api/session"), &headers, "").await
    }
}

#[tokio::test]
async fn a_request_needs_the_cookie_and_the_token() {
    let explorer = explorer(Mode::Writing).await;
    let (path, cookie, token) = explorer.enter().await;
    let pods = format!("{path}k8s/api/v1/pods?limit=1");
    let (wrong_cookie, wrong_token) = (format!("{cookie}0"), format!("{token}0"));
    let twice = format!("{cookie}; {cookie}");
    for (headers, expected) in [
        (vec![("cookie", &cookie), ("x-sternpost-token", &token)], 200),
        (vec![("cookie", &cookie)], 401),
        (vec![("x-sternpost-token", &token)], 401),
        (vec![("cookie", &wrong_cookie), ("x-sternpost-token", &token)], 401),
        (vec![("cookie", &cookie), ("x-sternpost-token", &wrong_token)], 401),
        (vec![("cookie", &twice), ("x-sternpost-token", &token)], 401),
        (vec![], 401),
    ] {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(explorer.ask("GET", &pods, &headers, "").await.status, expected, "{headers:?}");
    }
    let other = pods.replace("/s/", "/s/0").replacen("/s/0", "/s/", 1).replace(&path, "/s/0123456789abcdef/");
    let answer = explorer.ask("GET", &other, &[("cookie", &cookie), ("x-sternpost-token", &token)], "").await;
    assert_eq!(answer.status, 401);
    let asked = explorer.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].0.as_str(), asked[0].1.as_str()), ("GET", "/api/v1/pods?limit=1"));
}

#[tokio::test]
async fn a_code_is_good_once_and_for_nobody_who_guesses() {
    let explorer = explorer(Mode::Writing).await;
    for wrong in ["/open", "/open?code=", "/open?code=0", "/open?x=1"] {
        assert_eq!(explorer.ask("GET", wrong, &[], "").await.status, 403, "{wrong}");
    }
    let code = explorer.code();
    assert_eq!(explorer.ask("POST", &code, &[], "").await.status, 405);
    assert_eq!(explorer.ask("GET", &code, &[], "").await.status, 303);
    let again = explorer.ask("GET", &code, &[], "").await;
    assert_eq!(again.status, 403);
    assert!(!again.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn the_token_is_for_the_page_itself() {
    let explorer = explorer(Mode::Writing).await;
    let (path, cookie, _) = explorer.enter().await;
    for (more, expected) in [
        (vec![], 200),
        (vec![("sec-fetch-site", "same-site")], 403),
        (vec![("sec-fetch-site", "cross-site")], 403),
        (vec![("sec-fetch-site", "none")], 403),
        (vec![("origin", "http://evil.example")], 403),
        (vec![("origin", "null")], 403),
    ] {
        let headers: Vec<_> = more.iter().copied().chain([("cookie", cookie.as_str())]).collect();
        assert_eq!(explorer.begin(&path, &headers).await.status, expected, "{more:?}");
    }
    let origin = explorer.origin();
    let session = format!("{path}ui-api/session");
    // A browser that does not say where a request comes from is too old.
    let silent = [("origin", origin.as_str()), ("cookie", &cookie)];
    assert_eq!(explorer.ask("POST", &session, &silent, "").await.status, 403);
    let got = [("sec-fetch-site", "same-origin"), ("cookie", &cookie)];
    assert_eq!(explorer.ask("GET", &session, &got, "").await.status, 403);
    assert_eq!(explorer.begin(&path, &[]).await.status, 401);
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused() {
    let explorer = explorer(Mode::Writing).await;
    let (path, cookie, token) = explorer.enter().await;
    let own = vec![("cookie", cookie.as_str()), ("x-sternpost-token", &token)];
    let port = explorer.address.rsplit(':').next().unwrap();
    let (rebound, local) = (format!("evil.example:{port}"), format!("localhost:{port}"));
    for (more, expected) in [
        (("host", rebound.as_str()), 421),
        (("host", "127.0.0.1"), 421),
        (("host", local.as_str()), 200),
        (("origin", "http://evil.example"), 403),
        (("sec-fetch-site", "cross-site"), 403),
        (("sec-fetch-site", "same-site"), 403),
        (("sec-fetch-site", "same-origin"), 200),
    ] {
        let headers: Vec<_> = own.iter().copied().chain([more]).collect();
        let answer = explorer.ask("GET", &format!("{path}k8s/version"), &headers, "").await;
        assert_eq!(answer.status, expected, "{more:?}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    // The page itself and its files are refused to other names, too.
    for page in ["/", &path, &explorer.code()] {
        assert_eq!(explorer.ask("GET", page, &[("host", &rebound)], "").await.status, 421, "{page}");
    }
    // A write without an origin is none of a page.
    let write = explorer.ask("POST", &format!("{path}k8s/api/v1/namespaces"), &own, "{}").await;
    assert_eq!(write.status, 403);
}

#[tokio::test]
async fn what_goes_on_is_the_page_s_and_what_comes_back_is_no_page() {
    let explorer = explorer(Mode::Writing).await;
    let (path, cookie, token) = explorer.enter().await;
    let origin = explorer.origin();
    let headers = [
        ("cookie", cookie.as_str()),
        ("x-sternpost-token", &token),
        ("origin", &origin),
        ("authorization", "Bearer stolen"),
        ("impersonate-user", "ann"),
        ("content-type", "application/yaml"),
    ];
    let answer = explorer.ask("POST", &format!("{path}k8s/api/v1/namespaces?x=%20"), &headers, "a: b").await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "a: b"));
    assert!(!answer.headers.contains_key("set-cookie"));
    for (name, expected) in [
        ("content-security-policy", "default-src 'none'; sandbox; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("warning", "299 - \"x\""),
    ] {
        assert_eq!(answer.headers[name], expected, "{name}");
    }
    let asked = explorer.asked.lock().unwrap().pop().unwrap();
    assert_eq!(asked.1, "/api/v1/namespaces?x=%20");
    let mut names: Vec<&str> = asked.2.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "content-type", "impersonate-user"]);

    let own = [("cookie", cookie.as_str()), ("x-sternpost-token", &token)];
    for (more, below, expected) in [
        (("upgrade", "websocket"), "api/v1/pods", 400),
        (("accept", "*/*"), "api/v1/namespaces/a/pods/b/exec", 403),
        (("accept", "*/*"), "api/v1/namespaces/a/services/b/proxy/index.html", 403),
        (("accept", "*/*"), "away", 502),
    ] {
        let headers: Vec<_> = own.iter().copied().chain([more]).collect();
        let answer = explorer.ask("GET", &format!("{path}k8s/{below}"), &headers, "").await;
        assert_eq!(answer.status, expected, "{below}");
        assert_eq!(answer.headers.contains_key("x-sternpost-away"), below == "away");
    }
}

#[tokio::test]
async fn a_body_is_passed_on_up_to_its_limit() {
    let explorer = explorer(Mode::Writing).await;
    let (path, cookie, token) = explorer.enter().await;
    let origin = explorer.origin();
    let headers = [("cookie", cookie.as_str()), ("x-sternpost-token", &token), ("origin", &origin)];
    let most = usize::try_from(sternpost_ui::server::MAX_BODY_BYTES).unwrap();
    for (length, expected) in [(most, 200), (most + 1, 413)] {
        let answer = explorer
            .ask("PUT", &format!("{path}k8s/api/v1/namespaces/a"), &headers, &"x".repeat(length))
            .await;
        assert_eq!(answer.status, expected, "{length}");
    }
}

#[tokio::test]
async fn read_only_changes_nothing() {
    let explorer = explorer(Mode::ReadOnly).await;
    let (path, cookie, token) = explorer.enter().await;
    let origin = explorer.origin();
    let headers = [("cookie", cookie.as_str()), ("x-sternpost-token", &token), ("origin", &origin)];
    for (method, below, body, expected) in [
        ("GET", "api/v1/pods", "", 200),
        ("POST", "api/v1/namespaces", "{}", 403),
        ("POST", "api/v1/namespaces?dryRun=All", "{}", 200),
        ("PUT", "api/v1/namespaces/a", "{}", 403),
        ("PATCH", "api/v1/namespaces/a", "{}", 403),
        ("DELETE", "api/v1/namespaces/a", "", 403),
        ("DELETE", "api/v1/namespaces/a?dryRun=All", "", 200),
        ("DELETE", "api/v1/namespaces/a?dryRun=All", "{}", 403),
        ("POST", "apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}", 200),
    ] {
        let answer = explorer.ask(method, &format!("{path}k8s/{below}"), &headers, body).await;
        assert_eq!(answer.status, expected, "{method} {below} {body}");
        if expected == 403 {
            let status: Value = serde_json::from_str(&answer.text).unwrap();
            assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Forbidden")));
        }
    }
}

#[tokio::test]
async fn only_directories_that_were_named_are_built() {
    let explorer = explorer(Mode::Writing).await;
    let (path, cookie, token) = explorer.enter().await;
    let own = [("cookie", cookie.as_str()), ("x-sternpost-token", &token)];
    for (query, expected) in [
        ("directory=0", 200),
        ("directory=1", 404),
        ("directory=-1", 404),
        ("directory=/etc", 404),
        ("", 404),
    ] {
        let answer = explorer.ask("GET", &format!("{path}ui-api/kustomize?{query}"), &own, "").await;
        assert_eq!(answer.status, expected, "{query}");
    }
    assert_eq!(
        explorer.ask("GET", &format!("{path}ui-api/kustomize?directory=0"), &[], "").await.status,
        401
    );
}

#[tokio::test]
async fn the_page_has_a_strict_policy_and_its_files_are_kept() {
    let explorer = explorer(Mode::Writing).await;
    let (path, ..) = explorer.enter().await;
    let page = explorer.ask("GET", &path, &[], "").await;
    assert_eq!(page.headers["cache-control"], "no-store");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let script = page.text.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let plain = explorer.ask("GET", script, &[], "").await;
    assert_eq!(plain.headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(plain.headers["content-type"], "text/javascript; charset=utf-8");
    let gzipped = explorer.ask("GET", script, &[("accept-encoding", "br, gzip")], "").await;
    assert_eq!(gzipped.headers["content-encoding"], "gzip");
    for absent in [
        "/assets/0000000000000000/app.js",
        "/s/x/",
        "/s/0123456789ABCDEFG/",
        "/favicon.ico",
        "/../etc/passwd",
    ] {
        assert_eq!(explorer.ask("GET", absent, &[], "").await.status, 404, "{absent}");
    }
    assert_eq!(explorer.ask("POST", &path, &[], "").await.status, 405);
}
