//! Runs the rules of kinds on objects, for comparing with a real server.
//!
//! Reads JSON lines `{"new": OBJECT}` (a create) or `{"new": OBJECT, "old": OBJECT}`
//! (an update; add `"subresource": "status"` for that) and prints for each
//! `{"object": …, "causes": […], "warnings": […]}`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::{self, BufRead};

use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{kinds::strategy, object::Fields};

fn main() {
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        println!("{}", admit(&request));
    }
}

fn admit(request: &Value) -> Value {
    let mut object = request["new"].clone();
    let group = object.text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let strategy = strategy(&group, object.text("kind"));
    let mut errors = Errors::default();
    (strategy.default)(&mut object);
    let old = request.get("old");
    match (old, request.text("subresource")) {
        (None, _) => {
            (strategy.prepare_create)(&mut object);
            (strategy.validate)(&object, &mut errors);
        }
        (Some(old), "status") => {
            (strategy.prepare_status_update)(&mut object, old);
            (strategy.validate_status_update)(&object, old, &mut errors);
        }
        (Some(old), _) => {
            (strategy.prepare_update)(&mut object, old);
            (strategy.validate_update)(&object, old, &mut errors);
        }
    }
    let warnings = (strategy.warnings)(&object, old);
    json!({"object": object, "causes": errors.causes(), "warnings": warnings})
}
