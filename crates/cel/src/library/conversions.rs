//! Conversions between types, and the sizes of values.

use sternpost_golang::{duration, strconv::parse_bool};

use crate::{
    ast::{Expr, Kind, Literal},
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function, named_mismatch},
    library::{
        cost,
        operators::{overflow, printed, timestamp_overflow, unsigned_overflow},
        time,
    },
    types::Type,
    value::Value,
};

type Outcome<'a> = Result<Value<'a>, EvalError>;

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "string",
        "23 (string):string (bool):string (int):string (uint):string (double):string (bytes):string
         (timestamp):string (duration):string
         30 (ip):string (cidr):string",
        |call, _| one(call, string),
        |of| match of.ty(0) {
            Type::Bytes => estimate::tenth_and_part(of),
            Type::Dyn => of.price(of.tenth(0).max(1)).at_most(of.max(0)),
            _ => of.price(1),
        },
        |call, _| if matches!(call.operands, [Value::Bytes(_)]) { call.tenth(0) } else { 1 },
    )
    .folded(),
    function(
        "bytes",
        "23 (string):bytes (bytes):bytes",
        |call, _| {
            one(call, |value| match value {
                Value::Bytes(_) => Some(Ok(value.clone())),
                Value::String(text) => Some(Ok(Value::Bytes(text.as_str().as_bytes().into()))),
                _ => None,
            })
        },
        |of| match of.ty(0) {
            Type::String | Type::Dyn => estimate::tenth(of).at_most(of.max(0).saturating_mul(4)),
            _ => of.price(1),
        },
        |call, _| if matches!(call.operands, [Value::String(_)]) { call.tenth(0) } else { 1 },
    )
    .folded(),
    function(
        "int",
        "23 (int):int (uint):int (double):int (string):int (timestamp):int (duration):int",
        |call, _| one(call, int),
        estimate::one,
        cost::one,
    )
    .folded(),
    function(
        "uint",
        "23 (uint):uint (int):uint (double):uint (string):uint",
        |call, _| one(call, uint),
        estimate::one,
        cost::one,
    )
    .folded(),
    function(
        "double",
        "23 (double):double (int):double (uint):double (string):double",
        |call, _| one(call, double),
        estimate::one,
        cost::one,
    )
    .folded(),
    function(
        "bool",
        "23 (bool):bool (string):bool",
        |call, _| {
            one(call, |value| match value {
                Value::Bool(_) => Some(Ok(value.clone())),
                Value::String(text) => {
                    let read = parse_bool(text.as_str());
                    Some(read.map(Value::Bool).map_err(|_| failed(value, &Type::Bool)))
                }
                _ => None,
            })
        },
        estimate::one,
        cost::one,
    )
    .folded(),
    function(
        "duration",
        "23 (duration):duration (string):duration (int):duration",
        |call, _| {
            one(call, |value| match value {
                Value::Duration(_) => Some(Ok(value.clone())),
                Value::String(text) => {
                    let nanos = duration::parse(text.as_str()).ok();
                    Some(nanos.map(Value::Duration).ok_or_else(|| failed(value, &Type::Duration)))
                }
                // There is such a signature, and no number that it takes.
                Value::Int(_) => Some(Err(failed(value, &Type::Duration))),
                _ => None,
            })
        },
        estimate::one,
        cost::one,
    )
    .folded()
    .literals(|operands, _| {
        literal(operands, "invalid duration argument", |literal| match literal {
            Literal::String(text) => duration::parse(text).is_ok(),
            _ => false,
        })
    }),
    function(
        "timestamp",
        "23 (timestamp):timestamp (string):timestamp (int):timestamp",
        |call, _| {
            one(call, |value| match value {
                Value::Timestamp(_) => Some(Ok(value.clone())),
                Value::String(text) => {
                    let instant = time::Timestamp::parse(text.as_str());
                    Some(instant.map(Value::Timestamp).ok_or_else(|| failed(value, &Type::Timestamp)))
                }
                Value::Int(seconds) => {
                    let instant = time::Timestamp::from_seconds(*seconds);
                    Some(instant.map(Value::Timestamp).ok_or_else(timestamp_overflow))
                }
                _ => None,
            })
        },
        estimate::one,
        cost::one,
    )
    .folded()
    .literals(|operands, _| {
        literal(operands, "invalid timestamp argument", |literal| match literal {
            Literal::String(text) => time::Timestamp::parse(text).is_some(),
            Literal::Int(seconds) => time::Timestamp::from_seconds(*seconds).is_some(),
            _ => false,
        })
    }),
    function(
        "type",
        "23 (A):type(A)",
        |call, _| one(call, |value| Some(Ok(Value::Type(value.ty())))),
        estimate::one,
        cost::one,
    )
    .folded(),
    function(
        "dyn",
        "23 (A):dyn",
        |call, _| one(call, |value| Some(Ok(value.clone()))),
        |of| of.price(1).sized(of.size(0)),
        cost::one,
    )
    .folded(),
    function(
        "size",
        "23 (string):int (bytes):int (list(A)):int (map(K,V)):int string.():int bytes.():int list(A).():int
         map(K,V).():int",
        |call, _| {
            let size = match call.operands {
                [Value::String(text)] => text.as_str().chars().count(),
                [Value::Bytes(bytes)] => bytes.len(),
                [Value::List(list)] => list.len(),
                [Value::Map(map)] => map.len(),
                [Value::Object(entries, _)] => entries.len(),
                _ => return None,
            };
            Some(Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))))
        },
        estimate::one,
        cost::one,
    )
    .mismatch(named_mismatch),
];

