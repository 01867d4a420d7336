//! Control of another process's log: which of its events become rows, and what rows hold.

use super::area::Words;
use super::error::{EventLogError, ReadError, SetError};
use super::format::{Domain, EventId, LogId, Route, RowFormat};
use super::log::{domains_of, known};
use super::shape::{Shape, log};

/// Words of an area that can be set, too.
pub(super) trait WritableWords: Words {
    fn store(&self, at: usize, value: u64) -> Result<(), ReadError>;
}

/// Sets what another process records ([`control`](super::control)), while it does.
///
/// Nobody keeps two of them, or one and the process itself, from setting the same: what was set last stands.
#[derive(Debug)]
pub struct Control {
    words: Box<dyn WritableWords + Send>,
    shape: Shape,
}

/// What an area's routes and formats were at some time ([`Control::settings`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// One code for each event and domain.
    routes: Vec<u64>,
    formats: Vec<u64>,
}

impl Control {
    pub(super) fn new(words: Box<dyn WritableWords + Send>) -> Result<Self, ReadError> {
        let shape = Shape::read(words.len(), |at| words.load(at))?;
        Ok(Self { words, shape })
    }

    /// Where an event goes from now on, or that it goes nowhere: that of one domain, or of all.
    ///
    /// # Errors
    ///
    /// There is no such event, domain or log, or the area cannot be written.
    pub fn route(
        &self,
        event: EventId,
        domain: Option<Domain>,
        route: Option<Route>,
    ) -> Result<(), SetError> {
        let shape = &self.shape;
        let code = route.map_or(0, Route::code);
        for domain in domains_of(shape, event, domain, route)? {
            self.words.store(shape.route(event.index(), domain), code)?;
        }
        Ok(self.switch(event.index())?)
    }

    /// Says whether an event of any domain goes anywhere.
    fn switch(&self, event: usize) -> Result<(), ReadError> {
        let mut any = false;
        for domain in 0..self.shape.domains {
            any |= self.words.load(self.shape.route(event, domain))? != 0;
        }
        self.words.store(Shape::switch(event), u64::from(any))
    }

    /// What rows of a log are from now on.
    ///
    /// # Errors
    ///
    /// There is no such log, it is too short for such rows, or the area cannot be written.
    pub fn set_format(&self, log: LogId, format: RowFormat) -> Result<(), SetError> {
        known("log", log.index(), self.shape.rings.len())?;
        self.shape.check(log.index(), format)?;
        let at = self.shape.log(log.index()) + log::FORMAT;
        Ok(self.words.store(at, format.code())?)
    }

    /// All routes and formats as they are, to be put back when one is done ([`Self::restore`]).
    ///
    /// # Errors
    ///
    /// The area cannot be read any more.
    pub fn settings(&self) -> Result<Settings, ReadError> {
        let shape = &self.shape;
        let mut routes = Vec::new();
        let first = shape.route(0, 0);
        self.words
            .copy(first, shape.events * shape.domains, &mut routes)?;
        let formats = (0..shape.rings.len())
            .map(|number| self.words.load(shape.log(number) + log::FORMAT))
            .collect::<Result<_, _>>()?;
        Ok(Settings { routes, formats })
    }

    /// Puts routes and formats back.
    ///
    /// # Errors
    ///
    /// They are another area's, or the area cannot be written.
    pub fn restore(&self, settings: &Settings) -> Result<(), SetError> {
        let shape = &self.shape;
        if settings.formats.len() != shape.rings.len() {
            return Err(EventLogError::Unknown {
                what: "log",
                given: settings.formats.len(),
                count: shape.rings.len(),
            }
            .into());
        }
        known(
            "route",
            settings.routes.len(),
            shape.events * shape.domains + 1,
        )?;
        // Events first: rows of a format that nobody asked for any more are of no use.
        for (number, code) in settings.routes.iter().enumerate() {
            let at = shape.route(0, 0) + number;
            if self.words.load(at)? != *code {
                self.words.store(at, *code)?;
            }
        }
        (0..shape.events).try_for_each(|event| self.switch(event))?;
        for (number, code) in settings.formats.iter().enumerate() {
            let at = shape.log(number) + log::FORMAT;
            if self.words.load(at)? != *code {
                self.words.store(at, *code)?;
            }
        }
        Ok(())
    }
}
