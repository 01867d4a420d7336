//! How long all arms take, against the machine of the typical table and against what they took when each was timed.

use super::{FULL_WEIGHT, MAX_TIME_JUMP, Sample, TIME_GAIN, time_factor};

/// Weight of a new time in the machine's speed, on the logarithm: it hardly changes. Arbitrary.
const SPEED_GAIN: f32 = 0.1;
/// Machines are at most so many times as fast or slow as the table's. Arbitrary, beyond any in use.
const MOST_SPEED: f32 = 50.0;
/// Weight of what an arm took more or less than was expected of it in the pace of all. Arbitrary: the other half is its own.
const PACE_GAIN: f32 = TIME_GAIN / 2.0;
/// Times of shorter blocks are mostly something else's, and tell nothing of it, bytes. Arbitrary.
const LEAST_PACED: usize = 4 << 10;
/// Bound of the pace, of which only changes matter. Arbitrary.
const MOST_PACE: f32 = 1e6;

/// How fast this machine is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Against the machine of the typical table.
    pub(super) encode: f32,
    pub(super) decode: f32,
    /// Factor on what arms took to encode: what makes one slow, as cold caches and a processor that clocks down, does so to all.
    pub(super) pace: f32,
}

impl Default for Speed {
    fn default() -> Self {
        Self {
            encode: 1.0,
            decode: 1.0,
            pace: 1.0,
        }
    }
}

impl Speed {
    /// Takes in a time that an arm other than identity took.
    pub(crate) fn record(&mut self, sample: &Sample) {
        let typical = &sample.typical;
        let follow = |speed: &mut f32, factor: Option<f32>| {
            if let Some(factor) = factor {
                let bounded = factor.clamp(*speed / MAX_TIME_JUMP, *speed * MAX_TIME_JUMP);
                let change = (bounded / *speed).powf(SPEED_GAIN);
                *speed = (*speed * change).clamp(1.0 / MOST_SPEED, MOST_SPEED);
            }
        };
        follow(
            &mut self.encode,
            time_factor(sample.encode_nanos, typical.encode_nanos),
        );
        if let Some(nanos) = sample.decode_nanos {
            follow(&mut self.decode, time_factor(nanos, typical.decode_nanos));
        }
    }

    /// Whether the time of such a block says something of the pace.
    pub(crate) const fn is_paced_by(sample: &Sample) -> bool {
        sample.plain_len >= LEAST_PACED
    }

    /// Takes in the time of such a block that was sent with an arm that was expected to take `expected` times its typical time.
    pub(crate) fn record_pace(&mut self, sample: &Sample, expected: f32) {
        if let Some(factor) = time_factor(sample.encode_nanos, sample.typical.encode_nanos) {
            let bounded = (factor / expected).clamp(1.0 / MAX_TIME_JUMP, MAX_TIME_JUMP);
            let weight = (sample.plain_len as f32 / FULL_WEIGHT).min(1.0);
            let pace = self.pace * (1.0 + PACE_GAIN * weight * (bounded - 1.0));
            self.pace = pace.clamp(1.0 / MOST_PACE, MOST_PACE);
        }
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::super::BlockClass;
    use super::*;
    use crate::codecs::{Arm, CodecId};
    use crate::control::Texture;
    use crate::control::knowledge::CodecKnowledge;
    use crate::units::Time;

    const USED: Arm = Arm::new(CodecId::ZSTD, 1);
    const OTHER: Arm = Arm::new(CodecId::ZSTD, 1).with_history();
    const LEN: usize = 60_000;

    fn send(known: &mut CodecKnowledge, arm: Arm, len: usize, micros: u64) {
        let class = BlockClass::of(len, Texture::Records);
        let sample = Sample::new(Time::ZERO, arm, class, (len, len / 4), micros * 1000);
        known.record_sent(&sample.expect("an arm of the table"), false);
    }

    fn micros(known: &CodecKnowledge, arm: Arm) -> f64 {
        let likely = known.likely_encode(arm, LEN, Texture::Records);
        likely.as_secs_f64() * 1e6
    }

    /// Twenty blocks with each arm that take 100 us, then two hundred of the one in use that take so long.
    fn then(len: usize, used: u64) -> CodecKnowledge {
        let mut known = CodecKnowledge::default();
        for arm in [OTHER, USED] {
            for _ in 0..20 {
                send(&mut known, arm, LEN, 100);
            }
        }
        for _ in 0..200 {
            send(&mut known, USED, len, used);
        }
        known
    }

    #[test]
    fn an_arm_that_was_slow_when_all_were_is_thought_of_again() {
        let known = then(LEN, 50);
        let (used, other) = (micros(&known, USED), micros(&known, OTHER));
        assert!((used - 50.0).abs() < 1.0, "{used}");
        // Half of what the one in use has gained, on the logarithm.
        assert!((60.0..=80.0).contains(&other), "{other}");
        // It shows itself what it takes.
        let mut known = known;
        for _ in 0..40 {
            send(&mut known, OTHER, LEN, 100);
        }
        let other = micros(&known, OTHER);
        assert!((other - 100.0).abs() < 2.0, "{other}");
    }

    #[test]
    fn what_slows_the_arm_in_use_is_not_held_against_others() {
        let other = micros(&then(LEN, 200), OTHER);
        assert!((other - 100.0).abs() < 1.0, "{other}");
    }

    #[test]
    fn steady_times_leave_all_as_it_was() {
        let mut known = then(LEN, 100);
        for nth in 0..400 {
            send(&mut known, USED, LEN, if nth % 2 == 0 { 80 } else { 120 });
        }
        let other = micros(&known, OTHER);
        assert!((other - 100.0).abs() < 10.0, "{other}");
    }

    #[test]
    fn short_blocks_say_nothing_and_absurd_times_nothing_absurd() {
        let other = micros(&then(LEAST_PACED - 1, 0), OTHER);
        assert!((other - 100.0).abs() < 1.0, "{other}");
        let mut known = then(LEN, 100);
        for micros in [0, 1 << 40] {
            for _ in 0..1000 {
                send(&mut known, USED, LEN, micros);
            }
            let pace = known.speed.pace;
            assert!(pace.is_finite() && pace > 0.0, "{pace}");
        }
    }
}
