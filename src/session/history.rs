//! History from block to block: which slots carry it, what their contexts hold, and what a context
//! begins with.
//!
//! ```text
//! sender    slots: arm, context, epoch --take--> encode job --give back--> slots
//! receiver  bindings: window, epoch ----take---> decode job --give back--> bindings
//! both      Recent: the last plain bytes of all blocks in slots with history, in their order
//! ```
//!
//! A context that begins anew begins with [`Recent`], so that what one codec has seen is not lost on the
//! next.

use bytes::Bytes;

use crate::codecs::{
    Arm, CodecId, DecodeContext, DecodeError, EncodeContext, EncodeError, context_memory_estimate,
};
use crate::dictionary::Dictionary;
use crate::wire::{Define, GroupId, MAX_PRIME, Slot, WireError};

/// Plain bytes that a context must have seen for its results to tell. Arbitrary: some forty messages of 200
/// bytes.
const YOUNG: usize = 8 << 10;
/// The first slot that stands for nothing at the beginning of a connection, and how many there are.
const FIRST_SLOT: u8 = 7;
const SLOTS: u8 = 16;
/// Shortest and longest history, binary logarithms of bytes.
pub(super) const WINDOW_LOGS: core::ops::RangeInclusive<u8> = 10..=24;

/// The last plain bytes of the blocks in slots with history.
#[derive(Debug, Default)]
pub(super) struct Recent {
    bytes: Vec<u8>,
}

impl Recent {
    pub(super) fn push(&mut self, plain: &[u8]) {
        let plain = &plain[plain.len().saturating_sub(MAX_PRIME)..];
        if self.bytes.len() + plain.len() > 2 * MAX_PRIME {
            let keep = MAX_PRIME - plain.len();
            self.bytes.drain(..self.bytes.len() - keep);
        }
        self.bytes.extend_from_slice(plain);
    }

    pub(super) fn last(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(MAX_PRIME)..]
    }
}

/// What a context begins with.
fn prime(dictionary: Option<&Bytes>, recent: &Recent) -> Vec<u8> {
    let dictionary = dictionary.map_or(&[][..], |content| content.as_ref());
    [dictionary, recent.last()].concat()
}

/// What one job of encoding with history needs.
#[derive(Debug)]
pub(super) enum EncodeHistory {
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
    /// The context to encode with.
    pub(super) fn context(self, arm: Arm) -> Result<Box<EncodeContext>, EncodeError> {
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
pub(super) struct SlotUse {
    pub(super) slot: Slot,
    /// The slot must be defined before the block.
    pub(super) define: Option<Define>,
    /// The context begins anew with the block.
    pub(super) epoch: Option<u64>,
    /// The context has seen so little that what it makes of the block says nothing of what it will.
    pub(super) young: bool,
}

/// The sender's contexts.
#[derive(Debug)]
pub(super) struct SendHistory {
    slots: Vec<SendSlot>,
    recent: Recent,
    /// Memory that contexts may hold here, and at the peer.
    limits: (usize, usize),
    window_log: u8,
    uses: u64,
    /// The arms of the slots.
    live: Vec<Arm>,
    /// Slots that the peer still holds contexts for, in vain.
    dropped: Vec<Slot>,
    /// The first slot from [`FIRST_SLOT`] on that is for others.
    end_slot: u8,
}

impl Default for SendHistory {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            recent: Recent::default(),
            limits: (0, 0),
            window_log: 0,
            uses: 0,
            live: Vec::new(),
            dropped: Vec::new(),
            end_slot: SLOTS,
        }
    }
}

