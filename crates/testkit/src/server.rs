//! A server in a process of its own, and one client of it.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::{
    client::Connector,
    process::{self, Log, Place, Process},
    tls::{self, HTTP_1, HTTP_2},
};

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// Long after everything that a loaded machine still does.
pub const AT_LAST: Duration = Duration::from_secs(120);

/// `sternpost serve`, with a client of its admin.
pub struct Server {
    process: Process,
    client: Client,
    dir: PathBuf,
}

/// One client of a server.
pub struct Client {
    place: Place,
    sender: SendRequest<Full<Bytes>>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The body, if the code is this.
    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", short(&self.body));
        self.body
    }
}

/// Enough of a value to see what it is.
pub fn short(value: &Value) -> String {
    value.to_string().chars().take(600).collect()
}

impl Server {
    /// Keeps nothing; returns when it is ready.
    pub async fn start(name: &str) -> Self {
        Self::start_with(name, &[]).await
    }

    /// As [`Server::start`], with further flags.
    pub async fn start_with(name: &str, flags: &[&str]) -> Self {
        Self::start_keeping(name, &["--in-memory"], flags).await
    }

    /// Keeps its data in a directory that stays.
    pub async fn start_on(name: &str, data: &str, flags: &[&str]) -> Self {
        Self::start_keeping(name, &["--data-dir", data], flags).await
    }

