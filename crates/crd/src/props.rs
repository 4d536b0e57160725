//! `JSONSchemaProps`: reading a schema as Go's decoder does, and printing it as Go does.
//!
//! [`read`] gives the canonical JSON of a schema: nulls and empty values gone,
//! unknown keywords dropped and reported, wrong types refused with Go's texts.
//! Everything else in this crate takes schemas in that form. [`to_schema`] makes
//! the tree that the rest of the server works with.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sternpost_golang::json::json_type;
use sternpost_schema::{Additional, Schema, Type};

/// How deeply schemas may nest: what the schema tree holds.
pub const MAX_DEPTH: usize = sternpost_schema::read::MAX_DEPTH;

/// A schema that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    pub schema: Value,
    /// `unknown field "spec.versions[0].schema.openAPIV3Schema.x"`, keywords in alphabetical order.
    pub complaints: Vec<String>,
}

/// Why a value is not a schema; the text is Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub String);

/// Reads the schema that stands at `place` (`spec.versions[0].schema.openAPIV3Schema`).
pub fn read(json: &Value, place: &str) -> Result<Read, ReadError> {
    let path = place.split('.').map(|step| step.split('[').next().unwrap_or(step)).collect::<Vec<_>>();
    let mut reader =
        Reader { path: path.iter().map(|step| (*step).to_owned()).collect(), complaints: Vec::new() };
    let schema = reader.schema(json, place, 0)?;
    Ok(Read { schema: Value::Object(schema), complaints: reader.complaints })
}

/// The schema tree of a canonical schema; `None` if it holds what no tree can (`$ref` and such).
pub fn to_schema(props: &Value) -> Option<Schema> {
    let mut schema = Schema::default();
    for (key, value) in props.as_object()? {
        let child = |value: &Value| to_schema(value);
        let list = |value: &Value| value.as_array()?.iter().map(child).collect::<Option<Vec<_>>>();
        match key.as_str() {
            "description" => schema.description = value.as_str().map(Arc::from),
            "type" => schema.kind = Some(Type::parse(value.as_str()?)?),
            "format" => schema.format = value.as_str().map(Arc::from),
            "nullable" => schema.nullable = true,
            "default" => schema.default = Some(value.clone()),
            "enum" => schema.enum_values = value.as_array()?.clone(),
            "items" => schema.items = Some(Box::new(child(value)?)),
            "properties" => {
                for (name, value) in value.as_object()? {
                    schema.properties.insert(name.as_str().into(), child(value)?);
                }
            }
            "additionalProperties" => {
                schema.additional = Some(match value {
                    Value::Bool(allowed) => Additional::Allowed(*allowed),
                    _ => Additional::Schema(Box::new(child(value)?)),
                });
            }
            "required" => {
                schema.required = value.as_array()?.iter().filter_map(Value::as_str).map(Arc::from).collect();
            }
            "allOf" => schema.all_of = list(value)?,
            "anyOf" => schema.any_of = list(value)?,
            "oneOf" => schema.one_of = list(value)?,
            "not" => schema.not = Some(Box::new(child(value)?)),
            _ => {
                schema.rest.insert(key.as_str().into(), value.clone());
            }
        }
    }
    Some(schema)
}

