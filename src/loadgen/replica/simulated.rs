//! Plants that are nowhere: nonlinear, coupled, slow, late, noisy, and never quite the same.

use core::time::Duration;

use super::plant::{MetricName, Plant};
use crate::loadgen::Intensity;
use crate::units::Time;

/// The grain of the simulation.
const GRAIN: Duration = Duration::from_millis(10);

type Response = Box<dyn Fn(&[f64], &[f64]) -> Vec<f64>>;

/// What a plant is like.
pub(super) struct Simulated {
    metrics: Vec<MetricName>,
    actuators: Vec<String>,
    /// From intensities and backgrounds to metrics, when all has settled.
    pub(super) response: Response,
    pub(super) backgrounds: Vec<f64>,
    /// Time constant and delay of each metric.
    constants: Vec<f64>,
    delays: Vec<usize>,
    /// Noise of the mean over 200 ms, as a share of the metric.
    noise: f64,
    /// How much backgrounds wander in a second, as a share of themselves.
    wander: f64,
    /// Noise of readings alone that stays for a while: of each metric its standard deviation as a share, how long, and where it is.
    chatter: Vec<(f64, f64, f64)>,
    set: Vec<f64>,
    /// Settled values of the last grains, for the delays.
    past: Vec<Vec<f64>>,
    state: Vec<f64>,
    sums: Vec<f64>,
    grains: f64,
    at: Time,
    random: fastrand::Rng,
    /// What was measured last, without the noise.
    pub(super) truth: Vec<f64>,
    pub(super) raises: Vec<(usize, usize)>,
    /// Says something else instead.
    pub(super) lie: Option<Box<dyn FnMut(f64) -> f64>>,
}

impl Simulated {
    fn new(
        seed: u64,
        metrics: usize,
        actuators: usize,
        backgrounds: Vec<f64>,
        response: Response,
    ) -> Self {
        let mut plant = Self {
            metrics: (0..metrics)
                .map(|metric| format!("metric-{metric}"))
                .collect(),
            actuators: (0..actuators)
                .map(|actuator| format!("actuator-{actuator}"))
                .collect(),
            response,
            backgrounds,
            constants: vec![0.0; metrics],
            delays: vec![0; metrics],
            noise: 0.0,
            wander: 0.0,
            chatter: vec![(0.0, 1.0, 0.0); metrics],
            set: vec![0.0; actuators],
            past: Vec::new(),
            state: Vec::new(),
            sums: vec![0.0; metrics],
            grains: 0.0,
            at: Time::ZERO,
            random: fastrand::Rng::with_seed(seed),
            truth: vec![0.0; metrics],
            raises: Vec::new(),
            lie: None,
        };
        plant.state = plant.settled(&plant.set);
        plant
    }

    /// What all metrics are at these intensities, when they have settled.
    pub(super) fn settled(&self, intensities: &[f64]) -> Vec<f64> {
        (self.response)(intensities, &self.backgrounds)
    }

    pub(super) fn noise(mut self, noise: f64) -> Self {
        self.noise = noise;
        self
    }

    pub(super) fn wander(mut self, wander: f64) -> Self {
        self.wander = wander;
        self
    }

    /// Readings of this metric go up and down by this share, and stay so for about so many seconds.
    pub(super) fn chatter(mut self, metric: usize, share: f64, seconds: f64) -> Self {
        self.chatter[metric] = (share, seconds, 0.0);
        self
    }

    /// Time constants and delays up to these, seconds.
    pub(super) fn slow(mut self, constant: f64, delay: f64) -> Self {
        for metric in 0..self.metrics.len() {
            self.constants[metric] = constant * self.random.f64();
            self.delays[metric] = (delay * self.random.f64() * 100.0) as usize;
        }
        self
    }

    fn go_on(&mut self) {
        if self.wander > 0.0 {
            for background in &mut self.backgrounds {
                // The variance of so many grains is that of a second.
                let step = self.wander * GRAIN.as_secs_f64().sqrt() * gauss(&mut self.random);
                *background = (*background * (1.0 + step)).max(0.0);
            }
        }
        let settled = self.settled(&self.set);
        self.past.push(settled);
        if self.past.len() > 100 {
            self.past.remove(0);
        }
        for metric in 0..self.metrics.len() {
            let newest = self.past.len() - 1;
            let input = self.past[newest.saturating_sub(self.delays[metric])][metric];
            let left = match self.constants[metric] {
                constant if constant > 0.0 => (-GRAIN.as_secs_f64() / constant).exp(),
                _ => 0.0,
            };
            self.state[metric] = input + (self.state[metric] - input) * left;
            self.sums[metric] += self.state[metric];
        }
        self.grains += 1.0;
    }
}

