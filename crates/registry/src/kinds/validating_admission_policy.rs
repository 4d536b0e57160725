//! ValidatingAdmissionPolicy: refuses requests by expressions.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    expression::Purpose,
    field::{Errors, Path},
    format::qualified_name,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    status_subresource::{keep_spec_and_reset_metadata, keep_status, reset_status},
    strategy::{Generation, MetadataCheck, Strategy, Subresource},
    validation::{
        admission_policy::{Expressions, Unchecked, default_policy, note, validate_policy},
        conditions,
        form::{not_empty, one_of},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default: default_policy,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_reset_metadata,
    validate: |policy, errors| validate(policy, None, &mut Unchecked, errors),
    validate_update: |new, old, errors| validate(new, Some(old), &mut Unchecked, errors),
    validate_status_update,
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    status_checks_again: &[],
    qualified_finalizers: false,
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    ..Strategy::of("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
};

/// The most audit annotations of one policy.
pub const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// The most bytes of an expression for an audit annotation.
pub const MAX_VALUE_EXPRESSION_BYTES: usize = 5 * 1024;

const AUDIT_ANNOTATION: Form = Form::Message("io.k8s.api.admissionregistration.v1.AuditAnnotation");

/// Checks a policy; whether its expressions compile is asked of the caller.
pub fn validate(policy: &Value, old: Option<&Value>, expressions: &mut dyn Expressions, errors: &mut Errors) {
    validate_policy(policy, old, expressions, errors);
    let spec = policy.field("spec");
    let path = Path::new("spec");
    let (validations, annotations) = (path.child("validations"), path.child("auditAnnotations"));
    if spec.items("validations").is_empty() && spec.items("auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(validations, detail);
        errors.required(annotations, detail);
        return;
    }
    for (index, validation) in spec.items("validations").iter().enumerate() {
        validate_validation(validation, &validations.index(index), expressions, errors);
    }
    if spec.items("auditAnnotations").len() > MAX_AUDIT_ANNOTATIONS {
        let value = internal(Shape::List(AUDIT_ANNOTATION), spec.field("auditAnnotations"));
        errors.invalid(annotations, value, "must not have more than 20 auditAnnotations");
    }
    let mut keys = HashSet::new();
    for (index, annotation) in spec.items("auditAnnotations").iter().enumerate() {
        let path = annotations.index(index);
        let key = annotation.text("key");
        let whole = format!("{}/{key}", policy.field("metadata").text("name"));
        for problem in qualified_name(&whole) {
            errors.invalid(path.child("key"), whole.as_str(), &problem);
        }
        let expression = annotation.text("valueExpression").trim();
        if expression.is_empty() {
            errors.required(path.child("valueExpression"), "valueExpression is not specified");
        } else if expression.len() > MAX_VALUE_EXPRESSION_BYTES {
            errors.required(path.child("valueExpression"), "must not exceed 5120 bytes in length");
        } else {
            let problem = expressions.expression(expression, Purpose::AuditAnnotation);
            note(problem, annotation.text("valueExpression"), path.child("valueExpression"), errors);
        }
        if !keys.insert(key) {
            errors.duplicate(path.child("key"), key);
        }
    }
}

fn validate_validation(
    validation: &Value,
    path: &Path<'_>,
    expressions: &dyn Expressions,
    errors: &mut Errors,
) {
    let text = validation.text("expression");
    if text.trim().is_empty() {
        errors.required(path.child("expression"), "expression is not specified");
    } else {
        note(expressions.expression(text, Purpose::Validation), text, path.child("expression"), errors);
    }
    let text = validation.text("messageExpression");
    if !text.is_empty() && text.trim().is_empty() {
        errors.invalid(path.child("messageExpression"), text, "must be non-empty if specified");
    } else if !text.is_empty() {
        note(expressions.expression(text, Purpose::Message), text, path.child("messageExpression"), errors);
    }
    let text = validation.text("message");
    if !text.is_empty() && text.trim().is_empty() {
        errors.invalid(path.child("message"), text, "must be non-empty if specified");
    } else if text.trim().contains(['\n', '\r']) {
        errors.invalid(path.child("message"), text, "must not contain line breaks");
    }
    if validation.has("reason") {
        let supported = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        one_of(&supported, validation.text("reason"), path.child("reason"), errors);
    }
}

fn validate_status_update(new: &Value, _old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let path = Path::new("status");
    let checking = path.child("typeChecking");
    let list = checking.child("expressionWarnings");
    for (index, warning) in status.field("typeChecking").items("expressionWarnings").iter().enumerate() {
        let path = list.index(index);
        not_empty(warning.text("warning"), path.child("warning"), errors);
        not_empty(warning.text("fieldRef"), path.child("fieldRef"), errors);
    }
    conditions::validate(status.items("conditions"), &path.child("conditions"), errors);
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, admission_policy::PARAM_KIND, column};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        column("Validations", Cell::Count("/spec/validations"), "Number of validations.").typed("integer"),
        PARAM_KIND,
        AGE,
    ];
}
