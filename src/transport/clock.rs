//! The one clock.

use std::time::Instant;

use crate::units::{Time, saturating_nanos};

/// Monotonic time since the clock was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that others are given the time of"
    )]
    pub(super) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(super) fn now(self) -> Time {
        Time::from_nanos(saturating_nanos(self.origin.elapsed()))
    }

    /// The instant of a time, for the runtime's timers.
    pub(super) fn instant(self, time: Time) -> Instant {
        self.origin + time.saturating_since(Time::ZERO)
    }
}
