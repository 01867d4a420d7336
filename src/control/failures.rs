//! Codecs that fail: out of memory, broken, or not giving back what they took.

use core::time::Duration;

use crate::codecs::Arm;
use crate::few::push_few;
use crate::units::Time;

/// An arm rests for so long when it has failed; twice as long each time, half as long when it has not. Arbitrary: as long
/// as a change may take to be followed.
const FIRST_REST: Duration = Duration::from_millis(100);
/// .. and no longer than this. Arbitrary: memory that was short may be there again.
const LONGEST_REST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Failing {
    arm: Arm,
    failed_at: Time,
    rest: Duration,
}

/// Arms that failed of late. An encode that fails costs its time and helps nothing: such an arm rests before it is
/// tried again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures(Vec<Failing>);

impl Failures {
    /// A block was encoded with `arm`, which has failed or not.
    pub(crate) fn record(&mut self, now: Time, arm: Arm, failed: bool) {
        if failed {
            self.on_failed(now, arm);
        } else if !self.0.is_empty() {
            self.on_done(arm);
        }
    }

    /// `arm` has failed with a block.
    pub(crate) fn on_failed(&mut self, now: Time, arm: Arm) {
        if let Some(known) = self.0.iter_mut().find(|known| known.arm == arm) {
            known.failed_at = now;
            known.rest = (known.rest * 2).min(LONGEST_REST);
        } else {
            let rest = FIRST_REST;
            push_few(
                &mut self.0,
                Failing {
                    arm,
                    failed_at: now,
                    rest,
                },
            );
        }
    }

    /// `arm` has not failed with a block.
    fn on_done(&mut self, arm: Arm) {
        let Some(at) = self.0.iter().position(|known| known.arm == arm) else {
            return;
        };
        let known = &mut self.0[at];
        known.rest /= 2;
        if known.rest < FIRST_REST {
            self.0.swap_remove(at);
        }
    }

    /// Whether `arm` is not to be tried yet.
    pub(crate) fn is_resting(&self, now: Time, arm: Arm) -> bool {
        let mut known = self.0.iter();
        known.any(|known| known.arm == arm && now.saturating_since(known.failed_at) < known.rest)
    }

    /// Another connection begins, perhaps by another clock: all may be tried.
    pub(crate) fn restart(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::CodecId;

    const ARM: Arm = Arm::new(CodecId::ZSTD, 3);

    #[test]
    fn an_arm_rests_twice_as_long_each_time_it_fails() {
        let mut failures = Failures::default();
        let mut now = Time::ZERO;
        let mut rests = Vec::new();
        for _ in 0..12 {
            failures.on_failed(now, ARM);
            assert!(!failures.is_resting(now, Arm::new(CodecId::ZSTD, 1)));
            let began = now;
            while failures.is_resting(now, ARM) {
                now = now + FIRST_REST;
            }
            rests.push(now.saturating_since(began));
        }
        assert_eq!(rests[0], FIRST_REST);
        for pair in rests.windows(2) {
            assert_eq!(pair[1], (pair[0] * 2).min(LONGEST_REST));
        }
        assert_eq!(rests[11], LONGEST_REST);
    }

    #[test]
    fn blocks_that_do_not_fail_undo_those_that_did() {
        let mut failures = Failures::default();
        for _ in 0..3 {
            failures.on_failed(Time::ZERO, ARM);
        }
        failures.on_done(ARM);
        assert!(!failures.is_resting(Time::ZERO + FIRST_REST * 2, ARM));
        failures.on_done(ARM);
        failures.on_done(ARM);
        assert!(failures.0.is_empty());
        failures.on_done(ARM);
        failures.on_failed(Time::ZERO, ARM);
        failures.restart();
        assert!(!failures.is_resting(Time::ZERO, ARM));
    }

    #[test]
    fn a_clock_that_goes_back_keeps_an_arm_resting_and_nothing_else() {
        let mut failures = Failures::default();
        let late = Time::ZERO + LONGEST_REST;
        failures.on_failed(late, ARM);
        assert!(failures.is_resting(Time::ZERO, ARM));
        assert!(!failures.is_resting(late + FIRST_REST, ARM));
    }
}
