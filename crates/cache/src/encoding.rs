//! The stored form of an object.
//!
//! Four bytes, then the object's fields as JSON, without the opening brace,
//! `kind`, `apiVersion` and `metadata.resourceVersion`: `"metadata":{…},"spec":{…}}`.
//! The four bytes say, little end first, where in the JSON the resource version
//! belongs. So one stored form serves a single object, a list item (which has
//! no kind) and an event, under whatever revision the store gave it.
//!
//! A kind whose stored version may change keeps it with each object: its name
//! stands behind the JSON, then one byte with the name's length, and the topmost
//! bit of the four bytes is set.

use std::{borrow::Cow, marker::PhantomData};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};
use sternpost_store::Revision;

use crate::{pairs::Pairs, reader};

const OFFSET_BYTES: usize = 4;

/// Most objects have fewer, and are written without growing what they are written to.
const MOST_BYTES: usize = 4096;

/// Set in the first four bytes if the name of a version follows the JSON.
const VERSIONED: u32 = 1 << 31;

/// Puts an object into its stored form. Whatever is no object becomes an empty one.
pub fn encode(object: &Value) -> Bytes {
    encode_with(object, None)
}

/// As [`encode`], and keeps the name of the version that the object has the form of.
/// Names are at most 255 bytes long.
pub fn encode_in(object: &Value, version: &str) -> Bytes {
    encode_with(object, Some(version))
}

fn encode_with(object: &Value, version: Option<&str>) -> Bytes {
    static EMPTY: Value = Value::Null;
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    let metadata = fields.get("metadata").unwrap_or(&EMPTY).as_object().unwrap_or(&empty);

    let mut out = Vec::with_capacity(MOST_BYTES);
    out.extend_from_slice(&[0; OFFSET_BYTES]);
    out.extend_from_slice(b"\"metadata\":{");
    let mut offset = None;
    let mut first = true;
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        if offset.is_none() && key.as_str() > "resourceVersion" {
            offset = Some(out.len());
        }
        field(&mut out, key, value);
    }
    // Metadata of every stored object ends with `uid`, which sorts behind; for
    // anything else the version leads, and the comma after it must have a follower.
    let offset = offset.unwrap_or_else(|| "\"metadata\":{".len() + OFFSET_BYTES) - OFFSET_BYTES;
    out.push(b'}');
    for (key, value) in fields {
        if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
            out.push(b',');
            field(&mut out, key, value);
        }
    }
    out.push(b'}');
    // Objects are limited to a few megabytes long before they get here.
    let mut offset = u32::try_from(offset).unwrap_or_default();
    if let Some((version, length)) = version.and_then(|name| Some((name, u8::try_from(name.len()).ok()?))) {
        offset |= VERSIONED;
        out.extend_from_slice(version.as_bytes());
        out.push(length);
    }
    let offset = offset.to_le_bytes();
    for (byte, digit) in out.iter_mut().zip(offset) {
        *byte = digit;
    }
    // Kept for as long as the object: exactly as long as it is, not as the buffer grew.
    Bytes::copy_from_slice(&out)
}

const BEFORE_VERSION: &[u8] = b"\"resourceVersion\":\"";

/// Appends the fields of a stored object, with its version, and the closing brace.
pub fn write_fields(out: &mut Vec<u8>, stored: &[u8], revision: Revision) {
    let (head, tail) = parts(stored);
    out.extend_from_slice(head);
    out.extend_from_slice(BEFORE_VERSION);
    let mut digits = [0; MAX_DIGITS];
    out.extend_from_slice(decimal(revision, &mut digits));
    out.extend_from_slice(if is_last(tail) { b"\"" } else { b"\"," });
    out.extend_from_slice(tail);
}

/// Bytes that [`write_fields`] appends.
pub fn fields_size(stored: &[u8], revision: Revision) -> usize {
    let (head, tail) = parts(stored);
    let quote_and_comma = if is_last(tail) { 1 } else { 2 };
    let digits = decimal(revision, &mut [0; MAX_DIGITS]).len();
    head.len() + BEFORE_VERSION.len() + digits + quote_and_comma + tail.len()
}

