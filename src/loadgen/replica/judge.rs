//! How near what is reached is to what is asked.

use core::time::Duration;
use std::collections::VecDeque;

use super::plant::is_reading;
use crate::units::Time;

/// Metrics are judged by their means over so long.
pub const WINDOW: Duration = Duration::from_secs(1);
/// So long the means must stay near before that counts as converged.
const STAY: Duration = Duration::from_secs(1);
/// What has not converged by then is judged from then on: the way there says nothing of how it is held.
const LATEST: Duration = Duration::from_secs(10);
/// The most intervals of a window that are kept.
const MAX_KEPT: usize = 4096;

/// How one metric was replicated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricOutcome {
    /// From the beginning until the mean over the last second was within the tolerance, and stayed there for a second.
    pub converged: Option<Duration>,
    /// Mean of what was asked, since all had converged (or after 10 s, if they had not by then).
    pub asked: f64,
    /// Mean of what was reached, in the same time.
    pub reached: f64,
    /// Standard deviation of what was reached over what was asked, of means over a second, as a share.
    pub ripple: f64,
    /// The furthest of those from 1.
    pub worst: f64,
    /// The share of those within the tolerance.
    pub within: f64,
    /// What such means vary by from one second to the next whatever leeches do, as a share of the greatest value asked: a standard deviation, of a closed-loop replay. Where it is above
    /// what is asked of the loop, the metric is held no nearer than that.
    pub noise: f64,
}

impl MetricOutcome {
    /// What was reached over what was asked; `None` if nothing was asked.
    pub fn ratio(&self) -> Option<f64> {
        (self.asked > 0.0).then(|| self.reached / self.asked)
    }
}

/// How all were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From the beginning until the means over the last second of all of them at once were within the tolerance, and stayed there for a second.
    pub converged: Option<Duration>,
    /// By metric.
    pub metrics: Vec<MetricOutcome>,
    /// Seconds that were judged since.
    pub windows: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    to: Time,
    seconds: f64,
    readings: Vec<f64>,
    targets: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    windows: f64,
    asked: f64,
    reached: f64,
    ratios: f64,
    squares: f64,
    worst: f64,
    within: f64,
}

impl Tally {
    fn add(&mut self, asked: f64, reached: f64, ratio: f64, tolerance: f64) {
        self.windows += 1.0;
        self.asked += asked;
        self.reached += reached;
        self.ratios += ratio;
        self.squares += ratio * ratio;
        self.worst = self.worst.max((ratio - 1.0).abs());
        self.within += f64::from(u8::from((ratio - 1.0).abs() <= tolerance));
    }
}

/// Judges readings as they come.
#[derive(Clone, Debug)]
pub struct Judge {
    tolerance: f64,
    /// What counts as much where nothing is asked.
    scales: Vec<f64>,
    begun: Time,
    trailing: VecDeque<Kept>,
    window: VecDeque<Kept>,
    within_since: Vec<Option<Time>>,
    converged: Vec<Option<Duration>>,
    all_since: Option<Time>,
    all_converged: Option<Duration>,
    /// Whether tallies are of what is held.
    is_settled: bool,
    tallies: Vec<Tally>,
    /// Those before it was too late to converge, for a replay that ends before there are others.
    before: Vec<Tally>,
    last: Vec<(f64, f64)>,
}

impl Judge {
    /// Of metrics of the order of `scales`, from `begun` on; `tolerance` is a share of what is asked.
    pub fn new(scales: &[f64], tolerance: f64, begun: Time) -> Self {
        Self {
            tolerance,
            scales: scales.to_vec(),
            begun,
            trailing: VecDeque::new(),
            window: VecDeque::new(),
            within_since: vec![None; scales.len()],
            converged: vec![None; scales.len()],
            all_since: None,
            all_converged: None,
            is_settled: false,
            tallies: vec![Tally::default(); scales.len()],
            before: Vec::new(),
            last: Vec::new(),
        }
    }

