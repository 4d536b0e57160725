//! An address and a node port are of one service at a time, and of none when it is gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Findings, Truth};
use crate::history::{History, Resource, Version};

const RULE: &str = "allocations";

/// At every moment: the services are gone through in the order in which they were written.
pub fn allocations(history: &History, truth: &Truth<'_>, findings: &mut Findings) {
    let mut held: HashMap<&str, &Version> = HashMap::new();
    let mut holders: HashMap<String, &str> = HashMap::new();
    for change in history.changes.iter().filter(|change| change.resource == Resource::Services) {
        if let Some(before) = held.remove(change.name.as_str()) {
            for place in places(before) {
                holders.remove(&place);
            }
        }
        if change.token.is_none() {
            continue;
        }
        // What nobody was shown, nobody can tell to be held twice.
        let Some(version) = truth.shown.get(&(change.resource, change.revision)) else { continue };
        for place in places(version) {
            if let Some(other) = holders.insert(place.clone(), &change.name) {
                findings.add(RULE, format!("{place} of {version:?} is that of {other}, too"));
            }
        }
        held.insert(&change.name, version);
    }
}

fn places(version: &Version) -> Vec<String> {
    let address = Some(version.address.clone()).filter(|address| !address.is_empty() && address != "None");
    let ports = version.ports.iter().map(|port| format!("node port {port}"));
    address.into_iter().chain(ports).collect()
}

/// An IPAddress: its name, and the service that it says it is of.
pub type Address = (String, String);

/// At rest: exactly the addresses that services have are taken.
pub fn addresses(services: &[Address], taken: &[Address], findings: &mut Findings) {
    let services: BTreeSet<&Address> = services.iter().collect();
    let taken: BTreeSet<&Address> = taken.iter().collect();
    for (address, service) in services.difference(&taken) {
        findings.add(RULE, format!("{address} of service {service} is not taken"));
    }
    for (address, service) in taken.difference(&services) {
        findings.add(RULE, format!("{address} is taken for service {service}, which does not have it"));
    }
    let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
    for (address, _) in &services {
        *holders.entry(address).or_default() += 1;
    }
    for (address, count) in holders.iter().filter(|(_, count)| **count > 1) {
        findings.add(RULE, format!("{count} services have {address}"));
    }
}

impl Findings {
    /// As a list, for rules that are asked on their own.
    pub fn into_violations(self) -> Vec<super::Violation> {
        self.0
    }
}
