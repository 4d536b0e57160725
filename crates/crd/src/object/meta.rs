//! Metadata of custom objects and of objects embedded in them.
//!
//! The schema does not speak of metadata: it is read into the one type it has,
//! which drops unknown fields and refuses wrong ones with Go's texts.

use serde_json::{Map, Value};
use sternpost_golang::{json::json_type, time::Timestamp};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format,
    object_meta::{check_finalizers, check_owner_references},
};

use crate::node::Node;

/// Total size of the annotations of an object.
pub const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Metadata that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetaError(pub String);

/// Reads the metadata of the object and of all objects embedded in it, in place.
/// Returns the unknown fields that were dropped.
pub fn coerce(node: &Node, object: &mut Value) -> Result<Vec<String>, MetaError> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get_mut("metadata") {
        *metadata = Value::Object(read(metadata, "metadata", &mut unknown)?);
    }
    coerce_below(node, object, &mut String::new(), &mut unknown)?;
    Ok(unknown)
}

/// A default with the metadata of embedded objects read.
pub fn coerce_default(node: &Node, value: &Value) -> Result<Value, MetaError> {
    let mut unknown = Vec::new();
    let mut value = value.clone();
    if node.embedded_resource {
        coerce_embedded(&mut value, "", &mut unknown)?;
    }
    coerce_below(node, &mut value, &mut String::new(), &mut unknown)?;
    Ok(value)
}

