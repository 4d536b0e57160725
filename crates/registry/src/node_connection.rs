//! The way to a node and to what runs on it, before anything is connected:
//! what `log`, `exec`, `attach`, `portforward` and `proxy` find out from objects.
//!
//! Pure: objects go in, an address or the reason why there is none comes out.

use std::net::IpAddr;

use serde_json::Value;
use sternpost_golang::strconv::{NumberError, go_quote};
use sternpost_meta::format::parse_ip;

use crate::{context::Cluster, object::Fields};

/// Where a kubelet listens when its node does not say.
pub const KUBELET_PORT: i64 = 10_250;

/// The kinds of address a node may have, best first.
const PREFERRED: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// Why there is no way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A 400.
    BadRequest(String),
    /// A 503.
    Unavailable(String),
    /// A 500 without a reason.
    Unexpected(String),
    /// A 404 for something of this name and resource.
    NotFound { resource: &'static str, name: String },
}

/// A host and a port; the port may be a name that nobody understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: String,
}

/// `host:port`, with brackets around an IPv6 address.
impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(out, "[{host}]:{port}") } else { write!(out, "{host}:{port}") }
    }
}

/// The container a request is about.
pub fn container<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, Refusal> {
    let (name, spec) = (pod.field("metadata").text("name"), pod.field("spec"));
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut all = lists.iter().flat_map(|list| spec.items(list)).map(|container| container.text("name"));
    if asked.is_empty() {
        return match spec.items("containers") {
            [only] => Ok(only.text("name")),
            _ => {
                let names: Vec<&str> = all.collect();
                let names = names.join(" ");
                let text =
                    format!("a container name must be specified for pod {name}, choose one of: [{names}]");
                Err(Refusal::BadRequest(text))
            }
        };
    }
    if all.any(|container| container == asked) {
        Ok(asked)
    } else {
        Err(Refusal::BadRequest(format!("container {asked} is not valid for pod {name}")))
    }
}

/// Where the kubelet of a node listens.
pub fn kubelet(node: &Value) -> Result<Address, Refusal> {
    let status = node.field("status");
    let addresses = status.items("addresses");
    let found = PREFERRED.iter().find_map(|kind| addresses.iter().find(|one| one.text("type") == *kind));
    let Some(found) = found else {
        let known = addresses.iter().map(|one| format!("{{{} {}}}", one.text("type"), one.text("address")));
        let known: Vec<String> = known.collect();
        let known = known.join(" ");
        let text = format!("no preferred addresses found; known addresses: [{known}]");
        return Err(Refusal::Unexpected(text));
    };
    let port = status.field("daemonEndpoints").field("kubeletEndpoint").int("Port");
    let port = port.filter(|port| *port != 0).unwrap_or(KUBELET_PORT).to_string();
    Ok(Address { host: found.text("address").to_owned(), port })
}

/// Where the kubelet of a pod's node listens. Upstream looks the node up while it answers for pods,
/// and says so.
pub fn kubelet_of_pod(pod: &Value, cluster: &dyn Cluster) -> Result<Address, Refusal> {
    let name = pod.field("spec").text("nodeName");
    let node = cluster.get("", "nodes", "", name);
    kubelet(&node.ok_or_else(|| Refusal::NotFound { resource: "pods", name: name.to_owned() })?)
}

/// What the id of a proxied object says: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyId<'a> {
    /// Empty, `http` or `https`.
    pub scheme: &'a str,
    pub name: &'a str,
    /// A number, a name, or nothing.
    pub port: &'a str,
}

impl<'a> ProxyId<'a> {
    /// `kind` is what an error calls it: `pod`.
    pub fn parse(id: &'a str, kind: &str) -> Result<Self, Refusal> {
        let parts: Vec<&str> = id.split(':').collect();
        let read = match *parts.as_slice() {
            [name] => Some(Self { scheme: "", name, port: "" }),
            [name, port] => Some(Self { scheme: "", name, port }),
            [scheme @ ("" | "http" | "https"), name, port] => Some(Self { scheme, name, port }),
            _ => None,
        };
        read.filter(|id| !id.name.is_empty())
            .ok_or_else(|| Refusal::BadRequest(format!("invalid {kind} request {}", go_quote(id))))
    }

