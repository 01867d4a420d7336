//! What histories are worth: bytes that they save, for the memory that they hold.

use crate::codecs::{Length, typical_history_level, typical_level};
use crate::units::Time;

/// Time after which what was saved counts for 1/e. Arbitrary: long against pauses between messages, short
/// against those between one use of a connection and the next.
const MEMORY_SECS: f64 = 10.0;

/// A sum that fades.
#[derive(Clone, Copy, Debug, Default)]
struct Fading {
    value: f64,
    at: Time,
}

impl Fading {
    fn at(&self, now: Time) -> f64 {
        if self.value == 0.0 {
            return 0.0;
        }
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.value * (-passed / MEMORY_SECS).exp()
    }

    fn add(&mut self, now: Time, more: f64) {
        self.value = self.at(now) + more;
        self.at = now;
    }

    /// Of late, in a second.
    fn rate(&self, now: Time) -> f64 {
        self.at(now) / MEMORY_SECS
    }
}

/// What histories have saved on what was sent.
#[derive(Debug, Default)]
pub(super) struct HistoryGain {
    saved: Fading,
    plain: Fading,
    used_at: Time,
}

impl HistoryGain {
    /// A block of `plain_len` bytes became `wire_len` with history; with `None`, it had none for want of
    /// memory.
    pub(super) fn on_block(&mut self, now: Time, plain_len: usize, wire_len: Option<usize>) {
        self.used_at = now;
        self.plain.add(now, plain_len as f64);
        if let Some(wire_len) = wire_len {
            self.saved
                .add(now, saved(plain_len as f64, wire_len as f64));
        }
    }

    /// Bytes a second, of late: saved, and of blocks that history was for.
    pub(super) fn rates(&self, now: Time) -> (f64, f64) {
        (self.saved.rate(now), self.plain.rate(now))
    }

    pub(super) const fn used_at(&self) -> Time {
        self.used_at
    }
}

/// Bytes that a history has saved of a block. What the block would be by itself follows from what it is and
/// from what blocks of its length usually are, with history and without.
fn saved(plain_len: f64, wire_len: f64) -> f64 {
    let level = (plain_len / wire_len.max(1.0)).ln().max(0.0);
    let len = Length::of(plain_len);
    let alone = (typical_level(len) / typical_history_level(len)).clamp(0.0, 1.0);
    (plain_len * (-level * alone).exp() - wire_len).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn small_blocks_save_more_of_themselves_than_large_ones() {
        let (small, large) = (saved(200.0, 40.0), saved(64e3, 12.8e3));
        assert!(small > 60.0, "{small}");
        assert!(large / 64e3 < small / 200.0 / 2.0, "{large}");
        for (plain, wire) in [(0.0, 0.0), (1.0, 5.0), (100.0, 100.0), (1e9, 1.0)] {
            assert!((0.0..=1e9).contains(&saved(plain, wire)), "{plain} {wire}");
        }
    }

    #[test]
    fn what_was_saved_long_ago_counts_for_little() {
        let mut gain = HistoryGain::default();
        let mut now = Time::ZERO;
        for _ in 0..10_000 {
            now = now + Duration::from_millis(10);
            gain.on_block(now, 200, Some(40));
        }
        let (saved, plain) = gain.rates(now);
        assert!((plain / 20_000.0 - 1.0).abs() < 0.05, "{plain}");
        assert!(saved > 6000.0, "{saved}");
        let later = gain.rates(now + Duration::from_secs(60));
        assert!(later.0 < saved / 100.0, "{}", later.0);
    }
}
