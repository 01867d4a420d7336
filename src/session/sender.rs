//! The sending side: which messages make the next block, with which arm, and what became of it.

use core::time::Duration;
use std::collections::VecDeque;

use fastrand::Rng;

use super::block::BlockBuilder;
use super::event::Event;
use super::inflight::Inflight;
use super::job::{EncodeJob, EncodedBlock};
use super::output::Output;
use super::stream::{SendStream, Streams};
use crate::codecs::{Arm, Encoded};
use crate::control::{
    Arms, BudgetRate, Choice, CodecBudget, DecodeEstimates, LinkEstimator, Reason, RttEstimator,
    Situation,
};
use crate::units::{Time, saturating_nanos};
use crate::wire::{BlockHeader, Check, RecordWriter, Slot, StreamId};

/// Payload bytes that a stream may put into a block before others get their turn.
const QUANTUM: isize = 16 << 10;
/// What a stream may save up of turns that a full block cut short.
const MAX_DEFICIT: isize = 4 * QUANTUM;
/// Streams that are asked whether they join a block before it is closed without them.
const MAX_ASKED: usize = 64;
/// A block of so many bytes is copied behind its header: one slice in the write instead of two.
const MAX_JOINED: usize = 2048;

/// What is known of the path and the peer; inputs of every decision.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) link: LinkEstimator,
    pub(super) rtt: RttEstimator,
    pub(super) decode: DecodeEstimates,
}

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) output: Output,
    pub(super) inflight: Inflight,
    pub(super) arms: Arms,
    pub(super) budget: CodecBudget,
    pub(super) encode_nanos: u64,
    /// Streams that have something to send, in the order of their turns.
    ready: VecDeque<StreamId>,
    writer: RecordWriter,
    check: Check,
    with_check: bool,
    block_len: usize,
    rng: Rng,
    builder: BlockBuilder,
    job: Option<EncodeJob>,
    /// The arm of the block that is being encoded; its members stand in the builder.
    encoding: Option<Arm>,
    /// When the output last became not empty, and its position then.
    offered: Option<(Time, u64)>,
}

