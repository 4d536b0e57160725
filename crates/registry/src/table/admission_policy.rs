//! Columns that the policies of admission share.

use serde_json::Value;

use crate::{
    object::Fields,
    table::{Column, UNSET, computed},
};

pub(crate) const PARAM_KIND: Column = computed("ParamKind", param_kind, "Kind of the parameters.");

pub(crate) fn param_kind(policy: &Value) -> Value {
    match policy.field("spec").get_field("paramKind") {
        Some(kind) => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")).into(),
        None => UNSET.into(),
    }
}