/// Memory for so many contexts must be there for a longer history: the policy goes back and forth between two
/// arms at a time (the example `latency_bytes` shows them).
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
    pub(super) fn begin(&mut self, limits: (usize, usize), window_log: u8) {
        self.limits = limits;
        self.window_log = affordable_log(limits, window_log);
    }

    /// Slots from `end` on are for others.
    pub(super) fn leave_slots(&mut self, end: u8) {
        self.end_slot = end;
    }

    /// The peer does not hold a dictionary any more: slots that begin with it are as if never defined.
    pub(super) fn forget_dictionary(&mut self, number: u64) {
        let is_gone = |slot: &SendSlot| slot.dictionary.as_ref().is_some_and(|it| it.0 == number);
        self.slots.retain(|slot| !is_gone(slot));
        self.live.clear();
        self.live.extend(self.slots.iter().map(|slot| slot.arm));
    }

    /// Memory held here, bytes.
    pub(super) fn memory(&self) -> usize {
        let contexts = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        contexts.map(|context| context.memory()).sum::<usize>() + self.recent.bytes.capacity()
    }

    /// The arms whose contexts stand ready.
    pub(super) fn live(&self) -> &[Arm] {
        &self.live
    }

    /// Whether there is room for a context of `arm`, were it the only one.
    pub(super) fn has_room(&self, arm: Arm) -> bool {
        let (here, there) = context_memory_estimate(arm, self.window_log);
        here <= self.limits.0 && there <= self.limits.1
    }

    /// The context for a block with `arm` and how the block goes out; `None` if there is no room for one. One that
    /// is new begins with `dictionary`, while there is little else to begin with.
    pub(super) fn take(
        &mut self,
        arm: Arm,
        dictionary: Option<(u64, &Dictionary)>,
    ) -> Option<(EncodeHistory, SlotUse)> {
        self.uses += 1;
        let uses = self.uses;
        if let Some(known) = self.slots.iter_mut().find(|slot| slot.arm == arm) {
            known.used = uses;
            let slot = known.slot;
            if let Some(context) = known.context.take() {
                let going = SlotUse {
                    slot,
                    define: None,
                    epoch: None,
                    young: known.seen < YOUNG,
                };
                return Some((EncodeHistory::Going(context), going));
            }
            // It was lost with a block that failed, which the peer has seen nothing of.
            let begins = match known.epoch {
                Some(epoch) => SlotUse {
                    slot,
                    define: None,
                    epoch: Some(epoch + 1),
                    young: true,
                },
                None => self.definition(slot, arm),
            };
            return Some((self.beginning(slot, None), begins));
        }
        if !self.has_room(arm) {
            return None;
        }
        let memory = context_memory_estimate(arm, self.window_log);
        // Those that were not used for longest give way.
        let mut old = None;
        loop {
            let held = self.slots.iter().fold((0, 0), |sum, slot| {
                (sum.0 + slot.memory.0, sum.1 + slot.memory.1)
            });
            let fits = held.0 + memory.0 <= self.limits.0 && held.1 + memory.1 <= self.limits.1;
            if fits && self.slots.len() < usize::from(self.end_slot - FIRST_SLOT) {
                break;
            }
            let oldest = (0..self.slots.len()).min_by_key(|at| self.slots[*at].used)?;
            let gone = self.slots.swap_remove(oldest);
            if gone.epoch.is_some() {
                self.dropped.push(gone.slot);
            }
            old = Some(gone);
        }
        let slot = match &old {
            Some(old) => old.slot,
            None => (FIRST_SLOT..self.end_slot)
                .filter_map(Slot::new)
                .find(|slot| self.slots.iter().all(|known| known.slot != *slot))?,
        };
        // To be defined anew is to be dropped.
        self.dropped.retain(|dropped| *dropped != slot);
        let worth = |it: &Dictionary| {
            self.recent.last().len() < it.len() && it.len() <= 1 << self.window_log
        };
        let dictionary = dictionary.filter(|(_, it)| worth(it));
        self.slots.push(SendSlot {
            slot,
            dictionary: dictionary.map(|(number, it)| (number, it.content().clone())),
            arm,
            context: None,
            epoch: None,
            seen: 0,
            used: uses,
            memory,
        });
        self.live.clear();
        self.live.extend(self.slots.iter().map(|slot| slot.arm));
        let begins = self.definition(slot, arm);
        Some((
            self.beginning(slot, old.and_then(|old| old.context)),
            begins,
        ))
    }

    fn definition(&self, slot: Slot, arm: Arm) -> SlotUse {
        SlotUse {
            slot,
            define: Some(Define {
                slot,
                codec: arm.codec,
                group: GroupId::default(),
                history: Some(self.window_log),
                dictionary: self.dictionary(slot).map_or(0, |(number, _)| *number),
            }),
            epoch: None,
            young: true,
        }
    }

    fn dictionary(&self, slot: Slot) -> Option<&(u64, Bytes)> {
        let known = self.slots.iter().find(|known| known.slot == slot)?;
        known.dictionary.as_ref()
    }

    fn beginning(&self, slot: Slot, old: Option<Box<EncodeContext>>) -> EncodeHistory {
        let dictionary = self.dictionary(slot).map(|(_, content)| content);
        EncodeHistory::Beginning {
            old,
            window_log: self.window_log,
            prime: prime(dictionary, &self.recent),
        }
    }

    /// What tells the peer of slots that it need not hold anything for, before others take their room.
    pub(super) fn undefine(&mut self) -> impl Iterator<Item = Define> + '_ {
        self.dropped.drain(..).map(|slot| Define {
            slot,
            codec: CodecId::IDENTITY,
            group: GroupId::default(),
            history: None,
            dictionary: 0,
        })
    }

    /// A block was encoded; its context comes back unless it failed.
    pub(super) fn give_back(
        &mut self,
        taken: SlotUse,
        context: Option<Box<EncodeContext>>,
        plain: &[u8],
    ) {
        let Some(known) = self.slots.iter_mut().find(|known| known.slot == taken.slot) else {
            return;
        };
        if context.is_some() {
            self.recent.push(plain);
            // What it begins with does not count: it may be old.
            known.seen = known.seen.saturating_add(plain.len());
            known.epoch = taken.epoch.or(known.epoch).or(Some(0));
        }
        known.context = context;
    }
}

