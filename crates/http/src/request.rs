//! A request as handlers see it: read in full, decoded once.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use percent_encoding::percent_decode_str;
use sternpost_auth::authenticate::User;
use sternpost_clock::Clock;
use sternpost_golang::strconv::parse_bool;
use sternpost_meta::{audit::Annotations, warning::Warnings};
use sternpost_verbs::LatencyTracker;

use crate::{accept::Accept, request_info::RequestInfo};

#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub info: Arc<RequestInfo>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// `None` if nobody has looked yet.
    pub user: Option<Arc<User>>,
    /// Where to note what an audit log should have; `None` if there is none.
    pub audit: Option<Arc<Annotations>>,
    /// What the client is told beside the answer.
    pub warnings: Arc<Warnings>,
    /// Where the time of webhooks is counted; `None` if there are none to ask.
    pub latency: Option<Arc<LatencyTracker>>,
    /// How long it may take, from the end of its body, unless it goes on as a watch does.
    pub timeout: Duration,
    /// The time of the server that answers.
    pub clock: Clock,
}

/// The parameters of the query string, in order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
    raw: String,
}

impl Request {
    pub fn user(&self) -> &User {
        self.user.as_deref().unwrap_or(User::anonymous())
    }

    /// Whether JSON is indented: asked for by parameter or `Accept`, or read
    /// by a person with curl, wget or a browser.
    pub fn wants_pretty(&self) -> bool {
        wants_pretty(&self.query, &self.headers)
    }
}

/// Usable before the request is complete, for early errors.
pub fn wants_pretty(query: &Query, headers: &HeaderMap) -> bool {
    if let Some(pretty) = query.first("pretty").filter(|value| !value.is_empty()) {
        return parse_bool(pretty) == Ok(true);
    }
    let agent = headers.get(header::USER_AGENT).map_or(b"".as_slice(), |agent| agent.as_bytes());
    let by_person = ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person.as_bytes()));
    by_person || Accept::of(headers).clauses().iter().any(|clause| clause.param("pretty") == Some("1"))
}

/// `None` if the escapes are broken or do not spell UTF-8.
pub fn decode_path(raw: &str) -> Option<String> {
    if !raw.contains('%') {
        return Some(raw.to_owned());
    }
    let escapes_are_whole = raw
        .split('%')
        .skip(1)
        .all(|rest| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    if !escapes_are_whole {
        return None;
    }
    percent_decode_str(raw).decode_utf8().ok().map(Cow::into_owned)
}

impl Query {
    pub fn parse(raw: Option<&str>) -> Self {
        let pairs = raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_component(name), decode_component(value))
        });
        Self { pairs: pairs.collect(), raw: raw.unwrap_or_default().to_owned() }
    }

    /// As it was sent.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// As upstream reads booleans: absent, `0` and `false` are false, all else true.
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn decode_component(raw: &str) -> String {
    let spaced = if raw.contains('+') { Cow::Owned(raw.replace('+', " ")) } else { Cow::Borrowed(raw) };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_or_refused() {
        for (raw, expected) in [
            ("/api", Some("/api")),
            ("/apis/apps%2Fv1", Some("/apis/apps/v1")),
            ("/a%20b", Some("/a b")),
            ("/%", None),
            ("/%4", None),
            ("/%zz", None),
            ("/%ff", None),
            ("/%é", None),
        ] {
            assert_eq!(decode_path(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn query_keeps_order_and_repeats() {
        let query = Query::parse(Some("verbose&exclude=a&exclude=b%20c+d&&=x&k=a=b"));
        assert!(query.has("verbose"));
        assert!(!query.has("verb"));
        assert_eq!(query.first("verbose"), Some(""));
        assert_eq!(query.all("exclude").collect::<Vec<_>>(), ["a", "b c d"]);
        assert_eq!(query.first("k"), Some("a=b"));
        assert_eq!(Query::parse(None), Query::default());
    }

    #[test]
    fn pretty_by_parameter_then_by_agent_or_accept() {
        for (query, agent, accept, expected) in [
            ("", "kubectl/v1", "*/*", false),
            ("", "curl/8.0", "*/*", true),
            ("", "Wget/1", "*/*", true),
            ("", "Mozilla/5.0 (X11)", "*/*", true),
            ("", "Mozilla/4.0", "*/*", false),
            ("pretty=false", "curl/8.0", "*/*", false),
            ("pretty=0", "curl/8.0", "*/*", false),
            ("pretty=nonsense", "curl/8.0", "*/*", false),
            ("pretty", "curl/8.0", "*/*", true),
            ("pretty", "kubectl/v1", "*/*", false),
            ("pretty=true", "kubectl/v1", "*/*", true),
            ("pretty=1", "kubectl/v1", "*/*", true),
            ("", "kubectl/v1", "application/json;pretty=1", true),
            ("", "kubectl/v1", "application/json;pretty=0", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let query = Query::parse(Some(query));
            assert_eq!(wants_pretty(&query, &headers), expected, "{query:?} {agent} {accept}");
        }
    }
}
