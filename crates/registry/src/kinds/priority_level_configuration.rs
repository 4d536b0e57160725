//! PriorityLevelConfiguration: how many requests of a level run and wait.

use serde_json::{Value, json};
use sternpost_meta::field::{Errors, Path};

use super::flow_schema::validate_conditions;
use crate::{
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec_and_metadata, keep_status, reset_status},
    strategy::{Generation, MetadataCheck, Strategy, Subresource},
    validation::form::{named, one_of, same},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_metadata,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status_update: |new, _, errors| validate(new, errors),
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written],
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    ..Strategy::of("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
};

pub const MAX_QUEUES: i64 = 10_000_000;
/// The most bits of hash that dealing a hand may need.
pub const MAX_HASH_BITS: f64 = 60.0;

const ZERO_SHARES_ANNOTATION: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

fn default(level: &mut Value) {
    let spec = level.object_mut("spec");
    for (name, shares) in [("exempt", 0), ("limited", 30)] {
        if spec.has(name) {
            let limits = spec.object_mut(name);
            for (name, value) in [("nominalConcurrencyShares", shares), ("lendablePercent", 0)] {
                if !limits.has(name) {
                    limits.set(name, value);
                }
            }
        }
    }
    if spec.field("limited").field("limitResponse").has("queuing") {
        let queuing = spec.object_mut("limited").object_mut("limitResponse").object_mut("queuing");
        for (name, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            if queuing.int(name).unwrap_or_default() == 0 {
                queuing.set(name, value);
            }
        }
    }
}

fn validate(level: &Value, errors: &mut Errors) {
    if level.field("metadata").field("annotations").has(ZERO_SHARES_ANNOTATION) {
        let detail = format!("annotation '{ZERO_SHARES_ANNOTATION}' is forbidden");
        errors.forbidden("metadata.annotations", &detail);
    }
    let name = level.field("metadata").text("name");
    let spec = level.field("spec");
    let path = Path::new("spec");
    let kind = spec.text("type");
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(path.child("type"), named(kind), detail);
    }
    match kind {
        "Exempt" => {
            if spec.has("limited") {
                errors.forbidden(path.child("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = spec.get_field("exempt") {
                validate_shares(exempt, &path.child("exempt"), errors);
            }
        }
        "Limited" => {
            if spec.has("exempt") {
                errors.forbidden(path.child("exempt"), "must be nil if the type is Limited");
            }
            match spec.get_field("limited") {
                None => errors.required(path.child("limited"), "must not be empty when type is Limited"),
                Some(limited) => validate_limited(limited, &path.child("limited"), errors),
            }
        }
        "" => errors.required(path.child("type"), ""),
        other => one_of(&["Exempt", "Limited"], other, path.child("type"), errors),
    }
    validate_mandatory(name, spec, &path, errors);
    validate_conditions(level, errors);
}

fn validate_shares(limits: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_nominal_shares(limits, path, errors);
    validate_lendable(limits, path, errors);
}

fn validate_nominal_shares(limits: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = limits.int("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        errors.invalid(path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn validate_lendable(limits: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(percent) = limits.int("lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn validate_limited(limited: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_nominal_shares(limited, path, errors);
    validate_response(limited.field("limitResponse"), &path.child("limitResponse"), errors);
    validate_lendable(limited, path, errors);
    if let Some(percent) = limited.int("borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.invalid(path.child("borrowingLimitPercent"), percent, detail);
    }
}

fn validate_response(response: &Value, path: &Path<'_>, errors: &mut Errors) {
    let queuing = path.child("queuing");
    match response.text("type") {
        "Reject" => {
            if response.has("queuing") {
                errors.forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited");
            }
        }
        "Queue" => match response.get_field("queuing") {
            None => {
                let detail = "must not be empty if limited.limitResponse.type is Limited";
                errors.required(queuing, detail);
            }
            Some(value) => validate_queuing(value, &queuing, errors),
        },
        "" => errors.required(path.child("type"), ""),
        other => one_of(&["Queue", "Reject"], other, path.child("type"), errors),
    }
}

fn validate_queuing(queuing: &Value, path: &Path<'_>, errors: &mut Errors) {
    let number = |name: &str| queuing.int(name).unwrap_or_default();
    let (limit, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if limit <= 0 {
        errors.invalid(path.child("queueLengthLimit"), limit, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(path.child("queues"), queues, "must be positive");
    } else if queues > MAX_QUEUES {
        errors.invalid(path.child("queues"), queues, "must not be greater than 10000000");
    }
    let hand_path = path.child("handSize");
    if hand <= 0 {
        errors.invalid(hand_path, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(hand_path, hand, &format!("should not be greater than queues ({queues})"));
    } else if hash_bits(queues, hand) > MAX_HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than 60"
        );
        errors.invalid(hand_path, hand, &detail);
    }
}

/// Bits of hash needed to deal a hand from the queues.
#[allow(clippy::cast_precision_loss)]
fn hash_bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}

/// Two levels always exist; only the shares of the exempt one may change.
fn validate_mandatory(name: &str, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let value = || internal(Shape::Struct(SPEC), spec);
    match name {
        "exempt" => {
            let mut compared = spec.clone();
            compared.remove("exempt");
            if !same(&compared, &json!({"type": "Exempt"})) {
                let detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
                errors.invalid(path, value(), detail);
            }
        }
        "catch-all" if !same(spec, &catch_all()) => {
            errors.invalid(path, value(), "spec of 'catch-all' must equal the fixed value");
        }
        _ => {}
    }
}

fn catch_all() -> Value {
    json!({
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "lendablePercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    })
}

/// `flowcontrol.PriorityLevelConfigurationSpec`
const SPEC: Form = Form::Message("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec");

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, NONE, computed, text},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Type", "/spec/type", "Whether requests of the level are limited."),
        computed(
            "NominalConcurrencyShares",
            |level| number(level.field("spec").field("limited").field("nominalConcurrencyShares")),
            "The level's part of the requests that the server works on at a time.",
        ),
        computed("Queues", |level| queuing(level, "queues"), "Number of queues."),
        computed("HandSize", |level| queuing(level, "handSize"), "Queues that one flow may use."),
        computed(
            "QueueLengthLimit",
            |level| queuing(level, "queueLengthLimit"),
            "Requests that fit in a queue.",
        ),
        AGE,
    ];

    fn queuing(level: &Value, field: &str) -> Value {
        number(level.field("spec").field("limited").field("limitResponse").field("queuing").field(field))
    }

    fn number(value: &Value) -> Value {
        if value.is_null() { NONE.into() } else { value.clone() }
    }
}
