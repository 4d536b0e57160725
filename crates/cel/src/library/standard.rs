//! Operators, conversions and the dispatch of every function by its name.

use std::{net::IpAddr, sync::Arc};

use regex::Regex;
use sternpost_meta::duration;

use crate::{
    ast::operator,
    authorizer,
    evaluate::{EvalError, Meter},
    library::{
        format::NamedFormat, lists, net, quantity, regex as patterns, semver::Semver, string_format, strings,
        time, url::Url,
    },
    types::Type,
    value::{Entries, Key, Map, Text, Value},
};

type Outcome<'a> = Result<Value<'a>, EvalError>;

pub(crate) fn no_overload() -> EvalError {
    EvalError::new("no such overload")
}

/// The error for operands of the wrong kind, as upstream words it per function.
fn mismatch(function: &str, operands: &[Value<'_>]) -> EvalError {
    match function {
        "contains" | "startsWith" | "endsWith" | "matches" | "find" | "findAll" => no_overload(),
        "size" | "sort" => EvalError::new(format!("no such overload: {function}")),
        "flatten" => {
            let mut kinds = operands.iter().map(|operand| operand.ty().to_string());
            let list = kinds.next().unwrap_or_default();
            let rest: Vec<String> = kinds.collect();
            EvalError::new(format!("no such overload: {list}.flatten({})", rest.join(", ")))
        }
        // Values that no such operator is for at all are named with it.
        operator::NEGATE
            if matches!(
                operands.first(),
                Some(Value::List(_) | Value::Map(_) | Value::Object(..) | Value::Null)
            ) =>
        {
            EvalError::new("no such overload: -_")
        }
        name if name.starts_with(['_', '-', '!', '@']) => no_overload(),
        name => {
            let kinds: Vec<String> = operands.iter().map(Value::type_name).collect();
            EvalError::new(format!("no such overload: {name}({})", kinds.join(", ")))
        }
    }
}

pub(crate) fn call<'a>(
    function: &str,
    method: bool,
    operands: &[Value<'a>],
    pattern: Option<&Regex>,
    meter: &mut Meter<'_>,
) -> Outcome<'a> {
    if let [one, _] = operands
        && has_no_such_operator(function, one)
    {
        return Err(EvalError::new(format!("no such overload: {function}")));
    }
    known(function, method, operands, pattern, meter)
        .or_else(|| authorizer::call(function, operands))
        .unwrap_or_else(|| Err(mismatch(function, operands)))
}

fn has_no_such_operator(function: &str, one: &Value<'_>) -> bool {
    let ordered = matches!(
        function,
        operator::LESS | operator::LESS_EQUALS | operator::GREATER | operator::GREATER_EQUALS
    );
    let arithmetic =
        matches!(function, operator::SUBTRACT | operator::MULTIPLY | operator::DIVIDE | operator::MODULO);
    match one {
        Value::List(_) => ordered || arithmetic,
        Value::Map(_) | Value::Object(..) | Value::Null => ordered || arithmetic || function == operator::ADD,
        _ => false,
    }
}

fn length(size: usize) -> Value<'static> {
    Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