    /// The port that goes without saying.
    fn usual_port(&self) -> &'static str {
        if self.scheme == "https" { "443" } else { "80" }
    }
}

/// Where a request to a node goes.
pub fn node_proxy(id: ProxyId<'_>, node: &Value) -> Result<Address, Refusal> {
    let mut address = kubelet(node)?;
    // Names are not looked up here, but this one is known to lead home.
    let leads_home = address.host.eq_ignore_ascii_case("localhost");
    if leads_home || parse_ip(&address.host).is_some_and(|ip| !is_proxyable(ip.address)) {
        return Err(not_allowed());
    }
    if !id.port.is_empty() {
        id.port.clone_into(&mut address.port);
    }
    Ok(address)
}

/// Where a request to a pod goes.
pub fn pod_proxy(id: ProxyId<'_>, pod: &Value) -> Result<Address, Refusal> {
    let spec = pod.field("spec");
    let port = match id.port {
        "" => {
            let mut ports = spec.items("containers").iter().flat_map(|container| container.items("ports"));
            let first = ports.next().and_then(|port| port.int("containerPort"));
            first.map_or_else(|| id.usual_port().to_owned(), |port| port.to_string())
        }
        asked => asked.to_owned(),
    };
    let host = pod_ips(pod).next().unwrap_or_default();
    match parse_ip(host) {
        Some(ip) if is_proxyable(ip.address) => Ok(Address { host: host.to_owned(), port }),
        _ => Err(not_allowed()),
    }
}

/// Where a request to a service goes, by the endpoints of its name. `id_text` is
/// the id as it was sent, `pod` finds a pod of the namespace by name, `choose`
/// picks one of so many.
pub fn service_proxy(
    id: ProxyId<'_>,
    id_text: &str,
    port_name: &str,
    endpoints: &Value,
    pod: &dyn Fn(&str) -> Option<Value>,
    choose: &mut dyn FnMut(usize) -> usize,
) -> Result<Address, Refusal> {
    let none = |whose: &str| {
        Err(Refusal::Unavailable(format!("no endpoints available for service {}", go_quote(whose))))
    };
    if endpoints.items("subsets").is_empty() {
        return none(id.name);
    }
    let namespace = endpoints.field("metadata").text("namespace");
    let is_there = |address: &Value| {
        let target = address.field("targetRef");
        target.text("namespace") == namespace
            && pod(target.text("name")).is_some_and(|pod| pod_ips(&pod).any(|ip| ip == address.text("ip")))
    };
    let mut ways: Vec<Address> = Vec::new();
    for subset in endpoints.items("subsets") {
        let port = subset.items("ports").iter().find(|port| port.text("name") == port_name);
        let Some(port) = port.and_then(|port| port.int("port")) else { continue };
        for address in subset.items("addresses").iter().filter(|address| is_there(address)) {
            ways.push(Address { host: address.text("ip").to_owned(), port: port.to_string() });
        }
    }
    if ways.is_empty() {
        return none(id_text);
    }
    let chosen = choose(ways.len()) % ways.len();
    Ok(ways.swap_remove(chosen))
}

/// Where a request to a service goes, by way of the endpoints that have its name.
pub fn way_to_service(namespace: &str, id_text: &str, cluster: &dyn Cluster) -> Result<Address, Refusal> {
    let id = ProxyId::parse(id_text, "service")?;
    let of = |plural: &str, name: &str| cluster.get("", plural, namespace, name);
    // Upstream has the service's name in both errors.
    let missing = || Refusal::NotFound { resource: "services", name: id.name.to_owned() };
    let service = match port_number(id) {
        Some(_) => of("services", id.name).ok_or_else(missing)?,
        None => Value::Null,
    };
    let port = service_port_name(id, &service)?;
    let endpoints = of("endpoints", id.name).ok_or_else(missing)?;
    let pod = |name: &str| of("pods", name);
    // One is as good as another where none is connected to.
    let mut first = |_| 0;
    service_proxy(id, id_text, port, &endpoints, &pod, &mut first)
}

