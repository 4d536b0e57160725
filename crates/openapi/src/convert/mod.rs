//! OpenAPI v2 into v3 and back, on JSON trees, whoever wrote them.
//!
//! [`fn@to_v3`] follows the heuristics that KEP-2896 asks for when a server has
//! only v2: shared bodies become request bodies where they are used, media types
//! of the document stand in for those an operation does not name, numbers-or-
//! strings and quantities are `anyOf`, and every reference is written anew. The
//! result never refers to something within itself that is not there. What the
//! other version has no word for is left out and listed as a [`Loss`].
//!
//! Keywords that hold data (`default`, `enum`, `example`, vendor extensions) are
//! copied as they are. Input may be hostile: depth and size are bounded.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::{self, Write as _},
};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

mod to_v2;
mod to_v3;

/// A document in the other version.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    pub document: Value,
    /// In the order they were found, at most [`MAX_LOSSES`].
    pub lost: Vec<Loss>,
    /// Losses beyond those listed.
    pub unlisted: usize,
}

/// Something of the input that the output does not say, or not as it was said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// A JSON pointer into the input; where something shared is written at its place of use, the
    /// pointer goes on from there.
    pub place: String,
    pub what: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error("the document is not a JSON object")]
    NotAnObject,
    #[error("the document does not say `{wanted}`")]
    OtherVersion { wanted: &'static str },
    #[error("the document is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("the document has, or would have, more than {MAX_VALUES} values")]
    TooLarge,
}

/// Levels of objects and arrays. Real documents have about thirty.
pub const MAX_DEPTH: usize = 200;
/// Values of the input, and of the output: everything Kubernetes has, many times over.
pub const MAX_VALUES: usize = 5_000_000;
/// What is lost beyond is counted.
pub const MAX_LOSSES: usize = 10_000;
/// References that lead to references that lead to …
pub const MAX_HOPS: usize = 32;

/// Writes a v2 document as v3.
pub fn to_v3(document: &Value) -> Result<Converted, ConvertError> {
    let fields = checked(document, "swagger: \"2.0\"", |fields| said(fields, "swagger") == Some("2.0"))?;
    to_v3::convert(document, fields)
}

/// Writes a v3 document as v2.
pub fn to_v2(document: &Value) -> Result<Converted, ConvertError> {
    to_v2::convert(document, v3(document)?)
}

/// Whether a tree is a v3 document that is small enough to be walked.
pub fn check_v3(document: &Value) -> Result<(), ConvertError> {
    v3(document).map(drop)
}

fn v3(document: &Value) -> Result<&Map<String, Value>, ConvertError> {
    checked(document, "openapi: 3.0.x", |fields| {
        said(fields, "openapi").is_some_and(|version| version == "3.0" || version.starts_with("3.0."))
    })
}

fn checked<'a>(
    document: &'a Value,
    wanted: &'static str,
    is_wanted: impl Fn(&Map<String, Value>) -> bool,
) -> Result<&'a Map<String, Value>, ConvertError> {
    check_limits(document)?;
    let fields = document.as_object().ok_or(ConvertError::NotAnObject)?;
    if is_wanted(fields) { Ok(fields) } else { Err(ConvertError::OtherVersion { wanted }) }
}

/// Whether a tree is small enough to be walked by recursion and held several times.
pub fn check_limits(document: &Value) -> Result<(), ConvertError> {
    let mut values = 0_usize;
    // By levels, so that depth costs no stack.
    let mut level = vec![document];
    for _ in 0..=MAX_DEPTH {
        values = values.saturating_add(level.len());
        if values > MAX_VALUES {
            return Err(ConvertError::TooLarge);
        }
        level = level.into_iter().flat_map(children).collect();
        if level.is_empty() {
            return Ok(());
        }
    }
    Err(ConvertError::TooDeep)
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

pub(crate) fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().fold(1, |sum, value| sum.saturating_add(count(value))),
        Value::Array(items) => items.iter().fold(1, |sum, value| sum.saturating_add(count(value))),
        _ => 1,
    }
}

fn said<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

fn is_true(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).and_then(Value::as_bool) == Some(true)
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Where in the input the conversion is.
#[derive(Clone, Copy)]
struct DocumentPath<'a> {
    parent: Option<&'a DocumentPath<'a>>,
    key: &'a str,
}

impl<'a> DocumentPath<'a> {
    const ROOT: DocumentPath<'static> = DocumentPath { parent: None, key: "" };

