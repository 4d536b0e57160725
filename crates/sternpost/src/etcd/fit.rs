//! Whether a server fits the cluster whose objects it finds: asked before its first write, so that it never harms one.
//!
//! What servers of a cluster have to agree on is in their flags. Of some of these the cluster's objects tell:
//! the ranges of services, the keys that tokens were signed with, what is encrypted and how. Servers of this kind also
//! say in their Leases whose tokens they accept ([`TRUST`]), and which resources they have in an etcd of their own
//! ([`OVERRIDES`]). Two that begin at the same moment have no Leases yet: each looks again when it has its own
//! ([`Settling`]).

use std::{fs, io, ops::RangeInclusive, sync::Arc, time::Duration};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_auth::service_account::{ServiceAccounts, Trust};
use sternpost_cache::{Cache, ResourceId};
use sternpost_clock::machine;
use sternpost_controllers::server_lease::{OVERRIDES, TRUST, is_renewed};
use sternpost_golang::time::Timestamp;
use sternpost_registry::{
    kinds::service::allocation::Ranges,
    object::Fields,
    validation::ip_ranges::{Family, parse_cidr},
};
use sternpost_store_kube::{Cause, Unreadable};

use sternpost_verbs::Verbs;

use super::{Advertised, Cluster};
use crate::{
    data_dir::{DataDir, write_private},
    error::Hinted,
    service_accounts::ServiceAccountArgs,
};

/// What this server would do.
pub struct Joining<'a> {
    pub ranges: &'a Ranges,
    pub accounts: &'a ServiceAccounts,
    pub dir: Option<&'a DataDir>,
    /// Where clients are led, if they are.
    pub advertised: Option<Advertised>,
    /// The Lease that this server will have: whoever had it listened here, and does not any more.
    pub lease: String,
}

/// In the data directory: which cluster it is of.
const CLUSTER: &str = "cluster";

impl Joining<'_> {
    /// Refuses if anything that can be told does not fit, naming all of it.
    pub async fn check(
        &self,
        cluster: &Cluster,
        verbs: &Verbs,
        flags: &ServiceAccountArgs,
    ) -> anyhow::Result<()> {
        let cache = &verbs.cache;
        let ports = cluster.ports().await.context("cannot read the node ports of the cluster")?;
        let ports = ports.map(|ports| ports.range().clone());
        let signing_key = match (&flags.signing_key_file, self.dir) {
            (Some(_), _) => SigningKeyFrom::Flag,
            (None, Some(_)) => SigningKeyFrom::DataDir,
            (None, None) => SigningKeyFrom::Memory,
        };
        let now = Timestamp::from_unix(verbs.clock.unix_seconds(), 0);
        let mut problems = Vec::new();
        ranges(cache, self.ranges, ports, &mut problems);
        tokens(cache, self, signing_key, now, &mut problems);
        values(&cluster.unreadable(), &mut problems);
        endpoints(cache, self.advertised, &mut problems);
        identity(cache, self.remembered()?.as_deref(), &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(misfit(&problems)) }
    }

    fn remembered(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = self.dir.map(|dir| dir.file(CLUSTER)) else { return Ok(None) };
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
    }

    /// Notes in the data directory which cluster it is of from now on.
    pub fn remember(&self, verbs: &Verbs) -> anyhow::Result<()> {
        let (Some(dir), Some(cluster)) = (self.dir, cluster_id(&verbs.cache)) else { return Ok(()) };
        if self.remembered()?.is_some() {
            return Ok(());
        }
        write_private(&dir.file(CLUSTER), &format!("{cluster}\n"))
    }
}

fn misfit(problems: &[String]) -> anyhow::Error {
    let message = format!("this server does not fit the cluster in etcd:\n  {}", problems.join("\n  "));
    let hint =
        "it has to have the flags that the cluster's other servers have; with --etcd-read-only it joins \
                without writing"
            .into();
    Hinted { message, hint }.into()
}

/// A server whose Lease is not there yet, or was not compared with those of others.
pub struct Settling {
    pub verbs: Arc<Verbs>,
    pub trust: Trust,
    /// The name of its Lease, and who holds that: the one of an earlier process may still be there.
    pub lease: String,
    pub holder: String,
}

/// Before it is tried again to see what others have written.
const AGAIN: Duration = Duration::from_secs(1);

