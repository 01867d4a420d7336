//! One text of the kernel to typed counters. Pure functions; arbitrary text gives an error, never a
//! panic.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::{LoadError, Processors};
use crate::units::CpuLoad;

/// Processor time since boot, in the kernel's ticks, from one `cpu` line of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// user + nice + system + irq + softirq + steal.
    ///
    /// Guest time is part of user and nice already. Steal counts as busy: while the host runs
    /// something else, the processor isn't there for a codec either.
    pub busy: u64,
    /// Nothing to run.
    pub idle: u64,
    /// Nothing to run, while a disk works: idle for our purposes. The kernel may take some of it
    /// back, so it is kept apart from the counters that only grow.
    pub iowait: u64,
}

impl CpuTimes {
    /// The busy share since `earlier`.
    ///
    /// # Errors
    ///
    /// [`LoadError::WentBackwards`] if the busy time shrank, [`LoadError::NoTimeElapsed`] if not a
    /// tick passed.
    pub fn load_since(&self, earlier: &Self) -> Result<CpuLoad, LoadError> {
        let busy = self
            .busy
            .checked_sub(earlier.busy)
            .ok_or(LoadError::WentBackwards {
                field: "busy",
                before: earlier.busy,
                now: self.busy,
            })?;
        // Both idle counters are known to step back by a tick or two on tickless kernels.
        let idle = self.idle.saturating_sub(earlier.idle) as f64
            + self.iowait.saturating_sub(earlier.iowait) as f64;
        let total = busy as f64 + idle;
        if total == 0.0 {
            return Err(LoadError::NoTimeElapsed);
        }
        Ok(CpuLoad::new(busy as f64 / total))
    }

    fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            busy: self.busy.checked_add(other.busy)?,
            idle: self.idle.checked_add(other.idle)?,
            iowait: self.iowait.checked_add(other.iowait)?,
        })
    }
}

/// The times of all processors together: the first line of `/proc/stat`. The rest need not be there.
///
/// # Errors
///
/// A [`LoadError`] if there is no such line, or one without at least user, nice, system and idle.
pub fn parse_stat(text: &str) -> Result<CpuTimes, LoadError> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .ok_or(LoadError::MissingField { field: "cpu" })?;
    cpu_times(line)
}

/// The times of each processor in `/proc/stat`, with its number.
pub fn parse_stat_processors(
    text: &str,
) -> impl Iterator<Item = Result<(u32, CpuTimes), LoadError>> {
    text.lines()
        .filter_map(|line| line.strip_prefix("cpu"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        .map(|rest| {
            let (index, times) = rest
                .split_once(' ')
                .ok_or(LoadError::MissingField { field: "user" })?;
            Ok((number(index, "cpu")?, cpu_times(times)?))
        })
}

/// The times of the processors in `set` together, from `/proc/stat`.
///
/// # Errors
///
/// As [`parse_stat`]; also [`LoadError::MissingField`] if no processor of the set is online.
pub fn parse_stat_of(text: &str, set: &CpuSet) -> Result<CpuTimes, LoadError> {
    let mut sum = None;
    for processor in parse_stat_processors(text) {
        let (index, times) = processor?;
        if set.contains(index) {
            sum = Some(
                times
                    .plus(sum.unwrap_or_default())
                    .ok_or(LoadError::OutOfRange { field: "cpu" })?,
            );
        }
    }
    sum.ok_or(LoadError::MissingField { field: "cpu" })
}

fn cpu_times(line: &str) -> Result<CpuTimes, LoadError> {
    const FIELDS: [&str; 8] = [
        "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
    ];
    // The others came with Linux 2.6.
    const REQUIRED: usize = 4;

    let mut values = [0_u64; FIELDS.len()];
    let mut words = line.split_ascii_whitespace();
    for (index, (value, field)) in values.iter_mut().zip(FIELDS).enumerate() {
        match words.next() {
            Some(word) => *value = number(word, field)?,
            None if index < REQUIRED => return Err(LoadError::MissingField { field }),
            None => {}
        }
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = values;
    let busy = [user, nice, system, irq, softirq, steal]
        .into_iter()
        .try_fold(0_u64, u64::checked_add)
        .ok_or(LoadError::OutOfRange { field: "cpu" })?;
    Ok(CpuTimes { busy, idle, iowait })
}

/// What a cgroup may use in each period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CpuQuota {
    /// No limit.
    Unlimited,
    /// As much as this many processors would give.
    Limited(Processors),
}

impl CpuQuota {
    /// The smaller of the quota and the processors there are.
    pub fn within(self, processors: Processors) -> Processors {
        match self {
            Self::Unlimited => processors,
            Self::Limited(limit) => limit.min(processors),
        }
    }

    fn of_micros(quota: u64, period: u64) -> Result<Self, LoadError> {
        Processors::new(quota as f64 / period as f64)
            .map(Self::Limited)
            .ok_or(LoadError::OutOfRange { field: "quota" })
    }
}

/// How often and how long a cgroup stood still because its quota was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupThrottling {
    /// Periods in which it was throttled.
    pub count: u64,
    /// For how long, summed over processors, in nanoseconds.
    pub nanos: u64,
}

/// What a cgroup has used, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Processor time, in nanoseconds.
    pub nanos: u64,
    /// Its throttling; zero where the kernel doesn't say.
    pub throttling: CgroupThrottling,
}

