//! How much is sent ahead of acknowledgements on a link whose rate is not known: little at first, so
//! that a slow link is not filled before it shows itself, then in proportion to what it has carried.

use core::time::Duration;

use crate::control::{Caution, Texture};
use crate::units::{BytesPerSec, Time};

/// Bytes sent ahead of the first acknowledgements: what a slow link takes in a second or two, and a
/// fast one waits for no longer than a round trip.
const FIRST: u64 = 16 << 10;
/// Wire bytes sent ahead for each that was acknowledged. The more, the more a slow link has to carry that was not meant for it; the
/// less, the longer a fast one stands still (docs/benchmarks.md, "A first connection").
const GROWTH: u64 = 32;
/// What a link is known to carry within this time does not fill it for long. Arbitrary.
const SURE: Duration = Duration::from_millis(10);
/// A rate that has passed at least is known if connections before have carried so many bytes: what passes at first may be what a shaper lets
/// through at once, or the least round trip that is known itself. Arbitrary.
const KNOWN: u64 = 256 << 10;
/// Blocks of a flight: several, so that the acknowledgements show the rate.
const BLOCKS: u64 = 4;
/// How long acknowledgements are awaited, which nobody owes.
const WAIT: Duration = Duration::from_secs(1);

/// Bytes of a connection's blocks, and what its link has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Not acknowledged: plain before the first acknowledgement of any, since nothing is known of what they become, then on the wire.
    pub(super) ahead: u64,
    /// Acknowledged, on the wire.
    pub(super) acked: u64,
    /// .. of connections before.
    pub(super) acked_before: u64,
    /// What has passed at least.
    pub(super) bound: Option<BytesPerSec>,
}

#[derive(Debug, Default)]
pub(super) struct Flight {
    held_until: Option<Time>,
    /// What of the link may be taken for granted for the next of several blocks.
    caution: Caution,
    /// Whether acknowledgements are wanted soon.
    asks: bool,
    /// Whether the peer did not answer in time.
    unlimited: bool,
}

impl Flight {
    /// The longest block that may be sent now, in bytes that are as short as acknowledged ones became; `None` until an acknowledgement
    /// comes, or for a second.
    pub(super) fn block_len(&mut self, now: Time, progress: Progress) -> Option<usize> {
        let limit = self.limit(progress);
        self.asks = progress.ahead >= limit / 2;
        if progress.ahead < limit {
            self.held_until = None;
            self.caution = if progress.acked_before < KNOWN {
                Caution::Flight
            } else {
                Caution::None
            };
            return Some(usize::try_from(limit / BLOCKS).unwrap_or(usize::MAX));
        }
        let until = *self.held_until.get_or_insert(now + WAIT);
        if now < until {
            return None;
        }
        // This peer does not answer soon.
        self.unlimited = true;
        self.held_until = None;
        Some(usize::MAX)
    }

    fn limit(&self, progress: Progress) -> u64 {
        if self.unlimited {
            return u64::MAX;
        }
        let grown = progress.acked.saturating_mul(GROWTH).max(FIRST);
        let sure = progress
            .bound
            .filter(|_| progress.acked_before >= KNOWN)
            .map_or(0, |rate| (rate.get() * SURE.as_secs_f64()) as u64);
        grown.max(sure)
    }

    /// A block was acknowledged, or the rate is known.
    pub(super) fn release(&mut self) {
        self.held_until = None;
        self.caution = Caution::None;
    }

    /// What of the link may be taken for granted for the block that may be sent: what is alone on its way may find out, and runs become short whatever
    /// the link is.
    pub(super) fn caution(&self, is_alone: bool, texture: Texture) -> Caution {
        if is_alone || texture == Texture::Runs {
            Caution::None
        } else {
            self.caution
        }
    }

    pub(super) const fn asks(&self) -> bool {
        self.asks
    }

    /// When a flight that is held goes on without an acknowledgement.
    pub(super) const fn held_until(&self) -> Option<Time> {
        self.held_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(ahead: u64, acked: u64) -> Progress {
        Progress {
            ahead,
            acked,
            acked_before: 0,
            bound: BytesPerSec::new(100e6),
        }
    }

    #[test]
    fn a_flight_waits_for_acknowledgements_and_grows_with_what_they_say() {
        let mut flight = Flight::default();
        let now = Time::ZERO;
        assert_eq!(flight.block_len(now, progress(0, 0)), Some(4 << 10));
        assert!(!flight.asks());
        assert_eq!(flight.block_len(now, progress(16 << 10, 0)), None);
        assert_eq!(flight.held_until(), Some(now + WAIT));
        assert!(flight.asks());
        flight.release();
        assert_eq!(flight.held_until(), None);
        // What was acknowledged is short.
        assert_eq!(flight.block_len(now, progress(0, 100)), Some(4 << 10));
        let half = progress(16 << 10, 1 << 10);
        assert_eq!(flight.block_len(now, half), Some(8 << 10));
        assert!(flight.asks());
        let full = progress(32 << 10, 1 << 10);
        assert_eq!(flight.block_len(now, full), None);
        // For want of an answer it goes on.
        assert_eq!(flight.block_len(now + WAIT, full), Some(usize::MAX));
        let longest = flight.block_len(now + WAIT, progress(1 << 40, 0));
        assert!(longest.is_some_and(|longest| longest > 1 << 40));
    }

    #[test]
    fn what_connections_before_have_shown_counts() {
        let mut flight = Flight::default();
        let now = Time::ZERO;
        let later = Progress {
            acked_before: KNOWN,
            ..progress(900_000, 0)
        };
        assert_eq!(flight.block_len(now, later), Some(250_000));
        let several = |flight: &Flight| flight.caution(false, Texture::Records);
        assert_eq!(several(&flight), Caution::None);
        assert_eq!(flight.block_len(now, progress(900_000, 0)), None);
        assert!(flight.block_len(now, progress(0, 0)).is_some());
        assert_eq!(several(&flight), Caution::Flight);
        assert_eq!(flight.caution(true, Texture::Records), Caution::None);
        assert_eq!(flight.caution(false, Texture::Runs), Caution::None);
    }
}
