//! Rules of the format, each as data; and random documents made from the same
//! tables that encoder and decoder use.

// Cases build documents from values on the spot.
#![allow(clippy::needless_pass_by_value)]

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    table::{Field, Keys, Kind, Message},
    *,
};

fn v2(extra: Value) -> Value {
    merged(json!({"swagger": "2.0", "info": {"title": "t", "version": "1"}, "paths": {}}), extra)
}

fn v3(extra: Value) -> Value {
    merged(json!({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}}), extra)
}

fn merged(mut document: Value, extra: Value) -> Value {
    let Value::Object(extra) = extra else { panic!("not an object") };
    document.as_object_mut().unwrap().extend(extra);
    document
}

fn v3_schema(schema: Value) -> Value {
    v3(json!({"components": {"schemas": {"S": schema}}}))
}

fn v2_schema(schema: Value) -> Value {
    v2(json!({"definitions": {"S": schema}}))
}

#[test]
fn losses_of_v3_are_those_of_the_format() {
    for (schema, expected) in [
        (json!({"minimum": 0, "maxLength": 0, "nullable": false, "title": ""}), json!({})),
        (json!({"required": [], "enum": [], "allOf": []}), json!({})),
        (json!({"minimum": 1.0, "maximum": 2.5}), json!({"minimum": 1, "maximum": 2.5})),
        (json!({"maximum": 9_007_199_254_740_993_i64}), json!({"maximum": 9_007_199_254_740_992.0})),
        (json!({"default": {}}), json!({"default": {}})),
        (json!({"default": []}), json!({"default": {}})),
        (json!({"default": null}), json!({"default": {}})),
        (json!({"default": {"a": 1}}), json!({"default": {}})),
        (
            json!({"$ref": "#/x", "description": "d", "summary": "s", "default": 1, "x-y": 2}),
            json!({"$ref": "#/x", "description": "d", "summary": "s"}),
        ),
    ] {
        let decoded = decode_v3(&encode_v3(&v3_schema(schema.clone())).unwrap()).unwrap();
        assert_eq!(decoded, v3_schema(expected), "{schema}");
    }
}

#[test]
fn link_values_that_are_not_objects_are_lost() {
    let link = |body: Value| v3(json!({"components": {"links": {"L": {"requestBody": body}}}}));
    let decoded = decode_v3(&encode_v3(&link(json!("$request.body"))).unwrap()).unwrap();
    assert_eq!(decoded, link(json!({})));
}

#[test]
fn extension_of_a_callback_is_not_a_path() {
    let document = v3(json!({"components": {"callbacks": {"C": {"x-a": {"free": 1}, "{url}": {"x-b": 2}}}}}));
    assert_eq!(decode_v3(&encode_v3(&document).unwrap()).unwrap(), document);
}

#[test]
fn losses_of_v2_are_those_of_the_format() {
    for (schema, expected) in [
        (json!({"minimum": 0, "readOnly": false, "default": 0}), json!({"default": 0})),
        (json!({"type": ["string"]}), json!({"type": "string"})),
    ] {
        let decoded = decode_v2(&encode_v2(&v2_schema(schema.clone())).unwrap()).unwrap();
        assert_eq!(decoded, v2_schema(expected), "{schema}");
    }
    let parameters = |list: Value| v2(json!({"paths": {"/p": {"parameters": list}}}));
    let decoded =
        decode_v2(&encode_v2(&parameters(json!([{"$ref": "#/p", "description": "d", "in": "q"}]))).unwrap());
    assert_eq!(decoded.unwrap(), parameters(json!([{"$ref": "#/p", "description": "d"}])));
}

