//! Another API server that speaks HTTP/2, and HTTP/1.1 to those who do not; its connections can be counted
//! and broken.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use super::{api_service, config, resources};

pub struct Http2Extension {
    port: u16,
    bundle: String,
    group: String,
    state: Arc<State>,
}

/// A client's request as it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub version: Version,
    pub authority: String,
    pub headers: HeaderMap,
    /// The certificate that was shown.
    pub shown: Option<Vec<u8>>,
}

struct State {
    list: String,
    calls: Mutex<Vec<Call>>,
    /// Connections that were made.
    made: AtomicUsize,
    /// Watches that go on.
    watching: Arc<AtomicUsize>,
    /// Counts orders to break all connections.
    broken: watch::Sender<usize>,
    /// Counts events that watches tell of.
    events: watch::Sender<usize>,
}

impl Http2Extension {
    /// Serves `GROUP/v1`, so many requests at a time on a connection; `proxies` is the authority of front
    /// proxies, in PEM.
    pub async fn start(group: &str, max_streams: u32, proxies: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["ext.ns.svc".to_owned()]).unwrap().self_signed(&key).unwrap();
        let mut config = config(&certificate, &key, proxies);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let state = Arc::new(State {
            list: resources(group).to_string(),
            calls: Mutex::default(),
            made: AtomicUsize::default(),
            watching: Arc::default(),
            broken: watch::Sender::new(0),
            events: watch::Sender::new(0),
        });
        let (tls, shared) = (TlsAcceptor::from(Arc::new(config)), state.clone());
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (tls, state) = (tls.clone(), shared.clone());
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    state.made.fetch_add(1, Ordering::SeqCst);
                    let mut broken = state.broken.subscribe();
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let shown = shown.map(|certificate| certificate.to_vec());
                    let service = service_fn(move |request| answer(request, shown.clone(), state.clone()));
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(max_streams);
                    tokio::select! {
                        _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service) => {}
                        _ = broken.changed() => {}
                    }
                });
            }
        });
        Self { port, bundle: STANDARD.encode(certificate.pem()), group: group.into(), state }
    }

    /// An APIService that leads to it.
    pub fn api_service(&self) -> Value {
        api_service(&self.group, self.port, &self.bundle)
    }

    pub fn path(&self, action: &str) -> String {
        format!("/apis/{}/v1/things?do={action}", self.group)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Of clients' requests.
    pub fn calls(&self) -> Vec<Call> {
        self.state.calls.lock().unwrap().clone()
    }

    /// Connections so far.
    pub fn made(&self) -> usize {
        self.state.made.load(Ordering::SeqCst)
    }

    /// Watches that go on.
    pub fn watching(&self) -> usize {
        self.state.watching.load(Ordering::SeqCst)
    }

    /// Lets every watch tell of one more event.
    pub fn tell(&self) {
        self.state.events.send_modify(|count| *count += 1);
    }

    /// Ends all connections at once.
    pub fn break_off(&self) {
        self.state.broken.send_modify(|count| *count += 1);
    }
}

async fn answer(
    mut request: Request<Incoming>,
    shown: Option<Vec<u8>>,
    state: Arc<State>,
) -> Result<Response<Answer>, Infallible> {
    if request.headers().contains_key("audit-id") {
        state.calls.lock().unwrap().push(Call {
            version: request.version(),
            authority: request.uri().authority().map(ToString::to_string).unwrap_or_default(),
            headers: request.headers().clone(),
            shown,
        });
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let action =
        query.split_once("do=").map_or("", |(_, action)| action.split('&').next().unwrap_or_default());
    let whole = |body: Bytes| Response::new(Answer::Whole(body));
    Ok(match action {
        "" if request.uri().path().ends_with("/v1") => {
            let mut list = whole(state.list.clone().into());
            list.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
            list
        }
        "echo" => match request.into_body().collect().await {
            Ok(body) => whole(body.to_bytes()),
            Err(_) => whole(Bytes::new()),
        },
        "watch" => {
            let watching = Watching(state.watching.clone());
            watching.0.fetch_add(1, Ordering::SeqCst);
            Response::new(Answer::Events(next(state.events.subscribe()), watching))
        }
        "endless" => Response::new(Answer::Endless),
        "upgrade" => {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let Ok(upgraded) = upgraded.await else { return };
                let (mut io, mut bytes) = (TokioIo::new(upgraded), [0; 100]);
                while let Ok(read @ 1..) = io.read(&mut bytes).await {
                    io.write_all(&bytes[..read].to_ascii_uppercase()).await.unwrap();
                    io.flush().await.unwrap();
                }
            });
            let mut switching = whole(Bytes::new());
            *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            switching.headers_mut().insert(header::CONNECTION, "Upgrade".parse().unwrap());
            switching.headers_mut().insert(header::UPGRADE, "shout".parse().unwrap());
            switching
        }
        _ => {
            let mut none = whole(Bytes::new());
            *none.status_mut() = StatusCode::NOT_FOUND;
            none
        }
    })
}

enum Answer {
    Whole(Bytes),
    Events(Next, #[expect(dead_code, reason = "counts for as long as it lives")] Watching),
    Endless,
}

type Next = Pin<Box<dyn Future<Output = watch::Receiver<usize>> + Send>>;

fn next(mut events: watch::Receiver<usize>) -> Next {
    Box::pin(async move {
        // Fails when the server is gone.
        let _ = events.changed().await;
        events
    })
}

struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Endless => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024]))))),
            Self::Events(waiting, _) => waiting.as_mut().poll(context).map(|events| {
                *waiting = next(events);
                Some(Ok(Frame::data(Bytes::from(format!("{}\n", json!({"type": "ADD"}))))))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }
}
