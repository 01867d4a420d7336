//! Accesses to memory with miss ratios that were asked for.
//!
//! What listing 6.2 of the thesis means: walk all sets of the first cache, mostly within what it holds, and leave it for a share of the accesses, and the last cache for a
//! share of those. Other than there,
//!
//! * the shares are exact: two accumulators carry what is left from access to access, where `i % ratio` is true for all values *but* the multiples, and cannot say 3.3 %;
//! * an access that is to miss goes to a line that is sure not to be there: the next of a round through more lines than the caches hold, where the listing moves on by a
//!   line or the size of the cache, and comes back to what it has just read;
//! * what hits is not pushed out by what misses: it keeps to so few ways that the misses between two of its rounds fit the others;
//! * each access reads what says where the next one goes, so that the walk needs no table beside it whose reads would count too, the loop keeps the rest in registers, and
//!   the processor cannot guess ahead.
//!
//! ```text
//!         hits                 miss the first cache          miss all of them
//!  +---------------+------------------------------------+---- .. ----------------+
//!  | hot: <= ways/4|  near: more lines than the first   | far: four times as     |
//!  | of each set   |  cache holds, fewer than the next  | much as the last holds |
//!  +---------------+------------------------------------+---- .. ----------------+
//! ```
//!
//! A read of a near line comes back to it after the whole near round, with what was read of the far one in between: that many different lines, which is more than the first
//! cache holds and less than the next. Each round goes through the sets of the first cache in turn, so that misses fall upon all of them alike.

use core::fmt;
use core::hint::black_box;

use thiserror::Error;

use super::cache::CacheGeometry;

/// Bytes of a line of memory as the pattern sees it.
pub const LINE: usize = 64;
/// The most memory that a pattern takes, bytes.
pub const MAX_PATTERN: u64 = 2 << 30;
/// How many times the last cache the far round is long. Twice would do where the line that was used longest ago goes; caches that do otherwise keep some lines of a round for
/// the next, at most what they hold.
const FAR: u64 = 4;

/// Shares of accesses that are to miss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissRatios {
    /// Of all accesses, those that miss the first cache for data, 0 to 1.
    pub l1d: f64,
    /// Of those that miss the first cache, those that miss the last one before memory too, 0 to 1. (The thesis asks for 3.3 % and 22 %: 0.73 % of all accesses.)
    pub llc: f64,
}

impl MissRatios {
    /// These shares, or the nearest that there are; what is not a number is none.
    pub fn new(l1d: f64, llc: f64) -> Self {
        let share = |given: f64| {
            if given.is_nan() {
                0.0
            } else {
                given.clamp(0.0, 1.0)
            }
        };
        Self {
            l1d: share(l1d),
            llc: share(llc),
        }
    }

    /// Of all accesses, those that go to memory, 0 to 1.
    pub fn memory(self) -> f64 {
        self.l1d * self.llc
    }
}

impl fmt::Display for MissRatios {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (l1d, llc) = (100.0 * self.l1d, 100.0 * self.llc);
        write!(formatter, "{l1d:.2} % L1D, {llc:.2} % LLC")
    }
}

/// Why there is no pattern for these caches.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// A level must hold at least twice what the one before holds, or no line misses the one and surely hits the other.
    #[error(
        "a cache of {next} bytes behind one of {first}: it must be twice as large for accesses that miss the one and hit the other"
    )]
    TooSmall {
        /// Bytes of the level that is to be missed.
        first: u64,
        /// Bytes of the one that is to be hit.
        next: u64,
    },
    /// There are no levels.
    #[error("no caches are given")]
    NoCaches,
    /// To miss a cache of this size takes more memory than may be had.
    #[error("to miss a cache of {llc} bytes takes {needed}, and there may be {max} at most")]
    TooLarge {
        /// Bytes of the last cache.
        llc: u64,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there may be.
        max: u64,
    },
    /// The system has no memory.
    #[error("no memory of {needed} bytes is to be had")]
    Memory {
        /// Bytes that it takes.
        needed: u64,
    },
}

/// Which level the accesses that miss the first cache and not the last are to find their lines in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The one after the first.
    #[default]
    Second,
    /// The last one, missing all before it. With two levels it is the same.
    Last,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    next: u32,
}

/// A walk through memory of its own. It is an endless iterator over the addresses, in bytes from the beginning of that memory; to compute the next one reads the line, so
/// that whoever iterates also makes the accesses.
#[derive(Clone, Debug)]
pub struct Pattern {
    lines: Vec<Line>,
    shape: Shape,
    ratios: MissRatios,
    steps: Steps,
    at: Position,
}

