//! The endpoints of the service `kubernetes`: the addresses of all servers of the cluster, of either kind.
//!
//! As upstream: each server keeps a key that ends with it, and writes the endpoints of all whose keys are there
//! whenever they are others than those that are written.

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use anyhow::Context;
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_meta::status::Status;
use sternpost_registry::{object::FieldsMut, validation::ip_ranges::Family};
use sternpost_store::{KeyRange, ReadError, Store, read::MAX_PAGE};
use sternpost_store_etcd::{EtcdStore, Kept};
use sternpost_store_kube::{MASTERS, master};
use sternpost_verbs::{Part, Target, Verbs, Writer};
use tokio::sync::oneshot;

/// As upstream: how long a key outlives its server, and how often endpoints are looked at.
const LIFETIME: NonZeroU32 = NonZeroU32::new(15).unwrap();
const INTERVAL: Duration = Duration::from_secs(10);

/// How long the end of the server waits for that of its endpoint.
const END: Duration = Duration::from_secs(5);

/// Where this server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised {
    pub address: IpAddr,
    pub port: u16,
}

/// An address that clients on other machines are led to, or none: one that only this machine has is not shown to others.
pub fn is_reachable(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
}

/// Keeps this server among the endpoints until it is ended.
#[derive(Debug)]
pub struct Running {
    stop: oneshot::Sender<oneshot::Sender<()>>,
}

impl Running {
    /// Takes this server out. Without it the key ends by itself, and another server takes it out.
    pub async fn end(self) {
        let (answer, ended) = oneshot::channel();
        if self.stop.send(answer).is_ok() {
            let _ = machine::timeout(END, ended).await;
        }
    }
}

pub fn start(
    etcd: Arc<EtcdStore>,
    verbs: Arc<Verbs>,
    advertised: Advertised,
    tasks: &sternpost_tasks::Tasks,
) -> anyhow::Result<Running> {
    let (key, value) = master(advertised.address)?;
    let kept = etcd.keep(verbs.clock.clone(), key, value, LIFETIME).context("etcd")?;
    let (stop, stopped) = oneshot::channel();
    tasks.once("endpoints", run(etcd, verbs, advertised, kept, stopped));
    Ok(Running { stop })
}

async fn run(
    etcd: Arc<EtcdStore>,
    verbs: Arc<Verbs>,
    Advertised { address, port }: Advertised,
    kept: Kept,
    mut stopped: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let clock = verbs.clock.clone();
    let stop = loop {
        match addresses(&etcd).await {
            Ok(mut found) => {
                // Its key may not be there yet.
                found.insert(address);
                write_all(&verbs, &found, port).await;
            }
            Err(error) => tracing::warn!("the servers of the cluster cannot be listed: {error}"),
        }
        if let Ok(stop) = clock.timeout_at(clock.now() + INTERVAL, &mut stopped).await {
            break stop;
        }
    };
    if let Err(error) = kept.end().await {
        tracing::warn!("this server stays among the endpoints until its time is over: {error}");
    } else if let Ok(mut others) = addresses(&etcd).await {
        others.remove(&address);
        // The last one stays, as upstream: clients have no better place.
        if !others.is_empty() {
            write_all(&verbs, &others, port).await;
        }
    }
    if let Ok(answer) = stop {
        let _ = answer.send(());
    }
}

async fn addresses(etcd: &EtcdStore) -> Result<BTreeSet<IpAddr>, ReadError> {
    let page = etcd.range(KeyRange::prefix(MASTERS), None, MAX_PAGE).await?;
    let addresses = page.entries.iter().filter_map(|entry| {
        let address = std::str::from_utf8(entry.key().get(MASTERS.len()..)?).ok()?;
        address.parse().ok()
    });
    Ok(addresses.collect())
}

async fn write_all(verbs: &Verbs, addresses: &BTreeSet<IpAddr>, port: u16) {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let subset = json!({
        "addresses": texts.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    let endpoints = |found: &mut Value| {
        set_label(found, "endpointslice.kubernetes.io/skip-mirror", "true");
        found.set("subsets", json!([subset]));
    };
    let family = addresses.first().map_or(Family::IPv4, |address| Family::of(*address)).name();
    let ready = |ip: &String| json!({"addresses": [ip], "conditions": {"ready": true}});
    let slice = |found: &mut Value| {
        set_label(found, "kubernetes.io/service-name", "kubernetes");
        found.set("addressType", family);
        found.set("endpoints", texts.iter().map(ready).collect::<Vec<_>>());
        found.set("ports", json!([{"name": "https", "port": port, "protocol": "TCP"}]));
    };
    for (written, resource) in [
        (write(verbs, ("", "endpoints"), &endpoints).await, "Endpoints"),
        (write(verbs, ("discovery.k8s.io", "endpointslices"), &slice).await, "EndpointSlice"),
    ] {
        match written {
            // Another server was faster.
            Err(status) if status.code == 409 => {}
            Err(status) => {
                tracing::warn!(%status, "the {resource} of the service `kubernetes` cannot be written");
            }
            Ok(()) => {}
        }
    }
}

/// Labels are set first: what else is there stays.
fn set_label(object: &mut Value, name: &str, value: &str) {
    object.object_mut("metadata").object_mut("labels").set(name, value);
}

async fn write(
    verbs: &Verbs,
    (group, plural): (&str, &str),
    set: &(dyn Fn(&mut Value) + Sync),
) -> Result<(), Status> {
    let Some(served) = verbs.served.get(group, "v1", plural) else { return Ok(()) };
    let target = Target { served: &served, namespace: "default", name: "kubernetes" };
    match verbs.get(target) {
        Ok(found) => {
            let before = found.value();
            let mut object = before.clone();
            set(&mut object);
            if object == before {
                return Ok(());
            }
            verbs.update(target, object, Part::Main, Writer::server()).await?;
        }
        Err(_) => {
            let mut object = json!({"metadata": {"name": "kubernetes", "namespace": "default"}});
            set(&mut object);
            verbs.create(Target { name: "", ..target }, object, Writer::server()).await?;
        }
    }
    Ok(())
}
