//! All processes of a campaign: servers on an etcd of several members, or one server on its own store.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::json;
use sternpost_clock::machine;
use sternpost_testkit::{authority::Authority, server::AT_LAST};

use crate::{
    etcd::{self, Addresses, Member, Start},
    link::{From, Link, Network, Node},
    namespaces::{Home, Namespaces},
    server::Server,
};

pub const SERVERS: usize = 3;
pub const MEMBERS: usize = 3;

/// Few, so that a port or an address that is not given back is missed soon.
pub const NODE_PORTS: (u64, u64) = (30_000, 30_063);
const ADDRESSES: &str = "10.96.0.0/24";

/// How long a leader among the servers leads without being heard of, in seconds: so that several lead in a campaign.
pub const LEASE_SECONDS: u64 = 8;

/// How often servers have etcd forget its history, besides what faults do.
const COMPACTION: &str = "20s";

/// Between two looks at the processes.
const TICK: Duration = Duration::from_millis(50);

/// Ends everything when dropped.
pub struct Cluster {
    pub network: Network,
    pub servers: Vec<Server>,
    pub members: Vec<Member>,
    pub addresses: Addresses,
    /// Which processes are meant not to run just now.
    pub down: Vec<Node>,
    /// Processes that ended without being told to, and what they said last.
    pub ended: BTreeMap<String, u64>,
    /// What must not be in a log.
    pub panics: Vec<String>,
    peer_links: Vec<Link>,
    /// Of each server to each member, with the place of the latter.
    member_links: Vec<(usize, Link)>,
    /// What the processes are in, if not on the loopback. Goes after them.
    pub namespaces: Option<Namespaces>,
}

impl Cluster {
    pub async fn on_etcd(
        sternpost: &Path,
        etcd: &Path,
        directory: &Path,
        mut namespaces: Option<Namespaces>,
    ) -> anyhow::Result<Self> {
        let host = namespaces.as_ref().map_or(Ipv4Addr::LOCALHOST, Namespaces::host);
        let network = Network::new(host);
        let mut home = |node: Node| match &mut namespaces {
            Some(namespaces) => namespaces.home(node),
            None => Ok(Home::LOOPBACK),
        };
        let addresses = Addresses::default();
        let (mut members, mut peer_links) = (Vec::new(), Vec::new());
        for index in 0..MEMBERS {
            let link = network.listen(From::Peer, Node::Member(index)).await?;
            let own = directory.join(format!("member-{index}"));
            let home = home(Node::Member(index))?;
            members.push(Member::new(index, etcd, home, own, link.address, addresses.clone()));
            peer_links.push(link);
        }
        let key = directory.join("service-account.key");
        fs::write(&key, Authority::new("faults").serving().1)?;
        let (mut servers, mut member_links) = (Vec::new(), Vec::new());
        for index in 0..SERVERS {
            let mut urls = Vec::new();
            for member in 0..MEMBERS {
                let link = network.listen(From::Node(Node::Server(index)), Node::Member(member)).await?;
                urls.push(format!("http://{}", link.address));
                member_links.push((member, link));
            }
            let mut flags = flags(&directory.join(format!("server-{index}")));
            flags.extend([
                format!("--etcd-servers={}", urls.join(",")),
                format!("--etcd-compaction-interval={COMPACTION}"),
                format!("--service-account-signing-key-file={}", key.display()),
                "--controllers=*".to_owned(),
                format!("--leader-elect-lease-duration={LEASE_SECONDS}s"),
                "--leader-elect-renew-deadline=5s".to_owned(),
                "--leader-elect-retry-period=1s".to_owned(),
            ]);
            let clock = directory.join(format!("clock-{index}"));
            let home = home(Node::Server(index))?;
            servers.push(Server::new(index, sternpost, home, flags, clock, &network).await?);
        }
        let mut cluster = Self {
            network,
            servers,
            members,
            addresses,
            down: Vec::new(),
            ended: BTreeMap::new(),
            panics: Vec::new(),
            peer_links,
            member_links,
            namespaces,
        };
        for index in 0..MEMBERS {
            cluster.start_member(index, "new", None)?;
        }
        cluster.name_members().await?;
        cluster.start_servers().await?;
        Ok(cluster)
    }

