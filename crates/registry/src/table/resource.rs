//! Devices: claims, classes and slices.

use serde_json::Value;

use super::{AGE, Column, NAME, NAME_AND_AGE, computed, text};
use crate::object::Fields;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "DeviceClass" | "ResourceClaimTemplate" => NAME_AND_AGE,
        "ResourceClaim" => RESOURCE_CLAIM,
        "ResourceSlice" => RESOURCE_SLICE,
        _ => return None,
    })
}

static RESOURCE_CLAIM: &[Column] =
    &[NAME, computed("State", state, "Whether devices are allocated and reserved."), AGE];

static RESOURCE_SLICE: &[Column] = &[
    NAME,
    text("Node", "/spec/nodeName", "The node whose devices these are."),
    text("Driver", "/spec/driver", "The driver of the devices."),
    text("Pool", "/spec/pool/name", "The pool the slice is a part of."),
    AGE,
];

fn state(claim: &Value) -> Value {
    let status = claim.field("status");
    let deleted = claim.field("metadata").has("deletionTimestamp");
    let allocated = status.has("allocation");
    let states = [
        ("deleted", deleted),
        ("allocated", allocated),
        ("reserved", allocated && !status.items("reservedFor").is_empty()),
        ("pending", !allocated && !deleted),
    ];
    states.iter().filter(|(_, holds)| *holds).map(|&(state, _)| state).collect::<Vec<_>>().join(",").into()
}
