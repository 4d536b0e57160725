//! Documents of a server, through the cache.
//!
//! The root is asked for every time; a document whose hash it still lists is
//! taken from the cache. Redirects are followed within `/openapi` of the same
//! server and nowhere else.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_cache_semantics::{AfterResponse, BeforeRequest, CacheOptions, CachePolicy};
use serde_json::Value;
use sternpost_clock::machine;
use sternpost_meta::quantity::Quantity;
use tokio::{sync::Semaphore, task::JoinSet};

use super::cache::{self, Cache};
use crate::{
    client::{Client, Refused, Reply, TIMEOUT, TimedOut},
    error::Hinted,
    kubeconfig::{self, AccessArgs},
    terminal,
};

/// Requests at a time: enough to keep the line busy, and below what flow control holds back.
const PARALLEL: usize = 8;

/// A root may be out of date once, and once more while a server is upgraded.
const MAX_REDIRECTS: usize = 5;

/// How long a document that can never change is good for. Its server says for a year.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

const ROOT: &str = "/openapi/v3";

/// What the rules of HTTP look at when they say how long an answer may be kept.
const KEPT_HEADERS: [header::HeaderName; 8] = [
    header::AGE,
    header::CACHE_CONTROL,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::PRAGMA,
    header::VARY,
];

#[derive(Debug, Args)]
pub struct ServerArgs {
    #[command(flatten)]
    pub access: AccessArgs,

    /// How many seconds to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT.as_secs(), help_heading = "Server",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub request_timeout: u64,

    /// Where to keep documents [default: sternpost/openapi in the platform's cache directory]
    #[arg(long, value_name = "DIR", help_heading = "Cache")]
    pub cache_dir: Option<PathBuf>,

    /// Keep nothing, and take nothing from what was kept
    #[arg(long, conflicts_with = "cache_dir", help_heading = "Cache")]
    pub no_cache: bool,

    /// The most to keep; what was not used for longest goes first
    #[arg(long, value_name = "BYTES", default_value = "64Mi", value_parser = parse_size, help_heading = "Cache")]
    pub cache_size: u64,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let quantity = Quantity::parse(text).map_err(|_| "want a number of bytes, such as 64Mi")?;
    let bytes = quantity.value().and_then(|value| u64::try_from(value).ok());
    bytes.ok_or_else(|| "want a number of bytes that is not negative".into())
}

/// A server to ask.
#[derive(Debug)]
pub struct Server {
    client: Client,
    cache: Option<Cache>,
    counts: Counts,
    /// A cache that cannot be written is told once.
    has_warned: AtomicBool,
}

/// Where documents came from.
#[derive(Debug, Default)]
struct Counts {
    transferred: AtomicUsize,
    unchanged: AtomicUsize,
    kept: AtomicUsize,
}

/// A document as the server wrote it, and read.
#[derive(Debug)]
pub struct Fetched {
    pub bytes: Bytes,
    pub json: Value,
}

/// What `/openapi/v3` lists: addresses by key, such as `apis/apps/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    pub urls: BTreeMap<String, String>,
}

impl Root {
    fn read(json: &Value) -> anyhow::Result<Self> {
        let paths = json.get("paths").and_then(Value::as_object).context("`paths` is missing")?;
        let url = |(key, entry): (&String, &Value)| {
            let url = entry.get("serverRelativeURL").and_then(Value::as_str);
            Ok((key.clone(), url.with_context(|| format!("`{key}` has no serverRelativeURL"))?.to_owned()))
        };
        Ok(Self { urls: paths.iter().map(url).collect::<anyhow::Result<_>>()? })
    }

    /// The part of an address that changes with its document.
    pub fn hash(url: &str) -> Option<&str> {
        let (_, query) = url.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix("hash="))
    }
}

enum Step {
    Found(Fetched),
    Moved(String),
    Absent,
}

/// What becomes of a document that its server does not have at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    Fails,
    LeftOut,
}

