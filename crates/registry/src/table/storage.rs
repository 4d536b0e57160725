//! The `storage.k8s.io` group.

use serde_json::Value;

use super::text::{each, join, or};
use super::{AGE, Cell, Column, NAME, NONE, UNSET, column, computed, flag, text};
use crate::object::Fields;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "CSIDriver" => CSI_DRIVER,
        "CSINode" => CSI_NODE,
        "StorageClass" => STORAGE_CLASS,
        "VolumeAttachment" => VOLUME_ATTACHMENT,
        "VolumeAttributesClass" => VOLUME_ATTRIBUTES_CLASS,
        _ => return None,
    })
}

static CSI_DRIVER: &[Column] = &[
    NAME,
    flag("AttachRequired", Cell::Flag("/spec/attachRequired", true), "Whether volumes are attached first."),
    flag(
        "PodInfoOnMount",
        Cell::Flag("/spec/podInfoOnMount", false),
        "Whether mounting tells which pod it is for.",
    ),
    flag(
        "StorageCapacity",
        Cell::Flag("/spec/storageCapacity", false),
        "Whether free capacity is published.",
    ),
    computed("TokenRequests", audiences, "Audiences of the service account tokens it needs."),
    flag("RequiresRepublish", Cell::Flag("/spec/requiresRepublish", false), "Whether mounting is repeated."),
    computed(
        "Modes",
        |driver| or(join(driver.field("spec").items("volumeLifecycleModes")), NONE).into(),
        "Kinds of volumes it supports.",
    ),
    AGE,
];

static CSI_NODE: &[Column] = &[
    NAME,
    column("Drivers", Cell::Count("/spec/drivers"), "Number of drivers on the node.").typed("integer"),
    AGE,
];

static STORAGE_CLASS: &[Column] = &[
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
    column("AllowVolumeExpansion", Cell::Flag("/allowVolumeExpansion", false), "Whether volumes can grow."),
    AGE,
];

static VOLUME_ATTACHMENT: &[Column] = &[
    NAME,
    text("Attacher", "/spec/attacher", "The driver that attaches.").identifying(),
    text("PV", "/spec/source/persistentVolumeName", "The volume."),
    text("Node", "/spec/nodeName", "The node."),
    flag("Attached", Cell::Flag("/status/attached", false), "Whether it is attached."),
    AGE,
];

static VOLUME_ATTRIBUTES_CLASS: &[Column] =
    &[NAME, text("DriverName", "/driverName", "The driver that knows the attributes."), AGE];

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

fn audiences(driver: &Value) -> Value {
    match driver.field("spec").get_field("tokenRequests") {
        Some(_) => each(driver.field("spec").items("tokenRequests"), "audience"),
        None => UNSET.into(),
    }
}

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
