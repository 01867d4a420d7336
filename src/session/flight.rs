//! How much is sent ahead of acknowledgements on a link whose rate is not known: little at first, so
//! that a slow link is not filled before it shows itself, and twice as much with each acknowledgement.

use core::time::Duration;

use crate::units::{BytesPerSec, Time};

/// Bytes sent ahead of the first acknowledgements: what a slow link takes in a second or two, and a
/// fast one waits for no longer than a round trip.
const FIRST: u64 = 16 << 10;
/// Plain length of blocks meanwhile: several a flight, so that the acknowledgements show the rate.
const BLOCKS: u64 = 4;
/// What a link is known to carry within this time does not fill it for long. Arbitrary.
const SURE: Duration = Duration::from_millis(10);
/// Above this the flight is no limit any more.
const MOST: u64 = 16 << 20;
/// How long it waits for an acknowledgement, which nobody owes it.
const WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Flight {
    limit: u64,
    held_until: Option<Time>,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            limit: FIRST,
            held_until: None,
        }
    }
}

impl Flight {
    /// The longest block that may be sent now with so many bytes `ahead` of acknowledgements; `None` until
    /// an acknowledgement comes, or for a second.
    pub(super) fn block_len(&mut self, now: Time, ahead: u64) -> Option<usize> {
        if ahead < self.limit {
            self.held_until = None;
            return Some(usize::try_from(self.limit / BLOCKS).unwrap_or(usize::MAX));
        }
        let until = *self.held_until.get_or_insert(now + WAIT);
        if now < until {
            return None;
        }
        // This peer does not answer soon.
        self.limit = u64::MAX;
        self.held_until = None;
        Some(usize::MAX)
    }

    /// The link is known to carry at least `rate`.
    pub(super) fn on_bound(&mut self, rate: BytesPerSec) {
        self.limit = self.limit.max((rate.get() * SURE.as_secs_f64()) as u64);
    }

    /// A block was acknowledged.
    pub(super) fn on_ack(&mut self) {
        self.held_until = None;
        self.limit = if self.limit >= MOST {
            u64::MAX
        } else {
            self.limit * 2
        };
    }

    /// The rate is known.
    pub(super) fn on_known(&mut self) {
        self.held_until = None;
    }

    /// When a flight that is held goes on without an acknowledgement.
    pub(super) const fn held_until(&self) -> Option<Time> {
        self.held_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_waits_for_acknowledgements_and_doubles_with_each() {
        let mut flight = Flight::default();
        let now = Time::ZERO;
        assert_eq!(flight.block_len(now, 0), Some(4 << 10));
        assert_eq!(flight.block_len(now, 16 << 10), None);
        assert_eq!(flight.held_until(), Some(now + WAIT));
        flight.on_ack();
        assert_eq!(flight.held_until(), None);
        assert_eq!(flight.block_len(now, 16 << 10), Some(8 << 10));
        assert_eq!(flight.block_len(now, 32 << 10), None);
        assert_eq!(flight.block_len(now + WAIT, 32 << 10), Some(usize::MAX));
        assert!(
            flight
                .block_len(now + WAIT, 1 << 40)
                .is_some_and(|longest| longest > 1 << 40)
        );
    }
}
