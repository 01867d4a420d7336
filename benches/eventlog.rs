//! What an event costs: in the six configurations of the source (Stöß 2005, figure 5.2), beside another producer, and while it is read.
//!
//! `cargo bench --features eventlog --bench eventlog`; `-- --quick` for a few seconds.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures time and prints it"
)]

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tautline::eventlog::{
    Domain, EventId, EventKind, EventLog, EventLogConfig, Fields, LogId, Reader, Recorder, Route,
    Row, RowFormat, Stamp, Writer,
};

#[path = "support/pin.rs"]
mod pin;

const EVENT: EventId = EventId::new(0);
const LOG: LogId = LogId::new(0);
const BATCH: u64 = 1000;

struct Configuration {
    name: &'static str,
    /// Of an IPC across and within address spaces, 2.2 GHz Xeon, cycles.
    source: &'static str,
    format: Option<RowFormat>,
}

fn configurations() -> [Configuration; 7] {
    let fields = |fields, stamp| Some(RowFormat::new(fields, stamp));
    let row = |name, source, format| Configuration {
        name,
        source,
        format,
    };
    [
        row("native", "", None),
        row("disabled", "2, -1", None),
        row("0 entries", "80, 26", fields(Fields::NONE, Stamp::Off)),
        row("1 entry", "161, 59", fields(Fields::EVENT, Stamp::Off)),
        row("4 entries", "157, 72", fields(Fields::USUAL, Stamp::Off)),
        row(
            "5 entries",
            "275, 264",
            fields(Fields::USUAL, Stamp::Cycles),
        ),
        row("8 entries", "", fields(Fields::ALL, Stamp::Cycles)),
    ]
}

fn log(bytes: usize, format: Option<RowFormat>) -> EventLog {
    let config = EventLogConfig::default()
        .event("bench", EventKind::Access)
        .log("all", bytes, format.unwrap_or_default())
        .domains(16)
        .writers(4);
    let log = EventLog::new(&config).expect("small");
    if format.is_some() {
        log.route(EVENT, None, Some(Route::to(LOG))).expect("known");
    }
    log
}

