//! APIService: a group and version, and who serves it.

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_subdomain, dns1035_label, path_segment, port_number},
};

use super::{
    Rules,
    admission_rule::default_pointers,
    form::{must_be, named, not_empty},
    status_subresource::{keep_metadata, keep_spec, keep_status, reset_status},
};
use crate::object::{Fields, FieldsMut};

pub const RULES: Rules = Rules {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: |new, old| {
        keep_spec(new, old);
        keep_metadata(new, old);
    },
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status_update: |new, _, errors| validate_status(new, errors),
    ..Rules::NONE
};

pub const MAX_GROUP_PRIORITY: i64 = 20_000;
pub const MAX_VERSION_PRIORITY: i64 = 1000;

/// What this server serves itself is available from the start: the condition
/// that a new APIService without a service gets.
pub fn available_when_local(service: &mut Value, now: &str) {
    if !service.field("spec").has("service") {
        let condition = json!({
            "type": "Available",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        });
        service.object_mut("status").set("conditions", json!([condition]));
    }
}

fn default(service: &mut Value) {
    let spec = service.object_mut("spec");
    if spec.has("service") {
        default_pointers(spec.object_mut("service"), &[("port", 443.into())]);
    }
}

fn validate(service: &Value, errors: &mut Errors) {
    let spec = service.field("spec");
    let (group, version) = (spec.text("group"), spec.text("version"));
    validate_name(service, &format!("{version}.{group}"), errors);
    let path = Path::new("spec");
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.required(path.child("group"), detail);
        }
    } else {
        must_be(dns_subdomain, group, path.child("group"), errors);
    }
    must_be(dns1035_label, version, path.child("version"), errors);
    for (name, most) in
        [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)]
    {
        let priority = spec.int(name).unwrap_or_default();
        if !(1..=most).contains(&priority) {
            let detail = format!("must be positive and less than {most}");
            errors.invalid(path.child(name), priority, &detail);
        }
    }
    let insecure = spec.flag("insecureSkipTLSVerify");
    let bundle = base64_length(spec.text("caBundle"));
    let Some(service) = spec.get_field("service") else {
        if bundle > 0 {
            let detail = "local APIServices may not have a caBundle";
            errors.invalid(path.child("caBundle"), format!("{bundle} bytes"), detail);
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(path.child("insecureSkipTLSVerify"), insecure, detail);
        }
        return;
    };
    let at = path.child("service");
    not_empty(service.text("namespace"), at.child("namespace"), errors);
    not_empty(service.text("name"), at.child("name"), errors);
    let port = service.int("port").unwrap_or_default();
    let problems = port_number(port);
    if !problems.is_empty() {
        errors.invalid(at.child("port"), port, &format!("port is not valid: {}", problems.join(",")));
    }
    if insecure && bundle > 0 {
        let detail = "may not be true if caBundle is present";
        errors.invalid(path.child("insecureSkipTLSVerify"), insecure, detail);
    }
}

/// The name says group and version again.
fn validate_name(service: &Value, expected: &str, errors: &mut Errors) {
    let name = service.field("metadata").text("name");
    let path = "metadata.name";
    let problems = path_segment(name);
    for problem in &problems {
        errors.invalid(path, name, problem);
    }
    if problems.is_empty() && !name.is_empty() && name != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        errors.invalid(path, name, &detail);
    }
}

/// How many bytes a text in base64 stands for.
fn base64_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

fn validate_status(service: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("conditions");
    for (index, condition) in service.field("status").items("conditions").iter().enumerate() {
        let value = condition.text("status");
        if !matches!(value, "True" | "False" | "Unknown") {
            let path = list.index(index);
            errors.not_supported(path.child("status"), named(value), &["True", "False", "Unknown"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_services_are_available_at_once() {
        for (spec, conditions) in [(json!({}), 1), (json!({"service": {"name": "a"}}), 0)] {
            let mut service = json!({"spec": spec, "status": {}});
            available_when_local(&mut service, "now");
            assert_eq!(service.field("status").items("conditions").len(), conditions);
        }
    }
}
