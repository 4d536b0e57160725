//! Objects that expressions make, as JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};
use sternpost_cel::{EvalError, Value as CelValue};
use sternpost_schema::topology::{Node, Scalar, Type};

/// The type that an apply configuration has.
const ROOT: &str = "Object";

/// Why a value has no place in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    /// What Go calls the value, and where it is: it is of no type that objects have.
    Foreign {
        path: String,
        shown: String,
    },
    /// It cannot be turned into anything.
    NoObject,
    Failed(String),
}

impl From<EvalError> for Unfit {
    fn from(error: EvalError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Types are named by the place of the object: nothing else may stand there.
pub(super) fn check_names(value: &CelValue<'_>) -> Result<(), String> {
    check_at(value, ROOT).map_err(|found| {
        let (name, expected) = *found;
        format!(
            "type mismatch: unexpected type name \"{name}\", expected \"{expected}\", which matches field name path from root Object type"
        )
    })
}

fn check_at(value: &CelValue<'_>, expected: &str) -> Result<(), Box<(String, String)>> {
    match value {
        CelValue::Message(message) if message.type_name() == "JSONPatch" => Ok(()),
        CelValue::Message(message) if message.type_name() == expected => {
            message.fields.iter().try_for_each(|(name, value)| check_at(value, &format!("{expected}.{name}")))
        }
        CelValue::Message(message) => Err(Box::new((message.type_name().to_owned(), expected.to_owned()))),
        // Items are named as their list, and so are the values of maps.
        CelValue::List(list) => list.iter().flatten().try_for_each(|item| check_at(&item, expected)),
        CelValue::Map(map) => map
            .entries()
            .into_iter()
            .filter_map(|(_, value)| value.ok())
            .try_for_each(|value| check_at(&value, expected)),
        CelValue::Optional(Some(inner)) => check_at(inner, expected),
        _ => Ok(()),
    }
}

/// How bytes are written, and what is foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// In an apply configuration only what objects consist of may stand.
    Configuration,
    /// In a JSON patch everything is written as JSON.
    Patch,
}

pub(super) fn to_json(value: &CelValue<'_>, for_use: Use) -> Result<Value, Unfit> {
    convert(value, for_use, &mut String::new())
}

fn convert(value: &CelValue<'_>, for_use: Use, path: &mut String) -> Result<Value, Unfit> {
    let foreign = |path: &str, shown: String| {
        let shown = format!("&value.valueUnstructured{{Value:{shown}}}");
        Err(Unfit::Foreign { path: path.to_owned(), shown })
    };
    let is_patch = for_use == Use::Patch;
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(value) => Value::Bool(*value),
        CelValue::Int(value) => Value::from(*value),
        CelValue::Uint(value) => Value::from(*value),
        CelValue::Double(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        CelValue::String(text) => Value::from(text.as_str()),
        CelValue::Type(ty) => Value::from(ty.to_string()),
        CelValue::Bytes(bytes) if is_patch => Value::from(STANDARD.encode(bytes)),
        CelValue::Bytes(bytes) => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:x}")).collect();
            return foreign(path, format!("[]uint8{{{}}}", bytes.join(", ")));
        }
        CelValue::Duration(nanoseconds) if !is_patch => return foreign(path, nanoseconds.to_string()),
        CelValue::List(list) => {
            let mut items = Vec::with_capacity(list.len());
            for (index, item) in list.iter().enumerate() {
                items.push(below(&format!("[{index}]"), &item?, for_use, path)?);
            }
            Value::Array(items)
        }
        CelValue::Map(map) => {
            let mut fields = Map::new();
            for (key, value) in map.entries() {
                let CelValue::String(key) = key else { return Err(Unfit::NoObject) };
                let value = below(&format!(".{}", key.as_str()), &value?, for_use, path)?;
                fields.insert(key.as_str().to_owned(), value);
            }
            Value::Object(fields)
        }
        CelValue::Object(entries, _) => Value::Object((*entries).clone()),
        CelValue::Message(message) => {
            let mut fields = Map::new();
            for (name, value) in &message.fields {
                if matches!(value, CelValue::Optional(None)) {
                    continue;
                }
                let value = below(&format!(".{name}"), value, for_use, path)?;
                fields.insert(name.to_string(), value);
            }
            Value::Object(fields)
        }
        CelValue::Optional(Some(inner)) => convert(inner, for_use, path)?,
        CelValue::Optional(None) => Value::Null,
        other => return foreign(path, other.ty().to_string()),
    })
}

fn below(step: &str, value: &CelValue<'_>, for_use: Use, path: &mut String) -> Result<Value, Unfit> {
    let length = path.len();
    path.push_str(step);
    let converted = convert(value, for_use, path);
    path.truncate(length);
    converted
}

/// What upstream says of the first null in an apply configuration: it is a number there.
pub(super) fn problem_of_null(kind: &Type, value: &Value) -> Option<String> {
    null_at(kind, value, &mut String::new())
}

fn null_at(kind: &Type, value: &Value, path: &mut String) -> Option<String> {
    let length = path.len();
    match (kind.node(), value) {
        (node, Value::Null) => {
            let why = match node {
                Node::Map(_) => "expected map, got &{NULL_VALUE}",
                Node::List(_) => "expected list, got &{NULL_VALUE}",
                Node::Scalar(Scalar::String) => "expected string, got &value.valueUnstructured{Value:0}",
                Node::Scalar(Scalar::Boolean) => "expected boolean, got &value.valueUnstructured{Value:0}",
                Node::Scalar(Scalar::Numeric) => "expected numeric (int or float), got structpb.NullValue",
                Node::Scalar(Scalar::Untyped) | Node::Deduced | Node::Opaque => return None,
            };
            return Some(format!("{path}: {why}"));
        }
        (Node::Map(map), Value::Object(fields)) => {
            for (name, value) in fields {
                let child = map.fields.get(name).map(|field| &field.kind).or(map.others.as_ref());
                let Some(child) = child else { continue };
                path.push('.');
                path.push_str(name);
                let found = null_at(child, value, path);
                path.truncate(length);
                if found.is_some() {
                    return found;
                }
            }
        }
        (Node::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                let found = null_at(&list.items, item, path);
                path.truncate(length);
                if found.is_some() {
                    return found;
                }
            }
        }
        _ => {}
    }
    None
}

/// The places in an apply configuration that objects hold as one value: what stands there would
/// replace more than it says. Lists are told apart by index here.
pub(super) fn atomics(kind: &Type, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    atomics_at(kind, value, &mut String::new(), &mut found);
    found
}

fn atomics_at(kind: &Type, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (kind.node(), value) {
        (Node::Map(_) | Node::List(_), _) if kind.is_atomic() && !path.is_empty() => found.push(path.clone()),
        (Node::Map(map), Value::Object(fields)) => {
            for (name, value) in fields {
                let child = map.fields.get(name).map(|field| &field.kind).or(map.others.as_ref());
                let Some(child) = child else { continue };
                path.push('.');
                path.push_str(name);
                atomics_at(child, value, path, found);
                path.truncate(length);
            }
        }
        (Node::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                atomics_at(&list.items, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
