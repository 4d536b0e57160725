//! The kinds of response body: bytes that are there, a list that is written
//! while it is sent, and a watch.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};
use sternpost_clock::machine;
use tokio::sync::mpsc;

use crate::{
    budgets::Charge,
    connections::Stream,
    gzip::GzipBody,
    limits::{GZIP_STATE_BYTES, PIECE_BYTES},
    objects::{list_body::ListBody, watch::WatchBody},
    proxied::Passed,
    request_metrics::Counted,
};

#[derive(Debug)]
pub enum Body {
    Whole(Full<Bytes>),
    List(Box<ListBody>),
    /// Events as they happen, as many together as there are.
    Watch(Box<WatchBody>),
    /// One of the others, compressed.
    Gzip(Box<GzipBody>),
    /// Frames as they come; ends when the sender does.
    Stream(mpsc::Receiver<Bytes>),
    /// The answer of another server, as it comes.
    Remote(Box<Passed>),
    /// One of the others, whose end is noted.
    Noted(Box<Noted>),
    /// One of the others, of which is noted how much is on its way.
    Metered(Box<Metered>),
}

/// A body that its request's [`Stream`] knows of.
#[derive(Debug)]
pub struct Metered {
    body: Body,
    stream: Arc<Stream>,
    /// To be told when it has ended.
    counting: Option<Counting>,
    /// What a piece may take that is not accounted for yet.
    allotted: usize,
}

/// A request whose answer is still being given.
#[derive(Debug)]
pub struct Counting {
    pub counted: Counted,
    pub code: StatusCode,
    pub started: machine::Instant,
    pub bytes: u64,
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.counted.answered(self.code, self.bytes, machine::elapsed(self.started));
    }
}

impl Metered {
    /// `counting` ends with the body, or now if all of that is there already.
    pub fn new(body: Body, stream: Arc<Stream>, counting: Option<Counting>) -> Self {
        if hyper::body::Body::is_end_stream(&body) {
            stream.offers_nothing();
        } else {
            stream.offers();
        }
        // A body that is there as a whole is accounted for as a whole.
        let is_whole = body.whole().is_some();
        let allotted = if is_whole { usize::MAX } else { PIECE_BYTES };
        let mut counting = counting;
        if is_whole && let Some(mut counting) = counting.take() {
            counting.bytes = hyper::body::Body::size_hint(&body).lower();
        }
        Self { body, stream, counting, allotted }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let polled = hyper::body::Body::poll_frame(Pin::new(&mut self.body), context);
        let Poll::Ready(Some(Ok(frame))) = polled else {
            self.stream.offers_nothing();
            return polled;
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(other) => return Poll::Ready(Some(Ok(other))),
        };
        if let Some(counting) = &mut self.counting {
            counting.bytes = counting.bytes.saturating_add(data.len() as u64);
        }
        self.stream.offers();
        let Ok(charge) = self.stream.hands_over(data.len(), self.allotted) else {
            return Poll::Ready(Some(Err(Broken)));
        };
        let piece = Piece { data, stream: self.stream.clone(), _charge: charge };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.stream.offers_nothing();
    }
}

/// Bytes of an answer until they are sent.
struct Piece {
    data: Bytes,
    stream: Arc<Stream>,
    _charge: Option<Charge>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.stream.sent(self.data.len());
    }
}

/// An answer has ended before its end; the client must see that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub struct Broken;

/// A body, and what to do when it has ended or nobody wants it any more.
pub struct Noted {
    body: Body,
    ended: Option<Box<dyn FnOnce() + Send>>,
}

impl Noted {
    pub fn new(body: Body, ended: Box<dyn FnOnce() + Send>) -> Self {
        Self { body, ended: Some(ended) }
    }
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.body.fmt(formatter)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            ended();
        }
    }
}

impl Body {
    /// The bytes of a whole body.
    pub fn whole(&self) -> Option<&Full<Bytes>> {
        match self {
            Body::Whole(whole) => Some(whole),
            Body::List(_)
            | Body::Watch(_)
            | Body::Gzip(_)
            | Body::Stream(_)
            | Body::Remote(_)
            | Body::Noted(_) => None,
            Body::Metered(metered) => metered.body.whole(),
        }
    }

    /// Bytes of the answer that are in memory because of it.
    pub fn held(&self) -> usize {
        match self {
            Body::Whole(whole) => {
                let size = hyper::body::Body::size_hint(whole).lower();
                usize::try_from(size).unwrap_or(usize::MAX)
            }
            Body::List(list) => list.held(),
            Body::Gzip(gzip) => gzip.held().saturating_add(GZIP_STATE_BYTES),
            Body::Noted(noted) => noted.body.held(),
            Body::Metered(metered) => metered.body.held(),
            Body::Watch(_) | Body::Stream(_) | Body::Remote(_) => 0,
        }
    }

    /// Whether it is events as they happen, noted or not.
    pub fn is_watch(&self) -> bool {
        match self {
            Body::Watch(_) | Body::Stream(_) => true,
            Body::Noted(noted) => noted.body.is_watch(),
            Body::Metered(metered) => metered.body.is_watch(),
            Body::Whole(_) | Body::List(_) | Body::Gzip(_) | Body::Remote(_) => false,
        }
    }

    /// Whether it ends when somebody else says so.
    pub fn is_long_running(&self) -> bool {
        match self {
            Body::Watch(_) | Body::Stream(_) => true,
            Body::Remote(passed) => passed.is_long_running(),
            Body::Metered(metered) => metered.body.is_long_running(),
            Body::Whole(_) | Body::List(_) | Body::Gzip(_) | Body::Noted(_) => false,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let bytes = match self.get_mut() {
            Body::Whole(whole) => {
                let frame = Pin::new(whole).poll_frame(context);
                return frame.map(|frame| frame.map(|frame| frame.map_err(|never| match never {})));
            }
            Body::List(list) => return Poll::Ready(list.next().map(|piece| piece.map(Frame::data))),
            Body::Watch(watch) => watch.poll_next(context),
            Body::Gzip(gzip) => return gzip.poll_frame(context),
            Body::Stream(frames) => frames.poll_recv(context),
            Body::Remote(passed) => return passed.poll_frame(context),
            Body::Noted(noted) => return Pin::new(&mut noted.body).poll_frame(context),
            Body::Metered(metered) => return metered.poll_frame(context),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(whole) => whole.is_end_stream(),
            Body::List(list) => list.is_end(),
            Body::Gzip(gzip) => gzip.is_end(),
            Body::Watch(_) | Body::Stream(_) => false,
            Body::Remote(passed) => passed.is_end_stream(),
            Body::Noted(noted) => noted.body.is_end_stream(),
            Body::Metered(metered) => metered.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(whole) => whole.size_hint(),
            Body::List(list) => list.size_hint(),
            Body::Watch(_) | Body::Gzip(_) | Body::Stream(_) => SizeHint::default(),
            Body::Remote(passed) => passed.size_hint(),
            Body::Noted(noted) => noted.body.size_hint(),
            Body::Metered(metered) => metered.body.size_hint(),
        }
    }
}
