//! Why operations over sockets fail.

use core::time::Duration;
use std::io;

use super::Address;
use crate::session::{ConfigError, OpenError, SendError, SessionError};

/// Why a node does not start, connect or listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The system refuses the address.
    #[error("{address}: {source}")]
    Io {
        /// The address.
        address: Address,
        /// What the system says.
        source: io::Error,
    },
    /// A setting makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The handshake failed.
    #[error("{address}: {source}")]
    Handshake {
        /// The address, as far as it is known.
        address: String,
        /// Why.
        source: SessionError,
    },
    /// TLS with the peer failed.
    #[cfg(feature = "tls")]
    #[error("{address}: {source}")]
    Tls {
        /// The address, as far as it is known.
        address: String,
        /// Why.
        source: super::TlsError,
    },
    /// A `tls:` or `quic:` address, and the node was given nothing to connect or listen there with.
    #[cfg(feature = "tls")]
    #[error("{address}: the node has no TLS settings for it")]
    NoTls {
        /// The address.
        address: Address,
    },
    /// No random numbers from the system.
    #[error("no random numbers from the system: {0}")]
    Random(getrandom::Error),
}

/// Why a request got no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request was not sent, or the peer has not taken it and takes nothing more of the stream ([`SendError::Stopped`]).
    #[error(transparent)]
    Send(#[from] SendError),
    /// No reply came in time; a later one is dropped.
    #[error("no reply within {after:?}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The session or stream ended first.
    #[error("the stream ended before the reply came")]
    Ended,
}

/// Why a stream could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStreamError {
    /// The session refuses.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The session has failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Why a stream has no more messages, other than that its sender finished it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// The sender gave up; messages may be missing.
    #[error("the sender aborted the stream with code {code}")]
    Aborted {
        /// The application's code.
        code: u32,
    },
    /// The sender announced a message that is longer than this side receives ([`Limits::max_message`](crate::session::Limits::max_message)).
    /// What it sends on the stream from there on is dropped, and it has been told so; messages in the other direction, and other
    /// streams, are not affected.
    #[error("the stream ends with a message of {given} bytes, of which at most {max} are received")]
    TooLong {
        /// The length that was announced, bytes.
        given: u64,
        /// The limit.
        max: u64,
    },
    /// The session has failed; messages may be missing.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The next message comes in parts: [`Stream::recv_reader`](super::Stream::recv_reader) takes it, and until then it stays where it is.
    #[error("the next message comes in parts")]
    InParts,
    /// The sender could not go on with the message, of which parts have come. The stream goes on with the next one.
    #[error("the sender gave the message up")]
    GivenUp,
}

/// Why a message was not sent to its end by [`Stream::send_reader`](super::Stream::send_reader).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendReaderError {
    /// It could not be read on; the peer is told.
    #[error("the message could not be read: {0}")]
    Read(#[source] io::Error),
    /// It could not be sent on.
    #[error(transparent)]
    Send(#[from] SendError),
}
