//! Role, and the rules of policies that ClusterRole shares.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{Problems, path_segment},
};

use crate::{
    escalation,
    object::Fields,
    strategy::{MetadataCheck, Strategy},
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    create_on_update: true,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: NAME,
    authorize: escalation::check_role,
    ..Strategy::of("rbac.authorization.k8s.io", "Role")
};

/// Names of roles and bindings stand in URLs and are otherwise free.
pub const NAME: fn(&str) -> Problems = path_segment;

fn validate(role: &Value, errors: &mut Errors) {
    validate_rules(role, Scope::Namespaced, errors);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

pub fn validate_rules(role: &Value, scope: Scope, errors: &mut Errors) {
    let list = Path::new("rules");
    for (index, rule) in role.items("rules").iter().enumerate() {
        validate_rule(rule, scope, &list.index(index), errors);
    }
}

fn validate_rule(rule: &Value, scope: Scope, path: &Path<'_>, errors: &mut Errors) {
    let given = |name: &str| !rule.items(name).is_empty();
    if !given("verbs") {
        errors.required(path.child("verbs"), "verbs must contain at least one value");
    }
    if given("nonResourceURLs") {
        let urls = path.child("nonResourceURLs");
        let value = || BadValue::Json(rule.field("nonResourceURLs").clone());
        if scope == Scope::Namespaced {
            errors.invalid(urls, value(), "namespaced rules cannot apply to non-resource URLs");
        }
        if given("apiGroups") || given("resources") || given("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(urls, value(), detail);
        }
        return;
    }
    if !given("apiGroups") {
        errors.required(path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if !given("resources") {
        errors.required(path.child("resources"), "resource rules must supply at least one resource");
    }
}
