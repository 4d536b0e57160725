//! What the unit tests of this crate share.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use http_body_util::BodyExt;
use prometheus_client::registry::Registry as Counters;
use sternpost_auth::{
    authenticate::{Authenticator, User},
    token::Token,
};
use sternpost_clock::manual::ManualClock;
use sternpost_discovery::Discovery;
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Resource, Scope, Verb, Version},
};

use sternpost_cache::{Cache, Feeder, Indexer, Pairs, ResourceId};
use sternpost_openapi::{
    names::Naming,
    publisher::{Publisher, Unobserved},
};
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_verbs::{Verbs, served::ServedResources};

use crate::{
    Anonymous, Api, OpenApi, Rbac,
    health::Health,
    metrics::Metrics,
    objects::{self, Answer},
    request::{Query, Request},
    request_info::RequestInfo,
    response::Response,
};

pub const TOKEN: &str = "s3cret";

/// An API of `v1` and `apps/v1` with one resource each.
pub fn api() -> Api {
    api_with(Health::default())
}

pub fn api_with(health: Health) -> Api {
    api_of(health, Naming::Short, verbs())
}

pub fn api_named(naming: Naming) -> Api {
    api_of(Health::default(), naming, verbs())
}

/// Of what is in a store, and what keeps up with that.
pub async fn api_on(store: Arc<dyn Store>) -> (Api, Feeder) {
    let (verbs, feeder) = verbs_on(store).await;
    (api_of(Health::default(), Naming::Short, verbs), feeder)
}

/// There are no roles: only the admin may do anything.
pub fn api_by_rbac() -> Api {
    let verbs = verbs();
    let rbac = Arc::new(Rbac::new(&verbs.cache));
    let mut api = api_of(Health::default(), Naming::Short, verbs.with_authorizer(rbac));
    api.anonymous = Anonymous::AsAnyUser;
    let nobody_special = User { name: "carol".into(), ..User::default() };
    api.authenticator.add(&Token::parse("carol").unwrap(), nobody_special);
    api
}

fn api_of(health: Health, naming: Naming, verbs: Verbs) -> Api {
    let mut authenticator = Authenticator::default();
    authenticator.add(&Token::parse(TOKEN).unwrap(), User::admin());
    let discovery = Discovery::new(vec![group("", "pods"), group("apps", "deployments")]);
    Api::new(
        authenticator,
        &discovery,
        health,
        Metrics::new(Counters::default(), std::time::UNIX_EPOCH),
        OpenApi::new(
            Publisher::new(sternpost_builtin::groups(), naming, Arc::new(Unobserved)),
            true,
            std::time::UNIX_EPOCH,
        ),
        Arc::new(verbs),
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
    let query = Query::parse(query);
    Request {
        info: Arc::new(RequestInfo::new(&method, path.into(), &query).unwrap()),
        method,
        query,
        headers: headers(pairs),
        body: Bytes::new(),
        user: Some(Arc::new(User::admin())),
        audit: None,
        warnings: Arc::default(),
        latency: None,
        timeout: crate::limits::REQUEST_TIMEOUT,
        clock: ManualClock::at(1_700_000_000).passing().into(),
    }
}

/// The answer of the handler that a request finds.
pub async fn handle(api: &Api, request: &Request) -> Answer {
    let routed = objects::route(&api.verbs, request).unwrap();
    objects::handle(api, request, routed).await.unwrap()
}

/// What a GET of a path asks for.
pub fn info(path: &str) -> RequestInfo {
    RequestInfo::new(&Method::GET, path.into(), &Query::default()).unwrap()
}

/// A response with a body that is there.
pub trait Whole {
    fn full(&self) -> http_body_util::Full<Bytes>;
    fn head(&self) -> &HeaderMap;
}

impl Whole for Response {
    fn full(&self) -> http_body_util::Full<Bytes> {
        self.body().clone()
    }

    fn head(&self) -> &HeaderMap {
        self.headers()
    }
}

impl Whole for http::Response<crate::body::Body> {
    fn full(&self) -> http_body_util::Full<Bytes> {
        self.body().whole().unwrap().clone()
    }

    fn head(&self) -> &HeaderMap {
        self.headers()
    }
}

pub fn body(response: &impl Whole) -> String {
    String::from_utf8(body_bytes(response).into()).unwrap()
}

/// What `/metrics` tells.
pub fn told(metrics: &Metrics) -> String {
    let request = request(Method::GET, "/metrics", &[]);
    body(&crate::metrics::serve(metrics, &crate::cpu::Pool::new(metrics), None, &request))
}

pub fn body_bytes(response: &impl Whole) -> Bytes {
    now(response.full().collect()).unwrap().to_bytes()
}

pub fn header<'a>(response: &'a impl Whole, name: &str) -> Option<&'a str> {
    response.head().get(name).map(|value| value.to_str().unwrap())
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

/// An empty registry in memory.
fn verbs() -> Verbs {
    now(verbs_on(Arc::new(MemoryStore::new(Default::default())))).0
}

async fn verbs_on(store: Arc<dyn Store>) -> (Verbs, Feeder) {
    struct NoIndex;
    impl Indexer for NoIndex {
        fn fields(&self, _: &ResourceId, _: &[u8]) -> Pairs {
            Pairs::default()
        }
    }
    let (cache, feeder) = Cache::start(store.clone(), Box::new(NoIndex)).await.unwrap();
    let clock = ManualClock::at(1_700_000_000).passing().into();
    (Verbs::new(ServedResources::built_in(), cache, store, clock), feeder)
}
