//! Whether a document has the shape of OpenAPI: what a field holds, if it is
//! there. Upstream panics where this says what is wrong.
//!
//! What no reader of schemas looks into (examples, defaults, `xml`, extensions)
//! may be anything; `null` may stand anywhere.
//!
//! Its own, and not `sternpost_schema::read`, which refuses documents that kustomize builds with: a type
//! that is a list, a definition that is null, a reference to another document (cases
//! `build-schemas/type-that-is-a-list`, `definition-that-is-null`, `reference-with-another-document`).

use serde_json::{Map, Value};

use super::place::{Path, Step};

/// What a document has that it must not, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misshape {
    pub(crate) path: Path,
    pub(crate) problem: String,
}

/// A Swagger 2.0 document.
pub(crate) fn check_v2(document: &Value) -> Result<(), Misshape> {
    document_of(document, &DOCUMENT).map_err(|inner| inner.below(Path::new()))
}

/// The schemas of an OpenAPI v3 document, and what tells the scope of kinds.
pub(crate) fn check_v3(document: &Value) -> Result<(), Misshape> {
    document_of(document, &DOCUMENT_V3).map_err(|inner| inner.below(Path::new()))
}

/// One schema, at a place in its document.
pub(crate) fn check_schema(schema: &Value, path: Path) -> Result<(), Misshape> {
    check(schema, Shape::Object(&SCHEMA)).map_err(|inner| inner.below(path))
}

