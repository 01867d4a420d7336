//! What [`events`](super::events) has, where there are no event logs: nothing, for nothing.

use core::time::Duration;

use super::clock::Clock;
use crate::codecs::{Arm, CodecId};
use crate::control::BudgetRate;
use crate::session::{Role, Session};
use crate::units::{CpuLoad, Time};
use crate::wire::StreamId;

#[derive(Clone, Copy, Debug)]
pub(super) struct Moment;

#[derive(Clone, Debug, Default)]
pub(super) struct NodeEvents;

#[derive(Clone, Debug, Default)]
pub(super) struct SessionEvents;

#[expect(
    clippy::unused_self,
    reason = "they are called as those that record are"
)]
impl NodeEvents {
    pub(super) const fn session(&self, _: Role, _: &str, _: Clock) -> SessionEvents {
        SessionEvents
    }

    pub(super) const fn measured(&self, _: CpuLoad, _: Option<BudgetRate>, _: Option<BudgetRate>) {}
}

#[expect(
    clippy::unused_self,
    reason = "they are called as those that record are"
)]
impl SessionEvents {
    pub(super) const fn observe(&self, _: &mut Session) {}

    pub(super) const fn keep_up(&self, _: &mut Session) {}

    pub(super) const fn queued_at(&self) -> Option<Moment> {
        None
    }

    pub(super) const fn take_since(&self, _: Option<Moment>) {}

    pub(super) const fn on_stream(&self, _: StreamId, _: &str) {}

    pub(super) const fn handed_over(&self) -> Option<Time> {
        None
    }

    pub(super) const fn worker_encoded(&self, _: (Arm, usize), _: Duration, _: Duration) {}

    pub(super) const fn worker_decoded(&self, _: (CodecId, usize), _: Duration, _: Duration) {}

    pub(super) const fn worker_shadowed(&self, _: usize, _: Duration, _: Duration) {}

    pub(super) const fn worker_dictionary(&self, _: Duration, _: Duration) {}
}
