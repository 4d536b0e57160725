//! Whether a request is one of the page: by what browsers say of it. Pure.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where the page is, for those who ask for it.
#[derive(Debug, Clone)]
pub struct Place {
    pub address: SocketAddr,
    /// A host name that the user gave, besides the addresses.
    pub name: Option<String>,
    /// Whether it speaks TLS.
    pub is_tls: bool,
}

impl Place {
    /// Scheme, host and port, for a link.
    pub fn url(&self) -> String {
        let host = match &self.name {
            Some(name) => format!("{name}:{}", self.address.port()),
            None if self.address.ip().is_unspecified() && self.address.is_ipv6() => {
                format!("[::1]:{}", self.address.port())
            }
            None if self.address.ip().is_unspecified() => format!("127.0.0.1:{}", self.address.port()),
            None => self.address.to_string(),
        };
        format!("{}://{host}", self.scheme())
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Whether `Host` is a name of this server. A page of another site that has its own name lead here (DNS
    /// rebinding) says that name; an address cannot be made to lead elsewhere.
    pub fn is_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        if port != self.address.port().to_string() {
            return false;
        }
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<IpAddr>() {
            Ok(ip) if self.address.ip().is_loopback() => ip.is_loopback(),
            Ok(_) => true,
            Err(_) => {
                let is_loopback = self.address.ip().is_loopback() || self.address.ip().is_unspecified();
                (is_loopback && name.eq_ignore_ascii_case("localhost"))
                    || self.name.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(name))
            }
        }
    }

    /// Whether the request comes from a page of this origin, as far as the browser says. What can change something must
    /// say so.
    pub fn is_own_page(&self, method: &Method, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let own = format!("{}://{host}", self.scheme());
        let is_origin = match headers.get(header::ORIGIN) {
            Some(origin) => origin.as_bytes() == own.as_bytes(),
            None => matches!(*method, Method::GET | Method::HEAD),
        };
        is_origin && headers.get(SEC_FETCH_SITE).is_none_or(|site| site == "same-origin")
    }
}

/// The value of a cookie. Two of one name are none: somebody has slipped one in.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    match (found.next(), found.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

/// What every answer has. Answers with words of a cluster in them are no pages, whatever they say they are.
pub fn protect(headers: &mut HeaderMap, policy: &'static str) {
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
        ("x-dns-prefetch-control", "off"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// Nothing but what this origin serves, no inline script or style, in nobody's frame.
pub const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// No page at all.
pub const DATA_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).fold(
            HeaderMap::new(),
            |mut all, (name, value)| {
                all.append(name, value);
                all
            },
        )
    }

    fn place(address: &str, name: Option<&str>) -> Place {
        Place { address: address.parse().unwrap(), name: name.map(Into::into), is_tls: false }
    }

    #[test]
    fn only_names_of_this_server_are_its_host() {
        let loopback = place("127.0.0.1:8001", None);
        let network = place("0.0.0.0:8001", Some("ui.example.com"));
        for (place, host, expected) in [
            (&loopback, "127.0.0.1:8001", true),
            (&loopback, "localhost:8001", true),
            (&loopback, "LOCALHOST:8001", true),
            (&loopback, "[::1]:8001", true),
            (&loopback, "127.0.0.1:8002", false),
            (&loopback, "127.0.0.1", false),
            (&loopback, "localhost.evil.example:8001", false),
            (&loopback, "evil.example:8001", false),
            (&loopback, "192.0.2.7:8001", false),
            (&loopback, "localhost:8001:8001", false),
            (&loopback, "", false),
            (&network, "192.0.2.7:8001", true),
            (&network, "ui.example.com:8001", true),
            (&network, "localhost:8001", true),
            (&network, "evil.example:8001", false),
        ] {
            assert_eq!(place.is_host(&headers(&[("host", host)])), expected, "{host}");
        }
        assert!(!loopback.is_host(&headers(&[("host", "localhost:8001"), ("host", "localhost:8001")])));
        assert!(!loopback.is_host(&HeaderMap::new()));
    }

    #[test]
    fn pages_of_other_origins_are_told_apart() {
        let place = place("127.0.0.1:8001", None);
        let host = ("host", "127.0.0.1:8001");
        for (method, more, expected) in [
            (Method::GET, vec![], true),
            (Method::GET, vec![("sec-fetch-site", "same-origin")], true),
            (Method::GET, vec![("sec-fetch-site", "same-site")], false),
            (Method::GET, vec![("sec-fetch-site", "cross-site")], false),
            (Method::GET, vec![("sec-fetch-site", "none")], false),
            (Method::GET, vec![("origin", "http://127.0.0.1:8001")], true),
            (Method::GET, vec![("origin", "http://127.0.0.1:9999")], false),
            (Method::GET, vec![("origin", "https://127.0.0.1:8001")], false),
            (Method::GET, vec![("origin", "null")], false),
            (Method::POST, vec![], false),
            (Method::POST, vec![("origin", "http://127.0.0.1:8001")], true),
            (Method::POST, vec![("origin", "http://evil.example")], false),
            (Method::DELETE, vec![("sec-fetch-site", "same-origin")], false),
        ] {
            let all: Vec<_> = more.iter().copied().chain([host]).collect();
            assert_eq!(place.is_own_page(&method, &headers(&all)), expected, "{method} {more:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others_if_there_is_one() {
        for (lines, expected) in [
            (vec!["a=1"], Some("1")),
            (vec!["b=2; a=1; c=3"], Some("1")),
            (vec!["b=2", "a=1"], Some("1")),
            (vec!["aa=1"], None),
            (vec!["a"], None),
            (vec!["a=1; a=1"], None),
            (vec!["a=1", "a=2"], None),
            (vec![], None),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("cookie", *line)).collect();
            assert_eq!(cookie(&headers(&lines), "a"), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_link_leads_to_an_address_that_can_be_dialled() {
        for (address, name, expected) in [
            ("127.0.0.1:1", None, "http://127.0.0.1:1"),
            ("[::1]:1", None, "http://[::1]:1"),
            ("0.0.0.0:1", None, "http://127.0.0.1:1"),
            ("[::]:1", None, "http://[::1]:1"),
            ("0.0.0.0:1", Some("ui.example.com"), "http://ui.example.com:1"),
        ] {
            assert_eq!(place(address, name).url(), expected);
        }
    }
}
