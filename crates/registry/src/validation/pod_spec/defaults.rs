//! What a pod spec says when its author does not.

use serde_json::{Map, Value, json};

use super::{image::default_pull_policy, resources};
use crate::{
    kinds::persistent_volume_claim,
    object::{Fields, FieldsMut},
    validation::resource_list,
};

/// Mode of files from secrets, config maps, downward API and projections: 0644.
const DEFAULT_FILE_MODE: i64 = 0o644;
const TOKEN_EXPIRATION_SECONDS: i64 = 3600;
const GRACE_PERIOD_SECONDS: i64 = 30;

/// Defaults of a spec, in a pod or in a template. What belongs to features that
/// are off is dropped on the way, so that no kind with a template can forget it.
pub fn default(spec: &mut Value) {
    drop_disabled(spec);
    spec.default_field("dnsPolicy", "ClusterFirst");
    spec.default_field("restartPolicy", "Always");
    spec.object_mut("securityContext");
    spec.default_field("terminationGracePeriodSeconds", GRACE_PERIOD_SECONDS);
    spec.default_field("schedulerName", "default-scheduler");
    mirror_service_account(spec);
    for volume in spec.items_mut("volumes") {
        default_volume(volume);
    }
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            default_container(container);
        }
    }
    for container in spec.items_mut("ephemeralContainers") {
        default_container(container);
    }
    resource_list::default(spec, "overhead");
    resource_list::default_requirements(spec, "resources");
    for sysctl in spec.object_mut("securityContext").items_mut("sysctls") {
        sysctl.default_field("value", "");
    }
}

/// Further defaults that only pods have, not templates.
pub fn default_pod(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            resources::default_requests_from_limits(container.object_mut("resources"));
        }
    }
    resources::default_pod_resources(spec);
    spec.default_field("enableServiceLinks", true);
    if !spec.flag("hostNetwork") {
        return;
    }
    for list in ["initContainers", "containers"] {
        for port in spec.items_mut(list).iter_mut().flat_map(|container| container.items_mut("ports")) {
            if port.int("hostPort").unwrap_or_default() == 0 {
                let container_port = port.field("containerPort").clone();
                port.set("hostPort", container_port);
            }
        }
    }
}

/// Fields of the alpha features `GenericWorkload`, `ContainerStopSignals`,
/// `ClusterTrustBundleProjection` and `PodCertificateRequest`.
fn drop_disabled(spec: &mut Value) {
    spec.remove("schedulingGroup");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(list) {
            let Some(lifecycle) = container.get_mut("lifecycle") else { continue };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.as_object().is_some_and(Map::is_empty) {
                container.remove("lifecycle");
            }
        }
    }
    for projected in spec.items_mut("volumes").iter_mut().filter_map(|volume| volume.get_mut("projected")) {
        for source in projected.items_mut("sources") {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are shown.
fn mirror_service_account(spec: &mut Value) {
    let name = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount"),
        name => name,
    };
    if name.is_empty() {
        return;
    }
    let name = name.to_owned();
    spec.set("serviceAccountName", name.clone());
    spec.set("serviceAccount", name);
}

fn default_volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|volume| volume.keys().any(|key| key != "name"));
    if !has_source {
        volume.set("emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            source.default_field("defaultMode", DEFAULT_FILE_MODE);
        }
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        source.items_mut("items").iter_mut().for_each(default_downward_item);
    }
    if let Some(projected) = volume.get_mut("projected") {
        projected.items_mut("sources").iter_mut().for_each(default_projection);
    }
    if let Some(host_path) = volume.get_mut("hostPath") {
        host_path.default_field("type", "");
    }
    if let Some(iscsi) = volume.get_mut("iscsi") {
        iscsi.default_field("iscsiInterface", "default");
    }
    if let Some(rbd) = volume.get_mut("rbd") {
        rbd.default_field("pool", "rbd");
        rbd.default_field("user", "admin");
        rbd.default_field("keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        // Pointers: an empty string that was given stays.
        for (name, value) in [
            ("cachingMode", json!("ReadWrite")),
            ("fsType", json!("ext4")),
            ("readOnly", json!(false)),
            ("kind", json!("Shared")),
        ] {
            if !disk.has(name) {
                disk.set(name, value);
            }
        }
    }
    if let Some(scale_io) = volume.get_mut("scaleIO") {
        scale_io.default_field("storageMode", "ThinProvisioned");
        scale_io.default_field("fsType", "xfs");
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = default_pull_policy(image.text("reference"));
        image.default_field("pullPolicy", policy);
    }
    if let Some(template) =
        volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate"))
    {
        template.object_mut("metadata");
        persistent_volume_claim::default_spec(template.object_mut("spec"));
    }
}

fn default_projection(source: &mut Value) {
    if let Some(downward) = source.get_mut("downwardAPI") {
        downward.items_mut("items").iter_mut().for_each(default_downward_item);
    }
    if let Some(token) = source.get_mut("serviceAccountToken") {
        token.default_field("expirationSeconds", TOKEN_EXPIRATION_SECONDS);
    }
}

fn default_downward_item(item: &mut Value) {
    if let Some(reference) = item.get_mut("fieldRef") {
        reference.default_field("apiVersion", "v1");
    }
    if let Some(reference) = item.get_mut("resourceFieldRef") {
        reference.default_field("divisor", "0");
    }
}

fn default_container(container: &mut Value) {
    let policy = default_pull_policy(container.text("image"));
    container.default_field("imagePullPolicy", policy);
    container.default_field("terminationMessagePath", "/dev/termination-log");
    container.default_field("terminationMessagePolicy", "File");
    for port in container.items_mut("ports") {
        port.default_field("protocol", "TCP");
    }
    for source in container.items_mut("env").iter_mut().filter_map(|variable| variable.get_mut("valueFrom")) {
        default_downward_item(source);
        if let Some(reference) = source.get_mut("fileKeyRef") {
            reference.default_field("optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for event in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get_mut(event) {
                default_handler(handler);
            }
        }
    }
    container.object_mut("resources");
    resource_list::default_requirements(container, "resources");
}

fn default_probe(probe: &mut Value) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.int(name).unwrap_or_default() == 0 {
            probe.set(name, value);
        }
    }
    default_handler(probe);
}

fn default_handler(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        get.default_field("path", "/");
        get.default_field("scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc") {
        grpc.default_field("service", "");
    }
}
