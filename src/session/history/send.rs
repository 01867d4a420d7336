//! The sender's contexts.

use bytes::Bytes;

use super::{context_memory, prime};
use crate::codecs::{Arm, CodecId, EncodeContext, EncodeError, context_memory_estimate};
use crate::dictionary::Dictionary;
use crate::session::recent::{RECENT_MEMORY, Recents};
use crate::wire::{Define, GroupId, Slot};

/// Plain bytes that a context must have seen for its results to tell. Arbitrary: some forty messages of 200
/// bytes.
const YOUNG: usize = 8 << 10;
/// The first slot that stands for nothing at the beginning of a connection, and how many there are.
const FIRST_SLOT: u8 = 7;
const SLOTS: u8 = 16;
/// What one job of encoding with history needs.
#[derive(Debug)]
pub(in crate::session) enum EncodeHistory {
    /// The context as the block before left it.
    Going(Box<EncodeContext>),
    /// A context that begins anew with these plain bytes, in the memory of an old one if there is one.
    Beginning {
        old: Option<Box<EncodeContext>>,
        window_log: u8,
        prime: Vec<u8>,
    },
}

impl EncodeHistory {
    /// Plain bytes that it begins with, if it begins.
    pub(in crate::session) fn primed(&self) -> Option<usize> {
        match self {
            Self::Going(_) => None,
            Self::Beginning { prime, .. } => Some(prime.len()),
        }
    }

    /// The context to encode with.
    pub(in crate::session) fn context(self, arm: Arm) -> Result<Box<EncodeContext>, EncodeError> {
        match self {
            Self::Going(context) => Ok(context),
            Self::Beginning {
                old: Some(mut old),
                prime,
                window_log,
            } if old.window_log() == window_log => {
                old.restart(arm, &prime)?;
                Ok(old)
            }
            Self::Beginning {
                window_log, prime, ..
            } => Ok(Box::new(EncodeContext::new(arm, window_log, &prime)?)),
        }
    }
}

/// A slot of the sender's.
#[derive(Debug)]
struct SendSlot {
    slot: Slot,
    group: GroupId,
    arm: Arm,
    context: Option<Box<EncodeContext>>,
    /// The epoch that the peer knows the slot to be in; `None` before it has been told of the slot.
    epoch: Option<u64>,
    /// Plain bytes that the context has seen.
    seen: usize,
    /// Blocks sent when it was used last.
    used: u64,
    memory: (usize, usize),
    /// What it begins with before anything else, and the number that the peer knows it by.
    dictionary: Option<(u64, Bytes)>,
}

/// How a block with history goes out.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct SlotUse {
    pub(in crate::session) slot: Slot,
    pub(in crate::session) group: GroupId,
    /// The slot must be defined before the block.
    pub(in crate::session) define: Option<Define>,
    /// The context begins anew with the block.
    pub(in crate::session) epoch: Option<u64>,
    pub(in crate::session) age: HistoryAge,
}

/// What a context has seen when a block is encoded with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum HistoryAge {
    /// Nothing: the block becomes what it is by itself.
    Unseen,
    /// So little that what it makes of the block says nothing of what it will.
    Young,
    /// So much that what it makes of the block says what it will.
    Old,
}

/// The sender's contexts.
#[derive(Debug)]
pub(in crate::session) struct SendHistory {
    slots: Vec<SendSlot>,
    recents: Recents<GroupId>,
    /// Groups of the slots that the peer holds contexts for.
    peer: [Option<GroupId>; SLOTS as usize],
    /// Memory that contexts may hold here, now and at most, and at the peer.
    granted: Option<usize>,
    most: (usize, usize),
    /// Memory that was asked for in vain.
    missed: usize,
    window_log: u8,
    uses: u64,
    /// Whether a context is with a job.
    is_taken: bool,
    /// The arms of each group's slots.
    live: Vec<(GroupId, Vec<Arm>)>,
    /// Arms that there was no memory for since it was last granted.
    roomless: Vec<Arm>,
    /// The first slot from [`FIRST_SLOT`] on that is for others.
    end_slot: u8,
}

