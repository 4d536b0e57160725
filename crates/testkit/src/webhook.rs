//! A webhook for tests: HTTPS with certificates of its own, and as bad manners as asked for.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
    task::JoinHandle,
    time::Sleep,
};
use tokio_rustls::TlsAcceptor;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a server shows of itself.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Names and addresses.
    pub names: Vec<&'static str>,
    /// Days from now.
    pub not_before: i32,
    pub not_after: i32,
    pub purpose: ExtendedKeyUsagePurpose,
    pub signer: Signer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// The authority in [`Server::bundle`].
    Authority,
    /// Somebody else.
    Stranger,
    /// The certificate is its own authority, says so, and is the bundle.
    Itself,
    /// Somebody else, and the bundle is the certificate.
    StrangerInBundle,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            names: vec!["127.0.0.1", "localhost", "hook.ns.svc"],
            not_before: -1,
            not_after: 1,
            purpose: ExtendedKeyUsagePurpose::ServerAuth,
            signer: Signer::Authority,
        }
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub version: Version,
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    Answer {
        code: u16,
        headers: Vec<(&'static str, String)>,
        body: Bytes,
    },
    /// Never answers.
    Hang,
    /// Sends the headers, then a byte at a time with a pause before each.
    Drip {
        body: Bytes,
        pause: Duration,
    },
    /// Ends the connection instead of answering.
    Drop,
    /// Promises more than it sends.
    Short(Bytes),
    /// Something else, after a while.
    Late {
        after: Duration,
        reply: Box<Reply>,
    },
    /// Something else, as soon as the gate is open.
    Held {
        gate: watch::Receiver<bool>,
        reply: Box<Reply>,
    },
}

impl Reply {
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::code(200, "application/json", body)
    }

    pub fn code(code: u16, media: &str, body: impl Into<Bytes>) -> Self {
        Self::Answer { code, headers: vec![("content-type", media.to_owned())], body: body.into() }
    }
}

/// A running webhook; ends when dropped.
#[derive(Debug)]
pub struct Server {
    pub port: u16,
    /// The certificates to believe, as `caBundle` has them.
    pub bundle: String,
    calls: Arc<Mutex<Vec<Call>>>,
    closing: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on a port of 127.0.0.1 and answers each request as `reply` says.
    pub async fn start(
        identity: Identity,
        protocols: &[&str],
        reply: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (config, bundle) = identity.config(protocols);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (reply, seen) = (Arc::new(reply), Arc::clone(&calls));
        let closing = Arc::new(Notify::new());
        let close = Arc::clone(&closing);
        let task = tokio::spawn(async move {
            // Dropped with this task, and the connections with it.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = close.notified() => break,
                };
                let Ok((tcp, _)) = accepted else { break };
                let _ = tcp.set_nodelay(true);
                let (acceptor, reply, seen) = (acceptor.clone(), Arc::clone(&reply), Arc::clone(&seen));
                connections.spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service =
                        service_fn(move |request| handle(request, Arc::clone(&reply), Arc::clone(&seen)));
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // A client that goes away is one of the things tested.
                    let _ = builder.serve_connection(TokioIo::new(tls), service).await;
                });
            }
            drop(listener);
            while connections.join_next().await.is_some() {}
        });
        Self { port, bundle, calls, closing, task }
    }

    /// Good manners but for `reply`.
    pub async fn replying(reply: Reply) -> Self {
        Self::start(Identity::default(), &["h2", "http/1.1"], move |_| reply.clone()).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// A `clientConfig` that believes this server.
    pub fn config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": self.bundle})
    }

    /// Lets nobody in any more; who is in stays.
    pub fn stop_accepting(&self) {
        self.closing.notify_one();
    }

    /// The requests so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn handle(
    request: Request<Incoming>,
    reply: Arc<impl Fn(&Call) -> Reply + Send + Sync>,
    seen: Arc<Mutex<Vec<Call>>>,
) -> Result<Response<Script>, Refusal> {
    let (head, body) = request.into_parts();
    let call = Call {
        version: head.version,
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers,
        body: body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default(),
    };
    let mut reply = reply(&call);
    seen.lock().unwrap().push(call);
    loop {
        reply = match reply {
            Reply::Late { after, reply } => {
                tokio::time::sleep(after).await;
                *reply
            }
            Reply::Held { mut gate, reply } => {
                // A gate that is gone is open.
                let _ = gate.wait_for(|is_open| *is_open).await;
                *reply
            }
            _ => break,
        }
    }
    let json = || Response::builder().header("content-type", "application/json");
    Ok(match reply {
        Reply::Answer { code, headers, body } => {
            let mut response = Response::builder().status(code);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Script::whole(body)).unwrap()
        }
        Reply::Hang | Reply::Late { .. } | Reply::Held { .. } => std::future::pending().await,
        Reply::Drip { body, pause } => {
            json().body(Script { body, pause, sleep: None, promise: 0, ending: None }).unwrap()
        }
        Reply::Drop => return Err(Refusal),
        Reply::Short(body) => {
            let promise = body.len() as u64 + 100;
            let ending = Some(Box::pin(tokio::time::sleep(Duration::from_millis(100))));
            json().body(Script { promise, ending, ..Script::whole(body) }).unwrap()
        }
    })
}

