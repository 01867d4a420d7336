//! What is known of one metric: where it stands, and how it answers to each intensity.

use super::matrix::dot;

/// How much of its whole a background may wander in a second, as a standard deviation. Arbitrary: it sets how quickly the unexpected is followed against how
/// much noise goes through.
const DRIFT: f64 = 0.02;
/// Noise of the mean over a second, as a standard deviation, that is borne: what is asked of the loop. What is more is not followed from reading to reading.
const QUIET: f64 = 0.02;
/// Of a change that the gains explain, the share that they may be wrong by.
const UNEXPLAINED: f64 = 0.7;
/// Errors of more than so many standard deviations are none of the noise's.
const BAND: f64 = 5.0;
/// So many seconds must be seen before noise is taken to be known.
const ENOUGH: f64 = 4.0;
/// Of means over a second, how quickly their noise is learned once many were seen.
const SLOW_RATE: f64 = 0.05;
/// How far a sensitivity may change when an intensity goes all the way, as a share of itself: a plant that saturates loses all of it.
const CURVATURE: f64 = 1.0;
/// ... and as a share of the greatest one, for those that are none where the plant stands.
const CROSS_CURVATURE: f64 = 0.25;
/// Moves shorter than the first are taken not to add up, and those shorter than the second to go the same way.
const JITTER: f64 = 0.003;
const STRIDE: f64 = 0.15;
/// Innovations further out than so many standard deviations are taken for outliers, unless the next is out on the same side.
const OUTLIER: f64 = 4.0;
/// ... and of a metric that is noisy for seconds, unless they have stayed there for so long, in seconds: others take what is measured, for a moment, and are gone. Origin: on a virtual machine, bursts of
/// the latency of memory to twice what it was lasted for two readings of 0.2 s (docs/load.md).
const BURST: f64 = 1.0;
/// How quickly the noise's variance is learned: a twentieth for each reading.
const NOISE_RATE: f64 = 0.05;
/// How quickly it is seen that readings stay on one side, and how much of that is chance.
const CORRELATION_RATE: f64 = 0.3;
const CHANCE: f64 = 0.25;
/// ... and so many times the noise that is known to stay.
const KNOWN: f64 = 3.0;
const DOUBT: f64 = 0.5;
/// The least noise, as a variance: a thousandth of the metric's scale.
const MIN_NOISE: f64 = 1e-6;
const MAX_NOISE: f64 = 1.0;
/// The most that is not known of anything, as a variance.
const MAX_VARIANCE: f64 = 100.0;

/// A Kalman filter of the level and the sensitivities, in units of the metric's scale.
///
/// ```text
/// level += gains . dx + drift        dx: what the intensities, as this metric sees them, have moved by
/// gains += curvature * |dx|
/// reading = level + noise
/// ```
///
/// The level is the integrator of this metric's controller: what the gains do not explain of the readings goes there. The gains are corrected along the
/// direction that the intensities moved in, as Broyden's rule does, by as much as the noise allows.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    pub(super) level: f64,
    pub(super) gains: Vec<f64>,
    /// Covariance, by rows: the level first.
    covariance: Vec<f64>,
    pub(super) noise: f64,
    /// What the last reading was off by.
    innovation: f64,
    /// Mean of the last few's products, each with the one before.
    correlation: f64,
    /// Of the last reading, if it was out: on which side, and for how many seconds they have been there.
    outlier: Option<(bool, f64)>,
    /// Seconds since readings that were out were taken for a change.
    since_change: f64,
    second: Second,
}

