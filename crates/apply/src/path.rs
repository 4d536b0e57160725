//! Paths into an object: fields, list items by key or value, indexes.

use std::{cmp::Ordering, sync::Arc};

use serde_json::{Number, Value};
use sternpost_golang::json::go_json;

use crate::{malformed, value};

/// One step of a path.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of an object.
    Field(Arc<str>),
    /// The item of a list that has these key fields; sorted by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// The item of a list that is this value.
    Value(Arc<Value>),
    /// The item of a list at this place.
    Index(i64),
}

impl Element {
    pub fn field(name: impl Into<Arc<str>>) -> Self {
        Self::Field(name.into())
    }

    pub fn key(mut fields: Vec<(Arc<str>, Value)>) -> Self {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(fields.into())
    }

    /// Reads the form of `FieldsV1`: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    /// `Ok(None)` for a form of the future.
    pub fn parse(text: &str) -> Result<Option<Self>, MalformedElement> {
        let malformed = |why: String| MalformedElement { why: malformed::element_text(text).unwrap_or(why) };
        if text.len() < 2 {
            return Err(malformed("key must be 2 characters long:".into()));
        }
        let Some((prefix, rest)) = text.split_at_checked(2) else {
            return Err(malformed(format!("missing colon: {text}")));
        };
        Ok(Some(match prefix {
            "f:" => Self::field(rest),
            "k:" => match first_json(rest) {
                Ok(Value::Object(fields)) => {
                    Self::Key(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
                }
                Ok(_) => return Err(malformed("is no object".into())),
                Err(why) => return Err(malformed(why)),
            },
            "v:" => Self::Value(Arc::new(first_json(rest).map_err(malformed)?)),
            "i:" => match rest.parse() {
                Ok(index) => Self::Index(index),
                Err(_) => return Err(malformed("is no index".into())),
            },
            _ if prefix.ends_with(':') => return Ok(None),
            _ => return Err(malformed(format!("missing colon: {text}"))),
        }))
    }

    /// Writes the form of `FieldsV1`.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_json(&Value::from(&**name), out);
                    out.push(':');
                    write_json(value, out);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                write_json(value, out);
            }
            Self::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
    }

    pub(crate) fn to_key(&self) -> String {
        let mut key = match self {
            Self::Field(name) => String::with_capacity(name.len() + 2),
            _ => String::new(),
        };
        self.write(&mut key);
        key
    }

    /// Writes the form that people read: `.name`, `[name="a"]`, `[="a"]`, `[0]`.
    pub fn write_text(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push('.');
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push('[');
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push('=');
                    value::write_text(value, out);
                }
                out.push(']');
            }
            Self::Value(value) => {
                out.push_str("[=");
                value::write_text(value, out);
                out.push(']');
            }
            Self::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// What follows the first value is ignored, as upstream does.
fn first_json(text: &str) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("has no value".into()),
    }
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match whole(number) {
            Some(whole) => out.push_str(&whole.to_string()),
            None => out.push_str(&number.to_string()),
        },
        // Written out: formatting machinery costs more than the text.
        Value::String(text) if text.bytes().all(is_plain) => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Null => out.push_str("null"),
        other => out.push_str(&go_json(other)),
    }
}

/// A byte that stands for itself in a JSON string as Go writes it. Two line
/// separators beyond ASCII do not either; both begin with this byte.
fn is_plain(byte: u8) -> bool {
    byte >= b' ' && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

/// The integer that a number is, however it was written.
fn whole(number: &Number) -> Option<i64> {
    /// Floats hold every integer up to here.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the range, just checked")]
        (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
    })
}

/// Fields by name, keys field by field, values by value, indexes by number.
impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((name, a), (other, b)) in a.iter().zip(b.iter()) {
                    let order = name.cmp(other).then_with(|| value::compare(a, b));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (Self::Value(a), Self::Value(b)) => value::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// A path as people read it: `.spec.containers[name="a"].image`.
pub fn text(path: &[Element]) -> String {
    let mut out = String::new();
    for element in path {
        element.write_text(&mut out);
    }
    out
}

/// The path of fields that `.metadata.labels` stands for.
pub fn fields(text: &str) -> Vec<Element> {
    text.split('.').filter(|step| !step.is_empty()).map(Element::field).collect()
}

/// A path element that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct MalformedElement {
    pub why: String,
}
