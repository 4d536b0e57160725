//! CertificateSigningRequest: a certificate somebody asks for, and who decided.
//!
//! Besides the usual steps there is the `approval` subresource:
//! [`prepare_approval_update`] and [`validate_approval_update`].

use std::collections::{HashMap, HashSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_golang::{pem, x509};
use sternpost_meta::{
    field::{Errors, Path},
    format::{Problems, dns_label, dns_subdomain, path_segment},
};

use crate::{
    field_selectors::{NAME as NAME_FIELD, SelectableFields},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Action, MetadataCheck, Strategy, Subresource},
    validation::form::{named, one_of, texts},
};

pub const STRATEGY: Strategy = Strategy {
    prepare_create: reset_status,
    // Only metadata changes by writing the object itself.
    prepare_update: |new, old| {
        keep_spec(new, old);
        keep_status(new, old);
    },
    prepare_status_update,
    validate,
    validate_update: |new, old, errors| validate_change(new, old, Change::Object, errors),
    validate_status_update: |new, old, errors| validate_change(new, old, Change::Status, errors),
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    status_checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: NAME,
    reset_fields: &[".spec", ".status"],
    subresources: &[
        Subresource::status(&[".spec", ".status.conditions"]),
        Subresource {
            name: "approval",
            reset_fields: &[".spec", ".status.certificate"],
            action: Action::Part { prepare: prepare_approval_update, validate: validate_approval_update },
        },
    ],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME_FIELD, ("spec.signerName", "spec.signerName")],
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    stamp_create: |request, context| set_requester(request, &context.user.to_json()),
    stamp_update: |new, old, context| {
        if !context.subresource.is_empty() {
            stamp_conditions(new, old, &context.cluster.now());
        }
    },
    ..Strategy::of("certificates.k8s.io", "CertificateSigningRequest")
};

/// Names stand in URLs and are otherwise free.
pub const NAME: fn(&str) -> Problems = path_segment;

/// Certificates live at least ten minutes.
pub const MIN_EXPIRATION_SECONDS: i64 = 600;
/// A domain, a slash and a path.
pub const MAX_SIGNER_NAME_BYTES: usize = 571;
pub const MAX_SIGNER_DOMAIN_BYTES: usize = 253;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Writes down who asks. `user` is a `UserInfo`: username, uid, groups, extra.
fn set_requester(request: &mut Value, user: &Value) {
    let spec = request.object_mut("spec");
    for name in ["username", "uid", "groups", "extra"] {
        match user.get_field(name) {
            Some(value) => spec.set(name, value.clone()),
            None => {
                spec.remove(name);
            }
        }
    }
}

/// What is wrong with a request, which has to be signed by the key it is for.
fn request_problem(request: &str) -> Option<String> {
    match der_of(request) {
        None => Some("PEM block type must be CERTIFICATE REQUEST".into()),
        Some(der) => x509::check_request(&der).err(),
    }
}

/// Whether a request asks for a certificate of this organization, that is, for a user
/// in this group.
pub fn asks_for_group(request: &str, group: &str) -> bool {
    let der = der_of(request).unwrap_or_default();
    x509::organizations(&der).is_ok_and(|found| found.contains(&group.as_bytes()))
}

/// Only the first block of `spec.request` counts.
fn der_of(request: &str) -> Option<Vec<u8>> {
    let decoded = STANDARD.decode(request).unwrap_or_default();
    let first = pem::blocks(&String::from_utf8_lossy(&decoded)).into_iter().next();
    first.filter(|block| block.kind == "CERTIFICATE REQUEST").map(|block| block.contents)
}

/// Fills in when conditions were updated, and when they last changed.
fn stamp_conditions(new: &mut Value, old: &Value, now: &str) {
    let mut stored: HashMap<[&str; 2], &str> = HashMap::new();
    for condition in old.field("status").items("conditions") {
        let key = ["type", "status"].map(|name| condition.text(name));
        stored.entry(key).or_insert(condition.text("lastTransitionTime"));
    }
    for condition in new.object_mut("status").items_mut("conditions") {
        condition.default_field("lastUpdateTime", now);
        let since = stored.get(&["type", "status"].map(|name| condition.text(name))).copied().unwrap_or("");
        let since = if since.is_empty() { now } else { since }.to_owned();
        condition.default_field("lastTransitionTime", since);
    }
}

