//! Rules are total: whatever JSON stands where, nothing panics.
//!
//! Every recorded case is run again and again with one value replaced by one
//! of another type or at the edge of its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{
    kinds::{
        service::allocation::{DEFAULT_NODE_PORTS, DEFAULT_RANGE, Pool, allocate_create, allocate_update},
        strategy,
    },
    object::Fields,
    strategy::Strategy,
    validation::ip_ranges::parse_cidr,
};

#[test]
fn no_value_anywhere_makes_a_rule_panic() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut runs = 0;
    for file in ["kinds/network_and_core.jsonl", "service.jsonl"] {
        for line in fs::read_to_string(tests.join(file)).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let group = case["new"].text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
            let strategy = strategy(group, case["new"].text("kind"));
            for part in ["new", "old"] {
                let mut pointers = Vec::new();
                collect(&case[part], format!("/{part}"), &mut pointers);
                // One value per place and line; the lines are many and alike.
                for (index, pointer) in pointers.iter().enumerate() {
                    let mut case = case.clone();
                    *case.pointer_mut(pointer).unwrap() = odd_value(index + runs);
                    run(strategy, &case);
                    runs += 1;
                }
            }
        }
    }
    assert!(runs > 5_000, "{runs}");
}

fn odd_value(number: usize) -> Value {
    let values = [
        Value::Null,
        json!(true),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(1.5),
        json!(""),
        json!("é\u{0}/%"),
        json!([]),
        json!([null, 1, "x", {}, []]),
        json!({}),
        json!({"": null, "x": [{}], "spec": 1}),
    ];
    values[number % values.len()].clone()
}

fn collect(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{pointer}/{name}"), pointers);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{pointer}/{index}"), pointers);
            }
        }
        Value::Null => return,
        _ => {}
    }
    pointers.push(pointer);
}

fn run(strategy: &Strategy, case: &Value) {
    let old = case.field("old");
    let mut errors = Errors::default();
    let mut object = case["new"].clone();
    (strategy.default)(&mut object);
    let (mut created, mut updated, mut status) = (object.clone(), object.clone(), object);
    (strategy.prepare_create)(&mut created);
    (strategy.prepare_update)(&mut updated, old);
    (strategy.prepare_status_update)(&mut status, old);
    if case["new"].text("kind") == "Service" {
        let (used_addresses, used_ports) = (BTreeSet::new(), BTreeSet::new());
        let pool = Pool {
            ranges: &[parse_cidr(DEFAULT_RANGE).unwrap()],
            node_ports: &DEFAULT_NODE_PORTS,
            used_addresses: &used_addresses,
            used_ports: &used_ports,
        };
        let _ = allocate_create(&mut created, &pool, &mut |count| count);
        let _ = allocate_update(&mut updated, old, &pool, &mut |count| count);
    }
    (strategy.validate)(&created, &mut errors);
    (strategy.validate_update)(&updated, old, &mut errors);
    (strategy.validate_status_update)(&status, old, &mut errors);
    (strategy.warnings)(&created, None);
    (strategy.warnings)(&updated, Some(old));
}
