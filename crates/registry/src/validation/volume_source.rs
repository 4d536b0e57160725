//! Sources of volumes that pods and persistent volumes have in common.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::dns_label,
};

use super::form::{must_be, not_empty, one_of, required};
use crate::object::Fields;

/// Checks one source; `path` names it.
pub type Check = fn(&Value, Path<'_>, &mut Errors);

/// The longest Quobyte tenant.
pub const MAX_QUOBYTE_TENANT_BYTES: usize = 64;
/// The longest `NAME:PORTAL` an iSCSI initiator of its own may have.
pub const MAX_ISCSI_INTERFACE_BYTES: usize = 64;

pub fn gce_persistent_disk(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("pdName"), path.child("pdName"), errors);
    validate_partition(source, &path, errors);
}

pub fn aws_elastic_block_store(source: &Value, path: Path<'_>, errors: &mut Errors) {
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

pub fn nfs(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("server"), path.child("server"), errors);
    not_empty(source.text("path"), path.child("path"), errors);
    if !source.text("path").starts_with('/') {
        errors.invalid(path.child("path"), source.text("path"), "must be an absolute path");
    }
}

pub fn glusterfs(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("endpoints"), path.child("endpoints"), errors);
    not_empty(source.text("path"), path.child("path"), errors);
}

pub fn flocker(source: &Value, path: Path<'_>, errors: &mut Errors) {
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

pub fn rbd(source: &Value, path: Path<'_>, errors: &mut Errors) {
    validate_monitors(source, &path, errors);
    not_empty(source.text("image"), path.child("image"), errors);
}

pub fn cephfs(source: &Value, path: Path<'_>, errors: &mut Errors) {
    validate_monitors(source, &path, errors);
}

fn validate_monitors(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if source.items("monitors").is_empty() {
        errors.required(path.child("monitors"), "");
    }
}

pub fn quobyte(source: &Value, path: Path<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.required(path.child("registry"), PAIRS);
    } else if source.text("tenant").len() > MAX_QUOBYTE_TENANT_BYTES {
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

pub fn fc(source: &Value, path: Path<'_>, errors: &mut Errors) {
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

pub fn flex_volume(source: &Value, path: Path<'_>, errors: &mut Errors) {
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

pub fn azure_file(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("secretName"), path.child("secretName"), errors);
    not_empty(source.text("shareName"), path.child("shareName"), errors);
}

pub fn azure_disk(source: &Value, path: Path<'_>, errors: &mut Errors) {
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

pub fn vsphere(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("volumePath"), path.child("volumePath"), errors);
}

pub fn photon_persistent_disk(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("pdID"), path.child("pdID"), errors);
}

pub fn portworx(source: &Value, path: Path<'_>, errors: &mut Errors) {
    not_empty(source.text("volumeID"), path.child("volumeID"), errors);
}

pub fn scale_io(source: &Value, path: Path<'_>, errors: &mut Errors) {
    for name in ["gateway", "system", "volumeName"] {
        not_empty(source.text(name), path.child(name), errors);
    }
}

/// What the target needs, and who may log in to it.
pub fn validate_iscsi_access(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_lun(source.int("lun").unwrap_or_default(), path, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.required(path.child("secretRef"), "");
    }
}

/// Whether an initiator of its own would make a name that is too long.
pub fn iscsi_interface_is_too_long(source: &Value, volume: &str) -> bool {
    source.has("initiatorName")
        && volume.len() + 1 + source.text("targetPortal").len() > MAX_ISCSI_INTERFACE_BYTES
}

pub const ISCSI_INTERFACE_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// Whether a name has the form of its kind; `None` if it is of no kind.
///
/// `iqn.2001-04.com.example:storage`, `eui.` and 16 or `naa.` and 32 letters and digits.
pub fn is_iscsi_name(name: &str) -> Option<bool> {
    let (kind, rest) = name.split_at_checked(3)?;
    let length = match kind {
        "iqn" => return Some(is_iqn(name)),
        "eui" => 16,
        "naa" => 32,
        _ => return None,
    };
    let mut chars = rest.chars();
    // Any character will do as separator.
    let fits = chars.next().is_some_and(|separator| separator != '\n')
        && chars.as_str().len() == length
        && chars.all(|char| char.is_ascii_alphanumeric());
    Some(fits)
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

/// A reference to a secret, if there is one, has all of these.
pub fn validate_secret(source: &Value, names: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if let Some(secret) = source.get_field("secretRef") {
        let path = path.child("secretRef");
        for name in names {
            not_empty(secret.text(name), path.child(name), errors);
        }
    }
}

/// All but the secret, which not everybody names alike.
pub fn validate_storage_os(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(dns_label, source.text("volumeName"), path.child("volumeName"), errors);
    let namespace = source.text("volumeNamespace");
    if !namespace.is_empty() {
        must_be(dns_label, namespace, path.child("volumeNamespace"), errors);
    }
}
