//! The string formats that schemas can ask for.

use crate::pattern::Pattern;
use std::{net::IpAddr, sync::OnceLock};
use sternpost_golang::{duration, time::Timestamp};
use sternpost_meta::format as names;

/// Every format of the newest server, checked or not.
const KNOWN: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "double",
    "duration",
    "email",
    "float",
    "hexcolor",
    "hostname",
    "int32",
    "int64",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether the server knows the format for a type; of others it warns. Without a type any will do.
pub fn is_known(kind: &str, format: &str) -> bool {
    let format = normal(format);
    let is_numeric = matches!(format.as_str(), "double" | "float" | "int32" | "int64");
    let fits = match kind {
        "" => true,
        "string" => !is_numeric,
        "integer" => matches!(format.as_str(), "int32" | "int64"),
        "number" => is_numeric,
        _ => false,
    };
    fits && KNOWN.contains(&format.as_str())
}

/// Whether the format says anything about a string.
pub fn is_checked(format: &str) -> bool {
    is_known("string", format)
}

/// Whether a string is of the format; everything is of a format that is not checked.
pub fn fits(format: &str, text: &str) -> bool {
    match normal(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "date-time" | "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => matches(&HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text),
        "hostname" => is_hostname(text),
        "ipv4" => names::parse_ip(text).is_some_and(|ip| ip.address.is_ipv4() && !text.contains(':')),
        "ipv6" => text.contains(':') && text.parse::<IpAddr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8s-long-name" => names::dns_subdomain(text).is_empty(),
        "k8s-short-name" => names::dns_label(text).is_empty(),
        "mac" => is_mac(text),
        "rgbcolor" => matches(&RGB_COLOR, RGB_PATTERN, text),
        "ssn" => matches(&SSN, r"^\d{3}[- ]\d{2}[- ]\d{4}$", text),
        "uri" => is_uri(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        _ => true,
    }
}

/// Dashes do not count in the name of a format, but for those of Kubernetes' own.
fn normal(format: &str) -> String {
    match format {
        "date-time" | "k8s-long-name" | "k8s-short-name" => format.to_owned(),
        other => other.replace('-', ""),
    }
}

static HEX_COLOR: OnceLock<Option<Pattern>> = OnceLock::new();
static RGB_COLOR: OnceLock<Option<Pattern>> = OnceLock::new();
static SSN: OnceLock<Option<Pattern>> = OnceLock::new();
static DURATION: OnceLock<Option<Pattern>> = OnceLock::new();

const RGB_PATTERN: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])\s*\)$";

fn matches(cell: &OnceLock<Option<Pattern>>, pattern: &str, text: &str) -> bool {
    cell.get_or_init(|| Pattern::compile(pattern).ok())
        .as_ref()
        .is_some_and(|compiled| compiled.is_match(text))
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(alphabet)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|char| char.to_digit(10)).collect();
    if !(13..=19).contains(&digits.len())
        || text.chars().any(|char| !char.is_ascii_digit() && !matches!(char, '-' | ' '))
    {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match digit * (1 + (index as u32 % 2)) {
            large @ 10.. => large - 9,
            small => small,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && Timestamp::parse_time(&format!("{text}T00:00:00Z")).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    // A date alone is none, and the parts are joined by a T.
    upper.as_bytes().get(10) == Some(&b'T') && Timestamp::parse_time(&upper).is_ok()
}

/// Go's durations, and numbers with the longer names of units: `3 weeks`.
fn is_duration(text: &str) -> bool {
    duration::parse(text).is_ok()
        || is_iso_duration(text)
        || matches(
            &DURATION,
            r"(?i)^\s*((\d+)\s*(nanoseconds|nanosecond|nanos|nano|ns|microseconds|microsecond|micros|micro|us|µs|milliseconds|millisecond|millis|milli|ms|seconds|second|secs|sec|s|minutes|minute|mins|min|m|hours|hour|hrs|hr|h|days|day|d|weeks|week|wks|wk|w)\s*)+$",
            text,
        )
}

fn is_iso_duration(text: &str) -> bool {
    static ISO: OnceLock<Option<Pattern>> = OnceLock::new();
    text.len() > 1
        && !text.ends_with('T')
        && matches(&ISO, r"^P(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?)$", text)
}

/// An address as mail headers have them, with or without a name.
fn is_email(text: &str) -> bool {
    let address = match text.strip_suffix('>') {
        Some(inner) => inner.rsplit_once('<').map_or("", |(_, address)| address),
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|piece| {
                !piece.is_empty()
                    && piece.chars().all(|char| {
                        char.is_alphanumeric() || !char.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(char)
                    })
            })
    };
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || atom(local)) && (atom(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

/// Labels of letters, digits and dashes; the last has at least two letters and no digits.
fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let label = |label: &&str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|char| char.is_alphanumeric() || char == '-')
    };
    let last_fits = |last: &&str| last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
    text.len() <= 255
        && labels.iter().all(label)
        && (labels.len() == 1 || labels.last().is_some_and(last_fits))
}

fn isbn_digits(text: &str) -> Vec<u32> {
    text.chars()
        .filter(|char| !matches!(char, '-' | ' '))
        .map(|char| if char == 'X' { 10 } else { char.to_digit(10).unwrap_or(99) })
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let x_is_last = digits.iter().take(9).all(|digit| *digit < 10);
    let sum: u32 = (1..).zip(&digits).map(|(place, digit)| place * digit).sum();
    digits.len() == 10 && digits.iter().all(|digit| *digit <= 10) && x_is_last && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let sum: u32 =
        digits.iter().enumerate().map(|(index, digit)| digit * if index % 2 == 0 { 1 } else { 3 }).sum();
    digits.len() == 13 && digits.iter().all(|digit| *digit < 10) && sum.is_multiple_of(10)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, size: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts
                .iter()
                .all(|part| part.len() == size && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

/// What Go's `url.ParseRequestURI` takes: an absolute URI, or a path.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if let Some(path) = text.strip_prefix('/') {
        return escapes_fit(path.split('?').next().unwrap_or_default());
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme_fits = scheme.starts_with(|char: char| char.is_ascii_alphabetic())
        && scheme.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.'));
    if !scheme_fits || rest.is_empty() {
        return scheme_fits && !text.contains(' ');
    }
    let before_query = rest.split('?').next().unwrap_or_default();
    match before_query.strip_prefix("//") {
        None => escapes_fit(before_query),
        Some(rest) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            let host_fits = match host.strip_prefix('[') {
                Some(bracketed) => bracketed.contains(']'),
                None => {
                    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
                    !name.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
                        && port.bytes().all(|byte| byte.is_ascii_digit())
                }
            };
            host_fits && escapes_fit(path)
        }
    }
}

/// Every percent sign begins two hexadecimal digits.
fn escapes_fit(text: &str) -> bool {
    text.split('%').skip(1).all(|part| {
        let mut bytes = part.bytes();
        let hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
        hex(bytes.next()) && hex(bytes.next())
    })
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let bytes = text.as_bytes();
    let dashed = bytes.len() == 36;
    let digits: Vec<u8> = bytes
        .iter()
        .enumerate()
        .filter(|(index, byte)| !(dashed && matches!(index, 8 | 13 | 18 | 23) && **byte == b'-'))
        .map(|(_, byte)| byte.to_ascii_lowercase())
        .collect();
    let variant = matches!(digits.get(16), Some(b'8' | b'9' | b'a' | b'b'));
    digits.len() == 32
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|wanted| digits.get(12) == Some(&wanted) && (wanted == b'3' || variant))
}
