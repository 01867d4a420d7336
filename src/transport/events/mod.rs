//! What the transport records in an [event log](crate::eventlog), and what its rows say.
//!
//! ```
//! use std::time::Duration;
//! use tautline::eventlog::{EventLog, Route};
//! use tautline::transport::{Node, NodeConfig, events};
//!
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let _entered = runtime.enter();
//! // Other processes of this user find it by this process's number.
//! let log = EventLog::shared(&events::config(events::DEFAULT_RING))?;
//! let node = Node::new(NodeConfig::default().guard(None).event_log(log.clone()))?;
//! // Nothing is recorded yet. `tautline top --pid` switches it on from outside, or this does:
//! for event in events::all() {
//!     log.route(event, None, Some(Route::to(events::LOG)))?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rows
//!
//! What concerns one stream is of the *domain* that has the stream's name, and has the connection's as its correspondent; what concerns a
//! connection is of the domain called `to ADDRESS` or `from NAME`; what concerns all is of the domain `node`. Where there are more
//! names than domains, the domain is `others`. A row's `first` has the connection's number in its upper 32 bits: connections count from 0 in a
//! process, each lane of one over QUIC as one. Times are nanoseconds, lengths bytes.
//!
//! One row tells of several messages if those follow one another on their stream and something has happened to all of them together, so
//! that many small messages cost little more than a large one. Messages of a stream, and blocks of a connection, count from 0 in
//! each direction.
//!
//! | event | when | counter | first, lower half | second | third |
//! |---|---|---|---|---|---|
//! | [`MESSAGE_QUEUED`] | the driver has taken messages from their senders | payload | stream | run | how long the first of them had waited for the driver, at most |
//! | [`BLOCK_DECIDED`] | how the next block goes out, where there is a choice | estimated cost, ns | stream it begins with | block | arm, reason << 32, budget << 40, whether any is left << 56 |
//! | [`MESSAGE_ENCODED`] | messages are in a block in the output | payload in this block | stream | run | block |
//! | [`BLOCK_ENCODED`] | .. and the block is | processor time | arm | block | plain length << 32, wire length |
//! | [`BLOCK_WRITTEN`] | the socket has taken blocks | how many | | first block | |
//! | [`BLOCK_ACKED`] | the peer has acknowledged blocks | how many | | first block | |
//! | [`BLOCK_RECEIVED`] | a block was found in the input | body length | codec | block | |
//! | [`BLOCK_DECODED`] | it is plain, and its turn has come, unless it came as it is | time | | block | plain length |
//! | [`MESSAGE_DECODED`] | its messages are whole and in order | payload | stream | run | block |
//! | [`MESSAGE_DELIVERED`] | messages are where `recv` takes them | payload | stream | run | |
//! | [`BUDGET_CHANGED`] | the codec time of a connection, or of the node | ns/s from now on | | ns/s before | |
//! | [`LOAD_MEASURED`] | by the guard | millionths of all processors | | ns/s of budget | |
//! | [`PATH_MEASURED`] | a probe's reply came | smoothed round trip | | shortest of late | rate of the link, bytes/s, or 0 |
//! | [`CONTEXT_BEGUN`], [`CONTEXT_RESET`], [`CONTEXT_EVICTED`] | a history from block to block | 1 | arm | slot, group << 8, whether the peer's << 16 | |
//! | [`CONTEXT_PRIMED`] | it begins with what it has not carried | bytes | arm | the same | |
//! | [`DICTIONARY_TRAINED`], [`DICTIONARY_OFFERED`], [`DICTIONARY_ADOPTED`], [`DICTIONARY_RETIRED`], [`DICTIONARY_REFUSED`] | of either side | length, or 0 | whether the peer's | number | the name's first 8 bytes |
//! | [`WORKER_ENCODED`] | a block, off the executor's thread | processor time | arm | plain length | wait for a thread |
//! | [`WORKER_DECODED`] | the same | time | codec | wire length | wait for a thread |
//! | [`WORKER_SHADOWED`] | a block was tried with other arms | processor time | | plain length | wait for a thread |
//! | [`WORKER_DICTIONARY`] | a dictionary was made, packed or checked | time | | | wait for a thread |
//!
//! A *run* is the first message's number << 20 and how many there are; of a message in several blocks, rows before its last count none. An *arm* is
//! its codec, level << 8, and << 16 whether it has history (1) or a dictionary (2). No limit of a budget is `u64::MAX`, and 65535 in a
//! decision, which has it in thousandths of a processor. [`Event`] reads all this.
//!
//! A node's own rows have connection `u32::MAX`.
//!
//! What happens at once has one time, since to read it takes as long as all else of a row: a block and its messages, encoded; a message alone
//! in its block, decoded; and without a codec, of up to 8 KiB, a block that is decided on and encoded, or received with a message alone in it.
//!
//! A connection looks at what is to be recorded each time that it begins to do something: what is set meanwhile counts from the next time on.

