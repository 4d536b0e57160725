//! Reading schemas from JSON, either dialect.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    ir::{Additional, Schema, Type},
    write::Dialect,
};

/// How deeply schemas may nest. Deeper than any real type, shallow enough for
/// every recursive walk to fit a small stack.
pub const MAX_DEPTH: usize = 100;

/// Where in the document, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ReadError {
    pub path: Path,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("expected {expected}, found {found}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("`{found}` is not a schema type; one of array, boolean, integer, number, object, string")]
    UnknownType { found: String },
    #[error("reference `{found}` does not start with `{prefix}`")]
    ForeignReference { found: String, prefix: &'static str },
    #[error("schemas nest more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("{0}")]
    Other(String),
}

/// A place in a document, printed like `paths./api/v1.get.responses`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path(Vec<Arc<str>>);

impl Path {
    pub fn error(&self, problem: Problem) -> ReadError {
        ReadError { path: self.clone(), problem }
    }

    pub fn wrong_type(&self, expected: &'static str, found: &Value) -> ReadError {
        self.error(Problem::WrongType { expected, found: json_type(found) })
    }

    /// Runs `read` one step further down.
    pub fn at<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(step.into());
        let result = read(self);
        self.0.pop();
        result
    }

    pub fn depth(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("document");
        }
        for (index, step) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            f.write_str(step)?;
        }
        Ok(())
    }
}

/// Reads one schema that stands alone.
pub fn schema(json: &Value, dialect: Dialect) -> Result<Schema, ReadError> {
    schema_at(json, dialect, &mut Path::default())
}

/// Reads the schema that stands at `path` of a larger document.
pub fn schema_at(json: &Value, dialect: Dialect, path: &mut Path) -> Result<Schema, ReadError> {
    node(json, dialect, path, 0)
}

fn node(json: &Value, dialect: Dialect, path: &mut Path, depth: usize) -> Result<Schema, ReadError> {
    if depth >= MAX_DEPTH {
        return Err(path.error(Problem::TooDeep));
    }
    let mut schema = Schema::default();
    for (key, value) in object(json, path)? {
        path.at(key, |path| {
            let mut child = |json: &Value, path: &mut Path| node(json, dialect, path, depth + 1);
            match key.as_str() {
                "$ref" => schema.reference = Some(reference(value, dialect, path)?),
                "description" => schema.description = Some(text(value, path)?),
                "type" => schema.kind = Some(kind(value, path)?),
                "format" => schema.format = Some(text(value, path)?),
                "nullable" if dialect == Dialect::V3 => schema.nullable = boolean(value, path)?,
                "default" => schema.default = Some(value.clone()),
                "enum" => schema.enum_values = array(value, path)?.clone(),
                "items" => schema.items = Some(Box::new(child(value, path)?)),
                "properties" => {
                    for (name, value) in object(value, path)? {
                        let property = path.at(name, |path| child(value, path))?;
                        schema.properties.insert(name.as_str().into(), property);
                    }
                }
                "additionalProperties" => {
                    schema.additional = Some(match value {
                        Value::Bool(allowed) => Additional::Allowed(*allowed),
                        _ => Additional::Schema(Box::new(child(value, path)?)),
                    });
                }
                "required" => schema.required = texts(value, path)?,
                "allOf" => schema.all_of = list(value, path, &mut child)?,
                "anyOf" => schema.any_of = list(value, path, &mut child)?,
                "oneOf" => schema.one_of = list(value, path, &mut child)?,
                "not" => schema.not = Some(Box::new(child(value, path)?)),
                _ => {
                    check_keyword(key, value, path)?;
                    schema.rest.insert(key.as_str().into(), value.clone());
                }
            }
            Ok(())
        })?;
    }
    if dialect == Dialect::V3 {
        unwrap_reference(&mut schema);
    }
    Ok(schema)
}

/// `allOf` led by a bare reference is how v3 writes a reference with siblings.
fn unwrap_reference(schema: &mut Schema) {
    let led_by_reference = schema.all_of.first().is_some_and(Schema::is_bare_reference);
    if schema.reference.is_none() && led_by_reference {
        schema.reference = schema.all_of.remove(0).reference;
    }
}

fn reference(json: &Value, dialect: Dialect, path: &Path) -> Result<Arc<str>, ReadError> {
    let found = text(json, path)?;
    let prefix = dialect.reference_prefix();
    match found.strip_prefix(prefix) {
        Some(name) if !name.is_empty() => Ok(name.into()),
        _ => Err(path.error(Problem::ForeignReference { found: found.to_string(), prefix })),
    }
}

fn kind(json: &Value, path: &Path) -> Result<Type, ReadError> {
    let found = text(json, path)?;
    Type::parse(&found).ok_or_else(|| path.error(Problem::UnknownType { found: found.to_string() }))
}

