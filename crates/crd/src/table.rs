//! Custom objects as rows: the columns of a version and the cells of an object.

use serde_json::{Value, json};
use sternpost_golang::{json::go_json, time::Timestamp};
use sternpost_meta::age::human_duration;

use crate::{definition::Version, number};

/// What a column tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
}

/// What upstream says of the columns it adds itself is the caller's to say.
pub fn headings(version: &Version) -> Vec<Heading> {
    let heading = |name: &str, kind: &str, format: &str| Heading {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description: String::new(),
        priority: 0,
    };
    let mut all = vec![heading("Name", "string", "name")];
    if version.columns.is_empty() {
        all.push(heading("Age", "date", ""));
    }
    all.extend(version.columns.iter().map(|column| Heading {
        name: column.name.clone(),
        kind: column.kind.clone(),
        format: column.format.clone(),
        description: match column.description.as_str() {
            "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
            description => description.to_owned(),
        },
        priority: column.priority,
    }));
    all
}

/// The cells of an object, the name first.
pub fn cells(version: &Version, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![object.pointer("/metadata/name").cloned().unwrap_or_else(|| "".into())];
    if version.columns.is_empty() {
        let created = object.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        cells.push(match created {
            None => "<unknown>".into(),
            Some(text) => age(text, now),
        });
    }
    cells.extend(version.columns.iter().map(|column| match column.path.first(object) {
        Some(value) => cell(&column.kind, value, now),
        None => Value::Null,
    }));
    cells
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::Null) => "<no value>".into(),
        ("string", Value::Object(_) | Value::Array(_)) => go_json(value).into(),
        ("string", value) => number::go_value(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.into(),
            // Out of range is what the processors of upstream's servers make of it.
            (None, Some(float)) if float.abs() >= 9_223_372_036_854_775_808.0 => i64::MIN.into(),
            (None, Some(float)) => json!(float.trunc() as i64),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => age(text, now),
        _ => Value::Null,
    }
}

fn age(text: &str, now: Timestamp) -> Value {
    match Timestamp::parse_time(text) {
        Ok(time) => human_duration(now.seconds_since(time)).into(),
        Err(_) => "<invalid>".into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::definition::Definition;

    #[test]
    fn a_column_without_a_description_tells_its_path() {
        let definition = Definition::read(&json!({"spec": {"versions": [{
            "name": "v1",
            "additionalPrinterColumns": [
                {"name": "Alpha", "type": "string", "jsonPath": ".spec.alpha"},
                {"name": "Beta", "type": "integer", "jsonPath": ".spec.beta", "description": "the beta"},
            ],
        }]}}));
        let definition = definition.unwrap();
        let headings = headings(definition.version("v1").unwrap());
        let descriptions: Vec<&str> = headings.iter().skip(1).map(|heading| &*heading.description).collect();
        assert_eq!(
            descriptions,
            ["Custom resource definition column (in JSONPath format): .spec.alpha", "the beta"]
        );
    }
}
