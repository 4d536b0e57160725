//! Runs the rules of kinds on objects, for comparing with a real server.
//!
//! Reads JSON lines `{"new": OBJECT}` (a create) or `{"new": OBJECT, "old": OBJECT}`
//! (an update; add `"subresource": "status"` for that) and prints for each
//! `{"object": …, "causes": […], "warnings": […]}`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::io::{self, BufRead};

use serde_json::{Value, json};
use sternpost_meta::field::Errors;
use sternpost_registry::{kinds::rules, object::Fields};

fn main() {
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        println!("{}", admit(&request));
    }
}

fn admit(request: &Value) -> Value {
    let mut object = request["new"].clone();
    let group = object.text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let rules = rules(&group, object.text("kind"));
    let mut errors = Errors::default();
    (rules.default)(&mut object);
    let old = request.get("old");
    match (old, request.text("subresource")) {
        (None, _) => {
            (rules.prepare_create)(&mut object);
            (rules.validate)(&object, &mut errors);
        }
        (Some(old), "status") => {
            (rules.prepare_status_update)(&mut object, old);
            (rules.validate_status_update)(&object, old, &mut errors);
        }
        (Some(old), _) => {
            (rules.prepare_update)(&mut object, old);
            (rules.validate_update)(&object, old, &mut errors);
        }
    }
    let warnings = (rules.warnings)(&object, old);
    json!({"object": object, "causes": errors.causes(), "warnings": warnings})
}
