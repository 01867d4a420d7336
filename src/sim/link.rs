//! A link in one direction: a socket buffer, serialisation at a rate, a propagation delay.

use core::time::Duration;
use std::collections::VecDeque;

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
    waiting: VecDeque<u8>,
    /// On the link or arrived: when, and what.
    flying: VecDeque<(Time, Vec<u8>)>,
    /// When the piece on the link has left it.
    free_at: Option<Time>,
    pub(super) carried: u64,
}

impl Link {
    pub(super) const fn new(config: LinkConfig) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            flying: VecDeque::new(),
            free_at: None,
            carried: 0,
        }
    }

    /// Bytes that the sender may write now.
    pub(super) fn room(&self) -> usize {
        self.config.buffer.saturating_sub(self.waiting.len())
    }

    pub(super) fn write(&mut self, now: Time, bytes: &[u8]) {
        self.waiting.extend(bytes);
        self.advance(now);
    }

    /// Puts the next piece on the link if it is free.
    pub(super) fn advance(&mut self, now: Time) {
        loop {
            if self.free_at.is_some_and(|free_at| free_at > now) {
                return;
            }
            let started = self.free_at.unwrap_or(now);
            if self.waiting.is_empty() {
                self.free_at = None;
                return;
            }
            let piece: Vec<u8> = self
                .waiting
                .drain(..self.waiting.len().min(PIECE))
                .collect();
            let nanos = self
                .config
                .rate
                .map_or(0.0, |rate| rate.nanos_for(piece.len() as f64));
            let left = started + Duration::from_nanos(nanos as u64);
            self.carried += piece.len() as u64;
            self.flying.push_back((left + self.config.delay, piece));
            self.free_at = Some(left);
        }
    }

    /// When something happens next: a piece arrives, or the link becomes free for what waits.
    pub(super) fn next_event(&self) -> Option<Time> {
        let arrival = self.flying.front().map(|(at, _)| *at);
        let free = if self.waiting.is_empty() {
            None
        } else {
            self.free_at
        };
        [arrival, free].into_iter().flatten().min()
    }

    /// Takes what has arrived.
    pub(super) fn receive(&mut self, now: Time, into: &mut impl Extend<u8>) {
        while self.flying.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, piece)) = self.flying.pop_front() {
                into.extend(piece);
            }
        }
    }
}
