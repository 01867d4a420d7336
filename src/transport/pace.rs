//! How fast codecs really are here and with this content, against what was known of them beforehand.

use core::time::Duration;

use crate::units::saturating_nanos;

/// Weight of a job that took longer than thought, and of one that took less: what runs on an executor's
/// thread must not become too long. Arbitrary.
const SLOWER_GAIN: f64 = 0.5;
const FASTER_GAIN: f64 = 0.2;
/// The least share of the prior that a job is thought to take: the quickest content measured takes about a
/// quarter.
const LEAST: f64 = 0.1;

/// The share of their prior times ([`prior_encode_nanos`](crate::codecs::prior_encode_nanos)) that jobs take.
/// Priors are those of the slowest content, so most jobs take less.
#[derive(Debug)]
pub(super) struct Pace(f64);

impl Default for Pace {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Pace {
    /// What a job will likely take, ns.
    pub(super) fn likely_nanos(&self, prior_nanos: u64) -> u64 {
        (prior_nanos as f64 * self.0) as u64
    }

    /// Takes in what a job took.
    pub(super) fn record(&mut self, prior_nanos: u64, elapsed: Duration) {
        if prior_nanos == 0 {
            return;
        }
        let share = saturating_nanos(elapsed) as f64 / prior_nanos as f64;
        let share = share.clamp(LEAST, 1.0);
        let gain = if share > self.0 {
            SLOWER_GAIN
        } else {
            FASTER_GAIN
        };
        self.0 += gain * (share - self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_jobs_count_slowly_and_slow_ones_at_once() {
        let mut pace = Pace::default();
        assert_eq!(pace.likely_nanos(400_000), 400_000);
        for _ in 0..20 {
            pace.record(400_000, Duration::from_micros(80));
        }
        let quick = pace.likely_nanos(400_000);
        assert!(quick < 90_000, "{quick}");
        pace.record(400_000, Duration::from_secs(1));
        assert!(pace.likely_nanos(400_000) > 200_000);
        pace.record(0, Duration::from_secs(1));
    }
}
