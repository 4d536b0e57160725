//! A structural schema compiled for work on objects.
//!
//! Patterns are compiled when the first text meets them and then kept.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::{
    enumeration::Enumeration,
    object::coerce_default,
    pattern::{Pattern, Patterns},
};

/// One schema, made by [`Node::compile`] from its canonical JSON.
#[derive(Debug, Default)]
pub struct Node {
    /// As texts name them: one, none, or two for int-or-string.
    pub types: &'static [&'static str],
    pub nullable: bool,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub items: Option<Box<Node>>,
    pub properties: Properties,
    pub additional: Option<Additional>,
    keywords: Box<[Keyword]>,
}

/// What a schema says of a value beyond its type. Most say one or two of these; room for all would
/// make a definition five times as large.
#[derive(Debug)]
enum Keyword {
    Format(Box<str>),
    Default(Box<Value>),
    Enum(Box<Enumeration>),
    Maximum(Limit),
    Minimum(Limit),
    MultipleOf(f64),
    MaxLength(i64),
    MinLength(i64),
    Pattern(LazyPattern),
    MaxItems(i64),
    MinItems(i64),
    MaxProperties(i64),
    MinProperties(i64),
    Required(Box<[Box<str>]>),
    AllOf(Box<[Node]>),
    AnyOf(Box<[Node]>),
    OneOf(Box<[Node]>),
    Not(Box<Node>),
    List(ListType),
}

/// Sorted by name. Not a map: a node is large, and a map keeps room for ten more.
#[derive(Debug, Default)]
pub struct Properties(Box<[(Box<str>, Node)]>);

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
    Map(Box<[Box<str>]>),
}

/// What a schema is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Custom objects. Int-or-string is a type.
    Objects,
    /// Defaults within the schema itself. Upstream leaves int-or-string unchecked there.
    Defaults,
}

/// A pattern that is compiled when it is first needed, and shared with all that read the same.
#[derive(Debug)]
pub struct LazyPattern {
    pub text: Box<str>,
    patterns: Patterns,
    compiled: OnceLock<Option<Arc<Pattern>>>,
}

impl Properties {
    pub fn get(&self, name: &str) -> Option<&Node> {
        let index = self.0.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        self.0.get(index).map(|(_, node)| node)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        let index = self.0.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        self.0.get_mut(index).map(|(_, node)| node)
    }
}

impl FromIterator<(Box<str>, Node)> for Properties {
    fn from_iter<T: IntoIterator<Item = (Box<str>, Node)>>(properties: T) -> Self {
        let mut sorted: Vec<_> = properties.into_iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self(sorted.into())
    }
}

impl<'a> IntoIterator for &'a Properties {
    type Item = &'a (Box<str>, Node);
    type IntoIter = std::slice::Iter<'a, (Box<str>, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl LazyPattern {
    /// A pattern that does not compile matches nothing; validation lets none through.
    pub fn is_match(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| self.patterns.get(&self.text).ok());
        compiled.as_ref().is_some_and(|pattern| pattern.is_match(text))
    }
}

