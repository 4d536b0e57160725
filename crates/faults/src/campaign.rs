//! One campaign: start everything, let clients work while things go wrong, and check what they saw.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use sternpost_clock::{machine, seeded::Rng};
use sternpost_testkit::{client::Reply, server::AT_LAST};
use tokio::task::JoinSet;

use crate::{
    api::{Api, Session},
    check::{self, Findings, Violation},
    cluster::{Cluster, NODE_PORTS},
    etcd::{self, Witness},
    history::{
        Action, Change, History, Kind, NAMESPACE, Outcome, PREFIX, Recorder, Resource, TOKEN, Write, lock,
        revision, token,
    },
    load::{Asked, Client, Load, Watcher, list, outcome},
    namespaces::Namespaces,
    nemesis::{Fault, Nemesis, can_trace},
};

/// What is to be done.
pub struct Plan {
    /// The program under test.
    pub sternpost: PathBuf,
    /// Without one the server has its own store.
    pub etcd: Option<PathBuf>,
    /// Each process in a network namespace of its own; on an etcd only.
    pub namespaces: bool,
    pub seed: u64,
    /// Faults in turn, in an order of the seed's, for so long; without it each once, in this order.
    pub lasts: Option<Duration>,
    pub faults: Vec<Fault>,
    /// Told what is going on.
    pub progress: fn(&str),
}

/// What came of it.
#[derive(Default)]
pub struct Result {
    pub faults: BTreeMap<Fault, Strikes>,
    /// Faults that cannot be had here.
    pub left_out: Vec<Fault>,
    /// Faults that came while something else was wrong.
    pub paired: u64,
    pub counts: Counts,
    /// Requests that were answered with an error, or not at all.
    pub failures: BTreeMap<String, u64>,
    /// Processes that ended without being told to.
    pub ended: BTreeMap<String, u64>,
    pub violations: Vec<Violation>,
    pub took: Duration,
}

/// Of one kind of fault.
#[derive(Clone, Copy, Default)]
pub struct Strikes {
    pub times: u64,
    /// Until every server had acknowledged a write again.
    pub slowest_recovery: Duration,
}

#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub acknowledged: usize,
    pub refused: usize,
    pub uncertain: usize,
    /// Of the uncertain ones, those that happened.
    pub appeared: usize,
    pub gets: usize,
    pub lists: usize,
    pub watches: usize,
    pub events: usize,
    pub resumed: u64,
    pub relisted: u64,
    pub changes: usize,
    /// Servers that ran the controllers, one after the other.
    pub leads: usize,
}

/// Clients of each server; of one alone, so many.
const CLIENTS: usize = 3;
const CLIENTS_OF_ONE: usize = 8;

/// Watches of each resource through each server.
const WATCHERS: usize = 1;
const WATCHERS_OF_ONE: usize = 3;

/// Between two requests of a client, at most: leaves the machine time for what is tested.
const PACE: Duration = Duration::from_millis(40);

/// Where addresses of services are listed.
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// The last changes of a service, with what is wrong with its address.
const SHOWN_CHANGES: usize = 12;

pub async fn run(plan: &Plan) -> anyhow::Result<Result> {
    let began = machine::now();
    let directory = tempfile::Builder::new().prefix("sternpost-faults-").tempdir()?;
    let cluster = match &plan.etcd {
        Some(etcd) => {
            let namespaces = plan.namespaces.then(Namespaces::new).transpose()?;
            Cluster::on_etcd(&plan.sternpost, etcd, directory.path(), namespaces).await?
        }
        None => Cluster::embedded(&plan.sternpost, directory.path()).await?,
    };
    (plan.progress)("everything runs");
    let mut run = Run::new(plan, cluster).await?;
    let struck = run.strike(plan).await;
    let mut result = Result { faults: struck.faults, left_out: struck.left_out, ..Result::default() };
    let mut violations = Vec::new();
    match struck.failed {
        Some(why) => violations.push(Violation { rule: "recovery", text: why }),
        None => (plan.progress)("all faults are over"),
    }
    let (history, missed) = run.settle().await?;
    violations.extend(missed);
    violations.extend(check::all(&history));
    if violations.is_empty() {
        violations.extend(run.at_rest(&history).await?);
    }
    result.counts = run.counts(&history);
    result.failures = lock(&run.nemesis.recorder.failures).clone();
    result.paired = run.nemesis.paired;
    result.ended = run.nemesis.cluster.ended.clone();
    let panics = run.nemesis.cluster.end();
    violations.extend(panics.into_iter().map(|text| Violation { rule: "panics", text }));
    result.violations = violations;
    result.took = machine::elapsed(began);
    Ok(result)
}

