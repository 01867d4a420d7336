//! Control of another process's log: which of its events become rows, and what rows hold.

use super::area::Words;
use super::error::{ReadError, SetError};
use super::format::{Domain, EventId, LogId, Route, RowFormat};
use super::log::{domains_of, known};
use super::shape::{Shape, header, log};
use super::stamp;

/// Words of an area that can be set, too.
pub(super) trait WritableWords: Words {
    fn store(&self, at: usize, value: u64) -> Result<(), ReadError>;

    /// Whether who has these words has them locked so now; other processes' locks end with them. What was locked before is not
    /// any more, even if this fails.
    fn lock(&self, lock: Lock) -> Result<bool, ReadError>;
}

/// Who else may have an area locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Shared,
    Alone,
    None,
}

/// Sets what another process records ([`control`](super::control())), while it does.
///
/// Nobody keeps two of them, or one and the process itself, from setting the same: what was set last stands. It stands when this
/// is gone, too; for settings that go with who made them see [`Visit`](super::Visit).
#[derive(Debug)]
pub struct Control {
    pub(super) words: Box<dyn WritableWords + Send>,
    pub(super) shape: Shape,
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
    pub(super) fn switch(&self, event: usize) -> Result<(), ReadError> {
        let mut any = false;
        for domain in 0..self.shape.domains {
            any |= self.words.load(self.shape.route(event, domain))? != 0;
        }
        self.words.store(Shape::switch(event), u64::from(any))?;
        self.note_set()
    }

    /// Routes or formats were set just now.
    fn note_set(&self) -> Result<(), ReadError> {
        let before = self.words.load(header::SET)?;
        self.words.store(header::SET, stamp::after(before))
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
        self.words.store(at, format.code())?;
        Ok(self.note_set()?)
    }
}
