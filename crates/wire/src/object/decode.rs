//! Protobuf bytes to JSON, as Go would print what it read from them.

use std::{mem, slice};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};
use sternpost_builtin::{Label, Shown};
use sternpost_golang::{duration, time::Timestamp};
use sternpost_meta::{cancel::checkpoint, quantity};

use super::{
    BYTES_PER_OBJECT, FREE_OBJECTS, MAX_BYTES, MAX_DEPTH, YEARS,
    descriptor::{CATALOGUE, Descriptor, Field, Form, Kind},
    encode::{FIXED32, FIXED64, LENGTH, VARINT},
};

/// Why bytes are not an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("does not start as a Kubernetes object in protobuf does")]
    Magic,
    #[error("no `{0}`")]
    Unnamed(&'static str),
    #[error("no kind `{kind}` of `{api_version}` in protobuf")]
    UnknownKind { api_version: String, kind: String },
    #[error("no message `{0}`")]
    UnknownMessage(String),
    #[error("larger than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("more objects than its size allows")]
    TooMany,
    #[error("nested deeper than {MAX_DEPTH} objects and lists")]
    TooDeep,
    #[error("ends inside a field")]
    Truncated,
    #[error("malformed variable-length integer")]
    Varint,
    #[error("malformed field key")]
    Key,
    #[error("unknown wire type {0}")]
    WireType(u32),
    #[error("a group that does not end")]
    Group,
    #[error("field {0} is not of its declared type")]
    FieldType(u32),
    #[error("field {0} is not UTF-8")]
    Utf8(u32),
    #[error("field {0} is not a finite number")]
    NotFinite(u32),
    #[error("a time outside of the years 0 to 9999")]
    Time,
    #[error("not a quantity")]
    Quantity,
    #[error("an integer or string that says it is neither")]
    IntOrString,
    #[error("raw data that is not JSON")]
    Json,
}

pub(super) fn message(descriptor: &'static Descriptor, bytes: &[u8]) -> Result<Value, DecodeError> {
    if bytes.len() > MAX_BYTES {
        return Err(DecodeError::TooLarge);
    }
    let left = FREE_OBJECTS + bytes.len() / BYTES_PER_OBJECT;
    Decoder { left, slots: Vec::new() }.message(descriptor, &[bytes], 0)
}

/// Reads fields off the front of a message.
pub(super) struct Wire<'b>(pub &'b [u8]);

pub(super) struct WireField<'b> {
    pub number: u32,
    value: WireValue<'b>,
}

#[derive(Clone, Copy)]
enum WireValue<'b> {
    Varint(u64),
    Fixed64(u64),
    Length(&'b [u8]),
    /// Of no type that a known field has.
    Other,
}

impl<'b> Wire<'b> {
    #[inline]
    pub fn field(&mut self) -> Result<Option<WireField<'b>>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        checkpoint();
        let (number, wire_type) = self.key()?;
        let value = match wire_type {
            VARINT => WireValue::Varint(self.varint()?),
            FIXED64 => WireValue::Fixed64(u64::from_le_bytes(self.chunk()?)),
            LENGTH => WireValue::Length(self.length()?),
            _ => {
                self.skip(wire_type)?;
                WireValue::Other
            }
        };
        Ok(Some(WireField { number, value }))
    }

    fn key(&mut self) -> Result<(u32, u32), DecodeError> {
        let key = u32::try_from(self.varint()?).map_err(|_| DecodeError::Key)?;
        match (key >> 3, key & 7) {
            (0, _) => Err(DecodeError::Key),
            key => Ok(key),
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let Some((byte, rest)) = self.0.split_first() else { return Err(DecodeError::Truncated) };
            self.0 = rest;
            if shift == 63 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (chunk, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*chunk)
    }

    #[inline]
    fn length(&mut self) -> Result<&'b [u8], DecodeError> {
        let size = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
        let (bytes, rest) = self.0.split_at_checked(size).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Passes over what no field is written as: 32 bits, and groups with all
    /// they hold, without recursion.
    fn skip(&mut self, wire_type: u32) -> Result<(), DecodeError> {
        let mut open = 0_usize;
        let mut wire_type = wire_type;
        loop {
            checkpoint();
            match wire_type {
                VARINT => {
                    self.varint()?;
                }
                FIXED64 => {
                    self.chunk::<8>()?;
                }
                LENGTH => {
                    self.length()?;
                }
                FIXED32 => {
                    self.chunk::<4>()?;
                }
                3 => open += 1,
                4 => open = open.checked_sub(1).ok_or(DecodeError::Group)?,
                other => return Err(DecodeError::WireType(other)),
            }
            if open == 0 {
                return Ok(());
            }
            if self.0.is_empty() {
                return Err(DecodeError::Group);
            }
            wire_type = self.key()?.1;
        }
    }
}

