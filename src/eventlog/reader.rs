//! Reading rows while they are written, without ever stopping who writes.
//!
//! A pass over a ring notes how many rows there are, copies those it has not read yet, and looks again: whatever may have been
//! overwritten meanwhile is not handed out but counted as lost. So what is handed out is whole, and every row
//! that was ever written is either handed out once or counted.

use std::sync::Arc;

use super::area::{Area, Words};
use super::error::ReadError;
use super::format::{Domain, EventId, EventKind, FORMAT_BITS, Fields, LogId, RowFormat, Stamp};
use super::shape::{NAMED, Shape, header, log, name_of, register};
use super::stamp::{Reading, Timebase};
use super::sync::{Ordering, fence};

/// One row, with the fields that its log's format has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Which part of the area it is from: whose name is [`Reader::writer_name`].
    pub writer: usize,
    /// Which log.
    pub log: LogId,
    /// How many rows that writer had written to that log before. Of a log that counts: how many events the row stands for, less one.
    pub number: u64,
    /// Which event.
    pub event: Option<EventId>,
    /// Whose.
    pub domain: Option<Domain>,
    /// How much; of a log that counts, the sum since it began to.
    pub counter: Option<u64>,
    /// The domain on the other side.
    pub correspondent: Option<Domain>,
    /// When, as the log's [`Stamp`] says.
    pub stamp: Option<u64>,
    /// The event's arguments, which mean what whoever made it says.
    pub first: Option<u64>,
    /// See `first`.
    pub second: Option<u64>,
    /// See `first`.
    pub third: Option<u64>,
}

/// What became of the rows that were written since the reader began, as far as it has read: each is in one of these, but for
/// `discarded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStats {
    /// Rows handed out.
    pub rows: u64,
    /// Events of logs that count, in the sums that were handed out.
    pub summed: u64,
    /// Rows that were overwritten, or given up with their format, before they were read.
    pub lost: u64,
    /// Rows of logs without fields.
    pub bare: u64,
    /// Rings of which a pass gave nothing, because their writer had gone all the way round or changed its format meanwhile.
    pub discarded: u64,
}

/// Reads the rows of all writers of a log area, each once. Any number of readers may do so, in any process; writers do not notice.
#[derive(Debug)]
pub struct Reader {
    words: Box<dyn Words + Send>,
    shape: Shape,
    /// Of each writer's logs, the row that is next: those before it are read, or counted as lost.
    cursors: Vec<u64>,
    scratch: Vec<u64>,
    stats: ReadStats,
    begun: Reading,
}

impl Reader {
    pub(super) fn of(area: &Arc<Area>) -> Self {
        let words = Box::new(Arc::clone(area));
        Self::begin(words, area.shape.clone())
    }

    /// # Errors
    ///
    /// What the words say of their own order cannot be.
    pub(super) fn open(words: Box<dyn Words + Send>) -> Result<Self, ReadError> {
        let shape = Shape::read(words.len(), |at| words.load(at))?;
        Ok(Self::begin(words, shape))
    }

    fn begin(words: Box<dyn Words + Send>, shape: Shape) -> Self {
        let word = |at| words.load(at).unwrap_or(0);
        let begun = Reading {
            cycles: word(header::CYCLES),
            nanos: word(header::NANOS),
        };
        let mut cursors = Vec::with_capacity(shape.writers * shape.rings.len());
        for writer in 0..shape.writers {
            for log in 0..shape.rings.len() {
                // What was overwritten before anyone read is no loss of this reader's.
                let register = shape.register(writer, log);
                let index = word(register + register::INDEX);
                let format = word(register + register::FORMAT);
                let rows = shape.rows(log, RowFormat::from_code(format));
                let oldest = oldest(index, rows).max(format >> FORMAT_BITS);
                cursors.push(oldest.min(index));
            }
        }
        Self {
            words,
            shape,
            cursors,
            scratch: Vec::new(),
            stats: ReadStats::default(),
            begun,
        }
    }

    /// Appends what is new in all rings to `rows`: those of a writer's log in their order. Takes as long as it takes to copy it,
    /// however fast rows are written.
    ///
    /// # Errors
    ///
    /// The area is another process's, and cannot be read any more or says what cannot be. Rows read until then are appended.
    pub fn pass(&mut self, rows: &mut Vec<Row>) -> Result<(), ReadError> {
        for writer in 0..self.shape.writers {
            for log in 0..self.shape.rings.len() {
                self.pass_ring(writer, log, rows)?;
            }
        }
        Ok(())
    }

