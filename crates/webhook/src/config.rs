//! Where a webhook is: `clientConfig`, read once.

use std::{fmt, net::IpAddr, sync::Arc};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rustls::pki_types::ServerName;
use serde_json::Value;
use sternpost_golang::path::clean;
use sternpost_outbound::{Address, Client, Egress, Protocols, Settings, SetupError, Trust, Via, client_tls};

/// How long an idle connection is kept.
pub const IDLE: std::time::Duration = std::time::Duration::from_secs(90);

const DEFAULT_PORT: u16 = 443;

/// What goes into a URL escaped; the rest of a path stands as its author wrote it.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'^')
    .add(b'|')
    .add(b'\\');

/// A compiled `clientConfig`. Clones share their connections; the last one dropped closes them.
#[derive(Clone)]
pub struct ClientConfig {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    /// As the `Host` header has it.
    host: String,
    path: String,
    http: Client,
}

/// Whom to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Url(Address),
    Service { namespace: String, name: String, port: u16 },
}

/// A `clientConfig` that names nothing that can be called. Validation lets few of them through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("exactly one of url or service is required")]
    Target,
    #[error("service is missing {0}")]
    Service(&'static str),
    #[error("invalid webhook URL: {0}")]
    Url(&'static str),
    #[error("address {0}: invalid port")]
    Port(String),
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl ClientConfig {
    /// Reads `clientConfig`: `url` or `service`, and `caBundle`. Without a bundle the machine's own
    /// roots are trusted.
    pub fn read(config: &Value, egress: &Egress) -> Result<Self, ConfigError> {
        let present = |name: &str| config.get(name).filter(|value| !value.is_null());
        let (target, host, path) = match (present("url"), present("service")) {
            (Some(url), None) => read_url(url.as_str().unwrap_or_default())?,
            (None, Some(service)) => read_service(service)?,
            _ => return Err(ConfigError::Target),
        };
        let (name, via) = match &target {
            Target::Url(address) => (address.host.clone(), Via::Other),
            Target::Service { namespace, name, .. } => {
                (format!("{name}.{namespace}.svc"), Via::service(namespace, name))
            }
        };
        let name = ServerName::try_from(name).map_err(|_| ConfigError::Url("the host is not a name"))?;
        let bundle = present("caBundle").and_then(Value::as_str).filter(|bundle| !bundle.is_empty());
        let trust = bundle.map_or(Ok(Trust::Machine), Trust::bundle)?;
        let http = Client::new(Settings {
            tls: client_tls(trust, None)?,
            // One connection of HTTP/2 would pin a service to one of its endpoints; upstream offers it
            // only to what runs beside it.
            protocols: if is_loopback(&target) { Protocols::Http2OrHttp1 } else { Protocols::Http1 },
            name: Some(name),
            egress: egress.clone(),
            via,
            proxy: None,
            idle: IDLE,
        });
        Ok(Self { inner: Arc::new(Inner { target, host, path, http }) })
    }

    /// The URL as errors show it, without the query.
    pub fn url(&self) -> String {
        format!("https://{}{}", self.inner.host, self.inner.path)
    }

    pub(crate) fn target(&self) -> &Target {
        &self.inner.target
    }

    pub(crate) fn host(&self) -> &str {
        &self.inner.host
    }

    pub(crate) fn path(&self) -> &str {
        &self.inner.path
    }

    pub(crate) fn http(&self) -> &Client {
        &self.inner.http
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientConfig").field("url", &self.url()).finish_non_exhaustive()
    }
}

fn read_url(url: &str) -> Result<(Target, String, String), ConfigError> {
    let rest = url
        .split_at_checked("https://".len())
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("https://"))
        .map(|(_, rest)| rest)
        .ok_or(ConfigError::Url("the scheme must be https"))?;
    if rest.contains('#') {
        return Err(ConfigError::Url("a fragment is not allowed"));
    }
    if rest.contains('?') {
        return Err(ConfigError::Url("query parameters are not allowed"));
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(ConfigError::Url("user information is not allowed"));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) =
                bracketed.split_once(']').ok_or(ConfigError::Url("the host is not a name"))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() || !(after.is_empty() || after.starts_with(':')) {
                return Err(ConfigError::Url("the host is not a name"));
            }
            (host, after.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(ConfigError::Url("a host is required"));
    }
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| ConfigError::Port(port.to_owned()))?,
    };
    let target = Target::Url(Address { host: host.to_owned(), port });
    Ok((target, authority.to_owned(), joined(path)))
}

