//! From JSON to the object a typed server would have read, and back.
//!
//! [`decode`] reads a body against a kind's type: unknown fields are dropped and
//! reported, so are duplicate ones, wrong types are errors with Go's texts.
//! [`settle`] gives an object the form in which it is stored and shown: fields
//! that are always shown are there, empty ones that are not are gone.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, map::Entry};
use sternpost_builtin::{FieldType, Label, Shown};
use sternpost_golang::json::syntax as json_syntax;
use sternpost_golang::strconv::go_quote;
use sternpost_golang::time::Timestamp;
use sternpost_meta::{cancel::checkpoint, quantity};
use sternpost_schema::names::Places;

mod converter;

pub use converter::{mistake, with_whole_numbers};
pub use sternpost_crd::object::Decoded;

/// How deeply JSON may nest; what `serde_json` reads.
pub const MAX_DEPTH: usize = 127;

/// How many complaints are made about one body that is read from JSON, as upstream.
pub const MAX_COMPLAINTS: usize = 100;

/// Why a body is not an object of the kind; the text is Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// Reads JSON as an object of the type named, which must be built in.
pub fn decode(bytes: &[u8], definition: &str) -> Result<Decoded, DecodeError> {
    // What is text is found to be so all at once, instead of string by string.
    match std::str::from_utf8(bytes) {
        Ok(text) => decode_all(serde_json::Deserializer::from_str(text), bytes, definition),
        Err(_) => decode_all(serde_json::Deserializer::from_slice(bytes), bytes, definition),
    }
}

/// With nothing behind it.
fn decode_all<'de>(
    mut deserializer: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
    bytes: &[u8],
    definition: &str,
) -> Result<Decoded, DecodeError> {
    let decoded = decode_from(&mut deserializer, definition, MAX_COMPLAINTS)?;
    deserializer.end().map_err(|error| DecodeError(syntax_text(&error, bytes)))?;
    Ok(decoded)
}

/// As [`decode`], from JSON that was already read; fields come sorted.
pub fn decode_value(value: Value, definition: &str) -> Result<Decoded, DecodeError> {
    decode_from(value, definition, MAX_COMPLAINTS)
}

/// As [`decode_value`], for who still needs the JSON afterwards, and with all complaints.
pub fn decode_borrowed(value: &Value, definition: &str) -> Result<Decoded, DecodeError> {
    decode_from(value, definition, usize::MAX)
}

/// Whether an object is one of the type named as [`decode`] would read it, so that reading it again would
/// change nothing and find nothing to complain of.
pub fn is_decoded(object: &Value, definition: &str) -> bool {
    type_of(definition).is_some_and(|kind| is_decoded_as(object, &Shape::Struct(kind)))
}

fn is_decoded_as(value: &Value, shape: &Shape) -> bool {
    checkpoint();
    match (shape, value) {
        // Goes away, or becomes a zero.
        (_, Value::Null) => matches!(shape, Shape::Any),
        (Shape::Any, _) => true,
        (Shape::Struct(kind), Value::Object(fields)) => fields.iter().all(|(name, value)| {
            kind.field(name).is_some_and(|field| !value.is_null() && is_decoded_as(value, &field.shape))
        }),
        (Shape::Map(inner), Value::Object(entries)) => {
            entries.values().all(|entry| is_decoded_as(entry, inner))
        }
        (Shape::List(inner), Value::Array(items)) => items.iter().all(|item| is_decoded_as(item, inner)),
        (Shape::String | Shape::IntOrString | Shape::Duration, Value::String(_))
        | (Shape::Bool, Value::Bool(_)) => true,
        (Shape::Int32 | Shape::IntOrString, Value::Number(number)) => {
            number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        (Shape::Int64, Value::Number(number)) => number.is_i64(),
        (Shape::Double, Value::Number(number)) => number.is_f64(),
        (Shape::Quantity, Value::String(text)) => {
            quantity::canonical(text).is_ok_and(|canonical| canonical == *text)
        }
        (Shape::Time, Value::String(text)) => {
            Timestamp::parse_time(text).is_ok_and(|time| time.to_time() == *text)
        }
        (Shape::MicroTime, Value::String(text)) => {
            Timestamp::parse_micro_time(text).is_ok_and(|time| time.to_micro_time() == *text)
        }
        (Shape::Bytes, Value::String(text)) => base64_problem(text).is_none(),
        _ => false,
    }
}

fn decode_from<'de, D>(
    deserializer: D,
    definition: &str,
    most_complaints: usize,
) -> Result<Decoded, DecodeError>
where
    D: Deserializer<'de>,
    D::Error: fmt::Display,
{
    let Some(kind) = type_of(definition) else {
        return Err(DecodeError(format!("there is no type {definition}")));
    };
    let mut state = State::default();
    state.complaints.most = most_complaints;
    let shape = Shape::Struct(kind);
    match (Node { shape: &shape, state: &mut state }).deserialize(deserializer) {
        Ok(object) => Ok(Decoded { object, complaints: state.complaints.texts }),
        // Errors of ours carry their text in the state: the reader would add a place to it.
        Err(error) => Err(DecodeError(state.problem.unwrap_or_else(|| error.to_string()))),
    }
}

