//! Where objects are kept: builds the store, the cache and the registry.

use std::{
    io::Write,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

use anyhow::Context;
use sternpost_cache::{Cache, Feeder};
use sternpost_clock::Clock;
use sternpost_http::Rbac;
use sternpost_meta::authorize::{AlwaysAllow, Authorizer};
use sternpost_outbound::Egress;
use sternpost_registry::kinds::service::allocation::Ranges;
use sternpost_store::{
    Stopped, Store, WatchError,
    memory::{self, MemoryStore},
};
use sternpost_store_log::{LogStore, OpenError, Options};
use sternpost_tasks::Tasks;
use sternpost_verbs::{
    ObjectSize, UnsafeDeletion, Verbs,
    admission::{CallObserver, Chain},
    index::Selectable,
    served::ServedResources,
    startup,
};

use crate::{
    cli::{AuthorizationMode, ObjectSizeLimit},
    encryption::{AtRest, Keys, Told},
    error::Hinted,
    etcd::{Cluster, Reached},
    services::{Routing, Services},
    webhooks::Webhooks,
};

pub type Refusing = dyn Fn() -> Option<Arc<str>> + Send + Sync;
pub type Answering = dyn Fn() -> Result<(), String> + Send + Sync;

/// The objects of a running server.
pub struct Objects {
    pub verbs: Arc<Verbs>,
    /// Of the store, and of those that chosen resources have.
    pub checks: Vec<StoreCheck>,
    /// What is told when values are encrypted with other keys.
    pub told: Told,
    pub store: Arc<dyn Store>,
}

/// How a store is.
pub struct StoreCheck {
    /// Says, whenever it is asked, whether the store answers.
    pub answering: Box<Answering>,
    /// Says, whenever it is asked, why writes are refused for now.
    pub refusing: Box<Refusing>,
}

impl StoreCheck {
    fn one(
        refusing: impl Fn() -> Option<Arc<str>> + Send + Sync + 'static,
        store: Arc<dyn Store>,
    ) -> Vec<Self> {
        vec![Self { answering: Box::new(move || answers(&*store)), refusing: Box::new(refusing) }]
    }
}

/// What objects are served by.
pub struct Settings {
    pub clock: Clock,
    pub admission: Chain,
    pub authorization: AuthorizationMode,
    pub object_size: ObjectSizeLimit,
    pub routing: Routing,
    pub egress: Egress,
    pub service_ranges: Ranges,
    pub event_lifetime: Duration,
    pub unsafe_deletion: UnsafeDeletion,
    /// Is told how webhooks do.
    pub call_observer: Arc<dyn CallObserver>,
}

/// Where objects are.
pub enum Place {
    Memory,
    Directory { dir: PathBuf, at_rest: Arc<AtRest> },
    Cluster(Cluster),
}

/// Opens the store, and everything above it. A store
/// that fails ends the process: what is not durable must not be answered.
pub async fn open(place: Place, settings: Settings, tasks: &Tasks) -> anyhow::Result<Objects> {
    let Settings {
        clock,
        admission,
        authorization,
        object_size,
        routing,
        egress,
        service_ranges,
        event_lifetime,
        unsafe_deletion,
        call_observer,
    } = settings;
    let selectable = || Box::new(Selectable::built_in());
    let mut is_read_only = false;
    let mut told: Told = Arc::new(|_| ());
    let (store, checks, cache, feeders): (Arc<dyn Store>, Vec<StoreCheck>, _, Vec<Feeder>) = match place {
        Place::Directory { dir, at_rest } => {
            let options = Options { clock: clock.clone(), sealing: at_rest, ..Options::default() };
            let open = move || LogStore::open(&dir, options);
            let store = tokio::task::spawn_blocking(open).await.context("the store did not open")?;
            let store = Arc::new(store.map_err(with_hint)?);
            let reseal = store.resealing();
            told = Arc::new(move |keys| {
                if keys == Keys::Changed {
                    reseal();
                }
            });
            let (cache, feeder) = Cache::start(store.clone(), selectable()).await?;
            let checks = StoreCheck::one(store.refusing(), store.clone());
            (store, checks, cache, vec![feeder])
        }
        Place::Memory => {
            let options = memory::Options { clock: clock.clone(), ..memory::Options::default() };
            let store = Arc::new(MemoryStore::new(options));
            let (cache, feeder) = Cache::start(store.clone(), selectable()).await?;
            (store.clone(), StoreCheck::one(|| None, store), cache, vec![feeder])
        }
        Place::Cluster(cluster) => {
            is_read_only = cluster.is_read_only;
            let (cache, feeders) = cluster.cache().await?;
            cluster.want_whole().await?;
            told = cluster.reopening(tasks);
            let (alive, ready) = cluster.check_timeouts();
            let check = |reached: Reached| {
                let asked = reached.clone();
                StoreCheck {
                    answering: Box::new(move || reached.within(alive)),
                    refusing: Box::new(move || asked.within(ready).err().map(Arc::from)),
                }
            };
            let checks = cluster.checked(tasks).into_iter().map(check).collect();
            (cluster.store, checks, cache, feeders)
        }
    };
    for feeder in feeders {
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
    }
    let webhooks = Arc::new(Webhooks::new(Arc::new(Services::new(cache.clone(), routing)), egress));
    let authorizer: Arc<dyn Authorizer> = match authorization {
        AuthorizationMode::Rbac => Arc::new(Rbac::new(&cache)),
        AuthorizationMode::AlwaysAllow => Arc::new(AlwaysAllow),
    };
    let verbs = Verbs::new(ServedResources::built_in(), cache, store.clone(), clock);
    let verbs = verbs.with_service_ranges(service_ranges).with_event_lifetime(event_lifetime);
    let verbs = verbs.with_unsafe_deletion(unsafe_deletion);
    let verbs = if is_read_only { verbs.only_reading() } else { verbs };
    let verbs = verbs.with_object_size(match object_size {
        ObjectSizeLimit::Etcd => ObjectSize::AsInEtcd,
        ObjectSizeLimit::None => ObjectSize::Unlimited,
    });
    let verbs = verbs.with_admission(admission).with_callouts(webhooks).with_call_observer(call_observer);
    let verbs = Arc::new(verbs.with_authorizer(authorizer));
    Ok(Objects { verbs, checks, told, store })
}

/// Makes what is there before any client comes; the server will listen on the port.
pub async fn fill(verbs: &Verbs, port: u16) -> anyhow::Result<()> {
    if verbs.is_read_only() {
        return Ok(());
    }
    let made = startup::ensure(verbs, port).await;
    made.map(|_| ()).map_err(|status| anyhow::anyhow!("cannot create the start-up objects: {status}"))
}

/// Whether a store that has everything in memory answers reads, which it does at once.
fn answers(store: &dyn Store) -> Result<(), String> {
    match pin!(store.current_revision()).poll(&mut task::Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.map(|_| ()).map_err(|error| error.to_string()),
        Poll::Pending => Err("the store does not answer".to_owned()),
    }
}

/// A damaged store can be looked into, and much of it saved.
pub fn with_hint(error: OpenError) -> anyhow::Error {
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
                        in any place among its providers; a KMS plugin has to run when the server starts"
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