impl Default for SendHistory {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            recents: Recents::default(),
            peer: [None; SLOTS as usize],
            granted: None,
            most: (0, 0),
            missed: 0,
            window_log: 0,
            uses: 0,
            is_taken: false,
            live: Vec::new(),
            roomless: Vec::new(),
            end_slot: SLOTS,
        }
    }
}

/// Memory for so many contexts must be there for a longer history: the policy goes back and forth between two
/// arms at a time (the example `wire_bytes` shows them).
const USUAL_CONTEXTS: usize = 2;
/// Histories are not made shorter than this for more contexts to fit. Arbitrary: messages of signalling gain
/// little with fewer than 2^15 bytes (docs/benchmarks.md).
const LEAST_LOG: u8 = 15;

/// The longest history, up to `window_log`, of which a few contexts fit that are as large as any.
fn affordable_log(limits: (usize, usize), window_log: u8) -> u8 {
    let fits = |log: &u8| {
        let (here, there) = context_memory_estimate(Arm::new(CodecId::ZSTD, 9), *log);
        USUAL_CONTEXTS * here <= limits.0 && USUAL_CONTEXTS * there <= limits.1
    };
    let logs = LEAST_LOG..=window_log;
    let longest = logs.rev().find(fits);
    longest.unwrap_or(window_log.min(LEAST_LOG))
}

impl SendHistory {
    /// Contexts may hold so much here and at the peer, with histories of so many bytes (binary logarithm) or fewer.
    pub(in crate::session) fn begin(&mut self, limits: (usize, usize), window_log: u8) {
        self.most = limits;
        self.window_log = affordable_log(limits, window_log);
    }

    /// Another connection begins: the peer holds nothing. What may be held here stays.
    pub(in crate::session) fn restart(&mut self) {
        *self = Self {
            granted: self.granted,
            ..Self::default()
        };
    }

    /// Slots from `end` on are for others.
    pub(in crate::session) fn leave_slots(&mut self, end: u8) {
        self.end_slot = end;
    }

    /// The peer is told that a dictionary is gone, and with it what slots that begin with it stand for: those that it held.
    pub(in crate::session) fn forget_dictionary(&mut self, number: u64) -> Vec<(Slot, GroupId)> {
        let peer = &mut self.peer;
        let mut gone = Vec::new();
        self.slots.retain(|slot| {
            let is_gone = slot.dictionary.as_ref().is_some_and(|it| it.0 == number);
            if is_gone {
                let held = peer[usize::from(slot.slot.get())].take();
                gone.extend(held.map(|group| (slot.slot, group)));
            }
            !is_gone
        });
        self.forget_groups();
        self.list_live();
        gone
    }

    /// Contexts may hold so much here from now on, if no more than was said at the beginning.
    pub(in crate::session) fn set_limit(&mut self, limit: usize) {
        self.granted = Some(limit);
        self.missed = 0;
        self.roomless.clear();
        self.trim();
    }

    /// Memory that contexts may hold here.
    pub(in crate::session) fn limit(&self) -> usize {
        self.granted.unwrap_or(usize::MAX).min(self.most.0)
    }

    /// Whether a context was refused for want of memory, or has taken the place of another.
    pub(in crate::session) fn is_short(&self) -> bool {
        self.missed > self.limit()
    }

    /// Memory that contexts hold, and that they would hold if they were given it.
    pub(in crate::session) fn held_and_wanted(&self) -> (usize, usize) {
        let reckoned = self.reckoned(None).0;
        let held = reckoned.max(self.memory());
        (held, self.missed.min(self.most.0).max(reckoned))
    }

    /// Memory held here, bytes.
    pub(in crate::session) fn memory(&self) -> usize {
        let contexts = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        contexts.map(|context| context.memory()).sum::<usize>() + self.recents.memory()
    }

    /// The arms whose contexts stand ready for a group.
    pub(in crate::session) fn live(&self, group: GroupId) -> &[Arm] {
        let live = self.live.iter().find(|(known, _)| *known == group);
        live.map_or(&[], |(_, arms)| arms)
    }

