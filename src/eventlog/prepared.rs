//! Recording by who asks only now and then what is to be recorded.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::area::Area;
use super::format::EventId;
use super::recorder::Recorder;
use super::shape::{LINE, header};
use super::stamp::Moment;
use super::writer::{FullRows, Heading, Occurrence};

thread_local! {
    // Without a destructor, so that it is there without a question.
    static LATEST: Cell<Latest> = const { Cell::new(Latest::NONE) };
}

/// Where rows go that this thread records in an area, if they go to the first log and have all fields.
#[derive(Clone, Copy)]
struct Latest {
    /// Only to tell it from others: it is there as long as the thread has a writer of it, and this is forgotten before that.
    area: *const Area,
    rows: FullRows,
}

impl Latest {
    const NONE: Self = Self {
        area: ptr::null(),
        rows: FullRows::NONE,
    };
}

/// This thread is about to give a writer back.
pub(super) fn forget() {
    LATEST.set(Latest::NONE);
}

/// A [`Recorder`] that has found out beforehand of which events all become rows of all fields in the first log, so that those
/// take less: no route is looked up, and no writer borrowed.
#[derive(Debug)]
pub(crate) struct Prepared {
    recorder: Recorder,
    /// Which of the area's settings were looked at last, as it numbers them.
    set: AtomicU64,
    /// A bit for each event all of which become such rows, whatever their domain.
    plain: AtomicU64,
}

impl Prepared {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            set: AtomicU64::new(u64::MAX),
            plain: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn is_on(&self, event: EventId) -> bool {
        self.recorder.is_on(event)
    }

    /// Looks at what is to be recorded, if that was set since; whether it was. Until it is called again rows may be as they were
    /// to be before. For one caller only, who drives what is recorded: of two at once the slower might keep what the other has
    /// seen change.
    #[inline]
    pub(crate) fn keep_up(&self) -> bool {
        let set = self.recorder.area().word(header::SET);
        let set = set.load(Ordering::Acquire);
        let is_new = set != self.set.load(Ordering::Relaxed);
        if is_new {
            // Before they are looked at: what is set after that is seen next time.
            self.set.store(set, Ordering::Relaxed);
            self.look();
        }
        is_new
    }

    #[cold]
    fn look(&self) {
        let plain = self.recorder.area().plain_events();
        self.plain.store(plain, Ordering::Relaxed);
    }

    /// Records an event of one of the area's domains that is on, as whoever calls it knows, and when it happened: what happens at
    /// once needs the counter read only once.
    // All of it in registers but the time.
    #[inline(never)]
    pub(crate) fn record(
        &self,
        heading: Heading,
        counter: u64,
        first: u64,
        second: u64,
        third: u64,
        at: Moment,
    ) {
        let area = self.recorder.area();
        let latest = LATEST.get();
        let event = heading.event.index() as u32;
        let is_plain = self.plain.load(Ordering::Relaxed).wrapping_shr(event) & 1 != 0;
        if is_plain && ptr::eq(latest.area, Arc::as_ptr(area)) {
            let words: [u64; LINE] = [
                event.into(),
                heading.domain.index() as u64,
                heading.correspondent.index() as u64,
                at.cycles(),
                first,
                second,
                third,
                counter,
            ];
            if latest.rows.put(area, words) {
                return;
            }
        }
        self.record_unprepared(heading, counter, first, second, third, at);
    }

