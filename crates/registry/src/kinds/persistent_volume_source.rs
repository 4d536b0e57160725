//! What stands behind a PersistentVolume: exactly one of many sources.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_label, dns_subdomain},
};

use super::{
    form::{driver_name, must_be, one_of, required},
    internal_form::{Field, Shape, field},
};
use crate::object::{Fields, FieldsMut};

/// The longest `NAME:PORTAL` an iSCSI initiator of its own may have.
pub const MAX_ISCSI_INTERFACE_BYTES: usize = 64;
/// The longest Quobyte tenant.
pub const MAX_QUOBYTE_TENANT_BYTES: usize = 64;

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

type Check = fn(&Value, Path<'_>, &Volume<'_>, &mut Errors);

const fn source(name: &'static str, check: Check) -> Source {
    Source { field: name, second: name, path: name, check }
}

/// In the order in which they are looked at.
const SOURCES: &[Source] = &[
    source("hostPath", host_path),
    Source { path: "persistentDisk", ..source("gcePersistentDisk", gce_persistent_disk) },
    source("awsElasticBlockStore", aws_elastic_block_store),
    source("glusterfs", glusterfs),
    source("flocker", flocker),
    source("nfs", nfs),
    source("rbd", rbd),
    source("quobyte", quobyte),
    Source { second: "cephFS", ..source("cephfs", cephfs) },
    source("iscsi", iscsi),
    source("cinder", cinder),
    source("fc", fc),
    Source { second: "", ..source("flexVolume", flex_volume) },
    source("azureFile", azure_file),
    source("vsphereVolume", |source, path, _, errors| given(source, &["volumePath"], path, errors)),
    source("photonPersistentDisk", |source, path, _, errors| given(source, &["pdID"], path, errors)),
    source("portworxVolume", |source, path, _, errors| given(source, &["volumeID"], path, errors)),
    source("azureDisk", azure_disk),
    source("scaleIO", |source, path, _, errors| {
        given(source, &["gateway", "system", "volumeName"], path, errors);
    }),
    source("local", local),
    source("storageos", storageos),
    source("csi", csi),
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
        (known.check)(source, volume.path.child(known.path), volume, errors);
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

fn gce_persistent_disk(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["pdName"], path, errors);
    partition(source, path, errors);
}

fn aws_elastic_block_store(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["volumeID"], path, errors);
    partition(source, path, errors);
}

/// Zero means the whole disk, though the text does not say so.
fn partition(source: &Value, path: Path<'_>, errors: &mut Errors) {
    if let Some(partition) = source.int("partition").filter(|partition| !(0..=255).contains(partition)) {
        errors.invalid(path.child("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

fn lun(source: &Value, path: Path<'_>, errors: &mut Errors) {
    if let Some(lun) = source.int("lun").filter(|lun| !(0..=255).contains(lun)) {
        errors.invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive");
    }
}

fn glusterfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["endpoints", "path"], path, errors);
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

fn flocker(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.invalid(path, "resource", detail);
    }
    if name.contains('/') {
        errors.invalid(path.child("datasetName"), name, "must not contain '/'");
    }
}

fn nfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["server", "path"], path, errors);
    if !source.text("path").starts_with('/') {
        errors.invalid(path.child("path"), source.text("path"), "must be an absolute path");
    }
}

fn rbd(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    if source.items("monitors").is_empty() {
        errors.required(path.child("monitors"), "");
    }
    given(source, &["image"], path, errors);
}

fn quobyte(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let registry = source.text("registry");
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.required(path.child("registry"), detail);
    } else if source.text("tenant").len() > MAX_QUOBYTE_TENANT_BYTES {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(path.child("tenant"), detail);
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.invalid(path.child("registry"), registry, detail);
        }
    }
    given(source, &["volume"], path, errors);
}

/// As Go splits them: a host in brackets may have colons, the port may be empty.
fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(host, port)| {
            !host.contains('[') && port.strip_prefix(':').is_some_and(|port| !port.contains([':', '[', ']']))
        }),
        None => pair
            .split_once(':')
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
    }
}