    fn pass_ring(
        &mut self,
        writer: usize,
        log: usize,
        rows: &mut Vec<Row>,
    ) -> Result<(), ReadError> {
        let register = self.shape.register(writer, log);
        let cursor = &mut self.cursors[writer * self.shape.rings.len() + log];
        let index = self.words.load(register + register::INDEX)?;
        if index == *cursor {
            return Ok(());
        }
        let code = self.words.load(register + register::FORMAT)?;
        let format = RowFormat::from_code(code);
        let start = code >> FORMAT_BITS;
        if index < *cursor {
            return Err(ReadError::Damaged("it has fewer rows than before"));
        }
        let row_words = format.row_words();
        if self.shape.check(log, format).is_err() {
            return Err(ReadError::Damaged("its rows are longer than their log"));
        }
        let capacity = self.shape.rows(log, format);
        let ring = self.shape.ring(writer, log);
        let from = if format.is_counting() {
            index.saturating_sub(1)
        } else {
            oldest(index, capacity)
        };
        let from = from.max(start).max(*cursor).min(index);
        self.scratch.clear();
        if row_words > 0 && from < index {
            let first = (from % capacity) as usize;
            let count = (index - from) as usize;
            if format.is_counting() {
                self.words.copy(ring, row_words, &mut self.scratch)?;
            } else {
                let until_end = count.min(capacity as usize - first);
                let at = ring + first * row_words;
                self.words
                    .copy(at, until_end * row_words, &mut self.scratch)?;
                let rest = (count - until_end) * row_words;
                self.words.copy(ring, rest, &mut self.scratch)?;
            }
        }
        // What was read above was there before what is read now.
        fence(Ordering::Acquire);
        let again = self.words.load(register + register::FORMAT)?;
        if again != code {
            add(&mut self.stats.discarded, 1);
            return Ok(());
        }
        if row_words == 0 {
            // Before the first of them, rows had another format, and are gone.
            let first = start.max(*cursor).min(index);
            add(&mut self.stats.lost, first - *cursor);
            add(&mut self.stats.bare, index - first);
            *cursor = index;
            return Ok(());
        }
        let valid = if format.is_counting() {
            let begun = self.words.load(register + register::BEGUN)?;
            if begun == index { from } else { index }
        } else {
            let index = self.words.load(register + register::INDEX)?;
            oldest(index, capacity).max(from)
        };
        if valid >= index {
            add(&mut self.stats.discarded, u64::from(from < index));
            if format.is_counting() {
                // Nothing is lost: it goes on adding up.
                return Ok(());
            }
        }
        let valid = valid.min(index);
        if format.is_counting() {
            let first = start.max(*cursor).min(index);
            add(&mut self.stats.lost, first - *cursor);
            add(&mut self.stats.summed, index - first);
            if from < index {
                rows.push(row(writer, log, index - start - 1, format, &self.scratch));
            }
        } else {
            add(&mut self.stats.lost, valid - *cursor);
            add(&mut self.stats.rows, index - valid);
            let skipped = (valid - from) as usize * row_words;
            let read = self.scratch[skipped..].chunks_exact(row_words);
            rows.extend(
                read.zip(valid..)
                    .map(|(words, number)| row(writer, log, number, format, words)),
            );
        }
        *cursor = index;
        Ok(())
    }

    /// What passes have come across so far.
    pub const fn stats(&self) -> ReadStats {
        self.stats
    }

    /// Events that found no writer free, since the area was made.
    ///
    /// # Errors
    ///
    /// As of [`Self::pass`].
    pub fn unrecorded(&self) -> Result<u64, ReadError> {
        self.words.load(header::UNRECORDED)
    }

    /// The process whose area it is.
    ///
    /// # Errors
    ///
    /// As of [`Self::pass`].
    pub fn process(&self) -> Result<u32, ReadError> {
        let process = self.words.load(header::PROCESS)?;
        u32::try_from(process).map_err(|_| ReadError::Damaged("its process has no number"))
    }

