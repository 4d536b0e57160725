//! IP addresses and networks, read by the rules of Go's `netip`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use sternpost_golang::strconv::go_quote;

use crate::{
    estimate::{self, Operands, scaled},
    evaluate::EvalError,
    functions::{Call, Function, function, no_overload},
    library::{cost, strings::of_text},
    types::Type,
    value::Value,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "ip",
        "30 (string):ip cidr.():ip",
        |call, _| match call.operands {
            [Value::String(text)] if !call.method => Some(parse_ip(text.as_str()).map(Value::Ip)),
            [Value::Cidr(network)] if call.method => Some(Ok(Value::Ip(network.address))),
            _ => None,
        },
        |of| if of.method { of.price(1) } else { estimate::tenth(of) },
        |call, _| if call.method { 1 } else { call.tenth(0) },
    ),
    function(
        "isIP",
        "30 (string):bool",
        |call, _| of_text(call, |text| Value::Bool(parse_ip(text).is_ok())),
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "ip.isCanonical",
        "30 (string):bool",
        |call, _| match call.operands {
            [Value::String(text)] => {
                let text = text.as_str();
                Some(parse_ip(text).map(|address| Value::Bool(address.to_string() == text)))
            }
            _ => None,
        },
        |of| of.price(scaled(of.max(0), 0.2)),
        cost::fifth,
    ),
    function(
        "family",
        "30 ip.():int",
        |call, _| of_ip(call, |address| Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        estimate::one,
        cost::one,
    ),
    function(
        "isUnspecified",
        "30 ip.():bool",
        |call, _| of_ip(call, |address| Value::Bool(address.is_unspecified())),
        estimate::one,
        cost::one,
    ),
    function(
        "isLoopback",
        "30 ip.():bool",
        |call, _| of_ip(call, |address| Value::Bool(address.is_loopback())),
        estimate::one,
        cost::one,
    ),
    function(
        "isLinkLocalMulticast",
        "30 ip.():bool",
        |call, _| of_ip(call, |address| Value::Bool(is_link_local_multicast(address))),
        estimate::one,
        cost::one,
    ),
    function(
        "isLinkLocalUnicast",
        "30 ip.():bool",
        |call, _| of_ip(call, |address| Value::Bool(is_link_local_unicast(address))),
        estimate::one,
        cost::one,
    ),
    function(
        "isGlobalUnicast",
        "30 ip.():bool",
        |call, _| of_ip(call, |address| Value::Bool(is_global_unicast(address))),
        estimate::one,
        cost::one,
    ),
    function(
        "cidr",
        "30 (string):cidr",
        |call, _| match call.operands {
            [Value::String(text)] => Some(parse_cidr(text.as_str()).map(Value::Cidr)),
            _ => None,
        },
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "isCIDR",
        "30 (string):bool",
        |call, _| of_text(call, |text| Value::Bool(parse_cidr(text).is_ok())),
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "containsIP",
        "30 cidr.(string):bool cidr.(ip):bool",
        |call, _| match call.operands {
            [Value::Cidr(network), Value::Ip(address)] => Some(Ok(Value::Bool(network.contains(*address)))),
            [Value::Cidr(network), Value::String(text)] => Some(match parse_ip(text.as_str()) {
                Ok(address) => Ok(Value::Bool(network.contains(address))),
                Err(_) => Err(no_overload()),
            }),
            _ => None,
        },
        |of| of.price(4_u64.saturating_add(text_estimate(of))),
        |call, _| scaled(prefix_bytes(call), 0.2).saturating_add(text_cost(call)),
    ),
    function(
        "containsCIDR",
        "30 cidr.(string):bool cidr.(cidr):bool",
        |call, _| match call.operands {
            [Value::Cidr(network), Value::Cidr(other)] => {
                Some(Ok(Value::Bool(network.contains_network(other))))
            }
            [Value::Cidr(network), Value::String(text)] => {
                let other = parse_cidr(text.as_str());
                Some(other.map(|other| Value::Bool(network.contains_network(&other))))
            }
            _ => None,
        },
        |of| of.price(7_u64.saturating_add(text_estimate(of))),
        |call, _| {
            scaled(prefix_bytes(call), 0.2)
                .saturating_add(scaled(prefix_bytes(call), 0.1))
                .saturating_add(1)
                .saturating_add(text_cost(call))
        },
    ),
    function(
        "prefixLength",
        "30 cidr.():int",
        |call, _| match call.operands {
            [Value::Cidr(network)] => Some(Ok(Value::Int(network.length.into()))),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "masked",
        "30 cidr.():cidr",
        |call, _| match call.operands {
            [Value::Cidr(network)] => Some(Ok(Value::Cidr(network.masked()))),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
];

fn of_ip<'a>(call: &Call<'_, 'a>, answer: fn(IpAddr) -> Value<'a>) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Ip(address)] => Some(Ok(answer(*address))),
        _ => None,
    }
}

/// What reading the argument costs, if it is text.
fn text_estimate(of: &Operands<'_>) -> u64 {
    if matches!(of.ty(1), Type::Opaque(_)) { 0 } else { of.tenth(1) }
}

fn text_cost(call: &Call<'_, '_>) -> u64 {
    if call.is_text(1) { call.tenth(1) } else { 0 }
}

fn prefix_bytes(call: &Call<'_, '_>) -> u64 {
    match call.operands.first() {
        Some(Value::Cidr(network)) => u64::from(network.length.div_ceil(8)),
        _ => 0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Cidr {
    pub(crate) fn masked(&self) -> Self {
        Self { address: sternpost_meta::format::network(self.address, self.length), length: self.length }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && sternpost_meta::format::network(address, self.length) == self.masked().address
    }

    pub(crate) fn contains_network(&self, other: &Cidr) -> bool {
        other.length >= self.length && self.contains(other.address)
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    let (address, zone) = address(text).map_err(|why| {
        EvalError::new(format!(
            "IP Address {} parse error during conversion from string: {why}",
            go_quote(text)
        ))
    })?;
    if zone {
        return Err(EvalError::new(format!("IP address {} with zone value is not allowed", go_quote(text))));
    }
    if is_mapped(address) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(text))));
    }
    Ok(address)
}