    pub async fn embedded(sternpost: &Path, directory: &Path) -> anyhow::Result<Self> {
        let network = Network::new(Ipv4Addr::LOCALHOST);
        let flags = flags(&directory.join("server-0"));
        let clock = directory.join("clock-0");
        let servers = vec![Server::new(0, sternpost, Home::LOOPBACK, flags, clock, &network).await?];
        let mut cluster = Self {
            network,
            servers,
            members: Vec::new(),
            addresses: Addresses::default(),
            down: Vec::new(),
            ended: BTreeMap::new(),
            panics: Vec::new(),
            peer_links: Vec::new(),
            member_links: Vec::new(),
            namespaces: None,
        };
        cluster.start_servers().await?;
        Ok(cluster)
    }

    async fn start_servers(&mut self) -> anyhow::Result<()> {
        self.servers.iter_mut().for_each(Server::start);
        let due = machine::within(AT_LAST);
        loop {
            let mut ready = 0;
            for server in &mut self.servers {
                if let Some(log) = server.has_ended() {
                    bail!("server {} does not start:\n{log}", server.index);
                }
                ready += usize::from(server.is_ready()?);
            }
            if ready == self.servers.len() {
                return Ok(());
            }
            if machine::left(due).is_zero() {
                let logs: Vec<String> = self.servers.iter().map(Server::log).collect();
                bail!("servers are not ready:\n{}", logs.join("\n"));
            }
            machine::sleep(TICK).await;
        }
    }

    /// All members, as `--initial-cluster` has them.
    fn initial(&self) -> String {
        let all = self.members.iter().map(|member| format!("m{}={}", member.index, member.peer_url));
        all.collect::<Vec<_>>().join(",")
    }

    pub fn start_member(
        &mut self,
        index: usize,
        state: &'static str,
        quota: Option<u64>,
    ) -> anyhow::Result<()> {
        let initial = self.initial();
        let member = self.members.get_mut(index).context("no such member")?;
        let peer = member.start(&Start { cluster: &initial, state, quota })?;
        if let Some(link) = self.peer_links.get(index) {
            link.lead_to(peer);
        }
        if let Some(address) = self.addresses.get(index) {
            self.member_links
                .iter()
                .filter(|(of, _)| *of == index)
                .for_each(|(_, link)| link.lead_to(address));
        }
        Ok(())
    }

    /// Learns how members call themselves, for links between them.
    pub async fn name_members(&mut self) -> anyhow::Result<()> {
        let due = machine::within(AT_LAST);
        loop {
            let ids = etcd::member_ids(&self.addresses).await.unwrap_or_default();
            if ids.len() == self.members.len() {
                self.network
                    .name_members(ids.iter().map(|(place, id)| (format!("{id:x}"), *place)).collect());
                return Ok(());
            }
            if machine::left(due).is_zero() {
                bail!("etcd has the members {ids:?}");
            }
            self.tick()?;
            machine::sleep(TICK).await;
        }
    }

    /// Goes on for a while, as whatever keeps processes running would: those that end are started again.
    pub async fn run_for(&mut self, duration: Duration) -> anyhow::Result<()> {
        let due = machine::within(duration);
        loop {
            self.tick()?;
            if machine::left(due).is_zero() {
                return Ok(());
            }
            machine::sleep(TICK.min(machine::left(due))).await;
        }
    }

    pub fn tick(&mut self) -> anyhow::Result<()> {
        for index in 0..self.members.len() {
            let is_down = self.down.contains(&Node::Member(index));
            if !is_down && self.members.get_mut(index).is_some_and(Member::has_ended) {
                *self.ended.entry("a member of etcd".to_owned()).or_default() += 1;
                self.start_member(index, "existing", None)?;
            }
        }
        for server in &mut self.servers {
            if self.down.contains(&Node::Server(server.index)) {
                continue;
            }
            if let Some(log) = server.has_ended() {
                look_for_panics(&log, &mut self.panics);
                let last = log.lines().last().unwrap_or_default();
                let words: String =
                    last.chars().filter(|letter| !letter.is_ascii_digit()).take(160).collect();
                *self.ended.entry(format!("a server: {words}")).or_default() += 1;
                server.start();
            }
            server.is_ready()?;
        }
        Ok(())
    }

