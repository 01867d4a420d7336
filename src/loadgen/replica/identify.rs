//! How each metric answers to each actuator, from small steps: which lag explains the readings best, and with which sensitivities.

use core::time::Duration;

use super::estimate::Estimator;
use super::lag::{Inputs, Lag, Seen};
use super::matrix::{dot, invert};
use crate::units::Time;

/// Lags that are tried. Metrics are means over an interval, so that finer ones would not be told apart.
const DELAYS: [u64; 4] = [0, 100, 200, 400];
const CONSTANTS: [u64; 6] = [0, 100, 200, 350, 600, 1000];
/// A metric of which less is explained has the lag of the one that is explained best.
const EXPLAINED: f64 = 0.6;
/// So much better must a longer lag explain the readings: twice the logarithm of how much more likely it makes them. Through a long lag the steps of two actuators, one after the other, look alike, and noise
/// is explained by large sensitivities of both that nearly cancel out. Origin: chi-squared with two degrees of freedom is above it twice in 100.
const BETTER: f64 = 8.0;

/// What was read in an interval.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) from: Time,
    pub(super) to: Time,
    /// In units of the metrics' scales; not a number where there was none.
    pub(super) readings: Vec<f64>,
}

/// What explains one metric.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) lag: Lag,
    pub(super) seen: Seen,
    pub(super) estimator: Estimator,
    /// Share of the variance.
    explained: f64,
}

/// Fits all metrics.
pub(super) fn identify(observations: &[Observation], inputs: &Inputs, start: &[f64]) -> Vec<Fit> {
    let metrics = observations.first().map_or(0, |first| first.readings.len());
    let mut fits: Vec<Fit> = (0..metrics)
        .map(|metric| best(metric, observations, inputs, start))
        .collect();
    let known = fits
        .iter()
        .max_by(|a, b| a.explained.total_cmp(&b.explained));
    let lag = known.map_or_else(Lag::default, |fit| fit.lag);
    for (metric, fit) in fits.iter_mut().enumerate() {
        if fit.explained < EXPLAINED && fit.lag != lag {
            *fit = with_lag(metric, observations, inputs, start, lag).0;
        }
    }
    fits
}

fn best(metric: usize, observations: &[Observation], inputs: &Inputs, start: &[f64]) -> Fit {
    let lags = CONSTANTS.iter().flat_map(|&constant| {
        DELAYS.iter().map(move |&delay| Lag {
            delay: Duration::from_millis(delay),
            constant: Duration::from_millis(constant),
        })
    });
    let mut lags: Vec<_> = lags.collect();
    lags.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
    let (mut fit, mut squares) = with_lag(metric, observations, inputs, start, Lag::default());
    let better = (-BETTER / (observations.len() as f64).max(1.0)).exp();
    for lag in lags {
        let (other, others) = with_lag(metric, observations, inputs, start, lag);
        if others < squares * better {
            (fit, squares) = (other, others);
        }
    }
    fit
}