    /// Arms whose contexts there is no memory for now.
    pub(in crate::session) fn roomless(&self) -> &[Arm] {
        &self.roomless
    }

    /// Whether there can be room for a context of `arm`, were it the only one.
    pub(in crate::session) fn has_room(&self, arm: Arm) -> bool {
        let (here, there) = context_memory(arm, self.window_log);
        here + RECENT_MEMORY <= self.most.0 && there + RECENT_MEMORY <= self.most.1
    }

    /// Whether a context of `arm` has yet to be granted room, were it the only one.
    pub(in crate::session) fn lacks_room(&self, arm: Arm, group: GroupId) -> bool {
        let is_it = |slot: &SendSlot| slot.arm == arm && slot.group == group;
        if !arm.history || self.slots.iter().any(is_it) || !self.has_room(arm) {
            return false;
        }
        let (here, _) = context_memory(arm, self.window_log);
        here + RECENT_MEMORY > self.limit()
    }

    /// Takes note of the memory that one more context of `arm` would take, if there is not so much.
    pub(in crate::session) fn miss(&mut self, arm: Arm, group: GroupId) {
        let memory = context_memory(arm, self.window_log);
        let needed = self.reckoned(Some((group, memory))).0;
        if needed > self.limit() {
            self.missed = self.missed.max(needed);
        }
        if self.lacks_room(arm, group) && !self.roomless.contains(&arm) {
            self.roomless.push(arm);
        }
    }

    /// Memory reckoned for all slots, here and at the peer, and one more.
    fn reckoned(&self, one_more: Option<(GroupId, (usize, usize))>) -> (usize, usize) {
        let slots = self.slots.iter().map(|slot| (slot.group, slot.memory));
        let mut groups = [false; 256];
        let (mut here, mut there) = (0, 0);
        for (group, memory) in slots.chain(one_more) {
            let is_known = core::mem::replace(&mut groups[usize::from(group.0)], true);
            let recent = if is_known { 0 } else { RECENT_MEMORY };
            here += memory.0 + recent;
            there += memory.1 + recent;
        }
        (here, there)
    }

    /// Takes the slot that was not used for longest away.
    fn evict(&mut self) -> Option<SendSlot> {
        let oldest = (0..self.slots.len()).min_by_key(|at| self.slots[*at].used)?;
        Some(self.slots.swap_remove(oldest))
    }

    /// Contexts give way until they hold no more than they may. One that is with a job must come back first.
    fn trim(&mut self) {
        if self.is_taken {
            return;
        }
        let before = self.slots.len();
        while self.reckoned(None).0 > self.limit() && self.evict().is_some() {}
        if self.slots.len() != before {
            self.list_live();
        }
    }

    fn list_live(&mut self) {
        self.live.clear();
        for slot in &self.slots {
            match self.live.iter_mut().find(|(group, _)| *group == slot.group) {
                Some((_, arms)) => arms.push(slot.arm),
                None => self.live.push((slot.group, vec![slot.arm])),
            }
        }
    }

