//! Several metrics at once: from what is read to how far each actuator is to go. It is told the time, and knows nothing else of the plant.

use core::time::Duration;

use super::estimate::Estimator;
use super::identify::{Fit, Observation, identify};
use super::lag::{Inputs, MAX_DELAY};
use super::matrix::{Row, bounded_least_squares, dot};
use super::plant::is_reading;
use super::step::Phase;
use crate::loadgen::Intensity;
use crate::units::Time;

/// The most metrics, and the most actuators.
pub const MAX_METRICS: usize = 8;
/// How far an actuator is moved to see what it does. Large against noise of a few hundredths, small against the whole.
const STEP: f64 = 0.12;
/// Of each step, and of the rest before the first: at least so long, so many readings...
const LEAST: (Duration, usize) = (Duration::from_millis(600), 3);
/// ... and at most so long, if the noise hides what it does.
const LONGEST: Duration = Duration::from_millis(1200);
/// A sensitivity is known well enough at so many standard deviations.
const CLEAR: f64 = 8.0;
/// The furthest that an actuator goes at once: the model is of where the plant stands.
const FURTHEST: f64 = 0.3;
/// The share of the way that is gone at once, but for the lag.
const BOLDNESS: f64 = 0.8;
/// How much it counts that a sensitivity is not known for sure. 1 would be the least expected error of the next step alone, which goes there too slowly.
const CAUTION: f64 = 0.1;
/// An intensity is at its bound this near to it.
const AT_BOUND: f64 = 0.004;
/// How long something must be out of reach before it is named.
const PATIENCE: Duration = Duration::from_secs(3);
/// What is out of reach may only seem so: something else went on during the steps. They are made again, from where things are, and if that does not help, not before
/// so long after that; each time twice as long.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
/// The least weight that a metric that cannot be had keeps, so that those that can are not spoiled for it.
const GIVEN_UP: f64 = 0.01;
/// The longest interval between readings that is taken as one; after a longer one (a clock that jumped, a machine that slept) levels are learned anew.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// Where an actuator is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is off.
    Lower,
    /// It takes all it can.
    Upper,
}

/// A metric that cannot be had.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortfall {
    /// Index of the metric.
    pub metric: usize,
    /// What was asked.
    pub asked: f64,
    /// What there is.
    pub reached: f64,
    /// Actuators that would have to go further, and cannot. Without any, others are in the way: there are fewer actuators than metrics, or none moves it alone.
    pub bounds: Vec<(usize, Bound)>,
}

/// The controller.
///
/// ```text
/// Rest --(enough readings)--> Step 0 --> Step 1 --> .. --> Hold
///   ^---------(something is out of reach: once, then seldom)--'
/// ```
///
/// In `Hold`, for each metric a filter keeps its level and its sensitivities (the integrator of that metric's loop, and a row of the matrix that
/// decouples the loops); the intensities are the bounded least squares of what is asked. An actuator at its bound stops nothing from being learned and winds
/// nothing up: what the filter is told is where the actuators are, not where they should be.
#[derive(Debug)]
pub struct Controller {
    scales: Vec<f64>,
    phase: Phase,
    since: Time,
    /// Time of the last reading.
    last: Option<Time>,
    /// Where it began.
    start: Vec<f64>,
    inputs: Inputs,
    intensities: Vec<f64>,
    observations: Vec<Observation>,
    fits: Vec<Fit>,
    /// What the steps said.
    first: Vec<Estimator>,
    /// Metrics, and actuators that only ever add to them.
    raises: Vec<(usize, usize)>,
    /// What was asked last, in units of the scales.
    asked: Vec<f64>,
    short_since: Vec<Option<Time>>,
    /// When it may look again at what the actuators do, and how long after that.
    look_again: (Time, Duration),
    shortfalls: Vec<Shortfall>,
}

impl Controller {
    /// A controller of metrics whose values are of the order of `scales`, and of actuators that stand at `start`. Those that are too many ([`MAX_METRICS`])
    /// are left alone.
    pub fn new(scales: &[f64], start: &[Intensity]) -> Self {
        let scale = |scale: &f64| {
            if scale.is_finite() && *scale > 0.0 {
                *scale
            } else {
                1.0
            }
        };
        let scales: Vec<f64> = scales.iter().take(MAX_METRICS).map(scale).collect();
        let start: Vec<f64> = start
            .iter()
            .take(MAX_METRICS)
            .map(|start| start.share())
            .collect();
        Self {
            asked: Vec::new(),
            short_since: vec![None; scales.len()],
            scales,
            phase: Phase::Rest,
            since: Time::ZERO,
            last: None,
            inputs: Inputs::new(start.clone()),
            intensities: start.clone(),
            start,
            observations: Vec::new(),
            fits: Vec::new(),
            first: Vec::new(),
            raises: Vec::new(),
            look_again: (Time::ZERO, LOOK_AGAIN),
            shortfalls: Vec::new(),
        }
    }

