//! Volumes on storage systems that have a source of their own.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::dns_label,
};

use super::Volume;
use crate::{
    kinds::form::{must_be, not_empty, one_of, required},
    object::Fields,
};

const MAX_QUOBYTE_TENANT: usize = 64;
const MAX_ISCSI_INTERFACE: usize = 64;

pub fn gce_persistent_disk(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("pdName"), path.child("pdName"), errors);
    validate_partition(source, &path, errors);
}

pub fn aws_elastic_block_store(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("volumeID"), path.child("volumeID"), errors);
    validate_partition(source, &path, errors);
}

/// Zero stands for the whole disk, whatever the text says.
fn validate_partition(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let partition = source.int("partition").unwrap_or_default();
    if !(0..=255).contains(&partition) {
        errors.invalid(path.child("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

pub fn nfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("server"), path.child("server"), errors);
    not_empty(source.text("path"), path.child("path"), errors);
    if !source.text("path").starts_with('/') {
        errors.invalid(path.child("path"), source.text("path"), "must be an absolute path");
    }
}

pub fn iscsi(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    let portal = source.text("targetPortal");
    not_empty(portal, path.child("targetPortal"), errors);
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.required(path.child("iqn"), "");
    } else {
        validate_iscsi_name(iqn, path.child("iqn"), errors);
    }
    validate_lun(source.int("lun").unwrap_or_default(), &path, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.required(path.child("secretRef"), "");
    }
    let Some(initiator) = source.field("initiatorName").as_str() else { return };
    validate_iscsi_name(initiator, path.child("initiatorname"), errors);
    if volume.name.len() + 1 + portal.len() > MAX_ISCSI_INTERFACE {
        let problem = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid(volume.path.child("name"), volume.name, problem);
    }
}

/// `iqn.2001-04.com.example:storage`, `eui.` and 16 or `naa.` and 32 letters and digits.
fn validate_iscsi_name(name: &str, path: Path<'_>, errors: &mut Errors) {
    let Some((kind, rest)) =
        name.split_at_checked(3).filter(|(kind, _)| ["iqn", "eui", "naa"].contains(kind))
    else {
        return errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa");
    };
    let fits = match kind {
        "iqn" => is_iqn(name),
        kind => {
            let length = if kind == "eui" { 16 } else { 32 };
            let mut chars = rest.chars();
            // Any character will do as separator.
            chars.next().is_some_and(|separator| separator != '\n')
                && chars.as_str().len() == length
                && chars.all(|char| char.is_ascii_alphanumeric())
        }
    };
    if !fits {
        errors.invalid(path, name, "must be valid format");
    }
}

/// The pattern is not tied to the beginning, so any `iqn.` in the text may start it.
fn is_iqn(name: &str) -> bool {
    let digits =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |rest: &str| {
        let Some((authority, unique)) = rest.split_once(':') else { return false };
        let Some((date, domain)) = authority.split_once('.') else { return false };
        let Some((year, month)) = date.split_once('-') else { return false };
        digits(year, 4)
            && digits(month, 2)
            && !domain.is_empty()
            && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
            && !unique.is_empty()
            && !unique.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\x0c', '\r'])
    };
    name.match_indices("iqn.").any(|(at, start)| name.get(at + start.len()..).is_some_and(fits))
}

fn validate_lun(lun: i64, path: &Path<'_>, errors: &mut Errors) {
    if !(0..=255).contains(&lun) {
        errors.invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive");
    }
}

pub fn glusterfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("endpoints"), path.child("endpoints"), errors);
    not_empty(source.text("path"), path.child("path"), errors);
}

pub fn flocker(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(path.child("datasetName"), name, "must not contain '/'");
    }
}

pub fn rbd(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    validate_monitors(source, &path, errors);
    not_empty(source.text("image"), path.child("image"), errors);
}

pub fn cephfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    validate_monitors(source, &path, errors);
}

fn validate_monitors(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if source.items("monitors").is_empty() {
        errors.required(path.child("monitors"), "");
    }
}

pub fn cinder(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("volumeID"), path.child("volumeID"), errors);
    validate_secret(source, &path, errors);
}

/// A reference to a secret, if there is one, names it.
fn validate_secret(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(secret) = source.get_field("secretRef") {
        not_empty(secret.text("name"), path.child("secretRef").child("name"), errors);
    }
}

pub fn quobyte(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.required(path.child("registry"), PAIRS);
    } else if source.text("tenant").len() > MAX_QUOBYTE_TENANT {
        let problem = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(path.child("tenant"), problem);
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.invalid(path.child("registry"), registry, PAIRS);
        }
    }
    not_empty(source.text("volume"), path.child("volume"), errors);
}

/// `host:port` or `[host]:port`, where either may be empty.
fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest
            .split_once("]:")
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
        None => pair
            .split_once(':')
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
    }
}

pub fn fc(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let names = source.field("targetWWNs");
    let (has_names, has_ids) = (!source.items("targetWWNs").is_empty(), !source.items("wwids").is_empty());
    if !has_names && !has_ids {
        let problem = "must specify either targetWWNs or wwids, but not both";
        errors.required(path.child("targetWWNs"), problem);
    }
    if has_names && has_ids {
        let problem = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(path.child("targetWWNs"), names, problem);
    }
    if has_names {
        match source.int("lun") {
            None => errors.required(path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) => validate_lun(lun, &path, errors),
        }
    }
}

pub fn flex_volume(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("driver"), path.child("driver"), errors);
    for (key, _) in source.entries("options") {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if [".kubernetes.io", ".k8s.io"].iter().any(|reserved| domain.ends_with(reserved)) {
            let problem = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(path.child("options").key(key), key, problem);
        }
    }
}

pub fn azure_file(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("secretName"), path.child("secretName"), errors);
    not_empty(source.text("shareName"), path.child("shareName"), errors);
}

pub fn azure_disk(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let uri = source.text("diskURI");
    not_empty(source.text("diskName"), path.child("diskName"), errors);
    not_empty(uri, path.child("diskURI"), errors);
    if let Some(mode) = source.field("cachingMode").as_str() {
        one_of(&["None", "ReadOnly", "ReadWrite"], mode, path.child("cachingMode"), errors);
    }
    let Some(kind) = source.field("kind").as_str() else { return };
    one_of(&["Dedicated", "Managed", "Shared"], kind, path.child("kind"), errors);
    let (start, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !uri.starts_with(start) {
        errors.not_supported(path.child("diskURI"), uri, &[form]);
    }
}

pub fn vsphere(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("volumePath"), path.child("volumePath"), errors);
}

pub fn photon_persistent_disk(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("pdID"), path.child("pdID"), errors);
}

pub fn portworx(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("volumeID"), path.child("volumeID"), errors);
}

pub fn storage_os(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    required(dns_label, source.text("volumeName"), path.child("volumeName"), errors);
    let namespace = source.text("volumeNamespace");
    if !namespace.is_empty() {
        must_be(dns_label, namespace, path.child("volumeNamespace"), errors);
    }
    validate_secret(source, &path, errors);
}

pub fn scale_io(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    for name in ["gateway", "system", "volumeName"] {
        not_empty(source.text(name), path.child(name), errors);
    }
}
