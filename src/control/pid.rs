//! The processor guard: a PID loop from the measured load to a budget of codec time (thesis 7.2.6
//! and 7.2.7).
//!
//! Over one period the processors are a plant of unit gain and dead time of one period: what the
//! codecs are granted now shows in the next reading, so that `load = background + granted share`.
//! For such a plant the integral does the work; the proportional and derivative parts are small
//! dampers. All gains are shares of the processors for each unit of load and *period*, hence the
//! loop behaves the same for any number of processors and any period.
//!
//! The controller is in velocity form: it adds to its output instead of recomputing it. Clamping
//! the output then is the anti-windup, and since only the integral sees the setpoint, a new setpoint
//! does not make the output jump.

use core::time::Duration;

use thiserror::Error;

use super::budget::BudgetRate;
use super::load::Processors;
use crate::units::{CpuLoad, Time};

/// How the guard behaves. The defaults suit a load measured every 100 ms, each over the period
/// before ([`super::LoadSource::Node`], [`super::LoadSource::Cgroup`]).
///
/// ```
/// use tautline::control::{CpuGuardConfig, Processors, CpuGuard};
/// use tautline::units::CpuLoad;
///
/// let config = CpuGuardConfig::default().setpoint(CpuLoad::new(0.6));
/// let guard = CpuGuard::new(config, Processors::ONE)?;
/// # Ok::<(), tautline::control::CpuGuardConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CpuGuardConfig {
    setpoint: CpuLoad,
    period: Duration,
    proportional: f64,
    integral: f64,
    derivative: f64,
}

impl Default for CpuGuardConfig {
    fn default() -> Self {
        Self {
            // Arbitrary: a fifth is left to what comes between two measurements.
            setpoint: CpuLoad::new(0.8),
            // Ten of the ticks in which /proc/stat counts.
            period: Duration::from_millis(100),
            // Poles of z² + (P + I - 1) z - P at 0.61 and -0.16: 1 % after 10 periods, no overshoot.
            proportional: 0.1,
            integral: 0.45,
            // Arbitrary; takes about 3 % off the budget for a rise of the load by half.
            derivative: 0.1,
        }
    }
}

impl CpuGuardConfig {
    /// The load to aim for, as a share of the processors the process may use. Default 0.80.
    ///
    /// Higher leaves less room to other services when their load rises: they wait until the guard
    /// has seen it. At 1.0 there is no guard. For the source `Pressure` choose 0.05 to 0.2.
    #[must_use]
    pub fn setpoint(mut self, setpoint: CpuLoad) -> Self {
        self.setpoint = setpoint;
        self
    }

    /// The time between two measurements, 1 ms to 60 s. Default 100 ms.
    ///
    /// The guard needs about two periods to react. Shorter ones cost more reads (1 to 7 µs each) and
    /// make the load coarser: `/proc/stat` counts in ticks of 10 ms.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Share of the processors taken from the budget for each unit by which the load rises, 0 to 1.
    /// Default 0.1. More answers sooner and passes on more of the measurement's noise.
    #[must_use]
    pub fn proportional(mut self, gain: f64) -> Self {
        self.proportional = gain;
        self
    }

    /// Share of the processors added to the budget in each period for each unit by which the load is
    /// under the setpoint, above 0 to 1. Default 0.45. More settles sooner; above 0.6 it overshoots when
    /// the measurement lags by half a period.
    #[must_use]
    pub fn integral(mut self, gain: f64) -> Self {
        self.integral = gain;
        self
    }

    /// Share of the processors taken from the budget for each unit a period by which the load rises,
    /// after a low-pass of one period, 0 to 1. Default 0.1. More looks further ahead and passes on
    /// more noise.
    #[must_use]
    pub fn derivative(mut self, gain: f64) -> Self {
        self.derivative = gain;
        self
    }

    fn validate(&self) -> Result<(), CpuGuardConfigError> {
        if !(MIN_PERIOD..=MAX_PERIOD).contains(&self.period) {
            return Err(CpuGuardConfigError::PeriodOutOfRange {
                given: self.period,
                min: MIN_PERIOD,
                max: MAX_PERIOD,
            });
        }
        for (gain, given) in [
            ("proportional", self.proportional),
            ("integral", self.integral),
            ("derivative", self.derivative),
        ] {
            let dead = gain == "integral" && given == 0.0;
            if dead || !(0.0..=1.0).contains(&given) {
                return Err(CpuGuardConfigError::GainOutOfRange { gain, given });
            }
        }
        Ok(())
    }
}

