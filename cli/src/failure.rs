//! How the program fails: a line on stderr, and an exit code.

use std::error::Error;
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
            // Some errors say what they are about, and some what lies behind them, themselves.
            if text.is_empty()
                || word.starts_with(&format!("{text}: "))
                || word.ends_with(&format!(" {text}"))
            {
                text = word;
            } else if !text.contains(&word) {
                text.push_str(": ");
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
                tell!("tautline: {text}");
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

/// Says something on stderr. The standard macro panics where that was closed.
macro_rules! tell {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        // The exit code says what matters all the same.
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}
pub(crate) use tell;

#[cfg(test)]
mod tests {
    use core::fmt;
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Said(&'static str, Option<io::Error>);

    impl fmt::Display for Said {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Said {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self.1.as_ref()?)
        }
    }

    fn text(what: &str, said: &'static str, behind: Option<&'static str>) -> String {
        let error = Said(said, behind.map(io::Error::other));
        match Failure::of(what, &error) {
            Failure::Error(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_said_twice() {
        assert_eq!(text("", "no room", None), "no room");
        assert_eq!(text("s", "no such file", None), "s: no such file");
        assert_eq!(text("x.toml", "x.toml: no room", None), "x.toml: no room");
        assert_eq!(
            text("x.toml", "cannot read x.toml", Some("no such file")),
            "cannot read x.toml: no such file"
        );
        assert_eq!(
            text("x.toml", "a file: no room", Some("no room")),
            "x.toml: a file: no room"
        );
    }
}