/// Whether nothing follows the version in the metadata.
fn is_last(tail: &[u8]) -> bool {
    tail.starts_with(b"}")
}

/// Of the largest 64-bit number.
const MAX_DIGITS: usize = 20;

/// On every item of a list: no formatting machinery.
fn decimal(revision: Revision, digits: &mut [u8; MAX_DIGITS]) -> &[u8] {
    let mut rest = revision.get();
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    digits.get(MAX_DIGITS - used..).unwrap_or_default()
}

/// The object as JSON, without kind, apiVersion and resource version.
pub fn value_of(stored: &[u8]) -> Option<Value> {
    reader::fields(text_of(stored)?).or_else(|| read(stored))
}

/// The object as JSON text, without the opening brace.
pub(crate) fn text_of(stored: &[u8]) -> Option<&str> {
    std::str::from_utf8(Stored::of(stored)?.json).ok()
}

/// As [`value_of`], as another type, which may leave out most of it.
pub fn read<T: DeserializeOwned>(stored: &[u8]) -> Option<T> {
    read_as(stored, PhantomData)
}

/// As [`value_of`], as whatever the seed makes of it.
pub fn read_as<T>(stored: &[u8], seed: impl for<'de> DeserializeSeed<'de, Value = T>) -> Option<T> {
    // Found to be text all at once, instead of string by string.
    let rest = text_of(stored)?;
    let mut json = String::with_capacity(rest.len() + 1);
    json.push('{');
    json.push_str(rest);
    let mut deserializer = serde_json::Deserializer::from_str(&json);
    let read = seed.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(read)
}

const BEFORE_METADATA: &[u8] = b"\"metadata\":";

/// What the cache wants to know of every object's metadata.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub labels: Pairs,
    pub terminating: bool,
}

impl Metadata {
    pub fn of(stored: &[u8]) -> Self {
        let json = Stored::of(stored).map(|stored| stored.json).unwrap_or_default();
        let Some(json) = json.strip_prefix(BEFORE_METADATA) else { return Self::default() };
        let mut reader = MetadataReader::default();
        let read = serde_json::Deserializer::from_slice(json).deserialize_map(&mut reader);
        if read.is_ok() || reader.has_enough { reader.found } else { Self::default() }
    }
}

/// Reads no further than the labels. Metadata comes first, its fields are in order, and what is behind is
/// most of it.
#[derive(Default)]
struct MetadataReader {
    found: Metadata,
    /// It has stopped early, which the parser takes for a mistake.
    has_enough: bool,
}

impl<'de> Visitor<'de> for &mut MetadataReader {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "labels" => self.found.labels = map.next_value::<Labels>()?.0,
                "deletionTimestamp" => {
                    self.found.terminating = map.next_value::<Option<IgnoredAny>>()?.is_some();
                }
                behind if behind > "labels" => {
                    self.has_enough = true;
                    return Ok(());
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Labels(Pairs);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        labels(deserializer).map(Self)
    }
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
    struct Reader;

    impl<'de> Visitor<'de> for Reader {
        type Value = Pairs;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("labels")
        }

        fn visit_unit<E>(self) -> Result<Pairs, E> {
            Ok(Pairs::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
            let mut labels: Vec<(Text<'de>, Text<'de>)> = Vec::new();
            while let Some(label) = map.next_entry()? {
                labels.push(label);
            }
            Ok(labels.into_iter().map(|(name, value)| (name.0, value.0)).collect())
        }
    }

    deserializer.deserialize_any(Reader)
}

/// Borrowed unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The version that an object was stored in, if its kind keeps it.
pub fn version_of(stored: &[u8]) -> Option<&str> {
    Stored::of(stored)?.version
}

