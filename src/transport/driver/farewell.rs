//! The last words on a connection that a session has given up for what its peer did, beside the next one.

use core::pin::Pin;
use core::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{FLUSH_TIMEOUT, LINGER};
use crate::units::Time;

/// Whatever the peer still says is read, in pieces of this length, and dropped: a socket that is closed with unread input is reset, and
/// the last words with it.
const PIECE: usize = 4 << 10;
/// .. and not more of them before others get their turn.
const PIECES: usize = 16;

/// A connection that nothing is taken from any more.
pub(super) struct Farewell<I> {
    io: I,
    words: Vec<u8>,
    written: usize,
    is_shut: bool,
    until: Time,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Farewell<I> {
    pub(super) fn new(now: Time, io: I, words: Vec<u8>) -> Self {
        Self {
            io,
            words,
            written: 0,
            is_shut: false,
            until: now + FLUSH_TIMEOUT,
        }
    }

    /// When it is over at the latest.
    pub(super) const fn until(&self) -> Time {
        self.until
    }

    /// Ready when the peer has closed too, nothing more can be said, or it takes too long.
    pub(super) fn poll(&mut self, now: Time, cx: &mut Context<'_>) -> Poll<()> {
        if now >= self.until {
            return Poll::Ready(());
        }
        while self.written < self.words.len() {
            match Pin::new(&mut self.io).poll_write(cx, &self.words[self.written..]) {
                Poll::Ready(Ok(written)) if written > 0 => self.written += written,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        let is_said = self.written == self.words.len();
        if is_said && !self.is_shut && Pin::new(&mut self.io).poll_shutdown(cx).is_ready() {
            self.is_shut = true;
            self.until = self.until.min(now + LINGER);
        }
        for _ in 0..PIECES {
            let mut piece = [0; PIECE];
            let mut piece = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.io).poll_read(cx, &mut piece) {
                Poll::Ready(Ok(())) if !piece.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
