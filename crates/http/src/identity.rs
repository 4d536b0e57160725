//! Who calls: the credentials of a request, and the keys that it may take to
//! check them.

use std::{fmt, pin::Pin, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use sternpost_auth::{
    authenticate::{Credentials, Headers, Refusal, User},
    oidc::Issuer,
};

use crate::{Api, connections::Origin, websocket};

/// Gets the keys of issuers, from wherever they are.
pub trait IssuerKeys: Send + Sync + fmt::Debug {
    /// Ready when the issuer knows its keys, or when it is clear that it will
    /// not. Takes a bounded time.
    fn fetch(&self, issuer: Arc<Issuer>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Who calls. Waits only for an issuer whose keys are not known yet.
pub async fn authenticate(api: &Api, origin: &Origin, parts: &Parts) -> Result<Arc<User>, Refusal> {
    let from_protocol = websocket::authorization(&parts.headers);
    let authorization =
        parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).or(from_protocol.as_deref());
    let certificate = origin.presented.as_ref();
    let headers = RequestHeaders(&parts.headers);
    let last_token = Some(&origin.last_token);
    let credentials = Credentials { authorization, certificate, headers: Some(&headers), last_token };
    let now = api.verbs.clock.wall();
    let verdict = api.authenticator.authenticate(credentials, now);
    if verdict != Err(Refusal::BadCredential) {
        return verdict;
    }
    let wanting = authorization.and_then(|token| api.authenticator.wanting_keys(token, now));
    let (Some(issuer), Some(keys)) = (wanting, &api.issuer_keys) else { return verdict };
    keys.fetch(issuer).await;
    api.authenticator.authenticate(credentials, api.verbs.clock.wall())
}

/// Sees to it that the keys for a token that is to be reviewed are there.
pub async fn prepare_review(api: &Api, token: &str) {
    let wanting = api.authenticator.wanting_keys_to_review(token, api.verbs.clock.wall());
    if let (Some(issuer), Some(keys)) = (wanting, &api.issuer_keys) {
        keys.fetch(issuer).await;
    }
}

/// What a front proxy said, or somebody in its name, goes no further.
pub fn forget_front_proxy(api: &Api, headers: &mut HeaderMap) {
    let proxies = api.authenticator.front_proxies();
    let configured = proxies.as_deref().map(|proxies| &proxies.headers);
    let theirs = |name: &HeaderName| {
        let name = name.as_str();
        STANDARD.contains(&name)
            || name.starts_with(EXTRA_PREFIX)
            || configured.is_some_and(|names| names.contains(name))
    };
    let found: Vec<HeaderName> = headers.keys().filter(|name| theirs(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// What front proxies are usually told to send.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const EXTRA_PREFIX: &str = "x-remote-extra-";

struct RequestHeaders<'a>(&'a HeaderMap);

impl Headers for RequestHeaders<'_> {
    fn values<'a>(&'a self, name: &str) -> Box<dyn Iterator<Item = &'a [u8]> + 'a> {
        Box::new(self.0.get_all(name).into_iter().map(HeaderValue::as_bytes))
    }

    fn with_prefix<'a>(&'a self, prefix: &'a str) -> Box<dyn Iterator<Item = (&'a str, &'a [u8])> + 'a> {
        let rest = move |(name, value): (&'a HeaderName, &'a HeaderValue)| {
            Some((name.as_str().strip_prefix(prefix)?, value.as_bytes()))
        };
        Box::new(self.0.iter().filter_map(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_front_proxies_say_goes_no_further() {
        let pairs = [
            ("x-remote-user", "a"),
            ("x-remote-group", "b"),
            ("x-remote-group", "c"),
            ("X-Remote-Uid", "d"),
            ("x-remote-extra-team", "e"),
            ("X-Remote-Extra-", "f"),
            ("x-remote", "stays"),
            ("x-remote-users", "stays"),
            ("authorization", "stays"),
        ];
        let mut headers = testing::headers(&pairs);
        forget_front_proxy(&testing::api(), &mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left.len(), 3, "{left:?}");
        assert!(headers.values().all(|value| value == "stays"));
    }
}
