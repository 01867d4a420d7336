//! What the kernel notes by itself: a ring of records in memory that it shares, `perf_event_open(2)`.
#![expect(unsafe_code, reason = "memory that the kernel writes while it is read")]

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::io;

use memmap2::{MmapOptions, MmapRaw};

use super::counters::{GroupReading, MAX_EVENTS};

/// Where the first page, which is no data, says how far the kernel has written, and is told how far was read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// The bytes of a record: its header, the time, how many counters and how long they were to count and did, the leader.
const LEAST: usize = 8 * 6;

/// The most bytes of one record.
pub(super) const MAX_RECORD: usize = LEAST + 8 * MAX_EVENTS;

/// A ring, and how far it was read.
#[derive(Debug)]
pub(super) struct Ring {
    map: MmapRaw,
    page: usize,
    tail: u64,
    /// What was taken out last.
    taken: Vec<u8>,
}

impl Ring {
    /// Of an event, for `bytes` at least if the system allows so much, and else for as much as it allows.
    pub(super) fn map(event: &File, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let mut pages = bytes.div_ceil(page).next_power_of_two();
        let map = loop {
            match MmapOptions::new().len((1 + pages) * page).map_raw(event) {
                Ok(map) => break map,
                // More than may be locked.
                Err(_) if pages > 1 => pages /= 2,
                Err(error) => return Err(error),
            }
        };
        Ok(Self {
            map,
            page,
            tail: 0,
            taken: Vec::new(),
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at == HEAD || at == TAIL, "both are aligned");
        // SAFETY: both places are within the first page, of which the map has one more than of data, are aligned to 8 bytes, and are only accessed
        // atomically here as in the kernel; the map lives as long as the borrow.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    /// Takes out all that was written: each time on the clock that was asked for, nanoseconds, and what the leader's members had counted then. How many there was no
    /// room for is returned.
    pub(super) fn drain(&mut self, each: impl FnMut(u64, &GroupReading)) -> u64 {
        let size = self.map.len() - self.page;
        // Pairs with the kernel's barrier after what it wrote.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let len = usize::try_from(head.wrapping_sub(self.tail)).unwrap_or(usize::MAX);
        self.taken.clear();
        // More than there can be: somebody else writes here, and what it is nobody knows.
        if len <= size {
            let at = (self.tail % size as u64) as usize;
            let first = len.min(size - at);
            for (from, len) in [(at, first), (0, len - first)] {
                // SAFETY: `from + len` is at most `size`, the bytes behind the first page; the kernel does not write between tail and head, and head was
                // loaded with acquire, so that what it wrote before is seen.
                let bytes = unsafe {
                    core::slice::from_raw_parts(self.map.as_ptr().add(self.page + from), len)
                };
                self.taken.extend_from_slice(bytes);
            }
        }
        self.tail = head;
        // What was read is read before the kernel writes there again.
        self.word(TAIL).store(head, Ordering::Release);
        parse(&self.taken, each)
    }
}

/// As [`Ring::drain`], of the records in `bytes`.
fn parse(mut bytes: &[u8], mut each: impl FnMut(u64, &GroupReading)) -> u64 {
    let mut lost = 0_u64;
    while let Some((header, _)) = bytes.split_first_chunk::<8>() {
        let [a, b, c, d, _, _, low, high] = *header;
        let len = usize::from(u16::from_ne_bytes([low, high]));
        let Some(record) = bytes.get(8..len) else {
            break;
        };
        bytes = &bytes[len..];
        let mut words = record
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        match u32::from_ne_bytes([a, b, c, d]) {
            LOST => {
                // The first is whose.
                lost = lost.saturating_add(words.nth(1).unwrap_or(0));
            }
            SAMPLE => {
                let (Some(at), Some(counters), Some(enabled), Some(running), Some(_leader)) = (
                    words.next(),
                    words.next(),
                    words.next(),
                    words.next(),
                    words.next(),
                ) else {
                    continue;
                };
                let mut reading = GroupReading {
                    enabled,
                    running,
                    len: usize::try_from(counters.saturating_sub(1)).unwrap_or(usize::MAX),
                    ..GroupReading::default()
                };
                reading.len = reading.len.min(words.len()).min(MAX_EVENTS);
                for (slot, value) in reading.values.iter_mut().zip(words) {
                    *slot = value;
                }
                each(at, &reading);
            }
            // It said that it paused, or goes on.
            _ => {}
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn records(bytes: &[u8]) -> (Vec<(u64, GroupReading)>, u64) {
        let mut found = Vec::new();
        let lost = parse(bytes, |at, reading| found.push((at, *reading)));
        (found, lost)
    }

    #[test]
    fn samples_and_losses_are_told_and_the_rest_is_passed_over() {
        let mut bytes = record(SAMPLE, &[77, 3, 1000, 900, 1000, 5, 6]);
        bytes.extend(record(5, &[1, 2, 3]));
        bytes.extend(record(LOST, &[8, 4]));
        let mut expected = GroupReading {
            enabled: 1000,
            running: 900,
            len: 2,
            ..GroupReading::default()
        };
        expected.values[..2].copy_from_slice(&[5, 6]);
        assert_eq!(records(&bytes), (vec![(77, expected)], 4));
        assert!(bytes.len() < 3 * MAX_RECORD);
    }

    #[test]
    fn what_is_no_record_ends_it() {
        let whole = record(SAMPLE, &[77, 2, 1000, 900, 1000, 5]);
        for len in 0..whole.len() {
            assert_eq!(records(&whole[..len]), (vec![], 0), "{len} bytes");
        }
        // One that says that it has no length would be there for ever.
        assert_eq!(records(&[0; 64]), (vec![], 0));
        // One that says that it has more counters than it has.
        let lies = record(SAMPLE, &[77, u64::MAX, 1, 1, 1, 5]);
        let (found, _) = records(&lies);
        assert_eq!((found.len(), found[0].1.len), (1, 1));
        assert_eq!(records(&record(SAMPLE, &[1, 2])), (vec![], 0));
    }
}
