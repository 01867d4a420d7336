//! What is controlled: a machine with leeches, or one that is simulated.

use crate::loadgen::Intensity;
use crate::units::Time;

/// What a metric is called: as the monitor calls it.
pub type MetricName = String;

/// Metrics that can be read, and actuators that move them.
pub trait Plant {
    /// The metrics' names.
    fn metrics(&self) -> &[MetricName];

    /// The actuators' names.
    fn actuators(&self) -> &[String];

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
