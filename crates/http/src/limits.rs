//! Every bound on what a client may ask of the server.

use std::time::Duration;

/// Request line and headers together. Beyond it the answer is 431.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Headers of an HTTP/1.1 request. Beyond it the answer is 431. This is the
/// number hyper keeps on the stack; HTTP/2 is bounded by size alone.
pub const MAX_HTTP1_HEADERS: usize = 100;

/// A request body. Beyond it the answer is 413. Upstream's figure.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// What is read of a body beyond its limit, and thrown away, so that clients
/// that are a little over get to read the answer.
pub const MAX_DISCARDED_BODY_BYTES: usize = 1024 * 1024;

/// How long a caller who is not known may take to send that much of a body,
/// before the answer goes out regardless.
pub const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// From the end of the headers to the end of the body.
pub const BODY_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// From the end of the body to the answer, for all but watches; `timeout` may ask for less. Upstream's
/// figure.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// From a connection becoming idle to the end of the next request's headers.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(90);

/// From TCP accept to the end of the TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Open connections. Further ones wait in the kernel's backlog until one ends.
pub const MAX_CONNECTIONS: usize = 8192;

/// Requests at one time on one HTTP/2 connection. Watches count.
pub const MAX_HTTP2_STREAMS: u32 = 1000;

/// Streams that a client opened and reset before we looked at them. Beyond it
/// the connection is closed (the "rapid reset" attack).
pub const MAX_HTTP2_PENDING_RESETS: usize = 20;

/// Streams that we reset because the client broke the protocol. Beyond it the
/// connection is closed.
pub const MAX_HTTP2_LOCAL_RESETS: usize = 1024;

/// How often an HTTP/2 client must prove that it is there, and how fast.
pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How long requests in flight may take to end after a stop was asked for.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// How long to wait before accepting again when the system has no file
/// descriptors or memory left.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Bytes of an answer that are made at once: what TLS takes at once. An object
/// that is larger makes a larger piece.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Documents smaller than this fit a packet and are not worth compressing.
/// Upstream's figure.
pub const MIN_GZIP_BYTES: usize = 1400;

/// Events of a watch that are sent together, if as many are there. Further ones
/// are not read before these are written: a client that does not read may lose
/// its place.
pub const WATCH_PIECE_BYTES: usize = 64 * 1024;

/// How often a watch that asked for bookmarks gets one.
pub const WATCH_BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// A watch without a timeout of its own ends after this to twice this.
pub const WATCH_MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// Texts of all `Warning` headers of an answer, in characters. Upstream's figure.
pub const MAX_WARNINGS_CHARS: usize = 4096;

/// A single one, if all of them are more than that. Upstream's figure.
pub const MAX_WARNING_CHARS: usize = 256;

/// An object or list that is longer than this is compressed for clients that
/// name gzip. Upstream's figure.
pub const MAX_PLAIN_BYTES: u64 = 128 * 1024;

/// What is compressed at once, before others get their turn.
pub const GZIP_PIECE_BYTES: usize = 64 * 1024;

/// What a client may send in one message to a watch over websocket, where
/// nothing is expected of it. Beyond it the watch ends.
pub const MAX_WEBSOCKET_MESSAGE_BYTES: usize = 64 * 1024;

/// How often a client of a websocket must prove that it is there, and how fast.
pub const WEBSOCKET_PING_INTERVAL: Duration = Duration::from_secs(30);
pub const WEBSOCKET_PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How long one message to a websocket may take. A client that is slower is
/// cut off, and can begin again where it was.
pub const WEBSOCKET_WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// An `Audit-Id` sent by the client. A longer one is replaced.
pub const MAX_AUDIT_ID_BYTES: usize = 256;

/// Of a path, in the log. What is longer is cut.
pub const MAX_LOGGED_PATH_BYTES: usize = 512;
