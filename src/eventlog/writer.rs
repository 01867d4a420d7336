//! Producers of rows: one for each thread, which shares with others only what it reads.
//!
//! A row is written in three steps, so that a reader can tell which rows it has read whole: the index says how many there are
//! (from the row before), a fence, the words of the row, the index with this one.

use std::sync::Arc;

use super::area::{Area, Line};
use super::format::{Domain, EventId, FORMAT_BITS, Fields, Route, RowFormat, Stamp};
use super::shape::{LINE, Shape, header, log, name_words, register};
use super::stamp::{self, Moment};
use super::sync::{AtomicU64, Ordering, fence, own};

/// A log's ring as its writer knows it.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// The line in which the area says what its rows are to be.
    description: usize,
    /// What it said when it was last looked at.
    code: u64,
    format: RowFormat,
    place: Place,
    /// A row's place to its first word: times words of a row.
    shift: u32,
    layout: Layout,
}

/// Where the rows of a ring go.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The line of the writer's register, which says how many rows there are.
    register: usize,
    /// The first line of the ring.
    start: usize,
    /// A row's number to its place: its lowest bits.
    mask: u64,
}

/// Of what rows consist, as far as there is a shorter way to write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The fields that every event has, and the time stamp counter, one row after another.
    Usual,
    /// All fields, and the same.
    All,
    Other,
}

/// What a row is of. It fits a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading {
    pub(crate) event: EventId,
    pub(crate) domain: Domain,
    /// Another domain that it concerns.
    pub(crate) correspondent: Domain,
}

/// What a row may hold but its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrence {
    pub(super) heading: Heading,
    /// What the event's kind says.
    pub(super) counter: u64,
    /// Whatever else the event has to say.
    pub(super) arguments: [u64; 3],
}

/// The only producer of one part of a log area. It is of the thread that writes with it; others have their own.
///
/// A writer that is dropped leaves its rows there, and its part to the next one.
// What each row needs comes first and lies together: from one burst of rows to the next, what is in no cache costs more than all else.
#[derive(Debug)]
#[repr(C)]
pub struct Writer {
    area: Arc<Area>,
    /// As the area's shape has them.
    events: usize,
    domains: usize,
    routes_at: usize,
    first: Option<Ring>,
    others: Box<[Ring]>,
    slot: usize,
    /// Events of each kind and domain since the last that became a row.
    skipped: Box<[u32]>,
    stamps: u64,
}

impl Writer {
    /// Takes a part of the area that nobody has; `None` if all are taken.
    pub(super) fn claim(area: &Arc<Area>, name: &str) -> Option<Self> {
        let shape = &area.shape;
        let slot = (0..shape.writers).find(|slot| {
            let free = area.word(shape.writer(*slot));
            // Who had it before has written all it wrote.
            free.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })?;
        area.store_all(shape.writer(slot) + 1, &name_words(name));
        let mut rings = (0..shape.rings.len()).map(|log| Ring::of(area, slot, log));
        Some(Self {
            area: Arc::clone(area),
            events: shape.events,
            domains: shape.domains,
            routes_at: shape.route(0, 0),
            first: rings.next(),
            others: rings.collect(),
            slot,
            skipped: vec![0; shape.events * shape.domains].into(),
            stamps: 0,
        })
    }

    /// Whether rows are made of an event of any domain: what to ask first where it costs something to find out what to record.
    #[inline]
    pub fn is_on(&self, event: EventId) -> bool {
        is_on(&self.area, event)
    }

    /// An event of `domain`, which concerns `correspondent` too; what `counter` is, the event's kind says.
    /// Where it goes, if anywhere, is what [`EventLog::route`](super::EventLog::route) said last.
    #[inline]
    pub fn record(&mut self, event: EventId, domain: Domain, counter: u64, correspondent: Domain) {
        self.record_with(event, domain, counter, correspondent, [0; 3]);
    }

    /// The same, of an event that has arguments: whatever else it has to say.
    #[inline]
    pub fn record_with(
        &mut self,
        event: EventId,
        domain: Domain,
        counter: u64,
        correspondent: Domain,
        arguments: [u64; 3],
    ) {
        if self.is_on(event) {
            let heading = Heading {
                event,
                domain,
                correspondent,
            };
            self.record_on(&Occurrence {
                heading,
                counter,
                arguments,
            });
        }
    }

    #[inline(never)]
    fn record_on(&mut self, occurrence: &Occurrence) {
        self.write(occurrence, Moment::now);
    }

