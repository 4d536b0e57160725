//! Whether texts have the form they must have, as errors of a kind.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{Problems, dns_subdomain},
};

use crate::object::Fields;

/// The most bytes a driver's name may have.
pub const MAX_DRIVER_NAME_BYTES: usize = 63;

/// One error for each problem.
pub fn must_be(check: fn(&str) -> Problems, text: &str, path: Path<'_>, errors: &mut Errors) {
    for problem in check(text) {
        errors.invalid(path, text, &problem);
    }
}

/// As [`must_be`], with an error of its own for a text that is empty.
pub fn required(check: fn(&str) -> Problems, text: &str, path: Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.required(path, "");
    } else {
        must_be(check, text, path, errors);
    }
}

/// An error if the text is empty.
pub fn not_empty(text: &str, path: Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.required(path, "");
    }
}

/// A value of a fixed set, in the order in which messages list it.
pub fn one_of(supported: &[&str], text: &str, path: Path<'_>, errors: &mut Errors) {
    if !supported.contains(&text) {
        errors.not_supported(path, named(text), supported);
    }
}

/// The name of a CSI or DRA driver: a DNS subdomain in any case.
pub fn driver_name(name: &str, path: Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > MAX_DRIVER_NAME_BYTES {
        errors.too_long(path, MAX_DRIVER_NAME_BYTES);
    }
    for problem in dns_subdomain(&name.to_lowercase()) {
        errors.invalid(path, name, &problem);
    }
}

/// A text whose Go type is not plain `string`: such print as JSON.
pub fn named(text: &str) -> BadValue {
    BadValue::Json(Value::String(text.into()))
}

/// A pointer to a text, or to nothing.
pub fn pointer(object: &Value, name: &str) -> BadValue {
    BadValue::Json(object.field(name).clone())
}

/// An error unless both objects have the same in the field, where empty and missing are alike.
pub fn immutable(new: &Value, old: &Value, name: &str, path: Path<'_>, errors: &mut Errors) {
    if !same(new.field(name), old.field(name)) {
        errors.invalid(path, pointer(new, name), "field is immutable");
    }
}

/// Equal, where an empty list or map and none are alike.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            // Each pair is looked at once, or deep objects would take forever.
            a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&Value::Null)))
                && b.iter().all(|(key, value)| a.contains_key(key) || same(&Value::Null, value))
        }
        (Value::Null, other) | (other, Value::Null) => match other {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            _ => false,
        },
        (a, b) => a == b,
    }
}

/// As upstream's generated checks say it.
pub fn dns_subdomain_in_bytes(name: &str) -> Problems {
    let mut problems = dns_subdomain(name);
    for problem in &mut problems {
        if let Some(limit) =
            problem.strip_prefix("must be no more than ").and_then(|rest| rest.strip_suffix(" characters"))
        {
            *problem = format!("must be no more than {limit} bytes");
        }
    }
    problems
}

/// The texts of a list.
pub fn texts<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    object.items(name).iter().map(|item| item.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_and_none_are_the_same_at_any_depth() {
        for (a, b, expected) in [
            (json!({"a": {"b": []}}), json!({"a": {}}), true),
            (json!({}), json!({"a": {}, "b": null}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 0}), false),
            (json!({"a": [{"x": {}}]}), json!({"a": [{}]}), true),
            (json!({"a": [{}]}), json!({"a": []}), false),
        ] {
            assert_eq!((same(&a, &b), same(&b, &a)), (expected, expected), "{a} {b}");
        }
        // Were a pair looked at twice, this would not end.
        let deep = (0..100).fold(json!(1), |inner, _| json!({"x": inner}));
        assert!(same(&deep, &deep.clone()));
    }
}