/// The text of Go's decoder for bytes that are not JSON.
fn syntax_text(error: &serde_json::Error, bytes: &[u8]) -> String {
    json_syntax::check(bytes).err().unwrap_or_else(|| error.to_string())
}

/// Gives an object its stored form, in place. Idempotent.
pub fn settle(object: &mut Value, definition: &str) {
    if let (Some(kind), Some(fields)) = (type_of(definition), object.as_object_mut()) {
        settle_struct(fields, kind);
    }
}

/// What [`settle`] would do to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settling {
    Nothing,
    /// Add nulls and structs with nothing in them, which no rule can tell from nothing.
    AddNoValue,
    Change,
}

/// What there is to settle of an object.
pub fn settling(object: &Value, definition: &str) -> Settling {
    match (type_of(definition), object) {
        (Some(kind), Value::Object(fields)) => settling_of_struct(fields, kind),
        _ => Settling::Nothing,
    }
}

fn settling_of_struct(fields: &Map<String, Value>, kind: &Type) -> Settling {
    let mut always_shown = 0;
    let below = most(fields.iter().map(|(name, value)| {
        let Some(field) = kind.field(name) else { return Settling::Nothing };
        let shown_always = field.shown == Shown::Always;
        always_shown += usize::from(shown_always);
        let stays = match value {
            Value::Null => false,
            Value::Array(items) if items.is_empty() => !shown_always && field.optional,
            value => shown_always || field.optional || !is_zero(value, field),
        };
        if stays { settling_of_field(value, &field.shape) } else { Settling::Change }
    }));
    // Where nothing is to be changed, all fields were counted.
    if below == Settling::Change || always_shown == kind.always_shown.len() {
        return below;
    }
    let mut added = kind.always_shown().filter(|field| !fields.contains_key(&*field.name));
    if added.all(|field| field.adds_no_value) { Settling::AddNoValue } else { Settling::Change }
}

fn settling_of_field(value: &Value, shape: &Shape) -> Settling {
    let of_one = |value: &Value, shape: &Shape| match (shape, value) {
        (Shape::Struct(kind), Value::Object(fields)) => settling_of_struct(fields, kind),
        _ => Settling::Nothing,
    };
    match (shape, value) {
        (Shape::List(inner), Value::Array(items)) if matches!(**inner, Shape::Struct(_)) => {
            most(items.iter().map(|item| of_one(item, inner)))
        }
        (Shape::Map(inner), Value::Object(entries)) if matches!(**inner, Shape::Struct(_)) => {
            most(entries.values().map(|entry| of_one(entry, inner)))
        }
        (shape, value) => of_one(value, shape),
    }
}

/// The most that is to be done, looking no further than where there is something to change.
fn most(mut all: impl Iterator<Item = Settling>) -> Settling {
    let found = all.try_fold(Settling::Nothing, |most, next| match most.max(next) {
        Settling::Change => Err(()),
        most => Ok(most),
    });
    found.unwrap_or(Settling::Change)
}

