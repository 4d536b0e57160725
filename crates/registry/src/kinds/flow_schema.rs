//! FlowSchema: which requests share a priority level.

use std::collections::HashSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_label, dns_subdomain},
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec_and_metadata, keep_status, reset_status},
    strategy::{Generation, MetadataCheck, Strategy, Subresource},
    validation::form::{must_be, named, not_empty, one_of, same, texts},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status_update: |new, _, errors| validate(new, errors),
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    row_order: Some(columns::order),
    ..Strategy::of("flowcontrol.apiserver.k8s.io", "FlowSchema")
};

pub const MAX_MATCHING_PRECEDENCE: i64 = 10_000;

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn default(schema: &mut Value) {
    let spec = schema.object_mut("spec");
    if spec.int("matchingPrecedence").unwrap_or_default() == 0 {
        spec.set("matchingPrecedence", 1000);
    }
}

fn validate(schema: &Value, errors: &mut Errors) {
    let spec = schema.field("spec");
    let name = schema.field("metadata").text("name");
    let path = Path::new("spec");
    let precedence = spec.int("matchingPrecedence").unwrap_or_default();
    let precedence_path = path.child("matchingPrecedence");
    if precedence <= 0 {
        errors.invalid(precedence_path, precedence, "must be a positive value");
    }
    if precedence > MAX_MATCHING_PRECEDENCE {
        errors.invalid(precedence_path, precedence, "must not be greater than 10000");
    }
    if precedence == 1 && name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(precedence_path, precedence, detail);
    }
    if let Some(method) = spec.get_field("distinguisherMethod")
        && !matches!(method.text("type"), "ByNamespace" | "ByUser")
    {
        let path = path.child("distinguisherMethod");
        let value = internal(Shape::Ptr(DISTINGUISHER), method);
        errors.not_supported(path.child("type"), value, &["ByNamespace", "ByUser"]);
    }
    let level = spec.field("priorityLevelConfiguration").text("name");
    let level_path = path.child("priorityLevelConfiguration");
    if level.is_empty() {
        errors.required(level_path.child("name"), "must reference a priority level");
    } else {
        must_be(dns_subdomain, level, level_path.child("name"), errors);
    }
    let rules = path.child("rules");
    for (index, rule) in spec.items("rules").iter().enumerate() {
        validate_rule(rule, &rules.index(index), errors);
    }
    if let Some(fixed) = mandatory(name)
        && !same(spec, &fixed)
    {
        let detail = format!("spec of '{name}' must equal the fixed value");
        errors.invalid(path, internal(Shape::Struct(SPEC), spec), &detail);
    }
    validate_conditions(schema, errors);
}

/// Conditions have a type, and each type once.
pub fn validate_conditions(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("conditions");
    let mut seen = HashSet::new();
    for (index, condition) in object.field("status").items("conditions").iter().enumerate() {
        let path = list.index(index);
        let kind = condition.text("type");
        if !seen.insert(kind) {
            errors.duplicate(path.child("type"), named(kind));
        }
        not_empty(kind, path.child("type"), errors);
    }
}

fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let subjects = path.child("subjects");
    if rule.items("subjects").is_empty() {
        errors.required(subjects, "subjects must contain at least one value");
    }
    for (index, subject) in rule.items("subjects").iter().enumerate() {
        validate_subject(subject, &subjects.index(index), errors);
    }
    if rule.items("resourceRules").is_empty() && rule.items("nonResourceRules").is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let list = path.child("resourceRules");
    for (index, rule) in rule.items("resourceRules").iter().enumerate() {
        validate_resource_rule(rule, &list.index(index), errors);
    }
    let list = path.child("nonResourceRules");
    for (index, rule) in rule.items("nonResourceRules").iter().enumerate() {
        validate_non_resource_rule(rule, &list.index(index), errors);
    }
}

