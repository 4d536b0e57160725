//! A structural schema compiled for work on objects.
//!
//! Patterns are compiled when the first text meets them and then kept.

use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

use crate::pattern::Pattern;

/// One schema, made by [`Node::compile`] from its canonical JSON.
#[derive(Debug, Default)]
pub struct Node {
    /// As texts name them: one, none, or two for int-or-string.
    pub types: Vec<&'static str>,
    pub format: Option<Box<str>>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub enum_values: Option<Vec<Value>>,
    pub maximum: Option<Limit>,
    pub minimum: Option<Limit>,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Box<LazyPattern>>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<Box<str>>,
    pub items: Option<Box<Node>>,
    pub properties: BTreeMap<Box<str>, Node>,
    pub additional: Option<Additional>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub list: ListType,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    pub value: f64,
    pub exclusive: bool,
}

#[derive(Debug)]
pub enum Additional {
    Allowed(bool),
    Schema(Box<Node>),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// What a schema is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Custom objects. Int-or-string is a type.
    Objects,
    /// Defaults within the schema itself. Upstream leaves int-or-string unchecked there.
    Defaults,
}

/// A pattern that is compiled when it is first needed.
#[derive(Debug)]
pub struct LazyPattern {
    pub text: Box<str>,
    compiled: OnceLock<Option<Pattern>>,
}

impl LazyPattern {
    /// A pattern that does not compile matches nothing; validation lets none through.
    pub fn is_match(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Pattern::compile(&self.text).ok());
        compiled.as_ref().is_some_and(|pattern| pattern.is_match(text))
    }
}

impl Node {
    /// Anything of a wrong type in the JSON is left out: it was read and checked before.
    pub fn compile(schema: &Value, purpose: Purpose) -> Self {
        let child = |value: &Value| Self::compile(value, purpose);
        let children = |name: &str| {
            schema
                .get(name)
                .and_then(Value::as_array)
                .map_or_else(Vec::new, |all| all.iter().map(child).collect())
        };
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let int = |name: &str| schema.get(name).and_then(Value::as_i64);
        let float = |name: &str| schema.get(name).and_then(Value::as_f64);
        let limit = |name: &str, exclusive: &str| {
            float(name).map(|value| Limit { value, exclusive: flag(exclusive) })
        };
        let texts = |name: &str| -> Vec<Box<str>> {
            let items = schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(Box::from).collect()
        };
        let int_or_string = flag("x-kubernetes-int-or-string") && purpose == Purpose::Objects;
        let types = match text("type") {
            _ if int_or_string => vec!["integer", "string"],
            Some(name) => {
                sternpost_schema::Type::parse(name).map(|kind| vec![kind.as_str()]).unwrap_or_default()
            }
            None => Vec::new(),
        };
        let mut node = Self {
            types,
            format: text("format").map(Box::from),
            nullable: flag("nullable"),
            default: schema.get("default").cloned(),
            enum_values: schema.get("enum").and_then(Value::as_array).cloned(),
            maximum: limit("maximum", "exclusiveMaximum"),
            minimum: limit("minimum", "exclusiveMinimum"),
            multiple_of: float("multipleOf"),
            max_length: int("maxLength"),
            min_length: int("minLength"),
            pattern: text("pattern")
                .map(|text| Box::new(LazyPattern { text: text.into(), compiled: OnceLock::new() })),
            max_items: int("maxItems"),
            min_items: int("minItems"),
            max_properties: int("maxProperties"),
            min_properties: int("minProperties"),
            required: texts("required"),
            items: schema.get("items").filter(|items| items.is_object()).map(|items| Box::new(child(items))),
            properties: schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.as_str().into(), child(value)))
                .collect(),
            additional: schema.get("additionalProperties").map(|value| match value {
                Value::Bool(allowed) => Additional::Allowed(*allowed),
                other => Additional::Schema(Box::new(child(other))),
            }),
            all_of: children("allOf"),
            any_of: children("anyOf"),
            one_of: children("oneOf"),
            not: schema.get("not").map(|value| Box::new(child(value))),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            list: match text("x-kubernetes-list-type") {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(texts("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
        };
        if node.embedded_resource {
            node.make_embedded();
        }
        node
    }

    /// Makes this an object of its own, which must say what it is.
    pub fn make_embedded(&mut self) {
        self.embedded_resource = true;
        for name in ["apiVersion", "kind"] {
            if !self.required.iter().any(|required| **required == *name) {
                self.required.push(name.into());
            }
        }
    }

    /// The schema of a field, and its path: keys that are no properties stand in brackets.
    pub fn below(&self, key: &str, path: &str) -> Option<(&Node, String)> {
        if let Some(property) = self.properties.get(key) {
            return Some((property, if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }));
        }
        self.additional_schema().map(|schema| (schema, format!("{path}[{key}]")))
    }

    /// The schema of a value under a key that is no property.
    pub fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        }
    }
}
