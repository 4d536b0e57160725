//! Addresses and ports for services.
//!
//! Pure: what is in use comes in as [`Pool`], what a write takes and gives back
//! goes out as [`Change`], and nothing is taken unless the caller stores it.
//! [`allocate_create`] and [`allocate_update`] run after the preparation of a
//! write and before its validation; what they refuse is the whole answer.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use serde_json::{Value, json};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::parse_ip,
    status::Status,
};

use super::{
    HEADLESS, allocates_node_ports, has_cluster_ip, has_health_check, has_node_ports, is_headless,
    node_ports, validate_addresses,
};
use crate::{
    context::{Cluster, Context},
    object::{Fields, FieldsMut},
    strategy::{Allocated, Allocation, Claim, ClaimKey},
    validation::{
        form::{named, pointer, same, texts},
        ip_ranges::{Family, contains, parse_cidr},
    },
};

/// The range services get their addresses from unless told otherwise.
pub const DEFAULT_RANGE: &str = "10.0.0.0/24";
/// The range node ports are from unless told otherwise.
pub const DEFAULT_NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// What a server gives its services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// As network and prefix length: of one family, or the second of the other one.
    pub addresses: Vec<(IpAddr, u8)>,
    pub node_ports: RangeInclusive<u16>,
}

impl Default for Ranges {
    fn default() -> Self {
        Self { addresses: parse_cidr(DEFAULT_RANGE).into_iter().collect(), node_ports: DEFAULT_NODE_PORTS }
    }
}

impl Ranges {
    /// That of the service `kubernetes`: the first of the first range.
    pub fn first_address(&self) -> Option<IpAddr> {
        self.addresses.first().map(|(network, _)| match network {
            IpAddr::V4(network) => IpAddr::from(Ipv4Addr::from(u32::from(*network).saturating_add(1))),
            IpAddr::V6(network) => IpAddr::from(Ipv6Addr::from(u128::from(*network).saturating_add(1))),
        })
    }

    /// As objects spell them.
    pub fn cidrs(&self) -> Vec<String> {
        self.addresses.iter().map(|(network, length)| format!("{network}/{length}")).collect()
    }
}

/// What there is to take, and what is taken.
#[derive(Debug, Clone, Copy)]
pub struct Pool<'a> {
    /// The ranges of addresses, as network and prefix length. The family of the first is the primary one.
    pub ranges: &'a [(IpAddr, u8)],
    pub node_ports: &'a RangeInclusive<u16>,
    pub used_addresses: &'a BTreeSet<IpAddr>,
    /// Node ports and health check ports alike; the protocol makes no difference.
    pub used_ports: &'a BTreeSet<u16>,
}

/// What a write takes from the pool and gives back to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub claimed: Claims,
    pub released: Claims,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub addresses: BTreeSet<IpAddr>,
    pub ports: BTreeSet<u16>,
}

/// Why a service gets nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A 422 with these causes and no others.
    Invalid(Errors),
    /// A 500 with reason `InternalError`; the text follows `Internal error occurred: `.
    Internal(String),
    /// A 500 without reason; the text is the whole message.
    Unexpected(String),
}

/// Chooses one of so many candidates: the caller's source of randomness.
pub type Choose<'a> = &'a mut dyn FnMut(usize) -> usize;

/// What the strategy of services claims beside the service.
pub const ALLOCATION: Allocation = Allocation {
    create: |service, context| {
        claims(service, context, |service, pool, choose| allocate_create(service, pool, choose))
    },
    update: |service, old, context| {
        claims(service, context, |service, pool, choose| allocate_update(service, old, pool, choose))
    },
    release: |service| given_back(&held(service)),
};

/// Of addresses and of the ranges they come from.
const NETWORKING: &str = "networking.k8s.io";
const ADDRESSES: &str = "ipaddresses";
const RANGES: &str = "servicecidrs";
/// As what claims of ports are kept, by their number. Not a group that is served: they are nobody's objects.
pub const GROUP: &str = "internal.sternpost";
pub const PORTS: &str = "serviceports";

