//! StorageClass: who provisions volumes, and how.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::qualified_name,
};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, MetadataCheck, Strategy},
    validation::{
        deprecated_label::advice,
        form::{immutable, named, one_of, texts},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update,
    warnings,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    columns: columns::COLUMNS,
    ..Strategy::of("storage.k8s.io", "StorageClass")
};

/// The most parameters; a longer list is reported as too long in bytes.
pub const MAX_PARAMETERS: usize = 512;
/// The most bytes all keys and values may have together.
pub const MAX_PARAMETERS_BYTES: usize = 256 * 1024;

fn default(class: &mut Value) {
    for (name, value) in [("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")] {
        if !class.has(name) {
            class.set(name, value);
        }
    }
}

fn validate(class: &Value, errors: &mut Errors) {
    validate_provisioner(class.text("provisioner"), Path::new("provisioner"), errors);
    validate_parameters(class, Path::new("parameters"), errors);
    let policy = class.text("reclaimPolicy");
    if !policy.is_empty() {
        one_of(&["Delete", "Retain"], policy, Path::new("reclaimPolicy"), errors);
    }
    let mode = Path::new("volumeBindingMode");
    match class.get_field("volumeBindingMode") {
        None => errors.required(mode, ""),
        Some(_) => {
            one_of(&["Immediate", "WaitForFirstConsumer"], class.text("volumeBindingMode"), mode, errors);
        }
    }
    validate_topologies(class.items("allowedTopologies"), errors);
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(new, old, name, Path::new(name), errors);
    }
}

/// Who provisions: a qualified name in any case.
pub fn validate_provisioner(name: &str, path: Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    let lower = name.to_lowercase();
    for problem in qualified_name(&lower) {
        errors.invalid(path, lower.as_str(), &problem);
    }
}

/// Checks `object.parameters`.
pub fn validate_parameters(object: &Value, path: Path<'_>, errors: &mut Errors) {
    if object.entries("parameters").count() > MAX_PARAMETERS {
        errors.too_long(path, MAX_PARAMETERS);
        return;
    }
    let mut bytes = 0;
    for (key, value) in object.entries("parameters") {
        if key.is_empty() {
            errors.invalid(path, key, "field can not be empty.");
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_PARAMETERS_BYTES {
        errors.too_long(path, MAX_PARAMETERS_BYTES);
    }
}

fn validate_topologies(terms: &[Value], errors: &mut Errors) {
    let list = Path::new("allowedTopologies");
    // Upstream starts from as many empty terms as there are terms, so that an
    // empty one always counts as repeated.
    let mut seen: BTreeMap<BTreeMap<&str, BTreeSet<&str>>, usize> =
        BTreeMap::from([(BTreeMap::new(), terms.len())]);
    for (index, term) in terms.iter().enumerate() {
        let path = list.index(index);
        let expressions = path.child("matchLabelExpressions");
        let mut term_values = BTreeMap::new();
        for (index, requirement) in term.items("matchLabelExpressions").iter().enumerate() {
            let path = expressions.index(index);
            let key = requirement.text("key");
            let values = path.child("values");
            let mut set = BTreeSet::new();
            if requirement.items("values").is_empty() {
                errors.required(values, "");
            }
            for (index, value) in texts(requirement, "values").enumerate() {
                if !set.insert(value) {
                    errors.duplicate(values.index(index), value);
                }
            }
            for problem in qualified_name(key) {
                errors.invalid(path.child("key"), key, &problem);
            }
            if term_values.contains_key(key) {
                errors.duplicate(path.child("key"), key);
            }
            term_values.insert(key, set);
        }
        let earlier = seen.entry(term_values).or_default();
        for _ in 0..*earlier {
            // There may be as many as the square of the terms.
            if errors.is_full() {
                break;
            }
            errors.duplicate(expressions, named(""));
        }
        *earlier += 1;
    }
}

fn warnings(class: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let list = Path::new("allowedTopologies");
    for (index, term) in class.items("allowedTopologies").iter().enumerate() {
        let path = list.index(index);
        let expressions = path.child("matchLabelExpressions");
        for (index, requirement) in term.items("matchLabelExpressions").iter().enumerate() {
            if let Some(advice) = advice(requirement.text("key")) {
                warnings.push(format!("{}: {advice}", expressions.index(index).child("key")));
            }
        }
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Cell, Column, column, computed, text},
    };

    pub(super) const COLUMNS: &[Column] = &[
        computed("Name", class_name, "Name of the class, and whether it is the default.").identifying(),
        text("Provisioner", "/provisioner", "What makes volumes of the class."),
        column(
            "ReclaimPolicy",
            Cell::SetOr("/reclaimPolicy", "Delete"),
            "What becomes of a volume when its claim is gone.",
        ),
        column(
            "VolumeBindingMode",
            Cell::SetOr("/volumeBindingMode", "Immediate"),
            "When volumes are made and bound.",
        ),
        column(
            "AllowVolumeExpansion",
            Cell::Flag("/allowVolumeExpansion", false),
            "Whether volumes can grow.",
        ),
        AGE,
    ];

    const DEFAULT_CLASS: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

    fn class_name(class: &Value) -> Value {
        let metadata = class.field("metadata");
        let annotations = metadata.field("annotations");
        let name = metadata.text("name");
        if DEFAULT_CLASS.iter().any(|annotation| annotations.text(annotation) == "true") {
            format!("{name} (default)").into()
        } else {
            name.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_limited_in_bytes() {
        for (bytes, found) in [(MAX_PARAMETERS_BYTES, 0), (MAX_PARAMETERS_BYTES + 1, 1)] {
            let class = json!({"parameters": {"key": "v".repeat(bytes - "key".len())}});
            let mut errors = Errors::default();
            validate_parameters(&class, Path::new("parameters"), &mut errors);
            assert_eq!(errors.len(), found, "{bytes}");
        }
    }
}