/// The name that a service gives the port of an id. A number has to be one of
/// its ports; anything else is a name already.
pub fn service_port_name<'a>(id: ProxyId<'a>, service: &'a Value) -> Result<&'a str, Refusal> {
    let Some(number) = port_number(id) else { return Ok(id.port) };
    let mut ports = service.field("spec").items("ports").iter();
    let port = ports.find(|port| port.int("port") == Some(number));
    port.map(|port| port.text("name")).ok_or_else(|| {
        let service = go_quote(id.name);
        Refusal::Unavailable(format!("no service port {number} found for service {service}"))
    })
}

/// The port of an id, if it is a number.
pub fn port_number(id: ProxyId<'_>) -> Option<i64> {
    id.port.parse().ok()
}

/// Whether an address may be asked for at all: not this machine, its
/// neighbourhood or several machines at once.
pub fn is_proxyable(address: IpAddr) -> bool {
    let special = match address {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => return is_proxyable(IpAddr::V4(ip)),
            None => ip.is_unicast_link_local(),
        },
    };
    !special && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

fn pod_ips(pod: &Value) -> impl Iterator<Item = &str> {
    pod.field("status").items("podIPs").iter().map(|ip| ip.text("ip"))
}

fn not_allowed() -> Refusal {
    Refusal::BadRequest("address not allowed".into())
}

/// The ports a pod's query names, in all its values: numbers between commas.
/// The error is that of Go's parser.
pub fn forwarded_ports<'a>(values: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, Refusal> {
    let mut ports = Vec::new();
    for text in values.flat_map(|value| value.split(',')) {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse().ok().filter(|_| is_number).ok_or_else(|| {
            let error = if is_number { NumberError::Range } else { NumberError::Syntax };
            Refusal::BadRequest(format!("cannot convert to []int32: {}", error.text("ParseUint", text)))
        })?;
        ports.push(port);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_name_a_scheme_an_object_and_a_port() {
        for (id, expected) in [
            ("a", Some(("", "a", ""))),
            ("a:", Some(("", "a", ""))),
            ("a:80", Some(("", "a", "80"))),
            ("a:web", Some(("", "a", "web"))),
            ("https:a:", Some(("https", "a", ""))),
            (":a:80", Some(("", "a", "80"))),
            ("ftp:a:80", None),
            ("http::80", None),
            (":80", None),
            ("a:b:c:d", None),
        ] {
            let read = ProxyId::parse(id, "pod").ok().map(|id| (id.scheme, id.name, id.port));
            assert_eq!(read, expected, "{id}");
        }
        let refused = Refusal::BadRequest("invalid node request \"ftp:a:80\"".into());
        assert_eq!(ProxyId::parse("ftp:a:80", "node"), Err(refused));
    }

    #[test]
    fn nothing_near_home_is_asked_for() {
        for (address, allowed) in [
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("fd00::1", true),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("169.254.169.254", false),
            ("fe80::1", false),
            ("224.0.0.1", false),
            ("ff02::1", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_proxyable(address.parse().unwrap()), allowed, "{address}");
        }
        let node = json!({"status": {"addresses": [{"type": "Hostname", "address": "LocalHost"}]}});
        let id = ProxyId::parse("n", "node").unwrap();
        assert_eq!(node_proxy(id, &node), Err(not_allowed()));
    }

    #[test]
    fn every_way_to_a_service_can_be_chosen() {
        let pods = |name: &str| {
            (name == "p").then(|| json!({"status": {"podIPs": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]}}))
        };
        let address =
            |ip: &str| json!({"ip": ip, "targetRef": {"kind": "Pod", "namespace": "n", "name": "p"}});
        let endpoints = json!({"metadata": {"namespace": "n"}, "subsets": [
            {"addresses": [address("192.0.2.1"), address("192.0.2.2"), address("192.0.2.3")], "ports": [{"port": 1}]},
        ]});
        let id = ProxyId::parse("s", "service").unwrap();
        let hosts: Vec<String> = (0..2)
            .map(|wanted| {
                let mut choose = |count: usize| {
                    assert_eq!(count, 2);
                    wanted
                };
                service_proxy(id, "s", "", &endpoints, &pods, &mut choose).unwrap().to_string()
            })
            .collect();
        assert_eq!(hosts, ["192.0.2.1:1", "192.0.2.2:1"]);
    }
}