    /// What cycles are in time.
    pub fn timebase(&self) -> Timebase {
        Timebase::new(self.begun, Reading::now())
    }

    /// How many events, domains, logs and writers there may be.
    pub fn counts(&self) -> Counts {
        Counts {
            events: self.shape.events,
            domains: self.shape.domains,
            logs: self.shape.rings.len(),
            writers: self.shape.writers,
        }
    }

    /// An event's name and kind.
    ///
    /// # Errors
    ///
    /// As of [`Self::pass`], or there is no such event.
    pub fn event(&mut self, event: EventId) -> Result<(String, EventKind), ReadError> {
        if event.index() >= self.shape.events {
            return Err(ReadError::Damaged("an event that is not in its list"));
        }
        let at = self.shape.event(event.index());
        let kind = EventKind::from_code(self.words.load(at)?);
        let kind = kind.ok_or(ReadError::Damaged("an event of no kind"))?;
        Ok((self.name(at + 1)?, kind))
    }

    /// A domain's name; empty if it has none.
    ///
    /// # Errors
    ///
    /// As of [`Self::pass`], or there is no such domain.
    pub fn domain_name(&mut self, domain: Domain) -> Result<String, ReadError> {
        if domain.index() >= self.shape.domains {
            return Err(ReadError::Damaged("a domain that is not in its list"));
        }
        self.name(self.shape.domain(domain.index()) + 1)
    }

    /// A log's name, the length of its ring in bytes, and what its rows are to be.
    ///
    /// # Errors
    ///
    /// As of [`Self::pass`], or there is no such log.
    pub fn log(&mut self, log: LogId) -> Result<(String, usize, RowFormat), ReadError> {
        let ring = self.shape.rings.get(log.index());
        let bytes = *ring.ok_or(ReadError::Damaged("a log that is not in its list"))? * 8;
        let at = self.shape.log(log.index());
        let format = RowFormat::from_code(self.words.load(at + log::FORMAT)?);
        Ok((self.name(at)?, bytes, format))
    }

    /// Name of the thread that a part of the area is of, or was last.
    ///
    /// # Errors
    ///
    /// As of [`Self::pass`], or there is no such part.
    pub fn writer_name(&mut self, writer: usize) -> Result<String, ReadError> {
        if writer >= self.shape.writers {
            return Err(ReadError::Damaged("a writer that is not in its list"));
        }
        self.name(self.shape.writer(writer) + 1)
    }

    fn name(&mut self, at: usize) -> Result<String, ReadError> {
        self.scratch.clear();
        self.words.copy(at, NAMED - 1, &mut self.scratch)?;
        Ok(name_of(&self.scratch))
    }
}

/// How many there may be of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events.
    pub events: usize,
    /// Accounting domains.
    pub domains: usize,
    /// Logs.
    pub logs: usize,
    /// Writers.
    pub writers: usize,
}

/// A damaged area may say that there is more than can be counted.
const fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The oldest row that is whole for certain, of so many, in a ring with room for `rows`: the one at the index may be being written, over
/// the row that is a whole round older.
const fn oldest(index: u64, rows: u64) -> u64 {
    index.saturating_sub(rows.saturating_sub(1))
}

fn row(writer: usize, log: usize, number: u64, format: RowFormat, words: &[u64]) -> Row {
    let mut words = words.iter().copied();
    let fields = format.fields();
    let mut id = |field| {
        let id = fields.contain(field).then(|| words.next()).flatten();
        id.map(|id| u16::try_from(id).unwrap_or(u16::MAX))
    };
    let event = id(Fields::EVENT).map(EventId);
    let domain = id(Fields::DOMAIN).map(Domain);
    let correspondent = id(Fields::CORRESPONDENT).map(Domain);
    let stamp = (format.stamp() != Stamp::Off)
        .then(|| words.next())
        .flatten();
    let mut word = |field| fields.contain(field).then(|| words.next()).flatten();
    let first = word(Fields::FIRST);
    let second = word(Fields::SECOND);
    let third = word(Fields::THIRD);
    let counter = word(Fields::COUNTER);
    Row {
        writer,
        log: LogId(log as u16),
        number,
        event,
        domain,
        counter,
        correspondent,
        stamp,
        first,
        second,
        third,
    }
}
