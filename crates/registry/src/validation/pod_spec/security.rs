//! Security contexts, of the pod and of its containers.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{Problems, user_id},
};

use super::{
    Context, Privileged, each_container, paths::validate_descending, windows::validate_windows_options,
};
use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    validation::form::{named, one_of},
};

const MAX_SYSCTL_NAME: usize = 253;
const MAX_APPARMOR_PROFILE: usize = 4095;

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

pub const SECCOMP_PROFILE: Form = Form::Message("io.k8s.api.core.v1.SeccompProfile");

pub const SECURITY_CONTEXT: Form = Form::Message("io.k8s.api.core.v1.SecurityContext");

/// `securityContext` of a container.
pub fn validate_container_security(
    security: &Value,
    context: &Context<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if security.is_null() {
        return;
    }
    let privileged = security.flag("privileged");
    if privileged && context.privileged == Privileged::Disallowed {
        errors.forbidden(path.child("privileged"), "disallowed by cluster policy");
    }
    for name in ["runAsUser", "runAsGroup"] {
        validate_id(security, name, path, errors);
    }
    if let Some(mount) = security.field("procMount").as_str() {
        one_of(&["Default", "Unmasked"], mount, path.child("procMount"), errors);
        if mount == "Unmasked" && context.spec.field("hostUsers").as_bool() != Some(false) {
            let problem = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(path.child("procMount"), named(mount), problem);
        }
    }
    validate_seccomp(security, path, errors);
    if security.field("allowPrivilegeEscalation").as_bool() == Some(false) {
        let shown = internal(Shape::Struct(SECURITY_CONTEXT), security);
        if privileged {
            let problem = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, shown.clone(), problem);
        }
        let added = security.field("capabilities").items("add");
        if added.iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let problem =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, shown, problem);
        }
    }
    validate_windows_options(security, path, errors);
    validate_app_armor(security, path, errors);
}

/// `spec.securityContext`, with what of the spec stands with it upstream.
pub fn validate_pod_security(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let spec = context.spec;
    let security = spec.field("securityContext");
    let path = path.child("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(security, name, &path, errors);
    }
    for (index, group) in security.items("supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        for problem in user_id(group) {
            errors.invalid(path.child("supplementalGroups").index(index), group, &problem);
        }
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let problem = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.child("shareProcessNamespace"), true, problem);
    }
    validate_sysctls(context, &path.child("sysctls"), errors);
    if let Some(policy) = security.field("fsGroupChangePolicy").as_str() {
        one_of(&["Always", "OnRootMismatch"], policy, path.child("fsGroupChangePolicy"), errors);
    }
    validate_seccomp(security, &path, errors);
    validate_windows_options(security, &path, errors);
    validate_app_armor(security, &path, errors);
    if let Some(policy) = security.field("supplementalGroupsPolicy").as_str() {
        one_of(&["Merge", "Strict"], policy, path.child("supplementalGroupsPolicy"), errors);
    }
    if let Some(policy) = security.field("seLinuxChangePolicy").as_str() {
        let known: &[&str] =
            if context.ratchet.mount_option { &["MountOption", "Recursive"] } else { &["Recursive"] };
        one_of(known, policy, path.child("seLinuxChangePolicy"), errors);
    }
}

/// What a pod with user namespaces of its own may not share with the host.
pub fn validate_host_users(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    const PROBLEM: &str = "when `hostUsers` is false";
    let spec = context.spec;
    if spec.field("hostUsers").as_bool() != Some(false) {
        return;
    }
    if spec.flag("hostNetwork") {
        errors.forbidden(path.child("hostNetwork"), PROBLEM);
    }
    if spec.flag("hostPID") {
        errors.forbidden(path.child("HostPID"), PROBLEM);
    }
    if spec.flag("hostIPC") {
        errors.forbidden(path.child("HostIPC"), PROBLEM);
    }
    if context.ratchet.host_users_devices {
        return;
    }
    each_container(spec, path, |container, path| {
        if !container.items("volumeDevices").is_empty() {
            errors.forbidden(path.child("volumeDevices"), PROBLEM);
        }
    });
}