/// Checks the objects embedded in a value, which stands at `path`.
pub fn check_embedded(node: &Node, value: &Value, path: &str, errors: &mut Errors) {
    let step = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if node.embedded_resource && value.is_object() {
        for name in ["apiVersion", "kind"] {
            if value.get(name).is_none() {
                errors.required(step(name), "");
            }
        }
        if let Some(api_version) = value.get("apiVersion").and_then(Value::as_str) {
            check_api_version(api_version, &step("apiVersion"), errors);
        }
        if let Some(kind) = value.get("kind").and_then(Value::as_str) {
            check_kind(kind, &step("kind"), errors);
        }
        if let Some(metadata) = value.get("metadata") {
            check_metadata(metadata, &step("metadata"), errors);
        }
    }
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                if let Some((child, path)) = node.below(key, path) {
                    check_embedded(child, field, &path, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                check_embedded(child, item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

/// Finalizers that others may well use too.
pub fn finalizer_warnings(object: &Value) -> Vec<String> {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|name| !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion"))
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

fn check_kind(kind: &str, path: &str, errors: &mut Errors) {
    if kind.is_empty() {
        errors.invalid(path, kind, "must not be empty");
        return;
    }
    let problems = format::dns1035_label(&kind.to_lowercase());
    if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.invalid(path, kind, &detail);
    }
}

fn check_api_version(api_version: &str, path: &str, errors: &mut Errors) {
    if api_version.is_empty() {
        errors.invalid(path, api_version, "must not be empty");
    } else if api_version.matches('/').count() > 1 {
        errors.invalid(path, api_version, &format!("unexpected GroupVersion string: {api_version}"));
    }
}

fn check_metadata(metadata: &Value, path: &str, errors: &mut Errors) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    for (field, problems) in [
        ("generateName", format::path_segment_prefix as fn(&str) -> format::Problems),
        ("name", format::path_segment),
        ("namespace", format::dns_label),
    ] {
        let value = text(field);
        if !value.is_empty() {
            for problem in problems(value) {
                errors.invalid(format!("{path}.{field}"), value, &problem);
            }
        }
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number < 0)
    {
        errors.invalid(format!("{path}.generation"), generation, "must be greater than or equal to 0");
    }
    let entries = |name: &str| metadata.get(name).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in entries("labels") {
        for problem in format::qualified_name(key) {
            errors.invalid(format!("{path}.labels"), key.as_str(), &problem);
        }
        let value = value.as_str().unwrap_or_default();
        for problem in format::label_value(value) {
            errors.invalid(format!("{path}.labels"), value, &problem);
        }
    }
    let mut size = 0;
    for (key, value) in entries("annotations") {
        for problem in format::qualified_name(&key.to_lowercase()) {
            errors.invalid(format!("{path}.annotations"), key.as_str(), &problem);
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long(format!("{path}.annotations"), MAX_ANNOTATIONS);
    }
    let items = |name: &str| metadata.get(name).and_then(Value::as_array).into_iter().flatten();
    check_owner_references(metadata, Path::new(path), errors);
    check_finalizers(metadata, Path::new(path), errors);
    for (index, entry) in items("managedFields").enumerate() {
        check_manager(entry, &format!("{path}.managedFields[{index}]"), errors);
    }
}

/// Bytes of the name of the subresource that a manager wrote through.
const MAX_SUBRESOURCE: usize = 256;

fn check_manager(entry: &Value, path: &str, errors: &mut Errors) {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("operation"), "Apply" | "Update") {
        errors.invalid(format!("{path}.operation"), text("operation"), "must be `Apply` or `Update`");
    }
    if !matches!(text("fieldsType"), "" | "FieldsV1") {
        errors.invalid(format!("{path}.fieldsType"), text("fieldsType"), "must be `FieldsV1`");
    }
    errors.field_manager(format!("{path}.manager"), text("manager"));
    if text("subresource").len() > MAX_SUBRESOURCE {
        errors.too_long(format!("{path}.subresource"), MAX_SUBRESOURCE);
    }
}

fn coerce_below(
    node: &Node,
    value: &mut Value,
    place: &mut String,
    unknown: &mut Vec<String>,
) -> Result<(), MetaError> {
    let mut below = |step: &str, child: &Node, value: &mut Value, place: &mut String| {
        let length = place.len();
        place.push_str(step);
        if child.embedded_resource {
            coerce_embedded(value, place, unknown)?;
        }
        let result = coerce_below(child, value, place, unknown);
        place.truncate(length);
        result
    };
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                if let Some((child, step)) = node.below(key, "") {
                    let is_field = !place.is_empty() && !step.starts_with('[');
                    let step = if is_field { format!(".{step}") } else { step };
                    below(&step, child, field, place)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                below(&format!("[{index}]"), child, item, place)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_embedded(value: &mut Value, place: &str, unknown: &mut Vec<String>) -> Result<(), MetaError> {
    let Value::Object(fields) = value else { return Ok(()) };
    let step = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    for name in ["apiVersion", "kind"] {
        if let Some(other) = fields.get(name).filter(|value| !value.is_string()) {
            let bad = BadValue::from(other);
            return Err(MetaError(format!("{}: Invalid value: {bad}: must be a string", step(name))));
        }
    }
    if let Some(metadata) = fields.get_mut("metadata") {
        let place = step("metadata");
        let read = read(metadata, &place, unknown).map_err(|error| {
            MetaError(format!("{place}: Invalid value: {}: {error}", BadValue::from(&*metadata)))
        })?;
        *metadata = Value::Object(read);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bool,
    Int,
    Time,
    TextMap,
    TextList,
    Any,
    List(&'static Struct),
}

struct Struct {
    go: &'static str,
    fields: &'static [(&'static str, Shape)],
    /// Shown even when empty.
    always: &'static [&'static str],
}

const OWNER_REFERENCE: Struct = Struct {
    go: "OwnerReference",
    fields: &[
        ("apiVersion", Shape::Text),
        ("kind", Shape::Text),
        ("name", Shape::Text),
        ("uid", Shape::Text),
        ("controller", Shape::Bool),
        ("blockOwnerDeletion", Shape::Bool),
    ],
    always: &["apiVersion", "kind", "name", "uid"],
};

const MANAGED_FIELDS: Struct = Struct {
    go: "ManagedFieldsEntry",
    fields: &[
        ("manager", Shape::Text),
        ("operation", Shape::Text),
        ("apiVersion", Shape::Text),
        ("time", Shape::Time),
        ("fieldsType", Shape::Text),
        ("fieldsV1", Shape::Any),
        ("subresource", Shape::Text),
    ],
    always: &[],
};

const OBJECT_META: Struct = Struct {
    go: "ObjectMeta",
    fields: &[
        ("name", Shape::Text),
        ("generateName", Shape::Text),
        ("namespace", Shape::Text),
        ("selfLink", Shape::Text),
        ("uid", Shape::Text),
        ("resourceVersion", Shape::Text),
        ("generation", Shape::Int),
        ("creationTimestamp", Shape::Time),
        ("deletionTimestamp", Shape::Time),
        ("deletionGracePeriodSeconds", Shape::Int),
        ("labels", Shape::TextMap),
        ("annotations", Shape::TextMap),
        ("ownerReferences", Shape::List(&OWNER_REFERENCE)),
        ("finalizers", Shape::TextList),
        ("managedFields", Shape::List(&MANAGED_FIELDS)),
    ],
    always: &[],
};

fn read(metadata: &Value, place: &str, unknown: &mut Vec<String>) -> Result<Map<String, Value>, MetaError> {
    match metadata {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => read_struct(fields, &OBJECT_META, "", place, unknown),
        other => Err(MetaError(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            json_type(other)
        ))),
    }
}

fn read_struct(
    fields: &Map<String, Value>,
    kind: &'static Struct,
    within: &str,
    place: &str,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, MetaError> {
    let mut out = Map::new();
    for name in kind.always {
        out.insert((*name).into(), "".into());
    }
    for (key, value) in fields {
        let Some((_, shape)) = kind.fields.iter().find(|(name, _)| name == key) else {
            unknown.push(format!("{place}.{key}"));
            continue;
        };
        let field = format!("{within}{key}");
        let mismatch = |found: &Value, go: &str| {
            let found = match found {
                Value::Number(number) if go == "int64" => format!("number {number}"),
                other => json_type(other).to_owned(),
            };
            let go_kind = kind.go;
            Err(MetaError(format!(
                "json: cannot unmarshal {found} into Go struct field {go_kind}.{field} of type {go}"
            )))
        };
        let read = match (*shape, value) {
            (_, Value::Null) => continue,
            (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Any, _) => {
                value.clone()
            }
            (Shape::Int, Value::Number(number)) if number.is_i64() => value.clone(),
            (Shape::Time, Value::String(text)) => match Timestamp::parse_time(text) {
                Ok(time) => time.to_time().into(),
                Err(error) => return Err(MetaError(error.to_string())),
            },
            (Shape::TextMap, Value::Object(entries)) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    match value {
                        Value::String(_) => map.insert(key.clone(), value.clone()),
                        Value::Null => map.insert(key.clone(), "".into()),
                        other => return mismatch(other, "string"),
                    };
                }
                map.into()
            }
            (Shape::TextList, Value::Array(items)) => {
                if let Some(other) = items.iter().find(|item| !item.is_string() && !item.is_null()) {
                    return mismatch(other, "string");
                }
                items.iter().map(|item| if item.is_null() { "".into() } else { item.clone() }).collect()
            }
            (Shape::List(inner), Value::Array(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let empty = Map::new();
                    let fields = match item {
                        Value::Object(fields) => fields,
                        Value::Null => &empty,
                        other => return mismatch(other, &format!("v1.{}", inner.go)),
                    };
                    let place = format!("{place}.{key}[{index}]");
                    list.push(read_struct(fields, inner, &format!("{field}."), &place, unknown)?.into());
                }
                Value::Array(list)
            }
            (Shape::Text | Shape::Time, other) => return mismatch(other, "string"),
            (Shape::Bool, other) => return mismatch(other, "bool"),
            (Shape::Int, other) => return mismatch(other, "int64"),
            (Shape::TextMap, other) => return mismatch(other, "map[string]string"),
            (Shape::TextList, other) => return mismatch(other, "[]string"),
            (Shape::List(inner), other) => return mismatch(other, &format!("[]v1.{}", inner.go)),
        };
        let empty = match &read {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty() && !matches!(shape, Shape::Any),
            Value::Number(number) => key == "generation" && number.as_i64() == Some(0),
            _ => false,
        };
        if !empty {
            out.insert(key.clone(), read);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_should_have_a_domain_and_a_path() {
        for (name, expected) in [
            ("foo", Some("a domain-qualified finalizer name to avoid")),
            ("foo.example.com", Some("a domain-qualified finalizer name including a path (/) to avoid")),
            ("example.com/foo", None),
            ("kubernetes", None),
            ("orphan", None),
            ("foregroundDeletion", None),
        ] {
            let warnings = finalizer_warnings(&serde_json::json!({"metadata": {"finalizers": [name]}}));
            match (expected, warnings.as_slice()) {
                (None, []) => {}
                (Some(words), [warning]) if warning.contains(words) => {}
                _ => panic!("{name}: {warnings:?}"),
            }
        }
    }
}
