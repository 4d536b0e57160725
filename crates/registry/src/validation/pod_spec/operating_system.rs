//! `spec.os`, and what may not be set for the system it names.

use serde_json::Value;
use sternpost_meta::field::{BadValue, Errors, Path};

use super::each_container;
use crate::object::Fields;

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

pub fn validate_os(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(os) = spec.get_field("os") else { return };
    match os.text("name") {
        "" => errors.required(path.child("os").child("name"), ""),
        "linux" => validate_linux(spec, path, errors),
        "windows" => validate_windows(spec, path, errors),
        other => {
            errors.not_supported(path.child("os"), BadValue::Json(other.into()), &["linux", "windows"]);
        }
    }
}

fn validate_linux(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut check = |holder: &Value, path: &Path<'_>| {
        if holder.field("securityContext").has("windowsOptions") {
            let path = path.child("securityContext");
            errors.forbidden(path.child("windowsOptions"), "windows options cannot be set for a linux pod");
        }
    };
    check(spec, path);
    each_container(spec, path, check);
}

fn validate_windows(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    let context_path = path.child("securityContext");
    for (holder, name) in [
        (Holder::Context, "appArmorProfile"),
        (Holder::Context, "seLinuxOptions"),
        (Holder::Spec, "hostUsers"),
        (Holder::Spec, "hostPID"),
        (Holder::Spec, "hostIPC"),
        (Holder::Context, "seccompProfile"),
        (Holder::Context, "fsGroup"),
        (Holder::Context, "fsGroupChangePolicy"),
        (Holder::Context, "sysctls"),
        (Holder::Spec, "shareProcessNamespace"),
        (Holder::Context, "runAsUser"),
        (Holder::Context, "runAsGroup"),
        (Holder::Context, "supplementalGroups"),
        (Holder::Context, "supplementalGroupsPolicy"),
        (Holder::Context, "seLinuxChangePolicy"),
    ] {
        let (value, path) = match holder {
            Holder::Context => (context.field(name), context_path.child(name)),
            Holder::Spec => (spec.field(name), path.child(name)),
        };
        if is_set(name, value) {
            errors.forbidden(path, NOT_ON_WINDOWS);
        }
    }
    each_container(spec, path, |container, path| {
        for name in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            if container.field("securityContext").has(name) {
                errors.forbidden(path.child("securityContext").child(name), NOT_ON_WINDOWS);
            }
        }
    });
}

enum Holder {
    Context,
    Spec,
}

/// Plain booleans and lists are set when they are not empty, pointers when they are there.
fn is_set(name: &str, value: &Value) -> bool {
    match name {
        "hostPID" | "hostIPC" => value.as_bool().unwrap_or_default(),
        "sysctls" | "supplementalGroups" => value.as_array().is_some_and(|items| !items.is_empty()),
        _ => !value.is_null(),
    }
}
