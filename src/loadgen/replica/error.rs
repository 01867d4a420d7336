//! What can be wrong with profiles and models.

use std::io;

use serde::Deserialize;
use thiserror::Error;

/// Why a profile or a model cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is too long.
    #[error("{given} bytes, of which at most {max} are read")]
    TooLong {
        /// Its length, bytes, as far as it was read.
        given: u64,
        /// What is read, bytes.
        max: u64,
    },
    /// It is no JSON of the right form.
    #[error("{0}")]
    Syntax(String),
    /// It is of another version.
    #[error("a {what} of version {given}; this program reads {known}")]
    Version {
        /// Profile or model.
        what: &'static str,
        /// Its version.
        given: u64,
        /// That of this program.
        known: u64,
    },
    /// It is a profile where a model is wanted, or the other way round.
    #[error(
        "a {given}, where a {wanted} is wanted (`tautline load model` makes models of profiles)"
    )]
    Kind {
        /// What it is.
        given: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
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
    /// Something cannot be called so, or is there twice.
    #[error("\"{given}\" is no name of {what}, or there twice")]
    Name {
        /// Of what.
        what: &'static str,
        /// Its name, as much of it as a message has room for.
        given: String,
    },
    /// An interval is none.
    #[error("an interval of {given} ms; there may be {min} to {max}")]
    Interval {
        /// Milliseconds.
        given: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// An interval has too few or too many values.
    #[error("interval {interval} has {given} values, where there are {expected}")]
    Width {
        /// Which, from 0.
        interval: usize,
        /// How many it has.
        given: usize,
        /// How many it should.
        expected: usize,
    },
    /// A value is not finite, below 0, or above what there can be.
    #[error("interval {interval} says {given}, which is no value")]
    Value {
        /// Which, from 0.
        interval: usize,
        /// What it says.
        given: f64,
    },
    /// Times go backwards.
    #[error("sample {sample} is not after the one before")]
    Order {
        /// Which, from 0.
        sample: usize,
    },
    /// A metric has no sample at all.
    #[error("{metric} was never read")]
    Unread {
        /// Which.
        metric: String,
    },
}

/// What is wrong with a file that is not `wanted`, by its first line: that it is of the other kind, if it is.
pub(super) fn other_kind(text: &str, wanted: &'static str) -> Option<ModelError> {
    #[derive(Deserialize)]
    struct Kinds {
        tautline_model: Option<u64>,
        tautline_profile: Option<u64>,
    }
    let kinds: Kinds = serde_json::from_str(text.lines().next()?).ok()?;
    let given = match (kinds.tautline_model, kinds.tautline_profile) {
        (Some(_), None) => "model",
        (None, Some(_)) => "profile",
        _ => return None,
    };
    (given != wanted).then_some(ModelError::Kind { given, wanted })
}
