//! Why a container could not be read.

use std::io;
use std::path::{Path, PathBuf};

use super::Format;

/// Why a path could not be read as a corpus.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system could not read the path.
    #[error("cannot read {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The path was read, but not understood.
    #[error("cannot read messages from {}", path.display())]
    Parse {
        /// The path.
        path: PathBuf,
        /// What is wrong with its content.
        source: ParseError,
    },
    /// The path is a directory, and a format of files was asked for.
    #[error("{} is a directory, and was to be read as {format}", path.display())]
    IsDirectory {
        /// The path.
        path: PathBuf,
        /// The format asked for.
        format: Format,
    },
}

impl ReadError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }

    pub(super) fn parse(path: &Path) -> impl FnOnce(ParseError) -> Self {
        let path = path.to_owned();
        |source| Self::Parse { path, source }
    }
}

/// What is wrong with a container. Offsets and lengths are in bytes from the start of the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The input ends inside a record.
    #[error("at byte {offset}: {needed} bytes needed, {available} available")]
    Truncated {
        /// Where the missing bytes were to start.
        offset: usize,
        /// How many bytes the record needs.
        needed: u64,
        /// How many there are.
        available: usize,
    },
    /// A message is longer than [`Limits::max_message`](super::Limits::max_message).
    #[error("at byte {offset}: a message of {given} bytes, {max} allowed")]
    MessageTooLong {
        /// Where the message, or its declared length, stands.
        offset: usize,
        /// Its length.
        given: u64,
        /// The longest allowed.
        max: usize,
    },
    /// There are more messages than [`Limits::max_messages`](super::Limits::max_messages).
    #[error("at byte {offset}: more than the {max} messages allowed")]
    TooManyMessages {
        /// Where the first message too many stands.
        offset: usize,
        /// How many are allowed.
        max: usize,
    },
    /// The input is longer than [`Limits::max_input`](super::Limits::max_input).
    #[error("an input of {given} bytes, {max} allowed")]
    InputTooLong {
        /// How long it is, at least.
        given: u64,
        /// The longest allowed.
        max: u64,
    },
    /// Neither content nor name tells the format: name it.
    #[error("neither content nor name tells the format")]
    UnknownFormat,
    /// A directory is read from a path, never from bytes.
    #[error("a directory cannot be read from bytes")]
    DirectoryFromBytes,
    /// What should be JSON is not.
    #[error("at byte {offset}: not JSON")]
    InvalidJson {
        /// Where the parser stopped, for an array, or where the line starts.
        offset: usize,
        /// What the JSON parser said; its line and column count from there for JSON lines.
        source: serde_json::Error,
    },
    /// The input does not start as its format says.
    #[error("at byte {offset}: magic number {found:#010x} is not that of {format}")]
    BadMagic {
        /// Where the magic number stands.
        offset: usize,
        /// The number, read as big-endian.
        found: u32,
        /// The format it was read as.
        format: Format,
    },
    /// A capture of a version that is not known.
    #[error("at byte {offset}: version {major}.{minor} of {format} is not known")]
    UnsupportedVersion {
        /// Where the version stands.
        offset: usize,
        /// The format it was read as.
        format: Format,
        /// Its major version.
        major: u16,
        /// Its minor version.
        minor: u16,
    },
    /// A pcap file whose packets are of a link type that is not known.
    #[error("at byte {offset}: link type {given} is not known")]
    UnsupportedLinkType {
        /// Where the link type stands.
        offset: usize,
        /// The link type, by its number in the tcpdump registry.
        given: u16,
    },
    /// A length that no sound writer would have written; where the next record starts is unknown.
    #[error("at byte {offset}: a length of {given}, which is not within {min}..={max}")]
    BadLength {
        /// Where the length stands.
        offset: usize,
        /// The length.
        given: u32,
        /// The smallest sound one.
        min: u32,
        /// The largest sound one.
        max: u32,
    },
    /// The two lengths at the ends of a pcapng block differ.
    #[error("at byte {offset}: a block length of {tail}, but {head} at the block's start")]
    LengthMismatch {
        /// Where the second length stands.
        offset: usize,
        /// The length at the block's start.
        head: u32,
        /// The length at its end.
        tail: u32,
    },
}
