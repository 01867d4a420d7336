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
