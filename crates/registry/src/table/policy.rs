//! Disruption budgets.

use serde_json::Value;

use super::text::plain;
use super::{AGE, Column, NAME, computed, integer};
use crate::object::Fields;

pub(super) static POD_DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    computed("Min Available", |budget| amount(budget, "minAvailable"), "Pods that have to stay."),
    computed("Max Unavailable", |budget| amount(budget, "maxUnavailable"), "Pods that may be missing."),
    integer("Allowed Disruptions", "/status/disruptionsAllowed", "Pods that may be evicted now."),
    AGE,
];

fn amount(budget: &Value, field: &str) -> Value {
    budget.field("spec").get_field(field).map_or_else(|| "N/A".into(), plain).into()
}
