//! MutatingAdmissionPolicy: changes objects by expressions.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::{
    Rules,
    admission_policy::{default_policy, validate_policy},
    admission_rule::validate_no_delete,
    form::one_of,
};
use crate::object::Fields;

pub const RULES: Rules = Rules {
    default: default_policy,
    validate: |policy, errors| validate(policy, None, errors),
    validate_update: |new, old, errors| validate(new, Some(old), errors),
    ..Rules::NONE
};

fn validate(policy: &Value, old: Option<&Value>, errors: &mut Errors) {
    validate_policy(policy, old, errors);
    let spec = policy.field("spec");
    let path = Path::new("spec");
    validate_no_delete(spec.field("matchConstraints"), &path.child("matchConstraints"), errors);
    let list = path.child("mutations");
    if spec.items("mutations").is_empty() {
        errors.required(list, "mutations must contain at least one item");
    }
    for (index, mutation) in spec.items("mutations").iter().enumerate() {
        validate_mutation(mutation, &list.index(index), errors);
    }
    let policy = path.child("reinvocationPolicy");
    match spec.text("reinvocationPolicy") {
        "" => errors.required(policy, ""),
        text => one_of(&["IfNeeded", "Never"], text, policy, errors),
    }
}

fn validate_mutation(mutation: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (wanted, other, patch) = match mutation.text("patchType") {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", "JSONPatch"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "ApplyConfiguration"),
        "" => {
            errors.required(path.child("patchType"), "");
            return;
        }
        text => {
            one_of(&["ApplyConfiguration", "JSONPatch"], text, path.child("patchType"), errors);
            return;
        }
    };
    match mutation.get_field(wanted) {
        None => {
            let detail = format!("must be specified when patchType is {patch}");
            errors.required(path.child(wanted), &detail);
        }
        Some(patch) => {
            if patch.text("expression").trim().is_empty() {
                let path = path.child(wanted);
                errors.required(path.child("expression"), "");
            }
        }
    }
    if mutation.has(other) {
        let detail = format!("must not be specified when patchType is {patch}");
        errors.invalid(path.child(other), format!("{{{other}}}"), &detail);
    }
}
