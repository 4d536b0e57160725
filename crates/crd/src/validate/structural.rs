//! Structural schemas: every place has a type, logic only narrows it.

use std::ops::{Deref, DerefMut};

use serde_json::Value;
use sternpost_meta::field::Errors;
use sternpost_schema::extension::{EMBEDDED_RESOURCE, INT_OR_STRING, PRESERVE_UNKNOWN_FIELDS};

use super::{children, field, is_plain, items};
use crate::{definition::text, pattern};

/// A keyword that keeps the schema from being structural at all, as upstream names it.
pub(super) fn unsupported(schema: &Value) -> Option<&'static str> {
    let keywords = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "ref"),
        ("definitions", "definitions"),
        ("dependencies", "dependencies"),
        ("patternProperties", "patternProperties"),
        ("additionalItems", "additionalItems"),
    ];
    let not_preserved =
        (schema.get(PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(false))).then_some(PRESERVE_UNKNOWN_FIELDS);
    let own = keywords.into_iter().find(|(keyword, _)| schema.get(keyword).is_some()).map(|(_, name)| name);
    let tuple = field(schema, "items").is_array().then_some("items");
    own.or(tuple).or(not_preserved).or_else(|| {
        let mut children = children(schema).filter(|(_, child)| !is_plain(child));
        children.find_map(|(_, child)| unsupported(child))
    })
}

/// What is wrong, sorted by its text as upstream sorts it.
pub(super) fn check(schema: &Value, path: &str) -> Errors {
    let mut found = Findings { errors: Errors::default(), left: pattern::MAX_WEIGHT };
    check_node(schema, Level::Root, path, &mut found);
    check_complete(schema, path, &mut found);
    let mut causes = found.errors.into_causes();
    causes.sort_by_key(|cause| format!("{}: {}", cause.field, cause.message));
    let mut sorted = Errors::default();
    for cause in causes {
        if let Some(reason) = cause.reason {
            sorted.push(reason, cause.field, &cause.message, None, "");
        }
    }
    sorted
}

/// What is wrong, and what the schema's patterns may still weigh.
struct Findings {
    errors: Errors,
    left: usize,
}

impl Deref for Findings {
    type Target = Errors;

    fn deref(&self) -> &Errors {
        &self.errors
    }
}

impl DerefMut for Findings {
    fn deref_mut(&mut self) -> &mut Errors {
        &mut self.errors
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

fn check_node(schema: &Value, level: Level, path: &str, errors: &mut Findings) {
    let kind = text(schema, "type");
    let is_set = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let object = schema.get("items").filter(|items| items.is_object());
    if kind == "array" && object.is_none() {
        errors.required(format!("{path}.items"), "must be specified");
    }
    if let Some(items) = object {
        check_node(items, Level::Item, &format!("{path}.items"), errors);
    }
    let properties = field(schema, "properties").as_object();
    for (name, child) in properties.into_iter().flatten().filter(|(_, child)| !is_plain(child)) {
        check_node(child, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    let additional = schema.get("additionalProperties");
    if let Some(child) = additional.filter(|additional| additional.is_object()) {
        check_node(child, Level::Field, &format!("{path}.additionalProperties"), errors);
    }
    check_type(schema, &kind, level, path, errors);
    if additional.is_some() && level == Level::Root {
        errors.forbidden(format!("{path}.additionalProperties"), "must not be used at the root");
    }
    if is_set(EMBEDDED_RESOURCE) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        if additional.is_some() {
            errors.forbidden(format!("{path}.additionalProperties"), detail);
        }
        if properties.is_none_or(serde_json::Map::is_empty) && !is_set(PRESERVE_UNKNOWN_FIELDS) {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            errors.required(format!("{path}.properties"), detail);
        }
    }
    for other in [PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE] {
        if is_set(INT_OR_STRING) && is_set(other) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(format!("{path}.{other}"), true, detail);
        }
    }
    if level == Level::Root || is_set(EMBEDDED_RESOURCE) {
        check_object_fields(field(schema, "properties"), level, path, errors);
    }
    check_pattern(schema, path, errors);
    check_logic(schema, level, path, errors);
}

fn check_type(schema: &Value, kind: &str, level: Level, path: &str, errors: &mut Findings) {
    let is_set = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let path = format!("{path}.type");
    if is_set(EMBEDDED_RESOURCE) && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            errors.required(&path, detail);
        } else {
            errors.invalid(&path, kind, detail);
        }
    } else if kind.is_empty() && !is_set(INT_OR_STRING) && !is_set(PRESERVE_UNKNOWN_FIELDS) {
        errors.required(
            &path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&path, kind, "must be object at the root");
    }
}

/// The fields that every object has, at the root and in embedded resources.
fn check_object_fields(properties: &Value, level: Level, path: &str, errors: &mut Findings) {
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(schema) = properties.get(name) else { continue };
        let kind = text(schema, "type");
        if kind != wanted {
            errors.invalid(format!("{path}.properties[{name}].type"), kind, &format!("must be {wanted}"));
        }
    }
    let Some(Value::Object(metadata)) = properties.get("metadata").filter(|_| level == Level::Root) else {
        return;
    };
    let own = metadata.keys().any(|key| !matches!(key.as_str(), "type" | "properties" | "default"));
    let fields = metadata.get("properties").and_then(Value::as_object);
    let others =
        fields.is_some_and(|fields| fields.keys().any(|name| name != "name" && name != "generateName"));
    if own || others {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(format!("{path}.properties[metadata]"), detail);
    }
}