/// A stored object in its parts.
struct Stored<'a> {
    offset: usize,
    json: &'a [u8],
    version: Option<&'a str>,
}

impl<'a> Stored<'a> {
    fn of(stored: &'a [u8]) -> Option<Self> {
        let (offset, rest) = stored.split_first_chunk::<OFFSET_BYTES>()?;
        let offset = u32::from_le_bytes(*offset);
        let (json, version) = if offset & VERSIONED == 0 {
            (rest, None)
        } else {
            let (length, rest) = rest.split_last()?;
            let (json, name) = rest.split_at_checked(rest.len().checked_sub(usize::from(*length))?)?;
            (json, Some(std::str::from_utf8(name).ok()?))
        };
        Some(Self { offset: usize::try_from(offset & !VERSIONED).unwrap_or_default(), json, version })
    }
}

/// What stands before and behind the resource version.
fn parts(stored: &[u8]) -> (&[u8], &[u8]) {
    let Some(stored) = Stored::of(stored) else { return (&[], &[]) };
    stored.json.split_at_checked(stored.offset).unwrap_or((stored.json, &[]))
}

fn field(out: &mut Vec<u8>, key: &str, value: &Value) {
    write_text(out, key);
    out.push(b':');
    write_value(out, value);
}

/// What `serde_json` writes, without its layers: every write passes here.
fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                field(out, key, value);
            }
            out.push(b'}');
        }
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => by_serde(out, number),
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        by_serde(out, text);
    }
}

/// Whether nothing in a text is to be escaped.
fn is_plain(text: &[u8]) -> bool {
    /// Words that are looked at without a branch between them.
    const STEP: usize = 4 * size_of::<u64>();
    let (steps, rest) = text.as_chunks::<STEP>();
    let is_plain_step = |step: &[u8; STEP]| {
        let (words, _) = step.as_chunks::<8>();
        words.iter().fold(0, |found, word| found | escaped(word)) == 0
    };
    if !steps.iter().all(is_plain_step) {
        return false;
    }
    // What is left is most of a name: the last eight bytes of a text are looked at together, some of them twice.
    let (words, rest) = rest.as_chunks::<8>();
    words.iter().all(is_plain_word)
        && match text.last_chunk::<8>() {
            Some(last) => rest.is_empty() || is_plain_word(last),
            None => rest.iter().all(|byte| !matches!(byte, b'"' | b'\\' | 0..b' ')),
        }
}

fn is_plain_word(word: &[u8; 8]) -> bool {
    escaped(word) == 0
}

/// Of eight bytes at once, which are to be escaped: the lowest bit that is set is in the first of them. A byte
/// that is taken below itself borrows from its highest bit.
pub(crate) fn escaped(word: &[u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHEST: u64 = ONES << 7;
    let word = u64::from_le_bytes(*word);
    let below = |word: u64, least: u8| word.wrapping_sub(ONES * u64::from(least)) & !word & HIGHEST;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, b' ') | is(b'"') | is(b'\\')
}

