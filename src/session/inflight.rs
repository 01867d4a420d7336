//! Blocks sent and not yet acknowledged: what acknowledgements say of the path.

use core::time::Duration;
use std::collections::VecDeque;

use super::flight::Progress;
use crate::control::{Fed, LinkEstimator, LinkRate, RttEstimator};
use crate::few::push_back_few;
use crate::units::{Time, saturating_nanos};
use crate::wire::{Ack, ProbeReply, WireError};

/// Blocks remembered; of more than that the oldest go unmeasured. A peer that never acknowledges
/// costs no more memory than this.
const MAX_REMEMBERED: usize = 4096;

/// Room is made for so many at a time. Arbitrary: a peer acknowledges every 32.
const FEW: usize = 8;

/// Each connection has as many of these as it ever had blocks on their way: lengths are a block's, at most 16 MiB.
#[derive(Clone, Copy, Debug)]
struct SentBlock {
    number: u64,
    wire_len: u32,
    plain_len: u32,
    /// Position in the output that its last byte has.
    wire_end: u64,
    /// When the socket took its first bytes, and when its last.
    begun: Option<Time>,
    written: Option<Time>,
    /// Bytes that it took just before, as of other frames: the block arrives behind them.
    ahead: u64,
    /// When the write before that was, of whatever frames, and its length: zero if there was none.
    before: (Time, u64),
    /// How the link was fed just before.
    fed: Fed,
    /// Whether all blocks before it were acknowledged when it was put out.
    alone: bool,
    /// Whether it went plain to show the link's rate.
    is_check: bool,
    /// Whether it followed the one before after more than a round trip: then they hardly met.
    apart: bool,
    /// Time since the write of the block before, and its wire length.
    pause: Option<(Duration, u32)>,
}

impl SentBlock {
    const fn wire_start(&self) -> u64 {
        self.wire_end.saturating_sub(self.wire_len as u64)
    }

    /// The socket has taken its first bytes.
    fn begin(&mut self, write: &Write) {
        if self.begun.is_some() {
            return;
        }
        self.begun = Some(write.at);
        self.ahead = self.wire_start().saturating_sub(write.from);
        self.before = write.before;
    }

    /// Whether in a flight that begins with this block the last one left so late that the time `on_link` by which the flight took
    /// longer than the least is mostly that, though the socket would have taken it sooner.
    fn is_spread(&self, last: &Self, on_link: Option<Duration>) -> bool {
        let left = last.begun.zip(self.written).zip(on_link);
        last.fed != Fed::Backlogged
            && left
                .is_some_and(|((last, first), on_link)| last.saturating_since(first) * 2 > on_link)
    }

    /// Its length with what the socket took at the same moment.
    fn len_at_once(&self) -> usize {
        let ahead = if self.begun == self.written {
            self.ahead
        } else {
            0
        };
        self.wire_len as usize + ahead as usize
    }

    /// Whether the block before had left the link, which is busy with this one for `on_link`, when this one was written.
    fn is_behind(&self, on_link: Duration) -> bool {
        self.pause.is_some_and(|(pause, len)| {
            let longer = f64::from(len) / f64::from(self.wire_len.max(1));
            pause >= on_link.mul_f64(longer.max(1.0))
        })
    }

    /// The bytes that came with a flight of `bytes` that begins with this block, and when the first of them was
    /// written: what was written before it may have been on the link yet, given the time `on_link` by which the flight took
    /// longer than the least, which was a round trip of `rtt`. `None` if that cannot be told.
    fn flight(
        &self,
        bytes: u64,
        on_link: Option<Duration>,
        rtt: Option<Duration>,
    ) -> Option<(u64, Time)> {
        let alone = (bytes, self.begun?);
        let (before, len) = self.before;
        let pause = alone.1.saturating_since(before);
        if len == 0 || rtt.is_some_and(|rtt| pause >= rtt) {
            return Some(alone);
        }
        let longer = (len as f64 / bytes.max(1) as f64).max(1.0);
        if pause >= on_link?.mul_f64(longer) {
            Some(alone)
        } else {
            Some((bytes + len, before))
        }
    }
}

