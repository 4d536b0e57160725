//! The level `baseline`: no known way to gain privileges.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_registry::object::Fields;

use super::checks::{Check, Container, Pod, Violation, containers, plural, pod_and_containers, quoted, set};

/// In upstream's order.
pub(super) const CHECKS: [&Check; 12] = [
    &Check { since: &[(0, app_armor)], instead_of: None },
    &CAPABILITIES,
    &Check { since: &[(0, host_namespaces)], instead_of: None },
    &HOST_PATH_VOLUMES,
    &Check { since: &[(0, host_ports)], instead_of: None },
    &Check { since: &[(34, host_probes)], instead_of: None },
    &Check { since: &[(0, privileged)], instead_of: None },
    &PROC_MOUNT,
    &Check {
        since: &[(0, |pod| se_linux(pod, SE_LINUX_1_0)), (31, |pod| se_linux(pod, SE_LINUX_1_31))],
        instead_of: None,
    },
    &SECCOMP,
    &Check {
        since: &[
            (0, |pod| sysctls(pod, &[SYSCTLS_1_0])),
            (27, |pod| sysctls(pod, &[SYSCTLS_1_0, SYSCTLS_1_27])),
            (29, |pod| sysctls(pod, &[SYSCTLS_1_0, SYSCTLS_1_27, SYSCTLS_1_29])),
            (32, |pod| sysctls(pod, &[SYSCTLS_1_0, SYSCTLS_1_27, SYSCTLS_1_29, SYSCTLS_1_32])),
        ],
        instead_of: None,
    },
    &Check { since: &[(0, windows_host_process)], instead_of: None },
];

pub(super) static CAPABILITIES: Check = Check { since: &[(0, capabilities)], instead_of: None };
pub(super) static HOST_PATH_VOLUMES: Check = Check { since: &[(0, host_path_volumes)], instead_of: None };
pub(super) static PROC_MOUNT: Check = Check {
    since: &[(0, proc_mount), (35, |pod| if pod.has_own_users() { None } else { proc_mount(pod) })],
    instead_of: None,
};
pub(super) static SECCOMP: Check =
    Check { since: &[(0, seccomp_annotations), (19, seccomp)], instead_of: None };

fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    const UNCONFINED: &str = "Unconfined";
    let unconfined = |security: &Value| security.field("appArmorProfile").text("type") == UNCONFINED;
    let whole = unconfined(pod.security);
    let names = pod.containers_where(|container| unconfined(container.security));
    let annotations = forbidden_annotations(pod.annotations, |key, value| {
        key.starts_with("container.apparmor.security.beta.kubernetes.io/")
            && !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"))
    });
    let mut setters = Vec::new();
    if whole || !names.is_empty() {
        setters.push(pod_and_containers(whole, &names));
    }
    if !annotations.is_empty() {
        setters.push(format!("annotation{}", plural(annotations.len())));
    }
    if setters.is_empty() {
        return None;
    }
    let field = (whole || !names.is_empty()).then(|| UNCONFINED.to_owned());
    let values: Vec<String> = field.into_iter().chain(annotations).collect();
    let (count, values) = (values.len(), quoted(&values));
    Violation::new(
        format!("forbidden AppArmor profile{}", plural(count)),
        format!("{} must not set AppArmor profile type to {values}", setters.join(" and ")),
    )
}

/// `key="value"`, sorted.
fn forbidden_annotations(annotations: &Value, forbidden: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let entries = annotations.as_object().into_iter().flatten();
    let entries = entries.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    entries
        .filter(|(key, value)| forbidden(key, value))
        .map(|(key, value)| format!("{key}=\"{value}\""))
        .collect()
}

/// What containers have without asking.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let detail = added_capabilities(pod, &DEFAULT_CAPABILITIES)?;
    Violation::new("non-default capabilities", detail)
}

/// Who adds capabilities that are not allowed, if anybody does.
pub(super) fn added_capabilities(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let added = |container: &Container<'_>| -> Vec<String> {
        let added = container.security.field("capabilities").items("add").iter().filter_map(Value::as_str);
        added.filter(|name| !allowed.contains(name)).map(str::to_owned).collect()
    };
    let names = pod.containers_where(|container| !added(container).is_empty());
    if names.is_empty() {
        return None;
    }
    let found = set(pod.containers().flat_map(|container| added(&container)));
    Some(format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers(&names),
        quoted(found)
    ))
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| pod.spec.flag(name))
        .map(|name| format!("{name}=true"))
        .collect();
    if shared.is_empty() { None } else { Violation::new("host namespaces", shared.join(", ")) }
}

fn host_path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.items("volumes").iter().filter(|volume| volume.has("hostPath"));
    let names: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", format!("volume{} {}", plural(names.len()), quoted(&names)))
}

fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let ports = |container: &Container<'_>| -> Vec<String> {
        let ports = container.whole.items("ports").iter().filter_map(|port| port.int("hostPort"));
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let names = pod.containers_where(|container| !ports(container).is_empty());
    if names.is_empty() {
        return None;
    }
    // Sorted as texts.
    let found: Vec<String> =
        set(pod.containers().flat_map(|container| ports(&container))).into_iter().collect();
    let verb = if names.len() == 1 { "uses" } else { "use" };
    let detail =
        format!("{} {verb} hostPort{} {}", containers(&names), plural(found.len()), found.join(", "));
    Violation::new("hostPort", detail)
}

