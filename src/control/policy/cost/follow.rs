//! What follows a block, where no history has begun yet: the first block of one gains nothing by it, those after it do.

use super::model::{Content, Expected, Known};
use super::{BlockClass, Costs, LEAST_HORIZON, Models, Objective, Stages, Times};
use crate::codecs::{Arm, Length, Typical, TypicalRow, Work};
use crate::control::policy::{Prior, Situation};

/// A rest of less than so much of the block is another kind of block. Arbitrary.
const TAIL: f64 = 0.5;
/// So much of a block's time on the link surely hides the encoding of the next one: how long that takes is guessed at first. Arbitrary.
const HIDDEN: f64 = 0.25;

/// What is known of blocks of one content and length, by what they are encoded with.
pub(super) struct Kinds<'a> {
    len: Length,
    alone: Known<'a>,
    with_history: Known<'a>,
    /// Unless no dictionary is used.
    with_dictionary: Option<Known<'a>>,
}

impl<'a> Kinds<'a> {
    /// Of a class without history, of whose `content` this is known.
    pub(super) fn of(
        models: &Models<'a>,
        class: BlockClass,
        len: Length,
        content: &Content,
        prior: Prior,
    ) -> Self {
        let history = class.of_arm(Arm::IDENTITY.with_history());
        let dictionary = class.of_arm(Arm::IDENTITY.with_dictionary());
        let with_dictionary = || models.known(dictionary, len, &models.content(dictionary));
        Self {
            len,
            alone: models.known(class, len, content),
            with_history: models.known(history, len, content),
            with_dictionary: (prior == Prior::Dictionary).then(with_dictionary),
        }
    }

    /// What is expected of an arm, of which this is typical at their length.
    pub(super) fn expect(&self, arm: Arm, typical: &Typical) -> Expected {
        let known = if arm.history {
            Some(&self.with_history)
        } else {
            self.with_dictionary.as_ref().filter(|_| arm.dictionary)
        };
        known.unwrap_or(&self.alone).expect(arm, typical)
    }
}

/// What follows the block, where it may be the first of a history.
pub(super) struct Follow<'a> {
    /// The part of the block in itself and what follows: as many bytes as wait, as the connection before has carried, or as this one has.
    share: f64,
    rest: Rest<'a>,
}

enum Rest<'a> {
    /// Blocks like this one, each by itself.
    Single,
    /// .. without a pause.
    Run,
    /// One block that is much shorter.
    Tail(Box<Kinds<'a>>),
}

/// What an arm is expected to make of the block, and of those like it that follow.
pub(super) struct Beginning {
    pub(super) first: Expected,
    pub(super) later: Expected,
}

impl<'a> Follow<'a> {
    /// `None` where a history of the group is there already (others begin with what it has carried last), and where none may begin.
    pub(super) fn of(situation: &Situation<'_>, models: &Models<'a>) -> Option<Self> {
        let mut candidates = situation.arms.candidates().iter();
        let may_begin = |arm: Arm| arm.history && !situation.roomless.contains(&arm);
        if !situation.live.is_empty()
            || situation.prior != Prior::Nothing
            || !candidates.any(|candidate| may_begin(candidate.arm))
        {
            return None;
        }
        let plain_len = situation.plain_len.max(1) as f64;
        let after = situation.shared.carried.after(situation.plain_len);
        let after = after.map_or(LEAST_HORIZON * plain_len, |after| after as f64);
        let after = after.max(situation.queued_behind as f64);
        let rest = if after > 0.0 && after < TAIL * plain_len {
            let class = BlockClass::of(after as usize, situation.texture);
            let (len, content) = (Length::of(after), models.content(class));
            let kinds = Kinds::of(models, class, len, &content, situation.prior);
            Rest::Tail(Box::new(kinds))
        } else if situation.queued_behind >= situation.plain_len {
            Rest::Run
        } else {
            Rest::Single
        };
        Some(Self {
            share: plain_len / (plain_len + after),
            rest,
        })
    }

    /// Wire bytes of a block, in the mean of this one and those like it that follow.
    fn wire_len(&self, Beginning { first, later }: &Beginning) -> f64 {
        let share = match &self.rest {
            Rest::Single | Rest::Run => self.share,
            Rest::Tail(_) => 1.0,
        };
        later.wire_len + share * (first.wire_len - later.wire_len)
    }

    /// .. and their processor time, if all turns out well.
    fn least_work(&self, Beginning { first, later }: &Beginning) -> Work {
        let first = first.least_work();
        let later = match &self.rest {
            Rest::Single | Rest::Run => later.least_work(),
            Rest::Tail(_) => Work::default(),
        };
        let mean = |first: f64, later: f64| later + self.share * (first - later);
        Work {
            encode_nanos: mean(first.encode_nanos, later.encode_nanos),
            decode_nanos: mean(first.decode_nanos, later.decode_nanos),
        }
    }

    /// What the block and what follows cost with an arm, for as many bytes as the block has; and if all turns out well.
    pub(super) fn costs(
        &self,
        (arm, row): (Arm, &TypicalRow),
        beginning: &Beginning,
        stages: &Stages,
        objective: Objective,
    ) -> Costs {
        let Beginning { first, later } = beginning;
        let of = |stages: &Stages, times: Times| stages.cost(times, objective);
        let likely = of(stages, first.times());
        let least = of(stages, first.least_times());
        let with = |then: f64, least_then: f64| {
            let share = self.share;
            (
                then + share * (likely - then),
                least_then + share * (least - least_then),
            )
        };
        let (likely, least) = match &self.rest {
            Rest::Single => with(of(stages, later.times()), of(stages, later.least_times())),
            Rest::Run => {
                // The link has the one before to carry.
                let steady = |times: Times| {
                    let link_backlog_nanos = HIDDEN * stages.link_nanos(times.wire_len);
                    let stages = Stages {
                        link_backlog_nanos,
                        ..*stages
                    };
                    of(&stages, times)
                };
                with(steady(later.times()), steady(later.least_times()))
            }
            Rest::Tail(kinds) => {
                let tail = kinds.expect(arm, &row.at(kinds.len));
                let of = |wire_len: f64| {
                    let times = Times {
                        encode_nanos: 0.0,
                        wire_len,
                        decode_nanos: 0.0,
                        is_alone: true,
                    };
                    of(stages, times)
                };
                (
                    self.share * (likely + of(tail.wire_len)),
                    self.share * (least + of(tail.least_wire_len)),
                )
            }
        };
        Costs {
            likely,
            least,
            least_work: self.least_work(beginning),
            wire_len: self.wire_len(beginning),
        }
    }
}
