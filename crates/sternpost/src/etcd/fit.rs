//! Whether a server fits the cluster whose objects it finds: asked before its first write, so that it never harms one.
//!
//! What servers of a cluster have to agree on is in their flags. Of some of these the cluster's objects tell:
//! the ranges of services, the keys that tokens were signed with, what is encrypted and how. Servers of this kind also
//! say in their Leases whose tokens they accept ([`TRUST`]), and which resources they have in an etcd of their own
//! ([`OVERRIDES`]).

use std::{fs, io, ops::RangeInclusive};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_auth::service_account::{ServiceAccounts, Trust};
use sternpost_cache::{Cache, ResourceId};
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
        if problems.is_empty() {
            return Ok(());
        }
        let message = format!("this server does not fit the cluster in etcd:\n  {}", problems.join("\n  "));
        let hint =
            "it has to have the flags that the cluster's other servers have; with --etcd-read-only it joins \
                    without writing"
                .into();
        Err(Hinted { message, hint }.into())
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
    const FLAG: &str = "--service-account-signing-key-file";
    if signing_key == SigningKeyFrom::Memory {
        problems.push(format!("{FLAG} is not set, nor is --data-dir: tokens would end with this process"));
        return;
    }
    let ours = accounts.trust();
    let leases = cache.resource(&ResourceId::new("coordination.k8s.io", "leases")).snapshot();
    let leases: Vec<Value> = leases.iter(Some("kube-system"), None).map(|lease| lease.value()).collect();
    for lease in leases.iter().filter(|lease| is_renewed(lease, now)) {
        let metadata = lease.field("metadata");
        let name = metadata.text("name");
        if name == own {
            continue;
        }
        let trust = serde_json::from_str::<Trust>(metadata.field("annotations").text(TRUST));
        if trust.is_ok() {
            overrides(cache, name, metadata.field("annotations").text(OVERRIDES), problems);
        }
        match trust {
            Ok(theirs) if !theirs.is_mutual(&ours) => problems.push(format!(
                "{FLAG}, --service-account-key-file and --service-account-issuer do not go with those of {name}: it \
                 signs as {} with key {}, this server as {} with key {}",
                theirs.issuers.join(","),
                theirs.signs_with,
                ours.issuers.join(","),
                ours.signs_with,
            )),
            Ok(_) => {}
            // A kube-apiserver: which key it has is not told, but it is none that was made here.
            Err(_) if signing_key == SigningKeyFrom::DataDir => {
                problems.push(format!("{FLAG} is not set, and {name} does not accept tokens of the key made here"));
            }
            Err(_) => {}
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
fn overrides(cache: &Cache, name: &str, theirs: &str, problems: &mut Vec<String>) {
    let ours = cache.overrides().to_string();
    if ours != theirs {
        let text = |overrides: &str| if overrides.is_empty() { "nothing" } else { overrides }.to_owned();
        let (ours, theirs) = (text(&ours), text(theirs));
        problems.push(format!("--etcd-servers-overrides moves {ours}, and that of {name} {theirs}"));
    }
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
