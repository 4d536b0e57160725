//! Asking a Kubernetes API server: GET, and what an apply would do, over one HTTP/2 connection or a few of
//! HTTP/1.1.
//!
//! Bounded in time and size; redirects are the caller's to follow.

use std::{
    error::Error as StdError,
    fmt,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_outbound::{
    self as outbound, Egress, Protocols, Proxy, Settings, Trust, Via, client_certificate, client_tls, empty,
    full,
};
use tokio_rustls::rustls::{ClientConfig, pki_types::ServerName};

use crate::{
    error::Hinted,
    kubeconfig::{Access, Certificate},
};

/// What a server of TLS says to who speaks plain HTTP to it, as Go's do.
const NOT_TLS: &str = "Client sent an HTTP request to an HTTPS server.";

pub const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// For one answer, from connecting to its last byte.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The most bytes of an answer, transferred or unpacked; the largest document of a cluster with
/// hundreds of custom resources has a fifth of it.
pub const MAX_BODY_BYTES: usize = 128 * 1024 * 1024;

/// How often a server that is busy (`Retry-After`) is asked again, within the time for the answer.
const MAX_RETRIES: usize = 5;

/// How much of the answer to a failed request is looked at for a message.
const MAX_FAILURE_BYTES: usize = 64 * 1024;

/// Clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: outbound::Client,
    /// Scheme and authority.
    base: String,
    /// Of the server's URL, without a slash at the end.
    prefix: String,
    /// What all requests have.
    headers: HeaderMap,
    limit: Duration,
    /// Whether the kubeconfig says who vouches for the server.
    has_authority: bool,
    received: Arc<AtomicU64>,
}

/// An answer as it was transferred.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An answer that is no success, as an error.
#[derive(Debug)]
pub struct Refused {
    pub status: StatusCode,
    message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The server took longer than it may.
#[derive(Debug)]
pub struct TimedOut {
    limit: Duration,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no whole answer within {:?}", self.limit)
    }
}

impl StdError for TimedOut {}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub json: Value,
}

impl Client {
    /// Connects when first asked for something. `limit` is for each answer.
    pub fn new(access: &Access, limit: Duration) -> anyhow::Result<Self> {
        Self::build(access, limit).with_context(|| format!("cannot connect to {}", access.server))
    }

