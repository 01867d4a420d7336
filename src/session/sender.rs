//! The sending side: which messages make the next block, with which arm, and what became of it.

use core::time::Duration;
use std::collections::VecDeque;

use fastrand::Rng;

use super::block::BlockBuilder;
use super::event::Event;
use super::flight::Flight;
use super::history::{SendHistory, SlotUse};
use super::inflight::Inflight;
use super::job::{EncodeJob, EncodedBlock, ShadowJob, ShadowedBlock};
use super::output::Output;
use super::path::{Overhead, Path};
use super::shadow::{Shadows, Subject};
use super::stream::{SendStream, Stream, Streams};
use super::trace::{Decision, Trace};
use crate::codecs::{Arm, Encoded};
use crate::control::{
    Affordable, ArmReport, Arms, BlockClass, BudgetPrice, BudgetRate, Choice, CodecBudget, Fed,
    LinkEstimator, LinkRate, Prices, Reason, Sent, SentBlock, Shadowed, Situation, Texture,
    affordable_nanos,
};
use crate::units::{CpuLoad, Time, saturating_nanos};
use crate::wire::{BlockHeader, Check, Control, RecordWriter, Slot, StreamId};

/// Payload bytes that a stream may put into a block before others get their turn. Arbitrary: four
/// streams share a block of the default length.
const QUANTUM: isize = 16 << 10;
/// What a stream may save up of turns that a full block cut short. Arbitrary: one block of the
/// default length.
const MAX_DEFICIT: isize = 4 * QUANTUM;
/// Streams that are asked whether they join a block before it is closed without them. Arbitrary: the
/// time for a block is bounded, however many streams wait.
const MAX_ASKED: usize = 64;
/// A block of so many bytes is copied behind its header: one slice in the write instead of two.
/// Arbitrary: those with short headers (docs/wire.md).
const MAX_JOINED: usize = 2048;

/// What a link carries within this time may wait in front of the socket: less, and a late driver would
/// let it run dry. Arbitrary.
const LATE: Duration = Duration::from_millis(50);
/// .. and so much at least.
const LEAST_LATE: usize = 32 << 10;
/// The most that `run` counts to. Arbitrary: with so many blocks behind it only the slowest stage counts.
const MOST_RUN: u32 = 64;

/// The block that is about to be built.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    plain_len: usize,
    /// Plain bytes that will still wait behind it.
    queued_behind: usize,
    texture: Texture,
}

/// The block that is being encoded.
#[derive(Clone, Copy, Debug)]
struct Encoding {
    arm: Arm,
    texture: Texture,
    /// Where it goes, if it has a history.
    slot: Option<SlotUse>,
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
    /// The block that is being encoded; its members stand in the builder.
    encoding: Option<Encoding>,
    pub(super) history: SendHistory,
    price: BudgetPrice,
    pub(super) shadows: Shadows,
    pub(super) trace: Trace,
    /// Blocks built without a pause.
    run: u32,
    decided_at: Time,
    /// Whether the peer was starved at the latest decision, and the codec time that it could take.
    constraints: (bool, Affordable),
    overhead: Overhead,
    /// This end's processor load.
    pub(super) load: CpuLoad,
    /// Output position after the latest block.
    last_block_end: u64,
    /// What is sent ahead of acknowledgements while the rate is not known.
    pub(super) flight: Flight,
    /// When the next block's codec time is there.
    budget_at: Option<Time>,
    /// Output that may wait before no more is built.
    output_limit: usize,
    /// Nothing more is sent before an acknowledgement comes, so it should come soon.
    pub(super) wants_probe: bool,
    /// When the output last became not empty, and its position then.
    offered: Option<(Time, u64)>,
}

impl Sender {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            output: Output::default(),
            inflight: Inflight::default(),
            arms: Arms::new(&[], &[], |_| false),
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
            history: SendHistory::default(),
            price: BudgetPrice::default(),
            shadows: Shadows::default(),
            trace: Trace::default(),
            run: 0,
            decided_at: Time::ZERO,
            constraints: (false, Affordable::default()),
            overhead: Overhead::default(),
            load: CpuLoad::IDLE,
            last_block_end: 0,
            flight: Flight::default(),
            budget_at: None,
            output_limit: 0,
            wants_probe: false,
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

