//! References to fields of the pod and to resources of its containers, from the
//! environment and from downward API volumes.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::qualified_name,
};

use super::resources::quantity;
use crate::object::Fields;

/// Fields of a pod that the downward API can read at all.
const FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

const CONTAINER_RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Who refers: each may read other fields, in the order messages list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    Environment,
    Volume,
}

impl Reader {
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Environment => &[
                "metadata.name",
                "metadata.namespace",
                "metadata.uid",
                "spec.nodeName",
                "spec.serviceAccountName",
                "status.hostIP",
                "status.hostIPs",
                "status.podIP",
                "status.podIPs",
            ],
            Self::Volume => &[
                "metadata.annotations",
                "metadata.labels",
                "metadata.name",
                "metadata.namespace",
                "metadata.uid",
            ],
        }
    }
}

/// An `ObjectFieldSelector`.
pub fn validate_field_ref(reference: &Value, reader: Reader, path: &Path<'_>, errors: &mut Errors) {
    let (version, field) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if version.is_empty() {
        return errors.required(path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(path.child("fieldPath"), "");
    }
    let subscripted = split_subscript(field);
    let unreadable = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else {
        match subscripted {
            Some(("metadata.annotations" | "metadata.labels", _)) => None,
            Some(_) => Some(format!("field label does not support subscript: {field}")),
            None if FIELDS.contains(&field) => None,
            None => Some(format!("field label not supported: {field}")),
        }
    };
    if let Some(problem) = unreadable {
        let problem = format!("error converting fieldPath: {problem}");
        return errors.invalid(path.child("fieldPath"), field, &problem);
    }
    match subscripted {
        Some((map, key)) => {
            // Annotation keys are looked at without regard to case.
            let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
            for problem in qualified_name(&key) {
                errors.invalid(path, key.as_str(), &problem);
            }
        }
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !reader.fields().contains(&field) {
                errors.not_supported(path.child("fieldPath"), field, reader.fields());
            }
        }
    }
}

/// A `ResourceFieldSelector`.
pub fn validate_resource_ref(reference: &Value, reader: Reader, path: &Path<'_>, errors: &mut Errors) {
    let resource = reference.text("resource");
    if reader == Reader::Volume && reference.text("containerName").is_empty() {
        errors.required(path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(path.child("resource"), "");
    } else if !CONTAINER_RESOURCES.contains(&resource) && !is_hugepages(resource) {
        errors.not_supported(path.child("resource"), resource, CONTAINER_RESOURCES);
    }
    validate_divisor(resource, reference.field("divisor"), path, errors);
}

fn validate_divisor(resource: &str, divisor: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(divisor) = quantity(divisor).filter(|divisor| !divisor.is_zero()) else { return };
    let divisor = divisor.to_string();
    let bytes_of = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !CPU_DIVISORS.contains(&divisor.as_str()) {
                let problem = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(path.child("divisor"), BadValue::Text(resource.into()), problem);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        resource if is_hugepages(resource) => "hugepages",
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&divisor.as_str()) {
        let known = BYTE_DIVISORS.join(", ");
        let problem = format!("only divisor's values {known} are supported with the {bytes_of} resource");
        errors.invalid(path.child("divisor"), BadValue::Text(resource.into()), &problem);
    }
}

fn is_hugepages(resource: &str) -> bool {
    resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-")
}

/// `metadata.labels['key']` is a path and a key.
fn split_subscript(field: &str) -> Option<(&str, &str)> {
    let (map, key) = field.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}
