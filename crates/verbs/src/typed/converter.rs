//! Why a patched object is not one of its kind, in the words of Go's converter of untyped objects.
//!
//! Upstream reads what a strategic patch makes with that converter and not with its reader of JSON, so
//! the same mistake has another text. It goes through fields in the order of Go's structs and names no
//! place.

use serde_json::{Number, Value};
use sternpost_golang::json::json_type;
use sternpost_meta::quantity;

use super::{Shape, Type, base64_problem, type_of};

/// The first mistake that the converter would tell of. `None` if it has no words of its own for what is
/// wrong.
pub fn mistake(object: &Value, definition: &str) -> Option<String> {
    in_struct(object, type_of(definition)?)
}

/// The object as the converter reads it: a number that is whole is an integer, however it is written.
pub fn with_whole_numbers(object: &Value, definition: &str) -> Value {
    let mut object = object.clone();
    if let Some(kind) = type_of(definition) {
        make_whole(&mut object, &Shape::Struct(kind));
    }
    object
}

fn make_whole(value: &mut Value, shape: &Shape) {
    match (shape, value) {
        (Shape::Struct(kind), Value::Object(fields)) => {
            for field in &kind.fields {
                if let Some(value) = fields.get_mut(&*field.name) {
                    make_whole(value, &field.shape);
                }
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| make_whole(entry, inner));
        }
        (Shape::List(inner), Value::Array(items)) => {
            items.iter_mut().for_each(|item| make_whole(item, inner));
        }
        (Shape::Int32 | Shape::Int64 | Shape::IntOrString, Value::Number(number)) => {
            if let Some(whole) = whole(number) {
                *number = whole.into();
            }
        }
        _ => {}
    }
}

fn in_struct(value: &Value, kind: &Type) -> Option<String> {
    let Value::Object(fields) = value else {
        return Some(format!("cannot restore struct from: {}", go_kind(value)));
    };
    let mut known = kind.fields.iter().filter_map(|field| Some((fields.get(&*field.name)?, &field.shape)));
    known.find_map(|(value, shape)| in_value(value, shape))
}

fn in_value(value: &Value, shape: &Shape) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match shape {
        Shape::Struct(kind) => in_struct(value, kind),
        Shape::Map(inner) => match value {
            Value::Object(entries) => entries.values().find_map(|entry| in_value(entry, inner)),
            other => Some(format!("cannot restore map from {}", go_kind(other))),
        },
        Shape::List(inner) => match value {
            Value::Array(items) => items.iter().find_map(|item| in_value(item, inner)),
            other => Some(format!("cannot restore slice from {}", go_kind(other))),
        },
        Shape::Bytes => match value {
            Value::String(text) => {
                base64_problem(text).map(|problem| format!("error decoding from json: {problem}"))
            }
            // Go takes a list of numbers for bytes; the reader of objects has to say.
            Value::Array(_) => None,
            other => Some(format!("cannot restore slice from {}", go_kind(other))),
        },
        Shape::Bool => (!value.is_boolean()).then(|| unrecognized("bool")),
        // Go makes characters of whole numbers, which is not what is meant.
        Shape::String => match value {
            Value::String(_) => None,
            Value::Number(number) if !is_float(number) => Some("cannot convert int64 to string".into()),
            _ => Some(unrecognized("string")),
        },
        Shape::Int32 => in_integer(value, "int32"),
        Shape::Int64 => in_integer(value, "int64"),
        Shape::Double => (!value.is_number()).then(|| unrecognized("float64")),
        // These read JSON themselves, and tell nothing of where they are.
        Shape::IntOrString => match value {
            Value::String(_) => None,
            Value::Number(number) => {
                let fits = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
                (!fits).then(|| format!("json: cannot unmarshal number {number} into Go value of type int32"))
            }
            other => Some(format!("json: cannot unmarshal {} into Go value of type int32", json_type(other))),
        },
        Shape::Time | Shape::MicroTime | Shape::Duration => match value {
            Value::String(_) => None,
            other => {
                Some(format!("json: cannot unmarshal {} into Go value of type string", json_type(other)))
            }
        },
        Shape::Quantity => match value {
            Value::String(_) | Value::Number(_) => None,
            _ => Some(quantity::ParseError::Format.to_string()),
        },
        Shape::Any => None,
    }
}

fn in_integer(value: &Value, wanted: &str) -> Option<String> {
    match value {
        Value::Number(number) if is_float(number) => {
            whole(number).is_none().then(|| format!("cannot convert float64 to {wanted}"))
        }
        Value::Number(_) => None,
        _ => Some(unrecognized(wanted)),
    }
}

fn unrecognized(wanted: &str) -> String {
    format!("unrecognized type: {wanted}")
}

/// What JSON is in Go when no type is known.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if is_float(number) => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// The integer that a float is, as far as floats hold every one.
fn whole(number: &Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| is_float(number) && float.fract() == 0.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range, just checked")]
    (float.abs() <= EXACT).then_some(float as i64)
}

fn is_float(number: &Number) -> bool {
    number.as_i64().is_none()
}
