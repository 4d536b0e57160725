//! Protobuf bytes to JSON document.

use serde_json::{Map, Number, Value};

use super::{
    MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_MESSAGES,
    encode::{FIXED32, FIXED64, LENGTH, VARINT},
    table::{Alternative, Field, Keys, Kind, Message},
    yaml,
};

/// Why bytes are not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("larger than {MAX_DOCUMENT_BYTES} bytes")]
    TooLarge,
    #[error("more than {MAX_MESSAGES} messages")]
    TooMany,
    #[error("nested deeper than {MAX_DEPTH} messages")]
    TooDeep,
    #[error("ends inside a field")]
    Truncated,
    #[error("malformed variable-length integer")]
    Varint,
    #[error("unknown wire type {0}")]
    WireType(u32),
    #[error("field {0} is not of its declared type")]
    FieldType(u32),
    #[error("field {0} is not UTF-8")]
    Utf8(u32),
    #[error("field {0} is not a finite number")]
    NotFinite(u32),
    #[error("name `{0}` does not fit the field it stands in")]
    Name(String),
    #[error("value is not YAML that this reader knows: {0}")]
    Yaml(&'static str),
}

pub(super) fn decode(message: &'static Message, bytes: &[u8]) -> Result<Value, DecodeError> {
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(DecodeError::TooLarge);
    }
    Decoder { left: MAX_MESSAGES }.message(message, bytes, 1)
}

struct Decoder {
    /// How many more messages may be read. Two bytes on the wire can cost a
    /// few hundred in memory, so the byte limit alone would not do.
    left: usize,
}

impl Decoder {
    /// Everything that recurses passes here; the work is in functions of its
    /// own so that a level of nesting costs little stack.
    fn message(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        self.left = self.left.checked_sub(1).ok_or(DecodeError::TooMany)?;
        match message {
            Message::Record { required, fields, .. } => self.record(required, fields, bytes, depth),
            Message::OneOf(alternatives) => self.one_of(alternatives, bytes, depth),
            Message::BooleanOr(message) => self.boolean_or(message, bytes, depth),
            Message::OneOrMany(message) => self.one_or_many(message, bytes, depth),
            Message::StringOrStrings => strings(bytes).map(one_or_list),
            Message::Strings => strings(bytes).map(Value::Array),
            Message::Any => any(bytes),
            Message::Scalar => scalar(bytes),
            Message::AnyOrExpression(expression) => self.any_or_expression(expression, bytes, depth),
        }
    }

    /// A singular field that occurs twice has its last value.
    fn record(
        &mut self,
        required: &'static [&'static str],
        fields: &'static [Field],
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let mut object = Map::new();
        for item in Fields(bytes) {
            let (number, wire) = item?;
            let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
            if let Some((key, message, bytes)) = nested(field, wire, &mut object)? {
                let value = self.message(message, bytes, depth + 1)?;
                place(field, key, value, &mut object);
            }
        }
        fill(required, fields, &mut object);
        Ok(Value::Object(object))
    }

    fn one_or_many(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let mut values = Vec::new();
        for item in Fields(bytes) {
            if let (1, wire) = item? {
                values.push(self.message(message, wire.bytes(1)?, depth + 1)?);
            }
        }
        Ok(one_or_list(values))
    }

    fn any_or_expression(
        &mut self,
        expression: &'static Message,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let mut value = Value::Object(Map::new());
        for item in Fields(bytes) {
            match item? {
                (1, wire) => value = any(wire.bytes(1)?)?,
                (2, wire) => value = self.message(expression, wire.bytes(2)?, depth + 1)?,
                _ => {}
            }
        }
        Ok(value)
    }

    fn one_of(
        &mut self,
        alternatives: &'static [Alternative],
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let mut last = None;
        for item in Fields(bytes) {
            let (number, wire) = item?;
            if let Some(alternative) = alternatives.iter().find(|alternative| alternative.number == number) {
                last = Some((alternative.message, wire.bytes(number)?));
            }
        }
        match last {
            Some((message, bytes)) => self.message(message, bytes, depth + 1),
            None => Ok(Value::Object(Map::new())),
        }
    }

    fn boolean_or(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let mut last = None;
        for item in Fields(bytes) {
            match item? {
                (1, wire) => last = Some(Err(wire.bytes(1)?)),
                (2, wire) => last = Some(Ok(wire.varint(2)? != 0)),
                _ => {}
            }
        }
        match last {
            Some(Ok(value)) => Ok(Value::Bool(value)),
            Some(Err(bytes)) => self.message(message, bytes, depth + 1),
            None => Ok(Value::Object(Map::new())),
        }
    }
}

type Nested<'a> = (String, &'static Message, &'a [u8]);

