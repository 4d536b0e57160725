//! What the author of pods should know, though nothing is wrong: fields that do
//! nothing any more, entries that hide others, paths that overlap.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{field::Path, format::label_value, quantity::Quantity};

use super::{
    deprecated_label::{advice, warn_node_selector},
    ip_ranges::ip_warning,
    pod_annotations::APP_ARMOR_PREFIX,
};
use crate::{kinds::persistent_volume_claim, object::Fields};

/// Warnings for a template at `path`.
pub fn of_template(template: &Value, path: &Path<'_>) -> Vec<String> {
    let (metadata, spec) = (path.child("metadata"), path.child("spec"));
    of_parts(template, &metadata.child("annotations"), &spec, AppArmor::Here)
}

/// Warnings for a pod itself.
pub fn of_pod(pod: &Value) -> Vec<String> {
    let (metadata, spec) = (Path::new("metadata"), Path::new("spec"));
    of_parts(pod, &metadata.child("annotations"), &spec, AppArmor::Elsewhere)
}

/// Where annotations for AppArmor are warned about: a pod's become fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AppArmor {
    Here,
    Elsewhere,
}

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

/// Kinds of volumes that went out of use. `ephemeral` stands for the claim inside.
const VOLUMES: [(&str, &str); 10] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("ephemeral", ""),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn of_parts(
    holder: &Value,
    annotations_path: &Path<'_>,
    path: &Path<'_>,
    app_armor: AppArmor,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = holder.field("metadata").field("annotations");
    let spec = holder.field("spec");
    warn_placement(spec, path, &mut warnings);
    for (key, text) in ANNOTATIONS {
        if annotations.has(key) {
            warnings.push(format!("{}: {text}", annotations_path.key(key)));
        }
    }
    warn_volumes(spec, &path.child("volumes"), &mut warnings);
    for volume in spec.items("volumes") {
        warn_overlapping_paths(volume, &mut warnings);
    }
    warn_repeats(spec, ("hostAliases", "ip"), path, &mut warnings);
    warn_repeats(spec, ("imagePullSecrets", "name"), path, &mut warnings);
    let secrets = path.child("imagePullSecrets");
    for (index, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", secrets.index(index).child("name")));
        }
    }
    warn_fractions(spec.field("overhead"), &path.child("overhead"), &mut warnings);
    let context = spec.field("securityContext");
    if !context.has("seccompProfile") && annotations.has(SECCOMP_POD) {
        warnings.push(format!("{}: {SECCOMP}", annotations_path.key(SECCOMP_POD)));
    }
    each_container(spec, path, &mut |container, path| {
        warn_profiles(container, context, annotations, annotations_path, app_armor, &mut warnings);
        warn_container(container, path, &mut warnings);
    });
    warn_ports(spec, path, &mut warnings);
    warn_port_names(spec, path, &mut warnings);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let path = path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warn_pod_affinity(spec.field("affinity"), &path.child("affinity"), &mut warnings);
    warn_addresses(spec, path, &mut warnings);
    warnings
}

/// First those that run first.
fn each_container(spec: &Value, path: &Path<'_>, visit: &mut dyn FnMut(&Value, &Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.child(list);
        for (index, container) in spec.items(list).iter().enumerate() {
            visit(container, &path.index(index));
        }
    }
}

