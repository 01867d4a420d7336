//! Dictionaries of the peer, for what it sends.

use std::collections::VecDeque;

use super::job::{Job, Packed};
use super::{
    DictionaryConfig, DictionaryEvent, DictionaryJob, DictionaryMemory, DictionaryStats,
    RecalledHistories,
};
use crate::codecs::{CodecId, info};
use crate::dictionary::{Dictionary, DictionaryId, MIN_DICTIONARY_LEN};
use crate::session::observer::{DictionaryChange, Observation, Observations, Told};
use crate::wire::{
    DICTIONARY_PREFIX_LEN, DictionaryAnswer, DictionaryFrame, DictionaryNews, DictionaryOffer,
    DictionaryVerdict, WireError,
};

/// ```text
/// none --offer of what is not held--> Arriving --last piece--> Unpacking --held or refused--> none
/// ```
#[derive(Debug)]
enum Incoming {
    Arriving {
        packed: Packed,
        wire_len: usize,
    },
    /// The job is to be given out, or has been.
    Unpacking {
        number: u64,
        job: Option<Packed>,
    },
}

/// What this side holds of its peer's dictionaries.
#[derive(Debug, Default)]
pub(in crate::session) struct RecvDictionaries {
    /// Bytes of one and how many, as this side has said; `None` if it takes none.
    limits: Option<(usize, usize)>,
    agreed: bool,
    /// By their numbers.
    live: Vec<(u64, Dictionary)>,
    /// Others that were received before, unless they are offered again.
    spare: Vec<Dictionary>,
    /// What connections before have carried last.
    recalled: RecalledHistories,
    recalls: bool,
    last_number: u64,
    incoming: Option<Incoming>,
    answers: VecDeque<DictionaryAnswer>,
    events: VecDeque<DictionaryEvent>,
    received: u64,
    rejected: u64,
    pub(in crate::session) told: Told,
}

impl RecvDictionaries {
    pub(in crate::session) fn new(config: &DictionaryConfig) -> Self {
        if !config.accepts() {
            return Self::default();
        }
        let max_held = config.acceptance.max_held;
        let known = config.memory.as_ref();
        let mut spare = known.map_or_else(Vec::new, |memory| memory.received.clone());
        spare.retain(|known| known.len() <= config.acceptance.max_len);
        // One place stays free for a new one.
        let listed = spare.len().min(max_held - 1);
        let held = spare.split_off(spare.len() - listed);
        let recalled = known.filter(|_| config.recalls());
        let recalled = recalled.map_or_else(RecalledHistories::default, |memory| {
            memory.recalled[1].clone()
        });
        // Those have places of their own.
        let begun = recalled.listed(config.acceptance.max_len);
        let max_held = max_held + begun.len();
        let listed: Vec<_> = held.into_iter().rev().chain(begun).collect();
        Self {
            limits: Some((config.acceptance.max_len, max_held)),
            last_number: listed.len() as u64,
            live: (1..).zip(listed).collect(),
            spare,
            recalled,
            recalls: config.recalls(),
            ..Self::default()
        }
    }

    /// Another connection begins: with what there is, and what histories have left in `memory`.
    pub(in crate::session) fn restart(
        &mut self,
        config: &DictionaryConfig,
        mut memory: DictionaryMemory,
    ) {
        self.held().for_each(|it| memory.receive(it.clone()));
        let config = DictionaryConfig {
            memory: Some(Box::new(memory)),
            ..config.clone()
        };
        let events = core::mem::take(&mut self.events);
        let told = self.told.clone();
        *self = Self {
            events,
            told,
            received: self.received,
            rejected: self.rejected,
            ..Self::new(&config)
        };
    }

    /// What the hello says.
    pub(in crate::session) fn hello(&self) -> DictionaryOffer {
        let (max_len, max_held) = self.limits.unwrap_or_default();
        let prefix = |id: DictionaryId| {
            let mut prefix = [0; DICTIONARY_PREFIX_LEN];
            prefix.copy_from_slice(&id.as_bytes()[..DICTIONARY_PREFIX_LEN]);
            prefix
        };
        DictionaryOffer {
            max_len: max_len as u64,
            max_held: max_held as u64,
            held: self.live.iter().map(|(_, it)| prefix(it.id())).collect(),
        }
    }