fn list(
    json: &Value,
    path: &mut Path,
    read: &mut impl FnMut(&Value, &mut Path) -> Result<Schema, ReadError>,
) -> Result<Vec<Schema>, ReadError> {
    let members = array(json, path)?;
    members
        .iter()
        .enumerate()
        .map(|(index, member)| path.at(&index.to_string(), |path| read(member, path)))
        .collect()
}

/// Keywords that are kept verbatim still have a type, and a wrong one is an
/// error here rather than a surprise in whoever reads the document next.
fn check_keyword(key: &str, value: &Value, path: &Path) -> Result<(), ReadError> {
    let (fits, expected) = match key {
        "title" | "pattern" => (value.is_string(), "a string"),
        "maximum" | "minimum" | "multipleOf" => (value.is_number(), "a number"),
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" => {
            (value.is_u64(), "a non-negative integer")
        }
        "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" | "nullable" => {
            (value.is_boolean(), "a boolean")
        }
        "exclusiveMaximum" | "exclusiveMinimum" => (value.is_boolean(), "a boolean"),
        _ => (true, ""),
    };
    if fits { Ok(()) } else { Err(path.wrong_type(expected, value)) }
}

pub fn object<'a>(json: &'a Value, path: &Path) -> Result<&'a Map<String, Value>, ReadError> {
    json.as_object().ok_or_else(|| path.wrong_type("an object", json))
}

pub fn array<'a>(json: &'a Value, path: &Path) -> Result<&'a Vec<Value>, ReadError> {
    json.as_array().ok_or_else(|| path.wrong_type("an array", json))
}

pub fn text(json: &Value, path: &Path) -> Result<Arc<str>, ReadError> {
    json.as_str().map(Arc::from).ok_or_else(|| path.wrong_type("a string", json))
}

pub fn texts(json: &Value, path: &mut Path) -> Result<Vec<Arc<str>>, ReadError> {
    let items = array(json, path)?;
    items
        .iter()
        .enumerate()
        .map(|(index, item)| path.at(&index.to_string(), |path| text(item, path)))
        .collect()
}

pub fn boolean(json: &Value, path: &Path) -> Result<bool, ReadError> {
    json.as_bool().ok_or_else(|| path.wrong_type("a boolean", json))
}

fn json_type(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;

    use super::*;
    use crate::write::{self, Style};

    fn round_trip(json: &Value, dialect: Dialect) {
        let read = schema(json, dialect).unwrap();
        let mut out = Vec::new();
        write::schema(&mut out, &read, Style { dialect, name: |name| Cow::Borrowed(name) });
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), *json);
    }

    #[test]
    fn what_is_read_is_written_again() {
        let v3 = json!({
            "type": "object", "nullable": true, "title": "T", "maxProperties": 7, "x-any": {"a": [1, null]},
            "required": ["z", "a"],
            "properties": {
                "ref": {"$ref": "#/components/schemas/A"},
                "wrapped": {"allOf": [{"$ref": "#/components/schemas/A"}], "description": "d", "default": {}},
                "both": {"allOf": [{"$ref": "#/components/schemas/A"}, {"type": "object"}]},
                "map": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a", ""]}},
                "closed": {"type": "object", "additionalProperties": false},
                "any": {},
                "logic": {"oneOf": [{"type": "integer"}], "anyOf": [{}], "not": {"type": "array", "items": {}}},
            },
        });
        round_trip(&v3, Dialect::V3);
        let v2 = json!({
            "type": "object",
            "properties": {"ref": {"$ref": "#/definitions/A", "description": "d", "x-kubernetes-map-type": "atomic"}},
        });
        round_trip(&v2, Dialect::V2);
    }

    fn check_error(json: &Value, dialect: Dialect, expected: &str) {
        assert_eq!(schema(json, dialect).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_name_the_place_and_the_cause() {
        let cases = [
            (json!(3), "document: expected an object, found a number"),
            (json!({"properties": {"a": []}}), "properties.a: expected an object, found an array"),
            (
                json!({"type": "null"}),
                "type: `null` is not a schema type; one of array, boolean, integer, number, object, string",
            ),
            (json!({"type": ["string", "null"]}), "type: expected a string, found an array"),
            (json!({"required": ["a", 1]}), "required.1: expected a string, found a number"),
            (
                json!({"allOf": [{"$ref": "#/definitions/A"}]}),
                "allOf.0.$ref: reference `#/definitions/A` does not start with `#/components/schemas/`",
            ),
            (json!({"maxLength": -1}), "maxLength: expected a non-negative integer, found a number"),
            (json!({"items": {"pattern": 1}}), "items.pattern: expected a string, found a number"),
        ];
        for (json, expected) in cases {
            check_error(&json, Dialect::V3, expected);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(schema(&nested(MAX_DEPTH), Dialect::V3).is_ok());
        assert_eq!(schema(&nested(MAX_DEPTH + 1), Dialect::V3).unwrap_err().problem, Problem::TooDeep);
    }
}
