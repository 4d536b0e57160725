//! The two kinds of response body: bytes that are there, and a watch.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

#[derive(Debug)]
pub enum Body {
    Whole(Full<Bytes>),
    /// Frames as they come; ends when the sender does.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body {
    /// The bytes of a whole body.
    pub fn whole(&self) -> Option<&Full<Bytes>> {
        match self {
            Body::Whole(whole) => Some(whole),
            Body::Stream(_) => None,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(whole) => Pin::new(whole).poll_frame(context),
            Body::Stream(frames) => {
                frames.poll_recv(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(whole) => whole.is_end_stream(),
            Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(whole) => whole.size_hint(),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}
