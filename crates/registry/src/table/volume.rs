//! Persistent volumes and claims.

use serde_json::Value;

use super::text::plain;
use super::{AGE, Cell, Column, NAME, UNSET, column, computed, text};
use crate::object::Fields;

pub(super) static PERSISTENT_VOLUME: &[Column] = &[
    NAME,
    computed("Capacity", |volume| storage(volume.field("spec")), "Size of the volume."),
    computed("Access Modes", |volume| modes(volume.field("spec")).into(), "How the volume may be mounted."),
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

pub(super) static PERSISTENT_VOLUME_CLAIM: &[Column] = &[
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

const ATTRIBUTES_CLASS: Column = column(
    "VolumeAttributesClass",
    Cell::SetOr("/spec/volumeAttributesClassName", UNSET),
    "The class of attributes that can change while the volume is in use.",
);

const MODE: Column =
    column("VolumeMode", Cell::SetOr("/spec/volumeMode", UNSET), "File system or raw block device.").wide();

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Long names and short ones, in the order in which they are shown.
const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

fn modes(spec: &Value) -> String {
    let has = |mode: &str| spec.items("accessModes").iter().any(|item| item.as_str() == Some(mode));
    let short = MODES.iter().filter(|(mode, _)| has(mode)).map(|&(_, short)| short);
    short.collect::<Vec<_>>().join(",")
}

fn storage(spec: &Value) -> Value {
    spec.field("capacity").get_field("storage").map_or_else(|| "0".into(), plain).into()
}

fn phase(object: &Value) -> Value {
    if object.field("metadata").has("deletionTimestamp") {
        "Terminating".into()
    } else {
        object.field("status").text("phase").into()
    }
}

fn claim(volume: &Value) -> Value {
    match volume.field("spec").get_field("claimRef") {
        Some(claim) => format!("{}/{}", claim.text("namespace"), claim.text("name")).into(),
        None => "".into(),
    }
}

fn is_bound(claim: &Value) -> bool {
    !claim.field("spec").text("volumeName").is_empty()
}

/// The annotation is older than the field and still goes before it.
fn storage_class(object: &Value) -> Value {
    let annotations = object.field("metadata").field("annotations");
    if annotations.has(CLASS_ANNOTATION) {
        annotations.text(CLASS_ANNOTATION).into()
    } else {
        object.field("spec").text("storageClassName").into()
    }
}
