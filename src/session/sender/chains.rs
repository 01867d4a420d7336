//! What goes from block to block of a group besides history: its checks, and the stream of its last record.

use super::Sender;
use crate::codecs::{Arm, EncodeContext};
use crate::control::HistoryUse;
use crate::session::history::SlotUse;
use crate::session::observer::{ContextChange, Observation, Observations};
use crate::session::retained::Frame;
use crate::units::Time;
use crate::wire::{Check, Control, Define, GroupId, RecordWriter, Slot};

/// One group's.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) check: Check,
    pub(super) writer: RecordWriter,
}

/// All groups'.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// Group 0's, which also blocks of other groups go by that have no history.
    first: Chain,
    others: Vec<(GroupId, Chain)>,
}

impl Chains {
    pub(super) fn of(&mut self, group: GroupId) -> &mut Chain {
        if group == GroupId::default() {
            return &mut self.first;
        }
        let known = self.others.iter().position(|(known, _)| *known == group);
        let at = known.unwrap_or_else(|| {
            self.others.push((group, Chain::default()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }
}

impl Sender {
    /// Tells the peer of slots that change before the next block, those that gave way first.
    pub(super) fn put_defines(&mut self, comes: Option<Define>) {
        for (define, gone) in self.history.defines(comes) {
            self.tell_gone(define.slot, gone);
            self.put_define(define);
        }
    }

    /// The block `plain` was encoded with a history, which comes back unless its codec has failed, and then nobody hears of it. If it has begun
    /// with this block, with so many bytes (`primed`), the peer is told.
    pub(super) fn on_history_used(
        &mut self,
        taken: SlotUse,
        (arm, primed): (Arm, Option<usize>),
        context: Option<Box<EncodeContext>>,
        plain: &[u8],
    ) {
        if context.is_some() {
            if let Some(define) = taken.define {
                self.put_defines(Some(define));
            }
            if let Some(primed) = primed {
                self.tell_history(&taken, arm, primed);
            }
        }
        self.history.give_back(taken, context, plain);
    }

    fn tell_history(&self, taken: &SlotUse, arm: Arm, bytes: usize) {
        let began = if taken.define.is_some() {
            ContextChange::Begun
        } else {
            ContextChange::Reset
        };
        let primed = (bytes > 0).then_some(ContextChange::Primed { bytes });
        for change in [Some(began), primed].into_iter().flatten() {
            self.told
                .tell(Observations::CONTEXT, || Observation::Context {
                    change,
                    received: false,
                    slot: taken.slot,
                    group: taken.group,
                    arm: Some(arm),
                });
        }
    }

    /// The history of a group that was at this slot, if any was, has given way.
    pub(super) fn tell_gone(&self, slot: Slot, group: Option<GroupId>) {
        if let Some(group) = group {
            self.told
                .tell(Observations::CONTEXT, || Observation::Context {
                    change: ContextChange::Evicted,
                    received: false,
                    slot,
                    group,
                    arm: None,
                });
        }
    }

    /// The peer is told that a dictionary is gone: histories that have begun with it go with it.
    pub(in crate::session) fn forget_dictionary(&mut self, number: u64) {
        for (slot, group) in self.history.forget_dictionary(number) {
            self.tell_gone(slot, Some(group));
        }
    }

    pub(super) fn put_define(&mut self, define: Define) {
        self.inflight.on_control();
        self.retained.push(Frame::Passing);
        let define = Control::Define(define);
        self.output.put_small(|out| define.put(out));
    }

    /// Contexts may hold so much memory from now on.
    pub(in crate::session) fn limit_history(&mut self, bytes: usize) {
        self.history.set_limit(bytes);
        // A block that is being encoded may begin with what its group would lose.
        if self.encodings.is_empty() {
            self.put_defines(None);
        }
    }

    pub(in crate::session) fn history_use(&self, now: Time) -> HistoryUse {
        let (held, wanted) = self.history.held_and_wanted();
        let (saved_rate, plain_rate) = self.gain.rates(now);
        HistoryUse {
            limit: self.history.limit(),
            held,
            memory: self.history.memory(),
            wanted,
            saved_rate,
            plain_rate,
            used_at: self.gain.used_at(),
        }
    }

    /// A block with history goes as it is, since its codec failed. Its records begin where the last block of its
    /// group ended, so that it stays in the group.
    pub(super) fn without_history(&mut self, slot: Option<SlotUse>) -> Option<SlotUse> {
        let slot = slot.filter(|slot| slot.group != GroupId::default())?;
        for (define, gone) in self.history.give_up(slot) {
            self.tell_gone(define.slot, gone);
            self.put_define(define);
        }
        Some(SlotUse {
            define: None,
            epoch: None,
            ..slot
        })
    }
}
