//! A simulated cache: sets, ways, lines, levels. It knows which accesses would hit, and nothing of time.
//!
//! It is what miss ratios are judged by where no hardware counter is, and what stands for the machine in tests.
//!
//! ```
//! use tautline::loadgen::cache::{CacheGeometry, CacheSim, Replacement};
//!
//! let l1d = CacheGeometry::new(32 << 10, 8, 64)?;
//! let llc = CacheGeometry::new(1 << 20, 16, 64)?;
//! let mut caches = CacheSim::new(&[l1d, llc], Replacement::Lru);
//! assert_eq!(caches.access(0), 2, "from memory");
//! assert_eq!(caches.access(63), 0, "from the first level: the same line");
//! assert_eq!(caches.counts(0).misses, 1);
//! # Ok::<(), tautline::loadgen::cache::GeometryError>(())
//! ```

use thiserror::Error;

/// The longest cache that is simulated or detected, bytes.
pub const MAX_CACHE: u64 = 4 << 30;
/// The most ways of a set.
pub const MAX_WAYS: u32 = 64;

/// Why there is no cache of this shape.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// Lines are powers of two.
    #[error("lines of {given} bytes: it must be a power of two, 16 to 4096")]
    Line {
        /// Bytes of a line.
        given: u32,
    },
    /// There are no so many ways.
    #[error("{given} ways: there must be 1 to {MAX_WAYS}")]
    Ways {
        /// Ways of a set.
        given: u32,
    },
    /// The ways of at least one set must make the size.
    #[error("{given} bytes are no whole number of sets of {set} bytes, up to {MAX_CACHE}")]
    Size {
        /// Bytes of the cache.
        given: u64,
        /// Bytes of one set.
        set: u64,
    },
}

/// The shape of one cache. The number of sets need not be a power of two, as it is not where slices of odd number share a last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheGeometry {
    size: u64,
    ways: u32,
    line: u32,
}

impl CacheGeometry {
    /// As large as any may be.
    pub(super) const LARGEST: Self = Self {
        size: MAX_CACHE,
        ways: 16,
        line: 64,
    };

    /// A cache of `size` bytes, in sets of `ways` lines of `line` bytes.
    ///
    /// # Errors
    ///
    /// Numbers that no cache has.
    pub const fn new(size: u64, ways: u32, line: u32) -> Result<Self, GeometryError> {
        if !line.is_power_of_two() || line < 16 || line > 4096 {
            return Err(GeometryError::Line { given: line });
        }
        if ways == 0 || ways > MAX_WAYS {
            return Err(GeometryError::Ways { given: ways });
        }
        let set = ways as u64 * line as u64;
        if size == 0 || size % set != 0 || size > MAX_CACHE {
            return Err(GeometryError::Size { given: size, set });
        }
        Ok(Self { size, ways, line })
    }

    /// Bytes.
    pub const fn size(self) -> u64 {
        self.size
    }

    /// Lines of a set.
    pub const fn ways(self) -> u32 {
        self.ways
    }

    /// Bytes of a line.
    pub const fn line(self) -> u32 {
        self.line
    }

    /// Sets.
    pub const fn sets(self) -> u64 {
        self.size / (self.ways as u64 * self.line as u64)
    }

    /// Lines.
    pub const fn lines(self) -> u64 {
        self.size / self.line as u64
    }
}

/// Which line of a set goes for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was used longest ago.
    #[default]
    Lru,
    /// One by a tree of bits, each of which points away from what was used last: what most first levels do, the p4080's among them.
    PseudoLru,
}

/// What a level has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Accesses that came to it: all of them for the first level, misses of the one before for others.
    pub accesses: u64,
    /// Those that it did not have.
    pub misses: u64,
}

impl LevelCounts {
    /// Misses of the accesses that came to this level, 0 to 1; 0 if none came.
    pub fn miss_ratio(self) -> f64 {
        if self.accesses == 0 {
            return 0.0;
        }
        self.misses as f64 / self.accesses as f64
    }
}

/// Levels of caches, the first asked first. A miss brings the line into every level that was asked; levels neither hold what those before them hold on purpose, nor
/// take it back.
#[derive(Clone, Debug)]
pub struct CacheSim {
    levels: Vec<Level>,
}

