//! Rules for each node of a schema, structural or not.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors};
use sternpost_schema::{
    Type,
    extension::{
        EMBEDDED_RESOURCE, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE_UNKNOWN_FIELDS, VALIDATIONS,
    },
};

use super::{Step, children, field, is_plain, items};
use crate::{definition::text, rules};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

pub(super) fn check(schema: &Value, path: &str, errors: &mut Errors) {
    check_node(schema, Meta::Object, path, errors);
    for own in ["metadata", "kind", "apiVersion"] {
        if let Some(schema) = field(schema, "properties").get(own) {
            check_no_default(schema, own, &format!("{path}.properties[{own}]"), errors);
        }
    }
}

/// What the server fills itself has no defaults.
fn check_no_default(schema: &Value, own: &str, path: &str, errors: &mut Errors) {
    if schema.get("default").is_some() {
        errors.forbidden(format!("{path}.default"), &format!("must not be set in top-level {own}"));
    }
    for (step, child) in children(schema) {
        check_no_default(child, own, &format!("{path}{step}"), errors);
    }
}

/// Where a node stands relative to metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meta {
    /// An object as a whole: a field `metadata` is metadata.
    Object,
    Outside,
    Inside,
}

fn check_node(schema: &Value, meta: Meta, path: &str, errors: &mut Errors) {
    check_forbidden(schema, path, errors);
    let is_set = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if is_set("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(format!("{path}.uniqueItems"), detail);
    }
    let additional = schema.get("additionalProperties");
    if additional.is_some_and(|additional| *additional != true) && schema.get("properties").is_some() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(format!("{path}.additionalProperties"), detail);
    }
    if is_set(EMBEDDED_RESOURCE) && meta == Meta::Inside {
        errors.forbidden(format!("{path}.{EMBEDDED_RESOURCE}"), "must not be used inside of resource meta");
    }
    let is_object = meta == Meta::Object || is_set(EMBEDDED_RESOURCE);
    for (step, child) in children(schema).filter(|(_, child)| !is_plain(child)) {
        let inside = meta == Meta::Inside || (is_object && step == Step::Property("metadata"));
        let meta = if inside { Meta::Inside } else { Meta::Outside };
        check_node(child, meta, &format!("{path}{step}"), errors);
    }
    if schema.get(PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(false)) {
        errors.invalid(format!("{path}.{PRESERVE_UNKNOWN_FIELDS}"), false, "must be true or undefined");
    }
    check_map_type(schema, path, errors);
    check_list_type(schema, path, errors);
    check_rules(schema, path, errors);
}

fn check_forbidden(schema: &Value, path: &str, errors: &mut Errors) {
    for keyword in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(keyword).is_some() {
            errors.forbidden(format!("{path}.{keyword}"), &format!("{keyword} is not supported"));
        }
    }
    let kind = text(schema, "type");
    if !kind.is_empty() && Type::parse(&kind).is_none() {
        errors.not_supported(format!("{path}.type"), kind.as_str(), TYPES);
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(format!("{path}.type"), detail);
    }
    if field(schema, "items").is_array() {
        errors.forbidden(format!("{path}.items"), "items must be a schema object and not an array");
    }
}

/// Required if there is no type, invalid if there is another.
fn wrong_type(schema: &Value, path: &str, wanted: &str, keyword: &str, errors: &mut Errors) {
    let kind = text(schema, "type");
    let detail = format!("must be {wanted} if {keyword} is specified");
    if kind.is_empty() {
        errors.required(format!("{path}.type"), &detail);
    } else if kind != wanted {
        errors.invalid(format!("{path}.type"), kind, &detail);
    }
}

fn check_map_type(schema: &Value, path: &str, errors: &mut Errors) {
    let Some(map_type) = schema.get(MAP_TYPE).and_then(Value::as_str) else { return };
    wrong_type(schema, path, "object", MAP_TYPE, errors);
    if !matches!(map_type, "atomic" | "granular") {
        errors.not_supported(format!("{path}.{MAP_TYPE}"), map_type, &["atomic", "granular"]);
    }
}

fn check_list_type(schema: &Value, path: &str, errors: &mut Errors) {
    let list_type = schema.get(LIST_TYPE).and_then(Value::as_str);
    let keys: Vec<&str> = items(schema, LIST_MAP_KEYS).iter().filter_map(Value::as_str).collect();
    let item = schema.get("items").filter(|items| items.is_object());
    if let Some(list_type) = list_type {
        wrong_type(schema, path, "array", LIST_TYPE, errors);
        if !matches!(list_type, "atomic" | "set" | "map") {
            errors.not_supported(format!("{path}.{LIST_TYPE}"), list_type, &["atomic", "set", "map"]);
        }
    }
    if let (Some("set"), Some(item)) = (list_type, item) {
        check_set_items(item, path, errors);
    }
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.required(format!("{path}.{LIST_TYPE}"), detail),
            Some(other) => errors.invalid(format!("{path}.{LIST_TYPE}"), other, detail),
        }
    }
    if list_type == Some("map") {
        check_keys(schema, &keys, item, path, errors);
    }
    if let (Some(list_type @ ("set" | "map")), Some(item)) = (list_type, item)
        && item.get("nullable") == Some(&Value::Bool(true))
    {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(format!("{path}.items.nullable"), &detail);
    }
}