    /// Pairs of a metric and an actuator that only ever adds to it: whatever is found of how much, it is not taken to be less than none.
    #[must_use]
    pub fn raised_by(mut self, raises: Vec<(usize, usize)>) -> Self {
        self.raises = raises;
        self
    }

    /// Whether the sensitivities are known, and what is asked is held.
    pub fn is_holding(&self) -> bool {
        self.phase == Phase::Hold
    }

    /// What it is at.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Where the actuators are to be from now on, 0 to 1.
    pub fn intensities(&self) -> &[f64] {
        &self.intensities
    }

    /// What cannot be had, for three seconds or longer.
    pub fn shortfalls(&self) -> &[Shortfall] {
        &self.shortfalls
    }

    /// What the mean of each metric over a second varies by from one to the next whatever actuators do, as a share of its scale: a standard deviation. Empty before anything is known.
    pub fn noise(&self) -> Vec<f64> {
        let fits = self.fits.iter();
        fits.map(|fit| fit.estimator.noise_of_second()).collect()
    }

    /// How much each metric changes when an actuator goes all the way, from where it stands: a row for each metric. Empty before it is known.
    pub fn sensitivities(&self) -> Vec<Vec<f64>> {
        let rows = self.fits.iter().zip(&self.scales);
        rows.map(|(fit, scale)| {
            fit.estimator
                .gains
                .iter()
                .map(|gain| gain * scale)
                .collect()
        })
        .collect()
    }

    /// By how much each of the [sensitivities](Self::sensitivities) may be wrong: standard deviations.
    pub fn deviations(&self) -> Vec<Vec<f64>> {
        let rows = self.fits.iter().zip(&self.scales);
        rows.map(|(fit, scale)| {
            let actuators = 0..fit.estimator.gains.len();
            actuators
                .map(|actuator| fit.estimator.variance(actuator).sqrt() * scale)
                .collect()
        })
        .collect()
    }

    /// Where each metric stands, as its filter has it. Empty before it is known.
    pub fn levels(&self) -> Vec<f64> {
        let rows = self.fits.iter().zip(&self.scales);
        rows.map(|(fit, scale)| fit.estimator.level * scale)
            .collect()
    }

    /// Takes the `readings` of the interval that ends now, whose end the last call was, and moves towards `targets`. What is not finite, or below 0, was not read.
    /// Returns the intensities from now on.
    pub fn tick(&mut self, now: Time, readings: &[f64], targets: &[f64]) -> &[f64] {
        let Some(last) = self.last else {
            self.last = Some(now);
            self.since = now;
            self.inputs.set(now, &self.intensities);
            return &self.intensities;
        };
        if now <= last {
            // Nothing can be said of no time.
            return &self.intensities;
        }
        self.last = Some(now);
        let from = last.max(now - MAX_INTERVAL);
        let readings: Vec<f64> = self
            .scales
            .iter()
            .enumerate()
            .map(|(index, scale)| sound(readings.get(index).copied(), *scale))
            .collect();
        match self.phase {
            Phase::Rest | Phase::Step(_) => self.explore(
                Observation {
                    from,
                    to: now,
                    readings,
                },
                targets,
            ),
            Phase::Hold => {
                self.inputs.forget(from - MAX_DELAY);
                self.learn(from, now, &readings);
                self.hold(now, now.saturating_since(from), targets);
            }
        }
        self.inputs.set(now, &self.intensities);
        &self.intensities
    }

    fn explore(&mut self, observation: Observation, targets: &[f64]) {
        let now = observation.to;
        self.observations.push(observation);
        let elapsed = now.saturating_since(self.since);
        let of_phase = self
            .observations
            .iter()
            .rev()
            .take_while(|seen| seen.from >= self.since);
        let count = of_phase.count();
        if elapsed < LEAST.0 || count < LEAST.1 {
            return;
        }
        let next = match self.phase {
            Phase::Step(actuator) => {
                let fits = identify(&self.observations, &self.inputs, &self.start);
                let is_clear = fits.iter().any(|fit| is_clear(&fit.estimator, actuator));
                if !is_clear && elapsed < LONGEST {
                    return;
                }
                self.back_off(actuator, &fits, targets);
                self.fits = fits;
                actuator + 1
            }
            _ => 0,
        };
        self.since = now;
        if let Some(intensity) = self.intensities.get_mut(next) {
            // Whatever there is room for.
            *intensity += if *intensity + STEP <= 1.0 {
                STEP
            } else {
                -STEP
            };
            self.phase = Phase::Step(next);
        } else {
            self.phase = Phase::Hold;
            for (fit, before) in self.fits.iter_mut().zip(&self.first) {
                fit.estimator.keep_noise(before);
            }
            self.first = self.fits.iter().map(|fit| fit.estimator.clone()).collect();
            self.hold(now, Duration::ZERO, targets);
        }
    }

