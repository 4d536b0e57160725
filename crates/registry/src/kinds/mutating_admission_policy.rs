//! MutatingAdmissionPolicy: changes objects by expressions.

use serde_json::Value;
use sternpost_meta::{
    expression::Purpose,
    field::{Errors, Path},
};

use crate::{
    object::Fields,
    strategy::{Generation, MetadataCheck, Strategy},
    validation::{
        admission_policy::{Expressions, Unchecked, default_policy, note, validate_policy},
        admission_rule::validate_no_delete,
        form::one_of,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default: default_policy,
    validate: |policy, errors| validate(policy, None, &mut Unchecked, errors),
    validate_update: |new, old, errors| validate(new, Some(old), &mut Unchecked, errors),
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    qualified_finalizers: false,
    columns: columns::COLUMNS,
    ..Strategy::of("admissionregistration.k8s.io", "MutatingAdmissionPolicy")
};

/// Checks a policy; whether its expressions compile is asked of the caller.
pub fn validate(policy: &Value, old: Option<&Value>, expressions: &mut dyn Expressions, errors: &mut Errors) {
    validate_policy(policy, old, expressions, errors);
    let spec = policy.field("spec");
    let path = Path::new("spec");
    validate_no_delete(spec.field("matchConstraints"), &path.child("matchConstraints"), errors);
    let list = path.child("mutations");
    if spec.items("mutations").is_empty() {
        errors.required(list, "mutations must contain at least one item");
    }
    for (index, mutation) in spec.items("mutations").iter().enumerate() {
        validate_mutation(mutation, &list.index(index), expressions, errors);
    }
    let policy = path.child("reinvocationPolicy");
    match spec.text("reinvocationPolicy") {
        "" => errors.required(policy, ""),
        text => one_of(&["IfNeeded", "Never"], text, policy, errors),
    }
}

fn validate_mutation(mutation: &Value, path: &Path<'_>, expressions: &dyn Expressions, errors: &mut Errors) {
    let (wanted, other, used_as) = match mutation.text("patchType") {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Purpose::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Purpose::ApplyConfiguration),
        "" => {
            errors.required(path.child("patchType"), "");
            return;
        }
        text => {
            one_of(&["ApplyConfiguration", "JSONPatch"], text, path.child("patchType"), errors);
            return;
        }
    };
    let patch = mutation.text("patchType");
    match mutation.get_field(wanted) {
        None => {
            let detail = format!("must be specified when patchType is {patch}");
            errors.required(path.child(wanted), &detail);
        }
        Some(patch) => {
            let (path, text) = (path.child(wanted), patch.text("expression"));
            if text.trim().is_empty() {
                errors.required(path.child("expression"), "");
            } else {
                note(expressions.expression(text, used_as), text, path.child("expression"), errors);
            }
        }
    }
    if mutation.has(other) {
        let detail = format!("must not be specified when patchType is {patch}");
        errors.invalid(path.child(other), format!("{{{other}}}"), &detail);
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, admission_policy::PARAM_KIND, column};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        column("Mutations", Cell::Count("/spec/mutations"), "Number of mutations.").typed("integer"),
        PARAM_KIND,
        AGE,
    ];
}
