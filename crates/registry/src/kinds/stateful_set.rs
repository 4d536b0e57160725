//! `StatefulSet`

use std::collections::HashSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    format,
    selector::LabelSelector,
};

use super::persistent_volume_claim;
use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{
        bounds::{
            NOT_NEGATIVE, available_are_ready, collisions_not_decremented, none_negative, not_above_replicas,
            not_negative,
        },
        form::{named, same},
        int_or_percent, label_selector,
        labels::{validate_annotations, validate_labels},
        pod_template_spec, resource_list,
        workload::{
            default_template, runs_for_ever, selector_matches_template, selector_value, template_warnings,
        },
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    validate_status_update,
    warnings,
    generation: Generation::Tracks(&["spec"]),
    name: NAME,
    reset_fields: &[".status"],
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    columns: columns::COLUMNS,
    ..Strategy::of("apps", "StatefulSet")
};

/// The name goes into host names of pods.
pub const NAME: fn(&str) -> format::Problems = format::dns_label;

const ROLLING_UPDATE: Form = Form::Message("io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy");

const UPDATE_STRATEGY: Form = Form::Message("io.k8s.api.apps.v1.StatefulSetUpdateStrategy");

/// What an update may change in the spec.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn default(set: &mut Value) {
    let spec = set.object_mut("spec");
    spec.default_field("podManagementPolicy", "OrderedReady");
    let strategy = spec.object_mut("updateStrategy");
    if strategy.text("type").is_empty() {
        strategy.set("type", "RollingUpdate");
        strategy.object_mut("rollingUpdate");
    }
    if strategy.text("type") == "RollingUpdate" && strategy.has("rollingUpdate") {
        strategy.object_mut("rollingUpdate").default_field("partition", 0);
    }
    let retention = spec.object_mut("persistentVolumeClaimRetentionPolicy");
    retention.default_field("whenDeleted", "Retain");
    retention.default_field("whenScaled", "Retain");
    spec.default_field("replicas", 1);
    spec.default_field("revisionHistoryLimit", 10);
    default_template(spec);
    for claim in spec.items_mut("volumeClaimTemplates") {
        claim.set("apiVersion", "v1");
        claim.set("kind", "PersistentVolumeClaim");
        let spec = claim.object_mut("spec");
        persistent_volume_claim::default_spec(spec);
        resource_list::default_requirements(spec, "resources");
        claim.object_mut("status").default_field("phase", "Pending");
    }
}

fn prepare_create(set: &mut Value) {
    reset_status(set);
    drop_max_unavailable(set, &Value::Null);
}

fn prepare_update(set: &mut Value, old: &Value) {
    keep_status(set, old);
    drop_max_unavailable(set, old);
}

/// Behind a gate that is off; a value that is stored stays.
fn drop_max_unavailable(set: &mut Value, old: &Value) {
    let stored = old.field("spec").field("updateStrategy").field("rollingUpdate").has("maxUnavailable");
    let strategy = set.object_mut("spec").object_mut("updateStrategy");
    if !stored && strategy.has("rollingUpdate") {
        strategy.object_mut("rollingUpdate").remove("maxUnavailable");
    }
}

/// Which parts of a spec are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Everything,
    /// What cannot change is not looked at again.
    Update,
    /// As `Update`, and the stored template was bad already.
    UpdateWithoutTemplate,
}

fn validate(set: &Value, errors: &mut Errors) {
    validate_spec(set.field("spec"), &Value::Null, Scope::Everything, errors);
}

fn validate_update(set: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old) = (set.field("spec"), old.field("spec"));
    let mut stored = Errors::default();
    validate_spec(old, old, Scope::Update, &mut stored);
    let scope = if stored.is_empty() { Scope::Update } else { Scope::UpdateWithoutTemplate };
    validate_spec(spec, old, scope, errors);
    if !same(&immutable_part(spec), &immutable_part(old)) {
        errors.forbidden(Path::new("spec"), "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
    }
}

fn immutable_part(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for name in MUTABLE {
        spec.remove(name);
    }
    // Storage classes and sizes are compared as amounts.
    for claim in spec.items_mut("volumeClaimTemplates") {
        for list in ["requests", "limits"] {
            let entries = claim.field("spec").field("resources").field(list);
            let amounts: Value = entries
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| {
                    (
                        name.clone(),
                        json!(
                            resource_list::quantity(entries, name)
                                .and_then(|quantity| quantity.milli_value())
                        ),
                    )
                })
                .collect();
            if !entries.is_null() {
                claim.object_mut("spec").object_mut("resources").set(list, amounts);
            }
        }
    }
    spec
}