fn by_serde<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing text and numbers to memory has no failing case.
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: &Value, expected: &str) {
        let stored = encode(object);
        let mut out = vec![b'{'];
        write_fields(&mut out, &stored, Revision::new(42).unwrap());
        assert_eq!(fields_size(&stored, Revision::new(42).unwrap()), out.len() - 1);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_version_stands_where_it_sorts() {
        check(
            &json!({"apiVersion": "v1", "kind": "X", "data": {"a": "b"},
                "metadata": {"name": "n", "resourceVersion": "7", "uid": "u", "annotations": {"resourceVersion": ""}}}),
            r#"{"metadata":{"annotations":{"resourceVersion":""},"name":"n","resourceVersion":"42","uid":"u"},"data":{"a":"b"}}"#,
        );
        check(&json!({"metadata": {"uid": "u"}}), r#"{"metadata":{"resourceVersion":"42","uid":"u"}}"#);
        check(&json!({"metadata": {}, "spec": 1}), r#"{"metadata":{"resourceVersion":"42"},"spec":1}"#);
        check(&json!({"metadata": {"name": "n"}}), r#"{"metadata":{"resourceVersion":"42","name":"n"}}"#);
    }

    #[test]
    fn values_are_written_as_serde_json_writes_them() {
        let plain = "x".repeat(100);
        let texts: Vec<String> = (0..=100)
            .flat_map(|at| {
                ["\"", "\\", "\n", "\u{1f}", "\u{7f}", "é"].map(|char| [&plain[..at], char, "y"].concat())
            })
            .collect();
        let value = json!({
            "": [], "e": {}, "n": null, "b": [true, false], "i": [0, -1, i64::MIN, u64::MAX], "f": [0.5, -1e300, 1.0],
            "\u{2028}<>&\"": texts, "deep": [[{"a": [{}]}]],
        });
        let mut out = Vec::new();
        write_value(&mut out, &value);
        assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
    }

    #[test]
    fn what_is_stored_reads_back() {
        let object = json!({"metadata": {"name": "n", "uid": "u"}, "spec": {"x": [1, null]}});
        assert_eq!(value_of(&encode(&object)), Some(object));
        for damaged in [&b""[..], b"\0\0", b"\xff\xff\xff\xff{}"] {
            let mut out = Vec::new();
            write_fields(&mut out, damaged, Revision::FIRST);
            assert_eq!(out.len(), fields_size(damaged, Revision::FIRST));
            assert_eq!(value_of(damaged), None);
            assert!(Metadata::of(damaged).labels.is_empty());
        }
    }

    #[test]
    fn the_name_of_a_version_stays_with_the_object() {
        let object = json!({"apiVersion": "g/v1", "metadata": {"name": "n", "uid": "u"}, "spec": {"x": 1}});
        let stored = encode_in(&object, "v1beta1");
        assert_eq!(version_of(&stored), Some("v1beta1"));
        assert_eq!(value_of(&stored), value_of(&encode(&object)));
        let mut out = Vec::new();
        write_fields(&mut out, &stored, Revision::FIRST);
        assert_eq!(out, br#""metadata":{"name":"n","resourceVersion":"1","uid":"u"},"spec":{"x":1}}"#);
        assert_eq!(out.len(), fields_size(&stored, Revision::FIRST));
        assert_eq!(version_of(&encode(&object)), None);
        for damaged in [&b"\0\0\0\x80"[..], b"\0\0\0\x80\x05", b"\0\0\0\x80\xff\x01"] {
            assert_eq!((version_of(damaged), value_of(damaged)), (None, None));
        }
    }

    #[test]
    fn versions_are_written_as_numbers_are() {
        for number in [1, 9, 10, 42, 99, 100, 1_234_567_890, Revision::LAST.get()] {
            let digits = &mut [0; MAX_DIGITS];
            assert_eq!(decimal(Revision::new(number).unwrap(), digits), number.to_string().as_bytes());
        }
    }

    #[test]
    fn labels_and_deletion_are_read_from_the_metadata_alone() {
        for (metadata, labels, terminating) in [
            (json!({"labels": {"a": "b", "c": ""}, "uid": "u"}), &[("a", "b"), ("c", "")][..], false),
            (json!({"labels": {"\"": "\n"}, "deletionTimestamp": "t"}), &[("\"", "\n")], true),
            (json!({"labels": null, "deletionTimestamp": null}), &[], false),
            (json!({"annotations": {"labels": "x"}, "managedFields": [{"labels": {"a": "b"}}]}), &[], false),
        ] {
            let stored = encode(&json!({"metadata": metadata, "labels": {"x": "y"}, "data": "\u{1}"}));
            let found = Metadata::of(&stored);
            assert_eq!(
                (found.labels.iter().collect::<Vec<_>>(), found.terminating),
                (labels.to_vec(), terminating)
            );
        }
    }
}