fn settle_struct(fields: &mut Map<String, Value>, kind: &'static Type) {
    // Objects have few of the fields that their types have, so it is those that are looked up.
    let mut dropped: Vec<&str> = Vec::new();
    let mut always_shown = 0;
    for (name, value) in fields.iter_mut() {
        let Some(field) = kind.field(name) else { continue };
        if field.shown == Shown::Always {
            always_shown += 1;
            match value {
                Value::Null => *value = zero(field),
                _ => settle_field(value, field),
            }
            // What is stored does not tell an empty list from none.
            if value.as_array().is_some_and(Vec::is_empty) {
                *value = Value::Null;
            }
            continue;
        }
        if !value.is_null() {
            settle_field(value, field);
        }
        if value.is_null() || (!field.optional && is_zero(value, field)) {
            dropped.push(&field.name);
        }
    }
    for name in dropped {
        fields.remove(name);
    }
    if always_shown == kind.always_shown.len() {
        return;
    }
    for field in kind.always_shown() {
        if !fields.contains_key(&*field.name) {
            fields.insert(field.name.to_string(), zero(field));
        }
    }
}

fn settle_field(value: &mut Value, field: &Field) {
    match (&field.shape, value) {
        (Shape::Struct(kind), Value::Object(fields)) => settle_struct(fields, kind),
        (Shape::List(inner), Value::Array(items)) => {
            if let Shape::Struct(kind) = &**inner {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| settle_struct(item, kind));
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            if let Shape::Struct(kind) = &**inner {
                entries
                    .values_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|entry| settle_struct(entry, kind));
            }
        }
        _ => {}
    }
}

fn is_zero(value: &Value, field: &Field) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() && !matches!(field.shape, Shape::IntOrString),
        Value::Array(items) => items.is_empty(),
        // A struct is never empty to Go; a map is.
        Value::Object(entries) => entries.is_empty(),
    }
}

fn zero(field: &Field) -> Value {
    if field.optional { Value::Null } else { zero_of(&field.shape) }
}

fn zero_of(shape: &Shape) -> Value {
    match shape {
        Shape::Struct(kind) => {
            let mut fields = Map::new();
            settle_struct(&mut fields, kind);
            Value::Object(fields)
        }
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 0.into(),
        Shape::String => "".into(),
        Shape::Quantity => "0".into(),
        Shape::Duration => "0s".into(),
        Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Any => {
            Value::Null
        }
    }
}

/// A Go type: its fields by JSON name.
#[derive(Debug)]
struct Type {
    /// `PodSpec`
    name: Box<str>,
    /// `v1.PodSpec`
    go_name: Box<str>,
    /// In Go's order.
    fields: Vec<Field>,
    /// Where in `fields` a name stands.
    places: Places,
    /// Places in `fields`.
    always_shown: Vec<usize>,
}

impl Type {
    fn field(&self, name: &str) -> Option<&Field> {
        let name_at = |place: usize| self.fields.get(place).map_or("", |field| &*field.name);
        self.fields.get(self.places.find(name, name_at)?)
    }

    fn always_shown(&self) -> impl Iterator<Item = &Field> {
        self.always_shown.iter().filter_map(|index| self.fields.get(*index))
    }
}

#[derive(Debug)]
struct Field {
    name: Box<str>,
    shape: Shape,
    optional: bool,
    shown: Shown,
    /// Where it is shown though it is not set, that is as null, or as a struct with nothing in it.
    adds_no_value: bool,
}

impl Field {
    fn new(name: &str, shape: Shape, optional: bool, shown: Shown) -> Self {
        let field = Self { name: name.into(), shape, optional, shown, adds_no_value: false };
        Self { adds_no_value: has_no_value(&zero(&field)), ..field }
    }
}

fn has_no_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(has_no_value),
        _ => false,
    }
}

#[derive(Debug, Clone)]
enum Shape {
    Bool,
    Bytes,
    Double,
    Int32,
    Int64,
    String,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// Any JSON, kept as it is.
    Any,
    Struct(&'static Type),
    List(Box<Shape>),
    Map(Box<Shape>),
}

/// Types are made once and live as long as the process: their number is that of the catalogue.
fn type_of(name: &str) -> Option<&'static Type> {
    static TYPES: OnceLock<RwLock<HashMap<Arc<str>, &'static Type>>> = OnceLock::new();
    let types = TYPES.get_or_init(RwLock::default);
    if let Some(found) = types.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Some(found);
    }
    let mut making = HashMap::new();
    let made = compile(name, &mut making)?;
    let mut types = types.write().unwrap_or_else(PoisonError::into_inner);
    Some(types.entry(name.into()).or_insert(made))
}

