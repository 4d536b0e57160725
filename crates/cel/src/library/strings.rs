//! Functions on text. Indexes count code points.

use crate::{
    evaluate::{EvalError, Meter},
    value::Value,
};

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

fn index(value: i64) -> Result<usize, EvalError> {
    usize::try_from(value).map_err(|_| out_of_range(value))
}

pub(crate) fn char_at(text: &str, at: i64) -> Result<Value<'static>, EvalError> {
    let position = index(at)?;
    match text.chars().nth(position) {
        Some(c) => Ok(Value::text(c.to_string())),
        None if position == text.chars().count() => Ok(Value::text("")),
        None => Err(out_of_range(at)),
    }
}

pub(crate) fn substring(text: &str, start: i64, end: Option<i64>) -> Result<Value<'static>, EvalError> {
    let length = text.chars().count();
    let checked =
        |value: i64| index(value).ok().filter(|index| *index <= length).ok_or_else(|| out_of_range(value));
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let (from, to) = (checked(start)?, end.map_or(Ok(length), checked)?);
    Ok(Value::text(text.chars().skip(from).take(to - from).collect::<String>()))
}

/// The place of `needle` at or after `from`; an empty one is where the search starts.
pub(crate) fn index_of(text: &str, needle: &str, from: Option<i64>) -> Result<Value<'static>, EvalError> {
    let offset = from.unwrap_or(0);
    if needle.is_empty() {
        index(offset)?;
        return Ok(Value::Int(offset));
    }
    let position = index(offset)?;
    let Some((start, _)) = text.char_indices().nth(position) else { return Ok(Value::Int(-1)) };
    let found = text.get(start..).and_then(|rest| Some((rest, rest.find(needle)?)));
    Ok(Value::Int(match found {
        Some((rest, at)) => {
            let before = rest.get(..at).unwrap_or_default().chars().count();
            i64::try_from(position + before).unwrap_or(-1)
        }
        None => -1,
    }))
}

/// The last place of `needle` at or before `from`.
pub(crate) fn last_index_of(
    text: &str,
    needle: &str,
    from: Option<i64>,
) -> Result<Value<'static>, EvalError> {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let limit = from.unwrap_or(length);
    index(limit)?;
    if needle.is_empty() {
        return Ok(Value::Int(limit.min(length)));
    }
    if from.is_some_and(|from| from >= length) {
        return Ok(Value::Int(-1));
    }
    let end = text.char_indices().nth(index(limit)?).map_or(text.len(), |(at, _)| at);
    let within = end.saturating_add(needle.len()).min(text.len());
    let window = (within..=text.len()).find_map(|end| text.get(..end)).unwrap_or(text);
    let found = window.rmatch_indices(needle).map(|(at, _)| at).find(|at| *at <= end);
    Ok(Value::Int(
        found
            .and_then(|at| text.get(..at))
            .map_or(-1, |before| i64::try_from(before.chars().count()).unwrap_or(-1)),
    ))
}

pub(crate) fn replace(
    text: &str,
    needle: &str,
    replacement: &str,
    limit: Option<i64>,
    meter: &mut Meter<'_>,
) -> Result<Value<'static>, EvalError> {
    let most = limit
        .filter(|limit| *limit >= 0)
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let matches = if needle.is_empty() { text.chars().count() + 1 } else { text.matches(needle).count() };
    let growth = matches.min(most).saturating_mul(replacement.len());
    meter.allocate(text.len().saturating_add(growth))?;
    Ok(Value::text(text.replacen(needle, replacement, most)))
}

pub(crate) fn split(text: &str, separator: &str, limit: Option<i64>) -> Value<'static> {
    let most = limit
        .filter(|limit| *limit >= 0)
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if most == 0 {
        return Value::list(Vec::new());
    }
    if separator.is_empty() {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == most {
                parts.push(Value::text(rest));
                break;
            }
            let (one, after) = rest.split_at_checked(c.len_utf8()).unwrap_or((rest, ""));
            parts.push(Value::text(one));
            rest = after;
        }
        return Value::list(parts);
    }
    Value::list(text.splitn(most, separator).map(Value::text).collect())
}

/// White space as Unicode has it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim()
}

pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A double as Go's `%g` prints it, shortest.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&power) {
        return format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs());
    }
    format!("{value}")
}
