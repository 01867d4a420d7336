//! What is controlled: a machine with leeches, or one that is simulated.

use crate::loadgen::Intensity;
use crate::units::Time;

/// What a metric is called: as the monitor calls it.
pub type MetricName = String;

/// A metric that one actuator makes what it is told, whatever else goes on: a leech of [`Resource::Load`](crate::loadgen::Resource::Load) and the load of its processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direct {
    /// Index of the metric.
    pub metric: usize,
    /// Index of the actuator.
    pub actuator: usize,
    /// The intensity for a metric of 1: they are proportional.
    pub intensity: f64,
}

/// Metrics that can be read, and actuators that move them.
pub trait Plant {
    /// The metrics' names.
    fn metrics(&self) -> &[MetricName];

    /// The actuators' names.
    fn actuators(&self) -> &[String];

    /// Metrics that need no controller. Others are controlled together. Asked once, when a replay begins.
    fn direct(&self) -> Vec<Direct> {
        Vec::new()
    }

    /// Pairs of a metric and an actuator that only ever adds to it: indices. What steps and readings say against that is noise. Asked once, when a replay begins.
    fn raises(&self) -> Vec<(usize, usize)> {
        Vec::new()
    }

    /// The actuator of this index takes as much from now on.
    fn set(&mut self, actuator: usize, intensity: Intensity);

    /// What each metric was in the interval that ends `now`, and that the last call began; not a number where that is not known.
    fn measure(&mut self, now: Time, readings: &mut [f64]);
}

/// Whether it can be one, of a metric of the order of `scale`: metrics are rates, shares and times.
pub(super) fn is_reading(reading: f64, scale: f64) -> bool {
    /// So many times the scale are none.
    const ABSURD: f64 = 1e6;
    reading >= 0.0 && reading <= ABSURD * scale.max(f64::MIN_POSITIVE)
}
