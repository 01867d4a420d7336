//! Settings that go when those who look on have gone.

use core::ops::Deref;
use core::time::Duration;

use super::control::{Control, Lock};
use super::error::{ReadError, SetError};
use super::shape::{header, log};

/// How often, and how long apart, it is tried to begin while another begins or ends.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// What is set in another process for as long as somebody looks on ([`visit`](super::visit())).
///
/// There may be several at once, of any processes. What was set before the first of them began is kept in the area, and put back
/// when the last of them ends, in whatever order they do; what the process itself set in between is lost then. If one
/// is killed, what it set stays until another has begun and ended.
#[derive(Debug)]
pub struct Visit {
    control: Control,
    pub(super) has_ended: bool,
}

impl Visit {
    pub(super) fn begin(control: Control) -> Result<Self, ReadError> {
        for _ in 0..TRIES {
            if control.words.lock(Lock::Alone)? && !control.is_kept()? {
                control.keep()?;
            }
            // Another may come and go before this is ours, too.
            if control.words.lock(Lock::Shared)? && control.is_kept()? {
                return Ok(Self {
                    control,
                    has_ended: false,
                });
            }
            // Two that kept what they have here would never find themselves alone.
            control.words.lock(Lock::None)?;
            std::thread::sleep(PAUSE);
        }
        let busy = "others begin and end all the time, or one of them stands still";
        Err(std::io::Error::new(std::io::ErrorKind::ResourceBusy, busy).into())
    }

    /// Ends it, as dropping it does, and says if that fails.
    ///
    /// # Errors
    ///
    /// The area cannot be read or written any more: what was set stays so.
    pub fn end(mut self) -> Result<(), SetError> {
        Ok(self.leave()?)
    }

    fn leave(&mut self) -> Result<(), ReadError> {
        self.has_ended = true;
        // Of several that end at once the last to ask is alone.
        if self.control.words.lock(Lock::Alone)? {
            self.control.put_back()?;
        }
        Ok(())
    }
}

impl Deref for Visit {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if !self.has_ended {
            // Who wants to know calls `end`.
            let _ = self.leave();
        }
    }
}

impl Control {
    fn is_kept(&self) -> Result<bool, ReadError> {
        Ok(self.words.load(header::KEPT)? != 0)
    }

    /// All that can be set and where it is kept, formats last.
    fn settings(&self) -> impl Iterator<Item = (usize, usize)> {
        let shape = &self.shape;
        let (kept, routes) = (shape.kept(), shape.events * shape.domains);
        let routes_at = (0..routes).map(|number| shape.route(0, 0) + number);
        let formats_at = (0..shape.rings.len()).map(|number| shape.log(number) + log::FORMAT);
        routes_at.chain(formats_at).zip(kept..)
    }

    fn keep(&self) -> Result<(), ReadError> {
        for (at, kept) in self.settings() {
            self.words.store(kept, self.words.load(at)?)?;
        }
        self.words.store(header::KEPT, 1)
    }

    fn put_back(&self) -> Result<(), ReadError> {
        // Routes first: rows of a format that nobody asks for any more are of no use.
        for (at, kept) in self.settings() {
            let before = self.words.load(kept)?;
            if self.words.load(at)? != before {
                self.words.store(at, before)?;
            }
        }
        (0..self.shape.events).try_for_each(|event| self.switch(event))?;
        self.words.store(header::KEPT, 0)
    }
}
