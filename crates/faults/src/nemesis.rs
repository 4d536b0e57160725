//! What goes wrong, in an order that a seed repeats, one thing after the other; after each the cluster has to come back.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::json;
use sternpost_clock::{machine, seeded::Rng};
use sternpost_testkit::server::AT_LAST;

use crate::{
    cluster::{Cluster, signal},
    etcd::{self, Witness, number},
    history::Recorder,
    link::{Node, Rule},
    namespaces::Namespaces,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    KillServer,
    StopServer,
    PauseServer,
    /// Clients and a server: held, one way or both.
    HoldClients,
    /// Clients and a server: connections are closed, new ones too.
    CutClients,
    /// A server whose disk is slow; on an etcd, a member.
    SlowDisk,
    KillMember,
    KillLeader,
    PauseMember,
    PauseLeader,
    MoveLeader,
    /// A member and all its peers, both ways.
    IsolateMember,
    /// The leader and all its peers.
    IsolateLeader,
    /// What a member sends to its peers, or what they send to it.
    OneWayMember,
    /// Two nodes that talk to each other, whichever they are: both ways or one.
    SplitPair,
    /// A server and all of etcd.
    IsolateServer,
    /// A server and one member, one way.
    OneWayServer,
    /// A server's connections to etcd are closed, new ones too.
    CutServer,
    /// A server whose cable is pulled: what it sends is lost, and what is sent to it.
    UnplugServer,
    UnplugMember,
    /// Every server from another member.
    CrossServers,
    SlowPeers,
    SlowServer,
    ThrottleServer,
    Compact,
    /// A server that is held from etcd while what it has not seen is compacted.
    CompactBehind,
    Defragment,
    NoSpace,
    ReplaceMember,
    /// The wall clock of a server leaps, ahead or back, and again.
    JumpClock,
    /// Every server has another time.
    SpreadClocks,
    RestartAll,
}

impl Fault {
    /// On an etcd.
    pub const ALL: [Self; 32] = [
        Self::KillServer,
        Self::StopServer,
        Self::PauseServer,
        Self::HoldClients,
        Self::CutClients,
        Self::SlowDisk,
        Self::KillMember,
        Self::KillLeader,
        Self::PauseMember,
        Self::PauseLeader,
        Self::MoveLeader,
        Self::IsolateMember,
        Self::IsolateLeader,
        Self::OneWayMember,
        Self::SplitPair,
        Self::IsolateServer,
        Self::OneWayServer,
        Self::CutServer,
        Self::UnplugServer,
        Self::UnplugMember,
        Self::CrossServers,
        Self::SlowPeers,
        Self::SlowServer,
        Self::ThrottleServer,
        Self::Compact,
        Self::CompactBehind,
        Self::Defragment,
        Self::NoSpace,
        Self::ReplaceMember,
        Self::JumpClock,
        Self::SpreadClocks,
        Self::RestartAll,
    ];

    /// Of a server on its own store.
    pub const EMBEDDED: [Self; 7] = [
        Self::KillServer,
        Self::StopServer,
        Self::PauseServer,
        Self::HoldClients,
        Self::CutClients,
        Self::SlowDisk,
        Self::JumpClock,
    ];

    /// For CI.
    pub const SHORT: [Self; 9] = [
        Self::KillServer,
        Self::KillLeader,
        Self::PauseServer,
        Self::IsolateLeader,
        Self::OneWayMember,
        Self::IsolateServer,
        Self::Compact,
        Self::Defragment,
        Self::JumpClock,
    ];
}

pub struct Nemesis {
    pub cluster: Cluster,
    pub recorder: Arc<Recorder>,
    /// Of etcd; what it has not heard is never compacted.
    pub witness: Option<Witness>,
    pub rng: Rng,
    /// Whether a process can be traced, to slow its disk down.
    pub traces: bool,
    /// Whether the clocks of the servers can be set.
    pub shifts: bool,
    /// Whether some faults come while something else is wrong already.
    pub pairs: bool,
    /// How many did.
    pub paired: u64,
}

/// One fault in so many comes while something else is wrong.
const PAIRED: u64 = 3;

/// How long a fault lasts, in milliseconds: so long, and up to as much more.
const LASTS: (u64, u64) = (500, 4_000);

/// After the cluster has come back, in the same way.
const CALM: (u64, u64) = (200, 1_000);

/// On every fsync, of a slow disk, in microseconds.
const SLOW_SYNC: u64 = 150_000;