fn claims(
    service: &mut Value,
    context: &Context<'_>,
    allocate: impl FnOnce(&mut Value, &Pool<'_>, Choose<'_>) -> Result<Change, Refusal>,
) -> Result<Allocated, Status> {
    let cluster = context.cluster;
    // Whether an address that is asked for is free is not looked at for show, as upstream.
    let used_addresses: BTreeSet<IpAddr> =
        if context.is_dry_run { BTreeSet::new() } else { names(cluster, NETWORKING, ADDRESSES) };
    let used_ports: BTreeSet<u16> = names(cluster, GROUP, PORTS);
    let pool = Pool {
        ranges: &ranges(cluster),
        node_ports: &cluster.service_ranges().node_ports,
        used_addresses: &used_addresses,
        used_ports: &used_ports,
    };
    let change = allocate(service, &pool, &mut |candidates| cluster.choose(candidates))
        .map_err(|refusal| refused(service, refusal))?;
    let metadata = service.field("metadata");
    let addresses = change
        .claimed
        .addresses
        .iter()
        .map(|address| Claim { key: address_key(address), object: Some(ip_address(metadata, *address)) });
    let ports = change.claimed.ports.iter().map(|port| Claim { key: port_key(port), object: None });
    Ok(Allocated { taken: addresses.chain(ports).collect(), given_back: given_back(&change.released) })
}

