//! The few kinds of response that handlers send.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::Full;
use sternpost_meta::status::Status;

use crate::{pretty, request::Request};

pub type Response = http::Response<Full<Bytes>>;

pub const JSON: &str = "application/json";
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

/// `document` is compact JSON, with or without a newline at its end.
pub fn json(spacing: Spacing, document: &Bytes) -> Response {
    with_type(StatusCode::OK, HeaderValue::from_static(JSON), spacing.apply(document))
}

/// The only place where an error becomes an HTTP status.
pub fn status(spacing: Spacing, status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // A `Status` is strings and numbers: writing it cannot fail.
    let mut body = serde_json::to_vec(status).unwrap_or_default();
    body.push(b'\n');
    let mut response = with_type(code, HeaderValue::from_static(JSON), spacing.apply(&body.into()));
    if let Some(seconds) = status.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Nothing the client asked for could be sent, so it gets what a person reads
/// best: upstream indents this one error whoever asks.
pub fn not_acceptable(error: &Status) -> Response {
    status(Spacing::Pretty, error)
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
    let mut response = status(Spacing::wanted_by(request), &Status::method_not_allowed());
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
