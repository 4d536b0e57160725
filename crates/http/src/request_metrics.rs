//! What is counted of requests, under upstream's names and with its labels.
//!
//! As upstream, a request is counted when it has found a handler. What authentication, authorization
//! or the router refuses is not: it has no resource that a label could name.

use std::{
    collections::HashMap,
    fmt::{self, Write},
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, StatusCode, header};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use sternpost_meta::{authorize::Decision, resource::Verb};

use crate::{
    health::Endpoint,
    metrics::registered,
    objects::{Handler, Routed},
    openapi::Target,
    request::Request,
    request_info::RequestInfo,
    route::Route,
};

/// Seconds. Upstream's, with finer steps below 5 ms.
const DURATION_BUCKETS: [f64; 25] = [
    0.0005, 0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Seconds. Upstream's.
const SLI_BUCKETS: [f64; 21] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Bytes. Upstream's.
const SIZE_BUCKETS: [f64; 7] =
    [1000.0, 10_000.0, 100_000.0, 1_000_000.0, 10_000_000.0, 100_000_000.0, 1_000_000_000.0];

/// Of requests for resources, and of some paths.
const COMPONENT: &str = "apiserver";

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug)]
pub struct RequestMetrics {
    totals: Family<TotalLabels, Counter>,
    durations: Histograms<DurationLabels>,
    slis: Histograms<Labels>,
    response_sizes: Histograms<Labels>,
    long_running: Family<Labels, Gauge>,
    read_only: Inflight,
    mutating: Inflight,
    /// What a request adds to, by its labels: one look instead of one for each metric.
    series: RwLock<HashMap<DurationLabels, Arc<Series>>>,
    max_series: usize,
}

/// Values are taken from fixed sets and from served resources, never from what a client sent, so that
/// their number is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    group: Text,
    version: Text,
    resource: Text,
    /// Of paths, also the path.
    subresource: Text,
    scope: &'static str,
    component: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    #[prometheus(flatten)]
    request: Labels,
    dry_run: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TotalLabels {
    #[prometheus(flatten)]
    request: DurationLabels,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    request_kind: &'static str,
}

/// A label's value, shared with the resource that it names.
#[derive(Debug, Clone)]
enum Text {
    Fixed(&'static str),
    Shared(Arc<str>),
}

/// The metrics of requests with the same labels.
#[derive(Debug)]
struct Series {
    labels: DurationLabels,
    duration: Histogram,
    sli: OnceLock<Histogram>,
    slis: Histograms<Labels>,
    /// Only of what is read.
    response_size: OnceLock<Histogram>,
    response_sizes: Histograms<Labels>,
    totals: Family<TotalLabels, Counter>,
    by_code: Mutex<Vec<(StatusCode, Counter)>>,
}

/// A request that is counted when its answer has been given.
#[derive(Debug)]
pub struct Counted {
    series: Arc<Series>,
    has_size: bool,
    /// Whether upstream takes it for an indicator of its service level: not what tries something out, and
    /// not a watch, which lasts as long as its client likes.
    is_sli: bool,
    /// For its turn, and for webhooks.
    pub waited: Duration,
    _long_running: Option<OneOf>,
}

/// Counts as one while it exists.
#[derive(Debug)]
struct OneOf(Gauge);

/// Requests of one kind that are worked on.
#[derive(Debug)]
struct Inflight {
    now: AtomicUsize,
    /// The most there were since they were last told.
    most: AtomicUsize,
    told: Gauge,
}

/// A request that is worked on.
#[derive(Debug)]
pub struct InflightRequest<'a>(Option<&'a Inflight>);

