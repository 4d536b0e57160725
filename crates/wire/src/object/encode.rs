//! JSON to protobuf bytes, as Go's generated code writes them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use sternpost_builtin::Label;
use sternpost_golang::{
    duration,
    time::{ParseError, Timestamp},
};
use sternpost_meta::quantity::Quantity;

use super::{
    MAX_DEPTH, YEARS,
    descriptor::{CATALOGUE, Descriptor, Field, Form, Kind},
};

/// Why a value cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("not a JSON object")]
    NotAnObject,
    #[error("`{0}` is not a string that names something")]
    Unnamed(&'static str),
    #[error("no kind `{kind}` of `{api_version}` in protobuf")]
    UnknownKind { api_version: String, kind: String },
    #[error("no message `{0}`")]
    UnknownMessage(String),
    #[error("{path}: {problem}")]
    Field { path: String, problem: FieldProblem },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    #[error("expected {0}")]
    Type(&'static str),
    #[error("not an integer of its range")]
    Range,
    #[error("not base64")]
    Base64,
    #[error("not a time of the years 0 to 9999")]
    Time,
    #[error("not a duration")]
    Duration,
    #[error("not a quantity")]
    Quantity,
    #[error("nested deeper than {MAX_DEPTH} objects and lists")]
    TooDeep,
}

/// Appends a message to `out`.
pub(super) fn message(
    descriptor: &'static Descriptor,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut encoder = Encoder { out, slots: Vec::new() };
    let written = match value {
        // The root of a record is an object even where `null` would do below.
        Value::Null if descriptor.form == Form::Record => return Err(EncodeError::NotAnObject),
        Value::Null => {
            encoder.out.extend_from_slice(zero_of(descriptor));
            Ok(())
        }
        value => encoder.message(descriptor, value, 0),
    };
    written.map_err(Failure::into_error)
}

/// Appends one item of a list's `items`, as deep as it stands in the list.
pub(super) fn list_item(
    items: &'static Field,
    index: usize,
    item: &Value,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    const DEPTH: usize = 2;
    let mut encoder = Encoder { out, slots: Vec::new() };
    let written = encoder.single(items.number, items.kind, item, DEPTH);
    written.map_err(|failure| failure.at(index).below(&items.name).into_error())
}

pub(super) const VARINT: u32 = 0;
pub(super) const FIXED64: u32 = 1;
pub(super) const LENGTH: u32 = 2;
pub(super) const FIXED32: u32 = 5;

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn varint_size(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

pub(super) fn text(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    key(out, number, LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn key(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(out, u64::from(number << 3 | wire_type));
}

struct Encoder<'o, 'v> {
    out: &'o mut Vec<u8>,
    /// The members of the objects that are being written, by index of their
    /// field: a stack, so that no message needs an allocation of its own.
    slots: Vec<Option<&'v Value>>,
}

type Written = Result<(), Failure>;

impl<'v> Encoder<'_, 'v> {
    /// The body of a message; `value` is not null.
    fn message(&mut self, descriptor: &'static Descriptor, value: &'v Value, depth: usize) -> Written {
        match descriptor.form {
            Form::Record => match value {
                Value::Object(object) => self.record(descriptor, object, deeper(depth)?),
                _ => mismatch("an object"),
            },
            Form::Time => self.time(value, Timestamp::parse_time, 1_000_000_000),
            Form::MicroTime => self.time(value, Timestamp::parse_micro_time, 1_000),
            Form::Duration => match value {
                Value::String(text) => {
                    let nanos = duration::parse(text).map_err(|_| Failure::new(FieldProblem::Duration))?;
                    self.integer(1, nanos);
                    Ok(())
                }
                _ => mismatch("a duration"),
            },
            Form::Quantity => {
                let quantity =
                    Quantity::from_json(value).map_err(|_| Failure::new(FieldProblem::Quantity))?;
                text(self.out, 1, quantity.to_string().as_bytes());
                Ok(())
            }
            Form::IntOrString => self.int_or_string(value),
            Form::Json => {
                within(value, depth)?;
                let number = descriptor.fields.first().map_or(1, |field| field.number);
                let raw = serde_json::to_vec(value).unwrap_or_default();
                text(self.out, number, &raw);
                Ok(())
            }
            Form::Strings | Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrStrings => {
                self.alternatives(descriptor, value, depth)
            }
        }
    }

    fn record(
        &mut self,
        descriptor: &'static Descriptor,
        object: &'v Map<String, Value>,
        depth: usize,
    ) -> Written {
        let base = self.slots.len();
        self.slots.resize(base + descriptor.fields.len(), None);
        // Both sides are sorted by name: one pass finds the members.
        let mut names = descriptor.names.iter().peekable();
        for (name, value) in object {
            while names.next_if(|(known, _)| **known < **name).is_some() {}
            if let Some((_, index)) = names.next_if(|(known, _)| **known == **name)
                && !value.is_null()
                && let Some(slot) = self.slots.get_mut(base + index)
            {
                *slot = Some(value);
            }
        }
        for (index, field) in descriptor.fields.iter().enumerate() {
            let value = self.slots.get(base + index).copied().flatten();
            let written = match (field.kind, value) {
                (Kind::Message(inner), _) if field.inline => {
                    key(self.out, field.number, LENGTH);
                    self.delimited(|encoder| encoder.record(CATALOGUE.message(inner), object, depth))
                }
                (_, Some(value)) => {
                    self.field(field, value, depth).map_err(|failure| failure.below(&field.name))
                }
                (_, None) => {
                    if field.label == Label::Single && !field.optional {
                        self.absent(field.number, field.kind);
                    }
                    Ok(())
                }
            };
            written?;
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn field(&mut self, field: &'static Field, value: &'v Value, depth: usize) -> Written {
        match field.label {
            Label::Single => self.single(field.number, field.kind, value, depth),
            Label::Repeated => {
                let Value::Array(items) = value else { return mismatch("a list") };
                self.items(field.number, field.kind, items, deeper(depth)?)
            }
            Label::Map => {
                let Value::Object(entries) = value else { return mismatch("an object") };
                let depth = deeper(depth)?;
                for (name, value) in entries {
                    key(self.out, field.number, LENGTH);
                    let entry = self.delimited(|encoder| {
                        text(encoder.out, 1, name.as_bytes());
                        encoder.single(2, field.kind, value, depth)
                    });
                    entry.map_err(|failure| failure.below(name))?;
                }
                Ok(())
            }
        }
    }

    fn items(&mut self, number: u32, kind: Kind, items: &'v [Value], depth: usize) -> Written {
        for (index, item) in items.iter().enumerate() {
            self.single(number, kind, item, depth).map_err(|failure| failure.at(index))?;
        }
        Ok(())
    }

    fn single(&mut self, number: u32, kind: Kind, value: &'v Value, depth: usize) -> Written {
        match (kind, value) {
            (kind, Value::Null) => {
                self.absent(number, kind);
                Ok(())
            }
            (Kind::Bool, Value::Bool(value)) => {
                self.integer(number, i64::from(*value));
                Ok(())
            }
            (Kind::Int32 | Kind::Int64, Value::Number(value)) => {
                let integer =
                    value.as_i64().filter(|value| kind == Kind::Int64 || i32::try_from(*value).is_ok());
                self.integer(number, integer.ok_or(Failure::new(FieldProblem::Range))?);
                Ok(())
            }
            (Kind::Double, Value::Number(value)) => {
                let double = value.as_f64().ok_or(Failure::new(FieldProblem::Range))?;
                key(self.out, number, FIXED64);
                self.out.extend_from_slice(&double.to_le_bytes());
                Ok(())
            }
            (Kind::String, Value::String(value)) => {
                text(self.out, number, value.as_bytes());
                Ok(())
            }
            (Kind::Bytes, Value::String(value)) => {
                let bytes = STANDARD.decode(value).map_err(|_| Failure::new(FieldProblem::Base64))?;
                text(self.out, number, &bytes);
                Ok(())
            }
            (Kind::Message(inner), value) => {
                key(self.out, number, LENGTH);
                self.delimited(|encoder| encoder.message(CATALOGUE.message(inner), value, depth))
            }
            (Kind::Bool, _) => mismatch("a boolean"),
            (Kind::Int32 | Kind::Int64, _) => mismatch("an integer"),
            (Kind::Double, _) => mismatch("a number"),
            (Kind::String, _) => mismatch("a string"),
            (Kind::Bytes, _) => mismatch("a base64 string"),
        }
    }

    /// What stands on the wire for a value that is not set and must be there.
    fn absent(&mut self, number: u32, kind: Kind) {
        match kind {
            Kind::Bytes => {}
            Kind::Bool | Kind::Int32 | Kind::Int64 => self.integer(number, 0),
            Kind::Double => {
                key(self.out, number, FIXED64);
                self.out.extend_from_slice(&[0; 8]);
            }
            Kind::String => text(self.out, number, &[]),
            Kind::Message(inner) => text(self.out, number, zero_of(CATALOGUE.message(inner))),
        }
    }

    /// A negative integer, of 32 bits too, takes ten bytes.
    fn integer(&mut self, number: u32, value: i64) {
        key(self.out, number, VARINT);
        varint(self.out, value.cast_unsigned());
    }

    /// Writes what has its length in front, which is known only afterwards.
    fn delimited(&mut self, body: impl FnOnce(&mut Self) -> Written) -> Written {
        let start = self.out.len();
        self.out.push(0);
        body(self)?;
        let size = self.out.len() - start - 1;
        let (head, extra) = (size as u64, varint_size(size as u64) - 1);
        if extra > 0 {
            // Long bodies make room for their length; a byte moves at most
            // once for each level it is nested.
            self.out.resize(start + 1 + size + extra, 0);
            self.out.copy_within(start + 1..start + 1 + size, start + 1 + extra);
        }
        let mut rest = head;
        for byte in self.out.iter_mut().skip(start).take(extra + 1) {
            *byte = (rest & 0x7f) as u8 | if rest >= 0x80 { 0x80 } else { 0 };
            rest >>= 7;
        }
        Ok(())
    }

    /// Go's zero time is an empty message; precision below `unit` nanoseconds is dropped.
    fn time(
        &mut self,
        value: &Value,
        parse: fn(&str) -> Result<Timestamp, ParseError>,
        unit: u32,
    ) -> Written {
        let Value::String(text) = value else { return mismatch("a time") };
        let time = parse(text).ok().filter(|time| YEARS.contains(&time.seconds()));
        let time = time.ok_or(Failure::new(FieldProblem::Time))?;
        if !time.is_zero() {
            self.integer(1, time.seconds());
            self.integer(2, i64::from(time.nanos() - time.nanos() % unit));
        }
        Ok(())
    }

    fn int_or_string(&mut self, value: &Value) -> Written {
        let (kind, integer, string) = match value {
            Value::Number(number) => {
                let integer = number.as_i64().filter(|value| i32::try_from(*value).is_ok());
                (0, integer.ok_or(Failure::new(FieldProblem::Range))?, "")
            }
            Value::String(string) => (1, 0, string.as_str()),
            _ => return mismatch("an integer or a string"),
        };
        self.integer(1, kind);
        self.integer(2, integer);
        text(self.out, 3, string.as_bytes());
        Ok(())
    }

    /// Messages whose JSON is one of their fields. A schema that may be a
    /// boolean says `allows` besides.
    fn alternatives(&mut self, descriptor: &'static Descriptor, value: &'v Value, depth: usize) -> Written {
        let [first, rest @ ..] = descriptor.fields.as_slice() else { return Ok(()) };
        let second = rest.first().unwrap_or(first);
        match (descriptor.form, value) {
            (Form::Strings, Value::Array(items)) => {
                self.items(first.number, first.kind, items, deeper(depth)?)
            }
            (Form::Strings, _) => mismatch("a list"),
            (Form::SchemaOrBool, Value::Bool(allows)) => {
                self.integer(first.number, i64::from(*allows));
                Ok(())
            }
            (Form::SchemaOrBool, Value::Object(_)) => {
                self.integer(first.number, 1);
                self.single(second.number, second.kind, value, depth)
            }
            (Form::SchemaOrBool, _) => mismatch("a boolean or an object"),
            (_, Value::Object(_)) => self.single(first.number, first.kind, value, depth),
            (_, Value::Array(items)) => self.items(second.number, second.kind, items, deeper(depth)?),
            _ => mismatch("an object or a list"),
        }
    }
}

/// The bytes of a message with nothing set.
fn zero_of(descriptor: &'static Descriptor) -> &'static [u8] {
    descriptor.zero.get_or_init(|| {
        let mut out = Vec::new();
        let mut encoder = Encoder { out: &mut out, slots: Vec::new() };
        match descriptor.form {
            Form::Record => {
                // Without members there is nothing to go wrong.
                let _ = encoder.record(descriptor, &Map::new(), 0);
            }
            Form::Quantity => text(encoder.out, 1, b"0"),
            Form::Duration => encoder.integer(1, 0),
            Form::IntOrString => {
                encoder.integer(1, 0);
                encoder.integer(2, 0);
                text(encoder.out, 3, &[]);
            }
            Form::SchemaOrBool => encoder.integer(1, 0),
            Form::Time
            | Form::MicroTime
            | Form::Json
            | Form::Strings
            | Form::SchemaOrArray
            | Form::SchemaOrStrings => {}
        }
        out
    })
}

fn deeper(depth: usize) -> Result<usize, Failure> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(Failure::new(FieldProblem::TooDeep)) }
}

/// Raw JSON nests, too.
fn within(value: &Value, depth: usize) -> Written {
    match value {
        Value::Array(items) => {
            let depth = deeper(depth)?;
            items.iter().try_for_each(|item| within(item, depth))
        }
        Value::Object(members) => {
            let depth = deeper(depth)?;
            members.values().try_for_each(|member| within(member, depth))
        }
        _ => Ok(()),
    }
}

fn mismatch(expected: &'static str) -> Written {
    Err(Failure::new(FieldProblem::Type(expected)))
}

/// An error on its way up. The path grows from its end, and only then.
#[derive(Debug)]
struct Failure(Box<(FieldProblem, Vec<String>)>);

impl Failure {
    fn new(problem: FieldProblem) -> Self {
        Self(Box::new((problem, Vec::new())))
    }

    fn below(mut self, name: &str) -> Self {
        self.0.1.push(format!(".{name}"));
        self
    }

    fn at(mut self, index: usize) -> Self {
        self.0.1.push(format!("[{index}]"));
        self
    }

    fn into_error(self) -> EncodeError {
        let (problem, segments) = *self.0;
        let path: String = segments.into_iter().rev().collect();
        let path = path.strip_prefix('.').map(str::to_owned).unwrap_or(path);
        EncodeError::Field { path, problem }
    }
}
