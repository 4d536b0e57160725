//! URLs as Go's `net/url` reads them, with its texts for those it refuses.

use std::net::Ipv6Addr;

use sternpost_meta::field::go_quote;

/// The parts of a URL that rules look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case.
    pub scheme: String,
    pub host: String,
    /// `user` or `user:password`, escaped.
    pub user: Option<String>,
    pub query: String,
    pub fragment: String,
}

/// The text of the error begins with `parse "URL": `.
pub fn parse(text: &str) -> Result<Url, String> {
    let (start, fragment) = text.split_once('#').unwrap_or((text, ""));
    let blame = |whole: &str, problem: String| format!("parse {}: {problem}", go_quote(whole));
    let mut url = parse_start(start).map_err(|problem| blame(start, problem))?;
    url.fragment = unescape(fragment, Part::Rest).map_err(|problem| blame(text, problem))?;
    Ok(url)
}

fn parse_start(text: &str) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    let mut url = Url::default();
    if text == "*" {
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.into();
    if !rest.starts_with('/') {
        // What follows a scheme without a slash is opaque.
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let mut path = rest;
    if (!url.scheme.is_empty() || !rest.starts_with("///"))
        && let Some(after) = rest.strip_prefix("//")
    {
        let authority = after.split('/').next().unwrap_or_default();
        path = after.strip_prefix(authority).unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = parse_host(host)?;
        url.user = user.map(parse_user).transpose()?;
    }
    unescape(path, Part::Rest)?;
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".into()),
            b':' => {
                return Ok((
                    text.get(..index).unwrap_or_default(),
                    text.get(index + 1..).unwrap_or_default(),
                ));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_user(user: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(fits) {
        return Err("net/url: invalid userinfo".into());
    }
    unescape(user, Part::Rest)?;
    Ok(user.replace('@', "%40"))
}

fn parse_host(host: &str) -> Result<String, String> {
    if let Some(open) = host.rfind('[') {
        if open > 0 {
            return Err("invalid IP-literal".into());
        }
        let Some((literal, port)) = host.strip_prefix('[').and_then(|host| host.rsplit_once(']')) else {
            return Err("missing ']' in host".into());
        };
        check_port(port)?;
        let address = literal.split_once("%25").map_or(literal, |(address, _)| address);
        let address = unescape(address, Part::Host)?;
        if address.parse::<Ipv6Addr>().is_err() {
            return Err(format!("invalid host: ParseAddr({}): unable to parse IP", go_quote(&address)));
        }
    } else if let Some(colon) = host.find(':') {
        check_port(host.get(colon..).unwrap_or_default())?;
        unescape(host, Part::Host)?;
    } else {
        unescape(host, Part::Host)?;
    }
    Ok(host.into())
}

/// Nothing, or a colon and perhaps digits.
fn check_port(port: &str) -> Result<(), String> {
    let digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if port.is_empty() || port.strip_prefix(':').is_some_and(digits) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", go_quote(port)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Rest,
}

fn unescape(text: &str, part: Part) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let decoded = match tail {
                [high, low, ..] => hex(*high).zip(hex(*low)),
                _ => None,
            };
            // Hosts may only escape what is not ASCII.
            let decoded = decoded.filter(|(high, _)| part == Part::Rest || *high >= 8);
            let Some((high, low)) = decoded else {
                let shown: Vec<u8> = [b'%'].into_iter().chain(tail.iter().copied().take(2)).collect();
                return Err(format!("invalid URL escape {}", go_quote(&String::from_utf8_lossy(&shown))));
            };
            bytes.push(high * 16 + low);
            rest = tail.get(2..).unwrap_or_default();
        } else if part == Part::Host && !is_host_byte(byte) {
            let shown = char::from(byte).to_string();
            return Err(format!("invalid character {} in host name", go_quote(&shown)));
        } else {
            bytes.push(byte);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_host_byte(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_where_go_finds_them() {
        let url = parse("HTTPS://u:p@h:80/x?q=1#%41").unwrap();
        assert_eq!(
            (
                url.scheme.as_str(),
                url.host.as_str(),
                url.user.as_deref(),
                url.query.as_str(),
                url.fragment.as_str()
            ),
            ("https", "h:80", Some("u:p"), "q=1", "A")
        );
        for (text, host) in
            [("https:/x", ""), ("ftp:x", ""), ("//h/x", "h"), ("https://h:", "h:"), ("///h", "")]
        {
            assert_eq!(parse(text).unwrap().host, host, "{text}");
        }
    }

    #[test]
    fn refusals_have_gos_texts() {
        for (text, problem) in [
            ("https://h:80:80/", "invalid port \":80:80\" after host"),
            ("https://[::1/", "missing ']' in host"),
            ("https://a[b]/", "invalid IP-literal"),
            ("https://h%41/", "invalid URL escape \"%41\""),
            ("https://h/%z", "invalid URL escape \"%z\""),
            ("https://a b/", "invalid character \" \" in host name"),
            ("://x", "missing protocol scheme"),
            ("1x://h", "first path segment in URL cannot contain colon"),
            ("https://u @h/", "net/url: invalid userinfo"),
        ] {
            assert_eq!(parse(text).unwrap_err(), format!("parse {text:?}: {problem}"));
        }
    }
}
