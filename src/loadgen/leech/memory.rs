//! Leeches of memory other than by a pattern: bandwidth, translations, page faults.

use core::hint::black_box;

use memmap2::MmapMut;

use super::error::LeechError;
use super::work::Work;
use crate::loadgen::pattern::PatternError;

/// The most memory that is streamed, bytes.
const MAX_STREAM: u64 = 2 << 30;
/// Numbers in a line.
const LINE: usize = 8;

/// Reads and writes more than the last cache holds, from end to end.
#[derive(Debug)]
pub(super) struct Stream {
    lines: Vec<[u64; LINE]>,
    at: usize,
}

impl Stream {
    /// Four times what a last cache of `llc` bytes holds.
    pub(super) fn new(llc: u64) -> Result<Self, LeechError> {
        let needed = llc.saturating_mul(4);
        if needed > MAX_STREAM {
            let max = MAX_STREAM;
            return Err(PatternError::TooLarge { llc, needed, max }.into());
        }
        let count = needed as usize / size_of::<[u64; LINE]>();
        let mut lines = Vec::new();
        lines
            .try_reserve_exact(count)
            .map_err(|_| LeechError::Memory { needed })?;
        lines.resize(count, [1; LINE]);
        Ok(Self { lines, at: 0 })
    }
}

impl Work for Stream {
    fn run(&mut self, count: u64) -> u64 {
        let end = self.lines.len().min(self.at.saturating_add(count as usize));
        let lines = &mut self.lines[self.at..end];
        for line in &mut *lines {
            for number in line {
                *number = number.wrapping_add(1);
            }
        }
        let done = black_box(lines).len();
        self.at = if end == self.lines.len() { 0 } else { end };
        done as u64
    }
}

/// Pages of the leech of translations: twice as many as any processor keeps, and one line in each of them fits the second cache.
const PAGES: usize = 8192;

/// One line in each of many pages, in an order that is no order.
#[derive(Debug)]
pub(super) struct Pages {
    map: MmapMut,
    at: usize,
}

impl Pages {
    pub(super) fn new() -> Result<Self, LeechError> {
        let page = rustix::param::page_size();
        let needed = page * PAGES;
        let failed = |_| LeechError::Memory {
            needed: needed as u64,
        };
        let mut map = MmapMut::map_anon(needed).map_err(failed)?;
        // As one large page they would be translated at once.
        keep_small(&map);
        let mut order: Vec<usize> = (0..PAGES).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        // Different sets of the first cache.
        let place = |number: usize| number * page + number % (page / 64) * 64;
        for (at, number) in order.iter().enumerate() {
            let next = place(order[(at + 1) % PAGES]) as u32;
            let place = place(*number);
            map[place..place + 4].copy_from_slice(&next.to_ne_bytes());
        }
        Ok(Self { map, at: place(0) })
    }
}

impl Work for Pages {
    fn run(&mut self, count: u64) -> u64 {
        let mut at = self.at;
        for _ in 0..count {
            let mut next = [0; 4];
            next.copy_from_slice(&self.map[at..at + 4]);
            at = u32::from_ne_bytes(next) as usize;
        }
        self.at = at;
        count
    }
}

/// Asks for pages of the usual size, as far as the system has others.
fn keep_small(map: &MmapMut) {
    #[cfg(target_os = "linux")]
    {
        // A kernel without large pages need not be told.
        let _ = map.advise(memmap2::Advice::NoHugePage);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = map;
}

/// Pages that are taken and given back at once: so few that the system makes no large page of them.
const FAULTS: usize = 64;

/// Takes memory of the system, touches each page, and gives it back.
#[derive(Debug)]
pub(super) struct Faults {
    page: usize,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            page: rustix::param::page_size(),
        }
    }
}

impl Work for Faults {
    fn run(&mut self, count: u64) -> u64 {
        let mut done = 0;
        while done < count {
            let pages = FAULTS.min((count - done) as usize);
            // A system without memory to give is asked again in the next batch.
            let Ok(mut map) = MmapMut::map_anon(pages * self.page) else {
                break;
            };
            keep_small(&map);
            for byte in map.iter_mut().step_by(self.page) {
                *byte = black_box(1);
            }
            done += pages as u64;
        }
        done
    }
}
