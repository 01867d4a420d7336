//! Recording from any thread.

use core::cell::RefCell;
use std::sync::Arc;
use std::thread;

use super::area::Area;
use super::format::{Domain, EventId};
use super::writer::{Writer, count_unrecorded, is_on};

thread_local! {
    /// This thread's writers, mostly one.
    static WRITERS: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

struct Known {
    area: Arc<Area>,
    /// None if the area had no part left.
    writer: Option<Writer>,
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
            self.record_on(event, domain, counter, correspondent, &arguments);
        }
    }

    #[inline(never)]
    fn record_on(
        &self,
        event: EventId,
        domain: Domain,
        counter: u64,
        correspondent: Domain,
        arguments: &[u64; 3],
    ) {
        // A thread that ends has none any more, and one that records while it records has it in use: neither can be here but for
        // an event within another's, of which there are none.
        let recorded = WRITERS.try_with(|writers| {
            let mut writers = writers.try_borrow_mut().ok()?;
            let known = writers
                .iter()
                .position(|known| Arc::ptr_eq(&known.area, &self.area));
            let at = known.unwrap_or_else(|| self.begin(&mut writers));
            let writer = writers[at].writer.as_mut()?;
            writer.record_on(event, domain, counter, correspondent, arguments);
            Some(())
        });
        if !matches!(recorded, Ok(Some(()))) {
            count_unrecorded(&self.area);
        }
    }

    #[cold]
    fn begin(&self, writers: &mut Vec<Known>) -> usize {
        // Areas that nobody else has any more: its own handle, and its writer's.
        writers.retain(|known| {
            let own = 1 + usize::from(known.writer.is_some());
            Arc::strong_count(&known.area) > own
        });
        let thread = thread::current();
        writers.push(Known {
            area: Arc::clone(&self.area),
            writer: Writer::claim(&self.area, thread.name().unwrap_or_default()),
        });
        writers.len() - 1
    }
}
