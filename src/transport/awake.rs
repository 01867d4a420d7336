//! For how long the thread of a driver was awake while its socket had nothing to read, as far as the driver knew.
//!
//! A driver that comes to read late, because its thread had no processor or other work, has not waited for the link in that time.
//! What the thread did not sleep through is taken for such.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod schedules;

use core::time::Duration;
use std::sync::Arc;
use std::thread::ThreadId;

#[cfg(any(target_os = "linux", target_os = "android"))]
use self::schedules::Schedules;
use crate::units::Time;

/// Shorter waits are taken for what they look like: asking the system takes a µs or two.
const LEAST_WAIT: Duration = Duration::from_micros(500);
/// A reading is good as a beginning for so long, for the same reason.
const REFRESH: Duration = Duration::from_millis(2);

/// What a thread had been awake for at some time.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Time,
    thread: ThreadId,
    awake: Duration,
}

/// Reads the thread's time awake where the system says it, when a wait begins and when a long one ends.
#[derive(Debug)]
pub(super) struct Awake {
    schedules: Arc<Schedules>,
    began: Option<Reading>,
    dry_since: Option<Time>,
}

impl Awake {
    pub(super) fn new() -> Self {
        Self {
            schedules: Schedules::of_process(),
            began: None,
            dry_since: None,
        }
    }

    /// There is nothing to read.
    pub(super) fn on_dry(&mut self, now: Time) {
        self.dry_since = Some(now);
        let is_old = |reading: Reading| now.saturating_since(reading.at) >= REFRESH;
        if self.began.is_none_or(is_old) {
            self.began = self.read(now);
        }
    }

    /// Something was read: for how long the thread has been awake since there was nothing. Zero where that is not known.
    pub(super) fn on_read(&mut self, now: Time) -> Duration {
        let Some(waited) = self.dry_since.take().map(|dry| now.saturating_since(dry)) else {
            return Duration::ZERO;
        };
        if waited < LEAST_WAIT {
            return Duration::ZERO;
        }
        let (began, ended) = (self.began.take(), self.read(now));
        self.began = ended;
        let awake = began
            .zip(ended)
            .and_then(|(began, ended)| began.until(ended));
        awake.unwrap_or_default().min(waited)
    }

    fn read(&self, at: Time) -> Option<Reading> {
        Some(Reading {
            at,
            thread: std::thread::current().id(),
            awake: self.schedules.awake()?,
        })
    }
}

impl Reading {
    /// For how long the thread was awake from one to the other, if it is the same thread.
    fn until(self, ended: Self) -> Option<Duration> {
        (self.thread == ended.thread).then(|| ended.awake.saturating_sub(self.awake))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use self::untold::Schedules;

/// Elsewhere the system is not asked.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod untold {
    use core::time::Duration;
    use std::sync::Arc;

    #[derive(Debug)]
    pub(super) struct Schedules;

    impl Schedules {
        pub(super) fn of_process() -> Arc<Self> {
            Arc::new(Self)
        }

        pub(super) const fn awake(&self) -> Option<Duration> {
            None
        }
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;
    use crate::transport::clock::Clock;

    #[test]
    fn a_thread_that_works_is_awake_and_one_that_sleeps_is_not() {
        let (clock, mut awake) = (Clock::start(), Awake::new());
        let while_it = |awake: &mut Awake, wait: &dyn Fn(Time)| {
            // The reading before may be a part of it.
            awake.began = None;
            let from = clock.now();
            awake.on_dry(from);
            wait(from + Duration::from_millis(50));
            let now = clock.now();
            let was = awake.on_read(now).as_secs_f64();
            was / now.saturating_since(from).as_secs_f64()
        };
        // A whole machine may be taken its time meanwhile, and beside others a thread waits for a processor when it has slept.
        let works = (0..5).map(|_| while_it(&mut awake, &|until| while clock.now() < until {}));
        let works = works.fold(0.0, f64::max);
        assert!(works > 0.7, "awake for {works} of the time");
        let sleeps = (0..5).map(|_| {
            while_it(&mut awake, &|until| {
                std::thread::park_timeout(until.saturating_since(clock.now()));
            })
        });
        let sleeps = sleeps.fold(1.0, f64::min);
        assert!(sleeps < 0.5, "awake for {sleeps} of the time");
    }

    #[test]
    fn waits_that_are_short_or_end_on_another_thread_say_nothing() {
        let mut awake = Awake::new();
        assert_eq!(awake.on_read(Time::ZERO), Duration::ZERO);
        awake.on_dry(Time::ZERO);
        assert_eq!(awake.on_read(Time::ZERO + LEAST_WAIT / 2), Duration::ZERO);
        let later = Time::ZERO + Duration::from_secs(3600);
        awake.on_dry(later);
        let there = std::thread::spawn(move || awake.on_read(later + Duration::from_secs(9)));
        assert_eq!(there.join().ok(), Some(Duration::ZERO));
    }
}