/// The kubelet would ask any host it is told to.
fn host_probes(pod: &Pod<'_>) -> Option<Violation> {
    let hosts = |container: &Container<'_>| -> Vec<String> {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
        let probes = probes.into_iter().map(|probe| container.whole.field(probe));
        let hooks = ["postStart", "preStop"].into_iter();
        let handlers = probes.chain(hooks.map(|hook| container.whole.field("lifecycle").field(hook)));
        let ways = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|way| handler.field(way)));
        ways.map(|way| way.text("host").to_owned()).filter(|host| !host.is_empty()).collect()
    };
    let names = pod.containers_where(|container| !hosts(container).is_empty());
    if names.is_empty() {
        return None;
    }
    let found = set(pod.containers().flat_map(|container| hosts(&container)));
    let verb = if names.len() == 1 { "uses" } else { "use" };
    let detail = format!(
        "{} {verb} probe or lifecycle host{} {}",
        containers(&names),
        plural(found.len()),
        quoted(found)
    );
    Violation::new("probe or lifecycle host", detail)
}

fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.containers_where(|container| container.security.flag("privileged"));
    if names.is_empty() {
        return None;
    }
    Violation::new(
        "privileged",
        format!("{} must not set securityContext.privileged=true", containers(&names)),
    )
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let other = |container: &Container<'_>| {
        Some(container.security.text("procMount"))
            .filter(|mount| !matches!(*mount, "" | "Default"))
            .map(str::to_owned)
    };
    let names = pod.containers_where(|container| other(container).is_some());
    if names.is_empty() {
        return None;
    }
    let found = set(pod.containers().filter_map(|container| other(&container)));
    let detail =
        format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(found));
    Violation::new("procMount", detail)
}

const SE_LINUX_1_0: &[&str] = &["", "container_t", "container_init_t", "container_kvm_t"];
const SE_LINUX_1_31: &[&str] =
    &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

fn se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let bad_type = |options: &Value| {
        Some(options.text("type").to_owned()).filter(|text| !allowed.contains(&text.as_str()))
    };
    let bad = |security: &Value| {
        let options = security.field("seLinuxOptions");
        bad_type(options).is_some() || !options.text("user").is_empty() || !options.text("role").is_empty()
    };
    let whole = bad(pod.security);
    let names = pod.containers_where(|container| bad(container.security));
    if !whole && names.is_empty() {
        return None;
    }
    let all: Vec<&Value> = std::iter::once(pod.security)
        .chain(pod.containers().map(|container| container.security))
        .map(|security| security.field("seLinuxOptions"))
        .collect();
    let types = set(all.iter().filter_map(|options| bad_type(options)));
    let mut details = Vec::new();
    if !types.is_empty() {
        details.push(format!("type{} {}", plural(types.len()), quoted(types)));
    }
    for name in ["user", "role"] {
        if all.iter().any(|options| !options.text(name).is_empty()) {
            details.push(format!("{name} may not be set"));
        }
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        pod_and_containers(whole, &names),
        details.join("; ")
    );
    Violation::new("seLinuxOptions", detail)
}

/// Before there were fields for it.
fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let own: HashSet<String> = pod
        .containers()
        .map(|container| format!("container.seccomp.security.alpha.kubernetes.io/{}", container.name))
        .collect();
    let found = forbidden_annotations(pod.annotations, |key, value| {
        let speaks = key == "seccomp.security.alpha.kubernetes.io/pod" || own.contains(key);
        let allowed =
            matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
        speaks && !allowed
    });
    if found.is_empty() {
        return None;
    }
    let detail = format!("forbidden annotation{} {}", plural(found.len()), found.join(", "));
    Violation::new("seccompProfile", detail)
}

pub(super) fn is_unconfined(security: &Value) -> bool {
    security.field("seccompProfile").text("type") == "Unconfined"
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let whole = is_unconfined(pod.security);
    let names = pod.containers_where(|container| is_unconfined(container.security));
    if !whole && names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.seccompProfile.type to \"Unconfined\"",
        pod_and_containers(whole, &names)
    );
    Violation::new("seccompProfile", detail)
}

const SYSCTLS_1_0: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_syncookies",
];
const SYSCTLS_1_27: &[&str] = &["net.ipv4.ip_local_reserved_ports"];
const SYSCTLS_1_29: &[&str] = &[
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
];
const SYSCTLS_1_32: &[&str] = &["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];

fn sysctls(pod: &Pod<'_>, allowed: &[&[&str]]) -> Option<Violation> {
    let names = pod.security.items("sysctls").iter().map(|sysctl| sysctl.text("name"));
    let found: Vec<&str> = names.filter(|name| !allowed.iter().any(|list| list.contains(name))).collect();
    if found.is_empty() { None } else { Violation::new("forbidden sysctls", found.join(", ")) }
}

fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let asks = |security: &Value| security.field("windowsOptions").flag("hostProcess");
    let whole = asks(pod.security);
    let names = pod.containers_where(|container| asks(container.security));
    if !whole && names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.windowsOptions.hostProcess=true",
        pod_and_containers(whole, &names)
    );
    Violation::new("hostProcess", detail)
}
