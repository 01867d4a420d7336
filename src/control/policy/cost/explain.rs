//! What the policy knows of each arm and why it would or would not take it.

use core::fmt;
use core::time::Duration;

use super::{Bar, BlockClass, Cost, Look, Stages, stages};
use crate::codecs::Arm;
use crate::control::policy::{Reason, Situation};

/// Why an arm is taken, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It costs least.
    Taken,
    /// It costs more than the arm that is taken, by this share.
    Dearer(f64),
    /// It would take more codec time than the budget has.
    OverBudget,
    /// The peer has no processor time for it.
    PeerStarved,
    /// There is no memory for its history.
    NoMemory,
    /// Its codec has failed, and rests.
    Failed,
}

impl Verdict {
    /// Its name in texts for programs, spelled as a [`Reason`](crate::control::Reason)'s is;
    /// [`Display`](fmt::Display) explains it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Dearer(_) => "dearer",
            Self::OverBudget => "over_budget",
            Self::PeerStarved => Reason::PeerStarved.name(),
            Self::NoMemory => "no_memory",
            Self::Failed => "failed",
        }
    }
}

impl From<Bar> for Verdict {
    fn from(bar: Bar) -> Self {
        match bar {
            Bar::PeerStarved => Self::PeerStarved,
            Bar::OverBudget => Self::OverBudget,
            Bar::NoMemory => Self::NoMemory,
            Bar::Failed => Self::Failed,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.pad("taken"),
            Self::Dearer(share) if *share < 10.0 => write!(f, "{:.1} % dearer", share * 100.0),
            Self::Dearer(share) => write!(f, "{:.0} times as dear", share + 1.0),
            Self::OverBudget => f.pad("over the codec budget"),
            Self::NoMemory => f.pad("no memory for its history"),
            Self::Failed => f.pad("its codec has failed"),
            Self::PeerStarved => f.pad("the peer is short of processor time"),
        }
    }
}

/// What is known of one arm, for a block like the latest ones.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ArmReport {
    /// Codec and level.
    pub arm: Arm,
    /// Plain over wire bytes, as expected.
    pub ratio: f64,
    /// Expected time to encode the block here.
    pub encode: Duration,
    /// Expected time of its wire bytes on the link.
    pub link: Duration,
    /// Expected time to decode it at the peer.
    pub decode: Duration,
    /// What it costs in all, prices and doubt included.
    pub cost: Duration,
    /// Blocks and shadow encodes that the estimate rests on; 0 for what is typical of the arm.
    pub samples: u32,
    /// Time since the latest of them.
    pub age: Option<Duration>,
    /// Whether it would be taken.
    pub verdict: Verdict,
}

impl Cost {
    /// A report on every arm, the cheapest first, those that may not be taken last.
    pub(in super::super) fn explain(&self, situation: &Situation<'_>) -> Vec<ArmReport> {
        let stages: Stages = stages(situation);
        let class = BlockClass::of(situation.plain_len, situation.texture);
        let mut looks = Vec::new();
        self.look_at(situation, &stages, class, &mut looks);
        looks.sort_by(Look::by_price);
        let current = self
            .current
            .map_or_else(|| looks.first().map(Look::arm), |(_, arm)| Some(arm));
        let taken = looks
            .iter()
            .find(|look| Some(look.arm()) == current)
            .map_or(0.0, |look| look.cost);
        let nanos = |nanos: f64| Duration::from_nanos(nanos as u64);
        looks
            .iter()
            .map(|look| ArmReport {
                arm: situation.arms[look.arm()],
                ratio: situation.plain_len as f64 / look.wire_len.max(1.0),
                encode: nanos(look.encode_nanos),
                link: nanos(stages.link_nanos(look.wire_len)),
                decode: nanos(look.decode_nanos),
                cost: nanos(look.cost),
                samples: look.samples as u32,
                age: look
                    .measured_at
                    .map(|at| situation.now.saturating_since(at)),
                verdict: match look.barred {
                    Some(bar) => bar.into(),
                    None if Some(look.arm()) == current => Verdict::Taken,
                    None => Verdict::Dearer(look.cost / taken.max(1.0) - 1.0),
                },
            })
            .collect()
    }
}
