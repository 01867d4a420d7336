//! A row in an event log.

use std::hint::black_box;

use tautline::eventlog::{
    Domain, EventId, EventKind, EventLog, EventLogConfig, Fields, LogId, Route, RowFormat, Stamp,
};

use crate::pieces::{Named, Piece, over};

pub(crate) const PIECES: &[Named] = &[("eventlog/row", row)];

/// Of all fields, with the cycles.
fn row() -> Piece {
    let (event, domain) = (EventId::new(0), Domain::new(0));
    let format = RowFormat::new(Fields::ALL, Stamp::Cycles);
    let config = EventLogConfig::default()
        .event("piece", EventKind::Access)
        .log("all", 64 << 10, format)
        .writers(1);
    let log = EventLog::new(&config).expect("small");
    log.route(event, None, Some(Route::to(LogId::new(0))))
        .expect("known");
    let mut writer = log.writer("pieces").expect("free");
    over(move || writer.record(event, domain, black_box(1), domain))
}