fn check_pattern(schema: &Value, path: &str, errors: &mut Findings) {
    let text = text(schema, "pattern");
    if text.is_empty() {
        return;
    }
    if let Err(error) = pattern::Pattern::check(&text, &mut errors.left) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(format!("{path}.pattern"), text, &detail);
    }
}

/// Two ways of spelling int-or-string may name types within logic.
fn check_logic(schema: &Value, level: Level, path: &str, errors: &mut Findings) {
    let (skip_any, skip_first) =
        (is_int_or_string(schema), items(schema, "allOf").first().is_some_and(is_int_or_string));
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, member) in items(schema, name).iter().enumerate() {
            let path = format!("{path}.{name}[{index}]");
            let types = if name == "anyOf" && skip_any {
                Types::Allowed
            } else if name == "allOf" && index == 0 && skip_first {
                Types::InAnyOf
            } else {
                Types::Forbidden
            };
            check_nested(member, types, level, &path, errors);
        }
    }
    if let Some(not) = schema.get("not") {
        check_nested(not, Types::Forbidden, level, &format!("{path}.not"), errors);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Types {
    Allowed,
    InAnyOf,
    Forbidden,
}

/// `anyOf: [{type: integer}, {type: string}]`, in this order and with nothing else that counts.
fn is_int_or_string(schema: &Value) -> bool {
    let only = |member: &Value, kind: &str| {
        let counts = |(key, value): (&String, &Value)| key == "type" || *value != false;
        let fields = member.as_object().into_iter().flatten().filter(|field| counts(*field)).count();
        fields == 1 && text(member, "type") == kind
    };
    matches!(items(schema, "anyOf"), [first, second] if only(first, "integer") && only(second, "string"))
}

fn check_nested(schema: &Value, types: Types, level: Level, path: &str, errors: &mut Findings) {
    let mut forbid = |names: &[&str], detail: &str| {
        for name in names.iter().filter(|name| schema.get(name).is_some()) {
            errors.forbidden(format!("{path}.{name}"), detail);
        }
    };
    let texts = ["title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"];
    forbid(&texts, "must be empty to be structural");
    if types != Types::Allowed {
        forbid(&["type"], "must be empty to be structural");
    }
    forbid(
        &["nullable", PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE, INT_OR_STRING],
        "must be false to be structural",
    );
    forbid(
        &["default", "x-kubernetes-list-type", "x-kubernetes-map-type"],
        "must be undefined to be structural",
    );
    // Forbidding other properties is not seen by upstream here.
    if schema.get("additionalProperties").is_some_and(|additional| *additional != false) {
        forbid(&["additionalProperties"], "must be undefined to be structural");
    }
    if level == Level::Root && field(schema, "properties").get("metadata").is_some() {
        errors.forbidden(format!("{path}.properties[metadata]"), "must not be specified in a nested context");
    }
    check_pattern(schema, path, errors);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check_nested(items, Types::Forbidden, Level::Item, &format!("{path}.items"), errors);
    }
    for (name, child) in field(schema, "properties").as_object().into_iter().flatten() {
        check_nested(child, Types::Forbidden, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, member) in items(schema, name).iter().enumerate() {
            let inner =
                if name == "anyOf" && types == Types::InAnyOf { Types::Allowed } else { Types::Forbidden };
            check_nested(member, inner, level, &format!("{path}.{name}[{index}]"), errors);
        }
    }
    if let Some(not) = schema.get("not") {
        check_nested(not, Types::Forbidden, level, &format!("{path}.not"), errors);
    }
}

/// What the logic at the root speaks of must be declared. Upstream looks at no other place.
fn check_complete(schema: &Value, path: &str, errors: &mut Findings) {
    check_declared(schema, schema, path, path, errors);
}

fn check_declared(nested: &Value, declared: &Value, at: &str, path: &str, errors: &mut Findings) {
    let is_root = std::ptr::eq(nested, declared);
    if !is_root {
        for (name, child) in field(nested, "properties").as_object().into_iter().flatten() {
            let at = format!("{at}.properties[{name}]");
            match field(declared, "properties").get(name) {
                Some(schema) => {
                    check_declared(child, schema, &at, &format!("{path}.properties[{name}]"), errors);
                }
                None => {
                    errors.required(
                        format!("{path}.properties[{name}]"),
                        &format!("because it is defined in {at}"),
                    );
                }
            }
        }
        if let Some(items) = nested.get("items").filter(|items| items.is_object()) {
            let at = format!("{at}.items");
            match declared.get("items").filter(|items| items.is_object()) {
                Some(schema) => check_declared(items, schema, &at, &format!("{path}.items"), errors),
                None => errors.required(format!("{path}.items"), &format!("because it is defined in {at}")),
            }
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, member) in items(nested, name).iter().enumerate() {
            check_declared(member, declared, &format!("{at}.{name}[{index}]"), path, errors);
        }
    }
    if let Some(not) = nested.get("not") {
        check_declared(not, declared, &format!("{at}.not"), path, errors);
    }
}
