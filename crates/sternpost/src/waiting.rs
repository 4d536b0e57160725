//! What is answered before etcd has answered, and all objects are read: how the server is, and to everything else that it is not there yet.
//!
//! Nothing that clients ask for can be known then, who they are neither: an empty answer would be a wrong one.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use sternpost_auth::{
    authenticate::{Authenticator, User},
    token::Token,
};
use sternpost_cache::Cache;
use sternpost_clock::{Clock, machine};
use sternpost_discovery::Discovery;
use sternpost_http::{Api, metrics::Metrics, server};
use sternpost_store::memory::MemoryStore;
use sternpost_tasks::Tasks;
use sternpost_verbs::{Verbs, index::Selectable, served::ServedResources};
use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;

use crate::{
    cli::ServeArgs,
    etcd::{Cluster, Reached},
    health,
    objects::StoreCheck,
    serve,
};

/// Most often everything is read by then, and connections that came meanwhile have waited.
const PATIENCE: Duration = Duration::from_secs(1);

/// Serves as soon as it takes long until the objects are there, and until it is dropped.
pub async fn serve(
    args: &ServeArgs,
    cluster: &Cluster,
    listener: &TcpListener,
    tls: Arc<ArcSwap<ServerConfig>>,
    token: &Token,
    tasks: &Tasks,
) -> anyhow::Result<Infallible> {
    machine::sleep(PATIENCE).await;
    let clock = Clock::system();
    let store = Arc::new(MemoryStore::default());
    let (cache, _) = Cache::start(store.clone(), Box::new(Selectable::built_in())).await?;
    let verbs = Arc::new(Verbs::new(ServedResources::built_in(), cache, store, clock.clone()));
    let mut authenticator = Authenticator::default();
    authenticator.add(token, User::admin());
    let mut counters = Registry::default();
    let openapi = serve::openapi(args, &mut counters, clock.wall());
    let (reached, checking) = cluster.checking();
    let (alive, _) = cluster.check_timeouts();
    let check = |reached: Reached| StoreCheck {
        answering: Box::new(move || reached.within(alive)),
        refusing: Box::new(|| Some("the objects are not read yet".into())),
    };
    let checks = reached.into_iter().map(check).collect();
    let (health, _) = health::checks(args, checks, None, tasks);
    let mut api = Api::new(
        authenticator,
        &Discovery::new(Vec::new()),
        health,
        Metrics::new(counters, clock.wall()),
        openapi,
        verbs,
        String::new(),
    );
    api.waits_for = Some("etcd");
    tokio::join!(server::serve(listener, tls, Arc::new(api), pending()), checking);
    pending().await
}
