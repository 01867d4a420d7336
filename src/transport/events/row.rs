//! What the words of a row say.

use core::time::Duration;

use super::{
    BLOCK_ACKED, BLOCK_DECIDED, BLOCK_DECODED, BLOCK_ENCODED, BLOCK_RECEIVED, BLOCK_WRITTEN,
    BUDGET_CHANGED, CONTEXT_BEGUN, CONTEXT_EVICTED, CONTEXT_PRIMED, CONTEXT_RESET,
    DICTIONARY_ADOPTED, DICTIONARY_OFFERED, DICTIONARY_REFUSED, DICTIONARY_RETIRED,
    DICTIONARY_TRAINED, LOAD_MEASURED, MESSAGE_DECODED, MESSAGE_DELIVERED, MESSAGE_ENCODED,
    MESSAGE_QUEUED, PATH_MEASURED, WORKER_DECODED, WORKER_DICTIONARY, WORKER_ENCODED,
    WORKER_SHADOWED,
};
use crate::codecs::{Arm, CodecId, Level};
use crate::control::{BudgetRate, Reason};
use crate::eventlog::Row;
use crate::session::{ContextChange, DictionaryChange, MessageRun};

/// Bits of a run that say how many messages there are.
const COUNT_BITS: u32 = 20;
pub(super) const MOST_IN_RUN: u64 = (1 << COUNT_BITS) - 1;
/// The connection of what is the node's.
pub(super) const NODE: u32 = u32::MAX;
const NO_LIMIT: u64 = u64::MAX;
const NO_LIMIT_PERMILLE: u64 = 0xffff;

/// Messages of a stream that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Number of the connection.
    pub connection: u32,
    /// .. and of the stream on it.
    pub stream: u32,
    /// Number of the first.
    pub first: u64,
    /// How many; 0 for a part of the first that is not its last.
    pub count: u64,
    /// Their payload, or what of it this is about.
    pub bytes: u64,
}

/// How a block was to go out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arming {
    /// With what.
    pub arm: Arm,
    /// Why.
    pub reason: Option<Reason>,
    /// What that was estimated to cost; see [`Observation::Decided`](crate::session::Observation::Decided).
    pub expected: Duration,
    /// Codec time that the connection had, in thousandths of a processor; `None` without a limit.
    pub budget_permille: Option<u16>,
    /// Whether any of it was left.
    pub budget_left: bool,
}

/// What a row of the transport's says.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the module's table")]
pub enum Event {
    /// [`MESSAGE_QUEUED`].
    Queued {
        messages: Messages,
        waited: Duration,
    },
    /// [`BLOCK_DECIDED`].
    Decided {
        connection: u32,
        stream: u32,
        block: u64,
        arming: Arming,
    },
    /// [`MESSAGE_ENCODED`].
    Encoded { messages: Messages, block: u64 },
    /// [`BLOCK_ENCODED`].
    BlockEncoded {
        connection: u32,
        block: u64,
        arm: Arm,
        plain_len: u32,
        wire_len: u32,
        encode: Duration,
    },
    /// [`BLOCK_WRITTEN`].
    Written {
        connection: u32,
        first: u64,
        count: u64,
    },
    /// [`BLOCK_ACKED`].
    Acked {
        connection: u32,
        first: u64,
        count: u64,
    },
    /// [`BLOCK_RECEIVED`].
    Received {
        connection: u32,
        block: u64,
        codec: CodecId,
        body_len: u64,
    },
    /// [`BLOCK_DECODED`].
    BlockDecoded {
        connection: u32,
        block: u64,
        plain_len: u64,
        decode: Duration,
    },
    /// [`MESSAGE_DECODED`].
    Decoded { messages: Messages, block: u64 },
    /// [`MESSAGE_DELIVERED`].
    Delivered { messages: Messages },
    /// [`BUDGET_CHANGED`]; of the node without a connection.
    Budget {
        connection: Option<u32>,
        old: Option<BudgetRate>,
        new: Option<BudgetRate>,
    },
    /// [`LOAD_MEASURED`]: the load from 0 to 1.
    Load {
        load: f64,
        budget: Option<BudgetRate>,
    },
    /// [`PATH_MEASURED`]; the rate in bytes a second.
    Path {
        connection: u32,
        rtt: Option<Duration>,
        rtt_min: Option<Duration>,
        link_rate: Option<u64>,
    },
    /// [`CONTEXT_BEGUN`] and its like.
    Context {
        connection: u32,
        change: ContextChange,
        received: bool,
        slot: u8,
        group: u8,
        arm: Arm,
    },
    /// [`DICTIONARY_TRAINED`] and its like.
    Dictionary {
        connection: u32,
        change: DictionaryChange,
        received: bool,
        number: u64,
        len: u64,
        prefix: u64,
    },
    /// [`WORKER_ENCODED`] and its like.
    Worker { time: Duration, waited: Duration },
}

pub(super) const fn of_connection(connection: u32, rest: u32) -> u64 {
    (connection as u64) << 32 | rest as u64
}

pub(super) const fn arm_code(arm: Arm) -> u32 {
    let past = (arm.history as u32) | (arm.dictionary as u32) << 1;
    arm.codec.to_wire() as u32 | (arm.level.0.to_ne_bytes()[0] as u32) << 8 | past << 16
}

const fn arm_of(code: u64) -> Arm {
    Arm {
        codec: CodecId::from_wire(code as u8),
        level: Level(i8::from_ne_bytes([(code >> 8) as u8])),
        history: code >> 16 & 1 == 1,
        dictionary: code >> 17 & 1 == 1,
    }
}

