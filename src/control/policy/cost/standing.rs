//! Choices that stand for the next blocks like the one that they were made for: a look at all arms takes longer than a small block.

use super::{Cost, Look, PATIENCE, Stages, Times};
use crate::control::policy::{Choice, Prior, Reason, Situation};
use crate::control::{BlockClass, CUT_NANOS, LEAST_CUT, Prices};
use crate::few::push_few;
use crate::units::saturating_nanos;

/// A small block's choice stands for so many blocks in the same circumstances, twice as many each time that a look confirms it ..
const SMALL_REUSE: u16 = 8;
/// .. and no more than so many: what changes is to be followed within a hundred.
const MOST_REUSE: u16 = 16;
/// A larger block that goes out as it is stands for as many as take so long, ns: a look at all arms takes some three microseconds between other work, and this is a hundred of those. Arbitrary.
const LARGE_REUSE_NANOS: f64 = 300e3;
/// Choices that stand at once, for blocks of different lengths. Arbitrary.
const MAX_STANDING: usize = 16;
/// How far the time that the link still needs may be off for a small block's choice to stand, ns, or by a fifth.
const BACKLOG_SLACK: f64 = 100.0;
/// .. and what processor time costs, in ns of message time for each, or by a fifth. Arbitrary.
const PRICE_SLACK: f64 = 0.05;
/// An arm that costs so many times what plain blocks cost, at least, is of no use. Arbitrary.
const HOPELESS: f64 = 1.2;
/// A link that no codec can help is looked at again after so many blocks. Arbitrary.
const HOPELESS_REUSE: u16 = 64;
/// Plain length up to which a block counts as small, bytes.
const SMALL: usize = 4096;

/// Blocks that no codec can help.
#[derive(Clone, Copy, Debug)]
struct Hopeless {
    /// The longest of them, bytes.
    longest: usize,
    /// What as many bytes again cost more, ns.
    growth_nanos: f64,
}

/// A choice that stands while nothing changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    class: BlockClass,
    plain_len: usize,
    link_nanos_per_byte: f64,
    backlog_nanos: f64,
    /// How many blocks might be encoded at once.
    width: f64,
    /// What processor time cost besides, here and at the peer.
    prices: Prices,
    /// How much more the link may have to do, and how much less, ns ([`Cost::margin`]).
    margin: (f64, f64),
    /// Whether nothing followed.
    is_last: bool,
    /// Where no codec can help, how far that goes.
    hopeless: Option<Hopeless>,
    prior: Prior,
    choice: Choice,
    /// What staying with it costs, in shares of a block's cost.
    loss: f64,
    /// What the peer takes to decode such a block with it, over what it takes with [`REFERENCE`].
    decode_share: f64,
    /// For how many blocks it stands, and for how many more.
    spell: u16,
    left: u16,
}

impl Standing {
    /// Whether it is for such blocks: as long to an eighth. Where no codec helps, none helps shorter ones either.
    fn is_for(&self, class: BlockClass, plain_len: usize, is_last: bool) -> bool {
        let is_hopeless = |it: Hopeless| plain_len > SMALL && plain_len <= it.longest;
        self.class == class
            && self.is_last == is_last
            && (plain_len.abs_diff(self.plain_len) <= self.plain_len / 8
                || self.hopeless.is_some_and(is_hopeless))
    }

    /// Whether it would be the same for such a block if the link had so much to do, ns.
    fn stands_at(&self, plain_len: usize, backlog_nanos: f64) -> bool {
        let (mut more, mut less) = self.margin;
        if let Some(share) = self.share(plain_len) {
            // The shorter a block, the closer together are its arms. A longer one takes longer on the link, and with a codec no less.
            let longer = (share - 1.0).max(0.0);
            let growth = self.hopeless.map_or(0.0, |it| it.growth_nanos);
            more = share.min(1.0) * more - longer * growth;
            less *= share.min(1.0);
        }
        let off = backlog_nanos - self.backlog_nanos;
        let is_like = off.abs() <= BACKLOG_SLACK || is_near(backlog_nanos, self.backlog_nanos);
        -less < off && off < more || self.plain_len <= SMALL && is_like
    }