    /// When blocks that wait for an acknowledgement go on without, or there is codec time for the next.
    pub(super) fn held_until(&self) -> Option<Time> {
        let builds = self.encoding.is_none()
            && !self.ready.is_empty()
            && self.output.len() < self.output_limit;
        let held = self.flight.held_until().into_iter();
        held.chain(self.budget_at).min().filter(|_| builds)
    }

    /// How much output may wait before no more is built: on a slow link no more than it takes within
    /// a short time, so that what is built next is decided by what is known then.
    fn late_limit(&self, link: &LinkEstimator) -> usize {
        late_bytes(link).map_or(self.block_len, |late| late.min(self.block_len))
    }

    /// Until when to wait for codec time rather than send plain bytes: as long as the link is busy
    /// with what it has, that costs nothing.
    fn worth_waiting(&mut self, now: Time, path: &Path) -> Option<Time> {
        let rate = self.budget.rate()?.as_nanos_per_sec() as f64 * 1e-9;
        let wait = saturating_nanos(self.budget.debt(now)) as f64 / rate;
        let LinkRate::About(link) = path.known.link.rate() else {
            return None;
        };
        let busy = link.nanos_for(self.link_backlog(now, path) as f64);
        (wait < busy).then(|| now + Duration::from_nanos(wait as u64 + 1))
    }

    /// Wire bytes that have not left for the link yet.
    fn link_backlog(&self, now: Time, path: &Path) -> u64 {
        let reckoned = self.inflight.backlog(now, path.known.link.rate());
        self.output.len() as u64 + path.unsent().unwrap_or(0).max(reckoned)
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
        path: &mut Path,
        events: &mut VecDeque<Event>,
    ) {
        self.output_limit = self.late_limit(&path.known.link);
        self.budget_at = None;
        while self.encoding.is_none()
            && self.output.len() < self.output_limit
            && !self.ready.is_empty()
            && self.build(now, streams, path, events)
        {}
        if self.offered.is_none() && self.output.len() > 0 {
            self.offered = Some((now, self.output.position() - self.output.len() as u64));
        }
    }

    /// Builds one block; false if none may be built now.
    fn build(
        &mut self,
        now: Time,
        streams: &mut Streams,
        path: &mut Path,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let Some(lead) = self.lead(streams) else {
            return false;
        };
        let Some(stream) = streams.find(lead) else {
            return false;
        };
        let mut block_len = self.block_len;
        let rate = path.known.link.rate();
        if matches!(rate, LinkRate::About(_)) {
            self.flight.on_known();
        } else if stream.policy.is_adaptive() {
            if let LinkRate::AtLeast(bound) = rate {
                self.flight.on_bound(bound);
            }
            let ahead = self.inflight.ahead();
            let Some(longest) = self.flight.block_len(now, ahead) else {
                // Acknowledgements may be held back, but not with the reply to a probe.
                self.wants_probe = true;
                return self.pass_to_fixed(streams);
            };
            block_len = block_len.min(longest);
        }
        let budget_left = !self.budget.available(now).is_zero();
        if !budget_left && stream.policy.is_adaptive() {
            self.budget_at = self.worth_waiting(now, path);
            if self.budget_at.is_some() {
                return false;
            }
        }
        let queued = stream.send.plain_len().saturating_mul(self.ready.len());
        let wanted = Wanted {
            plain_len: queued.min(block_len),
            queued_behind: queued.saturating_sub(block_len),
            texture: texture_of(stream),
        };
        let choice = self.choose(now, stream, wanted, path, budget_left);
        let texture = wanted.texture;
        let number = choice.arm;
        let arm = self.arms.as_slice()[number];
        let history = arm.history.then(|| self.history.take(arm)).flatten();
        let (history, slot) = history.unzip();
        // Where there is no room for a history, the block stands by itself.
        let arm = if slot.is_some() { arm } else { arm.alone() };
        let buffer = self.output.buffer();
        self.builder.begin(buffer, arm == Arm::IDENTITY);
        self.gather(number, budget_left, block_len, streams);
        if self.builder.plain_len == 0 {
            // The streams in line were aborted meanwhile.
            let buffer = core::mem::take(&mut self.builder.bytes);
            self.output.recycle(buffer);
            return true;
        }
        self.run = if self.ready.is_empty() && !self.block_waits(self.output.position()) {
            self.run / 2
        } else {
            (self.run + 1).min(MOST_RUN)
        };
        self.begin_shadow(lead, texture, arm);
        for member in &self.builder.members {
            if let Some(stream) = streams.find(member.stream) {
                stream.policy.on_sent(member.messages);
                let stats = &mut stream.stats;
                stats.switches += u64::from(stats.latest.is_some_and(|(last, _)| last != arm));
                stats.latest = Some((arm, choice.reason));
                if choice.reason == Reason::Budget && arm == Arm::IDENTITY {
                    stats.out_of_budget += 1;
                }
                if member.stream == lead {
                    stats.regret = stats.regret.saturating_add(choice.regret);
                }
            }
            events.push_back(Event::Drained {
                stream: member.stream,
                bytes: member.drained,
            });
        }
        if arm == Arm::IDENTITY {
            self.emit_identity(now, texture, streams, path);
        } else {
            self.encoding = Some(Encoding { arm, texture, slot });
            self.job = Some(EncodeJob {
                arm,
                plain: core::mem::take(&mut self.builder.bytes),
                wire: self.output.buffer(),
                with_check: self.with_check,
                history,
            });
        }
        true
    }