    pub fn kill(&mut self, node: Node) {
        self.down.push(node);
        match node {
            Node::Server(index) => {
                if let Some(server) = self.servers.get_mut(index) {
                    look_for_panics(&server.kill(), &mut self.panics);
                }
            }
            Node::Member(index) => {
                if let Some(member) = self.members.get_mut(index) {
                    member.kill();
                }
            }
            Node::Clients | Node::Witness => {}
        }
    }

    /// Asks a server to end, and waits until it has.
    pub async fn stop(&mut self, index: usize) -> anyhow::Result<()> {
        self.down.push(Node::Server(index));
        signal(self.process(Node::Server(index)), "-TERM")?;
        let due = machine::within(AT_LAST);
        loop {
            let server = self.servers.get_mut(index).context("no such server")?;
            if let Some(log) = server.has_ended() {
                look_for_panics(&log, &mut self.panics);
                return Ok(());
            }
            if machine::left(due).is_zero() {
                bail!("server {index} does not end:\n{}", server.log());
            }
            self.tick()?;
            machine::sleep(TICK).await;
        }
    }

    /// Starts what was killed or stopped.
    pub fn start(&mut self, node: Node) -> anyhow::Result<()> {
        self.down.retain(|other| *other != node);
        match node {
            Node::Server(index) => {
                if let Some(server) = self.servers.get_mut(index) {
                    server.start();
                }
                Ok(())
            }
            Node::Member(index) => self.start_member(index, "existing", None),
            Node::Clients | Node::Witness => Ok(()),
        }
    }

    pub fn nodes(&self) -> Vec<Node> {
        let servers = (0..self.servers.len()).map(Node::Server);
        servers.chain((0..self.members.len()).map(Node::Member)).collect()
    }

    /// The process that is a node just now.
    pub fn process(&self, node: Node) -> Option<u32> {
        match node {
            Node::Server(index) => self.servers.get(index)?.id(),
            Node::Member(index) => self.members.get(index)?.id(),
            Node::Clients | Node::Witness => None,
        }
    }

    /// The wall clocks of all servers are the machine's.
    pub fn set_clocks_right(&self) -> anyhow::Result<()> {
        self.servers.iter().try_for_each(|server| server.set_clock(0))
    }

    /// A member goes for good, with all that it had, and a new one comes in its place.
    pub async fn replace(&mut self, index: usize) -> anyhow::Result<()> {
        let ids = etcd::member_ids(&self.addresses).await?;
        let id = ids.get(&index).context("no such member")?;
        self.kill(Node::Member(index));
        let remove = json!({"ID": id.to_string()});
        etcd::post_any(&self.addresses, "/v3/cluster/member/remove", &remove).await?;
        let member = self.members.get_mut(index).context("no such member")?;
        member.forget()?;
        let add = json!({"peerURLs": [member.peer_url]});
        etcd::post_any(&self.addresses, "/v3/cluster/member/add", &add).await?;
        self.start(Node::Member(index))?;
        self.name_members().await
    }

    /// Ends everything; what the logs say that they must not.
    pub fn end(mut self) -> Vec<String> {
        for server in &mut self.servers {
            look_for_panics(&server.kill(), &mut self.panics);
        }
        std::mem::take(&mut self.panics)
    }
}

/// As `kill` calls the signals. A process that has ended meanwhile is started again by whoever looks after it.
pub fn signal(process: Option<u32>, signal: &str) -> anyhow::Result<()> {
    if let Some(id) = process {
        Command::new("kill").args([signal, &id.to_string()]).stderr(Stdio::null()).status()?;
    }
    Ok(())
}

fn look_for_panics(log: &str, panics: &mut Vec<String>) {
    let mut lines = log.lines();
    while let Some(line) = lines.find(|line| line.contains("panicked at")) {
        panics.push(format!("{line} {}", lines.next().unwrap_or_default()));
    }
}

/// Of every server, whatever it has its objects in.
fn flags(directory: &Path) -> Vec<String> {
    let (first, last) = NODE_PORTS;
    vec![
        format!("--data-dir={}", directory.display()),
        format!("--service-cluster-ip-range={ADDRESSES}"),
        format!("--service-node-port-range={first}-{last}"),
    ]
}
