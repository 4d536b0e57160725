//! A request of a client, forwarded: what a remote is told, and what of its answer is passed on.
//!
//! A remote gets the client's method, path, query, body and headers, but none of its credentials:
//! who calls is said in headers that count because of this server's certificate. Whatever a client
//! says in those headers is gone before.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header, uri};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use sternpost_golang::path::clean;
use sternpost_meta::user::User;
pub use sternpost_outbound::Body;
use sternpost_outbound::{Address, Cause, Outgoing};

use crate::remote::{Permit, REMOTE_GROUP, REMOTE_USER, Remote};

/// A request to pass on.
#[derive(Debug)]
pub struct Forward<'a> {
    pub method: Method,
    /// Decoded, as it was authorized.
    pub path: &'a str,
    /// As it was sent.
    pub query: &'a str,
    pub headers: HeaderMap,
    pub body: Outgoing,
    /// Whom the request counts as.
    pub user: &'a User,
    /// Whom the connection is with.
    pub peer: Option<IpAddr>,
    pub audit_id: &'a str,
    /// Whether the connection is to become another one ([`asks_to_upgrade`]).
    pub upgrades: bool,
    /// Whether it goes on for as long as the client likes.
    pub is_long_running: bool,
}

/// The answer of a remote. The permit is to be kept as long as the body is read.
#[derive(Debug)]
pub struct Forwarded {
    pub response: Response<Body>,
    pub permit: Permit,
}

/// Why there is no answer to pass on. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// It is known to be unavailable, or its Service leads nowhere.
    #[error("service unavailable")]
    Unavailable,
    /// It can never be reached as it is configured.
    #[error("{0}")]
    Misconfigured(String),
    #[error("error trying to reach service: {0}")]
    Unreachable(Cause),
    #[error("error dialing backend: {0}")]
    UpgradeUnreachable(Cause),
    /// Redirects would lead callers, with their credentials, wherever a remote likes.
    #[error("the backend attempted to redirect this request, which is not permitted")]
    Redirect,
    #[error("invalid upgrade response: status code {0}")]
    NoUpgrade(u16),
    /// It switched to another protocol without being asked.
    #[error("error trying to reach service: unexpected switch of protocols")]
    Switched,
    /// So many requests wait for it already that this one would only make it worse.
    #[error("Too many requests, please try again later.")]
    Busy,
    /// The caller cannot be named in a header.
    #[error("the user of this request cannot be told to another server")]
    User,
}

