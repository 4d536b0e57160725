//! Schema validation with upstream's causes.
//!
//! One walk, keywords in upstream's order: type; anyOf, oneOf, allOf, not;
//! strings; formats; numbers; lists; enum; objects. Properties are visited in
//! alphabetical order, where upstream has none.

use std::{collections::HashSet, fmt};

use serde_json::Value;
use sternpost_meta::{
    cancel::checkpoint,
    field::{BadValue, Errors, MAX_CAUSES, MAX_CAUSES_BYTES},
    status::CauseReason,
};

use super::correlate::{Keyed, is_unchanged};
use crate::{
    format,
    node::{Additional, Limit, Node},
    number,
};

/// Errors reported for one object; a list of a million wrong items is wrong enough.
pub const MAX_ERRORS: usize = MAX_CAUSES;

/// Checks a value; `at` prefixes the fields of causes and is empty for an object as a whole.
///
/// With an old value, what did not change is not reported (ratcheting).
pub fn check(node: &Node, value: &Value, old: Option<&Value>, at: &str) -> Errors {
    let mut findings = Findings::default();
    walk(node, value, old.map(Old::Root), Name::ROOT, &mut findings);
    findings.into_errors(at)
}

/// As [`check`], of a part of an object: one that stayed the same is let be.
pub fn check_part(node: &Node, value: &Value, old: Option<&Value>, at: &str) -> Errors {
    let mut findings = Findings::default();
    walk(node, value, old.map(Old::Value), Name::ROOT, &mut findings);
    findings.into_errors(at)
}

/// A place below the start, written out only where something is wrong.
#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    parent: Option<&'a Name<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Property(&'a str),
    /// A key that is no property; upstream puts a dot before it even at the start.
    Key(&'a str),
    Index(usize),
}

impl Name<'_> {
    const ROOT: Name<'static> = Name { parent: None, step: Step::Root };
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        let at_start = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
        match self.step {
            Step::Root => Ok(()),
            Step::Property(key) if at_start => f.write_str(key),
            Step::Property(key) | Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[derive(Debug, Clone)]
struct Finding {
    reason: CauseReason,
    /// The place below the start; `None` where upstream knows none.
    name: Option<String>,
    text: &'static str,
    value: Option<BadValue>,
    detail: String,
}

#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
    /// What tells them apart.
    known: HashSet<(CauseReason, Option<String>, String)>,
    /// Of their texts.
    bytes: usize,
    /// How many keyword groups applied, which decides which alternative came closest.
    applied: usize,
}

impl Findings {
    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Alternatives and the schema itself often find the same; it is told once.
    fn push(&mut self, finding: Finding) {
        if self.is_full() {
            return;
        }
        let key = (finding.reason, finding.name.clone(), finding.detail.clone());
        if self.known.insert(key) {
            self.bytes += finding.detail.len() + finding.name.as_deref().map_or(0, str::len);
            self.all.push(finding);
        }
    }

    /// Whether more would not be told.
    fn is_full(&self) -> bool {
        self.all.len() >= MAX_ERRORS || self.bytes >= MAX_CAUSES_BYTES
    }

    fn merge(&mut self, other: Findings) {
        self.applied += other.applied;
        for finding in other.all {
            self.push(finding);
        }
    }

    fn invalid(&mut self, name: Name<'_>, value: BadValue, detail: String) {
        self.push(Finding {
            reason: CauseReason::FieldValueInvalid,
            name: Some(name.to_string()),
            text: "Invalid value",
            value: Some(value),
            detail,
        });
    }

    fn nowhere(&mut self, detail: String) {
        self.push(Finding {
            reason: CauseReason::FieldValueInvalid,
            name: None,
            text: "Invalid value",
            value: Some("".into()),
            detail,
        });
    }

    fn type_invalid(&mut self, name: Name<'_>, value: BadValue, expected: &str) {
        let detail = format!("{name} in body must be of type {expected}: {value}");
        self.push(Finding {
            reason: CauseReason::FieldValueTypeInvalid,
            name: Some(name.to_string()),
            text: "Invalid value",
            value: Some(value),
            detail,
        });
    }

    fn too_many(&mut self, name: Name<'_>, actual: usize, most: i64) {
        let unit = if most == 1 { "item" } else { "items" };
        self.push(Finding {
            reason: CauseReason::FieldValueTooMany,
            name: Some(name.to_string()),
            text: "Too many",
            value: Some(actual.into()),
            detail: format!("must have at most {most} {unit}"),
        });
    }