/// What the socket takes at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    at: Time,
    /// Bytes of the output before it.
    from: u64,
    /// When the one before was, and of how many bytes.
    before: (Time, u64),
}

/// A probe that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct SentProbe {
    id: u64,
    padding: usize,
    wire_end: u64,
    written: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct LastAck {
    wire_bytes: u64,
    received_nanos: u64,
    waited_nanos: u64,
    /// How long its last block was on the way beyond the least, if it had to wait there for others; otherwise zero.
    queued: Duration,
}

/// What has come since the receiver last waited for bytes: then none lay in front of it, so what came
/// after took the link no longer than the time since.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    bytes: u64,
    nanos: u64,
    written: Duration,
    fed: Fed,
    /// Whether blocks waited for others on the link, at its beginning and at its end, and no pause between them was longer than that.
    queued: bool,
    /// Whether the receiver was found to be the bottleneck meanwhile.
    receiver_bound: bool,
}

impl Delivery {
    const NONE: Self = Self {
        bytes: 0,
        nanos: 0,
        written: Duration::ZERO,
        fed: Fed::Backlogged,
        queued: true,
        receiver_bound: false,
    };
}

#[derive(Debug, Default)]
pub(super) struct Inflight {
    blocks: VecDeque<SentBlock>,
    /// How many of `blocks` are written to the socket.
    written: usize,
    /// Numbered frames sent and acknowledged, and how many of those sent were blocks.
    sent: u64,
    acked: u64,
    blocks_sent: u64,
    next_probe: u64,
    probe: Option<SentProbe>,
    last_ack: Option<LastAck>,
    delivery: Option<Delivery>,
    /// What has come more slowly than it was written, without a break.
    train: Option<Delivery>,
    last_written: Option<(Time, u32)>,
    /// Bytes of the output that the socket has taken.
    written_to: u64,
    latest_write: Write,
    /// When the latest block that is acknowledged was written.
    acked_written: Option<Time>,
    queue: LinkQueue,
    wire_unacked: u64,
    plain_unacked: u64,
    /// Bytes of the blocks that are acknowledged: on the wire, and before they were encoded.
    acked_bytes: (u64, u64),
    /// The first one-way time, by the peer's clock less ours, ns.
    one_way_origin: Option<i128>,
    /// Frames that were sent when the link was last found to be faster than an end.
    end_bound_until: u64,
    /// Whether the next block goes plain to show the link's rate.
    checks: bool,
    absurd: u64,
}

/// What the link still has to carry, as far as it can be reckoned from what was written and the
/// link's rate.
#[derive(Clone, Copy, Debug, Default)]
struct LinkQueue {
    bytes: f64,
    at: Time,
}

impl LinkQueue {
    fn drain(&mut self, now: Time, rate: LinkRate) {
        let passed = now.saturating_since(self.at).as_secs_f64();
        self.at = now;
        self.bytes = match rate {
            LinkRate::About(rate) => (self.bytes - passed * rate.get()).max(0.0),
            LinkRate::AtLeast(_) | LinkRate::Unknown => 0.0,
        };
    }
}

/// A train of blocks that took so much longer to arrive than to be written was stretched by the
/// link: it is the bottleneck, and the time of arrival shows its rate.
const STRETCH: f64 = 1.5;
/// A block that was on its way for so many times as long as the link takes for it by itself had to wait there for others. Arbitrary.
const QUEUED: f64 = 1.5;
/// What the first one-way time counts as, ns.
const ONE_WAY_ORIGIN: i128 = 10_000_000_000;
/// A receiver that waits for a smaller share of the time is the bottleneck. Arbitrary.
const LEAST_WAITED: f64 = 0.05;
/// After so long it is news that a receiver has not waited.
const LONG_BUSY: Duration = Duration::from_millis(2);
/// Shorter stretches may be the peer's scheduler. Arbitrary.
const LEAST_STRETCH: Duration = Duration::from_millis(1);

impl Inflight {
    /// Another connection begins: only what is counted over all of them stays.
    pub(super) fn restart(&mut self) {
        *self = Self {
            blocks_sent: self.blocks_sent,
            absurd: self.absurd,
            ..Self::default()
        };
    }

