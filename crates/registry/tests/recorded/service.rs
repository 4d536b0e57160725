//! Services against answers recorded from kube-apiserver 1.36.4.
//!
//! As `kinds.rs`, with the allocator between preparation and validation. Real
//! requests met a cluster with the range 10.0.0.0/24 where only 10.0.0.1 was
//! taken. `error` is the message of a 500.
use std::{collections::BTreeSet, net::IpAddr};

use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{
    kinds::service::{
        STRATEGY,
        allocation::{
            Change, DEFAULT_NODE_PORTS, DEFAULT_RANGE, Pool, Refusal, allocate_create, allocate_update, held,
        },
    },
    object::{Fields, FieldsMut},
    validation::ip_ranges::parse_cidr,
};
use sternpost_testkit::recorded::Suite;

use crate::{lines, named};

const RECORDED: &str = include_str!("../service.jsonl");

pub fn add(suite: &mut Suite) {
    suite.group("services", 1, lines(RECORDED).map(|case| named(case, "name", check)));
    suite.test("protocols_of_one_port_share_a_node_port", protocols_of_one_port_share_a_node_port);
}

fn check(case: &Value) -> Result<(), String> {
    let mut service = case["new"].clone();
    let found = match write(case, &mut service) {
        Ok(()) => json!({}),
        Err(Refusal::Invalid(errors)) => json!({"causes": errors.causes()}),
        Err(Refusal::Internal(text)) => json!({"error": format!("Internal error occurred: {text}")}),
        Err(Refusal::Unexpected(text)) => json!({"error": text}),
    };
    for name in ["causes", "error"] {
        if found.field(name) != case.field(name) {
            return Err(format!("  expected {}\n  found    {}", case.field(name), found.field(name)));
        }
    }
    let mut wanted = match case.get_field("object") {
        Some(object) => object.clone(),
        None => return Ok(()),
    };
    if case.has("warnings") {
        let warnings = json!((STRATEGY.warnings)(&service, case.get_field("old")));
        if warnings != case["warnings"] && case.text("subresource").is_empty() {
            return Err(format!("  expected {}\n  found    {warnings}", case["warnings"]));
        }
    }
    for object in [&mut wanted, &mut service] {
        object.remove("metadata");
        for path in case.items("ignore").iter().filter_map(Value::as_str) {
            ignore(object, &path.split('.').collect::<Vec<_>>());
        }
        without_empty(object);
    }
    if wanted == service { Ok(()) } else { Err(format!("  expected {wanted}\n  found    {service}")) }
}

fn write(case: &Value, service: &mut Value) -> Result<(), Refusal> {
    let mut errors = Errors::default();
    (STRATEGY.default)(service);
    match (case.get_field("old"), case.text("subresource")) {
        (None, _) => {
            (STRATEGY.prepare_create)(service);
            with_pool(None, |pool| allocate_create(service, pool, &mut |_| 0))?;
            (STRATEGY.validate)(service, &mut errors);
        }
        (Some(old), "status") => {
            (STRATEGY.prepare_status_update)(service, old);
            (STRATEGY.validate_status_update)(service, old, &mut errors);
        }
        (Some(old), _) => {
            (STRATEGY.prepare_update)(service, old);
            with_pool(Some(old), |pool| allocate_update(service, old, pool, &mut |_| 0))?;
            (STRATEGY.validate_update)(service, old, &mut errors);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Invalid(errors)) }
}

fn with_pool(
    old: Option<&Value>,
    allocate: impl FnOnce(&Pool<'_>) -> Result<Change, Refusal>,
) -> Result<Change, Refusal> {
    let taken = old.map(held).unwrap_or_default();
    let mut used_addresses: BTreeSet<IpAddr> = taken.addresses;
    used_addresses.insert("10.0.0.1".parse().unwrap());
    allocate(&Pool {
        ranges: &[parse_cidr(DEFAULT_RANGE).unwrap()],
        node_ports: &DEFAULT_NODE_PORTS,
        used_addresses: &used_addresses,
        used_ports: &taken.ports,
    })
}

fn protocols_of_one_port_share_a_node_port() {
    for (asked, expected) in [
        (&[(53, 0), (53, 0)][..], &[30_086, 30_086][..]),
        (&[(53, 0), (53, 30_200)], &[30_200, 30_200]),
        (&[(53, 30_200), (53, 30_200)], &[30_200, 30_200]),
        (&[(53, 30_201), (53, 30_200)], &[30_201, 30_200]),
        (&[(53, 0), (53, 0), (53, 30_200)], &[30_200, 30_200, 30_200]),
        (&[(53, 0), (54, 0)], &[30_086, 30_087]),
    ] {
        let ports = asked.iter().zip(["UDP", "TCP", "SCTP"]).map(|((port, node_port), protocol)| {
            json!({"name": protocol.to_lowercase(), "port": port, "nodePort": node_port, "protocol": protocol})
        });
        let case = json!({"new": {"spec": {"type": "NodePort", "ports": ports.collect::<Vec<_>>()}}});
        let mut service = case["new"].clone();
        write(&case, &mut service).unwrap();
        let found: Vec<i64> =
            service["spec"].items("ports").iter().map(|port| port.int("nodePort").unwrap()).collect();
        assert_eq!(found, expected, "{asked:?}");
    }
}

fn ignore(value: &mut Value, steps: &[&str]) {
    match (value, steps) {
        (Value::Object(fields), [last]) => {
            fields.remove(*last);
        }
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(value) = fields.get_mut(*first) {
                ignore(value, rest);
            }
        }
        (Value::Array(items), ["*", rest @ ..]) => items.iter_mut().for_each(|item| ignore(item, rest)),
        _ => {}
    }
}

/// Whether something empty is written out is the encoder's business.
fn without_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_empty);
            fields.retain(|_, value| match value {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}
