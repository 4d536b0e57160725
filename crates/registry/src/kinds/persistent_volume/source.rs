//! What stands behind a PersistentVolume: exactly one of many sources.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, dns_subdomain},
};

use crate::{
    internal_form::Form,
    object::{Fields, FieldsMut},
    validation::{
        form::{driver_name, must_be, one_of, required},
        volume_source::{
            self, ISCSI_INTERFACE_TOO_LONG, aws_elastic_block_store, azure_disk, cephfs, fc, flex_volume,
            flocker, gce_persistent_disk, is_iscsi_name, iscsi_interface_is_too_long, nfs,
            photon_persistent_disk, portworx, quobyte, rbd, scale_io, validate_iscsi_access, validate_secret,
            validate_storage_os, vsphere,
        },
    },
};

/// Fills in what sources leave open.
pub fn default(spec: &mut Value) {
    let mut fill = |source: &str, values: &[(&str, Value)]| {
        if spec.has(source) {
            let source = spec.object_mut(source);
            for (name, value) in values {
                source.default_field(name, value.clone());
            }
        }
    };
    fill("iscsi", &[("iscsiInterface", "default".into())]);
    fill("rbd", &[("pool", "rbd".into()), ("user", "admin".into()), ("keyring", "/etc/ceph/keyring".into())]);
    fill("scaleIO", &[("storageMode", "ThinProvisioned".into()), ("fsType", "xfs".into())]);
    fill("hostPath", &[("type", "".into())]);
    // Pointers: what is set stays, even if it is empty.
    if spec.has("azureDisk") {
        let disk = spec.object_mut("azureDisk");
        for (name, value) in [
            ("cachingMode", Value::from("ReadWrite")),
            ("fsType", "ext4".into()),
            ("readOnly", false.into()),
            ("kind", "Shared".into()),
        ] {
            if !disk.has(name) {
                disk.set(name, value);
            }
        }
    }
}

/// One kind of source.
struct Source {
    /// Its field in the spec.
    field: &'static str,
    /// What an error calls it that stands beside another source; empty if that is no error.
    second: &'static str,
    /// Where errors in it stand.
    path: &'static str,
    check: Check,
}

enum Check {
    /// The same as for pods.
    Shared(volume_source::Check),
    Own(fn(&Value, Path<'_>, &Volume<'_>, &mut Errors)),
}

use Check::{Own, Shared};

const fn source(name: &'static str, check: Check) -> Source {
    Source { field: name, second: name, path: name, check }
}

/// In the order in which they are looked at.
const SOURCES: &[Source] = &[
    source("hostPath", Own(host_path)),
    Source { path: "persistentDisk", ..source("gcePersistentDisk", Shared(gce_persistent_disk)) },
    source("awsElasticBlockStore", Shared(aws_elastic_block_store)),
    source("glusterfs", Own(glusterfs)),
    source("flocker", Shared(flocker)),
    source("nfs", Shared(nfs)),
    source("rbd", Shared(rbd)),
    source("quobyte", Shared(quobyte)),
    Source { second: "cephFS", ..source("cephfs", Shared(cephfs)) },
    source("iscsi", Own(iscsi)),
    source("cinder", Own(cinder)),
    source("fc", Shared(fc)),
    Source { second: "", ..source("flexVolume", Shared(flex_volume)) },
    source("azureFile", Own(azure_file)),
    source("vsphereVolume", Shared(vsphere)),
    source("photonPersistentDisk", Shared(photon_persistent_disk)),
    source("portworxVolume", Shared(portworx)),
    source("azureDisk", Shared(azure_disk)),
    source("scaleIO", Shared(scale_io)),
    source("local", Own(local)),
    source("storageos", Own(storageos)),
    source("csi", Own(csi)),
];

/// What sources need to know of the volume they stand in.
#[derive(Debug)]
pub struct Volume<'a> {
    pub name: &'a str,
    pub has_node_affinity: bool,
    /// Where the spec stands.
    pub path: Path<'a>,
}

/// Exactly one source, and that one without faults.
pub fn validate(spec: &Value, volume: &Volume<'_>, errors: &mut Errors) {
    let mut found = false;
    for known in SOURCES {
        let Some(source) = spec.get_field(known.field) else { continue };
        if found && !known.second.is_empty() {
            errors.forbidden(volume.path.child(known.second), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        let path = volume.path.child(known.path);
        match known.check {
            Shared(check) => check(source, path, errors),
            Own(check) => check(source, path, volume, errors),
        }
    }
    if !found {
        errors.required(volume.path, "must specify a volume type");
    }
}

/// All of the fields must have something in them.
fn given(source: &Value, names: &[&str], path: Path<'_>, errors: &mut Errors) {
    for name in names {
        let empty = match source.field(name) {
            Value::Array(items) => items.is_empty(),
            _ => source.text(name).is_empty(),
        };
        if empty {
            errors.required(path.child(name), "");
        }
    }
}

fn no_backsteps(value: &str, path: Path<'_>, errors: &mut Errors) {
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

fn host_path(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let host = source.text("path");
    if host.is_empty() {
        errors.required(path.child("path"), "");
        return;
    }
    no_backsteps(host, path.child("path"), errors);
    let types =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    one_of(&types, source.text("type"), path.child("type"), errors);
}

fn glusterfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    volume_source::glusterfs(source, path, errors);
    let namespace = path.child("endpointsNamespace");
    match source.get_field("endpointsNamespace").and_then(Value::as_str) {
        None => {}
        Some("") => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.invalid(namespace, "", detail);
        }
        Some(name) => must_be(dns_label, name, namespace, errors),
    }
}

fn iscsi(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    given(source, &["targetPortal"], path, errors);
    if iscsi_interface_is_too_long(source, volume.name) {
        errors.invalid(path.child("targetportal"), source.text("targetPortal"), ISCSI_INTERFACE_TOO_LONG);
    }
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.required(path.child("iqn"), "");
    } else if is_iscsi_name(iqn) != Some(true) {
        errors.invalid(path.child("iqn"), iqn, "must be valid format");
    }
    validate_iscsi_access(source, &path, errors);
    validate_secret(source, &["name"], &path, errors);
    if let Some(initiator) = source.field("initiatorName").as_str()
        && is_iscsi_name(initiator) != Some(true)
    {
        errors.invalid(path.child("initiatorname"), initiator, "must be valid format");
    }
}

fn cinder(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["volumeID"], path, errors);
    validate_secret(source, &["name", "namespace"], &path, errors);
}

fn azure_file(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    volume_source::azure_file(source, path, errors);
    if source.has("secretNamespace") {
        given(source, &["secretNamespace"], path, errors);
    }
}

fn local(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    if source.text("path").is_empty() {
        errors.required(path.child("path"), "");
    } else {
        no_backsteps(source.text("path"), path.child("path"), errors);
    }
    if !volume.has_node_affinity {
        errors.required(volume.path.child("nodeAffinity"), "Local volume requires node affinity");
    }
}

fn storageos(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    validate_storage_os(source, &path, errors);
    validate_secret(source, &["name", "namespace"], &path, errors);
}

fn csi(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    driver_name(source.text("driver"), path.child("driver"), errors);
    given(source, &["volumeHandle"], path, errors);
    // The secret for staging is not looked at.
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if let Some(secret) = source.get_field(name) {
            let path = path.child(name);
            required(dns_subdomain, secret.text("name"), path.child("name"), errors);
            required(dns_label, secret.text("namespace"), path.child("namespace"), errors);
        }
    }
}

/// `core.PersistentVolumeSource`
pub const INTERNAL: Form = Form::Message("io.k8s.api.core.v1.PersistentVolumeSource");
