//! `/metrics`: counters for Prometheus.
//!
//! Other crates register theirs in the registry before it is handed over:
//! from then on it is only read, so no lock is needed.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderValue, StatusCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Metric, Registry},
};
use sternpost_flow::Control;

use crate::{
    accept::Accept,
    cpu::Pool,
    flow_metrics::FlowMetrics,
    limits::MAX_REQUEST_SERIES,
    request::Request,
    request_metrics::{AttemptMetrics, RequestMetrics},
    response::{self, Response},
};

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub requests: RequestMetrics,
    pub attempts: AttemptMetrics,
    budgets_exceeded: Family<BudgetLabels, Counter>,
    connections: Family<ConnectionLabels, Gauge>,
    pool_outcomes: Family<OutcomeLabels, Counter>,
    pool: [Gauge; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct BudgetLabels {
    pub budget: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConnectionLabels {
    authenticated: &'static str,
}

/// Counters without `_total`, and `_count`, at the end of their names.
const BARE: [&str; 1] = ["authentication_attempts"];

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Metrics {
    pub fn new(mut registry: Registry, started: SystemTime) -> Self {
        let requests = RequestMetrics::new(&mut registry, MAX_REQUEST_SERIES);
        let attempts = AttemptMetrics::new(&mut registry);
        let start = registered(
            &mut registry,
            "process_start_time_seconds",
            "Start time of the process since the Unix epoch, in seconds",
            Gauge::<f64, std::sync::atomic::AtomicU64>::default(),
        );
        start.set(started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
        let budgets_exceeded = registered(
            &mut registry,
            "sternpost_budget_exceeded",
            "How often somebody was refused or cut off because a budget was used up",
            Family::default(),
        );
        let connections = registered(
            &mut registry,
            "sternpost_connections",
            "Open connections, by whether somebody authenticated has asked by them",
            Family::default(),
        );
        let pool_outcomes = registered(
            &mut registry,
            "sternpost_cpu_pool_requests",
            "Requests that were worked on apart from connections because they may take long, by what came of them",
            Family::default(),
        );
        let pool = [
            ("sternpost_cpu_pool_threads", "Threads for requests that may take long"),
            ("sternpost_cpu_pool_running", "Of these, those that compute now"),
            ("sternpost_cpu_pool_waiting", "Requests that wait for one of these threads"),
        ]
        .map(|(name, help)| registered(&mut registry, name, help, Gauge::default()));
        Self { registry, requests, attempts, budgets_exceeded, connections, pool_outcomes, pool }
    }

    pub(crate) fn pool_outcomes(&self) -> Family<OutcomeLabels, Counter> {
        self.pool_outcomes.clone()
    }

    fn set_pool(&self, pool: &Pool) {
        let counts = [pool.threads(), pool.busy(), pool.waiting()];
        for (gauge, count) in self.pool.iter().zip(counts) {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn budgets_exceeded(&self) -> Family<BudgetLabels, Counter> {
        self.budgets_exceeded.clone()
    }

    pub(crate) fn set_connections(&self, authenticated: usize, unknown: usize) {
        for (label, count) in [("true", authenticated), ("false", unknown)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.connections.get_or_create(&ConnectionLabels { authenticated: label }).set(count);
        }
    }

    fn open_metrics(&self, flow: Option<&Control>) -> String {
        let mut text = String::new();
        let mut counted_elsewhere = Registry::default();
        if let Some(control) = flow {
            counted_elsewhere.register_collector(Box::new(FlowMetrics(control.report())));
        }
        // Writing to a string cannot fail.
        let _ = text::encode_registry(&mut text, &self.registry);
        let _ = text::encode(&mut text, &counted_elsewhere);
        text
    }
}

/// A metric that is told under `name` from now on.
pub(crate) fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// OpenMetrics for those who ask for it, the older Prometheus text else.
pub fn serve(metrics: &Metrics, pool: &Pool, flow: Option<&Control>, request: &Request) -> Response {
    metrics.set_pool(pool);
    let text = metrics.open_metrics(flow);
    let accept = Accept::of(&request.headers);
    let (content_type, body) = match accept.choose(&["text/plain", "application/openmetrics-text"]) {
        Some("application/openmetrics-text") => (OPEN_METRICS, text),
        _ => (PROMETHEUS_TEXT, prometheus_text(&text)),
    };
    response::with_type(StatusCode::OK, HeaderValue::from_static(content_type), body.into())
}

/// OpenMetrics describes a counter without its `_total`, and ends with a mark;
/// the older format does neither. There a counter keeps the name it has upstream.
fn prometheus_text(open_metrics: &str) -> String {
    let lines: Vec<&str> = open_metrics.lines().collect();
    let counters: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let is_bare = |name: &str| name.ends_with("_count") || BARE.contains(&name);
    let bare: Vec<String> =
        counters.iter().filter(|name| is_bare(name)).map(|name| format!("{name}_total")).collect();
    let mut out = String::with_capacity(open_metrics.len());
    for line in lines {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let described = ["# HELP ", "# TYPE "].iter().find_map(|prefix| {
            let (name, rest) = line.strip_prefix(prefix)?.split_once(' ')?;
            let counted = counters.contains(&name) && !is_bare(name);
            counted.then(|| format!("{prefix}{name}_total {rest}"))
        });
        match (described, bare.iter().find_map(|name| Some((name, line.strip_prefix(name.as_str())?)))) {
            (Some(described), _) => out += &described,
            (None, Some((name, rest))) => {
                out += name.trim_end_matches("_total");
                out += rest;
            }
            (None, None) => out += line,
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;
    use crate::{request_metrics::Authentication, route::Route, testing};

    fn metrics() -> Metrics {
        let mut registry = Registry::default();
        registry.register("widgets", "Widgets made", Counter::<u64>::default());
        let metrics = Metrics::new(registry, UNIX_EPOCH + Duration::from_secs(7));
        for method in ["GET", "GET", "INVENTED"] {
            let request = testing::request(method.parse().unwrap(), "/healthz", &[]);
            let counted = metrics.requests.begin(&request, Route::of(&request.info), None).unwrap();
            counted.answered(StatusCode::OK, 2, Duration::from_millis(3));
        }
        metrics.attempts.authenticated(Authentication::Error);
        metrics
    }

    #[test]
    fn requests_are_counted_under_upstreams_names() {
        let metrics = metrics();
        let response =
            serve(&metrics, &Pool::new(&metrics), None, &testing::request(Method::GET, "/metrics", &[]));
        assert_eq!(testing::header(&response, "content-type"), Some(PROMETHEUS_TEXT));
        let body = testing::body(&response);
        for line in [
            "# TYPE apiserver_request_total counter",
            r#"apiserver_request_total{verb="GET",group="",version="",resource="",subresource="/healthz",scope="",component="",dry_run="",code="200"} 2"#,
            r#"apiserver_request_total{verb="other",group="",version="",resource="",subresource="/healthz",scope="",component="",dry_run="",code="200"} 1"#,
            "# TYPE apiserver_request_duration_seconds histogram",
            r#"apiserver_request_duration_seconds_bucket{le="0.001",verb="GET",group="",version="",resource="",subresource="/healthz",scope="",component="",dry_run=""} 0"#,
            r#"apiserver_request_duration_seconds_bucket{le="0.005",verb="GET",group="",version="",resource="",subresource="/healthz",scope="",component="",dry_run=""} 2"#,
            r#"apiserver_request_duration_seconds_count{verb="GET",group="",version="",resource="",subresource="/healthz",scope="",component="",dry_run=""} 2"#,
            r#"apiserver_response_sizes_sum{verb="GET",group="",version="",resource="",subresource="/healthz",scope="",component=""} 4.0"#,
            r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
            "# TYPE authentication_attempts counter",
            r#"authentication_attempts{result="error"} 1"#,
            r#"authentication_attempts{result="failure"} 0"#,
            "# TYPE authorization_attempts_total counter",
            r#"authorization_attempts_total{result="no-opinion"} 0"#,
            "process_start_time_seconds 7.0",
            "# TYPE widgets_total counter",
            "widgets_total 0",
            "# TYPE sternpost_cpu_pool_requests_total counter",
            r#"sternpost_cpu_pool_requests_total{outcome="refused"} 0"#,
            r#"sternpost_cpu_pool_requests_total{outcome="timed_out"} 0"#,
            "sternpost_cpu_pool_running 0",
            "sternpost_cpu_pool_waiting 0",
        ] {
            assert!(body.lines().any(|found| found == line), "{line}\nis not in\n{body}");
        }
        assert!(!body.contains("# EOF"));
    }

    #[test]
    fn open_metrics_is_sent_to_those_who_ask() {
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let metrics = metrics();
        let request = testing::request(Method::GET, "/metrics", &[("accept", accept)]);
        let response = serve(&metrics, &Pool::new(&metrics), None, &request);
        assert_eq!(testing::header(&response, "content-type"), Some(OPEN_METRICS));
        let body = testing::body(&response);
        assert!(body.contains("# TYPE apiserver_request counter\n") && body.ends_with("# EOF\n"));
        assert!(body.contains("\nauthentication_attempts_total{result=\"error\"} 1\n"), "{body}");
    }
}
