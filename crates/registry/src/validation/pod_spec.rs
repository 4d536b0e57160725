//! `PodSpec`: what a pod runs, in pods and in the templates of workloads.
//!
//! One file per concept below this one; this file has the order of the checks.

mod affinity;
mod containers;
mod defaults;
mod dns;
mod env;
mod ephemeral;
mod field_ref;
mod image;
mod internal;
mod lifecycle;
mod mounts;
mod operating_system;
mod paths;
mod probes;
mod ratchet;
mod resource_claims;
mod resources;
mod scheduling;
mod security;
mod volumes;
mod windows;

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, dns_subdomain},
};

pub use self::{
    defaults::{default, default_pod},
    internal::{
        EPHEMERAL_CONTAINER, NODE_SELECTOR_TERM, indented_spec, internal_spec, internal_template, same_spec,
    },
    paths::validate_descending as validate_descending_path,
    resources::qos_class,
    scheduling::{merge_match_label_keys, validate_tolerations},
};
use self::{ratchet::Ratchet, volumes::Volumes};
use super::{
    form::{must_be, one_of},
    labels::validate_labels,
};
use crate::object::Fields;

/// Where the spec stands, and what of it was accepted before.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The metadata of the pod; `None` in a template.
    pub pod: Option<&'a Value>,
    /// The stored spec on an update: what it got away with stays allowed.
    pub old: Option<&'a Value>,
    pub privileged: Privileged,
}

/// Whether containers may ask for privilege, as the flag `--allow-privileged` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileged {
    Allowed,
    Disallowed,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { pod: None, old: None, privileged: Privileged::Allowed }
    }
}

/// Checks a whole spec that has its defaults; `path` names it.
pub fn validate(spec: &Value, options: Options<'_>, path: &Path<'_>, errors: &mut Errors) {
    if !spec.has("terminationGracePeriodSeconds") {
        errors.required(path.child("terminationGracePeriodSeconds"), "");
    }
    let ratchet = Ratchet::of(options.old);
    let volumes = volumes::validate_volumes(spec, options.pod, ratchet, path, errors);
    resource_claims::validate_pod_claims(spec, options.pod, path, errors);
    let claims = resource_claims::claim_names(spec);
    let context = Context { spec, volumes, claims, ratchet, privileged: options.privileged };
    containers::validate_containers(&context, path, errors);
    containers::validate_init_containers(&context, path, errors);
    ephemeral::validate_ephemeral_containers(&context, path, errors);
    resources::validate_pod_resources(&context, path, errors);
    validate_host_network_ports(spec, path, errors);
    validate_restart_policy(spec, path, errors);
    dns::validate_dns_policy(spec, path, errors);
    validate_labels(spec, "nodeSelector", &path.child("nodeSelector"), errors);
    security::validate_pod_security(&context, path, errors);
    affinity::validate_affinity(&context, path, errors);
    dns::validate_dns_config(spec, options.old, path, errors);
    scheduling::validate_gates(spec, path, errors);
    scheduling::validate_topology_spread(&context, path, errors);
    windows::validate_host_process(&context, path, errors);
    security::validate_host_users(&context, path, errors);
    dns::validate_hostname_override(spec, path, errors);
    validate_names(spec, &["serviceAccountName", "nodeName"], path, errors);
    validate_active_deadline(spec, path, errors);
    for name in ["hostname", "subdomain"] {
        if !spec.text(name).is_empty() {
            must_be(dns_label, spec.text(name), path.child(name), errors);
        }
    }
    validate_tolerations(spec.items("tolerations"), &path.child("tolerations"), errors);
    dns::validate_host_aliases(spec, options.old, path, errors);
    validate_names(spec, &["priorityClassName"], path, errors);
    if let Some(name) = spec.field("runtimeClassName").as_str() {
        must_be(dns_subdomain, name, path.child("runtimeClassName"), errors);
    }
    validate_preemption_policy(spec, path, errors);
    resources::validate_overhead(&context, path, errors);
    operating_system::validate_os(spec, path, errors);
    env::validate_file_key_volumes(spec, path, errors);
}

/// What only pods must have right, not templates; comes after everything else.
pub fn validate_images(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            containers::validate_image_padding(container, &path.index(index), errors);
        }
    }
}

/// What the checks of one spec share.
struct Context<'a> {
    spec: &'a Value,
    volumes: Volumes<'a>,
    /// Names of `resourceClaims`.
    claims: BTreeSet<&'a str>,
    ratchet: Ratchet,
    privileged: Privileged,
}

/// All containers with their paths, in the order upstream visits them.
pub fn each_container(spec: &Value, path: &Path<'_>, mut visit: impl FnMut(&Value, &Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            visit(container, &path.index(index));
        }
    }
}

