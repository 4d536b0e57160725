//! JSON document to protobuf bytes.

use serde_json::{Map, Value};

use super::{
    MAX_DEPTH, MAX_VALUE_DEPTH,
    table::{Alternative, Field, Kind, Message, Unknown, When},
    yaml,
};

/// Why a document has no protobuf form. `path` is a JSON pointer into it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("`{path}`: unknown key")]
    UnknownKey { path: String },
    #[error("`{path}`: missing required key `{key}`")]
    MissingKey { path: String, key: &'static str },
    #[error("`{path}`: expected {expected}")]
    Unfit { path: String, expected: &'static str },
    #[error("`{path}`: nested deeper than {MAX_DEPTH} messages, or {MAX_VALUE_DEPTH} values")]
    TooDeep { path: String },
}

impl EncodeError {
    pub fn path(&self) -> &str {
        let (Self::UnknownKey { path }
        | Self::MissingKey { path, .. }
        | Self::Unfit { path, .. }
        | Self::TooDeep { path }) = self;
        path
    }

    fn unfit(expected: &'static str) -> Self {
        Self::Unfit { path: String::new(), expected }
    }

    /// Errors are made where they happen and learn their path on the way out,
    /// so that a document without errors pays nothing for paths.
    fn under(mut self, segment: &str) -> Self {
        let (Self::UnknownKey { path }
        | Self::MissingKey { path, .. }
        | Self::Unfit { path, .. }
        | Self::TooDeep { path }) = &mut self;
        let escaped = segment.replace('~', "~0").replace('/', "~1");
        path.insert_str(0, &escaped);
        path.insert(0, '/');
        self
    }
}

pub(super) fn encode(message: &'static Message, document: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder { reversed: Vec::new(), pending: Vec::new() };
    encoder.message(message, document, 1)?;
    encoder.reversed.reverse();
    Ok(encoder.reversed)
}

/// Writes back to front: a message's length is known by the time its header is
/// due, so nothing is measured twice or copied from a nested buffer.
struct Encoder<'a> {
    reversed: Vec<u8>,
    /// The fields still to be written of every open record, outermost first.
    pending: Vec<Pending<'a>>,
}

struct Pending<'a> {
    field: &'static Field,
    key: &'a str,
    value: &'a Value,
}

type Done = Result<(), EncodeError>;

impl<'a> Encoder<'a> {
    fn message(&mut self, message: &'static Message, value: &'a Value, depth: usize) -> Done {
        if depth > MAX_DEPTH {
            return Err(EncodeError::TooDeep { path: String::new() });
        }
        match message {
            Message::Record { required, fields, unknown } => match value {
                Value::Object(object) => self.record(required, fields, *unknown, object, depth),
                _ => Err(EncodeError::unfit("an object")),
            },
            Message::OneOf(alternatives) => {
                let chosen = choose(alternatives, value)?;
                self.nested(chosen.number, chosen.message, value, depth)
            }
            Message::BooleanOr(message) => match value {
                Value::Bool(value) => {
                    self.boolean(2, *value);
                    Ok(())
                }
                _ => self.nested(1, message, value, depth),
            },
            Message::OneOrMany(message) => match value {
                Value::Array(values) => self.list(1, message, values, depth),
                _ => self.nested(1, message, value, depth),
            },
            Message::StringOrStrings => match value {
                Value::String(text) => {
                    self.bytes(1, text.as_bytes());
                    Ok(())
                }
                _ => self.strings(1, value, &[]),
            },
            Message::Strings => self.strings(1, value, &[]),
            Message::Any => {
                let text = yaml::write(value).ok_or(EncodeError::TooDeep { path: String::new() })?;
                self.bytes(2, text.as_bytes());
                Ok(())
            }
            Message::Scalar => {
                match value {
                    Value::Number(number) => self.double(1, number.as_f64().unwrap_or_default()),
                    Value::Bool(value) => self.boolean(2, *value),
                    Value::String(text) => self.bytes(3, text.as_bytes()),
                    Value::Null | Value::Array(_) | Value::Object(_) => {}
                }
                Ok(())
            }
            Message::AnyOrExpression(expression) => match value {
                Value::Object(_) => self.nested(2, expression, value, depth),
                _ => {
                    self.bytes(2, &[]);
                    Ok(())
                }
            },
        }
    }

