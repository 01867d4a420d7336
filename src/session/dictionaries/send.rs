//! Dictionaries for what this side sends.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};

use super::job::{Job, train_nanos};
use super::{
    DictionaryConfig, DictionaryEvent, DictionaryJob, DictionaryStats, RecalledHistories,
    TrafficClasses,
};
use crate::codecs::{Arm, CodecId};
use crate::control::{BudgetRate, Prior};
use crate::dictionary::{Dictionary, DictionaryId, Trained, Trainer, TrainerConfig, TrainerEvent};
use crate::session::observer::{DictionaryChange, Told};
use crate::units::{Time, saturating_nanos};
use crate::wire::{
    DICTIONARY_PREFIX_LEN, Define, DictionaryAnswer, DictionaryFrame, DictionaryNews,
    DictionaryOffer, DictionaryVerdict, GroupId, SLOTS, Slot, WireError,
};

/// Classes of traffic that are trained for in one session; streams of more have none. Arbitrary: each keeps up
/// to half a megabyte of messages while it collects.
const MAX_CLASSES: usize = 4;
/// The first slot for blocks with a dictionary; those before it are for histories. Arbitrary: two codecs with the
/// current dictionary and one that is on its way out.
pub(in crate::session) const FIRST_DICTIONARY_SLOT: u8 = 13;
/// Bytes of a dictionary in one frame: what a message that comes just then waits for. Arbitrary.
const PIECE_LEN: usize = 2048;
/// Share of one processor, or of a smaller codec budget, that trainings may take over time. Arbitrary.
const SHARE: f64 = 0.05;
/// Processor time for trainings that a session begins with, and may have saved up, ns: one or two of the
/// default sample.
const FIRST_NANOS: f64 = 100e6;
const MOST_SAVED_NANOS: f64 = 200e6;

/// Traffic that shares dictionaries.
#[derive(Debug)]
struct Class {
    name: String,
    trainer: Trainer,
    /// What its blocks are encoded with: the newest of its dictionaries that the peer holds.
    number: Option<u64>,
}

/// A number that stands for a dictionary at the peer.
#[derive(Debug)]
struct Held {
    number: u64,
    /// `None` if it is not known here: the peer holds it from before.
    dictionary: Option<Dictionary>,
}

/// How far the dictionary has come that is being brought to the peer.
///
/// ```text
/// Idle --one is wanted--> Packing --> Offered --wanted--> Sending --all sent--> Sent --held or refused--> Idle
///                                        +------------held or refused--------------------------------------^
/// ```
#[derive(Debug, Default)]
enum Transfer {
    #[default]
    Idle,
    Packing(DictionaryId),
    Offered(u64, Dictionary, Bytes),
    Sending(u64, Dictionary, Bytes),
    Sent(u64, Dictionary),
}

#[derive(Debug)]
struct DictionarySlot {
    slot: Slot,
    codec: CodecId,
    number: u64,
    /// Whether the peer was told.
    defined: bool,
    used: u64,
}

/// How a block with a dictionary goes out.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct DictionaryUse {
    pub(in crate::session) slot: Slot,
    /// The slot must be defined before the block.
    pub(in crate::session) define: Option<Define>,
    class: usize,
    id: DictionaryId,
}

/// The sender's dictionaries.
#[derive(Debug, Default)]
pub(in crate::session) struct SendDictionaries {
    trainer: Option<TrainerConfig>,
    names: TrafficClasses,
    seed: u64,
    /// What the peer takes: bytes of one, and how many.
    limits: Option<(u64, u64)>,
    classes: Vec<Class>,
    held: Vec<Held>,
    last_number: u64,
    transfer: Transfer,
    wanted: VecDeque<Dictionary>,
    /// What connections before have carried last, if that is kept, and which of it the peer has too.
    recalled: Option<RecalledHistories>,
    recalled_as: Option<u64>,
    refused: Vec<DictionaryId>,
    frames: VecDeque<DictionaryFrame>,
    slots: Vec<DictionarySlot>,
    uses: u64,
    training: Option<usize>,
    saved_nanos: f64,
    filled_at: Option<Time>,
    events: VecDeque<DictionaryEvent>,
    stats: DictionaryStats,
    pub(in crate::session) told: Told,
}

