//! `Event`: one stored object, seen as core `v1` and as `events.k8s.io/v1`.
//!
//! The stored form is core's. [`to_core`] and [`from_core`] turn one view into
//! the other; [`STRATEGY`] are for requests in core's form, [`EVENTS_STRATEGY`] for
//! requests in the form of `events.k8s.io`.

mod columns;

use std::borrow::Cow;

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_subdomain, path_segment, qualified_name},
};

use crate::{
    field_selectors::{NAME, NAMESPACE, SelectableFields, stored_value},
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    strategy::{Conversion, Strategy},
    validation::form::{must_be, same},
};

pub const STRATEGY: Strategy = Strategy {
    validate: |event, errors| validate_any(event, "reportingComponent", errors),
    validate_update: |event, _, errors| validate_any(event, "reportingComponent", errors),
    create_on_update: true,
    checks_again: &[],
    qualified_finalizers: false,
    name: path_segment,
    selectable_fields: Some(SelectableFields {
        fields: &[
            NAME,
            NAMESPACE,
            ("type", "type"),
            ("reason", "reason"),
            ("source", "source"),
            ("reportingComponent", "reportingComponent"),
            ("involvedObject.kind", "involvedObject.kind"),
            ("involvedObject.namespace", "involvedObject.namespace"),
            ("involvedObject.name", "involvedObject.name"),
            ("involvedObject.uid", "involvedObject.uid"),
            ("involvedObject.apiVersion", "involvedObject.apiVersion"),
            ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
            ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ],
        value: selectable_value,
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    expires: true,
    ..Strategy::of("", "Event")
};

pub const EVENTS_STRATEGY: Strategy = Strategy {
    validate: |event, errors| validate_new(&to_core(event), errors),
    validate_update: |event, old, errors| validate_change(&to_core(event), &to_core(old), errors),
    create_on_update: true,
    checks_again: &[],
    qualified_finalizers: false,
    conversions: &[Conversion { version: "v1", stored_as: "v1", to_stored: to_core, from_stored: from_core }],
    selectable_fields: Some(SelectableFields {
        fields: &[
            NAME,
            NAMESPACE,
            ("type", "type"),
            ("reason", "reason"),
            ("reportingController", "reportingComponent"),
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
        ],
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    expires: true,
    ..Strategy::of("events.k8s.io", "Event")
};

fn selectable_value<'a>(field: &str, event: &'a Value) -> Cow<'a, str> {
    match (field, event.field("source").text("component")) {
        ("source", "") => event.text("reportingComponent").into(),
        ("source", component) => component.into(),
        _ => stored_value(field, event),
    }
}

/// The most bytes of `reportingInstance`, `action` and `reason`.
pub const MAX_NAME_BYTES: usize = 128;
/// The most bytes of `message`, which is also called `note`.
pub const MAX_NOTE_BYTES: usize = 1024;

/// The fields that go by two names: core's, and that of `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

const OBJECT_REFERENCE: Form = Form::Message("io.k8s.api.core.v1.ObjectReference");
const SOURCE: Form = Form::Message("io.k8s.api.core.v1.EventSource");

/// An event in core's form, from either.
pub fn to_core(event: &Value) -> Value {
    if event.text("apiVersion") == "v1" {
        return event.clone();
    }
    renamed(event, "v1", |(core, events)| (events, core))
}

/// An event in the form of `events.k8s.io`, from either.
pub fn from_core(event: &Value) -> Value {
    if event.text("apiVersion") == "events.k8s.io/v1" {
        return event.clone();
    }
    renamed(event, "events.k8s.io/v1", |(core, events)| (core, events))
}

fn renamed(
    event: &Value,
    version: &str,
    names: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let mut event = event.clone();
    for (from, to) in RENAMED.map(names) {
        if let Some(value) = event.remove(from) {
            event.set(to, value);
        }
    }
    event.set("apiVersion", version);
    event
}

/// What both views check; `reporter` is what the view calls the reporting component.
fn validate_any(event: &Value, reporter: &str, errors: &mut Errors) {
    let namespace = event.field("metadata").text("namespace");
    let involved = event.field("involvedObject").text("namespace");
    let with_time = event.has("eventTime");
    let fits = match (with_time, involved) {
        // Objects without a namespace have their events in `default`.
        (false, "") => namespace == "default",
        (false, involved) => involved == namespace,
        (true, "") => namespace == "default" || namespace == "kube-system",
        (true, _) => true,
    };
    if !fits {
        let path = Path::new("involvedObject");
        errors.invalid(path.child("namespace"), involved, "does not match event.namespace");
    }
    if with_time {
        let component = event.text("reportingComponent");
        if component.is_empty() {
            errors.required(Path::new(reporter), "");
        }
        must_be(qualified_name, component, Path::new(reporter), errors);
        for name in ["reportingInstance", "action", "reason"] {
            if event.text(name).is_empty() {
                errors.required(Path::new(name), "");
            }
            validate_length(event, name, MAX_NAME_BYTES, errors);
        }
        validate_length(event, "message", MAX_NOTE_BYTES, errors);
    }
    must_be(dns_subdomain, namespace, Path::new("namespace"), errors);
}

fn validate_length(event: &Value, name: &str, most: usize, errors: &mut Errors) {
    if event.text(name).len() > most {
        errors.invalid(Path::new(name), "", &format!("can have at most {most} characters"));
    }
}

fn validate_new(event: &Value, errors: &mut Errors) {
    validate_any(event, "reportingController", errors);
    validate_series(event, errors);
    if !event.has("eventTime") {
        errors.required(Path::new("eventTime"), "");
    }
    let event_type = event.text("type");
    if !matches!(event_type, "Normal" | "Warning") {
        errors.invalid(Path::new("type"), "", &format!("has invalid value: {event_type}"));
    }
    let source = event.field("source");
    let set = [
        ("firstTimestamp", event.has("firstTimestamp")),
        ("lastTimestamp", event.has("lastTimestamp")),
        ("count", event.int("count").unwrap_or_default() != 0),
        ("source", !source.text("component").is_empty() || !source.text("host").is_empty()),
    ];
    for (name, _) in set.into_iter().filter(|(_, set)| *set) {
        errors.invalid(Path::new(name), "", "needs to be unset");
    }
}

/// Only the series of an event goes on.
fn validate_change(event: &Value, old: &Value, errors: &mut Errors) {
    validate_any(event, "reportingController", errors);
    if !same(event.field("series"), old.field("series")) {
        validate_series(event, errors);
    }
    let mut unchanged = |name: &str, at: &str, shape: Shape| {
        let value = event.field(name);
        if !same_event_field(value, old.field(name)) {
            let value = match shape {
                Shape::Text => BadValue::from(value.as_str().unwrap_or_default()),
                shape => internal(shape, value),
            };
            errors.invalid(Path::new(at), value, "field is immutable");
        }
    };
    unchanged("involvedObject", "involvedObject", Shape::Struct(OBJECT_REFERENCE));
    unchanged("reason", "reason", Shape::Text);
    unchanged("message", "message", Shape::Text);
    unchanged("source", "source", Shape::Struct(SOURCE));
    unchanged("firstTimestamp", "firstTimestamp", Shape::Raw);
    unchanged("lastTimestamp", "lastTimestamp", Shape::Raw);
    unchanged("count", "count", Shape::Int);
    // Upstream checks it twice.
    unchanged("reason", "reason", Shape::Text);
    unchanged("type", "type", Shape::Text);
    unchanged("eventTime", "eventTime", Shape::Raw);
    unchanged("action", "action", Shape::Text);
    unchanged("related", "related", Shape::Ptr(OBJECT_REFERENCE));
    unchanged("reportingComponent", "reportingController", Shape::Text);
    unchanged("reportingInstance", "reportingInstance", Shape::Text);
}

/// What is not set is the same as what is empty.
fn same_event_field(new: &Value, old: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    same(new, old) || empty(new) && empty(old)
}

fn validate_series(event: &Value, errors: &mut Errors) {
    let Some(series) = event.get_field("series") else { return };
    let path = Path::new("series");
    if series.int("count").unwrap_or_default() < 2 {
        errors.invalid(path.child("count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        errors.required(path.child("lastObservedTime"), "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_two_views_turn_into_each_other() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"},
            "firstTimestamp": "t1", "lastTimestamp": "t2", "count": 3, "reportingComponent": "r",
            "reportingInstance": "i", "reason": "x", "type": "Normal", "eventTime": null, "series": {"count": 2},
        });
        let events = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod"}, "note": "m", "deprecatedSource": {"component": "c"},
            "deprecatedFirstTimestamp": "t1", "deprecatedLastTimestamp": "t2", "deprecatedCount": 3,
            "reportingController": "r", "reportingInstance": "i", "reason": "x", "type": "Normal",
            "eventTime": null, "series": {"count": 2},
        });
        assert_eq!(from_core(&core), events);
        assert_eq!(to_core(&events), core);
        assert_eq!(to_core(&core), core);
        assert_eq!(from_core(&events), events);
    }
}
