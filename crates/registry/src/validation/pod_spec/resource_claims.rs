//! Claims of a pod on devices, and the containers that use them.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_label, dns_subdomain},
};

use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
};

pub const POD_RESOURCE_CLAIM: Form = Form::Message("io.k8s.api.core.v1.PodResourceClaim");

/// The claims of the pod, as written.
pub fn claim_names(spec: &Value) -> BTreeSet<&str> {
    spec.items("resourceClaims")
        .iter()
        .map(|claim| claim.text("name"))
        .filter(|name| !name.is_empty())
        .collect()
}

/// `spec.resourceClaims`.
pub fn validate_pod_claims(spec: &Value, pod: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("resourceClaims");
    let is_mirror =
        pod.is_some_and(|metadata| metadata.field("annotations").has("kubernetes.io/config.mirror"));
    if is_mirror && !spec.items("resourceClaims").is_empty() {
        errors.forbidden("[]", "static pods do not support resource claims");
    }
    let mut seen = BTreeSet::new();
    for (index, claim) in spec.items("resourceClaims").iter().enumerate() {
        let path = list.index(index);
        let name = claim.text("name");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(path.child("name"), name);
        } else {
            for problem in dns_label(name) {
                errors.invalid(path.child("name"), name, &problem);
            }
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        match sources.iter().filter(|source| claim.has(source)).count() {
            0 => errors.invalid(
                path,
                internal(Shape::Struct(POD_RESOURCE_CLAIM), claim),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            1 => {}
            _ => errors.invalid(
                path,
                internal(Shape::Struct(POD_RESOURCE_CLAIM), claim),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        }
        for source in sources {
            if let Some(name) = claim.field(source).as_str() {
                for problem in dns_subdomain(name) {
                    errors.invalid(path.child(source), name, &problem);
                }
            }
        }
    }
}

/// `resources.claims` of a container.
pub fn validate_claims(resources: &Value, pod_claims: &BTreeSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in resources.items("claims").iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        // A claim as a whole clashes with every request of it.
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if seen.contains(name) {
            errors.duplicate(path, name);
        } else if request.is_empty() {
            let prefix = format!("{name}/");
            let requests = seen.range(prefix.clone()..).take_while(|seen| seen.starts_with(&prefix));
            requests.for_each(|_| errors.duplicate(path, name));
        } else if seen.contains(&key) {
            errors.duplicate(path, key.as_str());
        }
        seen.insert(key);
        if !request.is_empty() {
            for problem in dns_label(request) {
                errors.invalid(path.child("request"), request, &problem);
            }
        }
        // Each prints all of them.
        if !pod_claims.contains(name) && !errors.is_full() {
            not_found(name, pod_claims, &path, errors);
        }
    }
}

fn not_found(name: &str, pod_claims: &BTreeSet<&str>, path: &Path<'_>, errors: &mut Errors) {
    let names: Vec<&str> = pod_claims.iter().copied().collect();
    let detail = if names.is_empty() {
        "must be one of the names in pod.spec.resourceClaims which is empty".to_owned()
    } else {
        format!("must be one of the names in pod.spec.resourceClaims: {}", names.join(", "))
    };
    errors.push(
        sternpost_meta::status::CauseReason::FieldValueNotFound,
        path,
        "Not found",
        Some(name.into()),
        &detail,
    );
}
