//! Rules for metadata that hold wherever there is some: of an object, and of one embedded in another.

use std::sync::OnceLock;

use serde_json::Value;

use crate::{
    field::{BadValue, Errors, Path},
    format,
};

/// Checks `ownerReferences` of the metadata at `root`.
pub fn check_owner_references(metadata: &Value, root: Path<'_>, errors: &mut Errors) {
    let path = root.child("ownerReferences");
    let mut controller: Option<String> = None;
    let owners = items(metadata, "ownerReferences");
    let printed = OnceLock::new();
    for owner in owners {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        // Of more than one slash Go makes no version at all.
        let version = match api_version.split_once('/') {
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
            None => api_version,
        };
        if version.is_empty() {
            errors.invalid(path.child("apiVersion"), api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.invalid(path.child(field), "", "must not be empty");
            }
        }
        if (api_version, text("kind")) == ("v1", "Event") {
            let shown = BadValue::Plain(as_go_prints(owner));
            errors.invalid(path, shown, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                // Each prints all of them.
                Some(_) if errors.is_full() => {}
                Some(first) => errors.invalid(
                    path,
                    BadValue::Plain(printed.get_or_init(|| all_as_go_prints(owners)).clone()),
                    &format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"),
                ),
                None => controller = Some(this),
            }
        }
    }
}

/// Checks `finalizers` of the metadata at `root`.
pub fn check_finalizers(metadata: &Value, root: Path<'_>, errors: &mut Errors) {
    let path = root.child("finalizers");
    let names: Vec<&str> = items(metadata, "finalizers").iter().filter_map(Value::as_str).collect();
    for name in &names {
        for problem in format::qualified_name(name) {
            errors.invalid(path, *name, &problem);
        }
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let list = BadValue::Json(metadata.get("finalizers").cloned().unwrap_or_default());
        errors.invalid(path, list, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn items<'a>(metadata: &'a Value, field: &str) -> &'a [Value] {
    metadata.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn all_as_go_prints(owners: &[Value]) -> String {
    format!("[{}]", owners.iter().map(as_go_prints).collect::<Vec<_>>().join(","))
}

/// JSON with the fields in the order of Go's struct.
fn as_go_prints(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields = fields.iter().filter_map(|field| Some((field, owner.get(field)?)));
    let fields: Vec<String> = fields
        .filter(|(_, value)| !value.is_null())
        .map(|(field, value)| format!("\"{field}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_are_printed_as_go_prints_them() {
        let owner = json!({"apiVersion": "v1", "blockOwnerDeletion": null, "controller": true, "kind": "Event",
            "name": "a", "uid": "u"});
        let mut errors = Errors::default();
        check_owner_references(&json!({"ownerReferences": [owner]}), Path::new("spec.metadata"), &mut errors);
        let told: Vec<String> =
            errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let expected = r#"spec.metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"a","uid":"u","controller":true}: /v1, Kind=Event is disallowed from being an owner"#;
        assert_eq!(told, [expected]);
    }
}