fn warn_placement(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    for (label, _) in spec.entries("nodeSelector") {
        if let Some(advice) = advice(label) {
            warnings.push(format!("{}: {advice}", path.child("nodeSelector").key(label)));
        }
    }
    let affinity = spec.field("affinity").field("nodeAffinity");
    let affinity_path = path.child("affinity");
    let affinity_path = affinity_path.child("nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    warn_node_selector(affinity.field(required), &affinity_path.child(required), warnings);
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let list = affinity_path.child(preferred);
    for (index, term) in affinity.items(preferred).iter().enumerate() {
        let item = list.index(index);
        warn_preference(term.field("preference"), &item.child("preference"), warnings);
    }
    let list = path.child("topologySpreadConstraints");
    for (index, constraint) in spec.items("topologySpreadConstraints").iter().enumerate() {
        let path = list.index(index);
        let key = constraint.text("topologyKey");
        if let Some(advice) = advice(key) {
            warnings.push(format!("{}: {key} is {advice}", path.child("topologyKey")));
        }
        warn_no_selector(constraint, &path, warnings);
    }
}

/// A preference that can never be met is allowed, so that only a warning tells of it.
fn warn_preference(term: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let list = path.child("matchExpressions");
    for (index, expression) in term.items("matchExpressions").iter().enumerate() {
        let path = list.index(index);
        let label = expression.text("key");
        if let Some(advice) = advice(label) {
            warnings.push(format!("{}: {label} is {advice}", path.child("key")));
        }
        for (index, value) in expression.items("values").iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for problem in label_value(value) {
                let path = path.child("values");
                warnings.push(format!("{}: {value} is invalid, {problem}", path.index(index)));
            }
        }
    }
}

fn warn_no_selector(holder: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if !holder.has("labelSelector") {
        let path = path.child("labelSelector");
        warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
    }
}

fn warn_volumes(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    for (index, volume) in spec.items("volumes").iter().enumerate() {
        let item = path.index(index);
        for (kind, text) in VOLUMES {
            if !volume.has(kind) {
                continue;
            }
            let path = item.child(kind);
            if kind == "ephemeral" {
                let template = volume.field(kind).field("volumeClaimTemplate");
                let path = path.child("volumeClaimTemplate");
                persistent_volume_claim::warn_spec(template.field("spec"), &path.child("spec"), warnings);
            } else {
                // Upstream writes this one differently than users do.
                let name = if kind == "storageos" { "storageOS" } else { kind };
                warnings.push(format!("{}: {text}", item.child(name)));
            }
        }
    }
}

fn warn_repeats(spec: &Value, (list, name): (&str, &str), path: &Path<'_>, warnings: &mut Vec<String>) {
    let path = path.child(list);
    let mut seen = HashSet::new();
    for (index, item) in spec.items(list).iter().enumerate() {
        let text = item.text(name);
        if !seen.insert(text) {
            let path = path.index(index);
            warnings.push(format!("{}: duplicate {name} {}", path.child(name), go_quote(text)));
        }
    }
}

/// Bytes come whole.
fn warn_fractions(list: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        warn_fraction(list, name, path, warnings);
    }
}

fn warn_fraction(list: &Value, name: &str, path: &Path<'_>, warnings: &mut Vec<String>) {
    let Some(quantity) = list.get_field(name).and_then(|value| Quantity::from_json(value).ok()) else {
        return;
    };
    if quantity.milli_value().unwrap_or_default() % 1000 != 0 {
        let path = path.key(name);
        warnings.push(format!("{path}: fractional byte value \"{quantity}\" is invalid, must be an integer"));
    }
}

fn warn_profiles(
    container: &Value,
    pod_context: &Value,
    annotations: &Value,
    path: &Path<'_>,
    app_armor: AppArmor,
    warnings: &mut Vec<String>,
) {
    if annotations.is_null() {
        return;
    }
    let (name, context) = (container.text("name"), container.field("securityContext"));
    let key = format!("{SECCOMP_CONTAINER_PREFIX}{name}");
    if !context.has("seccompProfile") && annotations.has(&key) {
        warnings.push(format!("{}: {SECCOMP}", path.key(&key)));
    }
    let key = format!("{APP_ARMOR_PREFIX}{name}");
    if app_armor == AppArmor::Here
        && !context.has("appArmorProfile")
        && annotations.has(&key)
        && !is_same_profile(pod_context.field("appArmorProfile"), annotations.text(&key))
    {
        warnings.push(format!("{}: {APP_ARMOR}", path.key(&key)));
    }
}

