//! Several sessions of one connection (docs/quic.md, "Lanes"): what each has of the connection's settings, and what their
//! driver tells them of each other.

#[cfg(feature = "quic")]
mod budget;

#[cfg(feature = "quic")]
pub(crate) use self::budget::LaneBudget;
#[cfg(feature = "quic")]
use super::OpenError;
use super::stream::Stream;
use super::{Session, SessionError, SessionStats, State, StreamConfig};
use crate::control::BudgetRate;
use crate::units::Time;
#[cfg(feature = "quic")]
use crate::wire::StreamId;
use crate::wire::{GoAwayCode, GroupId, WireError};

impl StreamConfig {
    /// The group, as set.
    pub(crate) const fn group_id(&self) -> GroupId {
        self.group
    }
}

impl Session {
    /// Opens a stream with a number from `next` on, and has `next` come after it, so that numbers are unique over several
    /// sessions.
    #[cfg(feature = "quic")]
    pub(crate) fn open_from(
        &mut self,
        next: &mut u32,
        name: &str,
        config: StreamConfig,
    ) -> Result<StreamId, OpenError> {
        self.next_stream = self.next_stream.max(*next);
        let id = self.open(name, config)?;
        *next = self.next_stream;
        Ok(id)
    }

    /// The peer went beyond what it may on all lanes together.
    pub(crate) fn refuse(&mut self, error: WireError) {
        // A failed session says so with an event.
        let _ = self.fail_on(Err(error));
    }

    /// Ends with what another lane has failed with; the peer is told.
    pub(crate) fn fail(&mut self, error: SessionError) {
        if matches!(self.state, State::Closed(_)) {
            return;
        }
        match &error {
            SessionError::Peer(cause) => self.put_go_away(cause.code(), &cause.to_string()),
            SessionError::Forgotten | SessionError::NotResumed { .. } => {
                self.put_go_away(GoAwayCode::SessionLost, "");
            }
            SessionError::HandshakeTimeout { .. } | SessionError::Silent { .. } => {
                self.put_go_away(GoAwayCode::Internal, &error.to_string());
            }
            // It knows, or is not there.
            SessionError::GoneAway { .. } | SessionError::ConnectionLost => {}
        }
        self.end(Err(error));
    }

    /// Whether both sides have said that all is done.
    pub(crate) const fn is_said_and_done(&self) -> bool {
        self.ending.both_gone()
    }

    /// The peer's end of the connection is over cleanly, and so with all that it was sent: what is left here is over, too.
    pub(crate) fn end_if_done(&mut self) {
        if self.ending.both_gone() {
            self.end(Ok(()));
        }
    }

    /// Nothing is read until then: the lanes' blocks take too much time to decode.
    pub(crate) fn pause_input(&mut self, now: Time, until: Time) {
        self.receiver.decode_time.pause_until(now, until);
    }

    /// When the session was last used; `None` while it is in use.
    pub(crate) fn last_use(&self) -> Option<Time> {
        let is_quiet = self.is_connected() && self.sender.is_idle() && self.receiver.is_idle();
        let waits = |stream: &Stream| !stream.send.queue.is_empty() || stream.recv.held() > 0;
        (is_quiet && !self.streams.iter().any(waits)).then_some(self.used_at)
    }
}

impl SessionStats {
    /// Adds what another lane of the connection has done and holds. What is known of the way to the peer is lane 0's, as far
    /// as it knows.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.blocks_sent, other.blocks_sent),
            (&mut self.blocks_received, other.blocks_received),
            (&mut self.frames_unacked, other.frames_unacked),
            (&mut self.wire_sent, other.wire_sent),
            (&mut self.hello_sent, other.hello_sent),
            (&mut self.wire_received, other.wire_received),
            (&mut self.encode_nanos, other.encode_nanos),
            (&mut self.decode_nanos, other.decode_nanos),
            (&mut self.shadows, other.shadows),
            (&mut self.shadow_nanos, other.shadow_nanos),
            (&mut self.history_sent, other.history_sent),
            (&mut self.history_received, other.history_received),
            (&mut self.retained, other.retained),
            (&mut self.queued, other.queued),
            (&mut self.output, other.output),
            (&mut self.undelivered, other.undelivered),
            (&mut self.history_limit, other.history_limit),
            (&mut self.history_announced, other.history_announced),
            (&mut self.received_held, other.received_held),
            // Not all at one time, perhaps.
            (&mut self.received_most, other.received_most),
            (&mut self.received_limit, other.received_limit),
            (&mut self.credit_waits, other.credit_waits),
            (&mut self.peer_credit_waits, other.peer_credit_waits),
            (&mut self.absurd_reports, other.absurd_reports),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.rtt = self.rtt.or(other.rtt);
        self.rtt_min = self.rtt_min.or(other.rtt_min);
        self.send_rate = self.send_rate.or(other.send_rate);
        self.link_rate = self.link_rate.or(other.link_rate);
        self.is_blocked |= other.is_blocked;
        self.peer_load = self.peer_load.or(other.peer_load);
        // One pause holds up all of them.
        self.decode_pauses = self.decode_pauses.max(other.decode_pauses);
        self.budget = match (self.budget, other.budget) {
            (Some(one), Some(other)) => Some(BudgetRate::from_nanos_per_sec(
                one.as_nanos_per_sec()
                    .saturating_add(other.as_nanos_per_sec()),
            )),
            (one, other) => one.or(other),
        };
    }
}
