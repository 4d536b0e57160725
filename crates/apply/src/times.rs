//! Writes that would change nothing but a time.

use serde_json::{Map, Value};

use crate::update::managed_fields;

/// After the rest of the write: if `old` and `new` are equal but for the times
/// in managedFields, gives `new` the old times, so that there is nothing to
/// store. Resource versions are not compared, nor what kind and version the objects say they are.
pub fn restore_times(old: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (managed_fields(old), managed_fields(new)) else { return };
    // What a write changes is found soonest in the object.
    let same = same_objects(old, new) && before != after && same_but(before, after, entries_same);
    if same {
        let before = before.clone();
        if let Some(after) = new.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")) {
            *after = before;
        }
    }
}

fn same_but(a: &Value, b: &Value, same: impl Fn(&Map<String, Value>, &Map<String, Value>) -> bool) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| match (a, b) {
                    (Value::Object(a), Value::Object(b)) => same(a, b),
                    (a, b) => a == b,
                })
        }
        _ => false,
    }
}

fn entries_same(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    without(a, &["time"]).eq(without(b, &["time"]))
}

fn same_objects(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return false };
    let metadata = |object| Map::get(object, "metadata").and_then(Value::as_object);
    let (Some(old_metadata), Some(new_metadata)) = (metadata(old), metadata(new)) else { return false };
    const ROOT: [&str; 3] = ["apiVersion", "kind", "metadata"];
    const APART: [&str; 2] = ["managedFields", "resourceVersion"];
    without(old, &ROOT).eq(without(new, &ROOT))
        && without(old_metadata, &APART).eq(without(new_metadata, &APART))
}

fn without<'a>(
    object: &'a Map<String, Value>,
    names: &'a [&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.iter().filter(move |(name, _)| !names.contains(&name.as_str()))
}