/// Where the rounds lie, in lines.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Sets of the first cache.
    sets: usize,
    /// Lines of each set that hits may take.
    hot_ways: usize,
    /// Lines of a set that are missed one after the other. Where a tree of bits stands for what was used last, hits keep pointing it away from themselves and their neighbours, which
    /// stay and are found again; as many misses in a row as half of the ways reach them all, and leave what hits alone.
    burst: usize,
    /// Different lines between two reads of a near one.
    distance: usize,
    far: usize,
}

impl Shape {
    fn near_begin(self) -> usize {
        self.sets * self.hot_ways
    }

    fn far_begin(self) -> usize {
        self.near_begin() + self.distance
    }

    fn bytes(self, is_far: bool) -> u64 {
        let far = if is_far { self.far } else { 0 };
        ((self.far_begin() + far) * LINE) as u64
    }
}

/// What is added to the accumulators: 2^32 is a miss.
#[derive(Clone, Copy, Debug)]
struct Steps {
    miss: u64,
    far: u64,
}

const WHOLE: u64 = 1 << 32;

/// Where the walk is: all that the loop has to keep.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    miss: u64,
    beyond: u64,
    hot: u32,
    near: u32,
    far: u32,
}

impl Position {
    /// The one access: reads a line, which says where its round goes on. Returns the line's number.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "as a call of its own it would read and write memory"
    )]
    fn advance(&mut self, lines: &[Line], steps: Steps) -> u32 {
        let line;
        self.miss += steps.miss;
        if self.miss < WHOLE {
            line = self.hot;
            self.hot = lines[line as usize].next;
        } else {
            self.miss -= WHOLE;
            self.beyond += steps.far;
            if self.beyond < WHOLE {
                line = self.near;
                self.near = lines[line as usize].next;
            } else {
                self.beyond -= WHOLE;
                line = self.far;
                self.far = lines[line as usize].next;
            }
        }
        line
    }
}

impl Pattern {
    /// A pattern for these caches, the first level first, that misses as `ratios` say. Once it is to miss the last cache, it takes four times as much memory as that holds.
    ///
    /// # Errors
    ///
    /// Caches that cannot be told apart, and no memory.
    pub fn new(
        caches: &[CacheGeometry],
        reach: Reach,
        ratios: MissRatios,
    ) -> Result<Self, PatternError> {
        let shape = shape(caches, reach)?;
        let mut pattern = Self {
            lines: Vec::new(),
            shape,
            ratios,
            steps: Steps { miss: 0, far: 0 },
            at: Position::default(),
        };
        let (llc, needed) = (caches.last().map_or(0, |llc| llc.size()), shape.bytes(true));
        if needed > MAX_PATTERN {
            let max = MAX_PATTERN;
            return Err(PatternError::TooLarge { llc, needed, max });
        }
        pattern.reserve(false)?;
        pattern.set_ratios(ratios)?;
        Ok(pattern)
    }

    /// Has memory for the rounds, the far one among them or not; it is touched, so that each page is one of its own.
    fn reserve(&mut self, is_far: bool) -> Result<(), PatternError> {
        let needed = self.shape.bytes(is_far);
        let more = (needed as usize / LINE).saturating_sub(self.lines.len());
        if self.lines.try_reserve_exact(more).is_err() {
            return Err(PatternError::Memory { needed });
        }
        self.lines.resize(self.lines.len() + more, Line { next: 0 });
        Ok(())
    }

    /// The ratios that it goes by.
    pub fn ratios(&self) -> MissRatios {
        self.ratios
    }

