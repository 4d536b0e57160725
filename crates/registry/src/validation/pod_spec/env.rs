//! Environment variables of a container.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{Problems, config_key, dns_label, dns_subdomain, env_name},
};

use super::{
    field_ref::{Reader, validate_field_ref, validate_resource_ref},
    paths::validate_no_backsteps,
};
use crate::object::Fields;

pub fn validate_env(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("env");
    for (index, variable) in container.items("env").iter().enumerate() {
        let path = list.index(index);
        let name = variable.text("name");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else {
            all_invalid(name, &env_name(name), &path.child("name"), errors);
        }
        if let Some(source) = variable.get_field("valueFrom") {
            validate_value_from(source, variable.text("value"), &path.child("valueFrom"), errors);
        }
    }
}

fn validate_value_from(source: &Value, value: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut sources = 0;
    if let Some(reference) = source.get_field("fieldRef") {
        sources += 1;
        validate_field_ref(reference, Reader::Environment, &path.child("fieldRef"), errors);
    }
    if let Some(reference) = source.get_field("resourceFieldRef") {
        sources += 1;
        validate_resource_ref(reference, Reader::Environment, &path.child("resourceFieldRef"), errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = source.get_field(name) {
            sources += 1;
            validate_key_ref(reference, &path.child(name), errors);
        }
    }
    if let Some(reference) = source.get_field("fileKeyRef") {
        sources += 1;
        validate_file_key_ref(reference, &path.child("fileKeyRef"), errors);
    }
    if sources == 0 {
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn validate_key_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, key) = (reference.text("name"), reference.text("key"));
    all_invalid(name, &dns_subdomain(name), &path.child("name"), errors);
    if key.is_empty() {
        errors.required(path.child("key"), "");
    } else {
        all_invalid(key, &config_key(key), &path.child("key"), errors);
    }
}

fn validate_file_key_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let key = reference.text("key");
    if key.is_empty() {
        errors.required(path.child("key"), "");
    } else {
        all_invalid(key, &env_name(key), &path.child("key"), errors);
    }
    let volume = reference.text("volumeName");
    if volume.is_empty() {
        errors.required(path.child("volumeName"), "");
    } else {
        all_invalid(volume, &dns_label(volume), &path.child("volumeName"), errors);
    }
    let file = reference.text("path");
    if file.is_empty() {
        errors.required(path.child("path"), "");
    }
    validate_no_backsteps(file, &path.child("path"), errors);
}

pub fn validate_env_from(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("envFrom");
    for (index, from) in container.items("envFrom").iter().enumerate() {
        let path = list.index(index);
        let prefix = from.text("prefix");
        if !prefix.is_empty() {
            all_invalid(prefix, &env_name(prefix), &path.child("prefix"), errors);
        }
        let mut sources = 0;
        for source in ["configMapRef", "secretRef"] {
            let Some(reference) = from.get_field(source) else { continue };
            sources += 1;
            let path = path.child(source);
            let name = reference.text("name");
            if name.is_empty() {
                errors.required(path.child("name"), "");
            } else {
                all_invalid(name, &name_or_prefix(name), &path.child("name"), errors);
            }
        }
        // Upstream reports these for the list, not for the entry.
        if sources == 0 {
            errors.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if sources > 1 {
            errors.invalid(list, "", "may not have more than one field specified at a time");
        }
    }
}

/// References from `fileKeyRef` to volumes; the last check of a spec.
pub fn validate_file_key_volumes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (at_container, container) in spec.items(list).iter().enumerate() {
            for (at_variable, variable) in container.items("env").iter().enumerate() {
                let reference = variable.field("valueFrom").field("fileKeyRef");
                let name = reference.text("volumeName");
                if reference.is_null() {
                    continue;
                }
                let containers = path.child(list);
                let container = containers.index(at_container);
                let env = container.child("env");
                let variable = env.index(at_variable);
                let source = variable.child("valueFrom");
                let reference = source.child("fileKeyRef");
                let path = reference.child("volumeName");
                match spec.items("volumes").iter().rfind(|volume| volume.text("name") == name) {
                    None => errors.not_found(path, name),
                    Some(volume) if !volume.has("emptyDir") => {
                        errors.invalid(path, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// A name, or the beginning of one: it may end in a dash.
fn name_or_prefix(name: &str) -> Problems {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => dns_subdomain(&format!("{rest}a")),
        _ => dns_subdomain(name),
    }
}

fn all_invalid(value: &str, problems: &Problems, path: &Path<'_>, errors: &mut Errors) {
    for problem in problems {
        errors.invalid(path, value, problem);
    }
}
