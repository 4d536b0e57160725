//! Rules of kinds against answers recorded from kube-apiserver 1.36.4.
//!
//! `tests/kinds/FAMILY.jsonl` has one case a line: the object sent (`new`), the
//! stored one it replaces (`old`, for an update), perhaps a `subresource`, and
//! the answer: the `causes` of a 422, or the `object` with its defaults, perhaps
//! with `warnings`.
//! `ignore` lists dotted paths (`*` for any item) that the rules do not decide,
//! such as what allocators set; `metadata` is never compared. `unordered` says
//! that upstream walks a map in random order.
use std::{fs, path::Path};

use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{
    kinds::{certificate_signing_request, strategy},
    object::Fields,
};
use sternpost_testkit::recorded::Suite;

use crate::{lines, named};

pub fn add(suite: &mut Suite) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds");
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    for path in paths {
        let family = path.file_stem().unwrap().to_string_lossy();
        let text = fs::read_to_string(&path).unwrap();
        suite.group(&family, 1, lines(&text).map(|case| named(case, "name", check)));
    }
}

fn check(case: &Value) -> Result<(), String> {
    let (object, causes, warnings) = admit(case);
    let mut expected = case["causes"].as_array().cloned().unwrap_or_default();
    let mut found: Vec<Value> = causes.as_array().unwrap().clone();
    if case.flag("unordered") {
        let order = |cause: &Value| cause.to_string();
        expected.sort_by_key(order);
        found.sort_by_key(order);
    }
    if found != expected {
        let lines =
            |causes: &[Value]| causes.iter().map(|cause| format!("    {cause}\n")).collect::<String>();
        return Err(format!("  expected\n{}  found\n{}", lines(&expected), lines(&found)));
    }
    if case.has("warnings") && case.field("warnings") != &warnings {
        return Err(format!("  expected {}\n  found    {warnings}", case.field("warnings")));
    }
    let Some(wanted) = case.get_field("object") else {
        return if expected.is_empty() { Err("  the case has no answer".into()) } else { Ok(()) };
    };
    let (mut wanted, mut object) = (wanted.clone(), object);
    for path in ["metadata"].into_iter().chain(case.items("ignore").iter().filter_map(Value::as_str)) {
        let steps: Vec<&str> = path.split('.').collect();
        remove(&mut wanted, &steps);
        remove(&mut object, &steps);
    }
    without_empty(&mut wanted);
    without_empty(&mut object);
    if wanted == object { Ok(()) } else { Err(format!("  expected {wanted}\n  found    {object}")) }
}

/// The same steps as a write takes, without those that need more than the object.
fn admit(case: &Value) -> (Value, Value, Value) {
    let mut object = case["new"].clone();
    let group = object.text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let strategy = strategy(&group, object.text("kind"));
    let mut errors = Errors::default();
    (strategy.default)(&mut object);
    match (case.get_field("old"), case.text("subresource")) {
        (None, _) => {
            (strategy.prepare_create)(&mut object);
            (strategy.validate)(&object, &mut errors);
        }
        (Some(old), "status") => {
            (strategy.prepare_status_update)(&mut object, old);
            (strategy.validate_status_update)(&object, old, &mut errors);
        }
        (Some(old), "approval") => {
            certificate_signing_request::prepare_approval_update(&mut object, old);
            certificate_signing_request::validate_approval_update(&object, old, &mut errors);
        }
        (Some(old), _) => {
            (strategy.prepare_update)(&mut object, old);
            (strategy.validate_update)(&object, old, &mut errors);
        }
    }
    let warnings = json!((strategy.warnings)(&object, case.get_field("old")));
    (object, json!(errors.causes()), warnings)
}

fn remove(value: &mut Value, steps: &[&str]) {
    match (value, steps) {
        (Value::Object(fields), [last]) => {
            fields.remove(*last);
        }
        (Value::Object(fields), ["*", rest @ ..]) => {
            fields.values_mut().for_each(|value| remove(value, rest));
        }
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(value) = fields.get_mut(*first) {
                remove(value, rest);
            }
        }
        (Value::Array(items), ["*", rest @ ..]) => items.iter_mut().for_each(|item| remove(item, rest)),
        _ => {}
    }
}

/// Whether an empty map, list or text, or a null, is written out is the encoder's business.
fn without_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_empty);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
