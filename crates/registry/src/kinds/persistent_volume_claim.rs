//! PersistentVolumeClaim: storage a user asks for.
//!
//! Claims stand also in templates: [`default_spec`] and [`validate_spec`] are
//! for those.

use std::cmp::Ordering;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_label, dns_subdomain},
    quantity::Quantity,
};

use super::persistent_volume::{CLASS_ANNOTATION, VOLUME_MODES, validate_access_modes};
use crate::{
    internal_form::{Form, Shape, indented, same_form},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status},
    strategy::{DeleteAnswer, MetadataCheck, Strategy, Subresource},
    unified_diff::unified_diff,
    validation::{
        form::{must_be, not_empty, one_of, pointer, same},
        label_selector, resource_list,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: keep_spec,
    validate: |claim, errors| validate(claim, None, errors),
    validate_update,
    validate_status_update,
    warnings,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    ..Strategy::of("", "PersistentVolumeClaim")
};

const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// `core.PersistentVolumeClaimSpec`
pub const SPEC: Form = Form::Message("io.k8s.api.core.v1.PersistentVolumeClaimSpec");

fn default(claim: &mut Value) {
    let status = claim.object_mut("status");
    status.default_field("phase", "Pending");
    resource_list::default(status, "capacity");
    resource_list::default(status, "allocatedResources");
    default_spec(claim.object_mut("spec"));
}

pub fn default_spec(spec: &mut Value) {
    if !spec.has("volumeMode") {
        spec.set("volumeMode", "Filesystem");
    }
    resource_list::default_requirements(spec, "resources");
}

fn prepare_create(claim: &mut Value) {
    claim.set("status", json!({"phase": "Pending"}));
    prepare_data_sources(claim.object_mut("spec"), &Value::Null);
}

fn prepare_update(new: &mut Value, old: &Value) {
    keep_status(new, old);
    prepare_data_sources(new.object_mut("spec"), old.field("spec"));
}

/// The two fields for a source say the same; the older one takes only claims and snapshots.
fn prepare_data_sources(spec: &mut Value, old: &Value) {
    // Sources in other namespaces are not enabled.
    if !spec.field("dataSourceRef").text("namespace").is_empty()
        && old.field("dataSourceRef").text("namespace").is_empty()
    {
        spec.remove("dataSourceRef");
    }
    let stored = old.has("dataSource") || old.has("dataSourceRef");
    if !stored && !is_claim_or_snapshot(spec.field("dataSource")) {
        spec.remove("dataSource");
    }
    match (spec.get_field("dataSource").cloned(), spec.get_field("dataSourceRef").cloned()) {
        (Some(source), None) => spec.set("dataSourceRef", source),
        (None, Some(mut reference)) => {
            reference.remove("namespace");
            spec.set("dataSource", reference);
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source.text("apiGroup"), source.text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

fn validate(claim: &Value, old: Option<&Value>, errors: &mut Errors) {
    let old_spec = old.map_or(&Value::Null, |old| old.field("spec"));
    validate_spec_update(claim.field("spec"), old_spec, &Path::new("spec"), errors);
}

/// A claim's spec in a template.
pub fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_spec_update(spec, &Value::Null, path, errors);
}

/// As [`validate_spec`], where what was stored unchecked stays allowed.
pub fn validate_spec_update(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    if spec.items("accessModes").is_empty() {
        errors.required(path.child("accessModes"), "at least 1 access mode is required");
    }
    if let Some(selector) = spec.get_field("selector") {
        let path = path.child("selector");
        label_selector::validate_update(selector, old.field("selector"), &path, errors);
    }
    validate_access_modes(spec, path, errors);
    let resources = path.child("resources");
    let storage = resources.key("storage");
    match spec.field("resources").field("requests").get_field("storage").map(Quantity::from_json) {
        None => errors.required(storage, ""),
        Some(Ok(quantity)) if quantity.is_negative() || quantity.is_zero() => {
            errors.invalid(storage, quantity.to_string(), "must be greater than zero");
        }
        Some(_) => {}
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        must_be(dns_subdomain, class, path.child("storageClassName"), errors);
    }
    if spec.has("volumeMode") {
        one_of(&VOLUME_MODES, spec.text("volumeMode"), path.child("volumeMode"), errors);
    }
    let stored_groups = ["dataSource", "dataSourceRef"].iter().any(|name| old.field(name).has("apiGroup"));
    for name in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.get_field(name) {
            validate_data_source(source, stored_groups, path.child(name), errors);
        }
    }
    validate_source_match(spec, path, errors);
    let class = spec.text("volumeAttributesClassName");
    if !class.is_empty() {
        must_be(dns_subdomain, class, path.child("volumeAttributesClassName"), errors);
    }
}

fn validate_data_source(source: &Value, stored_groups: bool, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("name"), path.child("name"), errors);
    not_empty(source.text("kind"), path.child("kind"), errors);
    let group = source.text("apiGroup");
    if group.is_empty() && source.text("kind") != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, source.text("kind"), detail);
    }
    if !group.is_empty() && !stored_groups {
        must_be(dns_subdomain, group, path.child("apiGroup"), errors);
    }
    if !source.text("namespace").is_empty() {
        must_be(dns_label, source.text("namespace"), path.child("namespace"), errors);
    }
}

