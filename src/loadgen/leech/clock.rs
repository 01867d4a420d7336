//! The clocks of a leech's thread: the one place here that reads them.

use core::time::Duration;
use std::fs::File;
use std::time::Instant;

use crate::thread::{self, Schedule};

/// Wall and processor time of the thread that made it, since then.
#[derive(Debug)]
pub(super) struct Clocks {
    origin: Instant,
    processor: Duration,
    schedule: Option<File>,
    waited: Duration,
}

impl Clocks {
    #[expect(
        clippy::disallowed_methods,
        reason = "a leech is told the time by this"
    )]
    pub(super) fn start() -> Self {
        let mut clocks = Self {
            origin: Instant::now(),
            processor: thread_time(),
            schedule: Schedule::open(),
            waited: Duration::ZERO,
        };
        clocks.waited = clocks.waited().unwrap_or_default();
        clocks
    }

    pub(super) fn wall(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Must be asked by the thread that made it.
    pub(super) fn processor(&self) -> Duration {
        thread_time().saturating_sub(self.processor)
    }

    /// How long the thread was ready to run and did not, if the kernel says.
    pub(super) fn waited(&self) -> Option<Duration> {
        let schedule = Schedule::read(self.schedule.as_ref()?)?;
        Some(schedule.ready.saturating_sub(self.waited))
    }
}

/// Processor time of the thread that asks.
pub(super) fn thread_time() -> Duration {
    thread::processor_time().unwrap_or_default()
}
