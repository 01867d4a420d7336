//! Which processors and caches there are: what the system says of them, and what is assumed where it says nothing, or nothing that can be.

use core::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::cache::{CacheGeometry, MAX_CACHE};
use crate::pmu::{CacheSizes, Calibration};

/// The highest number of a processor that is looked at, plus one.
const MAX_PROCESSORS: u32 = 4096;
/// The longest file that is read, bytes: a list of processors.
const MAX_FILE: u64 = 16 << 10;
/// The most caches of a processor.
const MAX_CACHES: u32 = 16;

/// What is assumed of caches that the system does not show, by level: bytes and ways. Origin: small servers of the last ten years; the last level is what a virtual machine's
/// share of one comes to.
const ASSUMED: [(u64, u32); 3] = [(32 << 10, 8), (1 << 20, 8), (16 << 20, 16)];

/// Why something is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The system shows nothing, as virtual machines may.
    NotShown,
    /// It shows a size, and no ways or lines.
    PartlyShown,
    /// It shows what no cache has, a size of 0 among them.
    Absurd,
    /// It shows what cannot be beside the rest: a level no larger than the one before, or a size that is not that of its sets.
    Contradictory,
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotShown => "the system shows none",
            Self::PartlyShown => "the system shows a part of it",
            Self::Absurd => "the system shows what cannot be",
            Self::Contradictory => "what the system shows contradicts itself",
        })
    }
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The system says so.
    Detected,
    /// It does not, or not believably.
    Assumed(Why),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Detected => formatter.write_str("detected"),
            Self::Assumed(why) => write!(formatter, "assumed: {why}"),
        }
    }
}

/// What a cache is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Data alone.
    Data,
    /// Instructions alone.
    Instruction,
    /// Both.
    Unified,
}

/// One cache of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheInfo {
    /// 1 for the first.
    pub level: u32,
    /// What it is for.
    pub kind: CacheKind,
    /// Its shape.
    pub geometry: CacheGeometry,
    /// Logical processors that share it; empty if the system does not say.
    pub shared_by: Vec<u32>,
    /// Where its shape is from.
    pub source: Source,
}

/// The caches that data goes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataCaches {
    /// The first.
    pub l1: CacheInfo,
    /// The second, if it is not the last.
    pub l2: Option<CacheInfo>,
    /// The last before memory.
    pub llc: CacheInfo,
}

/// A level that does not show in what loads take: it is smaller or larger than said, or somebody else fills it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Doubt {
    /// Which: `L2`, `LLC` or `memory`.
    pub level: &'static str,
    /// Nanoseconds of a load from it.
    pub nanos: f64,
    /// Nanoseconds of a load from the level before.
    pub before: f64,
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            level,
            nanos,
            before,
        } = self;
        write!(
            formatter,
            "{level} does not show: a load takes {nanos:.1} ns there, and {before:.1} ns at the level before"
        )
    }
}

/// How much longer a load must take than at the level before, to show it. Origin: half of the smallest step that processors have (two to one, from the third to the fourth
/// part of a last level that neighbours use).
const STEP: f64 = 1.25;

impl DataCaches {
    /// Shapes, the first level first: two or three.
    pub fn levels(&self) -> Vec<CacheGeometry> {
        let all = [Some(&self.l1), self.l2.as_ref(), Some(&self.llc)];
        all.into_iter()
            .flatten()
            .map(|cache| cache.geometry)
            .collect()
    }

    /// Sizes, as [`calibrate`](crate::pmu::calibrate) takes them. Without a second level of its own, that is the last.
    pub fn sizes(&self) -> CacheSizes {
        let size = |cache: &CacheInfo| usize::try_from(cache.geometry.size()).unwrap_or(usize::MAX);
        CacheSizes {
            l1: size(&self.l1),
            l2: size(self.l2.as_ref().unwrap_or(&self.llc)),
            llc: size(&self.llc),
        }
    }