impl RequestMetrics {
    pub fn new(registry: &mut Registry, max_series: usize) -> Self {
        let gauges = registered(
            registry,
            "apiserver_current_inflight_requests",
            "The most requests that were worked on at once in the last second, by whether they read or write",
            Family::default(),
        );
        let inflight = |request_kind| Inflight {
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            told: Family::get_or_create_owned(&gauges, &KindLabels { request_kind }),
        };
        Self {
            read_only: inflight("readOnly"),
            mutating: inflight("mutating"),
            // The encoder adds `_total`.
            totals: registered(
                registry,
                "apiserver_request",
                "Requests answered, by verb, dry run, group, version, resource, scope, component and code",
                Family::default(),
            ),
            durations: registered(
                registry,
                "apiserver_request_duration_seconds",
                "Time from the end of a request's headers to the end of its answer, in seconds",
                Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            ),
            slis: registered(
                registry,
                "apiserver_request_sli_duration_seconds",
                "As apiserver_request_duration_seconds, without the time of webhooks and of waiting for a turn",
                Family::new_with_constructor(|| Histogram::new(SLI_BUCKETS)),
            ),
            response_sizes: registered(
                registry,
                "apiserver_response_sizes",
                "Bytes of the answers to requests that read",
                Family::new_with_constructor(|| Histogram::new(SIZE_BUCKETS)),
            ),
            long_running: registered(
                registry,
                "apiserver_longrunning_requests",
                "Requests under way that last as long as their clients like, such as watches",
                Family::default(),
            ),
            series: RwLock::default(),
            max_series,
        }
    }

    /// What a request is counted under, from when its handler is known.
    pub fn begin(&self, request: &Request, route: Route<'_>, routed: Option<&Routed>) -> Option<Counted> {
        let (labels, has_size) = match routed {
            Some(routed) => resource_labels(request, routed)?,
            None => (path_labels(request, route)?, true),
        };
        let dry_run = dry_run(request);
        let series = self.series(DurationLabels { request: labels, dry_run });
        let long_running = routed.and_then(|routed| long_running(request, routed)).map(|(verb, scope)| {
            let labels = Labels { verb, scope, ..series.labels.request.clone() };
            let gauge = self.long_running.get_or_create_owned(&labels);
            gauge.inc();
            OneOf(gauge)
        });
        let is_sli = dry_run.is_empty() && request.info.verb() != "watch";
        Some(Counted { series, has_size, is_sli, waited: Duration::ZERO, _long_running: long_running })
    }

    /// What is worked on until this is dropped. Long-running requests are told of apart.
    pub fn work_on(&self, info: &RequestInfo) -> InflightRequest<'_> {
        if info.is_long_running() {
            return InflightRequest(None);
        }
        let reads = matches!(info.verb(), "get" | "list" | "watch");
        let inflight = if reads { &self.read_only } else { &self.mutating };
        let now = inflight.now.fetch_add(1, Ordering::Relaxed) + 1;
        inflight.most.fetch_max(now, Ordering::Relaxed);
        InflightRequest(Some(inflight))
    }

    /// Once a second.
    pub fn tell_inflight(&self) {
        for inflight in [&self.read_only, &self.mutating] {
            let most = inflight.most.swap(inflight.now.load(Ordering::Relaxed), Ordering::Relaxed);
            inflight.told.set(i64::try_from(most).unwrap_or(i64::MAX));
        }
    }

    fn series(&self, labels: DurationLabels) -> Arc<Series> {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(&labels) {
            return series.clone();
        }
        let is_full = known.len() >= self.max_series;
        drop(known);
        // Definitions come and go, and what was counted stays: of too many only verb and scope are told.
        let labels = if is_full { labels.of_others() } else { labels };
        let mut known = self.series.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(labels).or_insert_with_key(|labels| Arc::new(self.new_series(labels))).clone()
    }

    fn new_series(&self, labels: &DurationLabels) -> Series {
        Series {
            labels: labels.clone(),
            duration: self.durations.get_or_create_owned(labels),
            sli: OnceLock::new(),
            slis: self.slis.clone(),
            response_size: OnceLock::new(),
            response_sizes: self.response_sizes.clone(),
            totals: self.totals.clone(),
            by_code: Mutex::default(),
        }
    }
}