#[test]
fn zeros_that_the_format_keeps_are_kept() {
    for document in [
        v3_schema(json!({"default": 0})),
        v3_schema(json!({"default": false})),
        v3_schema(json!({"default": ""})),
        v3_schema(json!({"additionalProperties": false})),
        v3_schema(json!({"properties": {}, "items": {}, "not": {}})),
        v3_schema(json!({"enum": [0, "", null, false]})),
        v3(json!({"info": {"title": "", "version": ""}})),
    ] {
        assert_eq!(decode_v3(&encode_v3(&document).unwrap()).unwrap(), document);
    }
    for document in [
        v2_schema(json!({"$ref": "#/x", "description": "kept", "x-y": {"a": [1]}})),
        v2_schema(
            json!({"default": {}, "additionalProperties": false, "type": ["a", "b"], "items": [{}, {}]}),
        ),
        v2(json!({"parameters": {"p": {"name": "", "in": "path", "required": false, "type": "string"}}})),
    ] {
        assert_eq!(decode_v2(&encode_v2(&document).unwrap()).unwrap(), document);
    }
}

#[test]
fn errors_name_the_path_of_what_does_not_fit() {
    let unfit = |path: &str, expected| EncodeError::Unfit { path: path.into(), expected };
    let unknown = |path: &str| EncodeError::UnknownKey { path: path.into() };
    for (document, expected) in [
        (json!([]), unfit("", "an object")),
        (json!({"info": {}, "paths": {}}), EncodeError::MissingKey { path: "".into(), key: "openapi" }),
        (v3(json!({"swagger": "2.0"})), unknown("/swagger")),
        (v3(json!({"paths": {"/a~b": {"fetch": {}}}})), unknown("/paths/~1a~0b/fetch")),
        (v3(json!({"paths": {"a": {}}})), unknown("/paths/a")),
        (v3_schema(json!({"patternProperties": {}})), unknown("/components/schemas/S/patternProperties")),
        (v3_schema(json!({"allOf": [{}, {"id": 1}]})), unknown("/components/schemas/S/allOf/1/id")),
        (v3_schema(json!({"nullable": "yes"})), unfit("/components/schemas/S/nullable", "a boolean")),
        (v3_schema(json!({"maxItems": 1.5})), unfit("/components/schemas/S/maxItems", "a 64-bit integer")),
        (v3_schema(json!({"minimum": "1"})), unfit("/components/schemas/S/minimum", "a number")),
        (v3_schema(json!({"required": ["a", {}]})), unfit("/components/schemas/S/required/1", "a string")),
        (v3_schema(json!({"enum": {}})), unfit("/components/schemas/S/enum", "a list")),
        (v3_schema(json!(true)), unfit("/components/schemas/S", "an object")),
        (
            v3(json!({"paths": {"/p": {"get": {"responses": {"2000": {"description": ""}}}}}})),
            unknown("/paths/~1p/get/responses/2000"),
        ),
        (
            v3(json!({"paths": {"/p": {"get": {}}}})),
            EncodeError::MissingKey { path: "/paths/~1p/get".into(), key: "responses" },
        ),
    ] {
        assert_eq!(encode_v3(&document), Err(expected), "{document}");
    }
    for (document, expected) in [
        (v2(json!({"swagger": "3.0"})), unfit("/swagger", "one of the values this key may have")),
        (v2(json!({"schemes": ["ftp"]})), unfit("/schemes/0", "only values this key may have")),
        (v2_schema(json!({"nullable": true})), unknown("/definitions/S/nullable")),
        (
            v2_schema(json!({"properties": {"a": {"oneOf": []}}})),
            unknown("/definitions/S/properties/a/oneOf"),
        ),
        (
            v2(json!({"parameters": {"p": {"name": "n", "in": "cookie", "type": "string"}}})),
            unfit("/parameters/p", "a kind that `in`, or `type` and `flow`, name"),
        ),
    ] {
        assert_eq!(encode_v2(&document), Err(expected), "{document}");
    }
}

#[test]
fn strings_may_be_written_as_integers_or_null() {
    let bytes = encode_v3(&v3(json!({"info": {"title": null, "version": 1}}))).unwrap();
    assert_eq!(decode_v3(&bytes).unwrap(), v3(json!({"info": {"title": "", "version": "1"}})));
}

