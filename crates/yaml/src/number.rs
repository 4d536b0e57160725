//! Numbers as Go's `strconv` and `encoding/json` read and write them.

use serde_json::{Number, Value};

/// From here on `encoding/json` writes a float with an exponent.
const FIRST_WITH_EXPONENT: f64 = 1e21;

/// An integer of up to 64 bits: decimal, `0x`, `0o`, `0b`, or octal after `0`;
/// after `0b` a sign may stand, which upstream's own binary fallback lets in.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let unsigned = text == digits;
    let prefixed = |lower, upper| digits.strip_prefix(lower).or_else(|| digits.strip_prefix(upper));
    let magnitude = if let Some(hex) = prefixed("0x", "0X") {
        magnitude(hex, 16)?
    } else if let Some(octal) = prefixed("0o", "0O") {
        magnitude(octal, 8)?
    } else if let Some(binary) = prefixed("0b", "0B") {
        match signed_binary(text) {
            Some(value) => return Some(value),
            None => magnitude(binary, 2)?,
        }
    } else if digits.len() > 1 && digits.starts_with('0') {
        magnitude(digits, 8)?
    } else {
        magnitude(digits, 10)?
    };
    let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    let fits = i64::try_from(value).is_ok() || (unsigned && u64::try_from(value).is_ok());
    fits.then_some(value)
}

fn magnitude(digits: &str, radix: u32) -> Option<u64> {
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// `0b-1` and `0b+1`.
fn signed_binary(text: &str) -> Option<i128> {
    let digits = text.strip_prefix("0b")?;
    if !digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(digits, 2).ok().map(i128::from)
}

/// A decimal float: optional sign, digits with at most one point, optional
/// exponent. Too large for a float counts as no number, as in Go.
pub(crate) fn float(text: &str) -> Option<f64> {
    // Rust also takes `inf` and `nan`, which are words here.
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    if !text.chars().all(numeric) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The underscores Go allows in a float: between two digits.
pub(crate) fn float_with_underscores(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let between_digits = bytes.iter().enumerate().filter(|(_, b)| **b == b'_').all(|(at, _)| {
        let digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
        digit(at.checked_sub(1)) && digit(at.checked_add(1))
    });
    if between_digits { float(&text.replace('_', "")) } else { None }
}

/// An integer that [`integer`] gave.
pub(crate) fn integer_value(value: i128) -> Value {
    match i64::try_from(value) {
        Ok(value) => value.into(),
        Err(_) => u64::try_from(value).map_or(Value::Null, Value::from),
    }
}

/// What the text that `encoding/json` writes for a float reads back as: a
/// whole number below 10^21 has neither point nor exponent there. `None` for
/// what JSON cannot say.
pub(crate) fn float_value(value: f64) -> Option<Value> {
    let whole = value.fract() == 0.0 && value.abs() < FIRST_WITH_EXPONENT;
    if whole && !(value == 0.0 && value.is_sign_negative()) {
        // The shortest digits, padded with zeros: Go's and Rust's text agree.
        let text = value.to_string();
        let number = text.parse().map(i64::into).ok().or_else(|| text.parse().map(u64::into).ok());
        if let Some(number) = number {
            return Some(Value::Number(number));
        }
    }
    Number::from_f64(value).map(Value::Number)
}

/// A float as a key: Go's `FormatFloat(value, 'g', -1, 32)`, infinities and
/// NaN by their YAML names.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn float_key(value: f64) -> String {
    let single = value as f32;
    if single.is_nan() {
        return ".nan".to_owned();
    }
    if single.is_infinite() {
        return if single > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{single:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        single.to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
    }
}
