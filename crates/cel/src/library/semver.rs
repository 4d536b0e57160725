//! Semantic versions.

use std::cmp::Ordering;

use sternpost_golang::strconv::{NumberError, go_quote};

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::cost,
    value::Value,
};

/// What compares versions stands with the quantities, which it compares, too.
pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "semver",
        "33 (string):semver (string,bool):semver",
        |call, _| read(call).map(|version| version.map(|version| Value::Semver(version.into()))),
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "isSemver",
        "33 (string):bool (string,bool):bool",
        |call, _| read(call).map(|version| Ok(Value::Bool(version.is_ok()))),
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "major",
        "33 semver.():int",
        |call, _| number_of(call, |version| version.major),
        estimate::one,
        cost::one,
    ),
    function(
        "minor",
        "33 semver.():int",
        |call, _| number_of(call, |version| version.minor),
        estimate::one,
        cost::one,
    ),
    function(
        "patch",
        "33 semver.():int",
        |call, _| number_of(call, |version| version.patch),
        estimate::one,
        cost::one,
    ),
];

fn read(call: &Call<'_, '_>) -> Option<Result<Semver, EvalError>> {
    match call.operands {
        [Value::String(text), Value::Bool(true)] => Some(Semver::parse_tolerant(text.as_str())),
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Some(Semver::parse(text.as_str()))
        }
        _ => None,
    }
}

fn number_of<'a>(call: &Call<'_, 'a>, part: fn(&Semver) -> u64) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Semver(version)] => Some(Ok(Value::Int(i64::try_from(part(version)).unwrap_or(i64::MAX)))),
        _ => None,
    }
}

#[derive(Debug)]
pub struct Semver {
    pub(crate) text: String,
    major: u64,
    minor: u64,
    patch: u64,
    prerelease: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Number(u64),
    Text(String),
}

impl Semver {
    fn parse(text: &str) -> Result<Self, EvalError> {
        if text.is_empty() {
            return Err(EvalError::new("Version string empty"));
        }
        let mut numbers = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return Err(EvalError::new("No Major.Minor.Patch elements found"));
        };
        let (major, minor) = (number("major", major)?, number("minor", minor)?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) =
            rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number("patch", patch)?;
        let mut parts = Vec::new();
        for part in prerelease.into_iter().flat_map(|parts| parts.split('.')) {
            parts.push(prerelease_part(part)?);
        }
        for part in build.into_iter().flat_map(|parts| parts.split('.')) {
            if part.is_empty() {
                return Err(EvalError::new("Build meta data is empty"));
            }
            if !is_identifier(part) {
                return Err(EvalError::new(format!(
                    "Invalid character(s) found in build meta data {}",
                    go_quote(part)
                )));
            }
        }
        Ok(Self { text: text.to_owned(), major, minor, patch, prerelease: parts })
    }

    /// With a leading `v`, missing numbers and leading zeros put right.
    fn parse_tolerant(text: &str) -> Result<Self, EvalError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                let starts_with_number = trimmed.starts_with(|c: char| c.is_ascii_digit());
                *part = if starts_with_number { trimmed.to_owned() } else { format!("0{trimmed}") };
            }
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(EvalError::new("short version cannot contain PreRelease/Build meta data"));
            }
            parts.resize(3, "0".into());
        }
        Self::parse(&parts.join("."))
    }

    /// By precedence: build metadata does not count.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch)).then_with(
            || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    for (one, other) in self.prerelease.iter().zip(&other.prerelease) {
                        let order = match (one, other) {
                            (Part::Number(one), Part::Number(other)) => one.cmp(other),
                            (Part::Number(_), Part::Text(_)) => Ordering::Less,
                            (Part::Text(_), Part::Number(_)) => Ordering::Greater,
                            (Part::Text(one), Part::Text(other)) => one.cmp(other),
                        };
                        if order.is_ne() {
                            return order;
                        }
                    }
                    self.prerelease.len().cmp(&other.prerelease.len())
                }
            },
        )
    }
}

fn number(what: &str, text: &str) -> Result<u64, EvalError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(EvalError::new(format!(
            "Invalid character(s) found in {what} number {}",
            go_quote(text)
        )));
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut what = what.to_owned();
        if let Some(first) = what.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        return Err(EvalError::new(format!(
            "{what} number must not contain leading zeroes {}",
            go_quote(text)
        )));
    }
    text.parse().map_err(|error| EvalError::new(NumberError::from(error).text("ParseUint", text)))
}

fn prerelease_part(text: &str) -> Result<Part, EvalError> {
    if text.is_empty() {
        return Err(EvalError::new("Prerelease is empty"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(EvalError::new(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                go_quote(text)
            )));
        }
        let number = text.parse().map(Part::Number);
        return number.map_err(|error| EvalError::new(NumberError::from(error).text("ParseUint", text)));
    }
    if is_identifier(text) {
        return Ok(Part::Text(text.to_owned()));
    }
    Err(EvalError::new(format!("Invalid character(s) found in prerelease {}", go_quote(text))))
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