    fn into_errors(self, at: &str) -> Errors {
        let mut errors = Errors::default();
        for finding in self.all {
            let name = finding.name.as_deref().map(|name| name.trim_start_matches('.')).unwrap_or_default();
            let field = match (at.is_empty(), name.is_empty()) {
                (true, true) => "<nil>".to_owned(),
                (true, false) => name.to_owned(),
                (false, true) => at.to_owned(),
                (false, false) => format!("{at}.{name}"),
            };
            errors.push(finding.reason, field, finding.text, finding.value, &finding.detail);
        }
        errors
    }
}

/// The value that stood here before.
#[derive(Debug, Clone, Copy)]
enum Old<'a> {
    /// The object as a whole: its metadata changes all the time, so it always counts as changed.
    Root(&'a Value),
    Value(&'a Value),
}

impl<'a> Old<'a> {
    fn value(self) -> &'a Value {
        match self {
            Self::Root(value) | Self::Value(value) => value,
        }
    }
}

fn walk(node: &Node, value: &Value, old: Option<Old<'_>>, name: Name<'_>, out: &mut Findings) {
    checkpoint();
    if let Some(Old::Value(old)) = old
        && is_unchanged(node, value, old)
    {
        return;
    }
    if out.is_full() {
        return;
    }
    if !node.types.is_empty() || node.format().is_some() {
        out.applied += 1;
        check_type(node, value, name, out);
    }
    if value.is_null() {
        // Nothing but its type and what it may equal is asked of a null.
        out.applied += 1;
        check_enum(node, value, name, out);
        return;
    }
    out.applied += 2;
    check_logic(node, value, name, out);
    match value {
        Value::String(text) => {
            out.applied += 1;
            check_string(node, text, name, out);
            if let Some(format) = node.format()
                && format::is_checked(format)
            {
                out.applied += 1;
                if !format::fits(format, text) {
                    out.type_invalid(name, value.into(), format);
                }
            }
        }
        Value::Number(_) => {
            out.applied += 1;
            check_number(node, value, name, out);
        }
        Value::Array(items) => {
            out.applied += 1;
            check_list(node, items, old, name, out);
        }
        _ => {}
    }
    check_enum(node, value, name, out);
    if let Value::Object(_) = value {
        out.applied += 1;
        check_object(node, value, old, name, out);
    }
}

fn check_type(node: &Node, value: &Value, name: Name<'_>, out: &mut Findings) {
    let wanted = |kind: &str| node.types.contains(&kind);
    let (kind, format) = match value {
        Value::Null => {
            if !node.nullable && !node.types.is_empty() {
                out.type_invalid(name, "null".into(), &node.types.join(","));
            }
            return;
        }
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let whole = value.as_f64().is_some_and(|float| number::integral(float).is_some());
    let float_as_integer = kind == "number" && whole && wanted("integer");
    let integer_as_float = kind == "integer" && wanted("number");
    let fits = node.types.is_empty() || wanted(kind) || float_as_integer || integer_as_float;
    if let Some(wanted_format) = node.format() {
        let sequence = matches!(kind, "string" | "array");
        let narrower =
            matches!((format, wanted_format), ("int64", "int32") | ("float64", "float" | "double"));
        if !sequence && !fits && format != wanted_format && !narrower {
            out.type_invalid(name, format.into(), wanted_format);
            return;
        }
        if sequence && !wanted("number") && !wanted("integer") {
            return;
        }
    }
    if !fits {
        out.type_invalid(name, kind.into(), &node.types.join(","));
    }
}

fn check_logic(node: &Node, value: &Value, name: Name<'_>, out: &mut Findings) {
    if !node.any_of().is_empty() {
        let (valid, closest) = alternatives(node.any_of(), value, name);
        if valid == 0 {
            out.nowhere(format!("\"{name}\" must validate at least one schema (anyOf)"));
            out.merge(closest);
        }
    }
    if !node.one_of().is_empty() {
        let (valid, closest) = alternatives(node.one_of(), value, name);
        if valid != 1 {
            let found = if valid == 0 { "none valid".into() } else { format!("{valid} valid alternatives") };
            out.nowhere(format!("\"{name}\" must validate one and only one schema (oneOf). Found {found}"));
        }
        if valid == 0 {
            out.merge(closest);
        }
    }
    if !node.all_of().is_empty() {
        let mut valid = 0;
        for member in node.all_of() {
            let findings = alone(member, value, name);
            valid += usize::from(findings.is_empty());
            out.merge(findings);
        }
        if valid < node.all_of().len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.nowhere(format!("\"{name}\" must validate all the schemas (allOf){none}"));
        }
    }
    if let Some(not) = node.not()
        && alone(not, value, name).is_empty()
    {
        out.nowhere(format!("\"{name}\" must not validate the schema (not)"));
    }
}