impl SendDictionaries {
    pub(in crate::session) fn new(config: &mut DictionaryConfig, seed: u64) -> Self {
        let memory = config.memory.take().map_or_else(Default::default, |it| *it);
        let [recalled, _] = memory.recalled;
        let classes = memory.trainers.into_iter().take(MAX_CLASSES);
        let classes = classes.map(|(name, mut trainer)| {
            trainer.forget_job();
            Class {
                name,
                trainer,
                number: None,
            }
        });
        Self {
            trainer: config.trainer,
            names: core::mem::take(&mut config.classes),
            seed,
            classes: classes.collect(),
            recalled: config.recalls().then_some(recalled),
            saved_nanos: FIRST_NANOS,
            ..Self::default()
        }
    }

    /// Another connection begins: the peer will say again what it takes and holds. Histories have left `recalled`.
    pub(in crate::session) fn restart(&mut self, recalled: RecalledHistories) {
        for class in &mut self.classes {
            class.number = None;
        }
        let old = core::mem::take(self);
        *self = Self {
            trainer: old.trainer,
            names: old.names,
            seed: old.seed,
            classes: old.classes,
            recalled: old.recalled.map(|_| recalled),
            refused: old.refused,
            training: old.training,
            saved_nanos: old.saved_nanos,
            filled_at: old.filled_at,
            events: old.events,
            stats: old.stats,
            told: old.told,
            ..Self::default()
        };
    }

    /// Both sides take part; this is what the peer takes and holds.
    pub(in crate::session) fn begin(&mut self, peer: &DictionaryOffer) {
        if peer.max_len == 0 || peer.max_held == 0 || self.trainer.is_none() {
            return;
        }
        self.limits = Some((peer.max_len, peer.max_held));
        for (number, prefix) in (1..).zip(&peer.held) {
            let mut own = self.classes.iter().flat_map(|it| it.trainer.dictionaries());
            let known = own.find(|it| it.id().as_bytes()[..DICTIONARY_PREFIX_LEN] == prefix[..]);
            let mut dictionary = known.cloned();
            self.stats.warm += u64::from(dictionary.is_some());
            if dictionary.is_none() && self.recalled_as.is_none() {
                let recalled = self.recalled.as_ref().and_then(|it| it.find(prefix));
                self.recalled_as = recalled.map(|_| number);
                self.stats.recalled += u64::from(recalled.is_some());
                dictionary = recalled.cloned();
            }
            self.held.push(Held { number, dictionary });
            self.last_number = number;
        }
        for class in 0..self.classes.len() {
            let current = self.classes[class].trainer.current().cloned();
            if let Some(current) = current {
                self.want(current);
            }
        }
        self.settle();
    }

    /// Whether blocks can be encoded with dictionaries.
    pub(in crate::session) const fn is_agreed(&self) -> bool {
        self.limits.is_some()
    }

    /// The class that a stream of this name belongs to; `None` if there is none for it.
    pub(in crate::session) fn class_of(&mut self, name: &str) -> Option<usize> {
        let (max_len, _) = self.limits?;
        let mut config = self.trainer?;
        let name = self.names.class_of(name);
        let known = self.classes.iter().position(|class| class.name == name);
        if known.is_none() && self.classes.len() < MAX_CLASSES {
            config.train.max_len = config
                .train
                .max_len
                .min(usize::try_from(max_len).unwrap_or(usize::MAX));
            self.classes.push(Class {
                name: name.to_owned(),
                trainer: Trainer::new(config, self.seed ^ self.classes.len() as u64),
                number: None,
            });
            return Some(self.classes.len() - 1);
        }
        known
    }

    /// A message of a class that may be learned from.
    pub(in crate::session) fn offer(&mut self, class: usize, message: &[u8]) {
        self.classes[class].trainer.offer(message);
    }

    /// What blocks of a class are encoded with.
    pub(in crate::session) fn current(&self, class: Option<usize>) -> Option<(u64, &Dictionary)> {
        let number = self.classes.get(class?)?.number?;
        let held = self.held.iter().find(|it| it.number == number)?;
        Some((number, held.dictionary.as_ref()?))
    }

    /// What a history begins with in which messages of a class go in front: what connections before have carried last,
    /// which begins with a dictionary itself if those did.
    pub(in crate::session) fn beginning(
        &self,
        class: Option<usize>,
        group: GroupId,
    ) -> Option<(u64, &Dictionary)> {
        let recalled = self.recalled_as.filter(|_| group == GroupId::default());
        let held = recalled.and_then(|number| self.held.iter().find(|it| it.number == number));
        let recalled = held.and_then(|it| Some((it.number, it.dictionary.as_ref()?)));
        recalled.or_else(|| self.current(class))
    }

    /// What both ends have of a class's messages before there is any history in a group.
    pub(in crate::session) fn prior(&self, class: Option<usize>, group: GroupId) -> Prior {
        if self.current(class).is_some() {
            Prior::Dictionary
        } else if self.beginning(class, group).is_some() {
            Prior::Recalled
        } else {
            Prior::Nothing
        }
    }

