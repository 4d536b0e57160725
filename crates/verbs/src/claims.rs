//! Addresses and ports that services hold, each held once.
//!
//! Every claim is a key of its own in the store, made in the same transaction as
//! the service and absent before it: two services can never get the same one,
//! whoever serves them, and nothing is claimed for a service that is not there.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;
use sternpost_cache::{ResourceId, object_key};
use sternpost_meta::{format, status::Status};
use sternpost_registry::{
    kinds::service_allocation::{
        self, Change, Claims, DEFAULT_NODE_PORTS, DEFAULT_RANGE, Pool, Refusal, allocate_create,
        allocate_update,
    },
    object::Fields,
};
use sternpost_store::{Compare, Transaction, Write};

use crate::{
    registry::{Registry, Target},
    served::Served,
};

/// Not a group that is served: claims are nobody's objects.
const GROUP: &str = "internal.sternpost";
const ADDRESSES: &str = "serviceaddresses";
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

    fn take(&mut self, claims: &Claims) {
        for key in keys(claims) {
            self.compares.push(Compare::Absent { key: key.clone() });
            self.writes.push(Write::put(key, ""));
        }
    }

    fn give_back(&mut self, claims: &Claims) {
        self.writes.extend(keys(claims).map(Write::delete));
    }
}

impl Registry {
    /// Gives a new service what it asks for, or needs.
    pub(crate) fn claim_for_new(&self, target: Target<'_>, object: &mut Value) -> Result<Claimed, Status> {
        if !is_service(target.served) {
            return Ok(Claimed::default());
        }
        let change = self.with_pool(|pool, choose| allocate_create(object, pool, choose));
        change.map(|change| claimed(&change)).map_err(|refusal| refused(target, object, refusal))
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
        change.map(|change| claimed(&change)).map_err(|refusal| refused(target, object, refusal))
    }

    /// Takes back all that a service held.
    pub(crate) fn release(&self, served: &Served, old: &Value) -> Claimed {
        let mut claimed = Claimed::default();
        if is_service(served) {
            claimed.give_back(&service_allocation::held(old));
        }
        claimed
    }

    fn with_pool<T>(&self, run: impl FnOnce(&Pool<'_>, service_allocation::Choose<'_>) -> T) -> T {
        let used_addresses: BTreeSet<IpAddr> = self.held(ADDRESSES);
        let used_ports: BTreeSet<u16> = self.held(PORTS);
        let ranges: Vec<(IpAddr, u8)> = DEFAULT_RANGE
            .split_once('/')
            .and_then(|(network, length)| Some((format::parse_ip(network)?.address, length.parse().ok()?)))
            .into_iter()
            .collect();
        let pool = Pool {
            ranges: &ranges,
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

    fn held<T: std::str::FromStr + Ord>(&self, resource: &str) -> BTreeSet<T> {
        let snapshot = self.cache.resource(&ResourceId::new(GROUP, resource)).snapshot();
        snapshot.iter(None, None).filter_map(|claim| claim.name.parse().ok()).collect()
    }
}

fn is_service(served: &Served) -> bool {
    served.group().is_empty() && served.kind() == "Service"
}

fn claimed(change: &Change) -> Claimed {
    let mut claimed = Claimed::default();
    claimed.take(&change.claimed);
    claimed.give_back(&change.released);
    claimed
}

fn keys(claims: &Claims) -> impl Iterator<Item = bytes::Bytes> {
    let key = |resource: &str, name: String| object_key(&ResourceId::new(GROUP, resource), "", &name);
    let addresses = claims.addresses.iter().map(move |address| key(ADDRESSES, address.to_string()));
    let ports = claims.ports.iter().map(move |port| key(PORTS, port.to_string()));
    addresses.chain(ports)
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
