//! Messages that are sent while they are read, and read while they come: neither end ever holds more of one than its
//! queue or window.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::connection::{Received, Sensitive, Stream};
use super::error::{RecvError, SendReaderError};
use super::inbound::{Begun, Waiting};
use super::shared::Command;
use super::wait::Wait;
use crate::session::SendError;
use crate::wire::{Part, RecordKind};

/// The longest part. As long as a block has by default.
const PART_LEN: usize = 64 << 10;

impl Stream {
    /// Sends what `reader` gives, to its end, as one message, of any length: it need not fit in memory, nor be known how long it is. Each
    /// read goes as a part of at most 64 KiB as soon as there is room for it in the stream's queue, and counts as a message
    /// in all statistics. Other messages sent on the stream wait for its end, except for replies; other streams do not.
    /// The bytes that were sent.
    ///
    /// The peer takes it with [`Self::recv_reader`]. If this is dropped before the end, the peer is told that
    /// the message was given up.
    ///
    /// # Errors
    ///
    /// `reader` fails, after which the peer is told that the message was given up, or the stream is closed.
    ///
    /// ```
    /// # use tautline::transport::Stream;
    /// # async fn upload(stream: &Stream) -> Result<(), Box<dyn std::error::Error>> {
    /// let bytes = stream.send_reader(tokio::fs::File::open("image.iso").await?).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_reader(&self, reader: impl AsyncRead) -> Result<u64, SendReaderError> {
        self.send_parts(reader, false).await
    }

    async fn send_parts(
        &self,
        reader: impl AsyncRead,
        sensitive: bool,
    ) -> Result<u64, SendReaderError> {
        let mut reader = core::pin::pin!(reader);
        if !self.stream.outbox.begin_parts().await {
            return Err(self.stream.why_closed().into());
        }
        let mut parts = Parts {
            stream: self,
            sensitive,
            is_begun: false,
        };
        let max = self
            .lane
            .max_message
            .load(core::sync::atomic::Ordering::Acquire);
        let most = usize::try_from(max).map_or(PART_LEN, |max| max.clamp(1, PART_LEN));
        let mut bytes = 0;
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(most);
            let read = reader.read_buf(&mut (&mut buffer).limit(most)).await;
            let len = read.map_err(SendReaderError::Read)?;
            if len == 0 {
                parts.put(Part::Last, Bytes::new()).await?;
                return Ok(bytes);
            }
            bytes += len as u64;
            parts.put(Part::More, buffer.split().freeze()).await?;
        }
    }

    /// The next message, to be read as it comes, whether it was sent with [`Self::send_reader`] or in one piece; `None` when the peer has
    /// finished the stream or the session has ended cleanly. Cancel-safe. While it is read, others who receive on the stream wait.
    ///
    /// # Errors
    ///
    /// The sender gave up, or the session has failed.
    pub async fn recv_reader(&self) -> Result<Option<MessageReader<'_>>, RecvError> {
        if let Some(reader) = self.begin_reading() {
            return Ok(Some(reader));
        }
        self.lane.helm.help();
        loop {
            let (_waiting, readable) = self.stream.wait();
            let mut readable = core::pin::pin!(readable);
            readable.as_mut().enable();
            // What came before the registration is seen here.
            if let Some(reader) = self.begin_reading() {
                return Ok(Some(reader));
            }
            match self.stream.why_none() {
                None => {}
                // It came between the two looks.
                Some(Err(RecvError::InParts)) => continue,
                Some(why) => return why.map(|()| None),
            }
            self.stream.want(&self.lane);
            readable.await;
        }
    }

    fn begin_reading(&self) -> Option<MessageReader<'_>> {
        let begun = self.stream.begin(self.lane.release_at())?;
        let mut reader = MessageReader {
            stream: self,
            whole: None,
            rest: Bytes::new(),
            end: None,
            wait: Wait::new(),
        };
        if let Begun::Whole(popped) = begun {
            let received = self.take(popped);
            reader.rest = received.payload.clone();
            reader.whole = Some(received);
            reader.end = Some(Ok(()));
        }
        Some(reader)
    }
}

