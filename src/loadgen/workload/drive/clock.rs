//! The clock of a drive: the one place here that reads the time.

use core::num::NonZeroU64;
use core::time::Duration;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOS: u64 = 1_000_000_000;

/// Nanoseconds from a start, which may lie ahead: then it is 0 until there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: u64,
}

fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NANOS).saturating_add(nanos)
}

impl Clock {
    pub(super) fn start_in(lead: Duration) -> Self {
        Self {
            origin: monotonic().saturating_add(crate::units::saturating_nanos(lead)),
        }
    }

    pub(super) fn now(self) -> u64 {
        monotonic().saturating_sub(self.origin)
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

/// Has the kernel wake this thread at the time asked: by default it may be 50 µs late, to wake it with others.
pub(super) fn wake_in_time() {
    // Where it does not, lateness shows it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}
