//! The clock of a drive: the one place here that reads the time.

use core::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

use crate::thread::monotonic_nanos;

const NANOS: u64 = 1_000_000_000;

/// Nanoseconds from a start, which may lie ahead: then it is 0 until there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: u64,
}

impl Clock {
    pub(super) fn start_in(lead: Duration) -> Self {
        Self {
            origin: monotonic_nanos().saturating_add(crate::units::saturating_nanos(lead)),
        }
    }

    pub(super) fn now(self) -> u64 {
        monotonic_nanos().saturating_sub(self.origin)
    }

    /// Blocks the thread until then, or a little before when a signal comes.
    pub(super) fn sleep_until(self, at: u64) {
        let at = self.origin.saturating_add(at);
        let until = Timespec {
            tv_sec: i64::try_from(at / NANOS).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(at % NANOS).unwrap_or(0),
        };
        // Interrupted: who asked looks at the time again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}
