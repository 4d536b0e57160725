//! TokenRequest: asks for a token of a service account.
//!
//! Whose token it is stands in the URL: [`validate_account`] compares.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    status::Status,
};

use super::csi_driver::validate_token_seconds;
use crate::{
    object::{Fields, FieldsMut},
    strategy::Strategy,
};

pub const STRATEGY: Strategy =
    Strategy { default, validate, tabular: false, ..Strategy::of("authentication.k8s.io", "TokenRequest") };

fn default(request: &mut Value) {
    let spec = request.object_mut("spec");
    if !spec.has("expirationSeconds") {
        spec.set("expirationSeconds", 3600);
    }
}

fn validate(request: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let seconds = request.field("spec").int("expirationSeconds").unwrap_or_default();
    validate_token_seconds(seconds, path.child("expirationSeconds"), errors);
}

/// Name and namespace may be left out, but not differ from the service account's.
pub fn validate_account(request: &Value, namespace: &str, name: &str, errors: &mut Errors) {
    let metadata = request.field("metadata");
    let path = Path::new("metadata");
    for (field, expected) in [("name", name), ("namespace", namespace)] {
        let given = metadata.text(field);
        if !given.is_empty() && given != expected {
            let detail = format!("must match the service account {field} if specified");
            errors.invalid(path.child(field), given, &detail);
        }
    }
}

/// Tokens live as long as a Pod, a Secret or a Node at most.
pub fn check_bound_object(request: &Value) -> Result<(), Status> {
    let Some(object) = request.field("spec").get_field("boundObjectRef") else { return Ok(()) };
    let (version, kind) = (object.text("apiVersion"), object.text("kind"));
    let (group, version) = match version.split_once('/') {
        None => ("", version),
        Some((group, version)) if !version.contains('/') => (group, version),
        Some(_) => ("", ""),
    };
    // As upstream, which does not look at the version.
    match (group, kind) {
        ("", "Pod" | "Secret" | "Node") => Ok(()),
        _ => {
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            Err(Status::bad_request(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_bound_to_pods_secrets_and_nodes() {
        for (version, kind, message) in [
            ("v1", "Pod", None),
            ("v1", "Node", None),
            ("", "Pod", None),
            ("v2", "Secret", None),
            ("/v1", "Pod", None),
            ("a/b/c", "Pod", None),
            ("v1/", "Pod", Some("cannot bind token to object of type v1/, Kind=Pod")),
            ("v1", "pod", Some("cannot bind token to object of type /v1, Kind=pod")),
            ("a/b/c", "X", Some("cannot bind token to object of type /, Kind=X")),
            ("apps/v1", "Pod", Some("cannot bind token to object of type apps/v1, Kind=Pod")),
            ("v1", "ConfigMap", Some("cannot bind token to object of type /v1, Kind=ConfigMap")),
            ("apps/v1", "Deployment", Some("cannot bind token to object of type apps/v1, Kind=Deployment")),
        ] {
            let request = json!({"spec": {"boundObjectRef": {"apiVersion": version, "kind": kind}}});
            let found = check_bound_object(&request).err().map(|status| status.message);
            assert_eq!(found.as_deref(), message);
        }
        assert!(check_bound_object(&json!({"spec": {}})).is_ok());
    }

    #[test]
    fn metadata_names_the_account_of_the_url_or_nothing() {
        for (metadata, fields) in [
            (json!({}), vec![]),
            (json!({"name": "sa", "namespace": "ns"}), vec![]),
            (json!({"name": "x", "namespace": "y"}), vec!["metadata.name", "metadata.namespace"]),
        ] {
            let mut errors = Errors::default();
            validate_account(&json!({"metadata": metadata}), "ns", "sa", &mut errors);
            let found: Vec<&str> = errors.causes().iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(found, fields);
        }
    }
}