/// Noise that stays for longer than a reading: how much means over a second differ from one to the next, when what the intensities do is taken away. Noise that changes from
/// reading to reading says nothing of that, and what stays for longer than some seconds is none.
#[derive(Clone, Debug, Default)]
struct Second {
    /// What the gains explain of all readings so far, and when the second before was over.
    explained: f64,
    explained_before: f64,
    /// Since the last reading.
    seconds: f64,
    /// Of this second: how long of it there was, the readings' rest, and the variance of what is not known of the gains.
    length: f64,
    sum: f64,
    doubtful: f64,
    /// The mean of the second before, and how often there was one.
    before: Option<f64>,
    count: f64,
    /// Variance of means over a second.
    noise: f64,
}

impl Second {
    /// Another reading. What differs by more than thrice what is known (`least`, to begin with) counts as that: it may be a change, and no noise.
    fn add(&mut self, reading: f64, least: f64) {
        let seconds = core::mem::take(&mut self.seconds);
        self.sum += seconds * (reading - self.explained);
        self.length += seconds;
        if self.length < 0.999 {
            return;
        }
        let mean = self.sum / self.length;
        let is_one = self.length < 2.0;
        if let (Some(before), true) = (self.before, is_one) {
            // What moved is not explained to the last: plants bend, and lag otherwise than is known.
            let moved = UNEXPLAINED * (self.explained - self.explained_before);
            let found = (mean - before).powi(2) / 2.0 - self.doubtful - moved * moved;
            let found = found.max(0.0);
            let rate = (1.0 / (self.count + 4.0)).max(SLOW_RATE);
            self.noise += rate * (found.min(9.0 * self.noise.max(least)) - self.noise);
            self.count += 1.0;
        }
        self.before = is_one.then_some(mean);
        self.explained_before = self.explained;
        (self.sum, self.length, self.doubtful) = (0.0, 0.0, 0.0);
    }

    /// The standard deviation, once enough seconds were seen; 0 before that.
    fn deviation(&self) -> f64 {
        if self.count < ENOUGH {
            return 0.0;
        }
        self.noise.sqrt()
    }

    /// As a variance, what of it is more than is borne.
    fn loud(&self) -> f64 {
        (self.deviation().powi(2) - QUIET * QUIET).max(0.0)
    }
}

impl Estimator {
    /// From a fit: `covariance` is by rows, the level first.
    pub(super) fn new(level: f64, gains: Vec<f64>, covariance: Vec<f64>, noise: f64) -> Self {
        Self {
            level,
            gains,
            covariance,
            noise: noise.clamp(MIN_NOISE, MAX_NOISE),
            innovation: 0.0,
            correlation: 0.0,
            outlier: None,
            since_change: f64::INFINITY,
            second: Second::default(),
        }
    }

    /// Noise of the mean over a second, as a standard deviation; 0 before it is known.
    pub(super) fn noise_of_second(&self) -> f64 {
        self.second.deviation()
    }

    /// What `before`, of the same metric, knew of that.
    pub(super) fn keep_noise(&mut self, before: &Self) {
        (self.second.noise, self.second.count) = (before.second.noise, before.second.count);
    }

    /// Over how many seconds an error is to be taken, so that what the noise lets through is half of what is asked, as far as there were so many since a change; `None` if one reading will
    /// do: there is no such noise, or the error is beyond it.
    pub(super) fn patience(&self, error: f64) -> Option<f64> {
        let deviation = self.second.deviation();
        let is_noise = deviation > QUIET && error.abs() < BAND * deviation;
        // After a change it is not known yet where the metric stands, nor whether the change stays.
        is_noise.then(|| (deviation / (QUIET / 2.0)).powi(2).min(self.since_change))
    }

    fn width(&self) -> usize {
        self.gains.len() + 1
    }

    /// Variance of the gain of an actuator.
    pub(super) fn variance(&self, actuator: usize) -> f64 {
        self.covariance[(actuator + 1) * (self.width() + 1)]
    }

