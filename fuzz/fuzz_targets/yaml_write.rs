//! Any JSON is written as YAML that reads back as the same JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok(value) = text.parse::<Value>() else { return };
    let written = sternpost_yaml::write(&value);
    match sternpost_yaml::from_str(&written) {
        Ok(read) => assert!(equal(&read, &value), "{written}"),
        Err(error) => panic!("{error}: {written}"),
    }
});

/// YAML does not tell a whole float from an integer.
fn equal(read: &Value, value: &Value) -> bool {
    match (read, value) {
        (Value::Array(read), Value::Array(value)) => {
            read.len() == value.len() && read.iter().zip(value).all(|(read, value)| equal(read, value))
        }
        (Value::Object(read), Value::Object(value)) => {
            read.len() == value.len()
                && read.iter().zip(value).all(|(read, value)| read.0 == value.0 && equal(read.1, value.1))
        }
        (Value::Number(read), Value::Number(value)) => read == value || read.as_f64() == value.as_f64(),
        (read, value) => read == value,
    }
}
