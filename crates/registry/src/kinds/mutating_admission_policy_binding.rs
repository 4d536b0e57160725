//! MutatingAdmissionPolicyBinding: where a mutating policy holds.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::validating_admission_policy_binding;
use crate::{
    object::Fields,
    strategy::{Generation, MetadataCheck, Strategy},
    validation::{
        admission_policy::{default_binding, validate_binding},
        admission_rule::validate_no_delete,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default: default_binding,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    qualified_finalizers: false,
    columns: validating_admission_policy_binding::STRATEGY.columns,
    ..Strategy::of("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding")
};

fn validate(binding: &Value, errors: &mut Errors) {
    validate_binding(binding, errors);
    let path = Path::new("spec");
    let resources = binding.field("spec").field("matchResources");
    validate_no_delete(resources, &path.child("matchResources"), errors);
}
