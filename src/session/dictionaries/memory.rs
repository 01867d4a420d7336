//! What is kept of dictionaries from one session to the next.

use core::time::Duration;

use super::RecalledHistories;
use crate::dictionary::{Dictionary, DictionaryId, Trainer, TrainerConfig};
use crate::units::Time;

/// Dictionaries of a peer that are remembered, the latest ones. Arbitrary: twice what is held at once by
/// default.
const MAX_RECEIVED: usize = 8;

/// What is known of dictionaries for the traffic with one peer: samples and dictionaries of what is sent, for
/// each class of traffic, the dictionaries that came from it, and what connections with it have carried last. [`Session::dictionaries`] gives it out, and the
/// next session with the same peer begins with it ([`SessionConfig::dictionary_memory`]). Nothing of it may
/// go to another trust domain.
///
/// [`Session::dictionaries`]: crate::session::Session::dictionaries
/// [`SessionConfig::dictionary_memory`]: crate::session::SessionConfig::dictionary_memory
#[derive(Clone, Debug, Default)]
pub struct DictionaryMemory {
    pub(super) trainers: Vec<(String, Trainer)>,
    /// The latest last.
    pub(super) received: Vec<Dictionary>,
    /// What connections have carried last, of what is sent and of what is received.
    pub(in crate::session) recalled: [RecalledHistories; 2],
}

impl DictionaryMemory {
    /// Puts in a dictionary for what is sent, made `age` ago of messages of `class`. Without such a class yet,
    /// its trainer gets these settings and this seed.
    pub fn adopt(
        &mut self,
        now: Time,
        class: &str,
        dictionary: Dictionary,
        age: Duration,
        (config, seed): (TrainerConfig, u64),
    ) {
        let at = self.position(class).unwrap_or_else(|| {
            self.trainers
                .push((class.to_owned(), Trainer::new(config, seed)));
            self.trainers.len() - 1
        });
        self.trainers[at].1.adopt(now, dictionary, age);
    }

    /// Puts in a dictionary that came from the peer; of too many, the earliest is forgotten.
    pub fn receive(&mut self, dictionary: Dictionary) {
        self.forget(dictionary.id());
        if self.received.len() == MAX_RECEIVED {
            self.received.remove(0);
        }
        self.received.push(dictionary);
    }

    /// Forgets a dictionary that came from the peer.
    pub fn forget(&mut self, id: DictionaryId) {
        self.received.retain(|known| known.id() != id);
    }

    /// Puts in the classes of a session.
    pub(in crate::session) fn begin(&mut self, trainers: impl Iterator<Item = (String, Trainer)>) {
        self.trainers.extend(trainers);
    }

    /// Takes in what another session with the same peer has learned meanwhile.
    pub fn absorb(&mut self, now: Time, other: Self) {
        for (class, trainer) in other.trainers {
            match self.position(&class) {
                Some(at) => self.trainers[at].1.absorb(now, &trainer),
                None => self.trainers.push((class, trainer)),
            }
        }
        for dictionary in other.received {
            if !self.received.contains(&dictionary) {
                self.receive(dictionary);
            }
        }
        for (known, other) in self.recalled.iter_mut().zip(other.recalled) {
            known.absorb(other);
        }
        self.expire(now);
    }

    /// Forgets what connections have carried, where it is too old.
    pub(crate) fn expire(&mut self, now: Time) {
        self.recalled.iter_mut().for_each(|it| it.expire(now));
    }

    /// Forgets all that connections have carried, unlike what was made of it.
    pub fn forget_histories(&mut self) {
        self.recalled = Default::default();
    }

    #[cfg(test)]
    pub(crate) fn leave_for_test(&mut self, bytes: usize) {
        self.recalled[0].leave(vec![vec![1; bytes].into()], true, [&[], &[]]);
    }

    /// Bytes that connections have carried last and that are kept.
    pub fn history_bytes(&self) -> usize {
        self.recalled.iter().map(RecalledHistories::bytes).sum()
    }

    /// The classes of traffic, each with its dictionaries, the newest first.
    pub fn sent(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &Dictionary>)> {
        let trainers = self.trainers.iter();
        trainers.map(|(class, trainer)| (class.as_str(), trainer.dictionaries()))
    }

    /// The dictionaries that came from the peer, the latest last.
    pub fn received(&self) -> &[Dictionary] {
        &self.received
    }

    fn position(&self, class: &str) -> Option<usize> {
        self.trainers.iter().position(|(known, _)| known == class)
    }
}