/// Whether others may well be there: an extension server is away or hangs, the rest does not.
fn is_of_document(error: &anyhow::Error) -> bool {
    let is_away = |refused: &Refused| refused.status.is_server_error();
    error.is::<TimedOut>() || error.downcast_ref().is_some_and(is_away)
}

/// What an answer must be; anything else is neither kept nor taken from what was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Root,
    V2,
    V3,
}

impl Expected {
    fn read(self, bytes: &[u8]) -> anyhow::Result<Value> {
        let json: Value = serde_json::from_slice(bytes).context("no JSON")?;
        let says = |key: &str| json.get(key).and_then(Value::as_str);
        match self {
            Expected::Root => Root::read(&json).map(drop)?,
            Expected::V2 if says("swagger") != Some("2.0") => {
                return Err(anyhow!("this is no OpenAPI v2 document"));
            }
            Expected::V3 if !says("openapi").is_some_and(|version| version.starts_with("3.")) => {
                return Err(anyhow!("this is no OpenAPI v3 document"));
            }
            Expected::V2 | Expected::V3 => {}
        }
        Ok(json)
    }
}

/// Whether an answer may be taken from the cache without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    AsHttpSays,
    AlwaysAsk,
}

impl Server {
    pub async fn open(args: &ServerArgs) -> anyhow::Result<Self> {
        let access = kubeconfig::load(&args.access).await?;
        let client = Client::new(&access, Duration::from_secs(args.request_timeout))?;
        let directory = args.cache_dir.clone().or_else(cache::default_directory).filter(|_| !args.no_cache);
        let opened = directory.map(|directory| {
            let named = directory.display().to_string();
            Cache::open(directory, args.cache_size, &access).with_context(|| named)
        });
        let server =
            Self { client, cache: None, counts: Counts::default(), has_warned: AtomicBool::new(false) };
        let cache = match opened.transpose() {
            Ok(cache) => cache,
            Err(error) => {
                server.warn_of_cache(&error);
                None
            }
        };
        Ok(Self { cache, ..server })
    }

    /// Scheme, host and port.
    pub fn name(&self) -> &str {
        self.client.base()
    }

    /// What the server lists; none if it has no v3. `names` is a spelling that only some servers
    /// know, others do not mind.
    pub async fn root(&self, names: Option<&str>) -> anyhow::Result<Option<Root>> {
        let path = names.map_or_else(|| ROOT.to_owned(), |names| format!("{ROOT}?names={names}"));
        let found = self.get(&path, Expected::Root, Freshness::AlwaysAsk).await?;
        let Some(Fetched { json, .. }) = found else { return Ok(None) };
        Root::read(&json).map(Some).with_context(|| self.answer_to(&path))
    }

    /// The document with everything.
    pub async fn v2(&self) -> anyhow::Result<Fetched> {
        let path = "/openapi/v2";
        let found = self.get(path, Expected::V2, Freshness::AsHttpSays).await?;
        found.with_context(|| format!("{} has no {path}", self.name()))
    }

