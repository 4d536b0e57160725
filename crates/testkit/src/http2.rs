//! A server of HTTP/2, and of HTTP/1.1 for those who do not speak it, whose connections can be counted and
//! broken.

use std::{
    convert::Infallible,
    net::Ipv4Addr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Serves until it is dropped.
pub struct Http2Server {
    pub port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// What a request is answered with.
#[derive(Debug, Clone)]
pub enum Asked {
    /// `echo` answers with what was sent, `watch` with events for as long as it likes, `endless` with bytes
    /// without end, `upgrade` by going on in capitals, and anything else with 404.
    Do(String),
    Json(String),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub version: Version,
    /// The number of the connection it came on, from 0.
    pub connection: usize,
    pub authority: String,
    pub headers: HeaderMap,
    /// The certificate that was shown.
    pub shown: Option<Vec<u8>>,
}

struct State {
    event: &'static str,
    asked: Box<dyn Fn(&Uri) -> Asked + Send + Sync>,
    calls: Mutex<Vec<Call>>,
    made: AtomicUsize,
    open: AtomicUsize,
    watching: Arc<AtomicUsize>,
    /// Counts orders to break all connections, and to end them in good manners.
    broken: watch::Sender<usize>,
    ended: watch::Sender<usize>,
    /// Counts events that watches tell of.
    events: watch::Sender<usize>,
}

impl Http2Server {
    /// One that allows so many requests at a time on a connection, and whose watches tell of `event`.
    pub async fn start(
        config: ServerConfig,
        max_streams: u32,
        event: &'static str,
        asked: impl Fn(&Uri) -> Asked + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            event,
            asked: Box::new(asked),
            calls: Mutex::default(),
            made: AtomicUsize::default(),
            open: AtomicUsize::default(),
            watching: Arc::default(),
            broken: watch::Sender::new(0),
            ended: watch::Sender::new(0),
            events: watch::Sender::new(0),
        });
        let (tls, shared) = (TlsAcceptor::from(Arc::new(config)), state.clone());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((tcp, _)) = listener.accept().await else { continue };
                let (tls, state) = (tls.clone(), shared.clone());
                connections.spawn(async move {
                    let Ok(tls) = tls.accept(tcp).await else { return };
                    state.open.fetch_add(1, Ordering::SeqCst);
                    let mut broken = state.broken.subscribe();
                    tokio::select! {
                        () = serve(tls, max_streams, &state) => {}
                        _ = broken.changed() => {}
                    }
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, state, task }
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

    /// Watches that go on.
    pub fn watching(&self) -> usize {
        self.state.watching.load(Ordering::SeqCst)
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

impl Drop for Http2Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(tls: TlsStream<TcpStream>, max_streams: u32, state: &Arc<State>) {
    let connection = state.made.fetch_add(1, Ordering::SeqCst);
    let shown = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let shown = shown.map(|certificate| certificate.to_vec());
    let shared = state.clone();
    let service = service_fn(move |request| answer(request, connection, shown.clone(), shared.clone()));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(max_streams);
    let mut ended = state.ended.subscribe();
    // Clients that go away are among the things tested.
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(tls), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = ended.changed() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

async fn answer(
    mut request: Request<Incoming>,
    connection: usize,
    shown: Option<Vec<u8>>,
    state: Arc<State>,
) -> Result<Response<Answer>, Infallible> {
    state.calls.lock().unwrap().push(Call {
        version: request.version(),
        connection,
        authority: request.uri().authority().map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().clone(),
        shown,
    });
    let whole = |body: Bytes| Response::new(Answer::Whole(body));
    let action = match (state.asked)(request.uri()) {
        Asked::Do(action) => action,
        Asked::Json(json) => {
            let mut answer = whole(json.into());
            answer.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
            return Ok(answer);
        }
    };
    Ok(match action.as_str() {
        "echo" => match request.into_body().collect().await {
            Ok(body) => whole(body.to_bytes()),
            Err(_) => whole(Bytes::new()),
        },
        "watch" => {
            let watching = Watching(state.watching.clone());
            watching.0.fetch_add(1, Ordering::SeqCst);
            Response::new(Answer::Events(next(state.events.subscribe()), state.event, watching))
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
    Events(Next, &'static str, #[expect(dead_code, reason = "counts for as long as it lives")] Watching),
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
            Self::Events(waiting, event, _) => waiting.as_mut().poll(context).map(|events| {
                *waiting = next(events);
                Some(Ok(Frame::data(Bytes::from_static(event.as_bytes()))))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }
}