impl CacheSim {
    /// Empty caches of these shapes, from the first level on. Each takes 8 bytes for each of its lines.
    pub fn new(levels: &[CacheGeometry], replacement: Replacement) -> Self {
        let levels = levels.iter().map(|level| Level::new(*level, replacement));
        Self {
            levels: levels.collect(),
        }
    }

    /// Reads the byte at `address`; which level had it, from 0, or the number of levels if it came from memory.
    pub fn access(&mut self, address: u64) -> usize {
        let found = self
            .levels
            .iter_mut()
            .position(|level| level.access(address));
        found.unwrap_or(self.levels.len())
    }

    /// What level `level` (from 0) has seen since the last [`Self::forget_counts`]; nothing if there is no such level.
    pub fn counts(&self, level: usize) -> LevelCounts {
        self.levels
            .get(level)
            .map(|level| level.counts)
            .unwrap_or_default()
    }

    /// Counts anew; what is in the caches stays.
    pub fn forget_counts(&mut self) {
        for level in &mut self.levels {
            level.counts = LevelCounts::default();
        }
    }
}

/// No line has this number: addresses are of 64 bits, and lines have several.
const NOTHING: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Level {
    geometry: CacheGeometry,
    sets: u64,
    replacement: Replacement,
    /// Numbers of lines, the ways of each set together. With LRU, those used last stand first.
    lines: Vec<u64>,
    /// With pseudo-LRU, the bits of each set's tree: bit `n` of node `n`, counted from 1 at the root; set, it points right.
    trees: Vec<u64>,
    counts: LevelCounts,
}

impl Level {
    fn new(geometry: CacheGeometry, replacement: Replacement) -> Self {
        let trees = match replacement {
            Replacement::Lru => 0,
            Replacement::PseudoLru => geometry.sets() as usize,
        };
        Self {
            geometry,
            sets: geometry.sets(),
            replacement,
            lines: vec![NOTHING; geometry.lines() as usize],
            trees: vec![0; trees],
            counts: LevelCounts::default(),
        }
    }

    fn access(&mut self, address: u64) -> bool {
        let line = address / u64::from(self.geometry.line);
        let set = (line % self.sets) as usize;
        let ways = self.geometry.ways as usize;
        let lines = &mut self.lines[set * ways..(set + 1) * ways];
        let found = lines.iter().position(|held| *held == line);
        match self.replacement {
            Replacement::Lru => {
                let way = found.unwrap_or(ways - 1);
                lines[..=way].rotate_right(1);
                lines[0] = line;
            }
            Replacement::PseudoLru => {
                let tree = &mut self.trees[set];
                let way = found
                    .or_else(|| lines.iter().position(|held| *held == NOTHING))
                    .unwrap_or_else(|| victim(*tree, ways));
                *tree = point_away(*tree, ways, way);
                lines[way] = line;
            }
        }
        self.counts.accesses += 1;
        self.counts.misses += u64::from(found.is_none());
        found.is_some()
    }
}

/// The way that the tree points to. Where ways are no power of two, the tree's right side is cut off, and what points there goes left.
fn victim(tree: u64, ways: usize) -> usize {
    let (mut node, mut first, mut span) = (1, 0, ways.next_power_of_two());
    while span > 1 {
        span /= 2;
        let is_right = tree >> node & 1 == 1 && first + span < ways;
        first += if is_right { span } else { 0 };
        node = 2 * node + usize::from(is_right);
    }
    first
}