    /// What was read and what was asked in an interval. A reading that is not finite is left out.
    pub fn record(&mut self, from: Time, to: Time, readings: &[f64], targets: &[f64]) {
        let seconds = to.saturating_since(from).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let kept = Kept {
            to,
            seconds,
            readings: self.sound(readings),
            targets: targets.to_vec(),
        };
        while self.trailing.len() == MAX_KEPT
            || self
                .trailing
                .front()
                .is_some_and(|front| front.to + WINDOW <= to)
        {
            self.trailing.pop_front();
        }
        self.trailing.push_back(kept.clone());
        if to.saturating_since(self.begun) >= WINDOW {
            self.judge(to);
        }
        self.window.push_back(kept);
        let whole: f64 = self.window.iter().map(|kept| kept.seconds).sum();
        // Not to wait for another interval for the sake of a clock's grain.
        if whole >= 0.999 * WINDOW.as_secs_f64() || self.window.len() == MAX_KEPT {
            self.tally();
        }
    }

    fn sound(&self, readings: &[f64]) -> Vec<f64> {
        let readings = readings.iter().zip(&self.scales);
        let sound = |(reading, scale): (&f64, &f64)| {
            if is_reading(*reading, *scale) {
                *reading
            } else {
                f64::NAN
            }
        };
        readings.map(sound).collect()
    }

    fn judge(&mut self, to: Time) {
        let mut are_all = true;
        for metric in 0..self.scales.len() {
            let mean = mean(&self.trailing, metric);
            let is_within = mean.is_some_and(|(asked, reached)| {
                (self.ratio(metric, asked, reached) - 1.0).abs() <= self.tolerance
            });
            are_all &= is_within;
            let converged = stayed(&mut self.within_since[metric], is_within, to, self.begun);
            self.converged[metric] = self.converged[metric].or(converged);
        }
        let converged = stayed(&mut self.all_since, are_all, to, self.begun);
        let is_late = to.saturating_since(self.begun) >= LATEST;
        let begins = self.all_converged.is_none() && converged.is_some();
        if begins || (is_late && !self.is_settled) {
            self.all_converged = self.all_converged.or(converged);
            self.is_settled = true;
            self.window.clear();
            let cleared = vec![Tally::default(); self.tallies.len()];
            let before = core::mem::replace(&mut self.tallies, cleared);
            if !begins {
                self.before = before;
            }
        }
    }

    fn tally(&mut self) {
        self.last.clear();
        for metric in 0..self.scales.len() {
            let mean = mean(&self.window, metric);
            self.last.push(mean.unwrap_or((f64::NAN, f64::NAN)));
            if let Some((asked, reached)) = mean {
                let ratio = self.ratio(metric, asked, reached);
                self.tallies[metric].add(asked, reached, ratio, self.tolerance);
            }
        }
        self.window.clear();
    }

    fn ratio(&self, metric: usize, asked: f64, reached: f64) -> f64 {
        // As the controller weighs it.
        let whole = asked.max(self.scales[metric] * 0.05).max(f64::MIN_POSITIVE);
        1.0 + (reached - asked) / whole
    }

    /// Of each metric, what was asked and reached in the last whole second. Empty before there was one.
    pub fn last_second(&self) -> &[(f64, f64)] {
        &self.last
    }

    /// Since when all are within the tolerance, counted from the beginning.
    pub const fn converged(&self) -> Option<Duration> {
        self.all_converged
    }

    /// All that was found so far.
    pub fn outcome(&self) -> Outcome {
        let is_there = self.tallies.iter().any(|tally| tally.windows > 0.0);
        let tallies = if is_there || self.before.is_empty() {
            &self.tallies
        } else {
            &self.before
        };
        let metrics = tallies
            .iter()
            .zip(&self.converged)
            .map(|(tally, converged)| {
                let windows = tally.windows.max(1.0);
                let mean = tally.ratios / windows;
                MetricOutcome {
                    converged: *converged,
                    asked: tally.asked / windows,
                    reached: tally.reached / windows,
                    ripple: (tally.squares / windows - mean * mean).max(0.0).sqrt(),
                    worst: tally.worst,
                    within: tally.within / windows,
                    noise: 0.0,
                }
            });
        let windows = tallies.iter().map(|tally| tally.windows as u64).max();
        Outcome {
            converged: self.all_converged,
            metrics: metrics.collect(),
            windows: windows.unwrap_or(0),
        }
    }
}

