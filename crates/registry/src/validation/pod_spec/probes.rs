//! Probes, and the handlers they share with lifecycle events.

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{http_header_name, port_name, port_number},
};

use crate::object::Fields;

/// The three probes of a container, in order.
pub fn validate_probes(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(probe) = container.get_field("livenessProbe") {
        let path = path.child("livenessProbe");
        validate_probe(probe, &path, errors);
        validate_succeeds_once(probe, &path, errors);
    }
    if let Some(probe) = container.get_field("readinessProbe") {
        let path = path.child("readinessProbe");
        validate_probe(probe, &path, errors);
        if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
            let problem = "must not be set for readinessProbes";
            errors.invalid(path.child("terminationGracePeriodSeconds"), seconds, problem);
        }
    }
    if let Some(probe) = container.get_field("startupProbe") {
        let path = path.child("startupProbe");
        validate_probe(probe, &path, errors);
        validate_succeeds_once(probe, &path, errors);
    }
}

fn validate_succeeds_once(probe: &Value, path: &Path<'_>, errors: &mut Errors) {
    let threshold = probe.int("successThreshold").unwrap_or_default();
    if threshold != 1 {
        errors.invalid(path.child("successThreshold"), threshold, "must be 1");
    }
}

fn validate_probe(probe: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_handler(probe, Holder::Probe, path, errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        if let Some(number) = probe.int(name).filter(|number| *number < 0) {
            errors.invalid(path.child(name), number, "must be greater than or equal to 0");
        }
    }
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

/// What a handler belongs to: probes may call gRPC, events may sleep.
#[derive(Debug, Clone, Copy)]
pub enum Holder {
    Probe,
    /// With the seconds the pod has to terminate.
    Event {
        grace_period: i64,
    },
}

/// Exactly one handler; only the first that is set is looked into.
pub fn validate_handler(handler: &Value, holder: Holder, path: &Path<'_>, errors: &mut Errors) {
    let mut found = false;
    for name in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.get_field(name) else { continue };
        let path = path.child(name);
        if found {
            errors.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match name {
            "exec" => {
                if action.items("command").is_empty() {
                    errors.required(path.child("command"), "");
                }
            }
            "httpGet" => validate_http_get(action, &path, errors),
            "sleep" => validate_sleep(action, holder, &path, errors),
            _ => validate_port(action.field("port"), &path.child("port"), errors),
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_http_get(action: &Value, path: &Path<'_>, errors: &mut Errors) {
    if action.text("path").is_empty() {
        errors.required(path.child("path"), "");
    }
    validate_port(action.field("port"), &path.child("port"), errors);
    let scheme = action.text("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(path.child("scheme"), BadValue::Json(scheme.into()), &["HTTP", "HTTPS"]);
    }
    for header in action.items("httpHeaders") {
        for problem in http_header_name(header.text("name")) {
            errors.invalid(path.child("httpHeaders"), header.text("name"), &problem);
        }
    }
}

/// A number, or the name of a port of the container.
fn validate_port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(name) = port.as_str() {
        for problem in port_name(name) {
            errors.invalid(path, name, &problem);
        }
        return;
    }
    let number = port.as_i64().unwrap_or_default();
    for problem in port_number(number) {
        errors.invalid(path, number, &problem);
    }
}

fn validate_sleep(action: &Value, holder: Holder, path: &Path<'_>, errors: &mut Errors) {
    let Holder::Event { grace_period } = holder else { return };
    let seconds = action.int("seconds").unwrap_or_default();
    if !(0..=grace_period).contains(&seconds) {
        let problem =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
        errors.invalid(path, seconds, &problem);
    }
}