/// The tree after `way` was used.
fn point_away(mut tree: u64, ways: usize, way: usize) -> u64 {
    let (mut node, mut first, mut span) = (1, 0, ways.next_power_of_two());
    while span > 1 {
        span /= 2;
        let is_right = way >= first + span;
        tree = if is_right {
            tree & !(1 << node)
        } else {
            tree | 1 << node
        };
        first += if is_right { span } else { 0 };
        node = 2 * node + usize::from(is_right);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(ways: u32, replacement: Replacement) -> CacheSim {
        let geometry = CacheGeometry::new(u64::from(ways) * 64, ways, 64).unwrap();
        CacheSim::new(&[geometry], replacement)
    }

    #[test]
    fn lru_takes_the_line_that_was_used_longest_ago() {
        let mut cache = one(2, Replacement::Lru);
        for (address, level) in [(0, 1), (64, 1), (0, 0), (128, 1), (0, 0), (64, 1), (128, 1)] {
            assert_eq!(cache.access(address), level, "{address}");
        }
        assert_eq!(
            cache.counts(0),
            LevelCounts {
                accesses: 7,
                misses: 5
            }
        );
    }

    #[test]
    fn a_tree_of_bits_takes_its_ways_in_turn_when_nothing_is_used_again() {
        let mut tree = 0;
        let mut order = Vec::new();
        for _ in 0..8 {
            let way = victim(tree, 8);
            tree = point_away(tree, 8, way);
            order.push(way);
        }
        assert_eq!(order, [0, 4, 2, 6, 1, 5, 3, 7]);
    }

    #[test]
    fn a_tree_never_points_beyond_ways_that_are_no_power_of_two_and_reaches_all() {
        for ways in [1, 3, 5, 6, 7, 11, 12, 20] {
            let (mut tree, mut seen) = (u64::MAX, vec![0; ways]);
            for _ in 0..40 * ways {
                let way = victim(tree, ways);
                seen[way] += 1;
                tree = point_away(tree, ways, way);
            }
            assert!(seen.iter().all(|times| *times > 0), "{ways} ways: {seen:?}");
        }
    }

    #[test]
    fn what_was_used_last_is_never_taken_by_either() {
        for replacement in [Replacement::Lru, Replacement::PseudoLru] {
            for ways in [2, 4, 8, 12] {
                let mut cache = one(ways, replacement);
                let mut random = fastrand::Rng::with_seed(1);
                for _ in 0..10_000 {
                    let address = random.u64(0..40) * 64;
                    cache.access(address);
                    assert_eq!(cache.access(address), 0);
                }
            }
        }
    }

    #[test]
    fn a_working_set_of_the_size_of_the_cache_hits_and_one_line_more_in_each_set_never() {
        for (size, ways) in [(32 << 10, 8), (48 << 10, 12), (1536 << 10, 16)] {
            let geometry = CacheGeometry::new(size, ways, 64).unwrap();
            for (bytes, ratio) in [(size, 0.0), (size + geometry.sets() * 64, 1.0)] {
                let mut cache = CacheSim::new(&[geometry], Replacement::Lru);
                for round in 0..4 {
                    if round == 1 {
                        cache.forget_counts();
                    }
                    for address in (0..bytes).step_by(64) {
                        cache.access(address);
                    }
                }
                let found = cache.counts(0).miss_ratio();
                assert!((found - ratio).abs() < 1e-12, "{size}/{ways}: {found}");
            }
        }
    }

    #[test]
    fn only_misses_come_to_the_next_level() {
        let l1 = CacheGeometry::new(1 << 10, 2, 64).unwrap();
        let l2 = CacheGeometry::new(8 << 10, 4, 64).unwrap();
        let mut caches = CacheSim::new(&[l1, l2], Replacement::Lru);
        for _ in 0..10 {
            for address in (0..4096).step_by(64) {
                caches.access(address);
            }
        }
        assert_eq!(
            caches.counts(0),
            LevelCounts {
                accesses: 640,
                misses: 640
            }
        );
        assert_eq!(
            caches.counts(1),
            LevelCounts {
                accesses: 640,
                misses: 64
            }
        );
        assert_eq!(caches.counts(2), LevelCounts::default());
    }

    #[test]
    fn no_cache_has_such_a_shape() {
        for (size, ways, line) in [
            (0, 8, 64),
            (32 << 10, 0, 64),
            (32 << 10, 65, 64),
            (32 << 10, 8, 0),
            (32 << 10, 8, 48),
            (1000, 8, 64),
            (8 << 30, 8, 64),
            (u64::MAX, u32::MAX, 1 << 31),
        ] {
            assert!(
                CacheGeometry::new(size, ways, line).is_err(),
                "{size}/{ways}/{line}"
            );
        }
    }
}
