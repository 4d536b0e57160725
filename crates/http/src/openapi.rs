//! `/openapi/v2`, `/openapi/v3`, `/openapi/v3/KEY` and `/apis/GROUP/openapi/v3`.
//!
//! The publisher has the bytes; here the form is negotiated, and the caching
//! promised: a URL with the right hash may be kept for ever, one with a hash
//! that is no longer right is redirected, everything else is revalidated.
//!
//! Documents of other servers are listed in the root with the hashes those
//! servers give them, and fetched from there by whoever asks ([`pass_on`]). What
//! is here wins over what is there. The root and v2 are put together from what
//! is known, and kept until something changes: no answer but that document's own
//! waits for another server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};
use sternpost_aggregate::{
    openapi::{self as elsewhere, Listed, V2 as Part},
    remote::Remote,
};
use sternpost_clock::Clock;
use sternpost_meta::status::Status;
use sternpost_openapi::{
    custom::CustomResource,
    merge,
    names::Naming,
    publisher::{Coding, Form, Format, Keep, Publisher, Rendition, Snapshot},
    read::Version,
};
use sternpost_wire::gnostic;
use tokio::sync::Semaphore;

use crate::{
    Api,
    accept::{Accept, Encoding},
    content::{self, Representation},
    limits::MIN_GZIP_BYTES,
    objects::Answer,
    proxied::{self, Passing},
    request::{Query, Request},
    response::{self, JSON, Response, Spacing},
    route::Route,
};

/// What is published, and how.
#[derive(Debug)]
pub struct OpenApi {
    pub publisher: Publisher,
    /// The feature gate `OpenAPIV3`: off, the v3 endpoints do not exist.
    pub v3: bool,
    /// Documents are made from what the process holds, so they are as old as it, until a
    /// definition changes one.
    since: SystemTime,
    is_changed: AtomicBool,
    /// The roots with the documents of other servers, as last put together.
    roots: [ArcSwapOption<Root>; Naming::ALL.len()],
    /// v2 with those of other servers, if there are any.
    merged: ArcSwapOption<Merged>,
    /// One merges at a time: the others want the same.
    merging: Semaphore,
}

/// A root, and what it was made of.
#[derive(Debug)]
struct Root {
    local: String,
    /// Of the table of other servers.
    version: u64,
    /// `None` if no other server has a document.
    rendition: Option<Rendition>,
}

/// v2, and the hashes of what it was made of.
#[derive(Debug)]
struct Merged {
    parts: Vec<String>,
    rendition: Rendition,
}

impl OpenApi {
    pub fn new(publisher: Publisher, v3: bool, since: SystemTime) -> Self {
        Self {
            publisher,
            v3,
            since,
            is_changed: AtomicBool::new(false),
            roots: Default::default(),
            merged: ArcSwapOption::empty(),
            merging: Semaphore::new(1),
        }
    }

    /// Publishes what a definition serves now; see [`Publisher::define`].
    pub fn define(&self, name: &str, resources: Vec<CustomResource>) {
        self.publisher.define(name, resources);
        self.is_changed.store(true, Ordering::Release);
    }

    /// Seconds are too coarse for documents that change: those have only tags.
    fn last_modified(&self) -> Option<SystemTime> {
        (!self.is_changed.load(Ordering::Acquire)).then_some(self.since)
    }
}

