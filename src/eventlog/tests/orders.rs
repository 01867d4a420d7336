//! Every order in which two threads may see each other's writes, by loom: docs/testing.md has the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::thread;

use super::*;

/// Has loom try all orders of what `run` does, which are some: one alone would be none at all.
fn try_all_orders(run: impl Fn() + Send + Sync + 'static) {
    let tried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tried);
    loom::model(move || {
        count.fetch_add(1, Relaxed);
        run();
    });
    let tried = tried.load(Relaxed);
    assert!(tried >= 100, "loom has tried {tried} orders");
}

fn read_all_orders(format: RowFormat, bytes: usize, rows: u64, check: fn(&Row)) {
    try_all_orders(move || {
        let config = EventLogConfig::default()
            .event("used", EventKind::Access)
            .log("all", bytes, format)
            .writers(1);
        let log = EventLog::new(&config).expect("small");
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        let mut reader = log.reader();
        let mut writer = log.writer("").expect("free");
        let producer = thread::spawn(move || {
            for number in 0..rows {
                let number = number + 1;
                writer.record_with(USED, domain(0), number, domain(0), [number; 3]);
            }
        });
        let mut read = pass(&mut reader);
        producer.join().expect("no panic");
        read.extend(pass(&mut reader));
        read.iter().for_each(check);
        assert!(read.windows(2).all(|pair| pair[0].number < pair[1].number));
        let stats = reader.stats();
        assert_eq!(stats.rows + stats.summed + stats.lost, rows);
    });
}

#[test]
fn rows_are_whole_in_every_order() {
    // Two rows of two words.
    let format = RowFormat::new(Fields::COUNTER, Stamp::Virtual);
    read_all_orders(format, 32, 4, |row| {
        assert_eq!(row.counter, row.stamp);
        assert_eq!(row.counter, Some(row.number + 1));
    });
}

#[test]
fn arguments_are_of_their_row_in_every_order() {
    // Two rows of four words.
    let format = RowFormat::new(
        Fields::COUNTER | Fields::FIRST | Fields::THIRD,
        Stamp::Virtual,
    );
    read_all_orders(format, 64, 3, |row| {
        assert_eq!(row.counter, row.first);
        assert_eq!(row.counter, row.third);
        assert_eq!(row.counter, row.stamp);
    });
}

#[test]
fn rows_that_are_written_in_one_piece_are_whole_in_every_order() {
    // Two rows of a line each, as the transport's are.
    let format = RowFormat::new(Fields::USUAL, Stamp::Cycles);
    read_all_orders(format, 128, 3, |row| {
        assert_eq!(row.counter, Some(row.number + 1));
    });
}

#[test]
fn sums_are_whole_in_every_order() {
    let format = RowFormat::new(Fields::COUNTER, Stamp::Virtual).counting();
    read_all_orders(format, 16, 3, |row| {
        let events = row.number + 1;
        assert_eq!(row.stamp, Some(events));
        assert_eq!(row.counter, Some(events * (events + 1) / 2));
    });
}

#[test]
fn a_change_of_format_tears_no_row() {
    try_all_orders(|| {
        let wide = RowFormat::new(Fields::COUNTER, Stamp::Virtual);
        let config = EventLogConfig::default()
            .event("used", EventKind::Access)
            .log("all", 32, wide)
            .writers(1);
        let log = EventLog::new(&config).expect("small");
        log.route(USED, None, Some(Route::to(LOG))).expect("known");
        let mut reader = log.reader();
        let mut writer = log.writer("").expect("free");
        writer.record(USED, domain(0), 7, domain(0));
        let control = log.clone();
        let producer = thread::spawn(move || {
            let sums = RowFormat::new(Fields::COUNTER, Stamp::Off).counting();
            control.set_format(LOG, sums).expect("fits");
            writer.record(USED, domain(0), 7, domain(0));
            control.set_format(LOG, wide).expect("fits");
            writer.record(USED, domain(0), 7, domain(0));
        });
        let mut read = pass(&mut reader);
        producer.join().expect("no panic");
        read.extend(pass(&mut reader));
        let is_whole = |row: &Row| row.counter == Some(7) && row.stamp != Some(0);
        assert!(read.iter().all(is_whole), "{read:?}");
    });
}