/// How many alternatives hold, and what the closest one that does not has to say.
fn alternatives(members: &[Node], value: &Value, name: Name<'_>) -> (usize, Findings) {
    let mut valid = 0;
    let mut closest: Option<Findings> = None;
    for member in members {
        let findings = alone(member, value, name);
        if findings.is_empty() {
            valid += 1;
        } else if closest.as_ref().is_none_or(|best| findings.applied > best.applied) {
            closest = Some(findings);
        }
    }
    (valid, closest.unwrap_or_default())
}

/// Alternatives are not ratcheted: what they say is about the whole.
fn alone(node: &Node, value: &Value, name: Name<'_>) -> Findings {
    let mut findings = Findings::default();
    walk(node, value, None, name, &mut findings);
    findings
}

/// The first of the three that fails is the only one reported.
fn check_string(node: &Node, text: &str, name: Name<'_>, out: &mut Findings) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = node.max_length()
        && length > most
    {
        let unit = if most == 1 { "byte" } else { "bytes" };
        out.push(Finding {
            reason: CauseReason::FieldValueTooLong,
            name: Some(name.to_string()),
            text: "Too long",
            value: None,
            detail: format!("may not be more than {most} {unit}"),
        });
    } else if let Some(least) = node.min_length()
        && length < least
    {
        out.invalid(name, text.into(), format!("{name} in body should be at least {least} chars long"));
    } else if let Some(pattern) = node.pattern()
        && !pattern.is_match(text)
    {
        out.invalid(name, text.into(), format!("{name} in body should match '{}'", pattern.text));
    }
}

fn check_number(node: &Node, value: &Value, name: Name<'_>, out: &mut Findings) {
    check_range(node, value, name, out);
    match (value.as_i64(), value.as_f64()) {
        (Some(number), _) => check_integer(node, number, name, out),
        (None, Some(number)) => check_float(node, number, name, out),
        (None, None) => {}
    }
}

