//! Successive readings to loads.

use core::time::Duration;

use super::{CgroupUsage, CpuTimes, LoadError, Processors};
use crate::units::{CpuLoad, Time, saturating_nanos};

/// What was read at one time, of one source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reading {
    /// Of `/proc/stat`: some or all processors.
    Node(CpuTimes),
    /// Of a cgroup, v1 or v2.
    Cgroup {
        /// Used and throttled, in all.
        usage: CgroupUsage,
        /// What it may use: the quota, or the number of processors if that is less.
        processors: Processors,
    },
    /// Of `/proc/pressure/cpu`: for how long, in all, some task waited.
    Pressure(Duration),
    /// Of `/proc/loadavg`: tasks that run or wait now, the reader among them.
    RunQueue {
        /// The tasks.
        runnable: u64,
        /// The processors they share.
        processors: Processors,
    },
    /// Of `/proc/loadavg`: the same, averaged over a minute.
    LoadAverage {
        /// The tasks.
        one_minute: f64,
        /// The processors they share.
        processors: Processors,
    },
    /// Of the application.
    Supplied(CpuLoad),
}

/// Turns successive [`Reading`]s into the load between them.
///
/// The sources that count since boot (`Node`, `Cgroup`, `Pressure`) need two readings for a load;
/// the others are loads already. A reading of another source than the last starts anew.
#[derive(Clone, Debug, Default)]
pub struct LoadMeter {
    last: Option<(Time, Reading)>,
}

impl LoadMeter {
    /// A meter that has seen nothing.
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// The load between the last reading and this one, taken at `now`; `None` if this is the first.
    ///
    /// # Errors
    ///
    /// [`LoadError::WentBackwards`] if a counter shrank (the meter starts anew from this reading) and
    /// [`LoadError::NoTimeElapsed`] if this reading comes too soon after the last (which stays).
    pub fn record(&mut self, now: Time, reading: Reading) -> Result<Option<CpuLoad>, LoadError> {
        let load = self.load_since_last(now, &reading);
        let clock_went_back = self.last.is_some_and(|(then, _)| now < then);
        if load != Err(LoadError::NoTimeElapsed) || clock_went_back {
            self.last = Some((now, reading));
        }
        load
    }

    fn load_since_last(&self, now: Time, reading: &Reading) -> Result<Option<CpuLoad>, LoadError> {
        match (reading, &self.last) {
            (Reading::Node(times), Some((_, Reading::Node(earlier)))) => {
                times.load_since(earlier).map(Some)
            }
            (
                Reading::Cgroup { usage, processors },
                Some((then, Reading::Cgroup { usage: earlier, .. })),
            ) => {
                // While it is throttled, a cgroup would use more than it may: that it stood still
                // says nothing about room for a codec.
                let used = grown("usage", earlier.nanos, usage.nanos)?;
                let throttled = grown(
                    "throttled time",
                    earlier.throttling.nanos,
                    usage.throttling.nanos,
                )?;
                let elapsed = elapsed_nanos(*then, now)?;
                Ok(Some(CpuLoad::new(
                    (used + throttled) / (elapsed * processors.get()),
                )))
            }
            (Reading::Pressure(total), Some((then, Reading::Pressure(earlier)))) => {
                let waited = grown(
                    "total",
                    saturating_nanos(*earlier),
                    saturating_nanos(*total),
                )?;
                Ok(Some(CpuLoad::new(waited / elapsed_nanos(*then, now)?)))
            }
            (Reading::Node(_) | Reading::Cgroup { .. } | Reading::Pressure(_), _) => Ok(None),
            (
                Reading::RunQueue {
                    runnable,
                    processors,
                },
                _,
            ) => {
                // Whoever reads the file is running. Were it counted, a node of one processor would
                // never be idle.
                let others = runnable.saturating_sub(1) as f64;
                Ok(Some(CpuLoad::new(others / processors.get())))
            }
            (
                Reading::LoadAverage {
                    one_minute,
                    processors,
                },
                _,
            ) => Ok(Some(CpuLoad::new(one_minute / processors.get()))),
            (Reading::Supplied(load), _) => Ok(Some(*load)),
        }
    }
}

fn grown(field: &'static str, before: u64, now: u64) -> Result<f64, LoadError> {
    now.checked_sub(before)
        .map(|delta| delta as f64)
        .ok_or(LoadError::WentBackwards { field, before, now })
}

