//! `Ingress`

use std::collections::HashSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{
        dns_label, dns_subdomain, ip_legacy, parse_ip, path_segment, port_name, wildcard_dns_subdomain,
    },
};

use super::endpoints::validate_port_number;
use crate::{
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status},
    strategy::{Generation, MetadataCheck, Strategy, Subresource},
    validation::form::{must_be, named, required, texts},
};

pub const STRATEGY: Strategy = Strategy {
    prepare_create: |object| object.set("status", json!({})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate: |object, errors| {
        validate_spec(object, &Stored::default(), errors);
        validate_class_annotation(object, errors);
    },
    validate_update: |object, old, errors| validate_spec(object, &Stored::of(old), errors),
    validate_status_update,
    warnings,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    storage_prefix: Some("ingress"),
    ..Strategy::of("networking.k8s.io", "Ingress")
};

/// The older way to name a class.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

/// What the old object has wrong and may therefore keep.
#[derive(Default)]
struct Stored {
    bad_secret_name: bool,
    bad_wildcard_rule: bool,
}

impl Stored {
    fn of(old: &Value) -> Self {
        let spec = old.field("spec");
        let bad_secret = |tls: &Value| {
            !tls.text("secretName").is_empty() && !dns_subdomain(tls.text("secretName")).is_empty()
        };
        let bad_rule = |rule: &Value| {
            let mut errors = Errors::default();
            validate_http(rule, &Path::new("http"), &mut errors);
            rule.text("host").contains('*') && !errors.is_empty()
        };
        Self {
            bad_secret_name: spec.items("tls").iter().any(bad_secret),
            bad_wildcard_rule: spec.items("rules").iter().any(bad_rule),
        }
    }
}

fn validate_spec(object: &Value, stored: &Stored, errors: &mut Errors) {
    let spec = object.field("spec");
    let path = Path::new("spec");
    if spec.items("rules").is_empty() && !spec.has("defaultBackend") {
        let rules = BadValue::Json(spec.field("rules").clone());
        errors.invalid(path, rules, "either `defaultBackend` or `rules` must be specified");
    }
    if spec.has("defaultBackend") {
        validate_backend(spec.field("defaultBackend"), &path.child("defaultBackend"), errors);
    }
    let rules = path.child("rules");
    for (index, rule) in spec.items("rules").iter().enumerate() {
        let path = rules.index(index);
        let host = rule.text("host");
        if !host.is_empty() {
            if parse_ip(host).is_some() {
                errors.invalid(path.child("host"), host, "must be a DNS name, not an IP address");
            }
            validate_host(host, path.child("host"), errors);
        }
        if !(host.contains('*') && stored.bad_wildcard_rule) {
            validate_http(rule, &path.child("http"), errors);
        }
    }
    let list = path.child("tls");
    for (index, tls) in spec.items("tls").iter().enumerate() {
        let path = list.index(index);
        let hosts = path.child("hosts");
        for (index, host) in texts(tls, "hosts").enumerate() {
            validate_host(host, hosts.index(index), errors);
        }
        let secret = tls.text("secretName");
        if !secret.is_empty() && !stored.bad_secret_name {
            must_be(dns_subdomain, secret, path.child("secretName"), errors);
        }
    }
    if let Some(class) = spec.get_field("ingressClassName").and_then(Value::as_str) {
        must_be(dns_subdomain, class, path.child("ingressClassName"), errors);
    }
}

fn validate_host(host: &str, path: Path<'_>, errors: &mut Errors) {
    let form = if host.contains('*') { wildcard_dns_subdomain } else { dns_subdomain };
    must_be(form, host, path, errors);
}

fn validate_http(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(http) = rule.get_field("http") else { return };
    let list = path.child("paths");
    if http.items("paths").is_empty() {
        errors.required(list, "");
    }
    for (index, item) in http.items("paths").iter().enumerate() {
        validate_path(item, &list.index(index), errors);
    }
}

fn validate_path(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(path_type) = item.get_field("pathType").and_then(Value::as_str) else {
        errors.required(path.child("pathType"), "pathType must be specified");
        return;
    };
    let text = item.text("path");
    let at = path.child("path");
    match path_type {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.invalid(at, text, "must be an absolute path");
            }
            if !text.is_empty() {
                for part in ["//", "/./", "/../", "%2f", "%2F"] {
                    if text.contains(part) {
                        errors.invalid(at, text, &format!("must not contain '{part}'"));
                    }
                }
                for end in ["/..", "/."] {
                    if text.ends_with(end) {
                        errors.invalid(at, text, &format!("cannot end with '{end}'"));
                    }
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                errors.invalid(at, text, "must be an absolute path");
            }
        }
        other => errors.not_supported(path.child("pathType"), named(other), &PATH_TYPES),
    }
    validate_backend(item.field("backend"), &path.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (backend.get_field("resource"), backend.get_field("service")) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
        (Some(resource), None) => validate_typed_reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => {
            let at = path.child("service");
            required(dns_label, service.text("name"), at.child("name"), errors);
            let port = service.field("port");
            let (name, number) = (port.text("name"), port.int("number").unwrap_or_default());
            let at = at.child("port");
            if !name.is_empty() && number != 0 {
                errors.invalid(path, "", "cannot set both port name & port number");
            } else if !name.is_empty() {
                must_be(port_name, name, at.child("name"), errors);
            } else if number != 0 {
                validate_port_number(Some(number), at.child("number"), errors);
            } else {
                errors.required(path, "port name or number is required");
            }
        }
    }
}

