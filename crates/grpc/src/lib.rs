//! gRPC on one HTTP/2 connection: calls, and streams in both directions.
//!
//! Entry points: [`Client::call`] for one message that is answered by one, [`Client::begin`] for streams. Whoever
//! has the connection makes it, drives it, and writes the messages down with prost.
//!
//! Nothing is tried again here. [`CallError`] says whether the server can have acted on a call, which
//! decides whether it may be tried again at all. The crate does not know who is called, nor over what.

use std::{fmt, future::poll_fn, sync::Arc, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, uri};
use prost::Message;
use sternpost_clock::machine;

/// The largest message that is read. etcd takes requests of 1.5 MB; an answer has several of them.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Before a message: whether it is compressed, and its length in four bytes.
const PREFIX_BYTES: usize = 5;

/// Status codes of gRPC that are looked at.
pub mod code {
    pub const OK: i32 = 0;
    pub const UNKNOWN: i32 = 2;
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const NOT_FOUND: i32 = 5;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const OUT_OF_RANGE: i32 = 11;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const UNAVAILABLE: i32 = 14;
    pub const UNAUTHENTICATED: i32 = 16;
}

/// What a call came to, if not to its answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server has not acted on it and will not.
    #[error("{0}")]
    NotSent(String),
    /// Whether the server has acted on it is not known.
    #[error("{0}")]
    Broken(String),
    /// The answer is larger than [`MAX_MESSAGE_BYTES`].
    #[error("the answer has {0} bytes, more than {MAX_MESSAGE_BYTES}")]
    TooLarge(usize),
    #[error(transparent)]
    Status(#[from] Status),
}

/// What a server answers in place of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Status {
    pub code: i32,
    pub message: String,
}

/// A connection that calls can be made on. Clones are the same connection.
#[derive(Clone)]
pub struct Client {
    send: SendRequest<Bytes>,
    origin: Arc<Origin>,
}

struct Origin {
    scheme: uri::Scheme,
    authority: uri::Authority,
    /// Sent with every call.
    metadata: HeaderMap,
}

impl Client {
    pub fn new(
        send: SendRequest<Bytes>,
        scheme: uri::Scheme,
        authority: uri::Authority,
        metadata: HeaderMap,
    ) -> Self {
        Self { send, origin: Arc::new(Origin { scheme, authority, metadata }) }
    }

    /// The same connection with one more header.
    #[must_use]
    pub fn with(self, name: &'static str, value: HeaderValue) -> Self {
        let Origin { scheme, authority, metadata } = &*self.origin;
        let mut metadata = metadata.clone();
        metadata.insert(name, value);
        let origin = Origin { scheme: scheme.clone(), authority: authority.clone(), metadata };
        Self { send: self.send, origin: Arc::new(origin) }
    }

    /// One message for one message.
    pub async fn call<Answer: Message + Default>(
        &self,
        path: &'static str,
        request: &impl Message,
        patience: Duration,
    ) -> Result<Answer, CallError> {
        let due = machine::within(patience);
        let begun = machine::timeout_at(due, self.begin(path)).await;
        let mut stream = begun.map_err(|_| CallError::NotSent(format!("not sent in {patience:?}")))??;
        // From here on the server may act on it.
        let answer = async {
            stream.send(request, End::AfterThis)?;
            stream.next::<Answer>().await?.ok_or_else(|| broken("the stream ended without an answer"))
        };
        match machine::timeout_at(due, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(broken(&format!("no answer in {patience:?}"))),
        }
    }

    /// A call whose messages go both ways for as long as it is wanted.
    pub async fn begin(&self, path: &'static str) -> Result<Streaming, CallError> {
        let not_sent = |error: &dyn fmt::Display| CallError::NotSent(error.to_string());
        let mut send = self.send.clone().ready().await.map_err(|error| not_sent(&error))?;
        let uri = Uri::builder()
            .scheme(self.origin.scheme.clone())
            .authority(self.origin.authority.clone())
            .path_and_query(path)
            .build()
            .map_err(|error| not_sent(&error))?;
        let mut request = Request::post(uri).body(()).map_err(|error| not_sent(&error))?;
        *request.headers_mut() = self.origin.metadata.clone();
        request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
        request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        let (response, send) = send.send_request(request, false).map_err(|error| not_sent(&error))?;
        Ok(Streaming { send, receive: Receive::Headers(response), buffer: BytesMut::new() })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the headers: a token is among them.
        f.debug_struct("Client").field("authority", &self.origin.authority).finish_non_exhaustive()
    }
}

