//! Durations as Go reads and writes them.

use std::fmt;

use crate::strconv::go_quote;

/// Why a text is no duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    Invalid(String),
    MissingUnit(String),
    UnknownUnit { unit: String, text: String },
}

impl fmt::Display for DurationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => write!(formatter, "invalid duration {}", go_quote(text)),
            Self::MissingUnit(text) => write!(formatter, "missing unit in duration {}", go_quote(text)),
            Self::UnknownUnit { unit, text } => {
                write!(formatter, "unknown unit {} in duration {}", go_quote(unit), go_quote(text))
            }
        }
    }
}

impl std::error::Error for DurationError {}

/// Nanoseconds of a duration: `1h30m`, `1.5s`, `-20ms`, `0`.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.split_at_checked(1) {
        Some(("-", rest)) => (true, rest),
        Some(("+", rest)) => (false, rest),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = take(&mut rest, |char| char.is_ascii_digit());
        let mut decimals = "";
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            decimals = take(&mut rest, |char| char.is_ascii_digit());
        }
        if whole.is_empty() && decimals.is_empty() {
            return Err(invalid());
        }
        let unit = match take(&mut rest, |char| char != '.' && !char.is_ascii_digit()) {
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            unit => return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() }),
        };
        let part = nanoseconds(whole, decimals, unit).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63).ok_or_else(invalid)?;
    }
    let signed = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    signed.ok_or_else(invalid)
}

/// A duration as Go prints it.
pub fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(size, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(size, 1_000_000)),
        _ => {
            let seconds = decimal(size % 60_000_000_000, 1_000_000_000);
            let minutes = size / 60_000_000_000;
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Takes the longest beginning whose characters all are as wanted.
fn take<'a>(rest: &mut &'a str, wanted: impl Fn(char) -> bool) -> &'a str {
    let end = rest.find(|char| !wanted(char)).unwrap_or(rest.len());
    let (taken, after) = rest.split_at(end);
    *rest = after;
    taken
}

fn nanoseconds(whole: &str, decimals: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits past the eighteenth are below any unit's nanosecond.
    let decimals = decimals.get(..decimals.len().min(18))?;
    let mut part = u128::from(whole) * u128::from(unit);
    if !decimals.is_empty() {
        let power = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
        part += decimals.parse::<u128>().ok()? * u128::from(unit) / power;
    }
    u64::try_from(part).ok()
}

fn decimal(value: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spelled_as_in_go() {
        for (text, nanos, printed) in [
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("0s", 0, "0s"),
            ("1ns", 1, "1ns"),
            ("1.5us", 1_500, "1.5µs"),
            ("1.5\u{b5}s", 1_500, "1.5µs"),
            ("1.5\u{3bc}s", 1_500, "1.5µs"),
            ("20ms", 20_000_000, "20ms"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("90m", 5_400_000_000_000, "1h30m0s"),
            ("1.h", 3_600_000_000_000, "1h0m0s"),
            ("-1.25s", -1_250_000_000, "-1.25s"),
            ("+.5s", 500_000_000, "500ms"),
            ("0.3333333333333333333333s", 333_333_333, "333.333333ms"),
            ("61.000000001s", 61_000_000_001, "1m1.000000001s"),
            ("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(parse(text), Ok(nanos), "{text}");
            assert_eq!(format(nanos), printed, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_told_in_the_words_of_go() {
        for (text, expected) in [
            ("", r#"invalid duration """#),
            ("-", r#"invalid duration "-""#),
            ("s", r#"invalid duration "s""#),
            (".s", r#"invalid duration ".s""#),
            ("1", r#"missing unit in duration "1""#),
            ("1..s", r#"missing unit in duration "1..s""#),
            ("1x", r#"unknown unit "x" in duration "1x""#),
            ("1 s", r#"unknown unit " s" in duration "1 s""#),
            ("1s ", r#"unknown unit "s " in duration "1s ""#),
            ("1d2h", r#"unknown unit "d" in duration "1d2h""#),
            ("9223372036854775808h", r#"invalid duration "9223372036854775808h""#),
            ("2562047h47m16.854775808s", r#"invalid duration "2562047h47m16.854775808s""#),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
    }
}
