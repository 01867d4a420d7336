//! What is recorded is read, once, whole, or counted as lost.

#[cfg(all(unix, not(tautline_loom)))]
mod foreign;
#[cfg(tautline_loom)]
mod orders;
#[cfg(not(tautline_loom))]
mod threads;

use super::*;

const ALL: RowFormat = RowFormat::new(Fields::ALL, Stamp::Virtual);
const USED: EventId = EventId::new(0);
const LEFT: EventId = EventId::new(1);
const LOG: LogId = LogId::new(0);

const fn domain(number: u16) -> Domain {
    Domain::new(number)
}

/// Two events, one log, four domains, two writers.
fn config(bytes: usize, format: RowFormat) -> EventLogConfig {
    EventLogConfig::default()
        .event("used", EventKind::Access)
        .event("left", EventKind::Exit)
        .log("all", bytes, format)
        .domains(4)
        .writers(2)
}

fn log(bytes: usize, format: RowFormat) -> EventLog {
    EventLog::new(&config(bytes, format)).expect("small")
}

fn pass(reader: &mut Reader) -> Vec<Row> {
    let mut rows = Vec::new();
    reader.pass(&mut rows).expect("of this process");
    rows
}

fn counters(rows: &[Row]) -> Vec<u64> {
    rows.iter().filter_map(|row| row.counter).collect()
}

#[cfg(not(tautline_loom))]
mod alone {
    use super::*;

    #[test]
    fn a_row_says_all_that_was_recorded() {
        let log = log(1024, ALL);
        let (mut writer, mut reader) = (log.writer("main").expect("free"), log.reader());
        log.route(LEFT, None, Some(Route::to(LOG))).expect("known");
        writer.record(LEFT, domain(3), 77, domain(1));
        writer.record(LEFT, domain(0), u64::MAX, domain(0));
        let rows = pass(&mut reader);
        let first = Row {
            writer: 0,
            log: LOG,
            number: 0,
            event: Some(LEFT),
            domain: Some(domain(3)),
            counter: Some(77),
            correspondent: Some(domain(1)),
            stamp: Some(1),
            first: Some(0),
            second: Some(0),
            third: Some(0),
        };
        assert_eq!(rows[0], first);
        assert_eq!((rows[1].number, rows[1].counter), (1, Some(u64::MAX)));
        assert!(pass(&mut reader).is_empty(), "each is read once");
        assert_eq!(
            reader.event(LEFT).expect("there"),
            ("left".to_owned(), EventKind::Exit)
        );
        assert_eq!(
            reader.log(LOG).expect("there"),
            ("all".to_owned(), 1024, ALL)
        );
        assert_eq!(reader.writer_name(0).expect("there"), "main");
    }

