//! The connections of a client that are there already, and making more.
//!
//! Of HTTP/1.1 those are kept that have no request. One of HTTP/2 has as many requests as the server lets it
//! have; when all are full there is another, so that nobody waits for a watch to end. Whoever finds no room
//! waits for a connection that somebody else is making, if there will be room on it, and fails with it.
//!
//! What moves connections along are tasks of whoever owns the way out, and not of the pool: a pool that is
//! replaced offers no more connections, and those with requests go on until these end.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    client::conn::{http1, http2},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use sternpost_clock::machine::{self, Instant};
use sternpost_tasks::Tasks;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot, watch},
};

use crate::{
    cause::Cause,
    client::{Acquired, Exchange, MAX_HEAD_BYTES, Sender, Sent},
    connect::{Connector, HANDSHAKE, Origin, Protocols, Stream},
};

/// Idle connections of HTTP/1.1 that are kept to one origin; more are closed when they become idle.
pub const MAX_IDLE: usize = 25;

/// How long a connection of HTTP/2 may be silent before it is asked whether anybody is left, and how long the
/// answer may take, as client-go has it.
pub const PING_AFTER: Duration = Duration::from_secs(30);
pub const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// What is taken of an answer on HTTP/2 that nobody reads.
pub const STREAM_WINDOW: u32 = 256 * 1024;
/// What is taken of all answers on a connection: so much that those that nobody reads hold up no other.
pub const CONNECTION_WINDOW: u32 = 1 << 30;
/// Requests on one connection of HTTP/2, if the server allows more.
pub const MAX_STREAMS: usize = (CONNECTION_WINDOW / STREAM_WINDOW) as usize;

/// No server says so: its limit of streams is not known yet.
const UNKNOWN: usize = usize::MAX - 1;

/// Which connections will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    /// One that was never used.
    Fresh,
}

pub(crate) struct Pool {
    connector: Connector,
    idle: Duration,
    tasks: Tasks,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    origins: HashMap<Origin, OriginConnections>,
    /// Of the task that closes what was idle for too long; there is one while there is anything to close, and
    /// it ends when this is dropped.
    sweeper: Option<oneshot::Sender<Infallible>>,
    /// Counts connections that were begun.
    begun: u64,
    /// Counts how often all were forgotten.
    generation: u64,
}

/// What there is to one origin.
#[derive(Default)]
struct OriginConnections {
    http2: Vec<Http2>,
    http1: Vec<Idle>,
    /// Connections being made that others may share.
    dialled: Vec<Dialled>,
    /// How many requests the last connection could have at a time: 1 for HTTP/1.1.
    room: Option<usize>,
    /// Counts connections of HTTP/2 that were made.
    made: u64,
}

impl OriginConnections {
    fn is_empty(&self) -> bool {
        self.http1.is_empty() && self.http2.is_empty() && self.dialled.is_empty()
    }
}

struct Idle {
    sender: http1::SendRequest<Sent>,
    since: Instant,
}

#[derive(Clone)]
struct Http2 {
    sender: http2::SendRequest<Sent>,
    connection: Arc<Http2Connection>,
    streams: Arc<Streams>,
}

/// None when it has ended.
type Http2Connection = Mutex<Option<http2::Connection<TokioIo<Stream>, Sent, Spawner>>>;

struct Dialled {
    id: u64,
    /// How many more may wait for it.
    room: usize,
    failed: watch::Receiver<Option<Cause>>,
}

impl Pool {
    pub fn new(connector: Connector, idle: Duration, tasks: Tasks) -> Self {
        Self { connector, idle, tasks, connections: Mutex::default() }
    }

    /// A connection to use, or to share.
    pub async fn acquire(self: &Arc<Self>, origin: &Origin, wanted: Wanted) -> Result<Acquired, Cause> {
        loop {
            match self.next(origin, wanted) {
                Next::Share(acquired) => return Ok(acquired),
                Next::Reuse(mut sender, generation) => {
                    // Its last answer is read, so that this is a matter of one turn; it fails if the server
                    // has closed it meanwhile.
                    if sender.ready().await.is_ok() {
                        return Ok(self.over_http1(origin, sender, generation, true));
                    }
                }
                Next::Wait(mut failed) => {
                    // Closed without a word if there is a connection now, or nobody makes one any more.
                    if let Ok(failed) = failed.wait_for(Option::is_some).await
                        && let Some(cause) = &*failed
                    {
                        return Err(cause.clone());
                    }
                }
                Next::Dial(dialling) => return self.dial(origin, dialling).await,
            }
        }
    }

