//! What the cost policy makes of arms whose true cost is known here, and changes.

use core::time::Duration;

use super::super::{Affordable, Arms, Policy, PolicyConfig, SentBlock, Situation};
use super::shadows::RESAMPLE;
use super::*;
use crate::control::{Fed, PeerKnowledge, Prices, Shadowed, Texture};

const ARMS: [Arm; 5] = [
    Arm::IDENTITY,
    Arm::new(CodecId::LZ4, 0),
    Arm::new(CodecId::ZSTD, 1),
    Arm::new(CodecId::ZSTD, 3),
    Arm::new(CodecId::ZSTD, 9),
];
const LEN: usize = 10_000;

/// What an arm really makes of a block, and in how much processor time.
#[derive(Clone, Copy)]
struct True {
    wire_len: usize,
    micros: u64,
}

const fn really(wire_len: usize, micros: u64) -> True {
    True { wire_len, micros }
}

/// Shadows may take so long, ns: what is saved up where little was spent.
const ALLOWANCE: f64 = 50e6;

/// One stream, whose blocks are all of one kind.
struct World {
    known: PeerKnowledge,
    arms: Arms,
    policy: Policy,
    truth: [True; 5],
    blocks: u64,
}

impl World {
    fn new(mbit: u64, truth: [True; 5]) -> Self {
        let mut known = PeerKnowledge::default();
        let second = Duration::from_secs(1);
        known
            .link
            .record_delivery(mbit * 125_000, second, Fed::Backlogged);
        Self {
            known,
            arms: Arms::new(&ARMS, &[], |_| true),
            policy: Policy::new(PolicyConfig::default()),
            truth,
            blocks: 0,
        }
    }

    /// Decides on a block, and what else to try with it.
    fn decide(&mut self, prices: Prices, affordable: Affordable) -> (usize, Vec<usize>) {
        let situation = Situation {
            now: self.now(),
            plain_len: LEN,
            texture: Texture::Records,
            prices,
            affordable,
            ..Situation::quiet(&self.arms, &self.known)
        };
        let mut rng = fastrand::Rng::with_seed(1);
        let choice = self.policy.choose(&situation, &mut rng);
        let mut shadows = Vec::new();
        self.policy
            .plan_shadows(&situation, ALLOWANCE, &mut shadows);
        (choice.arm, shadows)
    }

    const fn now(&self) -> Time {
        Time::from_nanos(self.blocks * 1_000_000)
    }

    /// Sends a block: the arm that was chosen, and those that it was tried with beside its way.
    fn block(&mut self) -> (usize, Vec<usize>) {
        let (chosen, shadows) = self.decide(Prices::default(), Affordable::default());
        let now = self.now();
        let True { wire_len, micros } = self.truth[chosen];
        let sent = SentBlock {
            now,
            arm: chosen,
            plain_len: LEN,
            wire_len,
            encode: Duration::from_micros(micros),
            texture: Texture::Records,
            is_paired: false,
        };
        let sample = sent.sample(ARMS[chosen]).expect("a known codec");
        let level = self.known.codecs.record_sent(&sample, false);
        self.policy
            .record_sent(&sent, Some(&sample), &self.known.codecs);
        let mut of_block = Sent {
            arm: ARMS[chosen],
            level,
            with_history: None,
        };
        for shadow in &shadows {
            let True { wire_len, micros } = self.truth[*shadow];
            of_block.level = self.known.codecs.record_shadow(
                self.policy.own_model(),
                now,
                BlockClass::of(LEN, Texture::Records),
                &Shadowed {
                    arm: ARMS[*shadow],
                    plain_len: LEN,
                    wire_len,
                    encode: Duration::from_micros(micros),
                    decode: None,
                },
                of_block,
            );
        }
        self.blocks += 1;
        (chosen, shadows)
    }
}