    #[test]
    fn arguments_are_fields_like_others() {
        let formats = [
            ALL,
            RowFormat::new(Fields::ALL, Stamp::Off),
            RowFormat::new(Fields::USUAL | Fields::SECOND, Stamp::Virtual),
            RowFormat::new(Fields::FIRST | Fields::THIRD, Stamp::Off),
            RowFormat::new(Fields::USUAL, Stamp::Virtual),
        ];
        let log = log(1024, ALL);
        let (mut writer, mut reader) = (log.writer("main").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        for format in formats {
            log.set_format(LOG, format).expect("fits");
            writer.record_with(USED, domain(1), 5, domain(2), [7, 8, u64::MAX]);
            let rows = pass(&mut reader);
            let has = |field, value| format.fields().contain(field).then_some(value);
            let arguments = [rows[0].first, rows[0].second, rows[0].third];
            let fields = [
                (Fields::FIRST, 7),
                (Fields::SECOND, 8),
                (Fields::THIRD, u64::MAX),
            ];
            assert_eq!(arguments, fields.map(|(field, value)| has(field, value)));
            assert_eq!(rows[0].counter, has(Fields::COUNTER, 5), "{format:?}");
            assert_eq!(rows[0].stamp.is_some(), format.stamp() != Stamp::Off);
        }
    }

    #[test]
    fn a_row_has_no_more_than_its_fields() {
        let log = log(
            1024,
            RowFormat::new(Fields::COUNTER | Fields::DOMAIN, Stamp::Off),
        );
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        writer.record(USED, domain(2), 5, domain(1));
        let rows = pass(&mut reader);
        assert_eq!(
            (rows[0].domain, rows[0].counter),
            (Some(domain(2)), Some(5))
        );
        assert_eq!(
            (rows[0].event, rows[0].correspondent, rows[0].stamp),
            (None, None, None)
        );
    }

    #[test]
    fn nothing_is_recorded_of_what_has_no_route() {
        let log = log(1024, ALL);
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        writer.record(USED, domain(0), 1, domain(0));
        log.route(USED, Some(domain(1)), Some(Route::to(LOG)))
            .expect("known");
        assert!(writer.is_on(USED) && !writer.is_on(LEFT));
        for number in 0..5 {
            // The last of them is no domain of this log.
            writer.record(USED, domain(number), u64::from(number), domain(0));
            writer.record(EventId::new(9), domain(1), 9, domain(0));
        }
        assert_eq!(counters(&pass(&mut reader)), [1]);
        log.route(USED, Some(domain(1)), None).expect("known");
        assert!(!writer.is_on(USED), "the last route of it is gone");
    }

    #[test]
    fn thresholds_are_of_each_event_and_domain() {
        let log = log(1024, ALL);
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG).every(3)))
            .expect("known");
        log.route(LEFT, None, Some(Route::to(LOG))).expect("known");
        for count in 1..=7 {
            writer.record(USED, domain(0), count, domain(0));
            writer.record(USED, domain(1), 10 * count, domain(0));
        }
        writer.record(LEFT, domain(0), 100, domain(0));
        assert_eq!(counters(&pass(&mut reader)), [3, 30, 6, 60, 100]);
        log.route(USED, Some(domain(1)), Some(Route::to(LOG).every(2)))
            .expect("known");
        writer.record(USED, domain(1), 80, domain(0));
        assert_eq!(
            counters(&pass(&mut reader)),
            [80],
            "one had been passed over"
        );
    }

    #[test]
    fn each_event_and_domain_has_its_log() {
        const SPECIAL: LogId = LogId::new(1);
        const COUNTS: LogId = LogId::new(2);
        let config = config(1024, ALL)
            .log("special", 1024, RowFormat::new(Fields::USUAL, Stamp::Off))
            .log("counts", 64, ALL.counting());
        let log = EventLog::new(&config).expect("small");
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        // All domains' to one, but for a domain of its own, and two that share one.
        for (event, domain, to) in [
            (USED, None, LOG),
            (USED, Some(domain(1)), SPECIAL),
            (USED, Some(domain(2)), COUNTS),
            (USED, Some(domain(3)), COUNTS),
            (LEFT, None, SPECIAL),
        ] {
            log.route(event, domain, Some(Route::to(to)))
                .expect("known");
        }
        for number in 0..4 {
            for count in 1..=3 {
                writer.record(
                    USED,
                    domain(number),
                    10 * u64::from(number) + count,
                    domain(0),
                );
            }
            writer.record(LEFT, domain(number), 100 + u64::from(number), domain(0));
        }
        let rows = pass(&mut reader);
        let of = |log| {
            let rows = rows.iter().filter(move |row: &&Row| row.log == log);
            rows.filter_map(|row| row.counter).collect::<Vec<_>>()
        };
        assert_eq!(of(LOG), [1, 2, 3]);
        assert_eq!(of(SPECIAL), [100, 11, 12, 13, 101, 102, 103]);
        assert_eq!(of(COUNTS), [21 + 22 + 23 + 31 + 32 + 33]);
        assert_eq!(reader.stats().lost, 0);
        // To another while it runs: what each has counted stays with it.
        log.route(USED, Some(domain(3)), Some(Route::to(LOG)))
            .expect("known");
        log.route(USED, Some(domain(1)), None).expect("known");
        writer.record(USED, domain(3), 7, domain(0));
        writer.record(USED, domain(1), 8, domain(0));
        writer.record(USED, domain(2), 1, domain(0));
        let rows: Vec<_> = pass(&mut reader)
            .iter()
            .map(|row| (row.log, row.counter))
            .collect();
        assert_eq!(rows, [(LOG, Some(7)), (COUNTS, Some(163))]);
    }

    #[test]
    fn rows_are_stamped_by_the_clock_that_their_log_has() {
        let log = log(1024, ALL);
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        for (stamp, now) in [
            (Stamp::Tick, stamp::tick as fn() -> u64),
            (Stamp::Cycles, stamp::cycles),
        ] {
            let format = RowFormat::new(Fields::EVENT | Fields::COUNTER, stamp);
            log.set_format(LOG, format).expect("fits");
            let before = now();
            writer.record(USED, domain(0), 1, domain(0));
            while now() == before {}
            writer.record(USED, domain(0), 2, domain(0));
            let after = now();
            let stamps: Vec<_> = pass(&mut reader)
                .iter()
                .filter_map(|row| row.stamp)
                .collect();
            assert_eq!(stamps.len(), 2, "{stamp:?}");
            assert!(
                before <= stamps[0] && stamps[0] < stamps[1] && stamps[1] <= after,
                "{stamp:?}: {before}, {stamps:?}, {after}"
            );
        }
    }

    #[test]
    fn what_stays_within_a_domain_can_be_left_out() {
        let log = log(1024, ALL);
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG).skip_internal()))
            .expect("known");
        writer.record(USED, domain(1), 1, domain(1));
        writer.record(USED, domain(1), 2, domain(2));
        assert_eq!(counters(&pass(&mut reader)), [2]);
    }

    #[test]
    fn a_log_that_counts_has_one_row() {
        let log = log(64, ALL.counting());
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        assert!(pass(&mut reader).is_empty());
        for count in 1..=10 {
            writer.record(USED, domain(1), count, domain(2));
        }
        let rows = pass(&mut reader);
        assert_eq!(
            (rows.len(), rows[0].counter, rows[0].number),
            (1, Some(55), 9)
        );
        assert_eq!(rows[0].stamp, Some(10));
        assert!(pass(&mut reader).is_empty(), "nothing new");
        writer.record(USED, domain(1), 5, domain(2));
        assert_eq!(counters(&pass(&mut reader)), [60]);
        assert_eq!(reader.stats().lost, 0);
    }

    #[test]
    fn the_oldest_are_overwritten_and_counted() {
        // 8 rows of 64 bytes, of which one may be being written.
        let log = log(512, ALL);
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        for count in 0..20 {
            writer.record(USED, domain(0), count, domain(0));
        }
        assert_eq!(counters(&pass(&mut reader)), (13..20).collect::<Vec<_>>());
        assert_eq!(reader.stats().lost, 13);
        // Who begins to read now has lost nothing of what was gone before.
        let mut late = log.reader();
        assert_eq!(pass(&mut late).len(), 7);
        assert_eq!(late.stats().lost, 0);
    }

    #[test]
    fn formats_change_while_it_runs_and_nothing_is_miscounted() {
        let log = log(512, ALL);
        let (mut writer, mut reader) = (log.writer("").expect("free"), log.reader());
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        let formats = [
            ALL,
            RowFormat::new(Fields::COUNTER, Stamp::Off),
            RowFormat::new(Fields::COUNTER, Stamp::Off).counting(),
            RowFormat::default(),
            RowFormat::new(Fields::COUNTER | Fields::EVENT, Stamp::Off),
        ];
        let mut written = 0;
        for round in 0..200_u64 {
            let format = formats[(round % 5) as usize];
            log.set_format(LOG, format).expect("fits");
            for _ in 0..round % 7 {
                writer.record(USED, domain(0), 1, domain(0));
                written += 1;
            }
            if round % 3 == 0 {
                for row in pass(&mut reader) {
                    // One, or the sum of as many as it stands for.
                    let sums = [Some(1), Some(row.number + 1)];
                    assert!(sums.contains(&row.counter), "{row:?}");
                }
            }
        }
        pass(&mut reader);
        let stats = reader.stats();
        assert_eq!(
            stats.rows + stats.summed + stats.bare + stats.lost,
            written,
            "{stats:?}"
        );
        assert!(
            stats.rows.min(stats.lost).min(stats.bare).min(stats.summed) > 20,
            "{stats:?}"
        );
    }

    #[test]
    fn a_name_has_one_domain() {
        let log = log(1024, ALL);
        log.name_domain(domain(1), "known").expect("there");
        let named = |name| log.domain_named(name).map(Domain::index);
        assert_eq!(
            [named("a"), named("known"), named("a")],
            [Some(0), Some(1), Some(0)]
        );
        assert_eq!(
            [named("b"), named("c"), named("d")],
            [Some(2), Some(3), None]
        );
        assert_eq!(log.reader().domain_name(domain(3)).expect("there"), "c");
    }

    #[test]
    fn a_part_that_is_left_is_the_next_ones() {
        let log = log(1024, ALL);
        let mut reader = log.reader();
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        for round in 0..10 {
            let mut writer = log.writer("one of many").expect("free again");
            writer.record(USED, domain(0), round, domain(0));
        }
        let rows = pass(&mut reader);
        assert_eq!(counters(&rows), (0..10).collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row.writer == 0));
        let all = [log.writer("a"), log.writer("b"), log.writer("c")];
        assert_eq!(all.iter().flatten().count(), 2);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let format = RowFormat::new(Fields::ALL, Stamp::Cycles);
        assert!(matches!(
            EventLog::new(&config(64, format)),
            Err(EventLogError::RowLen { .. })
        ));
        assert!(matches!(
            EventLog::new(&config(0, format)),
            Err(EventLogError::RingLen { .. })
        ));
        assert!(matches!(
            EventLog::new(&config(100, format)),
            Err(EventLogError::RingLen { .. })
        ));
        let none = EventLogConfig::default();
        assert!(matches!(
            EventLog::new(&none),
            Err(EventLogError::Count { what: "events", .. })
        ));
        let log = log(64, RowFormat::new(Fields::COUNTER, Stamp::Off));
        assert!(log.set_format(LOG, format).is_err());
        let nowhere = Some(Route::to(LogId::new(1)));
        assert!(matches!(
            log.route(USED, None, nowhere),
            Err(EventLogError::Unknown { what: "log", .. })
        ));
        assert!(log.route(EventId::new(2), None, None).is_err());
        assert!(log.route(USED, Some(domain(4)), None).is_err());
    }
}
