//! Objects of the built-in kinds between JSON and protobuf.
//!
//! Entry points: [`decode()`] and [`encode()`] for objects in their envelope (the
//! magic bytes, then `runtime.Unknown` with `apiVersion`, `kind` and the
//! message), [`decode_message`] and [`encode_message`] for a message by its
//! full name, [`ListWriter`] for a list that is written item by item,
//! [`encode_watch_event`] for one event of a watch.
//!
//! The bytes are those that Go's generated code writes: fields in the order of
//! their numbers, single values that are no pointers even when zero, maps in
//! the order of their keys. The JSON is what Go prints of the same bytes: what
//! is unset is left out, or shown as zero or `null` where Go's tags say so.
//! So decoding what was encoded gives the object as a typed client sees it:
//! unknown fields gone, zero values and the spelling of quantities settled.
//!
//! Raw JSON (`fieldsV1`, extensions, defaults in schemas) is written compactly
//! with sorted keys. Strings must be UTF-8.

use std::ops::RangeInclusive;

use serde_json::Value;
use sternpost_meta::gvk::GroupVersionKind;

mod decode;
mod descriptor;
mod encode;
mod envelope;

pub use decode::DecodeError;
pub use encode::{EncodeError, FieldProblem};
pub use envelope::{ListWriter, WatchEvent, decode_watch_event, encode_watch_event};

use descriptor::CATALOGUE;

/// What every object in protobuf starts with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// How deep objects and lists of the JSON form may nest, in both directions.
/// `serde_json` reads no deeper, so that what was decoded can be stored as
/// JSON and read back.
pub const MAX_DEPTH: usize = 127;

/// How many bytes are decoded at once. Callers have lower limits of their own.
pub const MAX_BYTES: usize = 64 << 20;

/// How many JSON objects with members any input may become.
pub const FREE_OBJECTS: usize = 65_536;

/// Beyond [`FREE_OBJECTS`], one more for so many bytes of input. Two bytes on
/// the wire can be a list item with members, hundreds of times as large in
/// memory; JSON text needs at least as many bytes as this for one.
pub const BYTES_PER_OBJECT: usize = 8;

/// Seconds since 1970 of the years 0 to 9999, which times must be in.
const YEARS: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Reads an object in its envelope. `kind` and `apiVersion` are those of the
/// envelope; what is absent there is taken from `expected`.
pub fn decode(bytes: &[u8], expected: Option<&GroupVersionKind>) -> Result<Value, DecodeError> {
    envelope::decode(bytes, expected, None)
}

/// As [`decode()`], for what is stored: an object in another version of `form`'s kind that has no message of its own
/// has the fields of `form`.
pub fn decode_stored(bytes: &[u8], form: &GroupVersionKind) -> Result<Value, DecodeError> {
    envelope::decode(bytes, None, Some(form))
}

/// Writes an object, whose `apiVersion` and `kind` must name a built-in kind,
/// with its envelope.
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    envelope::encode(object, None)
}

/// As [`encode()`], for what [`decode_stored`] reads.
pub fn encode_stored(object: &Value, form: &GroupVersionKind) -> Result<Vec<u8>, EncodeError> {
    envelope::encode(object, Some(form))
}

/// Reads a message without envelope by its full name
/// (`io.k8s.api.core.v1.Pod`); the JSON has no `kind` and `apiVersion`.
pub fn decode_message(name: &str, bytes: &[u8]) -> Result<Value, DecodeError> {
    let descriptor = CATALOGUE.by_name(name).ok_or_else(|| DecodeError::UnknownMessage(name.to_owned()))?;
    decode::message(descriptor, bytes)
}

/// Writes a message without envelope by its full name.
pub fn encode_message(name: &str, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let descriptor = CATALOGUE.by_name(name).ok_or_else(|| EncodeError::UnknownMessage(name.to_owned()))?;
    let mut out = Vec::new();
    encode::message(descriptor, value, &mut out)?;
    Ok(out)
}

/// The full name of the message of a kind; `None` if it is no built-in kind
/// or travels as JSON only.
pub fn message_name(api_version: &str, kind: &str) -> Option<&'static str> {
    CATALOGUE.by_kind(api_version, kind).map(|descriptor| &*descriptor.name)
}

#[cfg(test)]
mod tests;
