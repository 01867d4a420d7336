//! Arms that are measured beside the way of a block.

use super::{Cost, LEAST_HORIZON, Look, REFERENCE, stages};
use crate::control::policy::Situation;

/// Chances after which some arm is measured again whatever it promises, so that no estimate freezes
/// (decisions.md).
const RESAMPLE: u32 = 64;
/// .. and no more often than it costs so much of what blocks cost. Arbitrary.
const RESAMPLE_SHARE: f64 = 0.02;
/// Blocks expected of a class: as many as there were (nothing is known of the end of a stream, and what has lasted long will last), at least
/// [`LEAST_HORIZON`] and at most so many.
const MOST_HORIZON: f64 = 4096.0;
/// Share of its processor time that a shadow is taken to cost those who wait: it runs beside them.
const SHADOW_PRICE: f64 = 0.25;
/// .. and where it is the codec that makes them wait: then the processors are busy with it. Both arbitrary.
const BOUND_PRICE: f64 = 0.5;
/// Link from which on shadows of a burst get no more than a burst's time, ns per byte: 50 Mbit/s. On a slower one processors have
/// nothing else to do. Arbitrary.
const FAST_LINK: f64 = 160.0;
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
        let Some(chosen) = self.looks.iter().find(|look| look.arm == current).copied() else {
            return;
        };
        let seen = self.own.blocks(self.class) as f64;
        let horizon = seen.clamp(LEAST_HORIZON, MOST_HORIZON);
        let stages = stages(situation);
        let codec_bound = stages.followers >= 1.0
            && stages.link_nanos(chosen.wire_len) < stages.stretch * chosen.encode_nanos;
        let beside = if codec_bound {
            BOUND_PRICE
        } else {
            SHADOW_PRICE
        };
        let price = beside + stages.encode_price;
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
        let mut worth: Vec<(f64, Look)> = self
            .looks
            .iter()
            .filter(|look| look.arm != 0 && look.arm != chosen.arm && look.barred.is_none())
            .filter(|look| !situation.arms[look.arm].history)
            .filter_map(|look| {
                let gain = (chosen.cost - look.least_cost) * horizon;
                let effort = look.shadow_nanos() * price;
                (gain > effort).then_some((gain - effort, *look))
            })
            .collect();
        worth.sort_by(|a, b| b.0.total_cmp(&a.0));
        let pair = self.pair(situation, chosen, left, price);
        if let Some(pair) = pair {
            left -= pair.shadow_nanos();
            into.push(pair.arm);
            worth.retain(|(_, look)| look.arm != pair.arm);
        }
        for (_, look) in worth {
            let effort = look.shadow_nanos();
            if into.len() < MAX_SHADOWS && effort <= left {
                left -= effort;
                into.push(look.arm);
            }
        }
        if into.is_empty() && self.skipped >= RESAMPLE {
            // On processors that are busy, no more than a little of what blocks cost since; and less where nothing helps anyway.
            let hopeless = current == 0 && self.none_helps(chosen.cost);
            let share = if hopeless {
                RESAMPLE_SHARE / 4.0
            } else {
                RESAMPLE_SHARE
            };
            let most = share * chosen.cost * f64::from(self.skipped) / price;
            // Nobody promises anything: the one that comes nearest, or was measured longest ago.
            self.oldest_turn = !self.oldest_turn;
            let oldest = self.oldest_turn;
            let others = self.looks.iter().filter(|look| {
                look.arm != 0
                    && look.arm != chosen.arm
                    && look.barred.is_none()
                    && !situation.arms[look.arm].history
                    && look.shadow_nanos() <= (allowance_nanos / 4.0).min(most)
                    && affordable.is_none_or(|nanos| look.shadow_nanos() <= nanos)
            });
            let next = if oldest {
                others.min_by_key(|look| look.age)
            } else {
                others.min_by(|a, b| a.least_cost.total_cmp(&b.least_cost))
            };
            into.extend(next.map(|look| look.arm));
        }
        if !into.is_empty() {
            self.skipped = 0;
            let looks = self.looks.iter().filter(|look| into.contains(&look.arm));
            if in_burst {
                self.burst.spend(looks.map(Look::shadow_nanos).sum());
            }
        }
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
        if !situation.arms[chosen.arm].history {
            return None;
        }
        self.unpaired = self.unpaired.saturating_add(1);
        let most = if self.class.is_large() {
            PAIR_EVERY_LARGE
        } else {
            PAIR_EVERY
        };
        let known = self.models(situation).paired(self.class);
        if f64::from(self.unpaired) <= most * known {
            return None;
        }
        let alone = self.looks.iter().filter(|look| {
            let arm = situation.arms[look.arm];
            look.arm != 0 && look.barred.is_none() && arm == arm.alone()
        });
        let reference = alone.clone().find(|look| {
            let most = PAIR_EFFORT * chosen.shadow_nanos();
            situation.arms[look.arm] == REFERENCE && look.shadow_nanos() <= most
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
