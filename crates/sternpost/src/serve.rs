//! `sternpost serve`: builds the server from its parts and runs it.

use std::{
    fs, future,
    io::{self, Write},
    iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::pin,
    process::exit,
    sync::{Arc, Mutex},
    thread::available_parallelism,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use arc_swap::ArcSwap;
use http::HeaderValue;
use prometheus_client::registry::Registry;
use sternpost_auth::{
    authenticate::{Authenticator, User},
    certificate::SubjectAltName,
    token::Token,
};
use sternpost_clock::Clock;
use sternpost_clock::machine;
use sternpost_discovery::Discovery;
use sternpost_flow::EVENT_INTERVAL;
use sternpost_http::{
    Anonymous, Api, OpenApi, OpenApiMetrics, TokenObjects, WebhookMetrics, cors::Cors, metrics::Metrics,
    server,
};
use sternpost_openapi::{
    custom::MergeKeys,
    names::Naming,
    publisher::{Options, Publisher},
};
use sternpost_outbound::Egress;
use sternpost_tasks::Tasks;
use sternpost_verbs::{UnsafeDeletion, admission::Chain};
use tokio::runtime::Runtime;

use crate::{
    admission,
    aggregation::Aggregation,
    audit, authentication,
    cli::{AuthorizationMode, Gate, OpenApiMergeKeys, OpenApiNames, ServeArgs},
    controllers,
    credentials::{self, Credentials, TokenRule},
    data_dir::{self, DataDir},
    encryption, envtest,
    error::{self, Hinted},
    etcd::{
        self, Cluster,
        fit::{Joining, Settling},
        metrics::EtcdMetrics,
    },
    file_modes, flow, health,
    issuer_keys::KeyFetcher,
    kubeconfig::{
        Admin,
        merge::{self, Merged},
    },
    limits, load, logging,
    objects::{self, Objects, Place},
    ready::{Ready, ReadyFile},
    reload::{self, Watched},
    run::Parent,
    service_accounts, ui, waiting,
    within::Within,
};

/// Requests take microseconds and wait little: more threads than this only
/// cost memory.
const MAX_WORKERS: usize = 8;

/// For the odd call that blocks, which is an apply that waits for a conversion webhook. Threads are
/// made when they are needed and end when they are not.
const MAX_BLOCKING_THREADS: usize = 256;

/// Objects, schemas and expressions nest as deep as their limits allow, and are gone through by
/// functions that call themselves. Of this only what is used takes memory.
pub const STACK_BYTES: usize = 8 << 20;

/// How long threads may take to end when the server has stopped.
pub const END_GRACE: Duration = Duration::from_secs(5);

pub fn run(args: &ServeArgs, started: machine::Instant) -> anyhow::Result<()> {
    logging::init(args.log_format, args.log_level);
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        // Before anything that takes time, so that a signal is never lost.
        let signals = Signals::new().context("cannot listen for signals")?;
        let tasks = Tasks::default();
        let ready = |ready: &Ready<'_>| {
            let line = ready.line(args.log_format, machine::elapsed(started));
            // Not a log line: it is what whoever started the server waits for, at any log level. If nobody
            // reads it, the server serves all the same.
            let _ = writeln!(io::stderr(), "{line}");
        };
        let parent = Parent::now();
        let stop = async {
            tokio::select! {
                () = signals.first(&tasks) => {}
                () = parent.is_gone(), if args.exit_with_parent => {}
            }
        };
        serve(args, Clock::system(), stop, ready).await
    });
    // Whatever still computes or blocks does not hold up the end of the process.
    runtime.shutdown_timeout(END_GRACE);
    outcome
}

