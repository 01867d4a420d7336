//! What is missing, and why.

use core::fmt;
use std::io;

use serde::Deserialize;
use thiserror::Error;

use super::counters::Facts;
use super::event::{EventCode, EventSource};

/// Whose events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Place {
    /// Those of a process, wherever it runs: the threads it has, and all threads and processes that they start from then on.
    Process(u32),
    /// Those of everything on one logical processor.
    Cpu(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Cpu(cpu) => write!(f, "cpu {cpu}"),
        }
    }
}

/// Why something is not counted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Nobody knows the name.
    #[error(
        "no event has this name: neither perf's generic ones nor the model files that fit this processor"
    )]
    UnknownEvent,
    /// The kernel has such a group of tracepoints, but none of this name in it.
    #[error(
        "the kernel has no tracepoint of this name in that group (`ls /sys/kernel/tracing/events/GROUP`)"
    )]
    UnknownTracepoint,
    /// It is an event, but what stands behind the last colon of its name is no mode.
    #[error(
        "the event has no such modifier: there are :u (what programs do), :k (what the kernel does) and :uk (both, as without one)"
    )]
    UnknownModifier,
    /// It was required, and is a metric.
    #[error("it is a metric: require the events that it is made of")]
    Metric,
    /// It was required, but no set counts it.
    #[error("no set has it")]
    NotInSets,
    /// It is replayed, and was not counted then.
    #[error("the recording does not have it")]
    NotRecorded,
    /// Nobody supplies the gauge.
    #[error("nobody supplies a gauge of this name")]
    UnknownGauge,
    /// The machine, most often a virtual one, shows no hardware counters.
    #[error("this machine shows no hardware counters, as most virtual machines")]
    NoPmu,
    /// It has counters, but not for this.
    #[error("this machine's counters do not count it")]
    Unsupported,
    /// A setting of the kernel's.
    #[error("kernel.perf_event_paranoid is {level}: lower it (sysctl), or run with CAP_PERFMON")]
    Paranoid {
        /// What it is set to.
        level: i32,
    },
    /// A container's filter of system calls, most often.
    #[error("a seccomp filter forbids perf_event_open: let the container's profile allow it")]
    Seccomp,
    /// Another user's process, most often.
    #[error("not permitted: run as the same user, or with CAP_PERFMON")]
    NotPermitted,
    /// The kernel was built without.
    #[error("this kernel has no perf events")]
    NoPerf,
    /// The kernel shows its tracepoints to nobody, or not to this user.
    #[error("tracefs is not mounted or cannot be read")]
    NoTracefs,
    /// A group that the counters can never hold at once.
    #[error(
        "{events} events at once are more than the hardware counts ({fit} fitted): split the set, or let it be multiplexed with `group = false`"
    )]
    TooMany {
        /// Events in the group.
        events: usize,
        /// Of which so many were accepted.
        fit: usize,
    },
    /// Counters that somebody else keeps, such as the watchdog.
    #[error(
        "no counter was ever free for it: somebody else keeps them (the NMI watchdog, another profiler), or the set has too many events"
    )]
    NeverFree,
    /// Only what programs do is counted.
    #[error("what the kernel does is not counted: kernel.perf_event_paranoid is {level}")]
    UserOnly {
        /// What it is set to.
        level: i32,
    },
    /// There is no such process, or not any more.
    #[error("there is no such process, or it has exited")]
    Exited,
    /// The processor is not there, or switched off.
    #[error("the processor is offline, or there is none of this number")]
    Offline,
    /// Each counter is an open file.
    #[error(
        "too many open files: raise the limit (ulimit -n), or watch fewer processors, threads or sets"
    )]
    TooManyFiles,
    /// Anything else that the system may say.
    #[error("{}", io::Error::from_raw_os_error(*errno))]
    Other {
        /// Its number.
        errno: i32,
    },
}

/// Something that was asked for and is not counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Missing {
    /// The set it is in; empty if there is none.
    pub set: String,
    /// The event or gauge.
    pub name: String,
    /// Where it is missing; `None` for everywhere.
    pub place: Option<Place>,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.name, &self.set, self.place, self.reason)
    }
}

fn show(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    set: &str,
    place: Option<impl fmt::Display>,
    reason: impl fmt::Display,
) -> fmt::Result {
    f.write_str(name)?;
    if !set.is_empty() {
        write!(f, " of set {set}")?;
    }
    if let Some(place) = place {
        write!(f, ", {place}")?;
    }
    write!(f, ": {reason}")
}

/// What a recording says was asked for and not counted, in the words of who made it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedMissing {
    /// The set it is in.
    pub set: String,
    /// The event or gauge.
    pub name: String,
    /// Where it was missing; `None` for everywhere.
    pub place: Option<String>,
    /// Why.
    pub reason: String,
}

impl From<&Missing> for RecordedMissing {
    fn from(missing: &Missing) -> Self {
        Self {
            set: missing.set.clone(),
            name: missing.name.clone(),
            place: missing.place.map(|place| place.to_string()),
            reason: missing.reason.to_string(),
        }
    }
}