/// Which document a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    V2,
    Root,
    Document(&'a str),
    Group(&'a str),
}

/// The media types of one OpenAPI version. Protobuf has two names: clients
/// ask by either, and the first is the one answered.
struct MediaTypes {
    protobuf: &'static str,
    protobuf_old: &'static str,
}

const V2: MediaTypes = MediaTypes {
    protobuf: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    protobuf_old: "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
};
const V3: MediaTypes = MediaTypes {
    protobuf: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    protobuf_old: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
};

const ONE_YEAR: Duration = Duration::from_secs(31_536_000);
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Waits for what [`handle`] cannot wait for: v2 of other servers, as long as it
/// takes to know that there is nothing to wait for, and merging it.
pub async fn prepare(api: &Api, target: Target<'_>) {
    let openapi = &api.openapi;
    if target != Target::V2 || (api.remotes.all().is_empty() && openapi.merged.load().is_none()) {
        return;
    }
    let parts = elsewhere::gather_v2(&api.remotes).await;
    let snapshot = openapi.publisher.snapshot();
    if parts.is_empty() {
        return openapi.merged.store(None);
    }
    let hashes: Vec<String> = std::iter::once(snapshot.v2().hash())
        .chain(parts.iter().map(|part| &*part.hash))
        .map(str::to_owned)
        .collect();
    let is_made = || openapi.merged.load().as_ref().is_some_and(|merged| merged.parts == hashes);
    if is_made() {
        return;
    }
    let Ok(_turn) = openapi.merging.acquire().await else { return };
    if is_made() {
        return;
    }
    match tokio::task::spawn_blocking(move || merged(&snapshot, &parts)).await {
        Ok(rendition) => openapi.merged.store(Some(Arc::new(Merged { parts: hashes, rendition }))),
        // What was there stays.
        Err(error) => tracing::error!(%error, "OpenAPI v2 could not be merged"),
    }
}

fn merged(snapshot: &Snapshot, parts: &[Arc<Part>]) -> Rendition {
    let local = snapshot.v2().form(Format::Json, Coding::Identity);
    // Our own writer's output always reads back.
    let local: Value =
        local.ok().and_then(|form| serde_json::from_slice(&form.bytes).ok()).unwrap_or_default();
    let merged = merge::v2(std::iter::once(local).chain(parts.iter().map(|part| part.document())));
    for conflict in &merged.conflicts {
        tracing::debug!(?conflict, "a conflict in OpenAPI v2");
    }
    Rendition::of_json(Version::V2, Keep::Packed, merged.document.to_string().into_bytes())
}

/// A document that another server is to be asked for.
pub struct Elsewhere {
    remote: Arc<Remote>,
    /// The hash that the client has, if it is the one that is listed.
    hash: Option<Box<str>>,
    /// Without the hash: should it be another one by now, the client still gets the document, and
    /// not a redirect, which no other server may send.
    query: Query,
}

/// The document that a request asks for, if another server has it.
pub fn elsewhere(api: &Api, route: Route<'_>, method: &Method, query: &Query) -> Option<Elsewhere> {
    let Route::OpenApi(Target::Document(key)) = route else { return None };
    if !api.openapi.v3 || (method != Method::GET && method != Method::HEAD) {
        return None;
    }
    if api.openapi.publisher.snapshot().contains(key) {
        return None;
    }
    let (remote, listed) = elsewhere::find(&api.remotes, key)?;
    let hash = hash(query);
    if matches!(listed, Listed::Converted(_)) || hash.is_some_and(|hash| listed.hash() != Some(hash)) {
        return None;
    }
    let others = query.raw().split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        name != "hash" && name != "etag"
    });
    let others: Vec<&str> = others.collect();
    let hash = hash.map(Box::from);
    Some(Elsewhere { remote, hash, query: Query::parse(Some(&others.join("&"))) })
}

/// Fetches a document from another server. What was asked for by the hash that
/// it still has may be kept for ever.
pub async fn pass_on<B>(api: &Api, elsewhere: Elsewhere, passing: Passing<'_>, body: B) -> Answer
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Elsewhere { remote, hash, query } = elsewhere;
    let mut passing = Passing { query: &query, ..passing };
    // A document is not a protocol.
    passing.parts.extensions.remove::<OnUpgrade>();
    let mut answer = proxied::pass_on(api, &remote, passing, body).await;
    let status = answer.status();
    if let Some(hash) = hash
        && is_cacheable(status)
        && tag(answer.headers()).is_some_and(|tag| tag.split('.').next() == Some(&hash))
    {
        keep_for_ever(&api.verbs.clock, answer.headers_mut());
    }
    answer
}

