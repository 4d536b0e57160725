//! JSON to a value, with the duplicate fields that were in it.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sternpost_meta::cancel::checkpoint;

use crate::number;

/// Duplicates reported, as upstream; a body may be full of them.
pub const MAX_DUPLICATES: usize = 100;

/// A body that was read; the last of fields with one name counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Json {
    pub value: Value,
    /// Their paths, in document order.
    pub duplicates: Vec<String>,
}

/// Reads JSON, numbers as Go reads them. Nesting is bounded by the reader.
pub fn read_json(bytes: &[u8]) -> Result<Json, serde_json::Error> {
    let mut state = State::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node(&mut state).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Json { value, duplicates: state.duplicates })
}

#[derive(Default)]
struct State {
    place: String,
    duplicates: Vec<String>,
    known: HashSet<String>,
}

struct Node<'a>(&'a mut State);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(number::read(&Number::from(value))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let state = self.0;
        let length = state.place.len();
        let mut out = Vec::new();
        loop {
            checkpoint();
            state.place.push_str(&format!("[{}]", out.len()));
            let item = items.next_element_seed(Node(state))?;
            state.place.truncate(length);
            match item {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let state = self.0;
        let length = state.place.len();
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            checkpoint();
            if length > 0 {
                state.place.push('.');
            }
            state.place.push_str(&key);
            let is_told = state.duplicates.len() < MAX_DUPLICATES && out.contains_key(&key);
            if is_told && state.known.insert(state.place.clone()) {
                state.duplicates.push(state.place.clone());
            }
            let value = entries.next_value_seed(Node(state))?;
            state.place.truncate(length);
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}