mod recording;
mod row;
#[cfg(test)]
mod tests;

pub(super) use self::recording::{NodeEvents, SessionEvents};
pub use self::row::{Arming, Event, Messages};
pub(super) use crate::eventlog::Moment;
use crate::eventlog::{
    EventId, EventKind, EventLogConfig, Fields, LogId, ReadError, Reader, RowFormat, Stamp,
};

/// Bytes of a log for each thread that is enough for most uses: 8192 rows.
pub const DEFAULT_RING: usize = 512 << 10;

/// Names that there may be of streams and connections together, `node` and `others` among them.
const DOMAINS: usize = 256;
/// Threads that may record at once. Arbitrary: an executor's and some codec workers.
const WRITERS: usize = 32;

/// The log that [`config()`] has.
pub const LOG: LogId = LogId::new(0);

/// What its rows hold, unless that is changed: all there is, 64 bytes.
pub const FORMAT: RowFormat = RowFormat::new(Fields::ALL, Stamp::Cycles);

macro_rules! events {
    ($($number:literal $id:ident $name:literal $kind:ident;)*) => {
        $(
            #[doc = concat!("`", $name, "`: see [Rows](self#rows).")]
            pub const $id: EventId = EventId::new($number);
        )*

        const NAMES: &[(&str, EventKind)] = &[$(($name, EventKind::$kind)),*];
    };
}

events! {
    0 MESSAGE_QUEUED "message.queued" Exit;
    1 BLOCK_DECIDED "block.decided" Gauge;
    2 MESSAGE_ENCODED "message.encoded" Exit;
    3 BLOCK_ENCODED "block.encoded" Exit;
    4 BLOCK_WRITTEN "block.written" Access;
    5 BLOCK_ACKED "block.acked" Access;
    6 BLOCK_RECEIVED "block.received" Exit;
    7 BLOCK_DECODED "block.decoded" Exit;
    8 MESSAGE_DECODED "message.decoded" Exit;
    9 MESSAGE_DELIVERED "message.delivered" Exit;
    10 BUDGET_CHANGED "budget.changed" Gauge;
    11 LOAD_MEASURED "load.measured" Gauge;
    12 PATH_MEASURED "path.measured" Gauge;
    13 CONTEXT_BEGUN "context.begun" Access;
    14 CONTEXT_RESET "context.reset" Access;
    15 CONTEXT_PRIMED "context.primed" Exit;
    16 CONTEXT_EVICTED "context.evicted" Access;
    17 DICTIONARY_TRAINED "dictionary.trained" Gauge;
    18 DICTIONARY_OFFERED "dictionary.offered" Gauge;
    19 DICTIONARY_ADOPTED "dictionary.adopted" Gauge;
    20 DICTIONARY_RETIRED "dictionary.retired" Gauge;
    21 DICTIONARY_REFUSED "dictionary.refused" Gauge;
    22 WORKER_ENCODED "worker.encoded" Exit;
    23 WORKER_DECODED "worker.decoded" Exit;
    24 WORKER_SHADOWED "worker.shadowed" Exit;
    25 WORKER_DICTIONARY "worker.dictionary" Exit;
}

/// How many events there are. An application's own may come after them.
pub const COUNT: usize = NAMES.len();

/// All of them.
pub fn all() -> impl Iterator<Item = EventId> {
    (0..COUNT).map(|number| EventId::new(number as u16))
}

/// Settings of a log area for a node ([`NodeConfig::event_log`](super::NodeConfig::event_log)): its events, one log with rings of `ring` bytes
/// (a power of two), 256 domains, 32 threads. What else it is to hold may be added. It takes 32 times `ring`, and some 100 KiB.
pub fn config(ring: usize) -> EventLogConfig {
    let config = EventLogConfig::default()
        .log("transport", ring, FORMAT)
        .domains(DOMAINS)
        .writers(WRITERS);
    let events = NAMES.iter();
    events.fold(config, |config, (name, kind)| config.event(*name, *kind))
}

/// Whether an area begins with these events, as [`config()`] has them.
///
/// # Errors
///
/// It cannot be read.
pub fn are_in(reader: &mut Reader) -> Result<bool, ReadError> {
    if reader.counts().events < COUNT {
        return Ok(false);
    }
    for (event, (name, _)) in all().zip(NAMES) {
        if reader.event(event)?.0 != *name {
            return Ok(false);
        }
    }
    Ok(true)
}