/// A status writer keeps the decisions of approvers as they are.
fn prepare_status_update(new: &mut Value, old: &Value) {
    keep_spec(new, old);
    let decided = |condition: &Value| matches!(condition.text("type"), "Approved" | "Denied");
    let same = |conditions: &[Value]| conditions.iter().filter(|one| decided(one)).count();
    let stored = old.field("status").items("conditions").to_vec();
    if same(new.field("status").items("conditions")) == same(&stored) && same(&stored) > 0 {
        let mut kept = stored.iter().filter(|condition| decided(condition)).cloned();
        for condition in new.object_mut("status").items_mut("conditions") {
            if decided(condition)
                && let Some(stored) = kept.next()
            {
                *condition = stored;
            }
        }
    }
}

/// An approver changes conditions and nothing else.
pub fn prepare_approval_update(new: &mut Value, old: &Value) {
    let conditions = new.field("status").field("conditions").clone();
    keep_spec(new, old);
    keep_status(new, old);
    let status = new.object_mut("status");
    if conditions.is_null() {
        status.remove("conditions");
    } else {
        status.set("conditions", conditions);
    }
}

pub fn validate_approval_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate_change(new, old, Change::Approval, errors);
}

fn validate(request: &Value, errors: &mut Errors) {
    let spec = request.field("spec");
    let path = Path::new("spec");
    if let Some(detail) = request_problem(spec.text("request")) {
        errors.invalid(path.child("request"), named(spec.text("request")), &detail);
    }
    let usages = path.child("usages");
    if spec.items("usages").is_empty() {
        errors.required(usages, "");
    }
    let mut seen = HashSet::new();
    for (index, usage) in texts(spec, "usages").enumerate() {
        one_of(&USAGES, usage, usages.index(index), errors);
        if !seen.insert(usage) {
            errors.duplicate(usages.index(index), named(usage));
        }
    }
    let signer = spec.text("signerName");
    let signer_path = path.child("signerName");
    if signer == "kubernetes.io/legacy-unknown" {
        errors.invalid(signer_path, signer, "the legacy signerName is not allowed via this API version");
    } else {
        validate_signer_name(signer, signer_path, errors);
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|seconds| *seconds < MIN_EXPIRATION_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(path.child("expirationSeconds"), seconds, detail);
    }
    validate_status(request.field("status"), errors);
}

/// `example.com/signer-name`
pub fn validate_signer_name(name: &str, path: Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, rest] = segments.as_slice() else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(path, name, detail);
        return;
    };
    let first_bad = |text: &str, check: fn(&str) -> Problems| {
        text.split('.').find_map(|label| {
            let problems = check(label);
            let detail = format!("validating label {}: {}", go_quote(label), problems.join(","));
            (!problems.is_empty()).then_some(detail)
        })
    };
    if let Some(detail) = first_bad(domain, dns_label) {
        errors.invalid(path, *domain, &detail);
    }
    if domain.split('.').count() < 2 {
        errors.invalid(path, *domain, "should be a domain with at least two segments separated by dots");
    }
    if let Some(detail) = first_bad(rest, dns_subdomain) {
        errors.invalid(path, *rest, &detail);
    }
    if domain.len() > MAX_SIGNER_DOMAIN_BYTES {
        errors.too_long(path, MAX_SIGNER_DOMAIN_BYTES);
    }
    if name.len() > MAX_SIGNER_NAME_BYTES {
        errors.too_long(path, MAX_SIGNER_NAME_BYTES);
    }
}

fn validate_status(status: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let list = path.child("conditions");
    let (mut approved, mut denied) = (false, false);
    let mut seen = HashSet::new();
    for (index, condition) in status.items("conditions").iter().enumerate() {
        let at = list.index(index);
        let kind = condition.text("type");
        if kind.is_empty() {
            errors.required(at.child("type"), "");
        }
        let allowed: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match condition.text("status") {
            "" => errors.required(at.child("status"), ""),
            value => one_of(allowed, value, at.child("status"), errors),
        }
        let exclusive = match kind {
            "Approved" => {
                approved = true;
                denied
            }
            "Denied" => {
                denied = true;
                approved
            }
            _ => false,
        };
        if exclusive {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(list, named(kind), detail);
        }
        if !seen.insert(kind) {
            errors.duplicate(at.child("type"), named(kind));
        }
    }
    if let Some(detail) = certificate_problem(status.text("certificate")) {
        errors.invalid(path.child("certificate"), "<certificate data>", &detail);
    }
}

