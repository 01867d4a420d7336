//! What a session does, told to somebody as it does it: for logs and figures, never for decisions.

use core::fmt;
use core::ops::BitOr;
use core::time::Duration;
use std::sync::Arc;

use crate::codecs::{Arm, CodecId};
use crate::control::{BudgetRate, Reason};
use crate::dictionary::{Dictionary, DictionaryId};
use crate::units::BytesPerSec;
use crate::wire::{GroupId, Slot, StreamId};

/// Is told what a session does, in the order and on the thread in which it does it. It should not take long: the session waits.
///
/// What happens to each block and message is told by methods of its own, which all come to [`Self::observe`] unless they are
/// implemented too: by who has no time to put it together and take it apart again.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Something happened just now.
    fn observe(&self, observation: &Observation);

    /// [`Observation::MessagesQueued`].
    #[inline]
    fn messages_queued(&self, messages: MessageRun) {
        self.observe(&Observation::MessagesQueued { messages });
    }

    /// [`Observation::Decided`].
    #[inline]
    fn decided(&self, block: u64, decision: &BlockDecision) {
        let decision = *decision;
        self.observe(&Observation::Decided { block, decision });
    }

    /// [`Observation::MessagesEncoded`].
    #[inline]
    fn messages_encoded(&self, block: u64, messages: MessageRun) {
        self.observe(&Observation::MessagesEncoded { block, messages });
    }

    /// [`Observation::BlockEncoded`], its lengths plain and on the wire.
    #[inline]
    fn block_encoded(&self, block: u64, arm: Arm, lens: (usize, usize), encode: Duration) {
        let (plain_len, wire_len) = lens;
        self.observe(&Observation::BlockEncoded {
            block,
            arm,
            plain_len,
            wire_len,
            encode,
        });
    }

    /// [`Observation::BlocksWritten`].
    #[inline]
    fn blocks_written(&self, first: u64, count: u64) {
        self.observe(&Observation::BlocksWritten { first, count });
    }

    /// [`Observation::BlocksAcknowledged`].
    #[inline]
    fn blocks_acknowledged(&self, first: u64, count: u64) {
        self.observe(&Observation::BlocksAcknowledged { first, count });
    }

    /// [`Observation::BlockReceived`].
    #[inline]
    fn block_received(&self, block: u64, codec: CodecId, body_len: usize) {
        self.observe(&Observation::BlockReceived {
            block,
            codec,
            body_len,
        });
    }

    /// [`Observation::BlockDecoded`].
    #[inline]
    fn block_decoded(&self, block: u64, plain_len: usize, decode: Duration) {
        self.observe(&Observation::BlockDecoded {
            block,
            plain_len,
            decode,
        });
    }

    /// [`Observation::MessagesDecoded`].
    #[inline]
    fn messages_decoded(&self, block: u64, messages: MessageRun) {
        self.observe(&Observation::MessagesDecoded { block, messages });
    }

    /// [`Observation::MessagesTaken`].
    #[inline]
    fn messages_taken(&self, messages: MessageRun) {
        self.observe(&Observation::MessagesTaken { messages });
    }
}

/// How a block is to go out, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockDecision {
    /// Whose messages the block begins with.
    pub stream: StreamId,
    /// What it is to be encoded with.
    pub arm: Arm,
    /// Why.
    pub reason: Reason,
    /// What that is estimated to cost: time until the block has arrived, and what others pay for it, as the policy weighs it. Zero
    /// from policies that do not estimate.
    pub expected: Duration,
    /// Plain bytes that it was expected to have.
    pub plain_len: usize,
    /// Codec time granted to the session; `None` without a limit.
    pub budget: Option<BudgetRate>,
    /// Whether any of it was left.
    pub budget_left: bool,
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

/// Kinds of [`Observation`]s, of which an [`Observer`] may want some only ([`Session::observe_only`](super::Session::observe_only)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observations(u16);

