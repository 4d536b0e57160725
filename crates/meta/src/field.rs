//! Where a value stands in an object, and what is wrong with it.
//!
//! Kinds check objects and collect [`Errors`]; each becomes a cause of a 422
//! with the text upstream gives: `spec.replicas: Invalid value: -1: must be …`.

use std::fmt::{self, Write as _};

use serde_json::Value;
use sternpost_golang::{
    json::go_json,
    strconv::{go_quote, is_go_printable},
};

use crate::{
    cancel::checkpoint,
    status::{Cause, CauseReason},
};

/// A place in an object, built on the way down without allocating:
/// `Path::new("spec").child("containers").index(0)`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Child(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub fn new(name: &'a str) -> Self {
        Self { parent: None, step: Step::Child(name) }
    }

    pub fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Child(name) }
    }

    pub fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// A key of a map, printed in brackets.
    pub fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Child(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Child(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// The name of who owns fields.
pub const MAX_FIELD_MANAGER_BYTES: usize = 128;

/// How long such a name may be for its characters to be told too: each of them quotes all of it.
pub const MAX_QUOTED_FIELD_MANAGER_BYTES: usize = 512;

/// A bad value as messages print it.
#[derive(Debug, Clone)]
pub enum BadValue {
    /// A Go string: quoted as `%q` does.
    Text(String),
    /// Printed as it stands: numbers, booleans, and what a kind formats itself.
    Plain(String),
    /// Anything else: compact JSON, with `<`, `>` and `&` escaped as Go does.
    Json(Value),
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        Self::Plain(number.to_string())
    }
}

impl From<usize> for BadValue {
    fn from(number: usize) -> Self {
        Self::Plain(number.to_string())
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self::Plain(value.to_string())
    }
}

/// For what is told more than once, and need not be copied where it no longer is.
impl From<&BadValue> for BadValue {
    fn from(value: &BadValue) -> Self {
        value.clone()
    }
}

/// Strings, numbers and booleans print as Go's do; everything else as JSON.
impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            Value::Number(number) => Self::Plain(number.to_string()),
            Value::Bool(value) => Self::Plain(value.to_string()),
            other => Self::Json(other.clone()),
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&go_quote(text)),
            Self::Plain(text) => f.write_str(text),
            Self::Json(value) => f.write_str(&go_json(value)),
        }
    }
}

/// How many errors of one object are told; upstream tells all of them. Half a million fit into a
/// body, and an answer that is a hundred times as long helps nobody.
pub const MAX_CAUSES: usize = 10_000;

/// How many bytes their texts may have together: some print a list, once for each item that is
/// wrong in it.
pub const MAX_CAUSES_BYTES: usize = 16 * 1024 * 1024;

/// All that is wrong with an object, in the order found; no more of it than can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    causes: Vec<Cause>,
    bytes: usize,
    /// How many more there were.
    untold: usize,
}

/// As Go prints errors within another text: one as it is, several in brackets.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.causes.len() > 1;
        f.write_str(if several { "[" } else { "" })?;
        for (index, cause) in self.causes.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}: {}", cause.field, cause.message)?;
        }
        f.write_str(if several { "]" } else { "" })
    }
}

impl Errors {
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// How many were found.
    pub fn len(&self) -> usize {
        self.causes.len() + self.untold
    }

    /// Whether more would only be counted.
    pub fn is_full(&self) -> bool {
        self.causes.len() >= MAX_CAUSES || self.bytes >= MAX_CAUSES_BYTES
    }

    pub fn into_causes(self) -> Vec<Cause> {
        self.causes
    }

