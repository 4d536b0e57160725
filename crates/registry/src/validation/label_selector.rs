//! `metav1.LabelSelector`, as many kinds hold one.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::label_value,
};

use super::labels::{validate_label_key, validate_labels};
use crate::object::Fields;

/// A selector that is not set has nothing wrong with it.
pub fn validate(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_with(selector, ExpressionValues::Checked, path, errors);
}

/// As [`validate`], for an update: values of expressions that were stored while
/// nobody checked them do not block later writes.
pub fn validate_update(selector: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let values = if has_bad_value(old) { ExpressionValues::Unchecked } else { ExpressionValues::Checked };
    validate_with(selector, values, path, errors);
}

/// Whether the values of `matchExpressions` must be label values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpressionValues {
    Checked,
    Unchecked,
}

pub fn validate_with(selector: &Value, values: ExpressionValues, path: &Path<'_>, errors: &mut Errors) {
    validate_labels(selector, "matchLabels", &path.child("matchLabels"), errors);
    let list = path.child("matchExpressions");
    for (index, requirement) in selector.items("matchExpressions").iter().enumerate() {
        let path = list.index(index);
        match requirement.text("operator") {
            "In" | "NotIn" => {
                if requirement.items("values").is_empty() {
                    errors.required(
                        path.child("values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
            }
            "Exists" | "DoesNotExist" => {
                if !requirement.items("values").is_empty() {
                    errors.forbidden(
                        path.child("values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    );
                }
            }
            other => errors.invalid(
                path.child("operator"),
                BadValue::Json(other.into()),
                "not a valid selector operator",
            ),
        }
        validate_label_key(requirement.text("key"), &path.child("key"), errors);
        if values == ExpressionValues::Unchecked {
            continue;
        }
        for (index, value) in requirement.items("values").iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for problem in label_value(value) {
                errors.invalid(path.child("values").index(index), value, &problem);
            }
        }
    }
}

/// Whether an expression has a value that is no label value.
pub fn has_bad_value(selector: &Value) -> bool {
    selector
        .items("matchExpressions")
        .iter()
        .flat_map(|requirement| requirement.items("values"))
        .any(|value| !label_value(value.as_str().unwrap_or_default()).is_empty())
}

/// Whether no label is asked for: it is not set, or set and empty.
pub fn is_empty(selector: &Value) -> bool {
    selector.entries("matchLabels").next().is_none() && selector.items("matchExpressions").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(selector: &Value, old: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        validate_update(selector, old, &Path::new("s"), &mut errors);
        errors.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn each_part_is_checked_where_it_stands() {
        let selector = json!({
            "matchLabels": {"bad key": "bad value"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "-", "operator": "Exists", "values": ["x"]},
                {"key": "b", "operator": "Gt", "values": ["-"]},
            ],
        });
        assert_eq!(
            fields(&selector, &Value::Null),
            [
                "s.matchLabels",
                "s.matchLabels",
                "s.matchExpressions[0].values",
                "s.matchExpressions[1].values",
                "s.matchExpressions[1].key",
                "s.matchExpressions[2].operator",
                "s.matchExpressions[2].values[0]",
            ]
        );
        assert_eq!(fields(&Value::Null, &Value::Null), Vec::<String>::new());
    }

    #[test]
    fn bad_values_that_were_stored_stay_allowed() {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]});
        assert_eq!(fields(&selector, &json!({})).len(), 1);
        assert_eq!(fields(&selector, &selector).len(), 0);
    }
}