fn compile(name: &str, making: &mut HashMap<Arc<str>, &'static Type>) -> Option<&'static Type> {
    if let Some(found) = making.get(name) {
        return Some(found);
    }
    // Recursive types (JSON schemas) are `Any` below themselves: their own
    // rules check them.
    let message = sternpost_builtin::message(name)?;
    let mut fields = Vec::new();
    let mut stack = vec![message];
    if message.is_kind {
        for name in ["kind", "apiVersion"] {
            fields.push(Field::new(name, Shape::String, false, Shown::WhenSet));
        }
    }
    while let Some(message) = stack.pop() {
        for field in &message.fields {
            if let (true, FieldType::Message(inner)) = (field.inline, &field.kind) {
                stack.extend(sternpost_builtin::message(inner));
                continue;
            }
            let single = match &field.kind {
                FieldType::Bool => Shape::Bool,
                FieldType::Bytes => Shape::Bytes,
                FieldType::Double => Shape::Double,
                FieldType::Int32 => Shape::Int32,
                FieldType::Int64 => Shape::Int64,
                FieldType::String => Shape::String,
                FieldType::Message(inner) => shape_of_message(inner, making)?,
            };
            let shape = match field.label {
                Label::Single => single,
                Label::Repeated => Shape::List(Box::new(single)),
                Label::Map => Shape::Map(Box::new(single)),
            };
            fields.push(Field::new(&field.json_name, shape, field.optional, field.shown));
        }
    }
    let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
    let places = Places::new(&names);
    let is_always_shown = |field: &Field| field.shown == Shown::Always;
    let always_shown =
        (0..fields.len()).filter(|index| fields.get(*index).is_some_and(is_always_shown)).collect();
    let (package, short) = name.rsplit_once('.')?;
    let package = package.rsplit('.').next().unwrap_or(package);
    let made: &'static Type = Box::leak(Box::new(Type {
        name: short.into(),
        go_name: format!("{package}.{short}").into(),
        fields,
        places,
        always_shown,
    }));
    making.insert(name.into(), made);
    Some(made)
}

fn shape_of_message(name: &str, making: &mut HashMap<Arc<str>, &'static Type>) -> Option<Shape> {
    let short = name.rsplit('.').next().unwrap_or(name);
    Some(match short {
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrString,
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "Duration" => Shape::Duration,
        "RawExtension"
        | "FieldsV1"
        | "JSON"
        | "JSONSchemaProps"
        | "JSONSchemaPropsOrArray"
        | "JSONSchemaPropsOrBool"
        | "JSONSchemaPropsOrStringArray" => Shape::Any,
        // A list of strings in a map, which protobuf needs a message for.
        "ExtraValue" => Shape::List(Box::new(Shape::String)),
        _ => Shape::Struct(compile(name, making)?),
    })
}

#[derive(Default)]
struct State {
    /// The place that was reached. Text is made of it only if there is something to say.
    place: Vec<Step>,
    complaints: Complaints,
    problem: Option<String>,
}

/// One step to a place. Errors name fields alone (`spec.containers.name`), complaints all steps
/// (`spec.containers[0].name`).
enum Step {
    Field(&'static Type, &'static str),
    Key(String),
    Index(usize),
}

/// What is wrong with fields; each thing once.
#[derive(Default)]
struct Complaints {
    texts: Vec<String>,
    known: HashSet<String>,
    most: usize,
}

impl State {
    /// Of a field at the place that was reached.
    fn complain(&mut self, what: &str, field: &str) {
        if self.complaints.texts.len() >= self.complaints.most {
            return;
        }
        let text = format!("{what} field {}", go_quote(&self.place(field)));
        if self.complaints.known.insert(text.clone()) {
            self.complaints.texts.push(text);
        }
    }

