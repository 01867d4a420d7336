//! What was wrong with the connections of a node, counted.

use std::sync::Mutex;

use super::shared::lock;
use crate::session::SessionError;
use crate::wire::{GoAwayCode, WireError};

/// How often the connections of a node went wrong, since it began, by whose fault and how: each connection that ends otherwise than by a
/// clean close counts once, also where its session goes on over another one; and each stream that was refused, on connections that go on. What
/// a listener did not let in,
/// [`ListenerStats`](super::ListenerStats) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultStats {
    /// Peers that speak something else, or no version in common.
    pub strangers: u64,
    /// Peers that require a feature that is not offered here.
    pub features: u64,
    /// Frames that cannot be read: numbers, texts and fields that are cut off, left over, missing or below the least value.
    pub malformed: u64,
    /// Frames, flags, slots, codecs and so on that there are not.
    pub unknown: u64,
    /// Frames too early, too late, twice, or of what is not there.
    pub unexpected: u64,
    /// Lengths and counts above a limit.
    pub oversized: u64,
    /// Checks that do not match.
    pub checksums: u64,
    /// Blocks that do not decode, or to another length.
    pub undecodable: u64,
    /// Peers that ended the session with a reason other than that it is done: what they say was wrong with this side.
    pub gone_away: u64,
    /// Connections that ended without a word.
    pub lost: u64,
    /// Connections on which nothing came for too long.
    pub silent: u64,
    /// Handshakes that did not come in time.
    pub handshakes: u64,
    /// Sessions that did not go on: their peer had lost them, or did not come back in time.
    pub not_resumed: u64,
    /// Streams on which a peer meant to send a message that is longer than this side receives
    /// ([`Limits::max_message`](crate::session::Limits::max_message), [`RecvError::TooLong`](super::RecvError::TooLong)): each
    /// once, on the side that refused. Their connections go on.
    pub streams_refused: u64,
}

#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<FaultStats>);

impl Faults {
    pub(super) fn stats(&self) -> FaultStats {
        *lock(&self.0)
    }

    /// A stream was refused; its connection goes on.
    pub(super) fn on_stream_refused(&self) {
        lock(&self.0).streams_refused += 1;
    }

    pub(super) fn on_failed(&self, error: &SessionError) {
        let mut stats = lock(&self.0);
        *match error {
            SessionError::Peer(error) => stats.of(error),
            // The session of the connection is known no more: no fault of this side's.
            SessionError::GoneAway {
                code: GoAwayCode::SessionLost,
                ..
            }
            | SessionError::Forgotten
            | SessionError::NotResumed { .. } => &mut stats.not_resumed,
            SessionError::GoneAway { .. } => &mut stats.gone_away,
            SessionError::ConnectionLost => &mut stats.lost,
            SessionError::Silent { .. } => &mut stats.silent,
            SessionError::HandshakeTimeout { .. } => &mut stats.handshakes,
        } += 1;
    }
}

impl FaultStats {
    const fn of(&mut self, error: &WireError) -> &mut u64 {
        match error {
            WireError::WrongMagic { .. } | WireError::Version { .. } => &mut self.strangers,
            WireError::Feature { .. } => &mut self.features,
            WireError::BadVarint
            | WireError::Truncated { .. }
            | WireError::TrailingBytes { .. }
            | WireError::NotText { .. }
            | WireError::MissingField { .. }
            | WireError::FieldTooSmall { .. } => &mut self.malformed,
            WireError::Unknown { .. } => &mut self.unknown,
            WireError::Unexpected { .. } => &mut self.unexpected,
            WireError::FieldTooLarge { .. } => &mut self.oversized,
            WireError::Checksum { .. } => &mut self.checksums,
            WireError::Undecodable { .. } | WireError::WrongPlainLen { .. } => {
                &mut self.undecodable
            }
        }
    }
}
