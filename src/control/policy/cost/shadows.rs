//! Arms that are measured beside the way of a block.

use super::{Cost, Look, REFERENCE, SLOW_NANOS, Stages, Times, horizon, stages};
use crate::codecs::{Arm, Length, typical};
use crate::control::policy::Situation;

/// Chances after which some arm is measured again whatever it promises, so that no estimate freezes
/// (decisions.md).
pub(super) const RESAMPLE: u32 = 64;
/// .. and no more often than it costs so much of what blocks cost. Arbitrary.
const RESAMPLE_SHARE: f64 = 0.02;
/// An arm for which that never suffices, since others take their turns before, is measured when such a part of it has come together for it alone. Arbitrary.
const DEAR_SHARE: f64 = 0.5;
/// Share of its processor time that a shadow is taken to cost those who wait: it runs beside them.
const SHADOW_PRICE: f64 = 0.25;
/// .. and where it is the codec that makes them wait: then the processors are busy with it. Both arbitrary.
const BOUND_PRICE: f64 = 0.5;
/// Link from which on shadows of a burst get no more than a burst's time, ns per byte: 50 Mbit/s. On a slower one processors have
/// nothing else to do. Arbitrary.
const FAST_LINK: f64 = 160.0;
/// So much saved up is more than there is use for, ns: half of what is saved at most. Arbitrary.
const PLENTY_NANOS: f64 = 50e6;
/// An arm that was never measured may take such a share of what a block costs. Arbitrary.
const UNMEASURED_SHARE: f64 = 0.25;
/// The arm by which strengths are measured is put in front if it takes such a share of what the others take. Arbitrary.
const REFERENCE_SHARE: f64 = 0.25;
/// Shadows of one block.
const MAX_SHADOWS: usize = 3;
/// While a history is in use, every so many looks a shadow says what blocks are without, fewer of large ones; more often
/// the less of it is known. Arbitrary.
const PAIR_EVERY: f64 = 64.0;
const PAIR_EVERY_LARGE: f64 = 16.0;
/// .. and no more often than it costs so much of what blocks cost. Arbitrary.
const PAIR_SHARE: f64 = 0.02;
/// The arm for that, whose strength others are measured by, may take so many times as long as the one in use.
const PAIR_EFFORT: f64 = 2.0;

impl Cost {
    /// Arms worth encoding the block that was just chosen for, beside its way; `allowance_nanos` is
    /// the processor time that there is for it.
    pub(in crate::control::policy) fn plan_shadows(
        &mut self,
        situation: &Situation<'_>,
        allowance_nanos: f64,
        into: &mut Vec<usize>,
    ) {
        into.clear();
        let Some((_, current)) = self.current else {
            return;
        };
        let Some(chosen) = self
            .looks
            .iter()
            .find(|look| look.arm() == current)
            .copied()
        else {
            return;
        };
        let horizon = horizon(self.own.blocks(self.class));
        let stages = stages(situation);
        let codec_bound = stages.followers >= 1.0
            && stages.link_nanos(chosen.wire_len) < stages.stretch * chosen.encode_nanos;
        let beside = if codec_bound {
            BOUND_PRICE
        } else {
            SHADOW_PRICE
        };
        let price = beside + stages.prices.encode;
        // The block itself comes first.
        let affordable = situation.affordable.encode_nanos;
        let reserved = affordable.map_or(0.0, |_| chosen.encode_nanos);
        let allowance_nanos = allowance_nanos - reserved;
        self.burst.grow(situation.now, chosen.cost);
        let in_burst = situation.queued_behind > 0 && stages.link_nanos_per_byte < FAST_LINK;
        let allowance_nanos = if in_burst {
            allowance_nanos.min(self.burst.left_nanos())
        } else {
            allowance_nanos
        };
        let mut left = allowance_nanos;
        // How compressible the blocks are is as doubtful for the arm in use as for the others: only what an arm may be better by counts.
        let hoped = self.hoped_cost(situation, &stages, chosen);
        let mut worth: Vec<(f64, Look)> = self
            .looks
            .iter()
            .filter(|look| look.arm() != 0 && look.arm() != chosen.arm() && look.barred.is_none())
            .filter(|look| !situation.arms[look.arm()].history)
            .filter_map(|look| {
                let gain = (hoped - look.least_cost) * horizon;
                let effort = look.shadow_nanos() * price;
                (gain > effort).then_some((gain - effort, *look))
            })
            .collect();
        worth.sort_by(|a, b| b.0.total_cmp(&a.0));
        let pair = self.pair(situation, chosen, left, price);
        if let Some(pair) = pair {
            left -= pair.shadow_nanos();
            into.push(pair.arm());
            worth.retain(|(_, look)| look.arm() != pair.arm());
        }
        for (_, look) in worth {
            let effort = look.shadow_nanos();
            if into.len() < MAX_SHADOWS && effort <= left {
                left -= effort;
                into.push(look.arm());
            }
        }
        if into.is_empty() {
            into.extend(self.unmeasured(situation, &stages, chosen, allowance_nanos));
        }
        if into.is_empty() && self.skipped >= RESAMPLE {
            into.extend(self.resample(situation, chosen, allowance_nanos, price));
        }
        self.put_reference(situation, chosen, allowance_nanos, into);
        if !into.is_empty() {
            self.skipped = 0;
            let looks = self.looks.iter().filter(|look| into.contains(&look.arm()));
            if in_burst {
                self.burst.spend(looks.map(Look::shadow_nanos).sum());
            }
        }
    }