fn read_service(service: &Value) -> Result<(Target, String, String), ConfigError> {
    let text = |field: &'static str| {
        let value = service.get(field).and_then(Value::as_str).filter(|value| !value.is_empty());
        value.map(str::to_owned).ok_or(ConfigError::Service(field))
    };
    let (namespace, name) = (text("namespace")?, text("name")?);
    let port = match service.get("port").filter(|port| !port.is_null()) {
        None => DEFAULT_PORT,
        Some(port) => port
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
            .ok_or_else(|| ConfigError::Port(port.to_string()))?,
    };
    let path = joined(service.get("path").and_then(Value::as_str).unwrap_or_default());
    let host = format!("{name}.{namespace}.svc:{port}");
    Ok((Target::Service { namespace, name, port }, host, path))
}

/// A path as upstream joins it to the host.
fn joined(path: &str) -> String {
    utf8_percent_encode(&clean(&format!("/{path}")), ESCAPED).to_string()
}

fn is_loopback(target: &Target) -> bool {
    let Target::Url(Address { host, .. }) = target else { return false };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde_json::json;

    use super::*;

    fn read(config: &Value) -> Result<ClientConfig, ConfigError> {
        ClientConfig::read(config, &Egress::new(([127, 0, 0, 1], 6443).into(), Vec::new()))
    }

    #[test]
    fn urls_are_read_as_upstream_joins_them() {
        for (url, expected) in [
            ("https://127.0.0.1:9543", "https://127.0.0.1:9543/"),
            ("https://127.0.0.1:9543/", "https://127.0.0.1:9543/"),
            ("https://127.0.0.1:9543/a/b%20c/", "https://127.0.0.1:9543/a/b%20c"),
            ("https://127.0.0.1:9543//a//b", "https://127.0.0.1:9543/a/b"),
            ("https://127.0.0.1:9543/a/../b/./c", "https://127.0.0.1:9543/b/c"),
            ("https://127.0.0.1:9543/../..", "https://127.0.0.1:9543/"),
            ("HTTPS://LOCALHOST/A", "https://LOCALHOST/A"),
            ("https://[::1]:1/a", "https://[::1]:1/a"),
            ("https://example.com/ü<>", "https://example.com/%C3%BC%3C%3E"),
        ] {
            assert_eq!(read(&json!({"url": url})).unwrap().url(), expected);
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for (config, expected) in [
            (json!({}), ConfigError::Target),
            (json!({"url": null, "service": null}), ConfigError::Target),
            (json!({"url": "https://a", "service": {}}), ConfigError::Target),
            (json!({"url": "http://a"}), ConfigError::Url("the scheme must be https")),
            (json!({"url": "a"}), ConfigError::Url("the scheme must be https")),
            (json!({"url": 5}), ConfigError::Url("the scheme must be https")),
            (json!({"url": "https://"}), ConfigError::Url("a host is required")),
            (json!({"url": "https://:1"}), ConfigError::Url("a host is required")),
            (json!({"url": "https://u:p@a/"}), ConfigError::Url("user information is not allowed")),
            (json!({"url": "https://a/#f"}), ConfigError::Url("a fragment is not allowed")),
            (json!({"url": "https://a/?q"}), ConfigError::Url("query parameters are not allowed")),
            (json!({"url": "https://a b/"}), ConfigError::Url("the host is not a name")),
            (json!({"url": "https://[a]/"}), ConfigError::Url("the host is not a name")),
            (json!({"url": "https://[::1/"}), ConfigError::Url("the host is not a name")),
            (json!({"url": "https://[::1]x/"}), ConfigError::Url("the host is not a name")),
            (json!({"url": "https://127.0.0.1:99999/a"}), ConfigError::Port("99999".into())),
            (json!({"service": {"name": "a"}}), ConfigError::Service("namespace")),
            (json!({"service": {"namespace": "a", "name": ""}}), ConfigError::Service("name")),
            (
                json!({"service": {"namespace": "a", "name": "b", "port": 65536}}),
                ConfigError::Port("65536".into()),
            ),
            (
                json!({"url": "https://a", "caBundle": "YQ=="}),
                SetupError::Roots("unable to parse bytes as PEM block".into()).into(),
            ),
        ] {
            assert_eq!(read(&config).unwrap_err(), expected, "{config}");
        }
        let bundle = STANDARD.encode("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n");
        for bundle in [bundle.as_str(), "!"] {
            let found = read(&json!({"url": "https://a", "caBundle": bundle}));
            assert!(matches!(found, Err(ConfigError::Setup(SetupError::Roots(_)))), "{found:?}");
        }
    }

    #[test]
    fn a_port_that_is_not_given_is_the_usual_one() {
        let service = json!({"service": {"namespace": "ns", "name": "hook", "path": "/p"}});
        assert_eq!(read(&service).unwrap().url(), "https://hook.ns.svc:443/p");
    }
}