/// `cpu.stat` of cgroup v2. The throttling fields are there only if the cpu controller is on.
///
/// # Errors
///
/// A [`LoadError`] if there is no `usage_usec`, or a field is not a number of nanoseconds.
pub fn parse_cgroup_cpu_stat(text: &str) -> Result<CgroupUsage, LoadError> {
    let usage = keyed(text, "usage_usec")?.ok_or(LoadError::MissingField {
        field: "usage_usec",
    })?;
    let throttled = keyed(text, "throttled_usec")?.unwrap_or(0);
    Ok(CgroupUsage {
        nanos: micros_to_nanos(usage, "usage_usec")?,
        throttling: CgroupThrottling {
            count: keyed(text, "nr_throttled")?.unwrap_or(0),
            nanos: micros_to_nanos(throttled, "throttled_usec")?,
        },
    })
}

/// `cpu.max` of cgroup v2: `max 100000`, or a quota and a period in microseconds.
///
/// # Errors
///
/// A [`LoadError`] if that is not what it is, or the quota or the period is zero.
pub fn parse_cpu_max(text: &str) -> Result<CpuQuota, LoadError> {
    /// The kernel's default.
    const PERIOD: u64 = 100_000;

    let mut words = text.split_ascii_whitespace();
    let quota = words
        .next()
        .ok_or(LoadError::MissingField { field: "quota" })?;
    let period = words.next().map_or(Ok(PERIOD), |w| number(w, "period"))?;
    if quota == "max" {
        return Ok(CpuQuota::Unlimited);
    }
    CpuQuota::of_micros(number(quota, "quota")?, period)
}

/// `cpuacct.usage` of cgroup v1: nanoseconds of processor time.
///
/// # Errors
///
/// A [`LoadError`] if it is not a number.
pub fn parse_cgroup_v1_usage(text: &str) -> Result<u64, LoadError> {
    number(text.trim_ascii(), "cpuacct.usage")
}

/// `cpu.cfs_quota_us` (-1 for none) and `cpu.cfs_period_us` of cgroup v1.
///
/// # Errors
///
/// A [`LoadError`] if they are not numbers, or the quota or the period is zero.
pub fn parse_cfs_quota(quota: &str, period: &str) -> Result<CpuQuota, LoadError> {
    let quota = number::<i64>(quota.trim_ascii(), "cpu.cfs_quota_us")?;
    let period = number(period.trim_ascii(), "cpu.cfs_period_us")?;
    match u64::try_from(quota) {
        Ok(quota) => CpuQuota::of_micros(quota, period),
        Err(_) => Ok(CpuQuota::Unlimited),
    }
}

