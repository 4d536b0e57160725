//! The fields that the scale subresource reads and writes.

use serde_json::Value;
use sternpost_golang::fmt::type_name;
use sternpost_meta::field::Errors;

use crate::{definition::Scale, number};

/// Checks that replicas are counts and the selector is text, where they are set.
pub fn check_scale(scale: &Scale, object: &Value, errors: &mut Errors) {
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        match replicas(object, path) {
            Err(problem) => errors.invalid(path, 0i64, &problem),
            Ok(Some(count)) if count < 0 => errors.invalid(path, count, "should be a non-negative integer"),
            Ok(Some(count)) if count > i64::from(i32::MAX) => {
                errors.invalid(path, count, &format!("should be less than or equal to {}", i32::MAX));
            }
            Ok(_) => {}
        }
    }
    if let Some(path) = &scale.label_selector
        && let Err(problem) = selector(object, path)
    {
        errors.invalid(path, "", &problem);
    }
}

/// The count at a path like `.spec.replicas`; `None` where it is not set.
pub fn replicas(object: &Value, path: &str) -> Result<Option<i64>, String> {
    let Some(found) = follow(object, path)? else { return Ok(None) };
    match found.as_i64() {
        Some(count) => Ok(Some(count)),
        None => Err(wrong(path, found, "int64")),
    }
}

/// The text at a path like `.status.selector`.
pub fn selector<'a>(object: &'a Value, path: &str) -> Result<Option<&'a str>, String> {
    let Some(found) = follow(object, path)? else { return Ok(None) };
    match found.as_str() {
        Some(text) => Ok(Some(text)),
        None => Err(wrong(path, found, "string")),
    }
}

/// Sets the count, making the objects on the way.
pub fn set_replicas(object: &mut Value, path: &str, count: i64) -> Result<(), String> {
    let mut place = object;
    for step in steps(path) {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = match place {
            Value::Object(fields) => fields.entry(step).or_insert(Value::Null),
            other => return Err(wrong(path, other, "map[string]interface{}")),
        };
    }
    *place = count.into();
    Ok(())
}

fn follow<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut place = object;
    let mut so_far = String::new();
    for step in steps(path) {
        so_far.push('.');
        so_far.push_str(step);
        match place {
            Value::Object(fields) => match fields.get(step) {
                Some(value) => place = value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(wrong(&so_far, other, "map[string]interface{}")),
        }
    }
    Ok(Some(place))
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn wrong(path: &str, found: &Value, expected: &str) -> String {
    let (shown, kind) = (number::go_value(found), type_name(found));
    format!("{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}