impl Settling {
    /// Resolves only if this server has to end: if another one that goes not with it made its Lease before. Revisions
    /// are in one order, and the later one sees the Lease of the earlier: of two, one ends.
    pub async fn misfit(self) -> anyhow::Error {
        let Self { verbs, trust, lease, holder } = self;
        let id = leases();
        let leases = verbs.cache.resource(&id);
        let waiter = leases.waiter();
        let made = loop {
            let snapshot = leases.snapshot();
            let own = snapshot.get("kube-system", &lease);
            if let Some(own) = own.filter(|own| own.value().field("spec").text("holderIdentity") == holder) {
                break own.created();
            }
            waiter.changed(snapshot.seen()).await;
        };
        while let Some(catching_up) = verbs.catching_up(&id)
            && catching_up.await.is_err()
        {
            machine::sleep(AGAIN).await;
        }
        let now = Timestamp::from_unix(verbs.clock.unix_seconds(), 0);
        let snapshot = leases.snapshot();
        let earlier = snapshot.iter(Some("kube-system"), None).filter(|lease| lease.created() < made);
        let earlier = earlier.map(|lease| lease.value()).filter(|lease| is_renewed(lease, now));
        let problems: Vec<String> =
            earlier.flat_map(|lease| disagreements(&verbs.cache, &lease, &trust)).collect();
        if problems.is_empty() {
            return std::future::pending().await;
        }
        misfit(&problems)
    }
}

fn leases() -> ResourceId {
    ResourceId::new("coordination.k8s.io", "leases")
}

/// What a server of this kind, by its Lease, and this one do not agree on.
fn disagreements(cache: &Cache, lease: &Value, ours: &Trust) -> impl Iterator<Item = String> + use<> {
    [strangers(lease, ours), overrides(cache, lease)].into_iter().flatten()
}

/// What keeps a server of this kind, by its Lease, and one with these keys from accepting the tokens of each other.
fn strangers(lease: &Value, ours: &Trust) -> Option<String> {
    let metadata = lease.field("metadata");
    let theirs = trust_of(lease)?;
    (!theirs.is_mutual(ours)).then(|| {
        format!(
            "{SIGNING_KEY}, --service-account-key-file and --service-account-issuer do not go with those of {}: it \
             signs as {} with key {}, this server as {} with key {}",
            metadata.text("name"),
            theirs.issuers.join(","),
            theirs.signs_with,
            ours.issuers.join(","),
            ours.signs_with,
        )
    })
}

/// What a server of this kind says in its Lease.
fn trust_of(lease: &Value) -> Option<Trust> {
    serde_json::from_str(lease.field("metadata").field("annotations").text(TRUST)).ok()
}

const SIGNING_KEY: &str = "--service-account-signing-key-file";

/// Where the key comes from that tokens are signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SigningKeyFrom {
    Flag,
    DataDir,
    /// It ends with the process.
    Memory,
}

/// How many Secrets with tokens are looked into.
const TOKENS: usize = 64;

/// Who the cluster is: the uid of its first namespace. `None` if it has none yet.
fn cluster_id(cache: &Cache) -> Option<String> {
    let namespaces = cache.resource(&ResourceId::new("", "namespaces")).snapshot();
    let system = namespaces.get("", "kube-system")?.value();
    Some(system.field("metadata").text("uid").to_owned())
}

fn ranges(cache: &Cache, ours: &Ranges, ports: Option<RangeInclusive<u16>>, problems: &mut Vec<String>) {
    const FLAG: &str = "--service-cluster-ip-range";
    let cidrs = cache.resource(&ResourceId::new("networking.k8s.io", "servicecidrs")).snapshot();
    let services = cache.resource(&ResourceId::new("", "services")).snapshot();
    let theirs = cidrs.get("", "kubernetes").map(|found| {
        let found = found.value();
        let texts = found.field("spec").items("cidrs").iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    });
    let address = services.get("default", "kubernetes").map(|found| found.value());
    let address = address.as_ref().map(|found| found.field("spec").text("clusterIP"));
    let own = ours.first_address();
    if let Some(theirs) = theirs {
        if theirs.iter().filter_map(|text| parse_cidr(text)).ne(ours.addresses.iter().copied()) {
            problems.push(format!(
                "{FLAG} is {}, the cluster's is {}",
                ours.cidrs().join(","),
                theirs.join(",")
            ));
        }
    } else if let Some(address) = address.filter(|address| address.parse().ok() != own) {
        let own = ours.cidrs().join(",");
        problems.push(format!("{FLAG} is {own}, and the service `kubernetes` has {address}"));
    }
    if let Some(ports) = ports.filter(|ports| *ports != ours.node_ports) {
        let text = |ports: &RangeInclusive<u16>| format!("{}-{}", ports.start(), ports.end());
        let (ours, theirs) = (text(&ours.node_ports), text(&ports));
        problems.push(format!("--service-node-port-range is {ours}, the cluster's is {theirs}"));
    }
}