    async fn start_keeping(name: &str, keeping: &[&str], flags: &[&str]) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sternpost-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let mut command = Command::new(process::program());
        command.arg("serve").args(if flags.contains(&"--listen") {
            &[][..]
        } else {
            &["--listen", "127.0.0.1:0"]
        });
        command.arg("--kubeconfig").arg(dir.join("kubeconfig")).args(keeping).args(flags);
        let (process, place) = Process::start(command);
        Self { process, client: Client::of(place).await, dir }
    }

    pub fn log(&self) -> Log {
        self.process.log()
    }

    /// The memory that the process has, in bytes.
    pub fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<usize>().ok());
        kilobytes.unwrap_or_default() * 1024
    }

    /// Asks the server to end, and waits until it has.
    pub async fn terminate(mut self) {
        self.process.terminate();
        // Meanwhile the connection is told to close, which the server waits for.
        let (code, log) = tokio::task::spawn_blocking(move || self.process.end()).await.unwrap();
        assert_eq!(code, Some(0), "{log}");
    }

    /// Ends the server as a crash would.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Ends the server; nothing in it may have panicked.
    pub fn stop(mut self) {
        self.process.stop();
    }
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Client {
    /// Connects.
    pub async fn of(place: Place) -> Self {
        let sender = connect(&place).await;
        Self { place, sender }
    }

    /// Opens further connections.
    pub fn connector(&self) -> Connector {
        Connector::new(&self.place)
    }

    /// Somebody else's.
    pub async fn as_token(&self, token: &str) -> Self {
        Self::of(Place { token: token.to_owned(), ..self.place.clone() }).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "application/json", "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, "application/json", body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "application/json", "").await
    }

    pub async fn patch(&self, path: &str, media: &str, body: &Value) -> Answer {
        self.send("PATCH", path, media, body.to_string()).await
    }

    /// A request that is never answered fails the test.
    pub async fn send(&self, method: &str, path: &str, media: &str, body: impl Into<Bytes>) -> Answer {
        let opened = self.open(method, path, media, body.into());
        answered(opened, || format!("{method} {path}")).await
    }

    /// As [`Client::send`], by somebody else and with another program.
    pub async fn send_as(
        &self,
        token: &str,
        agent: &str,
        method: &str,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.place.address))
            .header("authorization", format!("Bearer {token}"))
            .header("user-agent", agent)
            .header("content-type", media)
            .body(Full::new(body.into()))
            .unwrap();
        answered(self.ask(request), || format!("{method} {path}")).await
    }

    async fn open(&self, method: &str, path: &str, media: &str, body: Bytes) -> (u16, HeaderMap, Incoming) {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.place.address))
            .header("authorization", format!("Bearer {}", self.place.token))
            .header("content-type", media)
            .body(Full::new(body))
            .unwrap();
        self.ask(request).await
    }

    /// A connection of its own.
    pub async fn apart(&self) -> SendRequest<Full<Bytes>> {
        connect(&self.place).await
    }

    /// A connection of one's own, before its first frame.
    pub async fn raw(&self) -> TlsStream<TcpStream> {
        dial(&self.place, HTTP_2).await
    }

    /// As [`Client::raw`], for HTTP/1.1.
    pub async fn raw_http1(&self) -> TlsStream<TcpStream> {
        dial(&self.place, HTTP_1).await
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.place.address
    }

    /// The admin's.
    pub fn token(&self) -> &str {
        &self.place.token
    }

    /// A request of the admin without a body.
    pub fn request(&self, path: &str) -> Request<Full<Bytes>> {
        Request::get(format!("https://{}{path}", self.place.address))
            .header("authorization", format!("Bearer {}", self.place.token))
            .body(Full::default())
            .unwrap()
    }

    /// Creates an object over a connection of its own: each has only so many requests at a time.
    pub async fn post_apart(&self, path: &str, body: &Value) -> u16 {
        let mut sender = self.apart().await;
        let request = Request::post(format!("https://{}{path}", self.place.address))
            .header("authorization", format!("Bearer {}", self.place.token))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let answer = tokio::time::timeout(AT_LAST, sender.send_request(request)).await;
        answer.unwrap().unwrap().status().as_u16()
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> (u16, HeaderMap, Incoming) {
        let mut sender = self.sender.clone();
        sender.ready().await.unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        (parts.status.as_u16(), parts.headers, body)
    }

    pub async fn watch(&self, path: &str) -> Watch {
        let (code, _, body) = self.open("GET", path, "application/json", Bytes::new()).await;
        assert_eq!(code, 200, "{path}");
        Watch { body, read: BytesMut::new() }
    }

    /// Creates a definition and waits until it serves.
    pub async fn define(&self, crd: &Value) -> Value {
        let made = self.post(DEFINITIONS, crd).await.expect(201);
        self.established(made["metadata"]["name"].as_str().unwrap()).await
    }

    pub async fn established(&self, name: &str) -> Value {
        loop {
            let crd = self.get(&format!("{DEFINITIONS}/{name}")).await.expect(200);
            let conditions = crd["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            if conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True") {
                return crd;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asks until the answer is as wanted.
    pub async fn until(&self, path: &str, is_so: impl Fn(u16, &Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let answer = self.get(path).await;
            if is_so(answer.code, &answer.body) {
                return answer.body;
            }
            assert!(begun.elapsed() < AT_LAST, "{path} stays {}", short(&answer.body));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asks until nothing is there.
    pub async fn gone(&self, path: &str) {
        self.until(path, |code, _| code == 404).await;
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.place.kubeconfig
    }

    pub async fn namespace(&self, name: &str) {
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.expect(201);
    }

    /// A `clientConfig` that names this server.
    pub fn own_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.place.address), "caBundle": self.place.authority})
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

async fn connect(place: &Place) -> SendRequest<Full<Bytes>> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(64 << 20)
        .handshake(TokioIo::new(dial(place, HTTP_2).await))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// A connection on which HTTP may begin, of the version that is named.
async fn dial(place: &Place, protocol: &[u8]) -> TlsStream<TcpStream> {
    tls::connect(&place.address, &tls::connector(&place.authority_pem(), protocol, None)).await.unwrap()
}

/// The events of a watch.
pub struct Watch {
    body: Incoming,
    read: BytesMut,
}

impl Watch {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        match tokio::time::timeout(AT_LAST, self.read()).await {
            Ok(event) => event,
            Err(_) => panic!("a watch has nothing to say"),
        }
    }

    /// The type of the next event, and the object's name and spec.
    pub async fn told(&mut self) -> Option<(String, String, Value)> {
        let event = self.next().await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["object"];
        Some((text(&event["type"]), text(&object["metadata"]["name"]), object["spec"].clone()))
    }

    /// Whether nothing comes for a while.
    pub async fn is_silent(&mut self, while_: Duration) -> bool {
        tokio::time::timeout(while_, self.read()).await.is_err()
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}

/// The whole of an answer. One that never comes fails the test.
async fn answered(
    asked: impl Future<Output = (u16, HeaderMap, Incoming)>,
    what: impl Fn() -> String,
) -> Answer {
    let whole = async {
        let (code, headers, body) = asked.await;
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Answer { code, headers, body }
    };
    match tokio::time::timeout(AT_LAST, whole).await {
        Ok(answer) => answer,
        Err(_) => panic!("{} is not answered", what()),
    }
}
