//! What can go wrong with files and settings.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::event::MAX_NAME;
use super::formula::FormulaError;
use super::reason::{Missing, Place, Reason};

/// Why a file of event sets or of a processor's model cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is too long.
    #[error("a file of more than {max} bytes")]
    TooLong {
        /// What is read, bytes.
        max: u64,
    },
    /// It is neither JSON nor TOML of the right form.
    #[error("{0}")]
    Syntax(String),
    /// Too many of something, or none.
    #[error("{given} {what}, of which there must be 1 to {max}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        given: usize,
        /// How many there may be.
        max: usize,
    },
    /// Something cannot be called so.
    #[error(
        "\"{given}\" is no name of {what}: up to {MAX_NAME} letters, digits, and _ . : - within, a letter first"
    )]
    Name {
        /// Of what.
        what: &'static str,
        /// Its name.
        given: String,
    },
    /// There is no set of this name.
    #[error("there is no set \"{given}\"; there are {}", known.join(", "))]
    UnknownSet {
        /// What was asked for.
        given: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Two things of one kind have the same name.
    #[error("there are two {what}s called {name}")]
    Twice {
        /// Of what.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A formula cannot be read.
    #[error("{what} {name}: {source}")]
    Formula {
        /// Of what.
        what: &'static str,
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: FormulaError,
    },
    /// A formula needs what its set does not have.
    #[error(
        "{what} {metric} needs {name}, which its set does not have: neither as event nor as gauge"
    )]
    Needs {
        /// Of what.
        what: &'static str,
        /// Whose formula.
        metric: String,
        /// What it needs.
        name: String,
    },
    /// A level of the stack is of a set that is not there.
    #[error("level {level} of the stack is of set {set}, which is not there")]
    NoSet {
        /// The level.
        level: String,
        /// The set.
        set: String,
    },
    /// A penalty is no number of cycles.
    #[error("penalty {name} is {given}, which is no number of cycles")]
    Penalty {
        /// Its name.
        name: String,
        /// What it is said to be.
        given: f64,
    },
}

impl FileError {
    pub(super) fn name(what: &'static str, given: &str) -> Self {
        Self::Name {
            what,
            given: super::file::shorten(given),
        }
    }
}

/// Why there is no monitor.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// A number is out of its bounds.
    #[error("{given} {what}, of which there must be 1 to {max}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        given: usize,
        /// How many there may be.
        max: usize,
    },
    /// A name is none, or there twice.
    #[error(transparent)]
    Name(#[from] FileError),
    /// What is to be watched is not there or not to be watched.
    #[error("{place} cannot be watched: {reason}")]
    Place {
        /// What.
        place: Place,
        /// Why.
        reason: Reason,
    },
    /// The system does not tell which processors there are.
    #[error("which processors are online is not known: {0}")]
    Online(#[source] io::Error),
    /// Something was required and is missing.
    #[error("required, but missing: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Required(Vec<Missing>),
}
