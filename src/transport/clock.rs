//! The one clock, and the time that threads have a processor for.

use core::time::Duration;
use std::time::Instant;

use crate::session::JobTime;
use crate::thread;
use crate::units::Time;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use crate::units::saturating_nanos;

/// Monotonic time since the clock was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    begun: Reading,
    /// The same moment, or shortly after it, so that no timer is early.
    origin: Instant,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that others are given the time of"
    )]
    pub(super) fn start() -> Self {
        let begun = Reading::now();
        Self {
            begun,
            origin: Instant::now(),
        }
    }

    #[inline]
    pub(super) fn now(self) -> Time {
        Time::from_nanos(self.begun.nanos())
    }

    /// The instant of a time, for the runtime's timers.
    pub(super) fn instant(self, time: Time) -> Instant {
        self.origin + time.saturating_since(Time::ZERO)
    }
}

/// A moment of the monotonic clock, which is read many times for each message: as the number of nanoseconds that it is, where the system gives that.
#[derive(Clone, Copy, Debug)]
struct Reading {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    nanos: u64,
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    instant: Instant,
}

impl Reading {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    fn now() -> Self {
        Self {
            nanos: thread::monotonic_nanos(),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that others are given the time of"
    )]
    fn now() -> Self {
        Self {
            instant: Instant::now(),
        }
    }

    /// How long it is ago.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    fn nanos(self) -> u64 {
        thread::monotonic_nanos().saturating_sub(self.nanos)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn nanos(self) -> u64 {
        saturating_nanos(self.instant.elapsed())
    }
}

/// Work that is likely to take less is timed by the clock alone: to ask the system about the thread costs about 0.3 µs, twice.
const LEAST_WATCHED: Duration = Duration::from_micros(20);

/// Times a job on the thread that it was started on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    clock: Clock,
    started: Time,
    processor: Option<Duration>,
}

impl Stopwatch {
    pub(super) fn start(clock: Clock, likely: Duration) -> Self {
        let is_long = likely >= LEAST_WATCHED;
        Self {
            clock,
            started: clock.now(),
            processor: is_long.then(thread::processor_time).flatten(),
        }
    }

    /// When the job was started.
    pub(super) const fn started(&self) -> Time {
        self.started
    }

    /// The time it is, and how long the job took.
    pub(super) fn stop(self) -> (Time, JobTime) {
        let now = self.clock.now();
        let elapsed = now.saturating_since(self.started);
        let processor = self.processor.zip(thread::processor_time());
        let processor = processor.map(|(from, to)| to.saturating_sub(from));
        let time = JobTime {
            elapsed,
            processor: processor.map_or(elapsed, |time| time.min(elapsed)),
        };
        (now, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn a_thread_that_sleeps_has_no_processor() {
        let watch = Stopwatch::start(Clock::start(), LEAST_WATCHED);
        std::thread::sleep(Duration::from_millis(50));
        let (_, time) = watch.stop();
        assert!(time.elapsed >= Duration::from_millis(50));
        assert!(time.processor < time.elapsed / 2, "{time:?}");
    }

    #[test]
    fn short_work_is_timed_by_the_clock() {
        let watch = Stopwatch::start(Clock::start(), Duration::from_micros(1));
        let (_, time) = watch.stop();
        assert_eq!(time.processor, time.elapsed);
    }
}
