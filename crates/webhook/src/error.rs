//! Why a call failed, in upstream's words.

use std::{error::Error, io, net::SocketAddr};

use rustls::{AlertDescription, CertificateError, pki_types::UnixTime};
use serde_json::Value;
use sternpost_golang::{strconv::go_quote, time::Timestamp};

use crate::egress::{Network, Refusal};

/// How much of a failed answer's text an error repeats, in bytes.
pub const MAX_QUOTED: usize = 2048;

/// A call without a usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There was no answer.
    #[error("Post {}: {cause}", go_quote(url))]
    Transport { url: String, cause: Cause },
    /// The answer began and did not end.
    #[error("unexpected error when reading response body. Please retry. Original error: {0}")]
    Body(Cause),
    /// An answer that is not a success; the text says what it is.
    #[error("{text}")]
    Refused { code: u16, text: String },
    #[error("0-length response with status code: {code} and content type: {media}")]
    Empty { code: u16, media: String },
    #[error("the response is larger than {limit} bytes")]
    TooLarge { limit: usize },
}

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
    Dial { address: SocketAddr, problem: String },
    #[error("net/http: TLS handshake timeout")]
    HandshakeTimeout,
    #[error("tls: failed to verify certificate: x509: {0}")]
    Certificate(String),
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

impl CallError {
    /// Whether time ran out, for those who count such calls apart.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Transport { cause, .. } | Self::Body(cause) => {
                matches!(cause, Cause::Deadline | Cause::BodyDeadline | Cause::HandshakeTimeout)
            }
            Self::Refused { .. } | Self::Empty { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// An answer with a code that is not a success. A `Status` speaks for itself, text is quoted where
    /// upstream does.
    pub(crate) fn of_answer(code: u16, media: &str, body: &[u8]) -> Self {
        let text = status_message(body).unwrap_or_else(|| {
            let is_text = media.is_empty() || media.to_ascii_lowercase().starts_with("text/");
            let body = if is_text { body.get(..MAX_QUOTED).unwrap_or(body) } else { &[] };
            let said = String::from_utf8_lossy(body).trim().to_owned();
            let said = if said.is_empty() { "unknown".to_owned() } else { said };
            code_text(code, &said)
        });
        Self::Refused { code, text }
    }
}

impl Cause {
    pub(crate) fn of_dial(address: SocketAddr, error: &io::Error) -> Self {
        let problem = match error.kind() {
            io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
            _ => format!("connect: {}", system_text(error)),
        };
        Self::Dial { address, problem }
    }

    /// A handshake that failed.
    pub(crate) fn of_tls(error: &io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return match tls {
                rustls::Error::InvalidCertificate(problem) => Self::Certificate(certificate_text(problem)),
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

    /// A request that got no answer: our own cause, if connecting failed, else what hyper makes of it.
    pub fn of_http(error: &hyper_util::client::legacy::Error) -> Self {
        let mut source: Option<&(dyn Error + 'static)> = error.source();
        while let Some(error) = source {
            if let Some(cause) = error.downcast_ref::<Self>() {
                return cause.clone();
            }
            if let Some(error) = error.downcast_ref::<hyper::Error>() {
                return Self::of_hyper(error, Self::Eof);
            }
            source = error.source();
        }
        Self::Other(error.to_string())
    }

    /// An answer that broke off.
    pub fn of_body(error: &hyper::Error) -> Self {
        Self::of_hyper(error, Self::UnexpectedEof)
    }

    fn of_hyper(error: &hyper::Error, end: Self) -> Self {
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            return end;
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

/// The message of a `Status`, if that is what it is.
fn status_message(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_status = text("kind") == "Status" && text("apiVersion") == "v1" && text("status") != "Success";
    is_status.then(|| text("message").to_owned())
}

fn code_text(code: u16, said: &str) -> String {
    match code {
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 | 415 => said.into(),
        404 => "the server could not find the requested resource".into(),
        405 => "the server does not allow this method on the requested resource".into(),
        406 if said == "unknown" => {
            "the server was unable to respond with a content type that the client supports".into()
        }
        406 => said.into(),
        409 => "the server reported a conflict".into(),
        422 => "the server rejected our request due to an error in our request".into(),
        429 => "the server has received too many requests and has asked us to try again later".into(),
        503 => "the server is currently unable to handle the request".into(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".into(),
        500.. => format!("an error on the server ({}) has prevented the request from succeeding", go_quote(said)),
        _ => format!("the server responded with the status code {code} but did not return more information"),
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
