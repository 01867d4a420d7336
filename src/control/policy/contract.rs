//! One suite over every policy.

use super::cost::Verdict;
use super::*;
use crate::codecs::CodecId;
use crate::control::{Fed, PeerKnowledge};

const ARMS: [Arm; 4] = [
    Arm::IDENTITY,
    Arm::new(CodecId::LZ4, 0),
    Arm::new(CodecId::ZSTD, 3),
    Arm::new(CodecId::ZSTD, 9),
];

struct World {
    known: PeerKnowledge,
    arms: Arms,
}

impl Default for World {
    fn default() -> Self {
        Self::of(&ARMS)
    }
}

impl World {
    fn of(arms: &[Arm]) -> Self {
        Self {
            known: PeerKnowledge::default(),
            arms: Arms::new(arms, &[], |_| true),
        }
    }

    fn situation(&self, now: Time, plain_len: usize, budget_left: bool) -> Situation<'_> {
        Situation {
            now,
            plain_len,
            budget_left,
            ..Situation::quiet(&self.arms, &self.known)
        }
    }

    /// Sends `blocks` blocks; arm `a` compresses `ratios[a]` : 1 in `nanos[a]`.
    fn run(
        &mut self,
        policy: &mut Policy,
        blocks: u64,
        ratios: [usize; 4],
        nanos: [u64; 4],
        seed: u64,
    ) -> [u32; 4] {
        let mut rng = Rng::with_seed(seed);
        let mut shares = [0; 4];
        for block in 0..blocks {
            let now = Time::from_nanos(block * 100_000);
            let choice = policy.choose(&self.situation(now, 1000, true), &mut rng);
            shares[choice.arm] += 1;
            let sent = SentBlock {
                now,
                arm: choice.arm,
                plain_len: 1000,
                wire_len: 1000 / ratios[choice.arm],
                encode: Duration::from_nanos(nanos[choice.arm]),
                texture: Texture::Records,
                is_paired: false,
            };
            let arm = ARMS[choice.arm];
            learn(&mut self.known, policy, &sent, arm);
            policy.on_sent(1);
        }
        shares
    }
}

/// As a session does: all of a connection learns from a block, and the stream whose it is.
fn learn(world: &mut PeerKnowledge, policy: &mut Policy, sent: &SentBlock, arm: Arm) {
    let sample = sent.sample(arm).expect("a known codec");
    world.codecs.record_sent(&sample, sent.is_paired);
    policy.record_sent(sent, Some(&sample), &world.codecs);
}

fn configs() -> Vec<PolicyConfig> {
    vec![
        PolicyConfig::Cost(CostConfig::default()),
        PolicyConfig::Cost(CostConfig {
            objective: cost::Objective {
                latency: f64::NAN,
                byte_price: -1.0,
                cpu_price: f64::INFINITY,
            },
        }),
        PolicyConfig::None,
        PolicyConfig::Fixed(ARMS[2]),
        PolicyConfig::Fixed(Arm::new(CodecId::BZIP2, 9)),
        PolicyConfig::RoundRobin,
        PolicyConfig::Majority(MajorityConfig::default()),
        PolicyConfig::Majority(MajorityConfig {
            round: Round::Time(Duration::from_millis(3)),
            others: 0.5,
        }),
        PolicyConfig::Majority(MajorityConfig {
            round: Round::Messages(0),
            others: f64::NAN,
        }),
    ]
}

#[test]
fn every_choice_is_an_arm_that_there_is() {
    for config in configs() {
        let mut policy = Policy::new(config);
        let mut rng = Rng::with_seed(1);
        for len in [0, 1, 70_000] {
            for arms in [&ARMS[..1], &ARMS[..2], &ARMS[..]] {
                let world = World::of(arms);
                let choice = policy.choose(&world.situation(Time::ZERO, len, true), &mut rng);
                assert!(choice.arm < arms.len(), "{config:?}");
            }
        }
    }
}