    /// Misses as `ratios` say from now on. Takes as long as it takes to write half of the second cache, as rounds are laid anew, and once four times the last one.
    ///
    /// # Errors
    ///
    /// There is no memory to miss the last cache with; everything stays as it was.
    pub fn set_ratios(&mut self, ratios: MissRatios) -> Result<(), PatternError> {
        let ratios = MissRatios::new(ratios.l1d, ratios.llc);
        let had = self.lines.len();
        if ratios.llc > 0.0 {
            self.reserve(true)?;
        }
        if self.lines.len() > had {
            round(
                &mut self.lines,
                self.shape.far_begin(),
                self.shape.far,
                self.shape.sets,
                1,
            );
            self.at.far = self.shape.far_begin() as u32;
        }
        let Shape {
            sets,
            hot_ways,
            burst,
            distance,
            ..
        } = self.shape;
        // One miss in each set, in the mean, while hits go their round once: even caches that only nearly know what was used last keep their lines then.
        let hot = (sets as f64 * (1.0 - ratios.l1d) / ratios.l1d.max(1e-9)) as usize;
        let hot = hot.clamp(1, sets * hot_ways);
        // What is read of the far round meanwhile pushes out as much as what is not read of this one. Whole ways of it, so that misses fall upon all sets alike.
        let near = (distance as f64 * (1.0 - ratios.llc)) as usize / sets * sets;
        let near = near.max(sets.min(distance));
        round(&mut self.lines, 0, hot, sets, 1);
        round(&mut self.lines, self.shape.near_begin(), near, sets, burst);
        self.ratios = ratios;
        self.steps = Steps {
            miss: (ratios.l1d * WHOLE as f64).round() as u64,
            far: (ratios.llc * WHOLE as f64).round() as u64,
        };
        self.at = Position {
            hot: 0,
            near: self.shape.near_begin() as u32,
            ..self.at
        };
        Ok(())
    }

    /// Makes `count` accesses, and nothing else that touches memory.
    #[inline(never)]
    pub fn walk(&mut self, count: u64) {
        let lines = self.lines.as_slice();
        let steps = self.steps;
        let mut at = self.at;
        let mut left = count;
        while left > 0 {
            at.advance(lines, steps);
            left -= 1;
        }
        self.at = black_box(at);
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> u64 {
        (self.lines.len() * LINE) as u64
    }

    /// Accesses after which every line that is to be hit has been read once: until then some miss for being read for the first time.
    pub fn warm_up(&self) -> u64 {
        // The near round is as much shorter as it is read less often than the first cache is missed.
        let near = if self.ratios.l1d > 0.0 {
            self.shape.distance as f64 / self.ratios.l1d
        } else {
            0.0
        };
        // Where nothing is to be hit, no line is read for that.
        let hot = if self.ratios.l1d < 1.0 {
            self.shape.near_begin() as f64 / (1.0 - self.ratios.l1d)
        } else {
            0.0
        };
        near.max(hot) as u64
    }
}

impl Iterator for Pattern {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let line = self.at.advance(&self.lines, self.steps);
        Some(u64::from(line) * LINE as u64)
    }
}

fn shape(caches: &[CacheGeometry], reach: Reach) -> Result<Shape, PatternError> {
    let (Some(first), Some(last)) = (caches.first(), caches.last()) else {
        return Err(PatternError::NoCaches);
    };
    let (missed, hit) = match (reach, caches) {
        (Reach::Second, [_, second, ..]) => (first, second),
        (Reach::Last, [.., before, _]) => (before, last),
        (_, [_]) => (first, first),
        (_, []) => return Err(PatternError::NoCaches),
    };
    let (missed, hit) = (missed.size(), hit.size());
    let too_small = PatternError::TooSmall {
        first: missed,
        next: hit,
    };
    if caches
        .windows(2)
        .any(|pair| pair[1].size() < pair[0].size())
        || hit / 2 < missed
    {
        return Err(too_small);
    }
    let distance = if hit / 4 >= missed {
        hit / 2
    } else {
        u64::midpoint(missed, hit)
    };
    // Sets by lines of 64 bytes: a longer line of the cache is several of these.
    let sets = first.size() as usize / LINE / first.ways() as usize;
    let whole = |bytes: u64| (bytes as usize / LINE).div_ceil(sets.max(1)) * sets.max(1);
    Ok(Shape {
        sets: sets.max(1),
        hot_ways: (first.ways() as usize / 4).max(1),
        burst: (first.ways() as usize / 2).max(1),
        distance: whole(distance),
        far: whole(last.size().saturating_mul(FAR)),
    })
}

/// Lays one round through `count` lines from `begin` on: set after set in an order that goes up and down, `burst` lines of each, and for each set from tag to tag in strides
/// that no two accesses in a row share a page by, and that spread evenly over the sets of larger caches.
fn round(lines: &mut [Line], begin: usize, count: usize, sets: usize, burst: usize) {
    let sets = sets.min(count);
    let tags = count / sets;
    let stride = stride(tags);
    let mut random = fastrand::Rng::with_seed(1);
    let offset = |set| (set, random.usize(0..tags));
    let mut order: Vec<(usize, usize)> = (0..sets).map(offset).collect();
    random.shuffle(&mut order);
    let mut last = None;
    let mut first = begin;
    for turn in (0..tags).step_by(burst) {
        for (set, offset) in &order {
            for turn in turn..tags.min(turn + burst) {
                let line = begin + (turn * stride + offset) % tags * sets + set;
                match last {
                    Some(last) => link(lines, last, line),
                    None => first = line,
                }
                last = Some(line);
            }
        }
    }
    link(lines, last.unwrap_or(begin), first);
}