fn known<'a>(
    function: &str,
    method: bool,
    operands: &[Value<'a>],
    pattern: Option<&Regex>,
    meter: &mut Meter<'_>,
) -> Option<Outcome<'a>> {
    let outcome = match (function, operands) {
        (operator::EQUALS, [one, other]) if one.refuses(other) => Err(no_overload()),
        (operator::EQUALS, [one, other]) => one.equals(other, meter).map(Value::Bool),
        (operator::NOT_EQUALS, [one, other]) => one.equals(other, meter).map(|equal| Value::Bool(!equal)),
        (operator::LESS, [one, other]) => one.order(other).map(|order| Value::Bool(order.is_lt())),
        (operator::LESS_EQUALS, [one, other]) => one.order(other).map(|order| Value::Bool(order.is_le())),
        (operator::GREATER, [one, other]) => one.order(other).map(|order| Value::Bool(order.is_gt())),
        (operator::GREATER_EQUALS, [one, other]) => one.order(other).map(|order| Value::Bool(order.is_ge())),
        (
            operator::ADD | operator::SUBTRACT | operator::MULTIPLY | operator::DIVIDE | operator::MODULO,
            [one, other],
        ) => arithmetic(function, one, other, meter),
        (operator::NEGATE, [Value::Int(value)]) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        (operator::NEGATE, [Value::Double(value)]) => Ok(Value::Double(-value)),
        (operator::NOT, [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        (operator::IN, [needle, Value::List(list)]) => list.contains(needle, meter).map(Value::Bool),
        (operator::IN, [needle, Value::Map(map)]) => {
            map.get(needle).map(|found| Value::Bool(found.is_some()))
        }
        (operator::IN, [Value::String(needle), Value::Object(entries, object)]) => {
            let field = object.field(needle.as_str());
            Ok(Value::Bool(
                field.is_some_and(|field| entries.get(&*field.property).is_some_and(|json| !json.is_null())),
            ))
        }
        (operator::MAP_INSERT, [Value::Map(map), key, value]) => {
            insert(map, vec![(key.clone(), value.clone())])
        }
        (operator::MAP_INSERT, [Value::Map(map), Value::Map(more)]) => {
            let mut entries = Vec::new();
            for (key, value) in more.entries() {
                match value {
                    Ok(value) => entries.push((key, value)),
                    Err(error) => return Some(Err(error)),
                }
            }
            insert(map, entries)
        }
        ("size", [Value::String(text)]) => Ok(length(text.as_str().chars().count())),
        ("size", [Value::Bytes(bytes)]) => Ok(length(bytes.len())),
        ("size", [Value::List(list)]) => Ok(length(list.len())),
        ("size", [Value::Map(map)]) => Ok(length(map.len())),
        ("size", [Value::Object(entries, _)]) => Ok(length(entries.len())),
        ("type", [value]) => Ok(Value::Type(value.ty())),
        ("dyn", [value]) => Ok(value.clone()),
        ("string" | "bytes" | "int" | "uint" | "double" | "bool" | "duration" | "timestamp", [value]) => {
            return convert(function, value);
        }
        ("optional.of", [value]) => Ok(Value::optional(Some(value.clone()))),
        ("optional.none", []) => Ok(Value::optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::optional((!is_zero(value)).then(|| value.clone()))),
        ("value", [Value::Optional(inner)]) => match inner {
            Some(inner) => Ok((**inner).clone()),
            None => Err(EvalError::new("optional.none() dereference")),
        },
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("first", [Value::List(list)]) => list.get(0).transpose().map(Value::optional),
        ("last", [Value::List(list)]) => {
            list.len().checked_sub(1).and_then(|last| list.get(last)).transpose().map(Value::optional)
        }
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => lists::unwrap(list),
        _ => {
            let text =
                if method && function == "ip" { None } else { on_text(function, operands, pattern, meter) };
            return text
                .or_else(|| on_list(function, operands, meter))
                .or_else(|| on_time(function, operands))
                .or_else(|| on_library(function, method, operands));
        }
    };
    Some(outcome)
}

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

pub(crate) fn arithmetic<'a>(
    function: &str,
    one: &Value<'a>,
    other: &Value<'a>,
    meter: &mut Meter<'_>,
) -> Outcome<'a> {
    let zero =
        || EvalError::new(if function == operator::MODULO { "modulus by zero" } else { "division by zero" });
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => {
            let (one, other) = (*one, *other);
            if other == 0 && matches!(function, operator::DIVIDE | operator::MODULO) {
                return Err(zero());
            }
            match function {
                operator::ADD => one.checked_add(other),
                operator::SUBTRACT => one.checked_sub(other),
                operator::MULTIPLY => one.checked_mul(other),
                operator::DIVIDE => one.checked_div(other),
                _ => one.checked_rem(other),
            }
            .map(Value::Int)
            .ok_or_else(overflow)
        }
        (Value::Uint(one), Value::Uint(other)) => {
            let (one, other) = (*one, *other);
            if other == 0 && matches!(function, operator::DIVIDE | operator::MODULO) {
                return Err(zero());
            }
            match function {
                operator::ADD => one.checked_add(other),
                operator::SUBTRACT => one.checked_sub(other),
                operator::MULTIPLY => one.checked_mul(other),
                operator::DIVIDE => one.checked_div(other),
                _ => one.checked_rem(other),
            }
            .map(Value::Uint)
            .ok_or_else(|| EvalError::new("unsigned integer overflow"))
        }
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(match function {
            operator::ADD => one + other,
            operator::SUBTRACT => one - other,
            operator::MULTIPLY => one * other,
            operator::DIVIDE => one / other,
            _ => return Err(no_overload()),
        })),
        (Value::String(one), Value::String(other)) if function == operator::ADD => {
            meter.allocate(one.as_str().len().saturating_add(other.as_str().len()))?;
            Ok(Value::text([one.as_str(), other.as_str()].concat()))
        }
        (Value::Bytes(one), Value::Bytes(other)) if function == operator::ADD => {
            meter.allocate(one.len().saturating_add(other.len()))?;
            Ok(Value::Bytes([one.as_ref(), other.as_ref()].concat().into()))
        }
        (Value::List(one), Value::List(other)) if function == operator::ADD => {
            one.concatenated(other, meter).map(Value::List)
        }
        (Value::Duration(one), Value::Duration(other)) => match function {
            operator::ADD => one.checked_add(*other),
            operator::SUBTRACT => one.checked_sub(*other),
            _ => return Err(no_overload()),
        }
        .map(Value::Duration)
        .ok_or_else(overflow),
        (Value::Timestamp(instant), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(instant)) => {
            let backwards = function == operator::SUBTRACT && matches!(one, Value::Timestamp(_));
            let duration = match function {
                operator::ADD => Some(*duration),
                operator::SUBTRACT if backwards => duration.checked_neg(),
                _ => return Err(no_overload()),
            };
            duration
                .and_then(|duration| instant.plus(duration))
                .map(Value::Timestamp)
                .ok_or_else(|| EvalError::new("timestamp overflow"))
        }
        (Value::Timestamp(one), Value::Timestamp(other)) if function == operator::SUBTRACT => {
            one.minus(other).map(Value::Duration).ok_or_else(overflow)
        }
        _ => Err(no_overload()),
    }
}