    /// Time goes on by `seconds`, and the intensities that this metric sees move by `moved`.
    pub(super) fn predict(&mut self, moved: &[f64], seconds: f64) {
        let width = self.width();
        let explained = dot(&self.gains, moved);
        self.level += explained;
        self.second.explained += explained;
        self.second.seconds += seconds;
        self.since_change += seconds;
        let known = self.covariance[0];
        // F P F', where F adds the gains' part to the level.
        for column in 0..width {
            let added: f64 = (1..width)
                .map(|row| moved[row - 1] * self.covariance[row * width + column])
                .sum();
            self.covariance[column] += added;
        }
        for row in 0..width {
            let added: f64 = (1..width)
                .map(|column| moved[column - 1] * self.covariance[row * width + column])
                .sum();
            self.covariance[row * width] += added;
        }
        let whole: f64 = moved.iter().map(|moved| moved * moved).sum();
        let greatest = self
            .gains
            .iter()
            .fold(0.0_f64, |most, gain| most.max(gain.abs()));
        let bend = CURVATURE * greatest * whole / 2.0;
        self.covariance[0] += bend * bend;
        self.second.doubtful += (self.covariance[0] - known).max(0.0);
        self.covariance[0] += DRIFT * DRIFT * seconds.clamp(0.0, 10.0);
        for (actuator, gain) in self.gains.iter().enumerate() {
            let own = (CURVATURE * gain).powi(2) * path(moved[actuator].abs());
            let cross = (CROSS_CURVATURE * greatest).powi(2) * path(whole.sqrt());
            self.covariance[(actuator + 1) * (width + 1)] += own + cross;
        }
        self.bound();
    }

    /// What was read, in units of the scale.
    pub(super) fn update(&mut self, reading: f64) {
        let width = self.width();
        let innovation = reading - self.level;
        let seconds = self.second.seconds.clamp(0.01, 1.0);
        // As if it changed from reading to reading, and were as much of a second's mean.
        let mut noise = self.noise + self.second.loud() / seconds;
        self.second.add(reading, self.noise * seconds);
        let expected = self.covariance[0] + noise;
        let is_out = innovation * innovation > OUTLIER * OUTLIER * expected;
        let side = innovation > 0.0;
        let before = self.outlier.filter(|(before, _)| *before == side);
        let lasted = before.map_or(0.0, |(_, lasted)| lasted) + seconds;
        self.outlier = is_out.then_some((side, lasted));
        let is_burst = self.second.loud() > 0.0 && lasted < BURST;
        match before {
            // Twice on the same side: the background has changed, or the plant is not what it was taken for.
            Some(_) if is_out && !is_burst => {
                self.covariance[0] += innovation * innovation;
                self.outlier = None;
                self.since_change = 0.0;
            }
            _ if is_out => noise = innovation * innovation,
            _ => {}
        }
        let spread = self.covariance[0] + noise;
        let gain: Vec<f64> = (0..width)
            .map(|row| self.covariance[row * width] / spread)
            .collect();
        self.level += gain[0] * innovation;
        for (of, gain) in self.gains.iter_mut().zip(&gain[1..]) {
            *of += gain * innovation;
        }
        let first = self.covariance[..width].to_vec();
        for (row, gain) in self.covariance.chunks_exact_mut(width).zip(&gain) {
            for (value, first) in row.iter_mut().zip(&first) {
                *value -= gain * first;
            }
        }
        // What is let pass says nothing of the noise beside it, nor that the model is wrong.
        if !(is_out && is_burst) {
            self.learn_noise(innovation, expected);
        }
        self.bound();
    }

    /// Noise comes and goes from one reading to the next; what stays on one side is no noise, but something that the model does not know.
    fn learn_noise(&mut self, innovation: f64, expected: f64) {
        let before = core::mem::replace(&mut self.innovation, innovation);
        let difference = (innovation - before).powi(2) / 2.0;
        self.noise += NOISE_RATE * (difference.min(9.0 * expected) - self.noise);
        self.noise = self.noise.clamp(MIN_NOISE, MAX_NOISE);
        let together = (innovation * before).clamp(-9.0 * expected, 9.0 * expected);
        self.correlation += CORRELATION_RATE * (together - self.correlation);
        let chance = CHANCE * expected + KNOWN * self.second.loud();
        let surprise = (self.correlation - chance).max(0.0);
        self.covariance[0] += surprise;
        // All of what is known is in doubt.
        let doubt = 1.0 + DOUBT * (surprise / expected).min(1.0);
        for value in &mut self.covariance {
            *value *= doubt;
        }
    }

