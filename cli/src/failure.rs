//! How the program fails: a line on stderr, and an exit code.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why the program ends otherwise than it should.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong: said on stderr, exit code 1.
    Error(String),
    /// Interrupted by the user, after its summary: exit code 130, as shells expect.
    Interrupted,
    /// Nobody reads what is printed any more: not worth a word.
    BrokenPipe,
}

impl Failure {
    /// `what` failed because of `error` and what lies behind it.
    pub(crate) fn of(what: &str, error: &(dyn Error + 'static)) -> Self {
        let mut text = what.to_owned();
        let mut next = Some(error);
        while let Some(error) = next {
            let word = error.to_string();
            // Some errors print what lies behind them themselves.
            if !text.contains(&word) {
                if !text.is_empty() {
                    text.push_str(": ");
                }
                text.push_str(&word);
            }
            next = error.source();
        }
        Self::Error(text)
    }

    /// The same, and what it happened in before it.
    pub(crate) fn within(self, what: &str) -> Self {
        match self {
            Self::Error(text) => Self::Error(format!("{what}: {text}")),
            other => other,
        }
    }

    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Error(text) => {
                // A terminal that was closed takes nothing; the exit code says it all the same.
                let _ = writeln!(io::stderr(), "tautline: {text}");
                ExitCode::FAILURE
            }
            Self::Interrupted => ExitCode::from(130),
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of("", &error)
    }
}

/// Prints a line to stdout. The standard macro panics where nobody reads any more.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        match writeln!(std::io::stdout(), $($part)*) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err($crate::failure::Failure::BrokenPipe),
            Err(error) => Err($crate::failure::Failure::of("stdout", &error)),
        }
    }};
}
pub(crate) use say;
