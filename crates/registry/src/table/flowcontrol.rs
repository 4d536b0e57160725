//! Flow schemas and priority levels.

use serde_json::Value;

use super::text::condition;
use super::{AGE, Cell, Column, NAME, NONE, column, computed, text};
use crate::object::Fields;

pub(super) const GROUP: &str = "flowcontrol.apiserver.k8s.io";

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "FlowSchema" => FLOW_SCHEMA,
        "PriorityLevelConfiguration" => PRIORITY_LEVEL_CONFIGURATION,
        _ => return None,
    })
}

/// Where a flow schema stands among the others.
pub(super) fn order(schema: &Value) -> (i64, String) {
    let precedence = schema.field("spec").int("matchingPrecedence").unwrap_or(0);
    (precedence, schema.field("metadata").text("name").to_owned())
}

static FLOW_SCHEMA: &[Column] = &[
    NAME,
    text("PriorityLevel", "/spec/priorityLevelConfiguration/name", "The level that matching requests get."),
    column("MatchingPrecedence", Cell::Integer("/spec/matchingPrecedence"), "Lower numbers are tried first."),
    column(
        "DistinguisherMethod",
        Cell::TextOr("/spec/distinguisherMethod/type", NONE),
        "How requests are told apart into flows.",
    ),
    AGE,
    computed(
        "MissingPL",
        |schema| condition(schema, "Dangling").map_or("?", |dangling| dangling.text("status")).into(),
        "Whether the priority level does not exist.",
    ),
];

static PRIORITY_LEVEL_CONFIGURATION: &[Column] = &[
    NAME,
    text("Type", "/spec/type", "Whether requests of the level are limited."),
    computed(
        "NominalConcurrencyShares",
        |level| number(level.field("spec").field("limited").field("nominalConcurrencyShares")),
        "The level's part of the requests that the server works on at a time.",
    ),
    computed("Queues", |level| queuing(level, "queues"), "Number of queues."),
    computed("HandSize", |level| queuing(level, "handSize"), "Queues that one flow may use."),
    computed("QueueLengthLimit", |level| queuing(level, "queueLengthLimit"), "Requests that fit in a queue."),
    AGE,
];

fn queuing(level: &Value, field: &str) -> Value {
    number(level.field("spec").field("limited").field("limitResponse").field("queuing").field(field))
}

fn number(value: &Value) -> Value {
    if value.is_null() { NONE.into() } else { value.clone() }
}
