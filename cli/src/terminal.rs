//! The terminal as long as something is drawn on it, and its last line for those who draw nothing.

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

/// The whole terminal, which is as it was once this is dropped.
pub(crate) struct Screen(Box<DefaultTerminal>);

impl Screen {
    /// `None` if standard output is no terminal that can be drawn on.
    pub(crate) fn open() -> Option<Self> {
        if !io::stdout().is_terminal() {
            return None;
        }
        // Restores the terminal on a panic too.
        Some(Self(Box::new(ratatui::try_init().ok()?)))
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(|_| ())
    }

    /// Whether the user has asked for the end: q, escape or Ctrl-C since this was asked last.
    pub(crate) fn wants_end() -> bool {
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

/// Shows in the last line what goes on, or with nothing to show removes that. Where nobody looks, nothing.
#[cfg(unix)]
pub(crate) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