/// `cpu.stat` of cgroup v1.
///
/// # Errors
///
/// A [`LoadError`] if there is no `throttled_time`, or a field is not a number.
pub fn parse_cgroup_v1_cpu_stat(text: &str) -> Result<CgroupThrottling, LoadError> {
    Ok(CgroupThrottling {
        count: keyed(text, "nr_throttled")?.unwrap_or(0),
        nanos: keyed(text, "throttled_time")?.ok_or(LoadError::MissingField {
            field: "throttled_time",
        })?,
    })
}

/// For how long, in all, some task waited for a processor: `total=` of the "some" line of
/// `/proc/pressure/cpu`. The averages in that file lag by 10 s and more; they are not used.
///
/// # Errors
///
/// A [`LoadError`] if there is no such line or field, or it is not a number.
pub fn parse_pressure(text: &str) -> Result<Duration, LoadError> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("some "))
        .ok_or(LoadError::MissingField { field: "some" })?;
    let total = line
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("total="))
        .ok_or(LoadError::MissingField { field: "total" })?;
    Ok(Duration::from_micros(number(total, "total")?))
}

/// `/proc/loadavg`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadAverage {
    /// Tasks that run or wait for a processor or a disk, averaged over about a minute. Finite, not
    /// below zero.
    pub one_minute: f64,
    /// Tasks that run or wait for a processor at this instant, the reader itself among them (thesis
    /// definition 24).
    pub runnable: u64,
}

/// Both figures of `/proc/loadavg`.
///
/// # Errors
///
/// A [`LoadError`] if a field is missing or not a sensible number.
pub fn parse_loadavg(text: &str) -> Result<LoadAverage, LoadError> {
    const AVERAGE: &str = "one-minute average";
    const RUNNABLE: &str = "runnable";

    let mut words = text.split_ascii_whitespace();
    let one_minute: f64 = number(
        words
            .next()
            .ok_or(LoadError::MissingField { field: AVERAGE })?,
        AVERAGE,
    )?;
    if !one_minute.is_finite() || one_minute < 0.0 {
        return Err(LoadError::OutOfRange { field: AVERAGE });
    }
    let (runnable, _) = words
        .nth(2)
        .and_then(|tasks| tasks.split_once('/'))
        .ok_or(LoadError::MissingField { field: RUNNABLE })?;
    Ok(LoadAverage {
        one_minute,
        runnable: number(runnable, RUNNABLE)?,
    })
}

/// A set of processors, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSet {
    /// Ascending, neither touching nor overlapping; at least one.
    ranges: Vec<RangeInclusive<u32>>,
}

impl CpuSet {
    /// Whether processor number `index` is in the set.
    pub fn contains(&self, index: u32) -> bool {
        self.ranges.iter().any(|range| range.contains(&index))
    }

    /// How many processors are in the set.
    pub fn count(&self) -> Processors {
        let count: f64 = self
            .ranges
            .iter()
            .map(|range| f64::from(range.end() - range.start()) + 1.0)
            .sum();
        Processors::new(count).unwrap_or(Processors::ONE)
    }
}

/// The processors that the process may run on: `Cpus_allowed_list` of `/proc/self/status`, as
/// `0-3,8`.
///
/// # Errors
///
/// A [`LoadError`] if there is no such line, or no list of numbers in it.
pub fn parse_cpus_allowed(status: &str) -> Result<CpuSet, LoadError> {
    const FIELD: &str = "Cpus_allowed_list";
    /// Arbitrary; above any machine.
    const MAX_INDEX: u32 = 1 << 20;

    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix(FIELD)?.strip_prefix(':'))
        .ok_or(LoadError::MissingField { field: FIELD })?;
    let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
    for part in allowed.trim_ascii().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (number(first, FIELD)?, number(last, FIELD)?);
        // The kernel writes them in ascending order; anything else would count processors twice.
        let ascending = ranges.last().is_none_or(|range| *range.end() < first);
        if first > last || last > MAX_INDEX || !ascending {
            return Err(LoadError::OutOfRange { field: FIELD });
        }
        ranges.push(first..=last);
    }
    Ok(CpuSet { ranges })
}

fn number<N: core::str::FromStr>(word: &str, field: &'static str) -> Result<N, LoadError> {
    word.parse().map_err(|_| LoadError::InvalidNumber { field })
}

