//! `/healthz`, `/livez` and `/readyz`: named checks, asked on every request.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::StatusCode;

use crate::{
    request::Request,
    response::{self, Response},
};
use sternpost_golang::strconv::go_quote;

/// The checks behind the health endpoints, in the order they are shown.
#[derive(Debug)]
pub struct Health {
    checks: Vec<Check>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

/// Where a check takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    All,
    /// What a restart would not mend.
    AllButLivez,
    ReadyzOnly,
}

struct Check {
    name: Cow<'static, str>,
    on: On,
    run: Box<Run>,
}

/// A step of the start that checks wait for. Clones are the same step.
#[derive(Debug, Clone, Default)]
pub struct Hook(Arc<AtomicBool>);

impl Hook {
    pub fn done(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// `Err` says why, to those who ask for the check by name. Must be quick: it
/// runs on the request.
pub type Run = dyn Fn() -> Result<(), String> + Send + Sync;

impl Default for Health {
    /// With `ping`, which says that requests are answered at all.
    fn default() -> Self {
        let mut health = Self { checks: vec![] };
        health.add("ping", On::All, Box::new(|| Ok(())));
        health
    }
}

impl Health {
    pub fn add(&mut self, name: &'static str, on: On, run: Box<Run>) {
        self.add_named(name.into(), on, run);
    }

    /// Of something of which there may be several.
    pub fn add_named(&mut self, name: Cow<'static, str>, on: On, run: Box<Run>) {
        self.checks.push(Check { name, on, run });
    }

    /// A check that fails until the step is done.
    pub fn add_hook(&mut self, name: &'static str, on: On, hook: &Hook) {
        let hook = hook.clone();
        let run = move || if hook.is_done() { Ok(()) } else { Err("not finished".to_owned()) };
        self.add(name, on, Box::new(run));
    }

    pub(crate) fn add_shutdown(&mut self, stopping: impl Fn() -> bool + Send + Sync + 'static) {
        let run = move || if stopping() { Err("process is shutting down".into()) } else { Ok(()) };
        self.add("shutdown", On::ReadyzOnly, Box::new(run));
    }

    /// The names of the checks of one endpoint.
    pub fn names(&self, endpoint: Endpoint) -> impl Iterator<Item = &str> {
        self.of(endpoint).map(|check| &*check.name)
    }

    fn of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| match check.on {
            On::All => true,
            On::AllButLivez => endpoint != Endpoint::Livez,
            On::ReadyzOnly => endpoint == Endpoint::Readyz,
        })
    }
}

impl Endpoint {
    pub const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    pub fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// The verdict over all checks of `endpoint`. `verbose`, with any value, lists
/// them; `exclude` leaves one out. Why a check failed is not told here: this
/// endpoint is public.
pub fn all(health: &Health, endpoint: Endpoint, request: &Request) -> Response {
    let mut excluded: BTreeSet<&str> = request.query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = vec![];
    for check in health.of(endpoint) {
        let name = &*check.name;
        if excluded.remove(name) {
            lines += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match (check.run)() {
            Ok(()) => lines += &format!("[+]{name} ok\n"),
            Err(reason) => {
                lines += &format!("[-]{name} failed: reason withheld\n");
                failed.push(format!("{name}: {reason}"));
            }
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| go_quote(name).to_string()).collect();
        lines +=
            &format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(","));
    }
    let endpoint = endpoint.name();
    if !failed.is_empty() {
        tracing::warn!(endpoint, checks = failed.join("; "), "health check failed");
        let body = format!("{lines}{endpoint} check failed\n");
        return response::plain_text(StatusCode::INTERNAL_SERVER_ERROR, body);
    }
    if request.query.has("verbose") {
        response::plain_text(StatusCode::OK, format!("{lines}{endpoint} check passed\n"))
    } else {
        response::plain_text(StatusCode::OK, "ok")
    }
}

/// The verdict of one check.
pub fn one(health: &Health, endpoint: Endpoint, name: &str) -> Response {
    match health.of(endpoint).find(|check| check.name == name).map(|check| (check.run)()) {
        Some(Ok(())) => response::text(StatusCode::OK, "ok"),
        Some(Err(reason)) => response::plain_text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {reason}\n"),
        ),
        None => response::page_not_found(),
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).field("on", &self.on).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::testing;

    fn health() -> Health {
        let mut health = Health::default();
        health.add("disk", On::All, Box::new(|| Ok(())));
        health.add("keys", On::AllButLivez, Box::new(|| Ok(())));
        health.add_shutdown(|| true);
        health
    }

    #[test]
    fn texts_equal_those_of_kube_apiserver() {
        for (endpoint, query, code, body) in [
            (Endpoint::Healthz, "", 200, "ok"),
            (Endpoint::Livez, "?verbose", 200, "[+]ping ok\n[+]disk ok\nlivez check passed\n"),
            (Endpoint::Livez, "?verbose=false", 200, "[+]ping ok\n[+]disk ok\nlivez check passed\n"),
            (
                Endpoint::Healthz,
                "?verbose&exclude=ping",
                200,
                "[+]ping excluded: ok\n[+]disk ok\n[+]keys ok\nhealthz check passed\n",
            ),
            (
                Endpoint::Livez,
                "?exclude=nope&exclude=b&verbose",
                200,
                "[+]ping ok\n[+]disk ok\nwarn: some health checks cannot be excluded: no matches for \"b\",\"nope\"\nlivez check passed\n",
            ),
            (Endpoint::Livez, "?exclude=nope", 200, "ok"),
            (
                Endpoint::Readyz,
                "",
                500,
                "[+]ping ok\n[+]disk ok\n[+]keys ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n",
            ),
            (Endpoint::Readyz, "?exclude=shutdown", 200, "ok"),
        ] {
            let target = format!("/{}{query}", endpoint.name());
            let response = all(&health(), endpoint, &testing::request(Method::GET, &target, &[]));
            assert_eq!(
                (response.status().as_u16(), testing::body(&response).as_str()),
                (code, body),
                "{target}"
            );
            assert_eq!(testing::header(&response, "x-content-type-options"), Some("nosniff"));
        }
    }

    #[test]
    fn a_step_of_the_start_is_waited_for() {
        let mut health = Health::default();
        let hook = Hook::default();
        health.add_hook("poststarthook/a", On::All, &hook);
        let answer = |health: &Health| {
            let response = one(health, Endpoint::Livez, "poststarthook/a");
            (response.status().as_u16(), testing::body(&response))
        };
        assert_eq!(answer(&health), (500, "internal server error: not finished\n".to_owned()));
        hook.done();
        assert_eq!(answer(&health), (200, "ok".to_owned()));
    }

    #[test]
    fn one_check_answers_for_itself() {
        for (endpoint, name, code, body) in [
            (Endpoint::Readyz, "ping", 200, "ok"),
            (Endpoint::Readyz, "shutdown", 500, "internal server error: process is shutting down\n"),
            (Endpoint::Healthz, "keys", 200, "ok"),
            (Endpoint::Livez, "keys", 404, "404 page not found\n"),
            (Endpoint::Livez, "shutdown", 404, "404 page not found\n"),
            (Endpoint::Livez, "", 404, "404 page not found\n"),
        ] {
            let response = one(&health(), endpoint, name);
            assert_eq!(
                (response.status().as_u16(), testing::body(&response).as_str()),
                (code, body),
                "{name}"
            );
        }
    }
}
