//! Every bound on what a client may ask of the server. Those with a flag are in
//! [`Limits`] and in `docs/limits.md`.

use std::{net::IpAddr, num::ParseIntError, str::FromStr, time::Duration};

/// Bounds that can be chosen.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections. Beyond it the oldest that asks for nothing makes room, first one by which
    /// nobody known has asked.
    pub connections: usize,
    /// Of these, how many are kept for connections by which somebody known has asked.
    pub reserved_connections: usize,
    /// Connections of one address by which nobody known has asked.
    pub connections_per_address: usize,
    /// Addresses whose connections are not counted, besides loopback.
    pub trusted_proxies: Vec<Network>,
    /// From accept to the first request of somebody known.
    pub authentication: Duration,
    /// How long a connection may be without requests.
    pub idle: Duration,
    /// How long a client may take nothing of an answer that is there.
    pub write: Duration,
    /// From the end of a request's body to its answer, for all but those that go on, such as watches;
    /// `timeout` may ask for less.
    pub request: Duration,
    /// Requests at one time on one HTTP/2 connection. Watches count.
    pub streams: u32,
    /// Memory of the requests in flight of one user. Each takes [`PIECE_BYTES`], its body, and what
    /// is held of its answer beyond that.
    pub memory_per_user: usize,
    /// Bytes of request bodies in flight of all users. One may have a quarter.
    pub request_bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            reserved_connections: 12_288,
            connections_per_address: 1024,
            trusted_proxies: Vec::new(),
            authentication: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            write: Duration::from_secs(60),
            request: REQUEST_TIMEOUT,
            streams: 1000,
            memory_per_user: 1 << 30,
            request_bodies: 512 << 20,
        }
    }
}

/// `ADDRESS/PREFIX`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

/// Why a text is no [`Network`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    #[error("`{0}` is not an IP address")]
    Address(String),
    #[error("the prefix is not a number: {0}")]
    Number(#[from] ParseIntError),
    #[error("a prefix of {0} bits is longer than the address")]
    TooLong(u32),
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(text, bits)| (text, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address(address.to_owned()))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), str::parse)?;
        if prefix > longest {
            return Err(NetworkError::TooLong(prefix));
        }
        Ok(Self { address, prefix })
    }
}

impl Network {
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                (net.to_bits() ^ address.to_bits()).leading_zeros() >= self.prefix
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                (net.to_bits() ^ address.to_bits()).leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

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

/// How long a request may take unless the server is told otherwise. Upstream's figure.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// From TCP accept to the end of the TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How much is read of a request that came without TLS, so that its client sees the answer.
pub const MAX_PLAINTEXT_BYTES: u64 = 64 << 10;

/// How long a connection that was told to end may stay without requests.
pub const RETIREMENT_GRACE: Duration = Duration::from_secs(5);

/// How often the log tells of one budget.
pub const BUDGET_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What compressing an answer takes besides the answer.
pub const GZIP_STATE_BYTES: usize = 384 * 1024;

/// What is handed over of one HTTP/2 stream before the client has taken it. It is accounted for to
/// the user beyond [`PIECE_BYTES`].
pub const HTTP2_SEND_BUFFER_BYTES: usize = 4 * PIECE_BYTES;

/// What is held back of one HTTP/2 connection in a turn of it, to be sent together: a TLS record. What would
/// be more than this is sent at once.
pub const MAX_HELD_BYTES: usize = 16 * 1024;

/// Streams that a client opened and reset before we looked at them. Beyond it
/// the connection is closed (the "rapid reset" attack).
pub const MAX_HTTP2_PENDING_RESETS: usize = 20;

/// Streams that we reset because the client broke the protocol. Beyond it the
/// connection is closed.
pub const MAX_HTTP2_LOCAL_RESETS: usize = 1024;

/// So many requests of a connection of HTTP/2 are begun in one of its turns; others wait for a turn
/// of their own.
pub const MAX_REQUESTS_PER_TURN: usize = 8;

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

/// Sets of labels under which requests are counted. Beyond it only verb and scope are told of new ones.
pub const MAX_REQUEST_SERIES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_addresses_to_the_bit() {
        for (net, address, expected) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "255.0.0.1", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ] {
            let net: Network = net.parse().unwrap();
            assert_eq!(net.contains(address.parse().unwrap()), expected, "{net:?} {address}");
        }
        for wrong in ["", "localhost", "192.0.2.0/33", "::/129", "192.0.2.0/", "192.0.2.0/x"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
