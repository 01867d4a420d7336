//! What can go wrong with logs.

use std::io;

/// A log area could not be made, or not be set so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventLogError {
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
    /// A ring's length is no power of two, or too little or too much.
    #[error("a log of {given} bytes: it must be a power of two from 16 to {max}")]
    RingLen {
        /// Its length, bytes.
        given: usize,
        /// The longest, bytes.
        max: usize,
    },
    /// The whole area is too long.
    #[error("a log area of {given} bytes: it may have {max}")]
    AreaLen {
        /// Its length, bytes.
        given: usize,
        /// The longest, bytes.
        max: usize,
    },
    /// A log must have room for two rows, or for one that counts.
    #[error("rows of {row} bytes in a log of {ring}")]
    RowLen {
        /// Length of a row, bytes.
        row: usize,
        /// Length of the log, bytes.
        ring: usize,
    },
    /// There is no such event, domain or log.
    #[error("there is no {what} number {given}: there are {count}")]
    Unknown {
        /// Of what.
        what: &'static str,
        /// Which.
        given: usize,
        /// How many there are.
        count: usize,
    },
    /// The system gave no memory that can be shared.
    #[error("no memory to share: {0}")]
    Map(#[source] io::Error),
}

/// A log area could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It does not begin as one, or is of another version.
    #[error("this is no log area, or one of another version")]
    NotALog,
    /// It is shorter or longer than it says.
    #[error("a log area of {given} bytes, which says that it has {expected}")]
    Truncated {
        /// Its length, bytes.
        given: usize,
        /// What it should have, bytes.
        expected: usize,
    },
    /// It says what cannot be.
    #[error("the log area is damaged: {0}")]
    Damaged(&'static str),
    /// It could not be read.
    #[error("the log area could not be read: {0}")]
    Io(#[from] io::Error),
}

/// The log area of another process could not be set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// It has no such event, domain or log, or it cannot be set so.
    #[error(transparent)]
    Log(#[from] EventLogError),
    /// It could not be read or written.
    #[error(transparent)]
    Area(#[from] ReadError),
}
