//! Dictionaries of a session: which there are for what it sends, which it holds for what it receives, and
//! how they get from one end to the other (docs/wire.md, "Dictionaries").
//!
//! ```text
//! sender    messages -> trainer -> pack -> offer -------------> receiver
//!                                          answer <------------  held, wanted or refused
//!                                          pieces ------------->  unpack, check the hash
//!           a slot is defined with it, and blocks go <--- answer
//! ```
//!
//! What the receiver holds from before it says in its hello, so that the first block may use it.

mod classes;
mod exchange;
mod job;
mod memory;
mod recalled;
mod receive;
mod send;

use self::classes::TrafficClasses;
pub use self::job::{DictionaryJob, DictionaryWork};
pub use self::memory::DictionaryMemory;
pub(super) use self::recalled::RecalledHistories;
pub(super) use self::receive::RecvDictionaries;
pub(super) use self::send::{DictionaryUse, FIRST_DICTIONARY_SLOT, SendDictionaries};
use crate::dictionary::{Acceptance, AcceptancePolicy, TrainerConfig};

/// Something about dictionaries that outlasts the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryEvent {
    /// One was made of what is sent on streams of a class.
    Trained {
        /// The class.
        class: String,
        /// The dictionary.
        dictionary: crate::dictionary::Dictionary,
    },
    /// One came from the peer, for what it sends.
    Received(crate::dictionary::Dictionary),
    /// The peer encodes nothing more with this one.
    Forgotten(crate::dictionary::DictionaryId),
}

/// What a session has done with dictionaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DictionaryStats {
    /// Trainings.
    pub trainings: u64,
    /// Dictionaries that those gave and that were worth it.
    pub trained: u64,
    /// Times that a dictionary was tried on messages of late, since none went with it alone.
    pub checks: u64,
    /// Times that messages were found to have changed.
    pub drifts: u64,
    /// Dictionaries that the peer held from before.
    pub warm: u64,
    /// Whether histories of what is sent may begin with what a connection before has carried last: 1 if both ends have it.
    pub recalled: u64,
    /// Dictionaries offered to the peer.
    pub offered: u64,
    /// Of those, how many it holds.
    pub accepted: u64,
    /// Dictionaries that the peer refused or has no room for: messages go without.
    pub refused: u64,
    /// Dictionaries that are no longer used for what is sent.
    pub retired: u64,
    /// Blocks sent that were encoded with one.
    pub blocks_sent: u64,
    /// Dictionaries that came from the peer.
    pub received: u64,
    /// Dictionaries of the peer that no codec here can use, which it was told.
    pub rejected: u64,
    /// Bytes of dictionaries held, for what is sent and what is received, and of what connections before have carried last.
    pub memory: u64,
}

/// Settings about dictionaries.
#[derive(Clone, Debug)]
pub(super) struct DictionaryConfig {
    pub(super) acceptance: AcceptancePolicy,
    pub(super) authenticated: bool,
    /// Whether histories may begin with what connections before have carried.
    pub(super) recalls: bool,
    pub(super) trainer: Option<TrainerConfig>,
    pub(super) classes: TrafficClasses,
    pub(super) memory: Option<Box<DictionaryMemory>>,
}

impl Default for DictionaryConfig {
    fn default() -> Self {
        Self {
            acceptance: AcceptancePolicy::default(),
            authenticated: false,
            recalls: true,
            trainer: Some(TrainerConfig::default()),
            classes: TrafficClasses::default(),
            memory: None,
        }
    }
}

impl DictionaryConfig {
    /// Whether this side takes dictionaries of its peer.
    pub(super) const fn accepts(&self) -> bool {
        self.acceptance.max_held > 0
            && self.acceptance.max_len >= crate::dictionary::MIN_DICTIONARY_LEN
            && match self.acceptance.from {
                Acceptance::Always => true,
                Acceptance::Authenticated => self.authenticated,
                Acceptance::Never => false,
            }
    }

    /// Whether what connections carry is kept for the next with the same peer: only from and to those whose
    /// dictionaries are taken.
    pub(super) const fn recalls(&self) -> bool {
        self.recalls && self.accepts()
    }

    /// Whether it sends or takes any.
    pub(super) const fn takes_part(&self) -> bool {
        self.trainer.is_some() || self.accepts()
    }
}