pub(super) const fn run_code(run: &MessageRun) -> u64 {
    let count = if run.count < MOST_IN_RUN {
        run.count
    } else {
        MOST_IN_RUN
    };
    run.first << COUNT_BITS | count
}

pub(super) fn rate_code(rate: Option<BudgetRate>) -> u64 {
    rate.map_or(NO_LIMIT, BudgetRate::as_nanos_per_sec)
}

fn rate_of(code: u64) -> Option<BudgetRate> {
    (code != NO_LIMIT).then(|| BudgetRate::from_nanos_per_sec(code))
}

pub(super) fn decision_code(
    arm: Arm,
    reason: Reason,
    budget: Option<BudgetRate>,
    budget_left: bool,
) -> u64 {
    let reason = Reason::ALL.iter().position(|known| *known == reason);
    let reason = reason.unwrap_or(0xff) as u64;
    let budget = budget.map_or(NO_LIMIT_PERMILLE, |rate| {
        (rate.as_nanos_per_sec() / 1_000_000).min(NO_LIMIT_PERMILLE - 1)
    });
    u64::from(arm_code(arm)) | reason << 32 | budget << 40 | u64::from(budget_left) << 56
}

fn arming_of(third: u64, expected: u64) -> Arming {
    let budget = third >> 40 & 0xffff;
    Arming {
        arm: arm_of(third & 0xffff_ffff),
        reason: Reason::ALL.get((third >> 32 & 0xff) as usize).copied(),
        expected: Duration::from_nanos(expected),
        budget_permille: (budget != NO_LIMIT_PERMILLE).then_some(budget as u16),
        budget_left: third >> 56 & 1 == 1,
    }
}

fn known_nanos(nanos: u64) -> Option<Duration> {
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

impl Event {
    /// What a row says; `None` if it is no event of the transport's, or lacks a field.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each event, of a few lines"
    )]
    pub fn of(row: &Row) -> Option<Self> {
        let event = row.event?;
        let (counter, first) = (row.counter?, row.first?);
        let (second, third) = (row.second?, row.third?);
        let connection = (first >> 32) as u32;
        let rest = first & 0xffff_ffff;
        let nanos = Duration::from_nanos(counter);
        let waited = Duration::from_nanos(third);
        let messages = Messages {
            connection,
            stream: rest as u32,
            first: second >> COUNT_BITS,
            count: second & MOST_IN_RUN,
            bytes: counter,
        };
        let context = |change| Self::Context {
            connection,
            change,
            received: second >> 16 & 1 == 1,
            slot: second as u8,
            group: (second >> 8) as u8,
            arm: arm_of(rest),
        };
        let dictionary = |change| Self::Dictionary {
            connection,
            change,
            received: rest & 1 == 1,
            number: second,
            len: counter,
            prefix: third,
        };
        Some(match event {
            MESSAGE_QUEUED => Self::Queued { messages, waited },
            BLOCK_DECIDED => Self::Decided {
                connection,
                stream: rest as u32,
                block: second,
                arming: arming_of(third, counter),
            },
            MESSAGE_ENCODED => Self::Encoded {
                messages,
                block: third,
            },
            BLOCK_ENCODED => Self::BlockEncoded {
                connection,
                block: second,
                arm: arm_of(rest),
                plain_len: (third >> 32) as u32,
                wire_len: third as u32,
                encode: nanos,
            },
            BLOCK_WRITTEN => Self::Written {
                connection,
                first: second,
                count: counter,
            },
            BLOCK_ACKED => Self::Acked {
                connection,
                first: second,
                count: counter,
            },
            BLOCK_RECEIVED => Self::Received {
                connection,
                block: second,
                codec: CodecId::from_wire(rest as u8),
                body_len: counter,
            },
            BLOCK_DECODED => Self::BlockDecoded {
                connection,
                block: second,
                plain_len: third,
                decode: nanos,
            },
            MESSAGE_DECODED => Self::Decoded {
                messages,
                block: third,
            },
            MESSAGE_DELIVERED => Self::Delivered { messages },
            BUDGET_CHANGED => Self::Budget {
                connection: (connection != NODE).then_some(connection),
                old: rate_of(second),
                new: rate_of(counter),
            },
            LOAD_MEASURED => Self::Load {
                load: counter as f64 * 1e-6,
                budget: rate_of(second),
            },
            PATH_MEASURED => Self::Path {
                connection,
                rtt: known_nanos(counter),
                rtt_min: known_nanos(second),
                link_rate: (third > 0).then_some(third),
            },
            CONTEXT_BEGUN => context(ContextChange::Begun),
            CONTEXT_RESET => context(ContextChange::Reset),
            CONTEXT_PRIMED => context(ContextChange::Primed {
                bytes: usize::try_from(counter).unwrap_or(usize::MAX),
            }),
            CONTEXT_EVICTED => context(ContextChange::Evicted),
            DICTIONARY_TRAINED => dictionary(DictionaryChange::Trained),
            DICTIONARY_OFFERED => dictionary(DictionaryChange::Offered),
            DICTIONARY_ADOPTED => dictionary(DictionaryChange::Adopted),
            DICTIONARY_RETIRED => dictionary(DictionaryChange::Retired),
            DICTIONARY_REFUSED => dictionary(DictionaryChange::Refused),
            WORKER_ENCODED | WORKER_DECODED | WORKER_SHADOWED | WORKER_DICTIONARY => Self::Worker {
                time: nanos,
                waited,
            },
            _ => return None,
        })
    }
}