/// Least squares with this lag, and the squares that it leaves.
fn with_lag(
    metric: usize,
    observations: &[Observation],
    inputs: &Inputs,
    start: &[f64],
    lag: Lag,
) -> (Fit, f64) {
    /// What is taken to be known of a sensitivity before anything is: next to nothing. It keeps what was never moved at none.
    const PRIOR: f64 = 1e-6;
    let actuators = start.len();
    let width = actuators + 1;
    let mut seen = Seen::new(lag, start);
    let mut rows = Vec::with_capacity(observations.len());
    for observation in observations {
        seen.advance(inputs, observation.from, observation.to);
        let reading = observation
            .readings
            .get(metric)
            .copied()
            .unwrap_or(f64::NAN);
        if reading.is_finite() {
            rows.push((seen.mean().to_vec(), reading));
        }
    }
    // The level is the one that the intensities of the last interval make.
    let now = seen.mean().to_vec();
    let mut normal = vec![0.0; width * width];
    let mut right = vec![0.0; width];
    for (inputs, reading) in &rows {
        let row: Vec<f64> = [1.0]
            .into_iter()
            .chain(inputs.iter().zip(&now).map(|(input, now)| input - now))
            .collect();
        for i in 0..width {
            right[i] += row[i] * reading;
            for j in 0..width {
                normal[i * width + j] += row[i] * row[j];
            }
        }
    }
    for i in 0..width {
        normal[i * (width + 1)] += PRIOR;
    }
    let inverse = invert(&normal, width).unwrap_or_else(|| {
        let mut unknown = vec![0.0; width * width];
        unknown
            .iter_mut()
            .step_by(width + 1)
            .for_each(|own| *own = 1.0);
        unknown
    });
    let solution: Vec<f64> = (0..width)
        .map(|row| dot(&inverse[row * width..][..width], &right))
        .collect();
    let squares: f64 = rows
        .iter()
        .map(|(inputs, reading)| {
            let moved: Vec<f64> = inputs
                .iter()
                .zip(&now)
                .map(|(input, now)| input - now)
                .collect();
            let rest = reading - solution[0] - dot(&solution[1..], &moved);
            rest * rest
        })
        .sum();
    let count = rows.len() as f64;
    let mean = rows.iter().map(|(_, reading)| reading).sum::<f64>() / count.max(1.0);
    let whole: f64 = rows
        .iter()
        .map(|(_, reading)| (reading - mean).powi(2))
        .sum();
    let freedom = (count - width as f64).max(1.0);
    let noise = (squares / freedom).max(1e-6);
    let covariance = inverse.iter().map(|value| value * noise).collect();
    let explained = if whole > 0.0 {
        1.0 - squares / whole
    } else {
        0.0
    };
    let fit = Fit {
        lag,
        seen,
        estimator: Estimator::new(solution[0], solution[1..].to_vec(), covariance, noise),
        explained,
    };
    (fit, squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_and_sensitivities_are_found_from_steps_in_noise() {
        let mut random = fastrand::Rng::with_seed(11);
        for (delay, constant) in [(0, 0), (100, 350), (200, 200), (400, 0)] {
            let lag = Lag {
                delay: Duration::from_millis(delay),
                constant: Duration::from_millis(constant),
            };
            let mut inputs = Inputs::new(vec![0.0, 0.0]);
            let mut seen = Seen::new(lag, &[0.0, 0.0]);
            let mut observations = Vec::new();
            for step in 0..24_u64 {
                let from = Time::from_nanos((step + 5) * 200_000_000);
                let to = from + Duration::from_millis(200);
                match step {
                    6 => inputs.set(from, &[0.12, 0.0]),
                    14 => inputs.set(from, &[0.12, 0.12]),
                    _ => {}
                }
                seen.advance(&inputs, from, to);
                let noise = (random.f64() - 0.5) * 0.02;
                let reading = 0.2 + 2.0 * seen.mean()[0] - seen.mean()[1] + noise;
                observations.push(Observation {
                    from,
                    to,
                    readings: vec![reading],
                });
            }
            let fit = &identify(&observations, &inputs, &[0.0, 0.0])[0];
            assert!((fit.estimator.gains[0] - 2.0).abs() < 0.35, "{fit:?}");
            assert!((fit.estimator.gains[1] + 1.0).abs() < 0.35, "{fit:?}");
            assert!(
                (fit.lag.seconds() - lag.seconds()).abs() <= 0.3,
                "{lag:?}: {fit:?}"
            );
        }
    }

    /// As the latency of memory: no lag, and noise a third of what the last of three steps does.
    #[test]
    fn noise_is_not_explained_by_a_lag_and_sensitivities_that_cancel_out() {
        let mut wrong = Vec::new();
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut inputs = Inputs::new(vec![0.0; 3]);
            let mut seen = Seen::new(Lag::default(), &[0.0; 3]);
            let mut observations = Vec::new();
            for step in 0..16_u64 {
                let from = Time::from_nanos((step + 5) * 200_000_000);
                let to = from + Duration::from_millis(200);
                match step {
                    3 => inputs.set(from, &[0.12, 0.0, 0.0]),
                    6 => inputs.set(from, &[0.12, 0.12, 0.0]),
                    9 => inputs.set(from, &[0.12, 0.12, 0.12]),
                    _ => {}
                }
                seen.advance(&inputs, from, to);
                let noise: f64 = (0..4).map(|_| random.f64() - 0.5).sum::<f64>() * 0.17;
                let reading = 0.8 + 0.1 * seen.mean()[0] + 2.5 * seen.mean()[2] + noise;
                observations.push(Observation {
                    from,
                    to,
                    readings: vec![reading],
                });
            }
            let gains = &identify(&observations, &inputs, &[0.0; 3])[0]
                .estimator
                .gains;
            if gains[2] <= 0.0 || gains.iter().any(|gain| gain.abs() > 6.0) {
                wrong.push((seed, gains.clone()));
            }
        }
        assert!(wrong.len() <= 10, "{wrong:?}");
    }

    #[test]
    fn without_readings_nothing_is_known_and_nothing_breaks() {
        let inputs = Inputs::new(vec![0.0]);
        assert!(identify(&[], &inputs, &[0.0]).is_empty());
        let nothing = Observation {
            from: Time::ZERO,
            to: Time::from_nanos(1),
            readings: vec![f64::NAN],
        };
        let fits = identify(&[nothing], &inputs, &[0.0]);
        assert!(fits[0].estimator.is_sound() && fits[0].estimator.gains[0].abs() < 1e-9);
    }
}
