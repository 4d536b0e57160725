//! A sternpost server: a process behind links that stay where they are when it is started again.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use sternpost_clock::shift;
use sternpost_testkit::{client::Connector, process::Process};

use crate::{
    link::{From, Link, Network, Node},
    namespaces::Home,
};

/// How long a client waits for an answer before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(8);

/// Of servers with addresses of their own.
const PORT: u16 = 6443;

/// A process that ends with the value.
pub struct Server {
    pub index: usize,
    program: PathBuf,
    home: Home,
    flags: Vec<String>,
    /// How far its wall clock is off.
    clock: PathBuf,
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
        home: Home,
        flags: Vec<String>,
        clock: PathBuf,
        network: &Network,
    ) -> anyhow::Result<Self> {
        let node = Node::Server(index);
        Ok(Self {
            index,
            program: program.to_owned(),
            home,
            flags,
            clock,
            process: None,
            is_ready: false,
            clients: network.listen(From::Node(Node::Clients), node).await?,
            witness: network.listen(From::Node(Node::Witness), node).await?,
            place: None,
        })
    }

    pub fn start(&mut self) {
        // The Endpoints of servers that others can reach have one port for all.
        let port = if self.home.host.is_loopback() { 0 } else { PORT };
        let listen = format!("{}:{port}", self.home.host);
        let mut command = self.home.command(&self.program);
        command.args(["serve", "--listen", &listen, "--exit-with-parent"]).args(&self.flags);
        command.env(shift::FILE, &self.clock);
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

    /// Sets its wall clock so many milliseconds ahead of the machine's, or behind.
    pub fn set_clock(&self, ahead: i64) -> anyhow::Result<()> {
        let new = self.clock.with_extension("new");
        fs::write(&new, ahead.to_string())?;
        Ok(fs::rename(new, &self.clock)?)
    }

    /// As clients reach it; its token and authority stay the same.
    pub fn for_clients(&self) -> Option<Connector> {
        self.through(&self.clients)
    }

    pub fn for_witness(&self) -> Option<Connector> {
        self.through(&self.witness)
    }

    fn through(&self, link: &Link) -> Option<Connector> {
        Some(Connector::new(self.place.as_ref()?).through(&link.address.to_string(), PATIENCE))
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
