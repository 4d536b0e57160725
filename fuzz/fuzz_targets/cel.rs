//! Any expression compiles or is refused; what compiled runs to an end.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sternpost_cel::{Activation, Budget, Declaration, Environment, Value};

fuzz_target!(|text: &str| {
    let environment = Environment::new().variable("self", Arc::new(Declaration::dynamic()));
    let Ok(program) = environment.compile(text) else { return };
    let data = serde_json::json!({"a": [1, "b", null, 2.5], "m": {"k": "v"}, "s": "text"});
    let activation = Activation::new().bind("self", Value::from_json(&data));
    let _ = program.evaluate(&activation, &mut Budget::new(u64::MAX));
});