/// Arbitrary: a tenth of a scheduler tick, under which no source has anything to say.
const MIN_PERIOD: Duration = Duration::from_millis(1);
/// Arbitrary: the thesis's one-minute average.
const MAX_PERIOD: Duration = Duration::from_secs(60);

/// A configuration that makes no controller.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CpuGuardConfigError {
    /// The period is too short or too long.
    #[error("period {given:?} is not between {min:?} and {max:?}")]
    PeriodOutOfRange {
        /// What was asked for.
        given: Duration,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A gain is not a number between 0 and 1, or the integral gain is 0.
    #[error("{gain} gain {given} is not between 0 and 1")]
    GainOutOfRange {
        /// Which.
        gain: &'static str,
        /// What was asked for.
        given: f64,
    },
}

/// The controller of the codec budget.
#[derive(Clone, Debug)]
pub struct CpuGuard {
    config: CpuGuardConfig,
    processors: Processors,
    /// The output as a share of the processors, 0..=1.
    share: f64,
    last: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    load: f64,
    /// The low-passed rise of the load, for each period.
    slope: f64,
}

impl CpuGuard {
    /// The most that one sample counts, in periods. After a gap the loop has one fresh measurement,
    /// not several; with an integral gain of 0.45, twice that is still free of overshoot.
    const MAX_STEP: f64 = 2.0;

    /// The share of the budget that a period of full overload leaves. A load cannot be measured
    /// above 1, so at saturation the error says too little about the excess, and the loop falls back
    /// on halving, as congestion control does for the same reason. Arbitrary; after 3 periods
    /// under an eighth is left.
    const OVERLOAD_CUT: f64 = 0.5;

    /// The least room between setpoint and saturation over which the cut sets in. Arbitrary; the cut
    /// divides by it.
    const MIN_HEADROOM: f64 = 0.02;