/// The field for each kind of subject.
const SUBJECTS: [(&str, &str); 3] =
    [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

fn validate_subject(subject: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = subject.text("kind");
    let Some((_, wanted)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        one_of(&["Group", "ServiceAccount", "User"], kind, path.child("kind"), errors);
        return;
    };
    match subject.get_field(wanted) {
        None => {
            let detail = format!("{wanted} is required when subject kind is '{kind}'");
            errors.required(path.child(wanted), &detail);
        }
        Some(account) if kind == "ServiceAccount" => {
            validate_service_account(account, &path.child(wanted), errors);
        }
        Some(holder) => not_empty(holder.text("name"), path.child(wanted).child("name"), errors),
    }
    for other in ["serviceAccount", "user", "group"] {
        if other != *wanted && subject.has(other) {
            let owner = SUBJECTS.iter().find(|(_, name)| *name == other).map_or("", |(kind, _)| *kind);
            let detail = format!("{other} is forbidden when subject kind is not '{owner}'");
            errors.forbidden(path.child(other), &detail);
        }
    }
}

fn validate_service_account(account: &Value, path: &Path<'_>, errors: &mut Errors) {
    match account.text("name") {
        "" => errors.required(path.child("name"), ""),
        "*" => {}
        name => must_be(dns_subdomain, name, path.child("name"), errors),
    }
    match account.text("namespace") {
        "" => errors.required(path.child("namespace"), "must specify namespace for service account"),
        namespace => must_be(dns_label, namespace, path.child("namespace"), errors),
    }
}

/// An error if `*` stands beside other values.
fn validate_wildcard(rule: &Value, name: &str, what: &str, path: &Path<'_>, errors: &mut Errors) {
    if rule.items(name).len() > 1 && texts(rule, name).any(|item| item == "*") {
        let value = BadValue::Json(rule.field(name).clone());
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(path.child(name), value, &detail);
    }
}

fn validate_verbs(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    if rule.items("verbs").is_empty() {
        errors.required(path.child("verbs"), "verbs must contain at least one value");
        return;
    }
    if texts(rule, "verbs").any(|verb| verb == "*") {
        validate_wildcard(rule, "verbs", "verbs", path, errors);
    } else if texts(rule, "verbs").any(|verb| !VERBS.contains(&verb)) {
        errors.not_supported(path.child("verbs"), BadValue::Json(rule.field("verbs").clone()), &VERBS);
    }
}

fn validate_resource_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_verbs(rule, path, errors);
    for (name, one, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        if rule.items(name).is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.required(path.child(name), &detail);
        }
        validate_wildcard(rule, name, others, path, errors);
    }
    let namespaces = path.child("namespaces");
    if rule.items("namespaces").is_empty() && !rule.flag("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(namespaces, detail);
    }
    let mixed = rule.items("namespaces").len() > 1 && texts(rule, "namespaces").any(|name| name == "*");
    if mixed {
        validate_wildcard(rule, "namespaces", "namespaces", path, errors);
        return;
    }
    for (index, namespace) in texts(rule, "namespaces").enumerate().filter(|(_, name)| *name != "*") {
        for problem in dns_label(namespace) {
            let detail = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
            errors.invalid(namespaces.index(index), namespace, &detail);
        }
    }
}

fn validate_non_resource_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_verbs(rule, path, errors);
    let urls = path.child("nonResourceURLs");
    if rule.items("nonResourceURLs").is_empty() {
        errors.required(urls, "nonResourceURLs must contain at least one value");
    }
    validate_wildcard(rule, "nonResourceURLs", "non-resource URLs", path, errors);
    for (index, url) in texts(rule, "nonResourceURLs").enumerate().filter(|(_, url)| *url != "*") {
        if let Some(detail) = url_problem(url) {
            errors.invalid(urls.index(index), url, detail);
        }
    }
}

fn url_problem(url: &str) -> Option<&'static str> {
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        url if !url.starts_with('/') => Some("must start with slash"),
        url if url.contains(' ') => Some("must not contain white-space"),
        url if url.contains("//") => Some("must not contain double slash"),
        url => {
            let stars = url.matches('*').count();
            let fits = stars == 0 || (stars == 1 && url.ends_with("/*"));
            (!fits).then_some("wildcard can only do suffix matching")
        }
    }
}

/// Two schemas always exist, and always like this.
pub fn mandatory(name: &str) -> Option<Value> {
    let groups: &[&str] = match name {
        "exempt" => &["system:masters"],
        "catch-all" => &["system:unauthenticated", "system:authenticated"],
        _ => return None,
    };
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 1,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "clusterScope": true,
                "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if name == "catch-all" {
        spec.set("matchingPrecedence", MAX_MATCHING_PRECEDENCE);
        spec.set("distinguisherMethod", json!({"type": "ByUser"}));
    }
    Some(spec)
}

const DISTINGUISHER: Form = Form::Message("io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod");

/// `flowcontrol.FlowSchemaSpec`
const SPEC: Form = Form::Message("io.k8s.api.flowcontrol.v1.FlowSchemaSpec");

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Cell, Column, NAME, NONE, column, computed, text, text::condition},
    };

    /// Where a flow schema stands among the others.
    pub(super) fn order(schema: &Value) -> (i64, String) {
        let precedence = schema.field("spec").int("matchingPrecedence").unwrap_or(0);
        (precedence, schema.field("metadata").text("name").to_owned())
    }

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text(
            "PriorityLevel",
            "/spec/priorityLevelConfiguration/name",
            "The level that matching requests get.",
        ),
        column(
            "MatchingPrecedence",
            Cell::Integer("/spec/matchingPrecedence"),
            "Lower numbers are tried first.",
        ),
        column(
            "DistinguisherMethod",
            Cell::TextOr("/spec/distinguisherMethod/type", NONE),
            "How requests are told apart into flows.",
        ),
        AGE,
        computed(
            "MissingPL",
            |schema| condition(schema, "Dangling").map_or("?", |dangling| dangling.text("status")).into(),
            "Whether the priority level does not exist.",
        ),
    ];
}
