//! What a connection writes in one turn, held back and sent together: [`Corked`].
//!
//! Every frame of HTTP/2 is flushed by itself, though a turn of a connection often has several: an event for
//! each of many watches, answers to requests that came together. Each would be a TLS record and a system call
//! of its own. Here they are put together until the connection has nothing more to do.

use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A transport that sends what was written when [`Corked::uncork`] is called, or when it is too much to hold.
/// Clones are the same transport: whoever runs the connection has one, the connection another.
pub struct Corked<T>(Arc<Mutex<Held<T>>>);

struct Held<T> {
    transport: T,
    /// More than so many bytes are not held.
    most: usize,
    bytes: Vec<u8>,
    /// How many of the bytes the transport has taken.
    taken: usize,
    /// Whether the transport has to be flushed.
    unflushed: bool,
    /// What went wrong while nobody waited for it: said with the next read or write.
    failed: Option<io::Error>,
}

impl<T> Clone for Corked<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Corked<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Corked").finish_non_exhaustive()
    }
}

impl<T: AsyncWrite + Unpin> Corked<T> {
    pub fn new(transport: T, most: usize) -> Self {
        let held = Held { transport, most, bytes: Vec::new(), taken: 0, unflushed: false, failed: None };
        Self(Arc::new(Mutex::new(held)))
    }

    /// Sends what is held, as far as the transport takes it: the task is woken when it takes more, and calls
    /// this again.
    pub fn uncork(&self, context: &mut Context<'_>) {
        let held = &mut *self.held();
        if !held.unflushed {
            return;
        }
        if let Poll::Ready(Err(error)) = held.flush(context) {
            held.failed = Some(error);
            // The connection is to hear of it.
            context.waker().wake_by_ref();
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AsyncWrite + Unpin> Held<T> {
    fn flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(context))?;
        ready!(Pin::new(&mut self.transport).poll_flush(context))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.bytes.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.transport).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                some => self.taken += some,
            }
        }
        // An idle connection holds no memory for it.
        self.bytes = Vec::new();
        self.taken = 0;
        Poll::Ready(Ok(()))
    }

    fn write(&mut self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.unflushed = true;
        let size: usize = parts.iter().map(|part| part.len()).sum();
        if self.bytes.len() + size > self.most {
            ready!(self.drain(context))?;
            if size > self.most {
                return Pin::new(&mut self.transport).poll_write_vectored(context, parts);
            }
        }
        self.bytes.reserve(size);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Poll::Ready(Ok(size))
    }

    fn check(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Corked<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let held = &mut *self.held();
        held.check()?;
        Pin::new(&mut held.transport).poll_read(context, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Corked<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let held = &mut *self.held();
        held.check()?;
        held.write(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Is done at the end of the turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.held().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = &mut *self.held();
        held.check()?;
        ready!(held.drain(context))?;
        Pin::new(&mut held.transport).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const MOST: usize = 16 * 1024;

    /// Takes no more than it has room for, and remembers what came at once.
    #[derive(Default)]
    struct Fake {
        room: usize,
        writes: Vec<Vec<u8>>,
        flushed: usize,
        shut_down: bool,
        broken: bool,
    }

    impl AsyncRead for Fake {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Fake {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.broken {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Poll::Pending;
            }
            self.room -= taken;
            self.writes.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushed += 1;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.shut_down = true;
            Poll::Ready(Ok(()))
        }
    }

    fn corked(room: usize) -> Corked<Fake> {
        Corked::new(Fake { room, ..Fake::default() }, MOST)
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    /// As a frame is written: with a flush behind it.
    fn write(to: &mut Corked<Fake>, bytes: &[u8]) -> Poll<usize> {
        let written = Pin::new(&mut *to).poll_write(&mut context(), bytes).map(Result::unwrap);
        assert!(matches!(Pin::new(to).poll_flush(&mut context()), Poll::Ready(Ok(()))));
        written
    }

    #[test]
    fn what_is_written_in_a_turn_goes_out_at_once() {
        let mut cork = corked(usize::MAX);
        for frame in [b"one", b"two", b"ten"] {
            assert_eq!(write(&mut cork, frame), Poll::Ready(3));
        }
        assert!(cork.held().transport.writes.is_empty());
        cork.uncork(&mut context());
        cork.uncork(&mut context());
        assert_eq!(cork.held().transport.writes, [b"onetwoten"]);
        assert_eq!(cork.held().transport.flushed, 1);
    }

    #[test]
    fn what_is_too_much_to_hold_goes_out_behind_what_is_held() {
        let mut cork = corked(usize::MAX);
        let (full, more) = (vec![b'a'; MOST], vec![b'b'; MOST + 1]);
        assert_eq!(write(&mut cork, &full), Poll::Ready(full.len()));
        assert!(cork.held().transport.writes.is_empty());
        assert_eq!(write(&mut cork, b"c"), Poll::Ready(1));
        assert_eq!(cork.held().transport.writes, std::slice::from_ref(&full));
        assert_eq!(write(&mut cork, &more), Poll::Ready(more.len()));
        assert_eq!(cork.held().transport.writes, [full, b"c".to_vec(), more]);
        cork.uncork(&mut context());
        assert_eq!(cork.held().transport.flushed, 1);
    }

    #[test]
    fn what_a_slow_client_does_not_take_waits_and_no_more_than_that() {
        let mut cork = corked(2);
        assert_eq!(write(&mut cork, b"hello"), Poll::Ready(5));
        cork.uncork(&mut context());
        assert_eq!(cork.held().transport.writes, [b"he"]);
        assert_eq!(write(&mut cork, &[b'x'; MOST]), Poll::Pending);
        cork.held().transport.room = usize::MAX;
        cork.uncork(&mut context());
        assert_eq!(cork.held().transport.writes.concat(), b"hello");
        assert_eq!(cork.held().bytes.capacity(), 0);
    }

    #[test]
    fn a_connection_that_ends_sends_what_is_held() {
        let mut cork = corked(usize::MAX);
        assert_eq!(write(&mut cork, b"bye"), Poll::Ready(3));
        assert!(matches!(Pin::new(&mut cork).poll_shutdown(&mut context()), Poll::Ready(Ok(()))));
        assert_eq!(cork.held().transport.writes, [b"bye"]);
        assert!(cork.held().transport.shut_down);
    }

    #[test]
    fn a_write_that_fails_is_told_to_the_connection() {
        let mut cork = corked(usize::MAX);
        cork.held().transport.broken = true;
        assert_eq!(write(&mut cork, b"lost"), Poll::Ready(4));
        cork.uncork(&mut context());
        let read = Pin::new(&mut cork).poll_read(&mut context(), &mut ReadBuf::new(&mut [0; 1]));
        assert!(matches!(read, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
    }
}
