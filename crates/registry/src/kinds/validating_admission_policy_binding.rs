//! ValidatingAdmissionPolicyBinding: where a policy holds and what a refusal does.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::{
    admission_policy::{default_binding, validate_binding},
    form::{named, one_of, texts},
};
use crate::{
    object::Fields,
    strategy::{Generation, MetadataCheck, Strategy},
};

pub const STRATEGY: Strategy = Strategy {
    default: default_binding,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    qualified_finalizers: false,
    ..Strategy::of("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding")
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
