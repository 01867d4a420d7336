use core::time::Duration;

use super::*;
use crate::eventlog::{Domain, EventLog, Fields, LogId, Route, Row, RowFormat, Stamp};
use crate::loadgen::intensity::Intensity;

const LOG: LogId = LogId::new(0);

fn own() -> EventLogConfig {
    let format = RowFormat::new(Fields::ALL, Stamp::Cycles);
    EventLogConfig::default()
        .event("own", EventKind::Access)
        .log("all", 1 << 16, format)
        .domains(8)
}

/// A log of which all these events are on.
fn log() -> (EventLog, Events) {
    let log = EventLog::new(&config(own())).unwrap();
    let events = Events::of(&mut log.reader()).unwrap().unwrap();
    for event in events.all() {
        log.route(event, None, Some(Route::to(LOG))).unwrap();
    }
    (log, events)
}

fn rows(log: &EventLog) -> Vec<Row> {
    let mut rows = Vec::new();
    log.reader().pass(&mut rows).unwrap();
    rows
}

#[test]
fn they_are_found_after_others_and_only_if_all_are_there() {
    let (log, events) = log();
    assert_eq!(events.id(Point::Intensity), EventId::new(1));
    assert_eq!(events.point(EventId::new(0)), None);
    let (name, kind) = log.reader().event(events.id(Point::Answered)).unwrap();
    assert_eq!((name.as_str(), kind), ("drive.answered", EventKind::Exit));
    for point in Point::ALL {
        assert_eq!(events.point(events.id(point)), Some(point));
    }

    let without = EventLog::new(&own()).unwrap();
    assert_eq!(Events::of(&mut without.reader()).unwrap(), None);
    // The first of them twice, and the last missing.
    let first = Point::Intensity;
    let twice = own().event(first.name(), first.kind());
    let twice = EventLog::new(&config(twice)).unwrap();
    let found = Events::of(&mut twice.reader()).unwrap().unwrap();
    assert_eq!(found.id(first), EventId::new(2));
    let points = &Point::ALL[..Point::ALL.len() - 1];
    let all_but_one = points.iter().fold(own(), |config, point| {
        config.event(point.name(), point.kind())
    });
    let all_but_one = EventLog::new(&all_but_one).unwrap();
    assert_eq!(Events::of(&mut all_but_one.reader()).unwrap(), None);
}

#[test]
fn every_point_is_read_and_no_other_event() {
    let (log, events) = log();
    let recorder = log.recorder();
    let here = Domain::new(1);
    for point in Point::ALL {
        let words = [7 << 32 | 3, 5000, 600];
        recorder.record_with(events.id(point), here, 400, here, words);
    }
    let found: Vec<_> = rows(&log)
        .iter()
        .map(|row| Event::of(row, events).unwrap())
        .collect();
    let nanos = Duration::from_nanos;
    let message = OfMessage {
        kind: 7,
        stream: 3,
        intended: nanos(5000),
    };
    assert_eq!(
        found[2..],
        [
            Event::Due {
                message,
                late: nanos(600)
            },
            Event::Sent {
                message,
                bytes: 400,
                after: nanos(600)
            },
            Event::Late {
                message,
                bytes: 600
            },
            Event::Unsent {
                kind: 7,
                messages: 400
            },
            Event::Answered {
                message,
                from_intended: nanos(400),
                from_sending: nanos(600)
            },
        ]
    );
    let other = Row {
        event: Some(EventId::new(0)),
        ..rows(&log)[0]
    };
    assert_eq!(Event::of(&other, events), None);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod live {
    use super::*;
    use crate::loadgen::{Leech, LeechConfig, LeechError, Resource};

    fn leech(log: &EventLog, share: f64) -> Leech {
        let config = LeechConfig::new(Resource::Cpu)
            .intensity(Intensity::new(share))
            .length(Duration::from_secs(20));
        Leech::start(config.event_log(log.clone())).unwrap()
    }

    fn sleep(millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }

    #[test]
    fn a_leech_says_what_it_is_to_take_and_what_it_took() {
        let (log, events) = log();
        let leech = leech(&log, 0.2);
        sleep(100);
        leech.set_intensity(Intensity::FULL);
        sleep(100);
        let stats = leech.stop();
        let rows = rows(&log);
        let name = log.reader().domain_name(rows[0].domain.unwrap()).unwrap();
        assert_eq!(name, "leech cpu");
        let mut changes = Vec::new();
        let (mut in_all, mut work, mut times) = (Duration::ZERO, 0, Vec::new());
        for row in &rows {
            match Event::of(row, events).unwrap() {
                Event::Intensity { old, new } => changes.push((old, new)),
                Event::Worked {
                    intensity,
                    processor,
                    wall,
                    operations,
                } => {
                    in_all += processor;
                    work += operations;
                    times.push((intensity, wall));
                }
                other => panic!("{other:?}"),
            }
        }
        let (some, full) = (Intensity::new(0.2), Intensity::FULL);
        assert_eq!(changes, [(Intensity::NONE, some), (some, full)]);
        assert_eq!(work, stats.operations);
        // What it took to find out that there was nothing to do is in no row.
        assert!(in_all <= stats.processor, "{in_all:?} of {stats:?}");
        assert!(in_all > stats.processor / 2, "{in_all:?} of {stats:?}");
        let wall: Duration = times.iter().map(|(_, wall)| *wall).sum();
        assert!(wall <= stats.wall, "{wall:?} of {stats:?}");
        // Of periods of duty, and of one that never sleeps.
        for asked in [some, full] {
            let count = times.iter().filter(|(it, _)| *it == asked).count();
            assert!(count >= 2, "{asked}: {times:?}");
        }
    }

    #[test]
    fn nothing_is_recorded_before_it_is_switched_on_and_nothing_of_that_time_after() {
        let (log, events) = log();
        for event in events.all() {
            log.route(event, None, None).unwrap();
        }
        let leech = leech(&log, 1.0);
        sleep(100);
        assert!(rows(&log).is_empty());
        let worked = events.id(Point::Worked);
        log.route(worked, None, Some(Route::to(LOG))).unwrap();
        let before = leech.stats();
        sleep(50);
        let after = leech.stop();
        let rows = rows(&log);
        assert!(!rows.is_empty());
        let charged: u64 = rows.iter().filter_map(|row| row.counter).sum();
        // Some more than that, of the period in which it was switched on.
        let most = after.since(&before).processor + Duration::from_millis(30);
        assert!(
            Duration::from_nanos(charged) < most,
            "{charged} ns of {most:?}"
        );
    }

    #[test]
    fn a_log_of_other_events_is_refused() {
        let log = EventLog::new(&own()).unwrap();
        let refused = Leech::start(LeechConfig::new(Resource::Cpu).event_log(log));
        assert!(matches!(refused, Err(LeechError::EventLog)), "{refused:?}");
    }
}