impl Observations {
    /// None.
    pub const NONE: Self = Self(0);
    /// [`Observation::Decided`].
    pub const DECIDED: Self = Self(1);
    /// [`Observation::MessagesEncoded`].
    pub const MESSAGES_ENCODED: Self = Self(1 << 1);
    /// [`Observation::BlockEncoded`].
    pub const BLOCK_ENCODED: Self = Self(1 << 2);
    /// [`Observation::BlocksWritten`].
    pub const BLOCKS_WRITTEN: Self = Self(1 << 3);
    /// [`Observation::BlocksAcknowledged`].
    pub const BLOCKS_ACKNOWLEDGED: Self = Self(1 << 4);
    /// [`Observation::BlockReceived`].
    pub const BLOCK_RECEIVED: Self = Self(1 << 5);
    /// [`Observation::BlockDecoded`].
    pub const BLOCK_DECODED: Self = Self(1 << 6);
    /// [`Observation::MessagesDecoded`].
    pub const MESSAGES_DECODED: Self = Self(1 << 7);
    /// [`Observation::BudgetChanged`].
    pub const BUDGET_CHANGED: Self = Self(1 << 8);
    /// [`Observation::RoundTrip`].
    pub const ROUND_TRIP: Self = Self(1 << 9);
    /// [`Observation::Context`].
    pub const CONTEXT: Self = Self(1 << 10);
    /// [`Observation::Dictionary`].
    pub const DICTIONARY: Self = Self(1 << 11);
    /// [`Observation::MessagesQueued`].
    pub const MESSAGES_QUEUED: Self = Self(1 << 12);
    /// [`Observation::MessagesTaken`].
    pub const MESSAGES_TAKEN: Self = Self(1 << 13);
    /// All of them.
    pub const ALL: Self = Self((1 << 14) - 1);

    /// Whether these have all of `others`.
    #[inline]
    pub const fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Observations {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Something that a session has done. Blocks count from 0 in each direction, over all connections of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// Messages were given to [`Session::send`](super::Session::send) or its like, and wait for a block.
    MessagesQueued {
        /// Which of one stream.
        messages: MessageRun,
    },
    /// It was decided how the next block goes out. A policy that knows one way ([`Reason::Only`]) has nothing to decide.
    Decided {
        /// The block.
        block: u64,
        /// How.
        decision: BlockDecision,
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
    /// A block that a codec has encoded is plain again, and its turn has come.
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
    /// Messages were taken by [`Session::recv`](super::Session::recv) or its like.
    MessagesTaken {
        /// Which of one stream.
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

impl Observation {
    /// Which kind it is of.
    pub const fn kind(&self) -> Observations {
        match self {
            Self::MessagesQueued { .. } => Observations::MESSAGES_QUEUED,
            Self::Decided { .. } => Observations::DECIDED,
            Self::MessagesEncoded { .. } => Observations::MESSAGES_ENCODED,
            Self::BlockEncoded { .. } => Observations::BLOCK_ENCODED,
            Self::BlocksWritten { .. } => Observations::BLOCKS_WRITTEN,
            Self::BlocksAcknowledged { .. } => Observations::BLOCKS_ACKNOWLEDGED,
            Self::BlockReceived { .. } => Observations::BLOCK_RECEIVED,
            Self::BlockDecoded { .. } => Observations::BLOCK_DECODED,
            Self::MessagesDecoded { .. } => Observations::MESSAGES_DECODED,
            Self::MessagesTaken { .. } => Observations::MESSAGES_TAKEN,
            Self::BudgetChanged { .. } => Observations::BUDGET_CHANGED,
            Self::RoundTrip { .. } => Observations::ROUND_TRIP,
            Self::Context { .. } => Observations::CONTEXT,
            Self::Dictionary { .. } => Observations::DICTIONARY,
        }
    }
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

/// Who is told, if anybody is, and of what.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    observer: Option<Arc<dyn Observer>>,
    /// None without an observer.
    wanted: Observations,
}

impl Told {
    pub(super) fn to(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
            wanted: Observations::ALL,
        }
    }

    pub(super) fn only(&mut self, wanted: Observations) {
        if self.observer.is_some() {
            self.wanted = wanted;
        }
    }

    #[inline]
    pub(super) const fn wants(&self, kind: Observations) -> bool {
        self.wanted.contain(kind)
    }

    /// Who is to be told of something of this kind, which is found out only if it is wanted.
    #[inline]
    pub(super) fn of(&self, kind: Observations) -> Option<&dyn Observer> {
        if !self.wants(kind) {
            return None;
        }
        self.observer.as_deref()
    }

    /// Tells something of this kind.
    #[inline]
    pub(super) fn tell(&self, kind: Observations, what: impl FnOnce() -> Observation) {
        if let Some(observer) = self.of(kind) {
            let what = what();
            debug_assert_eq!(what.kind(), kind);
            observer.observe(&what);
        }
    }

    pub(super) fn dictionary(
        &self,
        change: DictionaryChange,
        received: bool,
        number: u64,
        dictionary: Option<&Dictionary>,
    ) {
        self.tell(Observations::DICTIONARY, || Observation::Dictionary {
            change,
            received,
            number,
            id: dictionary.map(Dictionary::id),
            len: dictionary.map_or(0, Dictionary::len),
        });
    }
}
