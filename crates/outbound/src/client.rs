//! One request and its answer.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, Uri, header, uri};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body as _, Frame, Incoming, SizeHint},
    client::conn::{http1, http2},
};
use rustls::{ClientConfig, pki_types::ServerName};

use crate::{
    cause::Cause,
    connect::{Connector, Origin, Protocols},
    egress::{Egress, Via},
    pool::{Home, Pool, Streams, Wanted},
    proxy::Proxy,
};

/// The head of an answer, and what is read ahead of a body of HTTP/1.1.
pub const MAX_HEAD_BYTES: usize = 256 * 1024;

/// What requests carry.
pub type Outgoing = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// How a server is reached.
#[derive(Debug)]
pub struct Settings {
    /// From [`crate::client_tls`].
    pub tls: ClientConfig,
    pub protocols: Protocols,
    /// Whom certificates are to name, if not the host that is asked.
    pub name: Option<ServerName<'static>>,
    /// Where is dialled.
    pub egress: Egress,
    pub via: Via,
    pub proxy: Option<Proxy>,
    /// How long a connection without requests is kept.
    pub idle: Duration,
}

/// Clones share connections. Dropping the last ends those without requests at once and the others when
/// their requests end, or with the tasks of the [`Egress`].
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
}

impl Client {
    pub fn new(settings: Settings) -> Self {
        let Settings { tls, protocols, name, egress, via, proxy, idle } = settings;
        let tasks = egress.tasks().clone();
        let connector = Connector::new(tls, protocols, name, (egress, via), proxy);
        Self { pool: Arc::new(Pool::new(connector, idle, tasks)) }
    }