impl Plant for Simulated {
    fn metrics(&self) -> &[MetricName] {
        &self.metrics
    }

    fn actuators(&self) -> &[String] {
        &self.actuators
    }

    fn raises(&self) -> Vec<(usize, usize)> {
        self.raises.clone()
    }

    fn set(&mut self, actuator: usize, intensity: Intensity) {
        assert!(intensity.share().is_finite());
        self.set[actuator] = intensity.share();
    }

    fn measure(&mut self, now: Time, readings: &mut [f64]) {
        let seconds = now.saturating_since(self.at).as_secs_f64();
        // A clock that jumped has let no more time pass than that.
        for _ in 0..1000 {
            if self.at + GRAIN > now {
                break;
            }
            self.at = self.at + GRAIN;
            self.go_on();
        }
        self.at = now;
        if self.grains > 0.0 {
            for (truth, sum) in self.truth.iter_mut().zip(&mut self.sums) {
                *truth = *sum / self.grains;
                *sum = 0.0;
            }
            self.grains = 0.0;
        }
        let noise = self.noise * (0.2 / seconds.max(0.01)).sqrt();
        let truths = self.truth.iter().zip(&mut self.chatter);
        for (reading, (truth, (share, stays, state))) in readings.iter_mut().zip(truths) {
            *reading = truth * (1.0 + noise * gauss(&mut self.random));
            if *share > 0.0 {
                let kept = (-seconds / *stays).exp();
                let new = *share * (1.0 - kept * kept).sqrt() * gauss(&mut self.random);
                *state = *state * kept + new;
                *reading *= (1.0 + *state).max(0.0);
            }
            if let Some(lie) = &mut self.lie {
                *reading = lie(*reading);
            }
        }
    }
}

pub(super) fn gauss(random: &mut fastrand::Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| random.f64()).sum();
    sum - 6.0
}

/// A machine: load, page faults and context switches a second, and nanoseconds of an access, moved by leeches that share one processor.
pub(super) fn machine(seed: u64) -> Simulated {
    let response = |leech: &[f64], background: &[f64]| {
        let wanted: f64 = leech.iter().sum::<f64>() + background[0];
        // The nearer to all of it, the less of what is wanted is had.
        let load = 1.0 - (-1.35 * wanted).exp();
        let share = (load / wanted.max(1e-9)).min(1.0);
        let [cpu, faults, switches, memory] = [0, 1, 2, 3].map(|index: usize| leech[index] * share);
        vec![
            load,
            1.8e5 * faults.powf(0.9) * (1.0 - 0.3 * memory) + 3e3 * cpu + background[1],
            7e4 * switches * (1.0 - 0.2 * memory) + 900.0 * load + background[2],
            background[3] + 40.0 * (1.0 - (-2.5 * memory).exp()) + 9.0 * faults + 5.0 * load,
        ]
    };
    Simulated::new(
        seed,
        4,
        4,
        vec![0.05, 400.0, 300.0, 18.0],
        Box::new(response),
    )
}

/// Anything: each metric answers to each actuator, to one the most, and less the further it goes.
pub(super) fn coupled(seed: u64, metrics: usize, actuators: usize) -> Simulated {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let scales: Vec<f64> = (0..metrics)
        .map(|_| 10.0_f64.powf(6.0 * random.f64() - 2.0))
        .collect();
    let mut gains = vec![vec![0.0; actuators]; metrics];
    for (metric, gains) in gains.iter_mut().enumerate() {
        for (actuator, gain) in gains.iter_mut().enumerate() {
            *gain = if metric == actuator % metrics {
                0.7 + 0.6 * random.f64()
            } else {
                (random.f64() - 0.4) * 0.9 / actuators.max(metrics) as f64
            };
        }
    }
    let bends: Vec<f64> = (0..actuators).map(|_| 0.5 + 2.0 * random.f64()).collect();
    let backgrounds = scales
        .iter()
        .map(|scale| scale * (0.05 + 0.2 * random.f64()))
        .collect();
    let response = move |leech: &[f64], background: &[f64]| {
        let bent: Vec<f64> = leech
            .iter()
            .zip(&bends)
            .map(|(x, bend)| (1.0 - (-bend * x).exp()) / (1.0 - (-bend).exp()))
            .collect();
        let metrics = gains.iter().zip(&scales).zip(background);
        metrics
            .map(|((gains, scale), background)| {
                let sum: f64 = gains.iter().zip(&bent).map(|(gain, x)| gain * x).sum();
                (background + scale * sum).max(0.0)
            })
            .collect()
    };
    Simulated::new(seed, metrics, actuators, backgrounds, Box::new(response))
}
