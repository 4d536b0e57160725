//! HTTP proxies, for commands whose user names one.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// A proxy that is asked for a tunnel.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub(crate) uri: Uri,
    pub(crate) authorization: Option<HeaderValue>,
}

/// A proxy that cannot be used. Its URL is not shown: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("`proxy-url` is no URL")]
    Url,
    #[error("proxies by `{0}` are not supported; http is")]
    Scheme(String),
}

impl Proxy {
    /// The proxy at a URL, for whatever is asked.
    pub fn at(proxy: &str, url: &Uri) -> Result<Self, ProxyError> {
        let found = Matcher::builder().all(proxy).build().intercept(url);
        Self::of(&found.ok_or(ProxyError::Url)?)
    }

    /// The proxy that variables of the environment name for a URL, as with kubectl: which `ALL_PROXY` is
    /// not part of, and none is meant for this machine itself.
    pub fn of_environment(
        variable: impl Fn(&str) -> Option<String>,
        url: &Uri,
    ) -> Result<Option<Self>, ProxyError> {
        if is_this_machine(url) {
            return Ok(None);
        }
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
        let found = builder.no(first(["NO_PROXY", "no_proxy"])).build().intercept(url);
        found.map(|found| Self::of(&found)).transpose()
    }

    fn of(found: &Intercept) -> Result<Self, ProxyError> {
        match found.uri().scheme_str() {
            Some("http") => Ok(Self { uri: found.uri().clone(), authorization: found.basic_auth().cloned() }),
            other => Err(ProxyError::Scheme(other.unwrap_or_default().to_owned())),
        }
    }
}

fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (&[("HTTPS_PROXY", "http://p:1")], "https://localhost:6443", None),
            (&[("HTTPS_PROXY", "http://p:1")], "https://[::1]:6443", None),
            (&[("http_proxy", "http://p:1")], "http://x", Some("http://p:1/")),
            (&[("HTTP_PROXY", "http://p:1"), ("REQUEST_METHOD", "GET")], "http://x", None),
            (&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "y,.x")], "https://a.x", None),
            (&[("HTTPS_PROXY", "http://p:1"), ("no_proxy", "10.0.0.0/8")], "https://10.1.2.3", None),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let found = Proxy::of_environment(variable, &url.parse().unwrap()).unwrap();
            let found = found.map(|found| found.uri.to_string());
            assert_eq!(found.as_deref(), expected, "{variables:?} {url}");
        }
    }

    #[test]
    fn proxies_that_cannot_be_used_say_why() {
        let url: Uri = "https://x".parse().unwrap();
        for (proxy, expected) in [
            ("socks5://p:1", ProxyError::Scheme("socks5".into())),
            (" ", ProxyError::Url),
            ("http://u:secret@p q:1", ProxyError::Url),
        ] {
            assert_eq!(Proxy::at(proxy, &url).unwrap_err(), expected, "{proxy}");
        }
    }
}
