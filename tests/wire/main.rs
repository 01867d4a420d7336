//! The wire format against the vectors of `tests/vectors`, and against arbitrary bytes.
//!
//! `tests/vectors/check.py` checks the same vectors with a second implementation.

mod arbitrary;
mod envelope;
mod read;
mod show;
mod transcripts;
mod vectors;

/// The longest block of a vector that names none.
const MAX_BLOCK: usize = 256 << 10;
