//! The socket as its system sees it.

use core::time::Duration;

use crate::units::BytesPerSec;

/// What the system says of a connection's socket at one time. Every part may be missing: Unix
/// sockets know little, other systems and other carriers nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SocketSample {
    /// Bytes written to the socket that still wait on this machine. TCP: bytes never sent so far.
    /// Unix: what the peer has not read, as the memory that holds it: more than the bytes. Measured
    /// on Linux 6.18: a fifth more for writes of 4 KiB, 768 for a write of one byte.
    pub unsent: Option<u64>,
    /// Bytes that the peer's system has acknowledged since the connection began. The opening of the
    /// connection may count as one byte.
    pub acknowledged: Option<u64>,
    /// The latest rate at which bytes were delivered.
    pub delivery_rate: Option<BytesPerSec>,
    /// Whether [`Self::delivery_rate`] was held down by too little being written, rather than by
    /// the path. Says nothing where there is no rate.
    pub app_limited: bool,
    /// The shortest round trip of late (Linux: of five minutes, unless it is told otherwise).
    pub min_rtt: Option<Duration>,
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// Time that the receiver's window held up sending, since the connection began.
    pub rwnd_limited: Option<Duration>,
    /// Time with anything to send or unacknowledged, since the connection began;
    /// [`Self::rwnd_limited`] is part of it.
    pub busy: Option<Duration>,
}

/// A round trip that is so much longer than the least one, as a factor and in time, has a queue in it.
const QUEUED: u32 = 2;
const QUEUED_FOR: Duration = Duration::from_millis(2);
/// Part of the time from which on the receiver's window, not the path, held up sending.
const HELD_UP: u32 = 10;

impl SocketSample {
    /// The rate of the path, if this sample shows it: bytes were delivered since `before`, which was
    /// `elapsed` ago, at a rate that neither too little to send nor the receiver's window held down, with
    /// a queue in the path. It is the path as far as the system sees it, up to a proxy if there is one.
    pub(crate) fn path_rate(&self, before: &Self, elapsed: Duration) -> Option<BytesPerSec> {
        let rtt = self.rtt?;
        let is_queued = rtt >= self.min_rtt? * QUEUED + QUEUED_FOR;
        let held_up = self.rwnd_limited?.saturating_sub(before.rwnd_limited?);
        let moved = self.acknowledged? > before.acknowledged?;
        let shows = moved && is_queued && !self.app_limited && held_up * HELD_UP <= elapsed;
        self.delivery_rate.filter(|_| shows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_paths_only_if_nothing_else_held_it_down() {
        let ms = Duration::from_millis;
        let before = SocketSample {
            unsent: Some(1000),
            acknowledged: Some(1000),
            delivery_rate: BytesPerSec::new(1e6),
            app_limited: false,
            min_rtt: Some(ms(1)),
            rtt: Some(ms(20)),
            rwnd_limited: Some(ms(3)),
            busy: Some(ms(100)),
        };
        let shown = SocketSample {
            acknowledged: Some(5000),
            ..before
        };
        let rate = |sample: SocketSample| sample.path_rate(&before, ms(5));
        assert_eq!(rate(shown), BytesPerSec::new(1e6));
        for hides in [
            SocketSample {
                acknowledged: Some(1000),
                ..shown
            },
            SocketSample {
                app_limited: true,
                ..shown
            },
            SocketSample {
                rtt: Some(ms(3)),
                ..shown
            },
            SocketSample {
                rwnd_limited: Some(ms(5)),
                ..shown
            },
            SocketSample {
                rwnd_limited: None,
                ..shown
            },
        ] {
            assert_eq!(rate(hides), None, "{hides:?}");
        }
    }
}
