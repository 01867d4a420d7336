//! The sending side: which messages make the next block, with which arm, and what became of it.

mod chains;
mod choose;
mod credit;
mod emit;
mod encodings;
mod length;
mod line;

use std::collections::VecDeque;

use fastrand::Rng;

use self::chains::Chains;
#[cfg(feature = "transport")]
pub(crate) use self::choose::UNSENT;
pub(super) use self::choose::unsent_limit;
pub(super) use self::credit::SendCredit;
use self::encodings::{Encoding, Encodings, Pace, Wave};
use self::length::Period;
use self::line::Line;
use super::block::BlockBuilder;
use super::dictionaries::{DictionaryUse, RecalledHistories, SendDictionaries};
use super::event::Event;
use super::flight::Flight;
use super::gain::HistoryGain;
use super::history::{EncodeHistory, SendHistory, SlotUse};
use super::inflight::Inflight;
use super::job::EncodeJob;
use super::observer::{BlockDecision, Observations, Told};
use super::output::Output;
use super::path::Path;
use super::retained::Retained;
use super::shadow::Shadows;
use super::stream::{Stream, Streams};
use super::trace::Trace;
use crate::codecs::Arm;
use crate::control::{
    Affordable, Arms, BudgetPrice, BudgetRate, Choice, CodecBudget, LinkRate, Reason, Texture,
};
use crate::dictionary::Dictionary;
use crate::units::{CpuLoad, Time, earliest};
use crate::wire::{GroupId, Slot, StreamId};

