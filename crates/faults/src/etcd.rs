//! Members of an etcd, each a process; what is asked of them through the JSON gateway; and the witness, which hears
//! from every member what it has stored.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sternpost_clock::machine::{self, Instant};
use sternpost_testkit::etcd::free_port;
use tokio::net::TcpStream;

use crate::{
    history::{Change, Lead, PREFIX, Resource, lock, token_in},
    namespaces::Home,
};

/// Between an answer and the next question where something has to become true.
const AGAIN: Duration = Duration::from_millis(50);

/// One call may take so long; whoever makes it tries again.
const CALL: Duration = Duration::from_secs(10);

/// A start that takes longer has failed, on however busy a machine.
const LONGEST_START: Duration = Duration::from_secs(60);

/// Where members listen just now, by their place. Clones are the same.
#[derive(Clone, Default)]
pub struct Addresses(Arc<Mutex<HashMap<usize, SocketAddr>>>);

impl Addresses {
    pub fn get(&self, member: usize) -> Option<SocketAddr> {
        lock(&self.0).get(&member).copied()
    }

    pub fn all(&self) -> Vec<SocketAddr> {
        lock(&self.0).values().copied().collect()
    }
}

/// A process that ends with the value.
pub struct Member {
    pub index: usize,
    program: PathBuf,
    home: Home,
    directory: PathBuf,
    process: Option<Child>,
    /// Where its peers find it, which is not where it listens.
    pub peer_url: String,
    pub addresses: Addresses,
}

/// What differs from one start to the next.
pub struct Start<'a> {
    /// All members with their URLs, as `--initial-cluster` has them.
    pub cluster: &'a str,
    pub state: &'static str,
    pub quota: Option<u64>,
}

impl Member {
    pub fn new(
        index: usize,
        program: &Path,
        home: Home,
        directory: PathBuf,
        peers: SocketAddr,
        addresses: Addresses,
    ) -> Self {
        let peer_url = format!("http://{peers}");
        Self { index, program: program.to_owned(), home, directory, process: None, peer_url, addresses }
    }

    /// Begins on ports that are free; where peers find it is set by whoever leads them there.
    pub fn start(&mut self, start: &Start<'_>) -> anyhow::Result<SocketAddr> {
        self.kill();
        let [client, peer] = [free_port(), free_port()].map(|port| SocketAddr::from((self.home.host, port)));
        let client_url = format!("http://{client}");
        fs::create_dir_all(&self.directory)?;
        let log = File::options().create(true).append(true).open(self.directory.with_extension("log"))?;
        let mut command = self.home.command(&self.program);
        command
            .args(["--name", &format!("m{}", self.index), "--data-dir"])
            .arg(&self.directory)
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .args(["--initial-advertise-peer-urls", &self.peer_url])
            .args(["--initial-cluster", start.cluster, "--initial-cluster-state", start.state])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500", "--log-level", "warn"]);
        if let Some(quota) = start.quota {
            command.args(["--quota-backend-bytes", &quota.to_string()]);
        }
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        self.process = Some(process);
        lock(&self.addresses.0).insert(self.index, client);
        Ok(peer)
    }

    pub fn kill(&mut self) {
        lock(&self.addresses.0).remove(&self.index);
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// What it had is gone.
    pub fn forget(&mut self) -> anyhow::Result<()> {
        self.kill();
        fs::remove_dir_all(&self.directory).context("cannot remove a member's directory")
    }

    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Whether it has ended without being told to.
    pub fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| !matches!(process.try_wait(), Ok(None)))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One call of the JSON gateway.
pub async fn post(member: SocketAddr, path: &str, body: &Value) -> anyhow::Result<Value> {
    let answer = async {
        let (code, answer) = open(member, path, body).await?;
        let bytes = answer.collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if code != 200 {
            bail!("{path}: {code} {answer}");
        }
        Ok(answer)
    };
    machine::timeout(CALL, answer).await.with_context(|| format!("{path} is not answered"))?
}

async fn open(member: SocketAddr, path: &str, body: &Value) -> anyhow::Result<(u16, Incoming)> {
    let stream = TcpStream::connect(member).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends when its body has been read, or is dropped.
    tokio::spawn(connection);
    let request =
        Request::post(path).header("host", "etcd").body(Full::new(Bytes::from(body.to_string())))?;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    Ok((parts.status.as_u16(), body))
}

/// Asks whichever member answers, until one does.
pub async fn post_any(addresses: &Addresses, path: &str, body: &Value) -> anyhow::Result<Value> {
    let due = machine::within(LONGEST_START);
    loop {
        let mut last = None;
        for member in addresses.all() {
            match post(member, path, body).await {
                Ok(answer) => return Ok(answer),
                Err(error) => last = Some(error),
            }
        }
        if machine::left(due).is_zero() {
            return Err(last.unwrap_or_else(|| anyhow::anyhow!("no member runs")))
                .context("no member answers");
        }
        machine::sleep(AGAIN).await;
    }
}

/// The number in a field of the gateway, which writes it as text.
pub fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).or(value.as_u64()).unwrap_or_default()
}

