//! `NetworkPolicy`

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{cidr_legacy, port_name},
};

use super::endpoints::validate_port_number;
use crate::{
    object::{Fields, FieldsMut},
    strategy::{Generation, Strategy},
    validation::{
        form::{must_be, named, one_of, texts},
        ip_ranges::{cidr_warning, contains, parse_cidr},
        label_selector::{self, ExpressionValues},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate: |object, errors| validate(object, None, errors),
    validate_update: |object, old, errors| validate(object, Some(old), errors),
    warnings,
    generation: Generation::Tracks(&["spec"]),
    columns: columns::COLUMNS,
    ..Strategy::of("networking.k8s.io", "NetworkPolicy")
};

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
/// The list of rules, and the list of peers in each.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn default(object: &mut Value) {
    let spec = object.object_mut("spec");
    for (direction, _) in DIRECTIONS {
        for rule in spec.items_mut(direction) {
            for port in rule.items_mut("ports") {
                if !port.has("protocol") {
                    port.set("protocol", "TCP");
                }
            }
        }
    }
    if spec.items("policyTypes").is_empty() {
        let mut types: Vec<Value> = vec!["Ingress".into()];
        if !spec.items("egress").is_empty() {
            types.push("Egress".into());
        }
        spec.set("policyTypes", types);
    }
}

fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.field("spec");
    let path = Path::new("spec");
    let stored = Stored::of(old);
    label_selector::validate_with(
        spec.field("podSelector"),
        stored.expression_values,
        &path.child("podSelector"),
        errors,
    );
    for (direction, peers) in DIRECTIONS {
        let rules = path.child(direction);
        for (index, rule) in spec.items(direction).iter().enumerate() {
            let path = rules.index(index);
            let ports = path.child("ports");
            for (index, port) in rule.items("ports").iter().enumerate() {
                validate_port(port, &ports.index(index), errors);
            }
            let list = path.child(peers);
            for (index, peer) in rule.items(peers).iter().enumerate() {
                validate_peer(peer, &stored, &list.index(index), errors);
            }
        }
    }
    let types = path.child("policyTypes");
    if spec.items("policyTypes").len() > DIRECTIONS.len() {
        errors.invalid(types, spec.field("policyTypes"), "may not specify more than two policyTypes");
        return;
    }
    for (index, policy_type) in texts(spec, "policyTypes").enumerate() {
        one_of(&["Ingress", "Egress"], policy_type, types.index(index), errors);
    }
}

/// What the old object holds and therefore passes.
struct Stored<'a> {
    expression_values: ExpressionValues,
    cidrs: BTreeSet<&'a str>,
}

impl<'a> Stored<'a> {
    fn of(old: Option<&'a Value>) -> Self {
        let mut stored = Self { expression_values: ExpressionValues::Checked, cidrs: BTreeSet::new() };
        let Some(spec) = old.map(|old| old.field("spec")) else { return stored };
        if label_selector::has_bad_value(spec.field("podSelector")) {
            stored.expression_values = ExpressionValues::Unchecked;
        }
        for (direction, peers) in DIRECTIONS {
            for peer in spec.items(direction).iter().flat_map(|rule| rule.items(peers)) {
                let block = peer.field("ipBlock");
                stored.cidrs.insert(block.text("cidr"));
                stored.cidrs.extend(texts(block, "except"));
            }
        }
        stored
    }
}

fn validate_port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    let protocol = port.text("protocol");
    if port.has("protocol") && !PROTOCOLS.contains(&protocol) {
        errors.not_supported(path.child("protocol"), named(protocol), &PROTOCOLS);
    }
    let end = port.int("endPort");
    let end_path = path.child("endPort");
    match (port.get_field("port"), end) {
        (None, Some(end)) => {
            errors.invalid(end_path, end, "may not be specified when `port` is not specified");
        }
        (None, None) => {}
        (Some(Value::String(name)), end) => {
            must_be(port_name, name, path.child("port"), errors);
            if let Some(end) = end {
                errors.invalid(end_path, end, "may not be specified when `port` is non-numeric");
            }
        }
        (Some(number), end) => {
            let first = number.as_i64();
            validate_port_number(first, path.child("port"), errors);
            if let Some(end) = end {
                let first = first.unwrap_or_default();
                if end < first {
                    errors.invalid(end_path, first, "must be greater than or equal to `port`");
                }
                validate_port_number(Some(end), end_path, errors);
            }
        }
    }
}

fn validate_peer(peer: &Value, stored: &Stored<'_>, path: &Path<'_>, errors: &mut Errors) {
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.field(name);
        label_selector::validate_with(selector, stored.expression_values, &path.child(name), errors);
    }
    if peer.has("ipBlock") {
        validate_ip_block(peer.field("ipBlock"), stored, &path.child("ipBlock"), errors);
    }
    let peers = ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|name| peer.has(name)).count();
    if peers == 0 {
        errors.required(path, "must specify a peer");
    } else if peers > 1 && peer.has("ipBlock") {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn validate_ip_block(block: &Value, stored: &Stored<'_>, path: &Path<'_>, errors: &mut Errors) {
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        errors.required(path.child("cidr"), "");
        return;
    }
    if !stored.cidrs.contains(cidr) {
        must_be(cidr_legacy, cidr, path.child("cidr"), errors);
    }
    let Some(range) = parse_cidr(cidr) else { return };
    let list = path.child("except");
    for (index, except) in texts(block, "except").enumerate() {
        let path = list.index(index);
        if !stored.cidrs.contains(except) {
            must_be(cidr_legacy, except, path, errors);
        }
        let Some(inner) = parse_cidr(except) else { continue };
        if !(contains(range, inner.0) && inner.1 > range.1) {
            errors.invalid(path, except, "must be a strict subset of `cidr`");
        }
    }
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = Path::new("spec");
    for (direction, peers) in DIRECTIONS {
        let rules = spec.child(direction);
        for (index, rule) in object.field("spec").items(direction).iter().enumerate() {
            let path = rules.index(index);
            let list = path.child(peers);
            for (index, peer) in rule.items(peers).iter().enumerate() {
                let path = list.index(index);
                let path = path.child("ipBlock");
                let block = peer.field("ipBlock");
                warnings.extend(cidr_warning(block.text("cidr"), path.child("cidr")));
                let except = path.child("except");
                for (index, cidr) in texts(block, "except").enumerate() {
                    warnings.extend(cidr_warning(cidr, except.index(index)));
                }
            }
        }
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed, text::selector},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed(
            "Pod-Selector",
            |policy| selector(policy.field("spec").field("podSelector")),
            "Labels of the pods that the policy is for.",
        ),
        AGE,
    ];
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ranges_in_another_form_are_warned_of() {
        let block = json!({"ipBlock": {"cidr": "FD00::/8", "except": ["fd01::/16", "fd02:0::/16"]}});
        assert_eq!(
            warnings(&json!({"spec": {"egress": [{"to": [block]}]}}), None),
            [
                "spec.egress[0].to[0].ipBlock.cidr: IPv6 CIDR value \"FD00::/8\" should be in RFC 5952 canonical format (\"fd00::/8\")",
                "spec.egress[0].to[0].ipBlock.except[1]: IPv6 CIDR value \"fd02:0::/16\" should be in RFC 5952 canonical format (\"fd02::/16\")",
            ]
        );
    }
}