/// `apiGroup`, `kind` and `name` of a `TypedLocalObjectReference`.
pub(super) fn validate_typed_reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = reference.get_field("apiGroup").and_then(Value::as_str) {
        must_be(dns_subdomain, group, path.child("apiGroup"), errors);
    }
    required(path_segment, reference.text("kind"), path.child("kind"), errors);
    required(path_segment, reference.text("name"), path.child("name"), errors);
}

fn validate_class_annotation(object: &Value, errors: &mut Errors) {
    let annotations = object.field("metadata").field("annotations");
    let class = object.field("spec").get_field("ingressClassName").and_then(Value::as_str);
    let annotated = annotations.get_field(CLASS_ANNOTATION).and_then(Value::as_str);
    if let (Some(annotated), Some(class)) = (annotated, class)
        && annotated != class
    {
        let path = Path::new("annotations");
        let text = "must match `ingressClassName` when both are specified";
        errors.invalid(path.child(CLASS_ANNOTATION), annotated, text);
    }
}

fn validate_status_update(object: &Value, old: &Value, errors: &mut Errors) {
    let ingresses = |object: &Value| object.field("status").field("loadBalancer").items("ingress").to_vec();
    let stored = ingresses(old);
    let stored: HashSet<&str> = stored.iter().map(|old| old.text("ip")).collect();
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let list = balancer.child("ingress");
    for (index, ingress) in ingresses(object).iter().enumerate() {
        let path = list.index(index);
        let ip = ingress.text("ip");
        if !ip.is_empty() && !stored.contains(ip) {
            must_be(ip_legacy, ip, path.child("ip"), errors);
        }
        validate_load_balancer_hostname(ingress.text("hostname"), path.child("hostname"), errors);
    }
}

/// Nothing is said of a name that is not set.
pub(super) fn validate_load_balancer_hostname(hostname: &str, path: Path<'_>, errors: &mut Errors) {
    if hostname.is_empty() {
        return;
    }
    must_be(dns_subdomain, hostname, path, errors);
    if parse_ip(hostname).is_some() {
        errors.invalid(path, hostname, "must be a DNS name, not an IP address");
    }
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = object.field("metadata").field("annotations").has(CLASS_ANNOTATION);
    let deprecated = old.is_none() && annotated && !object.field("spec").has("ingressClassName");
    let text = || {
        format!("annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead")
    };
    deprecated.then(text).into_iter().collect()
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Cell, Column, NAME, NONE, column, computed,
            text::{SHOWN, load_balancer, or},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        column("Class", Cell::SetOr("/spec/ingressClassName", NONE), "The class whose controller serves it."),
        computed("Hosts", hosts, "Host names that rules are for."),
        computed("Address", |ingress| load_balancer(ingress).into(), "Where the load balancer is reached."),
        computed("Ports", ports, "Ports that are open."),
        AGE,
    ];

    /// Rules without a host are not shown, but count once three hosts are.
    fn hosts(ingress: &Value) -> Value {
        let rules = ingress.field("spec").items("rules");
        let mut named = rules.iter().enumerate().filter(|(_, rule)| !rule.text("host").is_empty());
        let shown: Vec<(usize, &str)> =
            named.by_ref().take(SHOWN).map(|(index, rule)| (index, rule.text("host"))).collect();
        let text = shown.iter().map(|&(_, host)| host).collect::<Vec<_>>().join(",");
        match shown.get(SHOWN - 1) {
            Some(&(last, _)) if last + 1 < rules.len() => {
                format!("{text} + {} more...", rules.len() - SHOWN).into()
            }
            _ => or(text, "*").into(),
        }
    }

    fn ports(ingress: &Value) -> Value {
        if ingress.field("spec").items("tls").is_empty() { "80".into() } else { "80, 443".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_warned_of_when_it_is_the_only_way_a_new_object_names_a_class() {
        let annotated = json!({"metadata": {"annotations": {CLASS_ANNOTATION: "a"}}});
        let mut both = annotated.clone();
        both["spec"] = json!({"ingressClassName": "a"});
        assert_eq!(warnings(&annotated, None).len(), 1);
        assert_eq!(warnings(&both, None).len(), 0);
        assert_eq!(warnings(&annotated, Some(&json!({}))).len(), 0);
    }

    #[test]
    fn bad_values_that_were_stored_stay_allowed() {
        let object = json!({"spec": {
            "rules": [{"host": "*.a", "http": {"paths": []}}],
            "tls": [{"secretName": "A_"}],
        }});
        let fields = |stored: &Value| {
            let mut errors = Errors::default();
            (STRATEGY.validate_update)(&object, stored, &mut errors);
            errors.into_causes().into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(&json!({})), ["spec.rules[0].http.paths", "spec.tls[0].secretName"]);
        assert_eq!(fields(&object), Vec::<String>::new());
    }
}
