//! MutatingAdmissionPolicyBinding: where a mutating policy holds.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::{
    Rules,
    admission_policy::{default_binding, validate_binding},
    admission_rule::validate_no_delete,
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
    let path = Path::new("spec");
    let resources = binding.field("spec").field("matchResources");
    validate_no_delete(resources, &path.child("matchResources"), errors);
}
