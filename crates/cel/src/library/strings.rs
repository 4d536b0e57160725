//! Functions on text. Indexes count code points.

use crate::{
    ast::{Expr, Kind, Literal},
    estimate::{self, Operands, Price, Size, scaled},
    evaluate::{EvalError, Meter},
    functions::{Call, Function, function, plain_mismatch},
    library::{cost, lists, string_format},
    types::Type,
    value::Value,
};

type Outcome<'a> = Result<Value<'a>, EvalError>;

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "contains",
        "23 string.(string):bool",
        |call, _| with_text(call, |text, part| Value::Bool(text.contains(part))),
        |of| of.price(of.tenth(0).saturating_mul(of.tenth(1))),
        |call, _| call.tenth(0).saturating_mul(call.tenth(1)),
    )
    .mismatch(plain_mismatch),
    function(
        "startsWith",
        "23 string.(string):bool",
        |call, _| with_text(call, |text, part| Value::Bool(text.starts_with(part))),
        |of| of.price(of.tenth(1)),
        cost::tenth,
    )
    .mismatch(plain_mismatch),
    function(
        "endsWith",
        "23 string.(string):bool",
        |call, _| with_text(call, |text, part| Value::Bool(text.ends_with(part))),
        |of| of.price(of.tenth(1)),
        cost::tenth,
    )
    .mismatch(plain_mismatch),
    function(
        "charAt",
        "23 string.(int):string",
        |call, _| match call.operands {
            [Value::String(text), Value::Int(at)] => Some(char_at(text.as_str(), *at)),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "indexOf",
        "23 string.(string):int string.(string,int):int list(A).(A):int",
        |call, meter| match call.operands {
            [Value::String(text), Value::String(part)] => Some(index_of(text.as_str(), part.as_str(), None)),
            [Value::String(text), Value::String(part), Value::Int(from)] => {
                Some(index_of(text.as_str(), part.as_str(), Some(*from)))
            }
            [Value::List(list), needle] => Some(lists::index_of(list, needle, false, meter)),
            _ => None,
        },
        index_estimate,
        index_cost,
    ),
    function(
        "lastIndexOf",
        "23 string.(string):int string.(string,int):int list(A).(A):int",
        |call, meter| match call.operands {
            [Value::String(text), Value::String(part)] => {
                Some(last_index_of(text.as_str(), part.as_str(), None))
            }
            [Value::String(text), Value::String(part), Value::Int(from)] => {
                Some(last_index_of(text.as_str(), part.as_str(), Some(*from)))
            }
            [Value::List(list), needle] => Some(lists::index_of(list, needle, true, meter)),
            _ => None,
        },
        index_estimate,
        index_cost,
    ),
    function(
        "lowerAscii",
        "23 string.():string",
        |call, _| of_text(call, |text| Value::text(text.to_ascii_lowercase())),
        estimate::tenth_and_part,
        cost::tenth,
    ),
    function(
        "upperAscii",
        "23 string.():string",
        |call, _| of_text(call, |text| Value::text(text.to_ascii_uppercase())),
        estimate::tenth_and_part,
        cost::tenth,
    ),
    function(
        "trim",
        "23 string.():string",
        // White space as Unicode has it.
        |call, _| of_text(call, |text| Value::text(text.trim())),
        estimate::tenth_and_part,
        cost::tenth,
    ),
    function(
        "substring",
        "23 string.(int):string string.(int,int):string",
        |call, _| match call.operands {
            [Value::String(text), Value::Int(start)] => Some(substring(text.as_str(), *start, None)),
            [Value::String(text), Value::Int(start), Value::Int(end)] => {
                Some(substring(text.as_str(), *start, Some(*end)))
            }
            _ => None,
        },
        estimate::tenth_and_part,
        cost::tenth,
    ),
    function(
        "replace",
        "23 string.(string,string):string string.(string,string,int):string",
        |call, meter| match call.operands {
            [Value::String(text), Value::String(part), Value::String(with)] => {
                Some(replace(text.as_str(), part.as_str(), with.as_str(), None, meter))
            }
            [Value::String(text), Value::String(part), Value::String(with), Value::Int(limit)] => {
                Some(replace(text.as_str(), part.as_str(), with.as_str(), Some(*limit), meter))
            }
            _ => None,
        },
        |of| of.price(scaled(of.max(0), 0.2)).at_most(replaced(of.size(0), of.size(1), of.size(2))),
        cost::fifth,
    ),
    function(
        "split",
        "23 string.(string):list(string) string.(string,int):list(string)",
        |call, _| match call.operands {
            [Value::String(text), Value::String(separator)] => {
                Some(Ok(split(text.as_str(), separator.as_str(), None)))
            }
            [Value::String(text), Value::String(separator), Value::Int(limit)] => {
                Some(Ok(split(text.as_str(), separator.as_str(), Some(*limit))))
            }
            _ => None,
        },
        |of| of.price(scaled(of.max(0), 0.2)).at_most(of.integer(2).unwrap_or(of.max(0))),
        cost::fifth,
    ),
    function(
        "join",
        "23 list(string).():string list(string).(string):string",
        |call, meter| match call.operands {
            [Value::List(list)] => Some(lists::join(list, "", meter)),
            [Value::List(list), Value::String(separator)] => {
                Some(lists::join(list, separator.as_str(), meter))
            }
            _ => None,
        },
        |of| {
            let items = if matches!(of.ty(0), Type::List(_)) { of.item_size() } else { 0 };
            let (count, between) = (of.max(0), of.max(1));
            let total =
                count.saturating_mul(items).saturating_add(count.saturating_sub(1).saturating_mul(between));
            of.price(scaled(total, 0.1)).at_most(total)
        },
        |_, result| scaled(result.map_or(1, Value::cost_size), 0.2),
    ),
    function(
        "format",
        "29 string.(list(dyn)):string",
        |call, meter| match call.operands {
            [Value::String(text), Value::List(args)] => {
                let formatted =
                    args.collect().and_then(|args| string_format::format(text.as_str(), &args, meter));
                Some(formatted.map(Value::text))
            }
            _ => None,
        },
        estimate::tenth,
        cost::tenth,
    )
    .literals(|operands, ty| match operands {
        [Expr { kind: Kind::Literal(Literal::String(format)), .. }, list] => {
            string_format::check(format, list, ty)
        }
        _ => None,
    })
    .mixed(),
    function(
        "strings.quote",
        "29 (string):string",
        |call, _| of_text(call, |text| Value::text(quote(text))),
        |of| estimate::tenth(of).at_most(of.max(0).saturating_mul(2).saturating_add(2)),
        cost::tenth,
    ),
    function(
        "jsonpatch.escapeKey",
        "32 (string):string",
        |call, _| of_text(call, |text| Value::text(text.replace('~', "~0").replace('/', "~1"))),
        estimate::tenth_and_size,
        cost::tenth,
    )
    .of_mutations(),
];