fn certificate_problem(certificate: &str) -> Option<String> {
    if certificate.is_empty() {
        return None;
    }
    let decoded = STANDARD.decode(certificate).unwrap_or_default();
    let blocks = pem::blocks(&String::from_utf8_lossy(&decoded));
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".into());
    }
    blocks.iter().find_map(|block| {
        if block.kind != "CERTIFICATE" {
            let kind = go_quote(&block.kind);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {kind}"));
        }
        if block.headers > 0 {
            return Some("no PEM block headers are permitted".into());
        }
        match x509::check_certificates(&block.contents) {
            Err(problem) => Some(problem),
            Ok(0) => Some("found CERTIFICATE PEM block containing 0 certificates".into()),
            Ok(_) => None,
        }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Object,
    Status,
    Approval,
}

fn validate_change(new: &Value, old: &Value, change: Change, errors: &mut Errors) {
    validate(new, errors);
    let path = Path::new("status");
    let conditions = path.child("conditions");
    let of = |request: &Value, kind: &str| -> Vec<Value> {
        let all = request.field("status").items("conditions").iter();
        all.filter(|condition| condition.text("type") == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            let detail = format!("updates may not remove a condition of type {}", go_quote(kind));
            errors.forbidden(conditions, &detail);
        }
    }
    if change != Change::Approval {
        for kind in ["Approved", "Denied"] {
            let (new, old) = (of(new, kind), of(old, kind));
            if new.len() > old.len() {
                let detail = format!("updates may not add a condition of type {}", go_quote(kind));
                errors.forbidden(conditions, &detail);
            } else if new.len() == old.len() && new != old {
                let detail = format!("updates may not modify a condition of type {}", go_quote(kind));
                errors.forbidden(conditions, &detail);
            }
        }
    }
    let certificate = |request: &Value| request.field("status").text("certificate").to_owned();
    if certificate(new) != certificate(old) {
        let path = path.child("certificate");
        if change != Change::Status {
            errors.forbidden(path, "updates may not set certificate content");
        } else if !certificate(old).is_empty() {
            errors.forbidden(path, "updates may not modify existing certificate content");
        }
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;
    use sternpost_meta::age::human_duration;

    use crate::{
        object::Fields,
        table::{AGE, Cell, Column, NAME, NONE, column, computed, text},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        AGE,
        column("SignerName", Cell::TextOr("/spec/signerName", NONE), "Who is asked to sign."),
        text("Requestor", "/spec/username", "Who asks."),
        computed("RequestedDuration", duration, "How long the certificate should be valid."),
        computed("Condition", condition, "Whether it was approved, denied or issued."),
    ];

    fn duration(request: &Value) -> Value {
        request.field("spec").int("expirationSeconds").map_or_else(|| NONE.into(), human_duration).into()
    }

    /// That a condition is there counts, whatever its status.
    fn condition(request: &Value) -> Value {
        let status = request.field("status");
        let has =
            |kind: &str| status.items("conditions").iter().any(|condition| condition.text("type") == kind);
        let mut text = match (has("Denied"), has("Approved")) {
            (true, _) => "Denied",
            (false, true) => "Approved",
            (false, false) => "Pending",
        }
        .to_owned();
        if has("Failed") {
            text.push_str(",Failed");
        }
        if !status.text("certificate").is_empty() {
            text.push_str(",Issued");
        }
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_keep_the_time_since_which_they_hold() {
        let stored = json!({"type": "Approved", "status": "True", "lastTransitionTime": "then"});
        let old = json!({"status": {"conditions": [stored]}});
        let mut new = json!({"status": {"conditions": [
            {"type": "Approved", "status": "True"},
            {"type": "Failed", "status": "True", "lastUpdateTime": "given"},
        ]}});
        stamp_conditions(&mut new, &old, "now");
        assert_eq!(
            new,
            json!({"status": {"conditions": [
                {"type": "Approved", "status": "True", "lastUpdateTime": "now", "lastTransitionTime": "then"},
                {"type": "Failed", "status": "True", "lastUpdateTime": "given", "lastTransitionTime": "now"},
            ]}})
        );
    }

    #[test]
    fn requests_name_who_asks_and_nobody_else() {
        let mut request = json!({"spec": {"username": "forged", "uid": "forged", "extra": {"a": ["b"]}}});
        set_requester(&mut request, &json!({"username": "me", "groups": ["g"]}));
        assert_eq!(request, json!({"spec": {"username": "me", "groups": ["g"]}}));
    }
}