impl<'b> WireField<'b> {
    pub fn bytes(&self) -> Result<&'b [u8], DecodeError> {
        match self.value {
            WireValue::Length(bytes) => Ok(bytes),
            _ => Err(DecodeError::FieldType(self.number)),
        }
    }

    pub fn string(&self) -> Result<&'b str, DecodeError> {
        utf8(self.number, self.bytes()?)
    }

    fn integer(&self) -> Result<u64, DecodeError> {
        match self.value {
            WireValue::Varint(value) => Ok(value),
            _ => Err(DecodeError::FieldType(self.number)),
        }
    }

    /// The value as that of a single field.
    fn slot(&self, kind: Kind) -> Result<Slot<'b>, DecodeError> {
        match (kind, self.value) {
            (Kind::Bool | Kind::Int32 | Kind::Int64, WireValue::Varint(value)) => Ok(Slot::Bits(value)),
            (Kind::Double, WireValue::Fixed64(value)) => Ok(Slot::Bits(value)),
            (Kind::String | Kind::Bytes | Kind::Message(_), WireValue::Length(bytes)) => {
                Ok(Slot::Bytes(bytes))
            }
            _ => Err(DecodeError::FieldType(self.number)),
        }
    }
}

/// What has been seen of one field so far.
#[derive(Default)]
enum Slot<'b> {
    #[default]
    Empty,
    Bits(u64),
    Bytes(&'b [u8]),
    /// A message that came in parts, which count as one after the other.
    Parts(Vec<&'b [u8]>),
    List(Vec<Value>),
    Map(Map<String, Value>),
}

/// Which fields may have been seen, by their index; all from the last bit on share it.
#[derive(Clone, Copy)]
struct SeenFields(u64);

impl SeenFields {
    fn add(&mut self, index: usize) {
        self.0 |= 1 << index.min(63);
    }

    fn has(self, index: usize) -> bool {
        self.0 >> index.min(63) & 1 == 1
    }
}

struct Decoder<'b> {
    /// How many more objects with members there may be.
    left: usize,
    /// The fields of the messages that are being read, by their index in the
    /// descriptor: a stack, so that no message needs an allocation of its own.
    slots: Vec<(usize, Slot<'b>)>,
}

impl<'b> Decoder<'b> {
    fn message(
        &mut self,
        descriptor: &'static Descriptor,
        parts: &[&'b [u8]],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        match descriptor.form {
            Form::Record => {
                let mut object = Map::new();
                self.record(descriptor, parts, &mut object, deeper(depth)?)?;
                self.count(&object)?;
                Ok(Value::Object(object))
            }
            Form::Time => timestamp(parts, Timestamp::to_time, SECOND),
            Form::MicroTime => timestamp(parts, Timestamp::to_micro_time, 1_000),
            Form::Duration => {
                let mut nanos = 0;
                each(parts, |field| {
                    if field.number == 1 {
                        nanos = field.integer()?.cast_signed();
                    }
                    Ok(())
                })?;
                Ok(duration::format(nanos).into())
            }
            Form::Quantity => {
                let mut quantity = "0";
                each(parts, |field| {
                    if field.number == 1 {
                        quantity = field.string()?;
                    }
                    Ok(())
                })?;
                quantity::canonical(quantity).map(Value::String).map_err(|_| DecodeError::Quantity)
            }
            Form::IntOrString => int_or_string(parts),
            Form::Json => self.json(parts, depth),
            Form::Strings | Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrStrings => {
                self.alternatives(descriptor, parts, depth)
            }
        }
    }

    /// Reads all fields, then puts those into the object that Go would print.
    fn record(
        &mut self,
        descriptor: &'static Descriptor,
        parts: &[&'b [u8]],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let base = self.slots.len();
        let seen = self.read(descriptor, parts, depth)?;
        for at in base..self.slots.len() {
            let taken = self.slots.get_mut(at).map(|(index, slot)| (*index, mem::take(slot)));
            let Some((index, slot)) = taken else { continue };
            if let Some(field) = descriptor.fields.get(index) {
                self.show(field, slot, object, depth)?;
            }
        }
        // Most fields of a large message are neither there nor shown.
        for index in &descriptor.always {
            if let Some(field) = descriptor.fields.get(*index)
                && self.position(base, *index, seen).is_none()
            {
                self.show(field, Slot::Empty, object, depth)?;
            }
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn show(
        &mut self,
        field: &'static Field,
        slot: Slot<'b>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if let (Kind::Message(inner), true) = (field.kind, field.inline) {
            return self.record(CATALOGUE.message(inner), slot.parts(), object, depth);
        }
        if let Some(value) = self.shown(field, slot, depth)? {
            object.insert(field.name.as_ref().to_owned(), value);
        }
        Ok(())
    }

    /// Puts a slot for each field that is there on top of the stack.
    fn read(
        &mut self,
        descriptor: &'static Descriptor,
        parts: &[&'b [u8]],
        depth: usize,
    ) -> Result<SeenFields, DecodeError> {
        let base = self.slots.len();
        let mut seen = SeenFields(0);
        for part in parts {
            let mut wire = Wire(part);
            while let Some(found) = wire.field()? {
                let Some(index) = descriptor.index_of(found.number) else { continue };
                let Some(field) = descriptor.fields.get(index) else { continue };
                let at = self.position(base, index, seen);
                let slot = at.and_then(|at| self.slots.get_mut(at)).map(|(_, slot)| mem::take(slot));
                let slot = self.keep(slot.unwrap_or_default(), field, &found, depth)?;
                match at.and_then(|at| self.slots.get_mut(at)) {
                    Some(kept) => kept.1 = slot,
                    None => self.slots.push((index, slot)),
                }
                seen.add(index);
            }
        }
        Ok(seen)
    }

    /// Where on the stack the slot of a field is.
    fn position(&self, base: usize, index: usize, seen: SeenFields) -> Option<usize> {
        if !seen.has(index) {
            return None;
        }
        // The field that comes again is nearly always the one that came last.
        let slots = self.slots.get(base..)?;
        slots.iter().rposition(|(found, _)| *found == index).map(|at| base + at)
    }

    /// What has been seen of a field, and this.
    fn keep(
        &mut self,
        slot: Slot<'b>,
        field: &'static Field,
        found: &WireField<'b>,
        depth: usize,
    ) -> Result<Slot<'b>, DecodeError> {
        match field.label {
            Label::Single => Ok(match (field.kind, found.slot(field.kind)?, slot) {
                (Kind::Message(_), Slot::Bytes(next), Slot::Bytes(first)) => Slot::Parts(vec![first, next]),
                (Kind::Message(_), Slot::Bytes(next), Slot::Parts(mut parts)) => {
                    parts.push(next);
                    Slot::Parts(parts)
                }
                (_, next, _) => next,
            }),
            Label::Repeated => {
                let depth = deeper(depth)?;
                let mut items = if let Slot::List(items) = slot { items } else { Vec::new() };
                match found.value {
                    WireValue::Length(packed)
                        if matches!(field.kind, Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double) =>
                    {
                        let mut packed = Wire(packed);
                        while !packed.0.is_empty() {
                            checkpoint();
                            let bits = match field.kind {
                                Kind::Double => u64::from_le_bytes(packed.chunk()?),
                                _ => packed.varint()?,
                            };
                            items.push(self.value(field.number, field.kind, &Slot::Bits(bits), depth)?);
                        }
                    }
                    _ => items.push(self.value(field.number, field.kind, &found.slot(field.kind)?, depth)?),
                }
                Ok(Slot::List(items))
            }
            Label::Map => {
                let depth = deeper(depth)?;
                let mut entries = if let Slot::Map(entries) = slot { entries } else { Map::new() };
                let (mut name, mut value) = ("", Slot::Empty);
                let mut entry = Wire(found.bytes()?);
                while let Some(part) = entry.field()? {
                    match part.number {
                        1 => name = part.string()?,
                        2 => value = part.slot(field.kind)?,
                        _ => {}
                    }
                }
                entries.insert(name.to_owned(), self.value(field.number, field.kind, &value, depth)?);
                Ok(Slot::Map(entries))
            }
        }
    }

    /// The field as JSON; `None` if Go leaves it out.
    fn shown(
        &mut self,
        field: &'static Field,
        slot: Slot<'b>,
        depth: usize,
    ) -> Result<Option<Value>, DecodeError> {
        let always = field.shown == Shown::Always;
        match (field.label, slot) {
            (Label::Repeated, Slot::List(items)) => Ok(Some(Value::Array(items))),
            (Label::Map, Slot::Map(entries)) => {
                self.count(&entries)?;
                Ok(Some(Value::Object(entries)))
            }
            (Label::Repeated | Label::Map, _) => Ok(always.then_some(Value::Null)),
            (Label::Single, Slot::Empty) if field.optional || field.kind == Kind::Bytes => {
                Ok(always.then_some(Value::Null))
            }
            (Label::Single, slot) => {
                let value = self.value(field.number, field.kind, &slot, depth)?;
                Ok((always || field.optional || !is_zero(&value)).then_some(value))
            }
        }
    }

    /// One value; what is not set is zero.
    fn value(
        &mut self,
        number: u32,
        kind: Kind,
        slot: &Slot<'b>,
        depth: usize,
    ) -> Result<Value, DecodeError> {
        match (kind, slot) {
            (Kind::Message(inner), slot) => self.message(CATALOGUE.message(inner), slot.parts(), depth),
            (Kind::String, Slot::Bytes(bytes)) => utf8(number, bytes).map(Value::from),
            (Kind::Bytes, Slot::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
            (Kind::String | Kind::Bytes, _) => Ok("".into()),
            (Kind::Bool, slot) => Ok((slot.bits() != 0).into()),
            // Go keeps the low half of what is too large.
            (Kind::Int32, slot) => Ok(i64::from(slot.bits() as i32).into()),
            (Kind::Int64, slot) => Ok(slot.bits().cast_signed().into()),
            (Kind::Double, slot) => double(number, f64::from_bits(slot.bits())),
        }
    }

    fn json(&mut self, parts: &[&'b [u8]], depth: usize) -> Result<Value, DecodeError> {
        let mut raw: &[u8] = &[];
        each(parts, |field| {
            if field.number == 1 {
                raw = field.bytes()?;
            }
            Ok(())
        })?;
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        let value = serde_json::from_slice(raw).map_err(|_| DecodeError::Json)?;
        self.within(&value, depth)?;
        Ok(value)
    }

    /// Messages whose JSON is that of one of their fields.
    fn alternatives(
        &mut self,
        descriptor: &'static Descriptor,
        parts: &[&'b [u8]],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let base = self.slots.len();
        let seen = self.read(descriptor, parts, depth)?;
        let mut take = |index: usize| {
            let at = self.position(base, index, seen)?;
            self.slots.get_mut(at).map(|(_, slot)| mem::take(slot))
        };
        let (first, second) = (take(0).unwrap_or_default(), take(1).unwrap_or_default());
        self.slots.truncate(base);
        let schema = |kind: usize| descriptor.fields.get(kind).map(|field| (field.number, field.kind));
        match (descriptor.form, first, second) {
            (Form::Strings, Slot::List(items), _) => Ok(Value::Array(items)),
            (Form::Strings, _, _) => Ok(Value::Array(Vec::new())),
            (Form::SchemaOrBool, allows, Slot::Empty) => Ok((allows.bits() != 0).into()),
            (Form::SchemaOrBool, _, slot) => match schema(1) {
                Some((number, kind)) => self.value(number, kind, &slot, depth),
                None => Ok(Value::Null),
            },
            (_, _, Slot::List(items)) => Ok(Value::Array(items)),
            (_, Slot::Empty, _) => Ok(Value::Null),
            (_, slot, _) => match schema(0) {
                Some((number, kind)) => self.value(number, kind, &slot, depth),
                None => Ok(Value::Null),
            },
        }
    }

    fn count(&mut self, object: &Map<String, Value>) -> Result<(), DecodeError> {
        if !object.is_empty() {
            self.left = self.left.checked_sub(1).ok_or(DecodeError::TooMany)?;
        }
        Ok(())
    }

    /// Raw JSON nests and counts, too.
    fn within(&mut self, value: &Value, depth: usize) -> Result<(), DecodeError> {
        match value {
            Value::Array(items) => {
                let depth = deeper(depth)?;
                items.iter().try_for_each(|item| self.within(item, depth))
            }
            Value::Object(members) => {
                let depth = deeper(depth)?;
                self.count(members)?;
                members.values().try_for_each(|member| self.within(member, depth))
            }
            _ => Ok(()),
        }
    }
}

impl<'b> Slot<'b> {
    fn parts(&self) -> &[&'b [u8]] {
        match self {
            Slot::Bytes(bytes) => slice::from_ref(bytes),
            Slot::Parts(parts) => parts,
            _ => &[],
        }
    }

    fn bits(&self) -> u64 {
        match self {
            Slot::Bits(bits) => *bits,
            _ => 0,
        }
    }
}

fn deeper(depth: usize) -> Result<usize, DecodeError> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(DecodeError::TooDeep) }
}

/// What `omitempty` leaves out; for times, what `omitzero` does.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn each<'b>(
    parts: &[&'b [u8]],
    mut visit: impl FnMut(&WireField<'b>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for part in parts {
        let mut wire = Wire(part);
        while let Some(field) = wire.field()? {
            visit(&field)?;
        }
    }
    Ok(())
}

fn utf8(number: u32, bytes: &[u8]) -> Result<&str, DecodeError> {
    str::from_utf8(bytes).map_err(|_| DecodeError::Utf8(number))
}

/// Go prints a whole number without a fraction.
fn double(number: u32, value: f64) -> Result<Value, DecodeError> {
    /// Up to here every whole number has a `f64` of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok((value as i64).into());
    }
    Number::from_f64(value).map(Value::Number).ok_or(DecodeError::NotFinite(number))
}

/// No bytes at all are Go's zero time, which is `null` in JSON. Precision
/// below `unit` nanoseconds is dropped, which for a `Time` is all of them.
fn timestamp(parts: &[&[u8]], print: fn(Timestamp) -> String, unit: i32) -> Result<Value, DecodeError> {
    // Go's own reader of times starts anew with each part.
    let last = parts.last().copied().unwrap_or_default();
    if last.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0);
    each(&[last], |field| {
        match field.number {
            1 => seconds = field.integer()?.cast_signed(),
            2 => nanos = field.integer()? as i32,
            _ => {}
        }
        Ok(())
    })?;
    let nanos = if unit == SECOND { 0 } else { nanos - nanos % unit };
    // Nanoseconds outside of a second move it, as they do in Go.
    let seconds = seconds.checked_add(i64::from(nanos.div_euclid(SECOND))).ok_or(DecodeError::Time)?;
    let time = Timestamp::from_unix(seconds, nanos.rem_euclid(SECOND).cast_unsigned());
    match time {
        time if time.is_zero() => Ok(Value::Null),
        time if YEARS.contains(&seconds) => Ok(print(time).into()),
        _ => Err(DecodeError::Time),
    }
}

const SECOND: i32 = 1_000_000_000;

fn int_or_string(parts: &[&[u8]]) -> Result<Value, DecodeError> {
    let (mut kind, mut integer, mut string) = (0, 0, "");
    each(parts, |field| {
        match field.number {
            1 => kind = field.integer()?,
            2 => integer = field.integer()? as i32,
            3 => string = field.string()?,
            _ => {}
        }
        Ok(())
    })?;
    match kind {
        0 => Ok(integer.into()),
        1 => Ok(string.into()),
        _ => Err(DecodeError::IntOrString),
    }
}
