//! Event log: who used what, when, at a few nanoseconds an event.
//!
//! A service, and this crate's own transport, says at well-known points what happens: an *event* of an *accounting domain* (those whose
//! events are counted together), with a counter and, where two are concerned, the other's domain. Control decides, while it all runs,
//! which events become rows of which log, and what rows hold. Where an event is not wanted, the point costs a load and a branch.
//!
//! ```
//! use tautline::eventlog::{
//!     Domain, EventId, EventKind, EventLog, EventLogConfig, Fields, LogId, Route, RowFormat, Stamp,
//! };
//!
//! const HIT: EventId = EventId::new(0);
//! let rows = RowFormat::new(Fields::DOMAIN | Fields::COUNTER, Stamp::Cycles);
//! let config = EventLogConfig::default()
//!     .event("cache.hit", EventKind::Access)
//!     .log("all", 4096, rows)
//!     .domains(2);
//! let log = EventLog::new(&config)?;
//! let mut reader = log.reader();
//!
//! let recorder = log.recorder();
//! recorder.record(HIT, Domain::new(1), 1, Domain::new(0)); // nothing is recorded yet
//! log.route(HIT, None, Some(Route::to(LogId::new(0))))?;
//! recorder.record(HIT, Domain::new(1), 1, Domain::new(0));
//!
//! let mut found = Vec::new();
//! reader.pass(&mut found)?;
//! assert_eq!(found.len(), 1);
//! assert_eq!((found[0].domain, found[0].counter), (Some(Domain::new(1)), Some(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The way of an event
//!
//! ```text
//! point --switch of the event--> route of (event, domain) --threshold, filter--> ring of (thread, log) ~~> Reader
//!              ^                          ^                                            ^
//!              +------------- control: EventLog, also of another process -------------+ format of rows
//! ```
//!
//! * **Logs are in memory, cyclic, of fixed rows, and each thread has its own**, so that producers share nothing that any of them writes. The
//!   oldest rows are overwritten; nobody waits for anybody.
//! * **Rows** hold what the log's [`RowFormat`] says, each field 8 bytes, padded to a power of two. An event may have three arguments of its own.
//! * **To keep the flood down**, a log may count instead (one row, counters added up), a route may let every *n*-th event of each
//!   domain pass, and events within one domain may be left out.
//! * **Entries and exits** of something that one domain at a time uses are brought together by [`Phases`]: who leaves is charged what was used meanwhile.
//! * **[`Accounts`]** say what rows come to by event and domain: accesses counted, phases charged, samples of gauges not added up.
//! * **[`Reader`]s** never stop producers. What is overwritten while it is read is not handed out: rows are whole, and those lost are
//!   counted exactly.
//! * **Other processes** read an area by the process's number ([`EventLog::shared`], [`attach`]) or by its file ([`EventLog::create`], [`open`]), which may
//!   be damaged or hostile; by the number they also say what is recorded, for good ([`control()`]) or while they look on ([`visit()`]).
//!
//! Source: J. Stöß, *Using operating system instrumentation and event logging to support user-level multiprocessor schedulers* (2005),
//! chapters 3 to 5. Other than there, an index counts all rows ever written, so that a round is told from none and times are not needed
//! to tell new rows from old; and a pass that was overtaken keeps the rows that were not overwritten.

mod accounts;
mod area;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(all(test, tautline_loom))
))]
mod control;
mod error;
mod format;
mod log;
#[cfg(all(unix, not(all(test, tautline_loom))))]
mod mapped;
mod phases;
#[cfg(feature = "transport")]
mod prepared;
mod reader;
mod recorder;
mod shape;
mod stamp;
mod sync;
#[cfg(test)]
mod tests;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(all(test, tautline_loom))
))]
mod visit;
mod writer;

pub use self::accounts::{Account, Accounts};
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(all(test, tautline_loom))
))]
pub use self::control::Control;
pub use self::error::{EventLogError, ReadError, SetError};
pub use self::format::{Domain, EventId, EventKind, Fields, LogId, Route, RowFormat, Stamp};
pub use self::log::{EventLog, EventLogConfig};
#[cfg(all(unix, not(all(test, tautline_loom))))]
pub use self::mapped::open;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(all(test, tautline_loom))
))]
pub use self::mapped::{attach, control, visit};
pub use self::phases::{Charge, Phases, Step};
#[cfg(feature = "transport")]
pub(crate) use self::prepared::Prepared;
pub use self::reader::{Counts, ReadStats, Reader, Row};
pub use self::recorder::Recorder;
#[cfg(feature = "transport")]
pub(crate) use self::stamp::Moment;
pub use self::stamp::Timebase;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(all(test, tautline_loom))
))]
pub use self::visit::Visit;
#[cfg(feature = "transport")]
pub(crate) use self::writer::Heading;
pub use self::writer::Writer;
