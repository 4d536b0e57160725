//! Where processes run: on the loopback of this machine, or each in a network namespace of its own, with a cable that
//! can be pulled. What is sent then is lost, and nobody is told: neither of connections that there are, nor of new ones.
//!
//! Namespaces want root on Linux, and `ip`. They go with the value; those of a campaign that was killed stay, and are
//! named after its process.

use std::{
    net::Ipv4Addr,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

use crate::link::Node;

/// Where a process runs and listens.
#[derive(Clone, Debug)]
pub struct Home {
    pub host: Ipv4Addr,
    namespace: Option<String>,
}

impl Home {
    pub const LOOPBACK: Self = Self { host: Ipv4Addr::LOCALHOST, namespace: None };

    /// Runs a program there.
    pub fn command(&self, program: &Path) -> Command {
        let Some(namespace) = &self.namespace else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program);
        command
    }
}

/// Namespaces, and the bridge that joins them.
pub struct Namespaces {
    /// Of the bridge; all other names begin with it.
    name: String,
    /// The third part of the addresses.
    subnet: u8,
    made: Vec<Node>,
}

/// The second part of the addresses, which are private.
const NETWORK: u8 = 213;

impl Namespaces {
    pub fn new() -> anyhow::Result<Self> {
        let process = std::process::id();
        let namespaces =
            Self { name: format!("sp{process}"), subnet: process.to_le_bytes()[0], made: Vec::new() };
        let (name, host) = (&namespaces.name, namespaces.host());
        ip(&format!("link add {name} type bridge")).context("there are no network namespaces")?;
        ip(&format!("addr add {host}/24 dev {name}"))?;
        ip(&format!("link set {name} up"))?;
        Ok(namespaces)
    }

    /// Where all of them reach this process.
    pub fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, NETWORK, self.subnet, 1)
    }

    pub fn home(&mut self, node: Node) -> anyhow::Result<Home> {
        let cable = self.cable(node)?;
        let place = u8::try_from(self.made.len())? + 2;
        let host = Ipv4Addr::new(10, NETWORK, self.subnet, place);
        self.made.push(node);
        let name = &self.name;
        ip(&format!("netns add {cable}"))?;
        ip(&format!("link add {cable} type veth peer name eth0 netns {cable}"))?;
        ip(&format!("link set {cable} master {name} up"))?;
        ip(&format!("-n {cable} addr add {host}/24 dev eth0"))?;
        for device in ["lo", "eth0"] {
            ip(&format!("-n {cable} link set {device} up"))?;
        }
        Ok(Home { host, namespace: Some(cable) })
    }

    pub fn unplug(&self, node: Node) -> anyhow::Result<()> {
        ip(&format!("link set {} down", self.cable(node)?))
    }

    /// Every cable is where it belongs.
    pub fn plug_all(&self) -> anyhow::Result<()> {
        self.made.iter().try_for_each(|node| ip(&format!("link set {} up", self.cable(*node)?)))
    }

    /// The name of a node's namespace, and of its cable's end on this side.
    fn cable(&self, node: Node) -> anyhow::Result<String> {
        match node {
            Node::Server(index) => Ok(format!("{}s{index}", self.name)),
            Node::Member(index) => Ok(format!("{}m{index}", self.name)),
            Node::Clients | Node::Witness => bail!("{node:?} have no process of their own"),
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in &self.made {
            // With the namespace goes its end of the cable, and with that the other.
            let _ = self.cable(*node).and_then(|cable| ip(&format!("netns del {cable}")));
        }
        let _ = ip(&format!("link del {}", self.name));
    }
}

fn ip(words: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(words.split(' ')).stdin(Stdio::null());
    let output = command.output().context("cannot run ip")?;
    if !output.status.success() {
        bail!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
