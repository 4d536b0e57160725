//! `--etcd-servers`: the objects of a cluster, where its kube-apiserver keeps them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use clap::{Args, ValueEnum};
use sternpost_cache::{Cache, Divided, DividedStore, Feeder, Overrides, Share, StartError};
use sternpost_clock::{Clock, machine};
use sternpost_controllers::Unserved;
use sternpost_golang::duration;
use sternpost_store::{BoxFuture, CommitError, ReadError, Stopped, Store};
use sternpost_store_etcd::{Compactor, Endpoint, EtcdStore};
use sternpost_store_kube::{KubeStore, PORT_CLAIMS, Ports, Unreadable};
use sternpost_tasks::Tasks;
use sternpost_verbs::{Verbs, index::Selectable};
use tokio::task::JoinSet;

use crate::{
    encryption::{AtRest, Told},
    service_accounts::parse_seconds,
    service_ranges::ServiceArgs,
    storage::unfinished,
};
pub use access::AccessArgs;
pub use endpoints::Advertised;
use metrics::EtcdMetrics;
use overrides::Division;

pub mod access;
pub mod endpoints;
pub mod fit;
pub mod metrics;
pub mod overrides;

/// The flags of a server on etcd, which are kube-apiserver's but for one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "etcd")]
pub struct EtcdArgs {
    #[command(flatten)]
    pub access: AccessArgs,

    /// Never write to etcd: what clients send to be written is refused, controllers are off
    #[arg(long, requires = "etcd_servers")]
    pub etcd_read_only: bool,

    /// How often etcd forgets its history; 0 is never. All servers of a cluster take turns
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = parse_interval)]
    pub etcd_compaction_interval: Duration,

    /// On etcd: the address by which others reach this server, for the endpoints of the service `kubernetes`; one that
    /// they cannot reach is not among them [default: that of --listen]
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,

    /// Whether this server is among the endpoints of the service `kubernetes`
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = EndpointReconciler::Lease)]
    pub endpoint_reconciler_type: EndpointReconciler,

    /// How long etcd may take to answer before /livez and /healthz say that it does not
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_wait)]
    pub etcd_healthcheck_timeout: Duration,

    /// The same for /readyz
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_wait)]
    pub etcd_readycheck_timeout: Duration,

    /// How often objects are counted for /metrics; 0 is never
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = parse_interval)]
    pub etcd_count_metric_poll_period: Duration,

    /// How often etcd is asked for its size, for /metrics; 0 is never
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_interval)]
    pub etcd_db_metric_poll_interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EndpointReconciler {
    /// For as long as it lives
    Lease,
    /// Somebody else writes them
    None,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(text).and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map(Duration::from_secs).ok_or_else(|| "want a duration such as 5m or 0".to_owned())
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    let wait = duration::parse(text).ok().and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
    let wait = wait.map(Duration::from_nanos).filter(|wait| !wait.is_zero());
    wait.ok_or_else(|| "want a duration such as 2s".to_owned())
}

impl EtcdArgs {
    /// Where clients in the cluster are led to this server, which listens there.
    pub fn advertised(&self, listening: SocketAddr) -> Option<Advertised> {
        if !self.is_used() || self.etcd_read_only || self.endpoint_reconciler_type == EndpointReconciler::None
        {
            return None;
        }
        let address = self.advertise_address.unwrap_or(listening.ip());
        endpoints::is_reachable(address).then_some(Advertised { address, port: listening.port() })
    }

    /// Whether objects are in etcd.
    pub fn is_used(&self) -> bool {
        self.access.is_used()
    }

    /// How etcd is reached, and what is read there. Begins to connect.
    pub fn open(
        &self,
        encryption: &Arc<AtRest>,
        services: &ServiceArgs,
        metrics: Arc<EtcdMetrics>,
    ) -> anyhow::Result<Cluster> {
        let Division { others, overrides, masters, checked } = self.access.division()?;
        let open = |servers: &[Endpoint], number| {
            let etcd = Arc::new(self.access.connect_to(servers, Some(metrics.clone()))?);
            let options = sternpost_store_kube::Options {
                prefix: self.access.prefix(),
                encryption: encryption.clone(),
                node_ports: services.service_node_port_range.clone(),
                read_only: self.etcd_read_only,
                share: Share::of(overrides.clone(), number),
            };
            anyhow::Ok(Etcd { store: Arc::new(KubeStore::new(etcd.clone(), options)), etcd })
        };
        let main = open(&self.access.etcd_servers, 0)?;
        let others = others.iter().zip(1..).map(|(servers, number)| open(servers, number));
        let etcds = Divided::new(main, others.collect::<anyhow::Result<_>>()?);
        let store: Arc<dyn Store> = match etcds.is_one() {
            true => etcds.main.store.clone(),
            false => Arc::new(DividedStore::new(stores(&etcds), overrides.clone())),
        };
        Ok(Cluster {
            store,
            etcds,
            overrides,
            masters,
            checked,
            is_read_only: self.etcd_read_only,
            compaction_interval: self.etcd_compaction_interval,
            metrics,
            polls: (self.etcd_count_metric_poll_period, self.etcd_db_metric_poll_interval),
            check_timeouts: (self.etcd_healthcheck_timeout, self.etcd_readycheck_timeout),
        })
    }
}