fn elapsed_nanos(then: Time, now: Time) -> Result<f64, LoadError> {
    match now.saturating_since(then) {
        Duration::ZERO => Err(LoadError::NoTimeElapsed),
        elapsed => Ok(elapsed.as_nanos() as f64),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::CgroupThrottling;
    use super::*;

    fn at_millis(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn cgroup(used_ms: u64, throttled_ms: u64, processors: f64) -> Reading {
        Reading::Cgroup {
            usage: CgroupUsage {
                nanos: used_ms * 1_000_000,
                throttling: CgroupThrottling {
                    count: 0,
                    nanos: throttled_ms * 1_000_000,
                },
            },
            processors: Processors::new(processors).unwrap(),
        }
    }

    fn load(result: Result<Option<CpuLoad>, LoadError>) -> f64 {
        result.unwrap().unwrap().get()
    }

    #[test]
    fn cgroup_load_is_use_and_throttling_against_the_quota() {
        let mut meter = LoadMeter::new();
        assert_eq!(meter.record(at_millis(0), cgroup(1000, 0, 0.5)), Ok(None));
        let half = load(meter.record(at_millis(100), cgroup(1025, 0, 0.5)));
        assert!((half - 0.5).abs() < 1e-6);
        let throttled = load(meter.record(at_millis(200), cgroup(1050, 15, 0.5)));
        assert!((throttled - 0.8).abs() < 1e-6);
        let clamped = load(meter.record(at_millis(300), cgroup(1150, 100, 0.5)));
        assert!((clamped - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_counter_that_went_back_starts_the_meter_anew() {
        let mut meter = LoadMeter::new();
        assert_eq!(meter.record(at_millis(0), cgroup(1000, 0, 1.0)), Ok(None));
        assert!(matches!(
            meter.record(at_millis(100), cgroup(10, 0, 1.0)),
            Err(LoadError::WentBackwards { field: "usage", .. })
        ));
        let after = load(meter.record(at_millis(200), cgroup(30, 0, 1.0)));
        assert!((after - 0.2).abs() < 1e-6);
    }

    #[test]
    fn a_reading_too_soon_is_refused_and_the_next_counts_from_the_last_good_one() {
        let mut meter = LoadMeter::new();
        assert_eq!(meter.record(at_millis(100), cgroup(0, 0, 1.0)), Ok(None));
        assert_eq!(
            meter.record(at_millis(100), cgroup(5, 0, 1.0)),
            Err(LoadError::NoTimeElapsed)
        );
        let spanning = load(meter.record(at_millis(200), cgroup(20, 0, 1.0)));
        assert!((spanning - 0.2).abs() < 1e-6);
        // The clock falls back: one error, then onwards from there.
        assert!(meter.record(at_millis(1), cgroup(30, 0, 1.0)).is_err());
        let onwards = load(meter.record(at_millis(101), cgroup(60, 0, 1.0)));
        assert!((onwards - 0.3).abs() < 1e-6);
    }

    #[test]
    fn pressure_is_the_share_of_time_in_which_some_task_waited() {
        let mut meter = LoadMeter::new();
        let waited = |ms| Reading::Pressure(Duration::from_millis(ms));
        assert_eq!(meter.record(at_millis(0), waited(7)), Ok(None));
        let share = load(meter.record(at_millis(100), waited(32)));
        assert!((share - 0.25).abs() < 1e-6);
    }

    #[test]
    fn run_queue_leaves_out_the_reader() {
        let mut meter = LoadMeter::new();
        let queue = |runnable| Reading::RunQueue {
            runnable,
            processors: Processors::new(4.0).unwrap(),
        };
        assert!(load(meter.record(at_millis(0), queue(0))).abs() < 1e-6);
        assert!(load(meter.record(at_millis(0), queue(1))).abs() < 1e-6);
        assert!((load(meter.record(at_millis(0), queue(3))) - 0.5).abs() < 1e-6);
        assert!((load(meter.record(at_millis(0), queue(u64::MAX))) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn another_source_starts_the_meter_anew() {
        let mut meter = LoadMeter::new();
        let times = CpuTimes::default();
        assert_eq!(meter.record(at_millis(0), Reading::Node(times)), Ok(None));
        assert_eq!(meter.record(at_millis(9), cgroup(1, 0, 1.0)), Ok(None));
        assert_eq!(meter.record(at_millis(9), Reading::Node(times)), Ok(None));
        assert_eq!(
            meter.record(at_millis(10), Reading::Supplied(CpuLoad::FULL)),
            Ok(Some(CpuLoad::FULL))
        );
    }

    fn any_reading() -> impl Strategy<Value = Reading> {
        let processors = || any::<f64>().prop_filter_map("processors", Processors::new);
        prop_oneof![
            any::<[u64; 3]>().prop_map(|[busy, idle, iowait]| Reading::Node(CpuTimes {
                busy,
                idle,
                iowait
            })),
            (any::<[u64; 3]>(), processors()).prop_map(
                |([nanos, count, throttled], processors)| {
                    Reading::Cgroup {
                        usage: CgroupUsage {
                            nanos,
                            throttling: CgroupThrottling {
                                count,
                                nanos: throttled,
                            },
                        },
                        processors,
                    }
                }
            ),
            any::<Duration>().prop_map(Reading::Pressure),
            (any::<u64>(), processors()).prop_map(|(runnable, processors)| Reading::RunQueue {
                runnable,
                processors
            }),
            (any::<f64>(), processors()).prop_map(|(one_minute, processors)| {
                Reading::LoadAverage {
                    one_minute,
                    processors,
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn absurd_readings_give_a_load_or_an_error(
            readings in proptest::collection::vec((any::<u64>(), any_reading()), 1..20)
        ) {
            let mut meter = LoadMeter::new();
            for (nanos, reading) in readings {
                if let Ok(Some(load)) = meter.record(Time::from_nanos(nanos), reading) {
                    prop_assert!((0.0..=1.0).contains(&load.get()));
                }
            }
        }
    }
}
