//! The few kinds of response that handlers send.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use sternpost_meta::status::Status;

use crate::{
    accept::{Accept, Clause},
    pretty,
    request::Request,
};

pub type Response = http::Response<Full<Bytes>>;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The forms of whatever has a kind, in the order in which errors name them.
pub const TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];

pub const TEXT: &str = "text/plain; charset=utf-8";

/// How a JSON document is spaced. As upstream, only the compact form ends with
/// a newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    Compact,
    Pretty,
}

impl Spacing {
    pub fn wanted_by(request: &Request) -> Self {
        if request.wants_pretty() { Self::Pretty } else { Self::Compact }
    }

    pub fn apply(self, compact: &Bytes) -> Bytes {
        match self {
            Self::Compact => compact.clone(),
            Self::Pretty => pretty::indent(compact).into(),
        }
    }
}

/// The form of a value that has a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// What the best clause without a transformation asks for.
    pub fn wanted_by(headers: &HeaderMap) -> Option<Self> {
        let accept = Accept::of(headers);
        accept.clauses().iter().filter(|clause| !clause.transforms()).find_map(Self::of)
    }

    /// JSON for a wildcard.
    pub fn of(clause: &Clause) -> Option<Self> {
        if clause.streams_unheard_of() {
            return None;
        }
        [Self::Json, Self::Yaml, Self::Protobuf].into_iter().find(|format| clause.covers(format.media_type()))
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The bytes of `value`, and the form they have: what protobuf cannot say
    /// is said in JSON, as clients go by the content type.
    pub fn encode(self, spacing: Spacing, value: &Value) -> (Self, Bytes) {
        match self {
            Self::Json => {}
            Self::Yaml => return (self, sternpost_yaml::write(value).into()),
            Self::Protobuf => {
                if let Ok(bytes) = sternpost_wire::object::encode(value) {
                    return (self, bytes.into());
                }
            }
        }
        (Self::Json, spacing.apply(&json_line(value)))
    }
}

/// Compact JSON with what says the kind first, and a newline.
pub fn json_line(value: &Value) -> Bytes {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let Value::Object(object) = value else { return format!("{value}\n").into() };
    let first = FIRST.iter().filter_map(|name| object.get_key_value(*name));
    let rest = object.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    let mut out = Vec::with_capacity(256);
    for (name, member) in first.chain(rest) {
        out.push(if out.is_empty() { b'{' } else { b',' });
        // Into memory, writing a value cannot fail.
        let _ = serde_json::to_writer(&mut out, name);
        out.push(b':');
        let _ = serde_json::to_writer(&mut out, member);
    }
    out.extend_from_slice(if out.is_empty() { b"{}\n" } else { b"}\n" });
    out.into()
}

/// A value in the form that was negotiated for it.
pub fn value(code: StatusCode, format: Format, spacing: Spacing, value: &Value) -> Response {
    let (format, bytes) = format.encode(spacing, value);
    with_type(code, HeaderValue::from_static(format.media_type()), bytes)
}

/// An error in a form that the client accepts, else in JSON for people.
pub fn error(headers: &HeaderMap, spacing: Spacing, error: &Status) -> Response {
    let mut response = match Format::wanted_by(headers) {
        None => return not_acceptable(error),
        Some(Format::Json) => return status(spacing, error),
        // A `Status` is strings and numbers: writing it cannot fail.
        Some(format) => {
            value(code_of(error), format, spacing, &serde_json::to_value(error).unwrap_or_default())
        }
    };
    add_retry_after(&mut response, error);
    response
}

/// What somebody is told who may not do what was asked.
pub fn refusal(headers: &HeaderMap, spacing: Spacing, refused: &Status) -> Response {
    let mut response = error(headers, spacing, refused);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `document` is compact JSON, with or without a newline at its end.
pub fn json(spacing: Spacing, document: &Bytes) -> Response {
    with_type(StatusCode::OK, HeaderValue::from_static(JSON), spacing.apply(document))
}

/// An error in JSON, where there is no other form.
pub fn status(spacing: Spacing, status: &Status) -> Response {
    // A `Status` is strings and numbers: writing it cannot fail.
    let mut body = serde_json::to_vec(status).unwrap_or_default();
    body.push(b'\n');
    let mut response =
        with_type(code_of(status), HeaderValue::from_static(JSON), spacing.apply(&body.into()));
    add_retry_after(&mut response, status);
    response
}

/// The only place where an error becomes an HTTP status.
fn code_of(status: &Status) -> StatusCode {
    StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn add_retry_after(response: &mut Response, status: &Status) {
    if let Some(seconds) = status.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Nothing the client asked for could be sent, so it gets what a person reads
/// best: upstream indents this one error whoever asks.
pub fn not_acceptable(error: &Status) -> Response {
    status(Spacing::Pretty, error)
}

/// What upstream's router says to a client that accepts none of `types`.
pub fn no_representation(types: &[&str]) -> Status {
    let mut status = Status::not_acceptable(&[]);
    status.message = format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", "));
    status.details = Some(Box::default());
    status
}

pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Response {
    with_type(code, HeaderValue::from_static(TEXT), body.into())
}

/// Text that a browser must not take for anything else.
pub fn plain_text(code: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = text(code, body);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// For paths outside of every served API.
pub fn page_not_found() -> Response {
    plain_text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// `allow` lists the methods that would have worked.
pub fn method_not_allowed(request: &Request, allow: &'static str) -> Response {
    let mut response = error(&request.headers, Spacing::wanted_by(request), &Status::method_not_allowed());
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

pub fn with_type(code: StatusCode, content_type: HeaderValue, body: Bytes) -> Response {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

pub fn empty(code: StatusCode) -> Response {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}