fn validate_source_match(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    let nothing = || BadValue::Plain("{}".into());
    if !reference.text("namespace").is_empty() {
        if !source.is_null() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            errors.invalid(path, nothing(), detail);
        }
    } else if !source.is_null() && !reference.is_null() {
        let parts = |source: &Value| {
            ["apiGroup", "kind", "name"]
                .map(|name| source.field(name).as_str().unwrap_or_default().to_owned())
        };
        if parts(source) != parts(reference) {
            errors.invalid(path, nothing(), "must match dataSourceRef");
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, Some(old), errors);
    let (mut new_spec, mut old_spec) = (new.field("spec").clone(), old.field("spec").clone());
    if old_spec.text("volumeName").is_empty() {
        let name = new_spec.text("volumeName").to_owned();
        old_spec.set("volumeName", name);
    }
    let annotation =
        |claim: &Value| claim.field("metadata").field("annotations").field(CLASS_ANNOTATION).clone();
    let (new_annotation, old_annotation) = (annotation(new), annotation(old));
    let named_first = !old_spec.has("storageClassName") && new_spec.has("storageClassName");
    let from_annotation = named_first
        && !old_annotation.is_null()
        && new_spec.field("storageClassName") == &old_annotation
        && (new_annotation.is_null() || new_annotation == old_annotation);
    if from_annotation {
        new_spec.remove("storageClassName");
    } else {
        if new_annotation.as_str().unwrap_or_default() != old_annotation.as_str().unwrap_or_default() {
            let metadata = Path::new("metadata");
            let path = metadata.child("annotations");
            let value = new_annotation.as_str().unwrap_or_default();
            errors.invalid(path.child(CLASS_ANNOTATION), value, "field is immutable");
        }
        let unnamed = old_annotation.is_null() || new_spec.field("storageClassName") == &old_annotation;
        if named_first && unnamed {
            new_spec.remove("storageClassName");
        }
    }
    let bound = new.field("status").text("phase") == "Bound";
    let storage = |spec: &Value| spec.field("resources").field("requests").field("storage").clone();
    if bound && new_spec.field("resources").has("requests") {
        let size = storage(&old_spec);
        new_spec.object_mut("resources").object_mut("requests").set("storage", size);
    }
    if bound {
        let class = old_spec.field("volumeAttributesClassName").clone();
        new_spec.set("volumeAttributesClassName", class);
    }
    let shape = Shape::Struct(SPEC);
    if !same_form(shape, &new_spec, &old_spec) {
        let diff = unified_diff(&indented(shape, &old_spec), &indented(shape, &new_spec));
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        );
        errors.forbidden("spec", &detail);
    }
    let quantity = |value: &Value| Quantity::from_json(value).or_else(|_| Quantity::parse("0"));
    let capacity = old.field("status").field("capacity").field("storage");
    if let (Ok(new_size), Ok(old_size), Ok(capacity)) =
        (quantity(&storage(new.field("spec"))), quantity(&storage(old.field("spec"))), quantity(capacity))
        && new_size.cmp(&old_size) == Ordering::Less
        && new_size.cmp(&capacity) != Ordering::Greater
    {
        let path = "spec.resources.requests.storage";
        errors.forbidden(path, "field can not be less than status.capacity");
    }
    let (new_spec, old_spec) = (new.field("spec"), old.field("spec"));
    if !same(new_spec.field("volumeMode"), old_spec.field("volumeMode")) {
        errors.invalid("volumeMode", pointer(new_spec, "volumeMode"), "field is immutable");
    }
    let name = "volumeAttributesClassName";
    if old_spec.field(name) != new_spec.field(name)
        && old.field("status").has("currentVolumeAttributesClassName")
    {
        let spec = Path::new("spec");
        let path = spec.child(name);
        if !new_spec.has(name) {
            let detail = "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.forbidden(path, detail);
        } else if new_spec.text(name).is_empty() {
            let detail =
                "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil";
            errors.forbidden(path, detail);
        }
    }
}

