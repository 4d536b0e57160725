//! `IngressClass`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, dns_subdomain},
};

use super::ingress::validate_typed_reference;
use crate::{
    object::{Fields, FieldsMut},
    strategy::{Generation, MetadataCheck, Strategy},
    validation::form::{must_be, named},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    columns: columns::COLUMNS,
    ..Strategy::of("networking.k8s.io", "IngressClass")
};

/// The most bytes a controller's name may have.
pub const MAX_CONTROLLER_BYTES: usize = 250;

const SCOPES: [&str; 2] = ["Cluster", "Namespace"];

fn default(object: &mut Value) {
    if object.field("spec").has("parameters") {
        let parameters = object.object_mut("spec").object_mut("parameters");
        if !parameters.has("scope") {
            parameters.set("scope", "Cluster");
        }
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    let spec = object.field("spec");
    let path = Path::new("spec");
    let controller = spec.text("controller");
    if controller.len() > MAX_CONTROLLER_BYTES {
        errors.too_long(path.child("controller"), MAX_CONTROLLER_BYTES);
    }
    validate_domain_prefixed_path(controller, path.child("controller"), errors);
    if spec.has("parameters") {
        validate_parameters(spec.field("parameters"), &path.child("parameters"), errors);
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    let controller = object.field("spec").text("controller");
    if controller != old.field("spec").text("controller") {
        errors.invalid(Path::new("spec").child("controller"), controller, "field is immutable");
    }
    validate(object, errors);
}

/// `acme.io/foo`
fn validate_domain_prefixed_path(text: &str, path: Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.required(path, "");
        return;
    }
    let Some((domain, rest)) =
        text.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
    else {
        errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    must_be(dns_subdomain, domain, path, errors);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(fits) {
        let problem = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, rest, problem);
    }
}

fn validate_parameters(parameters: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_typed_reference(parameters, path, errors);
    let Some(scope) = parameters.get_field("scope").and_then(Value::as_str) else {
        errors.required(path.child("scope"), "");
        return;
    };
    let namespace = parameters.get_field("namespace").and_then(Value::as_str);
    let at = path.child("namespace");
    match (scope, namespace) {
        ("Namespace", None) => errors.required(at, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => must_be(dns_label, namespace, at, errors),
        ("Cluster", Some(_)) => errors.forbidden(at, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        (other, _) => errors.not_supported(path.child("scope"), named(other), &SCOPES),
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NONE, computed, text},
    };

    pub(super) const COLUMNS: &[Column] = &[
        computed("Name", class_name, "Name of the class, and whether it is the default.").identifying(),
        text("Controller", "/spec/controller", "Which controller serves the class."),
        computed("Parameters", parameters, "The object that holds the controller's settings."),
        AGE,
    ];

    const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

    fn class_name(class: &Value) -> Value {
        let metadata = class.field("metadata");
        let name = metadata.text("name");
        match metadata.field("annotations").text(DEFAULT_CLASS) {
            "true" => format!("{name} (default)").into(),
            _ => name.into(),
        }
    }

    fn parameters(class: &Value) -> Value {
        let Some(parameters) = class.field("spec").get_field("parameters") else { return NONE.into() };
        let (kind, name) = (parameters.text("kind"), parameters.text("name"));
        match parameters.get_field("apiGroup").and_then(Value::as_str) {
            Some(group) => format!("{kind}.{group}/{name}").into(),
            None => format!("{kind}/{name}").into(),
        }
    }
}