/// One etcd, and what of a cluster is in it.
#[derive(Clone)]
struct Etcd {
    store: Arc<KubeStore>,
    etcd: Arc<EtcdStore>,
}

fn stores(etcds: &Divided<Etcd>) -> Divided<Arc<dyn Store>> {
    etcds.map(|etcd| etcd.store.clone() as Arc<dyn Store>)
}

/// The objects of a cluster. Clones are the same.
#[derive(Clone)]
pub struct Cluster {
    /// All of them, in one etcd or several.
    pub store: Arc<dyn Store>,
    etcds: Divided<Etcd>,
    overrides: Overrides,
    /// The number of the one in which servers keep their addresses.
    masters: usize,
    /// The numbers of those that have a health check beside that of the main one.
    checked: Vec<usize>,
    pub is_read_only: bool,
    compaction_interval: Duration,
    metrics: Arc<EtcdMetrics>,
    /// How often objects are counted, and etcd is asked for its size.
    polls: (Duration, Duration),
    /// How long etcd may take for the server to be alive, and to be ready.
    check_timeouts: (Duration, Duration),
}

/// How often etcd is asked whether it is there.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Before etcd is tried again at the start. Most often whoever asked has waited for longer.
const AGAIN: Duration = Duration::from_secs(1);

/// A key that is looked at and never written, as kube-apiserver's.
const CHECKED: &str = "health";

/// What the last check of etcd said, and how long that took.
#[derive(Clone)]
pub struct Reached(Arc<ArcSwap<Result<Duration, String>>>);

impl Reached {
    /// Whether it was reached in that time.
    pub fn within(&self, patience: Duration) -> Result<(), String> {
        match self.0.load().as_ref() {
            Ok(took) if *took > patience => Err(format!("etcd took {took:?} to answer")),
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        }
    }
}

impl Cluster {
    /// All that is there, read as soon as etcd answers; until then the server waits, and says why.
    pub async fn cache(&self) -> Result<(Arc<Cache>, Vec<Feeder>), StartError> {
        loop {
            match self.read_all().await {
                Err(StartError::Read(ReadError::Unavailable { reason })) => {
                    tracing::warn!("waiting for etcd: {reason}{}", hint(&reason));
                    machine::sleep(AGAIN).await;
                }
                // While it was read, history was forgotten that it was to go on with.
                Err(StartError::Read(ReadError::Compacted { oldest })) => {
                    tracing::info!("etcd was compacted to {oldest} meanwhile; reading again");
                }
                started => return started,
            }
        }
    }

    async fn read_all(&self) -> Result<(Arc<Cache>, Vec<Feeder>), StartError> {
        // Before anything is read: it would be read in vain, and again each time.
        for etcd in self.etcds.iter() {
            etcd.etcd.current_revision().await?;
        }
        let selectable = Box::new(Selectable::built_in());
        Cache::start_divided(stores(&self.etcds), self.overrides.clone(), selectable).await
    }

    /// The etcd in which servers keep their addresses.
    pub fn masters(&self) -> Arc<EtcdStore> {
        self.etcds.numbered(self.masters).etcd.clone()
    }

    /// The node ports of the cluster; `None` if nobody has had any yet.
    pub async fn ports(&self) -> Result<Option<Ports>, CommitError> {
        let (group, resource) = PORT_CLAIMS;
        self.etcds.numbered(self.overrides.number_of(group, resource)).store.ports().await
    }

