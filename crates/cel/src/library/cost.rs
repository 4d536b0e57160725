//! What calls cost when they run: the prices that several functions share.

use crate::{
    estimate::{count, pattern_cost, scaled},
    functions::Call,
    value::Value,
};

/// For functions that cost the same whatever they are called with.
pub(crate) fn one(_: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    1
}

/// For functions that look at every character of a text.
pub(crate) fn tenth(call: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    call.tenth(0)
}

/// For functions that look at every character twice, or make as many.
pub(crate) fn fifth(call: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    scaled(call.size(0), 0.2)
}

/// For matching a text with a pattern.
pub(crate) fn pattern(call: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    pattern_cost(call.size(0), call.size(1))
}

/// For functions that look at every item of a list.
pub(crate) fn traversal(call: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    match call.operands.first() {
        Some(Value::List(list)) => {
            list.iter().filter_map(Result::ok).fold(0, |sum: u64, item| sum.saturating_add(item_cost(&item)))
        }
        _ => 1,
    }
}

fn item_cost(item: &Value<'_>) -> u64 {
    match item {
        Value::String(_) | Value::Bytes(_) => byte_tenth(Some(item)),
        Value::Map(map) => count(map.len()).saturating_mul(2),
        Value::Object(entries, _) => count(entries.len()).saturating_mul(2),
        _ => 1,
    }
}

/// A tenth of the bytes, rounded down.
pub(crate) fn byte_tenth(value: Option<&Value<'_>>) -> u64 {
    match value {
        Some(Value::String(text)) => count(text.as_str().len()) / 10,
        Some(Value::Bytes(bytes)) => count(bytes.len()) / 10,
        _ => 1,
    }
}