/// What one job of decoding with history needs.
#[derive(Debug)]
pub(super) enum DecodeHistory {
    /// The context as the block before left it.
    Going(Box<DecodeContext>),
    /// A context that begins anew with these plain bytes.
    Beginning {
        old: Option<Box<DecodeContext>>,
        window_log: u8,
        prime: Vec<u8>,
    },
}

impl DecodeHistory {
    /// The context to decode with.
    pub(super) fn context(self, codec: CodecId) -> Result<Box<DecodeContext>, DecodeError> {
        match self {
            Self::Going(context) => Ok(context),
            Self::Beginning {
                old: Some(mut old),
                prime,
                ..
            } => {
                old.restart(&prime)?;
                Ok(old)
            }
            Self::Beginning {
                window_log, prime, ..
            } => Ok(Box::new(DecodeContext::new(codec, window_log, &prime)?)),
        }
    }
}

/// Where a block with history belongs, as its header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryPlace {
    /// How often the slot had been defined with history.
    pub(super) generation: u64,
    /// Whether the context begins anew.
    pub(super) begins: bool,
}

#[derive(Debug)]
struct RecvSlot {
    slot: Slot,
    window_log: u8,
    generation: u64,
    epoch: u64,
    begun: bool,
    context: Option<Box<DecodeContext>>,
    memory: usize,
    /// What it begins with before anything else.
    dictionary: Option<Bytes>,
    /// Blocks that wait to be decoded.
    waiting: usize,
    /// It was defined anew, and lives as long as its blocks wait.
    replaced: bool,
}

/// The receiver's contexts.
#[derive(Debug, Default)]
pub(super) struct RecvHistory {
    slots: Vec<RecvSlot>,
    recent: Recent,
    limit: usize,
    max_window_log: u8,
    generations: u64,
    /// Whether a block with history is being decoded: the next must wait for what it leaves.
    running: bool,
}

impl RecvHistory {
    /// Contexts may hold `limit` bytes, with histories of `max_window_log` at most.
    pub(super) fn begin(&mut self, limit: usize, max_window_log: u8) {
        self.limit = limit;
        self.max_window_log = max_window_log;
    }

    /// Whether histories were agreed on.
    pub(super) const fn is_agreed(&self) -> bool {
        self.limit > 0
    }

