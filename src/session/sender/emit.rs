//! What became of a block: its header and body into the output, what is learned from it.

use core::time::Duration;

use super::Sender;
use super::encodings::{Encoding, Finished};
use crate::codecs::{Arm, Encoded};
use crate::control::{BlockClass, Fed, MAX_INLINE, SentBlock, Texture};
use crate::session::history::{HistoryAge, SlotUse};
use crate::session::job::{EncodedBlock, JobTime};
use crate::session::observer::Observations;
use crate::session::path::Path;
use crate::session::stats::StreamStats;
use crate::session::stream::{Stream, Streams};
use crate::units::{Time, saturating_nanos};
use crate::wire::{BlockHeader, GroupId, Slot};

/// A block of so many bytes is copied behind its header: one slice in the write instead of two.
/// Arbitrary: those with short headers (docs/wire.md).
const MAX_JOINED: usize = 2048;

/// Where a block goes, if not in its codec's own slot.
#[derive(Clone, Copy)]
struct Place {
    slot: Slot,
    group: GroupId,
    epoch: Option<u64>,
}

impl Place {
    /// A slot of the first group, without history.
    fn of_first(slot: Slot) -> Self {
        Self {
            slot,
            group: GroupId::default(),
            epoch: None,
        }
    }
}

impl From<SlotUse> for Place {
    fn from(history: SlotUse) -> Self {
        let SlotUse {
            slot, group, epoch, ..
        } = history;
        Self { slot, group, epoch }
    }
}

impl Sender {
    pub(super) fn emit_identity(
        &mut self,
        now: Time,
        texture: Texture,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        let crc = if self.with_check {
            let mut hasher = crc32fast::Hasher::new();
            self.builder.parts().for_each(|part| hasher.update(part));
            hasher.finalize()
        } else {
            0
        };
        let start = self.output.position();
        self.put_header(Arm::IDENTITY, None, None, self.builder.plain_len, crc);
        let bytes = core::mem::take(&mut self.builder.bytes);
        if self.builder.shared.is_empty() && bytes.len() > MAX_JOINED {
            let end = bytes.len();
            self.output.put_owned(bytes, end);
        } else {
            let mut at = 0;
            for (end, payload) in self.builder.shared.drain(..) {
                self.output
                    .put_small(|out| out.extend_from_slice(&bytes[at..end]));
                self.output.put_shared(payload);
                at = end;
            }
            self.output
                .put_small(|out| out.extend_from_slice(&bytes[at..]));
            self.output.recycle(bytes);
        }
        let sent = SentBlock {
            now,
            arm: 0,
            plain_len: self.builder.plain_len,
            wire_len: self.builder.plain_len,
            encode: Duration::ZERO,
            texture,
            is_paired: false,
        };
        if !self.builder.company.sensitive {
            let class = BlockClass::of(sent.plain_len, texture);
            path.known.codecs.record_plain(class);
            self.each_owner(streams, |stream| stream.policy.record_plain(&sent, class));
        }
        path.peer_budget.on_block(now, 0.0);
        self.on_emitted(now, Arm::IDENTITY, start, Duration::ZERO, streams, path);
    }

    /// Takes in an encoded block, which took `time`.
    pub(in crate::session) fn on_encoded(
        &mut self,
        now: Time,
        block: EncodedBlock,
        time: JobTime,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        if block.connection != self.connection {
            return;
        }
        let Some((encoding, finished)) = self.encodings.find(block.number) else {
            return;
        };
        let (decided, likely, is_alone) = (encoding.decided, encoding.likely, encoding.is_alone);
        let overhead = &mut path.known.codecs.overhead;
        // Beside a shadow it is not others that have the processors.
        if self.shadows.is_idle() {
            overhead.on_encoded(time.elapsed, time.processor, is_alone);
        }
        let since = overhead.on_returned(now, decided, time.elapsed, likely > MAX_INLINE);
        let encode = time.processor;
        self.budget.spend(now, encode);
        self.encode_nanos = self.encode_nanos.saturating_add(saturating_nanos(encode));
        *finished = Some(Finished {
            block,
            encode,
            since,
        });
        while let Some((encoding, finished)) = self.encodings.pop_finished() {
            self.emit_encoded(now, encoding, finished, streams, path);
        }
        // While it was with its codec, the memory for histories may have become less.
        if self.encodings.is_empty() {
            self.put_defines(None);
        }
    }

