//! Annotations that mean something to pods, most of them older than the field that replaced them.

use serde_json::Value;
use sternpost_golang::json::syntax::{self as json_syntax, Top};
use sternpost_meta::field::{Errors, Path};

use super::pod_spec::{each_container, validate_descending_path, validate_tolerations};
use crate::object::{Fields, FieldsMut};

pub const MIRROR: &str = "kubernetes.io/config.mirror";
pub const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
pub const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub const SECCOMP_CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Annotations of a pod or template; `path` names the map. What was wrong with
/// the old deletion cost may stay wrong.
pub fn validate(metadata: &Value, spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let annotations = metadata.field("annotations");
    if let Some(mirror) = annotations.field(MIRROR).as_str()
        && spec.text("nodeName").is_empty()
    {
        errors.invalid(path.key(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    validate_toleration_json(annotations.text(TOLERATIONS), path, errors);
    if let Some(cost) = annotations.field(DELETION_COST).as_str() {
        let old_cost = old.field("annotations").field(DELETION_COST).as_str();
        if !is_deletion_cost(cost) && old_cost.is_none_or(is_deletion_cost) {
            errors.invalid(path.key(DELETION_COST), cost, "must be a 32bit integer");
        }
    }
    if let Some(profile) = annotations.field(SECCOMP_POD).as_str() {
        validate_seccomp(profile, &path.child(SECCOMP_POD), errors);
    }
    for (key, profile) in metadata.entries("annotations") {
        if key.starts_with(SECCOMP_CONTAINER_PREFIX) {
            validate_seccomp(profile.as_str().unwrap_or_default(), &path.child(key), errors);
        }
    }
    for (key, profile) in metadata.entries("annotations") {
        let Some(name) = key.strip_prefix(APP_ARMOR_PREFIX) else { continue };
        let mut found = false;
        each_container(spec, path, |container, _| found |= container.text("name") == name);
        if !found {
            errors.invalid(path.key(key), name, "container not found");
        }
        let profile = profile.as_str().unwrap_or_default();
        let known =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !known {
            errors.invalid(path.key(key), profile, &format!("invalid AppArmor profile name: \"{profile}\""));
        }
    }
}

/// Where both an annotation and its field are set, they must say the same. `path` names the spec.
pub fn validate_same_as_fields(metadata: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let annotations = metadata.field("annotations");
    if annotations.is_null() {
        return;
    }
    let mut check = |holder: &Value, key: &str, path: &Path<'_>| {
        let profile = holder.field("securityContext").field("seccompProfile");
        if let Some(annotation) = annotations.field(key).as_str()
            && !profile.is_null()
        {
            let path = path.child("securityContext");
            validate_same_profile("seccomp", annotation, profile, &path.child("seccompProfile"), errors);
        }
    };
    check(spec, SECCOMP_POD, path);
    each_container(spec, path, |container, path| {
        check(container, &format!("{SECCOMP_CONTAINER_PREFIX}{}", container.text("name")), path);
    });
    if spec.field("os").text("name") == "windows" {
        return;
    }
    each_container(spec, path, |container, path| {
        let key = format!("{APP_ARMOR_PREFIX}{}", container.text("name"));
        let profile = container.field("securityContext").field("appArmorProfile");
        if let Some(annotation) = annotations.field(&key).as_str()
            && !profile.is_null()
        {
            let path = path.child("securityContext");
            validate_same_profile("apparmor", annotation, profile, &path.child("appArmorProfile"), errors);
        }
    });
}

/// Annotations of a pod's update, checked on their own once more; `path` names the map.
pub fn validate_update(pod: &Value, old_pod: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (metadata, old_metadata) = (pod.field("metadata"), old_pod.field("metadata"));
    let (new, old) = (metadata.field("annotations"), old_metadata.field("annotations"));
    for (key, value) in old.as_object().into_iter().flatten() {
        if new.get_field(key) == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR_PREFIX) {
            errors.forbidden(path.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(path.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new.as_object().into_iter().flatten().filter(|(key, _)| !old.has(key)) {
        if key.starts_with(APP_ARMOR_PREFIX) {
            errors.forbidden(path.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(path.key(key), "may not add mirror pod annotation");
        }
    }
    validate(metadata, pod.field("spec"), old_metadata, path, errors);
}

/// A new pod's AppArmor annotations become fields where the fields are not set.
pub fn app_armor_to_fields(pod: &mut Value) {
    let annotations = pod.field("metadata").field("annotations").clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    if spec.field("os").text("name") == "windows" {
        return;
    }
    let pod_profile = spec.field("securityContext").field("appArmorProfile").clone();
    for list in ["initContainers", "containers"] {
        for container in spec.items_mut(list) {
            let key = format!("{APP_ARMOR_PREFIX}{}", container.text("name"));
            let Some(profile) = annotations.field(&key).as_str().and_then(app_armor_profile) else {
                continue;
            };
            let set_already = container.field("securityContext").has("appArmorProfile");
            if !set_already && pod_profile != profile {
                container.object_mut("securityContext").set("appArmorProfile", profile);
            }
        }
    }
}

/// Warnings for the annotations that [`app_armor_to_fields`] would use; ask before it did.
pub fn app_armor_warnings(pod: &Value) -> Vec<String> {
    let (spec, annotations) = (pod.field("spec"), pod.field("metadata").field("annotations"));
    if spec.field("os").text("name") == "windows" {
        return Vec::new();
    }
    let pod_profile = spec.field("securityContext").field("appArmorProfile");
    let (metadata, mut warnings) = (Path::new("metadata"), Vec::new());
    for container in spec.items("initContainers").iter().chain(spec.items("containers")) {
        let key = format!("{APP_ARMOR_PREFIX}{}", container.text("name"));
        let Some(annotation) = annotations.field(&key).as_str() else { continue };
        let set_already = container.field("securityContext").has("appArmorProfile");
        if !set_already && app_armor_profile(annotation).is_none_or(|profile| *pod_profile != profile) {
            let path = metadata.child("annotations");
            let path = path.key(&key);
            warnings
                .push(format!("{path}: deprecated since v1.30; use the \"appArmorProfile\" field instead"));
        }
    }
    warnings
}

fn app_armor_profile(annotation: &str) -> Option<Value> {
    let profile = match annotation {
        "runtime/default" => serde_json::json!({"type": "RuntimeDefault"}),
        "unconfined" => serde_json::json!({"type": "Unconfined"}),
        annotation => {
            let name = annotation.strip_prefix("localhost/").filter(|name| !name.is_empty())?;
            serde_json::json!({"type": "Localhost", "localhostProfile": name})
        }
    };
    Some(profile)
}

fn validate_toleration_json(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        return;
    }
    let problem = match json_syntax::check(text.as_bytes()) {
        Err(problem) => Some(problem),
        Ok(document) if matches!(document.top, Top::Array | Top::Null) => None,
        Ok(document) => {
            let found = document.top.name();
            Some(format!("json: cannot unmarshal {found} into Go value of type []core.Toleration"))
        }
    };
    match problem {
        Some(problem) => errors.invalid(path, TOLERATIONS, &problem),
        None => {
            let tolerations: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
            validate_tolerations(&tolerations, &path.child(TOLERATIONS), errors);
        }
    }
}

/// A 32-bit number without plus sign and leading zeros.
fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = text == "0"
        || text.starts_with('-')
        || digits.starts_with(|first: char| ('1'..='9').contains(&first));
    plain && text.parse::<i32>().is_ok()
}

fn validate_seccomp(profile: &str, path: &Path<'_>, errors: &mut Errors) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(file) => validate_descending_path(file, path, errors),
        None => errors.invalid(path, profile, "must be a valid seccomp profile"),
    }
}

fn validate_same_profile(
    what: &str,
    annotation: &str,
    profile: &Value,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let same_type = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => annotation.starts_with("localhost/"),
        _ => return,
    };
    if !same_type {
        errors.forbidden(path.child("type"), &format!("{what} type in annotation and field must match"));
    } else if let Some(file) = annotation.strip_prefix("localhost/")
        && profile.field("localhostProfile").as_str() != Some(file)
    {
        let problem = format!("{what} profile in annotation and field must match");
        errors.forbidden(path.child("localhostProfile"), &problem);
    }
}
