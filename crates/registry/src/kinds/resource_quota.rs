//! `ResourceQuota`

use std::{cell::LazyCell, collections::BTreeSet};

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{DeleteAnswer, Strategy, Subresource},
    validation::{
        form::{named, pointer, texts},
        resource_list, resource_name,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    validate_status_update,
    warnings,
    delete_answer: DeleteAnswer::Object,
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    ..Strategy::of("", "ResourceQuota")
};

const SCOPE_SELECTOR: Form = Form::Message("io.k8s.api.core.v1.ScopeSelector");

/// Scopes that no object is in both of.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn default(quota: &mut Value) {
    for (part, list) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
        if quota.has(part) {
            resource_list::default(quota.object_mut(part), list);
        }
    }
}

fn validate(quota: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = quota.field("spec");
    validate_list(spec, "hard", &path, errors);
    validate_scopes(spec, &path.child("scopes"), errors);
    if let Some(selector) = spec.get_field("scopeSelector") {
        let path = path.child("scopeSelector");
        validate_scope_selector(spec, selector, &path.child("matchExpressions"), errors);
    }
}

fn validate_list(object: &Value, list: &str, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child(list);
    for (name, _) in object.entries(list) {
        let path = path.key(name);
        resource_list::validate_name(name, &path, errors);
        if !name.contains('/') && !resource_name::is_standard_for_quota(name) {
            errors.invalid(path, named(name), "must be a standard resource for quota");
        }
        if let Some(quantity) = resource_list::quantity(object.field(list), name) {
            resource_list::validate_quantity(name, &quantity, &path, errors);
        }
    }
}

fn validate_scopes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    // All of them, once for each that is wrong.
    let scopes = LazyCell::new(|| BadValue::Plain(pointer(spec, "scopes").to_string()));
    for scope in texts(spec, "scopes") {
        if !is_scope(scope) {
            errors.invalid(path, &*scopes, "unsupported scope");
        }
        for _ in unfit_resources(spec, scope) {
            errors.invalid(path, &*scopes, "unsupported scope applied to resource");
        }
        seen.insert(scope);
    }
    validate_no_opposites(spec, &seen, path, errors);
}

fn validate_no_opposites(spec: &Value, seen: &BTreeSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    for pair in OPPOSITES {
        if pair.iter().all(|scope| seen.contains(scope)) {
            errors.invalid(path, pointer(spec, "scopes"), "conflicting scopes");
        }
    }
}

fn validate_scope_selector(spec: &Value, selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    let shown = LazyCell::new(|| internal(Shape::Ptr(SCOPE_SELECTOR), selector));
    for requirement in selector.items("matchExpressions") {
        let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
        if !is_scope(scope) {
            errors.invalid(path.child("scopeName"), named(scope), "unsupported scope");
        }
        for _ in unfit_resources(spec, scope) {
            errors.invalid(path, &*shown, "unsupported scope applied to resource");
        }
        let unary = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        if unary && operator != "Exists" {
            errors.invalid(path.child("operator"), named(operator), "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        let values = requirement.items("values");
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.required(
                path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
                path.child("values"),
                pointer(requirement, "values"),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(path.child("operator"), named(other), "not a valid selector operator"),
        }
        seen.insert(scope);
    }
    validate_no_opposites(spec, &seen, path, errors);
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity"
            | "VolumeAttributesClass"
    )
}

/// The limited resources that no object in the scope uses.
fn unfit_resources<'a>(spec: &'a Value, scope: &'a str) -> impl Iterator<Item = &'a str> {
    spec.entries("hard")
        .map(|(name, _)| name)
        .filter(move |name| resource_name::is_standard_for_quota(name) && !fits(scope, name))
}

fn fits(scope: &str, resource: &str) -> bool {
    let of_pods = || {
        let compute = resource
            .strip_prefix("requests.")
            .or_else(|| resource.strip_prefix("limits."))
            .unwrap_or(resource);
        matches!(compute, "cpu" | "memory")
    };
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || of_pods(),
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn validate_update(quota: &Value, old: &Value, errors: &mut Errors) {
    validate(quota, errors);
    let scopes = |quota: &Value| -> BTreeSet<String> {
        texts(quota.field("spec"), "scopes").map(str::to_owned).collect()
    };
    if scopes(quota) != scopes(old) {
        let path = Path::new("spec");
        errors.invalid(path.child("scopes"), pointer(quota.field("spec"), "scopes"), "field is immutable");
    }
}

fn validate_status_update(quota: &Value, _old: &Value, errors: &mut Errors) {
    if quota.field("metadata").text("resourceVersion").is_empty() {
        errors.required(Path::new("resourceVersion"), "");
    }
    let path = Path::new("status");
    for list in ["hard", "used"] {
        validate_list(quota.field("status"), list, &path, errors);
    }
}

fn warnings(quota: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_some() {
        return warnings;
    }
    let hard = quota.field("spec").field("hard");
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let prefixed = format!("requests.{resource}");
        let plain = if resource == "ephemeral-storage" { &prefixed } else { resource };
        let request = if hard.has(&prefixed) { &prefixed } else { plain };
        let limit = format!("limits.{resource}");
        if let (Some(asked), Some(most)) =
            (resource_list::quantity(hard, request), resource_list::quantity(hard, &limit))
            && asked > most
        {
            warnings.push(format!("ResourceQuota {request} ({asked}) should be less than {limit} ({most})"));
        }
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed, text::plain},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed(
            "Request",
            |object| quota(object, |limit| !limit),
            "What is used and allowed, limits aside.",
        ),
        computed("Limit", |object| quota(object, |limit| limit), "What is used and allowed of the limits."),
        AGE,
    ];

    fn quota(object: &Value, wanted: fn(bool) -> bool) -> Value {
        let status = object.field("status");
        let used = |resource: &str| match status.field("used").get_field(resource) {
            Some(used) => plain(used),
            None => "0".into(),
        };
        let entries = status.entries("hard");
        let entries = entries.filter(|(resource, _)| wanted(resource.split('.').next() == Some("limits")));
        let texts: Vec<String> = entries
            .map(|(resource, hard)| format!("{resource}: {}/{}", used(resource), plain(hard)))
            .collect();
        texts.join(", ").into()
    }
}
