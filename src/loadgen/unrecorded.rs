//! What `events` has, where there are no event logs: nothing, for nothing.

use core::time::Duration;

use super::intensity::Intensity;

#[derive(Debug, Default)]
pub(super) struct LeechEvents;

/// What a leech had taken at a time.
#[derive(Clone, Copy, Debug, Default)]
#[expect(dead_code, reason = "it is made for those that record")]
pub(super) struct Taken {
    pub(super) wall: Duration,
    pub(super) processor: Duration,
    pub(super) operations: u64,
}

#[expect(
    clippy::unused_self,
    reason = "they are called as those that record are"
)]
impl LeechEvents {
    pub(super) const fn intensity(&self, _: Intensity, _: Intensity) {}

    pub(super) const fn working(&mut self, _: Taken, _: Intensity) {}

    pub(super) const fn pauses(&mut self, _: Taken, _: Intensity) {}
}

#[cfg(feature = "transport")]
#[derive(Debug, Default)]
pub(super) struct DriveEvents;

#[cfg(feature = "transport")]
#[derive(Debug, Default)]
pub(super) struct KindEvents;

#[cfg(feature = "transport")]
#[derive(Debug, Default)]
pub(super) struct StreamEvents;

#[cfg(feature = "transport")]
#[expect(
    clippy::unused_self,
    reason = "they are called as those that record are"
)]
impl DriveEvents {
    pub(super) const fn kind(&self, _: &str, _: usize) -> KindEvents {
        KindEvents
    }
}

#[cfg(feature = "transport")]
#[expect(
    clippy::unused_self,
    reason = "they are called as those that record are"
)]
impl KindEvents {
    pub(super) const fn stream(&self, _: &str, _: usize) -> StreamEvents {
        StreamEvents
    }

    pub(super) const fn unsent(&self, _: u64) {}
}

#[cfg(feature = "transport")]
#[expect(
    clippy::unused_self,
    reason = "they are called as those that record are"
)]
impl StreamEvents {
    pub(super) const fn due(&self, _: u64, _: u64) {}

    pub(super) fn sent(&self, _: u64, _: impl FnOnce() -> u64, _: usize) {}

    pub(super) const fn late(&self, _: u64, _: usize) {}

    pub(super) const fn answered(&self, _: u64, _: u64, _: u64) {}
}
