//! Thesis 7.2.4 and 7.2.5: rounds, an assessment before each, and a draw by weight within.

use fastrand::Rng;

use super::{Choice, MajorityConfig, Reason, Round, SentBlock, Situation, transmission_nanos};
use crate::control::StreamEstimates;
use crate::units::Time;

/// Rounds of equal shares after which an arm still without a measurement (its budget never
/// sufficed) no longer holds up the assessment. Arbitrary.
const PATIENCE: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Majority {
    config: MajorityConfig,
    round: Option<RoundState>,
    equal_rounds: u32,
    estimates: StreamEstimates,
}

#[derive(Clone, Copy, Debug)]
struct RoundState {
    began: Time,
    messages: u32,
    /// The arm with the least time by equation 7.6; `None` while all get equal shares.
    best: Option<usize>,
}

impl Majority {
    pub(super) fn new(config: MajorityConfig) -> Self {
        Self {
            config,
            round: None,
            equal_rounds: 0,
            estimates: StreamEstimates::default(),
        }
    }

    pub(super) fn choose(&mut self, situation: &Situation<'_>, rng: &mut Rng) -> Choice {
        let best = match self.round {
            Some(round) if !self.is_over(&round, situation.now) => round.best,
            _ => self.begin_round(situation),
        };
        // A list of arms that has shrunk can leave `best` outside.
        let arms = situation.arms.electable();
        match best.filter(|best| *best < arms) {
            None => Choice::new(rng.usize(..arms), Reason::Turn),
            Some(best) => {
                let others = arms - 1;
                let share = if self.config.others.is_finite() {
                    self.config.others.max(0.0)
                } else {
                    0.0
                };
                let draw = rng.f64();
                if draw >= (share * others as f64).min(1.0) {
                    Choice::new(best, Reason::Best)
                } else {
                    let other = rng.usize(..others);
                    let arm = if other < best { other } else { other + 1 };
                    Choice::new(arm, Reason::Explored)
                }
            }
        }
    }

    pub(super) fn on_sent(&mut self, messages: u32) {
        if let Some(round) = &mut self.round {
            round.messages = round.messages.saturating_add(messages);
        }
    }

    pub(super) fn record_sent(&mut self, sent: &SentBlock) {
        self.estimates.record(
            sent.arm,
            sent.now,
            sent.plain_len,
            sent.wire_len,
            sent.encode,
        );
    }

    pub(super) fn best(&self) -> Option<usize> {
        self.round.and_then(|round| round.best)
    }

    fn is_over(&self, round: &RoundState, now: Time) -> bool {
        match self.config.round {
            Round::Messages(messages) => round.messages >= messages,
            Round::Time(time) => now.saturating_since(round.began) >= time,
        }
    }

    fn begin_round(&mut self, situation: &Situation<'_>) -> Option<usize> {
        let best = self.assess(situation);
        if best.is_none() {
            self.equal_rounds += 1;
        }
        self.round = Some(RoundState {
            began: situation.now,
            messages: 0,
            best,
        });
        best
    }

    /// The arm with the least time for a message of typical size, once all are known well enough.
    fn assess(&self, situation: &Situation<'_>) -> Option<usize> {
        let typical = self.estimates.typical_len()?;
        let times = (0..situation.arms.electable())
            .map(|arm| transmission_nanos(situation, &self.estimates, arm, typical));
        let mut best: Option<(usize, f64)> = None;
        for (arm, time) in times.enumerate() {
            match time {
                None if self.equal_rounds < PATIENCE => return None,
                Some(time) if best.is_none_or(|(_, least)| time < least) => {
                    best = Some((arm, time));
                }
                _ => {}
            }
        }
        best.map(|(arm, _)| arm)
    }
}