    /// Nobody promises anything: the arm that comes nearest, or was measured longest ago. On processors that are busy, it takes no more than a little of
    /// what blocks cost since; and less where nothing helps anyway.
    fn resample(
        &mut self,
        situation: &Situation<'_>,
        chosen: Look,
        allowance_nanos: f64,
        price: f64,
    ) -> Option<usize> {
        let hopeless =
            chosen.arm() == 0 && self.hopeless(chosen.cost, |look| look.least_cost).is_some();
        let share = if hopeless {
            RESAMPLE_SHARE / 4.0
        } else {
            RESAMPLE_SHARE
        };
        let paid = |share, blocks| share * chosen.cost * f64::from(blocks) / price;
        self.oldest_turn = !self.oldest_turn;
        let oldest = self.oldest_turn;
        let usual = paid(share, self.skipped);
        let most = if oldest {
            usual.max(paid(DEAR_SHARE * share, self.skipped_dear))
        } else {
            usual
        };
        let affordable = situation.affordable.encode_nanos;
        let others = self.looks.iter().filter(|look| {
            look.arm() != 0
                && look.arm() != chosen.arm()
                && look.barred.is_none()
                && !situation.arms[look.arm()].history
                && look.shadow_nanos() <= (allowance_nanos / 4.0).min(most)
                && affordable.is_none_or(|nanos| look.shadow_nanos() <= nanos)
        });
        let next = if oldest {
            others.min_by_key(|look| look.measured_at)
        } else {
            others.min_by(|a, b| a.least_cost.total_cmp(&b.least_cost))
        };
        if next.is_some_and(|look| look.shadow_nanos() > usual) {
            self.skipped_dear = 0;
        }
        next.map(Look::arm)
    }

    /// Where the link takes so long that processor time for shadows would lapse: an arm that was never measured, though it promises no more
    /// than the one in use. What is typical of an arm may be off by a third on content of a kind of its own.
    fn unmeasured(
        &self,
        situation: &Situation<'_>,
        stages: &Stages,
        chosen: Look,
        allowance_nanos: f64,
    ) -> Option<usize> {
        let most = allowance_nanos / 4.0;
        // Of one small block an arm makes more or less than of the next.
        if !self.class.is_large()
            || stages.link_nanos(chosen.wire_len) < SLOW_NANOS
            || allowance_nanos < PLENTY_NANOS
        {
            return None;
        }
        let untried = self.looks.iter().filter(|look| {
            let arm = situation.arms[look.arm()];
            look.samples < 1.0
                && look.barred.is_none()
                && arm == arm.alone()
                && look.shadow_nanos() <= most.min(UNMEASURED_SHARE * chosen.cost)
                && look.least_cost <= chosen.cost
        });
        // First codecs of which nothing was measured, then levels.
        let is_known = |look: &Look| {
            let codec = situation.arms[look.arm()].codec;
            let of_codec = |other: &&Look| situation.arms[other.arm()].codec == codec;
            self.looks
                .iter()
                .filter(of_codec)
                .any(|other| other.samples >= 1.0)
        };
        let next = untried.min_by(|a, b| {
            let by_cost = a.least_cost.total_cmp(&b.least_cost);
            is_known(a).cmp(&is_known(b)).then(by_cost)
        });
        next.map(Look::arm)
    }

