//! Where a container sees the volumes of its pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::{
    Context,
    paths::{has_backsteps, validate_descending},
};
use crate::object::Fields;

/// Names and paths, the last path of a name counting.
type Places<'a> = BTreeMap<&'a str, &'a str>;

pub fn validate_volume_mounts(
    container: &Value,
    context: &Context<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let list = path.child("volumeMounts");
    let devices = places(container, "volumeDevices", "devicePath");
    let device_paths: BTreeSet<&str> = devices.values().copied().collect();
    let mut paths = BTreeSet::new();
    for (index, mount) in container.items("volumeMounts").iter().enumerate() {
        let path = list.index(index);
        let (name, at) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(path.child("name"), "");
        }
        if !context.volumes.contains_key(name) {
            errors.not_found(path.child("name"), name);
        }
        if at.is_empty() {
            errors.required(path.child("mountPath"), "");
        }
        if !paths.insert(at) {
            errors.invalid(path.child("mountPath"), at, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(path.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(at) {
            errors.invalid(path.child("mountPath"), at, "must not already exist as a path in volumeDevices");
        }
        // From here on upstream leaves the index out, but for one.
        validate_descending(mount.text("subPath"), &list.child("subPath"), errors);
        let expression = mount.text("subPathExpr");
        if !expression.is_empty() {
            if !mount.text("subPath").is_empty() {
                let problem = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(path.child("subPathExpr"), expression, problem);
            }
            validate_descending(expression, &list.child("subPathExpr"), errors);
        }
        validate_propagation(mount, container, &list.child("mountPropagation"), errors);
        validate_recursive_read_only(mount, &list.child("recursiveReadOnly"), errors);
    }
}

fn validate_propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(propagation) = mount.field("mountPropagation").as_str() else { return };
    if !["Bidirectional", "HostToContainer", "None"].contains(&propagation) {
        let known = &["Bidirectional", "HostToContainer", "None"];
        errors.not_supported(path, BadValue::Json(propagation.into()), known);
    }
    if propagation == "Bidirectional" && !container.field("securityContext").flag("privileged") {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only(mount: &Value, path: &Path<'_>, errors: &mut Errors) {
    match mount.field("recursiveReadOnly").as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount.field("mountPropagation").as_str().is_some_and(|propagation| propagation != "None") {
                errors
                    .forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => {
            errors.not_supported(path, BadValue::Json(other.into()), &["Disabled", "Enabled", "IfPossible"]);
        }
    }
}

pub fn validate_volume_devices(
    container: &Value,
    context: &Context<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let list = path.child("volumeDevices");
    let mounts = places(container, "volumeMounts", "mountPath");
    let mount_paths: BTreeSet<&str> = mounts.values().copied().collect();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in container.items("volumeDevices").iter().enumerate() {
        let path = list.index(index);
        let (name, at) = (device.text("name"), device.text("devicePath"));
        if name.is_empty() {
            errors.required(path.child("name"), "");
        }
        if names.contains(name) {
            errors.invalid(path.child("name"), name, "must be unique");
        }
        match context.volumes.get(name) {
            Some(volume) if volume.has("persistentVolumeClaim") || volume.has("ephemeral") => {}
            Some(_) => errors.invalid(
                path.child("name"),
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
            None => errors.not_found(path.child("name"), name),
        }
        if at.is_empty() {
            errors.required(path.child("devicePath"), "");
        }
        if paths.contains(at) {
            errors.invalid(path.child("devicePath"), at, "must be unique");
        }
        if has_backsteps(at) {
            errors.invalid(path.child("devicePath"), at, "can not contain backsteps ('..')");
        } else {
            paths.insert(at);
        }
        if mounts.contains_key(name) {
            errors.invalid(path.child("name"), name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(at) {
            let problem = "must not already exist as a path in volumeMounts";
            errors.invalid(path.child("devicePath"), at, problem);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn places<'a>(container: &'a Value, list: &str, place: &str) -> Places<'a> {
    container.items(list).iter().map(|item| (item.text("name"), item.text(place))).collect()
}