#[test]
fn an_arm_that_became_better_unused_is_found_again() {
    // On the link a block takes 0.8 ms as it is. No arm takes so long that a look costs more than a fiftieth of what 64 blocks cost.
    let usual = [
        really(LEN, 0),
        really(6000, 15),
        really(4000, 60),
        really(3900, 600),
        really(3800, 1500),
    ];
    let others = u32::try_from(ARMS.len()).expect("a few") - 2;
    for better in [1, 3, 4] {
        let mut world = World::new(100, usual);
        let before: Vec<_> = (0..2000).map(|_| world.block()).collect();
        let used = before[1000..].iter().filter(|(arm, _)| *arm == better);
        assert_eq!(used.count(), 0, "{}", ARMS[better]);
        world.truth[better] = really(2000, 20);
        // In turns the one measured longest ago, and the one that promises most.
        let turns = 2 * RESAMPLE * others;
        let looked = (0..=turns).find(|_| {
            let (chosen, shadows) = world.block();
            assert_ne!(chosen, better, "nothing has shown it");
            shadows.contains(&better)
        });
        // One look is no proof: times count by a fifth, strengths by a third and each time for a third of what was thought at least. It takes 10 to 16.
        let mut looks = 1;
        let found = (0..=10 * turns).find(|_| {
            let (chosen, shadows) = world.block();
            looks += usize::from(shadows.contains(&better));
            chosen == better
        });
        println!(
            "{}: a look after {looked:?} blocks of {turns} at most, taken {found:?} after that, with {looks} looks",
            ARMS[better]
        );
        assert!(looked.is_some() && found.is_some(), "{}", ARMS[better]);
        let kept = (0..100).filter(|_| world.block().0 == better).count();
        assert!(kept > 50, "{}: {kept} of 100", ARMS[better]);
    }
}

#[test]
fn an_arm_that_takes_many_blocks_time_is_found_again_too() {
    // A block takes 0.4 ms, zstd:9 thirty times as long: 64 blocks pay for five times.
    let usual = [
        really(LEN, 0),
        really(6000, 15),
        really(4000, 60),
        really(3900, 600),
        really(3800, 6000),
    ];
    let mut world = World::new(100, usual);
    for _ in 0..2000 {
        world.block();
    }
    let shadow_time = |shadows: &[usize]| -> u64 {
        let of = |arm: &usize| 2 * usual[*arm].micros;
        shadows.iter().map(of).sum()
    };
    let run: Vec<_> = (0..20_000).map(|_| world.block()).collect();
    let looks: Vec<_> = (0..run.len())
        .filter(|at| run[*at].1.contains(&4))
        .collect();
    let apart = looks.windows(2).map(|pair| pair[1] - pair[0]);
    let (least, most) = (apart.clone().min(), apart.max());
    let spent: u64 = run.iter().map(|(_, shadows)| shadow_time(shadows)).sum();
    println!(
        "{} looks, {least:?} to {most:?} blocks apart, {spent} us",
        looks.len()
    );
    assert!(run.iter().all(|(arm, _)| *arm == 2), "zstd:1 is best");
    assert!(looks.len() >= 5 && most.is_some_and(|blocks| blocks < 2 * 20_000 / looks.len()));
    // A fiftieth and a hundredth, of which a shadow beside the way counts a quarter.
    let most_spent = 0.03 / 0.25 * 20_000.0 * 400.0;
    assert!((spent as f64) < most_spent, "{spent} us of {most_spent}");
    world.truth[4] = really(1000, 20);
    let found = (0..40_000).find(|_| world.block().0 == 4);
    println!("taken after {found:?} blocks");
    assert!(found.is_some());
}

/// Blocks for which heavier arms are better, on a link of 10 Mbit/s: 8 ms as they are, 2.3 with zstd:9.
fn worth_much() -> World {
    let truth = [
        really(LEN, 0),
        really(6000, 15),
        really(4000, 60),
        really(3200, 100),
        really(2500, 250),
    ];
    let mut world = World::new(10, truth);
    let chosen: Vec<_> = (0..500).map(|_| world.block().0).collect();
    assert_eq!(chosen.last(), Some(&4), "zstd:9 without a limit");
    world
}

