//! Rows of a process or a file, in the order of their times.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tautline::eventlog::{Domain, EventId, EventKind, LogId, Reader, Row, Timebase};
#[cfg(any(target_os = "linux", target_os = "android"))]
use tautline::eventlog::{Route, Visit};
use tautline::loadgen::events as load;
use tautline::transport::events::{self, Event};
use tokio::time::Instant;

use crate::failure::{Failure, tell};

/// A row and its time on the system's monotonic clock, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) at: u64,
    pub(super) row: Row,
    /// `None` if it is not the transport's, or lacks fields.
    pub(super) event: Option<Event>,
    /// .. not a leech's or a drive's.
    pub(super) load: Option<load::Event>,
}

/// What rows there were, and how many a log would have to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) rows: u64,
    /// Overwritten before they were read; of a file, before it was opened, too.
    pub(super) lost: u64,
    /// Rows of a time that some of others are lost of, in a file.
    pub(super) partial: u64,
    /// Events of more threads than the log has writers for, since it was made.
    pub(super) unrecorded: u64,
    /// Bytes that a thread's ring has.
    pub(super) ring: usize,
    /// .. and would need to lose nothing of what has come.
    pub(super) needed: usize,
}

pub(super) struct Source {
    /// What errors are about.
    name: String,
    reader: Reader,
    /// Cycles as time, settled at the beginning so that all rows go by the same.
    timebase: Timebase,
    is_live: bool,
    is_over: bool,
    process: Option<u32>,
    waiting: Vec<Timed>,
    /// The latest time of the pass before: all rows up to it have been read.
    latest: u64,
    /// When the rows were read last, and the time before.
    read_at: [Instant; 2],
    /// The number of the next row of each writer's log.
    next: HashMap<(usize, u16), u64>,
    most: u64,
    /// Rows that were there at the beginning, and that were lost then.
    skipped: (u64, u64),
    /// Rows of a file that were overwritten before it was opened, and since when none were.
    overwritten: u64,
    whole_since: u64,
    /// Rows that came of a time before.
    partial: u64,
    domains: HashMap<Domain, String>,
    /// Names and kinds; no kind of one that is not in the list.
    events: HashMap<EventId, (String, Option<EventKind>)>,
    /// Whether logs count.
    counting: HashMap<LogId, bool>,
    /// Where those of leeches and drives are, if they are in.
    load: Option<load::Events>,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    visit: Option<Visit>,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let reader = tautline::eventlog::open(path).map_err(|error| Failure::of(&name, &error))?;
        Self::new(reader, None, &name)
    }

    /// The log of a process, every `every`-th event of which is recorded from here on; without that, what it records anyway.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn attach(process: u32, every: Option<u32>) -> Result<Self, Failure> {
        let name = format!("process {process}");
        let failed = |error| Failure::of(&name, &error);
        let reader = tautline::eventlog::attach(process).map_err(failed)?;
        let mut source = Self::new(reader, Some(process), &name)?;
        source.skip()?;
        if let Some(every) = every {
            let visit = tautline::eventlog::visit(process).map_err(failed)?;
            // From here on all is put back, whatever else fails.
            let visit = source.visit.insert(visit);
            visit.set_format(events::LOG, events::FORMAT)?;
            let of_load = source.load.into_iter().flat_map(load::Events::all);
            for event in events::all().chain(of_load) {
                visit.route(event, None, Some(Route::to(events::LOG).every(every)))?;
            }
        }
        source.read_at = [Instant::now(); 2];
        Ok(source)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn attach(_: u32, _: Option<u32>) -> Result<Self, Failure> {
        Err(Failure::Error(
            "this system lets no process look at another's event log; give a file".to_owned(),
        ))
    }

    fn new(mut reader: Reader, process: Option<u32>, name: &str) -> Result<Self, Failure> {
        let failed = |error| Failure::of(name, &error);
        let are_in = events::are_in(&mut reader).map_err(failed)?;
        if !are_in {
            return Err(Failure::Error(format!(
                "{name} has an event log, but not of the transport's events"
            )));
        }
        let load = load::Events::of(&mut reader).map_err(failed)?;
        Ok(Self {
            name: name.to_owned(),
            timebase: reader.timebase(),
            reader,
            is_live: process.is_some(),
            is_over: false,
            process,
            waiting: Vec::new(),
            latest: 0,
            read_at: [Instant::now(); 2],
            next: HashMap::new(),
            most: 0,
            skipped: (0, 0),
            overwritten: 0,
            whole_since: 0,
            partial: 0,
            domains: HashMap::new(),
            events: HashMap::new(),
            counting: HashMap::new(),
            load,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            visit: None,
        })
    }

    /// Leaves out what is there already.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn skip(&mut self) -> Result<(), Failure> {
        let mut rows = Vec::new();
        self.reader.pass(&mut rows)?;
        for row in &rows {
            let next = self.next.entry((row.writer, row.log.index() as u16));
            *next.or_default() = row.number + 1;
        }
        let stats = self.reader.stats();
        self.skipped = (stats.rows, stats.lost);
        Ok(())
    }

    /// Whether more may come.
    pub(super) const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether the process is gone.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Rows that have come, up to a time before which no more will.
    pub(super) fn next(&mut self) -> Result<Vec<Timed>, Failure> {
        let until = self.latest;
        self.read_at = [Instant::now(), self.read_at[0]];
        self.read()?;
        let after = self.waiting.partition_point(|row| row.at <= until);
        let later = self.waiting.split_off(after);
        Ok(std::mem::replace(&mut self.waiting, later))
    }

    /// All rows that have come.
    pub(super) fn all(&mut self) -> Result<Vec<Timed>, Failure> {
        self.read()?;
        Ok(std::mem::take(&mut self.waiting))
    }

    fn read(&mut self) -> Result<(), Failure> {
        // Its memory stays as long as somebody has it.
        if let Some(process) = self.process {
            self.is_over |= !Path::new(&format!("/proc/{process}")).exists();
        }
        let mut rows = Vec::new();
        let read = self.reader.pass(&mut rows);
        read.map_err(|error| Failure::of(&self.name, &error))?;
        let first = self.next.clone();
        for row in &rows {
            let next = self.next.entry((row.writer, row.log.index() as u16));
            *next.or_default() = row.number + 1;
        }
        if self.is_live {
            for (ring, next) in &self.next {
                // Of what was there before nobody knows when it came.
                if let Some(before) = first.get(ring) {
                    self.most = self.most.max(next - before);
                }
            }
        } else {
            let most = self.next.values().copied().max();
            self.most = self.most.max(most.unwrap_or_default());
            self.miss(&rows, &first);
        }
        self.waiting.extend(rows.into_iter().map(|row| Timed {
            at: time_of(&row, &self.timebase),
            event: Event::of(&row),
            load: self.load.and_then(|events| load::Event::of(&row, events)),
            row,
        }));
        self.waiting.sort_by_key(|row| row.at);
        self.latest = self.waiting.last().map_or(self.latest, |row| row.at);
        if !self.is_live {
            let since = self.whole_since;
            self.partial = self.waiting.partition_point(|row| row.at < since) as u64;
        }
        Ok(())
    }

    /// What was overwritten of a file's rings before it was opened: what is there of the time before is not all there was.
    fn miss(&mut self, rows: &[Row], before: &HashMap<(usize, u16), u64>) {
        let mut seen: HashSet<_> = before.keys().copied().collect();
        for row in rows {
            if seen.insert((row.writer, row.log.index() as u16)) && row.number > 0 {
                self.overwritten += row.number;
                self.whole_since = self.whole_since.max(time_of(row, &self.timebase));
            }
        }
    }

    /// The time from which on no rows were overwritten before anyone could read them.
    pub(super) const fn whole_since(&self) -> u64 {
        self.whole_since
    }

    pub(super) fn lost(&self) -> u64 {
        self.overwritten + self.reader.stats().lost - self.skipped.1
    }

    pub(super) fn sizes(&mut self) -> Sizes {
        let stats = self.reader.stats();
        let ring = self.reader.log(events::LOG);
        let ring = ring.map_or(0, |(_, bytes, _)| bytes);
        Sizes {
            rows: stats.rows - self.skipped.0,
            lost: self.lost(),
            partial: self.partial,
            unrecorded: self.reader.unrecorded().unwrap_or_default(),
            ring,
            needed: needed(self.most),
        }
    }

    /// What a domain is called.
    pub(super) fn domain(&mut self, domain: Domain) -> &str {
        let reader = &mut self.reader;
        self.domains.entry(domain).or_insert_with(|| {
            let name = reader.domain_name(domain).unwrap_or_default();
            if name.is_empty() {
                format!("domain {}", domain.index())
            } else {
                name
            }
        })
    }

    pub(super) fn event(&mut self, event: EventId) -> &str {
        &self.known(event).0
    }

    /// What a row's counter says; `None` if its event is not known, or its log counts, so that it says what has come so far.
    pub(super) fn kind(&mut self, row: &Row) -> Option<EventKind> {
        let reader = &mut self.reader;
        let is_sum = *self.counting.entry(row.log).or_insert_with(|| {
            let log = reader.log(row.log);
            log.is_ok_and(|(_, _, format)| format.is_counting())
        });
        if is_sum {
            return None;
        }
        self.known(row.event?).1
    }

    fn known(&mut self, event: EventId) -> &(String, Option<EventKind>) {
        let reader = &mut self.reader;
        self.events.entry(event).or_insert_with(|| {
            let unknown = |_| (format!("event {}", event.index()), None);
            let known = reader.event(event);
            known.map_or_else(unknown, |(name, kind)| (name, Some(kind)))
        })
    }

    /// Until when what has happened was handed out: a look later than it came. However long it is between two looks, those of a time
    /// are handed out with it.
    pub(super) const fn handed_until(&self) -> Instant {
        self.read_at[1]
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for Source {
    fn drop(&mut self) {
        if let Some(visit) = self.visit.take() {
            // The process may be gone, and with it whatever was to be put back.
            if let Err(error) = visit.end() {
                tell!("tautline: events are left switched on: {error}");
            }
        }
    }
}

/// Nanoseconds on the system's clock; 0 of a row without a time.
fn time_of(row: &Row, timebase: &Timebase) -> u64 {
    let at = row.stamp.map(|stamp| timebase.time(stamp));
    at.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}

/// Bytes of a ring that holds so many rows whole between two looks at it: one more may be being written.
fn needed(rows: u64) -> usize {
    const ROW: u64 = 64;
    let bytes = rows.saturating_add(1).saturating_mul(ROW).max(2 * ROW);
    usize::try_from(bytes)
        .ok()
        .and_then(usize::checked_next_power_of_two)
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::time::Duration;

    #[cfg(target_os = "linux")]
    use tautline::eventlog::EventLog;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_handed_out_is_of_the_time_that_is_said_however_late_one_looks() {
        let log = EventLog::shared(&events::config(1 << 16)).expect("small");
        let mut source = Source::attach(std::process::id(), Some(1)).expect("this process has one");
        let node = log.domain_named("node").expect("there is room");
        let recorder = log.recorder();
        let (mut moments, mut handed) = (Vec::new(), 0);
        for held_up in [0, 0, 50, 0, 0, 20, 0] {
            for _ in 0..=held_up {
                recorder.record(events::LOAD_MEASURED, node, 1, node);
                moments.push(Instant::now());
                std::thread::sleep(Duration::from_millis(1));
            }
            handed += source.next().expect("it is there").len();
            let until = source.handed_until();
            assert_eq!(handed, moments.partition_point(|at| *at <= until));
        }
        assert!(handed >= 71, "{handed}");
    }

    #[test]
    fn a_ring_needs_room_for_one_row_more_than_come() {
        assert_eq!(needed(0), 128);
        assert_eq!(needed(1), 128);
        assert_eq!(needed(2), 256);
        assert_eq!(needed(8191), 512 << 10);
        assert_eq!(needed(8192), 1 << 20);
    }
}
