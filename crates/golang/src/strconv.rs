//! Texts as `strconv` quotes them, and truth values and numbers as it reads them.

use std::{
    fmt::Write,
    num::{IntErrorKind, ParseIntError},
};

use crate::printable::TURNS;

/// Quotes as Go's `%q` does.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            char if is_go_printable(char) => out.push(char),
            char if u32::from(char) < 0x80 => {
                let _ = write!(out, "\\x{:02x}", u32::from(char));
            }
            char if u32::from(char) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => {
                let _ = write!(out, "\\U{:08x}", u32::from(char));
            }
        }
    }
    out.push('"');
    out
}

/// A list of texts as `%q` prints it: `["a" "b"]`.
pub fn go_quote_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// Letters, marks, numbers, punctuation and symbols that Unicode has, as far as Go knows; of spaces only
/// U+0020.
pub fn is_go_printable(char: char) -> bool {
    // Printable from each turn of even index to the next.
    TURNS.partition_point(|turn| *turn <= u32::from(char)) % 2 == 1
}

/// Why a text is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberError {
    Syntax,
    Range,
}

impl From<ParseIntError> for NumberError {
    fn from(error: ParseIntError) -> Self {
        match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Self::Range,
            _ => Self::Syntax,
        }
    }
}

impl NumberError {
    /// What `strconv` says; `function` is the one that was called, such as `ParseInt`.
    pub fn text(self, function: &str, value: &str) -> String {
        let problem = match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        };
        format!("strconv.{function}: parsing {}: {problem}", go_quote(value))
    }
}

/// `ParseBool`.
pub fn parse_bool(text: &str) -> Result<bool, NumberError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(NumberError::Syntax),
    }
}

/// `ParseInt` of any base: `8080`, `0x1f90`, `0o17`, `017`, `1_000`.
pub fn parse_int(value: &str) -> Result<i64, NumberError> {
    let (negative, digits) = match value.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, value.strip_prefix('+').unwrap_or(value)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..)),
        [b'0', b'o', ..] => (8, lower.get(2..)),
        [b'0', b'b', ..] => (2, lower.get(2..)),
        [b'0', _, ..] => (8, lower.get(1..)),
        _ => (10, lower.get(..)),
    };
    let digits = digits.unwrap_or_default();
    if digits.starts_with(['+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return Err(NumberError::Syntax);
    }
    let digits = digits.replace('_', "");
    let number = i128::from_str_radix(&digits, radix)?;
    i64::try_from(if negative { -number } else { number }).map_err(|_| NumberError::Range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printable::COUNTS;

    #[test]
    fn what_is_printable_is_what_go_says() {
        let counts: Vec<usize> = (0..=16_u32)
            .map(|plane| {
                let chars = (plane << 16..(plane + 1) << 16).filter_map(char::from_u32);
                chars.filter(|char| is_go_printable(*char)).count()
            })
            .collect();
        assert_eq!(counts, COUNTS);
        // As `%q` of Go 1.26 has them: not assigned, for private use, of no width, and others.
        for (text, expected) in [
            (" a\u{e9}\u{4e16}\u{1f600}", "\" a\u{e9}\u{4e16}\u{1f600}\""),
            ("\u{378}\u{530}\u{ffff}", r#""\u0378\u0530\uffff""#),
            ("\u{1fbff}\u{e0001}\u{10ffff}", r#""\U0001fbff\U000e0001\U0010ffff""#),
            ("\u{e000}\u{f0000}", r#""\ue000\U000f0000""#),
            ("\u{a0}\u{ad}\u{200b}\u{2028}\u{3000}\u{feff}", r#""\u00a0\u00ad\u200b\u2028\u3000\ufeff""#),
            ("\u{7f}\u{85}\u{0}", r#""\x7f\u0085\x00""#),
            ("\u{301}\u{e0100}\u{fffd}", "\"\u{301}\u{e0100}\u{fffd}\""),
        ] {
            assert_eq!(go_quote(text), expected);
        }
    }

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, expected) in [
            ("plain é", "\"plain é\""),
            ("a\u{0}b\u{7f}", r#""a\x00b\x7f""#),
            ("tab\t\u{7}", r#""tab\t\a""#),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("\\", r#""\\""#),
        ] {
            assert_eq!(go_quote(text), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("8080", Ok(8080)),
            ("-1", Ok(-1)),
            ("+5", Ok(5)),
            ("0x1BB", Ok(443)),
            ("010", Ok(8)),
            ("0o10", Ok(8)),
            ("0b11", Ok(3)),
            ("1_000", Ok(1000)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("9223372036854775808", Err(NumberError::Range)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("", Err(NumberError::Syntax)),
            ("--1", Err(NumberError::Syntax)),
            ("0x", Err(NumberError::Syntax)),
            ("08", Err(NumberError::Syntax)),
            ("1__0", Err(NumberError::Syntax)),
            ("é", Err(NumberError::Syntax)),
        ] {
            assert_eq!(parse_int(text), expected, "{text:?}");
        }
    }
}
