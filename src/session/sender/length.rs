//! How long the next block may grow, as the policy sees it.

use core::time::Duration;

use super::choose::texture_of;
use super::{Sender, Wanted};
use crate::control::{
    Backlog, CUT_NANOS, LEAST_CUT, LinkRate, MAX_INLINE, MOST_CUT, Situation, Texture,
};
use crate::session::path::Path;
use crate::session::stream::Stream;
use crate::units::Time;

/// A queue of which this part is in use is taken to hold the application back: one that is drained faster than
/// it is filled again is not full when a block is built. Arbitrary.
const HELD_BACK: usize = 2;

/// What a block that is cut to be encoded where it is driven may take, s: what is likely is off by some.
const INLINE_SECS: f64 = 0.9 * MAX_INLINE.as_micros() as f64 * 1e-6;

/// What was sent since nothing waited, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Period {
    /// Plain bytes in blocks.
    sent: u64,
    /// Whether the block that was built last is not the first.
    pub(super) follows: bool,
    /// Whether the application waited for room.
    held_back: bool,
    /// Whether blocks that are built later may hold more: several messages wait, and the application is not held back.
    pub(super) may_grow: bool,
}

impl Period {
    /// Whether anything was sent since nothing waited.
    pub(super) const fn is_on(&self) -> bool {
        self.sent > 0
    }

    /// A block was built, and all that waited may be in it.
    pub(super) fn on_block(&mut self, plain_len: usize, is_all: bool) {
        self.follows = self.sent > 0;
        if is_all {
            self.sent = 0;
            self.held_back = false;
        } else {
            self.sent = self.sent.saturating_add(plain_len as u64);
        }
    }
}

impl Sender {
    /// The block to be built of what waits, and how long it may grow, at most `most` plain bytes; it begins with messages
    /// of `stream`.
    pub(super) fn wanted(
        &mut self,
        now: Time,
        stream: &mut Stream,
        most: usize,
        path: &Path,
    ) -> (usize, Wanted) {
        let texture = texture_of(stream);
        let send = &stream.send;
        let company = send.company();
        let queued = send.plain_len().saturating_mul(self.ready.len());
        // A message alone never waits for room.
        let several = send.queue.len() > 1;
        self.period.held_back |= several && send.queued_bytes >= self.send_queue / HELD_BACK;
        self.period.may_grow = several && !self.period.held_back;
        let block_len = if company.sensitive {
            most
        } else {
            let len = if stream.policy.is_adaptive() {
                let backlog = Backlog {
                    plain_len: queued,
                    messages: send.queue.len().saturating_mul(self.ready.len()),
                    since_pause: self.period.sent,
                    held_back: self.period.held_back,
                };
                let situation = Situation {
                    texture,
                    ..self.situation(now, company.group, path)
                };
                stream.policy.block_len(&situation, backlog, most)
            } else {
                most
            };
            self.inline_len(stream, texture, queued, len, path)
        };
        stream.stats.block_len = Some(block_len);
        let wanted = Wanted {
            plain_len: queued.min(block_len),
            queued_behind: queued.saturating_sub(block_len),
            texture,
        };
        (block_len, wanted)
    }

    /// How long a block may grow, at most `most` plain bytes, to be encoded where it is driven with the arm of a stream's policy, if that is about half of what it
    /// would have and the link is no slower than the arm: to leave the thread to others meanwhile takes longer than one block more. Over a history a cut costs
    /// little; for an arm without one it is made where the policy reckons with it.
    fn inline_len(
        &self,
        stream: &Stream,
        texture: Texture,
        queued: usize,
        most: usize,
        path: &Path,
    ) -> usize {
        let Some(arm) = stream.policy.in_use(&self.arms).map(|at| self.arms[at]) else {
            return most;
        };
        let codecs = &path.known.codecs;
        let may_be_cut = if stream.policy.is_adaptive() {
            codecs.overhead.handover_nanos() > CUT_NANOS
        } else {
            arm.history
        };
        let built = most.min(queued);
        if !may_be_cut || built < LEAST_CUT {
            return most;
        }
        let likely = codecs.likely_encode(arm, built, texture);
        if likely <= MAX_INLINE || likely > MOST_CUT {
            return most;
        }
        let on_link = match path.known.link.rate() {
            LinkRate::About(rate) => {
                let wire_len = built as f64 / self.inflight.ratio();
                Duration::from_nanos(rate.nanos_for(wire_len) as u64)
            }
            LinkRate::AtLeast(_) | LinkRate::Unknown => Duration::ZERO,
        };
        if on_link > likely {
            return most;
        }
        (built as f64 * INLINE_SECS / likely.as_secs_f64()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_lasts_until_nothing_waits() {
        let mut period = Period::default();
        period.on_block(100, true);
        assert!(!period.is_on());
        period.on_block(100, false);
        assert!(period.is_on() && !period.follows);
        period.on_block(100, false);
        period.on_block(100, true);
        assert!(!period.is_on() && period.follows);
    }
}