impl Sensitive<'_> {
    /// As [`Stream::send_reader`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn send_reader(self, reader: impl AsyncRead) -> Result<u64, SendReaderError> {
        self.stream.send_parts(reader, true).await
    }
}

/// The turn of a message in parts, which it gives up unless it is sent to its end.
struct Parts<'a> {
    stream: &'a Stream,
    sensitive: bool,
    /// The peer waits for its end.
    is_begun: bool,
}

impl Parts<'_> {
    async fn put(&mut self, part: Part, payload: Bytes) -> Result<(), SendError> {
        // A part that waits for room when this is dropped is not sent.
        self.stream
            .put(payload, RecordKind::Part(part), self.sensitive)
            .await?;
        self.is_begun = part == Part::More;
        Ok(())
    }
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        if self.is_begun {
            self.stream.give_up(self.sensitive);
        }
        self.stream.stream.outbox.end_parts();
    }
}

/// A message that is read as it comes. Dropped before its end, the rest of the message is dropped as it comes.
pub struct MessageReader<'a> {
    stream: &'a Stream,
    /// The message, if it came in one piece.
    whole: Option<Received>,
    /// What has come and is not read.
    rest: Bytes,
    /// How it ends behind `rest`, if that has come.
    end: Option<Result<(), RecvError>>,
    /// For a part.
    wait: Wait<'a, Waiting<'a>>,
}

impl fmt::Debug for MessageReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageReader")
            .field("stream", &self.stream.id())
            .field("came_whole", &self.whole.is_some())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl MessageReader<'_> {
    /// The message, if it was sent in one piece, and may be a request: then all of it is here. `None` if it comes in parts, or was begun to be read.
    pub fn take_whole(&mut self) -> Option<Received> {
        let rest = self.rest.len();
        let whole = self.whole.take_if(|whole| whole.payload.len() == rest)?;
        self.rest.clear();
        Some(whole)
    }

    /// The next bytes of the message, as they came; `None` at its end. Cancel-safe. They share their memory with the block that they came in.
    ///
    /// # Errors
    ///
    /// The sender gave the message or the stream up, or the session has failed.
    pub async fn next_part(&mut self) -> Result<Option<Bytes>, RecvError> {
        core::future::poll_fn(|cx| self.poll_part(cx)).await
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RecvError>> {
        ready!(self.poll_rest(cx))?;
        let part = core::mem::take(&mut self.rest);
        Poll::Ready(Ok((!part.is_empty()).then_some(part)))
    }

    /// Waits until bytes are here, or the message's end, where there are none.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RecvError>> {
        let Stream { lane, stream, .. } = self.stream;
        while self.rest.is_empty() && self.end.is_none() {
            if let Some((part, popped)) = stream.pop_part(lane.release_at()) {
                self.rest = self.stream.take(popped).payload;
                self.end = match part {
                    Part::More => None,
                    Part::Last => Some(Ok(())),
                    Part::GivenUp => Some(Err(RecvError::GivenUp)),
                };
            } else if let Some(ended) = stream.ended() {
                self.end = Some(Err(ended.err().unwrap_or(RecvError::GivenUp)));
            } else if self.wait.is_begun() {
                ready!(self.wait.poll(cx));
            } else {
                lane.helm.help();
                self.wait.begin(stream.wait_for_part());
                stream.want(lane);
                // What came before the registration is seen in the next round.
            }
        }
        Poll::Ready(match &self.end {
            Some(Err(error)) if self.rest.is_empty() => Err(error.clone()),
            _ => Ok(()),
        })
    }
}

impl AsyncRead for MessageReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_rest(cx)).map_err(|error| {
            let kind = match error {
                RecvError::GivenUp => io::ErrorKind::UnexpectedEof,
                RecvError::TooLong { .. } => io::ErrorKind::InvalidData,
                _ => io::ErrorKind::ConnectionAborted,
            };
            io::Error::new(kind, error)
        })?;
        let len = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..len]);
        self.rest.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl Drop for MessageReader<'_> {
    fn drop(&mut self) {
        if self.end.is_none() {
            let charge = self.stream.stream.stop_reading();
            if charge > 0 {
                let stream = self.stream.id();
                self.stream.lane.push(Command::Release { stream, charge });
            }
        }
    }
}