/// Whether the number is one of the declared type and format at all.
fn check_range(node: &Node, value: &Value, name: Name<'_>, out: &mut Findings) {
    let [kind @ ("integer" | "number")] = node.types else { return };
    let float = value.as_f64().unwrap_or_default();
    let integer = value.as_i64().or_else(|| number::integral(float));
    let format = node.format().unwrap_or_default();
    let fits = match (*kind, format) {
        ("integer", "int32") => integer.is_some_and(|number| i32::try_from(number).is_ok()),
        ("integer", "uint32") => integer.is_some_and(|number| u32::try_from(number).is_ok()),
        ("integer", "uint64") => integer.is_some_and(|number| number >= 0),
        ("integer", _) => integer.is_some(),
        ("number", "float") => float.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if !fits {
        let form =
            if format.is_empty() { " (default format)".into() } else { format!(" with format {format}") };
        out.nowhere(format!("Checked value must be of type {kind}{form} in {name}"));
    }
}

/// Integers are compared with limits cut to integers, as upstream does.
fn check_integer(node: &Node, number: i64, name: Name<'_>, out: &mut Findings) {
    if let Some(factor) = node.multiple_of() {
        let factor = factor as i64;
        if factor <= 0 {
            let detail = format!("factor MultipleOf declared for {name} must be positive: {factor}");
            out.invalid(name, factor.into(), detail);
        } else if number % factor != 0 {
            out.invalid(name, number.into(), format!("{name} in body should be a multiple of {factor}"));
        }
    }
    if let Some(Limit { value, exclusive }) = node.maximum() {
        let most = value as i64;
        if number > most || (exclusive && number == most) {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            out.invalid(name, number.into(), format!("{name} in body should be {than} {most}"));
        }
    }
    if let Some(Limit { value, exclusive }) = node.minimum() {
        let least = value as i64;
        if number < least || (exclusive && number == least) {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            out.invalid(name, number.into(), format!("{name} in body should be {than} {least}"));
        }
    }
}

fn check_float(node: &Node, number: f64, name: Name<'_>, out: &mut Findings) {
    let shown = || BadValue::Plain(number::go_float(number));
    if let Some(factor) = node.multiple_of() {
        if factor <= 0.0 {
            let factor = number::go_float(factor);
            let detail = format!("factor MultipleOf declared for {name} must be positive: {factor}");
            out.invalid(name, BadValue::Plain(factor), detail);
        } else if !is_nearly_whole(number / factor) {
            let factor = number::go_float(factor);
            out.invalid(name, shown(), format!("{name} in body should be a multiple of {factor}"));
        }
    }
    if let Some(Limit { value, exclusive }) = node.maximum()
        && (number > value || (exclusive && number >= value))
    {
        let than = if exclusive { "less than" } else { "less than or equal to" };
        out.invalid(name, shown(), format!("{name} in body should be {than} {}", number::go_float(value)));
    }
    if let Some(Limit { value, exclusive }) = node.minimum()
        && (number < value || (exclusive && number <= value))
    {
        let than = if exclusive { "greater than" } else { "greater than or equal to" };
        out.invalid(name, shown(), format!("{name} in body should be {than} {}", number::go_float(value)));
    }
}

/// Whole but for the last digits that a division loses.
fn is_nearly_whole(number: f64) -> bool {
    let off = (number - number.trunc()).abs();
    off < 1e-9 || (1.0 - off) < 1e-9 || off < number.abs() * 1e-9
}

fn check_list(node: &Node, items: &[Value], old: Option<Old<'_>>, name: Name<'_>, out: &mut Findings) {
    if let Some(item_node) = &node.items {
        let old_items = old.and_then(|old| Keyed::new(node.list(), old.value()));
        for (index, item) in items.iter().enumerate() {
            let place = Name { parent: Some(&name), step: Step::Index(index) };
            let old = old_items.as_ref().and_then(|items| items.find(item)).map(Old::Value);
            walk(item_node, item, old, place, out);
        }
    }
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = node.min_items()
        && length < least
    {
        out.invalid(name, items.len().into(), format!("{name} in body should have at least {least} items"));
    }
    if let Some(most) = node.max_items()
        && length > most
    {
        out.too_many(name, items.len(), most);
    }
}

/// The values of an item's keys as one text, the same for equal ones.
pub fn key_of(item: &Value, keys: &[Box<str>]) -> String {
    let values: Value = keys.iter().map(|key| item.get(&**key).cloned().unwrap_or_default()).collect();
    number::shown(values).to_string()
}

fn check_enum(node: &Node, value: &Value, name: Name<'_>, out: &mut Findings) {
    let Some(allowed) = node.enumeration() else { return };
    // Null equals nothing to upstream, not even a null among the values.
    if !value.is_null() && allowed.allows(value) {
        return;
    }
    out.push(Finding {
        reason: CauseReason::FieldValueNotSupported,
        name: Some(name.to_string()),
        text: "Unsupported value",
        value: Some(shown_scalar(value)),
        detail: allowed.text().to_owned(),
    });
}

pub fn shown_scalar(value: &Value) -> BadValue {
    match value {
        Value::Number(number) if number.is_f64() => {
            BadValue::Plain(number::go_float(number.as_f64().unwrap_or_default()))
        }
        other => other.into(),
    }
}

fn check_object(node: &Node, value: &Value, old: Option<Old<'_>>, name: Name<'_>, out: &mut Findings) {
    let Value::Object(fields) = value else { return };
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(least) = node.min_properties()
        && count < least
    {
        out.invalid(
            name,
            fields.len().into(),
            format!("{name} in body should have at least {least} properties"),
        );
    }
    if let Some(most) = node.max_properties()
        && count > most
    {
        out.too_many(name, fields.len(), most);
    }
    // To upstream the type at the start is that of the request and not of what stood there.
    let is_own_type = |key: &str| matches!(name.step, Step::Root) && matches!(key, "apiVersion" | "kind");
    let old_field =
        |key: &str| old.filter(|_| !is_own_type(key)).and_then(|old| old.value().get(key)).map(Old::Value);
    for (key, field) in fields {
        if let Some(property) = node.properties.get(key.as_str()) {
            let place = Name { parent: Some(&name), step: Step::Property(key) };
            walk(property, field, old_field(key), place, out);
            continue;
        }
        match &node.additional {
            Some(Additional::Schema(schema)) => {
                let place = Name { parent: Some(&name), step: Step::Key(key) };
                walk(schema, field, old_field(key), place, out);
            }
            Some(Additional::Allowed(false)) => {
                out.invalid(
                    name,
                    key.as_str().into(),
                    format!("{name}.{key} in body is a forbidden property"),
                );
            }
            _ => {}
        }
    }
    for key in node.required() {
        if !fields.contains_key(&**key) {
            let place = Name { parent: Some(&name), step: Step::Property(key) };
            out.push(Finding {
                reason: CauseReason::FieldValueRequired,
                name: Some(place.to_string()),
                text: "Required value",
                value: None,
                detail: String::new(),
            });
        }
    }
}