impl fmt::Display for RecordedMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.name, &self.set, self.place.as_ref(), &self.reason)
    }
}

/// Numbers of the system's errors, the same on all of Linux.
pub(super) mod errno {
    pub(crate) const EPERM: i32 = 1;
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const ESRCH: i32 = 3;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const EBUSY: i32 = 16;
    pub(crate) const ENODEV: i32 = 19;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const ENOSPC: i32 = 28;
    pub(crate) const ENFILE: i32 = 23;
    pub(crate) const EMFILE: i32 = 24;
    pub(crate) const ENODATA: i32 = 61;
    pub(crate) const EOPNOTSUPP: i32 = 95;
    /// 38 but on MIPS and some others.
    pub(crate) const ENOSYS: i32 = 38;
}

/// What it means that the system refused to open a counter.
pub(super) fn judge(error: &io::Error, event: &EventCode, place: Place, facts: &Facts) -> Reason {
    let Some(number) = error.raw_os_error() else {
        return Reason::Other { errno: 0 };
    };
    match number {
        errno::ENOENT | errno::EOPNOTSUPP | errno::EINVAL | errno::ENODEV
            if event.source.is_hardware() && !facts.pmu =>
        {
            Reason::NoPmu
        }
        errno::ENODEV if matches!(place, Place::Cpu(_)) => Reason::Offline,
        // One of a number that this kernel can never have. Of the kernel's own events nothing else is refused so.
        errno::EINVAL
            if matches!(place, Place::Cpu(_)) && event.source == EventSource::Software =>
        {
            Reason::Offline
        }
        errno::ENOENT | errno::EOPNOTSUPP | errno::EINVAL | errno::ENODEV => Reason::Unsupported,
        errno::ENODATA => Reason::NotRecorded,
        errno::ESRCH => Reason::Exited,
        errno::EMFILE | errno::ENFILE => Reason::TooManyFiles,
        errno::ENOSPC | errno::EBUSY => Reason::NeverFree,
        // A filter may answer with any number; these are what the usual ones give.
        errno::EPERM | errno::ENOSYS if facts.seccomp => Reason::Seccomp,
        // The kernel's own word for it, but not to whom it forbids nothing.
        errno::EACCES if facts.seccomp && facts.privileged => Reason::Seccomp,
        errno::ENOSYS => Reason::NoPerf,
        errno::EACCES | errno::EPERM => match facts.paranoid {
            // 2 and above forbid the kernel's events, 1 and above whole processors.
            Some(level) if level >= 1 && !facts.privileged => Reason::Paranoid { level },
            _ => Reason::NotPermitted,
        },
        errno => Reason::Other { errno },
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::EventSource;
    use super::*;

    #[test]
    fn what_the_system_says_is_told_apart() {
        let hardware = EventCode::new(EventSource::Hardware, 0);
        let software = EventCode::new(EventSource::Software, 0);
        let (process, cpu) = (Place::Process(7), Place::Cpu(7));
        let none = Facts::default();
        let pmu = Facts { pmu: true, ..none };
        let strict = Facts {
            paranoid: Some(2),
            ..none
        };
        let filtered = Facts {
            seccomp: true,
            ..strict
        };
        let privileged = Facts {
            privileged: true,
            ..filtered
        };
        for (number, event, place, facts, expected) in [
            (errno::ENOENT, hardware, process, none, Reason::NoPmu),
            (errno::ENOENT, hardware, process, pmu, Reason::Unsupported),
            (errno::EINVAL, hardware, process, pmu, Reason::Unsupported),
            (errno::ENODEV, software, cpu, none, Reason::Offline),
            (
                errno::EACCES,
                software,
                cpu,
                strict,
                Reason::Paranoid { level: 2 },
            ),
            (errno::EPERM, software, process, filtered, Reason::Seccomp),
            (
                errno::EACCES,
                software,
                process,
                filtered,
                Reason::Paranoid { level: 2 },
            ),
            (errno::EACCES, software, cpu, privileged, Reason::Seccomp),
            (
                errno::EACCES,
                software,
                process,
                Facts {
                    seccomp: false,
                    ..privileged
                },
                Reason::NotPermitted,
            ),
            (errno::ENODEV, hardware, cpu, pmu, Reason::Offline),
            (errno::ENODEV, hardware, process, pmu, Reason::Unsupported),
            (errno::EINVAL, software, cpu, none, Reason::Offline),
            (errno::EINVAL, software, process, none, Reason::Unsupported),
            (errno::ENOSPC, hardware, cpu, pmu, Reason::NeverFree),
            (errno::EBUSY, hardware, cpu, pmu, Reason::NeverFree),
            (errno::EPERM, software, process, none, Reason::NotPermitted),
            (errno::ENOSYS, software, process, none, Reason::NoPerf),
            (errno::ESRCH, software, process, none, Reason::Exited),
            (errno::EMFILE, software, process, none, Reason::TooManyFiles),
            (7, software, process, none, Reason::Other { errno: 7 }),
        ] {
            let error = io::Error::from_raw_os_error(number);
            let found = judge(&error, &event, place, &facts);
            assert_eq!(found, expected, "{number} {event:?} {place}");
        }
    }
}