    /// The levels that do not show in `calibration`, which must have been made with these [`Self::sizes`]: a second source, for what the system says and for what is assumed.
    pub fn doubts(&self, calibration: &Calibration) -> Vec<Doubt> {
        let [l1, l2, llc, memory] = calibration.load_nanos;
        let steps = match self.l2 {
            Some(_) => vec![("L2", l2, l1), ("LLC", llc, l2), ("memory", memory, llc)],
            None => vec![("LLC", l2, l1), ("memory", memory, l2)],
        };
        let doubts = steps.into_iter().map(|(level, nanos, before)| Doubt {
            level,
            nanos,
            before,
        });
        doubts
            .filter(|doubt| doubt.nanos < STEP * doubt.before)
            .collect()
    }
}

/// A logical processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// As the system counts it.
    pub number: u32,
    /// Its package; `None` if the system does not say.
    pub package: Option<u32>,
    /// Its core within the package.
    pub core: Option<u32>,
    /// Logical processors of the same core, itself among them; empty if the system does not say.
    pub siblings: Vec<u32>,
    /// Whether this process may run there.
    pub is_allowed: bool,
}

/// Processors and caches of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Those that are online, in order of their numbers.
    pub processors: Vec<Processor>,
    /// Where [`Self::processors`] is from.
    pub source: Source,
    /// Caches of the processor that was asked for, as far as the system shows them believably.
    pub caches: Vec<CacheInfo>,
    /// Those for data, completed by assumptions.
    pub data: DataCaches,
}

impl Topology {
    /// As Linux says under `root` (`/`, except in tests), with the caches of `processor`, or of the first that this process may run on. Does not fail: what is not to be had is
    /// assumed, and says so.
    pub fn of_system(root: &Path, processor: Option<u32>) -> Self {
        let (processors, source) = processors(root);
        let first = processors.iter().find(|processor| processor.is_allowed);
        let first = first
            .or(processors.first())
            .map_or(0, |processor| processor.number);
        let shown = caches(root, processor.unwrap_or(first));
        let data = complete(&shown);
        let caches = shown.iter().filter_map(|cache| cache.info().ok()).collect();
        Self {
            processors,
            source,
            caches,
            data,
        }
    }

    /// Numbers of the processors that this process may run on.
    pub fn allowed(&self) -> Vec<u32> {
        let allowed = self
            .processors
            .iter()
            .filter(|processor| processor.is_allowed);
        allowed.map(|processor| processor.number).collect()
    }

