//! What a session tells its driver.

use super::SessionError;
use super::dictionaries::DictionaryEvent;
use crate::wire::{CloseCode, StreamId};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete; streams can be opened.
    Established,
    /// The peer opened a stream.
    StreamOpened(StreamId),
    /// A stream without messages has some now: take them with `recv` until there are none.
    Readable(StreamId),
    /// So much has left a stream's queue.
    Drained {
        /// The stream.
        stream: StreamId,
        /// Payload bytes, and 32 for each message.
        bytes: usize,
    },
    /// The peer sends nothing more on a stream; what it had sent can still be taken.
    StreamEnded(StreamId, CloseCode),
    /// The peer means to send a message that is longer than this side receives
    /// ([`Limits::max_message`](super::Limits::max_message)): nothing more is taken on the stream, and the peer is told so. Messages that
    /// had come before can still be taken, and other streams go on. [`Self::StreamEnded`] follows once the peer has closed the stream's direction.
    StreamRefused {
        /// The stream.
        stream: StreamId,
        /// The length that was announced, bytes.
        given: u64,
        /// The limit.
        max: u64,
    },
    /// The peer takes nothing more on a stream, since it was sent a message that is longer than it receives. What waited to be sent on
    /// it is dropped, and the stream's direction from this side is closed.
    StreamStopped {
        /// The stream.
        stream: StreamId,
        /// How many of the messages that were sent on it the peer has taken: the first so many.
        taken: u64,
        /// The length that was announced to it, bytes.
        given: u64,
        /// The peer's limit.
        max: u64,
    },
    /// The peer has something to send on a stream and no credit of the connection for it, since other streams hold what was not
    /// taken. If the application waits for a message of it, say so ([`Session::want`](super::Session::want)), now or
    /// once it does; and [release](super::Session::release) at once what it has taken.
    Starved(StreamId),
    /// Something about dictionaries that is worth keeping for the next session.
    Dictionary(DictionaryEvent),
    /// The connection is lost, and why; the session waits for another. The driver closes what is left of it and calls
    /// [`Session::reconnect`](super::Session::reconnect) when there is another one.
    Disconnected(SessionError),
    /// The session goes on over another connection.
    Resumed,
    /// The session begins to close, from either side: what is queued still goes, but nothing new is
    /// taken.
    Closing,
    /// The session is over: `Ok` after a clean close from either side.
    Closed(Result<(), SessionError>),
}