/// Whether a profile in a field says what the annotation says.
fn is_same_profile(profile: &Value, annotation: &str) -> bool {
    let local = profile.text("localhostProfile");
    match profile.text("type") {
        "Unconfined" => annotation == "unconfined" && local.is_empty(),
        "RuntimeDefault" => annotation == "runtime/default" && local.is_empty(),
        "Localhost" => {
            annotation.strip_prefix("localhost/").is_some_and(|name| !name.is_empty() && name == local)
        }
        _ => false,
    }
}

fn warn_container(container: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let resources = path.child("resources");
    for name in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let amounts = container.field("resources").field(list);
            warn_fraction(amounts, name, &resources.child(list), warnings);
        }
    }
    let path = path.child("env");
    let mut seen = HashSet::new();
    for (index, variable) in container.items("env").iter().enumerate() {
        let (name, value) = (variable.text("name"), variable.text("value"));
        if seen.insert(name) {
            continue;
        }
        // To build on the value before is what repeating a name is good for.
        let reference = format!("$({name})");
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            let name = go_quote(name);
            warnings.push(format!(
                "{}: hides previous definition of {name}, which may be dropped when using apply",
                path.index(index)
            ));
        }
    }
}

fn warn_ports(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    /// A port seen before: where, on which address and port of the host.
    type PortKey = (String, String, i64);
    let mut by_port: HashMap<(i64, String), Vec<PortKey>> = HashMap::new();
    let mut ports = 0;
    each_container(spec, path, &mut |container, _| ports += container.items("ports").len());
    each_container(spec, path, &mut |container, path| {
        let path = path.child("ports");
        for (index, port) in container.items("ports").iter().enumerate() {
            // The only one, as in most pods, has no other to clash with.
            if ports == 1 && port.text("hostIP").is_empty() {
                return;
            }
            let place = path.index(index).to_string();
            let number = port.int("containerPort").unwrap_or_default();
            let host_port = port.int("hostPort").unwrap_or_default();
            let (host_ip, protocol) = (port.text("hostIP"), port.text("protocol"));
            if !host_ip.is_empty() && host_port == 0 {
                let name = port.text("name");
                warnings.push(format!("{place}: hostIP set without hostPort: {{Name:{name} HostPort:{host_port} ContainerPort:{number} Protocol:{protocol} HostIP:{host_ip}}}"));
            }
            let others = by_port.entry((number, protocol.to_owned())).or_default();
            for (other, other_ip, other_port) in others.iter() {
                let ambiguous = host_ip.is_empty() != other_ip.is_empty();
                let how = if host_ip == other_ip && host_port == *other_port {
                    "duplicate"
                } else if host_port == 0 || *other_port == 0 {
                    "overlapping"
                } else if host_port == *other_port && ambiguous {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{place}: {how} port definition with {other}"));
            }
            others.push((place, host_ip.to_owned(), host_port));
        }
    });
}

fn warn_port_names(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let mut seen: HashMap<String, String> = HashMap::new();
    each_container(spec, path, &mut |container, path| {
        let path = path.child("ports");
        for (index, port) in container.items("ports").iter().enumerate() {
            let name = port.text("name");
            if name.is_empty() {
                continue;
            }
            let place = path.index(index).to_string();
            match seen.get(name) {
                Some(other) => warnings.push(format!("{place}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}", go_quote(name))),
                None => {
                    seen.insert(name.to_owned(), place);
                }
            }
        }
    });
}

fn warn_pod_affinity(affinity: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.field(kind);
        let path = path.child(kind);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let list = path.child(required);
        for (index, term) in terms.items(required).iter().enumerate() {
            warn_no_selector(term, &list.index(index), warnings);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let list = path.child(preferred);
        for (index, term) in terms.items(preferred).iter().enumerate() {
            let item = list.index(index);
            warn_no_selector(term.field("podAffinityTerm"), &item.child("podAffinityTerm"), warnings);
        }
    }
}

fn warn_addresses(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let list = path.child("dnsConfig");
    let list = list.child("nameservers");
    for (index, server) in spec.field("dnsConfig").items("nameservers").iter().enumerate() {
        warnings.extend(ip_warning(server.as_str().unwrap_or_default(), list.index(index)));
    }
    let list = path.child("hostAliases");
    for (index, alias) in spec.items("hostAliases").iter().enumerate() {
        let item = list.index(index);
        warnings.extend(ip_warning(alias.text("ip"), item.child("ip")));
    }
}

/// A file in a volume, and what puts it there.
struct Target<'a> {
    path: &'a str,
    source: String,
}