/// Payload bytes that a stream may put into a block before others get their turn. Arbitrary: four
/// streams share a block of the default length.
const QUANTUM: isize = 16 << 10;
/// What a stream may save up of turns that a full block cut short. Arbitrary: one block of the
/// default length.
const MAX_DEFICIT: isize = 4 * QUANTUM;
/// Streams that are asked whether they join a block before it is closed without them. Arbitrary: the
/// time for a block is bounded, however many streams wait.
const MAX_ASKED: usize = 64;
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

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) output: Output,
    pub(super) inflight: Inflight,
    /// What another connection would have to send again.
    pub(super) retained: Retained,
    /// What the peer takes on all streams together.
    pub(super) credit: SendCredit,
    pub(super) arms: Arms,
    pub(super) budget: CodecBudget,
    pub(super) encode_nanos: u64,
    /// Streams that have something to send, in the order of their turns.
    ready: Line,
    chains: Chains,
    with_check: bool,
    block_len: usize,
    /// Bytes that a stream's queue takes.
    send_queue: usize,
    rng: Rng,
    builder: BlockBuilder,
    job: Option<EncodeJob>,
    /// Which of the session's connections this is: what was encoded for another is of no use.
    connection: u64,
    encodings: Encodings,
    pub(super) history: SendHistory,
    pub(super) dictionaries: SendDictionaries,
    /// When the link may be idle, for pieces of a dictionary that wait for it.
    pub(super) piece_at: Option<Time>,
    /// The slot of the latest block.
    last_slot: Option<Slot>,
    gain: HistoryGain,
    price: BudgetPrice,
    pub(super) shadows: Shadows,
    pub(super) trace: Trace,
    pub(super) told: Told,
    /// Blocks built without a pause.
    run: u32,
    /// What was sent since nothing waited.
    period: Period,
    decided_at: Time,
    /// Whether the peer was starved at the latest decision, and the codec time that it could take.
    constraints: (bool, Affordable),
    /// This end's processor load.
    pub(super) load: CpuLoad,
    /// Output positions before and after the latest block.
    last_block_start: u64,
    last_block_end: u64,
    /// What is sent ahead of acknowledgements while the rate is not known.
    pub(super) flight: Flight,
    /// When the next block's codec time is there.
    budget_at: Option<Time>,
    /// Output that may wait before no more is built.
    output_limit: usize,
    /// Whether the link has shown its rate: it does so sooner where several blocks wait.
    rate_known: bool,
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
            retained: Retained::default(),
            credit: SendCredit::default(),
            arms: Arms::new(&[], &[], |_| false),
            budget: CodecBudget::limited(Time::ZERO, BudgetRate::ZERO),
            encode_nanos: 0,
            ready: Line::default(),
            chains: Chains::default(),
            with_check: true,
            block_len: 0,
            send_queue: 0,
            rng: Rng::with_seed(seed),
            builder: BlockBuilder::default(),
            job: None,
            connection: 0,
            encodings: Encodings::default(),
            history: SendHistory::default(),
            dictionaries: SendDictionaries::default(),
            piece_at: None,
            last_slot: None,
            gain: HistoryGain::default(),
            price: BudgetPrice::default(),
            shadows: Shadows::default(),
            trace: Trace::default(),
            told: Told::default(),
            run: 0,
            period: Period::default(),
            decided_at: Time::ZERO,
            constraints: (false, Affordable::default()),
            load: CpuLoad::IDLE,
            last_block_start: 0,
            last_block_end: 0,
            flight: Flight::default(),
            budget_at: None,
            output_limit: 0,
            rate_known: false,
            wants_probe: false,
            offered: None,
        }
    }

    /// The handshake is complete.
    pub(super) fn begin(
        &mut self,
        arms: Arms,
        with_check: bool,
        (block_len, send_queue): (usize, usize),
    ) {
        self.arms = arms;
        self.with_check = with_check;
        self.block_len = block_len;
        self.send_queue = send_queue;
    }

    /// Streams get their turns anew.
    pub(super) fn forget_turns(&mut self) {
        self.ready.clear();
    }

    /// The connection is gone: everything that belongs to it is forgotten, but for what another one must send again.
    pub(super) fn disconnect(&mut self, recalled: RecalledHistories) {
        self.retained.disconnect();
        self.connection += 1;
        self.output = Output::default();
        self.inflight.restart();
        self.ready.clear();
        self.chains = Chains::default();
        self.builder.members.clear();
        self.job = None;
        self.encodings.clear();
        self.shadows.cancel();
        self.history.restart();
        self.dictionaries.restart(recalled);
        self.piece_at = None;
        self.last_slot = None;
        self.run = 0;
        self.period = Period::default();
        self.last_block_start = 0;
        self.last_block_end = 0;
        self.flight = Flight::default();
        self.budget_at = None;
        self.output_limit = 0;
        self.wants_probe = false;
        self.offered = None;
    }

    /// Whether nothing is queued or being encoded.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.encodings.is_empty()
    }

    /// When blocks that wait for an acknowledgement go on without, or there is codec time for the next.
    pub(super) fn held_until(&self) -> Option<Time> {
        let held = earliest(self.flight.held_until(), self.budget_at)?;
        let builds = self.encodings.is_empty()
            && !self.ready.is_empty()
            && !self.retained.is_full()
            && self.has_room();
        builds.then_some(held)
    }

    /// Whether a block is with a codec.
    pub(super) fn is_encoding(&self) -> bool {
        !self.encodings.is_empty()
    }

    /// So many blocks may be encoded at once.
    pub(super) const fn set_encoders(&mut self, most: usize) {
        self.encodings.set_most(most);
    }

    pub(super) fn take_job(&mut self) -> Option<EncodeJob> {
        // Long, and mostly there is none: it is not moved to find that.
        self.job.as_ref()?;
        self.job.take()
    }

    /// Builds blocks until one waits to be written or a codec has work.
    pub(super) fn fill(
        &mut self,
        now: Time,
        streams: &mut Streams,
        path: &mut Path,
        events: &mut VecDeque<Event>,
    ) {
        self.budget_at = None;
        self.forget_stale(streams);
        if self.ready.is_empty() {
            self.on_offered(now);
            return;
        }
        self.output_limit = self.late_limit(&path.known.link);
        self.rate_known = matches!(path.known.link.rate(), LinkRate::About(_));
        while self.job.is_none()
            && self.encodings.has_room()
            && self.has_room()
            && !self.ready.is_empty()
            && !self.retained.is_full()
        {
            if !self.build(now, streams, path, events) {
                path.known.codecs.overhead.on_wait();
                break;
            }
        }
        self.on_offered(now);
    }

    /// There may be output.
    fn on_offered(&mut self, now: Time) {
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
            self.flight.release();
        } else if stream.policy.is_adaptive() {
            let progress = self.inflight.progress(&path.known.link);
            let longest = self.flight.block_len(now, progress);
            // Acknowledgements may be held back, but not with the reply to a probe.
            self.wants_probe |= self.flight.asks();
            let Some(longest) = longest else {
                return self.pass_to_fixed(streams);
            };
            // Once acknowledged, blocks count as what they became: so do those to come.
            let longest = longest as f64 * self.inflight.ratio();
            block_len = block_len.min(longest as usize);
        }
        let company = stream.send.company();
        let budget_left = !self.budget.available(now).is_zero();
        if !budget_left && stream.policy.is_adaptive() && !company.sensitive {
            self.budget_at = self.worth_waiting(now, path);
            if self.budget_at.is_some() {
                return false;
            }
        }
        let (block_len, wanted) = self.wanted(now, stream, block_len, path);
        let is_adaptive = stream.policy.is_adaptive();
        let wave = self.encodings.wave();
        if wave.is_some_and(|wave| !self.goes_on(&wave, stream, &wanted, budget_left)) {
            self.encodings.end_wave();
            return false;
        }
        let choice = if let Some(wave) = wave {
            wave.choice
        } else if company.sensitive {
            self.pass_by(now, path)
        } else {
            self.choose(now, stream, wanted, path, budget_left)
        };
        let texture = wanted.texture;
        let number = choice.arm;
        let arm = self.arms.as_slice()[number];
        let class = stream.class.get();
        let begin = self.dictionaries.beginning(class, company.group);
        let history = arm
            .history
            .then(|| self.history.take(arm, company.group, begin))
            .flatten();
        let (history, slot) = history.unzip();
        let dictionary = arm.dictionary.then(|| self.dictionaries.take(arm, class));
        let (dictionary, way) = dictionary.flatten().unzip();
        // Where there is no room for a history, and no dictionary, the block stands by itself.
        let alone = slot.is_none() && dictionary.is_none();
        let arm = if alone { arm.alone() } else { arm };
        let buffer = self.output.buffer();
        self.builder.begin(buffer, company, arm == Arm::IDENTITY);
        let chain = slot.map_or(GroupId::default(), |slot| slot.group);
        self.gather(number, budget_left, block_len, chain, streams);
        if self.builder.plain_len == 0 {
            // The streams in line were aborted meanwhile.
            let buffer = core::mem::take(&mut self.builder.bytes);
            self.output.recycle(buffer);
            if let (Some(slot), Some(history)) = (slot, history) {
                self.history.put_back(slot, history);
            }
            return true;
        }
        self.retained.seal_block();
        self.period
            .on_block(self.builder.plain_len, self.ready.is_empty());
        self.run = if self.ready.is_empty() && !self.block_waits(self.output.position()) {
            self.run / 2
        } else {
            (self.run + 1).min(MOST_RUN)
        };
        self.begin_shadow((lead, class), texture, arm);
        self.tell_choice(arm, choice, lead, (wanted.plain_len, budget_left));
        self.on_chosen(arm, choice, lead, streams, events);
        if arm == Arm::IDENTITY {
            self.emit_identity(now, texture, streams, path);
        } else {
            let pace = Pace::of(
                rate,
                self.builder.plain_len,
                self.inflight.ratio(),
                is_adaptive,
            );
            let with = (history, dictionary);
            let job = self.encode(now, (arm, slot, way), (choice, wanted, pace), with, path);
            self.job = Some(job);
        }
        true
    }

    /// Whether what was decided for a wave holds for the next block too, of what is `wanted` of `stream`.
    fn goes_on(&self, wave: &Wave, stream: &Stream, wanted: &Wanted, budget_left: bool) -> bool {
        let arms = self.arms.as_slice();
        budget_left
            && stream.policy.joins(wave.choice.arm, arms, budget_left)
            && wave.goes_on(stream.send.company(), wanted)
    }

    /// The block that was gathered goes to a codec.
    fn encode(
        &mut self,
        now: Time,
        (arm, slot, way): (Arm, Option<SlotUse>, Option<DictionaryUse>),
        (choice, wanted, pace): (Choice, Wanted, Pace),
        (history, dictionary): (Option<EncodeHistory>, Option<Dictionary>),
        path: &Path,
    ) -> EncodeJob {
        let texture = wanted.texture;
        let plain_len = self.builder.bytes.len();
        let likely = path.known.codecs.likely_encode(arm, plain_len, texture);
        let (number, members) = self.encodings.begin();
        let encoding = Encoding {
            number,
            arm,
            texture,
            decided: now,
            likely,
            is_alone: true,
            slot,
            primed: history.as_ref().and_then(EncodeHistory::primed),
            dictionary: way,
            gathered: self.builder.take_gathered(members),
        };
        // A block with a history may have no room for it, which the next one may have.
        let may_follow = !self.arms[choice.arm].history;
        let pace = if may_follow { pace } else { Pace::OneByOne };
        self.encodings.push(encoding, choice, &wanted, pace);
        EncodeJob {
            arm,
            likely,
            connection: self.connection,
            number,
            plain: core::mem::take(&mut self.builder.bytes),
            wire: self.output.buffer(),
            with_check: self.with_check,
            history,
            dictionary,
        }
    }

    fn tell_choice(
        &self,
        arm: Arm,
        choice: Choice,
        stream: StreamId,
        (plain_len, budget_left): (usize, bool),
    ) {
        let is_choice = choice.reason != Reason::Only;
        if let Some(observer) = self.told.of(Observations::DECIDED).filter(|_| is_choice) {
            let decision = BlockDecision {
                stream,
                arm,
                reason: choice.reason,
                expected: choice.expected,
                plain_len,
                budget: self.budget.rate(),
                budget_left,
            };
            let block = self.inflight.blocks_sent() + self.encodings.len() as u64;
            observer.decided(block, &decision);
        }
    }

    /// A block was gathered that goes out with `arm`: what its streams count.
    fn on_chosen(
        &mut self,
        arm: Arm,
        choice: Choice,
        lead: StreamId,
        streams: &mut Streams,
        events: &mut VecDeque<Event>,
    ) {
        for member in &mut self.builder.members {
            let Some(stream) = streams.find(member.stream) else {
                continue;
            };
            // What is queued since has numbers beyond those that wait.
            let unsent = stream.send.unsent();
            member.next = stream.stats.messages_sent.saturating_sub(unsent);
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
            let counted = stream.send.counted.min(member.drained);
            stream.send.counted -= counted;
            let bytes = member.drained - counted;
            if bytes > 0 {
                events.push_back(Event::Drained {
                    stream: member.stream,
                    bytes,
                });
            }
        }
    }

    /// Puts a stream in front that does not wait for an acknowledgement; false without one.
    fn pass_to_fixed(&mut self, streams: &mut Streams) -> bool {
        self.ready.put_first(MAX_ASKED, |id| {
            let stream = streams.find(id);
            stream.is_some_and(|stream| !stream.policy.is_adaptive())
        })
    }

    /// The stream whose turn it is, in front of the line.
    fn lead(&mut self, streams: &mut Streams) -> Option<StreamId> {
        loop {
            let (id, alone) = self.ready.front()?;
            match streams.find(id) {
                None => {
                    self.ready.pop_front();
                }
                Some(stream) if !stream.send.can_send(self.credit.left()) => {
                    // Others have taken the credit since it came here.
                    self.ready.pop_front();
                    stream.send.is_ready = false;
                    stream.send.deficit = 0;
                    self.on_sendable(id, &mut stream.send);
                }
                Some(stream) if alone || stream.send.deficit + QUANTUM > 0 => {
                    return Some(id);
                }
                Some(stream) => {
                    // It has sent ahead: its turn goes to the others, and counts.
                    stream.send.deficit += QUANTUM;
                    self.ready.pass_on();
                }
            }
        }
    }

    /// Takes messages of the stream in front, and of others that would choose the same arm, by deficit
    /// round robin (Shreedhar and Varghese 1995).
    fn gather(
        &mut self,
        number: usize,
        budget_left: bool,
        block_len: usize,
        chain: GroupId,
        streams: &mut Streams,
    ) {
        let mut asked = 0;
        let mut lead = true;
        // Those that stay in line without a turn, in their order.
        let mut passed = VecDeque::new();
        while let Some((id, _)) = self.ready.pop_front() {
            let Some(stream) = streams.find(id) else {
                continue;
            };
            let place = (id, stream.send.priority);
            let company = self.builder.company;
            let joins = lead
                || stream.send.company() == company
                    && (company.sensitive
                        || stream
                            .policy
                            .joins(number, self.arms.as_slice(), budget_left));
            lead = false;
            if !joins {
                passed.push_back(place);
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
                self.ready.push_back(place);
                continue;
            };
            let before = self.builder.plain_len;
            let writer = &mut self.chains.of(chain).writer;
            let complete = self.builder.take(
                (writer, &mut self.retained, &mut self.credit),
                id,
                send,
                block_len,
                quantum,
                no_others,
            );
            let taken = self.builder.plain_len - before;
            send.deficit -= isize::try_from(taken).unwrap_or(isize::MAX);
            send.is_ready = send.can_send(self.credit.left());
            if !send.is_ready {
                send.deficit = 0;
                self.on_sendable(id, send);
            } else if taken == 0 {
                // Its message fits a block, but not what was left of this one: if it lost its place
                // for that, it might come too late for every block. Its turn is still to come.
                send.deficit -= QUANTUM;
                self.ready.push_front(place);
            } else {
                self.ready.push_back(place);
            }
            if complete || self.builder.plain_len >= block_len {
                break;
            }
        }
        while let Some(place) = passed.pop_back() {
            self.ready.push_front(place);
        }
    }

    /// Whether the output takes another block: one at most waits behind what is being written where those that come later
    /// may take more messages along.
    fn has_room(&self) -> bool {
        let written = self.output.position() - self.output.len() as u64;
        let waits = self.last_block_end > written && self.last_block_start >= written;
        !(waits && self.rate_known && self.period.may_grow) && self.output.len() < self.output_limit
    }

    /// Whether a block before output position `before` is not written yet; control frames do not count.
    fn block_waits(&self, before: u64) -> bool {
        let written = self.output.position() - self.output.len() as u64;
        self.last_block_end > written && self.last_block_end <= before
    }

    /// The socket has taken `written` more bytes.
    pub(super) fn on_written(&mut self, now: Time, written: usize, path: &mut Path) {
        self.output.advance(written);
        let position = self.output.position() - self.output.len() as u64;
        let first = self.inflight.blocks_written();
        self.inflight
            .on_written(now, position, path.known.rtt.smoothed());
        let count = self.inflight.blocks_written() - first;
        if count > 0 {
            if let Some(observer) = self.told.of(Observations::BLOCKS_WRITTEN) {
                observer.blocks_written(first, count);
            }
        }
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
