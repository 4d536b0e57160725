//! ClusterRole: the rules of a role, and roles to aggregate.

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::role::{self, Scope, validate_rules};
use crate::{
    escalation,
    object::Fields,
    strategy::{MetadataCheck, Strategy},
    validation::label_selector,
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    create_on_update: true,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: role::NAME,
    authorize: escalation::check_role,
    ..Strategy::of("rbac.authorization.k8s.io", "ClusterRole")
};

fn validate(role: &Value, errors: &mut Errors) {
    validate_with(role, &Value::Null, errors);
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate_with(new, old, errors);
}

fn validate_with(role: &Value, old: &Value, errors: &mut Errors) {
    validate_rules(role, Scope::Cluster, errors);
    let Some(aggregation) = role.get_field("aggregationRule") else { return };
    let rule = Path::new("aggregationRule");
    let list = rule.child("clusterRoleSelectors");
    let selectors = aggregation.items("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(list, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    let stored = old.field("aggregationRule").items("clusterRoleSelectors");
    // One bad value anywhere in the stored selectors frees the values of all.
    let bad = stored.iter().find(|selector| label_selector::has_bad_value(selector)).unwrap_or(&Value::Null);
    for (index, selector) in selectors.iter().enumerate() {
        let path = list.index(index);
        label_selector::validate_update(selector, bad, &path, errors);
        let mut compiled = Errors::default();
        label_selector::validate(selector, &path, &mut compiled);
        if !compiled.is_empty() {
            errors.invalid(path, BadValue::Json(Value::Null), "invalid label selector.");
        }
    }
}
