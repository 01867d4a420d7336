//! What this end spends on blocks besides their codecs, and on shadows: of the machine, not of one connection.

use core::time::Duration;

use super::budget::BudgetRate;
use crate::units::{CpuLoad, Time, saturating_nanos};

/// Codec work that is likely to take longer leaves the thread that drives the session, so that other tasks get their turn
/// (architecture.md, invariant 6): it is handed to a worker and back.
pub const MAX_INLINE: Duration = Duration::from_micros(100);

/// The least weight of a new time in what blocks take.
const GAIN: f64 = 0.1;
/// More than so many times what is known, and this much, ns, is somebody else's doing.
const MOST: f64 = 3.0;
const SLACK: f64 = 50e3;

/// A mean of times, those of late more than others.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    nanos: f64,
    count: f64,
}

impl Mean {
    fn record(&mut self, time: Duration) {
        let given = saturating_nanos(time) as f64;
        let given = given.min(MOST * self.nanos + SLACK);
        self.count = (self.count + 1.0).min(1.0 / GAIN);
        self.nanos += (given - self.nanos) / self.count;
    }
}

/// The time from one block to the next that is not its codec's, while there is more to send and
/// the socket takes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overhead {
    between: Mean,
    handover: Mean,
    emitted_at: Option<Time>,
}

impl Overhead {
    /// Another connection begins.
    pub(crate) fn restart(&mut self) {
        self.emitted_at = None;
    }

    /// A block was put out; whether the next one follows at once.
    pub(crate) fn on_emitted(&mut self, now: Time, goes_on: bool) {
        self.emitted_at = goes_on.then_some(now);
    }

    /// The next one is decided on; whether the socket refused bytes meanwhile.
    pub(crate) fn on_decision(&mut self, now: Time, was_blocked: bool) {
        if let Some(since) = self.emitted_at.take().filter(|_| !was_blocked) {
            self.between.record(now.saturating_since(since));
        }
    }

    /// A block that a worker encoded took so long from its decision on, `encode` of it the codec.
    pub(crate) fn on_handed_over(&mut self, taken: Duration, encode: Duration) {
        self.handover.record(taken.saturating_sub(encode));
    }

    /// What each block takes, ns.
    pub(crate) const fn nanos(&self) -> f64 {
        self.between.nanos
    }

    /// What one takes besides that is encoded by a worker, ns.
    pub(crate) const fn handover_nanos(&self) -> f64 {
        self.handover.nanos
    }
}

/// Share of one processor, or of a smaller codec budget, that shadows may take over time. Arbitrary.
const SHARE: f64 = 0.1;
/// Idle share of the processors from which on shadows get all of their share, and what of it they get
/// without any. Arbitrary.
const IDLE_ENOUGH: f64 = 0.3;
const LEAST_IDLE: f64 = 0.1;
/// Processor time that they may have saved up: three of the heaviest encodes of a 64 KiB block.
const MOST_SAVED_NANOS: f64 = 100e6;
/// What the first connection to a peer begins with: one of the heaviest, or all of the others.
const FIRST_NANOS: f64 = 20e6;

/// Processor time that there is for shadows. What is left of one connection's is the next one's: that knows what they
/// have shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShadowTime {
    nanos: f64,
    filled_at: Option<Time>,
}

impl Default for ShadowTime {
    fn default() -> Self {
        Self {
            nanos: FIRST_NANOS,
            filled_at: None,
        }
    }
}

impl ShadowTime {
    /// Another connection begins, perhaps by another clock.
    pub(crate) fn restart(&mut self) {
        self.filled_at = None;
    }

    /// Adds what has come since the last time, little on processors that are busy with other things; says what there is, ns.
    pub(crate) fn fill(&mut self, now: Time, load: CpuLoad, budget: Option<BudgetRate>) -> f64 {
        let since = self.filled_at.replace(now).unwrap_or(now);
        let passed = saturating_nanos(now.saturating_since(since)) as f64;
        let granted = budget.map_or(1.0, |rate| rate.as_nanos_per_sec() as f64 * 1e-9);
        let idle = ((1.0 - load.get()) / IDLE_ENOUGH).clamp(LEAST_IDLE, 1.0);
        let more = passed * SHARE * idle * granted.min(1.0);
        self.nanos = (self.nanos + more).min(MOST_SAVED_NANOS);
        self.nanos
    }

    /// Shadows took so much.
    pub(crate) fn spend(&mut self, taken: Duration) {
        self.nanos -= saturating_nanos(taken) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_waited_for_a_processor_hardly_counts() {
        let mut overhead = Overhead::default();
        let micros = Duration::from_micros;
        overhead.on_handed_over(micros(250), micros(210));
        assert!((overhead.handover_nanos() - 40e3).abs() < 1.0);
        overhead.on_handed_over(micros(900_000), micros(200));
        assert!(overhead.handover_nanos() < 110e3);
    }

    #[test]
    fn what_passes_between_connections_is_no_time_for_shadows() {
        let mut time = ShadowTime::default();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let idle = CpuLoad::new(0.0);
        let first = time.fill(at(0), idle, None);
        time.spend(Duration::from_millis(15));
        time.restart();
        let left = time.fill(at(60_000), idle, None);
        assert!((first - left - 15e6).abs() < 1.0);
        let later = time.fill(at(60_010), idle, None);
        assert!((later - left - 1e6).abs() < 1.0);
    }
}
