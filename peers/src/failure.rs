//! How the program fails: a line on stderr, and an exit code.

use std::error::Error;
use std::process::ExitCode;

/// Why something did not do what it should.
#[derive(Debug)]
pub enum Failure {
    /// Said on stderr or in the table.
    Error(String),
    /// Nobody reads what is printed any more: not worth a word.
    BrokenPipe,
}

impl Failure {
    /// `what` failed because of `error` and what lies behind it.
    pub fn of(what: &str, error: &(dyn Error + 'static)) -> Self {
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

    pub(crate) fn text(self) -> String {
        match self {
            Self::Error(text) => text,
            Self::BrokenPipe => "nobody reads it".to_owned(),
        }
    }

    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Error(text) => {
                eprintln!("peers: {text}");
                ExitCode::FAILURE
            }
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