/// What became of credentials and of questions whether somebody may do something. Questions of
/// handlers, and whether somebody may be impersonated, do not count.
#[derive(Debug)]
pub struct AttemptMetrics {
    success: Counter,
    failure: Counter,
    error: Counter,
    allowed: Counter,
    no_opinion: Counter,
}

/// What became of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    Success,
    /// There was none, and nobody unknown is let in.
    Failure,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl AttemptMetrics {
    pub fn new(registry: &mut Registry) -> Self {
        let authentication = registered(
            registry,
            "authentication_attempts",
            "Requests, by whether it became known who sends them",
            Family::default(),
        );
        let authorization = registered(
            registry,
            "authorization_attempts",
            "Requests whose sender is known, by whether they are allowed",
            Family::default(),
        );
        let result = |family: &Family<ResultLabels, Counter>, result| {
            family.get_or_create_owned(&ResultLabels { result })
        };
        Self {
            success: result(&authentication, "success"),
            failure: result(&authentication, "failure"),
            error: result(&authentication, "error"),
            allowed: result(&authorization, "allowed"),
            no_opinion: result(&authorization, "no-opinion"),
        }
    }

    pub fn authenticated(&self, result: Authentication) {
        let counter = match result {
            Authentication::Success => &self.success,
            Authentication::Failure => &self.failure,
            Authentication::Error => &self.error,
        };
        counter.inc();
    }

    pub fn authorized(&self, decision: &Decision) {
        let counter = match decision {
            Decision::Allow { .. } => &self.allowed,
            Decision::NoOpinion { .. } => &self.no_opinion,
        };
        counter.inc();
    }
}

impl Counted {
    /// The answer has been given, or its client is gone.
    pub fn answered(&self, code: StatusCode, bytes: u64, took: Duration) {
        let Series { labels, duration, sli, slis, response_size, response_sizes, totals, by_code } =
            &*self.series;
        duration.observe(took.as_secs_f64());
        if self.is_sli {
            let sli = sli.get_or_init(|| slis.get_or_create_owned(&labels.request));
            sli.observe(took.saturating_sub(self.waited).as_secs_f64());
        }
        if self.has_size {
            let size = response_size.get_or_init(|| response_sizes.get_or_create_owned(&labels.request));
            #[expect(clippy::cast_precision_loss, reason = "a size is told in powers of ten")]
            size.observe(bytes as f64);
        }
        let mut by_code = by_code.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, total)) = by_code.iter().find(|(known, _)| *known == code) {
            total.inc();
            return;
        }
        let labels = TotalLabels { request: labels.clone(), code: code.as_u16() };
        let total = totals.get_or_create_owned(&labels);
        total.inc();
        by_code.push((code, total));
    }
}