/// How far a clock leaps at most, in milliseconds: a minute, most of an hour, a day.
const LEAPS: [u64; 3] = [60_000, 50 * 60_000, 24 * 3_600_000];

/// Never further back: a server that starts by such a clock takes its own authority for one of the future, and makes
/// another, which clients do not know.
const FARTHEST_BACK: u64 = 50 * 60_000;

/// One byte more than this is too much: a member that starts with it has no space for anything.
const NO_SPACE: u64 = 1;

const BOTH: u64 = 0;
const THERE: u64 = 1;

impl Nemesis {
    /// One fault, from its beginning until all is well again: how long that took from its end. `None` if it cannot be
    /// had here.
    pub async fn strike(&mut self, fault: Fault) -> anyhow::Result<Option<Duration>> {
        let cannot = match fault {
            Fault::SlowDisk => !self.traces,
            Fault::JumpClock | Fault::SpreadClocks => !self.shifts,
            Fault::UnplugServer | Fault::UnplugMember => self.cluster.namespaces.is_none(),
            _ => false,
        };
        if cannot {
            return Ok(None);
        }
        let paused = if self.pairs && self.rng.one_in(PAIRED) { self.beset(fault)? } else { None };
        let applied = self.apply(fault).await;
        signal(paused, "-CONT")?;
        applied.with_context(|| format!("{fault:?}"))?;
        let ended = machine::now();
        self.recover().await.with_context(|| format!("after {fault:?}"))?;
        let took = machine::elapsed(ended);
        let calm = self.drawn(CALM);
        self.cluster.run_for(calm).await?;
        Ok(Some(took))
    }

    /// Makes something go wrong besides a fault, until the cluster has to come back: the process that is paused, if
    /// it is that.
    fn beset(&mut self, fault: Fault) -> anyhow::Result<Option<u32>> {
        self.paired += 1;
        let (server, member, members) = (self.server(), self.member(), self.members());
        match self.rng.below(5) {
            // One that is asked to end has to be able to.
            0 if fault != Fault::StopServer => {
                let process = self.cluster.process(server);
                signal(process, "-STOP")?;
                return Ok(process);
            }
            1 => self.cluster.network.set(&ways(&[server], &members, BOTH), Rule::Hold),
            2 => self.cluster.network.set(&ways(&[server], &[member], THERE), Rule::Hold),
            3 if self.shifts => self.leap(server)?,
            _ => {
                let delay = Rule::Delay(Duration::from_millis(10 + self.rng.below(90)));
                self.cluster.network.set(&ways(&members, &members, BOTH), delay);
            }
        }
        Ok(None)
    }

    fn drawn(&mut self, (least, more): (u64, u64)) -> Duration {
        Duration::from_millis(least + self.rng.below(more))
    }

    async fn last(&mut self) -> anyhow::Result<()> {
        let lasts = self.drawn(LASTS);
        self.cluster.run_for(lasts).await
    }

    fn server(&mut self) -> Node {
        Node::Server(self.below(self.cluster.servers.len()))
    }

    fn member(&mut self) -> Node {
        Node::Member(self.below(self.cluster.members.len()))
    }

