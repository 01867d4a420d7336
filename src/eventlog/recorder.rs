//! Recording from any thread.

use core::cell::RefCell;
use std::sync::Arc;
use std::thread;

use super::area::Area;
use super::format::{Domain, EventId};
use super::stamp::Moment;
#[cfg(feature = "transport")]
use super::writer::FullRows;
use super::writer::{Heading, Occurrence, Writer, count_unrecorded, is_on};

thread_local! {
    static WRITERS: RefCell<Writers> = const { RefCell::new(Writers::NONE) };
}

/// A thread's writers, mostly one, which lies where it is found without a pointer.
struct Writers {
    first: Option<Known>,
    others: Vec<Known>,
}

struct Known {
    area: Arc<Area>,
    /// None if the area had no part left.
    writer: Option<Writer>,
}

#[cfg(feature = "transport")]
impl Drop for Known {
    fn drop(&mut self) {
        super::prepared::forget();
    }
}

impl Known {
    /// Whether nobody else has its area any more: only its own handle, and its writer's.
    fn is_left(&self) -> bool {
        let own = 1 + usize::from(self.writer.is_some());
        Arc::strong_count(&self.area) <= own
    }
}

impl Writers {
    const NONE: Self = Self {
        first: None,
        others: Vec::new(),
    };

    /// That of an area, which is claimed if there is none yet.
    #[inline]
    fn of(&mut self, area: &Arc<Area>) -> Option<&mut Writer> {
        let is_first = matches!(&self.first, Some(known) if Arc::ptr_eq(&known.area, area));
        let known = if is_first {
            self.first.as_mut()
        } else {
            self.of_others(area)
        };
        known?.writer.as_mut()
    }

    #[cold]
    fn of_others(&mut self, area: &Arc<Area>) -> Option<&mut Known> {
        let known = |known: &Known| Arc::ptr_eq(&known.area, area);
        if let Some(at) = self.others.iter().position(known) {
            return self.others.get_mut(at);
        }
        self.first.take_if(|known| known.is_left());
        self.others.retain(|known| !known.is_left());
        let thread = thread::current();
        let new = Known {
            area: Arc::clone(area),
            writer: Writer::claim(area, thread.name().unwrap_or_default()),
        };
        if self.first.is_none() {
            return Some(self.first.insert(new));
        }
        self.others.push(new);
        self.others.last_mut()
    }
}

/// Records events from whichever thread has them, each with a [`Writer`] of its own, which it takes with its first event
/// and gives back when it ends. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    area: Arc<Area>,
}

impl Recorder {
    pub(super) const fn new(area: Arc<Area>) -> Self {
        Self { area }
    }

    #[cfg(feature = "transport")]
    #[inline]
    pub(super) const fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// Whether rows are made of an event of any domain: what to ask first where it costs something to find out what to record.
    #[inline]
    pub fn is_on(&self, event: EventId) -> bool {
        is_on(&self.area, event)
    }

    /// As [`Writer::record`].
    #[inline]
    pub fn record(&self, event: EventId, domain: Domain, counter: u64, correspondent: Domain) {
        self.record_with(event, domain, counter, correspondent, [0; 3]);
    }

    /// As [`Writer::record_with`].
    #[inline]
    pub fn record_with(
        &self,
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
            let occurrence = Occurrence {
                heading,
                counter,
                arguments,
            };
            self.record_now(&occurrence);
        }
    }

    #[inline(never)]
    fn record_now(&self, occurrence: &Occurrence) {
        self.write(occurrence, Moment::now, |_| ());
    }

    /// The same of an event that happened at a moment; where the thread's other rows go that have all fields.
    #[cfg(feature = "transport")]
    pub(super) fn write_at(&self, occurrence: &Occurrence, at: Moment) -> Option<FullRows> {
        self.write(occurrence, || at, Writer::full_rows).flatten()
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a row is written in not much more time than a call takes"
    )]
    fn write<R>(
        &self,
        occurrence: &Occurrence,
        at: impl FnOnce() -> Moment,
        then: impl FnOnce(&Writer) -> R,
    ) -> Option<R> {
        // A thread that ends has none any more, and one that records while it records has it in use: neither can be here but for
        // an event within another's, of which there are none.
        let recorded = WRITERS.try_with(|writers| {
            let mut writers = writers.try_borrow_mut().ok()?;
            let writer = writers.of(&self.area)?;
            writer.write(occurrence, at);
            Some(then(writer))
        });
        let recorded = recorded.ok().flatten();
        if recorded.is_none() {
            count_unrecorded(&self.area);
        }
        recorded
    }
}
