//! A stream's messages as a [`Stream`](futures_core::Stream) and a [`Sink`] of the `futures` crates: one by one for who uses them, and
//! many at once for the locks that the driver has, too.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_sink::Sink;
use tokio::sync::futures::Notified;

use super::connection::{Received, Stream};
use super::error::RecvError;
use super::wait::Wait;
use super::{inbound, outbox};
use crate::session::{MessageQueue, Outgoing, OutgoingQueue, SendError};

/// Messages, and bytes of them, that are taken or put at once. The bytes are what tokio-util's frames are gathered in by who wants them to be fast; so many
/// messages, since empty ones have none (docs/benchmarks.md: 64, 256 and 1024).
const MOST: usize = 1024;
const MOST_BYTES: usize = 64 << 10;
/// So many messages without a wait, and the rest of the block they came in, before the other tasks of the thread have a turn: as many as one by one.
const RUN: usize = 1024;

impl Stream {
    /// The messages that come, as a [`futures_core::Stream`]: as [`Self::recv`], at less than that costs for each where they are short.
    /// It takes many that are here at once, a block or about 64 KiB of them. Those that it has not given come again, before all others, once it is dropped;
    /// who else receives on the stream meanwhile does not see them, and may be told the end.
    ///
    /// It ends where [`Self::recv`] says `None`, and after an error; but where the next message comes in parts it says so each time, until [`Self::recv_reader`] has taken it.
    ///
    /// ```
    /// # use tautline::transport::Stream;
    /// use futures_util::TryStreamExt;
    ///
    /// # async fn count(stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut messages = stream.messages();
    /// while let Some(message) = messages.try_next().await? {
    ///     println!("{} bytes", message.payload.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn messages(&self) -> Messages<'_> {
        Messages {
            stream: self,
            taken: MessageQueue::new(),
            look: Look::new(),
            is_over: false,
        }
    }

    /// A [`Sink`] for messages: `feed` gathers up to 64 KiB of them, or 1024, and `flush` has them sent, as [`Self::send_many`]; `close` finishes the
    /// stream, too. What was fed and not flushed is lost with it.
    ///
    /// ```
    /// # use tautline::transport::Stream;
    /// use futures_util::SinkExt;
    ///
    /// # async fn report(stream: &Stream, lines: Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut sink = stream.sink();
    /// for line in lines {
    ///     sink.feed(line.into()).await?;
    /// }
    /// sink.flush().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sink(&self) -> MessageSink<'_> {
        MessageSink {
            stream: self,
            fed: OutgoingQueue::new(),
            bytes: 0,
            look: Look::new(),
        }
    }
}

/// Looks for what others are to bring, and waits for it.
struct Look<'a, W> {
    wait: Wait<'a, W>,
    /// Messages since the last wait.
    run: usize,
}

impl<'a, W> Look<'a, W> {
    fn new() -> Self {
        Self {
            wait: Wait::new(),
            run: 0,
        }
    }

    /// Looks until it is found: where it is not there, `help` has a turn once, then `begin` says whom to wait for, and `ask` asks for it.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut() -> Option<T>,
        help: impl FnOnce(),
        begin: impl Fn() -> (W, Notified<'a>),
        ask: impl Fn(),
    ) -> Poll<T> {
        let mut help = Some(help);
        if self.run >= RUN && !self.wait.is_begun() {
            self.run = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            // What came before the registration is seen here.
            if let Some(found) = look() {
                self.wait.end();
                return Poll::Ready(found);
            }
            if self.wait.is_begun() {
                ask();
                ready!(self.wait.poll(cx));
                self.run = 0;
                // It was there, and somebody else has taken it, or it is there.
                help = None;
            } else if let Some(help) = help.take() {
                help();
            } else {
                self.wait.begin(begin());
            }
        }
    }
}

/// Messages of a stream as they come: see [`Stream::messages`].
#[must_use = "nothing is received until it is polled"]
pub struct Messages<'a> {
    stream: &'a Stream,
    /// What is to be given next.
    taken: MessageQueue,
    look: Look<'a, inbound::Waiting<'a>>,
    is_over: bool,
}

impl Messages<'_> {
    /// Takes what is here, or waits for it.
    #[inline(never)]
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Received, RecvError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let (stream, taken) = (self.stream, &mut self.taken);
        let inner = &*stream.stream;
        let look = || {
            stream.move_many(taken, (MOST, MOST_BYTES));
            match taken.pop_front() {
                Some(message) => Some(Ok(Some(message))),
                None => Some(inner.why_none()?.map(|()| None)),
            }
        };
        let help = || {
            inner.sends.pause();
            stream.lane.helm.help();
        };
        let next = self
            .look
            .poll(cx, look, help, || inner.wait(), || inner.want(&stream.lane));
        let next = ready!(next);
        self.look.run += 1 + self.taken.len();
        self.is_over = !matches!(&next, Ok(Some(_)) | Err(RecvError::InParts));
        Poll::Ready(next.map(|message| message.map(Received::new)).transpose())
    }
}

impl futures_core::Stream for Messages<'_> {
    type Item = Result<Received, RecvError>;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.taken.pop_front() {
            Some(message) => Poll::Ready(Some(Ok(Received::new(message)))),
            None => self.poll_take(cx),
        }
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        // Who waits for nothing any more is not to be woken for what is given back.
        self.look.wait.end();
        if !self.taken.is_empty() {
            let taken = core::mem::take(&mut self.taken);
            self.stream.stream.give_back(taken);
        }
    }
}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("stream", &self.stream.id())
            .field("taken", &self.taken.len())
            .finish_non_exhaustive()
    }
}

/// Takes messages to be sent: see [`Stream::sink`].
#[must_use = "nothing is sent until it is fed and flushed"]
pub struct MessageSink<'a> {
    stream: &'a Stream,
    fed: OutgoingQueue,
    /// Their bytes.
    bytes: usize,
    look: Look<'a, outbox::Waiting<'a>>,
}

impl MessageSink<'_> {
    fn poll_put(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let (stream, fed) = (self.stream, &mut self.fed);
        let messages = fed.len();
        let outbox = &stream.stream.outbox;
        let look = || stream.put_queue(fed);
        let help = || {
            stream.lane.helm.help();
        };
        let put = self.look.poll(cx, look, help, || outbox.wait(), || {});
        ready!(put)?;
        self.look.run += messages;
        // As many as the last time.
        fed.expect(core::mem::take(&mut self.bytes));
        Poll::Ready(Ok(()))
    }
}

impl Sink<Bytes> for MessageSink<'_> {
    type Error = SendError;

    #[inline]
    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.fed.len() < MOST && self.bytes < MOST_BYTES {
            return Poll::Ready(Ok(()));
        }
        self.poll_put(cx)
    }

    #[inline]
    fn start_send(mut self: Pin<&mut Self>, payload: Bytes) -> Result<(), SendError> {
        self.stream.check_len(&payload)?;
        self.bytes += payload.len();
        self.fed.push_back(Outgoing::new(payload));
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.fed.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.poll_put(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.as_mut().poll_flush(cx))?;
        self.stream.finish();
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for MessageSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSink")
            .field("stream", &self.stream.id())
            .field("fed", &self.fed.len())
            .finish_non_exhaustive()
    }
}
