//! Values as `fmt` prints them: untyped JSON by `%v`, `%s` and `%T`.

use serde_json::{Number, Value};

/// `%v` of what Kubernetes decodes: numbers without a point are integers.
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Numbers::AsWritten);
    out
}

/// `%v` of what `encoding/json` decodes: every number is a `float64`.
pub fn print_decoded(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Numbers::Floats);
    out
}

/// `%v` of a list.
pub fn print_list(list: &[Value]) -> String {
    let mut out = String::new();
    write_list(&mut out, list, Numbers::AsWritten);
    out
}

/// `%s`, which is made for strings and says so.
pub fn print_string(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", type_name(value), print(value)),
        _ => print(value),
    }
}

/// The type that untyped JSON is decoded into, as `%T` prints it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%s` of `reflect.TypeOf`, which has nothing to say of nil.
pub fn print_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        other => type_name(other),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    AsWritten,
    Floats,
}

fn write(out: &mut String, value: &Value, numbers: Numbers) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number, numbers),
        Value::String(text) => out.push_str(text),
        Value::Array(list) => write_list(out, list, numbers),
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(out, value, numbers);
            }
            out.push(']');
        }
    }
}

fn write_list(out: &mut String, list: &[Value], numbers: Numbers) {
    out.push('[');
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(out, item, numbers);
    }
    out.push(']');
}

/// `%v` of a number with a point is its shortest form, with an exponent when that is far from zero.
pub fn print_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&power) || number == 0.0 {
        return number.to_string();
    }
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.unsigned_abs())
}

fn write_number(out: &mut String, number: &Number, numbers: Numbers) {
    match number.as_f64().filter(|_| number.is_f64() || numbers == Numbers::Floats) {
        Some(float) => out.push_str(&print_float(float)),
        None => out.push_str(&number.to_string()),
    }
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
            (json!(999_999.0), "999999"),
            (json!(1_000_000.0), "1e+06"),
            (json!(123_456_789.5), "1.234567895e+08"),
            (json!(1e21), "1e+21"),
            (json!(0.0001), "0.0001"),
            (json!(1e-7), "1e-07"),
        ] {
            assert_eq!(print(&value), expected);
        }
        assert_eq!(print(&json!(1_000_000)), "1000000");
        assert_eq!(print_decoded(&json!([1_000_000, 1])), "[1e+06 1]");
        assert_eq!(print_string(&json!(1)), "%!s(int64=1)");
        assert_eq!(print_string(&json!(null)), "%!s(<nil>)");
        assert_eq!(print_string(&json!("merge")), "merge");
    }
}
