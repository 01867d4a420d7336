//! What misses cost on this machine, measured without counters: how long a load takes that depends on the one before, in working sets that fit one level
//! and not the one above.

use core::hint::black_box;
use core::time::Duration;
use std::fs;
use std::path::Path;

/// Bytes of a line of every cache there is in practice, or a multiple of them.
const LINE: usize = 64;
/// Loads of one measurement: about 1 ms where all miss.
const LOADS: usize = 1 << 14;
/// Of several measurements the quickest counts, as nobody disturbed it.
const TRIES: usize = 9;
/// The longest working set, bytes.
const MAX_SET: usize = 256 << 20;

/// Bytes of each level of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// First, for data.
    pub l1: usize,
    /// Second.
    pub l2: usize,
    /// Third, or the last before memory.
    pub llc: usize,
}

impl CacheSizes {
    /// As Linux says of the first processor, under `root` (`/`, except in tests); `None` if it does not.
    pub fn of_system(root: &Path) -> Option<Self> {
        let mut sizes = [0; 4];
        let caches = root.join("sys/devices/system/cpu/cpu0/cache");
        for entry in fs::read_dir(caches).ok()?.flatten() {
            let field = |name| {
                let text = fs::read_to_string(entry.path().join(name)).ok()?;
                Some(text.trim().to_owned())
            };
            let (Some(level), Some(kind), Some(size)) =
                (field("level"), field("type"), field("size"))
            else {
                continue;
            };
            let bytes = size
                .strip_suffix('K')
                .and_then(|size| size.parse::<usize>().ok());
            if let (Ok(level @ 1..=3), Some(size)) = (level.parse::<usize>(), bytes) {
                if kind != "Instruction" {
                    sizes[level] = size.saturating_mul(1024);
                }
            }
        }
        let [_, l1, l2, l3] = sizes;
        let llc = if l3 > 0 { l3 } else { l2 };
        (l1 > 0 && l2 > l1).then_some(Self { l1, l2, llc })
    }
}

/// What was measured. Penalties are what a level costs above the one before it, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Nanoseconds of a cycle, taken from a chain of operations that take one each.
    pub cycle_nanos: f64,
    /// Nanoseconds that a load takes from the first cache, the second, the last and memory.
    pub load_nanos: [f64; 4],
    /// Nanoseconds that a wrongly predicted branch costs.
    pub branch_nanos: f64,
}

impl Calibration {
    /// A penalty in cycles by the name that stacks know it by: `l2` what a miss of the first cache costs, `llc` one of the second, `memory` one of the last, and
    /// `branch`. Translations (`tlb`) are not measured.
    pub fn penalty(&self, name: &str) -> Option<f64> {
        let [l1, l2, llc, memory] = self.load_nanos;
        let nanos = match name {
            "l2" => l2 - l1,
            "llc" => llc - l2,
            "memory" => memory - llc,
            "branch" => self.branch_nanos,
            _ => return None,
        };
        let cycles = nanos / self.cycle_nanos;
        cycles.is_finite().then_some(cycles.max(0.0))
    }
}

/// Measures the penalties of the processor that this thread runs on; takes about a second, and up to 256 MiB. `clock` says how long it is since any moment.
///
/// Pages of two megabytes make memory look nearer than others find it, and neighbours that use the same caches make it look further.
pub fn calibrate(sizes: CacheSizes, mut clock: impl FnMut() -> Duration) -> Calibration {
    let sets = [
        sizes.l1 / 2,
        // Well beyond the level before, well within its own.
        (sizes.l2 / 2).max(sizes.l1 * 2),
        // No more pages than translations are kept of.
        (sizes.llc / 8).max(sizes.l2 * 2),
        sizes.llc.saturating_mul(4),
    ];
    let cycle_nanos = quickest(&mut clock, 1 << 16, chain).max(0.1) / CHAIN_CYCLES;
    let load_nanos = sets.map(|bytes| {
        let ring = ring(bytes.clamp(LINE * 2, MAX_SET) / LINE);
        let mut at = 0;
        quickest(&mut clock, LOADS, |loads| {
            for _ in 0..loads {
                at = ring[at].next as usize;
            }
            black_box(at);
        })
    });
    Calibration {
        cycle_nanos,
        load_nanos,
        branch_nanos: branch(&mut clock),
    }
}

/// Nanoseconds of one of `count` things.
fn quickest(
    clock: &mut impl FnMut() -> Duration,
    count: usize,
    mut work: impl FnMut(usize),
) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let start = clock();
        work(count);
        best = best.min(clock().saturating_sub(start));
    }
    best.as_secs_f64() * 1e9 / count as f64
}

