//! The whole server as a client sees it: over TLS, HTTP/1.1 and HTTP/2.

use std::{fs, path::PathBuf, process::Command};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Bytes, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sternpost_testkit::{
    process::{self, Place, Process},
    tls::{self, HTTP_1 as H1, HTTP_2 as H2},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

mod metrics;

/// A server in a process and a directory of its own.
struct Server {
    process: Process,
    place: Place,
    dir: PathBuf,
}

impl Server {
    fn start(name: &str, args: &[&str]) -> Self {
        let dir = std::env::temp_dir().join(format!("sternpost-e2e-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self::start_in(dir, args)
    }

    /// Returns when the ready line is there.
    fn start_in(dir: PathBuf, args: &[&str]) -> Self {
        let mut command = process::serve();
        // What is there is what the tests make.
        command.args(["--controllers=-*", "--data-dir"]).arg(&dir).args(args);
        let (process, place) = Process::start(command);
        Self { process, place, dir }
    }

    /// The value of a field of the kubeconfig.
    fn config(&self, field: &str) -> String {
        self.place.config(field)
    }

    fn token(&self) -> String {
        self.config("token")
    }

    /// A request whose body is only half there, and in the server's hands.
    async fn half_a_request(&self) -> TlsStream<TcpStream> {
        let mut stream = self.connect(H1).await;
        let token = self.token();
        let head = format!(
            "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 4\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server asks for the body.
        let mut answer = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut answer).await.unwrap();
        stream
    }

    /// New connections are refused from the moment it has seen a signal.
    async fn refuses_connections(&self) {
        while let Ok(refused_soon) = TcpStream::connect(&self.place.address).await {
            drop(refused_soon);
            tokio::task::yield_now().await;
        }
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let connector = tls::connector(&self.place.authority_pem(), protocol, None);
        let stream = tls::connect(&self.place.address, &connector).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        stream
    }

    async fn send(&self, protocol: &[u8], request: Request<Full<Bytes>>) -> Response<String> {
        let io = TokioIo::new(self.connect(protocol).await);
        let response = if protocol == H2 {
            let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(parts, String::from_utf8(body.into()).unwrap())
    }

    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.place.address))
            .header("host", &self.place.address)
            .header("authorization", format!("Bearer {}", self.token()))
    }

    fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// The exit code, and what was written to stderr.
    fn wait(&mut self) -> (Option<i32>, String) {
        self.process.end()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn nothing() -> Full<Bytes> {
    Full::default()
}

#[tokio::test]
async fn answers_alike_over_both_protocols() {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let server = Server::start("answers", &[]);
    for protocol in [H1, H2] {
        for (method, path, accept, code, text) in [
            ("GET", "/healthz", "*/*", 200, "ok"),
            ("GET", "/readyz?verbose", "*/*", 200, "[+]shutdown ok\nreadyz check passed\n"),
            ("GET", "/version", "*/*", 200, "\"gitVersion\": \"v1.36.4+sternpost-"),
            ("GET", "/", "*/*", 200, "\"/apis/apps/v1\""),
            ("GET", "/metrics", "*/*", 200, "process_start_time_seconds"),
            ("GET", "/api", "*/*", 200, "\"APIVersions\""),
            ("GET", "/api/v1", "*/*", 200, "\"configmaps\""),
            ("GET", "/apis", "*/*", 200, "\"APIGroupList\""),
            ("GET", "/apis", AGGREGATED, 200, "\"APIGroupDiscoveryList\""),
            ("GET", "/apis/apps", "*/*", 200, "\"APIGroup\""),
            ("GET", "/apis/apps/v1", "*/*", 200, "\"deployments/scale\""),
            ("HEAD", "/apis", "*/*", 200, ""),
            ("GET", "/apis", "text/html", 406, "NotAcceptable"),
            ("GET", "/nonsense", "*/*", 404, "404 page not found\n"),
            ("GET", "/apis/apps/v9", "*/*", 404, "\"reason\":\"NotFound\""),
            ("POST", "/api", "*/*", 405, "\"reason\":\"MethodNotAllowed\""),
        ] {
            let request = server.request(method, path).header("accept", accept).body(nothing()).unwrap();
            let response = server.send(protocol, request).await;
            assert_eq!(response.status(), code, "{method} {path}: {}", response.body());
            assert!(response.body().contains(text), "{method} {path}: {}", response.body());
            assert!(response.headers().contains_key("audit-id"));
            assert!(response.headers().contains_key("cache-control"));
        }
        let address = format!("https://{}/api", server.place.address);
        let anonymous = Request::get(address).header("host", "x").body(nothing()).unwrap();
        let response = server.send(protocol, anonymous).await;
        assert_eq!(response.status(), 403);
        assert!(response.body().contains("\"reason\":\"Forbidden\""));
    }
}

#[tokio::test]
async fn limits_hold_at_the_edge_and_one_past() {
    use sternpost_http::limits::{MAX_BODY_BYTES, MAX_HEADER_BYTES, MAX_HTTP1_HEADERS};
    let server = Server::start("limits", &[]);
    for protocol in [H1, H2] {
        for (size, code) in [(MAX_BODY_BYTES, 400), (MAX_BODY_BYTES + 1, 413)] {
            let body = Full::new(Bytes::from(vec![b' '; size]));
            let request = server.request("POST", "/api/v1/namespaces").body(body).unwrap();
            let response = server.send(protocol, request).await;
            assert_eq!(response.status(), code, "{size}");
        }
        for (size, code) in [(MAX_HEADER_BYTES / 2, 200), (MAX_HEADER_BYTES + 1, 431)] {
            let request =
                server.request("GET", "/version").header("x-long", "a".repeat(size)).body(nothing()).unwrap();
            assert_eq!(server.send(protocol, request).await.status(), code, "{size}");
        }
    }
    for (count, code) in [(MAX_HTTP1_HEADERS, 200), (MAX_HTTP1_HEADERS + 1, 431)] {
        let mut request = server.request("GET", "/version");
        // Two are there already.
        for index in 2..count {
            request = request.header(format!("x-{index}"), "a");
        }
        assert_eq!(server.send(H1, request.body(nothing()).unwrap()).await.status(), code, "{count}");
    }
}

#[tokio::test]
async fn the_header_limit_of_http1_is_exact() {
    use sternpost_http::limits::MAX_HEADER_BYTES;
    let server = Server::start("headers", &[]);
    for (total, code) in [(MAX_HEADER_BYTES, "200"), (MAX_HEADER_BYTES + 1, "431")] {
        let (head, tail) = ("GET /version HTTP/1.1\r\nHost: x\r\nX-Long: ", "\r\nConnection: close\r\n\r\n");
        let padding = "a".repeat(total - head.len() - tail.len());
        let mut stream = server.connect(H1).await;
        stream.write_all(format!("{head}{padding}{tail}").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(std::str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {code}"), "{total}");
    }
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = Server::start("keepalive", &[]);
    let (mut sender, connection) =
        conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(server.connect(H1).await)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        sender.ready().await.unwrap();
        let response =
            sender.send_request(server.request("GET", "/version").body(nothing()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn sigterm_finishes_what_has_begun_and_exits_0() {
    let mut server = Server::start("stop", &["--log-level", "debug"]);
    let token = server.token();
    let mut stream = server.half_a_request().await;
    server.signal("-TERM");
    server.refuses_connections().await;
    stream.write_all(b"null").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("path=\"/api/v1/namespaces\" code=422"), "{log}");
    assert!(!log.contains(&token), "{log}");
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_stop() {
    let mut server = Server::start("idle", &[]);
    // Nothing sent at all; a client that is between requests; one per protocol.
    let silent =
        (server.connect(H1).await, server.connect(H2).await, TcpStream::connect(&server.place.address).await);
    let io = TokioIo::new(server.connect(H2).await);
    let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = server.request("GET", "/version").body(nothing()).unwrap();
    sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    let asked = std::time::Instant::now();
    server.signal("-TERM");
    // Off this thread, on which the client must answer the server's farewell.
    assert_eq!(tokio::task::spawn_blocking(move || server.wait().0).await.unwrap(), Some(0));
    assert!(asked.elapsed() < sternpost_http::limits::SHUTDOWN_GRACE);
    assert!(connection.await.unwrap().is_ok());
    drop((silent, sender));
}

#[tokio::test]
async fn a_watch_ends_when_the_server_stops_and_does_not_hold_it_up() {
    let mut server = Server::start("watch-stop", &[]);
    let mut stream = server.connect(H1).await;
    let token = server.token();
    let head = format!(
        "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The first event is there: the watch runs.
    let mut seen = String::new();
    while !seen.contains("\"ADDED\"") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        assert_ne!(count, 0, "{seen}");
        seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    server.signal("-TERM");
    // The stream ends as a whole one: with the last, empty chunk.
    stream.read_to_string(&mut seen).await.unwrap();
    assert!(seen.ends_with("\r\n0\r\n\r\n"), "{seen}");
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cut off"), "{log}");
}

#[tokio::test]
async fn a_second_signal_exits_at_once() {
    let mut server = Server::start("second", &[]);
    let _stream = server.half_a_request().await;
    server.signal("-INT");
    server.refuses_connections().await;
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(1));
}

#[tokio::test]
async fn a_restart_keeps_token_and_authority() {
    let mut first = Server::start("restart", &[]);
    let kept = |server: &Server| (server.token(), server.config("certificate-authority-data"));
    let before = kept(&first);
    first.signal("-TERM");
    assert_eq!(first.wait().0, Some(0));
    let second = Server::start_in(first.dir.clone(), &[]);
    assert_eq!(kept(&second), before);
    let request = second.request("GET", "/api").body(nothing()).unwrap();
    assert_eq!(second.send(H2, request).await.status(), 200);
}

/// The checks of kube-apiserver 1.36.4, in its order, but for those about what is not here.
const CHECKS: &str = "ping log etcd etcd-readiness informer-sync
    poststarthook/start-apiserver-admission-initializer poststarthook/generic-apiserver-start-informers
    poststarthook/priority-and-fairness-config-consumer poststarthook/priority-and-fairness-filter
    poststarthook/start-apiextensions-informers poststarthook/start-apiextensions-controllers
    poststarthook/crd-informer-synced poststarthook/start-system-namespaces-controller
    poststarthook/start-cluster-authentication-info-controller
    poststarthook/start-kube-apiserver-identity-lease-controller
    poststarthook/start-kube-apiserver-identity-lease-garbage-collector poststarthook/storage-readiness
    poststarthook/rbac/bootstrap-roles poststarthook/scheduling/bootstrap-system-priority-classes
    poststarthook/priority-and-fairness-config-producer poststarthook/bootstrap-controller
    poststarthook/start-kubernetes-service-cidr-controller poststarthook/start-kube-aggregator-informers
    poststarthook/apiservice-status-local-available-controller
    poststarthook/apiservice-status-remote-available-controller poststarthook/apiservice-registration-controller
    poststarthook/apiservice-discovery-controller poststarthook/kube-apiserver-autoregistration
    autoregister-completion poststarthook/apiservice-openapi-controller
    poststarthook/apiservice-openapiv3-controller shutdown";

#[tokio::test]
async fn the_server_tells_of_itself_as_kube_apiserver_does() {
    let lease = "--controllers=apiserver-identity-lease-controller";
    let flags = ["--strict-transport-security-directives=max-age=5,preload", lease];
    let mut server = Server::start("itself", &flags);
    let get = |path: &str, accept: &str| {
        let request = server.request("GET", path).header("accept", accept).body(nothing()).unwrap();
        server.send(H2, request)
    };
    let ready: String = CHECKS.split_whitespace().map(|check| format!("[+]{check} ok\n")).collect();
    let verbose = get("/readyz?verbose", "*/*").await;
    assert_eq!(verbose.body(), &format!("{ready}readyz check passed\n"));
    assert_eq!(verbose.headers()["strict-transport-security"], "max-age=5; preload");
    let not_alive = ["etcd-readiness", "informer-sync", "shutdown"];
    let alive = CHECKS.split_whitespace().filter(|check| !not_alive.contains(check));
    let alive: String = alive.map(|check| format!("[+]{check} ok\n")).collect();
    assert_eq!(get("/livez?verbose", "*/*").await.body(), &format!("{alive}livez check passed\n"));

    let status = get("/statusz", "*/*").await;
    assert!(status.body().starts_with("\napiserver statusz\nWarning: "), "{}", status.body());
    let flagz = get("/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz").await;
    let flagz: serde_json::Value = serde_json::from_str(flagz.body()).unwrap();
    assert_eq!(flagz["flags"]["strict-transport-security-directives"], "[max-age=5,preload]");
    assert_eq!(flagz["flags"]["in-memory"], "false");

    // The Lease comes with the controllers, a moment later.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let found = loop {
        let list: serde_json::Value = serde_json::from_str(get(leases, "*/*").await.body()).unwrap();
        if let Some(found) = list["items"].get(0) {
            break found.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let name = found["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("apiserver-") && name.len() == 36, "{name}");
    assert_eq!(found["metadata"]["labels"]["apiserver.kubernetes.io/identity"], "kube-apiserver");
    assert!(found["metadata"]["labels"]["kubernetes.io/hostname"].is_string());
    assert_eq!(
        found["metadata"]["annotations"]["kubernetes.io/peer-advertise-address"],
        server.place.address
    );
    assert_eq!(found["spec"]["leaseDurationSeconds"], 3600);
    let holder = found["spec"]["holderIdentity"].as_str().unwrap().to_owned();
    assert!(holder.starts_with(&format!("{name}_")), "{holder}");
    assert!(found["spec"]["renewTime"].is_string() && found["spec"]["acquireTime"].is_null());

    // It goes with the server, and the next one makes another of the same name.
    let one = format!("{leases}/{name}");
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let dir = server.dir.clone();
    let off = Server::start_in(dir.clone(), &[]);
    let request = off.request("GET", &one).body(nothing()).unwrap();
    assert_eq!(off.send(H2, request).await.status(), 404);
}

#[cfg(unix)]
#[test]
fn secrets_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start("modes", &[]);
    assert_eq!(server.place.kubeconfig, server.dir.join("admin.kubeconfig"));
    assert_eq!(fs::metadata(&server.dir).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = fs::read_dir(&server.dir).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(files.len(), 12);
    for file in files {
        let metadata = file.metadata().unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{}", file.path().display());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_data_directory_is_tightened_whatever_made_it_so_open() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut server = Server::start("tighten", &[]);
    let dir = server.dir.clone();
    server.signal("-TERM");
    server.wait();
    let paths = [".", "ca.key", "admin.token", "objects", "objects/log-1"].map(|name| dir.join(name));
    let open = || {
        for path in &paths {
            fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        }
    };
    for (flags, tightened) in [(&["--insecure-file-modes"][..], false), (&[], true)] {
        open();
        let mut again = Server::start_in(dir.clone(), flags);
        again.signal("-TERM");
        assert_eq!(again.wait().0, Some(0));
        // The directory is the other server's to remove.
        again.dir = dir.join("nothing");
        for path in &paths {
            let wanted = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(path), if tightened { wanted } else { 0o777 }, "{}", path.display());
        }
    }

    // What others could have put there, and a token that can be guessed.
    let refused = |problem: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&dir)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(problem), "{stderr}");
        assert!(stderr.contains("--insecure-file-modes"), "{stderr}");
    };
    let elsewhere = dir.with_extension("elsewhere");
    for name in ["link", "lock"] {
        let _ = fs::remove_file(dir.join(name));
        std::os::unix::fs::symlink(&elsewhere, dir.join(name)).unwrap();
        refused("is a symbolic link");
        assert!(!elsewhere.exists(), "{name} is not followed");
        fs::remove_file(dir.join(name)).unwrap();
    }
    fs::write(dir.join("admin.token"), "x").unwrap();
    refused("has 1 characters, of at least 16");
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let server = Server::start("in-use", &[]);
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&server.dir)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("is in use by another sternpost\nhint: "), "{stderr}");
}

#[tokio::test]
async fn everybody_may_do_everything_only_if_that_is_asked_for() {
    let path = std::env::temp_dir().join(format!("sternpost-e2e-modes-{}.csv", std::process::id()));
    fs::write(&path, "alices-token,alice,1000\n").unwrap();
    let tokens = ["--token-auth-file", path.to_str().unwrap()];
    let rbac = Server::start("rbac", &tokens);
    let open = [&tokens[..], &["--authorization-mode", "AlwaysAllow"]].concat();
    let open = Server::start("always-allow", &open);
    for (target, token, by_roles, always) in [
        ("/api/v1/pods", "alices-token", 403, 200),
        ("/api/v1/pods", "wrong", 401, 401),
        ("/api/v1/pods", "", 403, 401),
        ("/nonsense", "alices-token", 403, 404),
        ("/api", "", 403, 401),
        ("/version", "", 200, 200),
        ("/healthz", "", 200, 200),
        ("/livez/ping", "", 403, 200),
    ] {
        for (server, code) in [(&rbac, by_roles), (&open, always)] {
            let mut request =
                Request::get(format!("https://{}{target}", server.place.address)).header("host", "x");
            if !token.is_empty() {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let response = server.send(H2, request.body(nothing()).unwrap()).await;
            assert_eq!(response.status(), code, "{target} {token}");
        }
    }
    fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn token_file_users_are_known() {
    let path = std::env::temp_dir().join(format!("sternpost-e2e-tokens-{}.csv", std::process::id()));
    fs::write(&path, "alices-token,alice,1000,\"dev,ops\"\n").unwrap();
    let server = Server::start("tokens", &["--token-auth-file", path.to_str().unwrap()]);
    for (token, code) in [("alices-token", 200), ("bobs-token", 401)] {
        let request = Request::get(format!("https://{}/api", server.place.address))
            .header("host", "x")
            .header("authorization", format!("Bearer {token}"))
            .body(nothing())
            .unwrap();
        assert_eq!(server.send(H2, request).await.status(), code);
    }
    fs::remove_file(path).unwrap();
}

mod websocket {
    use base64::Engine;
    use futures_util::{SinkExt, StreamExt};
    use serde_json::{Value, json};
    use sternpost_http::limits::MAX_WEBSOCKET_MESSAGE_BYTES;
    use tokio_tungstenite::{
        WebSocketStream, client_async,
        tungstenite::{
            Error, Message,
            protocol::{CloseFrame, frame::coding::CloseCode},
        },
    };

    use super::*;

    type Socket = WebSocketStream<TlsStream<TcpStream>>;

    const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";

    async fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Result<Socket, Error> {
        let mut request = Request::get(format!("wss://{}{path}", server.place.address))
            .header("host", &server.place.address)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        client_async(request.body(()).unwrap(), server.connect(H1).await).await.map(|(socket, _)| socket)
    }

    async fn create(server: &Server, name: &str) {
        let body = json!({"metadata": {"name": name}, "data": {"k": "v"}}).to_string();
        let request = server
            .request("POST", "/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .unwrap();
        assert_eq!(server.send(H1, request).await.status(), 201);
    }

    async fn event(socket: &mut Socket) -> (String, String) {
        let Some(Ok(Message::Text(text))) = socket.next().await else { panic!("no event") };
        assert!(text.ends_with("}\n") && text.starts_with("{\"type\":\""), "{text}");
        let event: Value = serde_json::from_str(&text).unwrap();
        let words = [&event["type"], &event["object"]["metadata"]["name"]];
        let [kind, name] = words.map(|word| word.as_str().unwrap().to_owned());
        (kind, name)
    }

    async fn closed(socket: &mut Socket) -> CloseCode {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                return frame.unwrap().code;
            }
        }
        panic!("no close frame")
    }

    fn refused(outcome: Result<Socket, Error>) -> u16 {
        match outcome {
            Err(Error::Http(response)) => response.status().as_u16(),
            other => panic!("not refused: {other:?}"),
        }
    }

    #[tokio::test]
    async fn events_are_messages_and_the_end_is_normal() {
        let server = Server::start("websocket", &[]);
        let bearer = format!("Bearer {}", server.token());
        let known = [("authorization", bearer.as_str()), ("origin", "http://example.com")];
        create(&server, "a").await;
        let mut socket = open(&server, &format!("{WATCH}&timeoutSeconds=3"), &known).await.unwrap();
        assert_eq!(event(&mut socket).await, ("ADDED".into(), "a".into()));
        create(&server, "b").await;
        assert_eq!(event(&mut socket).await, ("ADDED".into(), "b".into()));
        // What a client says is not asked for, but pings are answered.
        socket.send(Message::Text("hello".into())).await.unwrap();
        socket.send(Message::Ping("p".into())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("p".into()));
        assert_eq!(closed(&mut socket).await, CloseCode::Normal);
        assert!(socket.next().await.is_none());
    }

    #[tokio::test]
    async fn protobuf_comes_in_binary_messages_without_length() {
        let server = Server::start("websocket-protobuf", &[]);
        let bearer = format!("Bearer {}", server.token());
        create(&server, "a").await;
        let headers = [
            ("authorization", bearer.as_str()),
            ("origin", "http://example.com"),
            ("accept", "application/vnd.kubernetes.protobuf"),
        ];
        let mut socket = open(&server, WATCH, &headers).await.unwrap();
        let Some(Ok(Message::Binary(bytes))) = socket.next().await else { panic!("no event") };
        assert_eq!(&bytes[..7], b"\n\x05ADDED");
        assert!(bytes.windows(4).any(|window| window == b"k8s\0"));
    }

    #[tokio::test]
    async fn handshakes_need_an_origin_and_at_most_one_protocol() {
        let server = Server::start("websocket-handshake", &[]);
        let bearer = format!("Bearer {}", server.token());
        let known = ("authorization", bearer.as_str());
        let origin = ("origin", "http://example.com");
        assert_eq!(refused(open(&server, WATCH, &[known]).await), 403);
        let two = ("sec-websocket-protocol", "v4.channel.k8s.io, base64.binary.k8s.io");
        assert_eq!(refused(open(&server, WATCH, &[known, origin, two]).await), 400);
        assert_eq!(refused(open(&server, WATCH, &[origin]).await), 403);
        // What is wrong with the watch is said before that.
        assert_eq!(refused(open(&server, &format!("{WATCH}&labelSelector=!!"), &[known]).await), 400);
        // Other paths do not become websockets.
        assert_eq!(refused(open(&server, "/version", &[known, origin]).await), 200);
        // A browser's way to send a token.
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(server.token());
        let protocols = format!("base64url.bearer.authorization.k8s.io.{token}, binary.k8s.io");
        create(&server, "a").await;
        let browser = [origin, ("sec-websocket-protocol", protocols.as_str())];
        let mut socket = open(&server, WATCH, &browser).await.unwrap();
        assert_eq!(event(&mut socket).await, ("ADDED".into(), "a".into()));
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_answered() {
        let server = Server::start("websocket-leave", &[]);
        let bearer = format!("Bearer {}", server.token());
        let known = [("authorization", bearer.as_str()), ("origin", "http://example.com")];
        create(&server, "a").await;
        let mut socket = open(&server, WATCH, &known).await.unwrap();
        assert_eq!(event(&mut socket).await, ("ADDED".into(), "a".into()));
        let goodbye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        socket.close(Some(goodbye)).await.unwrap();
        assert_eq!(closed(&mut socket).await, CloseCode::Normal);
    }

    #[tokio::test]
    async fn a_client_that_talks_too_much_is_cut_off() {
        let server = Server::start("websocket-limits", &[]);
        let bearer = format!("Bearer {}", server.token());
        let known = [("authorization", bearer.as_str()), ("origin", "http://example.com")];
        create(&server, "a").await;
        for (size, cut) in [(MAX_WEBSOCKET_MESSAGE_BYTES, false), (MAX_WEBSOCKET_MESSAGE_BYTES + 1, true)] {
            let mut socket = open(&server, &format!("{WATCH}&timeoutSeconds=2"), &known).await.unwrap();
            assert_eq!(event(&mut socket).await, ("ADDED".into(), "a".into()));
            socket.send(Message::Binary(vec![0; size].into())).await.unwrap();
            let expected = if cut { CloseCode::Size } else { CloseCode::Normal };
            assert_eq!(closed(&mut socket).await, expected, "{size}");
        }
    }

    #[tokio::test]
    async fn a_stopping_server_says_goodbye() {
        let mut server = Server::start("websocket-stop", &[]);
        let bearer = format!("Bearer {}", server.token());
        let known = [("authorization", bearer.as_str()), ("origin", "http://example.com")];
        create(&server, "a").await;
        let mut socket = open(&server, WATCH, &known).await.unwrap();
        assert_eq!(event(&mut socket).await, ("ADDED".into(), "a".into()));
        server.signal("-TERM");
        assert_eq!(closed(&mut socket).await, CloseCode::Normal);
        assert_eq!(server.wait().0, Some(0));
    }
}

#[tokio::test]
async fn web_pages_of_allowed_origins_may_use_the_api() {
    let origins = "^https?://a\\.example\\.com(:|$),//localhost(:|$)";
    let server = Server::start("cors", &["--cors-allowed-origins", origins]);
    for protocol in [H1, H2] {
        for (origin, allowed) in [("http://a.example.com", true), ("http://evil.com", false)] {
            // A browser asks for leave without a credential.
            let url = format!("https://{}/api/v1/namespaces", server.place.address);
            let preflight = Request::options(url).header("host", "x").header("origin", origin);
            let response = server.send(protocol, preflight.body(nothing()).unwrap()).await;
            assert_eq!(response.status(), if allowed { 204 } else { 403 });
            assert_eq!(response.headers().contains_key("access-control-allow-methods"), allowed);
            let request = server.request("GET", "/api/v1/namespaces").header("origin", origin);
            let response = server.send(protocol, request.body(nothing()).unwrap()).await;
            assert_eq!(response.status(), 200);
            let echoed = response.headers().get("access-control-allow-origin");
            assert_eq!(echoed.map(|value| value.to_str().unwrap()), allowed.then_some(origin));
        }
        let options = server.request("OPTIONS", "/api/v1/namespaces").body(nothing()).unwrap();
        assert_eq!(server.send(protocol, options).await.status(), 405);
    }
}