    /// What connections before have carried last, for the next session; `None` if that is not kept.
    pub(in crate::session) fn recalled(&self) -> Option<RecalledHistories> {
        self.recalled.clone().filter(|_| self.is_agreed())
    }

    /// The dictionary for a block of a class with `arm`, and how the block goes out.
    pub(in crate::session) fn take(
        &mut self,
        arm: Arm,
        class: Option<usize>,
    ) -> Option<(Dictionary, DictionaryUse)> {
        let (number, dictionary) = self.current(class)?;
        let dictionary = dictionary.clone();
        self.uses += 1;
        let fits = |it: &DictionarySlot| it.codec == arm.codec && it.number == number;
        let at = self.slots.iter().position(fits);
        let at = at.or_else(|| self.new_slot(arm.codec, number))?;
        let known = &mut self.slots[at];
        known.used = self.uses;
        let define = Define {
            slot: known.slot,
            codec: known.codec,
            group: GroupId::default(),
            history: None,
            dictionary: number,
        };
        let way = DictionaryUse {
            slot: known.slot,
            define: (!known.defined).then_some(define),
            class: class?,
            id: dictionary.id(),
        };
        Some((dictionary, way))
    }

    fn new_slot(&mut self, codec: CodecId, number: u64) -> Option<usize> {
        let mut free = (FIRST_DICTIONARY_SLOT..SLOTS).filter_map(Slot::new);
        let free = free.find(|slot| self.slots.iter().all(|it| it.slot != *slot));
        let slot = if let Some(slot) = free {
            slot
        } else {
            let oldest = (0..self.slots.len()).min_by_key(|at| self.slots[*at].used)?;
            self.slots.swap_remove(oldest).slot
        };
        self.slots.push(DictionarySlot {
            slot,
            codec,
            number,
            defined: false,
            used: 0,
        });
        Some(self.slots.len() - 1)
    }

    /// A block was encoded with a dictionary: its bytes before and after, if it went out so.
    pub(in crate::session) fn on_encoded(
        &mut self,
        way: &DictionaryUse,
        plain_len: usize,
        written: Option<usize>,
    ) {
        if written.is_some() {
            self.stats.blocks_sent += 1;
            let slot = self.slots.iter_mut().find(|it| it.slot == way.slot);
            if let Some(slot) = slot {
                slot.defined = true;
            }
        }
        let wire_len = written.unwrap_or(plain_len);
        let trainer = &mut self.classes[way.class].trainer;
        trainer.record(&way.id, plain_len, wire_len);
    }

    /// What is to be done for dictionaries, if there is time for it.
    pub(in crate::session) fn poll_job(
        &mut self,
        now: Time,
        budget: Option<BudgetRate>,
    ) -> Option<DictionaryJob> {
        self.limits?;
        self.take_decisions(now);
        self.save_up(now, budget);
        if let Some(job) = self.poll_training(now, budget) {
            return Some(job);
        }
        if !matches!(self.transfer, Transfer::Idle) || !self.make_room() {
            return None;
        }
        let next = self.wanted.pop_front()?;
        self.transfer = Transfer::Packing(next.id());
        Some(DictionaryJob(Job::Pack(next)))
    }

    fn poll_training(&mut self, now: Time, budget: Option<BudgetRate>) -> Option<DictionaryJob> {
        let none = budget.is_some_and(|rate| rate == BudgetRate::ZERO);
        let sample = self.trainer?.sample_bytes;
        let price = (train_nanos(sample) as f64).min(MOST_SAVED_NANOS);
        if self.training.is_some() || none || self.saved_nanos < price {
            return None;
        }
        let mut classes = self.classes.iter_mut().enumerate();
        let (class, job) =
            classes.find_map(|(at, class)| Some((at, class.trainer.poll_job(now)?)))?;
        self.training = Some(class);
        self.stats.trainings += u64::from(!job.is_check());
        let job = Box::new(job);
        Some(DictionaryJob(Job::Train { class, job }))
    }

    fn save_up(&mut self, now: Time, budget: Option<BudgetRate>) {
        let since = self.filled_at.replace(now).unwrap_or(now);
        let passed = saturating_nanos(now.saturating_since(since)) as f64;
        let granted = budget.map_or(1.0, |rate| rate.as_nanos_per_sec() as f64 * 1e-9);
        let saved = self.saved_nanos + passed * SHARE * granted.min(1.0);
        self.saved_nanos = saved.min(MOST_SAVED_NANOS);
    }

