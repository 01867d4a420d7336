//! Which arm the next block takes, and what other arms are tried beside it.

use core::time::Duration;

use fastrand::Rng;

use super::{Sender, Wanted};
use crate::codecs::Arm;
use crate::control::{
    Affordable, ArmReport, BlockClass, Caution, Choice, LinkEstimator, LinkRate, Prices, Prior,
    Reason, Sent, Shadowed, Situation, Texture, affordable_nanos,
};
use crate::session::job::{ShadowJob, ShadowedBlock};
use crate::session::outgoing::OutgoingQueue;
use crate::session::path::Path;
use crate::session::shadow::Subject;
use crate::session::stream::{Stream, Streams};
use crate::session::trace::Decision;
use crate::units::{Time, saturating_nanos};
use crate::wire::{GroupId, StreamId};

/// What a link carries within this time may wait in front of the socket: less, and a late driver would
/// let it run dry. Arbitrary.
const LATE: Duration = Duration::from_millis(50);
/// .. and so much at least.
const LEAST_LATE: usize = 32 << 10;
/// On a link that was seen to be so fast that it leaves within a millisecond, more output waits than a block: there each write costs
/// more than its bytes.
const FAST_OUTPUT: usize = 256 << 10;
/// .. and so much unsent in the socket.
const FAST_UNSENT: usize = 512 << 10;
/// What the socket may hold unsent on another: two blocks of the usual length, so that the link has something to send while the next
/// is being encoded.
pub(crate) const UNSENT: u32 = 128 << 10;

impl Sender {
    /// How much output may wait before no more is built: on a slow link no more than it takes within
    /// a short time, so that what is built next is decided by what is known then.
    pub(super) fn late_limit(&self, link: &LinkEstimator) -> usize {
        let most = if link.is_fast() {
            self.block_len.max(FAST_OUTPUT)
        } else {
            self.block_len
        };
        late_bytes(link).map_or(most, |late| late.min(most))
    }

    /// Until when to wait for codec time rather than send plain bytes: as long as the link is busy
    /// with what it has, that costs nothing.
    pub(super) fn worth_waiting(&mut self, now: Time, path: &Path) -> Option<Time> {
        let rate = self.budget.rate()?.as_nanos_per_sec() as f64 * 1e-9;
        let wait = saturating_nanos(self.budget.debt(now)) as f64 / rate;
        let LinkRate::About(link) = path.known.link.rate() else {
            return None;
        };
        let busy = link.nanos_for(self.link_backlog(now, path) as f64);
        (wait < busy).then(|| now + Duration::from_nanos(wait as u64 + 1))
    }

    /// Wire bytes that have not left for the link yet.
    pub(in crate::session) fn link_backlog(&self, now: Time, path: &Path) -> u64 {
        let reckoned = self.inflight.backlog(now, path.known.link.rate());
        self.output.len() as u64 + path.unsent().unwrap_or(0).max(reckoned)
    }