    /// All blocks before this one are out.
    fn emit_encoded(
        &mut self,
        now: Time,
        encoding: Encoding,
        finished: Finished,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        let Encoding {
            number: _,
            arm,
            texture,
            decided: _,
            likely: _,
            is_alone: _,
            slot,
            primed,
            dictionary,
            gathered,
        } = encoding;
        let Finished {
            block,
            encode,
            since,
        } = finished;
        let EncodedBlock {
            connection: _,
            number: _,
            plain,
            wire,
            crc,
            result,
            context,
        } = block;
        let members = self.builder.put_gathered(gathered);
        self.encodings.recycle(members);
        if let Some(taken) = slot {
            self.on_history_used(taken, (arm, primed), context, &plain);
        }
        let start = self.output.position();
        let failed = result.is_err();
        path.known.codecs.failures.record(now, arm, failed);
        let written = match result {
            Ok(Encoded::Written(len)) => Some(len),
            Ok(Encoded::NotSmaller) => {
                self.count_members(streams, |stats| stats.not_smaller += 1);
                None
            }
            Err(_) => {
                self.count_members(streams, |stats| stats.failed += 1);
                None
            }
        };
        let dictionary = dictionary.inspect(|way| {
            self.dictionaries.on_encoded(way, plain.len(), written);
            if let (Some(define), Some(_)) = (way.define, written) {
                self.put_define(define);
            }
        });
        // The estimates know the time that the arm took even where its result was of no use.
        let sent = SentBlock {
            now,
            arm: self.arms.position(arm).unwrap_or(0),
            plain_len: plain.len(),
            wire_len: written.unwrap_or(plain.len()),
            encode,
            texture,
            is_paired: slot.is_some() && self.shadows.pairs(),
        };
        let age = slot.map(|slot| slot.age);
        let level = match age {
            _ if failed => None,
            Some(HistoryAge::Young) => None,
            Some(HistoryAge::Unseen) => {
                self.record_first(&sent, streams, path);
                None
            }
            Some(HistoryAge::Old) | None => self.record_estimates(&sent, streams, path),
        };
        let old = age == Some(HistoryAge::Old) && !failed;
        self.shadows.on_encoded(level, old.then_some(sent.wire_len));
        path.known.decode.on_sent(arm, plain.len());
        if slot.is_some() || self.history.is_short() {
            let became = written.filter(|_| slot.is_some());
            self.gain.on_block(now, plain.len(), became);
        }
        let decode_nanos = path.decode_nanos(arm, plain.len());
        path.peer_budget.on_block(now, decode_nanos);
        let sent_as = if let Some(len) = written {
            let with_dictionary = dictionary.map(|way| Place::of_first(way.slot));
            let place = slot.map(Place::from).or(with_dictionary);
            self.put_header(arm, place, Some(plain.len()), len, crc);
            self.put_body(wire, len);
            self.output.recycle(plain);
            arm
        } else {
            let len = plain.len();
            let slot = self.without_history(slot);
            self.put_header(Arm::IDENTITY, slot.map(Place::from), None, len, crc);
            self.put_body(plain, len);
            self.output.recycle(wire);
            Arm::IDENTITY
        };
        self.on_emitted(since, sent_as, start, encode, streams, path);
    }

    fn put_body(&mut self, buffer: Vec<u8>, end: usize) {
        if end > MAX_JOINED {
            self.output.put_owned(buffer, end);
        } else {
            self.output
                .put_small(|out| out.extend_from_slice(&buffer[..end]));
            self.output.recycle(buffer);
        }
    }

    fn put_header(
        &mut self,
        arm: Arm,
        place: Option<Place>,
        plain_len: Option<usize>,
        body_len: usize,
        crc: u32,
    ) {
        let check = if self.with_check {
            let group = place.map_or(GroupId::default(), |place| place.group);
            self.chains.of(group).check.advance(crc)
        } else {
            0
        };
        let alone = Slot::new(arm.codec.to_wire());
        let Some(slot) = place.map(|place| place.slot).or(alone) else {
            return;
        };
        let mut header = BlockHeader {
            slot: Some(slot),
            epoch: place.and_then(|place| place.epoch),
            plain_len: None,
            body_len,
            check,
        };
        if !header.is_short() {
            header.plain_len = plain_len;
        }
        if self.last_slot.replace(slot) == Some(slot) && header.can_be_tiny() {
            header.slot = None;
        }
        let with_check = self.with_check;
        self.output.put_small(|out| header.put(out, with_check));
    }

