//! The values that `enum` allows.
//!
//! They are indexed when a schema is compiled: a list of many items may have to be among many
//! values each.

use std::{collections::HashSet, sync::OnceLock};

use serde_json::{Number, Value};
use sternpost_golang::{json::go_json, strconv::go_quote};

#[derive(Debug)]
pub struct Enumeration {
    /// In the order of the schema, in which causes name them.
    values: Box<[Value]>,
    /// The same, to look one up in.
    index: HashSet<Value>,
    /// The numbers among them that are no 64-bit integers, as the bits of floats.
    floats: HashSet<u64>,
    text: OnceLock<Box<str>>,
}

impl Enumeration {
    pub fn new(values: &[Value]) -> Self {
        let floats = values.iter().filter_map(Value::as_number).filter(|number| number.as_i64().is_none());
        Self {
            values: values.into(),
            index: values.iter().cloned().collect(),
            floats: floats.filter_map(bits).collect(),
            text: OnceLock::new(),
        }
    }

    /// Whether one of them equals the value after Go has turned the value into the type of what it
    /// is compared with: floats lose their fraction before integers, integers become characters
    /// before strings.
    pub fn allows(&self, value: &Value) -> bool {
        let Value::Number(number) = value else { return self.index.contains(value) };
        let integer = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
        let code = number.as_u64().and_then(|code| u32::try_from(code).ok());
        let text = code.and_then(char::from_u32).map(String::from);
        integer.is_some_and(|integer| self.index.contains(&Value::from(integer)))
            || (!self.floats.is_empty() && bits(number).is_some_and(|bits| self.floats.contains(&bits)))
            || text.is_some_and(|text| self.index.contains(&Value::from(text)))
    }

    /// What a value that is none of them is told.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let quoted = self.values.iter().map(|value| match value {
                Value::String(text) => go_quote(text),
                other => go_quote(&go_json(other)),
            });
            format!("supported values: {}", quoted.collect::<Vec<_>>().join(", ")).into()
        })
    }
}

/// Alike for floats that are equal: zero has no sign.
fn bits(number: &Number) -> Option<u64> {
    number.as_f64().map(|float| (float + 0.0).to_bits())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_allowed_that_equals_one_as_go_compares_them() {
        let values =
            json!(["a", "bc", 3, -4, 2.5, -0.0, 18446744073709551615_u64, true, [1], {"k": "v"}, null]);
        let allowed = Enumeration::new(values.as_array().unwrap());
        for value in [
            json!("a"),
            json!("bc"),
            json!(3),
            json!(3.9),
            json!(-4.5),
            json!(2.5),
            json!(0),
            json!(0.0),
            json!(18446744073709551615_u64),
            // A character by its number.
            json!(97),
            json!(true),
            json!([1]),
            json!({"k": "v"}),
        ] {
            assert!(allowed.allows(&value), "{value}");
        }
        for value in
            [json!("b"), json!("3"), json!(4), json!(2.25), json!(98), json!(false), json!([2]), json!({})]
        {
            assert!(!allowed.allows(&value), "{value}");
        }
    }

    #[test]
    fn values_are_told_in_the_order_of_the_schema() {
        let allowed = Enumeration::new(&[json!("b"), json!("a\"c"), json!(1), json!(["x"])]);
        assert_eq!(allowed.text(), r#"supported values: "b", "a\"c", "1", "[\"x\"]""#);
    }
}