    fn place(&self, last: &str) -> String {
        let mut out = String::new();
        let name = |out: &mut String, name: &str| {
            if !out.is_empty() && !name.starts_with('[') {
                out.push('.');
            }
            out.push_str(name);
        };
        for step in &self.place {
            match step {
                Step::Field(_, field) => name(&mut out, field),
                Step::Key(key) => name(&mut out, key),
                Step::Index(index) => out.push_str(&format!("[{index}]")),
            }
        }
        name(&mut out, last);
        out
    }

    fn mismatch(&mut self, found: &str, wanted: &Shape) {
        let fields = self.place.iter().filter_map(|step| match step {
            Step::Field(owner, field) => Some((*owner, *field)),
            Step::Key(_) | Step::Index(_) => None,
        });
        let (owners, path): (Vec<&Type>, Vec<&str>) = fields.unzip();
        let text = match owners.last() {
            Some(owner) => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {}",
                owner.name,
                path.join("."),
                go_type(wanted)
            ),
            _ => format!("json: cannot unmarshal {found} into Go value of type {}", go_type(wanted)),
        };
        self.problem.get_or_insert(text);
    }
}

fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "bool".into(),
        Shape::Bytes => "[]uint8".into(),
        Shape::Double => "float64".into(),
        Shape::Int32 | Shape::IntOrString => "int32".into(),
        Shape::Int64 => "int64".into(),
        Shape::String | Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity => "string".into(),
        Shape::Any => "interface {}".into(),
        Shape::Struct(kind) => kind.go_name.to_string(),
        Shape::List(inner) => format!("[]{}", go_type(inner)),
        Shape::Map(inner) => format!("map[string]{}", go_type(inner)),
    }
}

