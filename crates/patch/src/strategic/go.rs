//! Values as Go prints them, for error texts.

use std::fmt::Write;

use serde_json::{Number, Value};
use sternpost_meta::go;

/// `%v`.
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

/// `%v` of a list.
pub(super) fn print_list(list: &[Value]) -> String {
    let mut out = String::new();
    write_list(&mut out, list);
    out
}

/// `%s`, which is made for strings and says so.
pub(super) fn print_string(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", type_name(value), print(value)),
        _ => print(value),
    }
}

/// The Go type that JSON decodes to.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        other => go::type_name(other),
    }
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => out.push_str(text),
        Value::Array(list) => write_list(out, list),
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(out, value);
            }
            out.push(']');
        }
    }
}

fn write_list(out: &mut String, list: &[Value]) {
    out.push('[');
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(out, item);
    }
    out.push(']');
}

/// `%v` of a float is its shortest form, with an exponent when that is far from zero.
fn write_number(out: &mut String, number: &Number) {
    // Writing to a string does not fail.
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => {
            let exponent = float.abs().log10().floor();
            if float != 0.0 && !(-4.0..21.0).contains(&exponent) {
                let text = format!("{float:e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or_default();
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
            } else {
                write!(out, "{float}")
            }
        }
        None => write!(out, "{number}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_read_as_go_prints_them() {
        for (value, expected) in [
            (json!({"b": [1, "x", null], "a": {"c": true}}), "map[a:map[c:true] b:[1 x <nil>]]"),
            (json!([]), "[]"),
            (json!({}), "map[]"),
            (json!(1.5), "1.5"),
            (json!(2.0), "2"),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-07"),
        ] {
            assert_eq!(print(&value), expected);
        }
        assert_eq!(print_string(&json!(1)), "%!s(int64=1)");
        assert_eq!(print_string(&json!(null)), "%!s(<nil>)");
        assert_eq!(print_string(&json!("merge")), "merge");
    }
}
