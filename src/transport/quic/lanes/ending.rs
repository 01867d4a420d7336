//! How lanes, and the connection with them, come to an end.

use std::sync::Arc;

use super::{Entry, LaneId, Lanes, Standing, State};
use crate::session::{SessionError, SessionStats};
use crate::transport::quic::carrier::{QuicCarrier, sever};
use crate::transport::shared::{Command, LaneCommand, Shared, lock};

impl Lanes {
    /// All lanes end with what one has failed with, or the peer.
    pub(super) fn fail(&self, error: &SessionError) {
        let lanes: Vec<_> = {
            let state = lock(&self.state);
            if *error == SessionError::ConnectionLost {
                if let Some(link) = &state.link {
                    sever(&link.connection);
                }
            }
            state.live().cloned().chain(self.first.upgrade()).collect()
        };
        for lane in lanes {
            lane.push(Command::Lane(LaneCommand::Fail(Box::new(error.clone()))));
        }
    }

    /// Has the connection close; whether the first lane may, which does last.
    pub(super) fn close(&self) -> bool {
        let lanes: Vec<_> = {
            let mut state = lock(&self.state);
            state.is_closing = true;
            state.live().cloned().collect()
        };
        for lane in &lanes {
            lane.push(Command::Close);
        }
        lanes.is_empty()
    }

    /// A session begins to close, which the peer may have begun.
    pub(super) fn on_closing(&self) {
        if let (false, Some(first)) = (self.close(), self.first.upgrade()) {
            // Not closed before the others are, but told now.
            first.push(Command::Close);
        }
    }

    /// The first lane has lost its carrier, and the others with it.
    pub(super) fn on_lost(&self, cause: SessionError, io: &QuicCarrier) -> SessionError {
        io.sever();
        let mut state = lock(&self.state);
        if let Some(link) = state.link.take() {
            link.task.abort();
            sever(&link.connection);
        }
        let told = state.cause.take();
        if cause == SessionError::ConnectionLost {
            told.unwrap_or(cause)
        } else {
            cause
        }
    }

    /// A further lane has lost its carrier, or given it up: all lanes go on over another connection.
    pub(super) fn on_lane_lost(
        &self,
        id: LaneId,
        cause: SessionError,
        io: &QuicCarrier,
        is_done: bool,
    ) {
        if !is_done {
            io.sever();
        }
        let mut state = lock(&self.state);
        if state.is_over {
            // There will be none.
            let lane = state.entries.get(&id).and_then(|entry| entry.lane.clone());
            drop(state);
            if let Some(lane) = lane {
                lane.push(Command::Lane(LaneCommand::EndIfDone));
                lane.push(Command::Lane(LaneCommand::Fail(Box::new(
                    SessionError::ConnectionLost,
                ))));
            }
            return;
        }
        if cause != SessionError::ConnectionLost {
            state.cause = Some(cause);
        }
        if id.is_own {
            // The first may be on another one already.
            self.open_again(&mut state, id);
        }
    }

    /// The first lane's session is over; whether all are.
    pub(super) fn on_first_closed(&self, result: &Result<(), SessionError>) -> bool {
        let lanes: Vec<_> = {
            let mut state = lock(&self.state);
            state.is_closing = true;
            state.is_over = true;
            let lanes: Vec<_> = state.live().cloned().collect();
            if !lanes.is_empty() {
                state.result = Some(result.clone());
            }
            if let (Err(SessionError::ConnectionLost), Some(link)) = (result, &state.link) {
                sever(&link.connection);
            }
            lanes
        };
        for lane in &lanes {
            match result {
                Ok(()) => {
                    lane.push(Command::Close);
                    lane.push(Command::Lane(LaneCommand::EndIfDone));
                }
                Err(error) => {
                    lane.push(Command::Lane(LaneCommand::Fail(Box::new(error.clone()))));
                }
            }
        }
        lanes.is_empty()
    }

    /// A further lane's session is over.
    pub(super) fn on_lane_closed(
        &self,
        id: LaneId,
        result: &Result<(), SessionError>,
        done: &SessionStats,
    ) {
        let Some(entry) = self.note_end(id, done) else {
            return;
        };
        if let Err(error) = result {
            let is_harmless = match error {
                // Nothing was in it, and who waits for it opens its streams in the first.
                SessionError::ConnectionLost => entry.standing == Standing::Begins,
                SessionError::NotResumed { .. } => !entry.is_used,
                _ => false,
            };
            if !is_harmless {
                if let Some(known @ Ok(())) = &mut lock(&self.state).result {
                    *known = Err(error.clone());
                }
                self.fail(error);
            }
        }
        let (result, closes) = {
            let mut state = lock(&self.state);
            if state.live().next().is_some() {
                return;
            }
            (state.result.take(), state.is_closing && !state.is_over)
        };
        let Some(first) = self.first.upgrade() else {
            return;
        };
        if let Some(result) = result {
            first.end(result);
        } else if closes {
            first.push(Command::Close);
        }
    }

    /// Counts a lane as over; `None` if it was.
    fn note_end(&self, id: LaneId, done: &SessionStats) -> Option<Entry> {
        let mut state = lock(&self.state);
        let entry = state.entries.get_mut(&id)?;
        let lane = entry.lane.take()?;
        let over = Entry {
            lane: None,
            door: None,
            standing: Standing::Over,
            ..*entry
        };
        let before = core::mem::replace(entry, over);
        state.groups.retain(|_, of| *of != id);
        state.used.remove(&Some(id));
        state.done.add(done);
        state.ended.push(lane);
        Some(before)
    }

    /// The first lane's driver has ended; whether its handles are told by the last of the others.
    pub(super) fn on_first_ended(&self) -> bool {
        let mut state = lock(&self.state);
        if let Some(link) = state.link.take() {
            // What lanes still have to say they say over the carriers that they have.
            link.task.abort();
        }
        state.result.is_some()
    }
}

/// Those that are not over, and those that are.
pub(super) fn lists(state: &State) -> (Vec<Arc<Shared>>, Vec<Arc<Shared>>) {
    (state.live().cloned().collect(), state.ended.clone())
}
