//! How JSON values compare where ownership is concerned.
//!
//! Unlike `Value`'s own equality, `1` and `1.0` are the same number here, and
//! values have an order, so that path elements can be sorted.

use std::{cmp::Ordering, fmt::Write};

use serde_json::{Number, Value};
use sternpost_golang::strconv::go_quote;

pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            // Both are sorted by key.
            a.len() == b.len() && a.iter().zip(b).all(|((name, a), (other, b))| name == other && equal(a, b))
        }
        (a, b) => a == b,
    }
}

/// Numbers before strings, booleans, lists, maps and null; maps by their
/// sorted keys and values.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            in_turn(a.iter().zip(b).map(|(a, b)| compare(a, b))).then_with(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => in_turn(
            a.iter().zip(b).map(|((name, a), (other, b))| name.cmp(other).then_with(|| compare(a, b))),
        )
        .then_with(|| a.len().cmp(&b.len())),
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

/// A value as it stands in the human form of a path.
pub(crate) fn write_text(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(&go_quote(text)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(name);
                out.push('=');
                write_text(field, out);
            }
        }
        // Writing to a string cannot fail.
        other => drop(write!(out, "{other}")),
    }
}

/// A value as Go prints it, for texts that quote one.
pub(crate) fn go_plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{name}:{}", go_plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as it would be written in Go.
pub(crate) fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", go_quote(name), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            // JSON has no NaN, so every pair of numbers has an order.
            let (a, b) = (a.as_f64().unwrap_or(f64::MAX), b.as_f64().unwrap_or(f64::MAX));
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn in_turn(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
