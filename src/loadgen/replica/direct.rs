//! Metrics that need no controller: a leech makes them what it is told, and makes up by itself for what others take.

use core::time::Duration;

use super::controller::{Bound, Shortfall};
use super::plant::Direct;
use super::step::Phase;
use crate::units::Time;

/// How quickly an intensity follows what readings say that it is off by, as a time constant. Origin: long against the noise of readings of 200 ms.
const TRIM_TIME: f64 = 5.0;
/// The furthest that it goes for that, as a share: clocks may differ by so much, and whatever is more is something else.
const MAX_TRIM: f64 = 0.03;
/// Readings that are further away, as a share of what is asked, are not the leech's doing: others take more than what is asked.
const BEYOND: f64 = 0.1;
/// As the controller's.
const PATIENCE: Duration = Duration::from_secs(3);

/// Keeps one of them: what is asked times what a whole one takes, trimmed slowly.
#[derive(Clone, Debug)]
pub(super) struct Trimmed {
    pub(super) of: Direct,
    trim: f64,
    intensity: f64,
    short_since: Option<Time>,
    shortfall: Option<Shortfall>,
}

impl Trimmed {
    pub(super) fn new(of: Direct) -> Self {
        Self {
            of,
            trim: 0.0,
            intensity: 0.0,
            short_since: None,
            shortfall: None,
        }
    }

    /// The intensity from now on, for `next`; `reading` is of the last so many seconds, in which `asked` was.
    pub(super) fn tick(
        &mut self,
        now: Time,
        seconds: f64,
        reading: f64,
        asked: f64,
        next: f64,
    ) -> f64 {
        let off = (reading - asked) / asked;
        if off.abs() <= BEYOND {
            let part = (seconds / TRIM_TIME).clamp(0.0, 1.0);
            self.trim = (self.trim - off * part).clamp(-MAX_TRIM, MAX_TRIM);
        }
        if reading.is_finite() {
            self.judge_reach(now, reading, asked);
        }
        let wanted = self.of.intensity * next * (1.0 + self.trim);
        if wanted.is_finite() {
            self.intensity = wanted.clamp(0.0, 1.0);
        }
        self.intensity
    }

    pub(super) const fn intensity(&self) -> f64 {
        self.intensity
    }

    /// What cannot be had for three seconds, every reading of them: others take more, or there is no more to take.
    fn judge_reach(&mut self, now: Time, reading: f64, asked: f64) {
        let is_short = (reading - asked).abs() > BEYOND * asked;
        self.shortfall = None;
        if !is_short {
            self.short_since = None;
            return;
        }
        let since = *self.short_since.get_or_insert(now);
        if now.saturating_since(since) < PATIENCE {
            return;
        }
        let bound = if reading > asked {
            Bound::Lower
        } else {
            Bound::Upper
        };
        self.shortfall = Some(Shortfall {
            metric: self.of.metric,
            asked,
            reached: reading,
            bounds: vec![(self.of.actuator, bound)],
        });
    }

    pub(super) const fn shortfall(&self) -> Option<&Shortfall> {
        self.shortfall.as_ref()
    }
}

/// Which metrics and actuators are left for the controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Split {
    pub(super) direct: Vec<Trimmed>,
    metrics: Vec<usize>,
    actuators: Vec<usize>,
}

impl Split {
    /// Each metric and each actuator is direct once at most; those that are not there are left out.
    pub(super) fn new(direct: &[Direct], metrics: usize, actuators: usize) -> Self {
        let mut kept: Vec<Trimmed> = Vec::new();
        for of in direct {
            let is_there = of.metric < metrics && of.actuator < actuators;
            let is_new = kept
                .iter()
                .all(|one| one.of.metric != of.metric && one.of.actuator != of.actuator);
            if is_there && is_new {
                kept.push(Trimmed::new(*of));
            }
        }
        let metrics = 0..metrics;
        let actuators = 0..actuators;
        Self {
            metrics: metrics
                .filter(|metric| kept.iter().all(|one| one.of.metric != *metric))
                .collect(),
            actuators: actuators
                .filter(|actuator| kept.iter().all(|one| one.of.actuator != *actuator))
                .collect(),
            direct: kept,
        }
    }

    /// Of all metrics, those that are controlled.
    pub(super) fn of_metrics<T: Copy>(&self, all: &[T]) -> Vec<T> {
        pick(&self.metrics, all)
    }

    /// Of all actuators, those that are controlled.
    pub(super) fn of_actuators<T: Copy>(&self, all: &[T]) -> Vec<T> {
        pick(&self.actuators, all)
    }

    /// Pairs of a metric and an actuator, those that are controlled, by the controller's numbers.
    pub(super) fn of_pairs(&self, all: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let place = |places: &[usize], of: usize| places.iter().position(|place| *place == of);
        let pairs = all.iter().filter_map(|(metric, actuator)| {
            Some((
                place(&self.metrics, *metric)?,
                place(&self.actuators, *actuator)?,
            ))
        });
        pairs.collect()
    }

    /// All intensities, of those that are controlled and the others.
    pub(super) fn together(&self, controlled: &[f64]) -> Vec<f64> {
        let mut all = vec![0.0; self.actuators.len() + self.direct.len()];
        let own = self
            .direct
            .iter()
            .map(|one| (one.of.actuator, one.intensity()));
        let others = self
            .actuators
            .iter()
            .copied()
            .zip(controlled.iter().copied());
        for (actuator, intensity) in own.chain(others) {
            if let Some(place) = all.get_mut(actuator) {
                *place = intensity;
            }
        }
        all
    }