/// Reads a field that holds no message into `object`; of any other, gives the
/// key and the message that is to be read.
fn nested<'a>(
    field: &'static Field,
    wire: Wire<'a>,
    object: &mut Map<String, Value>,
) -> Result<Option<Nested<'a>>, DecodeError> {
    let number = field.number;
    match field.kind {
        Kind::Message(key, message) | Kind::Messages(key, message) => {
            return Ok(Some((key.to_owned(), message, wire.bytes(number)?)));
        }
        Kind::Named(keys, message) => {
            let (name, value) = entry(number, keys, wire)?;
            return Ok(Some((name, message, value.map_or(Ok(&[][..]), |value| value.bytes(2))?)));
        }
        Kind::NamedStrings(keys) => {
            let (name, value) = entry(number, keys, wire)?;
            object.insert(name, value.map_or(Ok(""), |value| value.text(2))?.into());
        }
        Kind::String(key) => {
            let text = wire.text(number)?;
            set(object, key, (!text.is_empty()).then(|| text.into()));
        }
        Kind::Strings(key) => push(object, key.to_owned(), wire.text(number)?.into()),
        Kind::Boolean(key) => {
            let value = wire.varint(number)? != 0;
            set(object, key, value.then_some(Value::Bool(true)));
        }
        Kind::Integer(key) => {
            let value = wire.varint(number)?.cast_signed();
            set(object, key, (value != 0).then(|| value.into()));
        }
        Kind::Double(key) => {
            let value = wire.double(number)?;
            let value = if value.to_bits() == 0 { None } else { Some(from_double(number, value)?) };
            set(object, key, value);
        }
    }
    Ok(None)
}

fn place(field: &'static Field, key: String, value: Value, object: &mut Map<String, Value>) {
    match field.kind {
        Kind::Messages(..) => push(object, key, value),
        _ => {
            object.insert(key, value);
        }
    }
}

/// A required scalar that is missing on the wire is there and zero.
fn fill(required: &[&str], fields: &[Field], object: &mut Map<String, Value>) {
    for key in required {
        if object.contains_key(*key) {
            continue;
        }
        match fields.iter().find(|field| field.takes(key)).map(|field| &field.kind) {
            Some(Kind::String(_)) => set(object, key, Some("".into())),
            Some(Kind::Boolean(_)) => set(object, key, Some(false.into())),
            _ => {}
        }
    }
}

fn one_or_list(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.swap_remove(0) } else { Value::Array(values) }
}

fn any(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut text = "";
    for item in Fields(bytes) {
        if let (2, wire) = item? {
            text = wire.text(2)?;
        }
    }
    yaml::read(text).map_err(DecodeError::Yaml)
}

/// An empty message is what objects, lists and `null` become; `{}` is by far
/// the commonest of them.
fn scalar(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut value = Value::Object(Map::new());
    for item in Fields(bytes) {
        match item? {
            (1, wire) => value = from_double(1, wire.double(1)?)?,
            (2, wire) => value = Value::Bool(wire.varint(2)? != 0),
            (3, wire) => value = wire.text(3)?.into(),
            _ => {}
        }
    }
    Ok(value)
}

fn strings(bytes: &[u8]) -> Result<Vec<Value>, DecodeError> {
    let mut values = Vec::new();
    for item in Fields(bytes) {
        if let (1, wire) = item? {
            values.push(wire.text(1)?.into());
        }
    }
    Ok(values)
}

fn entry<'a>(number: u32, keys: Keys, wire: Wire<'a>) -> Result<(String, Option<Wire<'a>>), DecodeError> {
    let (mut name, mut value) = ("", None);
    for item in Fields(wire.bytes(number)?) {
        match item? {
            (1, wire) => name = wire.text(1)?,
            (2, wire) => value = Some(wire),
            _ => {}
        }
    }
    if keys.admit(name) { Ok((name.to_owned(), value)) } else { Err(DecodeError::Name(name.to_owned())) }
}

fn set(object: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            object.insert(key.to_owned(), value);
        }
        None => {
            object.remove(key);
        }
    }
}

fn push(object: &mut Map<String, Value>, key: String, value: Value) {
    match object.get_mut(&key) {
        Some(Value::Array(values)) => values.push(value),
        _ => {
            object.insert(key, Value::Array(vec![value]));
        }
    }
}

/// Whole numbers come back as JSON integers as long as a double holds them
/// exactly.
fn from_double(field: u32, value: f64) -> Result<Value, DecodeError> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT && value.to_bits() != (-0.0_f64).to_bits() {
        return Ok(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number).ok_or(DecodeError::NotFinite(field))
}

/// The fields of one message, in the order of the wire.
struct Fields<'a>(&'a [u8]);

#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = self.field();
        if item.is_err() {
            self.0 = &[];
        }
        Some(item)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u32, Wire<'a>), DecodeError> {
        let tag = u32::try_from(self.varint()?).map_err(|_| DecodeError::Varint)?;
        let wire = match tag & 7 {
            VARINT => Wire::Varint(self.varint()?),
            FIXED64 => {
                let (head, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
                self.0 = rest;
                Wire::Fixed64(*head)
            }
            LENGTH => {
                let length = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
                let (head, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
                self.0 = rest;
                Wire::Bytes(head)
            }
            FIXED32 => {
                let (_, rest) = self.0.split_first_chunk::<4>().ok_or(DecodeError::Truncated)?;
                self.0 = rest;
                Wire::Fixed32
            }
            other => return Err(DecodeError::WireType(other)),
        };
        Ok((tag >> 3, wire))
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Varint);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }
}

impl<'a> Wire<'a> {
    fn varint(self, field: u32) -> Result<u64, DecodeError> {
        match self {
            Wire::Varint(value) => Ok(value),
            _ => Err(DecodeError::FieldType(field)),
        }
    }

    fn double(self, field: u32) -> Result<f64, DecodeError> {
        match self {
            Wire::Fixed64(bytes) => Ok(f64::from_le_bytes(bytes)),
            _ => Err(DecodeError::FieldType(field)),
        }
    }

    fn bytes(self, field: u32) -> Result<&'a [u8], DecodeError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::FieldType(field)),
        }
    }

    fn text(self, field: u32) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| DecodeError::Utf8(field))
    }
}
