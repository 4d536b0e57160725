//! `RuntimeClass`

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format,
    quantity::Quantity,
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    strategy::{MetadataCheck, Strategy},
    validation::{
        deprecated_label::advice,
        form::{immutable, required},
        labels::validate_labels,
        pod_spec::validate_tolerations,
        resource_list,
    },
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    warnings,
    create_on_update: true,
    unconditional_update: false,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    qualified_finalizers: false,
    columns: columns::COLUMNS,
    ..Strategy::of("node.k8s.io", "RuntimeClass")
};

const TOLERATION: Form = Form::Message("io.k8s.api.core.v1.Toleration");

fn validate(class: &Value, errors: &mut Errors) {
    required(format::dns_label, class.text("handler"), Path::new("handler"), errors);
    let overhead = class.field("overhead");
    for (name, value) in overhead.entries("podFixed") {
        let path = Path::new("overhead");
        let path = path.child("limits");
        let path = path.key(name);
        resource_list::validate_container_name(name, &path, errors);
        if let Ok(quantity) = Quantity::from_json(value) {
            resource_list::validate_quantity(name, &quantity, &path, errors);
        }
    }
    let Some(scheduling) = class.get_field("scheduling") else { return };
    let path = Path::new("scheduling");
    validate_labels(scheduling, "nodeSelector", &path.child("nodeSelector"), errors);
    let path = path.child("tolerations");
    let tolerations = scheduling.items("tolerations");
    validate_tolerations(tolerations, &path, errors);
    let mut seen = HashSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|name| toleration.text(name))) {
            errors.duplicate(path.index(index), internal(Shape::Struct(TOLERATION), toleration));
        }
    }
}

fn validate_update(class: &Value, old: &Value, errors: &mut Errors) {
    validate(class, errors);
    immutable(class, old, "handler", Path::new("handler"), errors);
}

fn warnings(class: &Value, _old: Option<&Value>) -> Vec<String> {
    class
        .field("scheduling")
        .entries("nodeSelector")
        .filter_map(|(label, _)| Some(format!("scheduling.nodeSelector: {}", advice(label)?)))
        .collect()
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Column, NAME, text};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Handler", "/handler", "Configuration of the runtime on the node that runs such pods."),
        AGE,
    ];
}
