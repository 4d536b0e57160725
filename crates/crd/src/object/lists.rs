//! Items of sets and of lists with keys stand there once.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sternpost_meta::field::Errors;

use crate::node::{ListType, Node};

/// Reports each value that is there more than once, at its second place.
pub fn check_unique(node: &Node, value: &Value, path: &str, errors: &mut Errors) {
    match value {
        Value::Array(items) => {
            match node.list() {
                ListType::Atomic => {}
                ListType::Set => {
                    report(items.iter().map(|item| (item.to_string(), item.clone())), path, errors);
                }
                ListType::Map(keys) => {
                    let keyed = items.iter().map(|item| {
                        let shown: Map<String, Value> = keys
                            .iter()
                            .filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())))
                            .collect();
                        (super::check::key_of(item, keys), crate::number::shown(shown.into()))
                    });
                    report(keyed, path, errors);
                }
            }
            let Some(child) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                check_unique(child, item, &format!("{path}[{index}]"), errors);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                if let Some((child, path)) = node.below(key, path) {
                    check_unique(child, field, &path, errors);
                }
            }
        }
        _ => {}
    }
}

fn report(items: impl Iterator<Item = (String, Value)>, path: &str, errors: &mut Errors) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, (key, shown)) in items.enumerate() {
        let times = seen.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            errors.duplicate(format!("{path}[{index}]"), &shown);
        }
    }
}