    /// The arm for a block that begins with messages of `stream`.
    pub(super) fn choose(
        &mut self,
        now: Time,
        stream: &mut Stream,
        wanted: Wanted,
        path: &mut Path,
        budget_left: bool,
    ) -> Choice {
        let was_blocked = path.was_blocked;
        let known = &mut path.known.codecs;
        known.overhead.on_decision(now, was_blocked);
        let peer_starved = path.peer_starved();
        path.known.link.set_distrust_falls(peer_starved);
        let adaptive = stream.policy.is_adaptive();
        path.is_of_use = adaptive;
        if adaptive {
            self.price.on_block(self.budget.fullness(now));
        }
        let affordable = Affordable {
            encode_nanos: affordable_nanos(&mut self.budget, now),
            decode_nanos: path.peer_budget.affordable_nanos(now),
        };
        let allowance = if adaptive && budget_left {
            let available = saturating_nanos(self.budget.available(now)) as f64;
            let time = path
                .known
                .codecs
                .shadow_time
                .fill(now, self.load, self.budget.rate());
            Some(time.min(available)).filter(|time| *time > 0.0 && self.shadows.is_idle())
        } else {
            None
        };
        stream.latest_block = (wanted.plain_len, wanted.texture);
        self.decided_at = now;
        self.constraints = (peer_starved, affordable);
        if !self.trace.is_on() {
            let only = stream.policy.only(&self.arms);
            if let Some(choice) = only.filter(|choice| budget_left || choice.arm == 0) {
                path.known.link.on_chosen(choice.expected, false);
                self.shadows.planned.clear();
                return choice;
            }
        }
        let mut rng = core::mem::replace(&mut self.rng, Rng::with_seed(0));
        let is_alone = wanted.queued_behind == 0 && !self.period.is_on();
        let situation = Situation {
            plain_len: wanted.plain_len,
            texture: wanted.texture,
            queued_behind: wanted.queued_behind,
            peer_starved,
            affordable,
            budget_left,
            caution: self.flight.caution(is_alone, wanted.texture),
            ..self.situation_of(now, stream, path)
        };
        let mut choice = stream.policy.choose(&situation, &mut rng);
        // Without its history an arm costs something else: another may be better then.
        let mut lacking = Vec::new();
        let group = stream.send.group;
        while adaptive && self.history.lacks_room(self.arms[choice.arm], group) {
            let arm = self.arms[choice.arm];
            if lacking.contains(&arm) {
                break;
            }
            lacking.push(arm);
            let roomless = [situation.roomless, &lacking].concat();
            let situation = Situation {
                roomless: &roomless,
                ..situation
            };
            choice = stream.policy.choose(&situation, &mut rng);
        }
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
        for arm in lacking {
            self.history.miss(arm, group);
        }
        let is_check = adaptive && choice.is_check(wanted.plain_len);
        path.known.link.on_chosen(choice.expected, is_check);
        if is_check {
            self.inflight.check_next();
            // Acknowledgements may be held back, but not with the reply to a probe.
            self.wants_probe = true;
        }
        self.shadows.planned = planned;
        self.trace.extend(decision);
        self.rng = rng;
        choice
    }

    /// Sensitive messages are not decided on: what is compressed says something of itself by its length.
    pub(super) fn pass_by(&mut self, now: Time, path: &mut Path) -> Choice {
        let was_blocked = path.was_blocked;
        path.known.codecs.overhead.on_decision(now, was_blocked);
        self.shadows.planned.clear();
        Choice {
            arm: 0,
            reason: Reason::Sensitive,
            expected: Duration::ZERO,
            regret: Duration::ZERO,
        }
    }

    /// What any decision on a block of `stream` looks at; the block is left open.
    fn situation_of<'a>(&'a self, now: Time, stream: &Stream, path: &'a Path) -> Situation<'a> {
        let (class, group) = (stream.class.get(), stream.send.group);
        Situation {
            prior: self.dictionaries.prior(class, group),
            ..self.situation(now, group, path)
        }
    }