fn link(lines: &mut [Line], from: usize, to: usize) {
    lines[from].next = to as u32;
}

/// A step that comes by all of `count` before it comes back, each far from the one before: near the golden section, without a common divisor.
fn stride(count: usize) -> usize {
    let golden = (count as f64 * 0.618) as usize;
    let shares_none = |step: &usize| {
        let (mut a, mut b) = (*step, count);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (golden.max(1)..=count).find(shares_none).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::cache::{CacheSim, Replacement};

    fn caches(shapes: &[(u64, u32)]) -> Vec<CacheGeometry> {
        let cache = |(kib, ways): &(u64, u32)| CacheGeometry::new(kib << 10, *ways, 64).unwrap();
        shapes.iter().map(cache).collect()
    }

    /// Misses found: of all accesses in the first cache, and of those in the last one.
    fn found(
        pattern: &mut Pattern,
        caches: &[CacheGeometry],
        replacement: Replacement,
    ) -> MissRatios {
        let mut simulated = CacheSim::new(caches, replacement);
        let warm_up = pattern.warm_up() + 20_000;
        for address in pattern.by_ref().take(warm_up as usize) {
            simulated.access(address);
        }
        simulated.forget_counts();
        for address in pattern.by_ref().take(200_000) {
            simulated.access(address);
        }
        let (first, last) = (simulated.counts(0), simulated.counts(caches.len() - 1));
        MissRatios::new(
            first.miss_ratio(),
            last.misses as f64 / first.misses.max(1) as f64,
        )
    }

    const L1D: [f64; 4] = [0.01, 0.033, 0.1, 0.25];
    const LLC: [f64; 3] = [0.01, 0.05, 0.2];

    #[test]
    fn ratios_asked_are_found_in_simulated_caches() {
        let shapes: [(&str, &[(u64, u32)]); 5] = [
            ("32K/8, 512K/16", &[(32, 8), (512, 16)]),
            ("48K/12, 640K/20", &[(48, 12), (640, 20)]),
            ("p4080: 32K/8, 128K/8", &[(32, 8), (128, 8)]),
            ("32K/8, 768K/16 of 768 sets", &[(32, 8), (768, 16)]),
            (
                "32K/8, 256K/4, 1152K/12 of 1536 sets",
                &[(32, 8), (256, 4), (1152, 12)],
            ),
        ];
        for (name, shape) in shapes {
            let caches = caches(shape);
            for replacement in [Replacement::Lru, Replacement::PseudoLru] {
                let mut worst = MissRatios::default();
                let asked = L1D
                    .iter()
                    .flat_map(|l1d| LLC.map(|llc| MissRatios::new(*l1d, llc)));
                let mut pattern =
                    Pattern::new(&caches, Reach::Second, MissRatios::default()).unwrap();
                for asked in asked {
                    pattern.set_ratios(asked).unwrap();
                    let found = found(&mut pattern, &caches, replacement);
                    worst.l1d = worst.l1d.max((found.l1d - asked.l1d).abs());
                    worst.llc = worst.llc.max((found.llc - asked.llc).abs());
                }
                println!("{name}, {replacement:?}: {worst} off at most");
                // With one miss in a hundred, a tree of bits is touched by hits between any two: of the near round an eighth stays in a first cache with half as many ways, which
                // makes of 20 % of the misses 23 %.
                let bound = match replacement {
                    Replacement::Lru => MissRatios::new(0.000_2, 0.000_2),
                    Replacement::PseudoLru => MissRatios::new(0.002, 0.03),
                };
                assert!(
                    worst.l1d <= bound.l1d && worst.llc <= bound.llc,
                    "{name}, {replacement:?}: {worst}"
                );
            }
        }
    }

    #[test]
    fn any_ratios_are_found() {
        let caches = caches(&[(32, 8), (256, 16)]);
        let mut pattern = Pattern::new(&caches, Reach::Second, MissRatios::default()).unwrap();
        for l1d in [0.0, 0.02, 0.5, 0.8, 0.99, 1.0] {
            for llc in [0.0, 0.5, 0.9, 1.0] {
                let asked = MissRatios::new(l1d, llc);
                pattern.set_ratios(asked).unwrap();
                let found = found(&mut pattern, &caches, Replacement::Lru);
                assert!((found.l1d - asked.l1d).abs() < 0.002, "{asked}: {found}");
                let off = (found.llc - asked.llc).abs();
                assert!(l1d < 1e-9 || off < 0.02, "{asked}: {found}");
            }
        }
    }

    #[test]
    fn the_last_level_is_reached_past_the_second() {
        let caches = caches(&[(32, 8), (128, 8), (1024, 16)]);
        let all = MissRatios::new(1.0, 0.0);
        let mut pattern = Pattern::new(&caches, Reach::Last, all).unwrap();
        let mut simulated = CacheSim::new(&caches, Replacement::Lru);
        for address in pattern.by_ref().take(40_000) {
            simulated.access(address);
        }
        simulated.forget_counts();
        for address in pattern.by_ref().take(40_000) {
            assert_eq!(simulated.access(address), 2);
        }
    }

    #[test]
    fn the_walk_makes_the_accesses_that_the_iterator_names() {
        let caches = caches(&[(32, 8), (128, 8)]);
        let ratios = MissRatios::new(0.1, 0.2);
        let mut walked = Pattern::new(&caches, Reach::Second, ratios).unwrap();
        let mut named = walked.clone();
        walked.walk(12_345);
        let memory = walked.memory();
        assert!(named.by_ref().take(12_345).all(|address| address < memory));
        assert!(walked.take(1000).eq(named.take(1000)));
    }

    #[test]
    fn shares_are_exact_whatever_the_number_of_accesses() {
        let caches = caches(&[(32, 8), (128, 8)]);
        let ratios = MissRatios::new(0.033, 0.22);
        let mut pattern = Pattern::new(&caches, Reach::Second, ratios).unwrap();
        let hot = (pattern.shape.near_begin() * LINE) as u64;
        let far = (pattern.shape.far_begin() * LINE) as u64;
        let (mut missed, mut beyond) = (0, 0);
        for made in 1..=100_000_u32 {
            let address = pattern.next().unwrap();
            missed += u32::from(address >= hot);
            beyond += u32::from(address >= far);
            assert!((f64::from(missed) - 0.033 * f64::from(made)).abs() <= 1.0);
            assert!((f64::from(beyond) - 0.22 * f64::from(missed)).abs() <= 1.0);
        }
    }

    #[test]
    fn a_round_comes_by_all_of_its_lines() {
        for (count, sets) in [(1, 64), (64, 64), (100, 1), (640, 64), (4096, 64)] {
            let mut lines = vec![Line { next: 0 }; count + 10];
            round(&mut lines, 10, count, sets, 3);
            let mut seen = vec![false; count];
            let mut at = 10;
            for _ in 0..count {
                assert!(
                    !core::mem::replace(&mut seen[at - 10], true),
                    "{count}/{sets}"
                );
                at = lines[at].next as usize;
            }
            assert_eq!(at, 10, "{count}/{sets}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |shape: &[(u64, u32)]| {
            Pattern::new(&caches(shape), Reach::Second, MissRatios::default()).unwrap_err()
        };
        assert_eq!(refused(&[]), PatternError::NoCaches);
        let equal = PatternError::TooSmall {
            first: 32 << 10,
            next: 32 << 10,
        };
        assert_eq!(refused(&[(32, 8)]), equal);
        assert_eq!(refused(&[(32, 8), (32, 8)]), equal);
        assert!(matches!(
            refused(&[(32, 8), (1024, 16), (512, 16)]),
            PatternError::TooSmall { .. }
        ));
        assert!(matches!(
            refused(&[(32, 8), (1024, 16), (4 << 20, 16)]),
            PatternError::TooLarge { .. }
        ));
        let nonsense = MissRatios::new(f64::NAN, f64::INFINITY);
        assert_eq!(nonsense, MissRatios::new(0.0, 1.0));
        let mut pattern =
            Pattern::new(&caches(&[(32, 8), (128, 8)]), Reach::Second, nonsense).unwrap();
        pattern
            .set_ratios(MissRatios {
                l1d: -1.0,
                llc: f64::NAN,
            })
            .unwrap();
        assert_eq!(pattern.ratios(), MissRatios::default());
        pattern.walk(1000);
    }
}
