//! Serving bytes that are already there: conditional requests and ranges.
//!
//! The rules are those of RFC 9110: preconditions in the order of section
//! 13.2.2, then `If-Range`, then `Range`.

use std::{
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{
    request::Request,
    response::{self, Response},
};

/// One form of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Representation {
    pub bytes: Bytes,
    pub content_type: HeaderValue,
    /// `gzip`, if the bytes are compressed.
    pub content_encoding: Option<HeaderValue>,
    /// A strong validator, without its quotes: other bytes, other tag.
    pub etag: String,
    pub last_modified: Option<SystemTime>,
    /// The request headers that led to this form.
    pub vary: Option<HeaderValue>,
}

/// Answers GET and HEAD. `Cache-Control` is the caller's to set.
pub fn serve(request: &Request, representation: &Representation) -> Response {
    let mut response = match evaluate(&request.method, &request.headers, representation) {
        Outcome::Whole => response::with_type(
            StatusCode::OK,
            representation.content_type.clone(),
            representation.bytes.clone(),
        ),
        Outcome::Part(range) => {
            let length = representation.bytes.len();
            let content_range = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
            // In bounds by construction; an empty part would be a bug, not a panic.
            let part = if representation.bytes.get(range.clone()).is_some() {
                representation.bytes.slice(range)
            } else {
                Bytes::new()
            };
            let mut response =
                response::with_type(StatusCode::PARTIAL_CONTENT, representation.content_type.clone(), part);
            insert(&mut response, header::CONTENT_RANGE, &content_range);
            response
        }
        Outcome::NotModified => response::empty(StatusCode::NOT_MODIFIED),
        Outcome::PreconditionFailed => {
            return response::plain_text(StatusCode::PRECONDITION_FAILED, "precondition failed\n");
        }
        Outcome::Unsatisfiable => {
            let mut response = response::plain_text(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "the range lies outside of the document\n",
            );
            insert(&mut response, header::CONTENT_RANGE, &format!("bytes */{}", representation.bytes.len()));
            return response;
        }
    };
    insert(&mut response, header::ETAG, &format!("\"{}\"", representation.etag));
    if let Some(time) = representation.last_modified {
        insert(&mut response, header::LAST_MODIFIED, &httpdate::fmt_http_date(time));
    }
    if let Some(vary) = &representation.vary {
        response.headers_mut().insert(header::VARY, vary.clone());
    }
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(encoding) = &representation.content_encoding {
            response.headers_mut().insert(header::CONTENT_ENCODING, encoding.clone());
        }
    }
    response
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    Part(Range<usize>),
    NotModified,
    PreconditionFailed,
    Unsatisfiable,
}

fn evaluate(method: &Method, headers: &HeaderMap, representation: &Representation) -> Outcome {
    let etag = representation.etag.as_str();
    let modified = representation.last_modified.map(whole_seconds);
    let date = |name: HeaderName| text(headers, &name).and_then(|text| httpdate::parse_http_date(text).ok());

    if headers.contains_key(header::IF_MATCH) {
        if !matches(headers, &header::IF_MATCH, |tag| !tag.weak && tag.value == etag) {
            return Outcome::PreconditionFailed;
        }
    } else if let (Some(limit), Some(modified)) = (date(header::IF_UNMODIFIED_SINCE), modified)
        && modified > limit
    {
        return Outcome::PreconditionFailed;
    }

    if headers.contains_key(header::IF_NONE_MATCH) {
        if matches(headers, &header::IF_NONE_MATCH, |tag| tag.value == etag) {
            return Outcome::NotModified;
        }
    } else if let (Some(since), Some(modified)) = (date(header::IF_MODIFIED_SINCE), modified)
        && modified <= since
    {
        return Outcome::NotModified;
    }

    if method != Method::GET {
        return Outcome::Whole;
    }
    let range_is_current = match text(headers, &header::IF_RANGE) {
        None => true,
        Some(text) => match Tag::parse(text) {
            Some((tag, _)) => !tag.weak && tag.value == etag,
            None => httpdate::parse_http_date(text).is_ok_and(|date| Some(date) == modified),
        },
    };
    match text(headers, &header::RANGE).filter(|_| range_is_current).and_then(parse_range) {
        Some(wanted) => {
            wanted.within(representation.bytes.len()).map_or(Outcome::Unsatisfiable, Outcome::Part)
        }
        None => Outcome::Whole,
    }
}

struct Tag<'a> {
    weak: bool,
    value: &'a str,
}