    /// What any decision of this moment looks at; what it is about is left open.
    pub(super) fn situation<'a>(
        &'a self,
        now: Time,
        group: GroupId,
        path: &'a Path,
    ) -> Situation<'a> {
        let link = &path.known.link;
        Situation {
            now,
            plain_len: 0,
            arms: &self.arms,
            live: self.history.live(group),
            roomless: self.history.roomless(),
            prior: Prior::Nothing,
            texture: Texture::default(),
            queued_behind: 0,
            run: self.run,
            overhead_nanos: path.known.codecs.overhead.nanos(),
            at_work_nanos: path.known.codecs.overhead.at_work_nanos(),
            handover_nanos: path.known.codecs.overhead.handover_nanos(),
            stretch: path.known.codecs.overhead.stretch(),
            stretch_beside: if self.encodings.most() > 1 {
                path.known.codecs.overhead.stretch_beside()
            } else {
                1.0
            },
            encoders: self.encodings.most(),
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
            caution: Caution::None,
            rtt: &path.known.rtt,
            budget_left: true,
        }
    }

    /// What is known of each arm for the next block of a stream, or one of the latest length.
    pub(in crate::session) fn explain(&self, stream: &Stream, path: &Path) -> Vec<ArmReport> {
        let longest = stream.stats.block_len.unwrap_or(self.block_len);
        let queued = stream.send.plain_len().min(longest);
        let (latest_len, latest_texture) = stream.latest_block;
        let (plain_len, texture) = if queued > 0 {
            (queued, Texture::of(front(&stream.send.queue)))
        } else {
            (latest_len, latest_texture)
        };
        let (peer_starved, affordable) = self.constraints;
        stream.policy.explain(&Situation {
            plain_len,
            texture,
            peer_starved,
            affordable,
            ..self.situation_of(self.decided_at, stream, path)
        })
    }

    /// Has the block that was just gathered tried with other arms too, if that was planned.
    pub(super) fn begin_shadow(
        &mut self,
        (lead, class): (StreamId, Option<usize>),
        texture: Texture,
        arm: Arm,
    ) {
        if self.shadows.planned.is_empty() {
            return;
        }
        let all = self.arms.as_slice();
        let arms = self.shadows.planned.drain(..).map(|at| all[at]).collect();
        let dictionary = self.dictionaries.current(class).map(|(_, it)| it.clone());
        let subject = Subject {
            stream: lead,
            own: self.builder.is_mostly(lead),
            // As it came out, which is how the block itself will be learned from.
            class: BlockClass::of(self.builder.plain_len, texture),
            sent: Sent {
                arm,
                level: None,
                with_history: None,
            },
        };
        let encodes = arm != Arm::IDENTITY;
        self.shadows
            .begin(subject, (arms, dictionary), self.builder.parts(), encodes);
    }

    pub(in crate::session) fn take_shadow(&mut self) -> Option<ShadowJob> {
        self.shadows.take_job()
    }

    /// Takes in what other arms made of a block.
    pub(in crate::session) fn on_shadowed(
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
        path.known.codecs.shadow_time.spend(taken);
        let failures = &mut path.known.codecs.failures;
        block
            .failed
            .iter()
            .for_each(|arm| failures.on_failed(now, *arm));
        // What a block is without a dictionary and with one are two things, of which it went out as one.
        let mut sent = [false, true].map(|dictionary| match subject.sent.arm.dictionary {
            same if same == dictionary => subject.sent,
            _ => Sent {
                level: None,
                with_history: None,
                ..subject.sent
            },
        });
        for result in block.results {
            let sent = &mut sent[usize::from(result.arm.dictionary)];
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
                *sent,
            );
        }
    }
}

/// How much the socket may hold unsent.
pub(in crate::session) fn unsent_limit(link: &LinkEstimator) -> usize {
    let most = if link.is_fast() {
        FAST_UNSENT
    } else {
        UNSENT as usize
    };
    late_bytes(link).map_or(most, |late| late.min(most))
}

/// What may wait for a link of known rate without being decided too early.
fn late_bytes(link: &LinkEstimator) -> Option<usize> {
    let LinkRate::About(rate) = link.rate() else {
        return None;
    };
    Some(((rate.get() * LATE.as_secs_f64()) as usize).max(LEAST_LATE))
}

/// What the messages in front of a stream's queue look like; only asked where the policy cares.
pub(super) fn texture_of(stream: &mut Stream) -> Texture {
    if !stream.policy.is_adaptive() {
        return Texture::default();
    }
    stream.texture_look.of(front(&stream.send.queue))
}

/// The messages in front of a queue that may be looked at.
fn front(queue: &OutgoingQueue) -> impl Iterator<Item = &[u8]> + Clone {
    queue.open_payloads().take(8)
}
