//! API services.

use serde_json::Value;

use super::text::condition;
use super::{AGE, Column, NAME, computed};
use crate::object::Fields;

pub(super) static API_SERVICE: &[Column] = &[
    NAME,
    computed("Service", service, "The service that serves the version; Local is this server."),
    computed("Available", availability, "Whether the version is served, and why not."),
    AGE,
];

fn service(api_service: &Value) -> Value {
    match api_service.field("spec").get_field("service") {
        Some(service) => format!("{}/{}", service.text("namespace"), service.text("name")).into(),
        None => "Local".into(),
    }
}

/// Whether the version is served, with the reason if not.
fn availability(object: &Value) -> Value {
    let Some(condition) = condition(object, "Available") else { return "Unknown".into() };
    match (condition.text("status"), condition.text("reason")) {
        (status @ "True", _) | (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}
