//! When and how a pod is placed: gates, spreading, tolerations.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{label_value, qualified_name},
};

use super::Context;
use crate::{
    object::{Fields, FieldsMut},
    validation::{label_selector, labels::validate_label_key},
};

/// `spec.readinessGates` and `spec.schedulingGates`.
pub fn validate_gates(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("readinessGates");
    for (index, gate) in spec.items("readinessGates").iter().enumerate() {
        let condition = gate.text("conditionType");
        for problem in qualified_name(condition) {
            errors.invalid(list.index(index).child("conditionType"), condition, &problem);
        }
    }
    let list = path.child("schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in spec.items("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        for problem in qualified_name(name) {
            errors.invalid(list.index(index), name, &problem);
        }
        if !seen.insert(name) {
            errors.duplicate(list.index(index), name);
        }
    }
}

pub fn validate_topology_spread(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("topologySpreadConstraints");
    let constraints = context.spec.items("topologySpreadConstraints");
    let pair = |constraint: &'_ Value| {
        (constraint.text("topologyKey").to_owned(), constraint.text("whenUnsatisfiable").to_owned())
    };
    let mut later: HashMap<(String, String), usize> = HashMap::new();
    constraints.iter().for_each(|constraint| *later.entry(pair(constraint)).or_default() += 1);
    for (index, constraint) in constraints.iter().enumerate() {
        let path = list.index(index);
        let skew = constraint.int("maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.invalid(path.child("maxSkew"), skew, "must be greater than zero");
        }
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if key.is_empty() {
            errors.required(path.child("topologyKey"), "can not be empty");
        }
        let actions = &["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            errors.not_supported(path.child("whenUnsatisfiable"), BadValue::Json(action.into()), actions);
        }
        let left = later.entry(pair(constraint)).or_default();
        *left = left.saturating_sub(1);
        let repeated = *left > 0;
        if repeated {
            let pair = BadValue::Text(format!("{{{key}, {action}}}"));
            errors.duplicate(path.child("{topologyKey, whenUnsatisfiable}"), pair);
        }
        validate_min_domains(constraint, action, &path.child("minDomains"), errors);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let Some(given) = constraint.field(policy).as_str() else { continue };
            if !["Honor", "Ignore"].contains(&given) {
                errors.not_supported(path.child(policy), BadValue::Json(given.into()), &["Honor", "Ignore"]);
            }
        }
        let selector = constraint.field("labelSelector");
        validate_label_keys(constraint, "matchLabelKeys", &path, errors);
        validate_label_keys_asked_once(constraint, &path, errors);
        if !context.ratchet.topology_spread_selector {
            label_selector::validate(selector, &path.child("labelSelector"), errors);
        }
    }
}

fn validate_min_domains(constraint: &Value, action: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(domains) = constraint.int("minDomains") else { return };
    if domains <= 0 {
        errors.invalid(path, domains, "must be greater than zero");
    }
    if action != "DoNotSchedule" {
        let problem = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(path, domains, &problem);
    }
}

/// Keys whose values come from the pod itself: they need a selector to be merged into.
pub fn validate_label_keys(holder: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let keys = holder.items(name);
    if keys.is_empty() {
        return;
    }
    if !holder.has("labelSelector") {
        return errors.forbidden(path.child(name), "must not be specified when labelSelector is not set");
    }
    for (index, key) in keys.iter().enumerate() {
        validate_label_key(key.as_str().unwrap_or_default(), &path.child(name).index(index), errors);
    }
}

/// A selector that asks more than once for one of `matchLabelKeys`. On creation the
/// keys have been merged in, so that asking once before is too much.
pub fn validate_label_keys_asked_once(holder: &Value, path: &Path<'_>, errors: &mut Errors) {
    let keys = holder.items("matchLabelKeys");
    let selector = holder.field("labelSelector");
    let labels = selector.entries("matchLabels").map(|(key, _)| key);
    let expressions = selector.items("matchExpressions").iter().map(|requirement| requirement.text("key"));
    let mut seen = BTreeSet::new();
    for key in labels.chain(expressions) {
        let Some(index) = keys.iter().rposition(|known| known == key) else { continue };
        if !seen.insert(key) {
            // Upstream puts the index of the key on the holder itself.
            errors.invalid(path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

pub fn validate_tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let (key, value) = (toleration.text("key"), toleration.text("value"));
        let (operator, effect) = (toleration.text("operator"), toleration.text("effect"));
        if !key.is_empty() {
            validate_label_key(key, &path.child("key"), errors);
        } else if operator != "Exists" {
            errors.invalid(
                path.child("operator"),
                BadValue::Json(operator.into()),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let problem = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(path.child("effect"), BadValue::Json(effect.into()), problem);
        }
        match operator {
            "" | "Equal" => {
                let problems = label_value(value);
                if !problems.is_empty() {
                    errors.invalid(path.child("operator"), value, &problems.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let problem = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(path.child("operator"), value, problem);
                }
            }
            // Known, but the feature that compares numbers is off.
            "Lt" | "Gt" => errors.not_supported(
                path.child("operator"),
                BadValue::Json(operator.into()),
                &["Equal", "Exists", "Lt", "Gt"],
            ),
            _ => errors.not_supported(
                path.child("operator"),
                BadValue::Json(operator.into()),
                &["Equal", "Exists"],
            ),
        }
        let effects = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            errors.not_supported(path.child("effect"), BadValue::Json(effect.into()), effects);
        }
    }
}

/// On creation of a pod, keys named by `matchLabelKeys` and `mismatchLabelKeys`
/// become requirements of their selectors, with the pod's own values.
pub fn merge_match_label_keys(pod: &mut Value) {
    let labels = pod.field("metadata").field("labels").clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for constraint in spec.items_mut("topologySpreadConstraints") {
        merge_keys(constraint, "matchLabelKeys", "In", &labels);
    }
    let Some(affinity) = spec.get_mut("affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = affinity.get_mut(kind) else { continue };
        for term in affinity.items_mut("requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys(term, "matchLabelKeys", "In", &labels);
            merge_keys(term, "mismatchLabelKeys", "NotIn", &labels);
        }
        for preferred in affinity.items_mut("preferredDuringSchedulingIgnoredDuringExecution") {
            let Some(term) = preferred.get_mut("podAffinityTerm") else { continue };
            merge_keys(term, "matchLabelKeys", "In", &labels);
            merge_keys(term, "mismatchLabelKeys", "NotIn", &labels);
        }
    }
}

fn merge_keys(holder: &mut Value, keys: &str, operator: &str, labels: &Value) {
    let requirements: Vec<Value> = holder
        .items(keys)
        .iter()
        .filter_map(|key| {
            let value = labels.get_field(key.as_str()?)?;
            Some(json!({"key": key, "operator": operator, "values": [value]}))
        })
        .collect();
    let Some(selector) = holder.get_mut("labelSelector") else { return };
    if requirements.is_empty() {
        return;
    }
    let mut expressions = selector.items("matchExpressions").to_vec();
    expressions.extend(requirements);
    selector.set("matchExpressions", expressions);
}
