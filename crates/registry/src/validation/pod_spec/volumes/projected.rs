//! Volumes filled from other objects: secrets, config maps, the pod itself.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::Volume;
use crate::{
    object::Fields,
    validation::{
        form::not_empty,
        pod_spec::{
            field_ref::{Reader, validate_field_ref, validate_resource_ref},
            paths::{validate_file_mode, validate_non_reserved},
        },
    },
};

const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

pub fn secret(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("secretName"), path.child("secretName"), errors);
    validate_file_mode(source.int("defaultMode"), &path.child("defaultMode"), errors);
    validate_items(source, &path, errors);
}

pub fn config_map(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("name"), path.child("name"), errors);
    validate_file_mode(source.int("defaultMode"), &path.child("defaultMode"), errors);
    validate_items(source, &path, errors);
}

pub fn downward_api(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    validate_file_mode(source.int("defaultMode"), &path.child("defaultMode"), errors);
    for file in source.items("items") {
        validate_downward_file(file, &path, errors);
    }
}

pub fn projected(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    const CONFLICT: &str = "conflicting duplicate paths";
    validate_file_mode(source.int("defaultMode"), &path.child("defaultMode"), errors);
    let mut files = BTreeSet::new();
    let list = path.child("sources");
    for (index, source) in source.items("sources").iter().enumerate() {
        let at = list.index(index);
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let Some(source) = source.get_field(kind) else { continue };
            kinds += 1;
            let at = at.child(kind);
            let name = source.text("name");
            not_empty(name, at.child("name"), errors);
            for (index, item) in source.items("items").iter().enumerate() {
                validate_key_to_path(item, &at.child("items").index(index), errors);
                let file = item.text("path");
                if !file.is_empty() && !files.insert(file) {
                    errors.invalid(path, name, CONFLICT);
                }
            }
        }
        if let Some(source) = source.get_field("downwardAPI") {
            kinds += 1;
            for item in source.items("items") {
                validate_downward_file(item, &at.child("downwardAPI"), errors);
                let file = item.text("path");
                if !file.is_empty() && !files.insert(file) {
                    errors.invalid(path, file, CONFLICT);
                }
            }
        }
        if let Some(token) = source.get_field("serviceAccountToken") {
            kinds += 1;
            validate_token(token, &at.child("serviceAccountToken"), &path, volume, errors);
        }
        if kinds > 1 {
            errors.forbidden(at, "may not specify more than 1 volume type per source");
        }
    }
}

/// Upstream reports the token's path for the volume.
fn validate_token(
    token: &Value,
    path: &Path<'_>,
    projected: &Path<'_>,
    volume: &Volume<'_>,
    errors: &mut Errors,
) {
    let seconds = token.int("expirationSeconds").unwrap_or_default();
    if seconds < MIN_TOKEN_SECONDS {
        let problem = "may not specify a duration less than 10 minutes";
        errors.invalid(path.child("expirationSeconds"), seconds, problem);
    }
    if seconds > MAX_TOKEN_SECONDS {
        let problem = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(path.child("expirationSeconds"), seconds, problem);
    }
    let file = token.text("path");
    if file.is_empty() {
        errors.required(projected.child("path"), "");
    } else if !volume.ratchet.token_path {
        validate_non_reserved(file, &projected.child("path"), errors);
    }
}

fn validate_items(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, item) in source.items("items").iter().enumerate() {
        validate_key_to_path(item, &path.child("items").index(index), errors);
    }
}

fn validate_key_to_path(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    not_empty(item.text("key"), path.child("key"), errors);
    not_empty(item.text("path"), path.child("path"), errors);
    validate_non_reserved(item.text("path"), &path.child("path"), errors);
    validate_file_mode(item.int("mode"), &path.child("mode"), errors);
}

/// `path` is that of the source: upstream does not say which item it was.
fn validate_downward_file(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    not_empty(item.text("path"), path.child("path"), errors);
    validate_non_reserved(item.text("path"), &path.child("path"), errors);
    match (item.get_field("fieldRef"), item.get_field("resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_ref(field, Reader::Volume, &path.child("fieldRef"), errors);
            if resource.is_some() {
                let problem = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", problem);
            }
        }
        (None, Some(resource)) => {
            validate_resource_ref(resource, Reader::Volume, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_file_mode(item.int("mode"), &path.child("mode"), errors);
}