    /// A connection of HTTP/1.1 that nobody else ever has.
    pub async fn apart(&self, origin: &Origin) -> Result<Acquired, Cause> {
        let stream = self.connector.connect(origin, Protocols::Http1).await?;
        let sender = Sender::Http1(self.start_http1(stream).await?);
        Ok(Acquired { sender, exchange: Exchange { home: None, streams: None }, was_kept: false })
    }

    /// Takes back a connection whose request is over.
    pub fn put_back(self: &Arc<Self>, home: &Home, sender: http1::SendRequest<Sent>) {
        let Home { origin, generation, .. } = home;
        let mut connections = self.connections();
        if sender.is_closed() || connections.generation != *generation {
            return;
        }
        let to_origin = connections.origins.entry(origin.clone()).or_default();
        if to_origin.http1.len() < MAX_IDLE {
            to_origin.http1.push(Idle { sender, since: machine::now() });
        }
        self.sweep_later(&mut connections);
    }

    /// Forgets all connections: those with requests end with them.
    pub fn clear(&self) {
        let mut connections = self.connections();
        connections.generation += 1;
        connections.origins.clear();
    }

    fn next(self: &Arc<Self>, origin: &Origin, wanted: Wanted) -> Next {
        let mut made = None;
        loop {
            // Asked outside of the lock: a connection that moves along has a lock of its own.
            let shared = match wanted {
                Wanted::Any => self.http2(origin, &mut made),
                Wanted::Fresh => Vec::new(),
            };
            if let Some(Http2 { sender, streams, .. }) = shared.into_iter().find(Http2::begin) {
                let exchange = Exchange { home: None, streams: Some(streams) };
                return Next::Share(Acquired { sender: Sender::Http2(sender), exchange, was_kept: true });
            }
            let mut connections = self.connections();
            connections.begun += 1;
            let (id, generation) = (connections.begun, connections.generation);
            let to_origin = connections.origins.entry(origin.clone()).or_default();
            if wanted == Wanted::Any {
                if made.is_some_and(|made| made != to_origin.made) {
                    continue;
                }
                while let Some(Idle { sender, since }) = to_origin.http1.pop() {
                    if !sender.is_closed() && machine::elapsed(since) < self.idle {
                        return Next::Reuse(sender, generation);
                    }
                }
                if let Some(dialled) = to_origin.dialled.iter_mut().find(|dialled| dialled.room > 0) {
                    dialled.room -= 1;
                    return Next::Wait(dialled.failed.clone());
                }
            }
            let (sender, failed) = watch::channel(None);
            // Of a server that is not known yet it is assumed that there will be room for all.
            let offers_http2 = origin.secure && self.connector.protocols == Protocols::Http2OrHttp1;
            let room = if offers_http2 { to_origin.room.unwrap_or(MAX_STREAMS).saturating_sub(1) } else { 0 };
            to_origin.dialled.push(Dialled { id, room, failed });
            let pool = Arc::downgrade(self);
            let origin = origin.clone();
            return Next::Dial(Dialling { pool, origin, id, generation, failed: sender });
        }
    }

    /// The connections of HTTP/2 that are there, and how many were `made` so far.
    fn http2(&self, origin: &Origin, made: &mut Option<u64>) -> Vec<Http2> {
        let mut connections = self.connections();
        let to_origin = connections.origins.entry(origin.clone()).or_default();
        to_origin.http2.retain(|connection| !connection.sender.is_closed());
        *made = Some(to_origin.made);
        to_origin.http2.clone()
    }

    async fn dial(self: &Arc<Self>, origin: &Origin, dialling: Dialling) -> Result<Acquired, Cause> {
        match self.connect(origin, &dialling).await {
            // Those who wait find it when `dialling` goes.
            Ok(acquired) => Ok(acquired),
            Err(cause) => {
                dialling.failed.send_replace(Some(cause.clone()));
                Err(cause)
            }
        }
    }

