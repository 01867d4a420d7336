use fastrand::Rng;

use super::*;
use crate::codecs::CodecId;

const ALONE: Arm = Arm::new(CodecId::ZSTD, 3);
const REFERENCE: Arm = Arm::new(CodecId::ZSTD, 1);
const LEN: usize = 60_000;

/// A model that is shown blocks of `len` bytes.
struct World {
    model: Model,
    len: usize,
}

impl World {
    fn new(len: usize) -> Self {
        Self {
            model: Model::default(),
            len,
        }
    }

    /// Wire bytes of a block with this logarithm of the ratio.
    fn wire_len(&self, ln_ratio: f64) -> usize {
        (self.len as f64 * (-ln_ratio).exp()) as usize
    }

    fn sample(&self, arm: Arm, wire_len: usize) -> Sample {
        let class = BlockClass::of(self.len, Texture::Records);
        let lens = (self.len, wire_len);
        Sample::new(Time::ZERO, arm, class, lens, 200_000).expect("an arm of the table")
    }

    fn strength(&self, arm: Arm) -> f64 {
        let row = typical(arm).expect("an arm of the table");
        row.at(Length::of(self.len as f64)).strength
    }

    /// Sends a block that has the level `alone` by itself and to which a history adds `added`; with a history and
    /// `paired`, a shadow tells the one from the other.
    fn send(&mut self, arm: Arm, alone: f64, added: f64, paired: bool) {
        let level = alone + if arm.history { added } else { 0.0 };
        let wire_len = self.wire_len(self.strength(arm) * level);
        let sample = self.sample(arm, wire_len);
        let speed = Speed::default();
        self.model.record_sent(&sample, paired, None, speed);
        if paired {
            let sent = Sent {
                arm,
                level: None,
                with_history: Some(wire_len),
            };
            let shadow = self.sample(REFERENCE, self.wire_len(alone));
            self.model.record_shadow(&shadow, sent, None, speed);
        }
    }

    /// The logarithm of the ratio that is expected of `arm`.
    fn expected(&self, arm: Arm) -> f64 {
        (self.len as f64 / self.expect(arm).wire_len).ln()
    }

    fn expect(&self, arm: Arm) -> Expected {
        let models = Models {
            own: &self.model,
            shared: &Model::default(),
            speed: Speed::default(),
        };
        let plain_len = Length::of(self.len as f64);
        let typical = typical(arm).expect("an arm of the table").at(plain_len);
        let class = BlockClass::of(self.len, Texture::Records);
        let known = models.known(class.of_arm(arm), plain_len, &models.content(class));
        known.expect(arm, &typical)
    }

    /// What a history is expected to add to what zstd:3 makes of a block.
    fn expected_added(&self) -> f64 {
        self.expected(ALONE.with_history()) - self.expected(ALONE)
    }
}

/// Compressible and incompressible blocks in turns, the one kind with history and the other without: their levels differ
/// by 2, and a history adds 0.4.
#[test]
fn pairs_tell_what_a_history_adds_from_what_blocks_are() {
    for history_has_the_better in [true, false] {
        let mut world = World::new(LEN);
        for turn in 0..60 {
            let good = turn % 2 == 0;
            let level = if good { 3.0 } else { 1.0 };
            if good == history_has_the_better {
                world.send(ALONE.with_history(), level, 0.4, turn % 3 == 0);
            } else {
                world.send(ALONE, level, 0.0, false);
            }
        }
        let added = world.expected_added();
        assert!((0.25..0.65).contains(&added), "{added}");
    }
}

#[test]
fn a_history_that_was_given_up_on_bad_content_is_thought_of_again_on_better() {
    let mut world = World::new(LEN);
    let history = ALONE.with_history();
    for _ in 0..20 {
        world.send(history, 1.0, 0.0, true);
    }
    let none = world.expected_added();
    assert!(none < 0.1, "{none}");
    // The same content: nothing is hoped for.
    for _ in 0..20 {
        world.send(ALONE, 1.0, 0.0, false);
    }
    let still = world.expected_added();
    assert!(still < 0.1, "{still}");
    // Another content: what is typical, and a little more.
    for _ in 0..10 {
        world.send(ALONE, 2.5, 0.0, false);
    }
    let hope = world.expected_added();
    assert!(hope > 0.25, "{hope}");
    for _ in 0..20 {
        world.send(history, 2.5, 0.0, true);
    }
    let given_up = world.expected_added();
    assert!(given_up < 0.15, "{given_up}");
}

