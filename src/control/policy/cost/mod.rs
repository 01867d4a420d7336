//! The arm with which messages arrive soonest, from live estimates of every stage.
//!
//! ```text
//! blocks sent, shadow encodes --> Models --expected times--+
//! link, backlog, peer, budgets --> Stages ----------------+--> cost of each arm --> choice, shadows
//! ```

mod explain;
mod follow;
mod length;
mod model;
mod price;
mod seen;
mod shadows;
mod standing;

use core::cmp::Ordering;
use core::time::Duration;

pub use self::explain::{ArmReport, Verdict};
use self::follow::{Beginning, Follow, Kinds};
pub(crate) use self::length::Backlog;
pub(crate) use self::model::{BlockClass, Model, Models, Sample, Sent, Speed};
use self::model::{Content, Expected};
pub use self::price::Objective;
pub(crate) use self::price::{Stages, Times};
use self::seen::Seen;
use self::standing::Standing;
use super::{Choice, Prior, Reason, Situation};
use crate::codecs::{Arm, CodecId, Length, Typical, Work, typical};
use crate::control::{BurstTime, CUT_NANOS, LEAST_CUT, LinkRate};
use crate::units::Time;
use crate::wire::MAX_PRIME;

/// Settings of the cost policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostConfig {
    /// What is to be spared, and at what price.
    pub objective: Objective,
}

/// How much cheaper an arm must be to be taken at once ..
const CLEAR_GAIN: f64 = 0.15;
/// .. or, added up over blocks, in shares of a block's cost: what staying may cost before a smaller gain is taken.
const PATIENCE: f64 = 0.1;
/// Of small blocks for which identity is best, one in so many looks goes to the next best arm ..
const RIVAL_EVERY: u32 = 2;
/// .. if that costs no more than so many times as much.
const RIVAL: f64 = 1.1;
/// While the link's rate is not known, every other of so many looks goes to an arm that makes another
/// length, then fewer and fewer ..
const RATELESS: u32 = 32;
/// .. one of them, if no history has begun, to one that begins one. Arbitrary: the second, so that a
/// handful of messages do without ..
const BEGINS_AT: u32 = 2;
/// .. which would be the best one on a link so many times slower.
const SLOWER: f64 = 30.0;
/// .. or, where that is the best one anyhow, to plain blocks, if those cost no more than this besides, ns. Arbitrary: what wakes vary by.
const LONGER_NANOS: f64 = 10e3;
/// In a run of compressed blocks, a plain one shows whether the link is faster than it is taken for, if it has so many bytes. Arbitrary.
pub(crate) const CHECK_LEN: usize = 16 << 10;
/// Blocks expected of a class that has just begun, and the most of any. Arbitrary.
const LEAST_HORIZON: f64 = 8.0;
const MOST_HORIZON: f64 = 4096.0;
/// Share of a processor of a starved peer that decoding may take on a slow link, where it is the link that
/// makes messages late. Arbitrary.
const LITTLE: f64 = 0.02;
/// A block that takes so long on the link, ns, is on a slow one. Arbitrary.
const SLOW_NANOS: f64 = 1e6;
/// The arm by which decode times of blocks of different lengths are compared.
const REFERENCE: Arm = Arm::new(CodecId::ZSTD, 1);
/// Weight of a block in what the peer is used to, and how far above it still counts as that. Arbitrary.
const HABIT_GAIN: f64 = 0.05;
const HABIT_SLACK: f64 = 1.05;

/// Why an arm must not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bar {
    PeerStarved,
    OverBudget,
    NoMemory,
    Failed,
}

/// What a block costs with an arm, ns of message time.
struct Costs {
    likely: f64,
    /// If everything that is not known turns out well ..
    least: f64,
    /// .. which has so much processor time in it.
    least_work: Work,
    wire_len: f64,
}

/// What one look at an arm found: each stream keeps one of every arm.
#[derive(Clone, Copy, Debug)]
struct Look {
    number: u16,
    barred: Option<Bar>,
    samples: f32,
    cost: f64,
    /// If everything that is not known turns out well.
    least_cost: f64,
    /// .. and processor time cost no more than it always does.
    least_free: f64,
    encode_nanos: f64,
    wire_len: f64,
    decode_nanos: f64,
    measured_at: Option<Time>,
}