/// The strong or weak validator, without what stands around it.
fn tag(headers: &HeaderMap) -> Option<&str> {
    let tag = headers.get(header::ETAG)?.to_str().ok()?;
    tag.trim_start_matches("W/").strip_prefix('"')?.strip_suffix('"')
}

pub fn handle(api: &Api, request: &Request, target: Target<'_>) -> Response {
    if target != Target::V2 && !api.openapi.v3 {
        return response::page_not_found();
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        return response::method_not_allowed(request, "GET, HEAD");
    }
    let snapshot = api.openapi.publisher.snapshot();
    let since = api.openapi.last_modified();
    if target == Target::V2 {
        return match &*api.openapi.merged.load() {
            Some(merged) => document(request, &merged.rendition, &V2, None),
            None => document(request, snapshot.v2(), &V2, since),
        };
    }
    let naming = match naming(api, request) {
        Ok(naming) => naming,
        Err(status) => return response::status(Spacing::wanted_by(request), &status),
    };
    let found = match target {
        // Always JSON, whatever is accepted: clients that fetch the root ask
        // for all sorts of things and read JSON.
        Target::Root => {
            let send =
                |rendition, since| send(request, rendition, Format::Json, JSON, "Accept-Encoding", since);
            return match root(api, &snapshot, naming).as_deref() {
                Some(Root { rendition: Some(rendition), .. }) => send(rendition, None),
                _ => send(snapshot.root(naming), since),
            };
        }
        Target::Document(key) => snapshot.document(key, naming),
        Target::Group(group) => snapshot.group(group, naming),
        Target::V2 => None,
    };
    match (found, target) {
        (Some(rendition), Target::Document(key)) => {
            hashed(request, rendition, since, || snapshot.url(key, naming, rendition))
        }
        (Some(rendition), _) => document(request, rendition, &V3, since),
        (None, Target::Document(key)) => match elsewhere::find(&api.remotes, key) {
            Some((_, Listed::Converted(rendition))) => {
                let url = || Listed::Converted(rendition.clone()).url(key);
                hashed(request, &rendition, None, url)
            }
            Some((_, listed @ Listed::Theirs { .. })) => match listed.hash() {
                Some(hash) => moved(&listed.url(key), hash),
                // Listed only since it was looked for.
                None => response::plain_text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n"),
            },
            None => response::status(Spacing::wanted_by(request), &Status::no_such_resource()),
        },
        // Below `/apis`, what is no group is no API at all.
        (None, _) => response::page_not_found(),
    }
}

/// The root with what other servers document; `None` without any.
fn root(api: &Api, snapshot: &Snapshot, naming: Naming) -> Option<Arc<Root>> {
    // Before what it is the version of: then what is kept is at most looked at once more.
    let version = *api.remotes.changed().borrow();
    let remotes = api.remotes.all();
    let kept = api.openapi.roots.get(naming as usize)?;
    if remotes.is_empty() {
        return None;
    }
    let local = snapshot.root(naming).hash();
    if let Some(root) = kept.load_full().filter(|root| root.version == version && root.local == local) {
        return Some(root);
    }
    let mut theirs: BTreeMap<Arc<str>, String> = BTreeMap::new();
    for remote in &remotes {
        for (key, listed) in remote.openapi.load().documents() {
            if !snapshot.contains(key) {
                theirs.entry(key.clone()).or_insert_with(|| listed.url(key));
            }
        }
    }
    let rendition = (!theirs.is_empty()).then(|| {
        let ours = snapshot.keys().filter_map(|key| {
            let rendition = snapshot.document(key, naming)?;
            Some((key.clone(), snapshot.url(key, naming, rendition)))
        });
        let entries = ours.chain(theirs);
        let paths: serde_json::Map<String, Value> =
            entries.map(|(key, url)| (key.to_string(), json!({"serverRelativeURL": url}))).collect();
        Rendition::of_json(Version::V3, Keep::Plain, json!({"paths": paths}).to_string().into_bytes())
    });
    let root = Arc::new(Root { local: local.to_owned(), version, rendition });
    kept.store(Some(root.clone()));
    Some(root)
}

