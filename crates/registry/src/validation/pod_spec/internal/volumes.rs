//! The internal form of volumes.

use super::{FIELD_REF, LOCAL_OBJECT_REFERENCE, RESOURCE_FIELD_REF};
use crate::{
    internal_form::{Field, Shape, field, optional},
    kinds::persistent_volume_claim,
};

pub const VOLUME: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("HostPath", "hostPath", Shape::Ptr(HOST_PATH)),
    field("EmptyDir", "emptyDir", Shape::Ptr(EMPTY_DIR)),
    field("GCEPersistentDisk", "gcePersistentDisk", Shape::Ptr(GCE_PERSISTENT_DISK)),
    field("AWSElasticBlockStore", "awsElasticBlockStore", Shape::Ptr(AWS_ELASTIC_BLOCK_STORE)),
    field("GitRepo", "gitRepo", Shape::Ptr(GIT_REPO)),
    field("Secret", "secret", Shape::Ptr(SECRET)),
    field("NFS", "nfs", Shape::Ptr(NFS)),
    field("ISCSI", "iscsi", Shape::Ptr(ISCSI)),
    field("Glusterfs", "glusterfs", Shape::Ptr(GLUSTERFS)),
    field("PersistentVolumeClaim", "persistentVolumeClaim", Shape::Ptr(PERSISTENT_VOLUME_CLAIM)),
    field("RBD", "rbd", Shape::Ptr(RBD)),
    field("Quobyte", "quobyte", Shape::Ptr(QUOBYTE)),
    field("FlexVolume", "flexVolume", Shape::Ptr(FLEX_VOLUME)),
    field("Cinder", "cinder", Shape::Ptr(CINDER)),
    field("CephFS", "cephfs", Shape::Ptr(CEPH_FS)),
    field("Flocker", "flocker", Shape::Ptr(FLOCKER)),
    field("DownwardAPI", "downwardAPI", Shape::Ptr(DOWNWARD_API)),
    field("FC", "fc", Shape::Ptr(FC)),
    field("AzureFile", "azureFile", Shape::Ptr(AZURE_FILE)),
    field("ConfigMap", "configMap", Shape::Ptr(CONFIG_MAP)),
    field("VsphereVolume", "vsphereVolume", Shape::Ptr(VSPHERE_VOLUME)),
    field("AzureDisk", "azureDisk", Shape::Ptr(AZURE_DISK)),
    field("PhotonPersistentDisk", "photonPersistentDisk", Shape::Ptr(PHOTON_PERSISTENT_DISK)),
    field("Projected", "projected", Shape::Ptr(PROJECTED)),
    field("PortworxVolume", "portworxVolume", Shape::Ptr(PORTWORX_VOLUME)),
    field("ScaleIO", "scaleIO", Shape::Ptr(SCALE_IO)),
    field("StorageOS", "storageos", Shape::Ptr(STORAGE_OS)),
    field("CSI", "csi", Shape::Ptr(CSI)),
    field("Ephemeral", "ephemeral", Shape::Ptr(EPHEMERAL_VOLUME_SOURCE)),
    field("Image", "image", Shape::Ptr(IMAGE_VOLUME)),
];

const IMAGE_VOLUME: &[Field] =
    &[field("Reference", "reference", Shape::Text), field("PullPolicy", "pullPolicy", Shape::Text)];

const EPHEMERAL_VOLUME_SOURCE: &[Field] =
    &[field("VolumeClaimTemplate", "volumeClaimTemplate", Shape::Ptr(VOLUME_CLAIM_TEMPLATE))];

const VOLUME_CLAIM_TEMPLATE: &[Field] = &[
    optional("name", Shape::Raw),
    optional("generateName", Shape::Raw),
    optional("namespace", Shape::Raw),
    optional("labels", Shape::Raw),
    optional("annotations", Shape::Raw),
    optional("ownerReferences", Shape::Raw),
    optional("finalizers", Shape::Raw),
    field("Spec", "spec", Shape::Struct(persistent_volume_claim::SPEC)),
];

