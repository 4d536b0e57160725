//! A schema file that is JSON, as what `kustomize openapi fetch` writes is, without what no reader of schemas
//! looks at: its descriptions are most of its bytes. Several times as fast as reading the same text as YAML.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Of a text under this key nothing counts but that it is one.
const DESCRIPTION: &str = "description";

/// The document, its descriptions empty; nothing if it is not one document of plain JSON or sets a key twice,
/// which whoever reads it as YAML can say the place of.
pub(super) fn read(text: &str) -> Option<Value> {
    // Upstream takes a file for JSON by its first byte.
    if !text.starts_with('{') {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Held::Text.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(value)
}

/// What becomes of a value that is a text.
#[derive(Clone, Copy)]
enum Held {
    Text,
    Nothing,
}

impl<'de> DeserializeSeed<'de> for Held {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Held {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // One that is whole is an integer as YAML, and may be too large to be one.
        let fraction = Number::from_f64(value).filter(|_| value.fract() != 0.0);
        fraction.map(Value::Number).ok_or_else(|| E::custom("no fraction"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(match self {
            Self::Text => value.into(),
            Self::Nothing => Value::String(String::new()),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut held = Vec::new();
        while let Some(item) = items.next_element_seed(Self::Text)? {
            held.push(item);
        }
        Ok(Value::Array(held))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut held = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let text = if name == DESCRIPTION { Self::Nothing } else { Self::Text };
            let value = fields.next_value_seed(text)?;
            if held.insert(name, value).is_some() {
                return Err(A::Error::custom("a key repeats"));
            }
        }
        Ok(Value::Object(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What YAML makes of the same text is what is expected, but for descriptions.
    #[test]
    fn a_document_is_what_it_is_as_yaml() {
        for text in [
            r#"{"a":[1,-1,18446744073709551615,true,null,"x\u00e9\n",{"b":{}}],"é":""}"#,
            r#"{"maximum":1.5,"minimum":-2.5e-3}"#,
            "{\n  \"a\": {\"$ref\": \"#/definitions/B\"}\n}\n",
        ] {
            assert_eq!(read(text), sternpost_yaml::read(text).ok().map(|document| document.value), "{text}");
        }
    }

    #[test]
    fn descriptions_are_empty_and_fields_of_that_name_are_not() {
        let text =
            r#"{"description":"long","description2":"kept","properties":{"description":{"type":"string"}}}"#;
        let expected =
            r#"{"description":"","description2":"kept","properties":{"description":{"type":"string"}}}"#;
        assert_eq!(read(text), serde_json::from_str(expected).ok());
    }

    #[test]
    fn what_is_not_one_document_of_json_is_left_to_yaml() {
        for text in [
            "",
            " {}",
            "a: b",
            "{a: b}",
            r#"{"a":1} {}"#,
            r#"{"a":1"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"maxLength":1e3}"#,
            r#"{"maxLength":123456789012345678901234567890}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