/// A document that may be asked for by its hash.
fn hashed(
    request: &Request,
    rendition: &Rendition,
    since: Option<SystemTime>,
    url: impl Fn() -> String,
) -> Response {
    match hash(&request.query) {
        // Negotiated before, so that no redirect leads to a 406.
        Some(wanted) if wanted != rendition.hash() => match negotiate(request, &V3) {
            Ok(_) => moved(&url(), rendition.hash()),
            Err(refused) => *refused,
        },
        Some(_) => {
            let mut response = document(request, rendition, &V3, since);
            if is_cacheable(response.status()) {
                keep_for_ever(&request.clock, response.headers_mut());
            }
            response
        }
        None => document(request, rendition, &V3, since),
    }
}

fn is_cacheable(status: StatusCode) -> bool {
    [StatusCode::OK, StatusCode::PARTIAL_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}

fn keep_for_ever(clock: &Clock, headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, FOR_EVER);
    if let Ok(expires) = HeaderValue::from_str(&httpdate::fmt_http_date(clock.wall() + ONE_YEAR)) {
        headers.insert(header::EXPIRES, expires);
    }
}

/// `names=short|upstream`, or what the server was started with.
fn naming(api: &Api, request: &Request) -> Result<Naming, Status> {
    match request.query.first("names") {
        None | Some("") => Ok(api.openapi.publisher.default_naming()),
        Some(text) => Naming::parse(text).ok_or_else(|| {
            Status::bad_request("names: Unsupported value: supported values: \"short\", \"upstream\"")
        }),
    }
}

/// The hash the client has in its URL. `etag` is what the proposal called it.
fn hash(query: &Query) -> Option<&str> {
    ["hash", "etag"].into_iter().filter_map(|name| query.first(name)).find(|hash| !hash.is_empty())
}