    /// The context for a block of `group` with `arm` and how the block goes out; `None` if there is no room
    /// for one. One that is new begins with `dictionary`, while there is little else to begin with.
    pub(in crate::session) fn take(
        &mut self,
        arm: Arm,
        group: GroupId,
        dictionary: Option<(u64, &Dictionary)>,
    ) -> Option<(EncodeHistory, SlotUse)> {
        self.uses += 1;
        let uses = self.uses;
        let is_it = |slot: &&mut SendSlot| slot.arm == arm && slot.group == group;
        if let Some(known) = self.slots.iter_mut().find(is_it) {
            self.is_taken = true;
            known.used = uses;
            let slot = known.slot;
            if let Some(context) = known.context.take() {
                let going = SlotUse {
                    slot,
                    group,
                    define: None,
                    epoch: None,
                    age: if known.seen < YOUNG {
                        HistoryAge::Young
                    } else {
                        HistoryAge::Old
                    },
                };
                return Some((EncodeHistory::Going(context), going));
            }
            // It was lost with a block that failed, which the peer has seen nothing of.
            let begins = match known.epoch {
                Some(epoch) => SlotUse {
                    slot,
                    group,
                    define: None,
                    epoch: Some(epoch + 1),
                    age: HistoryAge::Young,
                },
                None => self.definition(slot, group, arm),
            };
            return Some(self.beginning(begins, None));
        }
        if !self.has_room(arm) {
            return None;
        }
        self.miss(arm, group);
        if self.lacks_room(arm, group) {
            return None;
        }
        let memory = context_memory(arm, self.window_log);
        let limit = self.limit();
        // Those that were not used for longest give way.
        let mut evicted = Vec::new();
        loop {
            let (here, there) = self.reckoned(Some((group, memory)));
            let fits = here <= limit && there <= self.most.1;
            if fits && self.slots.len() < usize::from(self.end_slot - FIRST_SLOT) {
                break;
            }
            evicted.push(self.evict()?);
        }
        // In the place of one of its group, the group goes on.
        let of_group = evicted.iter().position(|gone| gone.group == group);
        let old = match of_group {
            Some(at) => Some(evicted.swap_remove(at)),
            None => evicted.pop(),
        };
        let slot = match &old {
            Some(old) => old.slot,
            None => (FIRST_SLOT..self.end_slot)
                .filter_map(Slot::new)
                .find(|slot| self.slots.iter().all(|known| known.slot != *slot))?,
        };
        let worth = |it: &Dictionary| {
            self.recents.last(group).len() < it.len() && it.len() <= 1 << self.window_log
        };
        let dictionary = dictionary.filter(|(_, it)| worth(it));
        self.slots.push(SendSlot {
            slot,
            group,
            dictionary: dictionary.map(|(number, it)| (number, it.content().clone())),
            arm,
            context: None,
            epoch: None,
            seen: 0,
            used: uses,
            memory,
        });
        self.list_live();
        self.is_taken = true;
        let begins = self.definition(slot, group, arm);
        Some(self.beginning(begins, old.and_then(|old| old.context)))
    }

    fn definition(&self, slot: Slot, group: GroupId, arm: Arm) -> SlotUse {
        SlotUse {
            slot,
            group,
            define: Some(Define {
                slot,
                codec: arm.codec,
                group,
                history: Some(self.window_log),
                dictionary: self.dictionary(slot).map_or(0, |(number, _)| *number),
            }),
            epoch: None,
            age: HistoryAge::Young,
        }
    }

    fn dictionary(&self, slot: Slot) -> Option<&(u64, Bytes)> {
        let known = self.slots.iter().find(|known| known.slot == slot)?;
        known.dictionary.as_ref()
    }

    fn beginning(
        &self,
        begins: SlotUse,
        old: Option<Box<EncodeContext>>,
    ) -> (EncodeHistory, SlotUse) {
        // The peer forgets a group with its last slot: those that are gone here are gone there first.
        let SlotUse { slot, group, .. } = begins;
        let goes_on = self.held_by_peer().any(|(held, of)| {
            of == group && (held == slot || self.slots.iter().any(|known| known.is_at(held)))
        });
        let recent = if goes_on {
            self.recents.last(group)
        } else {
            &[]
        };
        let dictionary = self.dictionary(slot).map(|(_, content)| content);
        let prime = prime(dictionary, recent);
        let age = if prime.is_empty() {
            HistoryAge::Unseen
        } else {
            begins.age
        };
        let history = EncodeHistory::Beginning {
            old,
            window_log: self.window_log,
            prime,
        };
        (history, SlotUse { age, ..begins })
    }

