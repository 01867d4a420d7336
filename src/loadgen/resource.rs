//! What there is to take.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use thiserror::Error;

/// A level of the caches for data, or memory behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataLevel {
    /// The first: loads that all hit it, one after the other.
    L1,
    /// The second: loads that all miss the first and hit this one.
    L2,
    /// The last before memory: loads that miss those before it and hit this one.
    Llc,
    /// Memory's bandwidth: four times the last cache read and written from end to end.
    Memory,
}

/// What a leech takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Integer arithmetic, in registers alone.
    Cpu,
    /// What is missing of a processor's time: as [`Self::Cpu`], but an intensity is the share that the processor is busy with it *and* all others there.
    Load,
    /// Floating-point arithmetic, in registers alone.
    Fpu,
    /// Caches for data, and memory.
    Data(DataLevel),
    /// The first cache for instructions: 256 functions in turn, of more code than it holds.
    Instructions,
    /// Translations of addresses: one line in each of more pages than are kept.
    Tlb,
    /// Branches that cannot be predicted.
    Branches,
    /// Page faults: memory of the system taken, touched page by page, and given back.
    PageFaults,
    /// Switches between two threads that wake each other.
    ContextSwitches,
    /// The network, by messages of this crate: of leeches that are started by `Leech::network`, with the feature `transport`.
    Network,
}

impl Resource {
    /// All that a leech can take by itself: the network takes a peer.
    pub const ALL: [Self; 12] = [
        Self::Cpu,
        Self::Load,
        Self::Fpu,
        Self::Data(DataLevel::L1),
        Self::Data(DataLevel::L2),
        Self::Data(DataLevel::Llc),
        Self::Data(DataLevel::Memory),
        Self::Instructions,
        Self::Tlb,
        Self::Branches,
        Self::PageFaults,
        Self::ContextSwitches,
    ];

    /// Its name, as it is parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Load => "load",
            Self::Fpu => "fpu",
            Self::Data(DataLevel::L1) => "l1",
            Self::Data(DataLevel::L2) => "l2",
            Self::Data(DataLevel::Llc) => "llc",
            Self::Data(DataLevel::Memory) => "memory",
            Self::Instructions => "instructions",
            Self::Tlb => "tlb",
            Self::Branches => "branches",
            Self::PageFaults => "page-faults",
            Self::ContextSwitches => "context-switches",
            Self::Network => "network",
        }
    }

    /// What [`LeechStats::operations`](super::LeechStats) counts.
    pub const fn operation(self) -> &'static str {
        match self {
            Self::Cpu | Self::Load | Self::Fpu => "operations",
            Self::Data(_) => "accesses",
            Self::Instructions => "calls",
            Self::Tlb => "pages",
            Self::Branches => "branches",
            Self::PageFaults => "faults",
            Self::ContextSwitches => "switches",
            Self::Network => "messages",
        }
    }

    /// Over which a leech holds its share: other lengths for other kinds, with no small ratio between any two, and so far apart that two of them have come upon each other in every way
    /// after a quarter of a second. Origin: [`duty`](super::duty)'s 10 ms for those of processors, and primes of 100 µs around it; those that a replay has together are the furthest apart.
    pub(super) const fn window(self) -> Duration {
        Duration::from_micros(match self {
            Self::Data(DataLevel::Memory) => 7_100,
            Self::Data(DataLevel::Llc) => 7_300,
            Self::Data(DataLevel::L2) => 7_900,
            Self::PageFaults => 8_300,
            Self::Data(DataLevel::L1) => 8_900,
            Self::Cpu => 9_700,
            Self::Load => 10_000,
            Self::Fpu => 10_300,
            Self::Instructions => 10_700,
            Self::Tlb => 11_300,
            Self::Branches => 11_900,
            Self::ContextSwitches => 12_700,
            Self::Network => 13_100,
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// No resource is called so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no leech takes \"{given}\"; there are {}", names())]
pub struct UnknownResource {
    /// What was given, cut short.
    pub given: String,
}

fn names() -> String {
    Resource::ALL.map(Resource::name).join(", ") + ", network"
}

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(name: &str) -> Result<Self, UnknownResource> {
        let mut all = Self::ALL.into_iter().chain([Self::Network]);
        let found = all.find(|resource| resource.name() == name);
        found.ok_or_else(|| UnknownResource {
            given: name.chars().take(40).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_any_two_kinds_come_upon_each_other_within_half_a_second() {
        for (index, one) in Resource::ALL.iter().enumerate() {
            for other in &Resource::ALL[..index] {
                let [one, other] = [one, other].map(|kind| kind.window().as_secs_f64());
                assert!((1.0 / one - 1.0 / other).abs() > 2.0, "{one} {other}");
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written_and_others_say_which_there_are() {
        for resource in Resource::ALL.into_iter().chain([Resource::Network]) {
            assert_eq!(resource.to_string().parse(), Ok(resource));
        }
        let error = "gpu".parse::<Resource>().unwrap_err().to_string();
        assert!(
            error.contains("\"gpu\"") && error.contains("cpu, load, fpu, l1, l2"),
            "{error}"
        );
    }
}
