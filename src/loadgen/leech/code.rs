//! Code that the first cache for instructions does not hold: the jump table of the thesis's listing 6.1, with functions of its own for every place to jump to.

use core::hint::black_box;

use super::work::Work;

/// As many functions, of some 0.4 KiB each: 100 KiB, where first caches hold 32 or 64.
const FUNCTIONS: usize = 256;
/// From one to the next, by all of them: far from the one before, and no power of two.
const STRIDE: usize = 157;

/// Calls each of its functions in turn.
#[derive(Debug)]
pub(super) struct Code {
    at: usize,
    x: u64,
}

impl Code {
    pub(super) fn new() -> Self {
        Self { at: 0, x: 1 }
    }
}

impl Work for Code {
    fn run(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            self.at = (self.at + STRIDE) % FUNCTIONS;
            // Opaque, so that it stays a jump.
            self.x = black_box(TABLE[self.at / 16][self.at % 16])(self.x);
        }
        count
    }
}

/// A step whose numbers no other function has.
macro_rules! steps {
    ($x:ident, $($turn:literal)*) => {
        $($x = ($x ^ (N + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 + 2 * $turn)).rotate_left($turn + 1);)*
    };
}

#[inline(never)]
fn function<const N: u64>(mut x: u64) -> u64 {
    steps!(x, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23);
    x
}

macro_rules! row {
    ($row:literal: $($column:literal)*) => {
        [$(function::<{ 16 * $row + $column }>),*]
    };
}

macro_rules! table {
    ($($row:literal)*) => {
        [$(row!($row: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)),*]
    };
}

type Function = fn(u64) -> u64;

static TABLE: [[Function; 16]; 16] = table!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_more_code_than_a_first_cache_holds_and_all_of_it_is_called() {
        let mut places: Vec<usize> = TABLE
            .iter()
            .flatten()
            .map(|function| *function as usize)
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), FUNCTIONS);
        // Lines that the functions begin in and those up to the next function, unless that lies elsewhere.
        let bytes: usize = places
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).min(1024))
            .sum();
        assert!(bytes > 72 << 10, "{bytes} bytes");
        let mut seen = [false; FUNCTIONS];
        let mut at = 0;
        for _ in 0..FUNCTIONS {
            at = (at + STRIDE) % FUNCTIONS;
            seen[at] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
