//! Connections that can be held, slowed and cut, each way on its own.
//!
//! Every connection between two nodes goes through a proxy in this process, which looks at one table of rules. A held
//! way keeps its bytes until it passes again, as TCP would by sending them anew; what is different from a real black
//! hole is that connections are still accepted, and that the end of a connection is not noticed while it is held.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use sternpost_clock::machine;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::history::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    Clients,
    /// Who hears of everything, whatever fails for others.
    Witness,
    Server(usize),
    Member(usize),
}

/// What becomes of bytes on their way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Hold,
    Delay(Duration),
    /// So many bytes a second.
    Rate(u64),
    /// Connections are closed, and new ones at once.
    Cut,
}

type Table = HashMap<(Node, Node), Rule>;

/// The rules of all ways; those without one pass. Clones are the same.
#[derive(Clone)]
pub struct Network {
    table: watch::Sender<Table>,
    /// Where processes reach this one; clients, which are in it, do so by the loopback.
    host: Ipv4Addr,
    /// Members of etcd by the number that they call themselves.
    names: Arc<Mutex<HashMap<String, usize>>>,
}

impl Network {
    pub fn new(host: Ipv4Addr) -> Self {
        Self { table: watch::Sender::new(Table::new()), host, names: Arc::default() }
    }

    pub fn set(&self, ways: &[(Node, Node)], rule: Rule) {
        self.table.send_modify(|table| {
            table.extend(ways.iter().map(|way| (*way, rule)));
        });
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.table.send_modify(HashMap::clear);
    }

    /// How members call themselves, by their place.
    pub fn name_members(&self, names: HashMap<String, usize>) {
        *lock(&self.names) = names;
    }

    /// An address behind which a node is, for those whom `from` tells.
    pub async fn listen(&self, from: From, to: Node) -> io::Result<Link> {
        let host = match from {
            From::Node(Node::Clients | Node::Witness) => Ipv4Addr::LOCALHOST,
            From::Node(_) | From::Peer => self.host,
        };
        let listener = TcpListener::bind((host, 0)).await?;
        let address = listener.local_addr()?;
        let target = watch::Sender::new(None);
        let tasks = tokio::spawn(accept(listener, self.clone(), from, to, target.subscribe()));
        Ok(Link { address, target, accepting: tasks.abort_handle() })
    }
}

/// Who connects.
#[derive(Clone, Copy, Debug)]
pub enum From {
    Node(Node),
    /// Another member of etcd: its requests to peers say which.
    Peer,
}

/// An address that leads to a node, wherever that listens just now. Ends with the value.
pub struct Link {
    pub address: SocketAddr,
    target: watch::Sender<Option<SocketAddr>>,
    accepting: tokio::task::AbortHandle,
}