#[test]
fn malformed_bytes_are_errors() {
    for (bytes, expected) in [
        (&b"\x0a"[..], DecodeError::Truncated),
        (b"\x0a\x05abc", DecodeError::Truncated),
        (b"\x09\x00", DecodeError::Truncated),
        (b"\x0d\x00", DecodeError::Truncated),
        (b"\x80", DecodeError::Truncated),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", DecodeError::Varint),
        (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", DecodeError::Varint),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", DecodeError::Truncated),
        (b"\x0b", DecodeError::WireType(3)),
        (b"\x0f", DecodeError::WireType(7)),
        (b"\x08\x01", DecodeError::FieldType(1)),
        (b"\x0a\x01\xff", DecodeError::Utf8(1)),
        (b"\x4a\x03\x0a\x01a", DecodeError::Name("a".into())),
        (b"\x4a\x0a\x0a\x03x-a\x12\x03\x12\x01*", DecodeError::Yaml("unsupported or misplaced indicator")),
        (
            b"\x2a\x13\x0a\x11\x0a\x0f\x12\x0d\x0a\x0b\x59\0\0\0\0\0\0\xf0\x7f\x08\x01",
            DecodeError::NotFinite(11),
        ),
    ] {
        assert_eq!(decode_v3(bytes), Err(expected), "{bytes:x?}");
    }
}

#[test]
fn what_a_newer_writer_adds_is_skipped() {
    let mut bytes = encode_v3(&v3(json!({}))).unwrap();
    bytes.extend(b"\xf8\x06\x01\xfa\x06\x02hi\xf9\x06abcdefgh\xfd\x06abcd");
    assert_eq!(decode_v3(&bytes).unwrap(), v3(json!({})));
}

#[test]
fn explicit_zeros_on_the_wire_are_absent() {
    let schema = b"\x08\x00\x4a\x00\x78\x00\x69\0\0\0\0\0\0\0\0";
    let entry = [b"\x0a\x01S".to_vec(), wrapped(2, &wrapped(1, schema))].concat();
    let decoded = decode_v3(&wrapped(5, &wrapped(1, &wrapped(1, &entry)))).unwrap();
    assert_eq!(decoded["components"]["schemas"]["S"], json!({}));
}

/// Messages of a schema nested in `items`: three for each level, and four
/// around the outermost.
fn nested_items(levels: usize) -> Value {
    v3_schema((0..levels).fold(json!({}), |schema, _| json!({"items": schema})))
}

#[test]
fn messages_nest_to_the_limit_and_no_further() {
    let outer = 5;
    let levels = (MAX_DEPTH - outer) / 3;
    assert_eq!((MAX_DEPTH - outer) % 3, 2, "one level more exceeds the limit by one message");
    let at = nested_items(levels);
    assert_eq!(decode_v3(&encode_v3(&at).unwrap()), Ok(at));
    let past = nested_items(levels + 1);
    assert!(matches!(encode_v3(&past), Err(EncodeError::TooDeep { .. })));
}

#[test]
fn bytes_nest_to_the_limit_and_no_further() {
    // Schema.not (29) holds a schema; so does each of those.
    let nested = |depth: usize| {
        let mut bytes = Vec::new();
        for _ in 0..depth {
            bytes = wrapped(29, &bytes);
        }
        let entry = wrapped(1, &wrapped(2, &wrapped(1, &bytes)));
        wrapped(5, &wrapped(1, &entry))
    };
    let outer = 5;
    assert!(decode_v3(&nested(MAX_DEPTH - outer)).is_ok());
    assert_eq!(decode_v3(&nested(MAX_DEPTH - outer + 1)), Err(DecodeError::TooDeep));
}

