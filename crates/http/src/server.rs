//! The listener: TLS, connections, and an orderly stop.

use std::{
    borrow::Borrow,
    convert::Infallible,
    future::poll_fn,
    net::IpAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use hyper::{
    body::Incoming,
    header,
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use sternpost_auth::client_certificate::Presented;
use sternpost_clock::machine;
use sternpost_cork::Corked;
use sternpost_flow::{Owner, Turns};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::{
    Api,
    connections::{Connection, Connections, Ending, Origin, Slot, Stream, Task},
    limits::{
        ACCEPT_RETRY, HTTP2_PING_INTERVAL, HTTP2_PING_TIMEOUT, HTTP2_SEND_BUFFER_BYTES, Limits,
        MAX_HEADER_BYTES, MAX_HELD_BYTES, MAX_HTTP2_LOCAL_RESETS, MAX_HTTP2_PENDING_RESETS,
        MAX_REQUESTS_PER_TURN, SHUTDOWN_GRACE, TLS_HANDSHAKE_TIMEOUT,
    },
    pipeline, plaintext,
    websocket::Handover,
};

/// Serves until `stop` is ready, then ends: no new connections, requests in
/// flight finished within [`SHUTDOWN_GRACE`]. Each new connection takes `tls`
/// as it is then. A listener that is only lent listens on.
pub async fn serve(
    listener: impl Borrow<TcpListener>,
    tls: Arc<ArcSwap<ServerConfig>>,
    api: Arc<Api>,
    stop: impl Future<Output = ()>,
) {
    api.share();
    let table = Connections::new(api.budgets.clone());
    let mut sweep = pin!(machine::sleep_until(machine::now()));
    let (stopping, seen) = watch::channel(false);
    let turns = api.flow.as_ref().map(|control| control.turns().clone());
    // Owns every connection: none outlives this function.
    let mut connections = JoinSet::new();

    let mut stop = pin!(stop);
    loop {
        let next = tokio::select! {
            biased;
            () = &mut stop => break,
            () = &mut sweep => {
                sweep.as_mut().reset(machine::within(table.sweep_interval()));
                table.sweep();
                let (known, unknown) = table.count();
                api.metrics.set_connections(known, unknown);
                api.metrics.requests.tell_inflight();
                continue;
            }
            next = listener.borrow().accept() => next,
        };
        while connections.try_join_next().is_some() {}
        match next {
            Ok((stream, peer)) => {
                let peer = peer.ip();
                // There is a place for everybody unless all are taken by known and busy ones.
                let Some(slot) = table.admit(peer) else { continue };
                let tls = TlsAcceptor::from(tls.load_full());
                // Until somebody is known by it, a connection belongs to its address.
                let owner = Arc::new(Owner::new(&peer));
                let line = Line { turns: turns.clone(), owner, begun: Arc::default() };
                let connection = connection(stream, peer, tls, api.clone(), seen.clone(), line.clone(), slot);
                // Boxed, because whoever passes a future on holds it twice.
                connections.spawn(line.run(Box::pin(connection)));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                table.make_room();
                machine::sleep(ACCEPT_RETRY).await;
            }
        }
    }

    api.begin_stopping();
    drop(listener);
    // Fails only when there is no connection left to tell.
    let _ = stopping.send(true);
    let drained =
        machine::timeout(SHUTDOWN_GRACE, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(connections = connections.len(), "requests still in flight are cut off");
        connections.shutdown().await;
    }
}

/// Where a connection and the requests on it go on: in turns of whoever asked last by it, or, without
/// flow control, whenever they can.
#[derive(Clone)]
struct Line {
    turns: Option<Arc<Turns>>,
    owner: Arc<Owner>,
    /// How many requests were begun in this turn of the connection.
    begun: Arc<AtomicUsize>,
}

impl Line {
    async fn run<F: Future>(self, work: F) -> F::Output {
        match &self.turns {
            Some(turns) => turns.run(self.owner.clone(), work).await,
            None => work.await,
        }
    }
}

/// Runs the requests of a connection that has several at once.
///
/// What waits for nothing is answered in the turn of its connection, which then sends the answer:
/// no task is made for it, and nobody has to be woken. What waits goes on in a task of its own, and
/// so does what would keep the connection from others who wait for their turn.
impl<F> Executor<F> for Line
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        let task: Task = Arc::default();
        let mut work = Box::pin(work);
        if self.begun.fetch_add(1, Ordering::Relaxed) < MAX_REQUESTS_PER_TURN {
            // It is polled again, by its task, if it has to wait.
            let mut nobody = Context::from_waker(Waker::noop());
            let begin = || catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut nobody)));
            // What a panic said is in the log, by its hook. The stream is reset, the others go on.
            if !matches!(TASK.sync_scope(task.clone(), begin), Ok(Poll::Pending)) {
                return;
            }
        }
        let running = tokio::spawn(TASK.scope(task.clone(), self.clone().run(work)));
        // It is set once, here.
        let _ = task.set(running.abort_handle());
    }
}

tokio::task_local! {
    /// What a request of HTTP/2 runs in: its [`Stream`] can be ended by it.
    static TASK: Task;
}