impl Link {
    pub fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(Some(target));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Owns the connections: they end with it.
async fn accept(
    listener: TcpListener,
    network: Network,
    from: From,
    to: Node,
    target: watch::Receiver<Option<SocketAddr>>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let Some(target) = *target.borrow() else { continue };
                connections.spawn(carry(stream, network.clone(), from, to, target));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// How much of a request is looked at to tell whose it is, and what it is kept in.
const CHUNK: usize = 16 * 1024;

async fn carry(mut near: TcpStream, network: Network, from: From, to: Node, target: SocketAddr) {
    let mut first = Vec::new();
    let source = match from {
        From::Node(node) => Some(node),
        From::Peer => {
            let Ok(read) = head(&mut near).await else { return };
            first = read;
            lock(&network.names).get(&server_from(&first)).map(|member| Node::Member(*member))
        }
    };
    // Whose connection it is is not told by some that ask for versions and health only.
    let ways = source.map(|source| ((source, to), (to, source)));
    if ways.is_some_and(|(way, _)| network.table.borrow().get(&way) == Some(&Rule::Cut)) {
        return;
    }
    let Ok(far) = TcpStream::connect(target).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let rules = || network.table.subscribe();
    let there = pump(first, near_read, far_write, rules(), ways.map(|ways| ways.0));
    let back = pump(Vec::new(), far_read, near_write, rules(), ways.map(|ways| ways.1));
    // One way ends the other: half-closed connections are of no use to HTTP.
    tokio::select! {
        _ = there => {}
        _ = back => {}
    }
}

/// The beginning of a request, with all its headers.
async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut read = Vec::with_capacity(CHUNK);
    while !read.windows(4).any(|window| window == b"\r\n\r\n") && read.len() < CHUNK {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(read)
}

/// The member that sends a request, by its own number.
fn server_from(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = text.lines().find_map(|line| line.strip_prefix("x-server-from:"));
    value.unwrap_or_default().trim().to_owned()
}

async fn pump(
    first: Vec<u8>,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut rules: watch::Receiver<Table>,
    way: Option<(Node, Node)>,
) -> io::Result<()> {
    let mut chunk = first;
    loop {
        if rule(&mut rules, way) == Some(Rule::Cut) {
            return Ok(());
        }
        if chunk.is_empty() {
            chunk.reserve(CHUNK);
            tokio::select! {
                read = from.read_buf(&mut chunk) => if read? == 0 { return Ok(()) },
                _ = rules.changed() => continue,
            }
        }
        match rule(&mut rules, way) {
            None | Some(Rule::Cut) => {}
            Some(Rule::Hold) => {
                let _ = rules.changed().await;
                continue;
            }
            Some(Rule::Delay(delay)) => machine::sleep(delay).await,
            Some(Rule::Rate(rate)) => {
                let bytes = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
                machine::sleep(Duration::from_secs_f64(f64::from(bytes) / rate.max(1) as f64)).await;
            }
        }
        to.write_all(&chunk).await?;
        chunk.clear();
    }
}

fn rule(rules: &mut watch::Receiver<Table>, way: Option<(Node, Node)>) -> Option<Rule> {
    let table = rules.borrow_and_update();
    way.and_then(|way| table.get(&way).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Node = Node::Clients;
    const SERVER: Node = Node::Server(0);
    /// Nothing is shown by what does not come in so long a time, but that it does not come at once.
    const A_WHILE: Duration = Duration::from_millis(50);

    /// A connection through a link, and its other end.
    async fn connected(network: &Network) -> (Link, TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let link = network.listen(From::Node(CLIENT), SERVER).await.unwrap();
        link.lead_to(listener.local_addr().unwrap());
        let near = TcpStream::connect(link.address).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (link, near, far)
    }

    async fn says(from: &mut TcpStream, to: &mut TcpStream) {
        from.write_all(b"x").await.unwrap();
        assert_eq!(to.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn one_way_is_held_until_it_passes_again() {
        let network = Network::new(Ipv4Addr::LOCALHOST);
        let (_link, mut near, mut far) = connected(&network).await;
        says(&mut near, &mut far).await;
        network.set(&[(CLIENT, SERVER)], Rule::Hold);
        near.write_all(b"y").await.unwrap();
        says(&mut far, &mut near).await;
        assert!(machine::timeout(A_WHILE, far.read_u8()).await.is_err());
        network.heal();
        assert_eq!(far.read_u8().await.unwrap(), b'y');
    }

    #[tokio::test]
    async fn a_cut_ends_connections_and_refuses_new_ones() {
        let network = Network::new(Ipv4Addr::LOCALHOST);
        let (link, mut near, _far) = connected(&network).await;
        network.set(&[(CLIENT, SERVER), (SERVER, CLIENT)], Rule::Cut);
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        let mut again = TcpStream::connect(link.address).await.unwrap();
        assert!(matches!(again.read(&mut [0]).await, Ok(0) | Err(_)));
    }

    #[tokio::test]
    async fn slow_ways_deliver_everything() {
        let network = Network::new(Ipv4Addr::LOCALHOST);
        let (_link, mut near, mut far) = connected(&network).await;
        for rule in [Rule::Delay(Duration::from_millis(1)), Rule::Rate(1 << 20)] {
            network.set(&[(CLIENT, SERVER)], rule);
            says(&mut near, &mut far).await;
        }
    }

    #[test]
    fn a_member_is_told_by_its_header() {
        let head =
            b"GET /raft/stream/message/1 HTTP/1.1\r\nHost: x\r\nX-Server-From: 8e9e05c52164694d\r\n\r\n";
        assert_eq!(server_from(head), "8e9e05c52164694d");
        assert_eq!(server_from(b"GET /version HTTP/1.1\r\n\r\n"), "");
    }
}
