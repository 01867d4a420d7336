//! The receiver's contexts.

use bytes::Bytes;

use super::{WINDOW_LOGS, context_memory, prime};
use crate::codecs::{Arm, CodecId, DecodeContext, DecodeError};
use crate::session::recent::{RECENT_MEMORY, Recents};
use crate::wire::{GroupId, Slot, WireError};

/// What one job of decoding with history needs.
#[derive(Debug)]
pub(in crate::session) enum DecodeHistory {
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
    pub(in crate::session) fn context(
        self,
        codec: CodecId,
    ) -> Result<Box<DecodeContext>, DecodeError> {
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
pub(in crate::session) struct HistoryPlace {
    /// How often the slot had been defined with history.
    pub(in crate::session) generation: u64,
    /// Whether the context begins anew.
    pub(in crate::session) begins: bool,
}

#[derive(Debug)]
struct RecvSlot {
    slot: Slot,
    group: GroupId,
    /// Which of the times that the group has had slots with history this is.
    era: u64,
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
pub(in crate::session) struct RecvHistory {
    slots: Vec<RecvSlot>,
    /// By era.
    recents: Recents<u64>,
    limit: usize,
    max_window_log: u8,
    generations: u64,
    /// Whether a block with history is being decoded: the next must wait for what it leaves.
    running: bool,
}

impl RecvHistory {
    /// Contexts may hold `limit` bytes, with histories of `max_window_log` at most.
    pub(in crate::session) fn begin(&mut self, limit: usize, max_window_log: u8) {
        self.limit = limit;
        self.max_window_log = max_window_log;
    }

    /// Whether histories were agreed on.
    pub(in crate::session) const fn is_agreed(&self) -> bool {
        self.limit > 0
    }

    /// Memory held, bytes.
    pub(in crate::session) fn memory(&self) -> usize {
        let contexts = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        contexts.map(|context| context.memory()).sum::<usize>() + self.recents.memory()
    }

    /// Memory that contexts may hold.
    pub(in crate::session) const fn limit(&self) -> usize {
        self.limit
    }

    /// The group whose history blocks of a slot carry, if they do.
    pub(in crate::session) fn held_at(&self, slot: Slot) -> Option<GroupId> {
        let known = self.live().find(|known| known.slot == slot);
        known.map(|known| known.group)
    }

    /// The peer defines a slot; without `window_log` it carries no history from here on. It begins with
    /// `dictionary`, if it has one.
    pub(in crate::session) fn define(
        &mut self,
        slot: Slot,
        codec: CodecId,
        group: GroupId,
        window_log: Option<u8>,
        dictionary: Option<Bytes>,
    ) -> Result<(), WireError> {
        let era = self
            .live()
            .find(|known| known.group == group)
            .map(|known| known.era);
        for known in &mut self.slots {
            known.replaced |= known.slot == slot;
        }
        let Some(window_log) = window_log else {
            self.prune();
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
        let (_, memory) = context_memory(Arm::new(codec, 0), window_log);
        let mut groups = vec![group];
        let mut held = memory + RECENT_MEMORY;
        for known in self.live() {
            held += known.memory;
            if !groups.contains(&known.group) {
                groups.push(known.group);
                held += RECENT_MEMORY;
            }
        }
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
            group,
            era: era.unwrap_or(self.generations),
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
        // Not before: the group goes on in the slot that replaces its last.
        self.prune();
        Ok(())
    }

    fn live(&self) -> impl Iterator<Item = &RecvSlot> {
        self.slots.iter().filter(|slot| !slot.replaced)
    }

    /// Forgets slots that were replaced, and groups that no slot is left of.
    fn prune(&mut self) {
        self.slots
            .retain(|known| !known.replaced || known.waiting > 0);
        let slots = &self.slots;
        self.recents
            .retain(|era| slots.iter().any(|slot| slot.era == era));
    }

    /// A block's header says that it is in `slot`, with this epoch; `None` if the slot has no history.
    pub(in crate::session) fn on_header(
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
    pub(in crate::session) fn take(&mut self, place: HistoryPlace) -> Option<DecodeHistory> {
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
                prime: prime(known.dictionary.as_ref(), self.recents.last(known.era)),
            },
        })
    }

    /// A block with history was decoded; its context comes back.
    pub(in crate::session) fn give_back(
        &mut self,
        place: HistoryPlace,
        context: Option<Box<DecodeContext>>,
        plain: &[u8],
    ) {
        self.running = false;
        let generation = place.generation;
        let known = self
            .slots
            .iter_mut()
            .find(|known| known.generation == generation);
        if let Some(known) = known {
            self.recents
                .push(known.era, plain, known.dictionary.as_ref());
            known.context = context;
            known.waiting -= 1;
        }
        self.prune();
    }

    /// What a group's histories leave to the next connection, the latest in front; with the points before,
    /// unless the peer has said that there is no more (`is_all_seen`).
    pub(in crate::session) fn left(&self, group: GroupId, is_all_seen: bool) -> Vec<Bytes> {
        let era = self.live().find(|known| known.group == group);
        era.map_or_else(Vec::new, |known| self.recents.left(known.era, is_all_seen))
    }

    #[cfg(test)]
    pub(in crate::session) fn recents(&self) -> impl Iterator<Item = &[u8]> {
        self.recents.all()
    }
}