    /// Symmetric, positive on its diagonal, and finite.
    fn bound(&mut self) {
        let width = self.width();
        for row in 0..width {
            for column in 0..row {
                let (low, high) = (row * width + column, column * width + row);
                let mean = f64::midpoint(self.covariance[low], self.covariance[high]);
                (self.covariance[low], self.covariance[high]) = (mean, mean);
            }
            let own = &mut self.covariance[row * (width + 1)];
            *own = own.clamp(1e-12, f64::MAX);
            if *own > MAX_VARIANCE {
                let shrink = (MAX_VARIANCE / *own).sqrt();
                for other in 0..width {
                    self.covariance[row * width + other] *= shrink;
                    self.covariance[other * width + row] *= shrink;
                }
            }
        }
    }

    /// Whether all of it is still numbers.
    pub(super) fn is_sound(&self) -> bool {
        let mut all = self
            .gains
            .iter()
            .chain(&self.covariance)
            .chain([&self.level, &self.noise]);
        all.all(|value| value.is_finite())
    }
}

/// How far a move takes a plant from where it was known, squared: small moves one after the other add up to a large one.
fn path(moved: f64) -> f64 {
    if moved < JITTER {
        0.0
    } else {
        moved * moved.max(STRIDE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(actuators: usize) -> Estimator {
        let width = actuators + 1;
        let mut covariance = vec![0.0; width * width];
        for row in 0..width {
            covariance[row * (width + 1)] = 1.0;
        }
        Estimator::new(0.0, vec![0.0; actuators], covariance, 1e-4)
    }

    #[test]
    fn gains_are_learned_from_moves_and_the_level_from_the_rest() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut estimator = unknown(2);
        let mut x = [0.0, 0.0];
        for _ in 0..60 {
            let next = [random.f64() * 0.3, random.f64() * 0.3];
            let moved = [next[0] - x[0], next[1] - x[1]];
            x = next;
            estimator.predict(&moved, 0.2);
            estimator.update(0.3 + 1.5 * x[0] + 0.5 * x[1] + (random.f64() - 0.5) * 0.02);
        }
        assert!((estimator.gains[0] - 1.5).abs() < 0.15, "{estimator:?}");
        assert!((estimator.gains[1] - 0.5).abs() < 0.15, "{estimator:?}");
    }

    #[test]
    fn one_outlier_moves_little_and_a_change_is_followed_at_once() {
        let mut estimator = unknown(1);
        for _ in 0..50 {
            estimator.predict(&[0.0], 0.2);
            estimator.update(1.0);
        }
        let before = estimator.level;
        estimator.update(3.0);
        assert!((estimator.level - before).abs() < 0.1, "{estimator:?}");
        estimator.update(1.0);
        for _ in 0..3 {
            estimator.predict(&[0.0], 0.2);
            estimator.update(2.0);
        }
        assert!((estimator.level - 2.0).abs() < 0.1, "{estimator:?}");
    }

    #[test]
    fn whatever_comes_stays_a_number() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut estimator = unknown(3);
        for _ in 0..10_000 {
            let moved = [random.f64() - 0.5, 0.0, 1.0 - 2.0 * random.f64()];
            estimator.predict(&moved, random.f64() * 1e6);
            let reading = [0.0, 1e6, -1e6, random.f64()][random.usize(0..4)];
            estimator.update(reading);
            assert!(estimator.is_sound(), "{estimator:?}");
        }
    }
}
