//! History from block to block: which slots carry it, what their contexts hold, and what a context
//! begins with.
//!
//! ```text
//! sender    slots: arm, context, epoch --take--> encode job --give back--> slots
//! receiver  bindings: window, epoch ----take---> decode job --give back--> bindings
//! both      Recents: the last plain bytes of each group's blocks in slots with history, in their order
//! ```
//!
//! A context that begins anew begins with the last bytes of its group, so that what one codec has seen is not
//! lost on the next. A group that no slot with history is left of is forgotten.

mod receive;
mod send;

use bytes::Bytes;

pub(super) use self::receive::{DecodeHistory, HistoryPlace, RecvHistory};
pub(super) use self::send::{EncodeHistory, HistoryAge, SendHistory, SlotUse};
use crate::codecs::{Arm, CodecId, context_memory_estimate};
use crate::wire::MAX_PRIME;

/// What zstd's decoder keeps besides the bytes that a history begins with (`context_memory_estimate`).
const PRIME_TABLES: usize = 27 << 10;
/// Shortest and longest history, binary logarithms of bytes.
pub(super) const WINDOW_LOGS: core::ops::RangeInclusive<u8> = 10..=24;

/// Memory of the context that encodes with `arm`, and of the one that decodes it, with what they begin with.
fn context_memory(arm: Arm, window_log: u8) -> (usize, usize) {
    let (here, there) = context_memory_estimate(arm, window_log);
    match arm.codec {
        CodecId::ZSTD => (here + MAX_PRIME, there + MAX_PRIME + PRIME_TABLES),
        _ => (here, there),
    }
}

/// What a context begins with.
fn prime(dictionary: Option<&Bytes>, recent: &[u8]) -> Vec<u8> {
    let dictionary = dictionary.map_or(&[][..], |content| content.as_ref());
    [dictionary, recent].concat()
}
