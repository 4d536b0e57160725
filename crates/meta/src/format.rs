//! Forms that names and values must have, with upstream's texts.
//!
//! Each function returns what is wrong, nothing if all is well.

use std::net::{IpAddr, Ipv6Addr};

const DNS_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

pub type Problems = Vec<String>;

/// `example.com`
pub fn dns_subdomain(value: &str) -> Problems {
    dns_subdomain_measured_in(value, "characters")
}

fn dns_subdomain_measured_in(value: &str, unit: &str) -> Problems {
    let mut problems = at_most(value, 253, unit);
    if !is_dns_subdomain(value) {
        problems.push(format!("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{DNS_SUBDOMAIN}')"));
    }
    problems
}

/// `_sip._tcp.example.com`
pub fn dns_subdomain_with_underscore(value: &str) -> Problems {
    let mut problems = at_most(value, 253, "characters");
    let label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        encloses(label, is_lower_alphanumeric, |byte| {
            is_lower_alphanumeric(byte) || matches!(byte, b'-' | b'_')
        })
    };
    if !value.split('.').all(label) {
        problems.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')".into());
    }
    problems
}

/// `my-name`
pub fn dns_label(value: &str) -> Problems {
    let mut problems = at_most(value, 63, "characters");
    if !is_dns_label(value) {
        problems.push(if is_dns_subdomain(value) {
            "must not contain dots".into()
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".into()
        });
    }
    problems
}

/// `my-name`, beginning with a letter
pub fn dns1035_label(value: &str) -> Problems {
    let mut problems = at_most(value, 63, "characters");
    if !(is_dns_label(value) && value.starts_with(|first: char| first.is_ascii_lowercase())) {
        problems.push("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".into());
    }
    problems
}

/// `*.example.com`
pub fn wildcard_dns_subdomain(value: &str) -> Problems {
    let mut problems = at_most(value, 253, "characters");
    if !value.strip_prefix("*.").is_some_and(is_dns_subdomain) {
        problems.push(format!("a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.{DNS_SUBDOMAIN}')"));
    }
    problems
}