#[derive(Debug)]
struct Refusal;

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("dropped")
    }
}

impl std::error::Error for Refusal {}

/// A body: whole, or a byte at a time, or less than it promises.
struct Script {
    body: Bytes,
    pause: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    promise: u64,
    ending: Option<Pin<Box<Sleep>>>,
}

impl Script {
    fn whole(body: Bytes) -> Self {
        let promise = body.len() as u64;
        Self { body, pause: Duration::ZERO, sleep: None, promise, ending: None }
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.body.is_empty() {
            // What was sent must leave before the connection breaks.
            let Some(sleep) = &mut self.ending else { return Poll::Ready(None) };
            return sleep.as_mut().poll(context).map(|()| None);
        }
        if self.pause.is_zero() {
            let all = std::mem::take(&mut self.body);
            return Poll::Ready(Some(Ok(Frame::data(all))));
        }
        let pause = self.pause;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        if sleep.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.sleep = None;
        Poll::Ready(Some(Ok(Frame::data(self.body.split_to(1)))))
    }

    fn size_hint(&self) -> SizeHint {
        if self.promise == 0 { SizeHint::default() } else { SizeHint::with_exact(self.promise) }
    }
}

impl Identity {
    fn config(&self, protocols: &[&str]) -> (ServerConfig, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "webhook");
        params.subject_alt_names = self
            .names
            .iter()
            .map(|name| match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().unwrap()),
            })
            .collect();
        params.not_before = days(self.not_before).into();
        params.not_after = days(self.not_after).into();
        params.extended_key_usages = vec![self.purpose.clone()];
        let (certificate, bundle) = match self.signer {
            Signer::Itself => {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                let certificate = params.self_signed(&key).unwrap();
                let bundle = certificate.pem();
                (certificate, bundle)
            }
            signer => {
                let (issuer, bundle) = authority("authority");
                let (stranger, _) = authority("stranger");
                let issuer = if signer == Signer::Authority { issuer } else { stranger };
                let certificate = params.signed_by(&key, &issuer).unwrap();
                let bundle = if signer == Signer::StrangerInBundle { certificate.pem() } else { bundle };
                (certificate, bundle)
            }
        };
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        (config, STANDARD.encode(bundle))
    }
}

fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = days(-2).into();
    params.not_after = days(2).into();
    let bundle = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), bundle)
}

fn days(days: i32) -> SystemTime {
    let now = SystemTime::now();
    if days < 0 { now - DAY * days.unsigned_abs() } else { now + DAY * days.unsigned_abs() }
}