fn parse_cidr(text: &str) -> Result<Cidr, EvalError> {
    const PREFIX: &str = "network address parse error during conversion from string: ";
    let fail = |why: String| {
        Err(EvalError::new(format!("{PREFIX}{PREFIX}netip.ParsePrefix({}): {why}", go_quote(text))))
    };
    let Some((before, bits)) = text.rsplit_once('/') else { return fail("no '/'".into()) };
    let address = match address(before) {
        Err(why) => return fail(why),
        Ok((_, true)) => return fail("IPv6 zones cannot be present in a prefix".into()),
        Ok((address, false)) => address,
    };
    let plain = bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    let Some(length) = bits.parse::<u32>().ok().filter(|_| plain && bits.len() <= 9) else {
        return fail(format!("bad bits after slash: {}", go_quote(bits)));
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let Some(length) = u8::try_from(length).ok().filter(|length| *length <= most) else {
        return fail("prefix length out of range".into());
    };
    if is_mapped(address) {
        return Err(EvalError::new(format!(
            "{PREFIX}IPv4-mapped IPv6 address {} is not allowed",
            go_quote(text)
        )));
    }
    Ok(Cidr { address, length })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// An address and whether it has a zone, or Go's words for what is wrong.
fn address(text: &str) -> Result<(IpAddr, bool), String> {
    let fail = |why: &str, at: &str| {
        let at = if at.is_empty() { String::new() } else { format!(" (at {})", go_quote(at)) };
        Err(format!("ParseAddr({}): {why}{at}", go_quote(text)))
    };
    match text.find(['.', ':', '%']) {
        Some(at) if text.as_bytes().get(at) == Some(&b'.') => match ipv4(text) {
            Ok(octets) => Ok((IpAddr::from(octets), false)),
            Err(why) => fail(
                why,
                if why.starts_with("unexpected") {
                    text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                } else {
                    ""
                },
            ),
        },
        Some(at) if text.as_bytes().get(at) == Some(&b':') => {
            let (body, zone) = match text.split_once('%') {
                Some((_, "")) => return fail("zone must be a non-empty string", ""),
                Some((body, _)) => (body, true),
                None => (text, false),
            };
            match ipv6(body) {
                Ok(groups) => Ok((IpAddr::from(groups), zone)),
                Err((why, at)) => fail(why, at),
            }
        }
        Some(_) => fail("missing IPv6 address", ""),
        None => fail("unable to parse IP", ""),
    }
}

fn ipv4(text: &str) -> Result<[u8; 4], &'static str> {
    let mut octets = [0; 4];
    let (mut position, mut value, mut digits) = (0, 0_u32, 0);
    let mut previous_dot = true;
    for byte in text.bytes() {
        if byte.is_ascii_digit() {
            if digits == 1 && value == 0 {
                return Err("IPv4 field has octet with leading zero");
            }
            value = value * 10 + u32::from(byte - b'0');
            digits += 1;
            previous_dot = false;
            if value > 255 {
                return Err("IPv4 field has value >255");
            }
        } else if byte == b'.' {
            if previous_dot {
                return Err("IPv4 field must have at least one digit");
            }
            if position == 3 {
                return Err("IPv4 address too long");
            }
            if let Some(octet) = octets.get_mut(position) {
                *octet = u8::try_from(value).unwrap_or(0);
            }
            position += 1;
            (value, digits, previous_dot) = (0, 0, true);
        } else {
            return Err("unexpected character");
        }
    }
    if previous_dot {
        return Err("IPv4 field must have at least one digit");
    }
    if position < 3 {
        return Err("IPv4 address too short");
    }
    if let Some(octet) = octets.last_mut() {
        *octet = u8::try_from(value).unwrap_or(0);
    }
    Ok(octets)
}

fn ipv6(text: &str) -> Result<[u16; 8], (&'static str, &str)> {
    let mut groups: Vec<u16> = Vec::new();
    let mut ellipsis = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok([0; 8]);
        }
    }
    while groups.len() < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        let (group, after) = rest.split_at_checked(digits).unwrap_or((rest, ""));
        if after.starts_with('.') {
            if ellipsis.is_none() && groups.len() != 6 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if groups.len() > 6 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            let [a, b, c, d] = ipv4(rest).map_err(|why| (why, rest))?;
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = "";
            break;
        }
        groups.push(u16::from_str_radix(group, 16).unwrap_or(0));
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            ellipsis = Some(groups.len());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    if groups.len() < 8 {
        let Some(at) = ellipsis else { return Err(("address string too short", "")) };
        let missing = 8 - groups.len();
        groups.splice(at..at, std::iter::repeat_n(0, missing));
    } else if ellipsis.is_some() {
        return Err(("the :: must expand to at least one field of zeros", ""));
    }
    <[u16; 8]>::try_from(groups).map_err(|_| ("address string too short", ""))
}

/// The first two bytes of an address.
fn beginning(address: IpAddr) -> (u8, u8) {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            (first, second)
        }
        IpAddr::V6(address) => {
            let [first, second, ..] = address.octets();
            (first, second)
        }
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    let (first, second) = beginning(address);
    if address.is_ipv4() { (first, second) == (169, 254) } else { first == 0xfe && second & 0xc0 == 0x80 }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(_) => {
            let (first, second) = beginning(address);
            first == 0xff && second & 0x0f == 0x02
        }
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}
