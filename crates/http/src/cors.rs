//! CORS: which web pages may use the API from a browser.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use regex::bytes::{Regex, RegexBuilder};

/// The origins that may, by regular expression. As upstream, an expression
/// need not match the whole origin, so each must pin both ends itself.
#[derive(Debug, Clone)]
pub struct Cors(Vec<Regex>);

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    #[error("an origin is empty")]
    Empty,
    #[error(
        "`{0}` does not pin both ends of the host: it needs `^` or `//` before it and `$` or `:` behind it"
    )]
    Unpinned(String),
    #[error("`{pattern}` is not a regular expression: {why}")]
    Syntax { pattern: String, why: String },
}

impl Cors {
    /// Origins are ASCII, so classes such as `\d` are as well.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, OriginError> {
        patterns.into_iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// The headers for a request from an allowed origin, else `None`. Of
    /// several origins the first counts.
    pub fn headers(&self, request: &HeaderMap) -> Option<[(HeaderName, HeaderValue); 5]> {
        let origin = request.get(header::ORIGIN).filter(|origin| !origin.is_empty())?;
        if !self.0.iter().any(|pattern| pattern.is_match(origin.as_bytes())) {
            return None;
        }
        let fixed = HeaderValue::from_static;
        Some([
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
            (header::ACCESS_CONTROL_ALLOW_METHODS, fixed(METHODS)),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, fixed(HEADERS)),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, fixed("Date")),
            (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, fixed("true")),
        ])
    }
}

const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since";

fn compile(pattern: &str) -> Result<Regex, OriginError> {
    if pattern.is_empty() {
        return Err(OriginError::Empty);
    }
    let regex = RegexBuilder::new(pattern).unicode(false).build().map_err(|error| OriginError::Syntax {
        pattern: pattern.to_owned(),
        // The library draws a picture of several lines; its last says why.
        why: error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    })?;
    let pinned =
        (pattern.contains('^') || pattern.contains("//")) && (pattern.contains('$') || pattern.contains(':'));
    if pinned { Ok(regex) } else { Err(OriginError::Unpinned(pattern.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// The verdicts of kube-apiserver 1.36.4 on its `--cors-allowed-origins`.
    #[test]
    fn expressions_pin_both_ends_of_the_host() {
        for (pattern, accepted) in [
            ("^a$", true),
            ("^a:", true),
            ("//a$", true),
            ("x//b:c", true),
            ("a^b$c", true),
            ("//:", true),
            ("^https?://foo", true),
            ("(^|x)a($|:)", true),
            ("https://foo.com$", true),
            ("://a", true),
            (r"\^a$", true),
            ("^a$|b", true),
            ("^a", false),
            ("a$", false),
            ("a:$", false),
            ("//x", false),
            ("foo", false),
            ("", false),
            ("(", false),
            ("*", false),
            ("^(http", false),
            ("^(?=a)$", false),
        ] {
            assert_eq!(Cors::new([pattern]).is_ok(), accepted, "{pattern}");
        }
    }

    /// Recorded from kube-apiserver 1.36.4 with the same two expressions.
    #[test]
    fn origins_are_matched_anywhere_and_the_first_header_counts() {
        let cors = Cors::new([r"^https?://(a|b)\.example\.com(:|$)", "//localhost(:|$)"]).unwrap();
        for (origins, allowed) in [
            (&["http://a.example.com"][..], true),
            (&["http://a.example.com:8080"], true),
            (&["https://b.example.com"], true),
            (&["http://c.example.com"], false),
            (&["HTTP://A.example.com:8080"], false),
            (&["http://a.example.com.evil.com"], false),
            (&["ftp://localhost"], true),
            (&["https://localhost:1", "http://evil.com"], true),
            (&["http://evil.com", "https://localhost:1"], false),
            (&["null"], false),
            (&[""], false),
            (&[], false),
        ] {
            let pairs: Vec<(&str, &str)> = origins.iter().map(|origin| ("origin", *origin)).collect();
            let headers = cors.headers(&testing::headers(&pairs));
            assert_eq!(headers.is_some(), allowed, "{origins:?}");
            if let Some([(name, value), ..]) = headers {
                assert_eq!(
                    (name.as_str(), value.to_str().unwrap()),
                    ("access-control-allow-origin", origins[0])
                );
            }
        }
    }
}
