//! The JSON of a patch, and the fields that occur in it twice.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sternpost_golang::json::json_type;
use sternpost_golang::strconv::go_quote;

/// How many complaints are made about one body; more tell nobody anything.
pub const MAX_COMPLAINTS: usize = 100;

/// A body, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Body<T> {
    /// Of fields that occur twice the last.
    pub patch: T,
    /// `duplicate field "metadata.labels.a"`, in the order of the body, for
    /// whoever wants to know.
    pub complaints: Vec<String>,
}

/// How closely a body is looked at: the `fieldValidation` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// `Ignore`.
    Lenient,
    /// `Warn` and `Strict`.
    Checked,
}

/// A bad request. The texts are upstream's, except what is said of the syntax.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("{}{error}", .reading.prefix())]
    Syntax { reading: Reading, error: String },
    #[error("{}json: cannot unmarshal {found} into Go {place}", .reading.prefix())]
    WrongType { reading: Reading, found: &'static str, place: &'static str },
    #[error("Invalid JSON Patch")]
    NotAMergePatch,
}

/// Reads a JSON merge patch.
pub fn merge_patch(bytes: &[u8], reading: Reading) -> Result<Body<Map<String, Value>>, BodyError> {
    match (read(bytes), reading) {
        (Ok(Body { patch: Value::Object(patch), complaints }), _) => Ok(Body { patch, complaints }),
        (_, Reading::Lenient) | (Ok(Body { patch: Value::Null, .. }), _) => Err(BodyError::NotAMergePatch),
        (Ok(body), reading) => Err(not_a_map(&body.patch, reading)),
        (Err(error), reading) => Err(BodyError::Syntax { reading, error: error.to_string() }),
    }
}

/// Reads a strategic merge patch; `null` is an empty one.
pub fn strategic(bytes: &[u8]) -> Result<Body<Map<String, Value>>, BodyError> {
    // Looked at equally closely in any case.
    let reading = Reading::Lenient;
    let body = read(bytes).map_err(|error| BodyError::Syntax { reading, error: error.to_string() })?;
    match body.patch {
        Value::Object(patch) => Ok(Body { patch, complaints: body.complaints }),
        Value::Null => Ok(Body { patch: Map::new(), complaints: body.complaints }),
        other => Err(not_a_map(&other, reading)),
    }
}

fn not_a_map(found: &Value, reading: Reading) -> BodyError {
    BodyError::WrongType { reading, found: json_type(found), place: "value of type map[string]interface {}" }
}

impl Reading {
    fn prefix(self) -> &'static str {
        match self {
            Self::Lenient => "",
            Self::Checked => "error decoding patch: ",
        }
    }
}

fn read(bytes: &[u8]) -> Result<Body<Value>, serde_json::Error> {
    // What is text is found to be so all at once, instead of string by string.
    match std::str::from_utf8(bytes) {
        Ok(text) => read_from(serde_json::Deserializer::from_str(text)),
        Err(_) => read_from(serde_json::Deserializer::from_slice(bytes)),
    }
}

fn read_from<'de>(
    mut reader: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
) -> Result<Body<Value>, serde_json::Error> {
    let complaints = Complaints::default();
    let patch = Seed { at: &BodyPath::Root, complaints: &complaints }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Body { patch, complaints: complaints.into_list() })
}

/// Where in a body a value stands.
pub(crate) enum BodyPath<'a> {
    Root,
    Key(&'a BodyPath<'a>, &'a str),
    Index(&'a BodyPath<'a>, usize),
}

impl fmt::Display for BodyPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// What is found wrong while reading; each thing once.
#[derive(Default)]
pub(crate) struct Complaints(RefCell<Vec<String>>);

impl Complaints {
    pub(crate) fn add(&self, complaint: String) {
        let mut list = self.0.borrow_mut();
        if list.len() < MAX_COMPLAINTS && !list.contains(&complaint) {
            list.push(complaint);
        }
    }

    pub(crate) fn into_list(self) -> Vec<String> {
        self.0.into_inner()
    }
}

/// Reads a value and complains of repeated keys in it.
pub(crate) struct Seed<'a> {
    pub(crate) at: &'a BodyPath<'a>,
    pub(crate) complaints: &'a Complaints,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let complaints = self.complaints;
        while let Some(item) =
            items.next_element_seed(Seed { at: &BodyPath::Index(self.at, list.len()), complaints })?
        {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let complaints = self.complaints;
        while let Some(key) = members.next_key::<String>()? {
            let at = BodyPath::Key(self.at, &key);
            if map.contains_key(&key) {
                complaints.add(format!("duplicate field {}", go_quote(&at.to_string())));
            }
            let value = members.next_value_seed(Seed { at: &at, complaints })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_of_a_repeated_field_counts_and_each_is_told_once() {
        for (text, value, complaints) in [
            (r#"{"a":1}"#, json!({"a": 1}), vec![]),
            (r#"{"a":1,"a":2,"a":3}"#, json!({"a": 3}), vec!["duplicate field \"a\""]),
            (
                r#"{"m":{"l":[{"u":1,"u":2}]},"f":{"x":1,"x":2},"f":null}"#,
                json!({"m": {"l": [{"u": 2}]}, "f": null}),
                vec!["duplicate field \"m.l[0].u\"", "duplicate field \"f.x\"", "duplicate field \"f\""],
            ),
            ("[1.5,-1,null,true,\"\\u0061\"]", json!([1.5, -1, null, true, "a"]), vec![]),
        ] {
            let body = read(text.as_bytes()).unwrap();
            assert_eq!(body.patch, value);
            assert_eq!(body.complaints, complaints);
        }
    }

    #[test]
    fn complaints_stop_at_the_limit() {
        let body = |count: usize| {
            let fields: Vec<String> = (0..count).map(|n| format!("\"{n}\":1,\"{n}\":1")).collect();
            read(format!("{{{}}}", fields.join(",")).as_bytes()).unwrap()
        };
        assert_eq!(body(MAX_COMPLAINTS).complaints.len(), MAX_COMPLAINTS);
        assert_eq!(body(MAX_COMPLAINTS + 1).complaints.len(), MAX_COMPLAINTS);
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(crate::MAX_DEPTH).as_bytes()).is_ok());
        assert!(read(nested(crate::MAX_DEPTH + 1).as_bytes()).is_err());
    }

    #[test]
    fn what_follows_the_value_is_an_error() {
        assert!(read(b"{} x").is_err());
        assert!(read(b"").is_err());
    }

    #[test]
    fn what_is_no_merge_patch_is_told_as_upstream_tells_it() {
        let map = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        for (body, checked, lenient, of_strategic) in [
            ("[]", &*format!("error decoding patch: {map}"), "Invalid JSON Patch", map),
            (
                "1",
                "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
                "Invalid JSON Patch",
                "json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
            ("null", "Invalid JSON Patch", "Invalid JSON Patch", ""),
            ("{}", "", "", ""),
        ] {
            let text = |result: Result<_, BodyError>| result.err().map(|e| e.to_string()).unwrap_or_default();
            assert_eq!(text(merge_patch(body.as_bytes(), Reading::Checked)), checked, "{body}");
            assert_eq!(text(merge_patch(body.as_bytes(), Reading::Lenient)), lenient, "{body}");
            assert_eq!(text(strategic(body.as_bytes())), of_strategic, "{body}");
        }
        assert!(matches!(merge_patch(b"{", Reading::Checked), Err(BodyError::Syntax { .. })));
        assert_eq!(merge_patch(b"{", Reading::Lenient), Err(BodyError::NotAMergePatch));
    }
}
