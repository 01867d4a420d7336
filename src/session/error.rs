//! Why sessions and their operations fail, by whose fault it was.

use core::time::Duration;

use bytes::Bytes;

use crate::wire::{GoAwayCode, StreamId, WireError};

/// Why a session ended other than by a clean close. Sticky: every later call says the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer sent what it may not; it has been told so.
    #[error("the peer broke the protocol: {0}")]
    Peer(#[from] WireError),
    /// The peer ended the session, saying why.
    #[error("the peer ended the session: {code}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    GoneAway {
        /// Its reason.
        code: GoAwayCode,
        /// In its words.
        detail: String,
    },
    /// The connection ended without a go-away.
    #[error("the connection was lost")]
    ConnectionLost,
    /// The session could not go on over another connection: its peer does not know it any more, because it was started
    /// anew or has given it up. What became of messages: [`Session::deliveries`](super::Session::deliveries).
    #[error("the peer has lost the session")]
    Forgotten,
    /// The connection was lost and no other came in its place in time. What became of messages:
    /// [`Session::deliveries`](super::Session::deliveries).
    #[error("the connection was lost, and no other took its place within {limit:?}")]
    NotResumed {
        /// The limit.
        limit: Duration,
    },
    /// Nothing has come from the peer for too long, though it was asked.
    #[error("the peer has been silent for {limit:?}")]
    Silent {
        /// The limit.
        limit: Duration,
    },
    /// The peer's handshake did not come in time.
    #[error("no handshake within {limit:?}")]
    HandshakeTimeout {
        /// The limit.
        limit: Duration,
    },
}

/// Why a stream could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The peer allows no more at once.
    #[error("{open} streams are open, the peer allows {max}")]
    TooMany {
        /// How many are.
        open: u32,
        /// The peer's limit.
        max: u64,
    },
    /// The name is too long.
    #[error("the stream name has {given} bytes, at most {max} are allowed")]
    NameTooLong {
        /// Its length.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// The session is closing or closed.
    #[error("the session is closed")]
    Closed,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stream's queue is full; the message is given back.
    #[error("the stream's queue is full")]
    Full(Rejected),
    /// The peer does not receive messages this long.
    #[error("the message has {given} bytes, the peer receives at most {max}")]
    TooLong {
        /// Its length.
        given: usize,
        /// The peer's limit.
        max: u64,
    },
    /// The peer takes nothing more on the stream: it was sent a message that is longer than it receives. Messages before that have
    /// arrived, those after it are dropped; the stream's other direction goes on.
    #[error(
        "the peer takes nothing more on stream {stream}: a message of {given} bytes was announced to it, which receives at most {max}"
    )]
    Stopped {
        /// The stream.
        stream: StreamId,
        /// What the peer says that was announced to it, bytes.
        given: u64,
        /// The peer's limit.
        max: u64,
    },
    /// The stream does not exist, was finished by this side, or its session is closed.
    #[error("stream {0} is closed")]
    Closed(StreamId),
    /// A message of the stream has [parts](crate::wire::RecordKind::Part) to come, and this is none of them.
    #[error("a message of stream {0} has parts to come")]
    InParts(StreamId),
}

/// A message that is given back; its bytes are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Rejected(pub Bytes);

impl core::fmt::Debug for Rejected {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
