//! Another API server, which does what the query of a request says (`do=`), down to the last byte.

pub mod http2;
pub mod remote;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{Certificate, CertificateParams, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// What it is like to connect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// A certificate for the name it is asked for by.
    Open,
    Expired,
    OtherName,
    /// No TLS at all.
    Plain,
    /// A connection on which nobody ever says anything.
    Mute,
}

pub struct Extension {
    pub port: u16,
    /// Its certificate, as `caBundle` has it.
    pub bundle: String,
    group: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Heads of the requests that clients' came to.
    seen: Mutex<Vec<String>>,
    /// Connections that are open.
    open: AtomicUsize,
    /// Whether discovery answers.
    sick: AtomicBool,
    /// Bytes sent of endless bodies.
    sent: AtomicUsize,
    /// Events that may be told of.
    events: EventPermits,
}

struct EventPermits(Semaphore);

impl Default for EventPermits {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Extension {
    /// Serves `GROUP/v1`; `proxies` is the authority of front proxies, in PEM.
    pub async fn start(group: &str, door: Door, proxies: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let name = if door == Door::OtherName { "other.ns.svc" } else { "ext.ns.svc" };
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if door == Door::Expired {
            params.not_before = (SystemTime::now() - Duration::from_secs(7200)).into();
            params.not_after = (SystemTime::now() - Duration::from_secs(3600)).into();
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let bundle = STANDARD.encode(certificate.pem());
        let tls = TlsAcceptor::from(Arc::new(config(&certificate, &key, proxies)));
        let state = Arc::new(State::default());
        let (shared, list) = (state.clone(), resources(group).to_string());
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (tls, state, list) = (tls.clone(), shared.clone(), list.clone());
                tokio::spawn(async move {
                    state.open.fetch_add(1, Ordering::SeqCst);
                    connection(stream, door, tls, &state, &list).await;
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, bundle, group: group.into(), state }
    }

    /// An APIService that leads to it.
    pub fn api_service(&self) -> Value {
        api_service(&self.group, self.port, &self.bundle)
    }

    pub fn path(&self, action: &str) -> String {
        format!("/apis/{}/v1/things?do={action}", self.group)
    }

    pub fn last_seen(&self) -> String {
        self.state.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }

    pub fn connections(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    pub fn sent(&self) -> usize {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// Lets a watch tell of one more event.
    pub fn tell(&self) {
        self.state.events.0.add_permits(1);
    }

    pub fn set_sick(&self, sick: bool) {
        self.state.sick.store(sick, Ordering::SeqCst);
    }
}

/// Shows a certificate, and asks clients for one that `proxies` vouch for.
fn config(certificate: &Certificate, key: &KeyPair, proxies: &str) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(proxies.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.allow_unauthenticated().build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap()
}

fn api_service(group: &str, port: u16, bundle: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": format!("v1.{group}"),
            "annotations": {"aggregation.sternpost.dev/address": format!("127.0.0.1:{port}")},
        },
        "spec": {
            "group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "caBundle": bundle,
            "service": {"namespace": "ns", "name": "ext"},
        },
    })
}

fn resources(group: &str) -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"),
        "resources": [{
            "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
            "verbs": ["get", "list", "watch", "create"],
        }],
    })
}

async fn connection(mut stream: TcpStream, door: Door, tls: TlsAcceptor, state: &State, list: &str) {
    match door {
        Door::Plain => {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            return;
        }
        Door::Mute => return sleep(Duration::from_secs(600)).await,
        Door::Open | Door::Expired | Door::OtherName => {}
    }
    let Ok(mut stream) = tls.accept(stream).await else { return };
    while answer(&mut stream, state, list).await.is_some() {}
}

/// `None` when the connection is to end.
async fn answer(stream: &mut TlsStream<TcpStream>, state: &State, list: &str) -> Option<()> {
    let (head, mut rest) = head(stream).await?;
    let target = head.split_whitespace().nth(1)?.to_owned();
    let is_clients = head.contains("audit-id:");
    if is_clients {
        state.seen.lock().unwrap().push(head.clone());
    }
    let ok = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let action =
        target.split_once("do=").map_or("", |(_, action)| action.split('&').next().unwrap_or_default());
    match action {
        "" if state.sick.load(Ordering::SeqCst) => {
            send(stream, "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n").await
        }
        "" if target.ends_with("/v1") || target.ends_with("/v9") => {
            let length = list.len();
            send(stream, &format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{list}")).await
        }
        "echo" => {
            let length = field(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            while rest.len() < length {
                stream.read_buf(&mut rest).await.ok().filter(|read| *read > 0)?;
            }
            let vouched = stream.get_ref().1.peer_certificates().is_some();
            let said = json!({"head": head, "body": String::from_utf8_lossy(&rest), "vouched": vouched});
            send(stream, &ok(&said.to_string())).await
        }
        "redirect" => {
            send(
                stream,
                "HTTP/1.1 302 Found\r\nlocation: https://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
            )
            .await
        }
        "unmodified" => send(stream, "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n").await,
        "refuse" => {
            send(
                stream,
                "HTTP/1.1 403 Forbidden\r\naccess-control-allow-origin: *\r\ncontent-length: 2\r\n\r\nno",
            )
            .await
        }
        "switch" | "upgrade" => {
            send(stream, "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: shout\r\n\r\n")
                .await?;
            let mut bytes = rest;
            loop {
                let loud = bytes.to_ascii_uppercase();
                stream.write_all(&loud).await.ok()?;
                stream.flush().await.ok()?;
                bytes.clear();
                stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
            }
        }
        "watch" => {
            send(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            let mut gone = [0];
            loop {
                tokio::select! {
                    permit = state.events.0.acquire() => permit.unwrap().forget(),
                    _ = stream.read(&mut gone) => return None,
                }
                send(stream, "f\r\n{\"type\":\"ADD\"}\n\r\n").await?;
            }
        }
        "silent" => {
            sleep(Duration::from_secs(600)).await;
            None
        }
        "half-head" => {
            send(stream, "HTTP/1.1 200 OK\r\ncontent-ty").await?;
            sleep(Duration::from_secs(600)).await;
            None
        }
        "drip" => {
            send(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            loop {
                send(stream, "1\r\nx\r\n").await?;
                sleep(Duration::from_millis(50)).await;
            }
        }
        "endless" => {
            send(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            let piece = format!("10000\r\n{}\r\n", "x".repeat(65536));
            loop {
                send(stream, &piece).await?;
                state.sent.fetch_add(65536, Ordering::SeqCst);
            }
        }
        "close" => None,
        "half-body" => {
            send(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await?;
            None
        }
        "huge-header" => {
            let long = "x".repeat(2 << 20);
            send(stream, &format!("HTTP/1.1 200 OK\r\nx-long: {long}\r\ncontent-length: 0\r\n\r\n")).await
        }
        "many-headers" => {
            let many: String = (0..2000).map(|number| format!("x-{number}: y\r\n")).collect();
            send(stream, &format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n")).await
        }
        "garbage" => {
            send(stream, "what is this\r\n\r\n").await?;
            None
        }
        _ => send(stream, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await,
    }
}

async fn head(stream: &mut TlsStream<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Some((String::from_utf8_lossy(&bytes).to_lowercase(), rest));
        }
        stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    }
}

/// A header of a head in lower case.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    fields(head, name).next()
}

pub fn fields<'a>(head: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    head.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

async fn send(stream: &mut TlsStream<TcpStream>, text: &str) -> Option<()> {
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.flush().await.ok()
}