/// What the faults came to.
#[derive(Default)]
struct Struck {
    faults: BTreeMap<Fault, Strikes>,
    left_out: Vec<Fault>,
    failed: Option<String>,
}

/// A campaign that is under way.
struct Run {
    nemesis: Nemesis,
    load: Load,
    apis: Vec<Arc<dyn Api>>,
    clients: JoinSet<()>,
    watchers: JoinSet<()>,
    /// How far watches of each resource have to come.
    until: BTreeMap<Resource, Arc<AtomicU64>>,
    resumed: Arc<AtomicU64>,
    relisted: Arc<AtomicU64>,
    testimony: Testimony,
    // Ends with it.
    _listening: JoinSet<()>,
}

/// Who says what happened.
enum Testimony {
    Etcd(Witness),
    /// Watches of the server that nothing is done to.
    Server {
        recorder: Arc<Recorder>,
        load: Load,
        relisted: Arc<AtomicU64>,
    },
}

impl Run {
    async fn new(plan: &Plan, cluster: Cluster) -> anyhow::Result<Self> {
        let mut rng = Rng::new(plan.seed);
        let recorder = Arc::new(Recorder::new(cluster.servers.len()));
        let load = Load::new(recorder.clone(), PACE);
        let apis: Option<Vec<Arc<dyn Api>>> = cluster
            .servers
            .iter()
            .map(|server| server.for_clients().map(|connector| Arc::new(connector) as Arc<dyn Api>))
            .collect();
        let apis = apis.context("a server is not ready")?;
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let first = apis.first().context("no server")?;
        match answered(first.as_ref(), "POST", "/api/v1/namespaces", Some(&namespace)).await? {
            // Made by an attempt whose answer was lost.
            (201 | 409, _) => {}
            other => bail!("no namespace: {other:?}"),
        }
        let resumed = Arc::new(AtomicU64::new(0));
        let relisted = Arc::new(AtomicU64::new(0));
        let until: BTreeMap<Resource, Arc<AtomicU64>> =
            Resource::ALL.iter().map(|resource| (*resource, Arc::new(AtomicU64::new(u64::MAX)))).collect();
        let mut listening = JoinSet::new();
        let (mut clients, mut watchers) = (JoinSet::new(), JoinSet::new());
        let testimony = if cluster.members.is_empty() {
            let server = cluster.servers.first().context("no server")?;
            let api: Arc<dyn Api> = Arc::new(server.for_witness().context("the server is not ready")?);
            let recorder = Arc::new(Recorder::new(1));
            let relisted = Arc::new(AtomicU64::new(0));
            let load = Load::new(recorder.clone(), PACE);
            let mut places = Vec::new();
            for resource in Resource::ALL {
                let watcher = Watcher {
                    load: load.clone(),
                    api: api.clone(),
                    server: 0,
                    resource,
                    rng: rng.fork(),
                    place: Arc::default(),
                    resumed: Arc::default(),
                    relisted: relisted.clone(),
                };
                places.push(watcher.place.clone());
                watchers.spawn(watcher.run(until.get(&resource).cloned().unwrap_or_default()));
            }
            // Nothing is written before both have begun.
            let due = machine::within(AT_LAST);
            while places.iter().any(|place| place.load(Ordering::SeqCst) == 0) {
                if machine::left(due).is_zero() {
                    bail!("the witness cannot watch");
                }
                machine::sleep(Duration::from_millis(10)).await;
            }
            Testimony::Server { recorder, load, relisted }
        } else {
            let witness = Witness::new(etcd::revision(&cluster.addresses).await?);
            for member in 0..cluster.members.len() {
                listening.spawn(witness.clone().listen(member, cluster.addresses.clone()));
            }
            Testimony::Etcd(witness)
        };
        let (of_each, watches) = match apis.len() {
            1 => (CLIENTS_OF_ONE, WATCHERS_OF_ONE),
            _ => (CLIENTS, WATCHERS),
        };
        for (server, api) in apis.iter().enumerate() {
            for _ in 0..of_each {
                let client = Client {
                    load: load.clone(),
                    api: api.clone(),
                    server,
                    rng: rng.fork(),
                    requests: u64::MAX,
                };
                clients.spawn(client.run());
            }
            for resource in Resource::ALL.into_iter().flat_map(|resource| [resource].repeat(watches)) {
                let watcher = Watcher {
                    load: load.clone(),
                    api: api.clone(),
                    server,
                    resource,
                    rng: rng.fork(),
                    place: Arc::default(),
                    resumed: resumed.clone(),
                    relisted: relisted.clone(),
                };
                watchers.spawn(watcher.run(until.get(&resource).cloned().unwrap_or_default()));
            }
        }
        let witness = match &testimony {
            Testimony::Etcd(witness) => Some(witness.clone()),
            Testimony::Server { .. } => None,
        };
        let shifts = can_shift(&cluster, first.as_ref()).await?;
        let pairs = plan.lasts.is_some() && !cluster.members.is_empty();
        let nemesis = Nemesis {
            cluster,
            recorder,
            witness,
            rng: rng.fork(),
            traces: can_trace(),
            shifts,
            pairs,
            paired: 0,
        };
        Ok(Self {
            nemesis,
            load,
            apis,
            clients,
            watchers,
            until,
            resumed,
            relisted,
            testimony,
            _listening: listening,
        })
    }