    /// The documents at some addresses of a root, with their keys, in their order. `done` is told
    /// of each.
    pub async fn documents(
        self: &Arc<Self>,
        urls: &[(String, String)],
        unavailable: Unavailable,
        done: impl Fn(),
    ) -> anyhow::Result<Vec<(String, Fetched)>> {
        let room = Arc::new(Semaphore::new(PARALLEL));
        let mut tasks = JoinSet::new();
        for (index, (key, url)) in urls.iter().enumerate() {
            let path = below(url, self.client.base(), self.client.prefix())
                .with_context(|| format!("{}: the address of `{key}` in {ROOT}", self.name()))?;
            let (server, room, key) = (self.clone(), room.clone(), key.clone());
            tasks.spawn(async move {
                let _permit = room.acquire().await?;
                let document = server.document(&key, &path).await;
                anyhow::Ok((index, key, document))
            });
        }
        let mut found = BTreeMap::new();
        // The first failure ends the others with the set.
        while let Some(task) = tasks.join_next().await {
            let (index, key, document) = task.map_err(anyhow::Error::from).and_then(|result| result)?;
            done();
            match document {
                Ok(document) => {
                    found.insert(index, (key, document));
                }
                Err(error) if unavailable == Unavailable::LeftOut && is_of_document(&error) => {
                    terminal::tell(&format!("warning: `{key}` is left out: {error:#}"));
                }
                Err(error) if urls.len() > 1 && is_of_document(&error) => {
                    let hint = "--skip-unavailable leaves it out".to_owned();
                    return Err(Hinted { message: format!("{error:#}"), hint }.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found.into_values().collect())
    }

    async fn document(&self, key: &str, path: &str) -> anyhow::Result<Fetched> {
        let found = self.get(path, Expected::V3, Freshness::AsHttpSays).await?;
        found.with_context(|| format!("{} lists `{key}` but does not have it", self.name()))
    }

    /// What the server calls itself, such as `v1.36.0`, if it says so.
    pub async fn version(&self) -> Option<String> {
        let json = self.client.get_ok("/version", "application/json").await.ok()?;
        json.get("gitVersion").and_then(Value::as_str).map(Into::into)
    }

    /// What was asked for and what was not, in one line; the cache is tidied up.
    pub fn finish(&self) -> String {
        if let Some(cache) = &self.cache
            && let Err(error) = cache.compact()
        {
            self.warn_of_cache(&error.into());
        }
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let Counts { transferred, unchanged, kept } = &self.counts;
        format!(
            "{}: {} transferred, {} unchanged, {} from the cache; {} bytes",
            self.name(),
            count(transferred),
            count(unchanged),
            count(kept),
            self.client.received()
        )
    }

    fn answer_to(&self, path: &str) -> String {
        format!("the answer of {} to {}", self.name(), path.split('?').next().unwrap_or(path))
    }

    /// What is at a path, wherever it has moved to; none if there is nothing.
    async fn get(
        &self,
        path: &str,
        expected: Expected,
        freshness: Freshness,
    ) -> anyhow::Result<Option<Fetched>> {
        let mut path = path.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            match self.step(&path, expected, freshness).await? {
                Step::Found(fetched) => return Ok(Some(fetched)),
                Step::Absent => return Ok(None),
                Step::Moved(to) => path = to,
            }
        }
        Err(anyhow!("more than {MAX_REDIRECTS} redirects").context(self.answer_to(&path)))
    }

    async fn step(&self, path: &str, expected: Expected, freshness: Freshness) -> anyhow::Result<Step> {
        let request = self.request(path, freshness)?;
        // What does not read is as good as not there.
        let kept = self.cache.as_ref().and_then(|cache| cache.load(path)).and_then(|kept| {
            let json = expected.read(&kept.body).ok()?;
            Some((kept, json))
        });
        // What was kept says how to ask whether it is still right, unless it is so without asking.
        let mut headers = request.headers().clone();
        let now = machine::wall();
        match kept.as_ref().map(|(kept, _)| kept.policy.before_request(&request, now)) {
            Some(BeforeRequest::Fresh(_)) => {
                if let Some((kept, json)) = kept {
                    self.counts.kept.fetch_add(1, Ordering::Relaxed);
                    return Ok(Step::Found(Fetched { bytes: kept.body.into(), json }));
                }
            }
            Some(BeforeRequest::Stale { request: conditional, matches: true }) => {
                headers = conditional.headers;
                // Seconds are too coarse for what may change twice in one.
                headers.remove(header::IF_MODIFIED_SINCE);
            }
            Some(BeforeRequest::Stale { .. }) | None => {}
        }
        let mut reply = self.client.send(path, &headers).await?;
        if reply.status == StatusCode::NOT_MODIFIED {
            if let Some((kept, json)) = kept
                && let AfterResponse::NotModified(policy, _) =
                    kept.policy.after_response(&request, &head(&reply), now)
            {
                self.counts.unchanged.fetch_add(1, Ordering::Relaxed);
                self.keep(path, &policy, &kept.body);
                return Ok(Step::Found(Fetched { bytes: kept.body.into(), json }));
            }
            reply = self.client.send(path, request.headers()).await?;
        }
        match reply.status {
            StatusCode::OK => self.found(path, expected, &request, &reply).map(Step::Found),
            StatusCode::NOT_FOUND => Ok(Step::Absent),
            status if status.is_redirection() => self.moved(path, &reply).map(Step::Moved),
            status => {
                let said = reply.unpacked().ok().and_then(|body| serde_json::from_slice(&body).ok());
                Err(self.client.refused(path, status, &said.unwrap_or_default()))
            }
        }
    }

    /// As the cache sees it: without credentials, which it must not keep.
    fn request(&self, path: &str, freshness: Freshness) -> anyhow::Result<Request<()>> {
        let uri: Uri = format!("{}{}{path}", self.client.base(), self.client.prefix()).parse()?;
        let mut request = Request::new(());
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if freshness == Freshness::AlwaysAsk {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        Ok(request)
    }

    fn found(
        &self,
        path: &str,
        expected: Expected,
        request: &Request<()>,
        reply: &Reply,
    ) -> anyhow::Result<Fetched> {
        self.counts.transferred.fetch_add(1, Ordering::Relaxed);
        let bytes = reply.unpacked().with_context(|| self.answer_to(path))?;
        let json = expected.read(&bytes).with_context(|| self.answer_to(path))?;
        // Servers have no say in how long to keep what they say nothing about.
        let options = CacheOptions {
            shared: false,
            cache_heuristic: 0.0,
            immutable_min_time_to_live: FOR_EVER,
            ignore_cargo_cult: false,
        };
        let now = machine::wall();
        let policy = CachePolicy::new_options(request, &head(reply), now, options);
        // What is neither fresh nor has a tag is of no use later.
        let is_useful = reply.headers.contains_key(header::ETAG) || !policy.is_stale(now);
        if policy.is_storable() && is_useful {
            self.keep(path, &policy, &bytes);
        }
        Ok(Fetched { bytes, json })
    }

    /// The path that an answer leads to.
    fn moved(&self, path: &str, reply: &Reply) -> anyhow::Result<String> {
        let location = reply.headers.get(header::LOCATION).context("a redirect to nowhere");
        let to = location
            .and_then(|location| location.to_str().context("the redirect is no text"))
            .and_then(|location| below(location, self.client.base(), self.client.prefix()));
        to.with_context(|| self.answer_to(path))
    }

    fn keep(&self, path: &str, policy: &CachePolicy, body: &[u8]) {
        if let Some(cache) = &self.cache
            && let Err(error) = cache.store(path, policy, body)
        {
            self.warn_of_cache(&error);
        }
    }

    /// Without a cache everything works, only slower.
    fn warn_of_cache(&self, error: &anyhow::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            terminal::tell(&format!("warning: the cache cannot be used: {error:#}"));
        }
    }
}

/// What the rules of HTTP see of an answer.
fn head(reply: &Reply) -> Response<()> {
    let mut headers = HeaderMap::new();
    for name in KEPT_HEADERS {
        for value in reply.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    // kube-apiserver writes its time zone as UTC, which is no date to HTTP and so long past. What
    // can never change says so elsewhere.
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_immutable = text(header::CACHE_CONTROL).is_some_and(|said| said.contains("immutable"));
    if is_immutable && text(header::EXPIRES).is_some_and(|date| httpdate::parse_http_date(date).is_err()) {
        headers.remove(header::EXPIRES);
    }
    let mut response = Response::new(());
    *response.status_mut() = reply.status;
    *response.headers_mut() = headers;
    response
}

/// An address of a root or of a redirect as a path below the server's URL, if it is one of its
/// documents. Fronts that serve below a prefix may say it or not.
fn below(url: &str, base: &str, prefix: &str) -> anyhow::Result<String> {
    let path = url.strip_prefix(base).unwrap_or(url);
    if !path.starts_with('/') || path.starts_with("//") {
        return Err(anyhow!("`{url}` leads to another server"));
    }
    let is_document = |path: &str| path.starts_with("/openapi/");
    let inner = path.strip_prefix(prefix).filter(|path| is_document(path));
    let path = inner.or(Some(path).filter(|path| is_document(path)));
    let path = path.ok_or_else(|| anyhow!("`{url}` leads out of /openapi"))?;
    let decoded = path.split('?').next().unwrap_or(path).to_ascii_lowercase().replace("%2e", ".");
    if decoded.contains('\\') || decoded.split('/').any(|segment| segment == ".." || segment == ".") {
        return Err(anyhow!("`{url}` leads out of /openapi"));
    }
    path.parse::<http::uri::PathAndQuery>().with_context(|| format!("`{}` is no URL", url.escape_debug()))?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_stay_within_openapi_of_the_server() {
        for (url, prefix, expected) in [
            ("/openapi/v3/api/v1?hash=A", "", Ok("/openapi/v3/api/v1?hash=A")),
            ("/openapi/v3/api/v1", "/k8s", Ok("/openapi/v3/api/v1")),
            ("/k8s/openapi/v3/api/v1", "/k8s", Ok("/openapi/v3/api/v1")),
            ("https://s:1/openapi/v3/api/v1", "", Ok("/openapi/v3/api/v1")),
            ("https://t/openapi/v3/api/v1", "", Err("leads to another server")),
            ("https://s:11/openapi/v3/api/v1", "", Err("leads to another server")),
            ("https://s:1@t/openapi/v3/api/v1", "", Err("leads to another server")),
            ("//t/openapi/v3/api/v1", "", Err("leads to another server")),
            ("openapi/v3/api/v1", "", Err("leads to another server")),
            ("", "", Err("leads to another server")),
            ("/api/v1/secrets", "", Err("leads out of /openapi")),
            ("/openapi", "", Err("leads out of /openapi")),
            ("/other/openapi/v3/api/v1", "/k8s", Err("leads out of /openapi")),
            ("/openapi/../api/v1/secrets", "", Err("leads out of /openapi")),
            ("/openapi/v3/%2E%2e/%2e./api/v1/secrets", "", Err("leads out of /openapi")),
            ("/openapi/v3\\..\\x", "", Err("leads out of /openapi")),
            ("/openapi/v3/a b", "", Err("is no URL")),
            ("/openapi/v3/a\r\nHost: x", "", Err("is no URL")),
        ] {
            match (below(url, "https://s:1", prefix), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().ends_with(expected), "{url}: {error}");
                }
                (found, _) => panic!("{url}: {found:?}"),
            }
        }
    }

    #[test]
    fn roots_are_read() {
        let root = json!({"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?x=y&hash=A"}}});
        let urls = Root::read(&root).unwrap().urls;
        assert_eq!(Root::hash(&urls["api/v1"]), Some("A"));
        assert_eq!(Root::hash("/openapi/v3/api/v1"), None);
        for (root, expected) in [
            (json!({}), "`paths` is missing"),
            (json!([]), "`paths` is missing"),
            (json!({"paths": {"api": "/x"}}), "`api` has no serverRelativeURL"),
        ] {
            assert_eq!(Root::read(&root).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn sizes_are_quantities() {
        for (text, expected) in
            [("0", Some(0)), ("64Mi", Some(64 << 20)), ("1e3", Some(1000)), ("-1", None), ("much", None)]
        {
            assert_eq!(parse_size(text).ok(), expected, "{text}");
        }
    }
}
