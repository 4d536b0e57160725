//! The strategy of CustomResourceDefinitions, which the `crd` crate knows.

use serde_json::{Value, json};
use sternpost_crd::{
    names::{Condition, set_condition},
    prepare, validate,
};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    strategy::{Generation, Strategy, Subresource},
    validation::ca_bundle,
};

use crate::{
    served::Served,
    typed::{DecodeError, Decoded},
};

pub const GROUP: &str = "apiextensions.k8s.io";
pub const PLURAL: &str = "customresourcedefinitions";

/// Keeps a definition until there are no objects of it any more.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub const STRATEGY: Strategy = Strategy {
    default: prepare::default,
    prepare_create: prepare::create,
    prepare_update: prepare::update,
    prepare_status_update: prepare::update_status,
    validate: |crd, errors| errors.extend(validate::create(crd)),
    validate_update: |crd, old, errors| errors.extend(validate::update(crd, old, ca_bundle::check)),
    validate_status_update: |crd, _old, errors| errors.extend(validate::update_status(crd)),
    warnings: |crd, _old| validate::warnings(crd),
    unconditional_update: false,
    generation: Generation::Tracks(&["spec"]),
    qualified_finalizers: false,
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    begin_to_end: Some(begin_to_end),
    stored_as_protobuf: false,
    storage_prefix: Some("apiextensions.k8s.io/customresourcedefinitions"),
    ..Strategy::of(GROUP, "CustomResourceDefinition")
};

pub fn is_definition(served: &Served) -> bool {
    served.group() == GROUP && &*served.resource.plural == PLURAL
}

/// Reads the schemas within a definition, which was otherwise typed already.
pub fn with_schemas(mut decoded: Decoded) -> Result<Decoded, DecodeError> {
    let complaints =
        prepare::read_schemas(&mut decoded.object).map_err(|error| DecodeError(error.to_string()))?;
    decoded.complaints.extend(complaints);
    Ok(decoded)
}

/// What becomes of a definition when its deletion begins: it waits for its objects.
pub fn begin_to_end(crd: &mut Value, now: &str) {
    let metadata = crd.object_mut("metadata");
    if !metadata.items("finalizers").iter().any(|name| name == FINALIZER) {
        let mut finalizers = metadata.items("finalizers").to_vec();
        finalizers.push(FINALIZER.into());
        metadata.set("finalizers", finalizers);
    }
    let condition = Condition {
        kind: "Terminating",
        status: true,
        reason: "InstanceDeletionPending".into(),
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
            .into(),
    };
    set_condition_of(crd, &condition, now);
}

/// Sets a condition in the status of a definition.
pub fn set_condition_of(crd: &mut Value, condition: &Condition, now: &str) {
    let status = crd.object_mut("status");
    if !status.field("conditions").is_array() {
        status.set("conditions", json!([]));
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        set_condition(conditions, condition, now);
    }
}