    /// Whether processor time costs what it did, and there is enough of it. Blocks that go out as they are take none of it: where they were the cheapest, they
    /// are so as long as it does not become cheaper.
    fn may_be_paid(&self, situation: &Situation<'_>, stages: &Stages) -> bool {
        let (before, now) = (self.prices, stages.prices);
        let both = [(before.encode, now.encode), (before.decode, now.decode)];
        let slack = |before: f64| PRICE_SLACK.max(before / 5.0);
        if both
            .iter()
            .any(|(before, now)| *now < before - slack(*before))
        {
            return false;
        }
        let affordable = situation.affordable;
        let has_time = |most: Option<f64>| most.is_none_or(|nanos| nanos > 1e6);
        let was_barred = matches!(self.choice.reason, Reason::Budget | Reason::PeerStarved);
        self.choice.arm == 0 && !was_barred
            || !situation.peer_starved
                && both
                    .iter()
                    .all(|(before, now)| *now <= before + slack(*before))
                && has_time(affordable.encode_nanos)
                && has_time(affordable.decode_nanos)
    }

    /// How long such a block is against its own, if it is not as long to an eighth.
    fn share(&self, plain_len: usize) -> Option<f64> {
        let is_other = plain_len.abs_diff(self.plain_len) > self.plain_len / 8;
        is_other.then(|| plain_len as f64 / self.plain_len as f64)
    }
}

impl Cost {
    /// The choice that stands for such a block, and what the peer takes to decode it with that.
    pub(super) fn stands(
        &mut self,
        situation: &Situation<'_>,
        stages: &Stages,
        class: BlockClass,
    ) -> Option<(Choice, f64)> {
        let is_last = stages.followers < 1.0;
        let at = self.standing_of(class, situation.plain_len, is_last)?;
        let standing = &mut self.standing[at];
        let arm = situation.arms[standing.choice.arm];
        let same = stages.width <= standing.width
            && standing.may_be_paid(situation, stages)
            && !situation.shared.failures.is_resting(situation.now, arm)
            && standing.prior == situation.prior
            && is_near(stages.link_nanos_per_byte, standing.link_nanos_per_byte)
            && standing.stands_at(situation.plain_len, stages.link_backlog_nanos);
        // Each block counts: to look again at all arms for each would be too dear.
        let counts = same && standing.loss > 0.0;
        if counts {
            self.stayed += standing.loss;
        }
        if !same || counts && self.stayed > PATIENCE + self.switching {
            self.standing.swap_remove(at);
            return None;
        }
        // Its time is over, and the next look says whether it was right.
        standing.left = standing.left.checked_sub(1)?;
        self.looks.clear();
        let mut choice = standing.choice;
        if let Some(share) = standing.share(situation.plain_len) {
            choice.expected = choice.expected.mul_f64(share);
        }
        Some((choice, standing.decode_share))
    }

    /// Where the choice for blocks like one of a class and length stands, if one does.
    fn standing_of(&self, class: BlockClass, plain_len: usize, is_last: bool) -> Option<usize> {
        let is_for = |standing: &Standing| standing.is_for(class, plain_len, is_last);
        self.standing.iter().position(is_for)
    }

