//! What is known of the machine that something was recorded on, and how another differs.

use core::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::ModelError;
use crate::pmu::{CacheSizes, CpuIdentity, is_name};

/// Sizes of the data caches, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// First.
    pub l1: u64,
    /// Second.
    pub l2: u64,
    /// The last before memory.
    pub llc: u64,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// As the processor says: `GenuineIntel`, `0x41`; empty if it does not.
    pub vendor: String,
    /// Family; of ARM the architecture.
    pub family: u64,
    /// Model; of ARM the part.
    pub model: u64,
    /// Logical processors that are online; 0 if that is not known.
    pub processors: u32,
    /// `None` where the system does not say, as some virtual machines do not.
    pub caches: Option<Caches>,
}

impl Machine {
    /// As Linux says under `root` (`/`, except in tests). What it does not say is empty, 0 or none.
    pub fn of_system(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let identity = CpuIdentity::parse(&text("proc/cpuinfo"));
        let stat = text("proc/stat");
        let is_processor = |line: &&str| {
            let number = line.strip_prefix("cpu");
            number.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let processors = stat.lines().filter(is_processor).count();
        let caches = CacheSizes::of_system(root).map(|sizes| Caches {
            l1: sizes.l1 as u64,
            l2: sizes.l2 as u64,
            llc: sizes.llc as u64,
        });
        Self {
            vendor: identity.vendor,
            family: identity.family,
            model: identity.model,
            processors: u32::try_from(processors).unwrap_or(u32::MAX),
            caches,
        }
    }

    /// How `other` differs from this one in what replication depends on.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        let processor = |machine: &Self| (machine.vendor.clone(), machine.family, machine.model);
        if processor(self) != processor(other) {
            found.push(Difference::Processor {
                recorded: describe(self),
                here: describe(other),
            });
        }
        if self.processors != other.processors {
            found.push(Difference::Processors {
                recorded: self.processors,
                here: other.processors,
            });
        }
        if self.caches != other.caches {
            found.push(Difference::Caches {
                recorded: self.caches,
                here: other.caches,
            });
        }
        found
    }
}

fn describe(machine: &Machine) -> String {
    let vendor = if machine.vendor.is_empty() {
        "unknown"
    } else {
        &machine.vendor
    };
    format!("{vendor} family {} model {}", machine.family, machine.model)
}

/// What is other than where something was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The processor's model: a miss or a fault costs another time.
    Processor {
        /// There.
        recorded: String,
        /// Here.
        here: String,
    },
    /// How many there are: loads are shares of them, and rates are of all of them.
    Processors {
        /// There.
        recorded: u32,
        /// Here.
        here: u32,
    },
    /// Caches: the same misses need other leeches.
    Caches {
        /// There.
        recorded: Option<Caches>,
        /// Here.
        here: Option<Caches>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |caches: &Option<Caches>| {
            let text = |caches: &Caches| {
                let kib = [caches.l1, caches.l2, caches.llc].map(|bytes| bytes / 1024);
                format!("{} + {} + {} KiB", kib[0], kib[1], kib[2])
            };
            caches.as_ref().map_or_else(|| "unknown".to_owned(), text)
        };
        match self {
            Self::Processor { recorded, here } => {
                write!(f, "recorded on a processor {recorded}, here it is {here}")
            }
            Self::Processors { recorded, here } => {
                write!(f, "recorded on {recorded} processors, here are {here}")
            }
            Self::Caches { recorded, here } => {
                write!(
                    f,
                    "recorded with caches of {}, here of {}",
                    sizes(recorded),
                    sizes(here)
                )
            }
        }
    }
}

/// A metric of a profile or model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// What the monitor calls it.
    pub name: String,
    /// Its unit: `1/s`, `ns`; empty for ratios and shares.
    pub unit: String,
    /// Whether it is an estimate, rather than counted.
    pub estimated: bool,
}

impl Metric {
    pub(super) fn check_all(metrics: &[Self]) -> Result<(), ModelError> {
        let most = super::controller::MAX_METRICS;
        if !(1..=most).contains(&metrics.len()) {
            return Err(ModelError::Count {
                what: "metrics",
                given: metrics.len(),
                max: most,
            });
        }
        check_names("metric", metrics.iter().map(|metric| metric.name.as_str()))
    }
}

pub(super) fn check_names<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), ModelError> {
    let mut known = Vec::new();
    for name in names {
        if !is_name(name) || known.contains(&name) {
            return Err(ModelError::Name {
                what,
                given: name.chars().take(80).collect(),
            });
        }
        known.push(name);
    }
    Ok(())
}

/// A metric that was asked for and not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lacking {
    /// The metric.
    pub name: String,
    /// Why, in words.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_with_both_sides() {
        let here = Machine {
            vendor: "AuthenticAMD".into(),
            family: 25,
            model: 1,
            processors: 2,
            caches: Some(Caches {
                l1: 32 << 10,
                l2: 1 << 20,
                llc: 32 << 20,
            }),
        };
        assert_eq!(here.differences(&here), []);
        let other = Machine {
            processors: 8,
            caches: None,
            ..here.clone()
        };
        let texts: Vec<_> = other
            .differences(&here)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "recorded on 8 processors, here are 2",
                "recorded with caches of unknown, here of 32 + 1024 + 32768 KiB"
            ]
        );
        assert_eq!(here.differences(&Machine::default()).len(), 3);
    }

    #[test]
    fn a_system_that_says_nothing_is_a_machine_of_which_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Machine::of_system(root.path()), Machine::default());
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(
            root.path().join("proc/stat"),
            "cpu  1 2\ncpu0 1 2\ncpu1 1 2\nintr 5\n",
        )
        .unwrap();
        fs::write(
            root.path().join("proc/cpuinfo"),
            "vendor_id : X\ncpu family : 6\nmodel : 7\n",
        )
        .unwrap();
        let found = Machine::of_system(root.path());
        assert_eq!((found.processors, found.family, found.caches), (2, 6, None));
    }
}
