//! Writing schemas as JSON, keys sorted, for either dialect.

use std::borrow::Cow;

use serde_json::Value;

use crate::ir::{Additional, Schema};

/// How a document spells what schemas mean.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub dialect: Dialect,
    /// What a definition is called in this document.
    pub name: fn(&str) -> Cow<'_, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Swagger 2.0: a reference may have siblings.
    V2,
    /// OpenAPI 3.0: a reference with siblings is wrapped in a one-element `allOf`.
    V3,
}

impl Dialect {
    pub fn reference_prefix(self) -> &'static str {
        match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        }
    }
}

/// Appends `schema` to `out`.
pub fn schema(out: &mut Vec<u8>, schema: &Schema, style: Style) {
    let mut fields: Vec<(&str, Part<'_>)> = Vec::with_capacity(8 + schema.rest.len());
    fields.extend(schema.rest.iter().map(|(key, value)| (&**key, Part::Value(value))));
    if let Some(name) = &schema.reference {
        if style.dialect == Dialect::V3 && !schema.is_bare_reference() {
            fields.push(("allOf", Part::Wrapped(name)));
        } else {
            fields.push(("$ref", Part::Reference(name)));
        }
    }
    if let Some(text) = &schema.description {
        fields.push(("description", Part::Text(text)));
    }
    if let Some(kind) = schema.kind {
        fields.push(("type", Part::Text(kind.as_str())));
    }
    if let Some(format) = &schema.format {
        fields.push(("format", Part::Text(format)));
    }
    if schema.nullable {
        fields.push(("nullable", Part::True));
    }
    if let Some(value) = &schema.default {
        fields.push(("default", Part::Value(value)));
    }
    if !schema.enum_values.is_empty() {
        fields.push(("enum", Part::Values(&schema.enum_values)));
    }
    if let Some(items) = &schema.items {
        fields.push(("items", Part::Schema(items)));
    }
    if !schema.properties.is_empty() {
        fields.push(("properties", Part::Properties(schema)));
    }
    match &schema.additional {
        Some(Additional::Allowed(true)) => fields.push(("additionalProperties", Part::True)),
        Some(Additional::Allowed(false)) => fields.push(("additionalProperties", Part::False)),
        Some(Additional::Schema(value)) => fields.push(("additionalProperties", Part::Schema(value))),
        None => {}
    }
    if !schema.required.is_empty() {
        fields.push(("required", Part::Required(schema)));
    }
    for (key, list) in [("allOf", &schema.all_of), ("anyOf", &schema.any_of), ("oneOf", &schema.one_of)] {
        // A wrapped reference already stands under `allOf`; it leads the list.
        let wrapped = key == "allOf" && fields.iter().any(|(key, _)| *key == "allOf");
        if !list.is_empty() && !wrapped {
            fields.push((key, Part::Schemas(list)));
        }
    }
    if let Some(not) = &schema.not {
        fields.push(("not", Part::Schema(not)));
    }
    fields.sort_unstable_by_key(|(key, _)| *key);

    object(out, fields, |out, part| match part {
        Part::Text(text) => string(out, text),
        Part::True => out.extend_from_slice(b"true"),
        Part::False => out.extend_from_slice(b"false"),
        Part::Value(json) => value(out, json),
        Part::Values(list) => array(out, list, value),
        Part::Reference(name) => reference_text(out, name, style),
        Part::Wrapped(name) => {
            out.extend_from_slice(b"[{\"$ref\":");
            reference_text(out, name, style);
            out.push(b'}');
            for member in &schema.all_of {
                out.push(b',');
                self::schema(out, member, style);
            }
            out.push(b']');
        }
        Part::Schema(child) => self::schema(out, child, style),
        Part::Schemas(list) => array(out, list, |out, child| self::schema(out, child, style)),
        Part::Properties(parent) => {
            object(out, parent.properties.iter().map(|(name, child)| (&**name, child)), |out, child| {
                self::schema(out, child, style);
            });
        }
        Part::Required(parent) => array(out, &parent.required, |out, name| string(out, name)),
    });
}

enum Part<'a> {
    Text(&'a str),
    True,
    False,
    Value(&'a Value),
    Values(&'a [Value]),
    Reference(&'a str),
    Wrapped(&'a str),
    Schema(&'a Schema),
    Schemas(&'a [Schema]),
    Properties(&'a Schema),
    Required(&'a Schema),
}

fn reference_text(out: &mut Vec<u8>, name: &str, style: Style) {
    let mut text = String::from(style.dialect.reference_prefix());
    text.push_str(&(style.name)(name));
    string(out, &text);
}

/// Appends `{"key":…,…}` in the order given.
pub fn object<'a, T>(
    out: &mut Vec<u8>,
    fields: impl IntoIterator<Item = (&'a str, T)>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'{');
    for (index, (key, value)) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        string(out, key);
        out.push(b':');
        write(out, value);
    }
    out.push(b'}');
}

/// Appends `[…]`.
pub fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Appends a JSON string.
pub fn string(out: &mut Vec<u8>, text: &str) {
    // Nearly all texts are written as they are, which is found out many bytes at a time.
    let is_plain =
        !text.bytes().fold(false, |found, byte| found | (byte < b' ') | (byte == b'"') | (byte == b'\\'));
    if is_plain {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        encode(out, text);
    }
}

/// Appends any JSON value; maps are sorted because `serde_json` keeps them so.
pub fn value(out: &mut Vec<u8>, json: &Value) {
    encode(out, json);
}

fn encode(out: &mut Vec<u8>, data: &(impl serde::Serialize + ?Sized)) {
    // Writing text and `Value`s to memory has no failing case: keys are
    // strings and nothing does I/O.
    let written = serde_json::to_writer(out, data);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Type;

    fn check(schema: &Schema, dialect: Dialect, expected: &str) {
        let mut out = Vec::new();
        super::schema(&mut out, schema, Style { dialect, name: |name| Cow::Owned(format!("x.{name}")) });
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn strings_are_escaped_as_serde_json_does() {
        for text in [
            "",
            "plain",
            "grün",
            "\"quoted\"",
            "back\\slash",
            "two\nlines",
            "\u{1}",
            "\u{7f}",
            "long enough for many bytes at once, and then \"",
        ] {
            let mut out = Vec::new();
            string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn bare_reference_stays_bare_in_both_dialects() {
        let schema = Schema::reference("Pod");
        check(&schema, Dialect::V2, r##"{"$ref":"#/definitions/x.Pod"}"##);
        check(&schema, Dialect::V3, r##"{"$ref":"#/components/schemas/x.Pod"}"##);
    }

    #[test]
    fn reference_with_siblings_is_wrapped_in_v3_only() {
        let schema = Schema::reference("Pod").described("one").with("x-kubernetes-map-type", "atomic");
        check(
            &schema,
            Dialect::V2,
            r##"{"$ref":"#/definitions/x.Pod","description":"one","x-kubernetes-map-type":"atomic"}"##,
        );
        check(
            &schema,
            Dialect::V3,
            r##"{"allOf":[{"$ref":"#/components/schemas/x.Pod"}],"description":"one","x-kubernetes-map-type":"atomic"}"##,
        );
    }

    #[test]
    fn reference_beside_all_of_leads_the_list_in_v3() {
        let schema =
            Schema { all_of: vec![Schema::of(Type::Object)], ..Schema::reference("Meta").described("m") };
        check(
            &schema,
            Dialect::V3,
            r##"{"allOf":[{"$ref":"#/components/schemas/x.Meta"},{"type":"object"}],"description":"m"}"##,
        );
    }

    #[test]
    fn keys_are_sorted_with_kept_keywords_among_them() {
        let schema = Schema {
            required: vec!["b".into(), "a".into()],
            properties: [("a".into(), Schema::of(Type::String))].into(),
            nullable: true,
            ..Schema::of(Type::Object)
        }
        .with("maxProperties", 3)
        .with("title", "t");
        check(
            &schema,
            Dialect::V3,
            r#"{"maxProperties":3,"nullable":true,"properties":{"a":{"type":"string"}},"required":["b","a"],"title":"t","type":"object"}"#,
        );
    }
}
