//! Certificate signing requests.

use serde_json::Value;
use sternpost_meta::age::human_duration;

use super::{AGE, Cell, Column, NAME, NONE, column, computed, text};
use crate::object::Fields;

pub(super) static CERTIFICATE_SIGNING_REQUEST: &[Column] = &[
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
    let has = |kind: &str| status.items("conditions").iter().any(|condition| condition.text("type") == kind);
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