const CSI: &[Field] = &[
    field("Driver", "driver", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Raw),
    field("FSType", "fsType", Shape::Raw),
    field("VolumeAttributes", "volumeAttributes", Shape::Raw),
    field("NodePublishSecretRef", "nodePublishSecretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
];

const STORAGE_OS: &[Field] = &[
    field("VolumeName", "volumeName", Shape::Text),
    field("VolumeNamespace", "volumeNamespace", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
];

const SCALE_IO: &[Field] = &[
    field("Gateway", "gateway", Shape::Text),
    field("System", "system", Shape::Text),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
    field("SSLEnabled", "sslEnabled", Shape::Bool),
    field("ProtectionDomain", "protectionDomain", Shape::Text),
    field("StoragePool", "storagePool", Shape::Text),
    field("StorageMode", "storageMode", Shape::Text),
    field("VolumeName", "volumeName", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const PORTWORX_VOLUME: &[Field] = &[
    field("VolumeID", "volumeID", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const PROJECTED: &[Field] = &[
    field("Sources", "sources", Shape::List(VOLUME_PROJECTION)),
    field("DefaultMode", "defaultMode", Shape::Raw),
];

const VOLUME_PROJECTION: &[Field] = &[
    field("Secret", "secret", Shape::Ptr(PROJECTED_KEYS)),
    field("DownwardAPI", "downwardAPI", Shape::Ptr(DOWNWARD_API_PROJECTION)),
    field("ConfigMap", "configMap", Shape::Ptr(PROJECTED_KEYS)),
    field("ServiceAccountToken", "serviceAccountToken", Shape::Ptr(SERVICE_ACCOUNT_TOKEN)),
    field("ClusterTrustBundle", "clusterTrustBundle", Shape::Raw),
    field("PodCertificate", "podCertificate", Shape::Raw),
];

const SERVICE_ACCOUNT_TOKEN: &[Field] = &[
    field("Audience", "audience", Shape::Text),
    field("ExpirationSeconds", "expirationSeconds", Shape::Int),
    field("Path", "path", Shape::Text),
];

const DOWNWARD_API_PROJECTION: &[Field] = &[field("Items", "items", Shape::List(DOWNWARD_API_FILE))];

const PROJECTED_KEYS: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("Items", "items", Shape::List(KEY_TO_PATH)),
    field("Optional", "optional", Shape::Raw),
];

const PHOTON_PERSISTENT_DISK: &[Field] =
    &[field("PdID", "pdID", Shape::Text), field("FSType", "fsType", Shape::Text)];

const AZURE_DISK: &[Field] = &[
    field("DiskName", "diskName", Shape::Text),
    field("DataDiskURI", "diskURI", Shape::Text),
    field("CachingMode", "cachingMode", Shape::Raw),
    field("FSType", "fsType", Shape::Raw),
    field("ReadOnly", "readOnly", Shape::Raw),
    field("Kind", "kind", Shape::Raw),
];

const VSPHERE_VOLUME: &[Field] = &[
    field("VolumePath", "volumePath", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("StoragePolicyName", "storagePolicyName", Shape::Text),
    field("StoragePolicyID", "storagePolicyID", Shape::Text),
];

const CONFIG_MAP: &[Field] = &[
    field("Name", "name", Shape::Text),
    field("Items", "items", Shape::List(KEY_TO_PATH)),
    field("DefaultMode", "defaultMode", Shape::Raw),
    field("Optional", "optional", Shape::Raw),
];

const AZURE_FILE: &[Field] = &[
    field("SecretName", "secretName", Shape::Text),
    field("ShareName", "shareName", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const FC: &[Field] = &[
    field("TargetWWNs", "targetWWNs", Shape::Raw),
    field("Lun", "lun", Shape::Raw),
    field("FSType", "fsType", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("WWIDs", "wwids", Shape::Raw),
];

const DOWNWARD_API: &[Field] = &[
    field("Items", "items", Shape::List(DOWNWARD_API_FILE)),
    field("DefaultMode", "defaultMode", Shape::Raw),
];

const DOWNWARD_API_FILE: &[Field] = &[
    field("Path", "path", Shape::Text),
    field("FieldRef", "fieldRef", Shape::Ptr(FIELD_REF)),
    field("ResourceFieldRef", "resourceFieldRef", Shape::Ptr(RESOURCE_FIELD_REF)),
    field("Mode", "mode", Shape::Raw),
];

const FLOCKER: &[Field] =
    &[field("DatasetName", "datasetName", Shape::Text), field("DatasetUUID", "datasetUUID", Shape::Text)];

const CEPH_FS: &[Field] = &[
    field("Monitors", "monitors", Shape::Raw),
    field("Path", "path", Shape::Text),
    field("User", "user", Shape::Text),
    field("SecretFile", "secretFile", Shape::Text),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const CINDER: &[Field] = &[
    field("VolumeID", "volumeID", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
];

const FLEX_VOLUME: &[Field] = &[
    field("Driver", "driver", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("Options", "options", Shape::Raw),
];

const QUOBYTE: &[Field] = &[
    field("Registry", "registry", Shape::Text),
    field("Volume", "volume", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("User", "user", Shape::Text),
    field("Group", "group", Shape::Text),
    field("Tenant", "tenant", Shape::Text),
];

const RBD: &[Field] = &[
    field("CephMonitors", "monitors", Shape::Raw),
    field("RBDImage", "image", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("RBDPool", "pool", Shape::Text),
    field("RadosUser", "user", Shape::Text),
    field("Keyring", "keyring", Shape::Text),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const PERSISTENT_VOLUME_CLAIM: &[Field] =
    &[field("ClaimName", "claimName", Shape::Text), field("ReadOnly", "readOnly", Shape::Bool)];

const GLUSTERFS: &[Field] = &[
    field("EndpointsName", "endpoints", Shape::Text),
    field("Path", "path", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const ISCSI: &[Field] = &[
    field("TargetPortal", "targetPortal", Shape::Text),
    field("IQN", "iqn", Shape::Text),
    field("Lun", "lun", Shape::Int),
    field("ISCSIInterface", "iscsiInterface", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
    field("Portals", "portals", Shape::Raw),
    field("DiscoveryCHAPAuth", "chapAuthDiscovery", Shape::Bool),
    field("SessionCHAPAuth", "chapAuthSession", Shape::Bool),
    field("SecretRef", "secretRef", Shape::Ptr(LOCAL_OBJECT_REFERENCE)),
    field("InitiatorName", "initiatorName", Shape::Raw),
];

const NFS: &[Field] = &[
    field("Server", "server", Shape::Text),
    field("Path", "path", Shape::Text),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const SECRET: &[Field] = &[
    field("SecretName", "secretName", Shape::Text),
    field("Items", "items", Shape::List(KEY_TO_PATH)),
    field("DefaultMode", "defaultMode", Shape::Raw),
    field("Optional", "optional", Shape::Raw),
];

const KEY_TO_PATH: &[Field] = &[
    field("Key", "key", Shape::Text),
    field("Path", "path", Shape::Text),
    field("Mode", "mode", Shape::Raw),
];

const GIT_REPO: &[Field] = &[
    field("Repository", "repository", Shape::Text),
    field("Revision", "revision", Shape::Text),
    field("Directory", "directory", Shape::Text),
];

const AWS_ELASTIC_BLOCK_STORE: &[Field] = &[
    field("VolumeID", "volumeID", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("Partition", "partition", Shape::Int),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const GCE_PERSISTENT_DISK: &[Field] = &[
    field("PDName", "pdName", Shape::Text),
    field("FSType", "fsType", Shape::Text),
    field("Partition", "partition", Shape::Int),
    field("ReadOnly", "readOnly", Shape::Bool),
];

const EMPTY_DIR: &[Field] =
    &[field("Medium", "medium", Shape::Text), field("SizeLimit", "sizeLimit", Shape::Raw)];

const HOST_PATH: &[Field] = &[field("Path", "path", Shape::Text), field("Type", "type", Shape::Raw)];