/// The schema as Go prints its internal type: capital names, every field.
pub fn go_form(props: &Value) -> String {
    let fields: Vec<String> = KEYWORDS
        .iter()
        .map(|keyword| {
            let value = props.get(keyword.json).filter(|value| !value.is_null());
            format!("{}:{}", Value::from(keyword.go), go_value(keyword.kind, value))
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// A validation rule as Go prints its internal type.
pub fn go_rule(rule: &Value) -> String {
    let text = |name: &str| json!(rule.get(name).and_then(Value::as_str).unwrap_or_default());
    let any = |name: &str| rule.get(name).cloned().unwrap_or_default();
    let fields = [
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", any("reason")),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", any("optionalOldSelf")),
    ];
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", go_json(value))).collect();
    format!("{{{}}}", fields.join(","))
}

fn go_json(value: &Value) -> String {
    sternpost_golang::json::go_json(value)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    TextPointer,
    Bool,
    BoolPointer,
    Int,
    Float,
    Json,
    JsonList,
    TextList,
    Schema,
    SchemaOrList,
    SchemaOrBool,
    SchemaList,
    SchemaMap,
    Dependencies,
    Docs,
    Rules,
}

struct Keyword {
    json: &'static str,
    go: &'static str,
    kind: Kind,
}

const fn keyword(json: &'static str, go: &'static str, kind: Kind) -> Keyword {
    Keyword { json, go, kind }
}

/// In the order of the Go type.
const KEYWORDS: &[Keyword] = &[
    keyword("id", "ID", Kind::Text),
    keyword("$schema", "Schema", Kind::Text),
    keyword("$ref", "Ref", Kind::TextPointer),
    keyword("description", "Description", Kind::Text),
    keyword("type", "Type", Kind::Text),
    keyword("nullable", "Nullable", Kind::Bool),
    keyword("format", "Format", Kind::Text),
    keyword("title", "Title", Kind::Text),
    keyword("default", "Default", Kind::Json),
    keyword("maximum", "Maximum", Kind::Float),
    keyword("exclusiveMaximum", "ExclusiveMaximum", Kind::Bool),
    keyword("minimum", "Minimum", Kind::Float),
    keyword("exclusiveMinimum", "ExclusiveMinimum", Kind::Bool),
    keyword("maxLength", "MaxLength", Kind::Int),
    keyword("minLength", "MinLength", Kind::Int),
    keyword("pattern", "Pattern", Kind::Text),
    keyword("maxItems", "MaxItems", Kind::Int),
    keyword("minItems", "MinItems", Kind::Int),
    keyword("uniqueItems", "UniqueItems", Kind::Bool),
    keyword("multipleOf", "MultipleOf", Kind::Float),
    keyword("enum", "Enum", Kind::JsonList),
    keyword("maxProperties", "MaxProperties", Kind::Int),
    keyword("minProperties", "MinProperties", Kind::Int),
    keyword("required", "Required", Kind::TextList),
    keyword("items", "Items", Kind::SchemaOrList),
    keyword("allOf", "AllOf", Kind::SchemaList),
    keyword("oneOf", "OneOf", Kind::SchemaList),
    keyword("anyOf", "AnyOf", Kind::SchemaList),
    keyword("not", "Not", Kind::Schema),
    keyword("properties", "Properties", Kind::SchemaMap),
    keyword("additionalProperties", "AdditionalProperties", Kind::SchemaOrBool),
    keyword("patternProperties", "PatternProperties", Kind::SchemaMap),
    keyword("dependencies", "Dependencies", Kind::Dependencies),
    keyword("additionalItems", "AdditionalItems", Kind::SchemaOrBool),
    keyword("definitions", "Definitions", Kind::SchemaMap),
    keyword("externalDocs", "ExternalDocs", Kind::Docs),
    keyword("example", "Example", Kind::Json),
    keyword("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Kind::BoolPointer),
    keyword("x-kubernetes-embedded-resource", "XEmbeddedResource", Kind::Bool),
    keyword("x-kubernetes-int-or-string", "XIntOrString", Kind::Bool),
    keyword("x-kubernetes-list-map-keys", "XListMapKeys", Kind::TextList),
    keyword("x-kubernetes-list-type", "XListType", Kind::TextPointer),
    keyword("x-kubernetes-map-type", "XMapType", Kind::TextPointer),
    keyword("x-kubernetes-validations", "XValidations", Kind::Rules),
];

const RULE_FIELDS: &[(&str, Kind)] = &[
    ("rule", Kind::Text),
    ("message", Kind::Text),
    ("messageExpression", Kind::Text),
    ("reason", Kind::TextPointer),
    ("fieldPath", Kind::Text),
    ("optionalOldSelf", Kind::BoolPointer),
];

struct Reader {
    /// Field names for Go's texts, which name neither indices nor map keys.
    path: Vec<String>,
    complaints: Vec<String>,
}

impl Reader {
    fn schema(&mut self, json: &Value, place: &str, depth: usize) -> Result<Map<String, Value>, ReadError> {
        if depth >= MAX_DEPTH {
            return Err(ReadError(format!("schemas nest more than {MAX_DEPTH} deep")));
        }
        let mut out = Map::new();
        let fields = match json {
            Value::Object(fields) => fields,
            Value::Null => return Ok(out),
            other => return Err(self.mismatch(other, "v1.JSONSchemaProps")),
        };
        for (key, value) in fields {
            let Some(keyword) = KEYWORDS.iter().find(|keyword| keyword.json == key) else {
                self.complaints.push(format!("unknown field \"{place}.{key}\""));
                continue;
            };
            if value.is_null() {
                continue;
            }
            self.path.push(key.clone());
            if let Some(value) = self.value(keyword.kind, value, &format!("{place}.{key}"), depth)? {
                out.insert(key.clone(), value);
            }
            self.path.pop();
        }
        Ok(out)
    }

    /// `None` for what Go leaves out.
    fn value(
        &mut self,
        kind: Kind,
        json: &Value,
        place: &str,
        depth: usize,
    ) -> Result<Option<Value>, ReadError> {
        let empty = |value: Value| match &value {
            Value::String(text) if text.is_empty() => None,
            Value::Bool(false) => None,
            Value::Array(items) if items.is_empty() => None,
            Value::Object(entries) if entries.is_empty() => None,
            _ => Some(value),
        };
        Ok(match kind {
            Kind::Text => empty(self.expect(json, json.is_string(), "string")?),
            Kind::TextPointer => Some(self.expect(json, json.is_string(), "string")?),
            Kind::Bool => empty(self.expect(json, json.is_boolean(), "bool")?),
            Kind::BoolPointer => Some(self.expect(json, json.is_boolean(), "bool")?),
            Kind::Int => match json {
                Value::Number(number) if number.as_i64().is_none() => {
                    return Err(self.mismatch_text(&format!("number {number}"), "int64"));
                }
                _ => Some(self.expect(json, json.is_i64(), "int64")?),
            },
            Kind::Float => {
                let value = self.expect(json, json.is_number(), "float64")?;
                Some(crate::number::shown(value))
            }
            Kind::Json => Some(crate::number::shown(json.clone())),
            Kind::JsonList => {
                let items = self.array(json, "[]v1.JSON")?;
                empty(items.iter().cloned().map(crate::number::shown).collect())
            }
            Kind::TextList => {
                let items = self.array(json, "[]string")?;
                let texts: Result<Vec<Value>, _> =
                    items.iter().map(|item| self.expect(item, item.is_string(), "string")).collect();
                empty(texts?.into())
            }
            Kind::Schema => Some(self.schema(json, place, depth + 1)?.into()),
            Kind::SchemaOrList => match json {
                Value::Object(_) => Some(self.schema(json, place, depth + 1)?.into()),
                Value::Array(items) => empty(self.schemas(items, place, depth)?),
                _ => None,
            },
            Kind::SchemaOrBool => match json {
                Value::Object(_) => Some(self.schema(json, place, depth + 1)?.into()),
                Value::Bool(_) => Some(json.clone()),
                _ => return Err(ReadError("boolean or JSON schema expected".into())),
            },
            Kind::SchemaList => {
                let items = self.array(json, "[]v1.JSONSchemaProps")?.clone();
                empty(self.schemas(&items, place, depth)?)
            }
            Kind::SchemaMap => {
                let Value::Object(entries) = json else {
                    return Err(self.mismatch(json, "map[string]v1.JSONSchemaProps"));
                };
                let mut out = Map::new();
                for (name, value) in entries {
                    let schema = self.schema(value, &format!("{place}.{name}"), depth + 1)?;
                    out.insert(name.clone(), schema.into());
                }
                empty(out.into())
            }
            Kind::Dependencies => {
                let Value::Object(entries) = json else {
                    return Err(self.mismatch(json, "v1.JSONSchemaDependencies"));
                };
                let mut out = Map::new();
                for (name, value) in entries {
                    let value = match value {
                        Value::Object(_) => self.schema(value, &format!("{place}.{name}"), depth + 1)?.into(),
                        other => other.clone(),
                    };
                    out.insert(name.clone(), value);
                }
                empty(out.into())
            }
            Kind::Docs => {
                let fields = [("description", Kind::Text), ("url", Kind::Text)];
                Some(self.record(json, &fields, "v1.ExternalDocumentation", place, depth)?.into())
            }
            Kind::Rules => {
                let items = self.array(json, "v1.ValidationRules")?.clone();
                let mut out = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let place = format!("{place}[{index}]");
                    let mut rule = self.record(item, RULE_FIELDS, "v1.ValidationRule", &place, depth)?;
                    rule.entry("rule").or_insert_with(|| "".into());
                    out.push(rule.into());
                }
                empty(Value::Array(out))
            }
        })
    }

    fn schemas(&mut self, items: &[Value], place: &str, depth: usize) -> Result<Value, ReadError> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            out.push(self.schema(item, &format!("{place}[{index}]"), depth + 1)?.into());
        }
        Ok(Value::Array(out))
    }

    fn record(
        &mut self,
        json: &Value,
        fields: &[(&str, Kind)],
        go: &str,
        place: &str,
        depth: usize,
    ) -> Result<Map<String, Value>, ReadError> {
        let Value::Object(entries) = json else {
            return Err(self.mismatch(json, go));
        };
        let mut out = Map::new();
        for (key, value) in entries {
            let Some((_, kind)) = fields.iter().find(|(name, _)| name == key) else {
                self.complaints.push(format!("unknown field \"{place}.{key}\""));
                continue;
            };
            if value.is_null() {
                continue;
            }
            self.path.push(key.clone());
            if let Some(value) = self.value(*kind, value, place, depth)? {
                out.insert(key.clone(), value);
            }
            self.path.pop();
        }
        Ok(out)
    }

    fn array<'a>(&self, json: &'a Value, go: &str) -> Result<&'a Vec<Value>, ReadError> {
        json.as_array().ok_or_else(|| self.mismatch(json, go))
    }

    fn expect(&self, json: &Value, fits: bool, go: &str) -> Result<Value, ReadError> {
        if fits { Ok(json.clone()) } else { Err(self.mismatch(json, go)) }
    }

    fn mismatch(&self, found: &Value, go: &str) -> ReadError {
        self.mismatch_text(json_type(found), go)
    }

    fn mismatch_text(&self, found: &str, go: &str) -> ReadError {
        let path = self.path.join(".");
        ReadError(format!(
            "json: cannot unmarshal {found} into Go struct field JSONSchemaProps.{path} of type {go}"
        ))
    }
}

