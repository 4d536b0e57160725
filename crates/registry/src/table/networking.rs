//! Ingresses, network policies, addresses and endpoint slices.

use serde_json::Value;

use super::text::{first, join, load_balancer, or, selector};
use super::{AGE, Cell, Column, NAME, NONE, UNSET, column, computed, text};
use crate::object::Fields;

pub(super) const GROUP: &str = "networking.k8s.io";

/// Hosts, ports and addresses that are shown before they are only counted.
const SHOWN: usize = 3;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "IPAddress" => IP_ADDRESS,
        "Ingress" => INGRESS,
        "IngressClass" => INGRESS_CLASS,
        "NetworkPolicy" => NETWORK_POLICY,
        "ServiceCIDR" => SERVICE_CIDR,
        _ => return None,
    })
}

pub(super) static ENDPOINT_SLICE: &[Column] = &[
    NAME,
    text("AddressType", "/addressType", "IPv4, IPv6 or FQDN."),
    computed("Ports", slice_ports, "Ports that all the endpoints serve on."),
    computed("Endpoints", slice_addresses, "Addresses, ready or not."),
    AGE,
];

static IP_ADDRESS: &[Column] = &[NAME, computed("ParentRef", parent, "The object that uses the address.")];

static INGRESS: &[Column] = &[
    NAME,
    column("Class", Cell::SetOr("/spec/ingressClassName", NONE), "The class whose controller serves it."),
    computed("Hosts", hosts, "Host names that rules are for."),
    computed("Address", |ingress| load_balancer(ingress).into(), "Where the load balancer is reached."),
    computed("Ports", ports, "Ports that are open."),
    AGE,
];

static INGRESS_CLASS: &[Column] = &[
    computed("Name", class_name, "Name of the class, and whether it is the default.").identifying(),
    text("Controller", "/spec/controller", "Which controller serves the class."),
    computed("Parameters", parameters, "The object that holds the controller's settings."),
    AGE,
];

static NETWORK_POLICY: &[Column] = &[
    NAME,
    computed(
        "Pod-Selector",
        |policy| selector(policy.field("spec").field("podSelector")),
        "Labels of the pods that the policy is for.",
    ),
    AGE,
];

static SERVICE_CIDR: &[Column] = &[
    NAME,
    computed(
        "CIDRs",
        |cidr| join(cidr.field("spec").items("cidrs")).into(),
        "Ranges that services get their addresses from.",
    ),
    AGE,
];

const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

fn slice_ports(slice: &Value) -> Value {
    let port = |port: &Value| match (port.int("port"), port.get_field("name")) {
        (Some(number), _) => number.to_string(),
        (None, Some(_)) => port.text("name").to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = slice.items("ports").iter().map(port).collect();
    some(&ports)
}

fn slice_addresses(slice: &Value) -> Value {
    let addresses = slice.items("endpoints").iter().flat_map(|endpoint| endpoint.items("addresses"));
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    some(&addresses)
}

fn some(texts: &[String]) -> Value {
    if texts.is_empty() { UNSET.into() } else { first(SHOWN, ",", texts).into() }
}

fn parent(address: &Value) -> Value {
    let Some(parent) = address.field("spec").get_field("parentRef") else { return NONE.into() };
    let mut text = parent.text("resource").to_owned();
    for (separator, field) in [('.', "group"), ('/', "namespace")] {
        if !parent.text(field).is_empty() {
            text.push(separator);
            text.push_str(parent.text(field));
        }
    }
    format!("{}/{}", text.to_lowercase(), parent.text("name")).into()
}

/// Rules without a host are not shown, but count once three hosts are.
fn hosts(ingress: &Value) -> Value {
    let rules = ingress.field("spec").items("rules");
    let mut named = rules.iter().enumerate().filter(|(_, rule)| !rule.text("host").is_empty());
    let shown: Vec<(usize, &str)> =
        named.by_ref().take(SHOWN).map(|(index, rule)| (index, rule.text("host"))).collect();
    let text = shown.iter().map(|&(_, host)| host).collect::<Vec<_>>().join(",");
    match shown.get(SHOWN - 1) {
        Some(&(last, _)) if last + 1 < rules.len() => {
            format!("{text} + {} more...", rules.len() - SHOWN).into()
        }
        _ => or(text, "*").into(),
    }
}

fn ports(ingress: &Value) -> Value {
    if ingress.field("spec").items("tls").is_empty() { "80".into() } else { "80, 443".into() }
}

fn class_name(class: &Value) -> Value {
    let metadata = class.field("metadata");
    let name = metadata.text("name");
    match metadata.field("annotations").text(DEFAULT_CLASS) {
        "true" => format!("{name} (default)").into(),
        _ => name.into(),
    }
}

fn parameters(class: &Value) -> Value {
    let Some(parameters) = class.field("spec").get_field("parameters") else { return NONE.into() };
    let (kind, name) = (parameters.text("kind"), parameters.text("name"));
    match parameters.get_field("apiGroup").and_then(Value::as_str) {
        Some(group) => format!("{kind}.{group}/{name}").into(),
        None => format!("{kind}/{name}").into(),
    }
}