    /// A step that has brought a metric far beyond what is asked is taken back in part: what is learned is to be learned near there.
    fn back_off(&mut self, actuator: usize, fits: &[Fit], targets: &[f64]) {
        let over = fits
            .iter()
            .zip(&self.scales)
            .zip(targets)
            .filter(|((fit, _), _)| is_clear(&fit.estimator, actuator));
        let over = over
            .map(|((fit, scale), target)| fit.estimator.level * scale / target.max(scale / 20.0));
        let over = over.fold(0.0, f64::max);
        if over > 1.2 {
            let away = self.intensities[actuator] - self.start[actuator];
            self.intensities[actuator] = self.start[actuator] + away * (1.0 / over).max(0.2);
        }
    }

    fn learn(&mut self, from: Time, to: Time, readings: &[f64]) {
        for (index, (fit, reading)) in self.fits.iter_mut().zip(readings).enumerate() {
            let before = fit.seen.mean().to_vec();
            fit.seen.advance(&self.inputs, from, to);
            let moved: Vec<f64> = fit
                .seen
                .mean()
                .iter()
                .zip(&before)
                .map(|(after, before)| after - before)
                .collect();
            fit.estimator
                .predict(&moved, to.saturating_since(from).as_secs_f64());
            if reading.is_finite() {
                fit.estimator.update(*reading);
            }
            if !fit.estimator.is_sound() {
                // Not seen in any test; it begins again from what the steps said.
                fit.estimator = self.first[index].clone();
            }
        }
    }

    /// What is known of a metric's sensitivities, together with what is known beforehand.
    fn gains(&self, metric: usize, estimator: &Estimator) -> Vec<f64> {
        let known = estimator.gains.iter().enumerate();
        let gains = known.map(|(actuator, gain)| {
            if self.raises.contains(&(metric, actuator)) {
                least_of_none(*gain, estimator.variance(actuator))
            } else {
                *gain
            }
        });
        gains.collect()
    }

    fn hold(&mut self, now: Time, elapsed: Duration, targets: &[f64]) {
        let mut rows: Vec<Row> = Vec::with_capacity(self.fits.len());
        let mut asked = Vec::with_capacity(self.fits.len());
        let mut reluctance = vec![1e-9; self.intensities.len()];
        for (index, fit) in self.fits.iter().enumerate() {
            let scale = self.scales[index];
            let target = targets
                .get(index)
                .copied()
                .filter(|target| target.is_finite());
            let target = target.unwrap_or(0.0).max(0.0) / scale;
            // Errors count as shares of what is asked; where that is next to nothing, of the scale.
            let weight = target.max(0.05).powi(-2);
            let estimator = &fit.estimator;
            let gains = self.gains(index, estimator);
            for (actuator, reluctance) in reluctance.iter_mut().enumerate() {
                // What is uncertain of a gain makes a move's outcome uncertain.
                *reluctance += CAUTION * weight * estimator.variance(actuator)
                    + 1e-4 * weight * gains[actuator].powi(2);
            }
            let here = dot(&gains, &self.intensities);
            let error = target - estimator.level + dot(&gains, fit.seen.mean()) - here;
            // What is asked anew is gone to at once; the rest, where it may be noise, in as many seconds as it takes to tell, of those that there were.
            let anew = target - self.asked.get(index).copied().unwrap_or(target);
            let part = estimator.patience(error - anew).map_or(1.0, |patience| {
                let known = now.saturating_since(self.since).as_secs_f64();
                (elapsed.as_secs_f64() / patience.min(known).max(1e-3)).min(1.0)
            });
            asked.push(target);
            rows.push(Row {
                value: here + anew + part * (error - anew),
                coefficients: gains,
                weight,
            });
        }
        self.asked = asked;
        let (wanted, given_up) = self.solve(rows, &reluctance);
        let slowest = self
            .fits
            .iter()
            .map(|fit| fit.lag.seconds())
            .fold(0.0, f64::max);
        let boldness = if elapsed.is_zero() {
            1.0
        } else {
            let seconds = elapsed.as_secs_f64();
            BOLDNESS.min(1.0 - (-2.0 * seconds / slowest.max(1e-3)).exp())
        };
        for (intensity, wanted) in self.intensities.iter_mut().zip(&wanted) {
            let way = boldness * (wanted - *intensity);
            *intensity = (*intensity + way.clamp(-FURTHEST, FURTHEST)).clamp(0.0, 1.0);
        }
        self.judge_reach(now, targets, &given_up);
    }