fn insert<'a>(map: &Map<'a>, more: Vec<(Value<'a>, Value<'a>)>) -> Outcome<'a> {
    let mut entries = match &map.0 {
        Entries::Owned(entries) => (**entries).clone(),
        Entries::Json(..) => {
            let mut entries = std::collections::BTreeMap::new();
            for (key, value) in map.entries() {
                entries.insert(key.key().ok_or_else(no_overload)?, (key, value?));
            }
            entries
        }
    };
    add_entries(&mut entries, more)?;
    Ok(Value::owned_map(entries))
}

pub(crate) fn add_entries<'a>(
    entries: &mut std::collections::BTreeMap<Key, (Value<'a>, Value<'a>)>,
    more: Vec<(Value<'a>, Value<'a>)>,
) -> Result<(), EvalError> {
    for (key, value) in more {
        let id =
            key.key().ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
        if entries.contains_key(&id) {
            return Err(EvalError::new(format!("insert failed: key {} already exists", printed(&key))));
        }
        entries.insert(id, (key, value));
    }
    Ok(())
}

/// A scalar as messages show it.
pub(crate) fn printed(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => strings::double(*value),
        Value::String(text) => text.as_str().to_owned(),
        other => other.type_name(),
    }
}

/// What the largest integer rounds to.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Object(entries, _) => entries.is_empty(),
        Value::Duration(value) => *value == 0,
        _ => false,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "conversions between numbers; ranges are checked where they matter"
)]
fn convert<'a>(to: &str, value: &Value<'a>) -> Option<Outcome<'a>> {
    let failed = |to: &Type| {
        Err(EvalError::new(format!(
            "type conversion error from '{}' to '{}'",
            value.type_name(),
            to.runtime_name()
        )))
    };
    Some(match (to, value) {
        ("string", Value::String(_))
        | ("bytes", Value::Bytes(_))
        | ("int", Value::Int(_))
        | ("uint", Value::Uint(_))
        | ("double", Value::Double(_))
        | ("bool", Value::Bool(_))
        | ("duration", Value::Duration(_))
        | ("timestamp", Value::Timestamp(_)) => Ok(value.clone()),
        ("string", Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            Ok(Value::text(printed(value)))
        }
        ("string", Value::Bytes(bytes)) => std::str::from_utf8(bytes)
            .map(Value::text)
            .map_err(|_| EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        ("string", Value::Timestamp(value)) => Ok(Value::text(value.to_string())),
        ("string", Value::Duration(value)) => Ok(Value::text(time::duration_text(*value))),
        ("string", Value::Ip(address)) => Ok(Value::text(address.to_string())),
        ("string", Value::Cidr(network)) => Ok(Value::text(network.to_string())),
        ("bytes", Value::String(text)) => Ok(Value::Bytes(text.as_str().as_bytes().into())),
        ("int", Value::Uint(value)) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        ("int", Value::Double(value)) => {
            // The ends themselves are out.
            if *value > -TWO_TO_63 && *value < TWO_TO_63 {
                Ok(Value::Int(*value as i64))
            } else {
                Err(overflow())
            }
        }
        ("int", Value::String(text)) => match text.as_str().parse() {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => failed(&Type::Int),
        },
        ("int", Value::Timestamp(value)) => Ok(Value::Int(value.seconds())),
        ("int", Value::Duration(value)) => Ok(Value::Int(*value)),
        ("uint", Value::Int(value)) => {
            u64::try_from(*value).map(Value::Uint).map_err(|_| EvalError::new("unsigned integer overflow"))
        }
        ("uint", Value::Double(value)) => {
            if *value >= 0.0 && *value < 1.844_674_407_370_955_2e19 {
                Ok(Value::Uint(*value as u64))
            } else {
                Err(EvalError::new("unsigned integer overflow"))
            }
        }
        ("uint", Value::String(text)) => match text.as_str().parse() {
            Ok(value) if !text.as_str().starts_with('+') => Ok(Value::Uint(value)),
            _ => failed(&Type::Uint),
        },
        ("double", Value::Int(value)) => Ok(Value::Double(*value as f64)),
        ("double", Value::Uint(value)) => Ok(Value::Double(*value as f64)),
        ("double", Value::String(text)) => match go_float(text.as_str()) {
            Some(value) => Ok(Value::Double(value)),
            None => failed(&Type::Double),
        },
        ("bool", Value::String(text)) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => failed(&Type::Bool),
        },
        ("duration", Value::String(text)) => match duration::parse(text.as_str()).ok() {
            Some(value) => Ok(Value::Duration(value)),
            None => failed(&Type::Duration),
        },
        ("duration", Value::Int(_)) => failed(&Type::Duration),
        ("timestamp", Value::String(text)) => match time::Timestamp::parse(text.as_str()) {
            Some(value) => Ok(Value::Timestamp(value)),
            None => failed(&Type::Timestamp),
        },
        ("timestamp", Value::Int(value)) => match time::Timestamp::from_seconds(*value) {
            Some(value) => Ok(Value::Timestamp(value)),
            None => Err(EvalError::new("timestamp overflow")),
        },
        _ => return None,
    })
}