    fn build(access: &Access, limit: Duration) -> anyhow::Result<Self> {
        let url: Uri = access.server.parse().context("this is no URL")?;
        let authority = url.authority().context("the URL has no host")?.as_str();
        let authority = authority.rsplit('@').next().unwrap_or(authority);
        let base = match url.scheme_str() {
            Some(scheme @ ("https" | "http")) => format!("{scheme}://{authority}"),
            _ => return Err(anyhow!("the URL begins with neither https:// nor http://")),
        };
        let http = outbound::Client::new(Settings {
            tls: tls_config(access)?,
            protocols: Protocols::Http2OrHttp1,
            name: access.server_name.clone().map(ServerName::try_from).transpose()?,
            egress: Egress::anywhere(),
            via: Via::Other,
            proxy: proxy(access, &url)?,
            idle: TIMEOUT,
        });
        let mut headers = HeaderMap::new();
        let agent = concat!("sternpost/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(authorization) = &access.credentials.authorization {
            let mut value =
                HeaderValue::from_str(authorization).context("the token is no text for a header")?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        for (name, value) in &access.credentials.impersonate {
            let value =
                HeaderValue::from_str(value).with_context(|| format!("{name}: no text for a header"))?;
            headers.append(HeaderName::from_static(name), value);
        }
        let prefix = url.path().trim_end_matches('/').to_owned();
        let has_authority = access.authority.is_some();
        Ok(Self { http, base, prefix, headers, limit, has_authority, received: Arc::default() })
    }

    /// The path of the server's URL, without a slash at the end.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Scheme, host and port.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// How many bytes of bodies have come so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Asks for a path below the server's URL. Of an answer that is no success only the beginning
    /// may be there.
    pub async fn send(&self, path: &str, headers: &HeaderMap) -> anyhow::Result<Reply> {
        self.exchange(&Method::GET, path, headers, &Bytes::new()).await
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> anyhow::Result<Reply> {
        let deadline = machine::now() + self.limit;
        let asked = async {
            let mut retries = 0;
            loop {
                let reply = self.exchange_once(method, path, headers, body).await?;
                let left = deadline.saturating_duration_since(machine::now());
                match reply.pause() {
                    // A pause with no time left after it would only hide what the server said.
                    Some(pause) if retries < MAX_RETRIES && pause < left => machine::sleep(pause).await,
                    _ => return Ok(reply),
                }
                retries += 1;
            }
        };
        match machine::timeout_at(deadline, asked).await {
            Ok(reply) => reply,
            Err(_) => Err(TimedOut { limit: self.limit }).with_context(|| self.cannot_get(path)),
        }
    }

    async fn exchange_once(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> anyhow::Result<Reply> {
        let body = if body.is_empty() { empty() } else { full(body.clone()) };
        let (head, body) = self.start(method, path, headers, body).await?.into_parts();
        let body = self.read(body, head.status).await.with_context(|| self.cannot_get(path))?;
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    fn cannot_get(&self, path: &str) -> String {
        format!("cannot get {path} from {}", self.base)
    }

    async fn start(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: outbound::Outgoing,
    ) -> anyhow::Result<Response<outbound::Body>> {
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() =
            format!("{}{}{path}", self.base, self.prefix).parse().with_context(|| self.cannot_get(path))?;
        *request.headers_mut() = self.headers.clone();
        for (name, value) in headers {
            request.headers_mut().insert(name, value.clone());
        }
        self.http.request(request).await.map_err(|cause| match cause.is_connect() {
            true => self
                .not_connected(cause.in_system_words())
                .context(format!("cannot connect to {}", self.base)),
            false => anyhow!(cause.in_system_words()).context(self.cannot_get(path)),
        })
    }

    /// Passes a request on with this client's credentials, and its answer back while it comes. The URI is a path below the
    /// server's URL. Whoever the request wants to be takes the place of whom the kubeconfig says to be.
    pub async fn forward(
        &self,
        request: Request<outbound::Outgoing>,
    ) -> Result<Response<outbound::Body>, outbound::Cause> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{}{path}", self.base, self.prefix).parse();
        let mut onward = Request::new(body);
        *onward.method_mut() = head.method;
        *onward.uri_mut() =
            url.map_err(|error: http::uri::InvalidUri| outbound::Cause::Other(error.to_string()))?;
        let impersonates = head.headers.keys().any(is_impersonation);
        let own = self.headers.iter().filter(|(name, _)| !(impersonates && is_impersonation(name)));
        for (name, value) in own.filter(|(name, _)| **name != header::ACCEPT_ENCODING).chain(&head.headers) {
            onward.headers_mut().append(name, value.clone());
        }
        self.http.request(onward).await
    }

    fn not_connected(&self, message: String) -> anyhow::Error {
        if self.has_authority || !message.contains("UnknownIssuer") {
            return anyhow!(message);
        }
        let hint =
            "the kubeconfig names no certificate authority, and this machine knows none for the server";
        Hinted { message, hint: hint.to_owned() }.into()
    }

    /// All of a body, or as much as is looked at of one that is no success; counted.
    async fn read(&self, body: outbound::Body, status: StatusCode) -> anyhow::Result<Bytes> {
        let limit = if status.is_success() { MAX_BODY_BYTES } else { MAX_FAILURE_BYTES };
        let body = body.read(limit).await.map_err(|cause| anyhow!(cause.in_system_words()))?;
        self.received.fetch_add(u64::try_from(body.bytes.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if status.is_success() && !body.is_whole {
            return Err(anyhow!("the answer has more than {limit} bytes"));
        }
        Ok(body.bytes)
    }

    /// The JSON at the path, whatever the status.
    pub async fn get(&self, path: &str, accept: &'static str) -> anyhow::Result<Answer> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        let reply = self.send(path, &headers).await?;
        self.answer(path, &reply)
    }

    /// What comes of a server-side apply, whatever the status.
    pub async fn apply(&self, path: &str, object: &Value) -> anyhow::Result<Answer> {
        let headers = HeaderMap::from_iter([
            (header::ACCEPT, HeaderValue::from_static(JSON)),
            (header::CONTENT_TYPE, HeaderValue::from_static(APPLY)),
        ]);
        let body = serde_json::to_vec(object)?.into();
        let reply = self.exchange(&Method::PATCH, path, &headers, &body).await?;
        self.answer(path, &reply)
    }

    fn answer(&self, path: &str, reply: &Reply) -> anyhow::Result<Answer> {
        let json = reply.unpacked().and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        let json = match json {
            Ok(json) => json,
            // Before a connection is one of TLS nobody speaks JSON.
            Err(_) if reply.body.starts_with(NOT_TLS.as_bytes()) => json!({"message": NOT_TLS}),
            // Errors may come from something in between that speaks no JSON.
            Err(_) if !reply.status.is_success() => Value::Null,
            Err(error) => return Err(error).with_context(|| self.cannot_get(path)),
        };
        Ok(Answer { status: reply.status, json })
    }

    /// As [`Client::get`], where anything but success is a failure.
    pub async fn get_ok(&self, path: &str, accept: &'static str) -> anyhow::Result<Value> {
        let Answer { status, json } = self.get(path, accept).await?;
        if status.is_success() {
            return Ok(json);
        }
        Err(self.refused(path, status, &json))
    }

    /// What an answer that is no success says, and what to do about it: a [`Refused`].
    pub fn refused(&self, path: &str, status: StatusCode, json: &Value) -> anyhow::Error {
        let said = json.get("message").and_then(Value::as_str).unwrap_or("the server does not say why");
        let hint = match status {
            StatusCode::BAD_REQUEST if said == NOT_TLS => "its URL begins with https://",
            StatusCode::UNAUTHORIZED => "the token or certificate may have expired; sign in again",
            StatusCode::FORBIDDEN => "the user needs the rights of the ClusterRole `system:discovery`",
            _ => "",
        };
        let cause = match hint {
            "" => anyhow!("{said}"),
            hint => Hinted { message: said.to_owned(), hint: hint.to_owned() }.into(),
        };
        cause.context(Refused { status, message: format!("{} answers {status} to {path}", self.base) })
    }
}

fn is_impersonation(name: &HeaderName) -> bool {
    name.as_str().starts_with("impersonate-")
}

impl Reply {
    /// How long a server that is busy asks to be left alone.
    fn pause(&self) -> Option<Duration> {
        if self.status != StatusCode::TOO_MANY_REQUESTS && !self.status.is_server_error() {
            return None;
        }
        let seconds = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// The body without its content coding.
    pub fn unpacked(&self) -> anyhow::Result<Bytes> {
        match self.headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity") => Ok(self.body.clone()),
            Some(b"gzip") => Ok(gunzip(&self.body, MAX_BODY_BYTES)?.into()),
            Some(other) => Err(anyhow!("content coding `{}` was not asked for", other.escape_ascii())),
        }
    }
}

/// Unpacks to at most `limit` bytes.
pub fn gunzip(bytes: &[u8], limit: usize) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(bytes).take(most).read_to_end(&mut out).context("the gzip data is damaged")?;
    if out.len() > limit {
        return Err(anyhow!("the answer unpacks to more than {limit} bytes"));
    }
    Ok(out)
}

/// Through the proxy of the kubeconfig or, as with kubectl, that of the environment.
fn proxy(access: &Access, url: &Uri) -> anyhow::Result<Option<Proxy>> {
    Ok(match &access.proxy {
        Some(proxy) => Some(Proxy::at(proxy, url)?),
        None => Proxy::of_environment(variable, url)?,
    })
}

#[expect(clippy::disallowed_methods, reason = "proxies are named in the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn tls_config(access: &Access) -> anyhow::Result<ClientConfig> {
    let trust = match &access.authority {
        _ if access.insecure => Trust::Anybody,
        Some(authority) => Trust::pem(authority).context("the certificate authority cannot be read")?,
        None => Trust::Machine,
    };
    let identity = match &access.credentials.certificate {
        Some(Certificate { chain, key }) => Some(client_certificate(chain, key)?),
        None => None,
    };
    Ok(client_tls(trust, identity)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn a_body_unpacks_to_the_limit_and_not_past_it() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&[0; 1000]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(gunzip(&packed, 1000).unwrap().len(), 1000);
        let error = gunzip(&packed, 999).unwrap_err().to_string();
        assert_eq!(error, "the answer unpacks to more than 999 bytes");
        let cut = packed.get(..packed.len() - 1).unwrap();
        assert_eq!(gunzip(cut, 1000).unwrap_err().to_string(), "the gzip data is damaged");
        assert!(gunzip(b"plain", 1000).is_err());
    }

    #[test]
    fn servers_that_cannot_be_asked() {
        let access = Access {
            server: String::new(),
            authority: None,
            server_name: None,
            insecure: true,
            proxy: None,
            credentials: crate::kubeconfig::Credentials::default(),
            principal: String::new(),
        };
        for (server, proxy, expected) in [
            ("ftp://x", None, "the URL begins with neither https:// nor http://"),
            ("::", None, "this is no URL: invalid authority"),
            ("/x", None, "the URL has no host"),
            ("https://x", Some("socks5://p:1"), "proxies by `socks5` are not supported; http is"),
            ("https://x", Some(" "), "`proxy-url` is no URL"),
            ("https://x", Some("http://u:secret@p q:1"), "`proxy-url` is no URL"),
        ] {
            let access = Access { server: server.into(), proxy: proxy.map(Into::into), ..access.clone() };
            let error = format!("{:#}", Client::new(&access, TIMEOUT).unwrap_err());
            assert_eq!(error, format!("cannot connect to {server}: {expected}"));
        }
    }
}
