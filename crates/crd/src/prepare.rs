//! What happens to a definition before it is validated: defaults and the server's own fields.

use serde_json::{Value, json};

use crate::{
    definition::{text, texts},
    node::{Node, Purpose},
    object,
    pattern::Patterns,
    props::{self, ReadError},
};

/// Reads the schemas of a definition as Go does, in place; the rest was typed before.
/// Returns complaints about unknown keywords, for `fieldValidation`.
pub fn read_schemas(crd: &mut Value) -> Result<Vec<String>, ReadError> {
    let mut complaints = Vec::new();
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for (index, version) in versions.into_iter().flatten().enumerate() {
        let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") else { continue };
        if schema.is_null() {
            continue;
        }
        let read = props::read(schema, &format!("spec.versions[{index}].schema.openAPIV3Schema"))?;
        *schema = read.schema;
        complaints.extend(read.complaints);
    }
    Ok(complaints)
}

/// Defaults of a definition, on every write and read.
pub fn default(crd: &mut Value) {
    let storage = storage_version(crd);
    if let Value::Object(fields) = crd {
        let spec = fields.entry("spec").or_insert(Value::Null);
        if spec.is_null() {
            *spec = json!({});
        }
    }
    if let Some(Value::Object(spec)) = crd.get_mut("spec") {
        let conversion = spec.entry("conversion").or_insert(Value::Null);
        if conversion.is_null() {
            *conversion = json!({"strategy": "None"});
        }
        if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
            let port = service.entry("port").or_insert(Value::Null);
            if port.is_null() {
                *port = 443.into();
            }
        }
        for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
                settle_defaults(schema);
            }
        }
        if let Some(Value::Object(names)) = spec.get_mut("names") {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_empty = |names: &serde_json::Map<String, Value>, name: &str| {
                names.get(name).and_then(Value::as_str).is_none_or(str::is_empty)
            };
            if is_empty(names, "singular") && !kind.is_empty() {
                names.insert("singular".into(), kind.to_lowercase().into());
            }
            if is_empty(names, "listKind") && !kind.is_empty() {
                names.insert("listKind".into(), format!("{kind}List").into());
            }
        }
    }
    if let (Some(storage), Some(Value::Object(status))) = (storage, crd.get_mut("status")) {
        let stored = status.entry("storedVersions").or_insert(Value::Null);
        if stored.as_array().is_none_or(Vec::is_empty) {
            *stored = json!([storage]);
        }
    }
}

/// A new definition: its status is the server's.
pub fn create(crd: &mut Value) {
    let stored = storage_version(crd).map_or(Value::Null, |name| json!([name]));
    if let Value::Object(fields) = crd {
        let names = json!({"plural": "", "kind": ""});
        fields.insert(
            "status".into(),
            json!({"acceptedNames": names, "conditions": null, "storedVersions": stored}),
        );
    }
}

/// A changed definition: its status stays, but for a new storage version.
pub fn update(crd: &mut Value, old: &Value) {
    let mut status = old.get("status").cloned().unwrap_or_default();
    if let (Some(storage), Value::Object(fields)) = (storage_version(crd), &mut status) {
        let mut stored: Vec<String> = texts(&Value::Object(fields.clone()), "storedVersions");
        if !stored.contains(&storage) {
            stored.push(storage);
        }
        fields.insert("storedVersions".into(), stored.into());
    }
    if let Value::Object(fields) = crd {
        fields.insert("status".into(), status);
    }
}

/// A changed status: nothing else changes.
pub fn update_status(crd: &mut Value, old: &Value) {
    if let (Value::Object(fields), Some(spec)) = (crd, old.get("spec")) {
        fields.insert("spec".into(), spec.clone());
    }
}

/// Metadata of objects within defaults gets its type.
fn settle_defaults(schema: &mut Value) {
    let settled = schema.get("default").filter(|default| default.is_object() || default.is_array()).and_then(
        |default| {
            let node = Node::compile(schema, Purpose::Defaults, &Patterns::default());
            object::coerce_default(&node, default).ok().filter(|settled| settled != default)
        },
    );
    let Value::Object(fields) = schema else { return };
    if let Some(settled) = settled {
        fields.insert("default".into(), settled);
    }
    for (keyword, value) in fields.iter_mut() {
        match (keyword.as_str(), value) {
            ("items" | "additionalProperties", child) => settle_defaults(child),
            ("properties", Value::Object(children)) => children.values_mut().for_each(settle_defaults),
            _ => {}
        }
    }
}

fn storage_version(crd: &Value) -> Option<String> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array)?;
    let is_storage = |version: &&Value| version.get("storage").and_then(Value::as_bool).unwrap_or_default();
    versions.iter().find(is_storage).map(|version| text(version, "name"))
}
