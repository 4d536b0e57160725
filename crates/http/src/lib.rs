//! The HTTP side of the API server, and the only crate that sees requests.
//!
//! Start with [`pipeline::respond`], which shows the whole way of a request in
//! order, then [`route`] (path → handler). [`server::serve`] owns listener,
//! TLS and connections; [`Api`] is all the state that handlers read.
//!
//! Invariants: handlers are synchronous functions from `(&Api, &Request)` to a
//! response, and a panic in one costs that request only; every limit has a
//! name in [`limits`]; neither logs nor metrics carry headers, query strings,
//! tokens or bodies.
//!
//! This crate does not know how objects are stored, nor how documents are
//! built: it negotiates and sends what others made.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in the machine's time"))]

use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use http::HeaderValue;
use sternpost_aggregate::remote::Remotes;
use sternpost_audit::Audit;
use sternpost_auth::authenticate::Authenticator;
use sternpost_discovery::Discovery;
use sternpost_flow::Control;
use sternpost_verbs::Verbs;
use tokio::sync::watch;

pub mod accept;
mod audit;
mod audit_ids;
mod authorization;
pub mod body;
pub mod budgets;
mod connections;
pub mod content;
pub mod cors;
pub mod cpu;
mod definitions;
mod discovery;
mod explorer;
mod flow;
mod flow_metrics;
mod gzip;
pub mod health;
mod identity;
mod impersonation;
pub mod limits;
pub mod local;
pub mod metrics;
mod objects;
mod openapi;
mod openapi_metrics;
mod openid;
pub mod pipeline;
mod plaintext;
mod pretty;
mod proxied;
pub mod request;
mod request_info;
mod request_metrics;
pub mod response;
mod root_paths;
pub mod route;
pub mod server;
#[cfg(test)]
mod testing;
pub mod version;
mod webhook_metrics;
mod websocket;
pub mod zpages;

pub use authorization::Rbac;
pub use identity::IssuerKeys;
pub use objects::TokenObjects;
pub use openapi::OpenApi;
pub use openapi_metrics::OpenApiMetrics;
pub use webhook_metrics::WebhookMetrics;

use crate::{
    audit_ids::AuditIds, budgets::Budgets, cors::Cors, health::Health, limits::Limits, metrics::Metrics,
    zpages::Zpages,
};

/// What handlers read. Shared by all connections.
#[derive(Debug)]
pub struct Api {
    pub authenticator: Authenticator,
    pub anonymous: Anonymous,
    /// Who fetches keys of token issuers, if there are any.
    pub issuer_keys: Option<Arc<dyn IssuerKeys>>,
    /// Who is told of requests; nobody without it.
    pub audit: Option<Audit>,
    /// What users and connections may take at once.
    pub budgets: Arc<Budgets>,
    /// How many requests are worked on at once; as many as come without it.
    pub flow: Option<Arc<Control>>,
    /// Web pages that may use the API; none without it.
    pub cors: Option<Cors>,
    /// The `Strict-Transport-Security` header of every response; none without it.
    pub strict_transport_security: Option<HeaderValue>,
    /// Swapped as a whole when the set of served resources changes.
    pub discovery: ArcSwap<Discovery>,
    pub health: Health,
    pub metrics: Metrics,
    pub openapi: OpenApi,
    pub verbs: Arc<Verbs>,
    /// Other servers whose group-versions are served from here.
    pub remotes: Arc<Remotes>,
    /// What requests are called that nobody named.
    pub(crate) audit_ids: AuditIds,
    /// What `/statusz` and `/flagz` tell.
    pub zpages: Zpages,
    /// `host:port`, as legacy discovery names this server to clients.
    pub server_address: String,
    /// Where its explorer is, for those who look for it at `/ui`; there is nothing without it.
    pub explorer: Option<HeaderValue>,
    /// What the server waits for before it knows its objects. Until then it says how it is, and nothing else.
    pub waits_for: Option<&'static str>,
    /// Where requests are worked on that may take long.
    pub cpu: cpu::Pool,
    /// Itself, for work apart from whoever asked for it; nothing until it is served.
    shared: OnceLock<Weak<Api>>,
    stopping: watch::Sender<bool>,
}

/// How far callers without any credential get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anonymous {
    /// To health and version, and no further: for a server that allows everything to everybody.
    OnPublicPaths,
    /// They are a user like others, and may do what that user may.
    AsAnyUser,
}

impl Api {
    pub fn new(
        authenticator: Authenticator,
        discovery: &Discovery,
        mut health: Health,
        metrics: Metrics,
        openapi: OpenApi,
        verbs: Arc<Verbs>,
        server_address: String,
    ) -> Self {
        let stopping = watch::Sender::new(false);
        let cpu = cpu::Pool::new(&metrics);
        let seen = stopping.subscribe();
        health.add_shutdown(move || *seen.borrow());
        Self {
            authenticator,
            anonymous: Anonymous::OnPublicPaths,
            issuer_keys: None,
            audit: None,
            budgets: Arc::new(Budgets::new(Limits::default(), &metrics)),
            flow: None,
            cors: None,
            strict_transport_security: None,
            discovery: ArcSwap::from_pointee(discovery::prioritised(discovery)),
            health,
            metrics,
            openapi,
            remotes: Arc::default(),
            zpages: Zpages::new(&verbs.clock),
            audit_ids: AuditIds::new(&verbs.clock),
            explorer: None,
            waits_for: None,
            server_address,
            verbs,
            cpu,
            shared: OnceLock::new(),
            stopping,
        }
    }

    /// Before anybody is served.
    pub fn set_limits(&mut self, limits: Limits) {
        self.budgets = Arc::new(Budgets::new(limits, &self.metrics));
    }

    /// From now on long work is done apart from whoever asked for it.
    pub(crate) fn share(self: &Arc<Self>) {
        // It may be served, and asked from within, too.
        let _ = self.shared.set(Arc::downgrade(self));
    }

    /// From now on `/readyz` fails, so that load balancers look elsewhere, and
    /// watches end, so that they do not hold up the stop.
    pub fn begin_stopping(&self) {
        self.stopping.send_replace(true);
    }

    /// Turns true when the server begins to stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}
