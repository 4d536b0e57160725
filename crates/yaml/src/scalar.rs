//! The type of a scalar: go-yaml v2's reading of YAML 1.1.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::error::Problem;
use crate::parse::Scalar;
use crate::{number, timestamp};

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// Go's `StdEncoding`: padding is required, loose bits in the last character
/// are not looked at.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
}

impl Resolved {
    pub(crate) fn into_value(self) -> Result<Value, Problem> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Integer(value) => number::integer_value(value),
            Self::Float(value) => {
                number::float_value(value).ok_or_else(|| Problem::NotInJson(number::float_key(value)))?
            }
            Self::Text(text) => text.into(),
        })
    }

    pub(crate) fn into_key(self) -> Result<String, Problem> {
        match self {
            Self::Null => Err(Problem::UnsupportedKey("null")),
            Self::Bool(value) => Ok(value.to_string()),
            Self::Integer(value) if value > i128::from(i64::MAX) => {
                Err(Problem::UnsupportedKey("an integer of 2^63 or more"))
            }
            Self::Integer(value) => Ok(value.to_string()),
            Self::Float(value) => Ok(number::float_key(value)),
            Self::Text(text) => Ok(text),
        }
    }
}

/// The type yaml.v3 gives an untagged plain scalar: YAML 1.2's words, YAML
/// 1.1's numbers, and dates. `None` stands for text.
pub(crate) fn plain_v3(text: &str) -> Option<Resolved> {
    let may_mean_more = |first: u8| {
        matches!(first, b'0'..=b'9' | b'+' | b'-' | b'.' | b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F')
    };
    match text {
        "" => return Some(Resolved::Null),
        _ if !text.bytes().next().is_some_and(may_mean_more) => return None,
        "~" | "null" | "Null" | "NULL" => return Some(Resolved::Null),
        "true" | "True" | "TRUE" => return Some(Resolved::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Resolved::Bool(false)),
        _ => {}
    }
    if !text.starts_with(|char: char| char.is_ascii_digit() || matches!(char, '+' | '-' | '.')) {
        return None;
    }
    match plain(text) {
        Resolved::Text(_) => None,
        resolved => Some(resolved),
    }
}

pub(crate) fn is_merge_key(scalar: &Scalar) -> bool {
    let tagged = || scalar.tag.as_deref().and_then(core_tag) == Some("merge");
    scalar.text == "<<" && (scalar.implicit || tagged())
}

pub(crate) fn resolve(scalar: &Scalar) -> Result<Resolved, Problem> {
    let text = scalar.text.as_str();
    let Some(tag) = scalar.tag.as_deref() else {
        return Ok(if scalar.implicit { plain(text) } else { Resolved::Text(text.to_owned()) });
    };
    let mismatch = |tag| Err(Problem::TagMismatch { tag, text: text.to_owned() });
    match core_tag(tag) {
        Some("null") => match plain(text) {
            Resolved::Null => Ok(Resolved::Null),
            _ => mismatch("!!null"),
        },
        Some("bool") => match plain(text) {
            Resolved::Bool(value) => Ok(Resolved::Bool(value)),
            _ => mismatch("!!bool"),
        },
        Some("int") => match plain(text) {
            Resolved::Integer(value) => Ok(Resolved::Integer(value)),
            _ => mismatch("!!int"),
        },
        Some("float") => match plain(text) {
            Resolved::Float(value) => Ok(Resolved::Float(value)),
            #[allow(clippy::cast_precision_loss)]
            Resolved::Integer(value) if i64::try_from(value).is_ok() => Ok(Resolved::Float(value as f64)),
            _ => mismatch("!!float"),
        },
        Some("timestamp") if !timestamp::is_timestamp(text) => mismatch("!!timestamp"),
        Some("binary") => binary(text).map(Resolved::Text),
        // `!!str`, `!!timestamp`, and every tag with no meaning here.
        _ => Ok(Resolved::Text(text.to_owned())),
    }
}

/// Whether a text without tag and quotes reads back as itself, for go-yaml and
/// for readers of YAML 1.1 that know numbers of base 60.
pub(crate) fn reads_as_text(text: &str) -> bool {
    let may_mean_more = |first: u8| {
        matches!(
            first,
            b'0'..=b'9'
                | b'+'
                | b'-'
                | b'.'
                | b'~'
                | b'y'
                | b'Y'
                | b'n'
                | b'N'
                | b't'
                | b'T'
                | b'f'
                | b'F'
                | b'o'
                | b'O'
        )
    };
    match text.as_bytes().first() {
        None => false,
        Some(first) if !may_mean_more(*first) => true,
        Some(_) => {
            matches!(plain(text), Resolved::Text(_)) && !timestamp::is_timestamp(text) && !is_base_60(text)
        }
    }
}

/// `1:20:30.5`
fn is_base_60(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let of_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let (mut count, mut below_60) = (0, true);
    for part in parts {
        count += 1;
        below_60 &= matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    }
    count > 0
        && below_60
        && first.starts_with(|char: char| char.is_ascii_digit())
        && of_digits(first)
        && of_digits(fraction)
}

pub(crate) fn core_tag(tag: &str) -> Option<&str> {
    tag.strip_prefix(TAG_PREFIX)
}

/// The type an untagged plain scalar has by its text.
fn plain(text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Resolved::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Resolved::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Resolved::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Resolved::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'.') => number::float_with_underscores(text).map(Resolved::Float),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            // Here underscores may stand anywhere, and count for nothing.
            let digits = text.replace('_', "");
            number::integer(&digits)
                .map(Resolved::Integer)
                .or_else(|| number::float(&digits).map(Resolved::Float))
        }
        _ => None,
    };
    number.unwrap_or_else(|| Resolved::Text(text.to_owned()))
}

pub(crate) fn binary(text: &str) -> Result<String, Problem> {
    let digits: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = BASE64.decode(digits).map_err(|_| Problem::InvalidBase64)?;
    // `encoding/json` writes U+FFFD for each byte that is not UTF-8, where
    // `from_utf8_lossy` may write one for several.
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(decoded)
}
