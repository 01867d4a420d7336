//! The terminal as long as something is drawn on it, and its last line for those who draw nothing.

use std::io::{self, IsTerminal};
use std::mem;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

/// The whole terminal, which is as it was once this is dropped.
pub(crate) struct Screen(Option<Box<DefaultTerminal>>);

impl Screen {
    /// `None` if standard output is no terminal that can be drawn on.
    pub(crate) fn open() -> Option<Self> {
        if !io::stdout().is_terminal() {
            return None;
        }
        // Restores the terminal on a panic too.
        Some(Self(Some(Box::new(ratatui::try_init().ok()?))))
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let Some(terminal) = &mut self.0 else {
            return Ok(());
        };
        match terminal.draw(draw) {
            Err(error) if !is_closed() => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the user has asked for the end: q, escape or Ctrl-C since this was asked last; or has closed the terminal.
    pub(crate) fn wants_end() -> bool {
        // Of one that is closed, what reads the keys would read nothing again and again, and never return (crossterm 0.29).
        if is_closed() {
            return true;
        }
        while event::poll(Duration::ZERO).unwrap_or(false) {
            if let Ok(Event::Key(key)) = event::read() {
                let interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                let quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
                if key.kind == KeyEventKind::Press && (interrupt || quit) {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether nobody looks at the terminal any more. Mostly a signal ends a program then, but one that is not of the terminal's session, or ignores it, goes on.
#[cfg(unix)]
fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = io::stdout();
    let mut of = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut of, Some(&now)).is_ok() && of[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(not(unix))]
fn is_closed() -> bool {
    false
}

/// Shows in the last line what goes on, or with nothing to show removes that. Where nobody looks, nothing.
#[cfg(unix)]
pub(crate) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let terminal = self.0.take();
        if is_closed() {
            // Nothing is to be restored of it; what tries to says that it cannot, on the same terminal, and panics of that.
            mem::forget(terminal);
        } else {
            drop(terminal);
            ratatui::restore();
        }
    }
}