    fn on_emitted(
        &mut self,
        since: Time,
        arm: Arm,
        start: u64,
        encode: Duration,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        let wire_len = (self.output.position() - start) as usize;
        let was_blocked = core::mem::take(&mut path.was_blocked);
        // Where the system does not say what it holds, a socket that was full has at least drained since.
        let held = path.unsent().map_or(was_blocked, |unsent| unsent > 0);
        // On a fast link it may wait for no more than its turn to be written.
        let is_refused = path.blocked_since.is_some() || !path.known.link.is_fast();
        let fed = if self.block_waits(start) && is_refused || held {
            Fed::Backlogged
        } else if self.run > 0 && self.period.follows && arm != Arm::IDENTITY {
            Fed::EndBound
        } else {
            Fed::Overlapping
        };
        self.last_block_start = start;
        self.last_block_end = self.output.position();
        let goes_on = !self.ready.is_empty() && self.output.len() < self.output_limit;
        path.known.codecs.overhead.on_emitted(since, goes_on);
        path.known.codecs.carried.on_block(self.builder.plain_len);
        self.inflight.on_block(
            wire_len,
            self.builder.plain_len,
            self.output.position(),
            fed,
        );
        self.retained.push_block();
        let plain_len = self.builder.plain_len.max(1);
        let block = self.inflight.blocks_sent() - 1;
        for member in &self.builder.members {
            let Some(stream) = streams.find(member.stream) else {
                continue;
            };
            if let Some(observer) = self.told.of(Observations::MESSAGES_ENCODED) {
                observer.messages_encoded(block, member.run());
            }
            let share = |of: u64| {
                if member.plain == plain_len {
                    return of;
                }
                (u128::from(of) * member.plain as u128 / plain_len as u128) as u64
            };
            stream.stats.record(
                arm,
                u64::from(member.messages),
                member.plain as u64,
                share(wire_len as u64),
                Duration::from_nanos(share(saturating_nanos(encode))),
            );
        }
        self.builder.members.clear();
        if let Some(observer) = self.told.of(Observations::BLOCK_ENCODED) {
            observer.block_encoded(block, arm, (self.builder.plain_len, wire_len), encode);
        }
    }

    /// Learns from a block, for all streams and for the one whose it is; says what its level was.
    fn record_estimates(
        &self,
        sent: &SentBlock,
        streams: &mut Streams,
        path: &mut Path,
    ) -> Option<f32> {
        let arm = *self.arms.as_slice().get(sent.arm)?;
        let sample = sent.sample(arm);
        let codecs = &mut path.known.codecs;
        let level = sample.and_then(|sample| codecs.record_sent(&sample, sent.is_paired));
        self.each_owner(streams, |stream| {
            stream.policy.record_sent(sent, sample.as_ref(), codecs);
        });
        level
    }

    /// Learns from the first block of a history: it is what it would have been without, but for the time that the history's beginning takes.
    fn record_first(&self, sent: &SentBlock, streams: &mut Streams, path: &mut Path) {
        let arm = self.arms.as_slice()[sent.arm].alone();
        let first = SentBlock {
            encode: Duration::ZERO,
            ..*sent
        };
        let Some(sample) = first.sample(arm) else {
            return;
        };
        let codecs = &mut path.known.codecs;
        codecs.record_sent(&sample, false);
        self.each_owner(streams, |stream| {
            if let Some(own) = stream.policy.own_model() {
                codecs.record_sent_into(own, &sample, false);
            }
        });
    }

    /// The streams, one at most, whose own the block is, all of it or nearly.
    fn each_owner(&self, streams: &mut Streams, mut each: impl FnMut(&mut Stream)) {
        let members = &self.builder.members;
        let alone = members.len() == 1;
        for member in members {
            if alone || self.builder.is_mostly(member.stream) {
                if let Some(stream) = streams.find(member.stream) {
                    each(stream);
                }
            }
        }
    }

    fn count_members(&self, streams: &mut Streams, count: impl Fn(&mut StreamStats)) {
        for member in &self.builder.members {
            if let Some(stream) = streams.find(member.stream) {
                count(&mut stream.stats);
            }
        }
    }
}