    /// Where rows go that have all fields, in the first log; none go there as long as it has others.
    #[cfg(feature = "transport")]
    pub(super) fn full_rows(&self) -> Option<FullRows> {
        let ring = self.first.filter(|ring| ring.layout == Layout::All)?;
        let register = &self.area.lines()[ring.place.register].0;
        let begun = register[register::FORMAT].load(Ordering::Relaxed);
        Some(FullRows {
            place: ring.place,
            begun,
        })
    }

    /// What becomes of an event that goes somewhere and happened at a moment, which is asked for if its row has the time.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a row is written in not much more time than a call takes"
    )]
    pub(super) fn write(&mut self, occurrence: &Occurrence, at: impl FnOnce() -> Moment) {
        let Heading {
            event,
            domain,
            correspondent,
        } = occurrence.heading;
        if domain.index() >= self.domains || event.index() >= self.events {
            return;
        }
        let lines = self.area.lines();
        let place = Shape::place(event.index(), domain.index(), self.events);
        let code = word(lines, self.routes_at + place).load(Ordering::Relaxed);
        // Mostly every event is to become a row.
        let number = Route::plain(code).or_else(|| {
            let skipped = self.skipped.get_mut(place)?;
            count(skipped, code, domain == correspondent)
        });
        let Some(number) = number else { return };
        let ring = match number.checked_sub(1) {
            None => self.first.as_mut(),
            Some(other) => self.others.get_mut(other),
        };
        let Some(ring) = ring else { return };
        let code = lines[ring.description].0[log::FORMAT % LINE].load(Ordering::Relaxed);
        if code != ring.code {
            ring.begin(&self.area, number, code);
        }
        let time = || at().cycles();
        let (event, domain) = (event.0.into(), domain.0.into());
        let correspondent = correspondent.0.into();
        let Occurrence {
            counter,
            arguments: [first, second, third],
            ..
        } = *occurrence;
        match ring.layout {
            Layout::Usual => {
                let words = [event, domain, correspondent, time(), counter];
                ring.place.put(lines, words);
            }
            Layout::All => {
                let time = time();
                let words = [
                    event,
                    domain,
                    correspondent,
                    time,
                    first,
                    second,
                    third,
                    counter,
                ];
                ring.place.put(lines, words);
            }
            Layout::Other => ring.append(lines, occurrence, time, &mut self.stamps),
        }
    }
}

/// The place of the log that an event goes to by a route that leaves some out, `skipped` since the last it did not, unless
/// this is another one.
#[inline(never)]
fn count(skipped: &mut u32, route: u64, is_internal: bool) -> Option<usize> {
    let route = Route::from_code(route)?;
    if route.skips_internal() && is_internal {
        return None;
    }
    if route.threshold() > 1 {
        *skipped += 1;
        if *skipped < route.threshold() {
            return None;
        }
        *skipped = 0;
    }
    Some(route.log().index())
}

impl Drop for Writer {
    fn drop(&mut self) {
        let free = self.area.word(self.area.shape.writer(self.slot));
        free.store(0, Ordering::Release);
    }
}

impl Place {
    /// A row that takes more than half of a line: each has one of its own.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "its words are in registers")]
    fn put<const WORDS: usize>(self, lines: &[Line], words: [u64; WORDS]) {
        let index = &lines[self.register].0[register::INDEX];
        let written = own(index);
        let line = &lines[self.start + (written & self.mask) as usize].0;
        // What comes after is not seen before the index that was written before.
        fence(Ordering::Release);
        for (word, value) in line.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        index.store(written.wrapping_add(1), Ordering::Release);
    }
}

/// Where a writer's rows of all fields go, as long as they do.
#[cfg(feature = "transport")]
#[derive(Clone, Copy, Debug)]
pub(super) struct FullRows {
    place: Place,
    /// Which rows have had this format so far, as the register says: another word once they have another.
    begun: u64,
}

#[cfg(feature = "transport")]
impl FullRows {
    /// Of no writer: no rows begin to have this format.
    pub(super) const NONE: Self = Self {
        place: Place {
            register: 0,
            start: 0,
            mask: 0,
        },
        begun: u64::MAX,
    };

    /// Writes one, unless rows have had another format since. Only the writer's thread may.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "its words are in registers")]
    pub(super) fn put(self, area: &Area, words: [u64; LINE]) -> bool {
        let lines = area.lines();
        let begun = &lines[self.place.register].0[register::FORMAT];
        let is_same = begun.load(Ordering::Relaxed) == self.begun;
        if is_same {
            self.place.put(lines, words);
        }
        is_same
    }
}

