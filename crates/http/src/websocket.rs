//! Watches over websocket: the events of a watch, each in a message of its
//! own, for clients that cannot read a response while it comes.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts};
use http_body_util::BodyExt;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};
use sternpost_clock::machine;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use crate::{
    body::Body,
    limits::{
        MAX_WEBSOCKET_MESSAGE_BYTES, WEBSOCKET_PING_INTERVAL, WEBSOCKET_PING_TIMEOUT, WEBSOCKET_WRITE_TIMEOUT,
    },
    objects::{self, Answer},
    response::{self, PROTOBUF},
};

/// What is left to do on a connection when HTTP has ended there.
pub type Rest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Gives the rest to the connection, whose slot and task it keeps.
#[derive(Debug, Clone)]
pub struct Handover(mpsc::Sender<Rest>);

impl Handover {
    /// For one connection. The bound is one: after an upgrade no request comes.
    pub fn channel() -> (Self, mpsc::Receiver<Rest>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }

    /// Whether it was taken.
    pub fn give(&self, rest: Rest) -> bool {
        self.0.try_send(rest).is_ok()
    }
}

/// A client that asked to go on in websocket.
#[derive(Debug)]
pub struct Upgrade {
    connection: OnUpgrade,
    handover: Handover,
    headers: HeaderMap,
}

impl Upgrade {
    /// Only HTTP/1.1 has this.
    pub fn of(parts: &mut Parts) -> Option<Self> {
        if parts.method != Method::GET || !asks(&parts.headers) {
            return None;
        }
        let handover = parts.extensions.remove::<Handover>()?;
        let connection = parts.extensions.remove::<OnUpgrade>()?;
        Some(Self { connection, handover, headers: parts.headers.clone() })
    }

    /// Whether a watch goes on in websocket, by what the client says of it.
    pub fn is_accepted(&self) -> bool {
        handshake(&self.headers).status() == StatusCode::SWITCHING_PROTOCOLS
    }

    /// Goes on in websocket if `answer` is a watch, else stays with `answer`.
    pub fn answer(self, answer: Answer) -> Answer {
        if !answer.body().is_watch() {
            return answer;
        }
        let mut switching = handshake(&self.headers);
        if switching.status() != StatusCode::SWITCHING_PROTOCOLS {
            return objects::whole(switching);
        }
        let (old, body) = answer.into_parts();
        let protobuf = old
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|media_type| media_type.as_bytes().starts_with(PROTOBUF.as_bytes()));
        let framing = if protobuf { Framing::Lengths } else { Framing::Lines };
        let rest = Box::pin(run(self.connection, body, framing));
        if !self.handover.give(rest) {
            switching = response::empty(StatusCode::BAD_REQUEST);
        }
        objects::whole(switching)
    }
}

/// `Authorization` as browsers can send it: they cannot set headers of a
/// websocket, but may name protocols. As upstream, the token must not be the
/// only one.
pub fn authorization(headers: &HeaderMap) -> Option<Vec<u8>> {
    if !asks(headers) {
        return None;
    }
    let offered: Vec<&str> = protocols(headers).collect();
    let mut tokens = offered.iter().filter_map(|protocol| protocol.strip_prefix(BEARER_PREFIX));
    let token = URL_SAFE_NO_PAD.decode(tokens.next()?).ok()?;
    // One token beside at least one real protocol.
    let valid = tokens.next().is_none() && offered.len() > 1 && std::str::from_utf8(&token).is_ok();
    valid.then(|| [b"Bearer ".as_slice(), &token].concat())
}

const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

fn asks(headers: &HeaderMap) -> bool {
    let is = |name, word: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    is(header::UPGRADE, "websocket") && is(header::CONNECTION, "upgrade")
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.is_empty())
}

/// The answer that ends HTTP (101), or a refusal.
fn handshake(headers: &HeaderMap) -> response::Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text(header::SEC_WEBSOCKET_VERSION) != "13" {
        let mut refusal = response::plain_text(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        refusal.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return refusal;
    }
    let key = text(header::SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return response::plain_text(StatusCode::BAD_REQUEST, "mismatch challenge/response");
    }
    let mut offered = protocols(headers).filter(|protocol| !protocol.starts_with(BEARER_PREFIX));
    let protocol = offered.next();
    // Any one protocol will do, as all events look the same; a choice is not ours.
    if offered.next().is_some() {
        return response::empty(StatusCode::BAD_REQUEST);
    }
    // Which origin it is does not matter: credentials are not sent by browsers
    // on their own.
    let is_origin = |uri: &Uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty());
    if !text(header::ORIGIN).parse().is_ok_and(|uri| is_origin(&uri)) {
        return response::empty(StatusCode::FORBIDDEN);
    }
    let mut switching = response::empty(StatusCode::SWITCHING_PROTOCOLS);
    let answer = switching.headers_mut();
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    for (name, value) in
        [(header::SEC_WEBSOCKET_ACCEPT, Some(&*accept_key(key))), (header::SEC_WEBSOCKET_PROTOCOL, protocol)]
    {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            answer.insert(name, value);
        }
    }
    switching
}