    /// Lets a choice stand where looking again and again would cost more than it could find.
    pub(super) fn stand(
        &mut self,
        situation: &Situation<'_>,
        stages: &Stages,
        class: BlockClass,
        (choice, decode_share): (Choice, f64),
        loss: f64,
    ) {
        let is_last = stages.followers < 1.0;
        let at = self.standing_of(class, situation.plain_len, is_last);
        let small = situation.plain_len <= SMALL;
        let plain = stages.cost(
            Times {
                encode_nanos: 0.0,
                wire_len: situation.plain_len as f64,
                decode_nanos: 0.0,
                is_alone: true,
            },
            self.objective,
        );
        let is_plain = choice.arm == 0;
        // Where nothing helps however little processor time costs, that may change.
        let at_any_price = if is_plain {
            self.hopeless(plain, |look| look.least_free)
        } else {
            None
        };
        let prices = at_any_price.map_or(stages.prices, |_| Prices::default());
        let hopeless = if is_plain && at_any_price.is_none() {
            self.hopeless(plain, |look| look.least_cost)
        } else {
            at_any_price
        };
        let margin = match hopeless {
            // Of them the link hides nothing, and the less it has to do the more do others cost.
            Some(least) => ((least - plain) / self.objective.latency.max(1e-9), f64::MAX),
            // Looks are where it learns, and shall not become rare where they are cheap beside the block's time on the link.
            None if small => (0.0, 0.0),
            None => self.margin(choice.arm),
        };
        let hopeless =
            hopeless.map(|least| self.hopeless_blocks(situation.plain_len, stages, plain, least));
        let before = at.map(|at| self.standing[at]);
        let confirmed = before.filter(|before| before.choice.arm == choice.arm);
        let spell = if hopeless.is_some() {
            HOPELESS_REUSE
        } else if small {
            confirmed.map_or(SMALL_REUSE, |before| (2 * before.spell).min(MOST_REUSE))
        } else if choice.arm > 0 {
            // Encoding it takes longer than a look, and what is known of that changes with each block.
            0
        } else {
            let expected = saturating_nanos(choice.expected).max(1) as f64;
            (LARGE_REUSE_NANOS / expected).min(f64::from(MOST_REUSE)) as u16
        };
        if spell == 0 {
            at.map(|at| self.standing.swap_remove(at));
            return;
        }
        let standing = Standing {
            class,
            plain_len: situation.plain_len,
            link_nanos_per_byte: stages.link_nanos_per_byte,
            backlog_nanos: stages.link_backlog_nanos,
            width: stages.width,
            prices,
            margin,
            is_last,
            hopeless,
            prior: situation.prior,
            choice,
            loss,
            decode_share,
            spell,
            left: spell,
        };
        if let Some(at) = at {
            self.standing[at] = standing;
        } else if self.standing.len() < MAX_STANDING {
            push_few(&mut self.standing, standing);
        } else {
            self.oldest = (self.oldest + 1) % MAX_STANDING;
            self.standing[self.oldest] = standing;
        }
    }

    /// How much more the link may have to do, and how much less, ns, for an arm to be the best one still: the cost of none changes by more than that.
    fn margin(&self, arm: usize) -> (f64, f64) {
        let latency = self.objective.latency.max(1e-9);
        match self.looks.as_slice() {
            [best, second, ..] if best.arm() == arm && second.barred.is_none() => {
                let margin = (second.cost - best.cost) / latency;
                (margin, margin)
            }
            _ => (0.0, 0.0),
        }
    }

    /// How long blocks may become that no codec helps, where one of `plain_len` bytes costs `plain` and with any codec `least`: what grows of a plain one is
    /// its time on the link; a codec takes no less for a longer one, but where that lets it encode others at once or be cut.
    fn hopeless_blocks(
        &self,
        plain_len: usize,
        stages: &Stages,
        plain: f64,
        least: f64,
    ) -> Hopeless {
        let objective = self.objective;
        let each = objective.latency * stages.link_nanos_per_byte + objective.byte_price;
        let cut_saves = if plain_len < LEAST_CUT {
            objective.latency * (stages.handover_nanos - CUT_NANOS).max(0.0)
        } else {
            0.0
        };
        let longer = if stages.width > 1.0 {
            0.0
        } else {
            ((least - cut_saves) / HOPELESS - plain) / each.max(1e-9)
        };
        Hopeless {
            longest: plain_len.saturating_add(longer as usize),
            growth_nanos: plain_len as f64 * each / objective.latency.max(1e-9),
        }
    }

    /// What other arms cost at least, if none can be better than blocks that go out as they are, which cost `plain`, however wrong its look is.
    pub(super) fn hopeless(&self, plain: f64, least: impl Fn(&Look) -> f64) -> Option<f64> {
        let others = self.looks.iter().filter(|look| look.arm() != 0);
        let least = others.map(least).fold(f64::MAX, f64::min);
        Some(least).filter(|least| *least > HOPELESS * plain)
    }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.2 * b
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::codecs::{Arm, CodecId};
    use crate::control::policy::cost::{CostConfig, stages};
    use crate::control::{Affordable, Arms, Fed, PeerKnowledge, Texture};

    const ARMS: [Arm; 3] = [
        Arm::IDENTITY,
        Arm::new(CodecId::LZ4, 0),
        Arm::new(CodecId::ZSTD, 1),
    ];
    const LEN: usize = 64 << 10;

    fn look(number: u16, cost: f64) -> Look {
        Look {
            number,
            barred: None,
            samples: 1.0,
            cost,
            least_cost: 0.9 * cost,
            least_free: 0.8 * cost,
            encode_nanos: 0.0,
            wire_len: 0.0,
            decode_nanos: 0.0,
            measured_at: None,
        }
    }