/// What each limit in turn leaves, once the policy has settled.
fn settled(limits: impl IntoIterator<Item = (Prices, Affordable)>) -> Vec<usize> {
    let mut world = worth_much();
    let mut settle = |(prices, affordable)| {
        let chosen = (0..50).map(|_| world.decide(prices, affordable).0);
        chosen.last().expect("some")
    };
    let mut found: Vec<_> = limits.into_iter().map(&mut settle).collect();
    println!("{found:?}");
    assert!(
        found.is_sorted_by(|a, b| a >= b),
        "never a heavier one: {found:?}"
    );
    found.dedup();
    found
}

#[test]
fn a_short_budget_makes_levels_fall_before_identity() {
    let dear = (0..=40).map(|step| {
        let encode = 0.01 * 1.4_f64.powi(step);
        (
            Prices {
                encode,
                ..Prices::default()
            },
            Affordable::default(),
        )
    });
    let found = settled(dear);
    assert_eq!((found.first(), found.last()), (Some(&4), Some(&0)));
    assert!(found.len() >= 4, "two at least between: {found:?}");
    // What one block may take.
    let short = [1e6, 200e3, 80e3, 30e3, 5e3].map(|nanos| {
        let encode_nanos = Some(nanos);
        (
            Prices::default(),
            Affordable {
                encode_nanos,
                ..Affordable::default()
            },
        )
    });
    assert_eq!(settled(short), [4, 3, 2, 1, 0]);
}

#[test]
fn while_the_rate_is_not_known_the_only_codec_leaves_plain_blocks_their_turn() {
    let us = Duration::from_micros;
    let arms = Arms::new(&ARMS[..2], &[], |_| true);
    let taken = |known: &PeerKnowledge| {
        let mut policy = Policy::new(PolicyConfig::default());
        let mut rng = fastrand::Rng::with_seed(1);
        let choices = (0..100).map(|block| {
            let situation = Situation {
                now: Time::from_nanos(block * 1_000_000),
                plain_len: 2000,
                texture: Texture::Records,
                ..Situation::quiet(&arms, known)
            };
            policy.choose(&situation, &mut rng).arm
        });
        choices.collect::<Vec<_>>()
    };
    let mut known = PeerKnowledge::default();
    known.link.record_passage(100, us(100), us(20));
    let plain = taken(&known).into_iter().filter(|arm| *arm == 0).count();
    assert!((1..=30).contains(&plain), "{plain} of 100");
    // Once it is known, there is nothing to find out.
    known
        .link
        .record_delivery(125_000, us(1000), Fed::Backlogged);
    assert!(taken(&known).iter().all(|arm| *arm == 1));
}

/// Blocks of 64 KiB in a run, and how many of a thousand go plain, what is known of the link left as it is.
fn plain_of_a_thousand(link: impl Fn(&mut PeerKnowledge), lasting: bool) -> usize {
    let arms = Arms::new(&ARMS[..2], &[], |_| true);
    let mut known = PeerKnowledge::default();
    link(&mut known);
    let mut policy = Policy::new(PolicyConfig::default());
    let mut rng = fastrand::Rng::with_seed(1);
    let mut plain = 0;
    for _ in 0..1000 {
        let situation = Situation {
            plain_len: 64 << 10,
            texture: Texture::Records,
            queued_behind: if lasting { 1 << 20 } else { 0 },
            ..Situation::quiet(&arms, &known)
        };
        let choice = policy.choose(&situation, &mut rng);
        let is_check = choice.is_check(situation.plain_len);
        assert_eq!(is_check, choice.arm == 0);
        known.link.on_chosen(choice.expected, is_check);
        plain += usize::from(choice.arm == 0);
    }
    plain
}

