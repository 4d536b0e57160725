//! URLs, read by Go's rules for request URIs: an absolute URI or a rooted path.

use std::{collections::BTreeMap, sync::Arc};

use sternpost_meta::field::go_quote;

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::{cost, strings::of_text},
    value::Value,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "url",
        "23 (string):url",
        |call, _| match call.operands {
            [Value::String(text)] => {
                let why =
                    |why| EvalError::new(format!("URL parse error during conversion from string: {why}"));
                Some(Url::parse(text.as_str()).map(|url| Value::Url(Arc::new(url))).map_err(why))
            }
            _ => None,
        },
        estimate::tenth_and_size,
        cost::tenth,
    ),
    function(
        "isURL",
        "23 (string):bool",
        |call, _| of_text(call, |text| Value::Bool(Url::parse(text).is_ok())),
        estimate::one,
        cost::one,
    ),
    function(
        "getScheme",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.scheme.as_str())),
        estimate::one,
        cost::one,
    ),
    function(
        "getHost",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.host.as_str())),
        estimate::one,
        cost::one,
    ),
    function(
        "getHostname",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(split_port(&url.host).0)),
        estimate::one,
        cost::one,
    ),
    function(
        "getPort",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(split_port(&url.host).1)),
        estimate::one,
        cost::one,
    ),
    function(
        "getEscapedPath",
        "23 url.():string",
        |call, _| of_url(call, |url| Value::text(url.path.as_str())),
        estimate::one,
        cost::one,
    ),
    function(
        "getQuery",
        "23 url.():map(string,list(string))",
        |call, _| of_url(call, Url::query),
        estimate::one,
        cost::one,
    ),
];

fn of_url<'a>(
    call: &Call<'_, 'a>,
    answer: fn(&Url) -> Value<'static>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Url(url)] => Some(Ok(answer(url))),
        _ => None,
    }
}

#[derive(Debug)]
pub struct Url {
    pub(crate) text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// The one door to Go's `net/url`: `Err` is its message.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| format!("parse {}: {why}", go_quote(text)))
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.chars().any(|c| c < ' ' || c == '\u{7f}') {
            return Err("net/url: invalid control character in URL".into());
        }
        if text.is_empty() {
            return Err("empty url".into());
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let mut url = Self {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            // Opaque, as `mailto:x@y` is.
            return if scheme.is_empty() { Err("invalid URI for request".into()) } else { Ok(url) };
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, after) = after.split_at_checked(end).unwrap_or((after, ""));
            url.host = host(authority)?;
            path = after;
        }
        check_escapes(path)?;
        url.path = escaped(path);
        Ok(url)
    }

    fn query(&self) -> Value<'static> {
        let mut values: BTreeMap<String, Vec<Value<'static>>> = BTreeMap::new();
        // The fragment is part of what a request URI's query says nothing about.
        let query = self.query.split('#').next().unwrap_or_default();
        for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
                values.entry(key).or_default().push(Value::text(value));
            }
        }
        Value::map(values.into_iter().map(|(key, values)| (key.into(), Value::list(values))))
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".into()),
            ':' => return Ok((text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host(authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let user_ok = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(user_ok) {
        return Err("net/url: invalid userinfo".into());
    }
    let port = if host.starts_with('[') {
        let Some(end) = host.rfind(']') else { return Err("missing ']' in host".into()) };
        host.get(end + 1..).unwrap_or_default()
    } else {
        host.rfind(':').map_or("", |at| host.get(at..).unwrap_or_default())
    };
    let port_ok = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !port_ok {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    let bad =
        |c: &char| c.is_ascii() && !(c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(*c));
    if let Some(c) = host.chars().find(bad) {
        return Err(format!("invalid character {} in host name", go_quote(&c.to_string())));
    }
    check_escapes(host)?;
    Ok(unescape_percent(host).unwrap_or_else(|| host.to_owned()))
}

fn split_port(host: &str) -> (&str, &str) {
    let (name, port) = match host.rfind(':') {
        Some(at) if !host.get(at..).unwrap_or_default().contains(']') => {
            (host.get(..at).unwrap_or_default(), host.get(at + 1..).unwrap_or_default())
        }
        _ => (host, ""),
    };
    (name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name), port)
}

fn check_escapes(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let escape: String = rest.get(at..).unwrap_or_default().chars().take(3).collect();
        if escape.len() < 3 || !escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {}", go_quote(&escape)));
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    Ok(())
}

/// The path with what must be escaped, escaped; escapes stay as they are.
fn escaped(path: &str) -> String {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte);
    if path.bytes().all(fine) {
        return path.to_owned();
    }
    let decoded = unescape_percent(path).unwrap_or_else(|| path.to_owned());
    let mut out = String::new();
    for byte in decoded.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    unescape_percent(&text.replace('+', " "))
}

fn unescape_percent(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
