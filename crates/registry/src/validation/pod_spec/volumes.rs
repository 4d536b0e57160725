//! Volumes of a pod: one source each.

mod network;
mod projected;

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, dns_subdomain},
};

use self::{
    network::{cinder, iscsi, storage_os},
    projected::{config_map, downward_api, projected, secret},
};
use super::{
    containers::validate_pull_policy,
    paths::{validate_descending, validate_no_backsteps},
    ratchet::Ratchet,
    resources::quantity,
};
use crate::{
    kinds::persistent_volume_claim,
    object::Fields,
    validation::{
        form::{driver_name, must_be, not_empty, one_of, required},
        template_metadata::validate_template_metadata,
        volume_source::{
            self, aws_elastic_block_store, azure_disk, azure_file, cephfs, fc, flex_volume, flocker,
            gce_persistent_disk, glusterfs, nfs, photon_persistent_disk, portworx, quobyte, rbd, scale_io,
            vsphere,
        },
    },
};

/// The volumes without faults, by name: only these can be mounted.
pub type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// What a source's check may need to know of its volume.
pub struct Volume<'a> {
    pub name: &'a str,
    /// Where the volume stands; the source is a child of it.
    pub path: Path<'a>,
    /// The metadata of the pod; `None` in a template.
    pub pod: Option<&'a Value>,
    pub ratchet: Ratchet,
}

enum Check {
    /// The same as for persistent volumes.
    Shared(volume_source::Check),
    Own(fn(&Value, Path<'_>, &Volume<'_>, &mut Errors)),
}

use Check::{Own, Shared};

/// Field, name in the path of its errors, name in the path if it is a second source, check.
/// In the order upstream looks at them, with its spelling.
const SOURCES: &[(&str, &str, &str, Check)] = &[
    ("emptyDir", "emptyDir", "emptyDir", Own(empty_dir)),
    ("hostPath", "hostPath", "hostPath", Own(host_path)),
    ("gitRepo", "gitRepo", "gitRepo", Own(git_repo)),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", Shared(gce_persistent_disk)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", Shared(aws_elastic_block_store)),
    ("secret", "secret", "secret", Own(secret)),
    ("nfs", "nfs", "nfs", Shared(nfs)),
    ("iscsi", "iscsi", "iscsi", Own(iscsi)),
    ("glusterfs", "glusterfs", "glusterfs", Shared(glusterfs)),
    ("flocker", "flocker", "flocker", Shared(flocker)),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", Own(persistent_volume_claim)),
    ("rbd", "rbd", "rbd", Shared(rbd)),
    ("cinder", "cinder", "cinder", Own(cinder)),
    ("cephfs", "cephfs", "cephFS", Shared(cephfs)),
    ("quobyte", "quobyte", "quobyte", Shared(quobyte)),
    ("downwardAPI", "downwardAPI", "downwarAPI", Own(downward_api)),
    ("fc", "fc", "fc", Shared(fc)),
    ("flexVolume", "flexVolume", "flexVolume", Shared(flex_volume)),
    ("configMap", "configMap", "configMap", Own(config_map)),
    ("azureFile", "azureFile", "azureFile", Shared(azure_file)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", Shared(vsphere)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", Shared(photon_persistent_disk)),
    ("portworxVolume", "portworxVolume", "portworxVolume", Shared(portworx)),
    ("azureDisk", "azureDisk", "azureDisk", Shared(azure_disk)),
    ("storageos", "storageos", "storageos", Own(storage_os)),
    ("projected", "projected", "projected", Own(projected)),
    ("scaleIO", "scaleIO", "scaleIO", Shared(scale_io)),
    ("csi", "csi", "csi", Own(csi)),
    ("ephemeral", "ephemeral", "ephemeral", Own(ephemeral)),
    ("image", "image", "image", Own(image)),
];