    async fn connect(self: &Arc<Self>, origin: &Origin, dialling: &Dialling) -> Result<Acquired, Cause> {
        let stream = self.connector.connect(origin, self.connector.protocols).await?;
        if !stream.is_http2() {
            let sender = self.start_http1(stream).await?;
            let mut connections = self.connections();
            connections.origins.entry(origin.clone()).or_default().room = Some(1);
            self.sweep_later(&mut connections);
            drop(connections);
            return Ok(self.over_http1(origin, sender, dialling.generation, false));
        }
        let http2 = Http2::start(stream, &self.tasks).await?;
        // Whatever the server says: somebody has to have it.
        http2.streams.begin();
        let exchange = Exchange { home: None, streams: Some(http2.streams.clone()) };
        let sender = Sender::Http2(http2.sender.clone());
        let limit = http2.limit().unwrap_or_default().min(MAX_STREAMS);
        let mut connections = self.connections();
        let to_origin = connections.origins.entry(origin.clone()).or_default();
        to_origin.room = Some(limit);
        to_origin.made += 1;
        // Unless what is there was forgotten meanwhile.
        if to_origin.dialled.iter().any(|dialled| dialled.id == dialling.id) {
            to_origin.http2.push(http2);
        }
        self.sweep_later(&mut connections);
        Ok(Acquired { sender, exchange, was_kept: false })
    }

    async fn start_http1(&self, stream: Stream) -> Result<http1::SendRequest<Sent>, Cause> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Cause::of_request(&error))?;
        // Ends with the last request, or when nobody is left to send one. Until then its owner stays, whoever
        // else has gone; why it ends is told to those whose request was on it.
        let owner = self.tasks.clone();
        self.tasks.once("http1-connection", async move {
            let _ = connection.with_upgrades().await;
            drop(owner);
        });
        Ok(sender)
    }

    fn over_http1(
        self: &Arc<Self>,
        origin: &Origin,
        sender: http1::SendRequest<Sent>,
        generation: u64,
        was_kept: bool,
    ) -> Acquired {
        let home = Home { pool: Arc::downgrade(self), origin: origin.clone(), generation };
        let exchange = Exchange { home: Some(home), streams: None };
        Acquired { sender: Sender::Http1(sender), exchange, was_kept }
    }

    fn sweep_later(self: &Arc<Self>, connections: &mut Connections) {
        if connections.sweeper.is_some() {
            return;
        }
        // There is one wherever there are connections.
        if Handle::try_current().is_err() {
            return;
        }
        let (pool, pause) = (Arc::downgrade(self), self.idle / 2);
        let (sweeper, mut ended) = oneshot::channel::<Infallible>();
        self.tasks.once("idle-connections", async move {
            while machine::timeout(pause, &mut ended).await.is_err() {
                let Some(pool) = pool.upgrade() else { return };
                if !pool.sweep() {
                    return;
                }
            }
        });
        connections.sweeper = Some(sweeper);
    }

    /// Closes what was idle for too long. Whether there is anything left.
    fn sweep(&self) -> bool {
        let mut connections = self.connections();
        let idle = self.idle;
        connections.origins.retain(|_, to_origin| {
            to_origin.http1.retain(|it| !it.sender.is_closed() && machine::elapsed(it.since) < idle);
            to_origin.http2.retain(|it| !it.sender.is_closed() && !it.streams.were_idle_for(idle));
            !to_origin.is_empty()
        });
        if connections.origins.is_empty() {
            connections.sweeper = None;
        }
        connections.sweeper.is_some()
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do for a connection.
enum Next {
    Share(Acquired),
    /// Of that generation.
    Reuse(http1::SendRequest<Sent>, u64),
    Wait(watch::Receiver<Option<Cause>>),
    Dial(Dialling),
}

/// A connection being made, by whoever holds this.
struct Dialling {
    pool: Weak<Pool>,
    origin: Origin,
    id: u64,
    generation: u64,
    failed: watch::Sender<Option<Cause>>,
}

impl Drop for Dialling {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut connections = pool.connections();
        let Some(to_origin) = connections.origins.get_mut(&self.origin) else { return };
        to_origin.dialled.retain(|dialled| dialled.id != self.id);
        if to_origin.is_empty() && to_origin.room.is_none() {
            connections.origins.remove(&self.origin);
        }
    }
}

