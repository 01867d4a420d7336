use core::time::Duration;

use super::row::{arm_code, decision_code, of_connection, run_code};
use super::*;
use crate::codecs::{Arm, CodecId};
use crate::control::{BudgetRate, Reason};
use crate::eventlog::{Domain, EventLog, Route, Row};
use crate::session::MessageRun;
use crate::wire::StreamId;

/// What a row says that was made of these words.
fn read(event: EventId, counter: u64, arguments: [u64; 3]) -> Option<Event> {
    let log = EventLog::new(&config(4096)).expect("small");
    let mut reader = log.reader();
    log.route(event, None, Some(Route::to(LOG))).expect("known");
    let here = Domain::new(1);
    log.recorder()
        .record_with(event, here, counter, here, arguments);
    let mut rows = Vec::new();
    reader.pass(&mut rows).expect("of this process");
    Event::of(&rows[0])
}

#[test]
fn runs_of_messages_are_read_back() {
    let run = MessageRun {
        stream: StreamId::new(StreamId::MAX).expect("it may be"),
        first: (1 << 43) + 7,
        count: (1 << 19) + 1,
        bytes: u64::MAX,
    };
    let first = of_connection(u32::MAX - 1, run.stream.get());
    let read = read(MESSAGE_ENCODED, run.bytes, [first, run_code(&run), 99]);
    let messages = Messages {
        connection: u32::MAX - 1,
        stream: StreamId::MAX,
        first: run.first,
        count: run.count,
        bytes: run.bytes,
    };
    assert_eq!(
        read,
        Some(Event::Encoded {
            messages,
            block: 99
        })
    );
}

#[test]
fn decisions_are_read_back() {
    let arms = [
        Arm::IDENTITY,
        Arm::new(CodecId::ZSTD, -5).with_history(),
        Arm::new(CodecId::LZ4, 3).with_dictionary(),
    ];
    let budgets = [None, Some(0), Some(250_000_000), Some(u64::MAX - 1)];
    let reasons = [Reason::Only, Reason::Budget, Reason::Sensitive];
    for (arm, (budget, reason)) in arms.iter().flat_map(|arm| {
        let choices = budgets.iter().zip(reasons.iter().cycle());
        choices.map(move |choice| (*arm, choice))
    }) {
        let rate = budget.map(BudgetRate::from_nanos_per_sec);
        let third = decision_code(arm, *reason, rate, true);
        let read = read(BLOCK_DECIDED, 1234, [of_connection(5, 8), 77, third]);
        let arming = Arming {
            arm,
            reason: Some(*reason),
            expected: Duration::from_nanos(1234),
            budget_permille: budget.map(|rate| (rate / 1_000_000).min(65534) as u16),
            budget_left: true,
        };
        let decided = Event::Decided {
            connection: 5,
            stream: 8,
            block: 77,
            arming,
        };
        assert_eq!(read, Some(decided));
    }
}

#[test]
fn every_event_is_read_and_no_other() {
    for event in all() {
        assert!(read(event, 1, [0; 3]).is_some(), "{event:?}");
    }
    let other = Row {
        event: Some(EventId::new(COUNT as u16)),
        ..row_without_event()
    };
    assert_eq!(Event::of(&other), None);
    assert_eq!(Event::of(&row_without_event()), None);
}

fn row_without_event() -> Row {
    let log = EventLog::new(&config(4096)).expect("small");
    let mut reader = log.reader();
    let counters = RowFormat::new(Fields::COUNTER, Stamp::Off);
    log.set_format(LOG, counters).expect("fits");
    log.route(MESSAGE_QUEUED, None, Some(Route::to(LOG)))
        .expect("known");
    let here = Domain::new(0);
    log.recorder().record(MESSAGE_QUEUED, here, 1, here);
    let mut rows = Vec::new();
    reader.pass(&mut rows).expect("of this process");
    rows[0]
}

#[test]
fn a_log_of_other_events_is_told_apart() {
    let ours = EventLog::new(&config(4096)).expect("small");
    assert!(are_in(&mut ours.reader()).expect("of this process"));
    let more = config(4096).event("own", EventKind::Access);
    let more = EventLog::new(&more).expect("small");
    assert!(are_in(&mut more.reader()).expect("of this process"));
    let other = EventLogConfig::default()
        .event("own", EventKind::Access)
        .log("all", 4096, FORMAT);
    let other = EventLog::new(&other).expect("small");
    assert!(!are_in(&mut other.reader()).expect("of this process"));
    assert!(NodeEvents::new(other).is_none());
    assert_eq!(arm_code(Arm::IDENTITY), 0);
}