type Fields = &'static [(&'static str, Shape)];

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Boolean,
    Number,
    Integer,
    Texts,
    /// Text, or a list of it.
    TextOrTexts,
    List,
    Object(&'static Fields),
    Objects(&'static Fields),
    Map(&'static Fields),
    SchemaOrBoolean,
    /// A schema or a list of schemas; scalars are let pass.
    Items,
    Reference,
    Kinds,
    Kind,
}

static NOTHING: Fields = &[];

static SCHEMA: Fields = &[
    ("$ref", Shape::Reference),
    ("additionalItems", Shape::SchemaOrBoolean),
    ("additionalProperties", Shape::SchemaOrBoolean),
    ("allOf", Shape::Objects(&SCHEMA)),
    ("anyOf", Shape::Objects(&SCHEMA)),
    ("definitions", Shape::Map(&SCHEMA)),
    ("dependencies", Shape::Object(&NOTHING)),
    ("description", Shape::Text),
    ("discriminator", Shape::Text),
    ("enum", Shape::List),
    ("exclusiveMaximum", Shape::Boolean),
    ("exclusiveMinimum", Shape::Boolean),
    ("externalDocs", Shape::Object(&NOTHING)),
    ("format", Shape::Text),
    ("id", Shape::Text),
    ("items", Shape::Items),
    ("maxItems", Shape::Integer),
    ("maxLength", Shape::Integer),
    ("maxProperties", Shape::Integer),
    ("maximum", Shape::Number),
    ("minItems", Shape::Integer),
    ("minLength", Shape::Integer),
    ("minProperties", Shape::Integer),
    ("minimum", Shape::Number),
    ("multipleOf", Shape::Number),
    ("not", Shape::Object(&SCHEMA)),
    ("nullable", Shape::Boolean),
    ("oneOf", Shape::Objects(&SCHEMA)),
    ("pattern", Shape::Text),
    ("patternProperties", Shape::Map(&SCHEMA)),
    ("properties", Shape::Map(&SCHEMA)),
    ("readOnly", Shape::Boolean),
    ("required", Shape::Texts),
    ("title", Shape::Text),
    ("type", Shape::TextOrTexts),
    ("uniqueItems", Shape::Boolean),
    ("x-kubernetes-group-version-kind", Shape::Kinds),
];

static INFO: Fields = &[("description", Shape::Text), ("title", Shape::Text), ("version", Shape::Text)];

static OPERATION: Fields = &[
    ("consumes", Shape::Texts),
    ("deprecated", Shape::Boolean),
    ("description", Shape::Text),
    ("operationId", Shape::Text),
    ("parameters", Shape::Objects(&NOTHING)),
    ("produces", Shape::Texts),
    ("responses", Shape::Map(&RESPONSE)),
    ("schemes", Shape::Texts),
    ("summary", Shape::Text),
    ("tags", Shape::Texts),
    ("x-kubernetes-group-version-kind", Shape::Kind),
];

static RESPONSE: Fields = &[("description", Shape::Text)];

static PATH: Fields = &[
    ("delete", Shape::Object(&OPERATION)),
    ("get", Shape::Object(&OPERATION)),
    ("head", Shape::Object(&OPERATION)),
    ("options", Shape::Object(&OPERATION)),
    ("parameters", Shape::Objects(&NOTHING)),
    ("patch", Shape::Object(&OPERATION)),
    ("post", Shape::Object(&OPERATION)),
    ("put", Shape::Object(&OPERATION)),
];

static DOCUMENT: Fields = &[
    ("basePath", Shape::Text),
    ("consumes", Shape::Texts),
    ("definitions", Shape::Map(&SCHEMA)),
    ("externalDocs", Shape::Object(&NOTHING)),
    ("host", Shape::Text),
    ("id", Shape::Text),
    ("info", Shape::Object(&INFO)),
    ("parameters", Shape::Map(&NOTHING)),
    ("paths", Shape::Object(&NOTHING)),
    ("produces", Shape::Texts),
    ("responses", Shape::Map(&NOTHING)),
    ("schemes", Shape::Texts),
    ("security", Shape::Objects(&NOTHING)),
    ("securityDefinitions", Shape::Map(&NOTHING)),
    ("swagger", Shape::Text),
    ("tags", Shape::Objects(&NOTHING)),
];

static SCHEMA_V3: Fields = &[
    ("$ref", Shape::Reference),
    ("additionalProperties", Shape::SchemaOrBoolean),
    ("allOf", Shape::Objects(&SCHEMA_V3)),
    ("items", Shape::Object(&SCHEMA_V3)),
    ("properties", Shape::Map(&SCHEMA_V3)),
    ("type", Shape::Text),
    ("x-kubernetes-group-version-kind", Shape::Kinds),
];

static COMPONENTS: Fields = &[("schemas", Shape::Map(&SCHEMA_V3))];

static DOCUMENT_V3: Fields =
    &[("components", Shape::Object(&COMPONENTS)), ("paths", Shape::Object(&NOTHING))];

/// What is wrong, before all of its way is known: the innermost step comes first, so that what is right
/// names no step at all.
struct Inner {
    steps: Vec<Step>,
    problem: String,
}

impl Inner {
    fn new(problem: String) -> Self {
        Self { steps: Vec::new(), problem }
    }

    fn of(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn of_key(self, name: &str) -> Self {
        self.of(Step::Key(name.to_owned()))
    }

    fn below(self, mut path: Path) -> Misshape {
        path.extend(self.steps.into_iter().rev());
        Misshape { path, problem: self.problem }
    }
}

fn document_of(value: &Value, fields: &'static Fields) -> Result<(), Inner> {
    check(value, Shape::Object(fields))?;
    // A path item is one only below a name that starts as a path does.
    for (name, item) in value.get("paths").and_then(Value::as_object).into_iter().flatten() {
        if name.starts_with('/') {
            check(item, Shape::Object(&PATH)).map_err(|inner| inner.of_key(name).of_key("paths"))?;
        }
    }
    Ok(())
}

fn check(value: &Value, shape: Shape) -> Result<(), Inner> {
    if value.is_null() {
        return Ok(());
    }
    match (shape, value) {
        (Shape::Text, Value::String(_))
        | (Shape::Boolean, Value::Bool(_))
        | (Shape::Number, Value::Number(_))
        | (Shape::List, Value::Array(_))
        | (Shape::TextOrTexts, Value::String(_))
        | (Shape::SchemaOrBoolean, Value::Bool(_)) => Ok(()),
        (Shape::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
        (Shape::Texts | Shape::TextOrTexts, Value::Array(items)) => check_items(items, Shape::Text),
        (Shape::Object(fields), Value::Object(held)) => check_fields(held, fields),
        (Shape::Objects(fields), Value::Array(items)) => check_items(items, Shape::Object(fields)),
        (Shape::Map(fields), Value::Object(held)) => held.iter().try_for_each(|(name, value)| {
            check(value, Shape::Object(fields)).map_err(|inner| inner.of_key(name))
        }),
        (Shape::SchemaOrBoolean | Shape::Items, Value::Object(held)) => check_fields(held, &SCHEMA),
        (Shape::Items, Value::Array(items)) => check_items(items, Shape::Object(&SCHEMA)),
        (Shape::Items, _) => Ok(()),
        (Shape::Reference, Value::String(text)) => match unusable(text) {
            Some(problem) => Err(Inner::new(format!("{text:?} is no reference: {problem}"))),
            None => Ok(()),
        },
        (Shape::Reference, _) => Ok(()),
        (Shape::Kinds, Value::Array(items)) => {
            // Only objects are looked at.
            items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.is_object())
                .try_for_each(|(at, item)| check_kind(item).map_err(|inner| inner.of(Step::Index(at))))
        }
        (Shape::Kind, Value::Object(_)) => check_kind(value),
        (Shape::Kinds | Shape::Kind, _) => Ok(()),
        (shape, value) => Err(Inner::new(format!("expected {}, found {}", expected(shape), found(value)))),
    }
}

/// Asks for what is there: most objects have few of the fields that they may have.
fn check_fields(held: &Map<String, Value>, fields: &'static Fields) -> Result<(), Inner> {
    for (name, value) in held {
        if let Some((_, shape)) = fields.iter().find(|(known, _)| known == name) {
            check(value, *shape).map_err(|inner| inner.of_key(name))?;
        }
    }
    Ok(())
}

fn check_items(items: &[Value], shape: Shape) -> Result<(), Inner> {
    let mut numbered = items.iter().enumerate();
    numbered.try_for_each(|(at, item)| check(item, shape).map_err(|inner| inner.of(Step::Index(at))))
}

fn check_kind(gvk: &Value) -> Result<(), Inner> {
    for name in ["version", "kind"] {
        match gvk.get(name) {
            Some(Value::String(_)) => {}
            Some(other) => {
                let problem = format!("expected a text, found {}", found(other));
                return Err(Inner::new(problem).of_key(name));
            }
            None => return Err(Inner::new(format!("`{name}` is missing"))),
        }
    }
    Ok(())
}

/// Why a text cannot be the address in `$ref`.
fn unusable(text: &str) -> Option<String> {
    let error = sternpost_golang::url::parse(text).err()?;
    Some(if error.contains("invalid URL escape") {
        "`%` is not followed by two hexadecimal digits".to_owned()
    } else if error.contains("invalid control character") {
        "it has a control character".to_owned()
    } else {
        error
    })
}

fn expected(shape: Shape) -> &'static str {
    match shape {
        Shape::Text => "a text",
        Shape::Boolean => "a boolean",
        Shape::Number => "a number",
        Shape::Integer => "an integer",
        Shape::Texts => "a list of texts",
        Shape::TextOrTexts => "a text or a list of texts",
        Shape::List | Shape::Objects(&_) => "a list",
        Shape::SchemaOrBoolean => "an object or a boolean",
        _ => "an object",
    }
}

pub(crate) fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
