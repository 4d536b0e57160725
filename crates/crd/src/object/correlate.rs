//! The old value that a new one is compared with, and whether it stayed the same: what did not change
//! is not held against its author (ratcheting).

use std::collections::HashMap;

use serde_json::Value;

use super::key_of;
use crate::node::{ListType, Node};

/// Whether a value is the old one to upstream. Items of a list with keys may have moved; a field that
/// no schema speaks of is never found again, unless it stands within a list without keys, which is
/// compared as a whole.
pub fn is_unchanged(node: &Node, value: &Value, old: &Value) -> bool {
    match (value, old) {
        (Value::Object(fields), Value::Object(before)) => {
            fields.len() == before.len()
                && fields.iter().all(|(key, field)| {
                    let schema = node.properties.get(key).or_else(|| node.additional_schema());
                    schema.zip(before.get(key)).is_some_and(|(schema, old)| is_unchanged(schema, field, old))
                })
        }
        (Value::Array(items), Value::Array(before)) if items.len() == before.len() => {
            let Some(old_items) = Keyed::new(node.list(), old) else { return items == before };
            items.iter().all(|item| {
                let schema = node.items.as_deref();
                schema.zip(old_items.find(item)).is_some_and(|(schema, old)| is_unchanged(schema, item, old))
            })
        }
        _ => value == old,
    }
}

/// The items of an old list, found by their keys.
#[derive(Debug)]
pub struct Keyed<'a> {
    keys: &'a [Box<str>],
    items: HashMap<String, &'a Value>,
}

impl<'a> Keyed<'a> {
    /// `None` for a list whose items have no keys. What is no list has no items.
    pub fn new(list: &'a ListType, old: &'a Value) -> Option<Self> {
        let ListType::Map(keys) = list else { return None };
        let mut items = HashMap::new();
        for item in old.as_array().into_iter().flatten() {
            if has_keys(item, keys) {
                items.entry(key_of(item, keys)).or_insert(item);
            }
        }
        Some(Self { keys, items })
    }

    pub fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() || !has_keys(item, self.keys) {
            return None;
        }
        self.items.get(&key_of(item, self.keys)).copied()
    }
}

/// Whether an item can be told from others: all its keys are there, and scalars.
fn has_keys(item: &Value, keys: &[Box<str>]) -> bool {
    let is_scalar = |value: &Value| matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    keys.iter().all(|key| item.get(&**key).is_some_and(is_scalar))
}