fn one<'a>(call: &Call<'_, 'a>, convert: fn(&Value<'a>) -> Option<Outcome<'a>>) -> Option<Outcome<'a>> {
    match call.operands {
        [value] => convert(value),
        _ => None,
    }
}

/// Of functions of one literal.
fn literal<'e>(
    operands: &[&'e Expr],
    message: &str,
    is_fine: fn(&Literal) -> bool,
) -> Option<(Option<&'e Expr>, String)> {
    match operands {
        [operand @ Expr { kind: Kind::Literal(literal), .. }] if !is_fine(literal) => {
            Some((Some(operand), message.to_owned()))
        }
        _ => None,
    }
}

fn failed(value: &Value<'_>, to: &Type) -> EvalError {
    EvalError::new(format!("type conversion error from '{}' to '{}'", value.type_name(), to.runtime_name()))
}

fn string<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) => Value::text(printed(value)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => {
                return Some(Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")));
            }
        },
        Value::Timestamp(value) => Value::text(value.to_string()),
        Value::Duration(value) => Value::text(time::duration_text(*value)),
        Value::Ip(address) => Value::text(address.to_string()),
        Value::Cidr(network) => Value::text(network.to_string()),
        _ => return None,
    }))
}

/// What the largest integer rounds to.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

fn int<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        // The ends themselves are out.
        #[expect(clippy::cast_possible_truncation, reason = "within the range, checked")]
        Value::Double(value) if *value > -TWO_TO_63 && *value < TWO_TO_63 => Ok(Value::Int(*value as i64)),
        Value::Double(_) => Err(overflow()),
        Value::String(text) => text.as_str().parse().map(Value::Int).map_err(|_| failed(value, &Type::Int)),
        Value::Timestamp(value) => Ok(Value::Int(value.seconds())),
        Value::Duration(value) => Ok(Value::Int(*value)),
        _ => return None,
    })
}

fn uint<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(value) => u64::try_from(*value).map(Value::Uint).map_err(|_| unsigned_overflow()),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the range, checked"
        )]
        Value::Double(value) if *value >= 0.0 && *value < TWO_TO_64 => Ok(Value::Uint(*value as u64)),
        Value::Double(_) => Err(unsigned_overflow()),
        Value::String(text) => match text.as_str().parse() {
            Ok(number) if !text.as_str().starts_with('+') => Ok(Value::Uint(number)),
            _ => Err(failed(value, &Type::Uint)),
        },
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "large integers round")]
fn double<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => {
            go_float(text.as_str()).map(Value::Double).ok_or_else(|| failed(value, &Type::Double))
        }
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