/// A double as Go reads one: decimal, or hexadecimal with a power of two.
fn go_float(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = |value: f64| if negative { -value } else { value };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let (mantissa, power) = hex.split_once(['p', 'P'])?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut value = 0.0;
        for digit in whole.chars().chain(fraction.chars()) {
            value = value * 16.0 + f64::from(digit.to_digit(16)?);
        }
        let power: i32 = power.parse().ok()?;
        let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
        return Some(signed(value * 2_f64.powi(power.checked_sub(shift)?)));
    }
    let value: f64 = digits.parse().ok().filter(|_| !digits.starts_with(['+', '-']))?;
    let spelled = digits.starts_with(|c: char| c.is_ascii_alphabetic());
    (value.is_finite() || spelled).then_some(signed(value))
}

fn on_text<'a>(
    function: &str,
    operands: &[Value<'a>],
    pattern: Option<&Regex>,
    meter: &mut Meter<'_>,
) -> Option<Outcome<'a>> {
    let [Value::String(text), rest @ ..] = operands else { return None };
    let text = text.as_str();
    let compiled = |given: &Text<'_>| match pattern {
        Some(pattern) => Ok(pattern.clone()),
        None => patterns::compile(given.as_str()),
    };
    let illegal = |error: EvalError| EvalError::new(format!("Illegal regex: {}", error.message()));
    Some(match (function, rest) {
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(part.as_str()))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(part.as_str()))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(part.as_str()))),
        ("matches", [Value::String(given)]) => compiled(given).map(|regex| Value::Bool(regex.is_match(text))),
        ("find", [Value::String(given)]) => compiled(given)
            .map(|regex| Value::text(regex.find(text).map_or("", |found| found.as_str())))
            .map_err(illegal),
        ("findAll", [Value::String(given), limit @ ..]) => {
            let most = match limit {
                [] => usize::MAX,
                [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => return None,
            };
            compiled(given)
                .map(|regex| {
                    Value::list(
                        regex.find_iter(text).take(most).map(|found| Value::text(found.as_str())).collect(),
                    )
                })
                .map_err(illegal)
        }
        ("charAt", [Value::Int(at)]) => strings::char_at(text, *at),
        ("indexOf", [Value::String(part)]) => strings::index_of(text, part.as_str(), None),
        ("indexOf", [Value::String(part), Value::Int(from)]) => {
            strings::index_of(text, part.as_str(), Some(*from))
        }
        ("lastIndexOf", [Value::String(part)]) => strings::last_index_of(text, part.as_str(), None),
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => {
            strings::last_index_of(text, part.as_str(), Some(*from))
        }
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(strings::trim(text))),
        ("substring", [Value::Int(start)]) => strings::substring(text, *start, None),
        ("substring", [Value::Int(start), Value::Int(end)]) => strings::substring(text, *start, Some(*end)),
        ("replace", [Value::String(part), Value::String(with)]) => {
            strings::replace(text, part.as_str(), with.as_str(), None, meter)
        }
        ("replace", [Value::String(part), Value::String(with), Value::Int(limit)]) => {
            strings::replace(text, part.as_str(), with.as_str(), Some(*limit), meter)
        }
        ("split", [Value::String(separator)]) => Ok(strings::split(text, separator.as_str(), None)),
        ("split", [Value::String(separator), Value::Int(limit)]) => {
            Ok(strings::split(text, separator.as_str(), Some(*limit)))
        }
        ("format", [Value::List(args)]) => {
            args.collect().and_then(|args| string_format::format(text, &args, meter)).map(Value::text)
        }
        ("jsonpatch.escapeKey", []) => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        ("strings.quote", []) => Ok(Value::text(strings::quote(text))),
        ("url", []) => Url::parse(text)
            .map(|url| Value::Url(Arc::new(url)))
            .map_err(|why| EvalError::new(format!("URL parse error during conversion from string: {why}"))),
        ("isURL", []) => Ok(Value::Bool(Url::parse(text).is_ok())),
        ("quantity", []) => quantity::parse(text),
        ("isQuantity", []) => Ok(Value::Bool(quantity::parse(text).is_ok())),
        ("semver", []) => Semver::parse(text).map(|version| Value::Semver(version.into())),
        ("semver", [Value::Bool(normalize)]) => {
            if *normalize { Semver::parse_tolerant(text) } else { Semver::parse(text) }
                .map(|version| Value::Semver(version.into()))
        }
        ("isSemver", []) => Ok(Value::Bool(Semver::parse(text).is_ok())),
        ("isSemver", [Value::Bool(normalize)]) => {
            let parsed = if *normalize { Semver::parse_tolerant(text) } else { Semver::parse(text) };
            Ok(Value::Bool(parsed.is_ok()))
        }
        ("ip", []) => net::parse_ip(text).map(Value::Ip),
        ("isIP", []) => Ok(Value::Bool(net::parse_ip(text).is_ok())),
        ("ip.isCanonical", []) => net::parse_ip(text).map(|address| Value::Bool(address.to_string() == text)),
        ("cidr", []) => net::parse_cidr(text).map(Value::Cidr),
        ("isCIDR", []) => Ok(Value::Bool(net::parse_cidr(text).is_ok())),
        ("format.named", []) => Ok(Value::optional(NamedFormat::named(text).map(Value::Format))),
        _ => return None,
    })
}