impl Drop for OneOf {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Drop for InflightRequest<'_> {
    fn drop(&mut self) {
        if let Some(inflight) = self.0 {
            inflight.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl DurationLabels {
    fn of_others(self) -> Self {
        let none = || Text::Fixed("");
        let resource = Text::Fixed("other");
        let request =
            Labels { group: none(), version: none(), resource, subresource: none(), ..self.request };
        Self { request, ..self }
    }
}

/// With whether the size of the answer counts.
fn resource_labels(request: &Request, routed: &Routed) -> Option<(Labels, bool)> {
    let (info, served) = (&request.info, &routed.served);
    let path = info.resource_path()?;
    let handler = *routed.handler.as_ref().ok()?;
    // Upstream's installer knows its paths; of others there is only what was asked for.
    let is_installed = served.is_installed();
    let scope = scope(info, if is_installed { path.name } else { info.resource()?.name });
    let (subresource, has_size) = match handler {
        Handler::Main(Verb::Get | Verb::List) => (None, true),
        Handler::Main(Verb::Watch) => (None, is_installed && !path.is_watch),
        Handler::Main(_) => (None, false),
        Handler::Subresource { index, verb, .. } => (Some(index), verb == Verb::Get),
        Handler::Connect { index, .. } => (Some(index), false),
    };
    let verb = match handler {
        Handler::Connect { .. } => "CONNECT",
        Handler::Main(Verb::Watch) => "WATCH",
        _ => verb(request, scope),
    };
    let subresource = match subresource {
        Some(index) => Text::Shared(served.resource.subresources.get(index)?.name.clone()),
        None => Text::Fixed(""),
    };
    let labels = Labels {
        verb,
        group: Text::Shared(served.resource.gv.group.clone()),
        version: Text::Shared(served.resource.gv.version.clone()),
        resource: Text::Shared(served.resource.plural.clone()),
        subresource,
        scope,
        component: COMPONENT,
    };
    Some((labels, has_size))
}

/// `None` for paths that upstream does not count.
fn path_labels(request: &Request, route: Route<'_>) -> Option<Labels> {
    let (resource, subresource, component) = match route {
        Route::Health(Endpoint::Healthz) => ("", "/healthz", ""),
        Route::Health(Endpoint::Livez) => ("", "/livez", ""),
        Route::Health(Endpoint::Readyz) => ("", "/readyz", ""),
        Route::Zpage(page) => (page.name(), "", COMPONENT),
        Route::OpenApi(Target::Root) => ("", "openapi/v3", ""),
        Route::OpenApi(Target::Document(_)) => ("", "openapi/v3/", ""),
        _ => return None,
    };
    Some(Labels {
        verb: verb(request, ""),
        group: Text::Fixed(""),
        version: Text::Fixed(""),
        resource: Text::Fixed(resource),
        subresource: Text::Fixed(subresource),
        scope: "",
        component,
    })
}

/// Verb and scope of a request that lasts, which upstream tells by what was asked for alone.
fn long_running(request: &Request, routed: &Routed) -> Option<(&'static str, &'static str)> {
    let scope = scope(&request.info, request.info.resource()?.name);
    match *routed.handler.as_ref().ok()? {
        Handler::Connect { .. } => Some(("CONNECT", scope)),
        Handler::Main(Verb::Watch) => Some((verb(request, scope), scope)),
        _ => None,
    }
}

fn scope(info: &RequestInfo, name: &str) -> &'static str {
    let is_in_namespace = info.resource().is_some_and(|what| !what.namespace.is_empty());
    match (!name.is_empty() || info.verb() == "create", is_in_namespace) {
        (true, _) => "resource",
        (false, true) => "namespace",
        (false, false) => "cluster",
    }
}

/// What upstream takes for a verb, whatever else it is.
const VERBS: [&str; 14] = [
    "APPLY",
    "CONNECT",
    "CREATE",
    "DELETE",
    "DELETECOLLECTION",
    "GET",
    "LIST",
    "PATCH",
    "POST",
    "PROXY",
    "PUT",
    "UPDATE",
    "WATCH",
    "WATCHLIST",
];

/// Methods as upstream tells of them: by what is read, and whether a patch is an apply.
fn verb(request: &Request, scope: &str) -> &'static str {
    match request.method {
        Method::GET | Method::HEAD if request.query.flag("watch") => "WATCH",
        Method::GET | Method::HEAD if matches!(scope, "resource" | "") => "GET",
        Method::GET | Method::HEAD => "LIST",
        // With parameters it is a patch to upstream.
        Method::PATCH if is_apply(request) => "APPLY",
        ref method => {
            let mut known = VERBS.into_iter();
            known.find(|verb| method.as_str().eq_ignore_ascii_case(verb)).unwrap_or("other")
        }
    }
}

fn is_apply(request: &Request) -> bool {
    let media = request.headers.get(header::CONTENT_TYPE);
    media.is_some_and(|media| media.as_bytes() == b"application/apply-patch+yaml")
}

fn dry_run(request: &Request) -> &'static str {
    let mut values = request.query.all("dryRun");
    match values.next() {
        None => "",
        Some("All") if values.all(|value| value == "All") => "All",
        Some(_) => "invalid",
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        str::hash(self, state);
    }
}

impl EncodeLabelValue for Text {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;
    use crate::testing;