impl<'a> Tag<'a> {
    /// The entity tag that `text` starts with, and what follows it.
    fn parse(text: &'a str) -> Option<(Self, &'a str)> {
        let (weak, rest) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (value, rest) = rest.strip_prefix('"')?.split_once('"')?;
        Some((Self { weak, value }, rest))
    }
}

/// Whether any of the listed tags, or `*`, fits. What stands behind a
/// malformed tag is not read.
fn matches(headers: &HeaderMap, name: &HeaderName, fits: impl Fn(&Tag<'_>) -> bool) -> bool {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|list| {
        let mut rest = list.trim();
        if rest == "*" {
            return true;
        }
        while let Some((tag, after)) = Tag::parse(rest) {
            if fits(&tag) {
                return true;
            }
            rest = after.trim_start_matches([' ', '\t', ',']);
        }
        false
    })
}

#[derive(Debug, PartialEq, Eq)]
enum WantedRange {
    From { first: usize, last: usize },
    Suffix(usize),
}

/// `None` for what is to be ignored: other units, malformed ranges, and more
/// than one range, for all of which the whole document is a valid answer.
fn parse_range(text: &str) -> Option<WantedRange> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.trim().split_once('-')?;
    let number = |text: &str| {
        // Beyond what a length can be is as good as the largest.
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse().unwrap_or(usize::MAX))
    };
    if first.is_empty() {
        return number(last).map(WantedRange::Suffix);
    }
    let first = number(first)?;
    let last = if last.is_empty() { usize::MAX } else { number(last)? };
    (first <= last).then_some(WantedRange::From { first, last })
}

impl WantedRange {
    fn within(&self, length: usize) -> Option<Range<usize>> {
        let range = match *self {
            Self::From { first, last } => first..last.saturating_add(1).min(length),
            Self::Suffix(count) => length.saturating_sub(count)..length,
        };
        (range.start < range.end).then_some(range)
    }
}