fn cephfs(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    if source.items("monitors").is_empty() {
        errors.required(path.child("monitors"), "");
    }
}

fn iscsi(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    let portal = source.text("targetPortal");
    given(source, &["targetPortal"], path, errors);
    let initiator = source.get_field("initiatorName").and_then(Value::as_str);
    if initiator.is_some() && volume.name.len() + 1 + portal.len() > MAX_ISCSI_INTERFACE_BYTES {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid(path.child("targetportal"), portal, detail);
    }
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.required(path.child("iqn"), "");
    } else if !is_iscsi_name(iqn) {
        errors.invalid(path.child("iqn"), iqn, "must be valid format");
    }
    lun(source, path, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.required(path.child("secretRef"), "");
    }
    if let Some(secret) = source.get_field("secretRef") {
        given(secret, &["name"], path.child("secretRef"), errors);
    }
    if let Some(initiator) = initiator
        && !is_iscsi_name(initiator)
    {
        errors.invalid(path.child("initiatorname"), initiator, "must be valid format");
    }
}

/// `iqn.2001-04.com.example:storage`, `eui.` with 16 or `naa.` with 32 letters and digits.
fn is_iscsi_name(name: &str) -> bool {
    let alphanumeric = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let after_any = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|first| *first != '\n').map(|_| chars.as_str().to_owned())
    };
    if let Some(rest) = name.strip_prefix("eui") {
        return after_any(rest).is_some_and(|rest| alphanumeric(&rest, 16));
    }
    if let Some(rest) = name.strip_prefix("naa") {
        return after_any(rest).is_some_and(|rest| alphanumeric(&rest, 32));
    }
    let Some((authority, unique)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let digits =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let dated = authority.split_once('.').is_some_and(|(date, domain)| {
        date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2))
            && !domain.is_empty()
            && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    });
    let forbidden =
        |char: char| matches!(char, ',' | ';' | '*' | '&' | '$' | '|' | ' ' | '\t' | '\n' | '\x0c' | '\r');
    dated && !unique.is_empty() && !unique.contains(forbidden)
}

fn cinder(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["volumeID"], path, errors);
    if let Some(secret) = source.get_field("secretRef") {
        given(secret, &["name", "namespace"], path.child("secretRef"), errors);
    }
}

