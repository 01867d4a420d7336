//! What a link adds for each byte, from the shortest times of lone blocks: wakes, queues and pauses only ever add to them.
//!
//! The line that lies below all samples and as near to them as it can is the edge of their lower convex hull at the mean length: the most likely one if
//! what is added to each sample is exponentially distributed (Moon, Skelly and Towsley, 1999, of clocks). It finds a rate where least squares see nothing
//! but noise.

use core::time::Duration;

use crate::units::{Time, saturating_nanos};

/// Samples from which on there is a line. Arbitrary.
const LEAST_SAMPLES: f64 = 24.0;
/// Samples after which, and time after which, a line ends: clocks drift, and routes change. Arbitrary.
const MOST_SAMPLES: f64 = 128.0;
const MOST_TIME: Duration = Duration::from_secs(4);
/// The line is trusted if what lengths make of the time is so many times as much as it may be off by. Arbitrary.
const CLEAR: f64 = 16.0;
/// .. and so many nanoseconds: what clocks and system calls may make of it. Arbitrary.
const LEAST_NANOS: f64 = 2e3;
/// Corners that are kept; hulls of 128 samples have a handful.
const MOST_CORNERS: usize = 16;

/// The line below the samples of late.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor {
    /// Of 64 to 128 samples once it has so many ..
    line: Samples,
    /// .. and its successor, of those that are not older than half of them.
    next: Samples,
    /// Bytes per second by the line, and what is added in the mean, ns: asked more often than there are samples.
    rate: Option<f64>,
    added_nanos: f64,
}

#[derive(Clone, Debug, Default)]
struct Samples {
    since: Time,
    /// The first time, ns, which all others are relative to.
    base: i128,
    count: f64,
    bytes: f64,
    bytes_squared: f64,
    nanos: f64,
    /// Corners of the lower hull from left to right: length, time in ns.
    hull: Vec<(f64, f64)>,
}

impl Floor {
    /// Takes in that a block of `bytes`, which had the link to itself, took so long to the peer, perhaps with a constant difference of two clocks.
    pub(super) fn record(&mut self, now: Time, bytes: usize, one_way: Duration) {
        if self.line.count >= MOST_SAMPLES || self.line.age(now) >= MOST_TIME {
            core::mem::swap(&mut self.line, &mut self.next);
            self.next.clear();
        }
        if self.line.count >= MOST_SAMPLES / 2.0 || self.line.age(now) >= MOST_TIME / 2 {
            self.next.record(now, bytes, one_way);
        }
        self.line.record(now, bytes, one_way);
        self.rate = self.line.nanos_per_byte().map(|nanos| 1e9 / nanos);
        self.added_nanos = self.line.line().map_or(0.0, |(_, added)| added);
    }

    /// Bytes per second, if lengths make more of the times than all else.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// What wakes, queues and pauses add in the mean; none while nothing is known.
    pub(super) fn added(&self) -> Duration {
        Duration::from_nanos(self.added_nanos as u64)
    }
}

impl Samples {
    /// Forgets all, but keeps the memory.
    fn clear(&mut self) {
        let mut hull = core::mem::take(&mut self.hull);
        hull.clear();
        *self = Self {
            hull,
            ..Self::default()
        };
    }

    /// How long ago the first of them was; nothing without any.
    fn age(&self, now: Time) -> Duration {
        let since = if self.count > 0.0 { self.since } else { now };
        now.saturating_since(since)
    }

    fn record(&mut self, now: Time, bytes: usize, one_way: Duration) {
        let nanos = i128::from(saturating_nanos(one_way));
        if self.count == 0.0 {
            self.since = now;
            self.base = nanos;
        }
        let point = (bytes as f64, (nanos - self.base) as f64);
        self.count += 1.0;
        self.bytes += point.0;
        self.bytes_squared += point.0 * point.0;
        self.nanos += point.1;
        self.add_to_hull(point);
    }

    fn add_to_hull(&mut self, point: (f64, f64)) {
        let hull = &mut self.hull;
        let at = hull.partition_point(|corner| corner.0 < point.0);
        if let Some(corner) = hull.get_mut(at).filter(|corner| corner.0 <= point.0) {
            if corner.1 <= point.1 {
                return;
            }
            *corner = point;
        } else {
            let is_above = at > 0 && at < hull.len() && !turns_left(hull[at - 1], point, hull[at]);
            if is_above || hull.len() >= MOST_CORNERS {
                return;
            }
            hull.insert(at, point);
        }
        while at + 2 < hull.len() && !turns_left(hull[at], hull[at + 1], hull[at + 2]) {
            hull.remove(at + 1);
        }
        let mut at = at;
        while at >= 2 && !turns_left(hull[at - 2], hull[at - 1], hull[at]) {
            hull.remove(at - 1);
            at -= 1;
        }
    }