fn wrapped(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for mut value in [u64::from(number << 3 | 2), bytes.len() as u64] {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
    out.extend(bytes);
    out
}

#[test]
fn documents_are_read_up_to_the_byte_limit() {
    // One unknown field that fills the document.
    let document = |size: usize| {
        let mut bytes = b"\xfa\x06".to_vec();
        let mut length = size - 6;
        for _ in 0..3 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.resize(size, 0);
        bytes
    };
    assert!(decode_v3(&document(MAX_DOCUMENT_BYTES)).is_ok());
    assert_eq!(decode_v3(&document(MAX_DOCUMENT_BYTES + 1)), Err(DecodeError::TooLarge));
}

#[test]
fn messages_are_read_up_to_the_count_limit() {
    let document = |requirements: usize| b"\x32\x00".repeat(requirements);
    assert!(decode_v3(&document(MAX_MESSAGES - 1)).is_ok());
    assert_eq!(decode_v3(&document(MAX_MESSAGES)), Err(DecodeError::TooMany));
}

#[test]
fn tables_number_fields_in_order_and_name_them_once() {
    let mut seen: Vec<*const Message> = Vec::new();
    let mut todo = vec![&v2::DOCUMENT, &v3::DOCUMENT];
    while let Some(message) = todo.pop() {
        if seen.contains(&std::ptr::from_ref(message)) {
            continue;
        }
        seen.push(message);
        match message {
            Message::Record { required, fields, .. } => {
                assert!(fields.is_sorted_by(|a, b| a.number < b.number), "{fields:?}");
                for key in required.iter() {
                    assert_eq!(fields.iter().filter(|field| field.takes(key)).count(), 1, "{key}");
                }
                for field in fields.iter() {
                    match field.kind {
                        Kind::Message(_, inner) | Kind::Messages(_, inner) | Kind::Named(_, inner) => {
                            todo.push(inner);
                        }
                        _ => {}
                    }
                }
            }
            Message::OneOf(alternatives) => todo.extend(alternatives.iter().map(|a| a.message)),
            Message::BooleanOr(inner) | Message::OneOrMany(inner) | Message::AnyOrExpression(inner) => {
                todo.push(inner);
            }
            Message::StringOrStrings | Message::Strings | Message::Any | Message::Scalar => {}
        }
    }
    assert!(seen.len() > 100);
}

proptest! {
    #[test]
    fn documents_inside_the_lossless_subset_come_back_as_they_were(entropy: Vec<u8>) {
        let mut source = Source(entropy.into_iter());
        let document = source.message(&v2::DOCUMENT, 0);
        prop_assert_eq!(decode_v2(&encode_v2(&document).unwrap()).unwrap(), document);
        let document = source.message(&v3::DOCUMENT, 0);
        prop_assert_eq!(decode_v3(&encode_v3(&document).unwrap()).unwrap(), document);
    }

    #[test]
    fn any_value_survives_its_yaml_text(entropy: Vec<u8>, texts: Vec<String>) {
        let mut source = Source(entropy.into_iter());
        let value = json!([source.value(0), texts]);
        let text = yaml::write(&value).unwrap();
        prop_assert_eq!(yaml::read(&text), Ok(value), "{}", text);
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes: Vec<u8>) {
        let _ = decode_v2(&bytes);
        let _ = decode_v3(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = yaml::read(text);
        }
    }
}

/// Decisions taken from bytes; when they run out, the smallest choice is made.
struct Source(std::vec::IntoIter<u8>);

impl Source {
    fn pick(&mut self, choices: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % choices
    }

    fn message(&mut self, message: &'static Message, depth: usize) -> Value {
        match message {
            Message::Record { required, fields, .. } => {
                let mut object = Map::new();
                for field in *fields {
                    self.field(field, required, depth, &mut object);
                }
                Value::Object(object)
            }
            Message::OneOf(alternatives) => {
                let chosen = &alternatives[self.pick(alternatives.len())];
                self.message(chosen.message, depth + 1)
            }
            Message::BooleanOr(message) => match self.pick(3) {
                0 => json!(false),
                1 => json!(true),
                _ => self.message(message, depth + 1),
            },
            Message::OneOrMany(message) => match self.pick(4) {
                0 => json!([]),
                1 => json!([self.message(message, depth + 1), self.message(message, depth + 1)]),
                _ => self.message(message, depth + 1),
            },
            Message::StringOrStrings => match self.pick(3) {
                0 => json!("string"),
                1 => json!([]),
                _ => json!(["string", "null"]),
            },
            Message::Strings => (0..self.pick(3)).map(|_| json!(self.text())).collect(),
            Message::Any => self.value(0),
            Message::Scalar => match self.pick(5) {
                0 => json!({}),
                1 => json!(0),
                2 => json!(false),
                3 => json!(2.5),
                _ => json!(self.text()),
            },
            Message::AnyOrExpression(expression) => self.message(expression, depth + 1),
        }
    }

    fn field(&mut self, field: &Field, required: &[&str], depth: usize, object: &mut Map<String, Value>) {
        let must = |key: &str| required.contains(&key);
        let deep = depth > 12;
        let wanted = |source: &mut Self, key: &str| must(key) || !deep && source.pick(3) == 1;
        match field.kind {
            Kind::String(key) if wanted(self, key) => {
                let text = match field.allowed {
                    [] if must(key) => self.text(),
                    [] => format!("s{}", self.text()),
                    allowed => allowed[self.pick(allowed.len())].to_owned(),
                };
                object.insert(key.into(), text.into());
            }
            Kind::Strings(key) if wanted(self, key) => {
                let text = match field.allowed {
                    [] => self.text(),
                    allowed => allowed[self.pick(allowed.len())].to_owned(),
                };
                object.insert(key.into(), json!([text]));
            }
            Kind::Boolean(key) if wanted(self, key) => {
                let value = !must(key) || self.pick(2) == 1;
                object.insert(key.into(), json!(value));
            }
            Kind::Integer(key) if wanted(self, key) => {
                let value = [1, -1, i64::MAX, i64::MIN][self.pick(4)];
                object.insert(key.into(), json!(value));
            }
            Kind::Double(key) if wanted(self, key) => {
                let value =
                    [json!(1), json!(-7), json!(0.5), json!(1e300), json!(-0.0)][self.pick(5)].clone();
                object.insert(key.into(), value);
            }
            Kind::Message(key, message) if wanted(self, key) => {
                let value = self.message(message, depth + 1);
                object.insert(key.into(), value);
            }
            Kind::Messages(key, message) if wanted(self, key) => {
                let values: Vec<_> = (0..=self.pick(2)).map(|_| self.message(message, depth + 1)).collect();
                object.insert(key.into(), json!(values));
            }
            Kind::Named(keys, message) if !deep => {
                for _ in 0..self.pick(3) {
                    let (name, value) = (self.name(keys), self.message(message, depth + 1));
                    object.insert(name, value);
                }
            }
            Kind::NamedStrings(keys) => {
                for _ in 0..self.pick(3) {
                    let (name, value) = (self.name(keys), self.text());
                    object.insert(name, value.into());
                }
            }
            _ => {}
        }
    }

    fn name(&mut self, keys: Keys) -> String {
        let text = self.text();
        match keys {
            Keys::Every => text,
            Keys::Extension => format!("x-{text}"),
            Keys::NotExtension => format!("{{{text}}}"),
            Keys::Path => format!("/{text}"),
            Keys::ResponseCode => ["200", "4XX"][self.pick(2)].into(),
            Keys::ResponseCodeOrDefault => ["default", "200"][self.pick(2)].into(),
        }
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 24] = [
            "",
            "a",
            " ",
            "\n",
            ": ",
            " #",
            "- ",
            "'",
            "\"",
            "\\",
            "\t",
            "{",
            "]",
            "true",
            "12",
            "0x1F",
            "2024-01-02",
            "é",
            "😀",
            "\u{2028}",
            "\u{feff}",
            "\r",
            "~",
            "$ref",
        ];
        (0..self.pick(4)).map(|_| PIECES[self.pick(PIECES.len())]).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.pick(if depth > 6 { 5 } else { 8 }) {
            0 => json!(null),
            1 => json!(true),
            2 => json!(-3),
            3 => json!(0.25),
            4 | 5 => json!(self.text()),
            6 => (0..self.pick(4)).map(|_| self.value(depth + 1)).collect(),
            _ => Value::Object((0..self.pick(4)).map(|_| (self.text(), self.value(depth + 1))).collect()),
        }
    }
}