    /// A guard for a node or container of `processors`, with a budget of zero (thesis 7.2.7,
    /// "initial values").
    ///
    /// # Errors
    ///
    /// A [`CpuGuardConfigError`] if the period or a gain is out of range.
    pub fn new(
        config: CpuGuardConfig,
        processors: Processors,
    ) -> Result<Self, CpuGuardConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            processors,
            share: 0.0,
            last: None,
        })
    }

    /// The budget, for the whole node or container: 0 to `processors` × 10⁹ ns a second.
    pub fn budget(&self) -> BudgetRate {
        BudgetRate::from_share(self.share, self.processors)
    }

    /// The load aimed for.
    pub const fn setpoint(&self) -> CpuLoad {
        self.config.setpoint
    }

    /// The time between two measurements.
    pub const fn period(&self) -> Duration {
        self.config.period
    }

    /// Aims for another load from the next measurement on; the budget stays as it is until then.
    pub fn set_setpoint(&mut self, setpoint: CpuLoad) {
        self.config.setpoint = setpoint;
    }

    /// The processors to be used have changed; the budget keeps its share of them.
    pub fn set_processors(&mut self, processors: Processors) {
        self.processors = processors;
    }

    /// Takes a measured load and gives the new budget. The first measurement changes nothing.
    ///
    /// `spent` is the codec time used since the measurement before, if known. With it, a budget that
    /// nobody uses does not grow beyond what would bring the load to the setpoint if it were used;
    /// without it, a sudden demand may overload the node for about two periods.
    ///
    /// A `now` that stands still is ignored; one that goes back or jumps ahead counts at most two periods.
    pub fn record(&mut self, now: Time, load: CpuLoad, spent: Option<Duration>) -> BudgetRate {
        let load = load.get();
        let Some(last) = self.last else {
            self.last = Some(Sample {
                at: now,
                load,
                slope: 0.0,
            });
            return self.budget();
        };
        let elapsed = now.saturating_since(last.at);
        if elapsed.is_zero() {
            if now < last.at {
                self.last = Some(Sample { at: now, ..last });
            }
            return self.budget();
        }
        let periods = elapsed.as_secs_f64() / self.config.period.as_secs_f64();
        let step = periods.min(Self::MAX_STEP);

        let setpoint = self.config.setpoint.get();
        let error = setpoint - load;
        let rise = load - last.load;
        // Backward Euler of a first-order low-pass with a time constant of one period; this form
        // does not divide by a short step.
        let slope = (last.slope + rise) / (1.0 + step);
        self.last = Some(Sample {
            at: now,
            load,
            slope,
        });

        let change = self.config.integral * error * step
            - self.config.proportional * rise
            - self.config.derivative * (slope - last.slope);
        let share = (self.share + change) * Self::overload_factor(setpoint, load, step);
        let ceiling = match spent {
            Some(spent) if error > 0.0 => {
                let capacity = elapsed.as_secs_f64() * self.processors.get();
                spent.as_secs_f64() / capacity + error
            }
            _ => 1.0,
        };
        self.share = share.min(ceiling).clamp(0.0, 1.0);
        self.budget()
    }

    /// What a load above the setpoint leaves of the budget, besides the linear terms. Quadratic, so
    /// that it doesn't add to the gain of the loop at the setpoint, where it would amplify noise.
    fn overload_factor(setpoint: f64, load: f64, step: f64) -> f64 {
        let headroom = (1.0 - setpoint).max(Self::MIN_HEADROOM);
        let excess = ((load - setpoint) / headroom).clamp(0.0, 1.0);
        (1.0 - (1.0 - Self::OVERLOAD_CUT) * excess * excess).powf(step)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    /// Processors that show in a reading what ran in the period before; `lag` is the share of the
    /// reading that stems from the period before that.
    struct Plant {
        guard: CpuGuard,
        processors: f64,
        now: Time,
        background: f64,
        demand: f64,
        lag: f64,
        reports_spent: bool,
        true_load: f64,
        load: f64,
    }

    impl Plant {
        fn new(processors: f64) -> Self {
            let count = Processors::new(processors).unwrap();
            Self {
                guard: CpuGuard::new(CpuGuardConfig::default(), count).unwrap(),
                processors,
                now: Time::ZERO,
                background: 0.2,
                demand: f64::INFINITY,
                lag: 0.0,
                reports_spent: false,
                true_load: 0.2,
                load: 0.2,
            }
        }

        fn share(&self) -> f64 {
            self.guard.budget().as_nanos_per_sec() as f64 / (self.processors * 1e9)
        }

        /// One period; `noise` is added to the reading.
        fn run(&mut self, noise: f64) -> f64 {
            let used = self.share().min(self.demand);
            let before = self.true_load;
            self.true_load = (self.background + used).min(1.0);
            self.load = (1.0 - self.lag) * self.true_load + self.lag * before;
            self.now = self.now + PERIOD;
            let spent = self
                .reports_spent
                .then(|| PERIOD.mul_f64(used * self.processors));
            self.guard
                .record(self.now, CpuLoad::new(self.load + noise), spent);
            self.true_load
        }

        fn settle(&mut self) {
            for _ in 0..50 {
                self.run(0.0);
            }
        }
    }

    #[test]
    fn the_first_round_is_uncompressed() {
        let mut plant = Plant::new(4.0);
        assert_eq!(plant.guard.budget(), BudgetRate::ZERO);
        plant.run(0.0);
        assert_eq!(plant.guard.budget(), BudgetRate::ZERO);
        plant.run(0.0);
        assert!(plant.guard.budget() > BudgetRate::ZERO);
    }

    #[test]
    fn settles_in_ten_periods_without_overshoot_on_1_to_64_processors() {
        for processors in [1.0, 1.5, 2.0, 8.0, 64.0] {
            for lag in [0.0, 0.25, 0.5] {
                for background in [0.0, 0.2, 0.6] {
                    for reports_spent in [false, true] {
                        let mut plant = Plant::new(processors);
                        plant.lag = lag;
                        plant.background = background;
                        plant.reports_spent = reports_spent;
                        // The first reading only starts the loop.
                        plant.run(0.0);
                        let step = 0.8 - background;
                        for period in 0..40 {
                            let load = plant.run(0.0);
                            let context = (processors, lag, background, reports_spent, period);
                            assert!(load <= 0.8 + 0.1 * step, "{load} {context:?}");
                            if period > 10 {
                                assert!((load - 0.8).abs() <= 0.05 * step, "{load} {context:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_step_to_overload_cuts_the_budget_within_three_periods_and_it_recovers() {
        for processors in [1.0, 64.0] {
            let mut plant = Plant::new(processors);
            plant.settle();
            let before = plant.share();
            assert!((before - 0.6).abs() < 0.01);
            plant.background = 0.95;
            for _ in 0..3 {
                plant.run(0.0);
            }
            let cut = plant.share();
            assert!(cut < before / 6.0, "{cut}");
            for _ in 0..10 {
                plant.run(0.0);
            }
            assert!(plant.share() < 1e-6);

            plant.background = 0.2;
            let mut peak = 0.0_f64;
            for _ in 0..12 {
                peak = peak.max(plant.run(0.0));
            }
            assert!((plant.true_load - 0.8).abs() < 0.03, "{}", plant.true_load);
            assert!(peak < 0.86, "{peak}");
        }
    }

    #[test]
    fn noise_is_not_amplified() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut plant = Plant::new(2.0);
        plant.settle();
        let (mut sum, mut squares) = (0.0, 0.0);
        let rounds = 2000;
        for _ in 0..rounds {
            // Uniform within a tick of two processors: a standard deviation of 2.9 %.
            let load = plant.run((random.f64() - 0.5) * 0.1);
            sum += load;
            squares += load * load;
        }
        let mean = sum / f64::from(rounds);
        let deviation = (squares / f64::from(rounds) - mean * mean).sqrt();
        assert!((mean - 0.8).abs() < 0.01, "{mean}");
        assert!(deviation < 0.029, "{deviation}");
    }

    #[test]
    fn a_setpoint_change_is_bumpless() {
        let mut plant = Plant::new(2.0);
        plant.settle();
        let before = plant.guard.budget();
        plant.guard.set_setpoint(CpuLoad::new(0.5));
        assert_eq!(plant.guard.budget(), before);
        let mut last = plant.share();
        for _ in 0..15 {
            plant.run(0.0);
            // No more than the integral and the overload cut take in one period.
            assert!(last - plant.share() < 0.35);
            last = plant.share();
        }
        assert!((plant.true_load - 0.5).abs() < 0.02);
    }

    #[test]
    fn an_unused_budget_does_not_wind_up() {
        let mut plant = Plant::new(2.0);
        plant.demand = 0.0;
        plant.reports_spent = true;
        plant.settle();
        assert!((plant.share() - 0.6).abs() < 0.01);
        plant.demand = f64::INFINITY;
        assert!(plant.run(0.0) < 0.81);

        // Without knowing what was spent, the clamp at all processors bounds it.
        let mut plant = Plant::new(2.0);
        plant.demand = 0.0;
        plant.settle();
        assert!((plant.share() - 1.0).abs() < 1e-9);
        plant.demand = f64::INFINITY;
        for _ in 0..2 {
            plant.run(0.0);
        }
        assert!(plant.run(0.0) < 0.95);
    }

    #[test]
    fn irregular_intervals_settle_too() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut plant = Plant::new(4.0);
        for _ in 0..200 {
            plant.now = plant.now + PERIOD.mul_f64(random.f64() * 1.5);
            plant.run(0.0);
        }
        assert!((plant.true_load - 0.8).abs() < 0.02);
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_is_harmless() {
        let mut plant = Plant::new(1.0);
        plant.settle();
        let before = plant.guard.budget();
        plant.guard.record(plant.now, CpuLoad::FULL, None);
        assert_eq!(plant.guard.budget(), before);
        plant.guard.record(Time::ZERO, CpuLoad::FULL, None);
        assert_eq!(plant.guard.budget(), before);
        let later = Time::from_nanos(u64::MAX);
        let left = plant.guard.record(later, CpuLoad::new(0.85), None);
        assert!(left > BudgetRate::from_share(0.4, Processors::ONE));
    }

    #[test]
    fn configurations_that_make_no_sense_are_refused() {
        let refused = |config| CpuGuard::new(config, Processors::ONE).is_err();
        let config = CpuGuardConfig::default;
        assert!(refused(config().period(Duration::ZERO)));
        assert!(refused(config().period(Duration::MAX)));
        assert!(refused(config().integral(0.0)));
        assert!(refused(config().integral(f64::NAN)));
        assert!(refused(config().proportional(-0.1)));
        assert!(refused(config().derivative(f64::INFINITY)));
        assert!(!refused(config().setpoint(CpuLoad::FULL)));
    }

    proptest! {
        #[test]
        fn the_budget_is_always_within_the_processors(
            processors in 0.001_f64..1000.0,
            setpoint in 0.0_f64..=1.0,
            steps in proptest::collection::vec(
                (any::<u64>(), any::<f64>(), any::<Option<Duration>>()), 1..40),
        ) {
            let config = CpuGuardConfig::default().setpoint(CpuLoad::new(setpoint));
            let processors = Processors::new(processors).unwrap();
            let mut guard = CpuGuard::new(config, processors).unwrap();
            for (nanos, load, spent) in steps {
                guard.record(Time::from_nanos(nanos), CpuLoad::new(load), spent);
                prop_assert!((0.0..=1.0).contains(&guard.share));
                prop_assert!(guard.budget().as_nanos_per_sec() as f64 <= processors.get() * 1e9);
            }
        }
    }
}