    /// All faults of the plan, or up to the first that the cluster does not come back from.
    async fn strike(&mut self, plan: &Plan) -> Struck {
        let mut struck = Struck::default();
        let due = plan.lasts.map(machine::within);
        let mut rng = self.nemesis.rng.fork();
        loop {
            let mut faults = plan.faults.clone();
            if due.is_some() {
                shuffle(&mut faults, &mut rng);
            }
            for fault in faults {
                if due.is_some_and(|due| machine::left(due).is_zero()) {
                    return struck;
                }
                let begun = self.nemesis.recorder.now() / 1_000_000;
                match self.nemesis.strike(fault).await {
                    Ok(Some(took)) => {
                        let took_ms = took.as_millis();
                        (plan.progress)(&format!(
                            "{begun} ms: {fault:?}, and all is well {took_ms} ms after it"
                        ));
                        let strikes = struck.faults.entry(fault).or_default();
                        strikes.times += 1;
                        strikes.slowest_recovery = strikes.slowest_recovery.max(took);
                    }
                    Ok(None) if struck.left_out.contains(&fault) => {}
                    Ok(None) => struck.left_out.push(fault),
                    Err(error) => {
                        struck.failed = Some(format!("{error:#}"));
                        return struck;
                    }
                }
            }
            if due.is_none() {
                return struck;
            }
        }
    }

