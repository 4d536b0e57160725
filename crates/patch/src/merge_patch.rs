//! JSON Merge Patch (RFC 7386): applying one, and making one from two or
//! three objects, as `kubectl apply` does for custom resources.

use serde_json::{Map, Value, map::Entry};
use sternpost_meta::cancel::checkpoint;

/// Changes an object; null deletes, objects merge, all else replaces.
///
/// Of values that take no object's place nulls are left out, even inside
/// lists; a list that takes the place of an object keeps them.
pub fn apply(object: Value, patch: &Map<String, Value>) -> Value {
    let mut map = match object {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    merge(&mut map, patch);
    Value::Object(map)
}

/// The patch that makes `new` of `old`: [`apply`] undoes it, unless `new` has
/// nulls, which no merge patch can say.
pub fn diff(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(Value::Object(old)) if value.is_object() => {
                let inner = value.as_object().map(|new| diff(old, new)).unwrap_or_default();
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            Some(old) if old == value => {}
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    patch.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    patch
}

/// The patch that brings `current` to `modified`, and deletes what is in
/// `original` and no longer in `modified`; what neither mentions stays.
pub fn three_way(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let mut patch = diff(original, modified);
    keep_nulls(&mut patch);
    let mut changes = diff(current, modified);
    drop_nulls(&mut changes);
    join(&mut patch, changes);
    patch
}

/// The first of `apiVersion`, `kind` and `metadata.name` that a patch touches:
/// what `kubectl apply` refuses to send for a custom resource.
pub fn changed_identity(patch: &Map<String, Value>) -> Option<&'static str> {
    let metadata = patch.get("metadata").and_then(Value::as_object);
    ["apiVersion", "kind"]
        .into_iter()
        .find(|key| patch.contains_key(*key))
        .or_else(|| metadata?.contains_key("name").then_some("metadata.name"))
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, new) in patch {
        checkpoint();
        match object.get_mut(key) {
            _ if new.is_null() => {
                object.remove(key);
            }
            Some(Value::Object(old)) => match new {
                Value::Object(new) => merge(old, new),
                _ => {
                    object.insert(key.clone(), new.clone());
                }
            },
            Some(old) => *old = without_nulls(new),
            None => {
                object.insert(key.clone(), without_nulls(new));
            }
        }
    }
}

/// Without members that are null; a list keeps its items.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let members = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(members.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// Leaves the deletions of a patch.
fn keep_nulls(patch: &mut Map<String, Value>) {
    patch.retain(|_, value| match value {
        Value::Null => true,
        Value::Object(inner) => {
            keep_nulls(inner);
            !inner.is_empty()
        }
        _ => false,
    });
}

/// Leaves what a patch adds and changes.
fn drop_nulls(patch: &mut Map<String, Value>) {
    patch.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(inner) if inner.is_empty() => true,
        Value::Object(inner) => {
            drop_nulls(inner);
            !inner.is_empty()
        }
        Value::Array(_) => {
            drop_nulls_of_list(value);
            true
        }
        _ => true,
    });
}

/// A list is new as a whole: objects in it stay, even if nothing is left of them.
fn drop_nulls_of_list(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls_of_list);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls_of_list),
        _ => {}
    }
}

/// Two patches as one; nulls are kept, for they still have to delete.
fn join(patch: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match patch.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
            }
            Entry::Occupied(mut entry) => match (entry.get_mut(), value) {
                (Value::Object(old), Value::Object(new)) => join(old, new),
                (old, new) => *old = new,
            },
        }
    }
}
