//! Reading and changing objects as JSON.
//!
//! A missing field, a `null` and an empty value of the asked type read alike,
//! as they do in the Go types the rules were made for; [`Fields::get_field`] tells a
//! pointer that is set from one that is not.

use serde_json::{Map, Value};
use sternpost_meta::cancel::checkpoint;

static NULL: Value = Value::Null;
static NO_ITEMS: &[Value] = &[];

/// Reading.
pub trait Fields {
    /// The field, or `null`. Works on anything: a field of a non-object is `null`.
    fn field(&self, name: &str) -> &Value;

    /// Several fields, each as [`Fields::field`] has it: one walk costs less than a search for each.
    fn pick<'a, const N: usize>(&'a self, names: [&str; N]) -> [&'a Value; N];

    /// The field if it is set, as a pointer would be.
    fn get_field(&self, name: &str) -> Option<&Value> {
        Some(self.field(name)).filter(|value| !value.is_null())
    }

    fn has(&self, name: &str) -> bool {
        self.get_field(name).is_some()
    }

    /// A string, empty if there is none.
    fn text(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    fn int(&self, name: &str) -> Option<i64> {
        self.field(name).as_i64()
    }

    /// A boolean, false if there is none.
    fn flag(&self, name: &str) -> bool {
        self.field(name).as_bool().unwrap_or_default()
    }

    /// The items of a list, none if there is no list.
    fn items(&self, name: &str) -> &[Value] {
        self.field(name).as_array().map_or(NO_ITEMS, Vec::as_slice)
    }

    /// The entries of a map, none if there is no map.
    fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.field(name).as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }
}

impl Fields for Value {
    fn field(&self, name: &str) -> &Value {
        // All that a kind checks or changes goes through here.
        checkpoint();
        match self {
            Value::Object(fields) => fields.get(name).unwrap_or(&NULL),
            _ => &NULL,
        }
    }

    fn pick<'a, const N: usize>(&'a self, names: [&str; N]) -> [&'a Value; N] {
        let mut picked = [&NULL; N];
        for (name, value) in self.as_object().into_iter().flatten() {
            checkpoint();
            if let Some((_, place)) = names.iter().zip(&mut picked).find(|(wanted, _)| *wanted == name) {
                *place = value;
            }
        }
        picked
    }
}

/// Changing.
pub trait FieldsMut {
    /// Sets the field if it is missing, `null` or an empty string.
    fn default_field(&mut self, name: &str, value: impl Into<Value>);

    /// The object in the field; made if there is none.
    fn object_mut(&mut self, name: &str) -> &mut Value;

    /// The items of the list in the field, if there is one.
    fn items_mut(&mut self, name: &str) -> &mut [Value];

    fn set(&mut self, name: &str, value: impl Into<Value>);

    fn remove(&mut self, name: &str) -> Option<Value>;
}

impl FieldsMut for Value {
    fn default_field(&mut self, name: &str, value: impl Into<Value>) {
        let missing = match self.field(name) {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if missing {
            self.set(name, value);
        }
    }

    fn object_mut(&mut self, name: &str) -> &mut Value {
        if !self.is_object() {
            *self = Value::Object(Map::new());
        }
        // Most often it is there, and its name need not be copied.
        if !self.field(name).is_object() {
            self.set(name, Map::new());
        }
        // An object by now, which has the field.
        match self.get_mut(name) {
            Some(field) => field,
            None => unreachable!("a field that was just set"),
        }
    }

    fn items_mut(&mut self, name: &str) -> &mut [Value] {
        self.get_mut(name).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(map) = self.as_object_mut() {
            match map.get_mut(name) {
                // So its name is not copied once more.
                Some(field) => *field = value.into(),
                None => {
                    map.insert(name.into(), value.into());
                }
            }
        }
    }

    fn remove(&mut self, name: &str) -> Option<Value> {
        self.as_object_mut()?.remove(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_reads_as_empty() {
        let object = json!({"a": null, "n": 3, "s": "x", "l": [1], "m": {"k": "v"}});
        assert!(!object.has("a") && !object.has("zz") && object.has("n"));
        assert_eq!(
            (object.text("s"), object.text("n"), object.int("n"), object.int("s")),
            ("x", "", Some(3), None)
        );
        assert_eq!((object.items("l").len(), object.items("m").len()), (1, 0));
        assert_eq!(object.entries("m").count(), 1);
        assert_eq!(object.field("m").field("zz").field("y"), &Value::Null);
        assert_eq!(object.pick(["s", "zz", "a", "n"]), ["s", "zz", "a", "n"].map(|name| object.field(name)));
        assert_eq!(object.field("s").pick(["x"]), [&Value::Null]);
    }

    #[test]
    fn defaults_fill_what_is_empty_and_nothing_else() {
        let mut object = json!({"e": "", "n": null, "z": 0, "f": false});
        for name in ["e", "n", "z", "f", "new"] {
            object.default_field(name, 7);
        }
        assert_eq!(object, json!({"e": 7, "n": 7, "z": 0, "f": false, "new": 7}));
        object.object_mut("o").set("x", 1);
        assert_eq!(object["o"], json!({"x": 1}));
    }
}