    /// Where the actuators are wanted, and which metrics cannot be had there. Of what cannot be had, the worst is given up until the others can.
    fn solve(&self, mut rows: Vec<Row>, reluctance: &[f64]) -> (Vec<f64>, Vec<bool>) {
        /// Of what is asked: half of what is borne.
        const ALLOWED: f64 = 0.01;
        let mut given_up = vec![false; rows.len()];
        loop {
            let wanted = bounded_least_squares(&rows, &self.intensities, reluctance);
            // Where nothing is reluctant, what is left is what cannot be had.
            let least = vec![1e-9; wanted.len()];
            let reach = bounded_least_squares(&rows, &wanted, &least);
            let left = rows.iter().zip(&given_up).map(|(row, given_up)| {
                let left = (dot(&row.coefficients, &reach) - row.value).abs() * row.weight.sqrt();
                if *given_up { 0.0 } else { left }
            });
            let worst = left.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
            let kept = given_up.iter().filter(|given_up| !**given_up).count();
            match worst {
                Some((index, left)) if left > ALLOWED && kept > 1 => {
                    given_up[index] = true;
                    rows[index].weight *= GIVEN_UP;
                }
                Some((index, left)) if left > ALLOWED => {
                    given_up[index] = true;
                    return (wanted, given_up);
                }
                _ => return (wanted, given_up),
            }
        }
    }

    fn judge_reach(&mut self, now: Time, targets: &[f64], given_up: &[bool]) {
        self.shortfalls.clear();
        for (metric, given_up) in given_up.iter().enumerate() {
            let target = targets.get(metric).copied().unwrap_or(0.0);
            let estimator = &self.fits[metric].estimator;
            let reached = estimator.level.max(0.0) * self.scales[metric];
            let is_short = *given_up
                && (reached - target).abs() > 0.02 * target.max(self.scales[metric] * 0.05);
            if !is_short {
                self.short_since[metric] = None;
                continue;
            }
            let since = *self.short_since[metric].get_or_insert(now);
            if now.saturating_since(since) < PATIENCE {
                continue;
            }
            let is_below = reached < target;
            let gains = self.gains(metric, estimator);
            let bounds = self.intensities.iter().zip(&gains).enumerate();
            let bounds = bounds.filter_map(|(actuator, (intensity, gain))| {
                let helps_up = (*gain > 0.0) == is_below;
                match intensity {
                    _ if gain.abs() < 0.02 => None,
                    x if *x > 1.0 - AT_BOUND && helps_up => Some((actuator, Bound::Upper)),
                    x if *x < AT_BOUND && !helps_up => Some((actuator, Bound::Lower)),
                    _ => None,
                }
            });
            self.shortfalls.push(Shortfall {
                metric,
                asked: target,
                reached,
                bounds: bounds.collect(),
            });
        }
        if !self.shortfalls.is_empty() && now >= self.look_again.0 {
            let (_, delay) = self.look_again;
            self.look_again = (now + delay, delay.saturating_mul(2));
            self.first = self.fits.iter().map(|fit| fit.estimator.clone()).collect();
            self.start.clone_from(&self.intensities);
            self.observations.clear();
            self.phase = Phase::Rest;
            self.since = now;
        }
    }
}

/// A reading in units of the scale; not a number if it is none.
fn sound(reading: Option<f64>, scale: f64) -> f64 {
    let reading = reading.filter(|reading| is_reading(*reading, scale));
    reading.map_or(f64::NAN, |reading| reading / scale)
}

/// What a gain probably is that is found to be `gain`, give or take the root of `variance`, and is known not to be below 0: near the mean of what is left of a normal distribution.
fn least_of_none(gain: f64, variance: f64) -> f64 {
    /// So that it is right for a gain of 0.
    const HALF: f64 = 2.0 / core::f64::consts::PI;
    f64::midpoint(gain, (gain * gain + 4.0 * HALF * variance).sqrt())
}

fn is_clear(estimator: &Estimator, actuator: usize) -> bool {
    estimator.gains[actuator].abs() > CLEAR * estimator.variance(actuator).sqrt()
}
