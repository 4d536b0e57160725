//! `ReplicaSet`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::deployment::validate_selector_and_template;
use crate::{
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{
        bounds::{counted_replicas, none_negative},
        workload::{default_template, name_warning, selector_is_immutable, template_warnings},
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
    generation: Generation::Tracks(&["spec"]),
    reset_fields: &[".status"],
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    columns: columns::COLUMNS,
    ..Strategy::of("apps", "ReplicaSet")
};

fn default(replica_set: &mut Value) {
    let spec = replica_set.object_mut("spec");
    spec.default_field("replicas", 1);
    default_template(spec);
}

fn validate(replica_set: &Value, errors: &mut Errors) {
    validate_spec(replica_set.field("spec"), &Value::Null, errors);
}

fn validate_update(replica_set: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old) = (replica_set.field("spec"), old.field("spec"));
    validate_spec(spec, old, errors);
    selector_is_immutable(spec, old, &Path::new("spec"), errors);
}

/// `old` is `null` on create.
fn validate_spec(spec: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    none_negative(spec, &["replicas", "minReadySeconds"], &path, errors);
    validate_selector_and_template(spec, old, &path, errors);
}

fn validate_status_update(replica_set: &Value, _old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = replica_set.field("status");
    none_negative(
        status,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
        &path,
        errors,
    );
    counted_replicas(status, &path, errors);
}

fn warnings(replica_set: &Value, old: Option<&Value>) -> Vec<String> {
    let name = name_warning(replica_set).filter(|_| old.is_none());
    name.into_iter().chain(template_warnings(replica_set, old)).collect()
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{
        AGE, Column, NAME,
        workload::{CURRENT, DESIRED, READY, SELECTOR, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES},
    };

    pub(super) const COLUMNS: &[Column] =
        &[NAME, DESIRED, CURRENT, READY, AGE, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES, SELECTOR];
}
