//! What the unit tests of this crate share.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use sternpost_auth::{
    authenticate::{Authenticator, User},
    token::Token,
};
use sternpost_discovery::Discovery;
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Resource, Scope, Verb, Version},
};

use sternpost_openapi::{
    names::Naming,
    publisher::{Publisher, Unobserved},
};

use crate::{
    Api, OpenApi,
    health::Health,
    metrics::Metrics,
    request::{Query, Request},
    response::Response,
};

pub const TOKEN: &str = "s3cret";

/// An API of `v1` and `apps/v1` with one resource each.
pub fn api() -> Api {
    api_with(Health::default())
}

pub fn api_with(health: Health) -> Api {
    api_of(health, Naming::Short)
}

pub fn api_named(naming: Naming) -> Api {
    api_of(Health::default(), naming)
}

fn api_of(health: Health, naming: Naming) -> Api {
    let mut authenticator = Authenticator::default();
    authenticator.add(&Token::parse(TOKEN).unwrap(), User::admin());
    let discovery = Discovery::new(vec![group("", "pods"), group("apps", "deployments")]);
    Api::new(
        authenticator,
        discovery,
        health,
        Metrics::new(Registry::default(), std::time::UNIX_EPOCH),
        OpenApi {
            publisher: Publisher::new(sternpost_builtin::groups(), naming, Arc::new(Unobserved)),
            v3: true,
            since: std::time::UNIX_EPOCH,
        },
        "127.0.0.1:6443".into(),
    )
}

fn group(name: &str, plural: &str) -> Group {
    let resource = Resource {
        gv: GroupVersion::new(name, "v1"),
        kind: "Thing".into(),
        plural: plural.into(),
        singular: plural.trim_end_matches('s').into(),
        scope: Scope::Namespaced,
        verbs: Verb::ALL.into(),
        short_names: vec![],
        categories: vec![],
        subresources: vec![],
        storage_version_hash: None,
    };
    Group {
        name: name.into(),
        versions: vec![Version { name: "v1".into(), resources: vec![Arc::new(resource)] }],
    }
}

pub fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers
}

/// A request of an authenticated user. `target` may have a query.
pub fn request(method: Method, target: &str, pairs: &[(&str, &str)]) -> Request {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    Request {
        method,
        path: path.into(),
        query: Query::parse(query),
        headers: headers(pairs),
        body: Bytes::new(),
        user: Some(Arc::new(User::admin())),
    }
}

pub fn body(response: &Response) -> String {
    String::from_utf8(body_bytes(response).into()).unwrap()
}

pub fn body_bytes(response: &Response) -> Bytes {
    now(response.body().clone().collect()).unwrap().to_bytes()
}

pub fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// The output of a future that never waits.
pub fn now<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("the future waits"),
    }
}