    /// Ends the load, waits until everybody has heard of everything, and writes down what there is in the end.
    async fn settle(&mut self) -> anyhow::Result<(History, Vec<Violation>)> {
        let mut violations = Vec::new();
        self.nemesis.cluster.network.heal();
        self.load.end();
        while machine::timeout(AT_LAST, self.clients.join_next())
            .await
            .context("a client never ends")?
            .is_some()
        {
            self.nemesis.cluster.tick()?;
        }
        let mut last = 0;
        for resource in Resource::ALL {
            let revision = self.mark(resource).await?;
            if let Some(until) = self.until.get(&resource) {
                until.store(revision, Ordering::SeqCst);
            }
            last = last.max(revision);
        }
        if let Testimony::Server { load, .. } = &self.testimony {
            load.end();
        }
        let due = machine::within(AT_LAST);
        while !self.watchers.is_empty() {
            self.nemesis.cluster.tick()?;
            if machine::timeout(Duration::from_millis(100), self.watchers.join_next()).await.is_err()
                && machine::left(due).is_zero()
            {
                let text = format!("{} never came to what was written last", self.watchers.len());
                violations.push(Violation { rule: "watches", text });
                self.watchers.abort_all();
                break;
            }
        }
        for server in 0..self.apis.len() {
            for resource in Resource::ALL {
                self.list(server, resource).await?;
            }
        }
        let (changes, leads) = match &self.testimony {
            Testimony::Etcd(witness) => {
                while witness.reached() < last && !machine::left(due).is_zero() {
                    machine::sleep(Duration::from_millis(20)).await;
                }
                if witness.reached() < last {
                    bail!("the witness has heard nothing after {}, of {last}", witness.reached());
                }
                let (changes, contradictions) = witness.testimony();
                violations
                    .extend(contradictions.into_iter().map(|text| Violation { rule: "revisions", text }));
                (changes, witness.leads())
            }
            Testimony::Server { recorder, relisted, .. } => {
                if relisted.load(Ordering::SeqCst) > 2 {
                    bail!("the witness was told that its place is gone: {:?}", lock(&recorder.failures));
                }
                (told(&recorder.finish(Vec::new(), Vec::new())), Vec::new())
            }
        };
        Ok((self.load.recorder.finish(changes, leads), violations))
    }

