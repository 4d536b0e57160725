//! Which requests an admission webhook or policy looks at.
//!
//! Webhooks have plain rules; policies have `matchConstraints` and bindings
//! `matchResources`, whose rules may also name objects.

use std::collections::HashSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::path_segment,
};

use super::{
    form::{must_be, named, not_empty, one_of, texts},
    label_selector,
};
use crate::object::{Fields, FieldsMut};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

pub const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];

/// Sets what pointers leave open; what is set stays.
pub fn default_pointers(object: &mut Value, values: &[(&str, Value)]) {
    for (name, value) in values {
        if !object.has(name) {
            object.set(name, value.clone());
        }
    }
}

/// Rules apply to both scopes unless they say otherwise.
pub fn default_rules(rules: &mut [Value]) {
    for rule in rules {
        default_pointers(rule, &[("scope", "*".into())]);
    }
}

/// `matchConstraints` or `matchResources`.
pub fn default_match_resources(resources: &mut Value) {
    default_pointers(
        resources,
        &[
            ("matchPolicy", "Equivalent".into()),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
        ],
    );
    default_rules(resources.items_mut("resourceRules"));
    default_rules(resources.items_mut("excludeResourceRules"));
}

pub fn validate_match_resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = path.child("matchPolicy");
    if resources.has("matchPolicy") {
        one_of(&MATCH_POLICIES, resources.text("matchPolicy"), policy, errors);
    } else {
        errors.required(policy, "");
    }
    for name in ["namespaceSelector", "objectSelector"] {
        match resources.get_field(name) {
            None => errors.required(path.child(name), ""),
            Some(selector) => label_selector::validate(selector, &path.child(name), errors),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        let list = path.child(name);
        for (index, rule) in resources.items(name).iter().enumerate() {
            let path = list.index(index);
            validate_resource_names(rule, &path, errors);
            validate_rule(rule, &path, errors);
        }
    }
}

fn validate_resource_names(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("resourceNames");
    let mut seen = HashSet::new();
    for (index, name) in texts(rule, "resourceNames").enumerate() {
        let path = list.index(index);
        must_be(path_segment, name, path, errors);
        if !seen.insert(name) {
            errors.duplicate(path, name);
        }
    }
}

/// Operations, groups, versions, resources and scope of one rule.
pub fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let alone = |name: &str, what: &str, errors: &mut Errors| {
        let items = rule.items(name);
        if items.is_empty() {
            errors.required(path.child(name), "");
        }
        if items.len() > 1 && texts(rule, name).any(|item| item == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.invalid(path.child(name), BadValue::Json(rule.field(name).clone()), &detail);
        }
    };
    alone("operations", "operations", errors);
    for (index, operation) in texts(rule, "operations").enumerate() {
        one_of(&OPERATIONS, operation, path.child("operations").index(index), errors);
    }
    alone("apiGroups", "API groups", errors);
    alone("apiVersions", "API versions", errors);
    for (index, version) in texts(rule, "apiVersions").enumerate() {
        not_empty(version, path.child("apiVersions").index(index), errors);
    }
    validate_resources(rule, &path.child("resources"), errors);
    if rule.has("scope") {
        one_of(&SCOPES, rule.text("scope"), path.child("scope"), errors);
    }
}

fn validate_resources(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let resources = rule.items("resources");
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut any_subresource, mut any_resource) = (HashSet::new(), HashSet::new());
    let (mut everything, mut every_resource, mut plain) = (false, false, false);
    for (index, text) in texts(rule, "resources").enumerate() {
        let path = path.index(index);
        match text {
            "" => {
                errors.required(path, "");
                continue;
            }
            "*/*" => everything = true,
            "*" => every_resource = true,
            _ => {}
        }
        let Some((resource, subresource)) = text.split_once('/') else {
            // The last one decides, as it does upstream.
            plain = text != "*";
            continue;
        };
        if any_subresource.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {text}");
            errors.invalid(path, text, &detail);
        }
        if any_resource.contains(subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {text}");
            errors.invalid(path, text, &detail);
        }
        if subresource == "*" {
            any_subresource.insert(resource);
        }
        if resource == "*" {
            any_resource.insert(subresource);
        }
    }
    let list = || BadValue::Json(rule.field("resources").clone());
    if resources.len() > 1 && everything {
        errors.invalid(path, list(), "if '*/*' is present, must not specify other resources");
    }
    if every_resource && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, list(), detail);
    }
}

/// Policies that mutate are not asked about deletions.
pub fn validate_no_delete(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rules = path.child("resourceRules");
    for rule in resources.items("resourceRules") {
        for _ in texts(rule, "operations").filter(|operation| *operation == "DELETE") {
            let supported = ["*", "CONNECT", "CREATE", "UPDATE"];
            errors.not_supported(rules.child("operations"), named("DELETE"), &supported);
        }
    }
}