    /// The first cache for instructions, if the system shows it.
    pub fn l1i(&self) -> Option<&CacheInfo> {
        let mut caches = self.caches.iter();
        caches.find(|cache| cache.level == 1 && cache.kind == CacheKind::Instruction)
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(MAX_FILE)
        .read_to_string(&mut text)
        .ok()?;
    Some(text.trim().to_owned())
}

fn number<T: core::str::FromStr>(path: &Path) -> Option<T> {
    read(path)?.parse().ok()
}

/// Numbers as the kernel lists them: `0-3,8`. What is no number is left out.
fn list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
        else {
            continue;
        };
        numbers.extend(first..=last.min(MAX_PROCESSORS - 1));
        if numbers.len() > MAX_PROCESSORS as usize {
            break;
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn processors(root: &Path) -> (Vec<Processor>, Source) {
    let system = root.join("sys/devices/system/cpu");
    let online = read(&system.join("online"))
        .map(|text| list(&text))
        .unwrap_or_default();
    let allowed = ["proc/thread-self/status", "proc/self/status"]
        .iter()
        .find_map(|path| {
            let status = read(&root.join(path))?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.map(list).filter(|numbers| !numbers.is_empty())
        });
    let (numbers, source) = match (&allowed, online.is_empty()) {
        (_, false) => (online, Source::Detected),
        (Some(allowed), true) => (allowed.clone(), Source::Assumed(Why::PartlyShown)),
        (None, true) => (vec![0], Source::Assumed(Why::NotShown)),
    };
    let processors = numbers.into_iter().map(|number| {
        let topology = system.join(format!("cpu{number}/topology"));
        let id = |name| self::number::<u32>(&topology.join(name));
        let siblings = read(&topology.join("thread_siblings_list"));
        Processor {
            number,
            package: id("physical_package_id"),
            core: id("core_id"),
            siblings: siblings.map(|text| list(&text)).unwrap_or_default(),
            is_allowed: allowed
                .as_ref()
                .is_none_or(|allowed| allowed.contains(&number)),
        }
    });
    (processors.collect(), source)
}

/// What the system shows of a cache, believable or not.
#[derive(Debug)]
struct Shown {
    level: u32,
    kind: CacheKind,
    size: u64,
    line: Option<u32>,
    ways: Option<u32>,
    sets: Option<u64>,
    shared_by: Vec<u32>,
}

impl Shown {
    fn info(&self) -> Result<CacheInfo, Why> {
        let shown = |number: Option<u32>| number.filter(|number| *number > 0);
        let (line, ways) = (shown(self.line), shown(self.ways));
        let assumed = ASSUMED[(self.level.clamp(1, 3) - 1) as usize];
        let size = self.size;
        let shape = CacheGeometry::new(size, ways.unwrap_or(assumed.1), line.unwrap_or(64));
        let (geometry, mut source) = match shape {
            Ok(geometry) if line.is_some() && ways.is_some() => (geometry, Source::Detected),
            Ok(geometry) => (geometry, Source::Assumed(Why::PartlyShown)),
            // Its size counts more than ways that do not fit it.
            Err(_) => {
                let geometry = CacheGeometry::new(size, assumed.1, 64).map_err(|_| Why::Absurd)?;
                (geometry, Source::Assumed(Why::Contradictory))
            }
        };
        let sets = self
            .sets
            .filter(|sets| *sets > 0)
            .unwrap_or(geometry.sets());
        if source == Source::Detected && sets != geometry.sets() {
            source = Source::Assumed(Why::Contradictory);
        }
        Ok(CacheInfo {
            level: self.level,
            kind: self.kind,
            geometry,
            shared_by: self.shared_by.clone(),
            source,
        })
    }
}

fn caches(root: &Path, processor: u32) -> Vec<Shown> {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{processor}/cache"));
    let read_one = |index: u32| {
        let folder = folder.join(format!("index{index}"));
        let kind = match read(&folder.join("type"))?.as_str() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => return None,
        };
        Some(Shown {
            level: number(&folder.join("level"))?,
            kind,
            size: read(&folder.join("size"))
                .and_then(|text| bytes(&text))
                .unwrap_or(0),
            line: number(&folder.join("coherency_line_size")),
            ways: number(&folder.join("ways_of_associativity")),
            sets: number(&folder.join("number_of_sets")),
            shared_by: read(&folder.join("shared_cpu_list"))
                .map(|text| list(&text))
                .unwrap_or_default(),
        })
    };
    (0..MAX_CACHES).filter_map(read_one).collect()
}

/// `32K`, `1M`, `512`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match text.get(digits.len()..)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn assumed(level: u32, at_least: u64, why: Why) -> CacheInfo {
    let (size, ways) = ASSUMED[(level.clamp(1, 3) - 1) as usize];
    let size = size.max(at_least.min(MAX_CACHE).next_power_of_two());
    CacheInfo {
        level,
        kind: if level == 1 {
            CacheKind::Data
        } else {
            CacheKind::Unified
        },
        geometry: CacheGeometry::new(size, ways, 64).unwrap_or(CacheGeometry::LARGEST),
        shared_by: Vec::new(),
        source: Source::Assumed(why),
    }
}