/// A stream of messages in both directions.
pub struct Streaming {
    send: SendStream<Bytes>,
    receive: Receive,
    /// What came of the next message.
    buffer: BytesMut,
}

enum Receive {
    Headers(h2::client::ResponseFuture),
    Messages(RecvStream),
    Ended,
}

/// Whether anything is sent after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    AfterThis,
    Open,
}

impl Streaming {
    /// Hands a message over; it leaves when the server's window lets it.
    pub fn send(&mut self, message: &impl Message, end: End) -> Result<(), CallError> {
        let sent = self.send.send_data(frame(message), end == End::AfterThis);
        sent.map_err(|error| of_h2(&error))
    }

    /// The next message; `None` at the end of the stream. May be dropped and called again.
    pub async fn next<Answer: Message + Default>(&mut self) -> Result<Option<Answer>, CallError> {
        loop {
            if let Some(message) = self.buffered()? {
                let message = Answer::decode(message);
                return message.map(Some).map_err(|error| broken(&format!("malformed answer: {error}")));
            }
            match &mut self.receive {
                Receive::Headers(response) => {
                    let response = response.await.map_err(|error| of_h2(&error))?;
                    let (head, body) = response.into_parts();
                    self.receive = Receive::Messages(body);
                    if head.status != StatusCode::OK {
                        return Err(broken(&format!("HTTP status {}", head.status)));
                    }
                    // A call that is refused has its status here, and no body.
                    if head.headers.contains_key("grpc-status") {
                        self.receive = Receive::Ended;
                        status_of(&head.headers)?;
                    }
                }
                Receive::Messages(body) => match poll_fn(|context| body.poll_data(context)).await {
                    Some(data) => {
                        let data = data.map_err(|error| of_h2(&error))?;
                        // What is read makes room at once: this side bounds what it keeps by the message.
                        let _ = body.flow_control().release_capacity(data.len());
                        self.buffer.extend_from_slice(&data);
                    }
                    None => {
                        let trailers = body.trailers().await.map_err(|error| of_h2(&error))?;
                        self.receive = Receive::Ended;
                        status_of(&trailers.unwrap_or_default())?;
                    }
                },
                Receive::Ended => return Ok(None),
            }
        }
    }

    /// A message that is there as a whole.
    fn buffered(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some(mut prefix) = self.buffer.get(..PREFIX_BYTES) else { return Ok(None) };
        if prefix.get_u8() != 0 {
            return Err(broken("a compressed message, which was not asked for"));
        }
        let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_BYTES {
            return Err(CallError::TooLarge(length));
        }
        if self.buffer.len() - PREFIX_BYTES < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

impl fmt::Debug for Streaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming").field("buffered", &self.buffer.len()).finish_non_exhaustive()
    }
}

/// A message as it is sent.
pub fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + length);
    out.put_u8(0);
    // Transactions are limited to a few megabytes long before they get here.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    let written = message.encode(&mut out);
    debug_assert!(written.is_ok(), "the buffer grows");
    out.freeze()
}

/// What stands at the end of a stream.
fn status_of(headers: &HeaderMap) -> Result<(), Status> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse().ok()).unwrap_or(code::UNKNOWN);
    match code {
        code::OK => Ok(()),
        code => Err(Status { code, message: decoded(text("grpc-message").unwrap_or_default()) }),
    }
}

/// Messages have percent signs for what headers cannot have.
fn decoded(message: &str) -> String {
    let mut out = Vec::with_capacity(message.len());
    let mut rest = message.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%');
        let byte = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn broken(reason: &str) -> CallError {
    CallError::Broken(reason.to_owned())
}

fn of_h2(error: &h2::Error) -> CallError {
    // The one way in which a server promises not to have acted.
    if error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM) {
        return CallError::NotSent(error.to_string());
    }
    CallError::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_from_headers() {
        type Headers = &'static [(&'static str, &'static str)];
        type Case = (Headers, Result<(), (i32, &'static str)>);
        let cases: [Case; 5] = [
            (&[("grpc-status", "0")], Ok(())),
            (&[("grpc-status", "14"), ("grpc-message", "no%20leader%2")], Err((14, "no leader%2"))),
            (&[("grpc-status", "x"), ("grpc-message", "%zz%c3%a9")], Err((code::UNKNOWN, "%zzé"))),
            (&[("grpc-status", "5")], Err((5, ""))),
            (&[], Err((code::UNKNOWN, ""))),
        ];
        for (headers, expected) in cases {
            let headers = headers
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            let found = status_of(&headers.collect());
            let expected = expected.map_err(|(code, message)| Status { code, message: message.to_owned() });
            assert_eq!(found, expected);
        }
    }
}