/// Reads one value of a shape.
struct Node<'a> {
    shape: &'a Shape,
    state: &'a mut State,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Node<'_> {
    fn refuse<E: serde::de::Error>(self, found: &str) -> Result<Value, E> {
        self.state.mismatch(found, self.shape);
        Err(E::custom("mismatch"))
    }

    fn fail<E: serde::de::Error>(self, problem: String) -> Result<Value, E> {
        self.state.problem.get_or_insert(problem);
        Err(E::custom("problem"))
    }

    fn integer<E: serde::de::Error>(self, number: i128) -> Result<Value, E> {
        let fits = match self.shape {
            Shape::Int32 | Shape::IntOrString => i32::try_from(number).is_ok(),
            Shape::Int64 => i64::try_from(number).is_ok(),
            Shape::Double => return Ok(Value::from(number as f64)),
            Shape::Quantity => return self.visit_str(&number.to_string()),
            Shape::Any => {
                return Ok(i64::try_from(number)
                    .map(Value::from)
                    .or_else(|_| u64::try_from(number).map(Value::from))
                    .unwrap_or_else(|_| Value::from(number as f64)));
            }
            _ => return self.refuse("number"),
        };
        match i64::try_from(number) {
            Ok(number) if fits => Ok(number.into()),
            _ => self.refuse(&format!("number {number}")),
        }
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_type(self.shape))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        match self.shape {
            Shape::Bool | Shape::Any => Ok(value.into()),
            _ => self.refuse("bool"),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.integer(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        match self.shape {
            Shape::Double | Shape::Any => Ok(value.into()),
            Shape::Quantity => self.visit_str(&value.to_string()),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => self.refuse(&format!("number {value}")),
            _ => self.refuse("number"),
        }
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        match self.shape {
            Shape::String | Shape::IntOrString | Shape::Any | Shape::Duration => Ok(text.into()),
            _ => self.visit_str(&text),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        match self.shape {
            Shape::String | Shape::IntOrString | Shape::Any => Ok(text.into()),
            Shape::Quantity => match quantity::canonical(text) {
                Ok(text) => Ok(text.into()),
                Err(error) => self.fail(error.to_string()),
            },
            Shape::Bytes => match base64_problem(text) {
                None => Ok(text.into()),
                Some(problem) => self.fail(problem),
            },
            Shape::Time => match Timestamp::parse_time(text) {
                Ok(time) => Ok(time.to_time().into()),
                Err(error) => self.fail(error.to_string()),
            },
            Shape::MicroTime => match Timestamp::parse_micro_time(text) {
                Ok(time) => Ok(time.to_micro_time().into()),
                Err(error) => self.fail(error.to_string()),
            },
            Shape::Duration => Ok(text.into()),
            _ => self.refuse("string"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = match self.shape {
            Shape::List(inner) => &**inner,
            Shape::Any => &Shape::Any,
            _ => return self.refuse("array"),
        };
        let state = self.state;
        let mut out = Vec::new();
        loop {
            checkpoint();
            state.place.push(Step::Index(out.len()));
            let item = items.next_element_seed(Node { shape: inner, state: &mut *state })?;
            state.place.pop();
            match item {
                // To Go a null among structs, strings or numbers is their zero.
                Some(Value::Null) => out.push(zero_of(inner)),
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let state = self.state;
        let mut out = Map::new();
        match self.shape {
            Shape::Struct(kind) => {
                let mut seen: Vec<&Field> = Vec::new();
                while let Some(key) = entries.next_key::<String>()? {
                    checkpoint();
                    let Some(field) = kind.field(&key) else {
                        state.complain("unknown", &key);
                        entries.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    // No longer than the type has fields.
                    let is_first = !seen.iter().any(|known| std::ptr::eq(*known, field));
                    if is_first {
                        seen.push(field);
                    } else {
                        state.complain("duplicate", &key);
                    }
                    state.place.push(Step::Field(kind, &field.name));
                    let value = entries.next_value_seed(Node { shape: &field.shape, state: &mut *state })?;
                    state.place.pop();
                    if is_first {
                        if !value.is_null() {
                            out.insert(key, value);
                        }
                        continue;
                    }
                    match (value, out.get_mut(&key)) {
                        (Value::Null, _) => {
                            out.remove(&key);
                        }
                        // Go reads a repeated object into the one that is there.
                        (Value::Object(more), Some(Value::Object(first))) => {
                            merge(first, more, &field.shape);
                        }
                        (value, _) => {
                            out.insert(key, value);
                        }
                    }
                }
            }
            Shape::Map(inner) => {
                while let Some(key) = entries.next_key::<String>()? {
                    checkpoint();
                    state.place.push(Step::Key(key));
                    let value = entries.next_value_seed(Node { shape: inner, state: &mut *state })?;
                    // What was put there, and is still on top.
                    let Some(Step::Key(key)) = state.place.pop() else { continue };
                    let value = if value.is_null() { zero_of(inner) } else { value };
                    match out.entry(key) {
                        Entry::Vacant(place) => {
                            place.insert(value);
                        }
                        Entry::Occupied(mut place) => {
                            state.complain("duplicate", place.key());
                            place.insert(value);
                        }
                    }
                }
            }
            Shape::Any => {
                while let Some(key) = entries.next_key::<String>()? {
                    checkpoint();
                    let value = entries.next_value_seed(Node { shape: &Shape::Any, state: &mut *state })?;
                    out.insert(key, value);
                }
            }
            shape => {
                state.mismatch("object", shape);
                return Err(A::Error::custom("mismatch"));
            }
        }
        Ok(Value::Object(out))
    }
}

fn merge(first: &mut Map<String, Value>, more: Map<String, Value>, shape: &Shape) {
    for (key, value) in more {
        let inner = match shape {
            Shape::Struct(kind) => kind.field(&key),
            _ => None,
        };
        match (inner, value, first.get_mut(&key)) {
            (Some(field), Value::Object(more), Some(Value::Object(first))) => {
                merge(first, more, &field.shape);
            }
            (_, value, _) => {
                first.insert(key, value);
            }
        }
    }
}

/// What Go's decoder says of text that is not standard base64.
fn base64_problem(text: &str) -> Option<String> {
    use base64::{DecodeError as Bad, Engine, engine::general_purpose::STANDARD};
    let plain: String = text.chars().filter(|char| !matches!(char, '\r' | '\n')).collect();
    let at = match STANDARD.decode(&plain) {
        Ok(_) => return None,
        Err(Bad::InvalidByte(offset, _)) => offset,
        Err(_) => plain.len().saturating_sub(plain.len() % 4),
    };
    Some(format!("illegal base64 data at input byte {at}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";
    const POD: &str = "io.k8s.api.core.v1.Pod";
    const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";

    #[test]
    fn wrong_types_have_gos_texts() {
        for (definition, json, expected) in [
            (
                DEPLOYMENT,
                r#"{"spec":{"replicas":"x"}}"#,
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                DEPLOYMENT,
                r#"{"spec":{"replicas":1.5}}"#,
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                DEPLOYMENT,
                r#"{"spec":{"replicas":3000000000}}"#,
                "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                DEPLOYMENT,
                r#"{"spec":{"template":{"spec":{"containers":[{"name":3}]}}}}"#,
                "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
            ),
            (
                DEPLOYMENT,
                r#"{"metadata":{"labels":{"a":1}}}"#,
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                DEPLOYMENT,
                r#"{"spec":{"template":{"spec":{"containers":{"a":1}}}}}"#,
                "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                POD,
                r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"xx"}}}]}}"#,
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            ("io.k8s.api.core.v1.Secret", r#"{"data":{"a":"!!"}}"#, "illegal base64 data at input byte 0"),
            (
                "io.k8s.api.core.v1.Service",
                r#"{"spec":{"ports":[{"targetPort":true}]}}"#,
                "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
            ),
        ] {
            assert_eq!(decode(json.as_bytes(), definition).unwrap_err().0, expected);
        }
    }

    #[test]
    fn unknown_and_duplicate_fields_are_reported_in_order_and_dropped() {
        let json = r#"{"foo":1,"metadata":{"name":"a","x":1,"name":"b"},"data":{"k":"1","k":"2"}}"#;
        let decoded = decode(json.as_bytes(), CONFIG_MAP).unwrap();
        assert_eq!(
            decoded.complaints,
            [
                "unknown field \"foo\"",
                "unknown field \"metadata.x\"",
                "duplicate field \"metadata.name\"",
                "duplicate field \"data.k\""
            ]
        );
        assert_eq!(decoded.object, json!({"metadata": {"name": "b"}, "data": {"k": "2"}}));
        let json = r#"{"spec":{"containers":[{"nope":1}]}}"#;
        let decoded = decode(json.as_bytes(), POD).unwrap();
        assert_eq!(decoded.complaints, ["unknown field \"spec.containers[0].nope\""]);
    }

    #[test]
    fn of_many_complaints_the_first_hundred_are_made() {
        let body = |count: usize| {
            let fields: Vec<String> = (0..count).map(|index| format!("\"x{index}\":1,\"x0\":1")).collect();
            let decoded = decode(format!("{{{}}}", fields.join(",")).as_bytes(), CONFIG_MAP).unwrap();
            decoded.complaints
        };
        assert_eq!(body(MAX_COMPLAINTS).len(), MAX_COMPLAINTS);
        let most = body(MAX_COMPLAINTS + 1);
        assert_eq!(most.len(), MAX_COMPLAINTS);
        assert_eq!(most.last().unwrap(), "unknown field \"x99\"");
        // One that is made again and again counts once.
        let entries = ["\"k\":\"v\""; 3].join(",");
        let decoded = decode(format!("{{\"data\":{{{entries}}}}}").as_bytes(), CONFIG_MAP).unwrap();
        assert_eq!(decoded.complaints, ["duplicate field \"data.k\""]);
    }

    #[test]
    fn quantities_and_nulls_are_read_as_go_reads_them() {
        let json = r#"{"metadata":null,"spec":{"nodeName":null,"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m","memory":1024}}}]}}"#;
        let decoded = decode(json.as_bytes(), POD).unwrap();
        assert_eq!(
            decoded.object,
            json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1024"}}}]}})
        );
    }

    #[test]
    fn settling_shows_what_go_shows() {
        let mut object = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"replicas": 0, "paused": false, "template": {"spec": {"containers": [{"name": "c", "args": []}]}}}});
        settle(&mut object, DEPLOYMENT);
        assert_eq!(
            object,
            json!({
                "metadata": {"name": "a"},
                "spec": {
                    "replicas": 0,
                    "selector": null,
                    "strategy": {},
                    "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
                },
                "status": {},
            })
        );
        let again = object.clone();
        settle(&mut object, DEPLOYMENT);
        assert_eq!(object, again);
    }

    #[test]
    fn what_there_is_to_settle_is_known_before() {
        for (definition, object, expected) in [
            (CONFIG_MAP, json!({"metadata": {"name": "a"}, "data": {"a": ""}}), Settling::Nothing),
            (CONFIG_MAP, json!({"metadata": {"name": "a", "labels": {}}}), Settling::Change),
            (CONFIG_MAP, json!({"metadata": {"name": ""}}), Settling::Change),
            (CONFIG_MAP, json!({"metadata": {"name": "a", "managedFields": []}}), Settling::Change),
            (
                DEPLOYMENT,
                json!({"spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "c"}]}}}}),
                Settling::AddNoValue,
            ),
            (DEPLOYMENT, json!({"spec": {"template": {"spec": {"containers": []}}}}), Settling::Change),
            // A container is shown with a name, be it empty.
            (
                DEPLOYMENT,
                json!({"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}}),
                Settling::Change,
            ),
            (DEPLOYMENT, json!({"spec": {"paused": false}}), Settling::Change),
        ] {
            assert_eq!(settling(&object, definition), expected, "{object}");
            let mut settled = object.clone();
            settle(&mut settled, definition);
            assert_eq!(settled == object, expected == Settling::Nothing, "{object}");
            let again = settled.clone();
            settle(&mut settled, definition);
            assert_eq!(settled, again);
        }
    }

    #[test]
    fn what_was_decoded_is_known_as_such() {
        for (definition, object, expected) in [
            (
                CONFIG_MAP,
                json!({"metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:x": {}, "y": null}}]}}),
                true,
            ),
            (CONFIG_MAP, json!({"metadata": {"name": null}}), false),
            (CONFIG_MAP, json!({"metadata": {"nope": "a"}}), false),
            (CONFIG_MAP, json!({"data": {"a": 1}}), false),
            (CONFIG_MAP, json!({"data": {"a": null}}), false),
            (CONFIG_MAP, json!({"metadata": {"creationTimestamp": "2006-01-02T15:04:05Z"}}), true),
            (CONFIG_MAP, json!({"metadata": {"creationTimestamp": "2006-01-02T16:04:05+01:00"}}), false),
            (CONFIG_MAP, json!({"binaryData": {"a": "AA=="}}), true),
            (CONFIG_MAP, json!({"binaryData": {"a": "!"}}), false),
            (
                DEPLOYMENT,
                json!({"spec": {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}}}),
                true,
            ),
            (DEPLOYMENT, json!({"spec": {"replicas": 3.0}}), false),
            (DEPLOYMENT, json!({"spec": {"replicas": 3_000_000_000_u64}}), false),
            (
                POD,
                json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}),
                true,
            ),
            (POD, json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1000m"}}}]}}), false),
            (POD, json!({"spec": {"containers": [null]}}), false),
        ] {
            assert_eq!(is_decoded(&object, definition), expected, "{object}");
            let changes_nothing = decode_borrowed(&object, definition)
                .is_ok_and(|decoded| decoded.complaints.is_empty() && decoded.object == object);
            assert_eq!(changes_nothing, expected, "{object}");
        }
    }

    #[test]
    fn fields_are_found_by_their_names_and_nothing_else_is() {
        let kind = type_of("io.k8s.api.core.v1.PodSpec").unwrap();
        assert!(kind.fields.len() > 30);
        for field in &kind.fields {
            assert!(std::ptr::eq(kind.field(&field.name).unwrap(), field), "{}", field.name);
            assert!(kind.field(&field.name[1..]).is_none());
        }
        for name in ["", "x", "Containers", "containerss"] {
            assert!(kind.field(name).is_none(), "{name}");
        }
    }

    #[test]
    fn every_kind_of_the_catalogue_has_a_type() {
        for resource in
            sternpost_builtin::groups().iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
        {
            let name = sternpost_builtin::definition_name(&resource.gvk()).unwrap();
            assert!(type_of(&name).is_some(), "{name}");
        }
    }
}