/// `name` or `example.com/name`: keys of labels and annotations
pub fn qualified_name(value: &str) -> Problems {
    let mut problems = Problems::new();
    let name = match value.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                let wrong = dns_subdomain_measured_in(prefix, "bytes");
                problems.extend(wrong.into_iter().map(|problem| format!("prefix part {problem}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".into());
    }
    if !is_qualified(name) {
        problems.push(format!("name part {QUALIFIED}"));
    }
    problems
}

pub fn label_value(value: &str) -> Problems {
    let mut problems = at_most(value, 63, "bytes");
    if !value.is_empty() && !is_qualified(value) {
        problems.push("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".into());
    }
    problems
}

pub fn c_identifier(value: &str) -> Problems {
    let fits = value.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    one_unless(
        fits,
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
    )
}

pub fn port_number(port: i64) -> Problems {
    one_unless((1..=65535).contains(&port), "must be between 1 and 65535, inclusive")
}

/// `http-alt`
pub fn port_name(value: &str) -> Problems {
    let mut problems = at_most(value, 15, "characters");
    let fits = !value.is_empty() && value.bytes().all(|byte| is_lower_alphanumeric(byte) || byte == b'-');
    let rules = [
        (fits, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (value.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (!value.contains("--"), "must not contain consecutive hyphens"),
        (!value.starts_with('-') && !value.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    problems.extend(rules.into_iter().filter(|(fits, _)| !fits).map(|(_, text)| text.to_owned()));
    problems
}

/// A user or group id
pub fn user_id(id: i64) -> Problems {
    one_unless((0..=2_147_483_647).contains(&id), "must be between 0 and 2147483647, inclusive")
}

/// `25%`
pub fn percent(value: &str) -> Problems {
    let digits = value.strip_suffix('%').unwrap_or_default();
    let fits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    one_unless(
        fits,
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
    )
}

pub fn http_header_name(value: &str) -> Problems {
    let fits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    one_unless(
        fits,
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
    )
}

/// The name of an environment variable
pub fn env_name(value: &str) -> Problems {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    let fits = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte) && byte != b'=');
    one_unless(
        fits,
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

/// A key of a ConfigMap or Secret
pub fn config_key(value: &str) -> Problems {
    let mut problems = at_most(value, 253, "characters");
    let fits = !value.is_empty()
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if !fits {
        problems.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".into());
    }
    match value {
        "." => problems.push("must not be '.'".into()),
        ".." => problems.push("must not be '..'".into()),
        value if value.starts_with("..") => problems.push("must not start with '..'".into()),
        _ => {}
    }
    problems
}

/// A name that stands in a URL
pub fn path_segment(value: &str) -> Problems {
    if matches!(value, "." | "..") {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_prefix(value)
}

/// What a name that stands in a URL may begin with
pub fn path_segment_prefix(value: &str) -> Problems {
    ['/', '%']
        .into_iter()
        .filter(|char| value.contains(*char))
        .map(|char| format!("may not contain '{char}'"))
        .collect()
}

/// An address, as lenient as fields that have always been so
pub fn ip_legacy(value: &str) -> Problems {
    match parse_ip(value) {
        None => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into()],
        Some(Parsed { leading_zeros: true, .. }) => vec!["must not have leading 0s".into()],
        Some(Parsed { address, .. }) => {
            one_unless(!is_mapped(address), "must not be an IPv4-mapped IPv6 address")
        }
    }
}

/// An address in the one form it has
pub fn ip_strict(value: &str) -> Problems {
    let problems = ip_legacy(value);
    match parse_ip(value) {
        Some(Parsed { address, .. }) if problems.is_empty() && address.to_string() != value => {
            vec![format!("must be in canonical form (\"{address}\")")]
        }
        _ => problems,
    }
}

pub fn cidr_legacy(value: &str) -> Problems {
    let Some((parsed, length, text)) = parse_cidr(value) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".into()];
    };
    let mut problems = Problems::new();
    if parsed.leading_zeros || (text.len() > 1 && text.starts_with('0')) {
        problems.push("must not have leading 0s in IP or prefix length".into());
    }
    if is_mapped(parsed.address) {
        problems.push("must not have an IPv4-mapped IPv6 address".into());
    }
    if network(parsed.address, length) != parsed.address {
        problems.push("must not have bits set beyond the prefix length".into());
    }
    problems
}

pub fn cidr_strict(value: &str) -> Problems {
    let problems = cidr_legacy(value);
    match parse_cidr(value) {
        Some((parsed, length, _)) if problems.is_empty() => {
            let canonical = format!("{}/{length}", parsed.address);
            let problem = format!("must be in canonical form (\"{canonical}\")");
            if canonical == value { problems } else { vec![problem] }
        }
        _ => problems,
    }
}

/// An address as Go's lenient parser reads it: IPv4 octets may have leading zeros.
#[derive(Debug, Clone, Copy)]
pub struct Parsed {
    pub address: IpAddr,
    pub leading_zeros: bool,
}

pub fn parse_ip(value: &str) -> Option<Parsed> {
    if let Ok(address) = value.parse() {
        return Some(Parsed { address, leading_zeros: false });
    }
    // Only octets with leading zeros are left to accept, alone or at the end of an IPv6 address.
    let (head, v4) = match value.rfind(':') {
        Some(colon) => value.split_at_checked(colon + 1)?,
        None => ("", value),
    };
    let octets: Vec<&str> = v4.split('.').collect();
    let plain: Option<Vec<String>> = octets
        .iter()
        .map(|octet| {
            let digits =
                !octet.is_empty() && octet.len() <= 3 && octet.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| octet.parse::<u16>().ok()).flatten().map(|number| number.to_string())
        })
        .collect();
    let address = format!("{head}{}", plain?.join(".")).parse().ok()?;
    Some(Parsed { address, leading_zeros: true })
}

fn parse_cidr(value: &str) -> Option<(Parsed, u8, &str)> {
    let (address, length_text) = value.split_once('/')?;
    let parsed = parse_ip(address)?;
    let digits = !length_text.is_empty() && length_text.bytes().all(|byte| byte.is_ascii_digit());
    let length: u8 = digits.then(|| length_text.parse().ok()).flatten()?;
    let most = if parsed.address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((parsed, length, length_text))
}

/// The address with all bits beyond the prefix cleared.
pub fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if Ipv6Addr::to_ipv4_mapped(&address).is_some())
}

/// `gateway.example.com`: at least three labels. `None` means it is empty, which is `Required`.
pub fn fully_qualified_name(value: &str) -> Option<Problems> {
    if value.is_empty() {
        return None;
    }
    let problems = dns_subdomain(value);
    if !problems.is_empty() {
        return Some(vec![problems.join(",")]);
    }
    let segments = value.split('.').count();
    Some(one_unless(segments >= 3, "should be a domain with at least three segments separated by dots"))
}

/// The reason of a condition
pub fn condition_reason(value: &str) -> Problems {
    let bytes = value.as_bytes();
    let body = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    let fits = match bytes {
        [first, .., last] => {
            first.is_ascii_alphabetic()
                && (last.is_ascii_alphanumeric() || *last == b'_')
                && bytes.iter().all(body)
        }
        [only] => only.is_ascii_alphabetic(),
        [] => false,
    };
    one_unless(
        fits,
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
    )
}

pub fn is_dns_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    encloses(label, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn is_qualified(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    encloses(name, |byte| byte.is_ascii_alphanumeric(), inner)
}

/// Non-empty, `edge` at both ends and `inner` all through.
fn encloses(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let edges = bytes.first().zip(bytes.last()).is_some_and(|(first, last)| edge(*first) && edge(*last));
    edges && bytes.iter().all(|byte| inner(*byte))
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn at_most(value: &str, most: usize, unit: &str) -> Problems {
    // Most are: no text is made for them.
    if value.len() <= most { Problems::new() } else { vec![format!("must be no more than {most} {unit}")] }
}

fn one_unless(fits: bool, problem: &str) -> Problems {
    if fits { Problems::new() } else { vec![problem.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_values_have_no_problems() {
        for (check, values) in [
            (dns_subdomain as fn(&str) -> Problems, &["a", "a-b.c1", "1"][..]),
            (dns_label, &["a", "a-b", "1a"]),
            (dns1035_label, &["a", "a-1"]),
            (wildcard_dns_subdomain, &["*.a.b"]),
            (qualified_name, &["a", "A.b_c-1", "x.y/z"]),
            (label_value, &["", "a", "A_b.c-1"]),
            (port_name, &["http", "a-1"]),
            (config_key, &["a.b", "...x", "_"]),
            (path_segment, &["a b", ""]),
            (ip_strict, &["10.0.0.1", "2001:db8::1"]),
            (cidr_strict, &["10.0.0.0/24", "::/0"]),
            (ip_legacy, &["2001:DB8:0::1"]),
        ] {
            for value in values {
                if *value == "...x" {
                    assert_eq!(check(value), ["must not start with '..'"]);
                    continue;
                }
                assert_eq!(check(value), Problems::new(), "{value}");
            }
        }
    }

    #[test]
    fn bad_values_have_upstreams_texts() {
        let long = "a".repeat(254);
        for (found, expected) in [
            (dns_label("a.b"), "must not contain dots"),
            (dns_subdomain(&long), "must be no more than 253 characters"),
            (qualified_name("/a"), "prefix part must be non-empty"),
            (label_value(&"a".repeat(64)), "must be no more than 63 bytes"),
            (port_name("1"), "must contain at least one letter (a-z)"),
            (path_segment(".."), "may not be '..'"),
            (path_segment("a%"), "may not contain '%'"),
            (ip_legacy("x"), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            (ip_legacy("010.0.0.1"), "must not have leading 0s"),
            (ip_legacy("::ffff:1.2.3.4"), "must not be an IPv4-mapped IPv6 address"),
            (ip_strict("2001:DB8::1"), "must be in canonical form (\"2001:db8::1\")"),
            (cidr_legacy("10.0.0.1/24"), "must not have bits set beyond the prefix length"),
            (cidr_legacy("10.0.0.0/33"), "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            (cidr_legacy("10.0.0.0/08"), "must not have leading 0s in IP or prefix length"),
            (user_id(-1), "must be between 0 and 2147483647, inclusive"),
        ] {
            assert!(found.contains(&expected.to_owned()), "{found:?} {expected}");
        }
        assert_eq!(qualified_name("").len(), 2);
        assert_eq!(port_name("").len(), 2);
        assert_eq!(fully_qualified_name(""), None);
    }
}
