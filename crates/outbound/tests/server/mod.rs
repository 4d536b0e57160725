//! A server for tests: TLS, HTTP/2 or HTTP/1.1, and connections that can be counted and broken.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use sternpost_outbound::{Client, Egress, Protocols, Settings, Trust, Via, client_tls};
use sternpost_tasks::Tasks;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// What the server is like.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub protocol: &'static str,
    pub max_streams: u32,
}

pub const HTTP2: Manner = Manner { protocol: "h2", max_streams: 1000 };
pub const HTTP1: Manner = Manner { protocol: "http/1.1", max_streams: 0 };

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub version: Version,
    /// The number of the connection it came on, from 0.
    pub connection: usize,
    pub authority: String,
    pub headers: HeaderMap,
}

/// Serves until it is dropped:
/// `/echo` answers with what was sent, `/watch` with events for as long as it likes, `/endless` with bytes
/// without end, `/upgrade` by going on in capitals.
pub struct Server {
    pub port: u16,
    bundle: String,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

struct State {
    calls: Mutex<Vec<Call>>,
    made: AtomicUsize,
    open: AtomicUsize,
    /// Counts orders to break all connections, and to end them in good manners.
    broken: watch::Sender<usize>,
    ended: watch::Sender<usize>,
    /// Counts events that watches tell of.
    events: watch::Sender<usize>,
}

impl Server {
    pub async fn start(manner: Manner) -> Self {
        let (acceptor, bundle) = acceptor(manner.protocol);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            calls: Mutex::default(),
            made: AtomicUsize::default(),
            open: AtomicUsize::default(),
            broken: watch::Sender::new(0),
            ended: watch::Sender::new(0),
            events: watch::Sender::new(0),
        });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (acceptor, state) = (acceptor.clone(), shared.clone());
                connections.spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                    state.open.fetch_add(1, Ordering::SeqCst);
                    let mut broken = state.broken.subscribe();
                    tokio::select! {
                        () = serve(TokioIo::new(tls), is_http2, manner, &state) => {}
                        _ = broken.changed() => {}
                    }
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, bundle, state, task }
    }

    /// One that believes this server, whatever address it is asked at.
    pub fn client(&self) -> Client {
        self.client_of(&Tasks::default())
    }

    /// One whose connections are somebody's.
    pub fn client_of(&self, tasks: &Tasks) -> Client {
        client(&self.bundle, tasks)
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    pub fn calls(&self) -> Vec<Call> {
        self.state.calls.lock().unwrap().clone()
    }

    /// Connections that were made so far.
    pub fn made(&self) -> usize {
        self.state.made.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Ends all connections at once.
    pub fn break_off(&self) {
        self.state.broken.send_modify(|count| *count += 1);
    }

    /// Takes no more requests on the connections there are.
    pub fn wind_up(&self) {
        self.state.ended.send_modify(|count| *count += 1);
    }

    /// Lets every watch tell of one more event.
    pub fn tell(&self) {
        self.state.events.send_modify(|count| *count += 1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Shows a certificate for `other.example`, which comes along.
fn acceptor(protocol: &str) -> (TlsAcceptor, String) {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(["other.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    if protocol == "h2" {
        config.alpn_protocols.push(b"http/1.1".to_vec());
    }
    (TlsAcceptor::from(Arc::new(config)), certificate.pem())
}

/// Believes that certificate.
fn client(bundle: &str, tasks: &Tasks) -> Client {
    let trust = Trust::pem(bundle.as_bytes()).unwrap();
    Client::new(Settings {
        tls: client_tls(trust, None).unwrap(),
        protocols: Protocols::Http2OrHttp1,
        name: Some("other.example".try_into().unwrap()),
        egress: Egress::anywhere().with_tasks(tasks.clone()),
        via: Via::Other,
        proxy: None,
        idle: Duration::from_secs(60),
    })
}

/// Connections on which HTTP/2 was agreed upon, for tests that answer for themselves.
pub struct Bare {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pub client: Client,
    pub url: String,
}

impl Bare {
    pub async fn listen() -> Self {
        let (acceptor, bundle) = acceptor("h2");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        Self { listener, acceptor, client: client(&bundle, &Tasks::default()), url }
    }

    pub async fn accept(&self) -> tokio_rustls::server::TlsStream<TcpStream> {
        let (tcp, _) = self.listener.accept().await.unwrap();
        self.acceptor.accept(tcp).await.unwrap()
    }
}

type Tls = TokioIo<tokio_rustls::server::TlsStream<TcpStream>>;

async fn serve(io: Tls, is_http2: bool, manner: Manner, state: &Arc<State>) {
    let connection = state.made.fetch_add(1, Ordering::SeqCst);
    let shared = state.clone();
    let service = service_fn(move |request| answer(request, connection, shared.clone()));
    let mut ended = state.ended.subscribe();
    // Clients that go away are among the things tested.
    if is_http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(manner.max_streams)
            .serve_connection(io, service);
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            _ = serving.as_mut() => return,
            _ = ended.changed() => serving.as_mut().graceful_shutdown(),
        }
        let _ = serving.await;
    } else {
        let _ = http1::Builder::new().serve_connection(io, service).with_upgrades().await;
    }
}

async fn answer(
    mut request: Request<Incoming>,
    connection: usize,
    state: Arc<State>,
) -> Result<Response<Answer>, Infallible> {
    let call = Call {
        version: request.version(),
        connection,
        authority: request.uri().authority().map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().clone(),
    };
    state.calls.lock().unwrap().push(call);
    let path = request.uri().path().to_owned();
    Ok(match path.as_str() {
        "/echo" => match request.into_body().collect().await {
            Ok(body) => Response::new(Answer::Whole(body.to_bytes())),
            // The client has gone.
            Err(_) => Response::new(Answer::Whole(Bytes::new())),
        },
        "/watch" => Response::new(Answer::events(state.events.subscribe())),
        "/endless" => Response::new(Answer::Endless),
        "/upgrade" if request.method() == Method::GET => {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut io = TokioIo::new(upgraded.await.unwrap());
                let mut bytes = [0; 100];
                while let Ok(read @ 1..) = io.read(&mut bytes).await {
                    io.write_all(&bytes[..read].to_ascii_uppercase()).await.unwrap();
                    io.flush().await.unwrap();
                }
            });
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            let answer = answer.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "shout");
            answer.body(Answer::Whole(Bytes::new())).unwrap()
        }
        _ => Response::builder().status(404).body(Answer::Whole(Bytes::new())).unwrap(),
    })
}

enum Answer {
    Whole(Bytes),
    Events(Pin<Box<dyn Future<Output = watch::Receiver<usize>> + Send>>),
    Endless,
}

impl Answer {
    fn events(mut events: watch::Receiver<usize>) -> Self {
        Self::Events(Box::pin(async move {
            // Fails when the server is gone.
            let _ = events.changed().await;
            events
        }))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let answer = self.get_mut();
        match answer {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Endless => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024]))))),
            Self::Events(next) => next.as_mut().poll(context).map(|events| {
                *answer = Self::events(events);
                Some(Ok(Frame::data(Bytes::from_static(b"event"))))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }
}

/// A way to a server on which bytes can get lost.
pub struct Wire {
    pub address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Wire {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(false);
        let is_cut = cut.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                    is_cut.mark_unchanged();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => return,
                        _ = is_cut.changed() => {}
                    }
                    // Both ends stay open, and hear nothing any more.
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { address, cut }
    }

    /// From now on nothing arrives on the connections there are; new ones work.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }
}