fn fc(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let names = !source.items("targetWWNs").is_empty();
    let ids = !source.items("wwids").is_empty();
    let target = path.child("targetWWNs");
    if !names && !ids {
        errors.required(target, "must specify either targetWWNs or wwids, but not both");
    }
    if names && ids {
        let value = BadValue::Json(source.field("targetWWNs").clone());
        errors.invalid(target, value, "targetWWNs and wwids can not be specified simultaneously");
    }
    if names {
        match source.int("lun") {
            None => errors.required(path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(_) => lun(source, path, errors),
        }
    }
}

fn flex_volume(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["driver"], path, errors);
    for (key, _) in source.entries("options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let path = path.child("options");
            errors.invalid(path.key(key), key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_file(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["secretName", "shareName"], path, errors);
    if source.has("secretNamespace") {
        given(source, &["secretNamespace"], path, errors);
    }
}

fn azure_disk(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    given(source, &["diskName", "diskURI"], path, errors);
    let (mode, kind, uri) = (source.text("cachingMode"), source.text("kind"), source.text("diskURI"));
    if source.has("cachingMode") {
        one_of(&["None", "ReadOnly", "ReadWrite"], mode, path.child("cachingMode"), errors);
    }
    if source.has("kind") {
        one_of(&["Dedicated", "Managed", "Shared"], kind, path.child("kind"), errors);
    }
    let (prefix, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if source.has("kind") && !uri.starts_with(prefix) {
        errors.not_supported(path.child("diskURI"), uri, &[form]);
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
    required(dns_label, source.text("volumeName"), path.child("volumeName"), errors);
    if !source.text("volumeNamespace").is_empty() {
        must_be(dns_label, source.text("volumeNamespace"), path.child("volumeNamespace"), errors);
    }
    if let Some(secret) = source.get_field("secretRef") {
        given(secret, &["name", "namespace"], path.child("secretRef"), errors);
    }
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

const SECRET_REF: Shape =
    Shape::Ptr(&[field("Name", "name", Shape::Text), field("Namespace", "namespace", Shape::Text)]);

/// `core.PersistentVolumeSource`
pub const INTERNAL: &[Field] = &[
    field(
        "GCEPersistentDisk",
        "gcePersistentDisk",
        Shape::Ptr(&[
            field("PDName", "pdName", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("Partition", "partition", Shape::Int),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "AWSElasticBlockStore",
        "awsElasticBlockStore",
        Shape::Ptr(&[
            field("VolumeID", "volumeID", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("Partition", "partition", Shape::Int),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "HostPath",
        "hostPath",
        Shape::Ptr(&[field("Path", "path", Shape::Text), field("Type", "type", Shape::Raw)]),
    ),
    field(
        "Glusterfs",
        "glusterfs",
        Shape::Ptr(&[
            field("EndpointsName", "endpoints", Shape::Text),
            field("Path", "path", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("EndpointsNamespace", "endpointsNamespace", Shape::Raw),
        ]),
    ),
    field(
        "NFS",
        "nfs",
        Shape::Ptr(&[
            field("Server", "server", Shape::Text),
            field("Path", "path", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "RBD",
        "rbd",
        Shape::Ptr(&[
            field("CephMonitors", "monitors", Shape::Raw),
            field("RBDImage", "image", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("RBDPool", "pool", Shape::Text),
            field("RadosUser", "user", Shape::Text),
            field("Keyring", "keyring", Shape::Text),
            field("SecretRef", "secretRef", SECRET_REF),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "Quobyte",
        "quobyte",
        Shape::Ptr(&[
            field("Registry", "registry", Shape::Text),
            field("Volume", "volume", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("User", "user", Shape::Text),
            field("Group", "group", Shape::Text),
            field("Tenant", "tenant", Shape::Text),
        ]),
    ),
    field(
        "ISCSI",
        "iscsi",
        Shape::Ptr(&[
            field("TargetPortal", "targetPortal", Shape::Text),
            field("IQN", "iqn", Shape::Text),
            field("Lun", "lun", Shape::Int),
            field("ISCSIInterface", "iscsiInterface", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("Portals", "portals", Shape::Raw),
            field("DiscoveryCHAPAuth", "chapAuthDiscovery", Shape::Bool),
            field("SessionCHAPAuth", "chapAuthSession", Shape::Bool),
            field("SecretRef", "secretRef", SECRET_REF),
            field("InitiatorName", "initiatorName", Shape::Raw),
        ]),
    ),
    field(
        "FlexVolume",
        "flexVolume",
        Shape::Ptr(&[
            field("Driver", "driver", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("SecretRef", "secretRef", SECRET_REF),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("Options", "options", Shape::Raw),
        ]),
    ),
    field(
        "Cinder",
        "cinder",
        Shape::Ptr(&[
            field("VolumeID", "volumeID", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("SecretRef", "secretRef", SECRET_REF),
        ]),
    ),
    field(
        "CephFS",
        "cephfs",
        Shape::Ptr(&[
            field("Monitors", "monitors", Shape::Raw),
            field("Path", "path", Shape::Text),
            field("User", "user", Shape::Text),
            field("SecretFile", "secretFile", Shape::Text),
            field("SecretRef", "secretRef", SECRET_REF),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "FC",
        "fc",
        Shape::Ptr(&[
            field("TargetWWNs", "targetWWNs", Shape::Raw),
            field("Lun", "lun", Shape::Raw),
            field("FSType", "fsType", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("WWIDs", "wwids", Shape::Raw),
        ]),
    ),
    field(
        "Flocker",
        "flocker",
        Shape::Ptr(&[
            field("DatasetName", "datasetName", Shape::Text),
            field("DatasetUUID", "datasetUUID", Shape::Text),
        ]),
    ),
    field(
        "AzureFile",
        "azureFile",
        Shape::Ptr(&[
            field("SecretName", "secretName", Shape::Text),
            field("ShareName", "shareName", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("SecretNamespace", "secretNamespace", Shape::Raw),
        ]),
    ),
    field(
        "VsphereVolume",
        "vsphereVolume",
        Shape::Ptr(&[
            field("VolumePath", "volumePath", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("StoragePolicyName", "storagePolicyName", Shape::Text),
            field("StoragePolicyID", "storagePolicyID", Shape::Text),
        ]),
    ),
    field(
        "AzureDisk",
        "azureDisk",
        Shape::Ptr(&[
            field("DiskName", "diskName", Shape::Text),
            field("DataDiskURI", "diskURI", Shape::Text),
            field("CachingMode", "cachingMode", Shape::Raw),
            field("FSType", "fsType", Shape::Raw),
            field("ReadOnly", "readOnly", Shape::Raw),
            field("Kind", "kind", Shape::Raw),
        ]),
    ),
    field(
        "PhotonPersistentDisk",
        "photonPersistentDisk",
        Shape::Ptr(&[field("PdID", "pdID", Shape::Text), field("FSType", "fsType", Shape::Text)]),
    ),
    field(
        "PortworxVolume",
        "portworxVolume",
        Shape::Ptr(&[
            field("VolumeID", "volumeID", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "ScaleIO",
        "scaleIO",
        Shape::Ptr(&[
            field("Gateway", "gateway", Shape::Text),
            field("System", "system", Shape::Text),
            field("SecretRef", "secretRef", SECRET_REF),
            field("SSLEnabled", "sslEnabled", Shape::Bool),
            field("ProtectionDomain", "protectionDomain", Shape::Text),
            field("StoragePool", "storagePool", Shape::Text),
            field("StorageMode", "storageMode", Shape::Text),
            field("VolumeName", "volumeName", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
        ]),
    ),
    field(
        "Local",
        "local",
        Shape::Ptr(&[field("Path", "path", Shape::Text), field("FSType", "fsType", Shape::Raw)]),
    ),
    field(
        "StorageOS",
        "storageos",
        Shape::Ptr(&[
            field("VolumeName", "volumeName", Shape::Text),
            field("VolumeNamespace", "volumeNamespace", Shape::Text),
            field("FSType", "fsType", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("SecretRef", "secretRef", Shape::Ptr(OBJECT_REFERENCE)),
        ]),
    ),
    field(
        "CSI",
        "csi",
        Shape::Ptr(&[
            field("Driver", "driver", Shape::Text),
            field("VolumeHandle", "volumeHandle", Shape::Text),
            field("ReadOnly", "readOnly", Shape::Bool),
            field("FSType", "fsType", Shape::Text),
            field("VolumeAttributes", "volumeAttributes", Shape::Raw),
            field("ControllerPublishSecretRef", "controllerPublishSecretRef", SECRET_REF),
            field("NodeStageSecretRef", "nodeStageSecretRef", SECRET_REF),
            field("NodePublishSecretRef", "nodePublishSecretRef", SECRET_REF),
            field("ControllerExpandSecretRef", "controllerExpandSecretRef", SECRET_REF),
            field("NodeExpandSecretRef", "nodeExpandSecretRef", SECRET_REF),
        ]),
    ),
];

/// `core.ObjectReference`
pub const OBJECT_REFERENCE: &[Field] = &[
    field("Kind", "kind", Shape::Text),
    field("Namespace", "namespace", Shape::Text),
    field("Name", "name", Shape::Text),
    field("UID", "uid", Shape::Text),
    field("APIVersion", "apiVersion", Shape::Text),
    field("ResourceVersion", "resourceVersion", Shape::Text),
    field("FieldPath", "fieldPath", Shape::Text),
];