fn go_value(kind: Kind, value: Option<&Value>) -> String {
    let Some(value) = value else {
        return match kind {
            Kind::Text => "\"\"",
            Kind::Bool => "false",
            _ => "null",
        }
        .into();
    };
    let list = |items: &Vec<Value>| format!("[{}]", items.iter().map(go_form).collect::<Vec<_>>().join(","));
    let map = |entries: &Map<String, Value>, form: &dyn Fn(&Value) -> String| {
        let entries: Vec<String> = entries
            .iter()
            .map(|(name, value)| format!("{}:{}", go_json(&name.as_str().into()), form(value)))
            .collect();
        format!("{{{}}}", entries.join(","))
    };
    match (kind, value) {
        (Kind::Schema, schema) => go_form(schema),
        (Kind::SchemaOrList, Value::Array(items)) => {
            format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(items))
        }
        (Kind::SchemaOrList, schema) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", go_form(schema)),
        (Kind::SchemaOrBool, Value::Bool(allowed)) => format!("{{\"Allows\":{allowed},\"Schema\":null}}"),
        (Kind::SchemaOrBool, schema) => format!("{{\"Allows\":true,\"Schema\":{}}}", go_form(schema)),
        (Kind::SchemaList, Value::Array(items)) => list(items),
        (Kind::SchemaMap, Value::Object(entries)) => map(entries, &go_form),
        (Kind::Dependencies, Value::Object(entries)) => map(entries, &|value| match value {
            Value::Object(_) => format!("{{\"Schema\":{},\"Property\":null}}", go_form(value)),
            other => format!("{{\"Schema\":null,\"Property\":{}}}", go_json(other)),
        }),
        (Kind::Docs, docs) => {
            let text = |name: &str| go_json(&docs.get(name).cloned().unwrap_or_else(|| "".into()));
            format!("{{\"Description\":{},\"URL\":{}}}", text("description"), text("url"))
        }
        (Kind::Rules, Value::Array(rules)) => {
            format!("[{}]", rules.iter().map(go_rule).collect::<Vec<_>>().join(","))
        }
        (_, value) => go_json(value),
    }
}