impl Ring {
    fn of(area: &Area, slot: usize, log: usize) -> Self {
        let shape = &area.shape;
        let register = shape.register(slot, log);
        let code = area.load(register + register::FORMAT);
        let mut ring = Self {
            description: (shape.log(log) + log::FORMAT) / LINE,
            code: code & ((1 << FORMAT_BITS) - 1),
            format: RowFormat::from_code(code),
            place: Place {
                register: register / LINE,
                start: shape.ring(slot, log) / LINE,
                mask: 0,
            },
            shift: 0,
            layout: Layout::Other,
        };
        ring.fit(shape, log);
        ring
    }

    #[inline(never)]
    fn append(
        &self,
        lines: &[Line],
        occurrence: &Occurrence,
        cycles: impl FnOnce() -> u64,
        stamps: &mut u64,
    ) {
        let format = self.format;
        let stamp = match format.stamp() {
            Stamp::Off => 0,
            Stamp::Virtual => {
                *stamps += 1;
                *stamps
            }
            Stamp::Tick => stamp::tick(),
            Stamp::Cycles => cycles(),
        };
        let place = self.place;
        let register = &lines[place.register].0;
        let written = own(&register[register::INDEX]);
        let mut at = place.start * LINE + ((written & place.mask) << self.shift) as usize;
        // A row's length is a power of two, and no more than a line: it lies within one.
        let line = &lines[at / LINE].0;
        let counter = if format.is_counting() {
            register[register::BEGUN].store(written.wrapping_add(1), Ordering::Relaxed);
            let last = format.used_words().saturating_sub(1);
            line[(at + last) % LINE]
                .load(Ordering::Relaxed)
                .wrapping_add(occurrence.counter)
        } else {
            occurrence.counter
        };
        // As of other rows.
        fence(Ordering::Release);
        let fields = format.fields();
        let mut put = |is_there: bool, value: u64| {
            if is_there {
                line[at % LINE].store(value, Ordering::Relaxed);
                at += 1;
            }
        };
        let heading = occurrence.heading;
        put(fields.contain(Fields::EVENT), heading.event.0.into());
        put(fields.contain(Fields::DOMAIN), heading.domain.0.into());
        let correspondent = heading.correspondent.0.into();
        put(fields.contain(Fields::CORRESPONDENT), correspondent);
        put(format.stamp() != Stamp::Off, stamp);
        let [first, second, third] = occurrence.arguments;
        put(fields.contain(Fields::FIRST), first);
        put(fields.contain(Fields::SECOND), second);
        put(fields.contain(Fields::THIRD), third);
        // Last, since it is the one that is added up.
        put(fields.contain(Fields::COUNTER), counter);
        register[register::INDEX].store(written.wrapping_add(1), Ordering::Release);
    }

    /// Rows have another format from now on.
    #[cold]
    fn begin(&mut self, area: &Area, log: usize, code: u64) {
        let format = RowFormat::from_code(code);
        // Whoever wrote that word: rows stay within their ring.
        if area.shape.check(log, format).is_err() {
            self.code = code;
            return;
        }
        self.code = code;
        self.format = format;
        self.fit(&area.shape, log);
        let register = self.place.register * LINE;
        let written = own(area.word(register + register::INDEX));
        area.store(
            register + register::FORMAT,
            written << FORMAT_BITS | format.code(),
        );
        // Who sees any of what follows sees that it is another format.
        fence(Ordering::Release);
        if format.is_counting() {
            let start = self.place.start * LINE;
            (start..start + format.row_words()).for_each(|at| area.store(at, 0));
        }
    }

    fn fit(&mut self, shape: &Shape, log: usize) {
        let words = self.format.row_words();
        let stamped = |fields| RowFormat::new(fields, Stamp::Cycles);
        self.layout = match self.format {
            format if format == stamped(Fields::USUAL) => Layout::Usual,
            format if format == stamped(Fields::ALL) => Layout::All,
            _ => Layout::Other,
        };
        self.shift = words.max(1).trailing_zeros();
        self.place.mask = if self.format.is_counting() || words == 0 {
            0
        } else {
            shape.rows(log, self.format) - 1
        };
    }
}

#[inline]
fn word(lines: &[Line], at: usize) -> &AtomicU64 {
    &lines[at / LINE].0[at % LINE]
}

/// Whether an event of any domain goes anywhere.
#[inline]
pub(super) fn is_on(area: &Area, event: EventId) -> bool {
    event.index() < area.shape.events && area.load(Shape::switch(event.index())) != 0
}

/// An event found no writer free.
pub(super) fn count_unrecorded(area: &Area) {
    area.word(header::UNRECORDED)
        .fetch_add(1, Ordering::Relaxed);
}

const _: () = assert!(LINE >= super::format::MAX_ROW_WORDS);