    fn at<'b>(&'b self, key: &'b str) -> DocumentPath<'b>
    where
        'a: 'b,
    {
        DocumentPath { parent: Some(self), key }
    }

    fn pointer(&self) -> String {
        let mut keys = Vec::new();
        let mut place = self;
        while let Some(parent) = place.parent {
            keys.push(place.key);
            place = parent;
        }
        let mut out = String::new();
        for key in keys.into_iter().rev() {
            let _ = write!(out, "/{}", escape(key));
        }
        out
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A key as the last part of a reference.
fn fragment(key: &str) -> String {
    escape(key).replace('%', "%25")
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// What both directions keep while they walk a document.
struct Context<'a> {
    source: &'a Value,
    /// Where definitions are in the input and in the output, as in `/definitions/`.
    from: &'static str,
    to: &'static str,
    /// What each definition of the input is called in the output.
    names: BTreeMap<&'a str, String>,
    used: BTreeSet<String>,
    /// Schemas elsewhere in the input that something refers to: they become
    /// definitions. By pointer.
    hoisted: BTreeMap<String, String>,
    queue: VecDeque<(String, &'a Value)>,
    lost: Vec<Loss>,
    unlisted: usize,
    budget: usize,
    is_exhausted: bool,
}

impl<'a> Context<'a> {
    fn new(source: &'a Value, from: &'static str, to: &'static str) -> Self {
        let mut context = Self {
            source,
            from,
            to,
            names: BTreeMap::new(),
            used: BTreeSet::new(),
            hoisted: BTreeMap::new(),
            queue: VecDeque::new(),
            lost: Vec::new(),
            unlisted: 0,
            budget: MAX_VALUES,
            is_exhausted: false,
        };
        let definitions = source.pointer(from.trim_end_matches('/')).and_then(Value::as_object);
        // Names that may stay do, whatever the others become.
        let names = || definitions.into_iter().flat_map(Map::keys);
        for name in names().filter(|name| is_component_name(name)) {
            context.used.insert(name.clone());
            context.names.insert(name, name.clone());
        }
        for name in names().filter(|name| !is_component_name(name)) {
            let new = context.free_name(name);
            let place = format!("{from}{}", escape(name));
            context.lose(place, format!("the name cannot stay, it becomes `{new}`"));
            context.names.insert(name, new);
        }
        context
    }

    fn lose(&mut self, place: String, what: impl Into<String>) {
        if self.lost.len() < MAX_LOSSES {
            self.lost.push(Loss { place, what: what.into() });
        } else {
            self.unlisted += 1;
        }
    }

    fn lose_at(&mut self, place: &DocumentPath<'_>, what: impl Into<String>) {
        if self.lost.len() < MAX_LOSSES {
            self.lose(place.pointer(), what);
        } else {
            self.unlisted += 1;
        }
    }

    /// Says that so many values are written.
    fn spend(&mut self, values: usize) -> bool {
        self.is_exhausted = self.is_exhausted || values > self.budget;
        self.budget = self.budget.saturating_sub(values);
        !self.is_exhausted
    }

    fn copy(&mut self, value: &Value) -> Value {
        if self.spend(count(value)) { value.clone() } else { Value::Null }
    }

    fn free_name(&mut self, wanted: &str) -> String {
        let plain: String = wanted
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .collect();
        let plain = if plain.is_empty() { "_".to_owned() } else { plain };
        let mut name = plain.clone();
        let mut number = 2_usize;
        while self.used.contains(&name) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        self.used.insert(name.clone());
        name
    }

    /// The reference to a schema as the output writes it; `None` if it leads nowhere.
    fn schema_reference(&mut self, text: &str, place: &DocumentPath<'_>) -> Option<String> {
        let Some(fragment) = text.strip_prefix('#') else {
            self.lose_at(place, "refers outside of the document, and is left as it is");
            return Some(text.to_owned());
        };
        let pointer = percent_decode_str(fragment).decode_utf8_lossy().into_owned();
        if let Some(rest) = pointer.strip_prefix(self.from) {
            // Kubernetes writes names as they are; others escape them.
            let found = self.names.get(rest).or_else(|| self.names.get(unescape(rest).as_str()));
            if let Some(name) = found {
                return Some(format!("#{}{name}", self.to));
            }
        }
        let Some(target) = self.source.pointer(&pointer).filter(|target| target.is_object()) else {
            self.lose_at(place, format!("`{text}` is not there, so anything is allowed"));
            return None;
        };
        let name = match self.hoisted.get(&pointer) {
            Some(name) => name.clone(),
            None => {
                let wanted = pointer.strip_prefix(self.from).unwrap_or(&pointer);
                let name = self.free_name(&wanted.trim_start_matches('/').replace('/', "."));
                self.hoisted.insert(pointer.clone(), name.clone());
                self.queue.push_back((pointer, target));
                name
            }
        };
        Some(format!("#{}{name}", self.to))
    }

    /// What `value` is or refers to, and the name it is shared by, if it refers
    /// to an entry of `section` directly.
    fn resolve(
        &mut self,
        value: &'a Value,
        section: &str,
        place: &DocumentPath<'_>,
    ) -> Option<(Option<&'a str>, &'a Value)> {
        let mut shared = None;
        let mut value = value;
        for hop in 0..MAX_HOPS {
            let Some(text) = value.get("$ref").and_then(Value::as_str) else {
                return Some((shared, value));
            };
            let Some((name, target)) = self.look_up(text, section) else {
                self.lose_at(place, format!("`{text}` is not there"));
                return None;
            };
            shared = if hop == 0 { name } else { shared };
            value = target;
        }
        self.lose_at(place, "the reference leads through too many others");
        None
    }

    fn look_up(&self, text: &str, section: &str) -> Option<(Option<&'a str>, &'a Value)> {
        let pointer = percent_decode_str(text.strip_prefix('#')?).decode_utf8_lossy().into_owned();
        if let Some(rest) = pointer.strip_prefix(section).and_then(|rest| rest.strip_prefix('/')) {
            let entries = self.source.pointer(section).and_then(Value::as_object);
            let found = entries.and_then(|entries| {
                entries.get_key_value(rest).or_else(|| entries.get_key_value(&unescape(rest)))
            });
            if let Some((name, target)) = found {
                return Some((Some(name), target));
            }
        }
        Some((None, self.source.pointer(&pointer)?))
    }

    fn finish(self, document: Map<String, Value>) -> Result<Converted, ConvertError> {
        if self.is_exhausted {
            return Err(ConvertError::TooLarge);
        }
        Ok(Converted { document: Value::Object(document), lost: self.lost, unlisted: self.unlisted })
    }
}

/// All paths; each is converted by the direction's own `path_item`.
fn paths<'a, C: AsMut<Context<'a>>>(
    converter: &mut C,
    path_item: fn(&mut C, &'a Value, &DocumentPath<'_>) -> Value,
    paths: &'a Value,
    place: &DocumentPath<'_>,
) -> Value {
    let Some(paths) = paths.as_object() else {
        converter.as_mut().lose_at(place, "is not an object");
        return Value::Object(Map::new());
    };
    let mut out = Map::new();
    for (path, item) in paths {
        let place = place.at(path);
        let item = if path.starts_with("x-") {
            converter.as_mut().copy(item)
        } else {
            match converter.as_mut().resolve(item, "/paths", &place) {
                Some((_, item)) => path_item(converter, item, &place),
                None => continue,
            }
        };
        out.insert(path.clone(), item);
    }
    Value::Object(out)
}

/// Schemas elsewhere that something refers to, and those that these refer to.
fn hoisted<'a, C: AsMut<Context<'a>>>(
    converter: &mut C,
    schema: fn(&mut C, &Value, &DocumentPath<'_>) -> Value,
    out: &mut Map<String, Value>,
) {
    while let Some((pointer, target)) = converter.as_mut().queue.pop_front() {
        let name = converter.as_mut().hoisted.get(&pointer).cloned().unwrap_or_default();
        let place = DocumentPath::ROOT;
        let schema = schema(converter, target, &place.at(pointer.trim_start_matches('/')));
        out.insert(name, schema);
    }
}

/// What OpenAPI 3 allows as the name of a component.
fn is_component_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Quantities are known by name alone.
fn is_quantity_name(name: &str) -> bool {
    name.strip_suffix("Quantity").is_some_and(|package| package.ends_with("resource."))
}

/// Keywords of a schema that hold data or limits, the same in both versions.
fn is_plain_keyword(key: &str) -> bool {
    const PLAIN: [&str; 24] = [
        "default",
        "description",
        "enum",
        "example",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "externalDocs",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "readOnly",
        "required",
        "title",
        "type",
        "uniqueItems",
        "xml",
    ];
    PLAIN.contains(&key) || key.starts_with("x-")
}

pub(crate) const METHODS: [&str; 7] = ["delete", "get", "head", "options", "patch", "post", "put"];