#[test]
fn an_exhausted_budget_means_identity() {
    for config in configs() {
        let world = World::default();
        let mut policy = Policy::new(config);
        let mut rng = Rng::with_seed(1);
        for _ in 0..300 {
            let choice = policy.choose(&world.situation(Time::ZERO, 100, false), &mut rng);
            assert_eq!(choice.arm, 0, "{config:?}");
            policy.on_sent(1);
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_choices() {
    for config in configs() {
        let run = || {
            World::default().run(
                &mut Policy::new(config),
                2000,
                [1, 2, 3, 4],
                [0, 10, 50, 500],
                42,
            )
        };
        assert_eq!(run(), run(), "{config:?}");
    }
}

#[test]
fn absurd_measurements_do_no_harm() {
    for config in configs() {
        let mut world = World::default();
        let mut policy = Policy::new(config);
        for (arm, named) in ARMS.iter().enumerate() {
            let absurd = [
                (Time::ZERO, 0, Duration::MAX),
                (Time::from_nanos(u64::MAX), usize::MAX, Duration::ZERO),
                (Time::ZERO, 1, Duration::MAX),
            ];
            for (now, plain_len, encode) in absurd {
                let sent = SentBlock {
                    now,
                    arm,
                    plain_len,
                    wire_len: 0,
                    encode,
                    texture: Texture::Noise,
                    is_paired: false,
                };
                learn(&mut world.known, &mut policy, &sent, *named);
            }
        }
        world
            .known
            .link
            .record_send(u64::MAX, Duration::from_nanos(1));
        world.known.rtt.record(Time::ZERO, Duration::MAX);
        let shares = world.run(&mut policy, 1000, [1; 4], [u64::MAX; 4], 3);
        assert_eq!(shares.iter().sum::<u32>(), 1000, "{config:?}");
    }
}

#[test]
fn shares_are_what_the_thesis_says() {
    let mut slow_link = World::default();
    let link = &mut slow_link.known.link;
    link.record_delivery(125_000, Duration::from_millis(100), Fed::Backlogged);
    let shares = |world: &mut World, config| {
        world.run(
            &mut Policy::new(config),
            10_000,
            [1, 2, 4, 4],
            [0, 1000, 5000, 50_000],
            7,
        )
    };
    assert_eq!(
        shares(&mut World::default(), PolicyConfig::None),
        [10_000, 0, 0, 0]
    );
    assert_eq!(
        shares(&mut World::default(), PolicyConfig::Fixed(ARMS[1])),
        [0, 10_000, 0, 0]
    );
    assert_eq!(
        shares(&mut World::default(), PolicyConfig::RoundRobin),
        [2500; 4]
    );
    // After a round of equal shares, 97 % go to the best and 1 % to each of the others.
    let majority = shares(
        &mut slow_link,
        PolicyConfig::Majority(MajorityConfig::default()),
    );
    assert!(majority[2] > 9500, "{majority:?}");
    for other in [0, 1, 3] {
        assert!((60..200).contains(&majority[other]), "{majority:?}");
    }
}

#[test]
fn an_arm_without_memory_for_its_history_is_not_taken_and_says_so() {
    const STRONG: Arm = Arm::new(CodecId::ZSTD, 1).with_history();
    let mut world = World::of(&[Arm::IDENTITY, STRONG]);
    for _ in 0..20 {
        // 1 Mbit/s: there is nothing that a history would not pay.
        let second = Duration::from_secs(1);
        world
            .known
            .link
            .record_delivery(125_000, second, Fed::Backlogged);
    }
    for roomless in [&[][..], &[STRONG][..]] {
        let mut policy = Policy::new(PolicyConfig::default());
        let situation = Situation {
            roomless,
            ..world.situation(Time::ZERO, 60_000, true)
        };
        let choice = policy.choose(&situation, &mut Rng::with_seed(1));
        assert_eq!(choice.arm, usize::from(roomless.is_empty()));
        let reports = policy.explain(&situation);
        let strong = reports.iter().find(|report| report.arm == STRONG);
        let verdict = strong.expect("a report").verdict;
        assert_eq!(verdict == Verdict::NoMemory, !roomless.is_empty());
    }
}

#[test]
fn an_arm_that_has_failed_rests_even_where_its_choice_stood() {
    let mut world = World::default();
    // 1 Mbit/s.
    let second = Duration::from_secs(1);
    world
        .known
        .link
        .record_delivery(125_000, second, Fed::Backlogged);
    let mut policy = Policy::new(PolicyConfig::default());
    let mut rng = Rng::with_seed(1);
    let now = Time::ZERO + second;
    let taken = policy.choose(&world.situation(now, 1000, true), &mut rng);
    assert_ne!(taken.arm, 0);
    world.known.codecs.failures.on_failed(now, ARMS[taken.arm]);
    for _ in 0..100 {
        let situation = world.situation(now, 1000, true);
        let choice = policy.choose(&situation, &mut rng);
        assert_ne!(choice.arm, taken.arm);
        let reports = policy.explain(&situation);
        let failed = reports.iter().find(|it| it.arm == ARMS[taken.arm]);
        assert_eq!(failed.expect("a report").verdict, Verdict::Failed);
    }
}

#[test]
fn reasons_and_verdicts_are_named_alike() {
    let snake = |variant: &str| {
        let mut name = String::new();
        for letter in variant.chars().take_while(char::is_ascii_alphabetic) {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    };
    for reason in Reason::ALL {
        assert_eq!(reason.name(), snake(&format!("{reason:?}")));
    }
    for verdict in [
        Verdict::Taken,
        Verdict::Dearer(0.5),
        Verdict::OverBudget,
        Verdict::PeerStarved,
        Verdict::NoMemory,
        Verdict::Failed,
    ] {
        assert_eq!(verdict.name(), snake(&format!("{verdict:?}")));
    }
}

#[test]
fn names_read_back() {
    for text in ["cost", "none", "round_robin", "majority", "zstd:3", "lz4"] {
        assert_eq!(
            text.parse::<PolicyConfig>().expect("a policy").to_string(),
            text
        );
    }
    assert_eq!("fixed:zstd:9".parse(), Ok(PolicyConfig::Fixed(ARMS[3])));
    assert!("fast".parse::<PolicyConfig>().is_err());
}

/// What the default policy makes of `blocks` blocks over 100 Mbit/s: how many went with each arm, and how often it changed.
/// `made` says what an arm makes of a block, with its time in ns.
fn decided(
    blocks: u64,
    texture: Texture,
    mut made: impl FnMut(usize, &mut Rng) -> (usize, u64),
) -> ([u32; 4], u32) {
    let (mut world, mut policy) = (World::default(), Policy::new(PolicyConfig::default()));
    let link = &mut world.known.link;
    link.record_delivery(1_250_000, Duration::from_millis(100), Fed::Backlogged);
    let mut rng = Rng::with_seed(5);
    let (mut shares, mut changes, mut last) = ([0; 4], 0, None);
    for block in 0..blocks {
        let now = Time::from_nanos(block * 1_000_000);
        let situation = Situation {
            texture,
            ..world.situation(now, 10_000, true)
        };
        let arm = policy.choose(&situation, &mut rng).arm;
        shares[arm] += 1;
        changes += u32::from(last.replace(arm).is_some_and(|last| last != arm));
        let (wire_len, nanos) = made(arm, &mut rng);
        let sent = SentBlock {
            now,
            arm,
            plain_len: 10_000,
            wire_len,
            encode: Duration::from_nanos(nanos),
            texture,
            is_paired: false,
        };
        learn(&mut world.known, &mut policy, &sent, ARMS[arm]);
        policy.on_sent(1);
    }
    (shares, changes)
}

#[test]
fn hardly_a_block_is_spent_on_codecs_that_cannot_help() {
    let nanos = [0, 5000, 30_000, 90_000];
    let shares = |blocks| decided(blocks, Texture::Noise, |arm, _| (10_000, nanos[arm])).0;
    // What looks like noise may be base64: the lightest codec is tried on the first ones, and no other ever.
    let (first, all) = (shares(100), shares(5000));
    println!("{first:?}, {all:?}");
    assert!(first[1] <= 15, "{first:?}");
    assert_eq!(first[1..], all[1..]);
    assert_eq!(all[2..], [0, 0]);
}

#[test]
fn arms_that_are_nearly_equal_do_not_take_turns() {
    // 4000 bytes take 320 us on the link; blocks differ by a fifth, and what the two arms cost by 1 %.
    let means = [(10_000, 0), (6000, 5000), (4000, 30_000), (3700, 51_000)];
    let (shares, changes) = decided(2000, Texture::Records, |arm, rng| {
        let (len, nanos) = means[arm];
        ((f64::from(len) * (0.9 + 0.2 * rng.f64())) as usize, nanos)
    });
    println!("{shares:?}, {changes} changes");
    assert!(shares[2] + shares[3] > 1950, "{shares:?}");
    assert!(changes <= 20, "{changes} changes, {shares:?}");
}