impl ForwardError {
    pub fn code(&self) -> StatusCode {
        match self {
            Self::Unavailable | Self::Unreachable(_) | Self::UpgradeUnreachable(_) | Self::NoUpgrade(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Misconfigured(_) | Self::User => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Redirect | Self::Switched => StatusCode::BAD_GATEWAY,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl Remote {
    /// Passes a request on and waits for the head of the answer, for as long as the caller does.
    pub async fn forward(&self, forward: Forward<'_>) -> Result<Forwarded, ForwardError> {
        if !self.is_available() {
            return Err(ForwardError::Unavailable);
        }
        let permit = self.enter(forward.is_long_running || forward.upgrades).ok_or(ForwardError::Busy)?;
        let client = self.client().map_err(|cause| ForwardError::Misconfigured(cause.to_string()))?;
        let address = self.address().map_err(|problem| {
            tracing::debug!(name = &*self.name, problem, "a server cannot be found");
            ForwardError::Unavailable
        })?;
        let upgrades = forward.upgrades;
        let request = request(forward, &address)?;
        let answer = match upgrades {
            true => client.upgrade(request).await,
            false => client.request(request).await,
        };
        let mut response = answer.map_err(|cause| match upgrades {
            true => ForwardError::UpgradeUnreachable(cause),
            false => ForwardError::Unreachable(cause),
        })?;
        let status = response.status();
        match (upgrades, status) {
            (true, StatusCode::SWITCHING_PROTOCOLS) => {}
            (false, StatusCode::SWITCHING_PROTOCOLS) => return Err(ForwardError::Switched),
            // A refusal is passed on; anything else is no answer to what was asked.
            (true, status) if status.as_u16() < 400 => return Err(ForwardError::NoUpgrade(status.as_u16())),
            (_, status) if is_redirect(status, response.headers()) => return Err(ForwardError::Redirect),
            _ => remove_hop_by_hop(response.headers_mut()),
        }
        // Which pages may use the API this server decides.
        remove_where(response.headers_mut(), |name| name.starts_with("access-control-"));
        Ok(Forwarded { response, permit })
    }
}

/// Whether a request of HTTP/1.1 asks to go on in another protocol, and may. Not in one in which requests
/// follow: nobody would say whose they are but the client, on a connection that is believed.
pub fn asks_to_upgrade(headers: &HeaderMap) -> bool {
    let mut protocols = headers
        .get_all(header::UPGRADE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .peekable();
    let carries_requests = |protocol: &[u8]| {
        let protocol = protocol.to_ascii_lowercase();
        [&b"h2"[..], b"h3", b"http", b"tls"].iter().any(|beginning| protocol.starts_with(beginning))
    };
    protocols.peek().is_some()
        && !protocols.any(carries_requests)
        && listed(headers).any(|name| name.eq_ignore_ascii_case("upgrade"))
}

fn request(forward: Forward<'_>, address: &Address) -> Result<Request<Outgoing>, ForwardError> {
    let Forward { method, path, query, headers, body, user, peer, audit_id, upgrades, .. } = forward;
    let place = address.to_string();
    let invalid = || ForwardError::Misconfigured(format!("invalid address {place}"));
    let escaped = escape_path(path);
    let target = if query.is_empty() { escaped } else { format!("{escaped}?{query}") };
    let uri = Uri::builder()
        .scheme(uri::Scheme::HTTPS)
        .authority(place.as_str())
        .path_and_query(target)
        .build()
        .map_err(|_| invalid())?;
    let mut headers = outgoing(headers, user, peer, upgrades)?;
    headers.insert(header::HOST, HeaderValue::try_from(&place).map_err(|_| invalid())?);
    if !upgrades {
        let told = [
            (FORWARDED_PROTO, "https"),
            (FORWARDED_HOST, place.as_str()),
            (FORWARDED_URI, &escape_path(&forwarded_path(path))),
        ];
        for (name, value) in told {
            headers.insert(name, HeaderValue::try_from(value).map_err(|_| invalid())?);
        }
    }
    if let Ok(audit_id) = HeaderValue::try_from(audit_id) {
        headers.insert(AUDIT_ID, audit_id);
    }
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const REMOTE_UID: HeaderName = HeaderName::from_static("x-remote-uid");
const REMOTE_EXTRA: &str = "x-remote-extra-";

/// How browsers name a token among the protocols of a websocket.
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The headers of a client without what is this connection's own and without its credentials, and
/// then who calls.
fn outgoing(
    mut headers: HeaderMap,
    user: &User,
    peer: Option<IpAddr>,
    upgrades: bool,
) -> Result<HeaderMap, ForwardError> {
    let protocol = headers.get(header::UPGRADE).filter(|_| upgrades).cloned();
    let trailers = headers.get_all(header::TE).iter().any(|te| te == "trailers");
    remove_hop_by_hop(&mut headers);
    for name in [
        header::HOST,
        header::AUTHORIZATION,
        header::PROXY_AUTHORIZATION,
        // Told by the body.
        header::CONTENT_LENGTH,
        // Its word was given when the body was first read.
        header::EXPECT,
        // What is said behind a body is not looked at here, so it goes no further.
        header::TRAILER,
        HeaderName::from_static("http2-settings"),
    ] {
        headers.remove(name);
    }
    // Some servers cannot tell a dash from an underscore.
    remove_where(&mut headers, |name| {
        let name = name.replace('_', "-");
        name.starts_with("x-remote-") || name.starts_with("impersonate-")
    });
    forget_bearer_protocol(&mut headers);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = protocol {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
    if let Some(peer) = peer {
        let mut hops: Vec<Vec<u8>> =
            headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes().to_vec()).collect();
        hops.push(peer.to_string().into_bytes());
        let hops = HeaderValue::from_bytes(&hops.join(b", ".as_slice())).map_err(|_| ForwardError::User)?;
        headers.insert(FORWARDED_FOR, hops);
    }
    name_user(&mut headers, user)?;
    Ok(headers)
}

fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), ForwardError> {
    let value = |text: &str| {
        // Blanks at the ends do not arrive: it would be somebody else.
        let arrives = text.trim_matches([' ', '\t']) == text;
        HeaderValue::from_bytes(text.as_bytes()).ok().filter(|_| arrives).ok_or(ForwardError::User)
    };
    headers.insert(REMOTE_USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(REMOTE_UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(REMOTE_GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let escaped = utf8_percent_encode(key, NOT_IN_HEADER_NAMES).to_string();
        let name =
            HeaderName::try_from(format!("{REMOTE_EXTRA}{escaped}")).map_err(|_| ForwardError::User)?;
        for text in values {
            headers.append(&name, value(text)?);
        }
    }
    Ok(())
}

/// What names of headers are not made of, and the sign of the escape itself.
const NOT_IN_HEADER_NAMES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// A token among the protocols is a credential like any other.
fn forget_bearer_protocol(headers: &mut HeaderMap) {
    let all = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let offered: Vec<String> = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .collect();
    if !offered.iter().any(|protocol| protocol.starts_with(BEARER_PROTOCOL)) {
        return;
    }
    let rest: Vec<String> =
        offered.into_iter().filter(|protocol| !protocol.starts_with(BEARER_PROTOCOL)).collect();
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    if let Ok(rest) = HeaderValue::try_from(rest.join(", ")) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, rest);
    }
}

/// What concerns one connection and not the way behind it, by RFC 9110, section 7.6.1.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = listed(headers).filter_map(|name| name.parse().ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::TE,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ] {
        headers.remove(name);
    }
}

/// The words of `Connection`.
fn listed(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

fn remove_where(headers: &mut HeaderMap, is_unwanted: impl Fn(&str) -> bool) {
    let found: Vec<HeaderName> = headers.keys().filter(|name| is_unwanted(name.as_str())).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Whether it says where to go instead.
fn is_redirect(status: StatusCode, headers: &HeaderMap) -> bool {
    status.is_redirection() && headers.contains_key(header::LOCATION)
}

/// A decoded path as Go writes it in a request: what was an escaped slash is a slash now, so that a
/// remote cannot understand another path than the one that was authorized.
fn escape_path(path: &str) -> String {
    const ESCAPED: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'#')
        .add(b'%')
        .add(b'<')
        .add(b'>')
        .add(b'?')
        .add(b'[')
        .add(b'\\')
        .add(b']')
        .add(b'^')
        .add(b'`')
        .add(b'{')
        .add(b'|')
        .add(b'}');
    utf8_percent_encode(path, ESCAPED).to_string()
}

/// Cleaned; a slash at the end stays.
fn forwarded_path(path: &str) -> String {
    let mut cleaned = clean(&format!("/{path}"));
    if path.ends_with('/') && !cleaned.ends_with('/') {
        cleaned.push('/');
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sternpost_outbound::empty;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers
    }

    fn forwarded(
        path: &str,
        query: &str,
        sent: &[(&str, &str)],
        user: &User,
        upgrades: bool,
    ) -> Request<Outgoing> {
        let forward = Forward {
            method: Method::GET,
            path,
            query,
            headers: headers(sent),
            body: empty(),
            user,
            peer: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            audit_id: "my-audit",
            upgrades,
            is_long_running: false,
        };
        request(forward, &Address { host: "localhost".into(), port: 443 }).unwrap()
    }

    fn told(request: &Request<Outgoing>) -> Vec<(String, String)> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut told: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        told.sort();
        told
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// What kube-apiserver 1.36.4 sends for the same request.
    #[test]
    fn credentials_stay_here_and_the_user_is_told() {
        let sent = [
            ("accept", "*/*"),
            ("audit-id", "another"),
            ("authorization", "Bearer secret"),
            ("connection", "x-hop, Keep-Alive"),
            ("cookie", "a=b"),
            ("host", "front"),
            ("impersonate-user", "evil"),
            ("keep-alive", "5"),
            ("proxy-authorization", "secret"),
            ("te", "trailers"),
            ("trailer", "x-remote-group"),
            ("x-foo", "bar"),
            ("x_remote_group", "evil"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-host", "foo"),
            ("x-forwarded-proto", "http"),
            ("x-hop", "1"),
            ("x-remote-extra-foo", "evil"),
            ("x-remote-group", "evil"),
            ("x-remote-uid", "7"),
            ("x-remote-user", "evil"),
        ];
        let user = User { uid: "1".into(), ..User::admin() };
        let request = forwarded("/apis/a.example/v1/things", "a=b%20c&d", &sent, &user, false);
        assert_eq!(request.uri(), "https://localhost:443/apis/a.example/v1/things?a=b%20c&d");
        assert_eq!(
            told(&request),
            pairs(&[
                ("accept", "*/*"),
                ("audit-id", "my-audit"),
                ("cookie", "a=b"),
                ("host", "localhost:443"),
                ("te", "trailers"),
                ("x-foo", "bar"),
                ("x-forwarded-for", "1.2.3.4, 127.0.0.1"),
                ("x-forwarded-host", "localhost:443"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-uri", "/apis/a.example/v1/things"),
                ("x-remote-group", "system:authenticated"),
                ("x-remote-group", "system:masters"),
                ("x-remote-uid", "1"),
                ("x-remote-user", "kubernetes-admin"),
            ])
        );
    }

    #[test]
    fn an_upgrade_keeps_its_protocol_and_loses_its_token() {
        let sent = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ];
        assert!(asks_to_upgrade(&headers(&sent)));
        let user = User { name: "a".into(), ..User::default() };
        let request = forwarded("/apis/a.example/v1/things", "", &sent, &user, true);
        assert_eq!(
            told(&request),
            pairs(&[
                ("audit-id", "my-audit"),
                ("connection", "Upgrade"),
                ("host", "localhost:443"),
                ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
                ("upgrade", "websocket"),
                ("x-forwarded-for", "127.0.0.1"),
                ("x-remote-user", "a"),
            ])
        );
        for (sent, expected) in [
            (&[("connection", "upgrade"), ("upgrade", "SPDY/3.1")][..], true),
            (&[("connection", "close"), ("upgrade", "SPDY/3.1")], false),
            (&[("upgrade", "SPDY/3.1")], false),
            (&[("connection", "upgrade"), ("upgrade", "h2c")], false),
            (&[("connection", "upgrade"), ("upgrade", "websocket, H2C")], false),
            (&[("connection", "upgrade"), ("upgrade", "HTTP/2.0")], false),
            (&[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "TLS/1.0")], false),
            (&[("connection", "upgrade")], false),
        ] {
            assert_eq!(asks_to_upgrade(&headers(sent)), expected, "{sent:?}");
        }
    }

    /// As recorded: names of headers have no case.
    #[test]
    fn keys_of_extra_fields_are_escaped() {
        for (key, expected) in [
            ("foo/bar x", "x-remote-extra-foo%2fbar%20x"),
            ("a_b~c.d", "x-remote-extra-a_b~c.d"),
            ("é%:", "x-remote-extra-%c3%a9%25%3a"),
        ] {
            let mut user = User { name: "a".into(), ..User::default() };
            user.extra.insert(key.into(), vec!["v1".into(), "v2".into()]);
            let request = forwarded("/apis/a/v1", "", &[], &user, false);
            let values: Vec<_> = request.headers().get_all(expected).iter().collect();
            assert_eq!(values, ["v1", "v2"], "{key}");
        }
    }

    #[test]
    fn a_user_that_no_header_can_name_is_not_told_as_another() {
        for name in ["a\nx-remote-group: system:masters", "a\r", "a\0", " a", "a ", "a\t"] {
            let named = User { name: name.into(), ..User::default() };
            let grouped = User { name: "b".into(), groups: vec![name.into()], ..User::default() };
            for user in [named, grouped] {
                let told = outgoing(HeaderMap::new(), &user, None, false);
                assert_eq!(told, Err(ForwardError::User), "{name:?}");
            }
        }
    }

    #[test]
    fn the_path_that_was_authorized_is_the_one_that_is_asked_for() {
        for (path, target, uri) in [
            (
                "/apis/a/v1/things/x/b c//d/../e",
                "/apis/a/v1/things/x/b%20c//d/../e",
                "/apis/a/v1/things/x/b%20c/e",
            ),
            ("/apis/a/v1/", "/apis/a/v1/", "/apis/a/v1/"),
            ("/apis/a/v1/?#%", "/apis/a/v1/%3F%23%25", "/apis/a/v1/%3F%23%25"),
            ("/apis/a/v1/é:@&=+$,;!'()*", "/apis/a/v1/%C3%A9:@&=+$,;!'()*", "/apis/a/v1/%C3%A9:@&=+$,;!'()*"),
        ] {
            let request = forwarded(path, "", &[], User::anonymous(), false);
            assert_eq!(request.uri().path(), target);
            assert_eq!(request.uri().query(), None);
            assert_eq!(request.headers().get(FORWARDED_URI).unwrap(), uri);
        }
    }

    #[test]
    fn only_what_leads_elsewhere_is_a_redirect() {
        let with_location = headers(&[("location", "https://elsewhere.example")]);
        for (code, with) in [
            (200, false),
            (201, false),
            (300, true),
            (302, true),
            (304, true),
            (308, true),
            (399, true),
            (400, false),
        ] {
            let status = StatusCode::from_u16(code).unwrap();
            assert!(!is_redirect(status, &HeaderMap::new()), "{code}");
            assert_eq!(is_redirect(status, &with_location), with, "{code}");
        }
    }
}
