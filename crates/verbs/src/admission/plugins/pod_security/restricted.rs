//! The level `restricted`: what is known to be good practice.

use serde_json::Value;
use sternpost_registry::object::Fields;

use super::{
    baseline,
    checks::{Check, Pod, Rule, Violation, containers, plural, pod_and_containers, quoted, set},
};

/// In upstream's order.
pub(super) const CHECKS: [&Check; 7] = [
    &Check {
        since: &[(8, privilege_escalation), (25, |pod| not_on_windows(pod, privilege_escalation))],
        instead_of: None,
    },
    &Check {
        since: &[(22, capabilities), (25, |pod| not_on_windows(pod, capabilities))],
        instead_of: Some(&baseline::CAPABILITIES),
    },
    &Check { since: &[(35, baseline::proc_mount)], instead_of: Some(&baseline::PROC_MOUNT) },
    &Check { since: &[(0, volumes)], instead_of: Some(&baseline::HOST_PATH_VOLUMES) },
    &Check {
        since: &[(0, run_as_non_root), (35, |pod| unless_own_users(pod, run_as_non_root))],
        instead_of: None,
    },
    &Check { since: &[(23, run_as_user), (35, |pod| unless_own_users(pod, run_as_user))], instead_of: None },
    &Check {
        since: &[(19, seccomp), (25, |pod| not_on_windows(pod, seccomp))],
        instead_of: Some(&baseline::SECCOMP),
    },
];

/// Windows has none of these.
fn not_on_windows(pod: &Pod<'_>, check: Rule) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}

/// Root in a user namespace is nobody on the host.
fn unless_own_users(pod: &Pod<'_>, check: Rule) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}

fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.containers_where(|container| {
        container.security.field("allowPrivilegeEscalation") != &Value::Bool(false)
    });
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    Violation::new("allowPrivilegeEscalation != false", detail)
}

fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let keeping = pod.containers_where(|container| {
        let dropped = container.security.field("capabilities").items("drop");
        !dropped.iter().any(|name| name == "ALL")
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details
            .push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    details.extend(baseline::added_capabilities(pod, &["NET_BIND_SERVICE"]));
    if details.is_empty() { None } else { Violation::new("unrestricted capabilities", details.join("; ")) }
}

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let kind = |volume: &Value| {
        let fields = volume.as_object().into_iter().flatten();
        let kind = fields
            .filter(|(name, value)| *name != "name" && !value.is_null())
            .map(|(name, _)| name.clone())
            .next();
        kind.filter(|kind| !ALLOWED_VOLUMES.contains(&kind.as_str()))
    };
    let all = pod.spec.items("volumes");
    let names: Vec<&str> =
        all.iter().filter(|volume| kind(volume).is_some()).map(|volume| volume.text("name")).collect();
    if names.is_empty() {
        return None;
    }
    let kinds = set(all.iter().filter_map(kind));
    let verb = if names.len() == 1 { "uses" } else { "use" };
    let detail = format!(
        "volume{} {} {verb} restricted volume type{} {}",
        plural(names.len()),
        quoted(&names),
        plural(kinds.len()),
        quoted(kinds)
    );
    Violation::new("restricted volume types", detail)
}

fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    let said = |security: &Value| security.field("runAsNonRoot").as_bool();
    let whole = said(pod.security);
    let rooted = pod.containers_where(|container| said(container.security) == Some(false));
    if whole == Some(false) || !rooted.is_empty() {
        let setters = pod_and_containers(whole == Some(false), &rooted);
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Violation::new("runAsNonRoot != true", detail);
    }
    let silent = pod.containers_where(|container| said(container.security).is_none());
    if whole == Some(true) || silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent));
    Violation::new("runAsNonRoot != true", detail)
}

fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    let root = |security: &Value| security.int("runAsUser") == Some(0);
    let whole = root(pod.security);
    let names = pod.containers_where(|container| root(container.security));
    if !whole && names.is_empty() {
        return None;
    }
    let detail = format!("{} must not set runAsUser=0", pod_and_containers(whole, &names));
    Violation::new("runAsUser=0", detail)
}

fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(violation) = baseline::seccomp(pod) {
        return Some(violation);
    }
    let silent = pod.containers_where(|container| !container.security.has("seccompProfile"));
    if pod.security.has("seccompProfile") || silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&silent)
    );
    Violation::new("seccompProfile", detail)
}
