//! CertificateApproval and CertificateSigning: who approves requests or signs them must be allowed to
//! for the signer.

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, ResourceAttributes, What},
    status::Status,
};
use sternpost_registry::object::Fields;

use crate::admission::{Operation, Plugin, Request};

pub(super) const APPROVAL: Plugin =
    Plugin { name: "CertificateApproval", validate: validate_approval, ..Plugin::NONE };
pub(super) const SIGNING: Plugin =
    Plugin { name: "CertificateSigning", validate: validate_signing, ..Plugin::NONE };

const GROUP: &str = "certificates.k8s.io";

fn validate_approval(request: &Request<'_>, signing: &Value) -> Result<(), Status> {
    if is_update(request, "approval") { check(request, signing, "approve") } else { Ok(()) }
}

fn validate_signing(request: &Request<'_>, signing: &Value) -> Result<(), Status> {
    let signed = |object: &Value| {
        let status = object.field("status");
        (status.field("certificate").clone(), status.items("conditions").to_vec())
    };
    // Whoever signs says so by the certificate, or by a condition if it fails.
    let is_signed = is_update(request, "status") && request.old.map(signed) != Some(signed(signing));
    if is_signed { check(request, signing, "sign") } else { Ok(()) }
}

fn is_update(request: &Request<'_>, subresource: &str) -> bool {
    request.attributes.operation == Operation::Update
        && request.attributes.subresource == subresource
        && request.is_about(GROUP, "certificatesigningrequests")
}

/// The signer itself or its whole domain must be allowed. The stored request says who the signer is.
fn check(request: &Request<'_>, signing: &Value, verb: &str) -> Result<(), Status> {
    let signer = request.old.unwrap_or(signing).field("spec").text("signerName");
    let domain = signer.split('/').next().unwrap_or_default();
    let is_allowed = |name: &str| {
        let what = ResourceAttributes {
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..ResourceAttributes::default()
        };
        let asked = Attributes { user: request.attributes.user, verb, what: What::Resource(what) };
        request.verbs.authorizer.authorize(&asked).is_allowed()
    };
    if is_allowed(signer) || is_allowed(&format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {}", go_quote(signer));
    Err(request.forbidden(signing, &why))
}