/// The median of many batches, ns an event.
fn nanos(batches: usize, mut event: impl FnMut(u64)) -> f64 {
    let mut times: Vec<f64> = (0..batches)
        .map(|_| {
            let begun = Instant::now();
            (0..BATCH).for_each(&mut event);
            begun.elapsed().as_nanos() as f64 / BATCH as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Something that a point stands in: a few instructions that depend on each other.
fn work(number: u64) -> u64 {
    black_box(black_box(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7)
}

fn point(writer: &mut Writer, number: u64) {
    let worked = work(number);
    writer.record(EVENT, Domain::new(worked as u16 & 15), 1, Domain::new(3));
}

fn anywhere(recorder: &Recorder, number: u64) {
    let worked = work(number);
    recorder.record(EVENT, Domain::new(worked as u16 & 15), 1, Domain::new(3));
}

fn costs(batches: usize) {
    println!(
        "What an event adds, ns (medians of {batches} batches of {BATCH}); the source's cycles across and within address spaces\n"
    );
    println!("| | a writer | a recorder | the source's cycles |\n|---|--:|--:|--:|");
    let native = nanos(batches, |number| {
        black_box(work(number));
    });
    for configuration in configurations() {
        let log = log(65536, configuration.format);
        let mut writer = log.writer("bench").expect("free");
        let recorder = log.recorder();
        let (own, any) = if configuration.name == "native" {
            (native, native)
        } else {
            let own = nanos(batches, |number| point(&mut writer, number));
            let any = nanos(batches, |number| anywhere(&recorder, number));
            (own - native, any - native)
        };
        println!(
            "| {} | {own:.2} | {any:.2} | {} |",
            configuration.name, configuration.source
        );
    }
}

/// What points of leeches and drives add that are off, ns: asked whether they are on, as a leech's are, and recorded with three arguments, as a drive's.
fn off(batches: usize) {
    let log = Some(log(65536, None).recorder());
    let native = nanos(batches, |number| {
        black_box(work(number));
    });
    let asked = nanos(batches, |number| {
        let worked = work(number);
        if black_box(&log).as_ref().is_some_and(|log| log.is_on(EVENT)) {
            black_box(worked);
        }
    });
    let recorded = nanos(batches, |number| {
        let worked = work(number);
        if let Some(log) = black_box(&log) {
            let arguments = [7, number, worked.saturating_sub(number)];
            log.record_with(EVENT, Domain::new(3), worked, Domain::new(3), arguments);
        }
    });
    println!(
        "\nPoints of leeches and drives that are off add {:.2} ns (asked) and {:.2} ns (recorded) to {native:.2} ns of work",
        asked - native,
        recorded - native
    );
}

/// Producers beside each other, each on a processor of its own: ns an event of each.
fn beside(batches: usize, producers: usize) -> Vec<f64> {
    let log = log(65536, Some(RowFormat::new(Fields::ALL, Stamp::Cycles)));
    let barrier = Barrier::new(producers);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|number| {
                let mut writer = log.writer("bench").expect("free");
                let barrier = &barrier;
                scope.spawn(move || {
                    pin::pin(number);
                    barrier.wait();
                    nanos(batches, |number| point(&mut writer, number))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

/// Looks at rings of all lengths while they are written without a pause, each repeated until nothing of what was new was lost, as the source's analysis is
/// (Stöß 2005, figures 5.4 and 5.5): how many passes that takes.
fn under_production(looks: usize) {
    println!(
        "\nLooks of a reader under continuous production, {looks} each, by the passes that each took until it had all that was new\n"
    );
    let heads = TRIALS.windows(2).map(|pair| match pair {
        [before, most] if before + 1 == *most => format!(" {most} |"),
        [before, most] => format!(" {}-{most} |", before + 1),
        _ => String::new(),
    });
    println!(
        "| ring, bytes | words a row | ns a pass |{} given up | rows read | rows lost |\n|--:|--:|--:|{}--:|--:|--:|",
        heads.collect::<String>(),
        "--:|".repeat(TRIALS.len() - 1)
    );
    // Two words tell whether a row is whole; the shortest ring has room for rows of one. Those of eight are written in one piece.
    let short = |bytes| match bytes {
        16 => (1, Fields::COUNTER, Stamp::Off),
        _ => (2, Fields::COUNTER, Stamp::Virtual),
    };
    let rings = (4..=13).map(|log2| 1_usize << log2);
    let short = rings.clone().map(|bytes| (bytes, short(bytes)));
    let full = (8, Fields::ALL, Stamp::Cycles);
    let full = rings
        .filter(|bytes| *bytes >= 128)
        .map(|bytes| (bytes, full));
    for (bytes, (words, fields, stamp)) in short.chain(full) {
        let log = log(bytes, Some(RowFormat::new(fields, stamp)));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut reader = log.reader();
            let mut writer = log.writer("bench").expect("free");
            let done = &done;
            let producer = scope.spawn(move || {
                pin::pin(0);
                let mut written = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..BATCH {
                        let (domain, other) = (Domain::new(0), Domain::new(3));
                        writer.record_with(EVENT, domain, written, other, [written; 3]);
                        written += 1;
                    }
                }
                written
            });
            pin::pin(1);
            let (nanos, counts) = read(&mut reader, looks, stamp);
            done.store(true, Ordering::Relaxed);
            let written = producer.join().expect("no panic");
            reader.pass(&mut Vec::new()).expect("of this process");
            let stats = reader.stats();
            assert_eq!(
                stats.rows + stats.lost,
                written,
                "each row is read or counted"
            );
            let counts = counts.map(|count| format!(" {count} |")).concat();
            println!(
                "| {bytes} | {words} | {nanos:.0} |{counts} {} | {} |",
                stats.rows, stats.lost
            );
        });
    }
}

/// Bounds of the histogram's classes, in passes: those beyond the first and up to the second, and so on. A look is given up after the last.
const TRIALS: [usize; 8] = [0, 1, 2, 3, 4, 8, 16, 64];

/// The counter is the row's number, as are its arguments, if it has any; a stamp that is no time counts from 1.
fn is_whole(row: &Row, stamp: Stamp) -> bool {
    let arguments = [row.first, row.second, row.third];
    row.counter == Some(row.number)
        && arguments
            .iter()
            .all(|it| it.is_none_or(|it| it == row.number))
        && (stamp != Stamp::Virtual || row.stamp == Some(row.number + 1))
}

/// Nanoseconds of a pass, and looks by the class of their passes; the last are those given up.
fn read(reader: &mut Reader, looks: usize, stamp: Stamp) -> (f64, [usize; TRIALS.len()]) {
    let mut rows = Vec::new();
    // Until it is written.
    while rows.is_empty() {
        reader.pass(&mut rows).expect("of this process");
    }
    let mut counts = [0; TRIALS.len()];
    let mut passes = 0_usize;
    let begun = Instant::now();
    for _ in 0..looks {
        let mut trials = 0;
        let class = loop {
            let lost = reader.stats().lost;
            rows.clear();
            reader.pass(&mut rows).expect("of this process");
            passes += 1;
            assert!(rows.iter().all(|row| is_whole(row, stamp)), "{rows:?}");
            let has_lost = reader.stats().lost > lost;
            // Where nothing was new, nothing was tried.
            trials += usize::from(has_lost || !rows.is_empty());
            let is_over = trials > 0 && !has_lost;
            if is_over || trials == TRIALS[TRIALS.len() - 1] {
                let class = TRIALS.partition_point(|bound| *bound < trials) - 1;
                break if is_over { class } else { TRIALS.len() - 1 };
            }
        };
        counts[class] += 1;
    }
    (begun.elapsed().as_nanos() as f64 / passes as f64, counts)
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let (batches, passes) = if quick {
        (200, 2000)
    } else {
        (20_000, 100_000)
    };
    costs(batches);
    off(batches);
    let alone = beside(batches, 1)[0];
    let both = beside(batches, 2);
    println!(
        "\nFull rows of one pinned producer {alone:.2} ns; of two beside each other {both:.2?}"
    );
    under_production(passes);
}