fn moved(location: &str, hash: &str) -> Response {
    let mut response = response::empty(StatusCode::MOVED_PERMANENTLY);
    let headers = [
        (header::LOCATION, location.to_owned()),
        (header::ETAG, format!("\"{hash}\"")),
        (header::VARY, "Accept, Accept-Encoding".to_owned()),
    ];
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn document(
    request: &Request,
    rendition: &Rendition,
    types: &MediaTypes,
    since: Option<SystemTime>,
) -> Response {
    match negotiate(request, types) {
        Ok((format, media_type)) => {
            send(request, rendition, format, media_type, "Accept, Accept-Encoding", since)
        }
        Err(refused) => *refused,
    }
}

fn negotiate(request: &Request, types: &MediaTypes) -> Result<(Format, &'static str), Box<Response>> {
    let offers = [JSON, types.protobuf, types.protobuf_old];
    match Accept::of(&request.headers).choose(&offers) {
        Some(JSON) => Ok((Format::Json, JSON)),
        Some(_) => Ok((Format::Protobuf, types.protobuf)),
        None => {
            let mut response = response::not_acceptable(&Status::not_acceptable(&offers));
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
            Err(Box::new(response))
        }
    }
}

fn send(
    request: &Request,
    rendition: &Rendition,
    format: Format,
    media_type: &'static str,
    vary: &'static str,
    since: Option<SystemTime>,
) -> Response {
    let (coding, form) = match form(rendition, format, Encoding::of(&request.headers)) {
        Ok(found) => found,
        Err(error) => {
            tracing::error!(%error, "a document has no protobuf form");
            let status = Status::internal_error("the document has no protobuf form");
            return response::status(Spacing::wanted_by(request), &status);
        }
    };
    let representation = Representation {
        bytes: form.bytes,
        content_type: HeaderValue::from_static(media_type),
        content_encoding: (coding == Coding::Gzip).then_some(HeaderValue::from_static("gzip")),
        etag: form.etag,
        last_modified: since,
        vary: Some(HeaderValue::from_static(vary)),
    };
    content::serve(request, &representation)
}

/// What is compressed already goes first: some documents are kept in no other form.
fn form(
    rendition: &Rendition,
    format: Format,
    encoding: Encoding,
) -> Result<(Coding, Form), &gnostic::EncodeError> {
    if encoding == Encoding::Gzip {
        let compressed = rendition.form(format, Coding::Gzip)?;
        if compressed.bytes.len() >= MIN_GZIP_BYTES {
            return Ok((Coding::Gzip, compressed));
        }
        let plain = rendition.form(format, Coding::Identity)?;
        return Ok(if plain.bytes.len() >= MIN_GZIP_BYTES {
            (Coding::Gzip, compressed)
        } else {
            (Coding::Identity, plain)
        });
    }
    Ok((Coding::Identity, rendition.form(format, Coding::Identity)?))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use serde_json::Value;

    use super::*;
    use crate::{
        pipeline,
        testing::{self, header as header_of},
    };

    /// By the way of the pipeline's router, as a client would.
    fn get(target: &str, headers: &[(&str, &str)]) -> Answer {
        send_to(&testing::api(), Method::GET, target, headers)
    }

    fn send_to(api: &Api, method: Method, target: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = http::Request::builder().method(method).uri(target);
        request = request.header("authorization", format!("Bearer {}", testing::TOKEN));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(http_body_util::Empty::<Bytes>::new()).unwrap();
        testing::now(pipeline::alone(api, &crate::connections::Origin::default(), request))
    }

    fn root(target: &str) -> Value {
        serde_json::from_slice(&testing::body_bytes(&get(target, &[]))).unwrap()
    }

    fn url(key: &str) -> String {
        root("/openapi/v3")["paths"][key]["serverRelativeURL"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_root_lists_every_document_with_its_hash() {
        let response = get("/openapi/v3", &[]);
        assert_eq!(response.status(), 200);
        assert_eq!(header_of(&response, "content-type"), Some("application/json"));
        assert_eq!(header_of(&response, "cache-control"), Some("no-cache, private"));
        let root = root("/openapi/v3");
        assert_eq!(root.as_object().unwrap().len(), 1);
        let paths = root["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 47);
        for (key, entry) in paths {
            let url = entry["serverRelativeURL"].as_str().unwrap();
            let response = get(url, &[]);
            assert_eq!(response.status(), 200, "{key}");
            let hash = url.rsplit('=').next().unwrap();
            assert_eq!(header_of(&response, "etag"), Some(&*format!("\"{hash}\"")));
        }
        let etag = header_of(&response, "etag").unwrap();
        assert_eq!(get("/openapi/v3", &[("if-none-match", etag)]).status(), 304);
        // Whatever is accepted: the root is JSON.
        assert_eq!(get("/openapi/v3", &[("accept", "text/html")]).status(), 200);
    }

    #[test]
    fn the_right_hash_may_be_kept_for_ever_and_none_may_not() {
        let response = get(&url("apis/apps/v1"), &[]);
        assert_eq!(header_of(&response, "cache-control"), Some("public, max-age=31536000, immutable"));
        assert!(header_of(&response, "expires").unwrap().ends_with(" GMT"));
        assert_eq!(header_of(&response, "vary"), Some("Accept, Accept-Encoding"));
        let etag = header_of(&response, "etag").unwrap();
        let unchanged = get(&url("apis/apps/v1"), &[("if-none-match", etag)]);
        assert_eq!(unchanged.status(), 304);
        assert_eq!(header_of(&unchanged, "cache-control"), Some("public, max-age=31536000, immutable"));
        for target in ["/openapi/v3/apis/apps/v1", "/openapi/v3/apis/apps/v1?hash="] {
            let response = get(target, &[]);
            assert_eq!(header_of(&response, "cache-control"), Some("no-cache, private"), "{target}");
            assert_eq!(header_of(&response, "expires"), None);
        }
    }

    #[test]
    fn a_stale_hash_is_redirected_to_the_current_one() {
        let current = url("apis/apps/v1");
        let long = format!("/openapi/v3/apis/apps/v1?hash={}", "F".repeat(4000));
        for target in ["/openapi/v3/apis/apps/v1?hash=ABC", "/openapi/v3/apis/apps/v1?etag=ABC", &long] {
            let response = get(target, &[]);
            assert_eq!(response.status(), 301, "{target}");
            assert_eq!(header_of(&response, "location"), Some(&*current));
            assert_eq!(header_of(&response, "cache-control"), Some("no-cache, private"));
            assert_eq!(testing::body(&response), "");
        }
        let alias = current.replace("hash=", "etag=");
        assert_eq!(get(&alias, &[]).status(), 200);
        // A hash of the other spelling is stale in this one, and stays in its own.
        let upstream = get("/openapi/v3/apis/apps/v1?names=upstream&hash=ABC", &[]);
        let location = header_of(&upstream, "location").unwrap().to_owned();
        assert!(location.starts_with("/openapi/v3/apis/apps/v1?names=upstream&hash="), "{location}");
        assert_eq!(get(&location, &[]).status(), 200);
        assert_eq!(get(&location.replace("names=upstream&", ""), &[]).status(), 301);
    }

    #[test]
    fn both_spellings_are_to_be_had_by_request_and_by_setting() {
        let names = |api: &Api, target: &str| -> Vec<String> {
            let body = testing::body_bytes(&send_to(api, Method::GET, target, &[]));
            let json: Value = serde_json::from_slice(&body).unwrap();
            json["components"]["schemas"].as_object().unwrap().keys().cloned().collect()
        };
        let api = testing::api();
        let short = names(&api, "/openapi/v3/apis/apps/v1");
        let long = names(&api, "/openapi/v3/apis/apps/v1?names=upstream");
        assert!(short.contains(&"apps.v1.Deployment".to_owned()));
        assert!(long.contains(&"io.k8s.api.apps.v1.Deployment".to_owned()));
        let api = testing::api_named(Naming::Upstream);
        assert_eq!(names(&api, "/openapi/v3/apis/apps/v1"), long);
        assert_eq!(names(&api, "/openapi/v3/apis/apps/v1?names=short"), short);
        for target in ["/openapi/v3", "/openapi/v3?names=short", "/openapi/v3?names=upstream"] {
            let listed = testing::body_bytes(&send_to(&api, Method::GET, target, &[]));
            let listed: Value = serde_json::from_slice(&listed).unwrap();
            let url = listed["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
            assert_eq!(send_to(&api, Method::GET, url, &[]).status(), 200, "{url}");
        }
        let bad = get("/openapi/v3?names=french", &[]);
        assert_eq!(bad.status(), 400);
        assert!(testing::body(&bad).contains("names: Unsupported value"));
    }

    #[test]
    fn protobuf_is_asked_for_by_either_name_and_answered_by_the_new_one() {
        for version in ["v2", "v3"] {
            let target = if version == "v2" { "/openapi/v2" } else { "/openapi/v3/apis/apps/v1" };
            for spelling in ["@", "."] {
                let accept =
                    format!("application/com.github.proto-openapi.spec.{version}{spelling}v1.0+protobuf");
                let response = get(target, &[("accept", &accept)]);
                let answered = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
                assert_eq!(header_of(&response, "content-type"), Some(&*answered));
                let etag = header_of(&response, "etag").unwrap();
                assert!(etag.ends_with(".pb\""), "{etag}");
            }
        }
    }

    #[test]
    fn gzip_is_the_same_document_under_its_own_etag() {
        for target in ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"] {
            let plain = get(target, &[]);
            let packed = get(target, &[("accept-encoding", "gzip")]);
            assert_eq!(header_of(&packed, "content-encoding"), Some("gzip"));
            assert_ne!(header_of(&plain, "etag"), header_of(&packed, "etag"));
            let mut unpacked = Vec::new();
            let bytes = testing::body_bytes(&packed);
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, testing::body_bytes(&plain));
            assert!(header_of(&packed, "vary").unwrap().contains("Accept-Encoding"));
        }
        // Not worth it below a packet.
        let small = get("/openapi/v3/openid/v1/jwks", &[("accept-encoding", "gzip")]);
        assert_eq!(header_of(&small, "content-encoding"), None);
    }

    #[test]
    fn head_and_range_work_on_documents() {
        let api = testing::api();
        let whole = get("/openapi/v3/version", &[]);
        let length = testing::body_bytes(&whole).len();
        let head = send_to(&api, Method::HEAD, "/openapi/v3/version", &[]);
        assert_eq!((head.status().as_u16(), testing::body(&head).len()), (200, 0));
        assert_eq!(header_of(&head, "content-length"), Some(&*length.to_string()));
        let part = get("/openapi/v3/version", &[("range", "bytes=0-3")]);
        assert_eq!((part.status().as_u16(), testing::body_bytes(&part).len()), (206, 4));
    }

    #[test]
    fn what_cannot_be_answered_is_a_status_that_nobody_caches() {
        for (method, target, accept, code) in [
            ("GET", "/openapi/v3/apis/nope/v1", "*/*", 404),
            ("GET", "/openapi/v3/", "*/*", 404),
            ("GET", "/openapi/v3/apis/apps/v1/", "*/*", 404),
            ("GET", "/openapi/v3/../../etc/passwd", "*/*", 404),
            ("GET", "/openapi/v3/apis/apps/v1", "text/html", 406),
            ("GET", "/openapi/v3/apis/apps/v1", "garbage", 406),
            ("GET", "/openapi/v3/apis/apps/v1?hash=ABC", "garbage", 406),
            ("GET", "/openapi/v2", ";;", 406),
            ("POST", "/openapi/v2", "*/*", 405),
            ("DELETE", "/openapi/v3", "*/*", 405),
            ("PUT", "/openapi/v3/apis/apps/v1", "*/*", 405),
            ("POST", "/apis/apps/openapi/v3", "*/*", 405),
        ] {
            let method: Method = method.parse().unwrap();
            let response = send_to(&testing::api(), method.clone(), target, &[("accept", accept)]);
            assert_eq!(response.status(), code, "{method} {target} {accept}");
            let status: Value = serde_json::from_slice(&testing::body_bytes(&response)).unwrap();
            assert_eq!(status["kind"], "Status", "{method} {target}");
            assert_eq!(status["code"], code);
            assert_eq!(header_of(&response, "cache-control"), Some("no-cache, private"));
            assert_eq!(header_of(&response, "etag"), None);
        }
    }

    #[test]
    fn a_group_has_one_document_for_all_its_versions() {
        let response = get("/apis/autoscaling/openapi/v3", &[]);
        assert_eq!(response.status(), 200);
        let json: Value = serde_json::from_slice(&testing::body_bytes(&response)).unwrap();
        assert!(json["paths"]["/apis/autoscaling/v1/"].is_object());
        assert!(json["paths"]["/apis/autoscaling/v2/"].is_object());
    }

    #[test]
    fn the_feature_gate_takes_v3_away_and_leaves_v2() {
        let mut api = testing::api();
        api.openapi.v3 = false;
        for target in ["/openapi/v3", "/openapi/v3/api/v1", "/apis/apps/openapi/v3"] {
            assert_eq!(send_to(&api, Method::GET, target, &[]).status(), 404, "{target}");
        }
        assert_eq!(send_to(&api, Method::GET, "/openapi/v2", &[]).status(), 200);
        let paths = testing::body(&send_to(&api, Method::GET, "/", &[]));
        assert!(!paths.contains("/openapi/v3") && paths.contains("/openapi/v2"), "{paths}");
        api.openapi.v3 = true;
        assert_eq!(send_to(&api, Method::GET, "/openapi/v3", &[]).status(), 200);
    }
}
