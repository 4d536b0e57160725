//! Where a pod wants to run, by node and by the pods already there.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::dns_label,
};

use super::{
    Context,
    scheduling::{validate_label_keys, validate_label_keys_asked_once},
};
use crate::{
    object::Fields,
    validation::{
        label_selector::{self, ExpressionValues},
        labels::validate_label_key,
        node_selector,
    },
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn validate_affinity(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let affinity = context.spec.field("affinity");
    let path = path.child("affinity");
    validate_node_affinity(affinity.field("nodeAffinity"), context, &path.child("nodeAffinity"), errors);
    for kind in ["podAffinity", "podAntiAffinity"] {
        validate_pod_affinity(affinity.field(kind), &path.child(kind), errors);
    }
}

/// The selector of nodes that a spec insists on.
pub fn required_node_selector(spec: &Value) -> &Value {
    spec.field("affinity").field("nodeAffinity").field(REQUIRED)
}

fn validate_node_affinity(affinity: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(selector) = affinity.get_field(REQUIRED) {
        let values = context.ratchet.node_affinity_values;
        node_selector::validate(selector, values, &path.child(REQUIRED), errors);
    }
    let list = path.child(PREFERRED);
    for (index, preferred) in affinity.items(PREFERRED).iter().enumerate() {
        let path = list.index(index);
        validate_weight(preferred, &path, errors);
        let (term, path) = (preferred.field("preference"), path.child("preference"));
        node_selector::validate_term(term, ExpressionValues::Unchecked, &path, errors);
    }
}

fn validate_pod_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child(REQUIRED);
    for (index, term) in affinity.items(REQUIRED).iter().enumerate() {
        validate_pod_term(term, &list.index(index), errors);
    }
    let list = path.child(PREFERRED);
    for (index, preferred) in affinity.items(PREFERRED).iter().enumerate() {
        let path = list.index(index);
        validate_weight(preferred, &path, errors);
        validate_pod_term(preferred.field("podAffinityTerm"), &path.child("podAffinityTerm"), errors);
    }
}

fn validate_weight(preferred: &Value, path: &Path<'_>, errors: &mut Errors) {
    let weight = preferred.int("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.invalid(path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_pod_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    for selector in ["labelSelector", "namespaceSelector"] {
        label_selector::validate(term.field(selector), &path.child(selector), errors);
    }
    for namespace in term.items("namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        for problem in dns_label(namespace) {
            errors.invalid(path.child("namespace"), namespace, &problem);
        }
    }
    for keys in ["matchLabelKeys", "mismatchLabelKeys"] {
        validate_label_keys(term, keys, path, errors);
    }
    validate_label_keys_asked_once(term, path, errors);
    let mismatch: HashSet<&Value> = term.items("mismatchLabelKeys").iter().collect();
    for (index, key) in term.items("matchLabelKeys").iter().enumerate() {
        if mismatch.contains(key) {
            let problem = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(path.child("matchLabelKeys").index(index), key, problem);
        }
    }
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.required(path.child("topologyKey"), "can not be empty");
    }
    validate_label_key(key, &path.child("topologyKey"), errors);
}