/// Members that are known, by the place in their names, with their numbers.
pub async fn member_ids(addresses: &Addresses) -> anyhow::Result<HashMap<usize, u64>> {
    let answer = post_any(addresses, "/v3/cluster/member/list", &json!({})).await?;
    let members = answer["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let place = |member: &Value| member["name"].as_str()?.strip_prefix('m')?.parse().ok();
    Ok(members.iter().filter_map(|member| Some((place(member)?, number(&member["ID"])))).collect())
}

/// The place of the leader, as a member sees it.
pub async fn leader(addresses: &Addresses) -> anyhow::Result<usize> {
    let due = machine::within(LONGEST_START);
    loop {
        let ids = member_ids(addresses).await?;
        for member in addresses.all() {
            let Ok(status) = post(member, "/v3/maintenance/status", &json!({})).await else { continue };
            let leader = number(&status["leader"]);
            if let Some((place, _)) = ids.iter().find(|(_, id)| **id == leader) {
                return Ok(*place);
            }
        }
        if machine::left(due).is_zero() {
            bail!("etcd has no leader");
        }
        machine::sleep(AGAIN).await;
    }
}

/// The newest revision, read through the leader.
pub async fn revision(addresses: &Addresses) -> anyhow::Result<u64> {
    let range = json!({"key": STANDARD.encode("/registry/"), "count_only": true});
    Ok(number(&post_any(addresses, "/v3/kv/range", &range).await?["header"]["revision"]))
}

/// Listens to every member at once, and puts together what they tell. Each is taken up where it was after it ended, so
/// that nothing is missed as long as one of them is listened to, whatever is compacted.
#[derive(Clone)]
pub struct Witness {
    heard: Arc<Mutex<Heard>>,
    first: u64,
    began: Instant,
}

#[derive(Default)]
struct Heard {
    changes: BTreeMap<u64, Change>,
    leads: BTreeMap<u64, Lead>,
    /// By member: what it has told without a gap, from and to.
    told: HashMap<usize, Vec<(u64, u64)>>,
    contradictions: Vec<String>,
}

impl Witness {
    /// Of everything after a revision.
    pub fn new(after: u64) -> Self {
        Self { heard: Arc::default(), first: after, began: machine::now() }
    }

    /// Listens to one member until it is aborted.
    pub async fn listen(self, member: usize, addresses: Addresses) {
        lock(&self.heard).told.insert(member, vec![(self.first, self.first)]);
        loop {
            if let Some(address) = addresses.get(member) {
                let _ = self.hear(member, address).await;
            }
            machine::sleep(AGAIN).await;
        }
    }

    async fn hear(&self, member: usize, address: SocketAddr) -> anyhow::Result<()> {
        let place = lock(&self.heard).told.get(&member).and_then(|told| told.last().copied());
        let (_, place) = place.unwrap_or_default();
        let (key, end) = (STANDARD.encode("/registry/"), STANDARD.encode("/registry0"));
        let create = json!({"create_request": {"key": key, "range_end": end, "start_revision": (place + 1).to_string()}});
        let (_, mut body) = open(address, "/v3/watch", &create).await?;
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                rest.extend_from_slice(&data);
            }
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line: Value = serde_json::from_slice(&line)?;
                self.note(member, &line["result"]);
                if line["result"]["canceled"] == true {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn note(&self, member: usize, result: &Value) {
        let mut heard = lock(&self.heard);
        let compacted = number(&result["compact_revision"]);
        if compacted > 0 {
            heard.told.entry(member).or_default().push((compacted - 1, compacted - 1));
        }
        for event in result["events"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let revision = number(&event["kv"]["mod_revision"]);
            if let Some(change) = change(event, revision) {
                let known = heard.changes.entry(revision).or_insert_with(|| change.clone());
                if *known != change {
                    let text = format!("members say that {known:?} happened, and {change:?}");
                    heard.contradictions.push(text);
                }
            }
            if let Some(holder) = holder(event) {
                let at = u64::try_from(machine::elapsed(self.began).as_nanos()).unwrap_or(u64::MAX);
                heard.leads.entry(revision).or_insert(Lead { revision, at, holder });
            }
            if let Some((_, to)) = heard.told.entry(member).or_default().last_mut() {
                *to = (*to).max(revision);
            }
        }
    }

    /// How far everything is known.
    pub fn reached(&self) -> u64 {
        let heard = lock(&self.heard);
        let mut stretches: Vec<(u64, u64)> = heard.told.values().flatten().copied().collect();
        stretches.sort_unstable();
        stretches.into_iter().fold(
            self.first,
            |reached, (from, to)| {
                if from <= reached { reached.max(to) } else { reached }
            },
        )
    }

    /// Who ran the controllers, in order.
    pub fn leads(&self) -> Vec<Lead> {
        lock(&self.heard).leads.values().cloned().collect()
    }

    /// All changes, and what members do not agree about.
    pub fn testimony(&self) -> (Vec<Change>, Vec<String>) {
        let heard = lock(&self.heard);
        (heard.changes.values().cloned().collect(), heard.contradictions.clone())
    }
}

/// Where the Lease is that the servers' leader holds.
const LEASE: &str = "/registry/leases/kube-system/sternpost-controllers";

/// Who holds the Lease by an event that is about it.
fn holder(event: &Value) -> Option<String> {
    if decode(&event["kv"]["key"]) != LEASE.as_bytes() {
        return None;
    }
    let value = decode(&event["kv"]["value"]);
    // In kube-apiserver's envelope the object, in that its `spec`, in that `holderIdentity`.
    let object = value.strip_prefix(b"k8s\0").and_then(|envelope| field(envelope, 2));
    let holder = object.and_then(|object| field(object, 2)).and_then(|spec| field(spec, 1));
    Some(String::from_utf8_lossy(holder.unwrap_or_default()).into_owned())
}

/// What a field of a protobuf message holds, if that has a length: the first.
fn field(mut message: &[u8], number: u64) -> Option<&[u8]> {
    loop {
        let key = varint(&mut message)?;
        let length = match key & 7 {
            0 => varint(&mut message).map(|_| 0)?,
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, rest) = message.split_at_checked(length)?;
        if (key & 7, key >> 3) == (2, number) {
            return Some(value);
        }
        message = rest;
    }
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}

/// What an event says of an object that clients write.
fn change(event: &Value, revision: u64) -> Option<Change> {
    let key = String::from_utf8(decode(&event["kv"]["key"])).ok()?;
    let named = |resource: &Resource| key.strip_prefix(&resource.keys()).map(|name| (*resource, name));
    let (resource, name) = Resource::ALL.iter().find_map(named)?;
    if !name.starts_with(PREFIX) {
        return None;
    }
    let is_deleted = event["type"] == "DELETE";
    let token = (!is_deleted).then(|| token_in(&decode(&event["kv"]["value"])).unwrap_or_default());
    Some(Change { revision, resource, name: name.to_owned(), token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(key: &str, value: &str, revision: u64) -> Value {
        let kv = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value), "mod_revision": revision.to_string()});
        match value {
            "" => json!({"type": "DELETE", "kv": kv}),
            _ => json!({"kv": kv}),
        }
    }

    fn tell(witness: &Witness, member: usize, events: &[Value]) {
        witness.note(member, &json!({"events": events}));
    }

    #[test]
    fn what_members_tell_is_put_together() {
        let witness = Witness::new(10);
        for member in [0, 1] {
            lock(&witness.heard).told.insert(member, vec![(10, 10)]);
        }
        let put = event("/registry/configmaps/faults/f-1", "k8s\0<op:5>", 11);
        tell(&witness, 0, &[put.clone(), event("/registry/leases/x", "<op:6>", 12)]);
        tell(&witness, 1, &[put]);
        assert_eq!(witness.reached(), 12);
        tell(&witness, 1, &[event("/registry/configmaps/faults/f-1", "", 13)]);
        let (changes, contradictions) = witness.testimony();
        let tokens: Vec<_> = changes.iter().map(|change| (change.revision, change.token)).collect();
        assert_eq!((tokens, contradictions.len()), (vec![(11, Some(5)), (13, None)], 0));
        tell(&witness, 0, &[event("/registry/configmaps/faults/f-1", "<op:7>", 13)]);
        assert_eq!(witness.testimony().1.len(), 1);
    }

    #[test]
    fn who_leads_is_read_from_the_lease() {
        // A number, then the object: its metadata, then its spec with the holder and a duration.
        let held = "k8s\0\x08\x01\x12\x0d\x0a\x03abc\x12\x06\x0a\x02me\x10\x08";
        let witness = Witness::new(10);
        tell(
            &witness,
            0,
            &[event(LEASE, held, 11), event("/registry/leases/x", held, 12), event(LEASE, "", 13)],
        );
        let leads: Vec<_> = witness.leads().into_iter().map(|lead| (lead.revision, lead.holder)).collect();
        assert_eq!(leads, [(11, "me".to_owned()), (13, String::new())]);
        assert_eq!(field(b"\x0a\x05abc", 1), None);
    }

    #[test]
    fn what_was_compacted_is_a_gap_unless_another_member_told_it() {
        let witness = Witness::new(10);
        for member in [0, 1] {
            lock(&witness.heard).told.insert(member, vec![(10, 10)]);
        }
        witness.note(0, &json!({"compact_revision": "20", "canceled": true}));
        tell(&witness, 0, &[event("/registry/x", "x", 25)]);
        assert_eq!(witness.reached(), 10);
        tell(&witness, 1, &[event("/registry/x", "x", 19)]);
        assert_eq!(witness.reached(), 25);
    }
}