/// The value in the line `key value`, if there is one.
fn keyed(text: &str, key: &'static str) -> Result<Option<u64>, LoadError> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        .map(|value| number(value.trim_ascii(), key))
        .transpose()
}

fn micros_to_nanos(micros: u64, field: &'static str) -> Result<u64, LoadError> {
    micros
        .checked_mul(1000)
        .ok_or(LoadError::OutOfRange { field })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "\
cpu  100 10 50 800 40 3 7 20 60 5
cpu0 60 10 20 400 10 1 4 10 30 5
cpu1 40 0 30 400 30 2 3 10 30 0
intr 171843 0 0
ctxt 5
";

    #[test]
    fn stat_counts_steal_as_busy_and_guest_once() {
        let times = CpuTimes {
            busy: 190,
            idle: 800,
            iowait: 40,
        };
        assert_eq!(parse_stat(STAT), Ok(times));
        let each: Vec<_> = parse_stat_processors(STAT).map(Result::unwrap).collect();
        assert_eq!(each.len(), 2);
        assert_eq!(each[1].0, 1);
        assert_eq!(each[0].1.plus(each[1].1), Some(times));
        let first = parse_cpus_allowed("Cpus_allowed_list:\t0,5-9\n").unwrap();
        assert_eq!(parse_stat_of(STAT, &first), Ok(each[0].1));
        let absent = parse_cpus_allowed("Cpus_allowed_list:\t2\n").unwrap();
        assert!(parse_stat_of(STAT, &absent).is_err());
    }

    #[test]
    fn stat_of_an_old_kernel_has_four_fields() {
        assert_eq!(
            parse_stat("cpu  1 2 3 4\n"),
            Ok(CpuTimes {
                busy: 6,
                idle: 4,
                iowait: 0
            })
        );
        assert_eq!(
            parse_stat("cpu  1 2 3\n"),
            Err(LoadError::MissingField { field: "idle" })
        );
        assert_eq!(
            parse_stat("cpu0 1 2 3 4\n"),
            Err(LoadError::MissingField { field: "cpu" })
        );
    }

    #[test]
    fn sums_that_overflow_are_out_of_range() {
        let text = format!("cpu  {} 1 0 0\n", u64::MAX);
        assert_eq!(
            parse_stat(&text),
            Err(LoadError::OutOfRange { field: "cpu" })
        );
        assert_eq!(
            parse_stat("cpu  99999999999999999999 1 0 0\n"),
            Err(LoadError::InvalidNumber { field: "user" })
        );
        let text = format!("usage_usec {}\n", u64::MAX);
        assert_eq!(
            parse_cgroup_cpu_stat(&text),
            Err(LoadError::OutOfRange {
                field: "usage_usec"
            })
        );
    }

    #[test]
    fn a_counter_that_iowait_gave_back_is_harmless() {
        let earlier = CpuTimes {
            busy: 10,
            idle: 10,
            iowait: 10,
        };
        let later = CpuTimes {
            busy: 13,
            idle: 17,
            iowait: 9,
        };
        let load = later.load_since(&earlier).unwrap();
        assert!((load.get() - 0.3).abs() < 1e-6);
        assert!(matches!(
            earlier.load_since(&later),
            Err(LoadError::WentBackwards {
                before: 13,
                now: 10,
                ..
            })
        ));
        assert_eq!(earlier.load_since(&earlier), Err(LoadError::NoTimeElapsed));
    }

    #[test]
    fn cgroup_v2_texts() {
        let full = "usage_usec 5000\nuser_usec 3000\nsystem_usec 2000\nnr_periods 9\n\
                    nr_throttled 3\nthrottled_usec 700\nnr_bursts 0\nburst_usec 0\n";
        assert_eq!(
            parse_cgroup_cpu_stat(full),
            Ok(CgroupUsage {
                nanos: 5_000_000,
                throttling: CgroupThrottling {
                    count: 3,
                    nanos: 700_000
                }
            })
        );
        let without_controller = "usage_usec 5\nuser_usec 3\nsystem_usec 2\n";
        assert_eq!(
            parse_cgroup_cpu_stat(without_controller).map(|usage| usage.throttling),
            Ok(CgroupThrottling::default())
        );
        assert!(parse_cgroup_cpu_stat("user_usec 3\n").is_err());
        let processors = |text| match parse_cpu_max(text) {
            Ok(CpuQuota::Limited(processors)) => processors.get(),
            other => panic!("{text}: {other:?}"),
        };
        assert!((processors("150000 100000\n") - 1.5).abs() < 1e-9);
        assert!((processors("50000\n") - 0.5).abs() < 1e-9);
        assert_eq!(parse_cpu_max("max 100000\n"), Ok(CpuQuota::Unlimited));
        for absurd in ["", "0 100000", "1000 0", "-1 100000", "1000 x"] {
            assert!(parse_cpu_max(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn cgroup_v1_texts() {
        assert_eq!(parse_cgroup_v1_usage("12345\n"), Ok(12_345));
        assert_eq!(parse_cfs_quota("-1\n", "100000\n"), Ok(CpuQuota::Unlimited));
        assert_eq!(
            parse_cfs_quota("25000\n", "100000\n"),
            Ok(CpuQuota::Limited(Processors::new(0.25).unwrap()))
        );
        assert!(parse_cfs_quota("25000", "0").is_err());
        assert_eq!(
            parse_cgroup_v1_cpu_stat("nr_periods 5\nnr_throttled 2\nthrottled_time 900\n"),
            Ok(CgroupThrottling {
                count: 2,
                nanos: 900
            })
        );
    }

    #[test]
    fn pressure_takes_the_total_of_some() {
        let text = "some avg10=0.08 avg60=0.37 avg300=0.54 total=5725754\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(text), Ok(Duration::from_micros(5_725_754)));
        assert!(parse_pressure("full total=7\n").is_err());
        assert!(parse_pressure("some avg10=0.08\n").is_err());
    }

    #[test]
    fn loadavg_gives_average_and_queue() {
        assert_eq!(
            parse_loadavg("0.15 0.25 0.12 3/84 5442\n"),
            Ok(LoadAverage {
                one_minute: 0.15,
                runnable: 3
            })
        );
        for absurd in [
            "",
            "0.1 0.2 0.3",
            "nan 0 0 1/2 3",
            "-1 0 0 1/2 3",
            "1 1 1 x/2 3",
        ] {
            assert!(parse_loadavg(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn processors_allowed_are_counted_once() {
        let set = parse_cpus_allowed("Name:\tx\nCpus_allowed_list:\t0-3,8\n").unwrap();
        assert_eq!(set.count(), Processors::new(5.0).unwrap());
        assert!(set.contains(8) && !set.contains(4));
        for absurd in ["", "3-1", "0-3,2", "0-4294967295", "a", "0-"] {
            let text = format!("Cpus_allowed_list:\t{absurd}\n");
            assert!(parse_cpus_allowed(&text).is_err(), "{absurd}");
        }
    }

    fn parse_everything(text: &str) {
        let _ = parse_stat(text);
        let set = parse_cpus_allowed(text);
        let _ = parse_stat_processors(text).count();
        if let Ok(set) = set {
            let _ = (parse_stat_of(text, &set), set.count());
        }
        let _ = parse_cgroup_cpu_stat(text);
        let _ = parse_cpu_max(text);
        let _ = parse_cgroup_v1_usage(text);
        let _ = parse_cfs_quota(text, text);
        let _ = parse_cgroup_v1_cpu_stat(text);
        let _ = parse_pressure(text);
        if let Ok(average) = parse_loadavg(text) {
            assert!(average.one_minute.is_finite());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            parse_everything(&text);
        }

        #[test]
        fn text_of_the_right_kind_never_panics(
            text in "((cpu|cpu0|cpu7|some|usage_usec|throttled_usec|throttled_time|nr_throttled|Cpus_allowed_list:)[ \t])?\
                     ((total=)?(-|max)?[0-9]{0,21}[ ,/.\n-]){0,12}"
        ) {
            parse_everything(&text);
        }

        #[test]
        fn text_cut_anywhere_never_panics(cut in 0..STAT.len()) {
            parse_everything(&STAT[..cut]);
        }
    }
}