    fn held_by_peer(&self) -> impl Iterator<Item = (Slot, GroupId)> + '_ {
        let slots = (0..SLOTS).filter_map(Slot::new).zip(self.peer);
        slots.filter_map(|(slot, group)| Some((slot, group?)))
    }

    /// What tells the peer of slots that it need not hold anything for, before others take their room, and of
    /// the one that comes; with the group of the history that the peer had there.
    pub(in crate::session) fn defines(
        &mut self,
        comes: Option<Define>,
    ) -> Vec<(Define, Option<GroupId>)> {
        let stale = self.held_by_peer().filter(|(slot, _)| {
            comes.is_none_or(|comes| comes.slot != *slot)
                && !self.slots.iter().any(|known| known.is_at(*slot))
        });
        let mut defines: Vec<_> = stale
            .map(|(slot, group)| (without_history(slot, GroupId::default()), Some(group)))
            .collect();
        for (define, _) in &defines {
            self.peer[usize::from(define.slot.get())] = None;
        }
        self.forget_groups();
        if let Some(comes) = comes {
            let held = &mut self.peer[usize::from(comes.slot.get())];
            let gone = core::mem::replace(held, comes.history.map(|_| comes.group));
            self.forget_groups();
            defines.push((comes, gone));
        }
        defines
    }

    fn forget_groups(&mut self) {
        let peer = self.peer;
        self.recents.retain(|group| peer.contains(&Some(group)));
    }

    /// A block was encoded; its context comes back unless it failed.
    pub(in crate::session) fn give_back(
        &mut self,
        taken: SlotUse,
        context: Option<Box<EncodeContext>>,
        plain: &[u8],
    ) {
        self.is_taken = false;
        let known = self.slots.iter_mut().find(|slot| slot.slot == taken.slot);
        if let Some(known) = known {
            if context.is_some() {
                let begun_with = known.dictionary.as_ref().map(|(_, content)| content);
                self.recents.push(taken.group, plain, begun_with);
                // What it begins with does not count: it may be old.
                known.seen = known.seen.saturating_add(plain.len());
                known.epoch = taken.epoch.or(known.epoch).or(Some(0));
            }
            known.context = context;
        }
        self.trim();
    }

    /// There was no block after all: the context is as it was.
    pub(in crate::session) fn put_back(&mut self, taken: SlotUse, history: EncodeHistory) {
        self.is_taken = false;
        let known = self.slots.iter_mut().find(|slot| slot.slot == taken.slot);
        if let (Some(known), EncodeHistory::Going(context)) = (known, history) {
            known.context = Some(context);
        }
    }

    /// The slot of a block that failed carries no history any more, so that the block can go as it is; what
    /// tells the peer.
    pub(in crate::session) fn give_up(&mut self, taken: SlotUse) -> Vec<(Define, Option<GroupId>)> {
        for known in &mut self.slots {
            if known.slot == taken.slot {
                known.epoch = None;
            }
        }
        self.defines(Some(without_history(taken.slot, taken.group)))
    }

    /// What a group's histories leave to the next connection, the latest in front; with the points before,
    /// unless the peer has acknowledged everything (`is_all_seen`).
    pub(in crate::session) fn left(&self, group: GroupId, is_all_seen: bool) -> Vec<Bytes> {
        self.recents.left(group, is_all_seen)
    }

    #[cfg(test)]
    pub(in crate::session) fn recents(&self) -> impl Iterator<Item = &[u8]> {
        self.recents.all()
    }
}

impl SendSlot {
    /// Whether it is the one at `slot`, and the peer knows of it.
    fn is_at(&self, slot: Slot) -> bool {
        self.slot == slot && self.epoch.is_some()
    }
}

const fn without_history(slot: Slot, group: GroupId) -> Define {
    Define {
        slot,
        codec: CodecId::IDENTITY,
        group,
        history: None,
        dictionary: 0,
    }
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::*;

    #[test]
    fn histories_are_as_long_as_memory_allows() {
        let memory = |log| context_memory_estimate(Arm::new(CodecId::ZSTD, 9), log);
        let twice = |(here, there): (usize, usize)| (2 * here, 2 * there);
        for log in LEAST_LOG..=20 {
            let exact = twice(memory(log));
            assert_eq!(affordable_log(exact, 20), log);
            assert_eq!(affordable_log(exact, 16), log.min(16));
            let less = [(exact.0 - 1, exact.1), (exact.0, exact.1 - 1)];
            for limits in less {
                assert_eq!(affordable_log(limits, 20), (log - 1).max(LEAST_LOG));
            }
        }
        assert_eq!(affordable_log((0, 0), 20), LEAST_LOG);
        assert_eq!(affordable_log((0, 0), 12), 12);
    }
}
