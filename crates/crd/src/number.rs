//! Numbers as Go reads and prints them.

use serde_json::{Number, Value};

/// Gives every number the form Go prints it in: `1.0` becomes `1`.
///
/// Go forgets the point when it writes; so does whoever reads what was written.
pub fn shown(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(shown_number(number)),
        Value::Array(items) => items.into_iter().map(shown).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, shown(value))).collect(),
        other => other,
    }
}

fn shown_number(number: Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() => integral(float).map_or(number, Number::from),
        _ => number,
    }
}

/// The 64-bit integer that a float is, if it is one.
pub fn integral(float: f64) -> Option<i64> {
    // Both bounds are exact: the upper one is 2⁶³, the first that does not fit.
    let fits =
        float.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    fits.then_some(float as i64)
}

/// Reads a number as Go does into `interface{}`: 64 bits signed, or floating.
pub fn read(number: &Number) -> Number {
    match number.as_u64() {
        Some(large) if number.as_i64().is_none() => {
            Number::from_f64(large as f64).unwrap_or_else(|| number.clone())
        }
        _ => number.clone(),
    }
}

/// A float as Go's `%v` prints it.
pub fn go_float(float: f64) -> String {
    let exponent = if float == 0.0 { 0 } else { float.abs().log10().floor() as i32 };
    if (-4..21).contains(&exponent) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// A value as Go's `%v` prints what it was read into.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or_else(String::new, go_float),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        for (float, expected) in [
            (3.0, "3"),
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (0.0, "0"),
            (2.5e300, "2.5e+300"),
        ] {
            assert_eq!(go_float(float), expected);
        }
    }

    #[test]
    fn whole_floats_are_shown_as_integers() {
        assert_eq!(shown(json!({"a": [1.0, 1.5, 1e300]})), json!({"a": [1, 1.5, 1e300]}));
        assert_eq!(integral(9_223_372_036_854_775_807.0), None);
        assert_eq!(integral(-9_223_372_036_854_775_808.0), Some(i64::MIN));
    }
}