    async fn leader(&self) -> anyhow::Result<Node> {
        Ok(Node::Member(etcd::leader(&self.cluster.addresses).await?))
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.below(count.max(1) as u64)).unwrap_or_default()
    }

    fn members(&self) -> Vec<Node> {
        (0..self.cluster.members.len()).map(Node::Member).collect()
    }

    /// All that have connections with each other.
    fn pairs(&self) -> Vec<(Node, Node)> {
        let (nodes, members) = (self.cluster.nodes(), self.members());
        let talk = |one: Node, other: Node| match (one, other) {
            (Node::Server(_), Node::Member(_)) => true,
            (Node::Member(one), Node::Member(other)) => one < other,
            _ => false,
        };
        let pairs = nodes.iter().flat_map(|one| members.iter().map(move |other| (*one, *other)));
        let servers = nodes.iter().filter(|node| matches!(node, Node::Server(_)));
        let clients = servers.map(|server| (Node::Clients, *server));
        pairs.filter(|(one, other)| talk(*one, *other)).chain(clients).collect()
    }

    fn peers(&self, node: Node) -> Vec<Node> {
        self.members().into_iter().filter(|other| *other != node).collect()
    }

    async fn apply(&mut self, fault: Fault) -> anyhow::Result<()> {
        match fault {
            Fault::KillServer => {
                let server = self.server();
                self.kill(server).await
            }
            Fault::StopServer => {
                let server = self.below(self.cluster.servers.len());
                self.cluster.stop(server).await?;
                self.cluster.start(Node::Server(server))
            }
            Fault::PauseServer => {
                let server = self.server();
                self.pause(server).await
            }
            Fault::KillMember => {
                let member = self.member();
                self.kill(member).await
            }
            Fault::KillLeader => {
                let leader = self.leader().await?;
                self.kill(leader).await
            }
            Fault::PauseMember => {
                let member = self.member();
                self.pause(member).await
            }
            Fault::PauseLeader => {
                let leader = self.leader().await?;
                self.pause(leader).await
            }
            Fault::SlowDisk => self.slow_disk().await,
            Fault::HoldClients => {
                let server = self.server();
                let way = self.rng.below(3);
                self.hold(&[server], &[Node::Clients], way).await
            }
            Fault::CutClients => {
                let server = self.server();
                self.between(&[server], &[Node::Clients], BOTH, Rule::Cut).await
            }
            Fault::IsolateMember => {
                let member = self.member();
                let peers = self.peers(member);
                self.hold(&[member], &peers, BOTH).await
            }
            Fault::IsolateLeader => {
                let leader = self.leader().await?;
                let peers = self.peers(leader);
                self.hold(&[leader], &peers, BOTH).await
            }
            Fault::OneWayMember => {
                let leader = self.leader().await?;
                let member = if self.rng.one_in(2) { leader } else { self.member() };
                let peers = self.peers(member);
                let way = THERE + self.rng.below(2);
                self.hold(&[member], &peers, way).await
            }
            Fault::SplitPair => {
                let pairs = self.pairs();
                let chosen = self.below(pairs.len());
                let (one, other) = *pairs.get(chosen).context("nobody talks to anybody")?;
                let way = self.rng.below(3);
                self.hold(&[one], &[other], way).await
            }
            Fault::IsolateServer => {
                let (server, members) = (self.server(), self.members());
                self.hold(&[server], &members, BOTH).await
            }
            Fault::OneWayServer => {
                let (server, member) = (self.server(), self.member());
                let way = THERE + self.rng.below(2);
                // Of all members or one: it does not matter to a server which it does not use.
                let members = if self.rng.one_in(2) { self.members() } else { vec![member] };
                self.hold(&[server], &members, way).await
            }
            Fault::CutServer => {
                let (server, members) = (self.server(), self.members());
                self.between(&[server], &members, BOTH, Rule::Cut).await
            }
            Fault::UnplugServer => {
                let server = self.server();
                self.unplug(server).await
            }
            Fault::UnplugMember => {
                let member = self.member();
                self.unplug(member).await
            }
            Fault::CrossServers => {
                let shift = self.below(self.cluster.members.len());
                let count = self.cluster.members.len().max(1);
                for index in 0..self.cluster.servers.len() {
                    let member = Node::Member((index + shift) % count);
                    let ways = ways(&[Node::Server(index)], &[member], BOTH);
                    self.cluster.network.set(&ways, Rule::Hold);
                }
                self.last().await
            }
            Fault::SlowPeers => {
                let members = self.members();
                let delay = Rule::Delay(Duration::from_millis(20 + self.rng.below(180)));
                self.between(&members, &members, BOTH, delay).await
            }
            Fault::SlowServer => {
                let (server, members) = (self.server(), self.members());
                let delay = Rule::Delay(Duration::from_millis(50 + self.rng.below(450)));
                self.between(&[server], &members, BOTH, delay).await
            }
            Fault::ThrottleServer => {
                let (server, members) = (self.server(), self.members());
                self.between(&[server], &members, BOTH, Rule::Rate(8 << 10)).await
            }
            Fault::MoveLeader => self.move_leader().await,
            Fault::Compact => self.compact().await,
            Fault::CompactBehind => {
                let (server, members) = (self.server(), self.members());
                self.cluster.network.set(&ways(&[server], &members, BOTH), Rule::Hold);
                self.last().await?;
                self.compact().await?;
                self.last().await
            }
            Fault::Defragment => self.defragment().await,
            Fault::NoSpace => self.no_space().await,
            Fault::ReplaceMember => {
                let member = self.below(self.cluster.members.len());
                self.cluster.replace(member).await?;
                self.last().await
            }
            Fault::JumpClock => {
                let server = self.server();
                for _ in 0..=self.rng.below(3) {
                    self.leap(server)?;
                    self.last().await?;
                }
                Ok(())
            }
            Fault::SpreadClocks => {
                for server in 0..self.cluster.servers.len() {
                    self.leap(Node::Server(server))?;
                }
                self.last().await
            }
            Fault::RestartAll => {
                for node in self.cluster.nodes() {
                    self.cluster.kill(node);
                }
                for node in self.cluster.nodes() {
                    self.cluster.start(node)?;
                }
                Ok(())
            }
        }
    }

    async fn unplug(&mut self, node: Node) -> anyhow::Result<()> {
        self.cluster.namespaces.as_ref().map(|namespaces| namespaces.unplug(node)).transpose()?;
        self.last().await
    }

    /// Sets a server's clock.
    fn leap(&mut self, server: Node) -> anyhow::Result<()> {
        let Node::Server(server) = server else { return Ok(()) };
        let kind = self.below(LEAPS.len());
        let distance = self.rng.below(LEAPS.get(kind).copied().unwrap_or_default());
        let ahead = match self.rng.one_in(2) {
            true => i64::try_from(distance)?,
            false => -i64::try_from(distance.min(FARTHEST_BACK))?,
        };
        self.cluster.servers.get(server).context("no such server")?.set_clock(ahead)
    }

    async fn kill(&mut self, node: Node) -> anyhow::Result<()> {
        self.cluster.kill(node);
        self.last().await?;
        self.cluster.start(node)
    }

    async fn pause(&mut self, node: Node) -> anyhow::Result<()> {
        let process = self.cluster.process(node);
        signal(process, "-STOP")?;
        self.last().await?;
        signal(process, "-CONT")
    }

    /// Holds one way or both. Half of the connections that were held are closed in the end, as by whoever lost
    /// patience; the others go on.
    async fn hold(&mut self, from: &[Node], to: &[Node], way: u64) -> anyhow::Result<()> {
        self.between(from, to, way, Rule::Hold).await?;
        if self.rng.one_in(2) {
            self.cluster.network.set(&ways(from, to, BOTH), Rule::Cut);
            self.cluster.run_for(Duration::from_millis(100)).await?;
        }
        Ok(())
    }

    async fn between(&mut self, from: &[Node], to: &[Node], way: u64, rule: Rule) -> anyhow::Result<()> {
        self.cluster.network.set(&ways(from, to, way), rule);
        self.last().await
    }

    async fn slow_disk(&mut self) -> anyhow::Result<()> {
        let node = if self.cluster.members.is_empty() { self.server() } else { self.member() };
        let Some(process) = self.cluster.process(node) else { return Ok(()) };
        let mut tracer = trace(process)?;
        let lasted = self.last().await;
        // It lets go of the process when it is told to end.
        signal(Some(tracer.id()), "-TERM")?;
        tracer.wait()?;
        lasted
    }

    async fn move_leader(&mut self) -> anyhow::Result<()> {
        let Node::Member(leader) = self.leader().await? else { return Ok(()) };
        let ids = etcd::member_ids(&self.cluster.addresses).await?;
        let mut others: Vec<u64> =
            ids.iter().filter(|(place, _)| **place != leader).map(|(_, id)| *id).collect();
        others.sort_unstable();
        let chosen = self.below(others.len());
        let target = others.get(chosen).context("no other member")?;
        let address = self.cluster.addresses.get(leader).context("no leader")?;
        // It may have lost the lead meanwhile, which is as good.
        let _ = etcd::post(
            address,
            "/v3/maintenance/transfer-leadership",
            &json!({"targetID": target.to_string()}),
        )
        .await;
        Ok(())
    }

    /// To what is newest, or a little before it.
    async fn compact(&mut self) -> anyhow::Result<()> {
        let newest = etcd::revision(&self.cluster.addresses).await?;
        let heard = self.witness.as_ref().map_or(newest, Witness::reached);
        let revision = newest.min(heard).saturating_sub(self.rng.below(20));
        let body = json!({"revision": revision.to_string(), "physical": self.rng.one_in(2)});
        // Others compact as well, and further.
        for member in self.cluster.addresses.all() {
            match etcd::post(member, "/v3/kv/compaction", &body).await {
                Err(error) if !error.to_string().contains("has been compacted") => {}
                _ => break,
            }
        }
        Ok(())
    }

    async fn defragment(&mut self) -> anyhow::Result<()> {
        for member in self.cluster.addresses.all() {
            let _ = etcd::post(member, "/v3/maintenance/defragment", &json!({})).await;
        }
        Ok(())
    }

    /// A member that has no space says so to all, and all refuse writes until they are told that there is.
    async fn no_space(&mut self) -> anyhow::Result<()> {
        let Node::Member(member) = self.member() else { return Ok(()) };
        self.cluster.kill(Node::Member(member));
        self.cluster.down.clear();
        self.cluster.start_member(member, "existing", Some(NO_SPACE))?;
        let address = self.cluster.addresses.get(member).context("no such member")?;
        let due = machine::within(AT_LAST);
        loop {
            let put = json!({"key": "ZmF1bHRz", "value": "ZmF1bHRz"});
            let _ = etcd::post(address, "/v3/kv/put", &put).await;
            if !self.alarms().await?.is_empty() {
                break;
            }
            if machine::left(due).is_zero() {
                bail!("no member has no space");
            }
            self.cluster.run_for(Duration::from_millis(50)).await?;
        }
        self.last().await?;
        self.cluster.kill(Node::Member(member));
        self.cluster.start(Node::Member(member))?;
        while !self.alarms().await?.is_empty() {
            for id in self.alarms().await? {
                let disarm = json!({"action": "DEACTIVATE", "memberID": id.to_string(), "alarm": "NOSPACE"});
                etcd::post_any(&self.cluster.addresses, "/v3/maintenance/alarm", &disarm).await?;
            }
            if machine::left(due).is_zero() {
                bail!("members still have no space");
            }
        }
        Ok(())
    }

    /// Members that have no space.
    async fn alarms(&self) -> anyhow::Result<Vec<u64>> {
        let answer =
            etcd::post_any(&self.cluster.addresses, "/v3/maintenance/alarm", &json!({"action": "GET"}))
                .await?;
        let alarms = answer["alarms"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(alarms.iter().map(|alarm| number(&alarm["memberID"])).collect())
    }

    /// Nothing fails any more: every server has to acknowledge a write.
    pub async fn recover(&mut self) -> anyhow::Result<()> {
        self.cluster.network.heal();
        self.cluster.set_clocks_right()?;
        self.cluster.namespaces.as_ref().map(Namespaces::plug_all).transpose()?;
        let (since, due) = (self.recorder.now(), machine::within(AT_LAST));
        loop {
            self.cluster.tick()?;
            let servers = self.cluster.servers.len();
            let missing: Vec<usize> =
                (0..servers).filter(|server| !self.recorder.has_acknowledged(*server, since)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if machine::left(due).is_zero() {
                let logs: Vec<String> =
                    self.cluster.servers.iter().map(|server| tail(&server.log())).collect();
                bail!("servers {missing:?} acknowledge nothing for {AT_LAST:?}:\n{}", logs.join("\n---\n"));
            }
            machine::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
}

/// Both ways between nodes, or one: from the first to the others is `THERE`, the rest is back.
fn ways(from: &[Node], to: &[Node], way: u64) -> Vec<(Node, Node)> {
    let pairs = from.iter().flat_map(|one| to.iter().map(move |other| (*one, *other)));
    let pairs = pairs.filter(|(one, other)| one != other);
    match way {
        BOTH => pairs.flat_map(|(one, other)| [(one, other), (other, one)]).collect(),
        THERE => pairs.collect(),
        _ => pairs.map(|(one, other)| (other, one)).collect(),
    }
}

/// Makes every sync of a process slow.
fn trace(process: u32) -> anyhow::Result<Child> {
    let inject = format!("inject=fsync,fdatasync:delay_exit={SLOW_SYNC}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", &inject, "-o", "/dev/null", "-p"]);
    command.arg(process.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot run strace")
}

/// Whether processes can be traced here.
pub fn can_trace() -> bool {
    let Ok(mut idle) = Command::new("sleep").arg("60").spawn() else { return false };
    let mut tracer = Command::new("strace");
    tracer.args(["-qq", "-o", "/dev/null", "-p", &idle.id().to_string()]);
    let traces = tracer.stdin(Stdio::null()).stderr(Stdio::null()).spawn().is_ok_and(|mut tracer| {
        machine::block(Duration::from_millis(200));
        let is_tracing = matches!(tracer.try_wait(), Ok(None));
        let _ = signal(Some(tracer.id()), "-TERM");
        let _ = tracer.wait();
        is_tracing
    });
    let _ = idle.kill();
    let _ = idle.wait();
    traces
}