    fn record(
        &mut self,
        required: &'static [&'static str],
        fields: &'static [Field],
        unknown: Unknown,
        object: &'a Map<String, Value>,
        depth: usize,
    ) -> Done {
        if let Some(key) = required.iter().find(|key| !object.contains_key(**key)) {
            return Err(EncodeError::MissingKey { path: String::new(), key });
        }
        let base = self.pending.len();
        for (key, value) in object {
            match fields.iter().find(|field| field.takes(key)) {
                Some(field) => self.pending.push(Pending { field, key, value }),
                None if unknown == Unknown::Drop => {}
                None => return Err(EncodeError::UnknownKey { path: String::new() }.under(key)),
            }
        }
        // Fields go out by number, entries of one field in the order of their
        // keys; taking them from the end writes the last one first.
        self.pending.get_mut(base..).unwrap_or_default().sort_by_key(|pending| pending.field.number);
        while self.pending.len() > base
            && let Some(next) = self.pending.pop()
        {
            self.field(next.field, next.key, next.value, depth).map_err(|error| error.under(next.key))?;
        }
        Ok(())
    }

    /// Scalars that are zero are not written: the format cannot tell them from
    /// absent ones.
    fn field(&mut self, field: &'static Field, key: &'a str, value: &'a Value, depth: usize) -> Done {
        match field.kind {
            Kind::String(_) => {
                let text = scalar_text(value)?;
                if !field.allowed.is_empty() && !field.allowed.contains(&&*text) {
                    return Err(EncodeError::unfit("one of the values this key may have"));
                }
                if !text.is_empty() {
                    self.bytes(field.number, text.as_bytes());
                }
            }
            Kind::Strings(_) => self.strings(field.number, value, field.allowed)?,
            Kind::Boolean(_) => {
                if value.as_bool().ok_or(EncodeError::unfit("a boolean"))? {
                    self.boolean(field.number, true);
                }
            }
            Kind::Integer(_) => {
                let number = value.as_i64().ok_or(EncodeError::unfit("a 64-bit integer"))?;
                if number != 0 {
                    self.varint(number.cast_unsigned());
                    self.tag(field.number, VARINT);
                }
            }
            Kind::Double(_) => {
                let number = value.as_f64().ok_or(EncodeError::unfit("a number"))?;
                // Negative zero is not the zero that vanishes.
                if number.to_bits() != 0 {
                    self.double(field.number, number);
                }
            }
            Kind::Message(_, message) => self.nested(field.number, message, value, depth)?,
            Kind::Messages(_, message) => match value {
                Value::Array(values) => self.list(field.number, message, values, depth)?,
                _ => return Err(EncodeError::unfit("a list")),
            },
            Kind::Named(_, message) => {
                let end = self.reversed.len();
                self.nested(2, message, value, depth)?;
                self.name(field.number, key, end);
            }
            Kind::NamedStrings(_) => {
                let end = self.reversed.len();
                let text = scalar_text(value)?;
                if !text.is_empty() {
                    self.bytes(2, text.as_bytes());
                }
                self.name(field.number, key, end);
            }
        }
        Ok(())
    }

    fn nested(&mut self, number: u32, message: &'static Message, value: &'a Value, depth: usize) -> Done {
        let end = self.reversed.len();
        self.message(message, value, depth + 1)?;
        self.header(number, end);
        Ok(())
    }

    fn list(&mut self, number: u32, message: &'static Message, values: &'a [Value], depth: usize) -> Done {
        for (index, value) in values.iter().enumerate().rev() {
            self.nested(number, message, value, depth).map_err(|error| error.under(&index.to_string()))?;
        }
        Ok(())
    }

    fn strings(&mut self, number: u32, value: &Value, allowed: &[&str]) -> Done {
        let Value::Array(values) = value else {
            return Err(EncodeError::unfit("a list of strings"));
        };
        for (index, value) in values.iter().enumerate().rev() {
            let text = scalar_text(value).map_err(|error| error.under(&index.to_string()))?;
            if !allowed.is_empty() && !allowed.contains(&&*text) {
                return Err(EncodeError::unfit("only values this key may have").under(&index.to_string()));
            }
            self.bytes(number, text.as_bytes());
        }
        Ok(())
    }

    /// Completes a `{name = 1, value = 2}` entry whose value is written.
    fn name(&mut self, number: u32, name: &str, end: usize) {
        if !name.is_empty() {
            self.bytes(1, name.as_bytes());
        }
        self.header(number, end);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        let end = self.reversed.len();
        self.reversed.extend(bytes.iter().rev());
        self.header(number, end);
    }

    fn boolean(&mut self, number: u32, value: bool) {
        self.varint(u64::from(value));
        self.tag(number, VARINT);
    }

    fn double(&mut self, number: u32, value: f64) {
        self.reversed.extend(value.to_be_bytes());
        self.tag(number, FIXED64);
    }

    /// Length and tag of everything written since `end`.
    fn header(&mut self, number: u32, end: usize) {
        let length = self.reversed.len() - end;
        self.varint(length as u64);
        self.tag(number, LENGTH);
    }

    fn tag(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        let start = self.reversed.len();
        while value >= 0x80 {
            self.reversed.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.reversed.push(value as u8);
        self.reversed.get_mut(start..).unwrap_or_default().reverse();
    }
}

pub(super) const VARINT: u32 = 0;
pub(super) const FIXED64: u32 = 1;
pub(super) const LENGTH: u32 = 2;
pub(super) const FIXED32: u32 = 5;

fn choose(alternatives: &'static [Alternative], value: &Value) -> Result<&'static Alternative, EncodeError> {
    let Value::Object(object) = value else {
        return Err(EncodeError::unfit("an object"));
    };
    let fits = |when: &When| match when {
        When::HasRef => object.contains_key("$ref"),
        When::Equals(pairs) => {
            pairs.iter().all(|(key, text)| object.get(*key).and_then(Value::as_str) == Some(text))
        }
        When::Otherwise => true,
    };
    alternatives
        .iter()
        .find(|alternative| fits(&alternative.when))
        .ok_or(EncodeError::unfit("a kind that `in`, or `type` and `flow`, name"))
}

/// The text of a string field. The reference parser also takes integers and
/// `null` there.
fn scalar_text(value: &Value) -> Result<std::borrow::Cow<'_, str>, EncodeError> {
    match value {
        Value::String(text) => Ok(text.into()),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string().into()),
        Value::Null => Ok("".into()),
        _ => Err(EncodeError::unfit("a string")),
    }
}
