//! Where a webhook is called: a URL, or a service in the cluster.

use serde_json::Value;
use sternpost_golang::url;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_subdomain, port_number},
};

use super::{admission_rule::default_pointers, form::not_empty};
use crate::object::{Fields, FieldsMut};

pub fn default(config: &mut Value) {
    if config.has("service") {
        default_pointers(config.object_mut("service"), &[("port", 443.into())]);
    }
}

pub fn validate(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (config.get_field("url"), config.get_field("service")) {
        (Some(url), None) => {
            validate_url(url.as_str().unwrap_or_default(), path.child("url"), errors);
        }
        (None, Some(service)) => validate_service(service, &path.child("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn validate_url(text: &str, path: Path<'_>, errors: &mut Errors) {
    let form = "; desired format: https://host[/path]";
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(problem) => {
            errors.required(path, &format!("url must be a valid URL: {problem}{form}"));
            return;
        }
    };
    if url.scheme != "https" {
        errors.invalid(path, url.scheme, &format!("'https' is the only allowed URL scheme{form}"));
    }
    if url.host.is_empty() {
        errors.invalid(path, url.host, &format!("host must be specified{form}"));
    }
    if let Some(user) = url.user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        errors.invalid(path, url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        errors.invalid(path, url.query, "query parameters are not permitted in the URL");
    }
}

fn validate_service(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    // Upstream mixes the two up: a missing name is blamed on the namespace.
    not_empty(service.text("namespace"), path.child("name"), errors);
    not_empty(service.text("name"), path.child("namespace"), errors);
    let port = service.int("port").unwrap_or_default();
    let problems = port_number(port);
    if !problems.is_empty() {
        errors.invalid(path.child("port"), port, &format!("port is not valid: {}", problems.join(",")));
    }
    if let Some(text) = service.field("path").as_str() {
        validate_path(text, path.child("path"), errors);
    }
}

fn validate_path(text: &str, path: Path<'_>, errors: &mut Errors) {
    match text {
        "" | "/" => return,
        "//" => {
            errors.invalid(path, text, "segment[0] may not be empty");
            return;
        }
        _ => {}
    }
    if !text.starts_with('/') {
        errors.invalid(path, text, "must start with a '/'");
    }
    // The first character goes, whether it is a slash or not.
    let mut chars = text.chars();
    chars.next();
    let rest = chars.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(path, text, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in dns_subdomain(segment) {
            errors.invalid(path, text, &format!("segment[{index}]: {problem}"));
        }
    }
}