/// By RFC 6455, section 4.2.2.
fn accept_key(key: &str) -> String {
    const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(SALT.as_bytes());
    STANDARD.encode(hash.finalize())
}

/// Sends events until the watch ends or the client does, then says goodbye.
async fn run(connection: OnUpgrade, body: Body, framing: Framing) {
    let Ok(connection) = connection.await else { return };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_WEBSOCKET_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_WEBSOCKET_MESSAGE_BYTES));
    let mut socket: Socket =
        WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, Some(config)).await;
    let events = Events { framing, body, buffer: BytesMut::new() };
    let end = send(&mut socket, events).await;
    // A client that does not answer in time misses nothing.
    let _ = machine::timeout(CLOSE_TIMEOUT, close(socket, end)).await;
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// How the sending of events ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By us, for this reason.
    Ours(CloseCode),
    /// The client said goodbye.
    Theirs,
    /// Nobody is there, or nobody who reads.
    Lost,
}

async fn send<S>(socket: &mut WebSocketStream<S>, mut events: Events) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut ping = pin!(machine::sleep(WEBSOCKET_PING_INTERVAL));
    let mut heard = machine::now();
    loop {
        let message = tokio::select! {
            event = events.next() => match event {
                Some(message) => message,
                // As upstream, a watch that is over ends normally.
                None => return End::Ours(CloseCode::Normal),
            },
            said = socket.next() => match said {
                Some(Ok(Message::Close(_))) => return End::Theirs,
                // Nothing is expected, so it is not looked at; pings are
                // answered by the library.
                Some(Ok(_)) => {
                    heard = machine::now();
                    continue;
                }
                Some(Err(Error::Capacity(_))) => return End::Ours(CloseCode::Size),
                Some(Err(Error::Protocol(_))) => return End::Ours(CloseCode::Protocol),
                Some(Err(_)) | None => return End::Lost,
            },
            () = &mut ping => {
                let next = ping.deadline() + WEBSOCKET_PING_INTERVAL;
                ping.as_mut().reset(next);
                if machine::elapsed(heard) > WEBSOCKET_PING_INTERVAL + WEBSOCKET_PING_TIMEOUT {
                    return End::Lost;
                }
                Message::Ping(Bytes::new())
            }
        };
        match machine::timeout(WEBSOCKET_WRITE_TIMEOUT, socket.send(message)).await {
            Ok(Ok(())) => {}
            _ => return End::Lost,
        }
    }
}

/// How long the goodbye and its answer may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

async fn close(mut socket: Socket, end: End) {
    if let End::Ours(code) = end {
        let goodbye = CloseFrame { code, reason: Utf8Bytes::default() };
        if socket.close(Some(goodbye)).await.is_err() {
            return;
        }
    }
    if end != End::Lost {
        // Reading to the end also sends the library's answer to a goodbye.
        while let Some(Ok(_)) = socket.next().await {}
        // TLS says goodbye, too: without it the end looks like an attack.
        let _ = socket.get_mut().shutdown().await;
    }
}

/// How events follow each other in the body of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// JSON: each is a line, and is sent with its end, as text.
    Lines,
    /// Protobuf: each has its length before it, which is not sent.
    Lengths,
}

struct Events {
    framing: Framing,
    body: Body,
    buffer: BytesMut,
}

