//! How late and how slowly a metric follows the intensities.

use core::time::Duration;
use std::collections::VecDeque;

use crate::units::Time;

/// The longest delay that is looked for.
pub(super) const MAX_DELAY: Duration = Duration::from_millis(400);
/// Changes kept: those of the longest delay and interval, at the shortest period.
const MAX_CHANGES: usize = 512;

/// What actuators were set to, and since when.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    changes: VecDeque<(Time, Vec<f64>)>,
}

impl Inputs {
    /// From ever on they are at `start`.
    pub(super) fn new(start: Vec<f64>) -> Self {
        Self {
            changes: VecDeque::from([(Time::ZERO, start)]),
        }
    }

    /// From `now` on they are at `inputs`.
    pub(super) fn set(&mut self, now: Time, inputs: &[f64]) {
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        match self.changes.back_mut() {
            Some((at, last)) if *at >= now => last.copy_from_slice(inputs),
            _ => self.changes.push_back((now, inputs.to_vec())),
        }
    }

    /// Forgets what was over before `time`.
    pub(super) fn forget(&mut self, time: Time) {
        while self.changes.get(1).is_some_and(|(since, _)| *since <= time) {
            self.changes.pop_front();
        }
    }

    /// Their means in an interval.
    fn mean(&self, from: Time, to: Time, into: &mut [f64]) {
        into.fill(0.0);
        let whole = to.saturating_since(from).as_secs_f64();
        let ends = self.changes.iter().skip(1).map(|(time, _)| *time);
        let ends = ends.chain([Time::from_nanos(u64::MAX)]);
        for ((index, (since, inputs)), until) in self.changes.iter().enumerate().zip(ends) {
            // What is older than the oldest that is kept is taken to be like it.
            let begin = if index == 0 { from } else { (*since).max(from) };
            let seconds = until.min(to).saturating_since(begin).as_secs_f64();
            let share = if whole > 0.0 {
                seconds / whole
            } else {
                f64::from(u8::from(begin <= to && until > to))
            };
            for (into, input) in into.iter_mut().zip(inputs) {
                *into += share * input;
            }
        }
    }
}

/// A first-order lag after a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lag {
    /// How long nothing is seen of a change.
    pub(super) delay: Duration,
    /// Time constant: what is left to come falls to 1/e in it.
    pub(super) constant: Duration,
}

impl Lag {
    pub(super) fn seconds(self) -> f64 {
        (self.delay + self.constant).as_secs_f64()
    }
}

/// The intensities as a metric with this lag sees them.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    lag: Lag,
    /// At the end of the last interval.
    state: Vec<f64>,
    /// Its mean in the last interval.
    mean: Vec<f64>,
}

impl Seen {
    /// Long at `start`.
    pub(super) fn new(lag: Lag, start: &[f64]) -> Self {
        Self {
            lag,
            state: start.to_vec(),
            mean: start.to_vec(),
        }
    }

    /// Their means in the last interval.
    pub(super) fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Goes on by the interval from `from` to `to`.
    pub(super) fn advance(&mut self, inputs: &Inputs, from: Time, to: Time) {
        let delay = self.lag.delay;
        inputs.mean(from - delay, to - delay, &mut self.mean);
        let seconds = to.saturating_since(from).as_secs_f64();
        let constant = self.lag.constant.as_secs_f64();
        if constant <= 0.0 || seconds <= 0.0 {
            self.state.copy_from_slice(&self.mean);
            return;
        }
        let left = (-seconds / constant).exp();
        // The mean of an exponential over the interval.
        let mean_left = (1.0 - left) * constant / seconds;
        for (state, mean) in self.state.iter_mut().zip(&mut self.mean) {
            let (input, away) = (*mean, *state - *mean);
            *mean = input + away * mean_left;
            *state = input + away * left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_delay_is_seen_to_the_part_of_an_interval() {
        let mut inputs = Inputs::new(vec![0.0]);
        inputs.set(at(1000), &[1.0]);
        let lag = Lag {
            delay: Duration::from_millis(100),
            constant: Duration::ZERO,
        };
        let mut seen = Seen::new(lag, &[0.0]);
        seen.advance(&inputs, at(1000), at(1200));
        assert!((seen.mean()[0] - 0.5).abs() < 1e-9);
        seen.advance(&inputs, at(1200), at(1400));
        assert!((seen.mean()[0] - 1.0).abs() < 1e-9);
        inputs.forget(at(1300));
        seen.advance(&inputs, at(1400), at(1600));
        assert!((seen.mean()[0] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_lag_takes_its_time_whatever_the_intervals() {
        let mut inputs = Inputs::new(vec![0.0]);
        inputs.set(at(0), &[1.0]);
        let lag = Lag {
            delay: Duration::ZERO,
            constant: Duration::from_millis(300),
        };
        let mut fine = Seen::new(lag, &[0.0]);
        let mut coarse = fine.clone();
        let mut mean = 0.0;
        for step in 0..30 {
            fine.advance(&inputs, at(step * 10), at(step * 10 + 10));
            mean += fine.mean()[0] / 30.0;
        }
        coarse.advance(&inputs, at(0), at(300));
        assert!((fine.state[0] - (1.0 - (-1.0_f64).exp())).abs() < 1e-9);
        assert!((fine.state[0] - coarse.state[0]).abs() < 1e-9);
        assert!((mean - coarse.mean()[0]).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_does_no_harm() {
        let mut inputs = Inputs::new(vec![0.25]);
        let mut seen = Seen::new(Lag::default(), &[0.25]);
        seen.advance(&inputs, at(0), at(0));
        inputs.set(at(5), &[0.5]);
        inputs.set(at(3), &[0.75]);
        seen.advance(&inputs, at(9), at(7));
        seen.advance(&inputs, at(9), Time::from_nanos(u64::MAX));
        assert!((seen.mean()[0] - 0.75).abs() < 1e-9, "{seen:?}");
    }
}