    /// A connection to a server, which is started again should it have ended.
    async fn session(&mut self, server: usize) -> anyhow::Result<Box<dyn Session>> {
        let due = machine::within(AT_LAST);
        loop {
            self.nemesis.cluster.tick()?;
            if let Some(session) = self.apis.get(server).context("no such server")?.connect().await {
                return Ok(session);
            }
            if machine::left(due).is_zero() {
                bail!("server {server} cannot be reached");
            }
            machine::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What a server has in the end.
    async fn list(&mut self, server: usize, resource: Resource) -> anyhow::Result<()> {
        let due = machine::within(AT_LAST);
        let recorder = self.load.recorder.clone();
        loop {
            let mut session = self.session(server).await?;
            if let Some(Some(_)) = list(&recorder, session.as_mut(), server, resource).await {
                return Ok(());
            }
            if machine::left(due).is_zero() {
                bail!("server {server} does not list");
            }
        }
    }

    /// One more write, so that there is an end to wait for.
    async fn mark(&mut self, resource: Resource) -> anyhow::Result<u64> {
        let recorder = self.load.recorder.clone();
        let due = machine::within(AT_LAST);
        loop {
            let number = recorder.token();
            let asked =
                Asked { resource, name: format!("{PREFIX}end-{number}"), number, action: Action::Create };
            let mut body = json!({"metadata": {"name": asked.name, "annotations": {TOKEN: token(number)}}});
            if resource == Resource::Services {
                body["spec"] = json!({"type": "ExternalName", "externalName": "end.example"});
            }
            let mut session = self.session(0).await?;
            let begun = recorder.now();
            let reply = session.call("POST", &resource.path(), Some(&body)).await;
            let outcome = outcome(&recorder, &asked, &reply);
            let revision = match &outcome {
                Outcome::Written(version) => Some(version.revision),
                _ => None,
            };
            let (name, action, span) = (asked.name, asked.action, recorder.since(begun));
            recorder.write(Write { token: number, server: 0, resource, name, action, span, outcome });
            if let Some(revision) = revision {
                return Ok(revision);
            }
            if machine::left(due).is_zero() {
                bail!("nothing can be written in the end: {reply:?}");
            }
            machine::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The controllers run, garbage is collected; addresses are taken by services alone, whichever server is asked, and every node port can be had when no
    /// service has one.
    async fn at_rest(&mut self, history: &History) -> anyhow::Result<Vec<Violation>> {
        let mut violations = Vec::new();
        violations.extend(self.garbage().await?);
        for server in 0..self.apis.len() {
            violations.extend(self.addresses(server, history).await?);
        }
        // Started again, should it have ended.
        drop(self.session(0).await?);
        let api = self.apis.first().context("no server")?.as_ref();
        let path = Resource::Services.path();
        let (_, services) = items(api, &path).await?;
        for service in &services {
            let name = service["metadata"]["name"].as_str().unwrap_or_default();
            match answered(api, "DELETE", &format!("{path}/{name}"), Some(&json!({}))).await? {
                (200 | 404, _) => {}
                other => bail!("service {name} cannot be deleted: {other:?}"),
            }
        }
        let mut had = 0;
        let (first, last) = NODE_PORTS;
        for port in first..=last {
            let body = json!({
                "metadata": {"name": format!("port-{port}")},
                "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
            });
            match answered(api, "POST", &path, Some(&body)).await? {
                (201 | 409, _) => had += 1,
                other => violations.push(Violation {
                    rule: "allocations",
                    text: format!(
                        "node port {port} cannot be had when no service has it ({had} can): {other:?}"
                    ),
                }),
            }
        }
        Ok(violations)
    }

    /// What an object owned goes after it.
    async fn garbage(&mut self) -> anyhow::Result<Vec<Violation>> {
        drop(self.session(0).await?);
        let api = self.apis.first().context("no server")?.as_ref();
        let path = Resource::ConfigMaps.path();
        let owner = match answered(api, "POST", &path, Some(&json!({"metadata": {"name": "owner"}}))).await? {
            (201, owner) => owner,
            // Made by an attempt whose answer was lost.
            (409, _) => answered(api, "GET", &format!("{path}/owner"), None).await?.1,
            other => bail!("no owner: {other:?}"),
        };
        let of = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
        let owned = json!({"metadata": {"name": "owned", "ownerReferences": [of]}});
        answered(api, "POST", &path, Some(&owned)).await?;
        answered(api, "DELETE", &format!("{path}/owner"), Some(&json!({}))).await?;
        let due = machine::within(AT_LAST);
        while answered(api, "GET", &format!("{path}/owned"), None).await?.0 != 404 {
            if machine::left(due).is_zero() {
                let text = format!("what was owned is there {AT_LAST:?} after its owner went");
                return Ok(vec![Violation { rule: "leads", text }]);
            }
            machine::sleep(Duration::from_millis(100)).await;
        }
        Ok(Vec::new())
    }

    /// What is wrong with the addresses that a server shows.
    async fn addresses(&mut self, server: usize, history: &History) -> anyhow::Result<Vec<Violation>> {
        drop(self.session(server).await?);
        let api = self.apis.get(server).context("no such server")?.as_ref();
        let (revision, services) = items(api, "/api/v1/services").await?;
        // At the same revision: what a client has given up may still be done by a server.
        let same = format!("{ADDRESSES}?resourceVersion={revision}&resourceVersionMatch=Exact");
        let (_, addresses) = items(api, &same).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = |namespace: &Value, name: &Value| format!("{}/{}", text(namespace), text(name));
        let have = services.iter().filter(|service| {
            let address = text(&service["spec"]["clusterIP"]);
            !address.is_empty() && address != "None"
        });
        let have: Vec<check::Address> = have
            .map(|service| {
                let metadata = &service["metadata"];
                (text(&service["spec"]["clusterIP"]), of(&metadata["namespace"], &metadata["name"]))
            })
            .collect();
        let taken = addresses.iter().map(|address| {
            let parent = &address["spec"]["parentRef"];
            (text(&address["metadata"]["name"]), of(&parent["namespace"], &parent["name"]))
        });
        let taken: Vec<check::Address> = taken.collect();
        let mut findings = Findings::default();
        check::addresses(&have, &taken, &mut findings);
        let mut violations = findings.into_violations();
        for violation in &mut violations {
            let about = |object: &&Value| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                violation.text.starts_with(&format!("{name} "))
            };
            let since = addresses.iter().find(about).map(|address| address["metadata"].clone());
            let since = since
                .map(|metadata| (text(&metadata["resourceVersion"]), text(&metadata["creationTimestamp"])));
            let of_it = history.changes.iter().filter(|change| change.resource == Resource::Services);
            let of_it = of_it.rev().filter(|change| violation.text.contains(&change.name));
            let changes: Vec<&Change> = of_it.take(SHOWN_CHANGES).collect();
            violation.text = format!(
                "{}, says server {server} at {revision}; since {since:?}; {changes:?}",
                violation.text
            );
        }
        Ok(violations)
    }

    fn counts(&self, history: &History) -> Counts {
        let happened: std::collections::HashSet<u64> =
            history.changes.iter().filter_map(|change| change.token).collect();
        let mut counts = Counts {
            gets: history.gets.len(),
            lists: history.lists.len(),
            watches: history.streams.len(),
            events: history.streams.iter().map(|stream| stream.frames.len()).sum(),
            resumed: self.resumed.load(Ordering::SeqCst),
            relisted: self.relisted.load(Ordering::SeqCst),
            changes: history.changes.len(),
            leads: leaders(history),
            ..Counts::default()
        };
        for write in &history.writes {
            match write.outcome {
                Outcome::Written(_) | Outcome::Deleted { .. } => counts.acknowledged += 1,
                Outcome::Refused { .. } => counts.refused += 1,
                Outcome::Uncertain => {
                    counts.uncertain += 1;
                    counts.appeared += usize::from(happened.contains(&write.token));
                }
            }
        }
        counts
    }
}

/// Whether the program's clock can be set: not that of a release build.
async fn can_shift(cluster: &Cluster, api: &dyn Api) -> anyhow::Result<bool> {
    const TWO_DAYS: i64 = 48 * 3_600_000;
    let server = cluster.servers.first().context("no server")?;
    let mut days = Vec::new();
    for ahead in [0, TWO_DAYS] {
        server.set_clock(ahead)?;
        let path = format!("{}?dryRun=All", Resource::ConfigMaps.path());
        let (_, made) = answered(api, "POST", &path, Some(&json!({"metadata": {"name": "time"}}))).await?;
        days.push(
            made["metadata"]["creationTimestamp"].as_str().unwrap_or_default().get(..10).map(str::to_owned),
        );
    }
    cluster.set_clocks_right()?;
    days.dedup();
    Ok(days.len() > 1)
}

/// How many servers ran the controllers, one after the other.
fn leaders(history: &History) -> usize {
    let held: Vec<_> = history.leads.iter().filter(|lead| !lead.holder.is_empty()).collect();
    held.chunk_by(|one, next| one.holder == next.holder).count()
}

/// What watches told that nothing was done to, each resource by one.
fn told(history: &History) -> Vec<Change> {
    let frames = history.streams.iter().flat_map(|stream| {
        stream.frames.iter().filter_map(|frame| {
            let object = frame.object.as_ref()?;
            let token = (frame.kind != Kind::Deleted).then_some(object.token);
            let name = object.name.clone();
            Some(Change { revision: frame.revision, resource: stream.resource, name, token })
        })
    });
    frames.collect()
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for end in (1..items.len()).rev() {
        let other = usize::try_from(rng.below(end as u64 + 1)).unwrap_or_default();
        items.swap(end, other);
    }
}

/// An answer that decides: asked again where there is none, or where the server has to be asked later. What a lost answer
/// was to is found done then.
async fn answered(
    api: &dyn Api,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<(u16, Value)> {
    let due = machine::within(AT_LAST);
    loop {
        if let Some(mut session) = api.connect().await
            && let Reply::Answer(code, answer) = session.call(method, path, body).await
            && code < 500
            && code != 429
        {
            return Ok((code, answer));
        }
        if machine::left(due).is_zero() {
            bail!("{method} {path} is not answered");
        }
        machine::sleep(Duration::from_millis(100)).await;
    }
}

/// A list, and its revision.
async fn items(api: &dyn Api, path: &str) -> anyhow::Result<(u64, Vec<Value>)> {
    match answered(api, "GET", path, None).await? {
        (200, page) => {
            let items = page["items"].as_array().cloned().unwrap_or_default();
            Ok((revision(&page["metadata"]["resourceVersion"]), items))
        }
        other => bail!("GET {path}: {other:?}"),
    }
}

/// The program beside this one.
pub fn beside(own: &Path) -> PathBuf {
    own.with_file_name("sternpost").with_extension(std::env::consts::EXE_EXTENSION)
}