/// Cycles of one step of [`chain`]: an exclusive or and a rotation that each wait for the one before, one cycle each wherever they are not one instruction.
const CHAIN_CYCLES: f64 = if cfg!(target_arch = "aarch64") {
    1.0
} else {
    2.0
};

pub(super) fn chain(steps: usize) {
    let key = black_box(0x9E37_79B9_7F4A_7C15_u64);
    let mut x = black_box(1_u64);
    for _ in 0..steps / 8 {
        // Unrolled, so that the loop itself costs nothing.
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
        x = (x ^ key).rotate_left(1);
    }
    black_box(x);
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    next: u32,
}

/// Lines, each of which names another, all in one round, in an order that no prefetcher guesses.
fn ring(lines: usize) -> Vec<Line> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let mut ring = vec![Line { next: 0 }; lines];
    for (at, line) in order.iter().enumerate() {
        ring[*line as usize].next = order[(at + 1) % lines];
    }
    ring
}

/// Nanoseconds of a wrong prediction: the same branches, in an order that is known and in one that is not, half of which is guessed wrongly.
fn branch(clock: &mut impl FnMut() -> Duration) -> f64 {
    let mut random = FIRST_RANDOM;
    let mut time = |mask: u64| quickest(clock, LOADS, |count| branches(&mut random, mask, count));
    let (unknown, known) = (time(1 << 33), time(0));
    (2.0 * (unknown - known)).max(0.0)
}

/// What [`branches`] begin with; anything but 0.
pub(crate) const FIRST_RANDOM: u64 = 0x9E37_79B9_7F4A_7C15;

/// `count` branches that go one way where the bits of `mask` are all clear in a random number: always with none, half the time with one.
pub(crate) fn branches(random: &mut u64, mask: u64, count: usize) {
    let mask = black_box(mask);
    let mut sum = 0_u64;
    let mut number = *random;
    for _ in 0..count {
        // Never the same twice: predictors learn thousands of choices.
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        // Opaque on both sides, so that it stays a branch.
        if number & mask == 0 {
            sum = black_box(sum + 1);
        } else {
            sum = black_box(sum ^ 3);
        }
    }
    black_box(sum);
    *random = number;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_what_a_level_costs_above_the_one_before() {
        let calibration = Calibration {
            cycle_nanos: 0.5,
            load_nanos: [2.0, 6.0, 20.0, 19.0],
            branch_nanos: 8.0,
        };
        let penalty = |name| calibration.penalty(name);
        assert_eq!(penalty("l2"), Some(8.0));
        assert_eq!(penalty("llc"), Some(28.0));
        assert_eq!(penalty("memory"), Some(0.0));
        assert_eq!(penalty("branch"), Some(16.0));
        assert_eq!(penalty("tlb"), None);
    }

    #[test]
    fn the_ring_goes_through_every_line_once() {
        let ring = ring(1000);
        let mut seen = vec![false; 1000];
        let mut at = 0;
        for _ in 0..1000 {
            assert!(!core::mem::replace(&mut seen[at], true));
            at = ring[at].next as usize;
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_nonsense() {
        let sizes = CacheSizes {
            l1: 1 << 15,
            l2: 1 << 17,
            llc: 1 << 18,
        };
        let calibration = calibrate(sizes, || Duration::ZERO);
        for name in ["l2", "llc", "memory", "branch"] {
            assert_eq!(calibration.penalty(name), Some(0.0));
        }
    }

    #[test]
    fn sizes_are_those_that_the_system_shows() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(CacheSizes::of_system(root.path()), None);
        for (index, level, kind, size) in [
            (0, 1, "Data", "32K"),
            (1, 1, "Instruction", "64K"),
            (2, 2, "Unified", "1024K"),
            (3, 3, "Unified", "32768K"),
        ] {
            let directory = root
                .path()
                .join(format!("sys/devices/system/cpu/cpu0/cache/index{index}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("level"), format!("{level}\n")).unwrap();
            fs::write(directory.join("type"), format!("{kind}\n")).unwrap();
            fs::write(directory.join("size"), format!("{size}\n")).unwrap();
        }
        let expected = CacheSizes {
            l1: 32 << 10,
            l2: 1 << 20,
            llc: 32 << 20,
        };
        assert_eq!(CacheSizes::of_system(root.path()), Some(expected));
    }
}