    /// All values that could not be read when they were last seen.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.etcds.iter().flat_map(|etcd| etcd.store.unreadable()).collect()
    }

    /// What namespaces hold that this server does not serve.
    pub fn unserved(&self) -> Arc<dyn Unserved> {
        Arc::new(OfOthers(self.etcds.iter().map(|etcd| etcd.store.clone()).collect()))
    }

    /// Takes turns with the other servers to have each etcd forget, until what is returned is dropped.
    pub fn compacted(&self, clock: &Clock) -> Result<Vec<Compactor>, Stopped> {
        let start = |etcd: &Etcd| Compactor::start(&etcd.etcd, clock.clone(), self.compaction_interval);
        self.etcds.iter().map(start).collect()
    }

    /// Refuses what is only a part of something.
    pub async fn want_whole(&self) -> anyhow::Result<()> {
        for etcd in self.etcds.iter() {
            if unfinished::find(&*etcd.etcd).await?.is_some() {
                return Err(unfinished::refused("what is below --etcd-prefix"));
            }
        }
        Ok(())
    }

    /// Reads values again from now on that could not be decrypted, whenever what is returned is told that there are other keys.
    pub fn reopening(&self, tasks: &Tasks) -> Told {
        let stores: Vec<Arc<KubeStore>> = self.etcds.iter().map(|etcd| etcd.store.clone()).collect();
        for store in stores.clone() {
            tasks.forever("etcd-reopen", move || store.clone().reopening());
        }
        Arc::new(move |_| stores.iter().for_each(|store| store.reopen()))
    }

    /// What is known of each etcd before it has answered, that of `--etcd-servers` first, and what asks them.
    pub fn checking(&self) -> (Vec<Reached>, impl Future<Output = ()> + use<>) {
        let unknown = || Err("it has not answered yet".to_owned());
        let asked: Vec<(Arc<EtcdStore>, Reached)> = self.to_check(unknown);
        let all = asked.iter().map(|(_, reached)| reached.clone()).collect();
        let patience = self.check_patience();
        let checking = async move {
            let checks = asked.into_iter().map(|(etcd, told)| check(etcd, told, patience));
            checks.collect::<JoinSet<()>>().join_all().await;
        };
        (all, checking)
    }

    /// Asks each etcd, all of which have answered, from now on whether it is there.
    pub fn checked(&self, tasks: &Tasks) -> Vec<Reached> {
        let patience = self.check_patience();
        let watch = |(etcd, reached): (Arc<EtcdStore>, Reached)| {
            let told = reached.clone();
            tasks.forever("etcd-check", move || check(etcd.clone(), told.clone(), patience));
            reached
        };
        self.to_check(|| Ok(Duration::ZERO)).into_iter().map(watch).collect()
    }

    fn to_check(&self, first: impl Fn() -> Result<Duration, String>) -> Vec<(Arc<EtcdStore>, Reached)> {
        let checked = self.checked.iter().map(|number| self.etcds.numbered(*number));
        let all = std::iter::once(&self.etcds.main).chain(checked);
        all.map(|etcd| (etcd.etcd.clone(), Reached(Arc::new(ArcSwap::from_pointee(first()))))).collect()
    }

    fn check_patience(&self) -> Duration {
        self.check_timeouts.0.max(self.check_timeouts.1)
    }

    /// How long etcd may take for the server to be alive, and to be ready.
    pub fn check_timeouts(&self) -> (Duration, Duration) {
        self.check_timeouts
    }

    /// Counts for `/metrics` from now on.
    pub fn counted(&self, verbs: &Arc<Verbs>, tasks: &Tasks) {
        let etcds = self.etcds.iter().map(|etcd| etcd.etcd.clone()).collect();
        self.metrics.poll(verbs, etcds, self.polls, tasks);
    }
}

/// What may have to be set otherwise, as far as it can be told from how connections end.
fn hint(reason: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    let is_tls = reason.contains("https://");
    if says(&["invalid peer certificate"]) {
        "; --etcd-cafile has to name who vouches for etcd, and --etcd-servers what its certificate is for"
    } else if says(&["tls handshake eof", "corrupt message"]) {
        "; it seems not to speak TLS: --etcd-servers has https:// where it may be http://"
    } else if says(&["fatal alert", "user name is empty", "permission denied"]) || is_tls && says(&CLOSED) {
        "; it does not accept --etcd-certfile and --etcd-keyfile, or wants to have them"
    } else if says(&CLOSED) {
        "; it seems to speak TLS: --etcd-servers has http:// where it may be https://"
    } else {
        ""
    }
}

/// What is seen of a member that ends connections.
const CLOSED: [&str; 3] = ["broken pipe", "connection reset", "stream closed"];

struct OfOthers(Vec<Arc<KubeStore>>);

impl Unserved for OfOthers {
    fn in_namespace<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for store in &self.0 {
                all.extend(store.unserved(namespace).await.map_err(|error| error.to_string())?);
            }
            Ok(all)
        })
    }
}

async fn check(etcd: Arc<EtcdStore>, told: Reached, patience: Duration) {
    loop {
        let began = machine::now();
        let answer = etcd.health(CHECKED, patience).await;
        let answer = answer.map(|()| machine::elapsed(began)).map_err(|error| error.to_string());
        told.0.store(Arc::new(answer));
        machine::sleep(CHECK_EVERY).await;
    }
}
