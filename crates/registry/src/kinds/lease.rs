//! `Lease`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::{
    object::{Fields, FieldsMut},
    strategy::Strategy,
    validation::{bounds::not_negative, form::named},
};

pub const STRATEGY: Strategy = Strategy {
    prepare_create,
    prepare_update,
    validate,
    validate_update: |lease, _old, errors| validate(lease, errors),
    create_on_update: true,
    unconditional_update: false,
    qualified_finalizers: false,
    columns: columns::COLUMNS,
    ..Strategy::of("coordination.k8s.io", "Lease")
};

/// Behind a gate that is off.
const GATED: [&str; 2] = ["strategy", "preferredHolder"];

fn prepare_create(lease: &mut Value) {
    prepare_update(lease, &Value::Null);
}

/// What is stored already stays.
fn prepare_update(lease: &mut Value, old: &Value) {
    let stored = GATED.iter().any(|name| old.field("spec").has(name));
    if !stored && lease.has("spec") {
        for name in GATED {
            lease.object_mut("spec").remove(name);
        }
    }
}

fn validate(lease: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = lease.field("spec");
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    not_negative(spec, "leaseTransitions", &path, errors);
    if let Some(strategy) = spec.get_field("strategy") {
        let strategy = strategy.as_str().unwrap_or_default();
        if !strategy.contains('/') && strategy != "OldestEmulationVersion" {
            let path = path.child("strategy");
            errors.not_supported(path.child("strategy"), named(strategy), &["OldestEmulationVersion"]);
        }
    }
    if !spec.text("preferredHolder").is_empty() && spec.text("strategy").is_empty() {
        errors.forbidden(path.child("preferredHolder"), "may only be specified if `strategy` is defined");
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Column, NAME, text};

    pub(super) const COLUMNS: &[Column] =
        &[NAME, text("Holder", "/spec/holderIdentity", "Who holds the lease."), AGE];
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reachable only for leases stored while the gate was on.
    #[test]
    fn stored_strategies_stay_and_are_checked() {
        let old = json!({"spec": {"strategy": "OldestEmulationVersion"}});
        let mut lease = json!({"spec": {"strategy": "Zz", "preferredHolder": "p"}});
        prepare_update(&mut lease, &old);
        assert_eq!(lease["spec"]["strategy"], "Zz");
        let mut errors = Errors::default();
        validate(&lease, &mut errors);
        validate(&json!({"spec": {"preferredHolder": "p"}}), &mut errors);
        validate(&json!({"spec": {"strategy": "a.b/c", "preferredHolder": "p"}}), &mut errors);
        let found: Vec<String> =
            errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        assert_eq!(
            found,
            [
                r#"spec.strategy.strategy: Unsupported value: "Zz": supported values: "OldestEmulationVersion""#,
                "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined",
            ]
        );
        prepare_create(&mut lease);
        assert_eq!(lease["spec"], json!({}));
    }
}
