//! What can be wrong with a workload.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why something cannot be part of a workload: what was given, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refused(pub(super) String);

impl Refused {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// `what` is not within its bounds.
    pub(super) fn bounds(what: &str, given: f64, least: f64, most: f64) -> Self {
        Self(format!("{what} {given}, which must be {least} to {most}"))
    }
}

/// Checks that a number is within bounds; what is no number never is.
pub(super) fn within(what: &str, given: f64, least: f64, most: f64) -> Result<f64, Refused> {
    if (least..=most).contains(&given) {
        Ok(given)
    } else {
        Err(Refused::bounds(what, given, least, most))
    }
}

/// As much of a text as a message has room for.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Why a workload cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Its file cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Its file is too long.
    #[error("a workload of more than {max} bytes")]
    TooLong {
        /// What is read, bytes.
        max: u64,
    },
    /// It is no TOML, or has keys that there are not.
    #[error("{0}")]
    Syntax(String),
    /// The value of a key cannot be.
    #[error("{key}: {source}")]
    Value {
        /// Which key, as in `streams[1].arrivals`, the first being 0.
        key: String,
        /// What is wrong with it.
        source: Refused,
    },
    /// What is wrong with a workload that was read from a file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<Self>,
    },
}

impl WorkloadError {
    pub(super) fn value(key: impl Into<String>) -> impl FnOnce(Refused) -> Self {
        |source| Self::Value {
            key: key.into(),
            source,
        }
    }
}