fn tokens(
    cache: &Cache,
    Joining { accounts, lease: own, .. }: &Joining<'_>,
    signing_key: SigningKeyFrom,
    now: Timestamp,
    problems: &mut Vec<String>,
) {
    if signing_key == SigningKeyFrom::Memory {
        problems
            .push(format!("{SIGNING_KEY} is not set, nor is --data-dir: tokens would end with this process"));
        return;
    }
    let ours = accounts.trust();
    let leases = cache.resource(&leases()).snapshot();
    let leases: Vec<Value> = leases.iter(Some("kube-system"), None).map(|lease| lease.value()).collect();
    for lease in leases.iter().filter(|lease| is_renewed(lease, now)) {
        let name = lease.field("metadata").text("name");
        if name == own {
            continue;
        }
        problems.extend(disagreements(cache, lease, &ours));
        // A kube-apiserver: which key it has is not told, but it is none that was made here.
        if trust_of(lease).is_none() && signing_key == SigningKeyFrom::DataDir {
            problems.push(format!(
                "{SIGNING_KEY} is not set, and {name} does not accept tokens of the key made here"
            ));
        }
    }
    let secrets = cache.resource(&ResourceId::new("", "secrets")).snapshot();
    let tokens: Vec<String> =
        secrets.iter(None, None).filter_map(|secret| token(&secret.value())).take(TOKENS).collect();
    if !tokens.is_empty() && !tokens.iter().any(|token| accounts.has_signed(token)) {
        problems.push(format!(
            "--service-account-key-file has no key that signed any of the {} tokens in Secrets",
            tokens.len()
        ));
    }
}

/// What one server has in another etcd, and the other in this, each would look for in vain.
fn overrides(cache: &Cache, lease: &Value) -> Option<String> {
    trust_of(lease)?;
    let metadata = lease.field("metadata");
    let (ours, theirs) = (cache.overrides().to_string(), metadata.field("annotations").text(OVERRIDES));
    let text = |overrides: &str| if overrides.is_empty() { "nothing" } else { overrides }.to_owned();
    (ours != theirs).then(|| {
        let (ours, theirs, name) = (text(&ours), text(theirs), metadata.text("name"));
        format!("--etcd-servers-overrides moves {ours}, and that of {name} {theirs}")
    })
}

/// What a Secret holds for a service account.
fn token(secret: &Value) -> Option<String> {
    if secret.text("type") != "kubernetes.io/service-account-token" {
        return None;
    }
    let token = STANDARD.decode(secret.field("data").text("token")).ok()?;
    String::from_utf8(token).ok().filter(|token| !token.is_empty())
}

/// Values that others can read. Those that nobody can are nothing to be waited for.
fn values(unreadable: &[Unreadable], problems: &mut Vec<String>) {
    for (cause, flag) in [
        (Cause::Encrypted, "--encryption-provider-config has no key for"),
        (Cause::Version, "other servers store another version of"),
    ] {
        let mut of_cause = unreadable.iter().filter(|found| found.cause == cause);
        if let Some(first) = of_cause.next() {
            let more = match of_cause.count() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            problems.push(format!("{flag} `{}`{more}: {}", first.key, first.reason));
        }
    }
}

