//! Addresses and ports that services hold, each held once.
//!
//! Every claim is a key of its own in the store, made in the same transaction as
//! the service and absent before it: two services can never get the same one,
//! whoever serves them, and nothing is claimed for a service that is not there.
//! An address is claimed by an `IPAddress`, which everybody can see; a port by a
//! key that is nobody's object.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use sternpost_cache::{ResourceId, encode, object_key};
use sternpost_meta::status::Status;
use sternpost_registry::{
    kinds::{
        ip_ranges::{Family, parse_cidr},
        service_allocation::{
            self, Change, Claims, DEFAULT_NODE_PORTS, DEFAULT_RANGE, Pool, Refusal, allocate_create,
            allocate_update,
        },
    },
    object::Fields,
};
use sternpost_store::{Compare, Transaction, Write};

use crate::{
    registry::{Registry, Target, Writer},
    served::Served,
};

/// Of addresses and of the ranges they come from.
const NETWORKING: &str = "networking.k8s.io";
/// Not a group that is served: claims of ports are nobody's objects.
const GROUP: &str = "internal.sternpost";
const PORTS: &str = "serviceports";

/// What a transaction has to do beside writing the object.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    compares: Vec<Compare>,
    writes: Vec<Write>,
}

impl Claimed {
    pub(crate) fn join(self, mut transaction: Transaction) -> Transaction {
        transaction.compares.extend(self.compares);
        transaction.writes.extend(self.writes);
        transaction
    }

    fn take(&mut self, key: Bytes, value: impl Into<Bytes>) {
        self.compares.push(Compare::Absent { key: key.clone() });
        self.writes.push(Write::put(key, value));
    }

    fn give_back(&mut self, claims: &Claims) {
        let addresses = claims.addresses.iter().map(address_key);
        let ports = claims.ports.iter().map(port_key);
        self.writes.extend(addresses.chain(ports).map(Write::delete));
    }
}

impl Registry {
    /// Gives a new service what it asks for, or needs.
    pub(crate) fn claim_for_new(&self, target: Target<'_>, object: &mut Value) -> Result<Claimed, Status> {
        if !is_service(target.served) {
            return Ok(Claimed::default());
        }
        let change = self.with_pool(|pool, choose| allocate_create(object, pool, choose));
        let change = change.map_err(|refusal| refused(target, object, refusal))?;
        self.claimed(object, &change)
    }

    /// Gives a changed service what it lacks, and takes back what it no longer needs.
    pub(crate) fn claim_for_changed(
        &self,
        target: Target<'_>,
        object: &mut Value,
        old: &Value,
    ) -> Result<Claimed, Status> {
        if !is_service(target.served) {
            return Ok(Claimed::default());
        }
        let change = self.with_pool(|pool, choose| allocate_update(object, old, pool, choose));
        let change = change.map_err(|refusal| refused(target, object, refusal))?;
        self.claimed(object, &change)
    }

    /// Takes back all that a service held.
    pub(crate) fn release(&self, served: &Served, old: &Value) -> Claimed {
        let mut claimed = Claimed::default();
        if is_service(served) {
            claimed.give_back(&service_allocation::held(old));
        }
        claimed
    }

    fn claimed(&self, service: &Value, change: &Change) -> Result<Claimed, Status> {
        let mut claimed = Claimed::default();
        for address in &change.claimed.addresses {
            claimed.take(address_key(address), encode(&self.address_of(service, *address)?));
        }
        for port in &change.claimed.ports {
            claimed.take(port_key(port), "");
        }
        claimed.give_back(&change.released);
        Ok(claimed)
    }

    /// The `IPAddress` that says which service has an address.
    fn address_of(&self, service: &Value, address: IpAddr) -> Result<Value, Status> {
        let served = self.addresses()?;
        let mut object = ip_address(service.field("metadata"), address);
        let name = address.to_string();
        let target = Target { served: &served, namespace: "", name: &name };
        self.begin(target, &mut object);
        self.track_new(target, &mut object, Writer::server());
        served.settle_stored(&mut object);
        Ok(object)
    }

    fn addresses(&self) -> Result<Arc<Served>, Status> {
        let served = self.served.get(NETWORKING, "v1", "ipaddresses");
        served.ok_or_else(|| Status::internal_error("ipaddresses are not served"))
    }

    fn with_pool<T>(&self, run: impl FnOnce(&Pool<'_>, service_allocation::Choose<'_>) -> T) -> T {
        let used_addresses: BTreeSet<IpAddr> = self.names(&ResourceId::new(NETWORKING, "ipaddresses"));
        let used_ports: BTreeSet<u16> = self.names(&ResourceId::new(GROUP, PORTS));
        let pool = Pool {
            ranges: &self.ranges(),
            node_ports: &DEFAULT_NODE_PORTS,
            used_addresses: &used_addresses,
            used_ports: &used_ports,
        };
        let mut choose = |candidates: usize| {
            let mut bytes = [0u8; 8];
            self.environment.random(&mut bytes);
            usize::try_from(u64::from_le_bytes(bytes) >> 1).unwrap_or_default() % candidates.max(1)
        };
        run(&pool, &mut choose)
    }

    /// The server's own range, and those that were added to it.
    fn ranges(&self) -> Vec<(IpAddr, u8)> {
        let mut ranges: Vec<(IpAddr, u8)> = parse_cidr(DEFAULT_RANGE).into_iter().collect();
        let added = self.cache.resource(&ResourceId::new(NETWORKING, "servicecidrs")).snapshot();
        for object in added.iter(None, None) {
            let object = object.value();
            if object.field("metadata").has("deletionTimestamp") {
                continue;
            }
            let texts = object.field("spec").items("cidrs").iter().filter_map(Value::as_str);
            for range in texts.filter_map(parse_cidr) {
                // More addresses, but no other family than the server began with.
                let same = ranges.first().is_none_or(|own| Family::of(own.0) == Family::of(range.0));
                if same && !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
        }
        ranges
    }

    /// The names of all objects of a resource.
    fn names<T: std::str::FromStr + Ord>(&self, id: &ResourceId) -> BTreeSet<T> {
        let snapshot = self.cache.resource(id).snapshot();
        snapshot.iter(None, None).filter_map(|object| object.name().parse().ok()).collect()
    }
}

/// An `IPAddress` as upstream's allocator makes it, but for what the server adds
/// to every object. `service` is the metadata of its holder.
pub(crate) fn ip_address(service: &Value, address: IpAddr) -> Value {
    json!({
        "metadata": {
            "name": address.to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": Family::of(address).name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "resource": "services",
            "namespace": service.field("namespace"),
            "name": service.field("name"),
        }},
    })
}

pub(crate) fn is_service(served: &Served) -> bool {
    served.group().is_empty() && served.kind() == "Service"
}

fn address_key(address: &IpAddr) -> Bytes {
    object_key(&ResourceId::new(NETWORKING, "ipaddresses"), "", &address.to_string())
}

fn port_key(port: &u16) -> Bytes {
    object_key(&ResourceId::new(GROUP, PORTS), "", &port.to_string())
}

fn refused(target: Target<'_>, object: &Value, refusal: Refusal) -> Status {
    match refusal {
        Refusal::Invalid(errors) => {
            let name = object.field("metadata").text("name");
            Status::invalid(target.served.group(), target.served.kind(), name, errors.into_causes())
        }
        Refusal::Internal(why) => Status::internal_error(&why),
        Refusal::Unexpected(message) => Status::unexpected(message),
    }
}