impl Node {
    /// Anything of a wrong type in the JSON is left out: it was read and checked before.
    pub fn compile(schema: &Value, purpose: Purpose, patterns: &Patterns) -> Self {
        let child = |value: &Value| Self::compile(value, purpose, patterns);
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let int_or_string = flag("x-kubernetes-int-or-string") && purpose == Purpose::Objects;
        let mut node = Self {
            types: if int_or_string { &["integer", "string"] } else { text("type").map_or(&[], types) },
            nullable: flag("nullable"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
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
            keywords: Keyword::all(schema, purpose, patterns).into(),
        };
        if purpose == Purpose::Objects {
            node.settle_defaults();
        }
        node
    }

    /// Drops from defaults what the metadata of embedded objects has no room for: nobody would read
    /// it once the default is in an object.
    fn settle_defaults(&mut self) {
        if let Some(default) =
            self.default_value().filter(|default| default.is_object() || default.is_array())
            && let Ok(settled) = coerce_default(self, default)
        {
            self.set_default(Some(settled));
        }
        if !self.embedded_resource {
            return;
        }
        let Some(metadata) = self.properties.get("metadata") else { return };
        let settled = |default: Value| coerce_default(self, &json!({"metadata": default})).ok();
        let own = metadata.default_value().and_then(|default| settled(default.clone()));
        let own = own.and_then(|object| object.get("metadata").cloned());
        let unknown: Vec<Box<str>> = metadata
            .properties
            .into_iter()
            .filter(|(name, property)| {
                let default = property.default_value().cloned();
                let object = default.and_then(|default| settled(json!({&**name: default})));
                object.is_some_and(|object| object.pointer(&format!("/metadata/{name}")).is_none())
            })
            .map(|(name, _)| name.clone())
            .collect();
        let Some(metadata) = self.properties.get_mut("metadata") else { return };
        if own.is_some() {
            metadata.set_default(own);
        }
        for name in &unknown {
            if let Some(property) = metadata.properties.get_mut(name) {
                property.set_default(None);
            }
        }
    }

    fn set_default(&mut self, default: Option<Value>) {
        let mut keywords = std::mem::take(&mut self.keywords).into_vec();
        keywords.retain(|keyword| !matches!(keyword, Keyword::Default(_)));
        keywords.extend(default.map(|default| Keyword::Default(Box::new(default))));
        self.keywords = keywords.into();
    }

    pub fn format(&self) -> Option<&str> {
        self.find(|keyword| if let Keyword::Format(format) = keyword { Some(&**format) } else { None })
    }

    pub fn default_value(&self) -> Option<&Value> {
        self.find(|keyword| if let Keyword::Default(value) = keyword { Some(&**value) } else { None })
    }

    pub fn enumeration(&self) -> Option<&Enumeration> {
        self.find(|keyword| if let Keyword::Enum(values) = keyword { Some(&**values) } else { None })
    }

    pub fn maximum(&self) -> Option<Limit> {
        self.find(|keyword| if let Keyword::Maximum(limit) = keyword { Some(*limit) } else { None })
    }

    pub fn minimum(&self) -> Option<Limit> {
        self.find(|keyword| if let Keyword::Minimum(limit) = keyword { Some(*limit) } else { None })
    }

    pub fn multiple_of(&self) -> Option<f64> {
        self.find(|keyword| if let Keyword::MultipleOf(factor) = keyword { Some(*factor) } else { None })
    }

    pub fn max_length(&self) -> Option<i64> {
        self.find(|keyword| if let Keyword::MaxLength(most) = keyword { Some(*most) } else { None })
    }

    pub fn min_length(&self) -> Option<i64> {
        self.find(|keyword| if let Keyword::MinLength(least) = keyword { Some(*least) } else { None })
    }

    pub fn pattern(&self) -> Option<&LazyPattern> {
        self.find(|keyword| if let Keyword::Pattern(pattern) = keyword { Some(pattern) } else { None })
    }

    pub fn max_items(&self) -> Option<i64> {
        self.find(|keyword| if let Keyword::MaxItems(most) = keyword { Some(*most) } else { None })
    }

    pub fn min_items(&self) -> Option<i64> {
        self.find(|keyword| if let Keyword::MinItems(least) = keyword { Some(*least) } else { None })
    }

    pub fn max_properties(&self) -> Option<i64> {
        self.find(|keyword| if let Keyword::MaxProperties(most) = keyword { Some(*most) } else { None })
    }

    pub fn min_properties(&self) -> Option<i64> {
        self.find(|keyword| if let Keyword::MinProperties(least) = keyword { Some(*least) } else { None })
    }

    pub fn required(&self) -> &[Box<str>] {
        let found =
            self.find(|keyword| if let Keyword::Required(names) = keyword { Some(&**names) } else { None });
        found.unwrap_or_default()
    }

    pub fn all_of(&self) -> &[Self] {
        let found = self.find(|keyword| if let Keyword::AllOf(all) = keyword { Some(&**all) } else { None });
        found.unwrap_or_default()
    }

    pub fn any_of(&self) -> &[Self] {
        let found = self.find(|keyword| if let Keyword::AnyOf(any) = keyword { Some(&**any) } else { None });
        found.unwrap_or_default()
    }

    pub fn one_of(&self) -> &[Self] {
        let found = self.find(|keyword| if let Keyword::OneOf(one) = keyword { Some(&**one) } else { None });
        found.unwrap_or_default()
    }

    pub fn not(&self) -> Option<&Self> {
        self.find(|keyword| if let Keyword::Not(not) = keyword { Some(&**not) } else { None })
    }

    pub fn list(&self) -> &ListType {
        let found = self.find(|keyword| if let Keyword::List(list) = keyword { Some(list) } else { None });
        found.unwrap_or(&ListType::Atomic)
    }

    fn find<'a, T>(&'a self, pick: impl Fn(&'a Keyword) -> Option<T>) -> Option<T> {
        self.keywords.iter().find_map(pick)
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

impl Keyword {
    fn all(schema: &Value, purpose: Purpose, patterns: &Patterns) -> Vec<Self> {
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let int = |name: &str| schema.get(name).and_then(Value::as_i64);
        let float = |name: &str| schema.get(name).and_then(Value::as_f64);
        let limit = |name: &str, exclusive: &str| {
            float(name).map(|value| Limit { value, exclusive: flag(exclusive) })
        };
        let array = |name: &str| schema.get(name).and_then(Value::as_array).filter(|items| !items.is_empty());
        let texts = |name: &str| -> Box<[Box<str>]> {
            array(name).into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
        };
        let nodes = |name: &str| -> Option<Box<[Node]>> {
            Some(array(name)?.iter().map(|value| Node::compile(value, purpose, patterns)).collect())
        };
        [
            text("format").map(|format| Self::Format(format.into())),
            schema.get("default").map(|value| Self::Default(Box::new(value.clone()))),
            schema
                .get("enum")
                .and_then(Value::as_array)
                .map(|values| Self::Enum(Box::new(Enumeration::new(values)))),
            limit("maximum", "exclusiveMaximum").map(Self::Maximum),
            limit("minimum", "exclusiveMinimum").map(Self::Minimum),
            float("multipleOf").map(Self::MultipleOf),
            int("maxLength").map(Self::MaxLength),
            int("minLength").map(Self::MinLength),
            text("pattern").map(|text| {
                Self::Pattern(LazyPattern {
                    text: text.into(),
                    patterns: patterns.clone(),
                    compiled: OnceLock::new(),
                })
            }),
            int("maxItems").map(Self::MaxItems),
            int("minItems").map(Self::MinItems),
            int("maxProperties").map(Self::MaxProperties),
            int("minProperties").map(Self::MinProperties),
            array("required").map(|_| Self::Required(texts("required"))),
            nodes("allOf").map(Self::AllOf),
            nodes("anyOf").map(Self::AnyOf),
            nodes("oneOf").map(Self::OneOf),
            schema.get("not").map(|value| Self::Not(Box::new(Node::compile(value, purpose, patterns)))),
            match text("x-kubernetes-list-type") {
                Some("set") => Some(Self::List(ListType::Set)),
                Some("map") => Some(Self::List(ListType::Map(texts("x-kubernetes-list-map-keys")))),
                _ => None,
            },
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn types(name: &str) -> &'static [&'static str] {
    match name {
        "array" => &["array"],
        "boolean" => &["boolean"],
        "integer" => &["integer"],
        "number" => &["number"],
        "object" => &["object"],
        "string" => &["string"],
        _ => &[],
    }
}