/// All servers are at one port: their addresses are in one list.
fn endpoints(cache: &Cache, advertised: Option<Advertised>, problems: &mut Vec<String>) {
    let Some(Advertised { address, port }) = advertised else { return };
    let endpoints = cache.resource(&ResourceId::new("", "endpoints")).snapshot();
    let Some(endpoints) = endpoints.get("default", "kubernetes").map(|found| found.value()) else { return };
    for subset in endpoints.items("subsets") {
        let others = subset.items("addresses").iter().map(|address| address.text("ip"));
        let others: Vec<&str> = others.filter(|other| other.parse() != Ok(address)).collect();
        let theirs: Vec<i64> = subset.items("ports").iter().filter_map(|port| port.int("port")).collect();
        let Some(other) = others.first().filter(|_| theirs != [i64::from(port)]) else { continue };
        let theirs: Vec<String> = theirs.iter().map(ToString::to_string).collect();
        problems.push(format!(
            "--listen has port {port}, and {other} is at {}: endpoints of the service `kubernetes` have one port \
             (--endpoint-reconciler-type none leaves this server out)",
            theirs.join(",")
        ));
    }
    let family = |text: &str| text.parse().ok().map(Family::of);
    let theirs = endpoints.items("subsets").iter().flat_map(|subset| subset.items("addresses"));
    if let Some(other) =
        theirs.map(|other| other.text("ip")).find(|other| family(other) != Some(Family::of(address)))
    {
        problems.push(format!("--advertise-address is {address}, and {other} is of another IP family"));
    }
}

fn identity(cache: &Cache, remembered: Option<&str>, problems: &mut Vec<String>) {
    let Some(remembered) = remembered else { return };
    match cluster_id(cache) {
        Some(found) if found == remembered => {}
        Some(found) => problems.push(format!("--data-dir is of cluster {remembered}, and this is {found}")),
        None => problems
            .push(format!("--data-dir is of cluster {remembered}, and there is none below --etcd-prefix")),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use serde_json::json;
    use sternpost_cache::{encode, object_key};
    use sternpost_clock::Clock;
    use sternpost_store::{
        Store, Transaction,
        memory::{self, MemoryStore},
    };
    use sternpost_verbs::{index::Selectable, served::ServedResources};

    use super::*;

    fn trust(key: &str) -> Trust {
        Trust { issuers: vec!["i".into()], signs_with: key.into(), accepts: vec![key.into()] }
    }

    /// A server that made its Lease, in the order of `made`, as the one called `own` sees it.
    async fn settles(made: &[(&str, &str, &str)]) -> Option<String> {
        let store = Arc::new(MemoryStore::new(memory::Options::default()));
        let (cache, _feeder) = Cache::start(store.clone(), Box::new(Selectable::built_in())).await.unwrap();
        let verbs = Verbs::new(ServedResources::built_in(), cache, store.clone(), Clock::system());
        let verbs = Arc::new(verbs);
        let settling =
            Settling { verbs: verbs.clone(), trust: trust("k1"), lease: "own".into(), holder: "now".into() };
        let mut settling = pin!(settling.misfit());
        let mut look = || settling.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for (name, holder, key) in made {
            assert!(look().is_pending(), "before {name}");
            let now = Timestamp::from_unix(verbs.clock.unix_seconds(), 0).to_micro_time();
            let mut annotations = json!({});
            if !key.is_empty() {
                annotations = json!({TRUST: serde_json::to_string(&trust(key)).unwrap()});
            }
            let lease = json!({
                "metadata": {
                    "name": name, "namespace": "kube-system", "annotations": annotations,
                    "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
                },
                "spec": {"holderIdentity": holder, "renewTime": now},
            });
            let key = object_key(&leases(), "kube-system", name);
            let _ = store.commit(Transaction::write([sternpost_store::Write::delete(key.clone())])).await;
            store.commit(Transaction::create(key, encode(&lease))).await.unwrap();
        }
        match look() {
            Poll::Ready(error) => Some(error.to_string()),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn of_two_servers_that_begin_together_the_later_one_ends() {
        let ends = settles(&[("other", "x", "k2"), ("own", "now", "k1")]).await.unwrap();
        assert!(ends.contains("do not go with those of other: it signs as i with key k2"), "{ends}");
        // The other one ends, or they go together, or it says nothing.
        for made in [
            &[("own", "now", "k1"), ("other", "x", "k2")][..],
            &[("other", "x", "k1"), ("own", "now", "k1")],
            &[("other", "x", ""), ("own", "now", "k1")],
            // The process before is not compared, and neither is its place in the order.
            &[("own", "before", "k1"), ("other", "x", "k2")],
        ] {
            assert_eq!(settles(made).await, None, "{made:?}");
        }
        let ends = settles(&[("own", "before", "k1"), ("other", "x", "k2"), ("own", "now", "k1")]).await;
        assert!(ends.is_some());
    }
}
