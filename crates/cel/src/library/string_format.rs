//! `'%s'.format([…])`.

use std::fmt::Write as _;

use crate::{
    ast::{Expr, Kind, Literal},
    evaluate::{EvalError, Meter},
    library::{strings, time::duration_text},
    types::Type,
    value::Value,
};

/// The number of digits after the point is kept in one byte upstream.
const PRECISION_MODULUS: usize = 256;

/// A piece of a format string.
pub(crate) enum Piece {
    Text(String),
    Clause { verb: char, precision: Option<usize> },
}

/// `Err` is upstream's message.
pub(crate) fn pieces(format: &str) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let Some(next) = rest.peek().copied() else { return Err("unexpected end of string".into()) };
        if next == '%' {
            rest.next();
            text.push('%');
            continue;
        }
        if !text.is_empty() {
            found.push(Piece::Text(std::mem::take(&mut text)));
        }
        let mut precision = None;
        if next == '.' {
            rest.next();
            let mut digits = String::new();
            while let Some(digit) = rest.peek().copied().filter(char::is_ascii_digit) {
                digits.push(digit);
                rest.next();
            }
            const WHERE: &str = "could not parse formatting clause: error while parsing precision: ";
            if rest.peek().is_none() {
                return Err(format!("{WHERE}could not find end of precision specifier"));
            }
            precision = Some(digits.parse::<usize>().map_err(|_| {
                let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                format!("{WHERE}error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {why}")
            })?);
        }
        let Some(verb) = rest.next() else { return Err("unexpected end of string".into()) };
        if !matches!(verb, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            ));
        }
        found.push(Piece::Clause { verb, precision });
    }
    if !text.is_empty() {
        found.push(Piece::Text(text));
    }
    Ok(found)
}

pub(crate) fn format<'a>(
    format: &str,
    args: &[Value<'a>],
    meter: &mut Meter<'_>,
) -> Result<String, EvalError> {
    let pieces = pieces(format).map_err(EvalError::new)?;
    let mut out = String::new();
    let mut next = 0;
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(&text),
            Piece::Clause { verb, precision } => {
                let arg =
                    args.get(next).ok_or_else(|| EvalError::new(format!("index {next} out of range")))?;
                next += 1;
                clause(verb, precision, arg, &mut out, meter).map_err(|error| {
                    if error.is_limit() {
                        error
                    } else {
                        EvalError::new(format!("error during formatting: {}", error.message()))
                    }
                })?;
            }
        }
    }
    Ok(out)
}

fn refusal(verb: char, given: &str) -> String {
    match verb {
        's' => format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {given}"
        ),
        'd' => format!("decimal clause can only be used on integers, was given {given}"),
        'f' => format!("fixed-point clause can only be used on doubles, was given {given}"),
        'e' => format!("scientific clause can only be used on doubles, was given {given}"),
        'b' => format!("only integers and bools can be formatted as binary, was given {given}"),
        'o' => format!("octal clause can only be used on integers, was given {given}"),
        _ => format!("only integers, byte buffers, and strings can be formatted as hex, was given {given}"),
    }
}

fn clause(
    verb: char,
    precision: Option<usize>,
    arg: &Value<'_>,
    out: &mut String,
    meter: &mut Meter<'_>,
) -> Result<(), EvalError> {
    let refused = || EvalError::new(refusal(verb, &arg.type_name()));
    let signed = |negative: bool, digits: String| if negative { format!("-{digits}") } else { digits };
    match (verb, arg) {
        ('s', _) => return plain(arg, out, meter),
        ('d', Value::Int(value)) => out.push_str(&value.to_string()),
        ('d', Value::Uint(value)) => out.push_str(&value.to_string()),
        ('f', Value::Double(value)) => out.push_str(&fixed(*value, precision.unwrap_or(6))),
        ('f', Value::String(text)) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => {
            out.push_str(text.as_str());
        }
        ('e', Value::Double(value)) => out.push_str(&scientific(*value)),
        ('b', Value::Bool(value)) => out.push(if *value { '1' } else { '0' }),
        ('b', Value::Int(value)) => out.push_str(&signed(*value < 0, format!("{:b}", value.unsigned_abs()))),
        ('b', Value::Uint(value)) => out.push_str(&format!("{value:b}")),
        ('o', Value::Int(value)) => out.push_str(&signed(*value < 0, format!("{:o}", value.unsigned_abs()))),
        ('o', Value::Uint(value)) => out.push_str(&format!("{value:o}")),
        ('x', Value::Int(value)) => out.push_str(&signed(*value < 0, format!("{:x}", value.unsigned_abs()))),
        ('X', Value::Int(value)) => out.push_str(&signed(*value < 0, format!("{:X}", value.unsigned_abs()))),
        ('x', Value::Uint(value)) => out.push_str(&format!("{value:x}")),
        ('X', Value::Uint(value)) => out.push_str(&format!("{value:X}")),
        ('x' | 'X', Value::String(_) | Value::Bytes(_)) => {
            let bytes = match arg {
                Value::String(text) => text.as_str().as_bytes(),
                Value::Bytes(bytes) => bytes,
                _ => &[],
            };
            meter.allocate(bytes.len().saturating_mul(2))?;
            for byte in bytes {
                let _ = if verb == 'x' { write!(out, "{byte:02x}") } else { write!(out, "{byte:02X}") };
            }
        }
        _ => return Err(refused()),
    }
    Ok(())
}