impl Sender {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            output: Output::default(),
            inflight: Inflight::default(),
            arms: Arms::new(&[], |_| false),
            budget: CodecBudget::limited(Time::ZERO, BudgetRate::ZERO),
            encode_nanos: 0,
            ready: VecDeque::new(),
            writer: RecordWriter::default(),
            check: Check::default(),
            with_check: true,
            block_len: 0,
            rng: Rng::with_seed(seed),
            builder: BlockBuilder::default(),
            job: None,
            encoding: None,
            offered: None,
        }
    }

    /// The handshake is complete.
    pub(super) fn begin(&mut self, arms: Arms, with_check: bool, block_len: usize) {
        self.arms = arms;
        self.with_check = with_check;
        self.block_len = block_len;
    }

    /// Whether nothing is queued or being encoded.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.encoding.is_none()
    }

    /// Whether a block is with a codec.
    pub(super) const fn is_encoding(&self) -> bool {
        self.encoding.is_some()
    }

    /// Puts a stream in line if it has something that may be sent.
    pub(super) fn on_sendable(&mut self, id: StreamId, send: &mut SendStream) {
        if !send.is_ready && send.can_send() {
            send.is_ready = true;
            self.ready.push_back(id);
        }
    }

    pub(super) fn take_job(&mut self) -> Option<EncodeJob> {
        self.job.take()
    }

    /// Builds blocks until one's worth of output waits to be written or a codec has work.
    pub(super) fn fill(
        &mut self,
        now: Time,
        streams: &mut Streams,
        path: &Path,
        events: &mut VecDeque<Event>,
    ) {
        while self.encoding.is_none()
            && self.output.len() < self.block_len
            && !self.ready.is_empty()
        {
            self.build(now, streams, path, events);
        }
        if self.offered.is_none() && self.output.len() > 0 {
            self.offered = Some((now, self.output.position() - self.output.len() as u64));
        }
    }

    fn build(
        &mut self,
        now: Time,
        streams: &mut Streams,
        path: &Path,
        events: &mut VecDeque<Event>,
    ) {
        let Some(lead) = self.lead(streams) else {
            return;
        };
        let budget_left = !self.budget.available(now).is_zero();
        let Some(choice) = self.choose(now, lead, streams, path, budget_left) else {
            return;
        };
        let number = choice.arm;
        let arm = self.arms.as_slice()[number];
        let buffer = self.output.buffer();
        self.builder.begin(buffer, arm == Arm::IDENTITY);
        self.gather(number, budget_left, streams);
        if self.builder.plain_len == 0 {
            // The streams in line were aborted meanwhile.
            let buffer = core::mem::take(&mut self.builder.bytes);
            self.output.recycle(buffer);
            return;
        }
        for member in &self.builder.members {
            if let Some(stream) = streams.find(member.stream) {
                stream.policy.on_sent(member.messages);
                let stats = &mut stream.stats;
                stats.switches += u64::from(stats.latest.is_some_and(|(last, _)| last != arm));
                stats.latest = Some((arm, choice.reason));
                if choice.reason == Reason::Budget {
                    stream.stats.out_of_budget += 1;
                }
            }
            events.push_back(Event::Drained {
                stream: member.stream,
                bytes: member.drained,
            });
        }
        if arm == Arm::IDENTITY {
            self.emit_identity(now, streams);
        } else {
            self.encoding = Some(arm);
            self.job = Some(EncodeJob {
                arm,
                plain: core::mem::take(&mut self.builder.bytes),
                wire: self.output.buffer(),
                with_check: self.with_check,
            });
        }
    }

    /// The stream whose turn it is, in front of the line.
    fn lead(&mut self, streams: &mut Streams) -> Option<StreamId> {
        loop {
            let &id = self.ready.front()?;
            let alone = self.ready.len() == 1;
            match streams.find(id) {
                None => {
                    self.ready.pop_front();
                }
                Some(stream) if alone || stream.send.deficit + QUANTUM > 0 => {
                    return Some(id);
                }
                Some(stream) => {
                    // It has sent ahead: its turn goes to the others, and counts.
                    stream.send.deficit += QUANTUM;
                    self.ready.rotate_left(1);
                }
            }
        }
    }

    /// The arm for a block that begins with stream `lead`; `None` if the stream is gone.
    fn choose(
        &mut self,
        now: Time,
        lead: StreamId,
        streams: &mut Streams,
        path: &Path,
        budget_left: bool,
    ) -> Option<Choice> {
        let stream = streams.find(lead)?;
        let situation = Situation {
            now,
            plain_len: stream.send.queued_bytes.min(self.block_len),
            arms: self.arms.as_slice(),
            electable: self.arms.electable(),
            estimates: &stream.estimates,
            decode: &path.decode,
            link: &path.link,
            rtt: &path.rtt,
            budget_left,
        };
        Some(stream.policy.choose(&situation, &mut self.rng))
    }

    /// Takes messages of the stream in front, and of others that would choose the same arm, by deficit
    /// round robin (Shreedhar and Varghese 1995).
    fn gather(&mut self, number: usize, budget_left: bool, streams: &mut Streams) {
        let mut asked = 0;
        let mut lead = true;
        // Those that stay in line without a turn, in their order.
        let mut passed = VecDeque::new();
        while let Some(id) = self.ready.pop_front() {
            let Some(stream) = streams.find(id) else {
                continue;
            };
            let joins = lead
                || stream
                    .policy
                    .joins(number, self.arms.as_slice(), budget_left);
            lead = false;
            if !joins {
                passed.push_back(id);
                asked += 1;
                if asked == MAX_ASKED {
                    break;
                }
                continue;
            }
            let send = &mut stream.send;
            let no_others = self.ready.is_empty();
            send.deficit = (send.deficit + QUANTUM).min(MAX_DEFICIT);
            if no_others && passed.is_empty() {
                send.deficit = QUANTUM;
            }
            let Some(quantum) = usize::try_from(send.deficit)
                .ok()
                .filter(|quantum| *quantum > 0)
            else {
                self.ready.push_back(id);
                continue;
            };
            let before = self.builder.plain_len;
            let complete = self.builder.take(
                &mut self.writer,
                id,
                send,
                self.block_len,
                quantum,
                no_others,
            );
            let taken = self.builder.plain_len - before;
            send.deficit -= isize::try_from(taken).unwrap_or(isize::MAX);
            send.is_ready = send.can_send();
            if !send.is_ready {
                send.deficit = 0;
            } else if taken == 0 {
                // Its message fits a block, but not what was left of this one: if it lost its place
                // for that, it might come too late for every block. Its turn is still to come.
                send.deficit -= QUANTUM;
                self.ready.push_front(id);
            } else {
                self.ready.push_back(id);
            }
            if complete || self.builder.plain_len >= self.block_len {
                break;
            }
        }
        while let Some(id) = passed.pop_back() {
            self.ready.push_front(id);
        }
    }

    fn emit_identity(&mut self, now: Time, streams: &mut Streams) {
        let crc = if self.with_check {
            let mut hasher = crc32fast::Hasher::new();
            self.builder.parts().for_each(|part| hasher.update(part));
            hasher.finalize()
        } else {
            0
        };
        let output_was_empty = self.output.len() == 0;
        let start = self.output.position();
        self.put_header(Arm::IDENTITY, None, self.builder.plain_len, crc);
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
        let plain_len = self.builder.plain_len;
        self.record_estimates(
            now,
            Arm::IDENTITY,
            plain_len,
            plain_len,
            Duration::ZERO,
            streams,
        );
        self.on_emitted(
            Arm::IDENTITY,
            start,
            output_was_empty,
            Duration::ZERO,
            streams,
        );
    }

    /// Takes in an encoded block; its time was `elapsed`.
    pub(super) fn on_encoded(
        &mut self,
        now: Time,
        block: EncodedBlock,
        elapsed: Duration,
        streams: &mut Streams,
    ) {
        let Some(arm) = self.encoding.take() else {
            return;
        };
        self.budget.spend(now, elapsed);
        self.encode_nanos += saturating_nanos(elapsed);
        let output_was_empty = self.output.len() == 0;
        let start = self.output.position();
        let EncodedBlock {
            plain,
            wire,
            crc,
            result,
        } = block;
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
        // The estimates know the time that the arm took even where its result was of no use.
        let wire_len = written.unwrap_or(plain.len());
        self.record_estimates(now, arm, plain.len(), wire_len, elapsed, streams);
        let sent_as = if let Some(len) = written {
            self.put_header(arm, Some(plain.len()), len, crc);
            self.put_body(wire, len);
            self.output.recycle(plain);
            arm
        } else {
            let len = plain.len();
            self.put_header(Arm::IDENTITY, None, len, crc);
            self.put_body(plain, len);
            self.output.recycle(wire);
            Arm::IDENTITY
        };
        self.on_emitted(sent_as, start, output_was_empty, elapsed, streams);
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

    fn put_header(&mut self, arm: Arm, plain_len: Option<usize>, body_len: usize, crc: u32) {
        let check = if self.with_check {
            self.check.advance(crc)
        } else {
            0
        };
        let Some(slot) = Slot::new(arm.codec.to_wire()) else {
            return;
        };
        let mut header = BlockHeader {
            slot,
            epoch: None,
            plain_len: None,
            body_len,
            check,
        };
        if !header.is_short() {
            header.plain_len = plain_len;
        }
        let with_check = self.with_check;
        self.output.put_small(|out| header.put(out, with_check));
    }

    fn on_emitted(
        &mut self,
        arm: Arm,
        start: u64,
        output_was_empty: bool,
        elapsed: Duration,
        streams: &mut Streams,
    ) {
        let wire_len = (self.output.position() - start) as usize;
        self.inflight
            .on_block(wire_len, self.output.position(), output_was_empty);
        let plain_len = self.builder.plain_len.max(1);
        for member in &self.builder.members {
            let Some(stream) = streams.find(member.stream) else {
                continue;
            };
            let share =
                |of: u64| (u128::from(of) * member.plain as u128 / plain_len as u128) as u64;
            stream.stats.record(
                arm,
                u64::from(member.messages),
                member.plain as u64,
                share(wire_len as u64),
                Duration::from_nanos(share(saturating_nanos(elapsed))),
            );
        }
        self.builder.members.clear();
    }

    fn record_estimates(
        &self,
        now: Time,
        arm: Arm,
        plain: usize,
        wire: usize,
        elapsed: Duration,
        streams: &mut Streams,
    ) {
        let Some(number) = self.arms.position(arm) else {
            return;
        };
        for member in &self.builder.members {
            if let Some(stream) = streams.find(member.stream) {
                stream.estimates.record(number, now, plain, wire, elapsed);
            }
        }
    }

    fn count_members(&self, streams: &mut Streams, count: impl Fn(&mut super::stats::StreamStats)) {
        for member in &self.builder.members {
            if let Some(stream) = streams.find(member.stream) {
                count(&mut stream.stats);
            }
        }
    }

    /// The socket has taken `written` more bytes.
    pub(super) fn on_written(&mut self, now: Time, written: usize, path: &mut Path) {
        self.output.advance(written);
        let position = self.output.position() - self.output.len() as u64;
        self.inflight.on_written(now, position, path.rtt.smoothed());
        if self.output.len() == 0 {
            if let Some((since, from)) = self.offered.take() {
                path.link
                    .record_send(position - from, now.saturating_since(since));
            }
        }
    }
}
