//! What a session does, told to somebody as it does it: for logs and figures, never for decisions.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::codecs::{Arm, CodecId};
use crate::control::{BudgetRate, Reason};
use crate::dictionary::{Dictionary, DictionaryId};
use crate::units::BytesPerSec;
use crate::wire::{GroupId, Slot, StreamId};

/// Is told what a session does, in the order and on the thread in which it does it. It should not take long: the session waits.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Something happened just now.
    fn observe(&self, observation: &Observation);
}

/// Messages of one stream that follow one another. Each direction of a stream counts its own from 0, over all connections of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRun {
    /// The stream.
    pub stream: StreamId,
    /// Number of the first.
    pub first: u64,
    /// How many; none if there is only a part of the first that is not its last.
    pub count: u64,
    /// Their payload, bytes.
    pub bytes: u64,
}

/// Something that a session has done. Blocks count from 0 in each direction, over all connections of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// It was decided how the next block goes out.
    Decided {
        /// The block.
        block: u64,
        /// Whose messages it begins with.
        stream: StreamId,
        /// What it is to be encoded with.
        arm: Arm,
        /// Why.
        reason: Reason,
        /// What that is estimated to cost: time until the block has arrived, and what others pay for it, as the policy weighs it. Zero
        /// from policies that do not estimate.
        expected: Duration,
        /// Plain bytes that it was expected to have.
        plain_len: usize,
        /// Codec time granted to the session; `None` without a limit.
        budget: Option<BudgetRate>,
        /// Whether any of it was left.
        budget_left: bool,
    },
    /// Messages have become part of a block, which is in the output now.
    MessagesEncoded {
        /// The block.
        block: u64,
        /// Which of one stream. Of a message in several blocks, each tells its part of the bytes, and the last one counts it.
        messages: MessageRun,
    },
    /// .. and this is the block, after all its messages.
    BlockEncoded {
        /// The block.
        block: u64,
        /// As it was sent: identity if the arm did not make it smaller.
        arm: Arm,
        /// Its bytes before.
        plain_len: usize,
        /// .. and on the wire, header and checksum with them.
        wire_len: usize,
        /// Processor time of its encoding.
        encode: Duration,
    },
    /// The socket has taken blocks to the last byte.
    BlocksWritten {
        /// The first of them.
        first: u64,
        /// How many.
        count: u64,
    },
    /// The peer has acknowledged blocks: their messages are where its application takes them.
    BlocksAcknowledged {
        /// The first of them.
        first: u64,
        /// How many.
        count: u64,
    },
    /// A whole block was found in the input.
    BlockReceived {
        /// The block.
        block: u64,
        /// What it was encoded with.
        codec: CodecId,
        /// Bytes of its body.
        body_len: usize,
    },
    /// A block is plain again, and its turn has come.
    BlockDecoded {
        /// The block.
        block: u64,
        /// Bytes that it became.
        plain_len: usize,
        /// Time that decoding took.
        decode: Duration,
    },
    /// Messages of a block that was decoded have been put where [`Session::recv`](super::Session::recv) takes them.
    MessagesDecoded {
        /// The block.
        block: u64,
        /// Which of one stream; of a message in several blocks, the last one tells.
        messages: MessageRun,
    },
    /// The codec time granted to the session has changed; `None` is no limit.
    BudgetChanged {
        /// Before.
        old: Option<BudgetRate>,
        /// From now on.
        new: Option<BudgetRate>,
    },
    /// The reply to a probe has come.
    RoundTrip {
        /// Smoothed.
        rtt: Option<Duration>,
        /// The shortest of late.
        rtt_min: Option<Duration>,
        /// Rate of the link, if it is known.
        link_rate: Option<BytesPerSec>,
    },
    /// A history from block to block.
    Context {
        /// What became of it.
        change: ContextChange,
        /// Whether it is of what the peer sends.
        received: bool,
        /// Its slot.
        slot: Slot,
        /// Its group of streams.
        group: GroupId,
        /// The codec and level, of a peer's without its level; `None` if it is gone.
        arm: Option<Arm>,
    },
    /// A dictionary.
    Dictionary {
        /// What became of it.
        change: DictionaryChange,
        /// Whether it is the peer's.
        received: bool,
        /// By which both ends know it on this connection, if they do.
        number: u64,
        /// Its name; `None` where it is not known.
        id: Option<DictionaryId>,
        /// Its length, bytes; 0 where it is not known.
        len: usize,
    },
}

/// What became of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextChange {
    /// There is one from here on.
    Begun,
    /// It begins anew: what it held is gone.
    Reset,
    /// It begins with so many bytes that it has not carried itself: what went out last, or a dictionary.
    Primed {
        /// How many.
        bytes: usize,
    },
    /// It has given way.
    Evicted,
}

/// What became of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryChange {
    /// It was made of messages, and found to be worth it.
    Trained,
    /// It was offered to the peer.
    Offered,
    /// Who is to decode with it holds it: blocks may use it.
    Adopted,
    /// Nothing more is encoded with it.
    Retired,
    /// It was not taken.
    Refused,
}

/// Who is told, if anybody is.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Option<Arc<dyn Observer>>);

impl Told {
    pub(super) fn to(observer: Arc<dyn Observer>) -> Self {
        Self(Some(observer))
    }

    #[inline]
    pub(super) const fn is_anyone(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(super) fn tell(&self, what: impl FnOnce() -> Observation) {
        if let Some(observer) = &self.0 {
            observer.observe(&what());
        }
    }

    pub(super) fn dictionary(
        &self,
        change: DictionaryChange,
        received: bool,
        number: u64,
        dictionary: Option<&Dictionary>,
    ) {
        self.tell(|| Observation::Dictionary {
            change,
            received,
            number,
            id: dictionary.map(Dictionary::id),
            len: dictionary.map_or(0, Dictionary::len),
        });
    }
}
