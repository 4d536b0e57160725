//! Another API server, as good or bad as the test wants.

use std::time::Duration;

use serde_json::{Value, json};
use sternpost_testkit::{
    server::Server,
    webhook::{self, Call, Identity, Reply},
};

pub const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

pub struct RemoteServer {
    server: Option<webhook::Server>,
    pub port: u16,
    pub bundle: String,
}

/// The certificate names the service that [`RemoteServer::api_service`] has.
pub fn identity() -> Identity {
    Identity { names: vec!["hook.ns.svc"], ..Identity::default() }
}

impl RemoteServer {
    pub async fn start(reply: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_as(identity(), reply).await
    }

    pub async fn start_as(
        identity: Identity,
        reply: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let server = webhook::Server::start(identity, &["h2", "http/1.1"], reply).await;
        let (port, bundle) = (server.port, server.bundle.clone());
        Self { server: Some(server), port, bundle }
    }

    /// Nobody listens there any more.
    pub async fn stop(&mut self) {
        drop(self.server.take());
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.server.as_ref().map(webhook::Server::calls).unwrap_or_default()
    }

    pub fn api_service(
        &self,
        group: &str,
        version: &str,
        (group_priority, version_priority): (i64, i64),
    ) -> Value {
        json!({
            "metadata": {
                "name": format!("{version}.{group}"),
                "annotations": {"aggregation.sternpost.dev/address": format!("127.0.0.1:{}", self.port)},
            },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": group_priority,
                "versionPriority": version_priority,
                "caBundle": self.bundle,
                "service": {"namespace": "ns", "name": "hook"},
            },
        })
    }

    pub async fn register(&self, server: &Server, group: &str, version: &str, priorities: (i64, i64)) {
        server.post(API_SERVICES, &self.api_service(group, version, priorities)).await.expect(201);
    }
}