impl Events {
    /// May be dropped at any time: what was read stays in the buffer.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.framing.take(&mut self.buffer) {
                return Some(message);
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

impl Framing {
    fn take(self, buffer: &mut BytesMut) -> Option<Message> {
        match self {
            Self::Lines => {
                let end = buffer.iter().position(|byte| *byte == b'\n')?;
                let line = buffer.split_to(end + 1).freeze();
                Some(match Utf8Bytes::try_from(line.clone()) {
                    Ok(text) => Message::Text(text),
                    // JSON is UTF-8; were it not, it would still arrive.
                    Err(_) => Message::Binary(line),
                })
            }
            Self::Lengths => {
                let head = buffer.first_chunk::<4>()?;
                let length = usize::try_from(u32::from_be_bytes(*head)).ok()?;
                let size = length.checked_add(head.len())?;
                if buffer.len() < size {
                    return None;
                }
                let mut event = buffer.split_to(size);
                Some(Message::Binary(event.split_off(4).freeze()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;
    use crate::testing;

    const ASK: [(&str, &str); 5] = [
        ("upgrade", "websocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("origin", "http://x.com"),
    ];

    fn with(changes: &[(&str, &str)]) -> HeaderMap {
        let mut headers = testing::headers(&ASK);
        for (name, value) in changes {
            headers.insert(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_key_of_the_rfc_is_accepted() {
        let answer = handshake(&with(&[]));
        assert_eq!(answer.status(), 101);
        assert_eq!(testing::header(&answer, "sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(testing::header(&answer, "sec-websocket-protocol"), None);
    }

    /// Recorded from kube-apiserver 1.36.4.
    #[test]
    fn handshakes_are_refused_as_upstream_refuses_them() {
        let token = "base64url.bearer.authorization.k8s.io.b3JhY2xl, binary.k8s.io";
        for (name, value, code, protocol) in [
            ("sec-websocket-protocol", "binary.k8s.io", 101, Some("binary.k8s.io")),
            ("sec-websocket-protocol", "foo", 101, Some("foo")),
            ("sec-websocket-protocol", token, 101, Some("binary.k8s.io")),
            ("sec-websocket-protocol", "v4.channel.k8s.io, base64.binary.k8s.io", 400, None),
            ("sec-websocket-version", "8", 400, None),
            ("sec-websocket-key", "", 400, None),
            ("origin", "https://x.com:8443", 101, None),
            ("origin", "null", 403, None),
            ("origin", "", 403, None),
            ("origin", "nonsense", 403, None),
            ("origin", "http://[::1", 403, None),
            ("origin", "%zz", 403, None),
        ] {
            let answer = handshake(&with(&[(name, value)]));
            assert_eq!(answer.status(), code, "{name}: {value}");
            assert_eq!(testing::header(&answer, "sec-websocket-protocol"), protocol, "{name}: {value}");
        }
    }

    #[test]
    fn a_token_may_stand_among_protocols_but_not_alone() {
        let token = "base64url.bearer.authorization.k8s.io.b3JhY2xl";
        for (value, expected) in [
            (format!("{token}, binary.k8s.io"), Some("Bearer oracle")),
            (format!("binary.k8s.io,{token}"), Some("Bearer oracle")),
            (token.into(), None),
            (format!("{token}, {token}"), None),
            (format!("{BEARER_PREFIX}!!!, binary.k8s.io"), None),
            (format!("{BEARER_PREFIX}_w, binary.k8s.io"), None),
            ("binary.k8s.io".into(), None),
        ] {
            let found = authorization(&with(&[("sec-websocket-protocol", &value)]));
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{value}");
        }
        let plain = testing::headers(&[("sec-websocket-protocol", &format!("{token}, binary.k8s.io"))]);
        assert_eq!(authorization(&plain), None);
    }

    /// A watch whose events are there, and the two ends of a connection that
    /// holds little.
    async fn connected(events: &[&str]) -> (Events, WebSocketStream<DuplexStream>, DuplexStream) {
        let (sender, receiver) = mpsc::channel(16);
        for event in events {
            sender.send(Bytes::copy_from_slice(event.as_bytes())).await.unwrap();
        }
        // Held open: the watch does not end.
        tokio::spawn(async move { sender.closed().await });
        let (ours, theirs) = tokio::io::duplex(1024);
        let socket = WebSocketStream::from_raw_socket(ours, Role::Server, None).await;
        let body = Body::Stream(receiver);
        (Events { framing: Framing::Lines, body, buffer: BytesMut::new() }, socket, theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let long = format!("{}\n", "x".repeat(4096));
        let (events, mut socket, _theirs) = connected(&[&long]).await;
        let start = machine::now();
        assert_eq!(send(&mut socket, events).await, End::Lost);
        assert_eq!(start.elapsed().as_secs(), WEBSOCKET_WRITE_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_no_ping_is_cut_off() {
        let (events, mut socket, _theirs) = connected(&["{}\n"]).await;
        let start = machine::now();
        assert_eq!(send(&mut socket, events).await, End::Lost);
        assert_eq!(start.elapsed().as_secs(), 2 * WEBSOCKET_PING_INTERVAL.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_pings_stays() {
        let (events, mut socket, theirs) = connected(&["{}\n"]).await;
        let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
        let reading = async {
            // One event, then pings, which the library answers.
            for _ in 0..10 {
                client.next().await.unwrap().unwrap();
            }
            client.close(None).await.unwrap();
        };
        let start = machine::now();
        let (end, ()) = tokio::join!(send(&mut socket, events), reading);
        assert_eq!(end, End::Theirs);
        assert_eq!(start.elapsed().as_secs(), 9 * WEBSOCKET_PING_INTERVAL.as_secs());
    }

    #[test]
    fn events_are_cut_where_they_end_however_they_arrive() {
        for (framing, stream, expected) in [
            (Framing::Lines, "{1}\n{22}\n{3", &["{1}\n", "{22}\n"][..]),
            (Framing::Lengths, "\0\0\0\x01a\0\0\0\0\0\0\0\x02bc\0\0\0\x05d", &["a", "", "bc"]),
        ] {
            for step in 1..=stream.len() {
                let mut buffer = BytesMut::new();
                let mut found = Vec::new();
                for piece in stream.as_bytes().chunks(step) {
                    buffer.extend_from_slice(piece);
                    while let Some(message) = framing.take(&mut buffer) {
                        assert_eq!(message.is_text(), framing == Framing::Lines);
                        found.push(message.into_data());
                    }
                }
                assert_eq!(found, expected, "{framing:?} in steps of {step}");
            }
        }
    }
}
