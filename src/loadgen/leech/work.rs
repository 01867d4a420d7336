//! What leeches do, each in batches of some microseconds.

use core::fmt::Debug;
use core::hint::black_box;
use core::time::Duration;

use super::code::Code;
use super::error::LeechError;
use super::memory::{Faults, Pages, Stream};
use super::switches::Switches;
use crate::loadgen::pattern::{MissRatios, Pattern, Reach};
use crate::loadgen::resource::{DataLevel, Resource};
use crate::loadgen::topology::DataCaches;
use crate::pmu::{FIRST_RANDOM, branches};

/// What a leech does.
pub(super) trait Work: Debug {
    /// Does about `count` things, and says how many it did.
    fn run(&mut self, count: u64) -> u64;

    /// Processor time of other threads that work for this one.
    fn elsewhere(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Sleeps until something is wished, and no longer than this.
    fn rest(&mut self, time: Duration) {
        std::thread::park_timeout(time);
    }

    /// Whether nothing more can be done.
    fn is_over(&self) -> bool {
        false
    }

    /// Misses from now on as these say, if it can.
    fn set_misses(&mut self, _misses: MissRatios) {}

    /// The ratios that it goes by.
    fn misses(&self) -> Option<MissRatios> {
        None
    }
}

pub(super) fn of(
    resource: Resource,
    misses: Option<MissRatios>,
    caches: &DataCaches,
) -> Result<Box<dyn Work>, LeechError> {
    Ok(match resource {
        Resource::Cpu | Resource::Load => Box::new(Integers(FIRST_RANDOM)),
        Resource::Fpu => Box::new(Floats([0.1, 0.2, 0.3, 0.4])),
        Resource::Branches => Box::new(Branches(FIRST_RANDOM)),
        Resource::Data(level) => return data(level, misses, caches),
        Resource::Instructions => Box::new(Code::new()),
        Resource::Tlb => Box::new(Pages::new()?),
        Resource::PageFaults => Box::new(Faults::new()),
        Resource::ContextSwitches => Box::new(Switches::start()?),
        Resource::Network => return Err(LeechError::NoAddress),
    })
}

fn data(
    level: DataLevel,
    misses: Option<MissRatios>,
    caches: &DataCaches,
) -> Result<Box<dyn Work>, LeechError> {
    let all = MissRatios::new(1.0, 0.0);
    let (reach, ratios) = match (level, misses) {
        (DataLevel::Memory, None) => return Ok(Box::new(Stream::new(caches.llc.geometry.size())?)),
        (DataLevel::Llc, misses) => (Reach::Last, misses.unwrap_or(all)),
        (_, Some(misses)) => (Reach::Second, misses),
        (DataLevel::L2, None) => (Reach::Second, all),
        (DataLevel::L1, None) => (Reach::Second, MissRatios::default()),
    };
    Ok(Box::new(Pattern::new(&caches.levels(), reach, ratios)?))
}

impl Work for Pattern {
    fn run(&mut self, count: u64) -> u64 {
        self.walk(count);
        count
    }

    fn set_misses(&mut self, misses: MissRatios) {
        // Without memory for it, it goes on as it does; `misses` says so.
        let _ = self.set_ratios(misses);
    }

    fn misses(&self) -> Option<MissRatios> {
        Some(self.ratios())
    }
}

/// Each operation waits for the one before, as most programs' do.
#[derive(Debug)]
struct Integers(u64);

impl Work for Integers {
    fn run(&mut self, count: u64) -> u64 {
        let mut x = self.0;
        for _ in 0..count.div_ceil(4) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x = x.wrapping_mul(0xD129_0D3A_4D7F_8A4B) | 1;
        }
        self.0 = black_box(x);
        count.div_ceil(4) * 4
    }
}

/// Four chains of a multiplication and an addition, which keep two units busy.
#[derive(Debug)]
struct Floats([f64; 4]);

impl Work for Floats {
    fn run(&mut self, count: u64) -> u64 {
        let [mut a, mut b, mut c, mut d] = self.0;
        // Each goes to 0.5 / (1 - 0.999).
        let (factor, term) = black_box((0.999, 0.5));
        for _ in 0..count.div_ceil(8) {
            a = a * factor + term;
            b = b * factor + term;
            c = c * factor + term;
            d = d * factor + term;
        }
        self.0 = black_box([a, b, c, d]);
        count.div_ceil(8) * 8
    }
}

#[derive(Debug)]
struct Branches(u64);

impl Work for Branches {
    fn run(&mut self, count: u64) -> u64 {
        branches(&mut self.0, 1 << 33, count as usize);
        count
    }
}
