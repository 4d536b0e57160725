//! Containers and init containers.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, port_name, port_number},
};

use super::{
    Context,
    env::{validate_env, validate_env_from},
    lifecycle::{validate_init_restart, validate_lifecycle, validate_restart},
    mounts::{validate_volume_devices, validate_volume_mounts},
    probes::validate_probes,
    resources::validate_container_resources,
    security::validate_container_security,
};
use crate::{
    object::Fields,
    validation::form::{must_be, named, one_of, required},
};

pub fn validate_containers(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("containers");
    let containers = context.spec.items("containers");
    if containers.is_empty() {
        return errors.required(list, "");
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = list.index(index);
        validate_common(container, context, &path, errors);
        let name = container.text("name");
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        validate_running(container, context, &path, errors);
        validate_restart(container, &path, errors);
    }
    validate_host_ports(containers, &list, errors);
}

pub fn validate_init_containers(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    const ONLY_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";
    let list = path.child("initContainers");
    let mut names: BTreeSet<&str> =
        context.spec.items("containers").iter().map(|container| container.text("name")).collect();
    for (index, container) in context.spec.items("initContainers").iter().enumerate() {
        let path = list.index(index);
        validate_common(container, context, &path, errors);
        validate_init_restart(container, &path, errors);
        let name = container.text("name");
        if names.contains(name) {
            errors.duplicate(path.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        // One at a time: ports clash only inside each, and upstream counts it as the first.
        validate_host_ports(std::slice::from_ref(container), &list, errors);
        if is_sidecar(container) {
            validate_running(container, context, &path, errors);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.has(name) {
                errors.forbidden(path.child(name), ONLY_SIDECARS);
            }
        }
        if context.ratchet.init_resize_policy {
            continue;
        }
        for (index, policy) in container.items("resizePolicy").iter().enumerate() {
            let restart = policy.text("restartPolicy");
            if restart == "RestartContainer" {
                let problem = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                let list = path.child("resizePolicy");
                errors.invalid(list.index(index).child("restartPolicy"), named(restart), problem);
            }
        }
    }
}

/// An init container that runs on beside the others.
pub fn is_sidecar(container: &Value) -> bool {
    container.text("restartPolicy") == "Always"
}

/// What is checked of every container, ephemeral ones included.
pub fn validate_common(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    required(dns_label, container.text("name"), path.child("name"), errors);
    if container.text("image").is_empty() {
        errors.required(path.child("image"), "");
    }
    match container.text("terminationMessagePolicy") {
        "" => errors.required(path.child("terminationMessagePolicy"), ""),
        policy => {
            let known = &["File", "FallbackToLogsOnError"];
            one_of(known, policy, path.child("terminationMessagePolicy"), errors);
        }
    }
    validate_ports(container, &path.child("ports"), errors);
    validate_env(container, path, errors);
    validate_env_from(container, path, errors);
    validate_volume_mounts(container, context, path, errors);
    validate_volume_devices(container, context, path, errors);
    validate_pull_policy(container.text("imagePullPolicy"), path.child("imagePullPolicy"), errors);
    validate_container_resources(container.field("resources"), context, &path.child("resources"), errors);
    validate_resize_policy(container, context, &path.child("resizePolicy"), errors);
    let security = container.field("securityContext");
    validate_container_security(security, context, &path.child("securityContext"), errors);
}

/// Only where the image will be pulled as written, in pods.
pub fn validate_image_padding(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let image = container.text("image");
    if image.trim() != image {
        errors.invalid(path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

pub fn validate_pull_policy(policy: &str, path: Path<'_>, errors: &mut Errors) {
    match policy {
        "" => errors.required(path, ""),
        policy => one_of(&["Always", "IfNotPresent", "Never"], policy, path, errors),
    }
}

/// What containers do while they run, and which init containers only do as sidecars.
fn validate_running(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let grace_period = context.spec.int("terminationGracePeriodSeconds").unwrap_or_default();
    if let Some(lifecycle) = container.get_field("lifecycle") {
        validate_lifecycle(lifecycle, grace_period, &path.child("lifecycle"), errors);
    }
    validate_probes(container, path, errors);
}

fn validate_ports(container: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in container.items("ports").iter().enumerate() {
        let path = list.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            if !port_name(name).is_empty() {
                must_be(port_name, name, path.child("name"), errors);
            } else if !names.insert(name) {
                errors.duplicate(path.child("name"), name);
            }
        }
        let number = port.int("containerPort").unwrap_or_default();
        if number == 0 {
            errors.required(path.child("containerPort"), "");
        } else {
            for problem in port_number(number) {
                errors.invalid(path.child("containerPort"), number, &problem);
            }
        }
        let on_host = port.int("hostPort").unwrap_or_default();
        if on_host != 0 {
            for problem in port_number(on_host) {
                errors.invalid(path.child("hostPort"), on_host, &problem);
            }
        }
        match port.text("protocol") {
            "" => errors.required(path.child("protocol"), ""),
            protocol => one_of(&["SCTP", "TCP", "UDP"], protocol, path.child("protocol"), errors),
        }
    }
}

/// No two ports may be the same on the host.
fn validate_host_ports(containers: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container_path = list.index(index);
        let ports = container_path.child("ports");
        for (index, port) in container.items("ports").iter().enumerate() {
            let number = port.int("hostPort").unwrap_or_default();
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if taken.contains(&key) {
                errors.duplicate(ports.index(index).child("hostPort"), key);
            } else {
                taken.insert(key);
            }
        }
    }
}

fn validate_resize_policy(container: &Value, context: &Context<'_>, list: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, policy) in container.items("resizePolicy").iter().enumerate() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            errors.duplicate(list.index(index), named(resource));
        }
        match resource {
            "" => errors.required(list, ""),
            resource => one_of(&["cpu", "memory"], resource, *list, errors),
        }
        match restart {
            "" => errors.required(list, ""),
            restart => one_of(&["NotRequired", "RestartContainer"], restart, *list, errors),
        }
        if context.spec.text("restartPolicy") == "Never" && restart != "NotRequired" {
            let problem = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(list, named(restart), problem);
        }
    }
}