    #[test]
    fn a_choice_stands_as_far_as_it_was_better() {
        let mut cost = Cost::new(CostConfig::default());
        cost.looks = vec![look(1, 40e3), look(0, 70e3), look(2, 60e3)];
        assert_eq!(cost.margin(1), (30e3, 30e3));
        // One that was kept though another was better stands for nothing else.
        assert_eq!(cost.margin(0), (0.0, 0.0));
        // Where nothing helps, the best of the others says how far.
        cost.looks = vec![look(0, 40e3), look(2, 100e3), look(1, 90e3)];
        let least = cost.hopeless(40e3, |look| look.least_cost);
        assert!(
            least.is_some_and(|least| (least - 81e3).abs() < 1e-6),
            "{least:?}"
        );
        assert_eq!(cost.hopeless(70e3, |look| look.least_cost), None);
    }

    #[test]
    fn where_no_codec_helps_none_helps_blocks_that_are_a_little_longer() {
        let known = PeerKnowledge::default();
        let arms = Arms::new(&ARMS, &[], |_| true);
        let one = Stages {
            link_nanos_per_byte: 1.0,
            width: 1.0,
            ..stages(&Situation::quiet(&arms, &known))
        };
        let cost = Cost::new(CostConfig::default());
        // A plain block may cost 80 us for that, and costs 1 ns more for each byte.
        let hopeless = cost.hopeless_blocks(40_000, &one, 50e3, 96e3);
        assert_eq!(hopeless.longest, 70_000);
        assert!((hopeless.growth_nanos - 40e3).abs() < 1e-6, "{hopeless:?}");
        // Longer ones may be encoded beside others.
        let wide = Stages { width: 2.0, ..one };
        let beside = cost.hopeless_blocks(40_000, &wide, 50e3, 96e3);
        assert_eq!(beside.longest, 40_000);
        // .. or cut, which saves 20 us of 116 us.
        let cut = Stages {
            handover_nanos: CUT_NANOS + 20e3,
            ..one
        };
        let longest = |len| cost.hopeless_blocks(len, &cut, 50e3, 104e3 + 12e3).longest;
        assert_eq!(longest(LEAST_CUT - 1), LEAST_CUT - 1 + 30_000);
        assert_eq!(longest(LEAST_CUT), LEAST_CUT + 46_666);

        let class = BlockClass::of(40_000, Texture::Records);
        let standing = Standing {
            class,
            plain_len: 40_000,
            link_nanos_per_byte: 1.0,
            backlog_nanos: 0.0,
            width: 1.0,
            prices: Prices::default(),
            margin: (46e3, f64::MAX),
            is_last: false,
            hopeless: Some(hopeless),
            prior: Prior::Nothing,
            choice: Choice::new(0, Reason::Cheapest),
            loss: 0.0,
            decode_share: 0.0,
            spell: 64,
            left: 64,
        };
        let is_for = |len| standing.is_for(class, len, false);
        assert!(is_for(70_000) && is_for(5000) && !is_for(70_001));
        // Of the 46 us, a longer one takes what it is longer on the link, and a shorter one has its part.
        assert!(standing.stands_at(60_000, 25e3) && !standing.stands_at(60_000, 27e3));
        assert!(standing.stands_at(20_000, 22e3) && !standing.stands_at(20_000, 24e3));
    }

    /// Decides on 2000 blocks in a run, of which the link still has up to so many bytes: of how many all arms were looked at. Each choice that stands is
    /// compared with what a look finds.
    fn looked_at(bytes_per_sec: u64, most_backlog: u64) -> usize {
        looked_at_paid(bytes_per_sec, most_backlog, |_| <_>::default())
    }

