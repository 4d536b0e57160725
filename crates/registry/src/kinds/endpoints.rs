//! `Endpoints`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, dns_subdomain, ip_legacy, port_number, qualified_name},
};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{MetadataCheck, Strategy},
    validation::{
        form::{must_be, named, same},
        ip_ranges::{ip_warning, validate_non_special},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update: |object, old, errors| {
        // What was stored before a rule existed may stay as it is.
        if !same(object.field("subsets"), old.field("subsets")) {
            validate(object, errors);
        }
    },
    warnings,
    create_on_update: true,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    columns: columns::COLUMNS,
    storage_prefix: Some("services/endpoints"),
    ..Strategy::of("", "Endpoints")
};

/// Protocols of services and their endpoints, as messages list them.
pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

fn default(object: &mut Value) {
    for subset in object.items_mut("subsets") {
        for port in subset.items_mut("ports") {
            port.default_field("protocol", "TCP");
        }
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    let list = Path::new("subsets");
    for (index, subset) in object.items("subsets").iter().enumerate() {
        let path = list.index(index);
        if subset.items("addresses").is_empty() && subset.items("notReadyAddresses").is_empty() {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for name in ["addresses", "notReadyAddresses"] {
            let addresses = path.child(name);
            for (index, address) in subset.items(name).iter().enumerate() {
                validate_address(address, &addresses.index(index), errors);
            }
        }
        let ports = path.child("ports");
        let several = subset.items("ports").len() > 1;
        for (index, port) in subset.items("ports").iter().enumerate() {
            let path = ports.index(index);
            let name = port.text("name");
            if several && name.is_empty() {
                errors.required(path.child("name"), "");
            } else if !name.is_empty() {
                must_be(dns_label, name, path.child("name"), errors);
            }
            validate_port_number(port.int("port"), path.child("port"), errors);
            validate_protocol(port.text("protocol"), path.child("protocol"), errors);
            if let Some(protocol) = port.get_field("appProtocol").and_then(Value::as_str) {
                must_be(qualified_name, protocol, path.child("appProtocol"), errors);
            }
        }
    }
}

fn validate_address(address: &Value, path: &Path<'_>, errors: &mut Errors) {
    must_be(ip_legacy, address.text("ip"), path.child("ip"), errors);
    if !address.text("hostname").is_empty() {
        must_be(dns_label, address.text("hostname"), path.child("hostname"), errors);
    }
    if let Some(node) = address.get_field("nodeName").and_then(Value::as_str) {
        must_be(dns_subdomain, node, path.child("nodeName"), errors);
    }
    validate_non_special(address.text("ip"), path.child("ip"), errors);
}

/// A number that is not set counts as 0.
pub fn validate_port_number(port: Option<i64>, path: Path<'_>, errors: &mut Errors) {
    let port = port.unwrap_or_default();
    for problem in port_number(port) {
        errors.invalid(path, port, &problem);
    }
}

pub fn validate_protocol(protocol: &str, path: Path<'_>, errors: &mut Errors) {
    if protocol.is_empty() {
        errors.required(path, "");
    } else if !PROTOCOLS.contains(&protocol) {
        errors.not_supported(path, named(protocol), &PROTOCOLS);
    }
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let list = Path::new("subsets");
    let mut warnings = Vec::new();
    for (index, subset) in object.items("subsets").iter().enumerate() {
        let path = list.index(index);
        for name in ["addresses", "notReadyAddresses"] {
            let list = path.child(name);
            for (index, address) in subset.items(name).iter().enumerate() {
                warnings.extend(ip_warning(address.text("ip"), list.index(index).child("ip")));
            }
        }
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, NONE, computed, text::first},
    };

    /// Addresses of an Endpoints object that are shown before they are only counted.
    const SHOWN_ENDPOINTS: usize = 3;

    pub(super) const COLUMNS: &[Column] =
        &[NAME, computed("Endpoints", endpoints, "Addresses that are ready, with their ports."), AGE];

    fn endpoints(object: &Value) -> Value {
        let subsets = object.items("subsets");
        if subsets.is_empty() {
            return NONE.into();
        }
        let mut texts = Vec::new();
        for subset in subsets {
            let addresses = || subset.items("addresses").iter().map(|address| address.text("ip"));
            let ports = subset.items("ports");
            if ports.is_empty() {
                texts.extend(addresses().map(str::to_owned));
            }
            for port in ports {
                let port = port.int("port").unwrap_or_default();
                texts.extend(addresses().map(|ip| {
                    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                }));
            }
        }
        first(SHOWN_ENDPOINTS, ",", &texts).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_in_another_form_are_warned_of() {
        let object = json!({"subsets": [
            {"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "2001:DB8::2"}]},
        ]});
        assert_eq!(
            warnings(&object, None),
            [
                "subsets[0].notReadyAddresses[0].ip: IPv6 address \"2001:DB8::2\" should be in RFC 5952 canonical format (\"2001:db8::2\")"
            ]
        );
    }
}
