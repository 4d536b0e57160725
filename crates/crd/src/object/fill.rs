//! Defaults, and nulls where none may be.

use serde_json::Value;

use crate::node::Node;

/// Gives missing fields their defaults and drops nulls that the schema does not allow.
///
/// A null where a default stands is replaced by it. Idempotent.
pub fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                let missing = fields.get(&**name).is_none_or(|value| is_unset(property, value));
                if let (true, Some(default)) = (missing, &property.default) {
                    fields.insert(name.to_string(), default.clone());
                }
            }
            let mut gone = Vec::new();
            for (name, value) in fields.iter_mut() {
                let schema = node.properties.get(name.as_str()).or_else(|| node.additional_schema());
                let Some(schema) = schema else { continue };
                if is_unset(schema, value) {
                    match &schema.default {
                        Some(default) => *value = default.clone(),
                        None => {
                            gone.push(name.clone());
                            continue;
                        }
                    }
                }
                fill(schema, value);
            }
            for name in gone {
                fields.remove(&name);
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for item in items {
                if let (true, Some(default)) = (is_unset(schema, item), &schema.default) {
                    *item = default.clone();
                }
                fill(schema, item);
            }
        }
        _ => {}
    }
}

fn is_unset(schema: &Node, value: &Value) -> bool {
    value.is_null() && !schema.nullable
}