    /// The same for all: those of the controller by its own numbers, and what is direct.
    pub(super) fn shortfalls(&self, controlled: &[Shortfall]) -> Vec<Shortfall> {
        let direct = self
            .direct
            .iter()
            .filter_map(|one| one.shortfall().cloned());
        let controlled = controlled.iter().filter_map(|short| {
            let bounds = short.bounds.iter();
            let bounds = bounds
                .filter_map(|(actuator, bound)| Some((*self.actuators.get(*actuator)?, *bound)));
            Some(Shortfall {
                metric: *self.metrics.get(short.metric)?,
                bounds: bounds.collect(),
                ..*short
            })
        });
        direct.chain(controlled).collect()
    }

    /// Of each metric, something that the controller says of its own, and `other` of those that are direct.
    pub(super) fn spread<T: Clone>(&self, controlled: &[T], other: T) -> Vec<T> {
        let len = self.metrics.len() + self.direct.len();
        spread(&self.metrics, controlled, vec![other; len])
    }

    /// The same of each actuator.
    pub(super) fn spread_actuators<T: Clone>(&self, controlled: &[T], other: T) -> Vec<T> {
        let len = self.actuators.len() + self.direct.len();
        spread(&self.actuators, controlled, vec![other; len])
    }

    /// What the controller is at, with the actuator's number in the plant.
    pub(super) fn phase(&self, phase: Phase) -> Phase {
        match phase {
            Phase::Step(actuator) => {
                Phase::Step(self.actuators.get(actuator).copied().unwrap_or(actuator))
            }
            other => other,
        }
    }
}

fn spread<T: Clone>(places: &[usize], values: &[T], mut all: Vec<T>) -> Vec<T> {
    for (place, value) in places.iter().zip(values) {
        if let Some(place) = all.get_mut(*place) {
            place.clone_from(value);
        }
    }
    all
}

fn pick<T: Copy>(indices: &[usize], all: &[T]) -> Vec<T> {
    let picked = indices.iter().filter_map(|index| all.get(*index).copied());
    picked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Trimmed {
        Trimmed::new(Direct {
            metric: 0,
            actuator: 0,
            intensity: 1.0,
        })
    }

    fn at(step: u64) -> Time {
        Time::from_nanos(step * 200_000_000)
    }

    #[test]
    fn what_two_clocks_differ_by_is_trimmed_away() {
        let mut trimmed = one();
        let mut intensity = trimmed.tick(at(0), 0.0, f64::NAN, 0.6, 0.6);
        assert!((intensity - 0.6).abs() < 1e-9);
        let mut random = fastrand::Rng::with_seed(1);
        let mut last = Vec::new();
        for step in 1..300 {
            // The leech's clock runs 2 % short, and readings are in hundredths of a second.
            let reading = intensity * 1.02 + (random.f64() - 0.5) * 0.05;
            intensity = trimmed.tick(at(step), 0.2, reading, 0.6, 0.6);
            last.push(intensity * 1.02);
        }
        assert!(
            last[100..].iter().all(|load| (load - 0.6).abs() < 0.006),
            "{last:?}"
        );
    }

    #[test]
    fn others_that_take_more_than_asked_wind_nothing_up_and_are_named() {
        let mut trimmed = one();
        for step in 0..100 {
            let intensity = trimmed.tick(at(step), 0.2, 0.95, 0.6, 0.6);
            assert!((intensity - 0.6).abs() < 1e-9, "{intensity}");
        }
        let short = trimmed.shortfall().unwrap();
        assert_eq!(short.bounds, [(0, Bound::Lower)]);
        // Just a little more: it goes no further than the trim.
        for step in 100..400 {
            let intensity = trimmed.tick(at(step), 0.2, 0.65, 0.6, 0.6);
            assert!((intensity / 0.6 - 1.0).abs() <= 0.031, "{intensity}");
        }
        assert!(trimmed.shortfall().is_none());
        // Nothing that could be read.
        for reading in [f64::NAN, f64::INFINITY, -1.0] {
            assert!((0.0..=1.0).contains(&trimmed.tick(at(401), 0.2, reading, 0.0, 2.0)));
        }
    }

    #[test]
    fn what_is_controlled_and_what_is_direct_come_together_again() {
        let direct = |metric, actuator| Direct {
            metric,
            actuator,
            intensity: 1.0,
        };
        let all = [direct(1, 2), direct(1, 0), direct(9, 0), direct(0, 9)];
        let mut split = Split::new(&all, 3, 3);
        assert_eq!(split.of_metrics(&[10, 11, 12]), [10, 12]);
        assert_eq!(split.of_actuators(&['a', 'b', 'c']), ['a', 'b']);
        split.direct[0].tick(at(0), 0.2, 0.5, 0.5, 0.5);
        assert_eq!(split.together(&[0.1, 0.2]), [0.1, 0.2, 0.5]);
        assert_eq!(split.spread(&[7.0, 8.0], 0.0), [7.0, 0.0, 8.0]);
        assert_eq!(split.spread_actuators(&[7.0, 8.0], 0.0), [7.0, 8.0, 0.0]);
        let short = Shortfall {
            metric: 1,
            asked: 1.0,
            reached: 0.5,
            bounds: vec![(1, Bound::Upper)],
        };
        assert_eq!(split.shortfalls(&[short])[0].metric, 2);
    }
}