/// The server's own ranges, and those that were added to them.
fn ranges(cluster: &dyn Cluster) -> Vec<(IpAddr, u8)> {
    let own = &cluster.service_ranges().addresses;
    let mut ranges = own.clone();
    for object in cluster.list(NETWORKING, RANGES, None) {
        if object.field("metadata").has("deletionTimestamp") {
            continue;
        }
        let texts = object.field("spec").items("cidrs").iter().filter_map(Value::as_str);
        for range in texts.filter_map(parse_cidr) {
            // More addresses, but no other family than the server began with.
            let same = own.iter().any(|own| Family::of(own.0) == Family::of(range.0));
            if same && !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    ranges
}

/// The names of all objects of a resource.
fn names<T: std::str::FromStr + Ord>(cluster: &dyn Cluster, group: &str, plural: &str) -> BTreeSet<T> {
    let mut names = BTreeSet::new();
    cluster.each_name(group, plural, &mut |name| names.extend(name.parse::<T>().ok()));
    names
}

/// An `IPAddress` as upstream's allocator makes it, but for what the server adds
/// to every object. `service` is the metadata of its holder.
pub fn ip_address(service: &Value, address: IpAddr) -> Value {
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

fn given_back(claims: &Claims) -> Vec<ClaimKey> {
    claims.addresses.iter().map(address_key).chain(claims.ports.iter().map(port_key)).collect()
}

fn address_key(address: &IpAddr) -> ClaimKey {
    ClaimKey { group: NETWORKING, version: "v1", plural: ADDRESSES, name: address.to_string() }
}

fn port_key(port: &u16) -> ClaimKey {
    ClaimKey { group: GROUP, version: "v1", plural: PORTS, name: port.to_string() }
}

fn refused(service: &Value, refusal: Refusal) -> Status {
    match refusal {
        Refusal::Invalid(errors) => {
            let name = service.field("metadata").text("name");
            Status::invalid("", "Service", name, errors.into_causes())
        }
        Refusal::Internal(why) => Status::internal_error(&why),
        Refusal::Unexpected(message) => Status::unexpected(message),
    }
}

/// Fills in addresses, families and ports of a new service.
pub fn allocate_create(service: &mut Value, pool: &Pool<'_>, choose: Choose<'_>) -> Result<Change, Refusal> {
    let name = service.field("metadata").text("name").to_owned();
    let spec = service.object_mut("spec");
    init_families(spec, None, pool)?;
    let mut taking = Taking { pool, name, claimed: Claims::default() };
    taking.addresses(spec, choose)?;
    if has_node_ports(spec) {
        taking.new_ports(spec, choose)?;
    }
    taking.health_check_port(spec, choose)?;
    Ok(Change { claimed: taking.claimed, released: Claims::default() })
}

/// As [`allocate_create`], for a service that replaces another.
pub fn allocate_update(
    service: &mut Value,
    old: &Value,
    pool: &Pool<'_>,
    choose: Choose<'_>,
) -> Result<Change, Refusal> {
    let old = old.field("spec");
    let name = service.field("metadata").text("name").to_owned();
    let spec = service.object_mut("spec");
    init_families(spec, Some(old), pool)?;
    let mut taking = Taking { pool, name, claimed: Claims::default() };
    if has_cluster_ip(spec) && !has_cluster_ip(old) {
        taking.addresses(spec, choose)?;
    }
    if has_node_ports(spec) {
        taking.changed_ports(spec, old, choose)?;
    }
    if !has_health_check(old) {
        taking.health_check_port(spec, choose)?;
    }
    let (before, after) = (held_by(old), held_by(spec));
    let released = Claims {
        addresses: before.addresses.difference(&after.addresses).copied().collect(),
        ports: before.ports.difference(&after.ports).copied().collect(),
    };
    Ok(Change { claimed: taking.claimed, released })
}

/// What a stored service holds, to be given back when it is deleted.
pub fn held(service: &Value) -> Claims {
    held_by(service.field("spec"))
}

fn held_by(spec: &Value) -> Claims {
    let mut claims = Claims::default();
    if has_cluster_ip(spec) && !is_headless(spec) {
        claims.addresses = texts(spec, "clusterIPs").filter_map(|ip| Some(parse_ip(ip)?.address)).collect();
    }
    if has_node_ports(spec) {
        claims.ports.extend(node_ports(spec).filter_map(|port| u16::try_from(port).ok()));
    }
    if has_health_check(spec) {
        let port = spec.int("healthCheckNodePort").filter(|port| *port != 0);
        claims.ports.extend(port.and_then(|port| u16::try_from(port).ok()));
    }
    claims
}

/// Settles `ipFamilies` and `ipFamilyPolicy`.
fn init_families(spec: &mut Value, old: Option<&Value>, pool: &Pool<'_>) -> Result<(), Refusal> {
    let mut errors = Errors::default();
    validate_addresses(spec, old, &mut errors);
    refuse(errors)?;
    if !has_cluster_ip(spec) {
        return Ok(());
    }
    let old = old.filter(|old| has_cluster_ip(old));
    let asked = spec.items("ipFamilies").len();
    if let Some(old) = old {
        keep_families(spec, old);
    }
    // Such a service is a name only: its endpoints may be of families the cluster does not have.
    let free = is_headless(spec) && spec.entries("selector").next().is_none();
    if !spec.has("ipFamilyPolicy") {
        spec.set("ipFamilyPolicy", if free { "RequireDualStack" } else { "SingleStack" });
    }
    refuse(policy_errors(spec, old, pool))?;
    if !free {
        refuse(configuration_errors(spec, asked, pool))?;
    }
    let mut families: Vec<String> = texts(spec, "ipFamilies").map(str::to_owned).collect();
    for ip in texts(spec, "clusterIPs").skip(families.len()).filter(|ip| *ip != HEADLESS) {
        families.extend(parse_ip(ip).map(|ip| Family::of(ip.address).name().to_owned()));
    }
    let primary = pool.ranges.first().map_or(Family::IPv4, |range| Family::of(range.0));
    if families.is_empty() {
        families.push(primary.name().to_owned());
    }
    let wants_both = spec.text("ipFamilyPolicy") != "SingleStack";
    if wants_both && families.len() == 1 && (free || is_dual(pool)) {
        let other = if families.iter().any(|family| family == "IPv4") { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
    spec.set("ipFamilies", families);
    Ok(())
}

/// What is left out stays; going back to one family drops the second.
fn keep_families(spec: &mut Value, old: &Value) {
    for name in ["ipFamilies", "ipFamilyPolicy"] {
        let missing = !spec.has(name) || spec.field(name).as_array().is_some_and(Vec::is_empty);
        if let (true, Some(value)) = (missing, old.get_field(name)) {
            spec.set(name, value.clone());
        }
    }
    let downgrade =
        spec.text("ipFamilyPolicy") == "SingleStack" && old.text("ipFamilyPolicy") != "SingleStack";
    for name in ["clusterIPs", "ipFamilies"] {
        if downgrade && same(spec.field(name), old.field(name)) {
            let first: Vec<Value> = spec.items(name).iter().take(1).cloned().collect();
            spec.set(name, first);
        }
    }
}

/// Whether the policy fits what is asked for.
fn policy_errors(spec: &Value, old: Option<&Value>, pool: &Pool<'_>) -> Errors {
    let mut errors = Errors::default();
    let path = Path::new("spec");
    let policy = spec.text("ipFamilyPolicy");
    let plurals = [
        ("clusterIPs", "cluster IPs", "secondary cluster IP"),
        ("ipFamilies", "IP families", "secondary IP family"),
    ];
    for (name, several, _) in plurals {
        if policy == "SingleStack" && spec.items(name).len() > 1 {
            let problem = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified"
            );
            errors.invalid(path.child("ipFamilyPolicy"), named(policy), &problem);
        }
    }
    for (name, _, second) in plurals {
        let dropped = old.is_some_and(|old| old.items(name).len() > 1) && spec.items(name).len() == 1;
        if dropped && policy != "SingleStack" {
            let problem = format!("must be 'SingleStack' to release the {second}");
            errors.invalid(path.child("ipFamilyPolicy"), named(policy), &problem);
        }
    }
    // Addresses that have no family of their own in the list bring theirs.
    let known = spec.items("ipFamilies").len();
    for (index, ip) in texts(spec, "clusterIPs").enumerate().skip(known).filter(|(_, ip)| *ip != HEADLESS) {
        let Some(family) = parse_ip(ip).map(|ip| Family::of(ip.address)) else { continue };
        if !is_configured(pool, family) {
            let problem = format!("{} is not configured on this cluster", family.name());
            errors.invalid(path.child("clusterIPs").index(index), pointer(spec, "clusterIPs"), &problem);
        }
    }
    errors
}

/// Whether the cluster has what is asked for; of the families, so many are.
fn configuration_errors(spec: &Value, asked: usize, pool: &Pool<'_>) -> Errors {
    let mut errors = Errors::default();
    let path = Path::new("spec");
    let policy = spec.text("ipFamilyPolicy");
    if policy == "RequireDualStack" && !is_dual(pool) {
        let problem = "this cluster is not configured for dual-stack services";
        errors.invalid(path.child("ipFamilyPolicy"), named(policy), problem);
    }
    for (index, family) in texts(spec, "ipFamilies").enumerate().take(asked) {
        let configured = [Family::IPv4, Family::IPv6]
            .into_iter()
            .any(|candidate| candidate.name() == family && is_configured(pool, candidate));
        if !configured {
            let problem = "not configured on this cluster";
            errors.invalid(path.child("ipFamilies").index(index), named(family), problem);
        }
    }
    errors
}

fn is_configured(pool: &Pool<'_>, family: Family) -> bool {
    pool.ranges.iter().any(|range| Family::of(range.0) == family)
}

fn is_dual(pool: &Pool<'_>) -> bool {
    is_configured(pool, Family::IPv4) && is_configured(pool, Family::IPv6)
}

fn refuse(errors: Errors) -> Result<(), Refusal> {
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Invalid(errors)) }
}

/// A write on its way: what it has taken so far is not free for the rest of it.
struct Taking<'a> {
    pool: &'a Pool<'a>,
    /// The service's own, for messages.
    name: String,
    claimed: Claims,
}

impl Taking<'_> {
    fn addresses(&mut self, spec: &mut Value, choose: Choose<'_>) -> Result<(), Refusal> {
        if !has_cluster_ip(spec) || is_headless(spec) {
            return Ok(());
        }
        let asked: Vec<String> = texts(spec, "clusterIPs").map(str::to_owned).collect();
        let mut addresses = Vec::new();
        for (index, family) in texts(spec, "ipFamilies").enumerate() {
            let family = if family == "IPv6" { Family::IPv6 } else { Family::IPv4 };
            let address = match asked.get(index).and_then(|ip| Some((ip, parse_ip(ip)?.address))) {
                Some((text, address)) => self.given_address(address).map_err(|problem| {
                    let mut errors = Errors::default();
                    let path = Path::new("spec");
                    let list = BadValue::Json(asked.clone().into());
                    let problem = format!("failed to allocate IP {text}: {problem}");
                    errors.invalid(path.child("clusterIPs"), list, &problem);
                    Refusal::Invalid(errors)
                })?,
                None => self.free_address(family, choose).ok_or_else(|| {
                    let name = go_quote(&self.name);
                    Refusal::Internal(format!(
                        "failed to allocate a serviceIP for Service {name}: range is full"
                    ))
                })?,
            };
            self.claimed.addresses.insert(address);
            addresses.push(asked.get(index).cloned().unwrap_or_else(|| address.to_string()));
        }
        if let Some(first) = addresses.first() {
            spec.set("clusterIP", first.clone());
        }
        spec.set("clusterIPs", addresses);
        Ok(())
    }

    fn given_address(&self, address: IpAddr) -> Result<IpAddr, &'static str> {
        if !self.pool.ranges.iter().any(|range| is_usable(*range, address)) {
            return Err("the provided network does not match the current range");
        }
        if self.is_used(address) {
            return Err("provided IP is already allocated");
        }
        Ok(address)
    }

    /// From the upper part of the first range that has one free, else from its lower part,
    /// which is left to those who choose their address.
    fn free_address(&self, family: Family, choose: Choose<'_>) -> Option<IpAddr> {
        for range in self.pool.ranges.iter().filter(|range| Family::of(range.0) == family) {
            let (first, last) = usable(*range)?;
            let size = last.saturating_sub(first).saturating_add(1);
            let band = static_band(size, 16, 256);
            for (from, to) in
                [(first.saturating_add(band), last), (first, first.saturating_add(band).saturating_sub(1))]
            {
                let found = pick(from, to.min(last), choose, |number| {
                    let address = from_number(family, number)?;
                    (!self.is_used(address)).then_some(address)
                });
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    fn is_used(&self, address: IpAddr) -> bool {
        self.pool.used_addresses.contains(&address) || self.claimed.addresses.contains(&address)
    }

    /// Ports of a new service; protocols of one port number share a node port.
    fn new_ports(&mut self, spec: &mut Value, choose: Choose<'_>) -> Result<(), Refusal> {
        let allocates = allocates_node_ports(spec);
        let ports = spec.items("ports").to_vec();
        let number = |port: &Value| port.int("nodePort").unwrap_or_default();
        let mut settled: HashSet<(Option<i64>, i64)> = HashSet::new();
        let mut first: HashMap<Option<i64>, i64> = HashMap::new();
        // Where each number has a node port that is asked for, the last first.
        let mut asked_later: HashMap<Option<i64>, Vec<(usize, i64)>> = HashMap::new();
        for (index, port) in ports.iter().enumerate().rev().filter(|(_, port)| number(port) != 0) {
            asked_later.entry(port.int("port")).or_default().push((index, number(port)));
        }
        for (index, port) in ports.iter().enumerate() {
            let asked = number(port);
            let shared = |node_port: i64| settled.contains(&(port.int("port"), node_port));
            let node_port = if asked != 0 {
                if !shared(asked) {
                    self.given_port(asked).map_err(|problem| invalid_port(index, asked, &problem))?;
                }
                asked
            } else if !allocates {
                continue;
            } else {
                let sibling = first.get(&port.int("port")).copied();
                let mut later = asked_later.get_mut(&port.int("port"));
                if let Some(later) = &mut later {
                    while later.last().is_some_and(|(at, _)| *at <= index) {
                        later.pop();
                    }
                }
                let later = later.and_then(|later| later.last()).map(|(_, node_port)| *node_port);
                match (sibling, later) {
                    (Some(node_port), _) => node_port,
                    (None, Some(node_port)) => {
                        self.given_port(node_port)
                            .map_err(|problem| invalid_port(index, node_port, &problem))?;
                        node_port
                    }
                    (None, None) => i64::from(self.free_node_port(choose)?),
                }
            };
            settled.insert((port.int("port"), node_port));
            first.entry(port.int("port")).or_insert(node_port);
            if let Some(port) = spec.items_mut("ports").get_mut(index) {
                port.set("nodePort", node_port);
            }
        }
        Ok(())
    }

    /// Ports of a service that replaces another: what the old one held is its own.
    fn changed_ports(&mut self, spec: &mut Value, old: &Value, choose: Choose<'_>) -> Result<(), Refusal> {
        let allocates = allocates_node_ports(spec);
        let held: BTreeSet<i64> =
            if has_node_ports(old) { node_ports(old).collect() } else { BTreeSet::new() };
        let mut seen = BTreeSet::new();
        for (index, port) in spec.items_mut("ports").iter_mut().enumerate() {
            let asked = port.int("nodePort").unwrap_or_default();
            if asked == 0 {
                if allocates {
                    port.set("nodePort", self.free_node_port(choose)?);
                }
                continue;
            }
            if !seen.insert((port.text("protocol").to_owned(), asked)) {
                let text = format!("duplicate nodePort: {{{} {asked}}}", port.text("protocol"));
                return Err(Refusal::Unexpected(text));
            }
            if !held.contains(&asked) {
                self.given_port(asked).map_err(|problem| invalid_port(index, asked, &problem))?;
            }
        }
        Ok(())
    }

    fn health_check_port(&mut self, spec: &mut Value, choose: Choose<'_>) -> Result<(), Refusal> {
        if !has_health_check(spec) {
            return Ok(());
        }
        let asked = spec.int("healthCheckNodePort").unwrap_or_default();
        if asked == 0 {
            let port = self.free_port(choose).ok_or_else(|| {
                Refusal::Internal("failed to allocate a HealthCheck NodePort 0: range is full".into())
            })?;
            spec.set("healthCheckNodePort", port);
            return Ok(());
        }
        self.given_port(asked).map_err(|problem| {
            Refusal::Internal(format!("failed to allocate requested HealthCheck NodePort {asked}: {problem}"))
        })
    }

    fn given_port(&mut self, asked: i64) -> Result<(), String> {
        let range = self.pool.node_ports;
        let Some(port) = u16::try_from(asked).ok().filter(|port| range.contains(port)) else {
            let (first, last) = (range.start(), range.end());
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        };
        if self.pool.used_ports.contains(&port) || !self.claimed.ports.insert(port) {
            return Err("provided port is already allocated".into());
        }
        Ok(())
    }

    fn free_node_port(&mut self, choose: Choose<'_>) -> Result<u16, Refusal> {
        self.free_port(choose)
            .ok_or_else(|| Refusal::Internal("failed to allocate a nodePort: range is full".into()))
    }

    fn free_port(&mut self, choose: Choose<'_>) -> Option<u16> {
        let (first, last) =
            (u128::from(*self.pool.node_ports.start()), u128::from(*self.pool.node_ports.end()));
        let size = last.checked_sub(first)? + 1;
        let band = port_band(size);
        let free = |number: u128| {
            let port = u16::try_from(number).ok()?;
            let used = self.pool.used_ports.contains(&port) || self.claimed.ports.contains(&port);
            (!used).then_some(port)
        };
        let upper = pick(first + band, last, choose, free);
        let port = match upper {
            Some(port) => port,
            None => pick(first, (first + band).saturating_sub(1).min(last), choose, free)?,
        };
        self.claimed.ports.insert(port);
        Some(port)
    }
}

fn invalid_port(index: usize, port: i64, problem: &str) -> Refusal {
    let mut errors = Errors::default();
    let path = Path::new("spec");
    errors.invalid(path.child("ports").index(index).child("nodePort"), port, problem);
    Refusal::Invalid(errors)
}

/// The part of a range that is kept for those who choose: a sixteenth, within bounds.
fn static_band(size: u128, least: u128, most: u128) -> u128 {
    // A range too small to divide has no such part.
    if size < least { 0 } else { (size / 16).clamp(least, most) }
}

/// As [`static_band`], for ports: a thirty-second part.
fn port_band(size: u128) -> u128 {
    if size < 16 { 0 } else { (size / 32).clamp(16, 128) }
}

/// The first free number from a random place on, around the range.
fn pick<Found>(
    from: u128,
    to: u128,
    choose: Choose<'_>,
    free: impl Fn(u128) -> Option<Found>,
) -> Option<Found> {
    let size = to.checked_sub(from)?.saturating_add(1);
    let choices = usize::try_from(size).unwrap_or(usize::MAX);
    let start = (choose(choices) as u128).min(size - 1);
    (start..size).chain(0..start).find_map(|offset| free(from + offset))
}

/// The first and last address that may be given away, as numbers. The network
/// address is not one of them, nor is the last of an IPv4 range.
fn usable((network, length): (IpAddr, u8)) -> Option<(u128, u128)> {
    let (first, bits) = match network {
        IpAddr::V4(network) => (u128::from(u32::from(network)), 32_u32),
        IpAddr::V6(network) => (u128::from(network), 128),
    };
    let free = bits.checked_sub(u32::from(length))?;
    let last = first | 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
    match free {
        0 => Some((first, first)),
        1 => Some((first, last)),
        _ if bits == 32 => Some((first + 1, last - 1)),
        _ => Some((first + 1, last)),
    }
}

fn is_usable(range: (IpAddr, u8), address: IpAddr) -> bool {
    let number = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    contains(range, address) && usable(range).is_some_and(|(first, last)| (first..=last).contains(&number))
}

fn from_number(family: Family, number: u128) -> Option<IpAddr> {
    match family {
        Family::IPv4 => u32::try_from(number).ok().map(|number| IpAddr::V4(number.into())),
        Family::IPv6 => Some(IpAddr::V6(number.into())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{kinds::service::STRATEGY, validation::ip_ranges::parse_cidr};

    fn create(spec: &Value, range: &str, used: &[&str], ports: &[u16]) -> Result<Value, Refusal> {
        let mut service = json!({"metadata": {"name": "s"}, "spec": spec});
        (STRATEGY.default)(&mut service);
        (STRATEGY.prepare_create)(&mut service);
        let used_addresses = used.iter().map(|ip| ip.parse().unwrap()).collect();
        let used_ports = ports.iter().copied().collect();
        let pool = Pool {
            ranges: &[parse_cidr(range).unwrap()],
            node_ports: &DEFAULT_NODE_PORTS,
            used_addresses: &used_addresses,
            used_ports: &used_ports,
        };
        allocate_create(&mut service, &pool, &mut |_| 0)?;
        Ok(service["spec"].clone())
    }

    #[test]
    fn dynamic_addresses_leave_the_lower_part_to_those_who_choose() {
        let address = |range, used: &[&str]| {
            create(&json!({"ports": [{"port": 1}]}), range, used, &[]).map(|spec| spec["clusterIP"].clone())
        };
        assert_eq!(address("10.0.0.0/24", &[]), Ok(json!("10.0.0.17")));
        assert_eq!(address("10.0.0.0/24", &["10.0.0.17"]), Ok(json!("10.0.0.18")));
        // 4094 addresses: 255 of them below.
        assert_eq!(address("10.0.0.0/20", &[]), Ok(json!("10.0.1.0")));
        // Too small to divide.
        assert_eq!(address("10.0.0.0/29", &[]), Ok(json!("10.0.0.1")));
        assert_eq!(address("10.0.0.0/30", &["10.0.0.1"]), Ok(json!("10.0.0.2")));
        assert_eq!(
            address("10.0.0.0/30", &["10.0.0.1", "10.0.0.2"]),
            Err(Refusal::Internal("failed to allocate a serviceIP for Service \"s\": range is full".into()))
        );
    }

    #[test]
    fn dynamic_ports_leave_the_lower_86_to_those_who_choose() {
        let spec = json!({"type": "NodePort", "ports": [{"port": 1}]});
        let port = |ports: &[u16]| {
            create(&spec, "10.0.0.0/24", &[], ports).map(|spec| spec["ports"][0]["nodePort"].clone())
        };
        assert_eq!(port(&[]), Ok(json!(30_086)));
        let upper: Vec<u16> = (30_086..=32_767).collect();
        assert_eq!(port(&upper), Ok(json!(30_000)));
        let all: Vec<u16> = DEFAULT_NODE_PORTS.collect();
        assert_eq!(port(&all), Err(Refusal::Internal("failed to allocate a nodePort: range is full".into())));
    }

    #[test]
    fn an_update_gives_back_what_it_no_longer_holds() {
        let old = json!({"spec": {
            "type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [{"port": 1, "protocol": "TCP", "nodePort": 30001}],
        }});
        let used_addresses = BTreeSet::from(["10.0.0.9".parse().unwrap()]);
        let used_ports = BTreeSet::from([30_001]);
        let pool = Pool {
            ranges: &[parse_cidr(DEFAULT_RANGE).unwrap()],
            node_ports: &DEFAULT_NODE_PORTS,
            used_addresses: &used_addresses,
            used_ports: &used_ports,
        };
        let update = |spec: Value| {
            let mut service = json!({"spec": spec});
            (STRATEGY.default)(&mut service);
            (STRATEGY.prepare_update)(&mut service, &old);
            allocate_update(&mut service, &old, &pool, &mut |_| 0).unwrap()
        };
        assert_eq!(update(old["spec"].clone()), Change::default());
        let change = update(json!({"type": "ExternalName", "externalName": "a"}));
        assert_eq!((change.claimed, change.released), (Claims::default(), held(&old)));
        let change = update(json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30_002}]}));
        assert_eq!(change.claimed.ports, BTreeSet::from([30_002]));
        assert_eq!(change.released.ports, BTreeSet::from([30_001]));
        assert!(change.released.addresses.is_empty());
    }

    #[test]
    fn a_dual_stack_cluster_gives_both_families() {
        let ranges = [parse_cidr(DEFAULT_RANGE).unwrap(), parse_cidr("fd00::/112").unwrap()];
        let (used_addresses, used_ports) = (BTreeSet::new(), BTreeSet::new());
        let pool = Pool {
            ranges: &ranges,
            node_ports: &DEFAULT_NODE_PORTS,
            used_addresses: &used_addresses,
            used_ports: &used_ports,
        };
        let mut service = json!({"spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 1}]}});
        (STRATEGY.default)(&mut service);
        allocate_create(&mut service, &pool, &mut |_| 0).unwrap();
        assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        assert_eq!(service["spec"]["clusterIPs"], json!(["10.0.0.17", "fd00::101"]));
    }
}
