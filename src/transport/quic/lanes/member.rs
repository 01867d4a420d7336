//! What the drivers of lanes tell the others.

use core::any::Any;
use core::time::Duration;
use std::sync::{Arc, Weak};

use super::ending::lists;
use super::{LaneId, Lanes, Standing};
use crate::session::{OpenError, Session, SessionError, SessionStats, StreamConfig};
use crate::transport::lane::{Found, Further, Lane};
use crate::transport::quic::carrier::QuicCarrier;
use crate::transport::shared::{Shared, lock};
use crate::units::Time;
use crate::wire::{GroupId, StreamId, WireError};

/// The first lane, whose handles own the others.
#[derive(Debug)]
pub(super) struct FirstLane(pub(super) Arc<Lanes>);

/// Another one.
#[derive(Debug)]
pub(super) struct FurtherLane {
    pub(super) lanes: Weak<Lanes>,
    pub(super) first: Weak<Shared>,
    pub(super) id: LaneId,
}

impl Lanes {
    fn open(
        &self,
        session: &mut Session,
        name: &str,
        config: StreamConfig,
    ) -> Result<StreamId, OpenError> {
        session.open_from(&mut lock(&self.state).next_stream, name, config)
    }

    fn on_decoded(&self, now: Time, elapsed: Duration) {
        let decodes = &mut lock(&self.state).decodes;
        decodes.on_decoded(elapsed);
        decodes.on_time(now);
    }

    fn paused_until(&self) -> Option<Time> {
        lock(&self.state).decodes.paused_until()
    }

    fn on_used(&self, lane: Option<LaneId>, at: Option<Time>) {
        let mut state = lock(&self.state);
        if lane.is_none_or(|id| state.used.contains_key(&Some(id))) {
            state.used.insert(lane, at);
        }
    }

    fn idle_due(&self, now: Time) -> Option<Time> {
        let limit = self.idle_limit?;
        let state = lock(&self.state);
        if state.is_closing {
            return None;
        }
        let used = state.used.values().map(|at| at.unwrap_or(now));
        used.max().map(|at| at + limit)
    }
}

impl Lane for FirstLane {
    fn is_further(&self) -> bool {
        false
    }

    fn first(&self) -> Option<Arc<Shared>> {
        self.0.first.upgrade()
    }

    fn of_group(&self, group: GroupId) -> Found<'_> {
        Box::pin(self.0.of_group(group))
    }

    fn further(&self) -> Further {
        let state = lock(&self.0.state);
        let (lanes, ended) = lists(&state);
        Further {
            lanes,
            ended,
            done: state.done.clone(),
        }
    }

    fn idle_due(&self, now: Time) -> Option<Time> {
        self.0.idle_due(now)
    }

    fn on_connected(&self, io: &dyn Any) {
        if let Some(carrier) = io.downcast_ref() {
            self.0.follow(carrier);
        }
    }

    fn on_disconnected(&self, cause: SessionError, io: &dyn Any, _: bool) -> Option<SessionError> {
        Some(match io.downcast_ref() {
            Some(carrier) => self.0.on_lost(cause, carrier),
            None => cause,
        })
    }

    fn on_closing(&self) {
        self.0.close();
    }

    fn may_close(&self) -> bool {
        self.0.close()
    }

    fn on_closed(&self, result: &Result<(), SessionError>, _: &SessionStats) -> bool {
        self.0.on_first_closed(result)
    }

    fn on_driver_ended(&self) -> bool {
        self.0.on_first_ended()
    }

    fn open(
        &self,
        session: &mut Session,
        name: &str,
        config: StreamConfig,
    ) -> Result<StreamId, OpenError> {
        self.0.open(session, name, config)
    }

    fn on_opened(&self, now: Time) -> Result<(), WireError> {
        lock(&self.0.state).opens.on_open(now)
    }

    fn on_decoded(&self, now: Time, elapsed: Duration) {
        self.0.on_decoded(now, elapsed);
    }

    fn paused_until(&self) -> Option<Time> {
        self.0.paused_until()
    }

    fn counts_use(&self) -> bool {
        self.0.idle_limit.is_some()
    }

    fn on_used(&self, at: Option<Time>) {
        self.0.on_used(None, at);
    }
}

impl Lane for FurtherLane {
    fn is_further(&self) -> bool {
        true
    }

    fn first(&self) -> Option<Arc<Shared>> {
        self.first.upgrade()
    }

    fn of_group(&self, _: GroupId) -> Found<'_> {
        Box::pin(core::future::ready(None))
    }

    fn further(&self) -> Further {
        Further::default()
    }

    fn idle_due(&self, _: Time) -> Option<Time> {
        None
    }

    fn on_connected(&self, _: &dyn Any) {
        let Some(lanes) = self.lanes.upgrade() else {
            return;
        };
        let mut state = lock(&lanes.state);
        let Some(entry) = state.entries.get_mut(&self.id) else {
            return;
        };
        if entry.standing == Standing::Begins {
            entry.standing = Standing::Stands;
            if self.id.is_own {
                // The first may have gone on meanwhile.
                lanes.open_again(&mut state, self.id);
            }
        }
    }

    fn on_disconnected(
        &self,
        cause: SessionError,
        io: &dyn Any,
        is_done: bool,
    ) -> Option<SessionError> {
        if let (Some(lanes), Some(carrier)) =
            (self.lanes.upgrade(), io.downcast_ref::<QuicCarrier>())
        {
            lanes.on_lane_lost(self.id, cause, carrier, is_done);
        }
        // The first counts it.
        None
    }

    fn on_closing(&self) {
        if let Some(lanes) = self.lanes.upgrade() {
            lanes.on_closing();
        }
    }

    fn may_close(&self) -> bool {
        true
    }

    fn on_closed(&self, result: &Result<(), SessionError>, stats: &SessionStats) -> bool {
        if let Some(lanes) = self.lanes.upgrade() {
            lanes.on_lane_closed(self.id, result, stats);
        }
        true
    }

    fn on_driver_ended(&self) -> bool {
        if let Some(lanes) = self.lanes.upgrade() {
            // Known already, unless the runtime shuts down.
            let lost = Err(SessionError::ConnectionLost);
            lanes.on_lane_closed(self.id, &lost, &SessionStats::default());
        }
        false
    }

    fn open(
        &self,
        session: &mut Session,
        name: &str,
        config: StreamConfig,
    ) -> Result<StreamId, OpenError> {
        match self.lanes.upgrade() {
            Some(lanes) => lanes.open(session, name, config),
            None => Err(OpenError::Closed),
        }
    }

    fn on_opened(&self, now: Time) -> Result<(), WireError> {
        let Some(lanes) = self.lanes.upgrade() else {
            return Ok(());
        };
        let mut state = lock(&lanes.state);
        if let Some(entry) = state.entries.get_mut(&self.id) {
            entry.is_used = true;
        }
        state.opens.on_open(now)
    }

    fn on_decoded(&self, now: Time, elapsed: Duration) {
        if let Some(lanes) = self.lanes.upgrade() {
            lanes.on_decoded(now, elapsed);
        }
    }

    fn paused_until(&self) -> Option<Time> {
        self.lanes.upgrade()?.paused_until()
    }

    fn counts_use(&self) -> bool {
        self.lanes
            .upgrade()
            .is_some_and(|lanes| lanes.idle_limit.is_some())
    }

    fn on_used(&self, at: Option<Time>) {
        if let Some(lanes) = self.lanes.upgrade() {
            lanes.on_used(Some(self.id), at);
        }
    }
}