    /// Those that are told.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    pub fn extend(&mut self, other: Errors) {
        self.untold += other.untold;
        other.causes.into_iter().for_each(|cause| self.add(cause));
    }

    /// What is not told is not written out either: values may be large.
    fn count(&mut self) {
        checkpoint();
        self.untold += 1;
    }

    fn add(&mut self, cause: Cause) {
        if self.is_full() {
            return self.count();
        }
        self.bytes += cause.message.len() + cause.field.len();
        self.causes.push(cause);
    }

    pub fn required(&mut self, path: impl fmt::Display, detail: &str) {
        self.push(CauseReason::FieldValueRequired, path, "Required value", None, detail);
    }

    pub fn invalid(&mut self, path: impl fmt::Display, value: impl Into<BadValue>, detail: &str) {
        if self.is_full() {
            return self.count();
        }
        self.push(CauseReason::FieldValueInvalid, path, "Invalid value", Some(value.into()), detail);
    }

    /// `supported` in the order to print; upstream sorts most such sets.
    pub fn not_supported(&mut self, path: impl fmt::Display, value: impl Into<BadValue>, supported: &[&str]) {
        if self.is_full() {
            return self.count();
        }
        let mut detail = String::new();
        if !supported.is_empty() {
            let quoted: Vec<String> = supported.iter().map(|value| go_quote(value)).collect();
            detail = format!("supported values: {}", quoted.join(", "));
        }
        self.push(
            CauseReason::FieldValueNotSupported,
            path,
            "Unsupported value",
            Some(value.into()),
            &detail,
        );
    }

    pub fn forbidden(&mut self, path: impl fmt::Display, detail: &str) {
        self.push(CauseReason::FieldValueForbidden, path, "Forbidden", None, detail);
    }

    /// What is not the fault of who wrote it.
    pub fn internal(&mut self, path: impl fmt::Display, detail: &str) {
        self.push(CauseReason::InternalError, path, "Internal error", None, detail);
    }

    pub fn duplicate(&mut self, path: impl fmt::Display, value: impl Into<BadValue>) {
        if self.is_full() {
            return self.count();
        }
        self.push(CauseReason::FieldValueDuplicate, path, "Duplicate value", Some(value.into()), "");
    }

    pub fn not_found(&mut self, path: impl fmt::Display, value: impl Into<BadValue>) {
        if self.is_full() {
            return self.count();
        }
        self.push(CauseReason::FieldValueNotFound, path, "Not found", Some(value.into()), "");
    }

    pub fn too_long(&mut self, path: impl fmt::Display, bytes: usize) {
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes} {unit}");
        self.push(CauseReason::FieldValueTooLong, path, "Too long", None, &detail);
    }

    pub fn too_many(&mut self, path: impl fmt::Display, actual: usize, most: usize) {
        let unit = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {unit}");
        self.push(CauseReason::FieldValueTooMany, path, "Too many", Some(actual.into()), &detail);
    }

    pub fn too_few(&mut self, path: impl fmt::Display, actual: usize, least: usize) {
        let unit = if least == 1 { "item" } else { "items" };
        let detail = format!("must have at least {least} {unit}");
        self.push(CauseReason::FieldValueTooFew, path, "Too few", Some(actual.into()), &detail);
    }

    pub fn type_invalid(&mut self, path: impl fmt::Display, value: impl Into<BadValue>, detail: &str) {
        if self.is_full() {
            return self.count();
        }
        self.push(CauseReason::FieldValueTypeInvalid, path, "Invalid value", Some(value.into()), detail);
    }

    /// Checks the name of who owns fields.
    pub fn field_manager(&mut self, path: impl fmt::Display, manager: &str) {
        if manager.len() > MAX_FIELD_MANAGER_BYTES {
            self.too_long(&path, MAX_FIELD_MANAGER_BYTES);
        }
        if manager.len() > MAX_QUOTED_FIELD_MANAGER_BYTES {
            return;
        }
        let is_bad = |char: char| !is_go_printable(char);
        for (index, char) in manager.char_indices().filter(|(_, char)| is_bad(*char)) {
            let detail = format!("invalid character U+{:04X} (at position {index})", u32::from(char));
            self.invalid(&path, manager, &detail);
        }
    }

    /// For what has no constructor of its own.
    pub fn push(
        &mut self,
        reason: CauseReason,
        path: impl fmt::Display,
        text: &str,
        value: Option<BadValue>,
        detail: &str,
    ) {
        if self.is_full() {
            return self.count();
        }
        checkpoint();
        let mut message = text.to_owned();
        if let Some(value) = value {
            let _ = write!(message, ": {value}");
        }
        if !detail.is_empty() {
            let _ = write!(message, ": {detail}");
        }
        self.add(Cause { reason: Some(reason), message, field: path.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_print_as_upstream_prints_them() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        assert_eq!(first.child("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::new("metadata").child("labels").key("a/b").to_string(), "metadata.labels[a/b]");
    }

    #[test]
    fn errors_read_as_upstreams_do() {
        let mut errors = Errors::default();
        let spec = Path::new("spec");
        let path = spec.child("x");
        errors.required(path, "");
        errors.invalid(path, "a\"b", "must be good");
        errors.invalid(path, -1i64, "too low");
        errors.invalid(path, &json!({"a": "<"}), "");
        errors.not_supported(path, "Z", &["A", "B"]);
        errors.forbidden(path, "no");
        errors.duplicate(path, "d");
        errors.too_long(path, 1);
        errors.too_many(path, 3, 2);
        let messages: Vec<&str> = errors.causes().iter().map(|cause| cause.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "Required value",
                r#"Invalid value: "a\"b": must be good"#,
                "Invalid value: -1: too low",
                r#"Invalid value: {"a":"\u003c"}"#,
                r#"Unsupported value: "Z": supported values: "A", "B""#,
                "Forbidden: no",
                r#"Duplicate value: "d""#,
                "Too long: may not be more than 1 byte",
                "Too many: 3: must have at most 2 items",
            ]
        );
        assert!(errors.causes().iter().all(|cause| cause.field == "spec.x"));
    }

    #[test]
    fn a_field_manager_of_any_length_is_told_of_in_few_words() {
        let causes = |length: usize| {
            let mut errors = Errors::default();
            errors.field_manager("m", &"\u{1}".repeat(length));
            errors.into_causes()
        };
        assert_eq!(
            causes(2)[1].message,
            r#"Invalid value: "\x01\x01": invalid character U+0001 (at position 1)"#
        );
        assert_eq!(causes(MAX_FIELD_MANAGER_BYTES).len(), MAX_FIELD_MANAGER_BYTES);
        let longest = causes(MAX_QUOTED_FIELD_MANAGER_BYTES);
        assert_eq!(longest.len(), MAX_QUOTED_FIELD_MANAGER_BYTES + 1);
        let too_long = "Too long: may not be more than 128 bytes";
        assert_eq!(longest[0].message, too_long);
        for length in [MAX_QUOTED_FIELD_MANAGER_BYTES + 1, 1 << 20] {
            let messages: Vec<String> = causes(length).into_iter().map(|cause| cause.message).collect();
            assert_eq!(messages, [too_long]);
        }
    }

    #[test]
    fn of_many_errors_ten_thousand_are_told_and_all_are_counted() {
        let mut errors = Errors::default();
        (0..=MAX_CAUSES).for_each(|_| errors.required("a", ""));
        assert_eq!((errors.causes().len(), errors.len()), (MAX_CAUSES, MAX_CAUSES + 1));
        let mut more = Errors::default();
        more.required("b", "");
        more.extend(errors);
        assert_eq!((more.causes().len(), more.len()), (MAX_CAUSES, MAX_CAUSES + 2));

        let long = "x".repeat(MAX_CAUSES_BYTES);
        let mut errors = Errors::default();
        errors.invalid("a", long.as_str(), "");
        assert!(errors.is_full());
        errors.invalid("a", "b", "");
        assert_eq!((errors.causes().len(), errors.len()), (1, 2));
    }
}