fn on_list<'a>(function: &str, operands: &[Value<'a>], meter: &mut Meter<'_>) -> Option<Outcome<'a>> {
    if let ("lists.range", [Value::Int(count)]) = (function, operands) {
        return Some(Ok(Value::list((0..*count).map(Value::Int).collect())));
    }
    let [Value::List(list), rest @ ..] = operands else { return None };
    Some(match (function, rest) {
        ("sum", []) => lists::sum(list, meter),
        ("min" | "max", []) => lists::extreme(function, list),
        ("isSorted", []) => lists::is_sorted(list).map(Value::Bool),
        ("indexOf", [needle]) => lists::index_of(list, needle, false, meter),
        ("lastIndexOf", [needle]) => lists::index_of(list, needle, true, meter),
        ("slice", [Value::Int(start), Value::Int(end)]) => lists::slice(list, *start, *end),
        ("flatten", []) => lists::flatten(list, 1, meter),
        ("flatten", [Value::Int(depth)]) => lists::flatten(list, *depth, meter),
        ("distinct", []) => lists::distinct(list, meter),
        ("sort", []) => lists::sort_by_keys(list, list),
        (operator::SORT_BY_KEYS, [Value::List(keys)]) => lists::sort_by_keys(list, keys),
        ("reverse", []) => list.collect().map(|mut items| {
            items.reverse();
            Value::list(items)
        }),
        ("join", []) => lists::join(list, "", meter),
        ("join", [Value::String(separator)]) => lists::join(list, separator.as_str(), meter),
        ("sets.contains", [Value::List(other)]) => lists::contains_all(list, other, meter).map(Value::Bool),
        ("sets.intersects", [Value::List(other)]) => lists::intersects(list, other, meter).map(Value::Bool),
        ("sets.equivalent", [Value::List(other)]) => lists::contains_all(list, other, meter)
            .and_then(|contains| Ok(contains && lists::contains_all(other, list, meter)?))
            .map(Value::Bool),
        _ => return None,
    })
}

