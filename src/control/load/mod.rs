//! Processor load: from the kernel's texts to a [`CpuLoad`] between two readings.
//!
//! The parsers ([`parse_stat`] and its siblings) turn one text into typed counters; [`LoadMeter`]
//! turns successive [`Reading`]s into loads. Sources and their meaning: [`LoadSource`].

mod meter;
mod parse;

use core::fmt;

use thiserror::Error;

pub use meter::{LoadMeter, Reading};
pub use parse::{
    CgroupThrottling, CgroupUsage, CpuQuota, CpuSet, CpuTimes, LoadAverage, parse_cfs_quota,
    parse_cgroup_cpu_stat, parse_cgroup_v1_cpu_stat, parse_cgroup_v1_usage, parse_cpu_max,
    parse_cpus_allowed, parse_loadavg, parse_pressure, parse_stat, parse_stat_of,
    parse_stat_processors,
};

#[cfg(doc)]
use crate::units::CpuLoad;

/// Where the load comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LoadSource {
    /// The busy share of the processors the process may use, whoever uses them (`/proc/stat`).
    /// The kernel counts in ticks of 10 ms: over a period of 100 ms the resolution is 10 % of one
    /// processor.
    Node,
    /// The processor time of the process's cgroup against its quota (or the processors, without
    /// one), with the time it was throttled. Microseconds in v2, nanoseconds in v1.
    Cgroup,
    /// The share of time in which some task waited for a processor (`/proc/pressure/cpu`, "some").
    /// This is a measure of waiting, not of use: it is near 0 until the node is full, so a setpoint
    /// of 0.05 to 0.2 belongs to it.
    Pressure,
    /// Tasks in the run queue for each processor, at this instant (thesis definition 24).
    RunQueue,
    /// The one-minute average of the run queue for each processor, as the thesis used (7.3.3). It
    /// also counts tasks that wait for a disk, and it lags by a minute (thesis figure 7.7).
    LoadAverage,
    /// What the application says.
    Supplied,
}

impl LoadSource {
    /// The source's name: `node`, `cgroup`, `pressure`, `run-queue`, `load-average` or `supplied`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Cgroup => "cgroup",
            Self::Pressure => "pressure",
            Self::RunQueue => "run-queue",
            Self::LoadAverage => "load-average",
            Self::Supplied => "supplied",
        }
    }
}

impl fmt::Display for LoadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many processors there are to use, or the share of one: finite, 0.001 to 1 000 000.
///
/// A thousandth is the least a cgroup quota can grant; a million is arbitrary, above any machine.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Processors(f64);

impl Processors {
    /// A single processor.
    pub const ONE: Self = Self(1.0);

    // See the type.
    const MIN: f64 = 0.001;
    const MAX: f64 = 1e6;

    /// A number of processors, brought into range, or `None` unless it is finite and above zero.
    pub fn new(count: f64) -> Option<Self> {
        (count.is_finite() && count > 0.0).then(|| Self(count.clamp(Self::MIN, Self::MAX)))
    }

    /// The number of processors.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The smaller of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Why a text or a pair of readings gives no load. None of these is fatal: the next reading may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text has no such field; `field` is its name in the kernel's documentation.
    #[error("no field {field}")]
    MissingField {
        /// The field.
        field: &'static str,
    },
    /// The field is not a number, or one of more than 64 bits.
    #[error("field {field} is not a number")]
    InvalidNumber {
        /// The field.
        field: &'static str,
    },
    /// The field is a number that cannot be meant.
    #[error("field {field} is out of range")]
    OutOfRange {
        /// The field.
        field: &'static str,
    },
    /// A counter that only grows went from `before` to `now`: the meter starts anew from `now`.
    #[error("counter {field} went back from {before} to {now}")]
    WentBackwards {
        /// The field.
        field: &'static str,
        /// Its value in the earlier reading.
        before: u64,
        /// Its value in this reading.
        now: u64,
    },
    /// No time passed between the readings, by the clock they were stamped with or by the kernel's.
    #[error("no time passed between two readings")]
    NoTimeElapsed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_finite_and_above_zero() {
        for absurd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Processors::new(absurd), None);
        }
        assert_eq!(Processors::new(1e-9).map(Processors::get), Some(0.001));
        assert_eq!(Processors::new(1e30).map(Processors::get), Some(1e6));
        assert_eq!(Processors::new(2.5).map(Processors::get), Some(2.5));
    }
}