/// Where a connection of HTTP/1.1 goes when it is free again.
pub(crate) struct Home {
    pub pool: Weak<Pool>,
    origin: Origin,
    generation: u64,
}

/// The requests on a connection of HTTP/2.
pub(crate) struct Streams(Mutex<Running>);

struct Running {
    count: usize,
    /// When the last one ended.
    since: Instant,
}

impl Streams {
    fn begin(&self) {
        self.running().count += 1;
    }

    pub fn end(&self) {
        let mut running = self.running();
        running.count = running.count.saturating_sub(1);
        running.since = machine::now();
    }

    fn were_idle_for(&self, time: Duration) -> bool {
        let running = self.running();
        running.count == 0 && machine::elapsed(running.since) >= time
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Http2 {
    /// Ready when it is known how many requests it may have.
    async fn start(stream: Stream, tasks: &Tasks) -> Result<Self, Cause> {
        let polled = Arc::new(Notify::new());
        let spawner = Spawner { tasks: tasks.clone(), polled: polled.clone() };
        let (sender, connection) = http2::Builder::new(spawner)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(UNKNOWN)
            .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Cause::of_request(&error))?;
        let connection = Arc::new(Mutex::new(Some(connection)));
        let driven = Driven { connection: connection.clone(), polled: polled.clone() };
        tasks.once("http2-connection", driven.drive());
        let streams = Arc::new(Streams(Mutex::new(Running { count: 0, since: machine::now() })));
        let http2 = Self { sender, connection, streams };
        let is_known = async {
            loop {
                let polled = polled.notified();
                match http2.limit() {
                    None => return Err(Cause::Eof),
                    Some(UNKNOWN) => polled.await,
                    Some(_) => return Ok(()),
                }
            }
        };
        machine::timeout(HANDSHAKE, is_known).await.map_err(|_| Cause::HandshakeTimeout)??;
        Ok(http2)
    }

    /// How many requests the server lets it have now; none if it has ended.
    fn limit(&self) -> Option<usize> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().map(http2::Connection::current_max_send_streams)
    }

    /// Takes room for one more request, if there is any.
    fn begin(&self) -> bool {
        let limit = self.limit().unwrap_or_default().min(MAX_STREAMS);
        let mut running = self.streams.running();
        let has_room = running.count < limit;
        running.count += usize::from(has_room);
        has_room
    }
}

/// A connection of HTTP/2 that is moved along. However that ends, the connection is gone: whoever has its
/// sender would wait for ever otherwise.
struct Driven {
    connection: Arc<Http2Connection>,
    polled: Arc<Notify>,
}

impl Driven {
    /// Until there are no more requests for it; those that were sent have tasks of their own.
    async fn drive(self) {
        poll_fn(|context| {
            let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = connection.as_mut() else { return Poll::Ready(()) };
            // Why it ended is told to those whose requests were on it.
            Pin::new(running).poll(context).map(|_| ())
        })
        .await;
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let ended = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(ended);
        self.polled.notify_waiters();
    }
}

/// Runs the tasks of a connection of HTTP/2, and tells when one has moved along: what the server has said
/// may have been read.
#[derive(Clone)]
struct Spawner {
    tasks: Tasks,
    polled: Arc<Notify>,
}

impl<Task> Executor<Task> for Spawner
where
    Task: Future + Send + 'static,
    Task::Output: Send,
{
    fn execute(&self, task: Task) {
        // Its owner stays until it ends, whoever else has gone.
        let (polled, owner) = (self.polled.clone(), self.tasks.clone());
        let mut task = Box::pin(task);
        self.tasks.once("http2-connection", async move {
            poll_fn(|context: &mut Context<'_>| {
                let done = task.as_mut().poll(context).map(|_| ());
                polled.notify_waiters();
                done
            })
            .await;
            drop(owner);
        });
    }
}