fn on_time<'a>(function: &str, operands: &[Value<'a>]) -> Option<Outcome<'a>> {
    if !function.starts_with("get") {
        return None;
    }
    Some(match operands {
        [Value::Timestamp(instant)] => instant.part(function, None).map(Value::Int),
        [Value::Timestamp(instant), Value::String(zone)] => {
            instant.part(function, Some(zone.as_str())).map(Value::Int)
        }
        [Value::Duration(nanos)] => Ok(Value::Int(match function {
            "getHours" => nanos / 3_600_000_000_000,
            "getMinutes" => nanos / 60_000_000_000,
            "getSeconds" => nanos / 1_000_000_000,
            "getMilliseconds" => nanos / 1_000_000,
            _ => return None,
        })),
        [Value::Url(url)] => Ok(url.part(function)?),
        _ => return None,
    })
}

fn on_library<'a>(function: &str, method: bool, operands: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let Some(name) = function.strip_prefix("format.").filter(|_| operands.is_empty()) {
        return NamedFormat::named(name).map(|format| Ok(Value::Format(format)));
    }
    Some(match (function, operands) {
        (_, [Value::Quantity(amount)]) => return quantity::call(function, amount, None),
        (_, [Value::Quantity(amount), argument]) => return quantity::call(function, amount, Some(argument)),
        ("major", [Value::Semver(version)]) => {
            Ok(Value::Int(i64::try_from(version.major).unwrap_or(i64::MAX)))
        }
        ("minor", [Value::Semver(version)]) => {
            Ok(Value::Int(i64::try_from(version.minor).unwrap_or(i64::MAX)))
        }
        ("patch", [Value::Semver(version)]) => {
            Ok(Value::Int(i64::try_from(version.patch).unwrap_or(i64::MAX)))
        }
        ("isGreaterThan", [Value::Semver(one), Value::Semver(other)]) => {
            Ok(Value::Bool(one.compare(other).is_gt()))
        }
        ("isLessThan", [Value::Semver(one), Value::Semver(other)]) => {
            Ok(Value::Bool(one.compare(other).is_lt()))
        }
        ("compareTo", [Value::Semver(one), Value::Semver(other)]) => {
            Ok(Value::Int(one.compare(other) as i64))
        }
        ("family", [Value::Ip(address)]) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        (_, [Value::Ip(address)]) => Ok(Value::Bool(net::property(function, *address)?)),
        ("ip", [Value::Cidr(network)]) if method => Ok(Value::Ip(network.address)),
        ("prefixLength", [Value::Cidr(network)]) => Ok(Value::Int(network.length.into())),
        ("masked", [Value::Cidr(network)]) => Ok(Value::Cidr(network.masked())),
        ("containsIP", [Value::Cidr(network), argument]) => {
            let address: IpAddr = match argument {
                Value::Ip(address) => *address,
                Value::String(text) => match net::parse_ip(text.as_str()) {
                    Ok(address) => address,
                    Err(_) => return Some(Err(no_overload())),
                },
                _ => return None,
            };
            Ok(Value::Bool(network.contains(address)))
        }
        ("containsCIDR", [Value::Cidr(network), argument]) => match argument {
            Value::Cidr(other) => Ok(Value::Bool(network.contains_network(other))),
            Value::String(text) => {
                net::parse_cidr(text.as_str()).map(|other| Value::Bool(network.contains_network(&other)))
            }
            _ => return None,
        },
        ("validate", [Value::Format(format), Value::String(text)]) => Ok(format.validate(text.as_str())),
        _ => return None,
    })
}
