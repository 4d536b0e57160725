//! What kinds that make pods from a template share.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format,
    selector::LabelSelector,
};

use super::{
    form::{named, same},
    pod_spec::same_spec,
    pod_template_spec, pod_warnings,
};
use crate::{
    internal_form::{LABEL_SELECTOR, Shape, internal},
    object::{Fields, FieldsMut},
};

pub fn default_template(spec: &mut Value) {
    pod_template_spec::default(spec.object_mut("template"));
}

/// Whether two templates make the same pods.
pub fn same_template(left: &Value, right: &Value) -> bool {
    same(left.field("metadata"), right.field("metadata"))
        && same_spec(left.field("spec"), right.field("spec"))
}

/// A selector as messages print it.
pub fn selector_value(selector: &Value) -> BadValue {
    internal(Shape::Ptr(LABEL_SELECTOR), selector)
}

/// The selector of a spec may not change.
pub fn selector_is_immutable(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selector = spec.field("selector");
    if !same(selector, old.field("selector")) {
        errors.invalid(path.child("selector"), selector_value(selector), "field is immutable");
    }
}

/// The template must have labels that the selector finds; a selector that finds
/// everything is somebody else's error.
pub fn selector_matches_template(
    selector: &LabelSelector,
    template: &Value,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let labels = template.field("metadata").field("labels");
    if !selector.is_everything() && !selector.matches(labels) {
        selector_does_not_match(labels, path, errors);
    }
}

/// `path` names the template.
pub fn selector_does_not_match(labels: &Value, path: &Path<'_>, errors: &mut Errors) {
    errors.invalid(
        path.child("metadata").child("labels"),
        BadValue::Json(labels.clone()),
        "`selector` does not match template `labels`",
    );
}

/// Pods of `kind` run until they are deleted.
pub fn runs_for_ever(template: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let spec = template.field("spec");
    let path = path.child("spec");
    let policy = spec.text("restartPolicy");
    if policy != "Always" {
        errors.not_supported(path.child("restartPolicy"), named(policy), &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        errors.forbidden(
            path.child("activeDeadlineSeconds"),
            &format!("activeDeadlineSeconds in {kind} is not Supported"),
        );
    }
}

/// Warnings for the template of an object whose spec is new or has changed.
pub fn template_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = object.field("spec");
    if old.is_some_and(|old| same(spec, old.field("spec"))) {
        return Vec::new();
    }
    pod_warnings::of_template(spec.field("template"), &Path::new("spec").child("template"))
}

/// The name of the object goes into the names of its pods.
pub fn name_warning(object: &Value) -> Option<String> {
    let problems = format::dns_label(object.field("metadata").text("name"));
    (!problems.is_empty()).then(|| {
        let problems = problems.join(" ");
        format!("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{problems}]")
    })
}