    /// Of a block that goes out as it is, or with history, nobody knows how compressible it is but by the first shadow, which is taken to be as
    /// strong as it is known to be: so that is the one by which strengths are measured, where it takes little beside the others.
    fn put_reference(
        &self,
        situation: &Situation<'_>,
        chosen: Look,
        allowance_nanos: f64,
        into: &mut Vec<usize>,
    ) {
        let arm = situation.arms[chosen.arm()];
        if into.is_empty() || arm != Arm::IDENTITY && !arm.history {
            return;
        }
        let of = |at: &usize| self.looks.iter().find(|look| look.arm() == *at);
        let planned: f64 = into.iter().filter_map(of).map(Look::shadow_nanos).sum();
        let reference = self.looks.iter().find(|look| {
            situation.arms[look.arm()] == REFERENCE
                && look.barred.is_none()
                && look.shadow_nanos() <= REFERENCE_SHARE * planned
                && look.shadow_nanos() + planned <= allowance_nanos
        });
        if let Some(reference) = reference {
            into.retain(|at| *at != reference.arm());
            into.insert(0, reference.arm());
        }
    }

    /// What the arm in use costs if blocks are as compressible as they may be, as they are for the least costs of others.
    fn hoped_cost(&self, situation: &Situation<'_>, stages: &Stages, chosen: Look) -> f64 {
        let plain_len = Length::of(situation.plain_len as f64);
        let arm = situation.arms[chosen.arm()].alone();
        // Of small blocks one is so unlike the next that there is no end to that doubt.
        let may_differ = self.class.is_large() && arm != Arm::IDENTITY;
        let Some(row) = typical(arm).filter(|_| may_differ) else {
            return chosen.cost;
        };
        let models = self.models(situation);
        let known = models.known(self.class, plain_len, &self.content);
        let wire_len = chosen.wire_len * known.hope(arm, &row.at(plain_len));
        let of = |wire_len: f64| {
            let times = Times {
                encode_nanos: chosen.encode_nanos,
                wire_len,
                decode_nanos: chosen.decode_nanos,
                is_alone: !situation.arms[chosen.arm()].history,
            };
            stages.cost(times, self.objective)
        };
        // What follows counts as it does for the others.
        chosen.cost + of(wire_len) - of(chosen.wire_len)
    }

    /// An arm without history that is to say what the block is by itself, if it is time for that, `allowance_nanos` enough
    /// and `price`, which is what shadows count for, not too much.
    fn pair(
        &mut self,
        situation: &Situation<'_>,
        chosen: Look,
        allowance_nanos: f64,
        price: f64,
    ) -> Option<Look> {
        if !situation.arms[chosen.arm()].history {
            return None;
        }
        self.unpaired = self.unpaired.saturating_add(1);
        let most = if self.class.is_large() {
            PAIR_EVERY_LARGE
        } else {
            PAIR_EVERY
        };
        if f64::from(self.unpaired) <= most * self.content.paired() {
            return None;
        }
        let alone = self.looks.iter().filter(|look| {
            let arm = situation.arms[look.arm()];
            look.arm() != 0 && look.barred.is_none() && arm == arm.alone()
        });
        let reference = alone.clone().find(|look| {
            let most = PAIR_EFFORT * chosen.shadow_nanos();
            situation.arms[look.arm()] == REFERENCE && look.shadow_nanos() <= most
        });
        let lightest = || alone.min_by(|a, b| a.shadow_nanos().total_cmp(&b.shadow_nanos()));
        let pair = reference
            .or_else(lightest)
            .filter(|look| look.shadow_nanos() <= allowance_nanos)?;
        if pair.shadow_nanos() * price > PAIR_SHARE * chosen.cost * f64::from(self.unpaired) {
            return None;
        }
        self.unpaired = 0;
        Some(*pair)
    }
}