    pub(super) fn on_trained(&mut self, now: Time, class: usize, trained: Trained, nanos: u64) {
        self.training = None;
        self.saved_nanos -= nanos as f64;
        if let Some(class) = self.classes.get_mut(class) {
            class.trainer.handle_trained(now, trained);
        }
        self.take_decisions(now);
    }

    fn take_decisions(&mut self, now: Time) {
        for at in 0..self.classes.len() {
            while let Some(event) = self.classes[at].trainer.poll_event(now) {
                match event {
                    TrainerEvent::Adopted {
                        dictionary,
                        evaluation,
                    } => {
                        // What has no evaluation comes from where it is kept.
                        if evaluation.is_some() {
                            self.stats.trained += 1;
                            let change = DictionaryChange::Trained;
                            self.told.dictionary(change, false, 0, Some(&dictionary));
                            self.events.push_back(DictionaryEvent::Trained {
                                class: self.classes[at].name.clone(),
                                dictionary: dictionary.clone(),
                            });
                        }
                        self.want(dictionary);
                    }
                    TrainerEvent::Retired { id, .. } => {
                        self.wanted.retain(|it| it.id() != id);
                        self.retire_unused(Some(id));
                    }
                }
                self.settle();
            }
        }
    }

    /// Has a dictionary brought to the peer, unless it is there or on its way.
    fn want(&mut self, dictionary: Dictionary) {
        let id = dictionary.id();
        let mut held = self.held.iter().filter_map(|it| it.dictionary.as_ref());
        let known = held.any(|it| it.id() == id)
            || self.wanted.contains(&dictionary)
            || self.refused.contains(&id)
            || match &self.transfer {
                Transfer::Idle => false,
                Transfer::Packing(other) => *other == id,
                Transfer::Offered(_, other, _)
                | Transfer::Sending(_, other, _)
                | Transfer::Sent(_, other) => other.id() == id,
            };
        let fits = self
            .limits
            .is_some_and(|(max, _)| dictionary.len() as u64 <= max);
        if !known && fits {
            self.wanted.push_back(dictionary);
        } else if !known {
            self.refuse(0, &dictionary);
        }
    }

    /// Sees what each class is to use now.
    fn settle(&mut self) {
        for class in &mut self.classes {
            let held = &self.held;
            let mut newest = class.trainer.dictionaries();
            class.number = newest.find_map(|own| {
                let id = own.id();
                let is_it = |it: &&Held| it.dictionary.as_ref().is_some_and(|it| it.id() == id);
                held.iter().find(is_it).map(|it| it.number)
            });
        }
    }

    /// Whether the peer has room for one more; what no class uses gives way.
    fn make_room(&mut self) -> bool {
        let Some((_, most)) = self.limits.filter(|_| !self.wanted.is_empty()) else {
            return false;
        };
        if (self.held.len() as u64) >= most {
            self.retire_unused(None);
        }
        let has_room = (self.held.len() as u64) < most;
        if !has_room {
            let without = self.wanted.pop_front();
            if let Some(without) = without {
                self.refuse(0, &without);
            }
        }
        has_room
    }

    fn refuse(&mut self, number: u64, dictionary: &Dictionary) {
        self.stats.refused += 1;
        self.refused.push(dictionary.id());
        let change = DictionaryChange::Refused;
        self.told
            .dictionary(change, false, number, Some(dictionary));
    }

    /// Retires the dictionary `id`, or the first that there is, unless a class uses it.
    fn retire_unused(&mut self, id: Option<DictionaryId>) {
        self.settle();
        let in_use = |number| {
            self.recalled_as == Some(number)
                || self.classes.iter().any(|it| it.number == Some(number))
        };
        let is_it = |it: &Held| match (id, &it.dictionary) {
            (None, _) => true,
            (Some(id), Some(known)) => known.id() == id,
            (Some(_), None) => false,
        };
        let unused = |it: &Held| is_it(it) && !in_use(it.number);
        let Some(at) = self.held.iter().position(unused) else {
            return;
        };
        let Held { number, dictionary } = self.held.remove(at);
        let change = DictionaryChange::Retired;
        self.told
            .dictionary(change, false, number, dictionary.as_ref());
        self.slots.retain(|it| it.number != number);
        self.stats.retired += 1;
        let what = DictionaryNews::Retire;
        self.frames.push_back(DictionaryFrame { number, what });
    }

