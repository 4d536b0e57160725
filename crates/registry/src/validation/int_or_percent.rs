//! A count of pods, or a share of them: `3`, `"25%"`.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format,
};

use super::bounds::NOT_NEGATIVE;

/// A number that is not negative, or a percentage.
pub fn validate(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => {
            for problem in format::percent(text) {
                errors.invalid(path, BadValue::Json(value.clone()), &problem);
            }
        }
        _ => {
            if let Some(number) = value.as_i64().filter(|number| *number < 0) {
                errors.invalid(path, number, NOT_NEGATIVE);
            }
        }
    }
}

pub fn at_most_100_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if percentage(value).is_some_and(|percentage| percentage > 100) {
        errors.invalid(path, BadValue::Json(value.clone()), "must not be greater than 100%");
    }
}

/// Whether this stands for no pods: `0`, `"0%"`, or text that is no number.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => percentage(value).or_else(|| text.parse().ok()).unwrap_or_default() == 0,
        _ => value.as_i64().unwrap_or_default() == 0,
    }
}

fn percentage(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| format::percent(text).is_empty())?;
    // More digits than a number has: what counts is only that it is large.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}
