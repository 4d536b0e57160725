//! Which series of `/metrics` a request adds to: `requests.jsonl`, recorded from kube-apiserver 1.36.4 by
//! `record.py`.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use http::Request;
use http_body_util::Full;
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::{H1, Server, nothing};

const FAMILIES: [&str; 4] = [
    "apiserver_request_total",
    "apiserver_request_duration_seconds_count",
    "apiserver_request_sli_duration_seconds_count",
    "apiserver_response_sizes_count",
];
/// Which a question for `/metrics` adds to as well.
const ATTEMPTS: [&str; 2] = ["authentication_attempts", "authorization_attempts_total"];
const OF_A_LOOK: [&str; 2] =
    ["authentication_attempts{result=\"success\"}", "authorization_attempts_total{result=\"allowed\"}"];
const HELD: &str = "apiserver_longrunning_requests";

/// A hang-guard: an answer is counted when it has been given, which its client may notice first.
const AT_LAST: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// How often each series was added to.
type Series = BTreeMap<String, u64>;

#[tokio::test]
async fn requests_are_counted_as_by_kube_apiserver() {
    let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/users.csv");
    let users = ["--token-auth-file", users.to_str().unwrap()];
    let server =
        Server::start("metrics", &[&users[..], &["--disable-admission-plugins=ServiceAccount"]].concat());
    let steps: Vec<Value> = include_str!("../../metrics/requests.jsonl")
        .lines()
        .map(|line| serde_json::from_str(&line.replace("{i}", "0")).unwrap())
        .collect();
    let (held, answered): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step["held"] == true);
    assert!(answered.len() > 120 && held.len() > 5);

    let mut expected = Series::new();
    for step in answered {
        if step["setup"] == true {
            set_up(&server, step).await;
            expected = scrape(&server, &FAMILIES).await;
            continue;
        }
        let mut attempts = scrape(&server, &ATTEMPTS).await;
        server.send(H1, request(&server, step)).await;
        let added = step["expect"].as_array().unwrap().iter().map(|series| series.as_str().unwrap());
        let (of_attempts, of_requests): (Vec<_>, Vec<_>) = added.partition(|series| is_of(series, &ATTEMPTS));
        for series in of_attempts.into_iter().chain(OF_A_LOOK) {
            *attempts.entry(series.to_owned()).or_default() += 1;
        }
        assert_eq!(scrape(&server, &ATTEMPTS).await, attempts, "{step}");
        for series in of_requests {
            *expected.entry(sorted(series)).or_default() += 1;
        }
        wait_for(&server, &FAMILIES, &expected, step).await;
    }

    for step in held {
        let before = scrape(&server, &[HELD]).await;
        let watch = open(&server, step).await;
        let mut during = before.clone();
        for series in step["expect"].as_array().unwrap() {
            *during.entry(sorted(series.as_str().unwrap())).or_default() += 1;
        }
        wait_for(&server, &[HELD], &during, step).await;
        drop(watch);
        during
            .iter_mut()
            .for_each(|(series, count)| *count = before.get(series).copied().unwrap_or_default());
        wait_for(&server, &[HELD], &during, step).await;
    }
}

/// What is defined is served a moment later.
async fn set_up(server: &Server, step: &Value) {
    let begun = Instant::now();
    loop {
        let response = server.send(H1, request(server, step)).await;
        if response.status().is_success() {
            return;
        }
        assert!(begun.elapsed() < AT_LAST, "{step}: {}", response.body());
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

fn request(server: &Server, step: &Value) -> Request<Full<hyper::body::Bytes>> {
    let token = step["token"].as_str().map_or_else(|| server.token(), str::to_owned);
    let mut request = Request::builder()
        .method(step["method"].as_str().unwrap())
        .uri(step["path"].as_str().unwrap())
        .header("host", &server.place.address);
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut headers = BTreeMap::from([("Accept", "application/json"), ("Content-Type", "application/json")]);
    let own = step["headers"].as_object().into_iter().flatten();
    headers.extend(own.map(|(name, value)| (name.as_str(), value.as_str().unwrap())));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let spaces = usize::try_from(step["spaces"].as_u64().unwrap_or_default()).unwrap();
    let body = if step["body"].is_null() { " ".repeat(spaces) } else { step["body"].to_string() };
    request.body(Full::new(body.into())).unwrap()
}

/// An answer that goes on until this is dropped.
async fn open(
    server: &Server,
    step: &Value,
) -> (conn::http1::SendRequest<Full<hyper::body::Bytes>>, http::Response<Incoming>) {
    let (mut sender, connection) =
        conn::http1::handshake(TokioIo::new(server.connect(H1).await)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request(server, step)).await.unwrap();
    assert_eq!(response.status(), 200, "{step}");
    (sender, response)
}

async fn wait_for(server: &Server, families: &[&str], expected: &Series, step: &Value) {
    let begun = Instant::now();
    loop {
        let found = scrape(server, families).await;
        if found == *expected {
            return;
        }
        if begun.elapsed() > AT_LAST {
            let list = |one: &Series, other: &Series| -> Vec<String> {
                let others = one.iter().filter(|(series, count)| other.get(*series) != Some(*count));
                others.map(|(series, count)| format!("{series} {count}")).collect()
            };
            panic!("{step}:\nexpected {:#?}\nfound {:#?}", list(expected, &found), list(&found, expected));
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// The series of these families.
async fn scrape(server: &Server, families: &[&str]) -> Series {
    let request = server.request("GET", "/metrics").body(nothing()).unwrap();
    let response = server.send(H1, request).await;
    let lines = response.body().lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .filter(|(series, _)| is_of(series, families))
        .map(|(series, count)| (sorted(series), count.parse().unwrap()))
        .collect()
}

fn is_of(series: &str, families: &[&str]) -> bool {
    families.contains(&series.split('{').next().unwrap())
}

/// A series with its labels in order.
fn sorted(series: &str) -> String {
    let (name, labels) = series.strip_suffix('}').unwrap().split_once('{').unwrap();
    let mut labels: Vec<&str> =
        labels.split_inclusive("\",").map(|label| label.trim_end_matches(',')).collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}
