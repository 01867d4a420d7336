//! The clocks of a leech's thread: the one place here that reads them.

use core::time::Duration;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Wall and processor time of the thread that made it, since then.
#[derive(Debug)]
pub(super) struct Clocks {
    origin: Instant,
    processor: Duration,
    schedstat: Option<File>,
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
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
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

    /// How long the thread was ready to run and did not, if the kernel says (`CONFIG_SCHED_INFO`).
    pub(super) fn waited(&self) -> Option<Duration> {
        let mut text = [0; 80];
        let read = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = core::str::from_utf8(text.get(..read)?).ok()?;
        let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(Duration::from_nanos(nanos).saturating_sub(self.waited))
    }
}

/// Processor time of the thread that asks.
pub(super) fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
