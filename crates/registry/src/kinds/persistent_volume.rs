//! PersistentVolume: storage the cluster has, and who may claim it.

pub mod source;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::dns_subdomain,
    quantity::Quantity,
};

use self::source::{INTERNAL as SOURCE, Volume};
use crate::{
    internal_form::{Form, Shape, indented, internal, same_form},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status},
    strategy::{DeleteAnswer, MetadataCheck, Strategy, Subresource},
    unified_diff::unified_diff,
    validation::{
        deprecated_label::{DEPRECATED, warn_node_selector},
        form::{must_be, one_of, pointer, same, texts},
        label_selector::ExpressionValues,
        node_selector, resource_list,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |volume| volume.set("status", json!({"phase": "Pending"})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    warnings,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Written],
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    stamp_create: |volume, context| stamp_phase(volume, None, &context.cluster.now()),
    stamp_update: |new, old, context| {
        if context.subresource == "status" {
            stamp_phase(new, Some(old), &context.cluster.now());
        }
    },
    ..Strategy::of("", "PersistentVolume")
};

/// Modes in which nodes use a volume.
pub const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Whether a volume is a file system or a bare device.
pub const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// The annotation that named the class before there was a field for it.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Sources that can be mounted with options.
const MOUNTABLE: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Records when a volume entered its phase: on create, and on a status update
/// that changes the phase without saying when. Who does not change the phase
/// and does not say since when it lasts leaves that as it is.
pub fn stamp_phase(new: &mut Value, old: Option<&Value>, now: &str) {
    let phase = |volume: &Value| volume.field("status").text("phase").to_owned();
    let at = |volume: &Value| volume.field("status").field("lastPhaseTransitionTime").clone();
    let since = match old {
        None => now.into(),
        Some(old) if phase(new) != phase(old) && (at(new).is_null() || at(new) == at(old)) => now.into(),
        Some(old) if at(new).is_null() => at(old),
        Some(_) => return,
    };
    if !since.is_null() {
        new.object_mut("status").set("lastPhaseTransitionTime", since);
    }
}

fn default(volume: &mut Value) {
    volume.object_mut("status").default_field("phase", "Pending");
    let spec = volume.object_mut("spec");
    spec.default_field("persistentVolumeReclaimPolicy", "Retain");
    if !spec.has("volumeMode") {
        spec.set("volumeMode", "Filesystem");
    }
    resource_list::default(spec, "capacity");
    source::default(spec);
}

