//! What a driver does where its connection may have several lanes.

use core::time::Duration;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Driver;
use crate::session::SessionError;
use crate::transport::shared::{LaneCommand, PeerStream, StreamShared};
use crate::units::Time;

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Driver<I> {
    pub(super) fn on_lane_command(&mut self, command: LaneCommand) {
        match command {
            LaneCommand::Knowledge { reply } => {
                let _ = reply.send(Box::new(self.session.knowledge()));
            }
            LaneCommand::Fail(error) => {
                // Who has lost the same connection will see, and may have words from the peer to read first.
                if *error != SessionError::ConnectionLost || self.session.is_resumable() {
                    self.session.fail(*error);
                }
            }
            LaneCommand::EndIfDone => self.session.end_if_done(),
        }
    }

    pub(super) fn on_connected(&self) {
        if let (Some(lane), Some(io)) = (&self.lane, &self.io) {
            lane.on_connected(io);
        }
    }

    /// The peer has opened a stream: it goes to where the connection's handles look for it.
    pub(super) fn on_opened(&mut self, stream: Arc<StreamShared>) {
        let Some(lane) = &self.lane else {
            self.shared.push_opened(PeerStream { lane: None, stream });
            return;
        };
        if let Err(error) = lane.on_opened(self.now) {
            self.session.refuse(error);
        } else if !lane.is_further() {
            self.shared.push_opened(PeerStream { lane: None, stream });
        } else if let Some(first) = lane.first() {
            let lane = Some(Arc::clone(&self.shared));
            first.push_opened(PeerStream { lane, stream });
        }
    }

    /// A block was decoded, which counts for all lanes.
    pub(super) fn on_decoded(&self, elapsed: Duration) {
        self.grant.spend(elapsed);
        if let Some(lane) = &self.lane {
            lane.on_decoded(self.now, elapsed);
        }
    }

    /// Says when the session was used, if the end of the connection depends on it.
    pub(super) fn say_use(&self) {
        if let Some(lane) = self.lane.as_ref().filter(|lane| lane.counts_use()) {
            lane.on_used(self.session.last_use());
        }
    }

    /// Keeps to what holds for all lanes together.
    pub(super) fn heed_lanes(&mut self, now: Time) {
        self.say_use();
        let Some(lane) = &self.lane else { return };
        if let Some(until) = lane.paused_until().filter(|until| *until > now) {
            self.session.pause_input(now, until);
        }
        if lane.idle_due(now).is_some_and(|due| now >= due) {
            self.begin_close();
        }
    }

    /// The connection is lost: it counts once, whichever lane has found that.
    pub(super) fn count_loss(&self, cause: SessionError) {
        let cause = match (&self.lane, &self.io) {
            (Some(lane), Some(io)) => {
                lane.on_disconnected(cause, io, self.session.is_said_and_done())
            }
            _ => Some(cause),
        };
        if let Some(cause) = cause {
            self.node.faults.on_failed(&cause);
        }
    }
}
