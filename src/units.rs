//! Numbers with a unit. Every quantity that crosses a module boundary has a type of its own.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since an origin that the driver chose (a clock's start, or zero in
/// a simulation). Times of one node compare with each other; times of two nodes do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The time from `earlier` to `self`, or zero if the clock went backwards.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(rhs)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(rhs)))
    }
}

/// The earlier one, of those that there are.
pub(crate) fn earliest(one: Option<Time>, another: Option<Time>) -> Option<Time> {
    match (one, another) {
        (Some(one), Some(another)) => Some(one.min(another)),
        (one, another) => one.or(another),
    }
}

/// `duration` in nanoseconds, at most `u64::MAX` (584 years).
pub(crate) fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A rate in bytes per second; always finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BytesPerSec(f64);

impl BytesPerSec {
    /// A rate, or `None` unless it is finite and above zero.
    pub fn new(bytes_per_sec: f64) -> Option<Self> {
        (bytes_per_sec.is_finite() && bytes_per_sec > 0.0).then_some(Self(bytes_per_sec))
    }

    /// The rate at which `bytes` pass in `time`, or `None` if either is zero.
    pub fn from_transfer(bytes: u64, time: Duration) -> Option<Self> {
        Self::new(bytes as f64 / time.as_secs_f64())
    }

    /// Bytes per second.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// How long `bytes` take at this rate, in nanoseconds.
    pub fn nanos_for(self, bytes: f64) -> f64 {
        bytes / self.0 * 1e9
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 * 8.0;
        if bits >= 1e9 {
            write!(f, "{:.2} Gbit/s", bits / 1e9)
        } else if bits >= 1e6 {
            write!(f, "{:.2} Mbit/s", bits / 1e6)
        } else {
            write!(f, "{:.1} kbit/s", bits / 1e3)
        }
    }
}

/// The busy share of a set of processors, 0 (idle) to 1 (all busy).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct CpuLoad(f32);

impl CpuLoad {
    /// No processor busy.
    pub const IDLE: Self = Self(0.0);
    /// Every processor busy.
    pub const FULL: Self = Self(1.0);

    /// A load, clamped to 0..=1; what is not a number counts as full.
    pub fn new(load: f64) -> Self {
        if load.is_nan() {
            Self::FULL
        } else {
            Self(load.clamp(0.0, 1.0) as f32)
        }
    }

    /// The load as a share, 0..=1.
    pub fn get(self) -> f64 {
        f64::from(self.0)
    }
}

impl fmt::Display for CpuLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}%", self.get() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_at_both_ends() {
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(
            Time::from_nanos(u64::MAX) + Duration::MAX,
            Time::from_nanos(u64::MAX)
        );
        assert_eq!(
            Time::ZERO.saturating_since(Time::from_nanos(5)),
            Duration::ZERO
        );
    }

    #[test]
    fn rates_and_loads_are_never_absurd() {
        assert_eq!(BytesPerSec::new(f64::NAN), None);
        assert_eq!(BytesPerSec::from_transfer(10, Duration::ZERO), None);
        assert_eq!(CpuLoad::new(f64::NAN), CpuLoad::FULL);
        assert_eq!(CpuLoad::new(-3.0), CpuLoad::IDLE);
    }
}
