//! A row in an event log.

use std::hint::black_box;

use tautline::eventlog::{
    Domain, EventId, EventKind, EventLog, EventLogConfig, Fields, LogId, Recorder, Route,
    RowFormat, Stamp,
};

use crate::pieces::{Named, Piece, over};

pub(crate) const PIECES: &[Named] = &[
    ("eventlog/row", row),
    ("eventlog/off, asked", asked),
    ("eventlog/off, recorded", recorded),
    ("eventlog/off, without a log", without),
];

const EVENT: EventId = EventId::new(0);

/// Of all fields, with the cycles.
fn row() -> Piece {
    let (event, domain) = (EVENT, Domain::new(0));
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

/// A recorder whose event is off.
fn off() -> Recorder {
    let config = EventLogConfig::default()
        .event("piece", EventKind::Access)
        .log("all", 64 << 10, RowFormat::default())
        .writers(1);
    EventLog::new(&config).expect("small").recorder()
}

/// What a point of a leech does that is off, once a piece of its work.
fn asked() -> Piece {
    let log = Some(off());
    over(move || {
        if let Some(log) = black_box(&log) {
            black_box(log.is_on(EVENT));
        }
    })
}

/// What one of a drive's does, with what it would say of a message.
fn recorded() -> Piece {
    point(Some(off()))
}

/// The same where there is no log.
fn without() -> Piece {
    point(None)
}

fn point(log: Option<Recorder>) -> Piece {
    let domain = Domain::new(0);
    over(move || {
        let (counter, intended, after) = (black_box(1), black_box(2), black_box(3_u64));
        if let Some(log) = black_box(&log) {
            let after = after.saturating_sub(intended);
            log.record_with(EVENT, domain, counter, domain, [7, intended, after]);
        }
    })
}
