//! `spec.conversion`, at the paths of the internal type.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{field::Errors, format};

use super::{CheckBundle, enumerated, field, items};
use crate::definition::{is_established, text};

const CONFIG: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
const SCHEME: &str = "desired format: https://host[/path]";

/// `bundle` is asked where the certificates have to be good.
pub(super) fn check(conversion: &Value, preserve: bool, bundle: Option<CheckBundle>, errors: &mut Errors) {
    let strategy = text(conversion, "strategy");
    enumerated("spec.conversion.strategy", &strategy, &["None", "Webhook"], errors);
    let webhook = field(conversion, "webhook");
    let config = webhook.get("clientConfig").filter(|config| !config.is_null());
    let reviews = items(webhook, "conversionReviewVersions");
    if strategy == "Webhook" {
        if preserve {
            let detail = "must be None if spec.preserveUnknownFields is true";
            errors.invalid("spec.conversion.strategy", strategy, detail);
        }
        match config {
            None => errors.required(CONFIG, "required when strategy is set to Webhook"),
            Some(config) => {
                check_config(config, errors);
                let given = text(config, "caBundle");
                if let Some(Err(problem)) = bundle.filter(|_| !given.is_empty()).map(|check| check(&given)) {
                    errors.invalid(format!("{CONFIG}.caBundle"), given, &problem);
                }
            }
        }
        check_reviews(reviews, errors);
        return;
    }
    if strategy != "None" {
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if config.is_some() {
        errors.forbidden(CONFIG, detail);
    }
    if !reviews.is_empty() {
        errors.forbidden(REVIEWS, detail);
    }
}

/// Whether an update of this definition may bring bad certificates: while it does not serve, and if it
/// has such already.
pub(super) fn may_be_bad(old: &Value, check: CheckBundle) -> bool {
    let bundle = old.pointer("/spec/conversion/webhook/clientConfig/caBundle").and_then(Value::as_str);
    let is_bad = bundle.is_some_and(|bundle| !bundle.is_empty() && check(bundle).is_err());
    is_bad || !is_established(old)
}

fn check_reviews(reviews: &[Value], errors: &mut Errors) {
    if reviews.is_empty() {
        errors.required(REVIEWS, "");
        return;
    }
    let names: Vec<&str> = reviews.iter().filter_map(Value::as_str).collect();
    let mut known = false;
    let mut seen = HashSet::new();
    for (index, name) in names.iter().enumerate() {
        if !seen.insert(*name) {
            errors.invalid(format!("{REVIEWS}[{index}]"), *name, "duplicate version");
            continue;
        }
        let problems = format::dns1035_label(name);
        if !problems.is_empty() {
            errors.invalid(format!("{REVIEWS}[{index}]"), *name, &problems.join(","));
        }
        known |= matches!(*name, "v1" | "v1beta1");
    }
    if !known {
        let shown = Value::from(reviews.to_vec());
        errors.invalid(REVIEWS, &shown, "must include at least one of v1, v1beta1");
    }
}

fn check_config(config: &Value, errors: &mut Errors) {
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|service| !service.is_null());
    match (url, service) {
        (Some(url), None) => check_url(url, errors),
        (None, Some(service)) => check_service(service, errors),
        _ => errors.required(CONFIG, "exactly one of url or service is required"),
    }
}

fn check_url(url: &str, errors: &mut Errors) {
    let path = format!("{CONFIG}.url");
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        errors.invalid(&path, scheme, &format!("'https' is the only allowed URL scheme; {SCHEME}"));
    }
    if host.is_empty() {
        errors.invalid(&path, host, &format!("host must be specified; {SCHEME}"));
    }
    for (found, detail) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !found.is_empty() {
            errors.invalid(&path, found, detail);
        }
    }
}

fn check_service(service: &Value, errors: &mut Errors) {
    let at = |name: &str| format!("{CONFIG}.service.{name}");
    // Upstream names the other field here.
    if text(service, "name").is_empty() {
        errors.required(at("namespace"), "");
    }
    if text(service, "namespace").is_empty() {
        errors.required(at("name"), "");
    }
    let path = text(service, "path");
    if !path.is_empty() {
        check_service_path(&path, &at("path"), errors);
    }
    if let Some(port) = service.get("port").and_then(Value::as_i64) {
        for problem in format::port_number(port) {
            errors.invalid(at("port"), port, &format!("port is not valid: {problem}"));
        }
    }
}

fn check_service_path(path: &str, at: &str, errors: &mut Errors) {
    if path == "/" {
        return;
    }
    if !path.starts_with('/') {
        errors.invalid(at, path, "must start with a '/'");
    }
    let mut chars = path.chars();
    chars.next();
    let rest = chars.as_str();
    let rest = rest.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(rest);
    for (index, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(at, path, &format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in format::dns_subdomain(step) {
            errors.invalid(at, path, &format!("segment[{index}]: {problem}"));
        }
    }
}
