//! A log area and what is recorded in it.

use core::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::area::Area;
use super::error::EventLogError;
use super::format::{Domain, EventId, EventKind, LogId, Route, RowFormat};
use super::reader::Reader;
use super::recorder::Recorder;
use super::shape::{Shape, header, log, name_words};
use super::stamp::Reading;
use super::writer::Writer;

/// What a log area is to hold: events that there are, logs that their rows may go to, domains, writers.
///
/// All memory is taken when it is made: for each writer the lengths of all logs, and 64 bytes for each log. Names are of 56 bytes at
/// most, and cut if they are longer.
#[derive(Clone, Debug)]
pub struct EventLogConfig {
    events: Vec<(String, EventKind)>,
    logs: Vec<(String, usize, RowFormat)>,
    domains: usize,
    writers: usize,
}

impl Default for EventLogConfig {
    /// No events and no logs yet; one domain, 64 writers.
    fn default() -> Self {
        Self {
            events: Vec::new(),
            logs: Vec::new(),
            domains: 1,
            writers: 64,
        }
    }
}

impl EventLogConfig {
    /// One event more: [`EventId`]s count them from 0, in this order. 1024 at most.
    #[must_use]
    pub fn event(mut self, name: impl Into<String>, kind: EventKind) -> Self {
        self.events.push((name.into(), kind));
        self
    }

    /// One log more, whose ring has `bytes` for each writer, a power of two from 16 on: [`LogId`]s count them from 0, in this order. 1024
    /// at most.
    #[must_use]
    pub fn log(mut self, name: impl Into<String>, bytes: usize, format: RowFormat) -> Self {
        self.logs.push((name.into(), bytes, format));
        self
    }

    /// Accounting domains, 1 to 4096. Default: 1. For each event and domain there are 8 bytes, and 4 more for each writer.
    #[must_use]
    pub fn domains(mut self, domains: usize) -> Self {
        self.domains = domains;
        self
    }

    /// Threads that may record at the same time, 1 to 4096. Default: 64. Events of more than that are only counted
    /// ([`Reader::unrecorded`]).
    #[must_use]
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers;
        self
    }

    fn shape(&self) -> Result<Shape, EventLogError> {
        let mut rings = Vec::with_capacity(self.logs.len());
        for &(_, bytes, _) in &self.logs {
            if bytes % 8 != 0 {
                let max = super::shape::MAX_RING * 8;
                return Err(EventLogError::RingLen { given: bytes, max });
            }
            rings.push(bytes / 8);
        }
        let shape = Shape::new(self.events.len(), self.domains, self.writers, rings)?;
        for (number, &(_, _, format)) in self.logs.iter().enumerate() {
            shape.check(number, format)?;
        }
        Ok(shape)
    }

    fn write(&self, area: &Area) {
        let shape = &area.shape;
        for (number, (name, kind)) in self.events.iter().enumerate() {
            area.store(shape.event(number), kind.code());
            area.store_all(shape.event(number) + 1, &name_words(name));
        }
        for (number, (name, _, format)) in self.logs.iter().enumerate() {
            area.store_all(shape.log(number), &name_words(name));
            area.store(shape.log(number) + log::FORMAT, format.code());
        }
        let reading = Reading::now();
        area.store(header::CYCLES, reading.cycles);
        area.store(header::NANOS, reading.nanos);
        area.store(header::PROCESS, u64::from(std::process::id()));
    }
}

/// What an event log's handles share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) area: Arc<Area>,
    /// Who changes routes.
    control: Mutex<()>,
}

/// In-memory cyclic logs of events: who used what, when, at a few nanoseconds an event (Stöß 2005). See the [module](super).
///
/// Everything may be changed while events are recorded, through any handle: clones are handles of the same area. Nothing is recorded until
/// [`Self::route`] says so.
#[derive(Clone, Debug)]
pub struct EventLog {
    pub(super) inner: Arc<Inner>,
}

impl EventLog {
    /// An area in this process's memory, which no other process can read.
    ///
    /// # Errors
    ///
    /// There cannot be so many of something, or a log is too short for its rows.
    pub fn new(config: &EventLogConfig) -> Result<Self, EventLogError> {
        Ok(Self::of(config, Area::new(config.shape()?)))
    }