#[test]
fn a_run_of_compressed_blocks_is_checked_by_plain_ones_while_the_link_may_be_faster() {
    let (us, second) = (Duration::from_micros, Duration::from_secs(1));
    // Never seen busy; at least 100 MB/s, of which a plain block takes 0.66 ms.
    let at_least = |known: &mut PeerKnowledge| {
        known.link.record_passage(10_000, us(140), us(40));
    };
    let plain = plain_of_a_thousand(at_least, true);
    assert!((5..=25).contains(&plain), "{plain}");
    assert_eq!(plain_of_a_thousand(at_least, false), 0, "nothing waits");
    // Known for the first time, in doubt.
    let known_now = |bytes: u64| {
        move |known: &mut PeerKnowledge| {
            known.link.record_delivery(bytes, second, Fed::Backlogged);
        }
    };
    let plain = plain_of_a_thousand(known_now(150_000_000), true);
    assert!((5..=25).contains(&plain), "{plain}");
    // So slow that a block would take milliseconds, or that probes show it.
    assert_eq!(plain_of_a_thousand(known_now(50_000_000), true), 0);
    assert_eq!(plain_of_a_thousand(known_now(1_250_000), true), 0);
}

/// What zstd 3 with history costs for a block of 64 KiB in a run, ns, where these histories have begun and the link has so much to do.
fn with_history(cost: &mut Cost, live: &[Arm], prior: Prior, link_backlog: u64) -> f64 {
    let [one, three] = HISTORIES;
    let arms = Arms::new(&[Arm::IDENTITY, one, three], &[], |_| true);
    let mut known = PeerKnowledge::default();
    let second = Duration::from_secs(1);
    known
        .link
        .record_delivery(12_500_000, second, Fed::Backlogged);
    let situation = Situation {
        plain_len: 64 << 10,
        texture: Texture::Records,
        queued_behind: 1 << 20,
        live,
        prior,
        link_backlog,
        ..Situation::quiet(&arms, &known)
    };
    let class = BlockClass::of(situation.plain_len, situation.texture);
    cost.look(&situation, &stages(&situation), class);
    let look = cost.looks.iter().find(|look| look.arm() == 2);
    look.expect("it may be taken").cost
}

const HISTORIES: [Arm; 2] = [
    Arm::new(CodecId::ZSTD, 1).with_history(),
    Arm::new(CodecId::ZSTD, 3).with_history(),
];

#[test]
fn no_backlog_hides_that_another_history_begins() {
    let begin = typical(HISTORIES[1]).expect("a known arm").begin();
    let begin = begin.encode_nanos + begin.decode_nanos;
    let mut cost = Cost::new(CostConfig::default());
    let beside = |cost: &mut Cost, backlog| {
        let [going, new] = [&HISTORIES[..], &HISTORIES[..1]]
            .map(|live| with_history(cost, live, Prior::Nothing, backlog));
        new - going
    };
    for backlog in [0, 1 << 20] {
        let share = beside(&mut cost, backlog) * LEAST_HORIZON / begin;
        assert!((0.99..1.02).contains(&share), "{backlog}: {share}");
    }
    // The first one is begun once, and the link is busy meanwhile.
    let known =
        [&HISTORIES[..], &[]].map(|live| with_history(&mut cost, live, Prior::Recalled, 1 << 20));
    let first = known[1] - known[0];
    assert!(first < 0.3 * begin / LEAST_HORIZON, "{first}");
    // The more blocks there were, the more are to come.
    let sent = SentBlock {
        now: Time::ZERO,
        arm: 1,
        plain_len: 64 << 10,
        wire_len: 8 << 10,
        encode: Duration::from_micros(50),
        texture: Texture::Records,
        is_paired: false,
    };
    let before = beside(&mut cost, 0);
    for _ in 0..80 {
        let sample = sent.sample(HISTORIES[0]).expect("a known codec");
        cost.own_mut()
            .record_sent(&sample, false, None, Speed::default());
    }
    let after = beside(&mut cost, 0);
    assert!((9.0..11.0).contains(&(before / after)), "{before} {after}");
}
