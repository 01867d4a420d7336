use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// Rows each of whose words says what the others are.
fn write(writer: &mut Writer, number: u64) {
    let id = (number % 4) as u16;
    writer.record_with(USED, domain(id), number, domain(3 - id), [number; 3]);
}

/// The stamp is the row's number, from 1 on, where it is no time.
fn is_whole(row: &Row, format: RowFormat) -> bool {
    let id = (row.number % 4) as u16;
    row.counter == Some(row.number)
        && [row.first, row.second, row.third] == [Some(row.number); 3]
        && row.domain == Some(domain(id))
        && row.correspondent == Some(domain(3 - id))
        && (format.stamp() != Stamp::Virtual || row.stamp == Some(row.number + 1))
}

/// Continuous production, read at once: in each ring, every row is whole, in order, and read once or counted as lost.
fn read_under_production(bytes: usize, format: RowFormat, passes: usize) {
    let log = log(bytes, format);
    log.route(USED, None, Some(Route::to(LOG))).expect("known");
    let done = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let mut reader = log.reader();
        let producers = [0, 1].map(|_| {
            let mut writer = log.writer("producer").expect("free");
            let done = &done;
            scope.spawn(move || {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    write(&mut writer, number);
                    number += 1;
                }
                number
            })
        });
        let (mut rows, mut next) = (Vec::new(), [0; 2]);
        let mut count = 0;
        while count < passes || reader.stats().rows == 0 {
            count += 1;
            rows.clear();
            reader.pass(&mut rows).expect("of this process");
            for row in &rows {
                assert!(is_whole(row, format), "{row:?}");
                assert!(row.number >= next[row.writer], "{row:?} again");
                next[row.writer] = row.number + 1;
            }
        }
        done.store(true, Ordering::Relaxed);
        let written: u64 = producers
            .into_iter()
            .map(|producer| producer.join().expect("no panic"))
            .sum();
        rows.clear();
        reader.pass(&mut rows).expect("of this process");
        let stats = reader.stats();
        assert_eq!(stats.rows + stats.lost, written, "{stats:?}");
        assert!(stats.rows > 0);
        written
    });
    assert!(written > 0);
}

#[test]
fn rows_are_whole_and_losses_exact_under_continuous_production() {
    // Written field by field, and in one piece.
    for format in [ALL, RowFormat::new(Fields::ALL, Stamp::Cycles)] {
        for bytes in [128, 512, 8192] {
            read_under_production(bytes, format, 20_000);
        }
    }
}

#[test]
fn formats_change_under_production() {
    let log = log(512, ALL);
    log.route(USED, None, Some(Route::to(LOG))).expect("known");
    let counting = RowFormat::new(Fields::COUNTER | Fields::DOMAIN, Stamp::Off).counting();
    let formats = [
        ALL,
        counting,
        RowFormat::default(),
        RowFormat::new(Fields::COUNTER, Stamp::Virtual),
    ];
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut writer = log.writer("producer").expect("free");
        let mut reader = log.reader();
        scope.spawn(|| {
            for format in formats.iter().cycle() {
                log.set_format(LOG, *format).expect("fits");
                thread::yield_now();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // A sum of ones is at most their number, and each domain is 2.
                writer.record(USED, domain(2), 1, domain(1));
            }
        });
        let mut rows = Vec::new();
        for _ in 0..50_000 {
            rows.clear();
            reader.pass(&mut rows).expect("of this process");
            for row in &rows {
                assert!(row.domain.is_none_or(|known| known == domain(2)), "{row:?}");
                let is_sum = row.correspondent.is_none() && row.stamp.is_none();
                let right = if is_sum { row.number + 1 } else { 1 };
                assert_eq!(row.counter, Some(right), "{row:?}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn each_thread_has_its_own_writer_and_gives_it_back() {
    let log = log(65536, ALL);
    let (recorder, mut reader) = (log.recorder(), log.reader());
    log.route(USED, None, Some(Route::to(LOG))).expect("known");
    for round in 0..5 {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        recorder.record(USED, domain(0), 1, domain(0));
                    }
                });
            }
        });
        assert_eq!(pass(&mut reader).len(), 20, "round {round}");
    }
    assert_eq!(reader.unrecorded().expect("there"), 0);
}

#[test]
fn events_of_more_threads_than_may_be_are_counted() {
    let log = log(65536, ALL);
    let recorder = log.recorder();
    let mut reader = log.reader();
    log.route(USED, None, Some(Route::to(LOG))).expect("known");
    let _both = [log.writer("a"), log.writer("b")];
    for _ in 0..3 {
        recorder.record(USED, domain(0), 1, domain(0));
        recorder.record(LEFT, domain(0), 1, domain(0));
    }
    assert!(pass(&mut reader).is_empty());
    assert_eq!(reader.unrecorded().expect("there"), 3);
}

#[test]
fn a_thread_has_a_writer_of_each_area_and_keeps_none_of_those_that_are_gone() {
    let record = |log: &EventLog, number| {
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        log.recorder().record(USED, domain(0), number, domain(0));
    };
    let read = |log: &EventLog| counters(&pass(&mut log.reader()));
    let logs = [(); 3].map(|()| log(1024, ALL));
    for number in 0..4 {
        for (at, log) in logs.iter().enumerate() {
            record(log, 10 * number + at as u64);
        }
    }
    for (at, log) in logs.iter().enumerate() {
        assert_eq!(read(log), [0, 10, 20, 30].map(|it| it + at as u64));
    }
    // The one that was first and another one give way to new ones; what is left goes on.
    let [gone, kept, also_gone] = logs;
    let areas = [&gone, &also_gone].map(|log| Arc::downgrade(&log.inner.area));
    drop((gone, also_gone));
    let new = log(1024, ALL);
    record(&new, 5);
    record(&kept, 6);
    record(&new, 7);
    assert_eq!(read(&new), [5, 7]);
    assert_eq!(read(&kept), [1, 11, 21, 31, 6]);
    assert!(areas.iter().all(|area| area.strong_count() == 0));
}