    /// Memory held, bytes.
    pub(super) fn memory(&self) -> usize {
        let contexts = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        contexts.map(|context| context.memory()).sum::<usize>() + self.recent.bytes.capacity()
    }

    /// The peer defines a slot; without `window_log` it carries no history from here on. It begins with
    /// `dictionary`, if it has one.
    pub(super) fn define(
        &mut self,
        slot: Slot,
        codec: CodecId,
        window_log: Option<u8>,
        dictionary: Option<Bytes>,
    ) -> Result<(), WireError> {
        for known in &mut self.slots {
            known.replaced |= known.slot == slot;
        }
        self.slots
            .retain(|known| !known.replaced || known.waiting > 0);
        let Some(window_log) = window_log else {
            return Ok(());
        };
        if !crate::codecs::supports_context(codec) {
            return Err(WireError::Unexpected {
                what: "a slot with history in a codec that has none",
            });
        }
        if !WINDOW_LOGS.contains(&window_log) || window_log > self.max_window_log {
            return Err(WireError::FieldTooLarge {
                field: "history length, as a logarithm",
                given: u64::from(window_log),
                max: u64::from(self.max_window_log),
            });
        }
        let (_, memory) = context_memory_estimate(Arm::new(codec, 0), window_log);
        let live = self.slots.iter().filter(|slot| !slot.replaced);
        let held = memory + live.map(|slot| slot.memory).sum::<usize>();
        if held > self.limit {
            return Err(WireError::FieldTooLarge {
                field: "memory of histories",
                given: held as u64,
                max: self.limit as u64,
            });
        }
        self.generations += 1;
        self.slots.push(RecvSlot {
            slot,
            window_log,
            generation: self.generations,
            epoch: 0,
            begun: false,
            context: None,
            memory,
            dictionary,
            waiting: 0,
            replaced: false,
        });
        Ok(())
    }

    /// A block's header says that it is in `slot`, with this epoch; `None` if the slot has no history.
    pub(super) fn on_header(
        &mut self,
        slot: Slot,
        epoch: Option<u64>,
    ) -> Result<Option<HistoryPlace>, WireError> {
        let live = |known: &&mut RecvSlot| known.slot == slot && !known.replaced;
        let Some(known) = self.slots.iter_mut().find(live) else {
            return match epoch {
                None => Ok(None),
                Some(_) => Err(WireError::Unexpected {
                    what: "an epoch in a slot without history",
                }),
            };
        };
        let begins = match epoch {
            Some(next) if known.begun && next == known.epoch + 1 => {
                known.epoch = next;
                true
            }
            Some(_) => {
                return Err(WireError::Unexpected {
                    what: "an epoch that is not the next one",
                });
            }
            None => !core::mem::replace(&mut known.begun, true),
        };
        known.waiting += 1;
        Ok(Some(HistoryPlace {
            generation: known.generation,
            begins,
        }))
    }

    /// The context for the next block with history; `None` while the one before is being decoded.
    pub(super) fn take(&mut self, place: HistoryPlace) -> Option<DecodeHistory> {
        if self.running {
            return None;
        }
        let known = self
            .slots
            .iter_mut()
            .find(|known| known.generation == place.generation);
        let known = known?;
        self.running = true;
        Some(match known.context.take() {
            Some(context) if !place.begins => DecodeHistory::Going(context),
            old => DecodeHistory::Beginning {
                old,
                window_log: known.window_log,
                prime: prime(known.dictionary.as_ref(), &self.recent),
            },
        })
    }

    /// A block with history was decoded; its context comes back.
    pub(super) fn give_back(
        &mut self,
        place: HistoryPlace,
        context: Option<Box<DecodeContext>>,
        plain: &[u8],
    ) {
        self.running = false;
        self.recent.push(plain);
        let generation = place.generation;
        let known = self
            .slots
            .iter_mut()
            .find(|known| known.generation == generation);
        if let Some(known) = known {
            known.context = context;
            known.waiting -= 1;
        }
        self.slots
            .retain(|known| !known.replaced || known.waiting > 0);
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