    // With the same parameters, which then stay where they are.
    #[cold]
    #[inline(never)]
    fn record_unprepared(
        &self,
        heading: Heading,
        counter: u64,
        first: u64,
        second: u64,
        third: u64,
        at: Moment,
    ) {
        let occurrence = Occurrence {
            heading,
            counter,
            arguments: [first, second, third],
        };
        let rows = self.recorder.write_at(&occurrence, at);
        LATEST.set(rows.map_or(Latest::NONE, |rows| Latest {
            area: Arc::as_ptr(self.recorder.area()),
            rows,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventlog::{
        Domain, EventKind, EventLog, EventLogConfig, Fields, LogId, Reader, Route, Row, RowFormat,
        Stamp,
    };

    const FIRST: EventId = EventId::new(0);
    const SECOND: EventId = EventId::new(1);
    const FULL: RowFormat = RowFormat::new(Fields::ALL, Stamp::Cycles);

    fn log() -> EventLog {
        let config = EventLogConfig::default()
            .event("first", EventKind::Access)
            .event("second", EventKind::Access)
            .log("one", 1 << 12, FULL)
            .log("other", 1 << 12, FULL)
            .domains(2)
            .writers(2);
        let log = EventLog::new(&config).expect("small");
        let to_one = Some(Route::to(LogId::new(0)));
        log.route(FIRST, None, to_one).expect("known");
        log.route(SECOND, None, to_one).expect("known");
        log
    }

    fn record(prepared: &Prepared, event: EventId, counter: u64) {
        let heading = Heading {
            event,
            domain: Domain::new(1),
            correspondent: Domain::new(0),
        };
        prepared.record(heading, counter, 7, 8, 9, Moment::now());
    }

    fn rows(reader: &mut Reader) -> Vec<Row> {
        let mut rows = Vec::new();
        reader.pass(&mut rows).expect("of this process");
        rows
    }

    fn counters(reader: &mut Reader) -> Vec<u64> {
        let rows = rows(reader);
        rows.iter().filter_map(|row| row.counter).collect()
    }

    #[test]
    fn rows_are_the_same_by_the_short_way() {
        let log = log();
        let mut reader = log.reader();
        let prepared = Prepared::new(log.recorder());
        assert!(prepared.keep_up() && !prepared.keep_up());
        for counter in 0..3 {
            record(&prepared, FIRST, counter);
        }
        assert!(ptr::eq(
            LATEST.get().area,
            Arc::as_ptr(prepared.recorder.area())
        ));
        for (row, counter) in rows(&mut reader).into_iter().zip(0..3) {
            assert_eq!((row.event, row.counter), (Some(FIRST), Some(counter)));
            assert_eq!(row.domain, Some(Domain::new(1)));
            assert_eq!(row.correspondent, Some(Domain::new(0)));
            assert_eq!(
                (row.first, row.second, row.third),
                (Some(7), Some(8), Some(9))
            );
        }
    }

    #[test]
    fn what_is_set_counts_from_the_next_look_on() {
        let log = log();
        let mut reader = log.reader();
        let prepared = Prepared::new(log.recorder());
        prepared.keep_up();
        record(&prepared, FIRST, 1);
        let third = Route::to(LogId::new(0)).every(3);
        log.route(FIRST, Some(Domain::new(1)), Some(third))
            .expect("known");
        assert!(prepared.keep_up());
        for counter in 2..6 {
            record(&prepared, FIRST, counter);
            record(&prepared, SECOND, 10 + counter);
        }
        assert_eq!(counters(&mut reader), [1, 12, 13, 4, 14, 15]);
        log.route(FIRST, None, None).expect("known");
        prepared.keep_up();
        record(&prepared, FIRST, 9);
        assert_eq!(counters(&mut reader), [0; 0]);
    }

    #[test]
    fn rows_that_have_become_others_stay_that() {
        let log = log();
        let mut reader = log.reader();
        let (prepared, recorder) = (Prepared::new(log.recorder()), log.recorder());
        prepared.keep_up();
        record(&prepared, FIRST, 1);
        record(&prepared, FIRST, 2);
        assert_eq!(counters(&mut reader), [1, 2]);
        let short = RowFormat::new(Fields::COUNTER, Stamp::Off);
        log.set_format(LogId::new(0), short).expect("it fits");
        // The thread's rows are short from here on, whoever writes them.
        recorder.record(SECOND, Domain::new(0), 3, Domain::new(0));
        record(&prepared, FIRST, 4);
        assert_eq!(counters(&mut reader), [3, 4]);
        assert!(prepared.keep_up(), "a format is looked at, too");
        record(&prepared, FIRST, 5);
        log.set_format(LogId::new(0), FULL).expect("it fits");
        record(&prepared, FIRST, 6);
        prepared.keep_up();
        record(&prepared, FIRST, 7);
        record(&prepared, FIRST, 8);
        let rows = rows(&mut reader);
        let last = rows.last().expect("some");
        assert_eq!((last.counter, last.first), (Some(8), Some(7)));
    }

    #[test]
    fn a_thread_writes_to_a_part_only_as_long_as_it_has_it() {
        let (log, other) = (log(), log());
        let (mut reader, mut others) = (log.reader(), other.reader());
        let mine = Prepared::new(log.recorder());
        let its = Prepared::new(other.recorder());
        mine.keep_up();
        its.keep_up();
        for counter in 0..4 {
            record(&mine, FIRST, counter);
            record(&its, FIRST, 10 + counter);
        }
        assert_eq!(counters(&mut reader), [0, 1, 2, 3]);
        assert_eq!(counters(&mut others), [10, 11, 12, 13]);
        // Its part is there for the next thread, whose rows come after.
        for counter in 4..8 {
            let on_another = || {
                record(&mine, FIRST, counter);
                record(&mine, SECOND, counter);
            };
            std::thread::scope(|scope| scope.spawn(on_another).join().expect("it records"));
        }
        assert_eq!(counters(&mut reader), [4, 4, 5, 5, 6, 6, 7, 7]);
        assert_eq!(reader.unrecorded().expect("of this process"), 0);
    }

    #[test]
    fn a_writer_that_is_given_back_is_forgotten() {
        let kept = log();
        let mut reader = kept.reader();
        let prepared = Prepared::new(kept.recorder());
        prepared.keep_up();
        {
            let gone = Prepared::new(log().recorder());
            record(&gone, FIRST, 1);
        }
        assert!(!LATEST.get().area.is_null());
        // Whoever takes a writer next gives back those that nobody else has.
        kept.recorder()
            .record(FIRST, Domain::new(0), 1, Domain::new(0));
        assert!(LATEST.get().area.is_null());
        record(&prepared, FIRST, 2);
        assert_eq!(counters(&mut reader), [1, 2]);
    }
}