/// `%s` of a value that is an argument itself.
fn plain(arg: &Value<'_>, out: &mut String, meter: &mut Meter<'_>) -> Result<(), EvalError> {
    match arg {
        Value::String(text) => {
            meter.allocate(out.len() + text.as_str().len())?;
            out.push_str(text.as_str());
        }
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Double(value) => out.push_str(&sternpost_golang::fmt::print_float(*value)),
        Value::Timestamp(value) => out.push_str(&value.to_string()),
        Value::Duration(value) => out.push_str(&duration_text(*value)),
        _ => return nested(arg, out, meter),
    }
    Ok(())
}

/// `%s` of a value inside a list or map: text is quoted.
fn nested(arg: &Value<'_>, out: &mut String, meter: &mut Meter<'_>) -> Result<(), EvalError> {
    meter.work(1)?;
    meter.allocate(out.len())?;
    match arg {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Uint(value) => out.push_str(&value.to_string()),
        Value::Double(value) if value.is_finite() => out.push_str(&format!("{value:.6}")),
        Value::Double(value) => out.push_str(&format!(
            "\"{}\"",
            if value.is_nan() {
                "NaN"
            } else if *value > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }
        )),
        Value::String(text) => out.push_str(&strings::quote(text.as_str())),
        Value::Bytes(bytes) => out.push_str(&format!("b{}", strings::quote(&String::from_utf8_lossy(bytes)))),
        Value::Timestamp(value) => out.push_str(&format!("timestamp(\"{value}\")")),
        Value::Duration(value) => out.push_str(&format!("duration(\"{}\")", duration_text(*value))),
        Value::Type(ty) => out.push_str(ty.runtime_name()),
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                nested(&item?, out, meter)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.entries() {
                let mut printed = String::new();
                nested(&key, &mut printed, meter)?;
                entries.push((printed, value?));
            }
            braces(entries, out, meter)?;
        }
        Value::Object(entries, object) => {
            let mut listed = Vec::new();
            for (property, json) in *entries {
                let value = match object.spelled(property) {
                    Some(field) => Value::declared(json, &field.declaration)?,
                    None => Value::from_json(json),
                };
                listed.push((strings::quote(property), value));
            }
            braces(listed, out, meter)?;
        }
        _ => return Err(EvalError::new(refusal('s', &arg.type_name()))),
    }
    Ok(())
}

fn braces(
    mut entries: Vec<(String, Value<'_>)>,
    out: &mut String,
    meter: &mut Meter<'_>,
) -> Result<(), EvalError> {
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    out.push('{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(key);
        out.push(':');
        nested(value, out, meter)?;
    }
    out.push('}');
    Ok(())
}

/// With thousands separated, as the American locale has it.
fn fixed(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞".into() } else { "-∞".into() };
    }
    let precision = precision % PRECISION_MODULUS;
    let text = format!("{:.precision$}", value.abs());
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{fraction}") }
}

/// With a typographic exponent, always six digits.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return fixed(value, 6);
    }
    let text = format!("{value:.6e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let raised: String = format!("{:02}", power.abs())
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            '9' => '⁹',
            _ => '⁰',
        })
        .collect();
    format!("{mantissa}×10{}{raised}", if power < 0 { "⁻" } else { "" })
}

/// What is wrong with a format of literals, before it runs: the
/// argument, unless it is the whole call, and the message.
pub(crate) fn check<'e>(
    format: &str,
    list: &'e Expr,
    ty: &dyn Fn(&Expr) -> Type,
) -> Option<(Option<&'e Expr>, String)> {
    let Kind::List(items) = &list.kind else { return None };
    let pieces = match pieces(format) {
        Ok(pieces) => pieces,
        Err(message) => return Some((None, message)),
    };
    let mut next = 0;
    for piece in pieces {
        let Piece::Clause { verb, .. } = piece else { continue };
        let Some(item) = items.get(next) else { return Some((None, format!("index {next} out of range"))) };
        next += 1;
        if let Some((place, given)) = refused(verb, &item.value, ty) {
            return Some((Some(place), format!("error during formatting: {}", refusal(verb, &given))));
        }
    }
    if next < items.len() {
        return Some((
            None,
            format!("too many arguments supplied to string.format (expected {next}, got {})", items.len()),
        ));
    }
    None
}

fn refused<'e>(verb: char, expr: &'e Expr, ty: &dyn Fn(&Expr) -> Type) -> Option<(&'e Expr, String)> {
    let of = ty(expr);
    let fine = match verb {
        's' => {
            if let Kind::List(items) = &expr.kind {
                return items.iter().find_map(|item| refused(verb, &item.value, ty));
            }
            if let Kind::Map(entries) = &expr.kind {
                return entries.iter().find_map(|entry| {
                    refused(verb, &entry.key, ty).or_else(|| refused(verb, &entry.value, ty))
                });
            }
            !matches!(of, Type::Object(_) | Type::Opaque(_) | Type::Optional(_))
        }
        'd' | 'o' => matches!(of, Type::Int | Type::Uint | Type::Dyn),
        'f' => {
            matches!(of, Type::Double | Type::Dyn)
                || matches!(&expr.kind, Kind::Literal(Literal::String(_)))
                || of == Type::String
        }
        'e' => matches!(of, Type::Double | Type::Dyn),
        'b' => matches!(of, Type::Int | Type::Uint | Type::Bool | Type::Dyn),
        _ => matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes | Type::Dyn),
    };
    let given = match &of {
        Type::Object(_) => of.to_string(),
        other => other.runtime_name().to_owned(),
    };
    (!fine).then_some((expr, given))
}