pub fn validate_volumes<'a>(
    spec: &'a Value,
    pod: Option<&'a Value>,
    ratchet: Ratchet,
    path: &Path<'_>,
    errors: &mut Errors,
) -> Volumes<'a> {
    let list = path.child("volumes");
    let mut good = Volumes::new();
    for (index, volume) in spec.items("volumes").iter().enumerate() {
        let path = list.index(index);
        let name = volume.text("name");
        let mut found = Errors::default();
        validate_source(volume, &Volume { name, path, pod, ratchet }, &mut found);
        required(dns_label, name, path.child("name"), &mut found);
        if good.contains_key(name) {
            found.duplicate(path.child("name"), name);
        }
        if found.is_empty() {
            good.insert(name, volume);
        } else {
            errors.extend(found);
        }
    }
    let created: HashSet<String> =
        pod.into_iter().flat_map(|pod| created_claims(spec, pod.text("name"))).collect();
    for (index, volume) in spec.items("volumes").iter().enumerate() {
        let claim = volume.field("persistentVolumeClaim").text("claimName");
        if created.contains(claim) {
            errors.invalid(
                list.index(index).child("persistentVolumeClaim").child("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    good
}

/// The claims that will be made for the ephemeral volumes of a pod.
fn created_claims(spec: &Value, pod: &str) -> Vec<String> {
    let ephemeral = spec.items("volumes").iter().filter(|volume| volume.has("ephemeral"));
    ephemeral.map(|volume| format!("{pod}-{}", volume.text("name"))).collect()
}

fn validate_source(sources: &Value, volume: &Volume<'_>, errors: &mut Errors) {
    let mut found = false;
    for (field, name, second, check) in SOURCES {
        let Some(source) = sources.get_field(field) else { continue };
        if found {
            errors.forbidden(volume.path.child(second), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match check {
            Shared(check) => check(source, volume.path.child(name), errors),
            Own(check) => check(source, volume.path.child(name), volume, errors),
        }
    }
    if !found {
        errors.required(volume.path, "must specify a volume type");
    }
}

fn empty_dir(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    if quantity(source.field("sizeLimit")).is_some_and(|limit| limit.is_negative()) {
        errors.forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn host_path(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    let on_host = source.text("path");
    if on_host.is_empty() {
        return errors.required(path.child("path"), "");
    }
    validate_no_backsteps(on_host, &path.child("path"), errors);
    let types = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    one_of(types, source.text("type"), path.child("type"), errors);
}

fn git_repo(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("repository"), path.child("repository"), errors);
    validate_descending(source.text("directory"), &path.child("directory"), errors);
}

fn persistent_volume_claim(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("claimName"), path.child("claimName"), errors);
}

fn csi(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    driver_name(source.text("driver"), path.child("driver"), errors);
    if let Some(secret) = source.get_field("nodePublishSecretRef") {
        let name = secret.text("name");
        if name.is_empty() {
            errors.required(path.child("nodePublishSecretRef").child("name"), "");
        } else {
            must_be(dns_subdomain, name, path.child("name"), errors);
        }
    }
}

fn ephemeral(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    let path = path.child("volumeClaimTemplate");
    match source.get_field("volumeClaimTemplate") {
        None => errors.required(path, ""),
        Some(template) => validate_claim_template(template, &path, errors),
    }
    let Some(pod) = volume.pod.map(|pod| pod.text("name")).filter(|pod| !pod.is_empty()) else { return };
    if volume.name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{}", volume.name);
    for problem in dns_subdomain(&claim) {
        let problem = format!("PVC name \"{claim}\": {problem}");
        errors.invalid(volume.path.child("name"), volume.name, &problem);
    }
}

fn validate_claim_template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_template_metadata(template.field("metadata"), &path.child("metadata"), errors);
    persistent_volume_claim::validate_spec(template.field("spec"), &path.child("spec"), errors);
}

fn image(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    // Templates may leave it to whoever makes the pods.
    if volume.pod.is_some() {
        not_empty(source.text("reference"), path.child("reference"), errors);
    }
    validate_pull_policy(source.text("pullPolicy"), path.child("pullPolicy"), errors);
}
