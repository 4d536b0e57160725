//! Asking a Kubernetes API server: GET, over one HTTP/2 connection or a few of
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
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::{
            self,
            connect::{HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioTimer},
};
use serde_json::Value;
use sternpost_clock::machine;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

use crate::{
    error::Hinted,
    kubeconfig::{Access, Certificate},
};

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
    pool: Pool,
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

type Body = Empty<Bytes>;

#[derive(Debug, Clone)]
enum Pool {
    Direct(legacy::Client<HttpsConnector<HttpConnector>, Body>),
    Proxied(legacy::Client<HttpsConnector<Tunnel<HttpConnector>>, Body>),
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
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let tls = tls_config(access)?;
        let name = access.server_name.clone().map(ServerName::try_from).transpose()?;
        let builder = legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).clone();
        let pool = match proxy(access, &url)? {
            None => Pool::Direct(builder.build(https(tls, name, tcp))),
            Some(tunnel) => Pool::Proxied(builder.build(https(tls, name, tunnel(tcp)))),
        };
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
        Ok(Self { pool, base, prefix, headers, limit, has_authority, received: Arc::default() })
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
        let deadline = machine::now() + self.limit;
        let asked = async {
            let mut retries = 0;
            loop {
                let reply = self.send_once(path, headers).await?;
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

    async fn send_once(&self, path: &str, headers: &HeaderMap) -> anyhow::Result<Reply> {
        let (head, body) = self.start(path, headers).await?.into_parts();
        let body = self.read(body, head.status).await.with_context(|| self.cannot_get(path))?;
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    fn cannot_get(&self, path: &str) -> String {
        format!("cannot get {path} from {}", self.base)
    }

    async fn start(&self, path: &str, headers: &HeaderMap) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::new(Body::new());
        *request.uri_mut() =
            format!("{}{}{path}", self.base, self.prefix).parse().with_context(|| self.cannot_get(path))?;
        *request.headers_mut() = self.headers.clone();
        for (name, value) in headers {
            request.headers_mut().insert(name, value.clone());
        }
        let answer = match &self.pool {
            Pool::Direct(client) => client.request(request).await,
            Pool::Proxied(client) => client.request(request).await,
        };
        // Its own words are the kind of failure, which the context says better.
        answer.map_err(|error| match error.is_connect() {
            true => self.not_connected(causes(&error)).context(format!("cannot connect to {}", self.base)),
            false => anyhow!(causes(&error)).context(self.cannot_get(path)),
        })
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
    async fn read(&self, mut body: Incoming, status: StatusCode) -> anyhow::Result<Bytes> {
        let limit = if status.is_success() { MAX_BODY_BYTES } else { MAX_FAILURE_BYTES };
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| anyhow!(causes(&error)))?.into_data() else { continue };
            self.received.fetch_add(u64::try_from(data.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
            if bytes.len() + data.len() > limit {
                if status.is_success() {
                    return Err(anyhow!("the answer has more than {limit} bytes"));
                }
                let room = limit.saturating_sub(bytes.len());
                bytes.extend_from_slice(data.get(..room).unwrap_or_default());
                break;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    }

    /// The JSON at the path, whatever the status.
    pub async fn get(&self, path: &str, accept: &'static str) -> anyhow::Result<Answer> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        let reply = self.send(path, &headers).await?;
        let json = reply.unpacked().and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        let json = match json {
            Ok(json) => json,
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

/// What stands behind an error, in one line.
fn causes(error: &dyn StdError) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Wrappers often repeat what they wrap.
        if !said.iter().any(|earlier| earlier.contains(&text)) {
            said.push(text);
        }
        cause = error.source();
    }
    if said.is_empty() { error.to_string() } else { said.join(": ") }
}

fn https<C>(tls: ClientConfig, name: Option<ServerName<'static>>, connector: C) -> HttpsConnector<C> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    builder.enable_http1().enable_http2().wrap_connector(connector)
}

/// Through the proxy of the kubeconfig or, as with kubectl, that of the environment.
fn proxy(
    access: &Access,
    url: &Uri,
) -> anyhow::Result<Option<impl FnOnce(HttpConnector) -> Tunnel<HttpConnector>>> {
    let found = match &access.proxy {
        Some(proxy) => Matcher::builder().all(proxy.as_str()).build().intercept(url),
        None if is_this_machine(url) => None,
        None => of_environment(variable).intercept(url),
    };
    let Some(found) = found else {
        return match &access.proxy {
            // Not shown: it may hold a password.
            Some(_) => Err(anyhow!("`proxy-url` is no URL")),
            None => Ok(None),
        };
    };
    let uri = found.uri().clone();
    if uri.scheme_str() != Some("http") {
        return Err(anyhow!(
            "proxies by `{}` are not supported; http is",
            uri.scheme_str().unwrap_or_default()
        ));
    }
    let authorization = found.basic_auth().cloned();
    Ok(Some(move |tcp| {
        let tunnel = Tunnel::new(uri, tcp);
        match authorization {
            Some(value) => tunnel.with_auth(value),
            None => tunnel,
        }
    }))
}

#[expect(clippy::disallowed_methods, reason = "proxies are named in the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What kubectl looks at, which `ALL_PROXY` is not part of.
fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Matcher {
    let first = |names: [&str; 2]| {
        let found = names.into_iter().filter_map(&variable).find(|value| !value.is_empty());
        found.unwrap_or_default()
    };
    // To a program that a web server runs, HTTP_PROXY is a header of whoever asks it.
    let http = match variable("REQUEST_METHOD") {
        Some(_) => String::new(),
        None => first(["HTTP_PROXY", "http_proxy"]),
    };
    let builder = Matcher::builder().http(http).https(first(["HTTPS_PROXY", "https_proxy"]));
    builder.no(first(["NO_PROXY", "no_proxy"])).build()
}

/// No proxy of the environment is meant for it.
fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn tls_config(access: &Access) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = if access.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else {
        let mut roots = RootCertStore::empty();
        match &access.authority {
            Some(authority) => {
                for certificate in CertificateDer::pem_slice_iter(authority) {
                    roots.add(certificate.context("the certificate authority cannot be read")?)?;
                }
                if roots.is_empty() {
                    return Err(anyhow!("the certificate authority has no certificate"));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        builder.with_root_certificates(roots)
    };
    match &access.credentials.certificate {
        Some(Certificate { chain, key }) => {
            let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
                .collect::<Result<_, _>>()
                .context("the client certificate cannot be read")?;
            let key = PrivateKeyDer::from_pem_slice(key).context("the client key cannot be read")?;
            Ok(builder.with_client_auth_cert(chain, key)?)
        }
        None => Ok(builder.with_no_client_auth()),
    }
}

/// `insecure-skip-tls-verify`: the kubeconfig says not to ask who the server is.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
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
    fn proxies_of_the_environment_are_those_of_kubectl() {
        for (variables, url, expected) in [
            (&[("ALL_PROXY", "http://p:1"), ("all_proxy", "http://p:2")][..], "https://x", None),
            (
                &[("HTTPS_PROXY", "http://p:1"), ("https_proxy", "http://p:2")],
                "https://x",
                Some("http://p:1/"),
            ),
            (&[("HTTPS_PROXY", ""), ("https_proxy", "http://p:2")], "https://x", Some("http://p:2/")),
            (&[("HTTPS_PROXY", "http://p:1")], "http://x", None),
            (&[("http_proxy", "http://p:1")], "http://x", Some("http://p:1/")),
            (&[("HTTP_PROXY", "http://p:1"), ("REQUEST_METHOD", "GET")], "http://x", None),
            (&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "y,.x")], "https://a.x", None),
            (&[("HTTPS_PROXY", "http://p:1"), ("no_proxy", "10.0.0.0/8")], "https://10.1.2.3", None),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let found = of_environment(variable).intercept(&url.parse().unwrap());
            let found = found.map(|found| found.uri().to_string());
            assert_eq!(found.as_deref(), expected, "{variables:?} {url}");
        }
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