    /// Puts a stream in front that does not wait for an acknowledgement; false without one.
    fn pass_to_fixed(&mut self, streams: &mut Streams) -> bool {
        let asked = self.ready.len().min(MAX_ASKED);
        let next = (1..asked).find(|at| {
            let stream = streams.find(self.ready[*at]);
            stream.is_some_and(|stream| !stream.policy.is_adaptive())
        });
        if let Some(at) = next {
            self.ready.rotate_left(at);
        }
        next.is_some()
    }

    /// Has the block that was just gathered tried with other arms too, if that was planned.
    fn begin_shadow(&mut self, lead: StreamId, texture: Texture, arm: Arm) {
        if self.shadows.planned.is_empty() {
            return;
        }
        let all = self.arms.as_slice();
        let arms = self.shadows.planned.drain(..).map(|at| all[at]).collect();
        let subject = Subject {
            stream: lead,
            own: self.builder.is_mostly(lead),
            // As it came out, which is how the block itself will be learned from.
            class: BlockClass::of(self.builder.plain_len, texture),
            sent: Sent { arm, level: None },
        };
        let encodes = arm != Arm::IDENTITY;
        self.shadows
            .begin(subject, arms, self.builder.parts(), encodes);
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

    /// The arm for a block that begins with messages of `stream`.
    fn choose(
        &mut self,
        now: Time,
        stream: &mut Stream,
        wanted: Wanted,
        path: &mut Path,
        budget_left: bool,
    ) -> Choice {
        self.overhead.on_decision(now, path.was_blocked);
        let peer_starved = path.peer_starved();
        path.known.link.set_distrust_falls(peer_starved);
        let adaptive = stream.policy.is_adaptive();
        if adaptive {
            self.price.on_block(self.budget.fullness(now));
        }
        let affordable = Affordable {
            encode_nanos: affordable_nanos(&mut self.budget, now),
            decode_nanos: path.peer_budget.affordable_nanos(now),
        };
        let allowance = if adaptive && budget_left {
            let available = saturating_nanos(self.budget.available(now)) as f64;
            self.shadows
                .allowance_nanos(now, self.load, self.budget.rate())
                .map(|allowance| allowance.min(available))
        } else {
            None
        };
        let mut rng = core::mem::replace(&mut self.rng, Rng::with_seed(0));
        let situation = Situation {
            plain_len: wanted.plain_len,
            texture: wanted.texture,
            queued_behind: wanted.queued_behind,
            peer_starved,
            affordable,
            budget_left,
            ..self.situation(now, path)
        };
        stream.latest_block = (wanted.plain_len, wanted.texture);
        let choice = stream.policy.choose(&situation, &mut rng);
        let mut planned = Vec::new();
        if let Some(allowance) = allowance {
            stream
                .policy
                .plan_shadows(&situation, allowance, &mut planned);
        }
        let decision = self
            .trace
            .is_on()
            .then(|| Decision::new(stream, &situation, choice));
        self.shadows.planned = planned;
        self.trace.extend(decision);
        self.rng = rng;
        self.decided_at = now;
        self.constraints = (peer_starved, affordable);
        choice
    }

    /// What any decision of this moment looks at; what it is about is left open.
    fn situation<'a>(&'a self, now: Time, path: &'a Path) -> Situation<'a> {
        let link = &path.known.link;
        Situation {
            now,
            plain_len: 0,
            arms: self.arms.as_slice(),
            live: self.history.live(),
            electable: self.arms.electable(),
            adaptive: self.arms.adaptive(),
            texture: Texture::default(),
            queued_behind: 0,
            run: self.run,
            overhead_nanos: self.overhead.nanos,
            link_backlog: self.link_backlog(now, path),
            shared: &path.known.codecs,
            prices: Prices {
                encode: self.price.get(),
                decode: path.peer_budget.price(),
            },
            peer_starved: false,
            affordable: Affordable::default(),
            decode: &path.known.decode,
            link,
            rtt: &path.known.rtt,
            budget_left: true,
        }
    }

    /// What is known of each arm for the next block of a stream, or one of the latest length.
    pub(super) fn explain(&self, stream: &Stream, path: &Path) -> Vec<ArmReport> {
        let queued = stream.send.plain_len().min(self.block_len);
        let (latest_len, latest_texture) = stream.latest_block;
        let (plain_len, texture) = if queued > 0 {
            (queued, texture_of(stream))
        } else {
            (latest_len, latest_texture)
        };
        let (peer_starved, affordable) = self.constraints;
        stream.policy.explain(&Situation {
            plain_len,
            texture,
            peer_starved,
            affordable,
            ..self.situation(self.decided_at, path)
        })
    }

    /// Takes messages of the stream in front, and of others that would choose the same arm, by deficit
    /// round robin (Shreedhar and Varghese 1995).
    fn gather(
        &mut self,
        number: usize,
        budget_left: bool,
        block_len: usize,
        streams: &mut Streams,
    ) {
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
            let complete =
                self.builder
                    .take(&mut self.writer, id, send, block_len, quantum, no_others);
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
            if complete || self.builder.plain_len >= block_len {
                break;
            }
        }
        while let Some(id) = passed.pop_back() {
            self.ready.push_front(id);
        }
    }