fn validate(volume: &Value, errors: &mut Errors) {
    validate_spec(volume, Use::Volume, errors);
    let spec = volume.field("spec");
    let mountable = MOUNTABLE.iter().any(|source| spec.has(source));
    if !mountable && volume.field("metadata").field("annotations").has(MOUNT_OPTIONS) {
        let metadata = Path::new("metadata");
        let path = metadata.child("annotations");
        errors.forbidden(path.child(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
}

fn validate_spec(volume: &Value, usage: Use, errors: &mut Errors) {
    let name = volume.field("metadata").text("name");
    validate_spec_at(volume.field("spec"), name, usage, Path::new("spec"), errors);
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    // Upstream asks twice, and clients see each fault twice.
    validate(new, errors);
    validate_spec(new, Use::Volume, errors);
    let (spec, old) = (new.field("spec"), old.field("spec"));
    let mut compared = spec.clone();
    let secret = "controllerExpandSecretRef";
    if old.has("csi") && !old.field("csi").has(secret) && spec.field("csi").has(secret) {
        compared.object_mut("csi").remove(secret);
    }
    let source = Shape::Struct(SOURCE);
    if !same_form(source, &compared, old) {
        let diff = unified_diff(&indented(source, old), &indented(source, &compared));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.forbidden("spec.persistentvolumesource", &detail);
    }
    if spec.field("volumeMode") != old.field("volumeMode") {
        errors.invalid("volumeMode", pointer(spec, "volumeMode"), "field is immutable");
    }
    if old.has("nodeAffinity") && !is_same_affinity(spec.field("nodeAffinity"), old.field("nodeAffinity")) {
        let value = internal(Shape::Ptr(NODE_AFFINITY), spec.field("nodeAffinity"));
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid("nodeAffinity", value, detail);
    }
    if old.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
        let path = Path::new("spec");
        let detail = "update from non-nil value to nil is forbidden";
        errors.forbidden(path.child("volumeAttributesClassName"), detail);
    }
}

/// What a spec is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Volume,
    /// Inside a VolumeAttachment.
    Inline,
}

/// Checks a spec that stands at `path` in an object; `name` is the volume's.
pub fn validate_spec_at(spec: &Value, name: &str, usage: Use, path: Path<'_>, errors: &mut Errors) {
    let inline = usage == Use::Inline;
    let not_inline = "may not be specified in the context of inline volumes";
    if inline {
        if spec.has("claimRef") {
            errors.forbidden(path.child("claimRef"), not_inline);
        }
        if spec.entries("capacity").next().is_some() {
            errors.forbidden(path.child("capacity"), not_inline);
        }
        if !spec.has("csi") {
            errors.required(path.child("csi"), "has to be specified in the context of inline volumes");
        }
    }
    if spec.items("accessModes").is_empty() {
        errors.required(path.child("accessModes"), "");
    }
    validate_access_modes(spec, &path, errors);
    if !inline {
        validate_capacity(spec, path.child("capacity"), errors);
    }
    let policy = spec.text("persistentVolumeReclaimPolicy");
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if inline && !policy.is_empty() && policy != "Retain" {
        errors.forbidden(policy_path, "may only be Retain in the context of inline volumes");
    } else if !inline && !policy.is_empty() {
        one_of(&["Delete", "Recycle", "Retain"], policy, policy_path, errors);
    }
    let mut has_node_affinity = false;
    if let Some(affinity) = spec.get_field("nodeAffinity") {
        let path = path.child("nodeAffinity");
        if inline {
            errors.forbidden(path, not_inline);
        } else if let Some(selector) = affinity.get_field("required") {
            has_node_affinity = true;
            let path = path.child("required");
            node_selector::validate(selector, ExpressionValues::Checked, &path, errors);
        } else {
            errors.required(path.child("required"), "must specify required node constraints");
        }
    }
    source::validate(spec, &Volume { name, has_node_affinity, path }, errors);
    if policy == "Recycle" && spec.get_field("hostPath").is_some_and(|host| is_root(host.text("path"))) {
        errors.forbidden(policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        let path = path.child("storageClassName");
        if inline {
            errors.forbidden(path, not_inline);
        } else {
            must_be(dns_subdomain, class, path, errors);
        }
    }
    if spec.has("volumeMode") {
        let mode = spec.text("volumeMode");
        let path = path.child("volumeMode");
        if !inline {
            one_of(&VOLUME_MODES, mode, path, errors);
        } else if mode != "Filesystem" {
            let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            errors.forbidden(path, detail);
        }
    }
    if !inline && spec.has("volumeAttributesClassName") {
        let class = spec.text("volumeAttributesClassName");
        let class_path = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(class_path, "an empty string is disallowed");
        } else {
            must_be(dns_subdomain, class, class_path, errors);
        }
        if !spec.has("csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.required(path.child("csi"), detail);
        }
    }
}

/// Known modes, and `ReadWriteOncePod` alone.
pub fn validate_access_modes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let modes = path.child("accessModes");
    let (mut pod, mut other) = (false, false);
    for mode in texts(spec, "accessModes") {
        one_of(&ACCESS_MODES, mode, modes, errors);
        if mode == "ReadWriteOncePod" {
            pod = true;
        } else {
            other |= ACCESS_MODES.contains(&mode);
        }
    }
    if pod && other {
        errors.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_capacity(spec: &Value, path: Path<'_>, errors: &mut Errors) {
    let entries = spec.entries("capacity").count();
    if entries == 0 {
        errors.required(path, "");
    }
    if entries != 1 || !spec.field("capacity").has("storage") {
        errors.not_supported(path, BadValue::Json(spec.field("capacity").clone()), &["storage"]);
    }
    for (resource, amount) in spec.entries("capacity") {
        let path = path.key(resource);
        let Ok(quantity) = Quantity::from_json(amount) else { continue };
        if quantity.is_negative() {
            let value = quantity.value().unwrap_or(i64::MIN);
            errors.invalid(path, value, "must be a valid resource quantity");
        }
        if quantity.is_negative() || quantity.is_zero() {
            errors.invalid(path, quantity.to_string(), "must be greater than zero");
        }
    }
}

/// Annotations that became fields: name, since when, field.
const DEPRECATED_ANNOTATIONS: [(&str, &str, &str); 2] =
    [(CLASS_ANNOTATION, "v1.8", "storageClassName"), (MOUNT_OPTIONS, "v1.31", "mountOptions")];

/// Sources that no longer work: field, what warnings call it, since when, and since when not at all.
const DEPRECATED_SOURCES: [(&str, &str, &str, &str); 6] = [
    ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16"),
    ("scaleIO", "scaleIO", "v1.16", "v1.22"),
    ("storageos", "storageOS", "v1.22", "v1.25"),
    ("glusterfs", "glusterfs", "v1.25", "v1.26"),
    ("rbd", "rbd", "v1.28", "v1.31"),
    ("cephfs", "cephfs", "v1.28", "v1.31"),
];

fn warnings(volume: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (annotation, since, field) in DEPRECATED_ANNOTATIONS {
        if volume.field("metadata").field("annotations").has(annotation) {
            warnings.push(format!(
                "metadata.annotations[{annotation}]: deprecated since {since}; use \"{field}\" attribute instead"
            ));
        }
    }
    let spec = volume.field("spec");
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".into());
    }
    let path = Path::new("spec");
    let affinity = path.child("nodeAffinity");
    let required = spec.field("nodeAffinity").field("required");
    warn_node_selector(required, &affinity.child("required"), &mut warnings);
    for (field, shown, since, gone) in DEPRECATED_SOURCES {
        if spec.has(field) {
            warnings.push(format!("spec.{shown}: deprecated in {since}, non-functional in {gone}+"));
        }
    }
    warnings
}

/// Whether a cleaned path is the root.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Equal, or equal but for labels that the new one calls by their later names.
fn is_same_affinity(new: &Value, old: &Value) -> bool {
    let mut renamed = old.clone();
    let new_terms = new.field("required").items("nodeSelectorTerms");
    if renamed.has("required") {
        let terms = renamed.object_mut("required").items_mut("nodeSelectorTerms");
        for (term, new_term) in terms.iter_mut().zip(new_terms) {
            let expressions = term.items_mut("matchExpressions");
            for (expression, new) in expressions.iter_mut().zip(new_term.items("matchExpressions")) {
                let later = DEPRECATED
                    .iter()
                    .find(|(beta, _, later)| *beta == expression.text("key") && *later == new.text("key"));
                if let Some((_, _, later)) = later {
                    expression.set("key", *later);
                }
            }
        }
    }
    same(&renamed, new)
}

const NODE_AFFINITY: Form = Form::Message("io.k8s.api.core.v1.VolumeNodeAffinity");

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
        computed("Capacity", |volume| storage(volume.field("spec")), "Size of the volume."),
        computed(
            "Access Modes",
            |volume| modes(volume.field("spec")).into(),
            "How the volume may be mounted.",
        ),
        text(
            "Reclaim Policy",
            "/spec/persistentVolumeReclaimPolicy",
            "What becomes of the volume when its claim is gone.",
        ),
        computed("Status", phase, "Whether the volume is free, bound or going away."),
        computed("Claim", claim, "The claim that the volume belongs to."),
        computed("StorageClass", storage_class, "The class of the volume."),
        ATTRIBUTES_CLASS,
        text("Reason", "/status/reason", "Why the volume is in its phase, in a word."),
        AGE,
        MODE,
    ];

    fn claim(volume: &Value) -> Value {
        match volume.field("spec").get_field("claimRef") {
            Some(claim) => format!("{}/{}", claim.text("namespace"), claim.text("name")).into(),
            None => "".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_stamped_when_they_begin() {
        let at = |volume: &Value| volume.field("status").text("lastPhaseTransitionTime").to_owned();
        let old = json!({"status": {"phase": "Pending", "lastPhaseTransitionTime": "then"}});
        for (phase, given, old, expected) in [
            ("Pending", json!(null), None, "now"),
            ("Pending", json!("then"), Some(&old), "then"),
            ("Pending", json!(null), Some(&old), "then"),
            ("Pending", json!("later"), Some(&old), "later"),
            ("Bound", json!("then"), Some(&old), "now"),
            ("Bound", json!(null), Some(&old), "now"),
            ("Bound", json!("later"), Some(&old), "later"),
        ] {
            let mut new = json!({"status": {"phase": phase, "lastPhaseTransitionTime": given}});
            stamp_phase(&mut new, old, "now");
            assert_eq!(at(&new), expected, "{phase} {given}");
        }
    }
}
