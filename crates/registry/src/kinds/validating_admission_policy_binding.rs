//! ValidatingAdmissionPolicyBinding: where a policy holds and what a refusal does.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::{
    Rules,
    admission_policy::{default_binding, validate_binding},
    form::{named, one_of, texts},
};
use crate::object::Fields;

pub const RULES: Rules = Rules {
    default: default_binding,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    ..Rules::NONE
};

fn validate(binding: &Value, errors: &mut Errors) {
    validate_binding(binding, errors);
    let spec = binding.field("spec");
    let path = Path::new("spec");
    let list = path.child("validationActions");
    let mut seen = HashSet::new();
    for (index, action) in texts(spec, "validationActions").enumerate() {
        one_of(&["Audit", "Deny", "Warn"], action, list.index(index), errors);
        if !seen.insert(action) {
            errors.duplicate(list.index(index), named(action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let value = BadValue::Json(spec.field("validationActions").clone());
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(list, value, detail);
    }
    if seen.is_empty() {
        errors.required(list, "at least one validation action is required");
    }
}
