//! Why nothing came back, in upstream's words.

use std::{error::Error, io, net::SocketAddr};

use rustls::{AlertDescription, CertificateError, pki_types::UnixTime};
use sternpost_golang::time::Timestamp;

use crate::egress::{Network, Refusal};

/// What went wrong on the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// Where the service is is not known; the resolver's text.
    #[error("{0}")]
    Service(String),
    #[error("dial tcp: lookup {host}: {problem}")]
    Lookup { host: String, problem: String },
    /// The address policy; says how to lift it.
    #[error("dial tcp {address}: refused: {why}; --egress-allow {} allows it", Network::from(address.ip()))]
    Refused { address: SocketAddr, why: Refusal },
    #[error("dial tcp {address}: {problem}")]
    Dial { address: SocketAddr, problem: String, system: String },
    /// A proxy did not make a tunnel.
    #[error("proxyconnect tcp: {0}")]
    Proxy(String),
    #[error("net/http: TLS handshake timeout")]
    HandshakeTimeout,
    #[error("tls: failed to verify certificate: x509: {problem}")]
    Certificate { problem: String, system: String },
    #[error("{0}")]
    Tls(String),
    #[error("context deadline exceeded")]
    Deadline,
    #[error("net/http: request canceled (Client.Timeout or context cancellation while reading body)")]
    BodyDeadline,
    #[error("EOF")]
    Eof,
    #[error("unexpected EOF")]
    UnexpectedEof,
    #[error("{0}")]
    Other(String),
}

impl Cause {
    /// Whether there was no connection at all.
    pub fn is_connect(&self) -> bool {
        matches!(
            self,
            Self::Service(_)
                | Self::Lookup { .. }
                | Self::Refused { .. }
                | Self::Dial { .. }
                | Self::Proxy(_)
                | Self::HandshakeTimeout
                | Self::Certificate { .. }
                | Self::Tls(_)
        )
    }

    /// The same in the words of the system and of the libraries, for people at a terminal.
    pub fn in_system_words(&self) -> String {
        match self {
            Self::Dial { system, .. } => format!("tcp connect error: {system}"),
            Self::Certificate { system, .. } => system.clone(),
            Self::Eof => "connection closed before message completed".into(),
            Self::UnexpectedEof => "end of file before message length reached".into(),
            other => other.to_string(),
        }
    }

    pub(crate) fn of_dial(address: SocketAddr, error: &io::Error) -> Self {
        let problem = match error.kind() {
            io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
            _ => format!("connect: {}", system_text(error)),
        };
        Self::Dial { address, problem, system: error.to_string() }
    }

    /// A handshake that failed.
    pub(crate) fn of_tls(error: &io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return match tls {
                rustls::Error::InvalidCertificate(problem) => {
                    Self::Certificate { problem: certificate_text(problem), system: tls.to_string() }
                }
                rustls::Error::InvalidMessage(_) => {
                    Self::Tls("tls: first record does not look like a TLS handshake".into())
                }
                rustls::Error::AlertReceived(alert) => {
                    Self::Tls(format!("remote error: tls: {}", alert_text(*alert)))
                }
                other => Self::Tls(format!("tls: {other}")),
            };
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Eof,
            _ => Self::Other(format!("read: {}", system_text(error))),
        }
    }

    /// A tunnel that was not made.
    pub(crate) fn of_tunnel(error: &(dyn Error + 'static)) -> Self {
        let mut source = Some(error);
        while let Some(error) = source {
            if let Some(cause) = error.downcast_ref::<Self>() {
                return cause.clone();
            }
            source = error.source();
        }
        Self::Proxy(error.to_string())
    }

    /// A request that got no answer.
    pub(crate) fn of_request(error: &hyper::Error) -> Self {
        Self::of_hyper(error, Self::Eof)
    }

    /// Whether a server of HTTP/2 says that it has not looked at a request.
    pub(crate) fn is_refused_stream(error: &hyper::Error) -> bool {
        let h2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
        h2.and_then(h2::Error::reason) == Some(h2::Reason::REFUSED_STREAM)
    }

    /// An answer that broke off.
    pub(crate) fn of_body(error: &hyper::Error) -> Self {
        Self::of_hyper(error, Self::UnexpectedEof)
    }

    fn of_hyper(error: &hyper::Error, end: Self) -> Self {
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            return end;
        }
        if error.is_timeout() {
            return Self::Other("http2: client connection lost".into());
        }
        if error.is_parse() {
            return Self::Other(format!(
                "net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}"
            ));
        }
        let (mut source, mut text) = (error.source(), error.to_string());
        while let Some(error) = source {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return match error.kind() {
                    io::ErrorKind::UnexpectedEof => end,
                    // So the end of a connection is told to the streams of HTTP/2 on it.
                    io::ErrorKind::BrokenPipe if error.raw_os_error().is_none() => end,
                    _ => Self::Other(format!("read: {}", system_text(error))),
                };
            }
            // The innermost says most: hyper's own words are the same for everything that HTTP/2 reports.
            text = error.to_string();
            source = error.source();
        }
        Self::Other(text)
    }
}

/// What Go calls an error of the system.
fn system_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".into(),
        io::ErrorKind::HostUnreachable => "no route to host".into(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::BrokenPipe => "broken pipe".into(),
        io::ErrorKind::TimedOut => "connection timed out".into(),
        _ => error.to_string().to_lowercase(),
    }
}

fn certificate_text(problem: &CertificateError) -> String {
    let dates = "certificate has expired or is not yet valid: current time";
    match problem {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".into(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{dates} {} is after {}", date(*time), date(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{dates} {} is before {}", date(*time), date(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            name_text(&expected.to_str(), presented)
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".into()
        }
        other => other.to_string(),
    }
}

/// Names and addresses are compared with their own kind only, and only those are told.
fn name_text(expected: &str, presented: &[String]) -> String {
    // What the library gives is `DnsName("a.b")` and `IpAddress(1.2.3.4)`.
    let inside = |name: &str, open: &str, close: &str| {
        name.strip_prefix(open).and_then(|name| name.strip_suffix(close)).map(str::to_owned)
    };
    let is_address = expected.parse::<std::net::IpAddr>().is_ok();
    let names: Vec<String> = presented
        .iter()
        .filter_map(|name| {
            if is_address { inside(name, "IpAddress(", ")") } else { inside(name, "DnsName(\"", "\")") }
        })
        .collect();
    match (names.is_empty(), is_address) {
        (true, true) => {
            format!("cannot validate certificate for {expected} because it doesn't contain any IP SANs")
        }
        (true, false) => {
            format!("certificate is not valid for any names, but wanted to match {expected}")
        }
        (false, _) => format!("certificate is valid for {}, not {expected}", names.join(", ")),
    }
}

fn date(time: UnixTime) -> String {
    Timestamp::from_unix(i64::try_from(time.as_secs()).unwrap_or(i64::MAX), 0).to_time()
}

/// Go's names of the alerts a server may well send.
fn alert_text(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::HandshakeFailure => "handshake failure".into(),
        AlertDescription::ProtocolVersion => "protocol version not supported".into(),
        AlertDescription::InternalError => "internal error".into(),
        AlertDescription::UnrecognisedName => "unrecognized name".into(),
        AlertDescription::NoApplicationProtocol => "no application protocol".into(),
        AlertDescription::CertificateRequired => "certificate required".into(),
        AlertDescription::BadCertificate => "bad certificate".into(),
        AlertDescription::AccessDenied => "access denied".into(),
        AlertDescription::InsufficientSecurity => "insufficient security level".into(),
        other => format!("{other:?}"),
    }
}
