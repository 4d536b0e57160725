//! A sternpost server: a process behind links that stay where they are when it is started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use sternpost_testkit::{client::Connector, process::Process};

use crate::link::{From, Link, Network, Node};

/// How long a client waits for an answer before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(8);

/// A process that ends with the value.
pub struct Server {
    pub index: usize,
    program: PathBuf,
    flags: Vec<String>,
    process: Option<Process>,
    /// Whether the process has said that it is ready.
    is_ready: bool,
    clients: Link,
    witness: Link,
    place: Option<sternpost_testkit::process::Place>,
}

impl Server {
    pub async fn new(
        index: usize,
        program: &Path,
        flags: Vec<String>,
        network: &Network,
    ) -> anyhow::Result<Self> {
        let node = Node::Server(index);
        Ok(Self {
            index,
            program: program.to_owned(),
            flags,
            process: None,
            is_ready: false,
            clients: network.listen(From::Node(Node::Clients), node).await?,
            witness: network.listen(From::Node(Node::Witness), node).await?,
            place: None,
        })
    }

    pub fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--exit-with-parent"]).args(&self.flags);
        self.is_ready = false;
        self.process = Some(Process::spawn(command));
    }

    /// Whether it is ready; its links lead to it from then on.
    pub fn is_ready(&mut self) -> anyhow::Result<bool> {
        let Some(process) = &self.process else { return Ok(false) };
        if !self.is_ready && process.log().text().contains("sternpost is ready on ") {
            let place = process.ready().map_err(anyhow::Error::msg)?;
            let address: SocketAddr = place.address.parse().context("a server's address")?;
            self.clients.lead_to(address);
            self.witness.lead_to(address);
            self.place = Some(place);
            self.is_ready = true;
        }
        Ok(self.is_ready)
    }

    /// As clients reach it; its token and authority stay the same.
    pub fn for_clients(&self) -> Option<Connector> {
        self.through(&self.clients)
    }

    pub fn for_witness(&self) -> Option<Connector> {
        self.through(&self.witness)
    }

    fn through(&self, link: &Link) -> Option<Connector> {
        let address = format!("127.0.0.1:{}", link.port);
        Some(Connector::new(self.place.as_ref()?).through(&address, PATIENCE))
    }

    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The log of a process that has ended without being told to.
    pub fn has_ended(&mut self) -> Option<String> {
        let process = self.process.as_mut()?;
        process.has_ended()?;
        let log = process.log().to_the_end();
        self.process = None;
        Some(log)
    }

    /// The log up to its end.
    pub fn kill(&mut self) -> String {
        let Some(mut process) = self.process.take() else { return String::new() };
        process.kill();
        process.log().to_the_end()
    }

    pub fn log(&self) -> String {
        self.process.as_ref().map(|process| process.log().text()).unwrap_or_default()
    }
}
