//! What is wrong with a file.

use std::error::Error;
use std::fmt;
use std::io;

use tautline::pmu::ReplayError;

use super::input::{KINDS, Kind};

/// Why a file cannot be reported on. Each names the file, and the line where there is one.
#[derive(Debug)]
pub(crate) enum InputError {
    /// It cannot be opened or read.
    Io { file: String, source: io::Error },
    /// There is nothing in it.
    Empty { file: String },
    /// A line is longer than any that is written.
    TooLong {
        file: String,
        line: usize,
        max: usize,
    },
    /// It begins with nothing that is known.
    Unknown { file: String, line: usize },
    /// A line is not what all others are.
    Mixed {
        file: String,
        line: usize,
        first: Kind,
        found: Kind,
    },
    /// A line of a known kind that is wrong.
    Line {
        file: String,
        line: usize,
        kind: Kind,
        reason: String,
    },
    /// More of something than is kept.
    TooMany {
        file: String,
        line: usize,
        what: &'static str,
        max: usize,
    },
    /// A recording that cannot be replayed.
    Recording { file: String, source: ReplayError },
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { file, source } => write!(f, "{file}: {source}"),
            Self::Empty { file } => {
                write!(f, "{file}: there is nothing in it; what is known: {KINDS}")
            }
            Self::TooLong { file, line, max } => {
                write!(
                    f,
                    "{file}: line {line} is longer than {max} bytes; what is known: {KINDS}"
                )
            }
            Self::Unknown { file, line } => {
                write!(
                    f,
                    "{file}: line {line} is nothing that is known, which is: {KINDS}"
                )
            }
            Self::Mixed {
                file,
                line,
                first,
                found,
            } => write!(
                f,
                "{file}: line {line} is {found}, and the file begins with {first}: a file holds one kind; what is known: {KINDS}"
            ),
            Self::Line {
                file,
                line,
                kind,
                reason,
            } => write!(f, "{file}: line {line}, {kind}: {reason}"),
            Self::TooMany {
                file,
                line,
                what,
                max,
            } => write!(f, "{file}: line {line}: more than {max} {what}"),
            Self::Recording { file, source } => {
                write!(f, "{file}, {}: {source}", Kind::Monitor)
            }
        }
    }
}

impl Error for InputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Recording { source, .. } => Some(source),
            _ => None,
        }
    }
}
