//! Where objects are kept: builds the store, the cache and the registry.

use std::{io::Write, path::PathBuf, sync::Arc};

use anyhow::Context;
use sternpost_cache::Cache;
use sternpost_clock::Clock;
use sternpost_http::Rbac;
use sternpost_meta::authorize::{AlwaysAllow, Authorizer};
use sternpost_outbound::Egress;
use sternpost_store::{
    Stopped, Store, WatchError,
    memory::{self, MemoryStore},
};
use sternpost_store_log::{LogStore, OpenError, Options};
use sternpost_tasks::Tasks;
use sternpost_verbs::{
    ObjectSize, Verbs, admission::Chain, index::Selectable, served::ServedResources, startup,
};

use crate::{
    cli::{AuthorizationMode, ObjectSizeLimit},
    encryption::AtRest,
    error::Hinted,
    services::{Routing, Services},
    webhooks::Webhooks,
};

pub type Refusing = dyn Fn() -> Option<Arc<str>> + Send + Sync;

/// The objects of a running server.
pub struct Objects {
    pub verbs: Arc<Verbs>,
    /// Says, whenever it is asked, why writes are refused for now.
    pub refusing: Box<Refusing>,
    pub store: Arc<dyn Store>,
}

/// What objects are served by.
pub struct Settings {
    pub clock: Clock,
    /// Where the server will listen.
    pub port: u16,
    pub admission: Chain,
    pub authorization: AuthorizationMode,
    pub object_size: ObjectSizeLimit,
    pub routing: Routing,
    pub egress: Egress,
}

/// Where objects outlive the process.
pub struct Kept {
    pub dir: PathBuf,
    pub at_rest: AtRest,
}

/// Opens the store in a directory, or one in memory, and everything above it. A store
/// that fails ends the process: what is not durable must not be answered.
pub async fn open(kept: Option<Kept>, settings: Settings, tasks: &Tasks) -> anyhow::Result<Objects> {
    let Settings { clock, port, admission, authorization, object_size, routing, egress } = settings;
    let (store, refusing): (Arc<dyn Store>, Box<Refusing>) = match kept {
        Some(Kept { dir, at_rest }) => {
            let options = Options { clock: clock.clone(), sealing: Arc::new(at_rest), ..Options::default() };
            let open = move || LogStore::open(&dir, options);
            let store = tokio::task::spawn_blocking(open).await.context("the store did not open")?;
            let store = store.map_err(with_hint)?;
            let refusing = store.refusing();
            (Arc::new(store), Box::new(refusing))
        }
        None => (
            Arc::new(MemoryStore::new(memory::Options {
                clock: clock.clone(),
                ..memory::Options::default()
            })),
            Box::new(|| None),
        ),
    };
    let (cache, feeder) = Cache::start(store.clone(), Box::new(Selectable::built_in())).await?;
    let stopped = store.stopped();
    tasks.essential("watch-cache", async move {
        let why = tokio::select! {
            stopped = stopped => stopped.to_string(),
            error = feeder.run() => match error {
                WatchError::Stopped(Stopped::Closed) => return,
                error => error.to_string(),
            },
        };
        end(&why);
    });
    let webhooks = Arc::new(Webhooks::new(Arc::new(Services::new(cache.clone(), routing)), egress));
    let authorizer: Arc<dyn Authorizer> = match authorization {
        AuthorizationMode::Rbac => Arc::new(Rbac::new(&cache)),
        AuthorizationMode::AlwaysAllow => Arc::new(AlwaysAllow),
    };
    let verbs = Verbs::new(ServedResources::built_in(), cache, store.clone(), clock);
    let verbs = verbs.with_object_size(match object_size {
        ObjectSizeLimit::Etcd => ObjectSize::AsInEtcd,
        ObjectSizeLimit::None => ObjectSize::Unlimited,
    });
    let verbs = Arc::new(verbs.with_admission(admission).with_callouts(webhooks).with_authorizer(authorizer));
    startup::ensure(&verbs, port)
        .await
        .map_err(|status| anyhow::anyhow!("cannot create the start-up objects: {status}"))?;
    Ok(Objects { verbs, refusing, store })
}

/// A damaged store can be looked into, and much of it saved.
fn with_hint(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Corrupt { .. } | OpenError::Foreign { .. } | OpenError::Database { .. } => {
            let message = match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            };
            let hint =
                "`sternpost check DATA-DIR` tells what is whole, and saves it with --salvage-to".into();
            Hinted { message, hint }.into()
        }
        OpenError::Sealed { .. } => {
            let hint = "--encryption-provider-config names a file with the key that it was encrypted with, \
                        in any place among its providers"
                .into();
            Hinted { message: error.to_string(), hint }.into()
        }
        other => other.into(),
    }
}

fn end(why: &str) -> ! {
    // If nobody reads it there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "error: {why}");
    std::process::exit(1);
}
