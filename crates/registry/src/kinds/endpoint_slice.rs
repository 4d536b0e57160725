//! `EndpointSlice`

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{Problems, dns_label, dns_subdomain, ip_legacy, ip_strict, label_value, qualified_name},
};

use super::endpoints::validate_protocol;
use crate::{
    object::{Fields, FieldsMut},
    strategy::{Generation, MetadataCheck, Strategy},
    validation::{
        form::{must_be, named, same, texts},
        ip_ranges::{Family, family_of_ip, validate_non_special},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: drop_topology,
    prepare_update: |object, _| drop_topology(object),
    validate: |object, errors| {
        validate_slice(object, errors);
        validate_endpoints(object, errors);
    },
    validate_update,
    warnings,
    generation: Generation::Tracks(&["endpoints", "ports", "addressType", "metadata.labels"]),
    checks_again: &[MetadataCheck::Written],
    columns: columns::COLUMNS,
    ..Strategy::of("discovery.k8s.io", "EndpointSlice")
};

pub const MAX_ENDPOINTS: usize = 1000;
pub const MAX_PORTS: usize = 20_000;
pub const MAX_ADDRESSES: usize = 100;
/// Of each kind: zones and nodes.
pub const MAX_HINTS: usize = 8;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];

fn default(object: &mut Value) {
    for port in object.items_mut("ports") {
        if !port.has("name") {
            port.set("name", "");
        }
        if !port.has("protocol") {
            port.set("protocol", "TCP");
        }
    }
}

/// The field is of an API version that is gone.
fn drop_topology(object: &mut Value) {
    for endpoint in object.items_mut("endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    validate_slice(object, errors);
    // What was stored before a rule existed may stay as it is.
    if !same(object.field("endpoints"), old.field("endpoints")) {
        validate_endpoints(object, errors);
    }
    let address_type = object.text("addressType");
    if address_type != old.text("addressType") {
        errors.invalid(Path::new("addressType"), named(address_type), "field is immutable");
    }
}

/// All but the endpoints.
fn validate_slice(object: &Value, errors: &mut Errors) {
    let address_type = object.text("addressType");
    if address_type.is_empty() {
        errors.required(Path::new("addressType"), "");
    } else if !ADDRESS_TYPES.contains(&address_type) {
        errors.not_supported(Path::new("addressType"), named(address_type), &ADDRESS_TYPES);
    }
    let ports = object.items("ports");
    let list = Path::new("ports");
    if ports.len() > MAX_PORTS {
        errors.too_many(list, ports.len(), MAX_PORTS);
        return;
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = list.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            must_be(dns_label, name, path.child("name"), errors);
        }
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        validate_protocol(port.text("protocol"), path.child("protocol"), errors);
        if let Some(protocol) = port.get_field("appProtocol").and_then(Value::as_str) {
            must_be(qualified_name, protocol, path.child("appProtocol"), errors);
        }
    }
}

fn validate_endpoints(object: &Value, errors: &mut Errors) {
    let endpoints = object.items("endpoints");
    let list = Path::new("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.too_many(list, endpoints.len(), MAX_ENDPOINTS);
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = list.index(index);
        let count = endpoint.items("addresses").len();
        let addresses = path.child("addresses");
        if count == 0 {
            errors.required(addresses, "must contain at least 1 address");
        } else if count > MAX_ADDRESSES {
            errors.too_many(addresses, count, MAX_ADDRESSES);
        }
        for (index, address) in texts(endpoint, "addresses").enumerate() {
            validate_address(object.text("addressType"), address, &addresses, index, errors);
        }
        if let Some(node) = endpoint.get_field("nodeName").and_then(Value::as_str) {
            must_be(dns_subdomain, node, path.child("nodeName"), errors);
        }
        if let Some(hostname) = endpoint.get_field("hostname").and_then(Value::as_str) {
            must_be(dns_label, hostname, path.child("hostname"), errors);
        }
        validate_hints(endpoint.field("hints"), &path.child("hints"), errors);
    }
}

fn validate_address(address_type: &str, address: &str, list: &Path<'_>, index: usize, errors: &mut Errors) {
    let path = list.index(index);
    match address_type {
        "IPv4" => validate_ip(ip_legacy, Family::IPv4, address, list, path, errors),
        "IPv6" => validate_ip(ip_strict, Family::IPv6, address, list, path, errors),
        "FQDN" => validate_fqdn(address, path, errors),
        _ => {}
    }
}

/// Bad text ends it; what is merely of the other family may be special as well.
fn validate_ip(
    form: fn(&str) -> Problems,
    wanted: Family,
    address: &str,
    list: &Path<'_>,
    path: Path<'_>,
    errors: &mut Errors,
) {
    let problems = form(address);
    for problem in &problems {
        errors.invalid(path, address, problem);
    }
    if !problems.is_empty() {
        return;
    }
    if family_of_ip(address) != Some(wanted) {
        errors.invalid(list, address, &format!("must be an {} address", wanted.name()));
    }
    validate_non_special(address, path, errors);
}

fn validate_fqdn(address: &str, path: Path<'_>, errors: &mut Errors) {
    if address.is_empty() {
        errors.required(path, "");
        return;
    }
    let name = address.strip_suffix('.').unwrap_or(address);
    let problems = dns_subdomain(name);
    if !problems.is_empty() {
        errors.invalid(path, address, &problems.join(","));
    } else if !name.contains('.') {
        let text = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, address, text);
    }
}

fn validate_hints(hints: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kinds = [("forZones", label_value as fn(&str) -> Problems), ("forNodes", dns_subdomain)];
    for (name, form) in kinds {
        let list = path.child(name);
        let count = hints.items(name).len();
        if count > MAX_HINTS {
            errors.too_many(list, count, MAX_HINTS);
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, hint) in hints.items(name).iter().enumerate() {
            let path = list.index(index);
            let hint = hint.text("name");
            if !seen.insert(hint) {
                errors.duplicate(path.child("name"), hint);
            }
            must_be(form, hint, path.child("name"), errors);
        }
    }
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let deprecated = object.text("addressType") == "FQDN";
    deprecated.then(|| "spec.addressType: FQDN endpoints are deprecated".into()).into_iter().collect()
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Column, NAME, UNSET, computed, text,
            text::{SHOWN, first},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("AddressType", "/addressType", "IPv4, IPv6 or FQDN."),
        computed("Ports", slice_ports, "Ports that all the endpoints serve on."),
        computed("Endpoints", slice_addresses, "Addresses, ready or not."),
        AGE,
    ];

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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        (STRATEGY.validate)(object, &mut errors);
        errors.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn lists_end_at_their_limits() {
        let endpoints = |count| vec![json!({"addresses": ["10.1.2.3"]}); count];
        let ports = |count| (0..count).map(|n| json!({"name": format!("p{n}"), "protocol": "TCP"})).collect();
        for (slice, expected) in [
            (json!({"addressType": "IPv4", "endpoints": endpoints(MAX_ENDPOINTS)}), &[][..]),
            (json!({"addressType": "IPv4", "endpoints": endpoints(MAX_ENDPOINTS + 1)}), &["endpoints"]),
            (json!({"addressType": "IPv4", "ports": Value::Array(ports(MAX_PORTS))}), &[]),
            (json!({"addressType": "IPv4", "ports": Value::Array(ports(MAX_PORTS + 1))}), &["ports"]),
        ] {
            assert_eq!(fields(&slice), expected);
        }
    }
}