fn validate_spec(spec: &Value, old: &Value, scope: Scope, errors: &mut Errors) {
    let path = Path::new("spec");
    let management = spec.text("podManagementPolicy");
    match management {
        "" => errors.required(path.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        _ => errors.invalid(
            path.child("podManagementPolicy"),
            named(management),
            "must be 'OrderedReady' or 'Parallel'",
        ),
    }
    validate_update_strategy(spec.field("updateStrategy"), &path.child("updateStrategy"), errors);
    validate_retention(spec, &path.child("persistentVolumeClaimRetentionPolicy"), errors);
    if scope == Scope::Everything {
        let path = path.child("volumeClaimTemplates");
        for (index, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            let path = path.index(index);
            persistent_volume_claim::validate_spec(claim.field("spec"), &path.child("spec"), errors);
        }
    }
    none_negative(spec, &["replicas", "minReadySeconds"], &path, errors);
    if let Some(start) = spec.field("ordinals").int("start").filter(|start| *start < 0) {
        errors.invalid(path.child("ordinals").child("start"), start, NOT_NEGATIVE);
    }
    let service = spec.text("serviceName");
    if scope == Scope::Everything && !service.is_empty() {
        for problem in format::dns_label(service) {
            errors.invalid(path.child("serviceName"), service, &problem);
        }
    }
    validate_selector_and_template(spec, old, scope, &path, errors);
    runs_for_ever(spec.field("template"), "StatefulSet", &path.child("template"), errors);
}

fn validate_update_strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "" => errors.required(path, ""),
        "OnDelete" | "RollingUpdate" if rolling.is_null() => {}
        "OnDelete" => errors.invalid(
            rolling_path,
            internal(Shape::Ptr(ROLLING_UPDATE), rolling),
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "RollingUpdate" => {
            not_negative(rolling, "partition", &rolling_path, errors);
            if let Some(unavailable) = rolling.get_field("maxUnavailable") {
                let path = rolling_path.child("maxUnavailable");
                int_or_percent::validate(unavailable, &path, errors);
                if int_or_percent::is_zero(unavailable) {
                    errors.invalid(path, internal(Shape::Raw, unavailable), "cannot be 0");
                }
            }
        }
        _ => errors.invalid(
            path,
            internal(Shape::Struct(UPDATE_STRATEGY), strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
}

fn validate_retention(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(retention) = spec.get_field("persistentVolumeClaimRetentionPolicy") else { return };
    for name in ["whenDeleted", "whenScaled"] {
        let policy = retention.text(name);
        if !matches!(policy, "Retain" | "Delete") {
            errors.not_supported(path.child(name), named(policy), &["Retain", "Delete"]);
        }
    }
}

fn validate_selector_and_template(
    spec: &Value,
    old: &Value,
    scope: Scope,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let selector = spec.field("selector");
    let selector_path = path.child("selector");
    if selector.is_null() {
        errors.required(selector_path, "");
    } else {
        label_selector::validate(selector, &selector_path, errors);
        if label_selector::is_empty(selector) {
            errors.invalid(
                selector_path,
                selector_value(selector),
                "empty selector is invalid for statefulset",
            );
        }
    }
    let Ok(compiled) = LabelSelector::from_object(selector) else {
        return errors.invalid(selector_path, selector_value(selector), "");
    };
    let template = pods_with_claims(spec);
    let metadata = template.field("metadata");
    let path = path.child("template");
    selector_matches_template(&compiled, &template, &path, errors);
    if scope != Scope::UpdateWithoutTemplate {
        pod_template_spec::validate_update(&template, old.field("template"), &path, errors);
    }
    validate_labels(metadata, "labels", &path.child("labels"), errors);
    validate_annotations(metadata, "annotations", &path.child("annotations"), errors);
}

/// The template as its pods will be: their host names are given by the set, and
/// each claim template is a volume.
fn pods_with_claims(spec: &Value) -> Value {
    let mut template = spec.field("template").clone();
    let claims: Vec<&str> =
        spec.items("volumeClaimTemplates").iter().map(|claim| claim.field("metadata").text("name")).collect();
    let pod = template.object_mut("spec");
    pod.remove("hostname");
    pod.remove("subdomain");
    if !claims.is_empty() {
        let mut seen = HashSet::new();
        let mut volumes = Vec::new();
        for name in claims {
            if seen.insert(name) {
                volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            }
        }
        volumes.extend(
            pod.items("volumes").iter().filter(|volume| !seen.contains(volume.text("name"))).cloned(),
        );
        pod.set("volumes", volumes);
    }
    template
}

fn validate_status_update(set: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = set.field("status");
    none_negative(
        status,
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        &path,
        errors,
    );
    not_above_replicas(
        status,
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        &path,
        errors,
    );
    available_are_ready(status, "status.readyReplicas", &path, errors);
    collisions_not_decremented(status, old.field("status"), &path, errors);
}

fn warnings(set: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = template_warnings(set, old);
    let path = Path::new("spec");
    let path = path.child("volumeClaimTemplates");
    for (index, claim) in set.field("spec").items("volumeClaimTemplates").iter().enumerate() {
        let item = path.index(index);
        // Upstream names the place differently on an update.
        let path = if old.is_some() { item.child("Spec") } else { item };
        persistent_volume_claim::warn_spec(claim.field("spec"), &path, &mut warnings);
    }
    if set.field("spec").int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        warnings.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".into());
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{
        AGE, Column, NAME,
        workload::{READY_OF_DESIRED, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES},
    };

    pub(super) const COLUMNS: &[Column] =
        &[NAME, READY_OF_DESIRED, AGE, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reachable only for sets stored while the gate was on.
    #[test]
    fn a_stored_max_unavailable_stays_and_is_checked() {
        let with = |value: Value| json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": value}}}});
        for (value, expected) in [
            (json!(1), None),
            (json!("0%"), Some("Invalid value: \"0%\": cannot be 0")),
            (json!(-1), Some("Invalid value: -1: must be greater than or equal to 0")),
        ] {
            let mut set = with(value.clone());
            prepare_update(&mut set, &with(json!(1)));
            let mut errors = Errors::default();
            validate_update_strategy(set["spec"].field("updateStrategy"), &Path::new("u"), &mut errors);
            let found = errors.causes().first().map(|cause| cause.message.as_str());
            assert_eq!(found, expected, "{value}");
            prepare_create(&mut set);
            assert_eq!(set["spec"]["updateStrategy"]["rollingUpdate"], json!({}));
        }
    }
}
