//! What `kubectl get` shows.

use serde_json::Value;
use sternpost_golang::time::Timestamp;

use crate::{
    object::Fields,
    table::{Cell, Column, NAME, age, column, computed, text, text::or},
};

pub(super) const COLUMNS: &[Column] = &[
    column("Last Seen", Cell::Timed(last_seen), "Time since it happened last."),
    text("Type", "/type", "Normal or Warning."),
    text("Reason", "/reason", "Why it happened, in a word."),
    computed("Object", about, "What it happened to."),
    computed(
        "Subobject",
        |event| regarding(event).text("fieldPath").into(),
        "The part of the object that it happened to.",
    )
    .wide(),
    computed("Source", source, "Who reports it.").wide(),
    computed("Message", |event| either(event, "message", "note").trim().into(), "What happened."),
    column(
        "First Seen",
        Cell::Timed(|event, now| first_seen(event, now).into()),
        "Time since it happened first.",
    )
    .wide(),
    computed("Count", count, "How often it happened.").wide(),
    NAME.wide(),
];

/// The text of whichever of the two fields is there.
fn either<'a>(event: &'a Value, core: &str, events: &str) -> &'a str {
    if event.has(core) { event.text(core) } else { event.text(events) }
}

fn field<'a>(event: &'a Value, core: &str, events: &str) -> &'a Value {
    event.get_field(core).unwrap_or_else(|| event.field(events))
}

fn regarding(event: &Value) -> &Value {
    field(event, "involvedObject", "regarding")
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = field(event, "firstTimestamp", "deprecatedFirstTimestamp");
    age(if first.is_null() { event.field("eventTime") } else { first }, now)
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    if let Some(series) = event.get_field("series") {
        return age(series.field("lastObservedTime"), now).into();
    }
    match field(event, "lastTimestamp", "deprecatedLastTimestamp") {
        Value::Null => first_seen(event, now).into(),
        last => age(last, now).into(),
    }
}

fn about(event: &Value) -> Value {
    let regarding = regarding(event);
    let kind = regarding.text("kind").to_lowercase();
    match regarding.text("name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Value) -> Value {
    let source = field(event, "source", "deprecatedSource");
    let component =
        or(source.text("component").into(), either(event, "reportingComponent", "reportingController"));
    match or(source.text("host").into(), event.text("reportingInstance")).as_str() {
        "" => component.into(),
        host => format!("{component}, {host}").into(),
    }
}

fn count(event: &Value) -> Value {
    let count = match event.get_field("series") {
        Some(series) => series.int("count"),
        None => event.int("count").or_else(|| event.int("deprecatedCount")),
    };
    // Who does not count has seen it once.
    count.filter(|&count| count != 0).unwrap_or(1).into()
}