    fn emit_identity(
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
        };
        self.record_estimates(&sent, streams, path);
        path.peer_budget.on_block(now, 0.0);
        self.on_emitted(now, Arm::IDENTITY, start, Duration::ZERO, streams, path);
    }

    /// Takes in an encoded block; its time was `elapsed`.
    pub(super) fn on_encoded(
        &mut self,
        now: Time,
        block: EncodedBlock,
        elapsed: Duration,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        let Some(Encoding { arm, texture, slot }) = self.encoding.take() else {
            return;
        };
        self.budget.spend(now, elapsed);
        self.encode_nanos = self.encode_nanos.saturating_add(saturating_nanos(elapsed));
        let EncodedBlock {
            plain,
            wire,
            crc,
            result,
            context,
        } = block;
        if let Some(taken) = slot {
            if let (true, Some(define)) = (context.is_some(), taken.define) {
                for define in self.history.undefine().chain([define]) {
                    self.inflight.on_control();
                    let define = Control::Define(define);
                    self.output.put_small(|out| define.put(out));
                }
            }
            self.history.give_back(taken, context, &plain);
        }
        let start = self.output.position();
        let failed = result.is_err();
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
        let sent = SentBlock {
            now,
            arm: self.arms.position(arm).unwrap_or(0),
            plain_len: plain.len(),
            wire_len: written.unwrap_or(plain.len()),
            encode: elapsed,
            texture,
        };
        let young = slot.is_some_and(|slot| slot.young);
        let level = if failed || young {
            None
        } else {
            self.record_estimates(&sent, streams, path)
        };
        // A level that a history has part in is not the block's own.
        self.shadows.on_encoded(level.filter(|_| slot.is_none()));
        let decode_nanos = path.decode_nanos(arm, plain.len());
        path.peer_budget.on_block(now, decode_nanos);
        let sent_as = if let Some(len) = written {
            self.put_header(arm, slot, Some(plain.len()), len, crc);
            self.put_body(wire, len);
            self.output.recycle(plain);
            arm
        } else {
            let len = plain.len();
            self.put_header(Arm::IDENTITY, None, None, len, crc);
            self.put_body(plain, len);
            self.output.recycle(wire);
            Arm::IDENTITY
        };
        self.on_emitted(now, sent_as, start, elapsed, streams, path);
    }

    /// Whether a block before output position `before` is not written yet; control frames do not count.
    fn block_waits(&self, before: u64) -> bool {
        let written = self.output.position() - self.output.len() as u64;
        self.last_block_end > written && self.last_block_end <= before
    }

    pub(super) fn take_shadow(&mut self) -> Option<ShadowJob> {
        self.shadows.take_job()
    }

    /// Takes in what other arms made of a block.
    pub(super) fn on_shadowed(
        &mut self,
        now: Time,
        mut block: ShadowedBlock,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        let plain_len = block.plain.len();
        let Some((subject, taken)) = self.shadows.on_shadowed(&mut block) else {
            return;
        };
        self.budget.spend(now, taken);
        let mut sent = subject.sent;
        for result in block.results {
            let own = streams.find(subject.stream).filter(|_| subject.own);
            sent.level = path.known.codecs.record_shadow(
                own.and_then(|stream| stream.policy.own_model()),
                now,
                subject.class,
                &Shadowed {
                    arm: result.arm,
                    plain_len,
                    wire_len: result.wire_len,
                    encode: result.encode,
                    decode: result.decode,
                },
                sent,
            );
        }
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
        history: Option<SlotUse>,
        plain_len: Option<usize>,
        body_len: usize,
        crc: u32,
    ) {
        let check = if self.with_check {
            self.check.advance(crc)
        } else {
            0
        };
        let alone = Slot::new(arm.codec.to_wire());
        let Some(slot) = history.map(|history| history.slot).or(alone) else {
            return;
        };
        let mut header = BlockHeader {
            slot,
            epoch: history.and_then(|history| history.epoch),
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
        now: Time,
        arm: Arm,
        start: u64,
        elapsed: Duration,
        streams: &mut Streams,
        path: &mut Path,
    ) {
        let wire_len = (self.output.position() - start) as usize;
        let was_blocked = core::mem::take(&mut path.was_blocked);
        // Where the system does not say what it holds, a socket that was full has at least drained since.
        let held = path.unsent().map_or(was_blocked, |unsent| unsent > 0);
        let fed = if self.block_waits(start) || held {
            Fed::Backlogged
        } else if self.run > 0 && arm != Arm::IDENTITY {
            Fed::EndBound
        } else {
            Fed::Overlapping
        };
        self.last_block_end = self.output.position();
        let goes_on = !self.ready.is_empty() && self.output.len() < self.output_limit;
        self.overhead.emitted_at = goes_on.then_some(now);
        self.inflight.on_block(
            wire_len,
            self.builder.plain_len,
            self.output.position(),
            fed,
        );
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

    /// Learns from a block, for all streams and for the one whose it is; says what its level was.
    fn record_estimates(
        &self,
        sent: &SentBlock,
        streams: &mut Streams,
        path: &mut Path,
    ) -> Option<f32> {
        let arm = *self.arms.as_slice().get(sent.arm)?;
        let level = path.known.codecs.record_sent(arm, sent);
        let members = &self.builder.members;
        let alone = members.len() == 1;
        for member in members {
            if alone || self.builder.is_mostly(member.stream) {
                if let Some(stream) = streams.find(member.stream) {
                    stream.policy.record_sent(sent, arm, &path.known.codecs);
                }
            }
        }
        level
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
        self.inflight
            .on_written(now, position, path.known.rtt.smoothed());
        self.inflight
            .on_bytes_written(now, written, path.known.link.rate());
        if self.output.len() == 0 {
            if let Some((since, from)) = self.offered.take() {
                path.known
                    .link
                    .record_send(position - from, now.saturating_since(since));
            }
        }
    }
}

/// What may wait for a link of known rate without being decided too early.
pub(super) fn late_bytes(link: &LinkEstimator) -> Option<usize> {
    let LinkRate::About(rate) = link.rate() else {
        return None;
    };
    Some(((rate.get() * LATE.as_secs_f64()) as usize).max(LEAST_LATE))
}

/// What the messages in front of a stream's queue look like; only asked where the policy cares.
fn texture_of(stream: &Stream) -> Texture {
    if !stream.policy.is_adaptive() {
        return Texture::default();
    }
    let queue = stream.send.queue.iter().take(8);
    Texture::of(queue.map(|queued| queued.payload.as_ref()))
}
