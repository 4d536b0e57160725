//! Rules of kinds against answers recorded from kube-apiserver 1.36.4: every case is a test by its name.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod field_selectors;
mod kinds;
mod pod_subresources;
mod service;
mod table;
mod workloads;

use serde_json::Value;

fn main() -> std::process::ExitCode {
    let mut suite = sternpost_testkit::recorded::Suite::default();
    kinds::add(&mut suite);
    field_selectors::add(&mut suite);
    pod_subresources::add(&mut suite);
    service::add(&mut suite);
    table::add(&mut suite);
    workloads::add(&mut suite);
    suite.run()
}

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// A case whose `key` is its name.
fn named<Answer>(
    case: Value,
    key: &str,
    check: impl FnOnce(&Value) -> Answer,
) -> (String, impl FnOnce() -> Answer) {
    let name = match &case[key] {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    (name, move || check(&case))
}

fn same(found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("  expected {expected}\n  found    {found}")) }
}