fn warnings(claim: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim.field("metadata").field("annotations").has(CLASS_ANNOTATION) {
        warnings.push(format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    warn_spec(claim.field("spec"), &Path::new("spec"), &mut warnings);
    warnings
}

/// Warnings for a claim's spec, in a template too.
pub fn warn_spec(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let resources = path.child("resources");
    for name in ["requests", "limits"] {
        let amount = spec.field("resources").field(name).field("storage");
        if let Ok(quantity) = Quantity::from_json(amount)
            && !quantity.is_integer()
        {
            warnings.push(format!(
                "{}: fractional byte value \"{quantity}\" is invalid, must be an integer",
                resources.child(name).key("storage")
            ));
        }
    }
}

fn validate_status_update(new: &Value, _old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    let path = Path::new("status");
    for (resource, amount) in status.entries("capacity") {
        validate_amount(resource, amount, path.child("capacity"), errors);
    }
    let statuses = path.child("allocatedResourceStatuses");
    for (resource, value) in status.entries("allocatedResourceStatuses") {
        if !is_storage(resource) {
            errors.not_supported(statuses, BadValue::Json(resource.into()), &["storage"]);
        }
        if !RESIZE_STATUSES.contains(&value.as_str().unwrap_or_default()) {
            errors.not_supported(statuses, BadValue::Json(resource.into()), &RESIZE_STATUSES);
        }
    }
    let allocated = path.child("allocatedResources");
    for (resource, amount) in status.entries("allocatedResources") {
        if is_storage(resource) {
            validate_amount(resource, amount, allocated, errors);
        } else {
            errors.not_supported(allocated, BadValue::Json(resource.into()), &["storage"]);
        }
    }
}

/// `storage`, or a resource in a domain that is not Kubernetes' own.
fn is_storage(resource: &str) -> bool {
    resource == "storage" || (resource.contains('/') && !resource.contains("kubernetes.io/"))
}

fn validate_amount(resource: &str, amount: &Value, path: Path<'_>, errors: &mut Errors) {
    if let Ok(quantity) = Quantity::from_json(amount)
        && quantity.is_negative()
    {
        let value = quantity.value().unwrap_or(i64::MIN);
        errors.invalid(path.key(resource), value, "must be a valid resource quantity");
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Column, NAME, computed, text,
            volume::{ATTRIBUTES_CLASS, MODE, modes, phase, storage, storage_class},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Status", phase, "Whether the claim waits, is bound or is going away."),
        text("Volume", "/spec/volumeName", "The volume that the claim is bound to."),
        computed(
            "Capacity",
            |claim| if is_bound(claim) { storage(claim.field("status")) } else { "".into() },
            "Size of the bound volume.",
        ),
        computed(
            "Access Modes",
            |claim| if is_bound(claim) { modes(claim.field("status")).into() } else { "".into() },
            "How the bound volume may be mounted.",
        ),
        computed("StorageClass", storage_class, "The class that the claim asks for."),
        ATTRIBUTES_CLASS,
        AGE,
        MODE,
    ];

    fn is_bound(claim: &Value) -> bool {
        !claim.field("spec").text("volumeName").is_empty()
    }
}
