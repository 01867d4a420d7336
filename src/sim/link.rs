//! A link in one direction: a socket buffer, serialisation at a rate, a propagation delay.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::units::{BytesPerSec, Time};

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate; `None` takes no time however much is sent.
    pub rate: Option<BytesPerSec>,
    /// Time from the last bit sent to the last bit received.
    pub delay: Duration,
    /// Bytes that the sender's socket takes before they are on the link. 16 KiB stands for a socket
    /// whose unsent bytes are limited.
    pub buffer: usize,
}

impl Default for LinkConfig {
    /// 100 Mbit/s, 50 µs, 16 KiB: the thesis's office network without its other users.
    fn default() -> Self {
        Self {
            rate: BytesPerSec::new(12.5e6),
            delay: Duration::from_micros(50),
            buffer: 16 << 10,
        }
    }
}

/// Pieces that the link carries as one: an Ethernet frame's worth of payload.
const PIECE: usize = 1448;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) config: LinkConfig,
    /// Taken from the sender, not yet on the link.
    waiting: VecDeque<Bytes>,
    waiting_len: usize,
    /// On the link or arrived: when, and what. What is here keeps its time whatever becomes of the
    /// settings, and nothing overtakes.
    flying: VecDeque<(Time, Bytes)>,
    /// When the piece on the link has left it.
    free_at: Option<Time>,
    pub(super) carried: u64,
    /// All bytes taken from the sender, if somebody wants them.
    pub(super) tapped: Option<Vec<u8>>,
    /// The sender ends with what it has written.
    ended: bool,
    /// The receiver does not see the end before.
    ends_at: Option<Time>,
    /// Everything is lost, and nobody is told.
    pub(super) silent: bool,
}