    /// Both sides take part.
    pub(in crate::session) fn begin(&mut self) {
        self.agreed = true;
    }

    /// The dictionary that this number stands for now.
    pub(in crate::session) fn live(&self, number: u64) -> Result<&Dictionary, WireError> {
        let mut live = self.live.iter().filter(|_| self.agreed);
        let found = live.find(|(known, _)| *known == number);
        found.map(|(_, it)| it).ok_or(WireError::Unexpected {
            what: "a dictionary that is not held",
        })
    }

    /// Takes in what the peer says; the number of a dictionary that it retires.
    pub(in crate::session) fn on_frame(
        &mut self,
        frame: DictionaryFrame,
    ) -> Result<Option<u64>, WireError> {
        let number = frame.number;
        let Some(limits) = self.limits.filter(|_| self.agreed) else {
            return Err(WireError::Unexpected {
                what: "a dictionary, which was not agreed on",
            });
        };
        match frame.what {
            DictionaryNews::Offer {
                hash,
                len,
                codec,
                wire_len,
            } => {
                let id = DictionaryId::from_bytes(hash);
                self.on_offer(number, id, (len, codec, wire_len), limits)?;
            }
            DictionaryNews::Piece(bytes) => self.on_piece(number, &bytes)?,
            DictionaryNews::Retire => {
                self.on_retire(number)?;
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn on_offer(
        &mut self,
        number: u64,
        id: DictionaryId,
        (len, codec, wire_len): (u64, CodecId, u64),
        (max_len, max_held): (usize, usize),
    ) -> Result<(), WireError> {
        if self.incoming.is_some() || number != self.last_number + 1 {
            return Err(WireError::Unexpected {
                what: "an offer before the last one was answered, or out of turn",
            });
        }
        within("dictionary length", len, MIN_DICTIONARY_LEN, max_len)?;
        within("dictionary length on its way", wire_len, 1, len as usize)?;
        within("dictionaries held", self.live.len() as u64 + 1, 0, max_held)?;
        if info(codec).is_none() {
            return Err(WireError::Unknown {
                what: "codec",
                given: u64::from(codec.to_wire()),
            });
        }
        self.last_number = number;
        self.told
            .tell(Observations::DICTIONARY, || Observation::Dictionary {
                change: DictionaryChange::Offered,
                received: true,
                number,
                id: Some(id),
                len: len as usize,
            });
        let held = self.live.iter().map(|(_, it)| it).chain(&self.spare);
        let mut held = held.filter(|it| !self.recalled.contains(it));
        if let Some(known) = held.find(|it| it.id() == id).cloned() {
            self.spare.retain(|it| it.id() != id);
            self.live.push((number, known));
            self.answer(number, DictionaryVerdict::Held);
            return Ok(());
        }
        self.incoming = Some(Incoming::Arriving {
            packed: Packed {
                number,
                id,
                len: len as usize,
                codec,
                // It grows with what comes, not with what is said.
                wire: Vec::new(),
            },
            wire_len: wire_len as usize,
        });
        self.answer(number, DictionaryVerdict::Wanted);
        Ok(())
    }

    fn on_piece(&mut self, number: u64, bytes: &[u8]) -> Result<(), WireError> {
        let Some(Incoming::Arriving { packed, wire_len }) = &mut self.incoming else {
            return Err(WireError::Unexpected {
                what: "a piece of no dictionary",
            });
        };
        if packed.number != number {
            return Err(WireError::Unexpected {
                what: "a piece of another dictionary",
            });
        }
        let given = packed.wire.len() + bytes.len();
        within("dictionary length on its way", given as u64, 0, *wire_len)?;
        packed.wire.extend_from_slice(bytes);
        if given == *wire_len {
            if let Some(Incoming::Arriving { packed, .. }) = self.incoming.take() {
                self.incoming = Some(Incoming::Unpacking {
                    number,
                    job: Some(packed),
                });
            }
        }
        Ok(())
    }

    fn on_retire(&mut self, number: u64) -> Result<(), WireError> {
        let dictionary = self.live(number)?.clone();
        let id = dictionary.id();
        self.live.retain(|(known, _)| *known != number);
        let change = DictionaryChange::Retired;
        self.told
            .dictionary(change, true, number, Some(&dictionary));
        // Under another number it may live on, and what was never given out need not be forgotten.
        if !self.recalled.contains(&dictionary) && !self.live.iter().any(|(_, it)| it.id() == id) {
            self.events.push_back(DictionaryEvent::Forgotten(id));
        }
        Ok(())
    }

    pub(in crate::session) fn poll_job(&mut self) -> Option<DictionaryJob> {
        match &mut self.incoming {
            Some(Incoming::Unpacking { job, .. }) => {
                let packed = job.take()?;
                Some(DictionaryJob(Job::Unpack(packed)))
            }
            _ => None,
        }
    }

    /// Takes in what came of unpacking.
    pub(super) fn on_unpacked(
        &mut self,
        number: u64,
        result: Result<Option<Dictionary>, WireError>,
    ) -> Result<(), WireError> {
        let expected =
            matches!(&self.incoming, Some(Incoming::Unpacking { number: it, .. }) if *it == number);
        if !expected {
            return Ok(());
        }
        self.incoming = None;
        if let Some(dictionary) = result? {
            self.received += 1;
            self.events
                .push_back(DictionaryEvent::Received(dictionary.clone()));
            self.live.push((number, dictionary));
            self.answer(number, DictionaryVerdict::Held);
        } else {
            self.rejected += 1;
            self.answer(number, DictionaryVerdict::Refused);
        }
        Ok(())
    }

    fn answer(&mut self, number: u64, verdict: DictionaryVerdict) {
        let change = match verdict {
            DictionaryVerdict::Held => Some(DictionaryChange::Adopted),
            DictionaryVerdict::Refused => Some(DictionaryChange::Refused),
            DictionaryVerdict::Wanted => None,
        };
        if let Some(change) = change {
            let held = self.live.iter().find(|(known, _)| *known == number);
            let dictionary = held.map(|(_, it)| it);
            self.told.dictionary(change, true, number, dictionary);
        }
        self.answers.push_back(DictionaryAnswer { number, verdict });
    }

    pub(in crate::session) fn next_answer(&mut self) -> Option<DictionaryAnswer> {
        self.answers.pop_front()
    }

    pub(in crate::session) fn poll_event(&mut self) -> Option<DictionaryEvent> {
        self.events.pop_front()
    }

    /// Those that are held, for the next session.
    pub(in crate::session) fn held(&self) -> impl Iterator<Item = &Dictionary> {
        let live = self.live.iter().rev().map(|(_, it)| it);
        let live = live.filter(|it| !self.recalled.contains(it));
        self.spare.iter().chain(live)
    }

    /// What connections before have carried last, for the next session; `None` if that is not kept.
    pub(in crate::session) fn recalled(&self) -> Option<RecalledHistories> {
        (self.agreed && self.recalls).then(|| self.recalled.clone())
    }

    pub(in crate::session) fn add_stats(&self, stats: &mut DictionaryStats) {
        stats.received = self.received;
        stats.rejected = self.rejected;
        let held: usize = self.held().map(Dictionary::len).sum();
        stats.memory += (held + self.recalled.bytes()) as u64;
    }
}

fn within(field: &'static str, given: u64, min: usize, max: usize) -> Result<(), WireError> {
    let (min, max) = (min as u64, max as u64);
    if given > max {
        Err(WireError::FieldTooLarge { field, given, max })
    } else if given < min {
        Err(WireError::FieldTooSmall { field, given, min })
    } else {
        Ok(())
    }
}
