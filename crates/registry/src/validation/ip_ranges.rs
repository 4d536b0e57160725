//! Addresses and the ranges they may not come from.

use std::net::IpAddr;

use sternpost_meta::{
    field::{Errors, Path},
    format::{network, parse_ip},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    IPv4,
    IPv6,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
        }
    }

    pub fn of(address: IpAddr) -> Self {
        // Go counts ::ffff:1.2.3.4 as IPv4.
        if address.to_canonical().is_ipv4() { Self::IPv4 } else { Self::IPv6 }
    }
}

pub fn family_of_ip(text: &str) -> Option<Family> {
    parse_ip(text).map(|parsed| Family::of(parsed.address))
}

pub fn family_of_cidr(text: &str) -> Option<Family> {
    parse_cidr(text).map(|(address, _)| Family::of(address))
}

/// Network address and prefix length; bits beyond the prefix are cleared.
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address = parse_ip(address)?.address;
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u8 = digits.then(|| length.parse().ok()).flatten()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then(|| (network(address, length), length))
}

/// Whether the address is of the range.
pub fn contains(range: (IpAddr, u8), address: IpAddr) -> bool {
    range.0.is_ipv4() == address.is_ipv4() && network(address, range.1) == range.0
}

/// Traffic must not be steered to the machine itself or its links.
pub fn validate_non_special(text: &str, path: Path<'_>, errors: &mut Errors) {
    let Some(parsed) = parse_ip(text) else {
        errors.invalid(path, text, "must be a valid IP address");
        return;
    };
    let address = parsed.address.to_canonical();
    if address.is_unspecified() {
        errors.invalid(path, text, &format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(address) => {
            let [first, second, ..] = address.octets();
            (first == 0xfe && second & 0xc0 == 0x80, first == 0xff && second & 0x0f == 0x02)
        }
    };
    if link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        let range = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.invalid(path, text, range);
    }
}

/// What to warn of in an address that is understood but not written as it should be.
pub fn ip_warning(text: &str, path: impl std::fmt::Display) -> Option<String> {
    let parsed = parse_ip(text)?;
    let canonical = parsed.address.to_canonical().to_string();
    if parsed.leading_zeros || parsed.address.to_canonical() != parsed.address {
        let text = format!("{path}: non-standard IP address \"{text}\" is invalid: use \"{canonical}\"");
        return Some(text);
    }
    (canonical != text).then(|| {
        format!("{path}: IPv6 address \"{text}\" should be in RFC 5952 canonical format (\"{canonical}\")")
    })
}

/// As [`ip_warning`], for a range of IPv6 addresses.
pub fn cidr_warning(text: &str, path: impl std::fmt::Display) -> Option<String> {
    let (address, length) = parse_cidr(text).filter(|(address, _)| address.is_ipv6())?;
    let canonical = format!("{address}/{length}");
    (canonical != text).then(|| {
        format!("{path}: IPv6 CIDR value \"{text}\" should be in RFC 5952 canonical format (\"{canonical}\")")
    })
}
