//! Columns that volumes and claims share.

use serde_json::Value;

use crate::{
    object::Fields,
    table::{Cell, Column, UNSET, column, text::plain},
};

pub(crate) const ATTRIBUTES_CLASS: Column = column(
    "VolumeAttributesClass",
    Cell::SetOr("/spec/volumeAttributesClassName", UNSET),
    "The class of attributes that can change while the volume is in use.",
);

pub(crate) const MODE: Column =
    column("VolumeMode", Cell::SetOr("/spec/volumeMode", UNSET), "File system or raw block device.").wide();

pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Long names and short ones, in the order in which they are shown.
pub(crate) const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

pub(crate) fn modes(spec: &Value) -> String {
    let has = |mode: &str| spec.items("accessModes").iter().any(|item| item.as_str() == Some(mode));
    let short = MODES.iter().filter(|(mode, _)| has(mode)).map(|&(_, short)| short);
    short.collect::<Vec<_>>().join(",")
}

pub(crate) fn storage(spec: &Value) -> Value {
    spec.field("capacity").get_field("storage").map_or_else(|| "0".into(), plain).into()
}

pub(crate) fn phase(object: &Value) -> Value {
    if object.field("metadata").has("deletionTimestamp") {
        "Terminating".into()
    } else {
        object.field("status").text("phase").into()
    }
}

/// The annotation is older than the field and still goes before it.
pub(crate) fn storage_class(object: &Value) -> Value {
    let annotations = object.field("metadata").field("annotations");
    if annotations.has(CLASS_ANNOTATION) {
        annotations.text(CLASS_ANNOTATION).into()
    } else {
        object.field("spec").text("storageClassName").into()
    }
}