    /// .. where processor time costs so much for each block.
    fn looked_at_paid(
        bytes_per_sec: u64,
        most_backlog: u64,
        mut paid: impl FnMut(&mut fastrand::Rng) -> (Prices, Affordable),
    ) -> usize {
        let mut known = PeerKnowledge::default();
        let second = Duration::from_secs(1);
        known
            .link
            .record_delivery(bytes_per_sec, second, Fed::Backlogged);
        let arms = Arms::new(&ARMS, &[], |_| true);
        let mut cost = Cost::new(CostConfig::default());
        let mut rng = fastrand::Rng::with_seed(5);
        let mut looked = 0;
        for _ in 0..2000 {
            let (prices, affordable) = paid(&mut rng);
            let situation = Situation {
                prices,
                affordable,
                // All of one class.
                plain_len: rng.usize(LEN / 2 + 1..=LEN * 2),
                texture: Texture::Records,
                queued_behind: 100 * LEN,
                overhead_nanos: 20e3,
                at_work_nanos: 20e3,
                link_backlog: rng.u64(0..=most_backlog),
                ..Situation::quiet(&arms, &known)
            };
            let mut other = cost.clone();
            other.standing.clear();
            let chosen = cost.choose(&situation);
            if cost.looks.is_empty() {
                let found = other.choose(&situation);
                // Lengths within an eighth count as one, and a look keeps what was taken since.
                let taken = other.looks.iter().find(|look| look.arm() == chosen.arm);
                let loss = taken.map_or(f64::MAX, |look| look.loss(other.looks[0]));
                let is_same = chosen.arm == found.arm || loss < 0.1;
                let is_best = found.reason != Reason::Explored;
                assert!(!is_best || is_same, "{chosen:?} {found:?} {loss}");
            } else {
                looked += 1;
            }
        }
        looked
    }

    #[test]
    fn choices_stand_while_a_look_would_find_the_same() {
        // 5 GB/s: a block takes 13 us on the link and any codec more.
        let looked = looked_at(5_000_000_000, 32 << 10);
        assert!((2000 / 80..2000 / 20).contains(&looked), "{looked}");
        // So much is on its way that a codec is hidden by it now and then.
        looked_at(5_000_000_000, 4 << 20);
        // Slower ones, on which a codec might help: plain blocks of 0.05 ms, a few of which are decided on at once.
        let between = [1000, 1500, 2000, 3000].map(|mb| looked_at(mb * 1_000_000, 32 << 10));
        let some = between
            .iter()
            .find(|looked| (2000 / 16..1000).contains(*looked));
        assert!(some.is_some(), "{between:?}");
        // 10 MB/s: encoded ones are looked at one by one.
        assert_eq!(looked_at(10_000_000, 32 << 10), 2000);
    }

    #[test]
    fn where_more_may_be_encoded_at_once_arms_are_looked_at_again() {
        let mut known = PeerKnowledge::default();
        let second = Duration::from_secs(1);
        known
            .link
            .record_delivery(5_000_000_000, second, Fed::Backlogged);
        let arms = Arms::new(&ARMS, &[], |_| true);
        let mut cost = Cost::new(CostConfig::default());
        let mut looks_at = |encoders| {
            let situation = Situation {
                plain_len: LEN,
                queued_behind: 100 * LEN,
                encoders,
                ..Situation::quiet(&arms, &known)
            };
            cost.choose(&situation);
            !cost.looks.is_empty()
        };
        let looked = [2, 2, 3, 3, 2, 1].map(&mut looks_at);
        assert_eq!(looked, [true, false, true, false, false, false]);
    }

    #[test]
    fn plain_blocks_stand_though_processor_time_is_short() {
        let mut price = 0.0;
        let looked = looked_at_paid(5_000_000_000, 32 << 10, |rng| {
            // It rises slowly, and falls at once when there is time again.
            price = if rng.u8(..100) == 0 {
                0.0
            } else {
                price + 0.02
            };
            let prices = Prices {
                encode: price,
                decode: rng.f64() * 0.04,
            };
            let nanos = Some(rng.f64() * 2e6);
            let affordable = Affordable {
                encode_nanos: nanos,
                decode_nanos: nanos,
            };
            (prices, affordable)
        });
        assert!((2000 / 80..2000 / 15).contains(&looked), "{looked}");
        // What does not help at any price stands whatever that is.
        let looked = looked_at_paid(5_000_000_000, 32 << 10, |rng| {
            let prices = Prices {
                encode: rng.f64() * 10.0,
                decode: rng.f64(),
            };
            (prices, Affordable::default())
        });
        assert!((2000 / 80..2000 / 15).contains(&looked), "{looked}");
        // What might is looked at whenever it becomes cheaper.
        for megabytes in [500, 1000, 1500, 2000] {
            let mut blocks = 0;
            looked_at_paid(megabytes * 1_000_000, 32 << 10, |_| {
                blocks = (blocks + 1) % 400;
                let prices = Prices {
                    encode: 10.0 * 0.7_f64.powi(blocks / 20),
                    decode: 0.0,
                };
                (prices, Affordable::default())
            });
        }
    }
}