/// On the network of the host a port has one number.
fn validate_host_network_ports(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    let list = path.child("containers");
    for (index, container) in spec.items("containers").iter().enumerate() {
        let container_path = list.index(index);
        let ports = container_path.child("ports");
        for (index, port) in container.items("ports").iter().enumerate() {
            let on_host = port.int("hostPort").unwrap_or_default();
            if on_host != 0 && on_host != port.int("containerPort").unwrap_or_default() {
                let problem = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(ports.index(index).child("hostPort"), on_host, problem);
            }
        }
    }
}

fn validate_restart_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    match spec.text("restartPolicy") {
        "" => errors.required(path.child("restartPolicy"), ""),
        policy => one_of(&["Always", "OnFailure", "Never"], policy, path.child("restartPolicy"), errors),
    }
}

/// Texts that are names of objects unless they are empty.
fn validate_names(spec: &Value, names: &[&str], path: &Path<'_>, errors: &mut Errors) {
    for name in names {
        if !spec.text(name).is_empty() {
            must_be(dns_subdomain, spec.text(name), path.child(name), errors);
        }
    }
}

fn validate_active_deadline(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MOST: i64 = 2_147_483_647;
    if let Some(seconds) = spec.int("activeDeadlineSeconds").filter(|seconds| !(1..=MOST).contains(seconds)) {
        let problem = format!("must be between 1 and {MOST}, inclusive");
        errors.invalid(path.child("activeDeadlineSeconds"), seconds, &problem);
    }
}

fn validate_preemption_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    match spec.field("preemptionPolicy").as_str() {
        None => {}
        Some("") => errors.required(path.child("preemptionPolicy"), ""),
        Some(policy) => {
            one_of(&["PreemptLowerPriority", "Never"], policy, path.child("preemptionPolicy"), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fields and messages of the errors of a spec with its defaults.
    fn check(spec: &Value, options: Options<'_>) -> Vec<(String, String)> {
        let mut spec = spec.clone();
        if !spec.has("containers") {
            spec["containers"] = json!([{"name": "c", "image": "i"}]);
        }
        default(&mut spec);
        let mut errors = Errors::default();
        validate(&spec, options, &Path::new("spec"), &mut errors);
        errors.into_causes().into_iter().map(|cause| (cause.field, cause.message)).collect()
    }

    #[test]
    fn privilege_is_refused_where_it_is_disallowed() {
        let privileged = json!({
            "containers": [{"name": "c", "image": "i", "securityContext": {
                "privileged": true,
                "allowPrivilegeEscalation": false,
            }}],
        });
        let host_process = json!({
            "securityContext": {"windowsOptions": {"hostProcess": true}},
            "containers": [
                {"name": "c", "image": "i", "securityContext": {"windowsOptions": {"hostProcess": false}}},
                {"name": "d", "image": "i"},
            ],
        });
        let disallowed = Options { privileged: Privileged::Disallowed, ..Options::default() };
        let fields = |spec: &Value, options| -> Vec<String> {
            check(spec, options).into_iter().map(|(field, _)| field).collect()
        };
        let context = "spec.containers[0].securityContext";
        assert_eq!(fields(&privileged, Options::default()), [context]);
        assert_eq!(fields(&privileged, disallowed), [&format!("{context}.privileged"), context]);
        let differs = format!("{context}.windowsOptions.hostProcess");
        assert_eq!(fields(&host_process, Options::default()), [&differs, "spec", "spec.hostNetwork"]);
        assert_eq!(fields(&host_process, disallowed), [&differs, "spec", "spec.hostNetwork", "spec"]);
    }

    #[test]
    fn what_was_accepted_before_stays_allowed() {
        let container = |more: Value| {
            let mut container = json!({"name": "c", "image": "i"});
            for (name, value) in more.as_object().into_iter().flatten() {
                container[name] = value.clone();
            }
            json!([container])
        };
        let bad_expression = json!([{"key": "a", "operator": "In", "values": ["-"]}]);
        for spec in [
            json!({"containers": container(json!({
                "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}, "requests": {"hugepages-2Mi": "3Mi"}},
            }))}),
            json!({"volumes": [{"name": "v", "projected": {"sources": [
                {"serviceAccountToken": {"path": "../t"}},
            ]}}]}),
            json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.a", "value": "1"}]}}),
            json!({
                "hostUsers": false,
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}],
                "containers": container(json!({"volumeDevices": [{"name": "v", "devicePath": "/d"}]})),
            }),
            json!({"initContainers": [{
                "name": "i",
                "image": "i",
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
            }]}),
            json!({"securityContext": {"seLinuxChangePolicy": "MountOption"}}),
            json!({"topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "t",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": bad_expression},
            }]}),
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": bad_expression}],
            }}}}),
            json!({"hostAliases": [{"ip": "010.0.0.1"}]}),
            json!({"dnsConfig": {"nameservers": ["010.0.0.1"]}}),
        ] {
            assert_ne!(check(&spec, Options::default()), [], "{spec}");
            assert_eq!(check(&spec, Options { old: Some(&spec), ..Options::default() }), [], "{spec}");
        }
    }
}