/// What servers run on.
pub fn runtime() -> anyhow::Result<Runtime> {
    // The runtime panics if it cannot have them.
    ensure_threads(workers() + OTHER_THREADS, STACK_BYTES)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_stack_size(STACK_BYTES)
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Beside those that answer requests: the store's, the controllers', and one that blocks.
const OTHER_THREADS: usize = 4;

/// Whether the system gives this process so many threads, tried by having them all at once.
fn ensure_threads(count: usize, stack_bytes: usize) -> anyhow::Result<()> {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(Mutex::new(ended));
    let mut threads = vec![];
    let mut refused = None;
    for _ in 0..count {
        let ended = ended.clone();
        let wait = move || drop(ended.lock().map(|ended| ended.recv()));
        match std::thread::Builder::new().stack_size(stack_bytes).spawn(wait) {
            Ok(thread) => threads.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    drop(end);
    for thread in threads {
        // It does nothing that could fail.
        let _ = thread.join();
    }
    match refused {
        None => Ok(()),
        Some(error) => Err(Hinted {
            message: format!("cannot start {count} threads: {error}"),
            hint: "limits of memory or processes (`ulimit -v`, `ulimit -u`, the container's) are too tight"
                .into(),
        }
        .into()),
    }
}

/// Threads that answer requests.
pub fn workers() -> usize {
    available_parallelism().map_or(1, usize::from).min(MAX_WORKERS)
}

/// Serves until `stop` is ready; all that is begun for it ends with it. A process may have any number of
/// servers, each with a clock of its own.
pub async fn serve(
    args: &ServeArgs,
    clock: Clock,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(&Ready<'_>),
) -> anyhow::Result<()> {
    let mut ready_file = args.ready_file.as_deref().map(ReadyFile::new).transpose()?;
    let limits = args.limits.limits(limits::raise_open_files())?;
    let mut admission = Chain::new(&args.enable_admission_plugins, &args.disable_admission_plugins)?;
    if let Some(path) = &args.admission_control_config_file {
        admission = admission::configure(admission, path)?;
    }

    let reloads = args.encryption_provider_config_automatic_reload;
    if reloads && args.encryption_provider_config.is_none() {
        anyhow::bail!(
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
        );
    }
    // Looked at before it is read: what is written meanwhile is a change.
    let encryption_file = Watched::new(args.encryption_provider_config.iter().filter(|_| reloads));
    let at_rest = args.encryption_provider_config.as_deref();
    let at_rest = at_rest.map(|path| encryption::configure(path, &clock)).transpose()?;

    let dir = match &args.data_dir {
        // Settings may name both.
        _ if args.in_memory => None,
        Some(path) => Some(path.clone()),
        None if args.etcd.is_used() => None,
        None => Some(data_dir::default_path()?),
    };
    if let Some(dir) = &dir {
        error::want_directory(dir, "name a directory with --data-dir; it is made if it is not there")?;
    }
    if !args.insecure_file_modes {
        file_modes::warn_of_flags(args);
        // Before anything in it is opened. A new one is made as it should be.
        if let Some(dir) = dir.as_ref().filter(|dir| dir.exists()) {
            file_modes::tighten(dir)?;
        }
    }
    let dir = dir.map(|dir| DataDir::open(&dir)).transpose()?;
    let listener = args.listen.bind().await?;
    let address = listener.local_addr().context("cannot read the listening address")?;
    // Certificates are judged by others, in their time.
    let now = machine::wall();
    let tasks = Tasks::default();
    let egress = Egress::new(address, args.egress_allow.clone()).with_tasks(tasks.clone());

    let names: Vec<SubjectAltName> = iter::once(SubjectAltName::Ip(address.ip()))
        .chain(args.listen.name())
        .chain(args.tls_san.iter().cloned())
        .collect();
    let Credentials { token, mut serving, mut trusted } = match &dir {
        Some(dir) => credentials::in_dir(dir, token_rule(args), &names, now)?,
        None => credentials::in_memory(&names, now)?,
    };
    if let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_private_key_file) {
        serving = credentials::serving_from_files(certificate, key)?;
        trusted = serving.chain.clone();
    }
    let clients = args.client_ca_file.as_deref().map(credentials::client_authority).transpose()?;
    let tls = reload::Tls { serving, clients, proxies: authentication::front_proxies(&args.authentication)? };
    let config = Arc::new(ArcSwap::from_pointee(tls.config()?));

    let mut authenticator = Authenticator::default();
    authenticator.add(&token, User::admin());
    if let Some(path) = &args.token_auth_file {
        let csv = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        authenticator.add_token_file(&csv).with_context(|| format!("cannot use `{}`", path.display()))?;
    }

    let objects = dir.as_ref().map(|dir| dir.file(data_dir::OBJECTS));
    if let Some(dir) = &dir {
        dir.want_whole()?;
    }
    let ranges = args.services.ranges()?;
    let mut counters = Registry::default();
    let settings = objects::Settings {
        clock: clock.clone(),
        admission,
        authorization: args.authorization_mode,
        object_size: args.object_size_limit,
        routing: args.aggregation.routing(),
        egress: egress.clone(),
        service_ranges: ranges.clone(),
        event_lifetime: args.controllers.event_ttl,
        unsafe_deletion: args.feature_gates.iter().fold(UnsafeDeletion::Off, |before, gate| match gate {
            Gate::AllowUnsafeMalformedObjectDeletion(true) => UnsafeDeletion::On,
            Gate::AllowUnsafeMalformedObjectDeletion(false) => UnsafeDeletion::Off,
            _ => before,
        }),
        call_observer: Arc::new(WebhookMetrics::register(&mut counters)),
    };
    // In memory nothing is at rest.
    let is_kept = objects.is_some() || args.etcd.is_used();
    let at_rest = is_kept.then(|| Arc::new(at_rest.unwrap_or_default()));
    if let Some(at_rest) = &at_rest {
        // Before the store is opened, so that it can be told what is stale, and written to.
        at_rest.ask().await;
    }
    let cluster = match &at_rest {
        Some(at_rest) if args.etcd.is_used() => {
            let metrics = EtcdMetrics::register(&mut counters);
            Some(args.etcd.open(at_rest, &args.services, metrics)?)
        }
        _ => None,
    };
    let place = match (&cluster, objects, &at_rest) {
        (Some(cluster), ..) => Place::Cluster(cluster.clone()),
        (None, Some(dir), Some(at_rest)) => Place::Directory { dir, at_rest: at_rest.clone() },
        _ => Place::Memory,
    };
    let mut stop = pin!(stop);
    let waiting = async {
        match &cluster {
            Some(cluster) => waiting::serve(args, cluster, &listener, config.clone(), &token, &tasks).await,
            None => future::pending().await,
        }
    };
    let opening = async {
        if let (Some(at_rest), Some(_)) = (&at_rest, &cluster) {
            // What cannot be opened when it is read first would not be there.
            at_rest.wait().await;
        }
        objects::open(place, settings, &tasks).await
    };
    let Objects { verbs, checks, told, store } = tokio::select! {
        objects = opening => objects?,
        never = waiting => match never? {},
        // It may have to wait for others.
        () = &mut stop => return Ok(()),
    };
    let at_rest = at_rest.filter(|at_rest| reloads || at_rest.has_plugins());
    if let Some(at_rest) = &at_rest {
        encryption::follow_plugins(at_rest, &clock, &told, &tasks);
    }

    if let Some(clients) = &tls.clients {
        authenticator.set_clients(clients.clone());
    }
    if let Some(proxies) = &tls.proxies {
        authenticator.set_front_proxies(proxies.clone());
    }
    authentication::apply(&args.authentication, &args.service_accounts.issuers, &authenticator)?;
    let named = Arc::new(TokenObjects(verbs.clone()));
    let accounts = service_accounts::open(&args.service_accounts, dir.as_ref(), named)?;
    let advertised = args.etcd.advertised(address);
    let begun = async {
        let Some(cluster) = cluster.as_ref().filter(|cluster| !cluster.is_read_only) else {
            return objects::fill(&verbs, address.port()).await;
        };
        let lease = controllers::lease_of_port(address.port());
        let joining = Joining { ranges: &ranges, accounts: &accounts, dir: dir.as_ref(), advertised, lease };
        joining.check(cluster, &verbs, &args.service_accounts).await?;
        objects::fill(&verbs, address.port()).await?;
        // Another server may have begun the same cluster at the same time.
        joining.check(cluster, &verbs, &args.service_accounts).await?;
        joining.remember(&verbs)
    };
    tokio::select! {
        begun = begun => begun?,
        () = &mut stop => return Ok(()),
    }
    let trust = accounts.trust();
    authenticator.set_service_accounts(accounts);

    let reachable = reachable(address);
    let openapi = openapi(args, &mut counters, clock.wall());
    let (health, start) = health::checks(args, checks, at_rest.clone(), &tasks);
    start.objects.done();
    let mut api = Api::new(
        authenticator,
        &Discovery::new(sternpost_builtin::groups().to_vec()),
        health,
        Metrics::new(counters, clock.wall()),
        openapi,
        verbs,
        reachable.to_string(),
    );
    api.set_limits(limits);
    if args.authorization_mode == AuthorizationMode::Rbac {
        api.anonymous = Anonymous::AsAnyUser;
    }
    api.issuer_keys = Some(Arc::new(KeyFetcher::new(egress.clone(), tasks.clone(), clock.clone())));
    let origins: Vec<&str> =
        args.cors_allowed_origins.iter().flat_map(|origins| &origins.0).map(String::as_str).collect();
    if !origins.is_empty() {
        api.cors = Some(Cors::new(origins)?);
    }

    let directives = &args.strict_transport_security_directives;
    if !directives.is_empty() {
        api.strict_transport_security = Some(HeaderValue::try_from(directives.join("; "))?);
    }

    let aggregation = Aggregation::open(args, dir.as_ref(), &api.verbs, egress, now)?;
    api.remotes = aggregation.remotes();
    let (audit_log, audit) = audit::open(&args.audit, &clock)?.unzip();
    api.audit = audit;
    api.flow = flow::start(&args.flow, &api.verbs.cache, &tasks);
    start.flow.done();
    api.zpages.flags = args.flags.clone();

    let explorer = args.ui.listener().await?;
    if let Some(explorer) = &explorer {
        api.explorer = Some(HeaderValue::try_from(explorer.url()?)?);
    }

    let api = Arc::new(api);
    let published = api.clone();
    let publish =
        Arc::new(move |name: &str, group: &str, change| published.publish_definition(name, group, change));
    sternpost_controllers::definitions::start(api.verbs.clone(), &tasks, publish).await;
    start.definitions.done();
    let namespace_delay = if args.stand_in { envtest::NAMESPACE_DELAY } else { Duration::ZERO };
    if let Some(cluster) = &cluster {
        cluster.counted(&api.verbs, &tasks);
    }
    let unserved = cluster.as_ref().map(Cluster::unserved);
    let controllers = controllers::start(args, namespace_delay, &api, trusted.clone(), unserved, &tasks)?;
    start.lease.done();
    aggregation.start(&api, &tasks).await;
    start.aggregation.done();
    // Whoever is led here finds everything there.
    let endpoints = match (&cluster, advertised) {
        (Some(cluster), Some(at)) => {
            Some(etcd::endpoints::start(cluster.masters(), api.verbs.clone(), at, &tasks)?)
        }
        _ => None,
    };
    let writing = cluster.as_ref().filter(|cluster| !cluster.is_read_only);
    let compactors = writing.map(|cluster| cluster.compacted(&clock)).transpose()?;

    let within = Within::new(api.clone(), &token)?;
    load::load(&within, &args.load).await?;

    let url = format!("https://{reachable}");
    let kubeconfig = Kubeconfig::write(args, dir.as_ref(), &url, &trusted, &token)?;

    // Connections are accepted by the kernel since `bind`.
    let is_ready = Ready { url: &url, kubeconfig: kubeconfig.path() };
    if let Some(file) = &mut ready_file {
        file.write(&is_ready)?;
    }
    ready(&is_ready);
    if let Some(explorer) = explorer {
        let authority = match args.tls_cert_file {
            None => ui::Authority::Own(&trusted),
            Some(_) => ui::Authority::Given,
        };
        explorer.start(&url, authority, &token, &args.context_name, config.clone(), &tasks)?;
    }
    let settling = writing.and(controllers.holder.clone()).map(|holder| {
        let lease = controllers::lease_of_port(address.port());
        Settling { verbs: api.verbs.clone(), trust, lease, holder }
    });
    let settled = async {
        match settling {
            Some(settling) => settling.misfit().await,
            None => future::pending().await,
        }
    };
    let mut misfit = None;
    let stop = async {
        tokio::select! {
            () = stop => {}
            error = settled => misfit = Some(error),
        }
        drop(ready_file);
    };

    let encrypted = at_rest.filter(|_| reloads).map(|at_rest| reload::Encrypted {
        at_rest,
        clock,
        told,
        file: encryption_file,
    });
    let reloading = reload::start(args, tls, config.clone(), api.clone(), aggregation, encrypted);
    server::serve(listener, config, api, stop).await;
    reloading.abort();
    if let Some(endpoints) = endpoints {
        endpoints.end().await;
    }
    drop(compactors);
    kubeconfig.end().await;
    controllers.end().await;
    // One that computes for longer does not hold up the end.
    let _ = machine::timeout(END_GRACE, tasks.end()).await;
    // Behind all that requests have handed over.
    store.close().await;
    drop(audit_log);
    tracing::info!("stopped");
    misfit.map_or(Ok(()), Err)
}

fn token_rule(args: &ServeArgs) -> TokenRule {
    if args.insecure_file_modes { TokenRule::Any } else { TokenRule::Strong }
}

/// The admin kubeconfig: a context in the file that the user names, else a file in the data
/// directory, else, for a server that keeps nothing, in a directory that ends with it. In the
/// place of kube-apiserver the last is left out: others know their way in.
enum Kubeconfig {
    Absent,
    Written(PathBuf),
    Temporary(PathBuf, #[expect(dead_code, reason = "removed when dropped")] TemporaryDir),
    /// With what to take out at the end, if the server keeps nothing.
    Merged(PathBuf, Option<Merged>),
}

impl Kubeconfig {
    fn write(
        args: &ServeArgs,
        dir: Option<&DataDir>,
        server: &str,
        trusted: &str,
        token: &Token,
    ) -> anyhow::Result<Self> {
        const NAME: &str = "admin.kubeconfig";
        let admin = Admin { name: &args.context_name, server, trusted, token, previous: String::new() };
        match (&args.kubeconfig, dir) {
            (Some(path), _) => {
                // It may have to wait for somebody else's lock.
                let merged = tokio::task::block_in_place(|| merge::merge(path, &admin))?;
                Ok(Self::Merged(path.clone(), args.in_memory.then_some(merged)))
            }
            (None, Some(dir)) => {
                data_dir::write_private(&dir.file(NAME), &admin.text())?;
                Ok(Self::Written(dir.file(NAME)))
            }
            (None, None) if args.stand_in => Ok(Self::Absent),
            (None, None) => {
                let temporary = TemporaryDir::create(server)?;
                let path = temporary.0.join(NAME);
                data_dir::write_private(&path, &admin.text())?;
                Ok(Self::Temporary(path, temporary))
            }
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Absent => None,
            Self::Written(path) | Self::Temporary(path, _) | Self::Merged(path, _) => Some(path),
        }
    }

    /// Takes out what a server that keeps nothing has put in.
    async fn end(self) {
        let Self::Merged(path, Some(merged)) = self else { return };
        let removed = tokio::task::spawn_blocking(move || merged.remove()).await;
        if let Err(error) = removed.map_err(anyhow::Error::from).flatten() {
            tracing::warn!(path = %path.display(), error = format!("{error:#}"), "the context stays in the kubeconfig");
        }
    }
}

/// Removed with all that is in it when dropped.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// `url` is where the server is: a process may have more than one.
    fn create(url: &str) -> anyhow::Result<Self> {
        let port = url.rsplit(':').next().unwrap_or_default();
        let path = std::env::temp_dir().join(format!("sternpost-{}-{port}", std::process::id()));
        // Fails if it exists: it would be somebody else's.
        data_dir::private_dirs()
            .create(&path)
            .with_context(|| format!("cannot create `{}`", path.display()))
            .map(|()| Self(path))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // It holds nothing that outlives the server; left behind it is harmless.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn openapi(args: &ServeArgs, counters: &mut Registry, now: SystemTime) -> OpenApi {
    let naming = match args.openapi_names {
        OpenApiNames::Short => Naming::Short,
        OpenApiNames::Upstream => Naming::Upstream,
    };
    let observer = Arc::new(OpenApiMetrics::register(counters));
    let v3 = args.feature_gates.iter().fold(true, |is_on, gate| match gate {
        Gate::OpenApiV3(on) => *on,
        _ => is_on,
    });
    let merge_keys = match args.openapi_merge_keys {
        OpenApiMergeKeys::Derived => MergeKeys::Derived,
        OpenApiMergeKeys::Absent => MergeKeys::Absent,
    };
    let options = Options { naming, merge_keys };
    OpenApi::new(Publisher::with_options(sternpost_builtin::groups(), options, observer), v3, now)
}

/// The address as a client on this machine can use it.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// SIGTERM and SIGINT.
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    pub fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(not(unix))]
    pub fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ready at the first signal. The second ends the process at once.
    pub async fn first(mut self, tasks: &Tasks) {
        self.next().await;
        tracing::info!("stopping: finishing requests in flight");
        tasks.once("second-signal", async move {
            self.next().await;
            exit(1);
        });
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_cannot_be_had_are_told_of() {
        ensure_threads(4, 64 << 10).unwrap();
        let error = ensure_threads(1, usize::MAX >> 2).unwrap_err();
        assert!(error.to_string().starts_with("cannot start 1 threads: "), "{error}");
    }

    #[test]
    fn a_wildcard_address_is_reached_by_loopback() {
        for (listen, expected) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.7:1", "192.0.2.7:1"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), expected);
        }
    }
}