    /// What is told of requests in the words of `family`.
    fn told(registry: &Registry, family: &str) -> Vec<String> {
        let mut all = String::new();
        text::encode(&mut all, registry).unwrap();
        let mut lines: Vec<String> =
            all.lines().filter(|line| line.starts_with(family)).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn of_more_label_sets_than_fit_only_verb_and_scope_are_told() {
        let mut registry = Registry::default();
        let metrics = RequestMetrics::new(&mut registry, 2);
        let count = |target| {
            let request = testing::request(Method::GET, target, &[]);
            let counted = metrics.begin(&request, Route::of(&request.info), None).unwrap();
            counted.answered(StatusCode::OK, 0, Duration::ZERO);
        };
        let series = |subresource: &str, resource: &str, dry_run: &str, count: u8| {
            format!(
                "apiserver_request_total{{verb=\"GET\",group=\"\",version=\"\",resource=\"{resource}\",subresource=\"{subresource}\",\
                 scope=\"\",component=\"\",dry_run=\"{dry_run}\",code=\"200\"}} {count}"
            )
        };
        for target in ["/healthz", "/livez", "/healthz"] {
            count(target);
        }
        let known = [series("/healthz", "", "", 2), series("/livez", "", "", 1)];
        assert_eq!(told(&registry, "apiserver_request_total"), known);
        for target in ["/readyz", "/openapi/v3", "/readyz?dryRun=All", "/livez"] {
            count(target);
        }
        let all = [
            series("/healthz", "", "", 2),
            series("/livez", "", "", 2),
            series("", "other", "", 2),
            series("", "other", "All", 1),
        ];
        assert_eq!(told(&registry, "apiserver_request_total"), all);
    }

    #[test]
    fn the_level_of_service_is_told_without_what_others_took() {
        let mut registry = Registry::default();
        let metrics = RequestMetrics::new(&mut registry, 10);
        for (target, waited) in [("/livez", 0), ("/livez", 3), ("/livez", 9), ("/livez?dryRun=All", 0)] {
            let request = testing::request(Method::GET, target, &[]);
            let mut counted = metrics.begin(&request, Route::of(&request.info), None).unwrap();
            counted.waited = Duration::from_secs(waited);
            counted.answered(StatusCode::OK, 0, Duration::from_secs(4));
        }
        let labels = "verb=\"GET\",group=\"\",version=\"\",resource=\"\",subresource=\"/livez\",scope=\"\",component=\"\"";
        let family = "apiserver_request_sli_duration_seconds";
        let lines = told(&registry, family);
        for (name, value) in [("sum", "5.0"), ("count", "3")] {
            let line = format!("{family}_{name}{{{labels}}} {value}");
            assert!(lines.contains(&line), "{line} is not in {lines:#?}");
        }
        let bounds: Vec<f64> = lines
            .iter()
            .filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()?.parse().ok())
            .filter(|bound: &f64| bound.is_finite())
            .collect();
        assert_eq!(bounds.len(), SLI_BUCKETS.len());
        assert!(SLI_BUCKETS.iter().all(|bound| bounds.contains(bound)));
    }

    #[test]
    fn the_most_requests_at_once_are_told_by_kind() {
        let mut registry = Registry::default();
        let metrics = RequestMetrics::new(&mut registry, 10);
        let work_on = |method, target| metrics.work_on(&testing::request(method, target, &[]).info);
        let inflight = |read_only: u8, mutating: u8| {
            metrics.tell_inflight();
            let line = |kind, count| {
                format!("apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {count}")
            };
            let expected = [line("mutating", mutating), line("readOnly", read_only)];
            assert_eq!(told(&registry, "apiserver_current_inflight_requests"), expected);
        };
        inflight(0, 0);
        let reads = [work_on(Method::GET, "/api/v1/pods"), work_on(Method::GET, "/version")];
        let writes = work_on(Method::POST, "/api/v1/pods");
        // Told of apart.
        let _watch = work_on(Method::GET, "/api/v1/pods?watch=1");
        drop((reads, writes));
        inflight(2, 1);
        inflight(0, 0);
    }
}