    /// The slope of the line, if it is trusted.
    fn nanos_per_byte(&self) -> Option<f64> {
        if self.count < LEAST_SAMPLES {
            return None;
        }
        let bytes = self.bytes / self.count;
        let spread = (self.bytes_squared / self.count - bytes * bytes).max(0.0);
        let (slope, added) = self.line()?;
        let shown = slope * spread.sqrt();
        let is_clear = shown >= LEAST_NANOS && shown * self.count >= CLEAR * added;
        is_clear.then_some(slope)
    }

    /// The slope of the line, ns per byte, and the mean time above it, ns.
    fn line(&self) -> Option<(f64, f64)> {
        let (bytes, nanos) = (self.bytes / self.count, self.nanos / self.count);
        let right = self.hull.partition_point(|corner| corner.0 <= bytes);
        let (left, right) = (self.hull.get(right.checked_sub(1)?)?, self.hull.get(right)?);
        let slope = (right.1 - left.1) / (right.0 - left.0);
        Some((slope, nanos - (left.1 + slope * (bytes - left.0))))
    }
}

/// Whether the way from `a` over `b` to `c` bends upwards.
fn turns_left(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> bool {
    (b.0 - a.0) * (c.1 - a.1) > (b.1 - a.1) * (c.0 - a.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of so many blocks of 60 to 360 bytes, 1 ms apart, on a link of `rate` bytes per second, with exponential noise of `noise` ns in the mean.
    fn noisy(seed: u64, count: u64, rate: f64, noise: f64) -> Option<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut floor = Floor::default();
        for nth in 0..count {
            let bytes = 60 + random.usize(..300);
            let added = -(1.0 - random.f64()).ln() * noise;
            let nanos = 5e8 + bytes as f64 * 1e9 / rate + added;
            let now = Time::ZERO + Duration::from_millis(nth);
            floor.record(now, bytes, Duration::from_nanos(nanos as u64));
        }
        floor.rate()
    }

    #[test]
    fn a_rate_shows_below_noise_of_the_same_length() {
        for seed in 0..200 {
            // A byte takes 800 ns, the mean block 170 µs, the noise as much.
            let rate = noisy(seed, 150, 1.25e6, 170e3).expect("a rate");
            assert!((0.7e6..2.2e6).contains(&rate), "seed {seed}: {rate}");
        }
    }

    #[test]
    fn what_is_not_above_the_noise_is_no_rate() {
        let claims: Vec<_> = (0..200)
            .filter_map(|seed| noisy(seed, 150, 12.5e9, 100e3))
            .collect();
        assert!(claims.len() <= 10, "{claims:?}");
        for claim in claims {
            assert!(claim > 10e6, "{claim}");
        }
    }

    #[test]
    fn a_line_without_noise_is_found_exactly() {
        let rate = noisy(1, 24, 1e6, 0.0).expect("a rate");
        assert!((rate - 1e6).abs() < 1e3, "{rate}");
    }

    #[test]
    fn another_link_is_another_line() {
        let mut floor = Floor::default();
        for (nth, nanos_per_byte) in (0..256).zip([800.0, 80.0].into_iter().flat_map(|n| [n; 128]))
        {
            let bytes = 100 + 37 * nth % 300;
            let nanos = 1e6 + bytes as f64 * nanos_per_byte;
            floor.record(Time::ZERO, bytes, Duration::from_nanos(nanos as u64));
        }
        let rate = floor.rate().expect("a rate");
        assert!((rate - 12.5e6).abs() < 1e5, "{rate}");
    }

    #[test]
    fn after_a_pause_the_line_is_another() {
        let mut floor = Floor::default();
        for (begin, nanos_per_byte) in [(0, 800), (1000, 80)] {
            for nth in 0..30 {
                let bytes = 100 + 37 * nth % 300;
                let nanos = 1_000_000 + bytes as u64 * nanos_per_byte;
                let now = Time::ZERO + Duration::from_secs(begin);
                floor.record(now, bytes, Duration::from_nanos(nanos));
            }
            let rate = floor.rate().expect("a rate");
            let truth = 1e9 / nanos_per_byte as f64;
            assert!((rate / truth - 1.0).abs() < 0.01, "{rate}");
        }
    }

    #[test]
    fn blocks_of_one_length_and_absurd_times_are_no_rate() {
        let mut floor = Floor::default();
        for nth in 0..100 {
            floor.record(Time::ZERO, 100, Duration::from_nanos(nth));
        }
        assert_eq!(floor.rate(), None);
        for nth in 0..200_usize {
            let time = if nth % 2 == 0 {
                Duration::MAX
            } else {
                Duration::ZERO
            };
            floor.record(Time::from_nanos(u64::MAX), nth * (usize::MAX / 200), time);
            assert!(
                floor
                    .rate()
                    .is_none_or(|rate| rate.is_finite() && rate > 0.0)
            );
        }
    }
}