/// Of functions that take a text alone.
pub(crate) fn of_text<'a>(call: &Call<'_, 'a>, answer: fn(&str) -> Value<'a>) -> Option<Outcome<'a>> {
    match call.operands {
        [Value::String(text)] => Some(Ok(answer(text.as_str()))),
        _ => None,
    }
}

fn with_text<'a>(call: &Call<'_, 'a>, answer: fn(&str, &str) -> Value<'a>) -> Option<Outcome<'a>> {
    match call.operands {
        [Value::String(text), Value::String(other)] => Some(Ok(answer(text.as_str(), other.as_str()))),
        _ => None,
    }
}

fn index_estimate(of: &Operands<'_>) -> Price {
    if *of.ty(0) == Type::String { estimate::tenth(of) } else { estimate::traversal(of) }
}

fn index_cost(call: &Call<'_, '_>, result: Option<&Value<'_>>) -> u64 {
    if call.is_text(0) { cost::byte_tenth(call.operands.first()) } else { cost::traversal(call, result) }
}

/// How long a text can get by replacing.
fn replaced(text: Size, pattern: Size, replacement: Size) -> u64 {
    if pattern.min == 0 {
        text.max.saturating_add(1).saturating_mul(replacement.max).saturating_add(text.max)
    } else if replacement.max <= pattern.min {
        text.max
    } else {
        text.max.div_ceil(pattern.min).saturating_mul(replacement.max)
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

fn index(value: i64) -> Result<usize, EvalError> {
    usize::try_from(value).map_err(|_| out_of_range(value))
}

fn char_at(text: &str, at: i64) -> Result<Value<'static>, EvalError> {
    let position = index(at)?;
    match text.chars().nth(position) {
        Some(c) => Ok(Value::text(c.to_string())),
        None if position == text.chars().count() => Ok(Value::text("")),
        None => Err(out_of_range(at)),
    }
}

fn substring(text: &str, start: i64, end: Option<i64>) -> Result<Value<'static>, EvalError> {
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
fn index_of(text: &str, needle: &str, from: Option<i64>) -> Result<Value<'static>, EvalError> {
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
fn last_index_of(text: &str, needle: &str, from: Option<i64>) -> Result<Value<'static>, EvalError> {
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

fn replace(
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

fn split(text: &str, separator: &str, limit: Option<i64>) -> Value<'static> {
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