fn mean(kept: &VecDeque<Kept>, metric: usize) -> Option<(f64, f64)> {
    let (mut asked, mut reached, mut seconds) = (0.0, 0.0, 0.0);
    for kept in kept {
        let reading = kept.readings.get(metric).copied().unwrap_or(f64::NAN);
        let target = kept.targets.get(metric).copied().unwrap_or(f64::NAN);
        if reading.is_finite() && target.is_finite() {
            asked += kept.seconds * target;
            reached += kept.seconds * reading;
            seconds += kept.seconds;
        }
    }
    (seconds > 0.0).then(|| (asked / seconds, reached / seconds))
}

/// Since when, counted from the beginning, once it has stayed for long enough.
fn stayed(since: &mut Option<Time>, is_within: bool, now: Time, begun: Time) -> Option<Duration> {
    if !is_within {
        *since = None;
        return None;
    }
    let since = *since.get_or_insert(now);
    (now.saturating_since(since) >= STAY).then(|| since.saturating_since(begun))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn judged(values: impl Fn(u64) -> f64, millis: u64) -> Outcome {
        let mut judge = Judge::new(&[10.0], 0.02, Time::ZERO);
        for step in 0..millis / 200 {
            judge.record(
                at(step * 200),
                at(step * 200 + 200),
                &[values(step)],
                &[10.0],
            );
        }
        judge.outcome()
    }

    #[test]
    fn converged_is_when_the_mean_of_a_second_came_near_and_stayed() {
        let outcome = judged(|step| if step < 10 { 0.0 } else { 10.0 }, 10_000);
        assert_eq!(outcome.converged, Some(Duration::from_secs(3)));
        assert_eq!(outcome.metrics[0].converged, Some(Duration::from_secs(3)));
        assert!((outcome.metrics[0].reached - 10.0).abs() < 1e-9);
        // It passes by.
        let outcome = judged(|step| step as f64 / 3.0, 9800);
        assert_eq!(outcome.converged, None);
        assert!(outcome.metrics[0].worst > 0.5);
    }

    #[test]
    fn what_never_converges_is_judged_without_the_way_there() {
        let outcome = judged(|step| if step < 20 { 0.0 } else { 8.0 }, 20_000);
        assert_eq!(outcome.converged, None);
        let found = &outcome.metrics[0];
        assert!(
            found.ripple < 1e-6 && (found.reached - 8.0).abs() < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn ripple_is_of_seconds_and_not_of_what_is_faster() {
        let fast = judged(|step| 10.0 + if step % 5 == 0 { 0.4 } else { -0.1 }, 20_000);
        assert!(fast.metrics[0].ripple < 1e-3, "{fast:?}");
        let slow = judged(|step| if step / 5 % 2 == 0 { 10.1 } else { 9.9 }, 40_000);
        assert!((0.005..0.011).contains(&slow.metrics[0].ripple), "{slow:?}");
        assert!((slow.metrics[0].within - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        let outcome = judged(|step| if step % 2 == 0 { f64::NAN } else { 10.0 }, 4000);
        assert_eq!(outcome.converged, Some(Duration::from_secs(1)));
        let nothing = judged(|_| f64::NAN, 4000);
        assert_eq!(nothing.converged, None);
        assert!(nothing.metrics[0].reached.is_finite());
    }

    #[test]
    fn one_that_ends_when_it_is_too_late_is_judged_by_what_there_was() {
        for millis in [9_600, 10_000, 10_400, 12_000] {
            let outcome = judged(|_| 5.0, millis);
            assert!(outcome.windows > 0, "{millis}");
            assert!((outcome.metrics[0].reached - 5.0).abs() < 1e-9, "{millis}");
        }
    }
}