impl Look {
    const fn arm(&self) -> usize {
        self.number as usize
    }

    const fn shadow_nanos(&self) -> f64 {
        self.encode_nanos + self.decode_nanos
    }

    /// The cheapest first, then those that must not be taken.
    fn by_price(&self, other: &Self) -> Ordering {
        let by_cost = self.cost.total_cmp(&other.cost);
        let is_barred = self.barred.is_some().cmp(&other.barred.is_some());
        is_barred.then(by_cost).then(self.number.cmp(&other.number))
    }

    /// What it costs more than the best one, in shares of what that costs.
    fn loss(&self, best: Self) -> f64 {
        ((self.cost - best.cost) / best.cost.max(1.0)).max(0.0)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Cost {
    objective: Objective,
    own: Model,
    current: Option<(BlockClass, usize)>,
    /// What blocks cost the peer to decode while it was not starved, against [`REFERENCE`].
    decode_habit: f64,
    /// What staying with the current arm has cost, in shares of a block's cost.
    stayed: f64,
    standing: Vec<Standing>,
    /// Which of them gives way to the next one.
    oldest: usize,
    /// The latest looks, the two best in front; empty after a standing choice.
    looks: Vec<Look>,
    /// What was known of the class's content then.
    content: Content,
    class: BlockClass,
    /// Blocks since something was last measured in the shadow.
    skipped: u32,
    /// Blocks since an arm was measured that takes more than those of `skipped` pay for.
    skipped_dear: u32,
    burst: BurstTime,
    /// Whether the arm measured longest ago had the last turn of those measured whatever they promise.
    oldest_turn: bool,
    /// Small blocks for which identity was best.
    plain_small: u32,
    /// Looks since the link's rate was last known.
    rateless: u32,
    /// Looks since a history was last compared with what blocks are without.
    unpaired: u32,
    seen: Seen,
    /// What a change of arms loses by that, in shares of a block's cost.
    switching: f64,
    /// The longest that a block of a backlog was to be at last.
    reach: usize,
}

impl Cost {
    pub(super) fn new(config: CostConfig) -> Self {
        Self {
            objective: config.objective.sane(),
            own: Model::default(),
            current: None,
            decode_habit: 0.0,
            stayed: 0.0,
            standing: Vec::new(),
            oldest: 0,
            looks: Vec::new(),
            content: Content::default(),
            class: BlockClass::default(),
            skipped: 0,
            skipped_dear: 0,
            burst: BurstTime::default(),
            oldest_turn: false,
            plain_small: 0,
            rateless: 0,
            unpaired: 0,
            seen: Seen::default(),
            switching: 0.0,
            reach: usize::MAX,
        }
    }

    /// The arm that it would take now, if it has taken any.
    pub(super) fn current(&self) -> Option<usize> {
        self.current.map(|(_, arm)| arm)
    }

    pub(super) fn choose(&mut self, situation: &Situation<'_>) -> Choice {
        let class = BlockClass::of(situation.plain_len, situation.texture);
        let stages = stages(situation);
        self.skipped = self.skipped.saturating_add(1);
        self.skipped_dear = self.skipped_dear.saturating_add(1);
        self.class = class;
        if let Some((choice, decode_share)) = self.stands(situation, &stages, class) {
            self.on_choice(situation, &choice, decode_share);
            return choice;
        }
        self.look(situation, &stages, class);
        let Some(best) = self.looks.first().copied() else {
            return Choice::new(0, Reason::Only);
        };
        let (look, reason) = self.settle(situation, &stages, class, best);
        // What would be cheaper and may not be taken is the reason then.
        let barred = self
            .looks
            .iter()
            .filter(|other| other.barred.is_some() && other.cost < look.cost)
            .min_by(|a, b| a.by_price(b))
            .and_then(|other| other.barred);
        let reason = match barred {
            Some(Bar::PeerStarved) => Reason::PeerStarved,
            Some(Bar::OverBudget) => Reason::Budget,
            _ => reason,
        };
        let latency = self.objective.latency.max(1e-9);
        let regret = (look.cost - best.cost).max(0.0) / latency;
        let choice = Choice {
            arm: look.arm(),
            reason,
            expected: Duration::from_nanos((look.cost / latency) as u64),
            regret: Duration::from_nanos(regret as u64),
        };
        let decode_share = decode_share(situation, choice.arm);
        if reason != Reason::Explored {
            let loss = look.loss(best);
            self.stand(situation, &stages, class, (choice, decode_share), loss);
        }
        self.on_choice(situation, &choice, decode_share);
        choice
    }

    /// A block leaves: what the peer is used to, unless it is starved.
    fn on_choice(&mut self, situation: &Situation<'_>, choice: &Choice, decode_share: f64) {
        let history = Some(choice.arm).filter(|arm| situation.arms[*arm].history);
        self.seen.on_block(history, situation.plain_len);
        if !situation.peer_starved {
            self.decode_habit += HABIT_GAIN * (decode_share - self.decode_habit);
        }
    }

    /// Looks at what every arm would cost.
    fn look(&mut self, situation: &Situation<'_>, stages: &Stages, class: BlockClass) {
        let mut looks = core::mem::take(&mut self.looks);
        self.content = self.look_at(situation, stages, class, &mut looks);
        self.looks = looks;
    }

    fn models<'a>(&'a self, situation: &Situation<'a>) -> Models<'a> {
        Models {
            own: &self.own,
            shared: &situation.shared.model,
            speed: situation.shared.speed,
        }
    }

    /// What every arm would cost: the best one, the second best and the others. Returns what it knows of the class's content.
    fn look_at(
        &self,
        situation: &Situation<'_>,
        stages: &Stages,
        class: BlockClass,
        looks: &mut Vec<Look>,
    ) -> Content {
        let models = self.models(situation);
        let plain_len = Length::of(situation.plain_len as f64);
        let content = models.content(class);
        let kinds = Kinds::of(&models, class, plain_len, &content, situation.prior);
        let follow = Follow::of(situation, &models);
        let with_history = class.of_arm(Arm::IDENTITY.with_history());
        let horizon = horizon(self.own.blocks(class) + self.own.blocks(with_history));
        // With a starved peer, nothing that costs it more than what it was used to when it became so.
        let most_decode = situation
            .peer_starved
            .then(|| HABIT_SLACK * self.decode_habit * reference_nanos(plain_len));
        let affordable = situation.affordable;
        looks.clear();
        // Each stream has its own.
        looks.reserve_exact(situation.arms.candidates().len());
        for (number, candidate) in (0..).zip(situation.arms.candidates()) {
            let Some(row) = candidate.row else { continue };
            if candidate.arm.dictionary && situation.prior != Prior::Dictionary {
                continue;
            }
            let typical = row.at(plain_len);
            let typical_decode = typical.decode_nanos;
            let expect = |arm: Arm, typical: &Typical| {
                let at_peer = situation.decode.nanos(arm.codec, typical.decode_nanos);
                kinds.expect(arm, typical).at_peer(at_peer)
            };
            let known = expect(candidate.arm, &typical);
            let begins = candidate.arm.history && !situation.live.contains(&candidate.arm);
            let begin = begins.then(|| {
                let begin = row.begin();
                let decode = situation.decode;
                let at_peer = decode.nanos(candidate.arm.codec, begin.decode_nanos);
                models.begin(begin, at_peer)
            });
            let share = begin.map(|begin| begin.over(horizon));
            let expected = share.map_or(known, |share| known.later_by(share));
            let on_link = stages.link_nanos(expected.wire_len);
            let hardly = if on_link < SLOW_NANOS {
                0.0
            } else {
                LITTLE * on_link
            };
            let too_dear = most_decode.is_some_and(|most| typical_decode > most.max(hardly))
                || affordable
                    .decode_nanos
                    .is_some_and(|most| expected.decode_nanos > most);
            let over_budget = affordable
                .encode_nanos
                .is_some_and(|most| expected.encode_nanos > most);
            let has_room = !situation.roomless.contains(&candidate.arm);
            let failures = &situation.shared.failures;
            let barred = match (number, too_dear, over_budget) {
                (1.., true, _) => Some(Bar::PeerStarved),
                (1.., _, true) => Some(Bar::OverBudget),
                _ if failures.is_resting(situation.now, candidate.arm) => Some(Bar::Failed),
                _ => Some(Bar::NoMemory).filter(|_| !has_room),
            };
            let costs = match &follow {
                None => {
                    let aside = share.filter(|_| !situation.live.is_empty());
                    let priced = if aside.is_some() { known } else { expected };
                    self.costs(stages, &priced, aside)
                }
                Some(follow) => {
                    let beginning = Beginning {
                        first: match candidate.alone.zip(begin) {
                            Some((row, begin)) => {
                                let alone = expect(candidate.arm.alone(), &row.at(plain_len));
                                known.as_by_itself(&alone.later_by(begin))
                            }
                            None => known,
                        },
                        later: known,
                    };
                    follow.costs((candidate.arm, row), &beginning, stages, self.objective)
                }
            };
            looks.push(Look {
                number,
                barred,
                samples: expected.samples,
                cost: costs.likely,
                least_cost: costs.least,
                least_free: costs.least - stages.prices.of(costs.least_work),
                encode_nanos: expected.encode_nanos,
                wire_len: costs.wire_len,
                decode_nanos: expected.decode_nanos,
                measured_at: expected.measured_at,
            });
        }
        // Nothing depends on the order of the others.
        for place in 0..looks.len().min(2) {
            let rest = (place..looks.len()).min_by(|a, b| looks[*a].by_price(&looks[*b]));
            looks.swap(place, rest.unwrap_or(place));
        }
        content
    }

    /// What a block costs of which that is expected, likely and if all turns out well, with what it takes `aside` to begin a history
    /// where there is another: the backlog that would hide that is spent on it, and then the other one is taken again.
    fn costs(&self, stages: &Stages, expected: &Expected, aside: Option<Work>) -> Costs {
        let begin = aside.unwrap_or_default();
        let unhidden = aside.map_or(0.0, |begin| stages.unhidden(begin, self.objective));
        let of = |times| unhidden + stages.cost(times, self.objective);
        Costs {
            likely: of(expected.times()),
            least: of(expected.least_times()),
            wire_len: expected.wire_len,
            least_work: expected.later_by(begin).least_work(),
        }
    }

    /// The arm to take: the best one, or the current one while it is hardly worse.
    fn settle(
        &mut self,
        situation: &Situation<'_>,
        stages: &Stages,
        class: BlockClass,
        best: Look,
    ) -> (Look, Reason) {
        let current = self
            .current
            .filter(|(known, _)| *known == class)
            .and_then(|(_, arm)| self.looks.iter().find(|look| look.arm() == arm))
            .filter(|look| look.barred.is_none())
            .copied();
        if let Some(other) = self.other_length(situation, stages, best) {
            return (other, Reason::Explored);
        }
        if let Some(rival) = self.rival(best) {
            return (rival, Reason::Explored);
        }
        if let Some(plain) = self.check(situation, stages, best) {
            return (plain, Reason::Explored);
        }
        let Some(current) = current.filter(|current| current.arm() != best.arm()) else {
            self.stayed *= 0.5;
            self.current = Some((class, best.arm()));
            return (best, Reason::Cheapest);
        };
        let best = self.sustained(situation, stages, current, best);
        let best = self.without_loss(situation, current, best);
        let loss = current.loss(best);
        let switching = self.history_lost(situation, current.arm(), best.arm());
        if self.stayed < loss {
            // It begins to lose: what a change loses is reckoned from now, or it would grow as fast as that.
            self.switching = switching;
        }
        self.stayed += loss;
        self.switching = switching.min(self.switching);
        let switching = self.switching;
        if switching <= 0.0 && loss > CLEAR_GAIN || self.stayed > PATIENCE + switching {
            self.stayed = 0.0;
            self.current = Some((class, best.arm()));
            (best, Reason::Cheapest)
        } else {
            (current, Reason::Kept)
        }
    }

    /// In a run, what can be kept up: another history that takes longer to encode than its blocks take on the link would be left again as soon as
    /// the link has caught up, and neither it nor the current one would have seen all.
    fn sustained(
        &self,
        situation: &Situation<'_>,
        stages: &Stages,
        current: Look,
        best: Look,
    ) -> Look {
        let arms = situation.arms;
        let is_known = matches!(situation.link.rate(), LinkRate::About(_));
        if stages.followers < 1.0 || !is_known || !arms[current.arm()].history {
            return best;
        }
        let blocks = 1.0 + situation.queued_behind as f64 / situation.plain_len.max(1) as f64;
        let lasts = |look: &&Look| {
            let ahead =
                stages.here_nanos(look.encode_nanos, 1.0) - stages.link_nanos(look.wire_len);
            !arms[look.arm()].history
                || look.encode_nanos <= current.encode_nanos
                || ahead * blocks <= stages.link_backlog_nanos
        };
        let lasting = self.looks.iter().filter(lasts);
        lasting.copied().min_by(Look::by_price).unwrap_or(best)
    }

    /// Where the best arm would have to see first what went out with the current one: the best of those without history, if it is better
    /// than the current one and hardly worse than the best. It leaves all histories as they are, for those who need them.
    fn without_loss(&self, situation: &Situation<'_>, current: Look, best: Look) -> Look {
        let lost = self.history_lost(situation, current.arm(), best.arm());
        let alone = |look: &&Look| look.barred.is_none() && !situation.arms[look.arm()].history;
        let alone = self.looks.iter().filter(alone);
        alone
            .min_by(|a, b| a.by_price(b))
            .copied()
            .filter(|look| look.cost < current.cost && look.loss(best) * LEAST_HORIZON < lost)
            .unwrap_or(best)
    }

    /// What a change from one history to another loses, in shares of a block's cost: the other has not seen what went out
    /// with this one, but for what it begins with if it is new.
    fn history_lost(&self, situation: &Situation<'_>, current: usize, best: usize) -> f64 {
        let [from, to] = [current, best].map(|arm| situation.arms[arm]);
        // For want of memory it may have seen nothing yet.
        if !from.history || !to.history || !situation.live.contains(&from) {
            return 0.0;
        }
        let primed = if situation.live.contains(&to) {
            0
        } else {
            MAX_PRIME
        };
        self.seen.lost(best, primed, situation.plain_len)
    }

    /// On an idle link of unknown rate, now and then the arm that would be best on a much slower one:
    /// messages as alike as those of one kind often are show no rate, unless their wire lengths differ. Where that
    /// is the best one anyhow, plain blocks, if they may be had for little.
    /// To begin a history costs more than that is worth, but once: where messages become shorter with nothing else, the
    /// rate would stay unknown.
    fn other_length(
        &mut self,
        situation: &Situation<'_>,
        stages: &Stages,
        best: Look,
    ) -> Option<Look> {
        if matches!(situation.link.rate(), LinkRate::About(_)) {
            self.rateless = 0;
            return None;
        }
        if stages.followers >= 1.0 || self.class.is_large() {
            return None;
        }
        self.rateless = self.rateless.saturating_add(1);
        let due =
            self.rateless.is_power_of_two() || (self.rateless < RATELESS && self.rateless % 2 == 0);
        let slow = Stages {
            link_nanos_per_byte: SLOWER * stages.link_nanos_per_byte,
            ..*stages
        };
        let cost = |look: &Look| look.cost + slow.link_nanos(look.wire_len);
        let arms = situation.arms;
        let begins = self.rateless == BEGINS_AT && situation.live.is_empty();
        let live = |arm: Arm| !arm.history || begins || situation.live.contains(&arm);
        let allowed = self
            .looks
            .iter()
            .filter(|look| look.barred.is_none() && live(arms[look.arm()]));
        let slower = allowed.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        let differs = |look: &&Look| (look.wire_len - best.wire_len).abs() > 0.1 * best.wire_len;
        // What is short says little of a fast link.
        let longer = |look: &&Look| {
            look.arm() == 0 && look.barred.is_none() && look.cost < best.cost + LONGER_NANOS
        };
        let longer = || self.looks.iter().find(longer).filter(differs);
        let other = slower.filter(differs).or_else(longer);
        other.copied().filter(|_| due)
    }

    /// An arm that may as well be the best, now and then, where plain small blocks go out: those show
    /// nothing of what they might become, and a shadow is more trouble than such a block is worth.
    fn rival(&mut self, best: Look) -> Option<Look> {
        if best.arm() != 0 || self.class.is_large() {
            return None;
        }
        self.plain_small = self.plain_small.wrapping_add(1);
        let rival = self.looks.get(1).copied()?;
        let close = rival.barred.is_none() && rival.cost <= best.cost * RIVAL;
        (close && self.plain_small % RIVAL_EVERY == 0).then_some(rival)
    }

    /// In a run of compressed blocks, now and then a plain one, while the link may be faster than it is taken for: they are short, and leave when they are
    /// encoded, so that nothing else would ever show it.
    fn check(&self, situation: &Situation<'_>, stages: &Stages, best: Look) -> Option<Look> {
        if best.arm() == 0 || stages.followers < 1.0 || situation.plain_len < CHECK_LEN {
            return None;
        }
        if !situation.link.may_check(situation.plain_len) {
            return None;
        }
        let plain = |look: &&Look| look.arm() == 0 && look.barred.is_none();
        self.looks.iter().find(plain).copied()
    }

    pub(super) fn own_mut(&mut self) -> &mut Model {
        &mut self.own
    }
}

/// Blocks expected of a class of which there were so many: nothing is known of the end of a stream, and what has lasted long will last.
fn horizon(seen: u64) -> f64 {
    (seen as f64).clamp(LEAST_HORIZON, MOST_HORIZON)
}

/// What the peer typically takes to decode the block with an arm, over what it takes with [`REFERENCE`].
fn decode_share(situation: &Situation<'_>, arm: usize) -> f64 {
    let plain_len = Length::of(situation.plain_len as f64);
    let candidate = situation.arms.candidates().get(arm);
    let row = candidate.and_then(|known| known.row);
    let decode = row.map_or(0.0, |row| row.at(plain_len).decode_nanos);
    decode / reference_nanos(plain_len).max(1.0)
}

/// What the arm by which others are measured typically takes to decode, ns.
fn reference_nanos(plain_len: Length) -> f64 {
    typical(REFERENCE).map_or(1.0, |row| row.at(plain_len).decode_nanos)
}

/// The state of the stages when the block comes.
fn stages(situation: &Situation<'_>) -> Stages {
    let link_nanos_per_byte = 1e9 / situation.link.cautious_rate(situation.caution);
    let behind = situation.queued_behind as f64 / situation.plain_len.max(1) as f64;
    // On a link of unknown rate blocks go one by one.
    let may_be_wide = situation.encoders > 1 && behind >= 1.0;
    let width = if may_be_wide && matches!(situation.link.rate(), LinkRate::About(_)) {
        (1.0 + behind.floor()).min(situation.encoders as f64)
    } else {
        1.0
    };
    let cut_nanos = if situation.plain_len < LEAST_CUT {
        situation.handover_nanos
    } else {
        situation.handover_nanos.min(CUT_NANOS)
    };
    Stages {
        link_nanos_per_byte,
        link_backlog_nanos: situation.link_backlog as f64 * link_nanos_per_byte,
        overhead_nanos: situation.overhead_nanos,
        at_work_nanos: situation.at_work_nanos,
        handover_nanos: situation.handover_nanos,
        cut_nanos,
        stretch: situation.stretch,
        stretch_beside: situation.stretch_beside,
        width,
        followers: behind + f64::from(situation.run),
        prices: situation.prices,
    }
}

#[cfg(all(test, feature = "lz4", feature = "zstd"))]
mod tests;