    /// An area that other processes of the same user can read, and set, by this process's number: see [`attach`](super::attach). Its
    /// memory is a file without a name, sealed against becoming shorter, and gone with the last process that has it.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`], or the system gives no such memory.
    #[cfg(all(
        any(target_os = "linux", target_os = "android"),
        not(all(test, tautline_loom))
    ))]
    pub fn shared(config: &EventLogConfig) -> Result<Self, EventLogError> {
        let shape = config.shape()?;
        let mapping = super::mapped::Mapping::sealed(shape.words());
        let area = Area::shared(shape, mapping.map_err(EventLogError::Map)?)?;
        Ok(Self::of(config, area))
    }

    /// An area in a file, which is made anew: what was there under its name is gone. It stays when this process ends, so that the
    /// last rows can be read after a crash ([`open`](super::open)).
    ///
    /// Only this user may read and write it. Who makes the file shorter while it is in use ends this process (SIGBUS), so that it
    /// belongs where nobody else does.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`], or the file cannot be made.
    #[cfg(all(unix, not(all(test, tautline_loom))))]
    pub fn create(
        path: impl AsRef<std::path::Path>,
        config: &EventLogConfig,
    ) -> Result<Self, EventLogError> {
        let shape = config.shape()?;
        let mapping = super::mapped::Mapping::create(path.as_ref(), shape.words());
        let area = Area::shared(shape, mapping.map_err(EventLogError::Map)?)?;
        Ok(Self::of(config, area))
    }

    fn of(config: &EventLogConfig, area: Area) -> Self {
        config.write(&area);
        Self {
            inner: Arc::new(Inner {
                area: Arc::new(area),
                control: Mutex::default(),
            }),
        }
    }

    /// Where an event goes from now on, or that it goes nowhere: that of one domain, or of all.
    ///
    /// # Errors
    ///
    /// There is no such event, domain or log.
    pub fn route(
        &self,
        event: EventId,
        domain: Option<Domain>,
        route: Option<Route>,
    ) -> Result<(), EventLogError> {
        let area = &*self.inner.area;
        let shape = &area.shape;
        let domains = domains_of(shape, event, domain, route)?;
        let code = route.map_or(0, Route::code);
        let control = self.inner.control.lock();
        let _control = control.unwrap_or_else(PoisonError::into_inner);
        for domain in domains {
            area.store(shape.route(event.index(), domain), code);
        }
        let any =
            (0..shape.domains).any(|domain| area.load(shape.route(event.index(), domain)) != 0);
        area.store(Shape::switch(event.index()), u64::from(any));
        area.note_set();
        Ok(())
    }

    /// What rows of a log are from now on. Rows of the format before that have not been read are lost, and counted as that.
    ///
    /// # Errors
    ///
    /// There is no such log, or it is too short for such rows.
    pub fn set_format(&self, log: LogId, format: RowFormat) -> Result<(), EventLogError> {
        let area = &*self.inner.area;
        known("log", log.index(), area.shape.rings.len())?;
        area.shape.check(log.index(), format)?;
        area.store(area.shape.log(log.index()) + log::FORMAT, format.code());
        area.note_set();
        Ok(())
    }

    /// What a domain is called, for those who print rows.
    ///
    /// # Errors
    ///
    /// There is no such domain.
    pub fn name_domain(&self, domain: Domain, name: &str) -> Result<(), EventLogError> {
        let area = &*self.inner.area;
        known("domain", domain.index(), area.shape.domains)?;
        area.store_all(area.shape.domain(domain.index()) + 1, &name_words(name));
        Ok(())
    }

    /// The domain of this name: one that has it already, or else the first that has none, which is named so from now on. `None` if all
    /// have other names. It looks through the names one after another, so ask once and keep it.
    pub fn domain_named(&self, name: &str) -> Option<Domain> {
        let area = &*self.inner.area;
        let wanted = name_words(name);
        let control = self.inner.control.lock();
        let _control = control.unwrap_or_else(PoisonError::into_inner);
        for number in 0..area.shape.domains {
            let at = area.shape.domain(number) + 1;
            let words = wanted.iter().enumerate();
            if words
                .clone()
                .all(|(word, wanted)| area.load(at + word) == *wanted)
            {
                return Some(Domain(number as u16));
            }
            if words.clone().all(|(word, _)| area.load(at + word) == 0) {
                area.store_all(at, &wanted);
                return Some(Domain(number as u16));
            }
        }
        None
    }

    /// A producer for one thread, named so; `None` if there are as many as there may be.
    pub fn writer(&self, name: &str) -> Option<Writer> {
        Writer::claim(&self.inner.area, name)
    }

    /// What any thread records with: it takes a [`Writer`] for each thread that does.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(Arc::clone(&self.inner.area))
    }

    /// Reads from the oldest rows there are.
    pub fn reader(&self) -> Reader {
        Reader::of(&self.inner.area)
    }

    /// The file that the area is in, if it is.
    #[cfg(all(unix, not(all(test, tautline_loom))))]
    pub fn file(&self) -> Option<&std::fs::File> {
        self.inner.area.file()
    }
}

/// The domains whose route it is that is set, if all of these are there.
pub(super) fn domains_of(
    shape: &Shape,
    event: EventId,
    domain: Option<Domain>,
    route: Option<Route>,
) -> Result<Range<usize>, EventLogError> {
    known("event", event.index(), shape.events)?;
    if let Some(route) = route {
        known("log", route.log().index(), shape.rings.len())?;
    }
    let Some(domain) = domain else {
        return Ok(0..shape.domains);
    };
    known("domain", domain.index(), shape.domains)?;
    Ok(domain.index()..domain.index() + 1)
}

pub(super) fn known(what: &'static str, given: usize, count: usize) -> Result<(), EventLogError> {
    if given < count {
        Ok(())
    } else {
        Err(EventLogError::Unknown { what, given, count })
    }
}