async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    tls: TlsAcceptor,
    api: Arc<Api>,
    stopping: watch::Receiver<bool>,
    line: Line,
    slot: Slot,
) {
    tokio::select! {
        biased;
        () = slot.0.ends(Ending::Cut) => {}
        () = served(stream, peer, tls, api, stopping, line, &slot.0) => {}
    }
}

async fn served(
    stream: TcpStream,
    peer: IpAddr,
    tls: TlsAcceptor,
    api: Arc<Api>,
    mut stopping: watch::Receiver<bool>,
    line: Line,
    place: &Arc<Connection>,
) {
    // Responses are written whole; waiting to fill packets only adds latency.
    let _ = stream.set_nodelay(true);
    let handshake = machine::timeout(TLS_HANDSHAKE_TIMEOUT, async {
        if plaintext::begins(&stream).await? {
            // Boxed, because every connection has room for what stands here.
            return Box::pin(plaintext::refuse(stream)).await.map(|()| None);
        }
        tls.accept(stream).await.map(Some)
    });
    let stream = tokio::select! {
        biased;
        () = asked_to_stop(&mut stopping) => return,
        stream = handshake => match stream {
            Ok(Ok(Some(stream))) => stream,
            Ok(Ok(None)) => return tracing::debug!("a client began without TLS"),
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => return tracing::debug!("TLS handshake timed out"),
        },
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let presented = stream.get_ref().1.peer_certificates().and_then(Presented::new);
    let owner = Some(line.owner.clone());
    let origin = Arc::new(Origin { peer: Some(peer), owner, presented, ..Origin::default() });
    let begun = Arc::new(AtomicBool::new(false));
    let seen = begun.clone();
    let (handover, mut rest) = Handover::channel();
    let limits = api.budgets.limits.clone();
    let opened = place.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        begun.store(true, Ordering::Relaxed);
        if request.headers().contains_key(header::UPGRADE) {
            request.extensions_mut().insert(handover.clone());
        }
        let opened = opened.clone();
        let open = move || Stream::open(&opened, TASK.try_with(Task::clone).ok());
        let response = pipeline::respond(api.clone(), origin.clone(), open, request);
        // On the heap at once: hyper moves it several times before it begins.
        Box::pin(response.map(Ok::<_, Infallible>))
    });
    if is_http2 {
        let requests = line.begun.clone();
        let stream = Corked::new(stream, MAX_HELD_BYTES);
        let end_turn = |context: &mut Context<'_>| stream.uncork(context);
        let connection = http2_builder(line, &limits).serve_connection(TokioIo::new(stream.clone()), service);
        let shutdown = http2::Connection::graceful_shutdown;
        drive(pin!(connection), shutdown, end_turn, &requests, &seen, place, stopping).await;
    } else {
        let connection =
            http1_builder(&limits).serve_connection(TokioIo::new(stream), service).with_upgrades();
        let shutdown = http1::UpgradeableConnection::graceful_shutdown;
        drive(pin!(connection), shutdown, |_| {}, &line.begun, &seen, place, stopping).await;
        // A connection that became a websocket goes on here, in the same task
        // and slot.
        if let Ok(rest) = rest.try_recv() {
            let _open = Stream::open(place, None);
            rest.await;
        }
    }
}

/// Runs a connection to its end; asked to stop or retired, it finishes what it has begun.
/// One that never sent a request is dropped: hyper would wait for its first.
async fn drive<C>(
    mut connection: Pin<&mut C>,
    begin_shutdown: fn(Pin<&mut C>),
    end_turn: impl Fn(&mut Context<'_>),
    requests: &AtomicUsize,
    begun: &AtomicBool,
    place: &Connection,
    mut stopping: watch::Receiver<bool>,
) where
    C: Future<Output = hyper::Result<()>>,
{
    let turn = |context: &mut Context<'_>, connection: &mut Pin<&mut C>| {
        requests.store(0, Ordering::Relaxed);
        let polled = connection.as_mut().poll(context);
        if polled.is_pending() {
            end_turn(context);
        }
        polled
    };
    let ends = async {
        tokio::select! {
            () = asked_to_stop(&mut stopping) => {}
            () = place.ends(Ending::Retire) => {}
        }
    };
    let result = tokio::select! {
        result = poll_fn(|context| turn(context, &mut connection)) => result,
        () = ends => {
            if !begun.load(Ordering::Relaxed) {
                return;
            }
            begin_shutdown(connection.as_mut());
            poll_fn(|context| turn(context, &mut connection)).await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended early");
    }
}

async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // Fails only when the server is gone, which is a stop as well.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// The number of headers stays at hyper's own [`crate::limits::MAX_HTTP1_HEADERS`]:
/// setting it, even to the same number, costs an allocation per request.
fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_header_size(MAX_HEADER_BYTES)
        .keep_alive(true);
    builder
}

fn http2_builder(line: Line, limits: &Limits) -> http2::Builder<Line> {
    let mut builder = http2::Builder::new(line);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_HTTP2_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_HTTP2_LOCAL_RESETS)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    builder
}