#[test]
fn what_a_history_adds_is_thought_of_again_after_many_blocks_without() {
    let mut world = World::new(LEN);
    for _ in 0..10 {
        world.send(ALONE.with_history(), 2.0, 0.0, true);
    }
    let added = world.expected_added();
    for _ in 0..2000 {
        world.send(ALONE, 2.0, 0.0, false);
    }
    let later = world.expected_added();
    assert!(added < 0.1 && later > 0.3, "{added} {later}");
}

#[test]
fn blocks_with_history_say_what_those_without_are_and_the_other_way_round() {
    let history = ALONE.with_history();
    let mut world = World::new(LEN);
    for _ in 0..10 {
        world.send(history, 2.0, 0.5, true);
    }
    for _ in 0..10 {
        world.send(history, 3.0, 0.5, false);
    }
    let alone = world.expected(ALONE);
    assert!((2.8..3.2).contains(&alone), "{alone}");
    for _ in 0..10 {
        world.send(ALONE, 1.5, 0.0, false);
    }
    let with = world.expected(history);
    assert!((1.8..2.3).contains(&with), "{with}");
}

/// Whatever was sent before: after 40 blocks of steady content of which the arm in use is the better one by what is
/// expected, and every fourth one of history half of a pair, the arm in use is the better one by what it is, or
/// what the history adds is known within an eighth.
#[test]
fn no_past_keeps_a_policy_from_a_history_that_pays() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let len = [300, 3000, 20_000, 60_000][rng.usize(..4)];
        let mut world = World::new(len);
        let arms = [1, 3, 9].map(|level| Arm::new(CodecId::ZSTD, level).with_history());
        for _ in 0..rng.usize(..6) {
            let (alone, added) = (3.0 * rng.f64(), 1.5 * rng.f64());
            let arm = if rng.bool() {
                ALONE
            } else {
                arms[rng.usize(..3)]
            };
            for _ in 0..rng.usize(1..30) {
                let alone = alone * (0.5 + rng.f64());
                world.send(arm, alone, added, arm.history && rng.f64() < 0.3);
            }
        }
        let (alone, added) = (0.2 + 2.5 * rng.f64(), 0.3 + rng.f64());
        let mut taken = 0;
        let blocks = if len < 1000 { 1500 } else { 60 };
        for block in 0..blocks {
            let history = ALONE.with_history();
            // The other arm is a little lighter on the processor.
            let arm = if world.expected(history) > world.expected(ALONE) + 0.1 {
                taken += 1;
                history
            } else {
                ALONE
            };
            let level = alone * (0.7 + 0.6 * rng.f64());
            world.send(arm, level, added, arm.history && block % 4 == 0);
        }
        let found = world.expected(ALONE.with_history());
        let is = world.strength(ALONE.with_history()) * (alone + added);
        assert!(
            2 * taken > blocks && (found / is - 1.0).abs() < 0.3,
            "seed {seed}: {taken} of {blocks}, {found} of {is}"
        );
    }
}

#[test]
fn absurd_blocks_leave_what_is_expected_finite() {
    for len in [0, 1, 64, 300, 1 << 28] {
        let mut world = World::new(len);
        for turn in 0..30 {
            let ln_ratio = [0.0, 300.0, -50.0, f64::NAN][turn % 4];
            let arm = [ALONE, ALONE.with_history()][turn % 2];
            world.send(arm, ln_ratio, ln_ratio, arm.history && turn % 3 == 0);
            for arm in [ALONE, ALONE.with_history()] {
                let expected = world.expect(arm);
                assert!(
                    expected.wire_len.is_finite() && expected.wire_len <= len as f64,
                    "{len} {turn}: {expected:?}"
                );
            }
        }
    }
}