impl std::fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&go_quote(self.path))?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

fn warn_overlapping_paths(volume: &Value, warnings: &mut Vec<String>) {
    let name = go_quote(volume.text("name"));
    for (kind, shown, name_field) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let source = volume.field(kind);
        let shown = if name_field.is_empty() {
            shown.to_owned()
        } else {
            format!("{shown} {}", go_quote(source.text(name_field)))
        };
        for overlap in overlaps(item_paths(source, "")) {
            warnings.push(format!("volume {name} ({shown}): overlapping paths: {overlap}"));
        }
    }
    let mut targets = Vec::new();
    let mut found = Vec::new();
    for source in volume.field("projected").items("sources") {
        if source.as_object().is_none_or(|kinds| kinds.values().all(Value::is_null)) {
            found.push(format!("volume {name} (Projected) has no sources provided"));
            continue;
        }
        for target in projected_paths(source) {
            for overlap in overlaps_with(&targets, &target) {
                found.push(format!("volume {name} (Projected): overlapping paths: {overlap}"));
            }
            targets.push(target);
        }
    }
    warnings.extend(found);
}

fn item_paths<'a>(source: &'a Value, shown: &str) -> Vec<Target<'a>> {
    let items = source.items("items").iter();
    items.map(|item| Target { path: trimmed(item.text("path")), source: shown.to_owned() }).collect()
}

fn trimmed(path: &str) -> &str {
    path.trim_end_matches('/')
}

fn projected_paths(source: &Value) -> Vec<Target<'_>> {
    let one = |path: &'static str, of: &'static str, shown: String| {
        let path = trimmed(source.field(of).text(path));
        Target { path, source: shown }
    };
    if !source.field("configMap").items("items").is_empty() {
        let map = source.field("configMap");
        item_paths(map, &format!("ConfigMap {}", go_quote(map.text("name"))))
    } else if !source.field("secret").items("items").is_empty() {
        let secret = source.field("secret");
        item_paths(secret, &format!("Secret {}", go_quote(secret.text("name"))))
    } else if !source.field("downwardAPI").items("items").is_empty() {
        item_paths(source.field("downwardAPI"), "DownwardAPI")
    } else if source.has("serviceAccountToken") {
        vec![one("path", "serviceAccountToken", "ServiceAccountToken".into())]
    } else if source.has("clusterTrustBundle") {
        let bundle = source.field("clusterTrustBundle");
        let name = if bundle.has("name") { bundle.text("name") } else { bundle.text("signerName") };
        vec![one("path", "clusterTrustBundle", format!("ClusterTrustBundle {}", go_quote(name)))]
    } else {
        [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ]
        .into_iter()
        .map(|(field, shown)| one(field, "podCertificate", shown.into()))
        .filter(|target| !target.path.is_empty())
        .collect()
    }
}

fn overlaps(targets: Vec<Target<'_>>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for target in targets {
        found.extend(overlaps_with(&seen, &target));
        seen.push(target);
    }
    found
}

/// Equal paths, and paths of which one is a directory of the other.
fn overlaps_with(seen: &[Target<'_>], target: &Target<'_>) -> Vec<String> {
    let below = |path: &str, directory: &str| {
        path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    seen.iter()
        .filter(|other| !other.path.is_empty() && !target.path.is_empty())
        .filter(|other| below(other.path, target.path) || below(target.path, other.path))
        .map(|other| format!("{target} with {other}"))
        .collect()
}