    /// Sends a request and waits for the head of the answer, for as long as the caller does. Its URL says
    /// where to connect to, its `Host`, if there is one, who is meant.
    ///
    /// What a connection ended too soon for is sent on another, and what may have been read by the server
    /// is sent a second time if it changes nothing and has no body: a connection that was kept may end
    /// just then, which says nothing about the server.
    pub async fn request(&self, request: Request<Outgoing>) -> Result<Response<Body>, Cause> {
        let target = Target::of(&request)?;
        let mut again = repetition(&request);
        let (mut request, mut wanted) = (request, Wanted::Any);
        loop {
            let connection = self.pool.acquire(&target.origin, wanted).await?;
            let was_kept = connection.was_kept;
            let failure = match connection.send(&target, request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            request = match (failure.unsent, again.take()) {
                (Some(unsent), repetition) if was_kept => {
                    again = repetition;
                    unsent
                }
                (_, Some(repetition)) if failure.is_of_connection => {
                    wanted = Wanted::Fresh;
                    repetition
                }
                _ => return Err(failure.cause),
            };
        }
    }

    /// As [`Client::request`], on a connection of HTTP/1.1 of its own, which may go on in another protocol:
    /// behind a 101 `hyper::upgrade::on` the answer gives it.
    pub async fn upgrade(&self, request: Request<Outgoing>) -> Result<Response<Body>, Cause> {
        let target = Target::of(&request)?;
        let connection = self.pool.apart(&target.origin).await?;
        connection.send(&target, request).await.map_err(|failure| failure.cause)
    }

    /// Uses the connections there are for no further request: those are to be made with a new certificate,
    /// say. What is on its way is not touched.
    pub fn retire(&self) {
        self.pool.clear();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

/// No body.
pub fn empty() -> Outgoing {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is there already.
pub fn full(body: Bytes) -> Outgoing {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// Where a request goes.
struct Target {
    origin: Origin,
    url: Uri,
    host: HeaderValue,
}

impl Target {
    fn of(request: &Request<Outgoing>) -> Result<Self, Cause> {
        let url = request.uri().clone();
        let origin = Origin::of(&url)?;
        let invalid = || Cause::Other("http: invalid Host header".into());
        let host = match request.headers().get(header::HOST) {
            Some(host) => host.clone(),
            None => {
                let authority = url.authority().map(uri::Authority::as_str).unwrap_or_default();
                let bare = authority.rsplit('@').next().unwrap_or(authority);
                HeaderValue::try_from(bare).map_err(|_| invalid())?
            }
        };
        Ok(Self { origin, url, host })
    }

    /// HTTP/1.1 has the host among the headers and the rest as the target.
    fn write_http1(&self, request: &mut Request<Outgoing>) {
        let path = self.url.path_and_query().cloned().unwrap_or(uri::PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        request.headers_mut().insert(header::HOST, self.host.clone());
    }

    /// HTTP/2 has the host in the target.
    fn write_http2(&self, request: &mut Request<Outgoing>) -> Result<(), Cause> {
        let invalid = |_| Cause::Other("http: invalid Host header".into());
        let mut parts = self.url.clone().into_parts();
        parts.authority = Some(uri::Authority::try_from(self.host.as_bytes()).map_err(invalid)?);
        *request.uri_mut() = Uri::from_parts(parts).map_err(|error| Cause::Other(error.to_string()))?;
        request.headers_mut().remove(header::HOST);
        Ok(())
    }
}

/// The same request once more, if it may be sent twice.
fn repetition(request: &Request<Outgoing>) -> Option<Request<Outgoing>> {
    let is_repeatable =
        matches!(*request.method(), Method::GET | Method::HEAD) && request.body().is_end_stream();
    is_repeatable.then(|| {
        let mut again = Request::new(empty());
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.headers_mut() = request.headers().clone();
        again
    })
}

/// A connection for one request.
pub(crate) struct Acquired {
    pub sender: Sender,
    pub exchange: Exchange,
    /// Whether it was used before: then its end says nothing about the server.
    pub was_kept: bool,
}

pub(crate) enum Sender {
    Http1(http1::SendRequest<Sent>),
    Http2(http2::SendRequest<Sent>),
}

/// Why a request has no answer.
struct Failure {
    cause: Cause,
    /// The request, if nothing of it was sent.
    unsent: Option<Request<Outgoing>>,
    /// Whether it was the connection that failed.
    is_of_connection: bool,
}

impl Acquired {
    async fn send(self, target: &Target, request: Request<Outgoing>) -> Result<Response<Body>, Failure> {
        let exchange = Arc::new(self.exchange);
        match self.sender {
            Sender::Http1(sender) => send_http1(sender, exchange, target, request).await,
            Sender::Http2(sender) => send_http2(sender, exchange, target, request).await,
        }
    }
}

async fn send_http1(
    mut sender: http1::SendRequest<Sent>,
    exchange: Arc<Exchange>,
    target: &Target,
    mut request: Request<Outgoing>,
) -> Result<Response<Body>, Failure> {
    target.write_http1(&mut request);
    let request = request.map(|body| Sent { body, _exchange: exchange.clone() });
    match sender.try_send_request(request).await {
        Ok(answer) => Ok(answer.map(|body| Body::new(body, exchange, Some(sender)))),
        Err(mut error) => {
            let unsent = error.take_message().map(|request| request.map(|sent| sent.body));
            let cause = Cause::of_request(error.error());
            Err(Failure { is_of_connection: cause == Cause::Eof, cause, unsent })
        }
    }
}

async fn send_http2(
    mut sender: http2::SendRequest<Sent>,
    exchange: Arc<Exchange>,
    target: &Target,
    mut request: Request<Outgoing>,
) -> Result<Response<Body>, Failure> {
    if let Err(cause) = target.write_http2(&mut request) {
        return Err(Failure { cause, unsent: None, is_of_connection: false });
    }
    let request = request.map(|body| Sent { body, _exchange: exchange.clone() });
    match sender.try_send_request(request).await {
        Ok(answer) => Ok(answer.map(|body| Body::new(body, exchange, None))),
        Err(mut error) => {
            let unsent = error.take_message().map(|request| request.map(|sent| sent.body));
            let cause = Cause::of_request(error.error());
            let is_of_connection =
                cause == Cause::Eof || sender.is_closed() || Cause::is_refused_stream(error.error());
            Err(Failure { cause, unsent, is_of_connection })
        }
    }
}

/// A request and its answer on a connection, until both bodies are gone.
pub(crate) struct Exchange {
    /// Of a connection that is kept.
    pub home: Option<Home>,
    /// Those of a connection of HTTP/2.
    pub streams: Option<Arc<Streams>>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(streams) = &self.streams {
            streams.end();
        }
    }
}

/// The body of a request on its way.
pub(crate) struct Sent {
    body: Outgoing,
    _exchange: Arc<Exchange>,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, while it comes. Dropped before its end, it ends the request.
pub struct Body {
    incoming: Incoming,
    exchange: Option<Arc<Exchange>>,
    /// The connection, if this answer is all that is on it.
    sender: Option<http1::SendRequest<Sent>>,
}

/// What was read of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub bytes: Bytes,
    /// Whether there was no more.
    pub is_whole: bool,
}

impl Body {
    fn new(incoming: Incoming, exchange: Arc<Exchange>, sender: Option<http1::SendRequest<Sent>>) -> Self {
        let mut body = Self { incoming, exchange: Some(exchange), sender };
        if body.incoming.is_end_stream() {
            body.free();
        }
        body
    }

    /// Reads at most `limit` bytes.
    pub async fn read(mut self, limit: usize) -> Result<Read, Cause> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = self.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let room = limit.saturating_sub(bytes.len());
            if data.len() > room {
                bytes.extend_from_slice(data.get(..room).unwrap_or_default());
                return Ok(Read { bytes: bytes.freeze(), is_whole: false });
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Read { bytes: bytes.freeze(), is_whole: true })
    }

    /// There is no more to come: others may have the connection.
    fn free(&mut self) {
        let Some(exchange) = self.exchange.take() else { return };
        // A request that is still being sent has the connection: it ends with it.
        if let Some(sender) = self.sender.take()
            && let Some(exchange) = Arc::into_inner(exchange)
            && let Some(home) = &exchange.home
            && let Some(pool) = home.pool.upgrade()
        {
            pool.put_back(home, sender);
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Cause;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cause>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.incoming.is_end_stream() {
            self.free();
        }
        frame.map(|frame| frame.map(|frame| frame.map_err(|error| Cause::of_body(&error))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}
