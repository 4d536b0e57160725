//! URLs as Go's `net/url` reads them, with its texts for those it refuses.

use std::{collections::BTreeMap, fmt::Write as _, net::Ipv6Addr};

use crate::strconv::go_quote;

/// A URL in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case.
    pub scheme: String,
    /// With the port.
    pub host: String,
    /// `user` or `user:password`, escaped.
    pub user: Option<String>,
    /// As it was written.
    path: String,
    /// As it was written, without the question mark.
    pub query: String,
    pub fragment: String,
}

/// `url.Parse`. The text of the error begins with `parse "URL": `.
pub fn parse(text: &str) -> Result<Url, String> {
    let (start, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse_start(start, Via::Any).map_err(|problem| blame(start, &problem))?;
    url.fragment = unescape(fragment, Part::Rest).map_err(|problem| blame(text, &problem))?;
    Ok(url)
}

/// `url.ParseRequestURI`: an absolute URI or a rooted path, in which a `#` has no meaning.
pub fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse_start(text, Via::Request).map_err(|problem| blame(text, &problem))
}

impl Url {
    /// The host without its port and without the brackets of an IPv6 address.
    pub fn hostname(&self) -> &str {
        let name = self.split_port().0;
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }

    /// Nothing if there is none.
    pub fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port),
            _ => (&self.host, ""),
        }
    }

    /// The path with nothing escaped.
    pub fn path(&self) -> String {
        // What cannot be read was refused.
        unescape(&self.path, Part::Rest).unwrap_or_default()
    }

    /// The path with what must be escaped, escaped; escapes stay as they are where the rest needs none.
    pub fn escaped_path(&self) -> String {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte);
        if self.path.bytes().all(fine) {
            return self.path.clone();
        }
        let decoded = unescape_bytes(&self.path, Part::Rest).unwrap_or_default();
        let mut out = String::with_capacity(self.path.len());
        for byte in decoded {
            if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
                out.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }

    /// `URL.Query`: values by key. What is not well formed is left out.
    pub fn query_values(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| unescape(&text.replace('+', " "), Part::Rest);
            if let (Ok(key), Ok(value)) = (decode(key), decode(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

fn blame(text: &str, problem: &str) -> String {
    format!("parse {}: {problem}", go_quote(text))
}

/// What a URL is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Via {
    Any,
    Request,
}

fn parse_start(text: &str, via: Via) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() && via == Via::Request {
        return Err("empty url".into());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = text.into();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.into();
    if !rest.starts_with('/') {
        // What follows a scheme without a slash is opaque.
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if via == Via::Request {
            return Err("invalid URI for request".into());
        }
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    let mut path = rest;
    let has_authority = !url.scheme.is_empty() || (via == Via::Any && !rest.starts_with("///"));
    if let Some(after) = rest.strip_prefix("//").filter(|_| has_authority) {
        let authority = after.split('/').next().unwrap_or_default();
        path = after.strip_prefix(authority).unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = parse_host(host)?;
        url.user = user.map(parse_user).transpose()?;
    }
    unescape_bytes(path, Part::Rest)?;
    url.path = path.into();
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
        let (address, zone) = literal.split_once("%25").unzip();
        let address = unescape(address.unwrap_or(literal), Part::Host)?;
        if address.parse::<Ipv6Addr>().is_err() {
            return Err(format!("invalid host: ParseAddr({}): unable to parse IP", go_quote(&address)));
        }
        return Ok(match zone {
            Some(zone) => format!("[{address}%{}]{port}", unescape(zone, Part::Rest)?),
            None => host.into(),
        });
    }
    if let Some(colon) = host.find(':') {
        check_port(host.get(colon..).unwrap_or_default())?;
    }
    unescape(host, Part::Host)
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
    unescape_bytes(text, part).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn unescape_bytes(text: &str, part: Part) -> Result<Vec<u8>, String> {
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
    Ok(bytes)
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
        for (text, host) in [
            ("https:/x", ""),
            ("ftp:x", ""),
            ("//h/x", "h"),
            ("https://h:", "h:"),
            ("///h", ""),
            ("https://h%C3%A9/", "hé"),
            ("https://[::1%25eth0]:1/", "[::1%eth0]:1"),
        ] {
            assert_eq!(parse(text).unwrap().host, host, "{text}");
        }
    }

    #[test]
    fn parts_can_be_asked_for_one_by_one() {
        let url = parse("https://[::1]:80/a b/%41?x=1&x=2&y=%zz&z=a+b;c&w=a+b#f").unwrap();
        assert_eq!((url.hostname(), url.port(), url.escaped_path().as_str()), ("::1", "80", "/a%20b/A"));
        let values: Vec<(String, Vec<String>)> = url.query_values().into_iter().collect();
        assert_eq!(values, [("w".into(), vec!["a b".into()]), ("x".into(), vec!["1".into(), "2".into()])]);
        let url = parse("https://h/%41?").unwrap();
        assert_eq!((url.hostname(), url.port(), url.escaped_path().as_str()), ("h", "", "/%41"));
    }

    #[test]
    fn request_uris_are_absolute() {
        assert_eq!(parse_request_uri("").unwrap_err(), "parse \"\": empty url");
        assert_eq!(parse_request_uri("a/b").unwrap_err(), "parse \"a/b\": invalid URI for request");
        assert_eq!(parse_request_uri("//h/b").unwrap().host, "");
        assert_eq!(parse_request_uri("https://h/a#b").unwrap().escaped_path(), "/a%23b");
        assert_eq!(parse_request_uri("mailto:x@y").unwrap().scheme, "mailto");
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