impl Link {
    pub(super) const fn new(config: LinkConfig) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            waiting_len: 0,
            flying: VecDeque::new(),
            free_at: None,
            carried: 0,
            tapped: None,
            ended: false,
            ends_at: None,
            silent: false,
        }
    }

    /// The sender writes nothing more.
    pub(super) const fn end(&mut self) {
        self.ended = true;
    }

    /// The sender writes nothing more, and the receiver sees the end no earlier than `at`.
    pub(super) const fn end_at(&mut self, at: Time) {
        self.ended = true;
        self.ends_at = Some(at);
    }

    /// Everything on its way is lost, and the receiver sees the end.
    pub(super) fn cut(&mut self) {
        self.waiting.clear();
        self.waiting_len = 0;
        self.flying.clear();
        self.ended = true;
        self.ends_at = None;
    }

    /// Whether the receiver sees the end now.
    pub(super) fn is_over(&self) -> bool {
        let is_told = self.ended && !self.silent && self.ends_at.is_none();
        is_told && self.waiting_len == 0 && self.flying.is_empty()
    }

    /// Whether nothing comes any more, heard or not.
    pub(super) fn is_lost(&self) -> bool {
        self.silent || self.waiting_len == 0 && self.flying.is_empty()
    }

    /// Another connection begins here; what is left of this one is given back.
    pub(super) fn renew(&mut self) -> Self {
        let fresh = Self::new(self.config);
        let mut old = core::mem::replace(self, fresh);
        self.carried = core::mem::take(&mut old.carried);
        self.tapped = old.tapped.take();
        old
    }

    /// Changes one bit of the last piece that is on its way; whether there was one.
    pub(super) fn damage(&mut self, bit: u64) -> bool {
        let Some((_, bytes)) = self.flying.back_mut().filter(|it| !it.1.is_empty()) else {
            return false;
        };
        let mut damaged = bytes.to_vec();
        let bit = bit % (damaged.len() as u64 * 8);
        damaged[(bit / 8) as usize] ^= 1 << (bit % 8);
        *bytes = damaged.into();
        true
    }

    /// Changes bytes in a row of the last piece that is on its way; whether there was one.
    pub(super) fn garble(&mut self, first: u64, pattern: [u8; 8]) -> bool {
        let Some((_, bytes)) = self.flying.back_mut().filter(|it| !it.1.is_empty()) else {
            return false;
        };
        let mut damaged = bytes.to_vec();
        let first = (first % damaged.len() as u64) as usize;
        let after = damaged[first..].iter_mut();
        after.zip(pattern).for_each(|(byte, by)| *byte ^= by);
        *bytes = damaged.into();
        true
    }

    /// The last piece that is on its way loses its end, and everything after it is lost; whether there was one.
    pub(super) fn truncate(&mut self, left: u64) -> bool {
        let Some((_, bytes)) = self.flying.back_mut().filter(|it| !it.1.is_empty()) else {
            return false;
        };
        bytes.truncate((left % bytes.len() as u64) as usize);
        self.waiting.clear();
        self.waiting_len = 0;
        self.ended = true;
        true
    }

    /// Bytes taken from the sender that are not on the link yet.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting_len
    }

    /// Bytes that the sender may write now.
    pub(super) fn room(&self) -> usize {
        self.config.buffer.saturating_sub(self.waiting_len)
    }

    pub(super) fn write(&mut self, now: Time, bytes: Bytes) {
        if self.ended {
            return;
        }
        self.waiting_len += bytes.len();
        if let Some(tapped) = &mut self.tapped {
            tapped.extend_from_slice(&bytes);
        }
        self.waiting.push_back(bytes);
        self.advance(now);
    }

    /// Puts the next piece on the link if it is free.
    pub(super) fn advance(&mut self, now: Time) {
        if self.silent {
            // Nothing is acknowledged, so that the system sends nothing more.
            return;
        }
        loop {
            if self.free_at.is_some_and(|free_at| free_at > now) {
                return;
            }
            let started = self.free_at.unwrap_or(now);
            if self.waiting_len == 0 {
                self.free_at = None;
                return;
            }
            let len = self.waiting_len.min(PIECE);
            let nanos = self
                .config
                .rate
                .map_or(0.0, |rate| rate.nanos_for(len as f64));
            let left = started + Duration::from_nanos(nanos as u64);
            self.carried += len as u64;
            self.send(len, left + self.config.delay);
            self.free_at = Some(left);
        }
    }

    /// Moves the first `len` bytes that wait onto the link.
    fn send(&mut self, mut len: usize, arrival: Time) {
        self.waiting_len -= len;
        while len > 0 {
            let Some(front) = self.waiting.front_mut() else {
                return;
            };
            let part = front.split_to(len.min(front.len()));
            if front.is_empty() {
                self.waiting.pop_front();
            }
            len -= part.len();
            self.flying.push_back((arrival, part));
        }
    }

    /// When something happens next: a piece arrives, or the link becomes free for what waits.
    pub(super) fn next_event(&self) -> Option<Time> {
        let arrival = self.flying.front().map(|(at, _)| *at);
        if self.silent {
            return None;
        }
        let free = if self.waiting_len == 0 {
            None
        } else {
            self.free_at
        };
        [arrival, free, self.ends_at].into_iter().flatten().min()
    }

    /// Takes what has arrived.
    pub(super) fn receive(&mut self, now: Time, into: &mut BytesMut) {
        if self.silent {
            return;
        }
        self.ends_at = self.ends_at.filter(|at| *at > now);
        while self.flying.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, piece)) = self.flying.pop_front() {
                into.extend_from_slice(&piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn what_is_on_the_wire_keeps_its_time_and_the_rest_takes_the_new_rate() {
        let config = |bytes_per_sec, delay| LinkConfig {
            rate: BytesPerSec::new(bytes_per_sec),
            delay: Duration::from_millis(delay),
            ..LinkConfig::default()
        };
        // A piece takes 10 ms at first, then 1 ms.
        let mut link = Link::new(config(144_800.0, 20));
        link.write(Time::ZERO, vec![0; 3 * PIECE].into());
        assert_eq!(link.room(), (16 << 10) - 2 * PIECE);
        link.config = config(1_448_000.0, 0);
        let mut arrivals = Vec::new();
        let mut arrived = BytesMut::new();
        while let Some(now) = link.next_event() {
            link.advance(now);
            link.receive(now, &mut arrived);
            if arrived.len() > arrivals.len() * PIECE {
                arrivals.extend(vec![now; arrived.len() / PIECE - arrivals.len()]);
            }
        }
        // The first left after 10 ms and flew for 20; the others wait behind it, in order.
        assert_eq!(arrivals, [millis(30); 3]);
        assert_eq!(link.carried, 3 * PIECE as u64);
        link.write(millis(40), vec![0; 2 * PIECE].into());
        assert_eq!(link.next_event(), Some(millis(41)));
    }
}
