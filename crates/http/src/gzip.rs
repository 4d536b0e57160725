//! Large answers, compressed while they are sent.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, header};
use hyper::body::{Body as _, Frame};
use sternpost_gzip::Member;

use crate::{
    body::{Body, Broken},
    limits::{GZIP_PIECE_BYTES, MAX_PLAIN_BYTES, PIECE_BYTES},
    objects::{Answer, list_body::Fragment},
};

/// Compresses `answer` if it is known to be large (a watch is not) and the
/// client names gzip.
pub fn apply(request: &HeaderMap, answer: Answer) -> Answer {
    let large = answer.body().size_hint().lower() > MAX_PLAIN_BYTES;
    if !large || answer.headers().contains_key(header::CONTENT_ENCODING) || !names_gzip(request) {
        return answer;
    }
    let mut answer = answer.map(|body| Body::Gzip(Box::new(GzipBody::new(body))));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(header::CONTENT_LENGTH);
    answer
}

/// As upstream: the bare word, nothing with a quality.
fn names_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim() == "gzip")
}

/// Holds a piece of the plain body and the compressor's window, whatever the
/// size of the whole.
pub struct GzipBody {
    plain: Body,
    /// Of `plain`, what is still to be compressed.
    rest: Bytes,
    /// `None` when all is said.
    member: Option<Member>,
}

impl GzipBody {
    fn new(plain: Body) -> Self {
        Self { plain, rest: Bytes::new(), member: Some(Member::default()) }
    }

    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            let Some(member) = &mut self.member else { return Poll::Ready(None) };
            if self.rest.is_empty() {
                let next = match &mut self.plain {
                    Body::List(list) => list.next_for(member),
                    plain => ready!(Pin::new(plain).poll_frame(context)).map(|frame| {
                        frame.map(|frame| Fragment::Plain(frame.into_data().unwrap_or_default()))
                    }),
                };
                match next {
                    Some(Ok(Fragment::Plain(plain))) => self.rest = plain,
                    Some(Ok(Fragment::Compressed(piece, separator))) => {
                        member.append(&piece);
                        if !separator.is_empty() {
                            member.push(separator);
                        }
                        if is_due(member) {
                            return Poll::Ready(Some(Ok(Frame::data(member.take().into()))));
                        }
                    }
                    Some(Err(broken)) => return Poll::Ready(Some(Err(broken))),
                    None => {
                        let last = self.member.take().map(Member::finish);
                        return Poll::Ready(last.map(|bytes| Ok(Frame::data(bytes.into()))));
                    }
                }
                continue;
            }
            let piece = self.rest.len().min(GZIP_PIECE_BYTES);
            member.push(self.rest.get(..piece).unwrap_or_default());
            self.rest.advance(piece);
            if is_due(member) {
                return Poll::Ready(Some(Ok(Frame::data(member.take().into()))));
            }
        }
    }

    pub fn is_end(&self) -> bool {
        self.member.is_none()
    }

    /// Bytes of the plain body that are in memory.
    pub fn held(&self) -> usize {
        self.plain.held().saturating_add(self.rest.len())
    }
}

/// Whether it is time to send what there is: because there is much of it, or because it was much work.
fn is_due(member: &Member) -> bool {
    let is_work = member.worked() >= GZIP_PIECE_BYTES / 2 && !member.is_empty();
    is_work || member.len() >= PIECE_BYTES
}

impl std::fmt::Debug for GzipBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GzipBody").field("plain", &self.plain).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http_body_util::BodyExt;

    use super::*;
    use crate::{objects, response, testing};

    fn answer(size: usize) -> Answer {
        let body: Vec<u8> =
            (0..size).map(|index| b"abcdefghij"[index % 10 * (index / 977 % 3) % 10]).collect();
        objects::whole(response::with_type(
            http::StatusCode::OK,
            HeaderValue::from_static("application/json"),
            body.into(),
        ))
    }

    #[test]
    fn answers_of_more_than_128_kib_are_compressed() {
        let limit = usize::try_from(MAX_PLAIN_BYTES).unwrap();
        let request = testing::headers(&[("accept-encoding", "gzip")]);
        for (size, compressed) in [(0, false), (limit, false), (limit + 1, true), (5 << 20, true)] {
            let plain = testing::body_bytes(&answer(size));
            let sent = apply(&request, answer(size));
            assert_eq!(sent.headers().contains_key("content-encoding"), compressed, "{size}");
            assert_eq!(sent.headers().contains_key("vary"), compressed, "{size}");
            let bytes = testing::now(sent.into_body().collect()).unwrap().to_bytes();
            let mut read = Vec::new();
            if compressed {
                // Its tenth byte but one tells the fastest level, as upstream's does.
                assert_eq!(&bytes[..3], b"\x1f\x8b\x08");
                flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut read).unwrap();
            } else {
                read.extend_from_slice(&bytes);
            }
            assert!(read == plain, "{size}");
        }
    }

    /// Recorded from kube-apiserver 1.36.4.
    #[test]
    fn only_the_bare_word_asks_for_it() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, gzip", true),
            ("identity;q=1, gzip", true),
            ("br,gzip", true),
            (" gzip ,x", true),
            ("gzip, identity", true),
            ("gzip;q=0", false),
            ("gzip;q=0.5", false),
            ("*", false),
            ("deflate", false),
            ("GZIP", false),
            ("x-gzip", false),
            ("", false),
        ] {
            assert_eq!(names_gzip(&testing::headers(&[("accept-encoding", value)])), expected, "{value}");
        }
    }
}
