//! The words of a log area, in this process's memory or shared with others.

use core::fmt;

#[cfg(all(unix, not(all(test, tautline_loom))))]
use super::error::EventLogError;
use super::error::ReadError;
#[cfg(feature = "transport")]
use super::format::{Fields, Route, RowFormat, Stamp};
#[cfg(all(unix, not(all(test, tautline_loom))))]
use super::mapped::Mapping;
use super::shape::{LINE, MAGIC, Shape, header, log};
use super::stamp;
use super::sync::{AtomicU64, Ordering, fence};

/// A cache line: words of different ones do not slow each other down.
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [AtomicU64; LINE]);

impl Line {
    fn zero() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

enum Memory {
    Own(Box<[Line]>),
    #[cfg(all(unix, not(all(test, tautline_loom))))]
    Shared(Mapping),
}

/// The words of a log area and where in it everything lies.
pub(super) struct Area {
    memory: Memory,
    pub(super) shape: Shape,
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area")
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl Area {
    pub(super) fn new(shape: Shape) -> Self {
        let lines = shape.words() / LINE;
        let memory = Memory::Own((0..lines).map(|_| Line::zero()).collect());
        Self { memory, shape }.begun()
    }

    #[cfg(all(unix, not(all(test, tautline_loom))))]
    pub(super) fn shared(shape: Shape, mapping: Mapping) -> Result<Self, EventLogError> {
        if mapping.lines().len() * LINE != shape.words() {
            let other = std::io::ErrorKind::UnexpectedEof;
            return Err(EventLogError::Map(other.into()));
        }
        let memory = Memory::Shared(mapping);
        Ok(Self { memory, shape }.begun())
    }

    fn begun(self) -> Self {
        let shape = &self.shape;
        let counts = [
            (header::EVENTS, shape.events),
            (header::DOMAINS, shape.domains),
            (header::LOGS, shape.rings.len()),
            (header::WRITERS, shape.writers),
            (header::WORDS, shape.words()),
        ];
        for (at, count) in counts {
            self.store(at, count as u64);
        }
        for (number, ring) in shape.rings.iter().enumerate() {
            self.store(shape.log(number) + log::RING, *ring as u64);
        }
        // Who sees this sees all of the above.
        fence(Ordering::Release);
        self.store(header::MAGIC, MAGIC);
        self
    }

    #[inline]
    pub(super) fn lines(&self) -> &[Line] {
        match &self.memory {
            Memory::Own(lines) => lines,
            #[cfg(all(unix, not(all(test, tautline_loom))))]
            Memory::Shared(mapping) => mapping.lines(),
        }
    }

    /// The descriptor of memory that is shared.
    #[cfg(all(unix, not(all(test, tautline_loom))))]
    pub(super) fn file(&self) -> Option<&std::fs::File> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Shared(mapping) => Some(mapping.file()),
        }
    }

    /// # Panics
    ///
    /// There is no such word: whoever asks has it from the shape.
    #[inline]
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        &self.lines()[at / LINE].0[at % LINE]
    }

    #[inline]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Routes or formats were set just now.
    pub(super) fn note_set(&self) {
        let settings = self.word(header::SET);
        let before = settings.load(Ordering::Relaxed);
        settings.store(stamp::after(before), Ordering::Release);
    }

    /// A bit for each event that has a row of all fields in the first log each time it happens, whatever its domain.
    #[cfg(feature = "transport")]
    pub(super) fn plain_events(&self) -> u64 {
        let shape = &self.shape;
        let full = RowFormat::new(Fields::ALL, Stamp::Cycles);
        let is_full = self.load(shape.log(0) + log::FORMAT) == full.code();
        // There is a bit for each of 64.
        if !is_full || shape.events > u64::BITS as usize {
            return 0;
        }
        let is_plain = |event: &usize| {
            let mut routes = (0..shape.domains).map(|domain| shape.route(*event, domain));
            routes.all(|at| self.load(at) == Route::FIRST)
        };
        let plain = (0..shape.events).filter(is_plain);
        plain.fold(0, |plain, event| plain | 1 << event)
    }

    pub(super) fn store_all(&self, at: usize, values: &[u64]) {
        for (number, value) in values.iter().enumerate() {
            self.store(at + number, *value);
        }
    }
}

/// Words that a reader reads, of this process or another.
pub(super) trait Words: fmt::Debug {
    /// Words there are.
    fn len(&self) -> usize;

    /// The word at a place.
    fn load(&self, at: usize) -> Result<u64, ReadError>;

    /// Appends those of a range.
    fn copy(&self, from: usize, len: usize, into: &mut Vec<u64>) -> Result<(), ReadError>;
}

impl Words for std::sync::Arc<Area> {
    fn len(&self) -> usize {
        self.shape.words()
    }

    fn load(&self, at: usize) -> Result<u64, ReadError> {
        Ok(self.word(at).load(Ordering::Acquire))
    }

    fn copy(&self, from: usize, len: usize, into: &mut Vec<u64>) -> Result<(), ReadError> {
        into.extend((from..from + len).map(|at| Area::load(self, at)));
        Ok(())
    }
}
