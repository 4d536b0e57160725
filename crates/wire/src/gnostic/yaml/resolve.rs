//! What an unquoted YAML scalar means.

use serde_json::Value;
use sternpost_golang::time::days_in;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    /// `None` if JSON has no such number: not finite, or a float out of range.
    Number(Option<Value>),
    /// A date; in JSON, a string.
    Timestamp,
    Text,
}

/// YAML 1.2 core schema with the 1.1 leftovers that go-yaml keeps: underscores
/// in numbers, `0b`/`0o`/leading-zero integers, dates.
pub(super) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Scalar::Number(None),
        _ => {}
    }
    match text.as_bytes().first() {
        Some(b'.') if underscores_separate_digits(text) => {
            float(&text.replace('_', "")).map_or(Scalar::Text, Scalar::Number)
        }
        Some(b'+' | b'-' | b'0'..=b'9') => {
            if is_timestamp(text) {
                return Scalar::Timestamp;
            }
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| float(&plain)).map_or(Scalar::Text, Scalar::Number)
        }
        _ => Scalar::Text,
    }
}

fn underscores_separate_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    bytes.iter().enumerate().all(|(at, b)| *b != b'_' || digit(at.checked_sub(1)) && digit(Some(at + 1)))
}

fn integer(text: &str) -> Option<Option<Value>> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..)?),
        Some(b'+') => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, digits.get(2..)?),
        Some("0o" | "0O") => (8, digits.get(2..)?),
        Some("0b" | "0B") => (2, digits.get(2..)?),
        Some(head) if head.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // The standard parser would take a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    let value = if negative {
        Value::from(0_i64.checked_sub_unsigned(magnitude)?)
    } else if text.starts_with('+') && i64::try_from(magnitude).is_err() {
        return None;
    } else {
        Value::from(magnitude)
    };
    Some(Some(value))
}

/// Decimal digits with an optional sign, point and exponent.
fn float(text: &str) -> Option<Option<Value>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (unsigned.get(..at)?, unsigned.get(at + 1..)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        !text.is_empty() && digits(text)
    });
    if !mantissa_fits || !exponent_fits {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // Out of range is text to go-yaml, too.
    value.is_finite().then(|| serde_json::Number::from_f64(value).map(Value::Number))
}

/// `2006-1-2`, `2006-1-2 15:4:5[.9]` or `2006-1-2T15:4:5[.9]ZONE`, of an
/// existing day.
fn is_timestamp(text: &str) -> bool {
    timestamp(text).is_some()
}

fn timestamp(text: &str) -> Option<()> {
    let (year, rest) = (text.get(..4)?, text.get(4..)?);
    if !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let year: u32 = year.parse().ok()?;
    let (month, rest) = short(rest.strip_prefix('-')?)?;
    let (day, rest) = short(rest.strip_prefix('-')?)?;
    if !(1..=12).contains(&month) || day < 1 || i64::from(day) > days_in(year.into(), month.into()) {
        return None;
    }
    if rest.is_empty() {
        return Some(());
    }
    let zoned = match rest.as_bytes().first()? {
        b'T' | b't' => true,
        b' ' => false,
        _ => return None,
    };
    let (hour, rest) = short(rest.get(1..)?)?;
    let (minute, rest) = short(rest.strip_prefix(':')?)?;
    let (second, mut rest) = short(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        rest = fraction.get(digits..)?;
    }
    let zone = rest.as_bytes();
    match (zoned, zone) {
        (false, []) | (true, b"Z") => Some(()),
        (true, [b'+' | b'-', h1, h2, b':', m1, m2]) => {
            let number = |a: &u8, b: &u8| {
                (a.is_ascii_digit() && b.is_ascii_digit()).then(|| (a - b'0') * 10 + (b - b'0'))
            };
            (number(h1, h2)? <= 24 && number(m1, m2)? < 60).then_some(())
        }
        _ => None,
    }
}

/// One or two digits.
fn short(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_scalars_mean_what_go_yaml_says() {
        let number = |value: Value| Scalar::Number(Some(value));
        for (text, expected) in [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("nil", Scalar::Text),
            ("True", Scalar::Bool(true)),
            ("yes", Scalar::Text),
            ("12", number(12.into())),
            ("-12", number((-12).into())),
            ("1_000", number(1000.into())),
            ("0x1f", number(31.into())),
            ("010", number(8.into())),
            ("08", number(8.0.into())),
            ("0b11", number(3.into())),
            ("0o17", number(15.into())),
            ("0", number(0.into())),
            ("+-1", Scalar::Text),
            ("1.5e3", number(1500.0.into())),
            (".5", number(0.5.into())),
            (".", Scalar::Text),
            (".5_0", number(0.5.into())),
            (".5_", Scalar::Text),
            ("._5", Scalar::Text),
            ("1e999", Scalar::Text),
            ("1.2.3", Scalar::Text),
            (".inf", Scalar::Number(None)),
            ("18446744073709551615", number(u64::MAX.into())),
            ("2024-02-29", Scalar::Timestamp),
            ("2023-02-29", Scalar::Text),
            ("2024-1-2T3:4:5Z", Scalar::Timestamp),
            ("2024-01-02T03:04:05.6+01:00", Scalar::Timestamp),
            ("2024-01-02T03:04:05", Scalar::Text),
            ("2024-01-02 03:04:05", Scalar::Timestamp),
            ("1:30", Scalar::Text),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
    }
}