    pub(super) fn on_packed(&mut self, dictionary: Dictionary, codec: CodecId, wire: Vec<u8>) {
        if !matches!(self.transfer, Transfer::Packing(id) if id == dictionary.id()) {
            return;
        }
        self.last_number += 1;
        let number = self.last_number;
        self.frames.push_back(DictionaryFrame {
            number,
            what: DictionaryNews::Offer {
                hash: *dictionary.id().as_bytes(),
                len: dictionary.len() as u64,
                codec,
                wire_len: wire.len() as u64,
            },
        });
        self.stats.offered += 1;
        let change = DictionaryChange::Offered;
        self.told
            .dictionary(change, false, number, Some(&dictionary));
        self.transfer = Transfer::Offered(number, dictionary, wire.into());
    }

    /// The peer answers an offer.
    pub(in crate::session) fn on_answer(
        &mut self,
        answer: DictionaryAnswer,
    ) -> Result<(), WireError> {
        let verdict = answer.verdict;
        let (number, next) = match core::mem::take(&mut self.transfer) {
            Transfer::Offered(number, dictionary, bytes) => match verdict {
                DictionaryVerdict::Wanted => (number, Transfer::Sending(number, dictionary, bytes)),
                _ => (number, Transfer::Sent(number, dictionary)),
            },
            // It may refuse at any time, and hold only what it has all of.
            Transfer::Sending(number, dictionary, _) if verdict == DictionaryVerdict::Refused => {
                (number, Transfer::Sent(number, dictionary))
            }
            Transfer::Sent(number, dictionary) if verdict != DictionaryVerdict::Wanted => {
                (number, Transfer::Sent(number, dictionary))
            }
            _ => (0, Transfer::Idle),
        };
        if number != answer.number {
            return Err(WireError::Unexpected {
                what: "an answer to what was not offered",
            });
        }
        match next {
            Transfer::Sent(number, dictionary) if verdict == DictionaryVerdict::Held => {
                self.stats.accepted += 1;
                let change = DictionaryChange::Adopted;
                self.told
                    .dictionary(change, false, number, Some(&dictionary));
                self.held.push(Held {
                    number,
                    dictionary: Some(dictionary),
                });
                self.settle();
            }
            Transfer::Sent(number, dictionary) => self.refuse(number, &dictionary),
            sending => self.transfer = sending,
        }
        Ok(())
    }

    /// What is to be said of dictionaries now: pieces only if the link `is_idle`.
    pub(in crate::session) fn next_frame(&mut self, is_idle: bool) -> Option<DictionaryFrame> {
        if let Some(frame) = self.frames.pop_front() {
            return Some(frame);
        }
        if !is_idle {
            return None;
        }
        let Transfer::Sending(number, dictionary, bytes) = &mut self.transfer else {
            return None;
        };
        let number = *number;
        let piece = bytes.split_to(bytes.len().min(PIECE_LEN)).to_vec();
        if !bytes.has_remaining() {
            self.transfer = Transfer::Sent(number, dictionary.clone());
        }
        Some(DictionaryFrame {
            number,
            what: DictionaryNews::Piece(piece),
        })
    }

    /// Whether there is anything to be said, now or once the link is idle.
    pub(in crate::session) fn has_frames(&self) -> bool {
        !self.frames.is_empty() || self.has_pieces()
    }

    /// Whether pieces wait for the link to be idle.
    pub(in crate::session) const fn has_pieces(&self) -> bool {
        matches!(self.transfer, Transfer::Sending(..))
    }

    pub(in crate::session) fn poll_event(&mut self) -> Option<DictionaryEvent> {
        self.events.pop_front()
    }

    /// The classes with what they have learned, for the next session.
    pub(in crate::session) fn trainers(&self) -> impl Iterator<Item = (String, Trainer)> {
        self.classes.iter().map(|class| {
            let mut trainer = class.trainer.clone();
            trainer.forget_job();
            (class.name.clone(), trainer)
        })
    }

    /// The classes with their dictionaries, the newest first.
    pub(in crate::session) fn live(&self) -> impl Iterator<Item = (&str, &Dictionary)> {
        self.classes.iter().flat_map(|class| {
            let dictionaries = class.trainer.dictionaries();
            dictionaries.map(|dictionary| (class.name.as_str(), dictionary))
        })
    }

    pub(in crate::session) fn stats(&self) -> DictionaryStats {
        let own = self.classes.iter().flat_map(|it| it.trainer.dictionaries());
        let recalled = self.recalled.as_ref().map_or(0, RecalledHistories::bytes);
        let trainers = || self.classes.iter().map(|it| it.trainer.stats());
        DictionaryStats {
            checks: trainers().map(|it| it.checks).sum(),
            drifts: trainers().map(|it| it.drifts).sum(),
            memory: own.map(|it| it.len() as u64).sum::<u64>() + recalled as u64,
            ..self.stats
        }
    }
}
