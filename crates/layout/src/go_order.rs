//! JSON with fields in the order of Go's types, which is mostly that of their protobuf numbers.

use serde_json::{Map, Value};
use sternpost_builtin::{FieldType, message};
use sternpost_golang::json::go_json;

/// Where the order of the fields is another than that of the numbers, or the message is not in the catalogue.
const ORDERS: &[(&str, &[(&str, &str)])] = &[
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec",
        &[
            ("group", ""),
            ("version", ""),
            ("names", "CustomResourceDefinitionNames"),
            ("scope", ""),
            ("validation", "CustomResourceValidation"),
            ("subresources", "CustomResourceSubresources"),
            ("versions", "CustomResourceDefinitionVersion"),
            ("additionalPrinterColumns", "CustomResourceColumnDefinition"),
            ("selectableFields", "SelectableField"),
            ("conversion", "CustomResourceConversion"),
            ("preserveUnknownFields", ""),
        ],
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion",
        &[
            ("name", ""),
            ("served", ""),
            ("storage", ""),
            ("deprecated", ""),
            ("deprecationWarning", ""),
            ("schema", "CustomResourceValidation"),
            ("subresources", "CustomResourceSubresources"),
            ("additionalPrinterColumns", "CustomResourceColumnDefinition"),
            ("selectableFields", "SelectableField"),
        ],
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion",
        &[("strategy", ""), ("webhookClientConfig", "WebhookClientConfig"), ("conversionReviewVersions", "")],
    ),
];

/// Messages that are a schema, or several, or something else, in JSON.
const SCHEMA_OR_OTHER: [&str; 3] =
    ["JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"];

/// An APIService or a CustomResourceDefinition, by its group.
pub fn write(group: &str, object: &Value) -> String {
    let message = match group {
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        _ => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    };
    let mut out = String::new();
    let Value::Object(fields) = object else { return go_json(object) };
    out.push('{');
    for name in ["kind", "apiVersion"] {
        if let Some(value) = fields.get(name) {
            member(&mut out, name, |out| out.push_str(&go_json(value)));
        }
    }
    let rest: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    members(&mut out, message, &rest);
    out.push('}');
    out
}

fn value(out: &mut String, message: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            out.push('{');
            members(out, message, fields);
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                self::value(out, message, item);
            }
            out.push(']');
        }
        other => out.push_str(&go_json(other)),
    }
}

/// The fields of a message in their order, then what the message does not name: the keys of a map, or of raw JSON.
fn members(out: &mut String, message: &str, fields: &Map<String, Value>) {
    let order = order(message);
    let is_named = |name: &str| order.iter().any(|(known, ..)| known == name);
    for (name, message, is_map) in &order {
        let Some(found) = fields.get(name) else { continue };
        member(out, name, |out| match (found, is_map) {
            (Value::Object(entries), true) => {
                out.push('{');
                for (key, entry) in entries {
                    member(out, key, |out| value(out, message, entry));
                }
                out.push('}');
            }
            _ => value(out, message, found),
        });
    }
    for (name, found) in fields.iter().filter(|(name, _)| !is_named(name)) {
        member(out, name, |out| out.push_str(&go_json(found)));
    }
}

fn member(out: &mut String, name: &str, value: impl FnOnce(&mut String)) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push_str(&go_json(&Value::from(name)));
    out.push(':');
    value(out);
}

/// Names of the fields in order, each with the message it holds, and whether that is in a map.
fn order(name: &str) -> Vec<(String, String, bool)> {
    let (package, short) = name.rsplit_once('.').unwrap_or_default();
    if SCHEMA_OR_OTHER.contains(&short) {
        return order(&format!("{package}.JSONSchemaProps"));
    }
    if let Some((_, fields)) = ORDERS.iter().find(|(known, _)| *known == name) {
        let field =
            |(name, message): &(&str, &str)| ((*name).to_owned(), format!("{package}.{message}"), false);
        return fields.iter().map(field).collect();
    }
    // Raw JSON has no fields of ours, whatever its keys are called.
    if matches!(short, "JSON" | "FieldsV1") {
        return Vec::new();
    }
    let Some(message) = message(name) else { return Vec::new() };
    let field = |field: &sternpost_builtin::Field| {
        let held = match &field.kind {
            FieldType::Message(held) => held.to_string(),
            _ => String::new(),
        };
        (field.json_name.to_string(), held, field.label == sternpost_builtin::Label::Map)
    };
    message.fields.iter().map(field).collect()
}