/// HTTP dates have no fractions.
fn whole_seconds(time: SystemTime) -> SystemTime {
    time.duration_since(UNIX_EPOCH)
        .map_or(UNIX_EPOCH, |since| UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// For values that we build from tags, dates and numbers; one that is not a
/// valid header is left out.
fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn representation() -> Representation {
        Representation {
            bytes: Bytes::from_static(b"0123456789"),
            content_type: HeaderValue::from_static("text/plain"),
            content_encoding: None,
            etag: "abc".into(),
            last_modified: Some(httpdate::parse_http_date(MODIFIED).unwrap() + Duration::from_millis(300)),
            vary: Some(HeaderValue::from_static("Accept")),
        }
    }

    #[track_caller]
    fn check(method: Method, headers: &[(&str, &str)], code: u16, body: &str) -> Response {
        let response = serve(&testing::request(method, "/x", headers), &representation());
        assert_eq!(response.status(), code, "{headers:?}");
        assert_eq!(testing::body(&response), body, "{headers:?}");
        response
    }

    #[test]
    fn preconditions() {
        for (headers, code) in [
            (&[][..], 200),
            (&[("if-none-match", "\"abc\"")][..], 304),
            (&[("if-none-match", "W/\"abc\"")], 304),
            (&[("if-none-match", "\"x\", \"abc\"")], 304),
            (&[("if-none-match", "\"x\",\"y\"")], 200),
            (&[("if-none-match", "*")], 304),
            (&[("if-none-match", "abc")], 200),
            (&[("if-none-match", "\"ABC\"")], 200),
            (&[("if-none-match", "\"ab")], 200),
            (&[("if-none-match", "")], 200),
            (&[("if-match", "\"abc\"")], 200),
            (&[("if-match", "*")], 200),
            (&[("if-match", "W/\"abc\"")], 412),
            (&[("if-match", "\"x\"")], 412),
            (&[("if-match", "junk")], 412),
            (&[("if-modified-since", BEFORE)], 200),
            (&[("if-modified-since", MODIFIED)], 304),
            (&[("if-modified-since", AFTER)], 304),
            (&[("if-modified-since", "yesterday")], 200),
            (&[("if-unmodified-since", BEFORE)], 412),
            (&[("if-unmodified-since", MODIFIED)], 200),
            (&[("if-unmodified-since", "yesterday")], 200),
            // A tag outweighs a date.
            (&[("if-none-match", "\"x\""), ("if-modified-since", AFTER)], 200),
            (&[("if-match", "\"abc\""), ("if-unmodified-since", BEFORE)], 200),
            // If-Match is looked at first.
            (&[("if-match", "\"x\""), ("if-none-match", "\"abc\"")], 412),
            (&[("if-match", "\"abc\""), ("if-none-match", "\"abc\"")], 304),
            // A fresh copy is not sent in parts.
            (&[("if-none-match", "\"abc\""), ("range", "bytes=0-1")], 304),
        ] {
            let body = match code {
                200 => "0123456789",
                412 => "precondition failed\n",
                _ => "",
            };
            check(Method::GET, headers, code, body);
            check(Method::HEAD, headers, code, body);
        }
    }

    #[test]
    fn ranges() {
        const OUTSIDE: &str = "the range lies outside of the document\n";
        for (range, code, body, content_range) in [
            ("bytes=0-0", 206, "0", Some("bytes 0-0/10")),
            ("bytes=2-4", 206, "234", Some("bytes 2-4/10")),
            ("bytes=8-", 206, "89", Some("bytes 8-9/10")),
            ("bytes=9-100", 206, "9", Some("bytes 9-9/10")),
            ("bytes=-3", 206, "789", Some("bytes 7-9/10")),
            ("bytes=-100", 206, "0123456789", Some("bytes 0-9/10")),
            ("bytes=0-99999999999999999999999999", 206, "0123456789", Some("bytes 0-9/10")),
            ("bytes=10-", 416, OUTSIDE, Some("bytes */10")),
            ("bytes=99999999999999999999999999-", 416, OUTSIDE, Some("bytes */10")),
            ("bytes=-0", 416, OUTSIDE, Some("bytes */10")),
            ("bytes=0-1,3-4", 200, "0123456789", None),
            ("bytes=4-2", 200, "0123456789", None),
            ("bytes=a-b", 200, "0123456789", None),
            ("bytes=-", 200, "0123456789", None),
            ("bytes=+1-2", 200, "0123456789", None),
            ("items=0-1", 200, "0123456789", None),
            ("junk", 200, "0123456789", None),
        ] {
            let response = check(Method::GET, &[("range", range)], code, body);
            assert_eq!(testing::header(&response, "content-range"), content_range, "{range}");
            check(Method::HEAD, &[("range", range)], 200, "0123456789");
        }
    }

    #[test]
    fn a_range_of_another_version_is_not_cut() {
        for (if_range, code) in [
            ("\"abc\"", 206),
            ("W/\"abc\"", 200),
            ("\"x\"", 200),
            (MODIFIED, 206),
            (AFTER, 200),
            ("junk", 200),
        ] {
            let body = if code == 206 { "01" } else { "0123456789" };
            check(Method::GET, &[("range", "bytes=0-1"), ("if-range", if_range)], code, body);
        }
    }

    #[test]
    fn validators_and_vary_are_on_every_success_and_on_304() {
        for (headers, code) in
            [(&[][..], 200), (&[("range", "bytes=0-1")][..], 206), (&[("if-none-match", "*")][..], 304)]
        {
            let response = serve(&testing::request(Method::GET, "/x", headers), &representation());
            assert_eq!(response.status(), code);
            assert_eq!(testing::header(&response, "etag"), Some("\"abc\""));
            assert_eq!(testing::header(&response, "last-modified"), Some(MODIFIED));
            assert_eq!(testing::header(&response, "vary"), Some("Accept"));
        }
    }

    #[test]
    fn an_encoded_form_says_so_unless_nothing_is_sent() {
        let gzipped =
            Representation { content_encoding: Some(HeaderValue::from_static("gzip")), ..representation() };
        for (headers, expected) in [(&[][..], Some("gzip")), (&[("if-none-match", "*")][..], None)] {
            let response = serve(&testing::request(Method::GET, "/x", headers), &gzipped);
            assert_eq!(testing::header(&response, "content-encoding"), expected);
        }
    }

    #[test]
    fn no_range_of_nothing_is_satisfiable() {
        let nothing = Representation { bytes: Bytes::new(), ..representation() };
        let request = testing::request(Method::GET, "/x", &[("range", "bytes=0-")]);
        assert_eq!(serve(&request, &nothing).status(), 416);
    }

    mod hostile_input {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            /// Any `Range` gives the whole, a true part, or an honest refusal.
            #[test]
            fn never_gets_other_bytes(range in "bytes=[0-9,-]{0,12}") {
                let response =
                    serve(&testing::request(Method::GET, "/x", &[("range", &range)]), &representation());
                let body = testing::body(&response);
                match response.status().as_u16() {
                    200 => prop_assert_eq!(body, "0123456789"),
                    206 => prop_assert!(!body.is_empty() && "0123456789".contains(&body)),
                    code => prop_assert_eq!(code, 416),
                }
            }
        }
    }
}
