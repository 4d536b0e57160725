//! CertificateSubjectRestriction: nobody asks for a client certificate of the
//! group that may do everything.

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::{kinds::certificate_signing_request::asks_for_group, object::Fields};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "CertificateSubjectRestriction", validate, ..Plugin::NONE };

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const GROUP: &str = "system:masters";

fn validate(request: &Request<'_>, signing: &Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "certificates.k8s.io", "certificatesigningrequests")
        || signing.field("spec").text("signerName") != SIGNER
    {
        return Ok(());
    }
    if asks_for_group(signing.field("spec").text("request"), GROUP) {
        let why = format!("use of {SIGNER} signer with {GROUP} group is not allowed");
        return Err(request.forbidden(signing, &why));
    }
    Ok(())
}