    /// Numbered frames sent.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) const fn blocks_sent(&self) -> u64 {
        self.blocks_sent
    }

    /// Blocks of which the socket has taken all, of those sent: the number of the first that it has not. Those that are forgotten
    /// count as whatever they were.
    pub(super) fn blocks_written(&self) -> u64 {
        self.blocks_acked() + self.written as u64
    }

    /// Blocks that were acknowledged, those that are forgotten with them.
    pub(super) fn blocks_acked(&self) -> u64 {
        self.blocks_sent - self.blocks.len() as u64
    }

    /// Numbered frames that the peer has not acknowledged.
    pub(super) const fn unacked(&self) -> u64 {
        self.sent - self.acked
    }

    pub(super) const fn absurd(&self) -> u64 {
        self.absurd
    }

    /// The peer has said what cannot be.
    pub(super) const fn on_absurd(&mut self) {
        self.absurd += 1;
    }

    /// Bytes of the blocks that are not acknowledged: plain before the first acknowledgement of any,
    /// since nothing is known of what they become, then wire bytes.
    const fn ahead(&self) -> u64 {
        if self.acked_written.is_some() {
            self.wire_unacked
        } else {
            self.plain_unacked
        }
    }

    /// How far blocks have come over `link`, as far as its rate is not known.
    pub(super) fn progress(&self, link: &LinkEstimator) -> Progress {
        let acked = self.acked_bytes.0;
        Progress {
            ahead: self.ahead(),
            acked,
            acked_before: link.carried().saturating_sub(acked),
            bound: link.link_rate(),
        }
    }

    /// Plain bytes for each that acknowledged blocks had on the wire, at least 1.
    pub(super) fn ratio(&self) -> f64 {
        let (wire, plain) = self.acked_bytes;
        (plain as f64 / wire.max(1) as f64).max(1.0)
    }

    /// The socket has taken so many bytes.
    pub(super) fn on_bytes_written(&mut self, now: Time, written: usize, rate: LinkRate) {
        self.queue.drain(now, rate);
        self.queue.bytes += written as f64;
    }

    /// Bytes that the link still has to carry of what the socket has taken; zero on a link that was
    /// never seen busy.
    pub(super) fn backlog(&self, now: Time, rate: LinkRate) -> u64 {
        let mut queue = self.queue;
        queue.drain(now, rate);
        queue.bytes as u64
    }

    /// A numbered control frame was queued.
    pub(super) const fn on_control(&mut self) {
        self.sent += 1;
    }

    /// A block was queued; `wire_end` is the output's position after it.
    pub(super) fn on_block(&mut self, wire_len: usize, plain_len: usize, wire_end: u64, fed: Fed) {
        let alone = self.blocks.is_empty();
        self.sent += 1;
        self.blocks_sent += 1;
        let (wire_len, plain_len) = (wire_len as u32, plain_len as u32);
        self.wire_unacked += u64::from(wire_len);
        self.plain_unacked += u64::from(plain_len);
        if self.blocks.len() == MAX_REMEMBERED {
            let forgotten = self.blocks.pop_front();
            self.wire_unacked -= forgotten.map_or(0, |block| u64::from(block.wire_len));
            self.plain_unacked -= forgotten.map_or(0, |block| u64::from(block.plain_len));
            self.written = self.written.saturating_sub(1);
        }
        let block = SentBlock {
            number: self.sent,
            wire_len,
            plain_len,
            wire_end,
            begun: None,
            written: None,
            ahead: 0,
            before: (Time::ZERO, 0),
            fed,
            alone,
            is_check: core::mem::take(&mut self.checks),
            apart: alone,
            pause: None,
        };
        push_back_few(&mut self.blocks, block, FEW);
    }

    /// The next block goes plain to show the link's rate.
    pub(super) const fn check_next(&mut self) {
        self.checks = true;
    }

    /// Whether no probe is under way.
    pub(super) const fn can_probe(&self) -> bool {
        self.probe.is_none()
    }

    /// When the probe that is under way was written, if it is.
    pub(super) fn probe_written(&self) -> Option<Time> {
        self.probe.and_then(|probe| probe.written)
    }

    /// The number of a new probe, unless one is still under way.
    pub(super) const fn new_probe(&mut self) -> Option<u64> {
        if !self.can_probe() {
            return None;
        }
        self.next_probe += 1;
        Some(self.next_probe)
    }

    /// The probe was queued; `wire_end` is the output's position after it.
    pub(super) fn on_probe(&mut self, id: u64, padding: usize, wire_end: u64) {
        self.probe = Some(SentProbe {
            id,
            padding,
            wire_end,
            written: None,
        });
    }

    /// The socket has taken all bytes up to `position`. Blocks further apart than the round trip
    /// `rtt` do not meet on the way.
    pub(super) fn on_written(&mut self, now: Time, position: u64, rtt: Option<Duration>) {
        if now != self.latest_write.at {
            let before = self.latest_write;
            self.latest_write = Write {
                at: now,
                from: self.written_to,
                before: (before.at, self.written_to - before.from),
            };
        }
        self.written_to = position;
        let write = self.latest_write;
        while let Some(block) = self
            .blocks
            .get_mut(self.written)
            .filter(|block| block.wire_end <= position)
        {
            block.begin(&write);
            block.written = Some(now);
            if block.fed != Fed::Backlogged {
                let last = self.last_written;
                block.pause = last.map(|(last, len)| (now.saturating_since(last), len));
                let pause = block.pause.map(|(pause, _)| pause);
                block.apart |= pause.zip(rtt).is_some_and(|(pause, rtt)| pause >= rtt);
            }
            self.last_written = Some((now, block.wire_len));
            self.written += 1;
        }
        if let Some(block) = self.blocks.get_mut(self.written) {
            if position > block.wire_start() {
                block.begin(&write);
            }
        }
        if let Some(probe) = self
            .probe
            .as_mut()
            .filter(|probe| probe.written.is_none() && probe.wire_end <= position)
        {
            probe.written = Some(now);
        }
    }

    pub(super) fn on_probe_reply(
        &mut self,
        now: Time,
        reply: &ProbeReply,
        rtt: &mut RttEstimator,
        link: &mut LinkEstimator,
    ) {
        let Some(probe) = self.probe.filter(|probe| probe.id == reply.id) else {
            self.absurd += 1;
            return;
        };
        self.probe = None;
        let Some(written) = probe.written else { return };
        let held = Duration::from_nanos(reply.held_nanos);
        let Some(sample) = self.round_trip(now, written, held) else {
            return;
        };
        if probe.padding == 0 {
            rtt.record(now, sample);
            link.record_probe(now, self.one_way(written, reply.received_nanos));
        } else if let Some(least) = rtt.min() {
            link.record_padded(probe.padding, sample, least);
        }
    }

    const fn check(&self, ack: &Ack) -> Result<(), WireError> {
        if ack.frames > self.sent {
            return Err(WireError::FieldTooLarge {
                field: "acknowledged frames",
                given: ack.frames,
                max: self.sent,
            });
        }
        if ack.frames < self.acked {
            return Err(WireError::FieldTooSmall {
                field: "acknowledged frames",
                given: ack.frames,
                min: self.acked,
            });
        }
        Ok(())
    }

    /// # Errors
    ///
    /// The peer acknowledges what was not sent, or less than before.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        position: u64,
        known_rtt: &mut RttEstimator,
        link: &mut LinkEstimator,
    ) -> Result<(), WireError> {
        self.check(ack)?;
        self.acked = ack.frames;
        let acked = self.acked_bytes.0;
        let (mut fed, mut pause) = (Fed::Backlogged, Duration::ZERO);
        let (mut first, mut last, mut check) = (None, None, None);
        while let Some(block) = self
            .blocks
            .front()
            .filter(|block| block.number <= ack.frames)
        {
            let alone = block.apart && block.fed == Fed::Overlapping;
            fed = fed.and(if alone { Fed::Idle } else { block.fed });
            pause = pause.max(block.pause.map_or(Duration::ZERO, |(pause, _)| pause));
            // A flight begins with a block that had the link to itself.
            if block.apart || first.is_none() {
                first = Some(*block);
            }
            last = Some(*block);
            check = check.or(last.filter(|block| block.is_check));
            self.pop_acked();
        }
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(());
        };
        link.on_carried(self.acked_bytes.0 - acked);
        let held = Duration::from_nanos(ack.held_nanos);
        let rtt = last
            .begun
            .and_then(|begun| self.round_trip(now, begun, held));
        if let Some(rtt) = rtt {
            known_rtt.record_at_most(now, rtt);
        }
        let rtt_min = known_rtt.min();
        if let Some(least) = rtt_min {
            if let Some(rtt) = rtt {
                link.record_passage(last.wire_len as usize, rtt, least);
            }
            let begun = check.and_then(|check| check.begun);
            let rtt_check = begun.and_then(|begun| self.round_trip(now, begun, held));
            if let Some((check, rtt)) = check.zip(rtt_check) {
                link.record_check(last.wire_end - check.wire_start(), rtt, least);
            }
        }
        self.on_flight(now, ack.received_nanos, (&first, &last), rtt_min, link);
        let written_within = last
            .written
            .zip(self.acked_written)
            .map(|(last, before)| last.saturating_since(before));
        self.acked_written = last.written.or(self.acked_written);
        let on_way = last
            .begun
            .and_then(|begun| link.queued(self.one_way(begun, ack.received_nanos)));
        let mut queued = Duration::ZERO;
        if let Some(before) = self.last_ack.filter(|_| ack.wire_bytes <= position) {
            let delta = (
                ack.wire_bytes.checked_sub(before.wire_bytes),
                ack.received_nanos.checked_sub(before.received_nanos),
                ack.waited_nanos.checked_sub(before.waited_nanos),
            );
            if let (Some(bytes), Some(nanos), Some(waited)) = delta {
                // What it takes by itself at the rate at which all came.
                let alone = f64::from(last.wire_len) * nanos as f64 / bytes.max(1) as f64;
                let late = on_way.filter(|time| saturating_nanos(*time) as f64 > QUEUED * alone);
                queued = late.unwrap_or_default();
                let known = self.delivery.unwrap_or(Delivery::NONE);
                let delivery = Delivery {
                    bytes: known.bytes.saturating_add(bytes),
                    nanos: known.nanos.saturating_add(nanos),
                    written: known.written + written_within.unwrap_or_default(),
                    fed: known.fed.and(fed),
                    queued: known.queued && pause < queued.min(before.queued),
                    ..known
                };
                // A receiver that does not say how long it waits is taken for one that does wait.
                let waits = ack.waited_nanos == 0 || waited as f64 >= LEAST_WAITED * nanos as f64;
                self.on_delivery(delivery, waits, last.number, link);
            } else {
                self.delivery = None;
                self.absurd += 1;
            }
        }
        if ack.wire_bytes > position {
            self.absurd += 1;
            return Ok(());
        }
        self.last_ack = Some(LastAck {
            wire_bytes: ack.wire_bytes,
            received_nanos: ack.received_nanos,
            waited_nanos: ack.waited_nanos,
            queued,
        });
        if self.acked == self.sent {
            self.queue.bytes = 0.0;
        }
        Ok(())
    }

    /// What a flight from its first block to its last shows, which was received at `received_nanos` by the peer's clock.
    fn on_flight(
        &mut self,
        now: Time,
        received_nanos: u64,
        (first, last): (&SentBlock, &SentBlock),
        rtt_min: Option<Duration>,
        link: &mut LinkEstimator,
    ) {
        let begun = first.begun.filter(|_| first.alone);
        let longer = begun.and_then(|begun| link.queued(self.one_way(begun, received_nanos)));
        // What the application spread out in time shows its own pace; the last block may have been by itself.
        if first.alone && !first.is_spread(last, longer) {
            // Other frames on the way with them, as what opens a stream, take their time too.
            let bytes = last.wire_end - first.wire_start() + first.ahead;
            if let Some((bytes, from)) = first.flight(bytes, longer, rtt_min) {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                link.record_flight(now, bytes, self.one_way(from, received_nanos));
            }
        } else if let Some(written) = last.written {
            let one_way = self.one_way(written, received_nanos);
            // The block before, of about the same time on the link, was off it when this one came.
            let on_link = link.queued(one_way);
            if last.apart || on_link.is_some_and(|on_link| last.is_behind(on_link)) {
                link.record_lone(now, last.len_at_once(), one_way);
            }
        }
    }

    /// The oldest block is acknowledged.
    fn pop_acked(&mut self) {
        if let Some(block) = self.blocks.pop_front() {
            let (wire_len, plain_len) = (u64::from(block.wire_len), u64::from(block.plain_len));
            self.wire_unacked -= wire_len;
            self.plain_unacked -= plain_len;
            self.acked_bytes.0 += wire_len;
            self.acked_bytes.1 += plain_len;
            self.written = self.written.saturating_sub(1);
        }
    }

    /// What came since the receiver last waited is acknowledged up to frame `last`; whether it has
    /// waited again, or has always found more to read.
    fn on_delivery(
        &mut self,
        delivery: Delivery,
        waits: bool,
        last: u64,
        link: &mut LinkEstimator,
    ) {
        let within = Duration::from_nanos(delivery.nanos);
        if !waits && within < LONG_BUSY {
            self.delivery = Some(delivery);
            return;
        }
        let mut sample = (delivery.bytes, within);
        let fed = if !waits {
            self.train = None;
            Fed::EndBound
        } else if delivery.fed == Fed::Backlogged || within <= delivery.written.mul_f64(STRETCH) {
            self.train = None;
            if delivery.receiver_bound {
                delivery.fed.and(Fed::Overlapping)
            } else if delivery.queued && delivery.fed != Fed::Idle {
                Fed::Backlogged
            } else {
                delivery.fed
            }
        } else {
            // It arrives more slowly than it was written: something is in its way, perhaps for long.
            let before = self.train.unwrap_or(Delivery::NONE);
            let train = Delivery {
                bytes: before.bytes.saturating_add(delivery.bytes),
                nanos: before.nanos.saturating_add(delivery.nanos),
                written: before.written + delivery.written,
                ..delivery
            };
            let arrived = Duration::from_nanos(train.nanos);
            if arrived > train.written.mul_f64(STRETCH) + LEAST_STRETCH {
                self.train = None;
                sample = (train.bytes, arrived);
                if delivery.receiver_bound {
                    Fed::Overlapping
                } else {
                    Fed::Backlogged
                }
            } else {
                self.train = Some(train);
                delivery.fed.and(Fed::Overlapping)
            }
        };
        // Blocks that left before the last such news was acted on are no news.
        let fed = match fed {
            Fed::EndBound if last <= self.end_bound_until => Fed::Overlapping,
            fed => fed,
        };
        if fed == Fed::EndBound {
            self.end_bound_until = self.sent;
        }
        let (bytes, within) = sample;
        link.record_delivery(bytes, within, fed);
        self.delivery = (!waits).then_some(Delivery {
            receiver_bound: true,
            ..delivery
        });
    }

    /// The time from a write here to an arrival there, by two clocks: only differences of it mean
    /// anything. It begins somewhere in the middle, so that it may fall too.
    fn one_way(&mut self, written: Time, received_nanos: u64) -> Duration {
        let apart = i128::from(received_nanos) - i128::from(written.as_nanos());
        let origin = *self.one_way_origin.get_or_insert(apart);
        let since = (apart - origin).saturating_add(ONE_WAY_ORIGIN);
        Duration::from_nanos(u64::try_from(since).unwrap_or(0))
    }

    /// The round trip without the time that the peer held its answer; `None` if it says that it
    /// held it for longer than has passed.
    fn round_trip(&mut self, now: Time, written: Time, held: Duration) -> Option<Duration> {
        let rtt = now.saturating_since(written).checked_sub(held);
        if rtt.is_none() {
            self.absurd += 1;
        }
        rtt
    }
}

#[cfg(test)]
mod tests;
