//! Defaults, and nulls where none may be.

use serde_json::Value;
use sternpost_meta::cancel::checkpoint;

use crate::node::Node;

/// Gives missing fields their defaults and drops nulls that the schema does not allow.
///
/// A null where a default stands is replaced by it. Idempotent.
pub fn fill(node: &Node, value: &mut Value) {
    fill_with(node, value, Nulls::Drop);
}

/// As [`fill`], with nulls left for validation to refuse.
pub fn fill_keeping_nulls(node: &Node, value: &mut Value) {
    fill_with(node, value, Nulls::Keep);
}

/// What becomes of a null that may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Drop,
    Keep,
}

fn fill_with(node: &Node, value: &mut Value, nulls: Nulls) {
    checkpoint();
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                let missing = fields.get(&**name).is_none_or(|value| is_unset(property, value));
                if let (true, Some(default)) = (missing, property.default_value()) {
                    fields.insert(name.to_string(), default.clone());
                }
            }
            let mut gone = Vec::new();
            for (name, value) in fields.iter_mut() {
                let schema = node.properties.get(name.as_str()).or_else(|| node.additional_schema());
                let Some(schema) = schema else { continue };
                if is_unset(schema, value) {
                    match schema.default_value() {
                        Some(default) => *value = default.clone(),
                        None => {
                            if nulls == Nulls::Drop {
                                gone.push(name.clone());
                            }
                            continue;
                        }
                    }
                }
                fill_with(schema, value, nulls);
            }
            for name in gone {
                fields.remove(&name);
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for item in items {
                if let (true, Some(default)) = (is_unset(schema, item), schema.default_value()) {
                    *item = default.clone();
                }
                fill_with(schema, item, nulls);
            }
        }
        _ => {}
    }
}

/// Drops nulls that the schema neither allows nor replaces by a default. Defaults do not come.
pub fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let schema = node.properties.get(name.as_str()).or_else(|| node.additional_schema());
            let Some(schema) = schema else { return true };
            drop_nulls(schema, value);
            !(is_unset(schema, value) && schema.default_value().is_none())
        }),
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for item in items {
                drop_nulls(schema, item);
            }
        }
        _ => {}
    }
}

fn is_unset(schema: &Node, value: &Value) -> bool {
    value.is_null() && !schema.nullable
}
