//! When a monitor is to tick, and what it costs: the one place here that reads clocks.

use core::time::Duration;
use std::time::Instant;

use crate::thread;
use crate::units::{Time, saturating_nanos};

/// The least time between ticks: ten times what is asked of the monitor.
pub const MIN_PERIOD: Duration = Duration::from_micros(100);

/// What the monitor takes of what it measures (the probe effect).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeEffect {
    /// Processor time of the monitor's thread, which the kernel's work for it is part of.
    pub processor: Duration,
    /// How much of that it was at work: from when it was awake until it slept again, by the clock, so that what it waited for in between counts, too. The rest is what the system takes
    /// to wake it and to have it sleep. All of it where a recording does not tell.
    pub working: Duration,
    /// How long it has run.
    pub wall: Duration,
    /// Ticks that came too late for their period and were left out.
    pub missed: u64,
}

impl ProbeEffect {
    /// The share of one processor, 0 to 1.
    pub fn share(&self) -> f64 {
        self.of_wall(self.processor)
    }

    /// The share of one processor that it worked, 0 to 1.
    pub fn working_share(&self) -> f64 {
        self.of_wall(self.working)
    }

    fn of_wall(&self, time: Duration) -> f64 {
        if self.wall.is_zero() {
            return 0.0;
        }
        time.as_secs_f64() / self.wall.as_secs_f64()
    }
}

/// Ticks at a steady rate, for the thread that drives a monitor, and the processor time that this thread takes.
#[derive(Debug)]
pub struct Pace {
    origin: Instant,
    period: Duration,
    next: Duration,
    missed: u64,
    /// When counting of what the monitor takes began: time and processor time.
    since: (Duration, Duration),
    /// When it was awake again, and how long it was awake before that.
    awake: Duration,
    worked: Duration,
}

impl Pace {
    /// A tick every `period` ([`MIN_PERIOD`] at least), the first one period from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that the monitor is told the time of"
    )]
    pub fn new(period: Duration) -> Self {
        let period = period.max(MIN_PERIOD);
        Self {
            origin: Instant::now(),
            period,
            next: period,
            missed: 0,
            since: (Duration::ZERO, thread_time()),
            awake: Duration::ZERO,
            worked: Duration::ZERO,
        }
    }

    /// A tick every `period` ([`MIN_PERIOD`] at least) from now on.
    pub fn set_period(&mut self, period: Duration) {
        self.period = period.max(MIN_PERIOD);
        self.next = self.origin.elapsed() + self.period;
    }

    /// The time since it was made.
    pub fn now(&self) -> Time {
        Time::from_nanos(saturating_nanos(self.origin.elapsed()))
    }

    /// Sleeps until the next tick is due, and says what time it is then. Who is late by a period or more gets the tick at once, and those between are left out.
    pub fn wait(&mut self) -> Time {
        let elapsed = self.origin.elapsed();
        if let Some(left) = self.next.checked_sub(elapsed) {
            self.sleep(elapsed, left);
            self.next += self.period;
        } else {
            let late = elapsed.saturating_sub(self.next).as_nanos() / self.period.as_nanos();
            let late = u32::try_from(late).unwrap_or(u32::MAX);
            self.missed += u64::from(late);
            self.next += self.period.saturating_mul(late.saturating_add(1));
        }
        self.now()
    }

    /// As [`Self::wait`], but for who has something else to look after: sleeps no longer than `most`, and says nothing if no tick is due by then.
    pub fn wait_at_most(&mut self, most: Duration) -> Option<Time> {
        let elapsed = self.origin.elapsed();
        if self.next.saturating_sub(elapsed) <= most {
            return Some(self.wait());
        }
        self.sleep(elapsed, most);
        None
    }

    fn sleep(&mut self, now: Duration, length: Duration) {
        self.worked += now.saturating_sub(self.awake);
        std::thread::sleep(length);
        self.awake = self.origin.elapsed();
    }

    /// What the thread that asks, which must be the one that made this, has taken since then, or since the last [`Self::restart`].
    pub fn probe_effect(&self) -> ProbeEffect {
        let processor = thread_time().saturating_sub(self.since.1);
        let now = self.origin.elapsed();
        let worked = self.worked + now.saturating_sub(self.awake);
        ProbeEffect {
            processor,
            // Others may have had its processor meanwhile.
            working: worked.min(processor),
            wall: now.saturating_sub(self.since.0),
            missed: self.missed,
        }
    }

    /// What it has taken so far, which counts no more: after opening counters, that is what beginning costs, and from then on it is what going on does.
    pub fn restart(&mut self) -> ProbeEffect {
        let so_far = self.probe_effect();
        self.since = (self.origin.elapsed(), thread_time());
        (self.awake, self.worked) = (self.since.0, Duration::ZERO);
        self.missed = 0;
        so_far
    }
}

/// Processor time of the thread that asks; zero where the system does not tell.
fn thread_time() -> Duration {
    thread::processor_time().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_keep_to_their_schedule_and_late_ones_are_left_out() {
        let mut pace = Pace::new(Duration::from_millis(5));
        let first = pace.wait();
        assert!(first >= Time::from_nanos(5_000_000));
        let second = pace.wait();
        assert!(second >= Time::from_nanos(10_000_000));
        std::thread::sleep(Duration::from_millis(30));
        pace.wait();
        let third = pace.probe_effect();
        assert!(third.missed >= 4, "{third:?}");
        assert!(pace.wait() > second);
    }

    #[test]
    fn who_has_something_else_to_look_after_need_not_wait_for_the_tick() {
        let mut pace = Pace::new(Duration::from_secs(3600));
        assert_eq!(pace.wait_at_most(Duration::from_millis(5)), None);
        assert!(pace.now() >= Time::from_nanos(5_000_000));
        let mut pace = Pace::new(Duration::from_millis(5));
        let tick = pace.wait_at_most(Duration::from_secs(3600));
        assert!(tick.is_some_and(|at| at >= Time::from_nanos(5_000_000)));
        assert_eq!(pace.probe_effect().missed, 0);
    }

    #[test]
    fn the_probe_effect_is_a_share_of_one_processor() {
        let pace = Pace::new(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(20));
        let effect = pace.probe_effect();
        assert!(effect.wall >= Duration::from_millis(20));
        assert!((0.0..0.9).contains(&effect.share()), "{effect:?}");
        assert!(ProbeEffect::default().share().abs() < 1e-12);
    }

    #[test]
    fn who_sleeps_does_not_work() {
        let mut pace = Pace::new(Duration::from_millis(1));
        for _ in 0..20 {
            pace.wait();
        }
        let asleep = pace.restart();
        assert!(asleep.working <= asleep.processor, "{asleep:?}");
        assert!(asleep.working_share() <= asleep.share());
        let until = pace.now() + Duration::from_millis(20);
        while pace.now() < until {}
        pace.wait();
        let awake = pace.probe_effect();
        assert!(awake.working > awake.processor / 2, "{awake:?}");
        assert!(pace.restart().working > Duration::ZERO);
        assert!(
            pace.probe_effect().working < awake.working,
            "it begins anew"
        );
    }
}
