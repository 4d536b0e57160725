//! Lists of `metav1.Condition`, as statuses hold them.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{condition_reason, qualified_name},
};

use crate::object::Fields;

/// The most bytes of a reason.
pub const MAX_REASON_BYTES: usize = 1024;

/// The most bytes of a message.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024;

/// `path` names the list.
pub fn validate(conditions: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        if !seen.insert(condition.text("type")) {
            errors.duplicate(path.child("type"), condition.text("type"));
        }
        validate_one(condition, &path, errors);
    }
}

fn validate_one(condition: &Value, path: &Path<'_>, errors: &mut Errors) {
    let text = condition.text("type");
    for problem in qualified_name(text) {
        errors.invalid(path.child("type"), text, &problem);
    }
    let status = condition.text("status");
    if !matches!(status, "False" | "True" | "Unknown") {
        let bad = BadValue::Json(status.into());
        errors.not_supported(path.child("status"), bad, &["False", "True", "Unknown"]);
    }
    if let Some(generation) = condition.int("observedGeneration").filter(|generation| *generation < 0) {
        let path = path.child("observedGeneration");
        errors.invalid(path, generation, "must be greater than or equal to zero");
    }
    if !condition.has("lastTransitionTime") {
        errors.required(path.child("lastTransitionTime"), "");
    }
    let reason = condition.text("reason");
    if reason.is_empty() {
        errors.required(path.child("reason"), "");
    } else {
        for problem in condition_reason(reason) {
            errors.invalid(path.child("reason"), reason, &problem);
        }
        if reason.len() > MAX_REASON_BYTES {
            errors.too_long(path.child("reason"), MAX_REASON_BYTES);
        }
    }
    if condition.text("message").len() > MAX_MESSAGE_BYTES {
        errors.too_long(path.child("message"), MAX_MESSAGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(reason: usize, message: usize) -> usize {
        let condition = json!({
            "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "r".repeat(reason), "message": "m".repeat(message),
        });
        let mut errors = Errors::default();
        validate(&[condition], &Path::new("c"), &mut errors);
        errors.len()
    }

    #[test]
    fn reasons_and_messages_have_a_size_limit() {
        assert_eq!(count(MAX_REASON_BYTES, MAX_MESSAGE_BYTES), 0);
        assert_eq!(count(MAX_REASON_BYTES + 1, 0), 1);
        assert_eq!(count(1, MAX_MESSAGE_BYTES + 1), 1);
    }
}