/// Items of a set are told apart as wholes.
fn check_set_items(item: &Value, path: &str, errors: &mut Errors) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = item.get(LIST_TYPE).and_then(Value::as_str);
    match text(item, "type").as_str() {
        "array" if list_type.is_some_and(|kind| kind != "atomic") => {
            errors.invalid(format!("{path}.items.{LIST_TYPE}"), list_type.unwrap_or_default(), detail);
        }
        "object" if item.get(MAP_TYPE).and_then(Value::as_str) != Some("atomic") => {
            errors.invalid(format!("{path}.items.{MAP_TYPE}"), BadValue::Plain("null".into()), detail);
        }
        _ => {}
    }
}

fn check_keys(schema: &Value, keys: &[&str], item: Option<&Value>, path: &str, errors: &mut Errors) {
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.required(format!("{path}.{LIST_MAP_KEYS}"), detail);
    }
    let Some(item) = item else {
        errors.required(format!("{path}.items"), "must have a schema if x-kubernetes-list-type is map");
        return;
    };
    let kind = text(item, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(format!("{path}.items.type"), kind, detail);
        return;
    }
    let shown = field(schema, LIST_MAP_KEYS);
    let properties = field(item, "properties");
    for key in keys {
        let Some(property) = properties.get(key) else {
            let detail = "entries must all be names of item properties";
            errors.invalid(format!("{path}.{LIST_MAP_KEYS}"), shown, detail);
            continue;
        };
        if matches!(text(property, "type").as_str(), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            // Upstream shows the type of the item, not of the key.
            errors.invalid(format!("{path}.items.properties[{key}].type"), kind.as_str(), detail);
        }
    }
    let mut seen = HashSet::new();
    if !keys.iter().all(|key| seen.insert(*key)) {
        errors.invalid(format!("{path}.{LIST_MAP_KEYS}"), shown, "must not contain duplicate entries");
    }
    let required: HashSet<&str> = items(item, "required").iter().filter_map(Value::as_str).collect();
    for key in keys {
        let Some(property) = properties.get(key) else { continue };
        if property.get("nullable") == Some(&Value::Bool(true)) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(format!("{path}.items.properties[{key}].nullable"), detail);
        }
        if !required.contains(key) && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(format!("{path}.items.properties[{key}].default"), detail);
        }
    }
}

fn check_rules(schema: &Value, path: &str, errors: &mut Errors) {
    for (index, rule) in items(schema, VALIDATIONS).iter().enumerate() {
        let path = format!("{path}.{VALIDATIONS}[{index}]");
        let given = |name: &str| rule.get(name).and_then(Value::as_str);
        let body = given("rule").unwrap_or_default().trim();
        let has_break = |text: &str| text.contains(['\n', '\r']);
        if body.is_empty() {
            errors.required(format!("{path}.rule"), "rule is not specified");
        }
        match given("message") {
            Some(message) if message.trim().is_empty() => {
                errors.invalid(format!("{path}.message"), message, "must be non-empty if specified");
            }
            Some(message) if has_break(message.trim()) => {
                errors.invalid(format!("{path}.message"), message, "must not contain line breaks");
            }
            None if has_break(body) => {
                let detail = "message must be specified if rule contains line breaks";
                errors.required(format!("{path}.message"), detail);
            }
            _ => {}
        }
        if given("messageExpression").is_some_and(|text| text.trim().is_empty()) {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(format!("{path}.messageExpression"), detail);
        }
        if let Some(reason) = given("reason").filter(|reason| !REASONS.contains(reason)) {
            errors.not_supported(format!("{path}.reason"), reason, REASONS);
        }
        if let Some(field_path) = given("fieldPath") {
            let at = format!("{path}.fieldPath");
            if field_path.trim().is_empty() {
                errors.invalid(&at, field_path, "must be non-empty if specified");
            }
            if has_break(field_path) {
                errors.invalid(&at, field_path, "must not contain line breaks");
            }
            if rules::path::resolve(schema, field_path).is_none() {
                errors.invalid(&at, field_path, "must be a valid path");
            }
        }
    }
}
