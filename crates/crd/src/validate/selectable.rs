//! `selectableFields`: simple paths to scalars of the schema.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::field::Errors;

use crate::definition::text;

/// Fields that one version can be selected by.
pub const MAX_FIELDS: usize = 8;

pub(super) fn check(fields: &[Value], schema: Option<&Value>, path: &str, errors: &mut Errors) {
    if fields.len() > MAX_FIELDS {
        errors.too_many(path, fields.len(), MAX_FIELDS);
    }
    let mut seen: HashSet<String> = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = format!("{path}[{index}].jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.required(path, "");
            continue;
        }
        let steps = match steps(&json_path) {
            Ok(steps) => steps,
            Err(problem) => {
                errors.invalid(path, json_path.as_str(), &format!("is an invalid path: {problem}"));
                continue;
            }
        };
        let Some(found) = steps.iter().try_fold(schema.unwrap_or(&Value::Null), below) else {
            errors.invalid(path, json_path.as_str(), "is an invalid path: does not refer to a valid field");
            continue;
        };
        if steps.first() == Some(&"metadata") {
            errors.invalid(&path, json_path.as_str(), "must not point to fields in metadata");
        }
        if !matches!(text(found, "type").as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&path, json_path.as_str(), detail);
        }
        if seen.contains(&json_path) {
            errors.duplicate(&path, json_path.as_str());
        } else {
            seen.insert(json_path);
        }
    }
}

fn below<'a>(schema: &'a Value, step: &&str) -> Option<&'a Value> {
    let additional = || schema.get("additionalProperties").filter(|value| value.is_object());
    schema.get("properties").and_then(|properties| properties.get(*step)).or_else(additional)
}

fn steps(path: &str) -> Result<Vec<&str>, String> {
    let Some(rest) = path.strip_prefix('.') else {
        if path.starts_with('[') {
            return Err("array notation is not allowed".into());
        }
        let token = path.split(['.', '[']).next().unwrap_or(path);
        return Err(format!("expected [ or . but got: {token}"));
    };
    if path.contains('[') {
        return Err("array notation is not allowed".into());
    }
    if rest.is_empty() || rest.ends_with('.') {
        return Err("unexpected end of JSON path".into());
    }
    Ok(rest.split('.').collect())
}
