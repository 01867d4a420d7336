//! What a node does with a message besides: memory that is touched.

use std::hint::black_box;

use crate::lab::scenario::WorkSpec;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A walk through memory, each step of which depends on the one before, so that it takes as long as the memory needs.
pub(super) struct Work {
    /// In each line, which is next.
    lines: Vec<[u64; LINE / 8]>,
    touches: u32,
    at: usize,
}

impl Work {
    pub(super) fn new(spec: WorkSpec) -> Self {
        let count = (spec.kib as usize * 1024 / LINE).next_power_of_two();
        // A full period over any power of two (Hull and Dobell), in steps that no prefetcher follows.
        let next = |line: usize| {
            line.wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f)
                % count
        };
        let lines = (0..count).map(|line| {
            let mut words = [0; LINE / 8];
            words[0] = next(line) as u64;
            words
        });
        Self {
            lines: lines.collect(),
            touches: spec.touches,
            at: 0,
        }
    }

    pub(super) fn run(&mut self) {
        let mut at = self.at;
        for _ in 0..self.touches {
            let line = &mut self.lines[at];
            line[1] = line[1].wrapping_add(1);
            at = black_box(line[0]) as usize;
        }
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_by_every_line_once() {
        let mut work = Work::new(WorkSpec {
            kib: 16,
            touches: 256,
        });
        assert_eq!(work.lines.len(), 256);
        work.run();
        assert!(work.lines.iter().all(|line| line[1] == 1));
        assert_eq!(work.at, 0);
    }
}