fn validate_id(security: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = security.int(name).map_or(Problems::new(), user_id);
    for problem in problems {
        errors.invalid(path.child(name), security.field(name), &problem);
    }
}

fn validate_seccomp(security: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(profile) = security.get_field("seccompProfile") else { return };
    let path = path.child("seccompProfile");
    let kind = profile.text("type");
    let localhost = profile.field("localhostProfile").as_str();
    if kind.is_empty() {
        errors.required(path.child("type"), "type is required when seccompProfile is set");
    } else {
        one_of(PROFILE_TYPES, kind, path.child("type"), errors);
    }
    if kind == "Localhost" {
        match localhost {
            None => {
                errors.required(path.child("localhostProfile"), "must be set when seccomp type is Localhost");
            }
            Some(profile) => validate_descending(profile, &path.child("localhostProfile"), errors),
        }
    } else if localhost.is_some() {
        errors.invalid(
            path.child("localhostProfile"),
            internal(Shape::Struct(SECCOMP_PROFILE), profile),
            "can only be set when seccomp type is Localhost",
        );
    }
}

fn validate_app_armor(security: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(profile) = security.get_field("appArmorProfile") else { return };
    let path = path.child("appArmorProfile");
    let localhost = profile.field("localhostProfile").as_str();
    match profile.text("type") {
        "Localhost" => {
            let path = path.child("localhostProfile");
            match localhost.filter(|localhost| !localhost.is_empty()) {
                None => errors.required(path, "must be set when AppArmor type is Localhost"),
                Some(localhost) => {
                    if localhost.trim() != localhost {
                        errors.invalid(path, localhost, "must not be padded with whitespace");
                    }
                    if localhost.len() > MAX_APPARMOR_PROFILE {
                        errors.too_long(path, MAX_APPARMOR_PROFILE);
                    }
                }
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(localhost) = localhost {
                let problem = "can only be set when AppArmor type is Localhost";
                errors.invalid(path.child("localhostProfile"), localhost, problem);
            }
        }
        "" => errors.required(path.child("type"), "type is required when appArmorProfile is set"),
        other => one_of(PROFILE_TYPES, other, path.child("type"), errors),
    }
}

fn validate_sysctls(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let spec = context.spec;
    let mut seen = BTreeSet::new();
    for (index, sysctl) in spec.field("securityContext").items("sysctls").iter().enumerate() {
        let path = path.index(index);
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else if !is_sysctl_name(name) {
            let problem = format!(
                "must have at most {MAX_SYSCTL_NAME} characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.invalid(path.child("name"), name, &problem);
        } else if !seen.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        if context.ratchet.host_sysctls {
            continue;
        }
        if spec.flag("hostNetwork") && is_net_sysctl(name) {
            errors.invalid(path.child("name"), name, "may not be specified when 'hostNetwork' is true");
        }
        if spec.flag("hostIPC") && is_ipc_sysctl(name) {
            errors.invalid(path.child("name"), name, "may not be specified when 'hostIPC' is true");
        }
    }
}

/// Words of lower-case letters and digits with dashes and underscores inside, joined by dots or slashes.
fn is_sysctl_name(name: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let word = |word: &str| {
        word.bytes().next().is_some_and(edge)
            && word.bytes().last().is_some_and(edge)
            && word.bytes().all(|byte| edge(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= MAX_SYSCTL_NAME && name.split(['.', '/']).all(word)
}

/// Sysctls of namespaces that a pod can share with its host.
pub fn is_host_sysctl(spec: &Value, name: &str) -> bool {
    (spec.flag("hostNetwork") && is_net_sysctl(name)) || (spec.flag("hostIPC") && is_ipc_sysctl(name))
}

fn is_net_sysctl(name: &str) -> bool {
    normalised(name).starts_with("net.")
}

fn is_ipc_sysctl(name: &str) -> bool {
    let name = normalised(name);
    name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
}

/// Slashes and dots change places when the first separator is a slash.
fn normalised(name: &str) -> String {
    match name.find(['.', '/']).and_then(|at| name.get(at..=at)) {
        Some("/") => name
            .chars()
            .map(|char| match char {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}