/// The caches for data, with what is missing or cannot be put in.
fn complete(shown: &[Shown]) -> DataCaches {
    let of_level = |level: fn(u32) -> bool| {
        let for_data = shown
            .iter()
            .filter(|cache| cache.kind != CacheKind::Instruction);
        for_data
            .filter(|cache| level(cache.level))
            .max_by_key(|cache| cache.level)
    };
    let l1 = match of_level(|level| level == 1).map(Shown::info) {
        Some(Ok(info)) => info,
        Some(Err(why)) => assumed(1, 0, why),
        None => assumed(1, 0, Why::NotShown),
    };
    // A level must be larger than the one before.
    let after = |before: &CacheInfo, level: u32, shown: Option<&Shown>| {
        let least = before.geometry.size();
        match shown.map(Shown::info) {
            Some(Ok(info)) if info.geometry.size() > least => Some(info),
            Some(Ok(_)) => Some(assumed(level, least.saturating_mul(8), Why::Contradictory)),
            Some(Err(why)) => Some(assumed(level, least.saturating_mul(8), why)),
            None => None,
        }
    };
    let l2 = after(&l1, 2, of_level(|level| level == 2));
    let l3 = of_level(|level| level > 2);
    let llc = after(l2.as_ref().unwrap_or(&l1), 3, l3);
    match (l2, llc) {
        (l2, Some(llc)) => DataCaches { l1, l2, llc },
        // There are processors whose second level is the last.
        (Some(llc), None) => DataCaches { l1, l2: None, llc },
        (None, None) => {
            let l2 = assumed(2, l1.geometry.size().saturating_mul(8), Why::NotShown);
            let llc = assumed(3, l2.geometry.size().saturating_mul(8), Why::NotShown);
            DataCaches {
                l1,
                l2: Some(l2),
                llc,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine that shows these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        root
    }

    fn caches_shown(caches: &[(&str, &str, &str, &str, &str)]) -> tempfile::TempDir {
        let root = machine(&[("sys/devices/system/cpu/online", "0")]);
        for (index, (level, kind, size, ways, sets)) in caches.iter().enumerate() {
            let folder = root
                .path()
                .join(format!("sys/devices/system/cpu/cpu0/cache/index{index}"));
            fs::create_dir_all(&folder).unwrap();
            for (name, content) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("ways_of_associativity", ways),
                ("number_of_sets", sets),
                ("coherency_line_size", &"64"),
                ("shared_cpu_list", &"0-1"),
            ] {
                if !content.is_empty() {
                    fs::write(folder.join(name), content).unwrap();
                }
            }
        }
        root
    }

    /// Size in KiB and source of each level for data.
    fn found(root: &tempfile::TempDir) -> Vec<(u64, Source)> {
        let data = Topology::of_system(root.path(), None).data;
        let all = [Some(data.l1), data.l2, Some(data.llc)];
        let found = all.into_iter().flatten();
        found
            .map(|cache| (cache.geometry.size() >> 10, cache.source))
            .collect()
    }

    use Source::{Assumed, Detected};

    #[test]
    fn caches_are_those_that_the_system_shows() {
        let root = caches_shown(&[
            ("1", "Data", "48K", "12", "64"),
            ("1", "Instruction", "32K", "8", "64"),
            ("2", "Unified", "1280K", "20", "1024"),
            ("3", "Unified", "30M", "12", "40960"),
        ]);
        assert_eq!(
            found(&root),
            [(48, Detected), (1280, Detected), (30 << 10, Detected)]
        );
        let topology = Topology::of_system(root.path(), None);
        assert_eq!(
            topology.l1i().map(|cache| cache.geometry.size()),
            Some(32 << 10)
        );
        assert_eq!(topology.data.llc.shared_by, [0, 1]);
        assert_eq!(topology.data.levels()[0].ways(), 12);
        assert_eq!(topology.data.sizes().llc, 30 << 20);
    }

    #[test]
    fn a_second_level_may_be_the_last() {
        let root = caches_shown(&[
            ("1", "Data", "32K", "8", "64"),
            ("2", "Unified", "128K", "8", "256"),
        ]);
        assert_eq!(found(&root), [(32, Detected), (128, Detected)]);
    }

    #[test]
    fn what_a_virtual_machine_hides_is_assumed() {
        let hidden = machine(&[]);
        let none = Assumed(Why::NotShown);
        assert_eq!(found(&hidden), [(32, none), (1024, none), (16 << 10, none)]);
        let topology = Topology::of_system(hidden.path(), None);
        assert_eq!((topology.source, topology.allowed()), (none, vec![0]));
        let only_first = caches_shown(&[("1", "Data", "64K", "4", "256")]);
        assert_eq!(
            found(&only_first),
            [(64, Detected), (1024, none), (16 << 10, none)]
        );
    }

    #[test]
    fn what_cannot_be_is_assumed_and_says_so() {
        let absurd = Assumed(Why::Absurd);
        let contradictory = Assumed(Why::Contradictory);
        let partly = Assumed(Why::PartlyShown);
        for (shown, expected) in [
            (
                [
                    ("1", "Data", "0K", "0", "0"),
                    ("2", "Unified", "0K", "", ""),
                    ("3", "Unified", "", "", ""),
                ],
                [(32, absurd), (1024, absurd), (16 << 10, absurd)],
            ),
            (
                [
                    ("1", "Data", "32K", "", ""),
                    ("2", "Unified", "512K", "0", ""),
                    ("3", "Unified", "16M", "16", "1"),
                ],
                [(32, partly), (512, partly), (16 << 10, contradictory)],
            ),
            (
                [
                    ("1", "Data", "32K", "8", "64"),
                    ("2", "Unified", "32K", "8", "64"),
                    ("3", "Unified", "8K", "8", "16"),
                ],
                [
                    (32, Detected),
                    (1024, contradictory),
                    (16 << 10, contradictory),
                ],
            ),
            (
                [
                    ("1", "Data", "32K", "7", "64"),
                    ("2", "Unified", "99999999999G", "8", ""),
                    ("3", "Unified", "-1", "x", ""),
                ],
                [(32, contradictory), (1024, absurd), (16 << 10, absurd)],
            ),
        ] {
            assert_eq!(found(&caches_shown(&shown)), expected, "{shown:?}");
        }
    }

    #[test]
    fn processors_are_those_that_are_online_and_allowed() {
        let root = machine(&[
            ("sys/devices/system/cpu/online", "0-2,5"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-5"),
            ("sys/devices/system/cpu/cpu1/topology/core_id", "7"),
            (
                "sys/devices/system/cpu/cpu1/topology/physical_package_id",
                "0",
            ),
            (
                "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
                "1,5",
            ),
        ]);
        let topology = Topology::of_system(root.path(), None);
        assert_eq!(topology.allowed(), [1, 2, 5]);
        assert_eq!(topology.processors.len(), 4);
        let second = &topology.processors[1];
        assert_eq!(
            (second.core, second.package, &second.siblings[..]),
            (Some(7), Some(0), &[1, 5][..])
        );
        assert!(topology.processors[0].siblings.is_empty());
    }

    #[test]
    fn lists_of_anything_are_bounded() {
        assert_eq!(list("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(
            list("0-4294967295,0-4294967295").len(),
            MAX_PROCESSORS as usize
        );
        assert!(list("x,-,7-3,,-1").is_empty());
    }

    #[test]
    fn a_level_that_no_load_shows_is_doubted() {
        let data = Topology::of_system(machine(&[]).path(), None).data;
        let calibration = |load_nanos| Calibration {
            cycle_nanos: 0.3,
            load_nanos,
            branch_nanos: 5.0,
        };
        assert_eq!(data.doubts(&calibration([1.5, 5.0, 20.0, 100.0])), []);
        let doubts = data.doubts(&calibration([1.5, 5.0, 5.1, 100.0]));
        assert_eq!(doubts.len(), 1);
        assert!(
            doubts[0]
                .to_string()
                .starts_with("LLC does not show: a load takes 5.1 ns"),
            "{}",
            doubts[0]
        );
    }

    #[test]
    fn this_machine_has_a_processor_and_caches_that_grow() {
        let topology = Topology::of_system(Path::new("/"), None);
        assert!(!topology.allowed().is_empty());
        let levels = topology.data.levels();
        assert!(
            levels
                .windows(2)
                .all(|pair| pair[0].size() < pair[1].size()),
            "{levels:?}"
        );
    }
}
