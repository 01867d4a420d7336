//! Readers of message containers: where measurements and replays take their messages from.
//!
//! A [`Corpus`] is an ordered list of messages. It comes from a `.msgs` file, lines of text, JSON, a
//! directory of files, or a network capture; [`Format`] says how each of them is cut into messages.
//!
//! ```
//! use bytes::Bytes;
//! use tautline::corpus::{Corpus, Format};
//!
//! let input = Bytes::from_static(b"one\ntwo\n");
//! let corpus = Corpus::parse("example.txt", &input, None)?;
//! assert_eq!(corpus.format(), Format::Lines);
//! assert_eq!(corpus.messages(), ["one", "two"]);
//! println!("{}", corpus.summary());
//! # Ok::<(), tautline::corpus::ParseError>(())
//! ```
//!
//! # Limits and trade-offs
//!
//! The whole input is held in memory once, and messages are slices of it; only SCTP messages that
//! were sent in fragments are copied. Nothing is reserved on the word of a length in the input. Each
//! message costs about 50 bytes of bookkeeping besides, which [`Limits::max_messages`] bounds.
//!
//! Compressed containers are not unpacked, and captures are not descended into beyond the first
//! transport layer: the payload of a tunnel's datagram is one message.

mod capture;
mod directory;
mod error;
mod format;
mod json;
mod lines;
mod msgs;
mod sink;
mod summary;

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

use bytes::Bytes;

pub use self::error::{ParseError, ReadError};
pub use self::format::{Format, ParseFormatError};
pub use self::sink::{SkipReason, Skipped};
pub use self::summary::Summary;

use self::sink::Sink;
use crate::units::Time;

/// Messages in the order in which they were found, and what is known about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    name: String,
    format: Format,
    messages: Vec<Bytes>,
    // As long as `messages` for captures, empty for every other format.
    times: Vec<Option<Time>>,
    skipped: Skipped,
    unjoined_fragments: u64,
}

impl Corpus {
    /// A corpus of messages that were made elsewhere, by a generator for example.
    pub fn new(name: impl Into<String>, messages: Vec<Bytes>) -> Self {
        Self {
            name: name.into(),
            format: Format::Msgs,
            messages,
            times: Vec::new(),
            skipped: Skipped::default(),
            unjoined_fragments: 0,
        }
    }

    /// Messages of one byte each, recorded at these times.
    #[cfg(all(test, feature = "loadgen"))]
    pub(crate) fn of_times(name: &str, nanos: &[u64]) -> Self {
        let mut corpus = Self::new(name, vec![Bytes::from_static(b"x"); nanos.len()]);
        corpus.times = nanos.iter().map(|at| Some(Time::from_nanos(*at))).collect();
        corpus
    }

    /// Reads a file, or a directory of files, with the default [`Limits`]. Without a format, it is
    /// [detected](Format#detection).
    ///
    /// # Errors
    ///
    /// [`ReadError`] when the path cannot be read or its content is damaged.
    pub fn read(path: impl AsRef<Path>, format: Option<Format>) -> Result<Self, ReadError> {
        Self::read_with(path, format, &Limits::default())
    }

    /// As [`read`](Self::read), with limits of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_with(
        path: impl AsRef<Path>,
        format: Option<Format>,
        limits: &Limits,
    ) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy();
        let is_directory = path.metadata().map_err(ReadError::io(path))?.is_dir();
        if is_directory || format == Some(Format::Directory) {
            if let Some(format) = format.filter(|format| *format != Format::Directory) {
                return Err(ReadError::IsDirectory {
                    path: path.to_owned(),
                    format,
                });
            }
            let mut sink = Sink::new(limits);
            directory::read(path, limits, &mut sink)?;
            return Ok(sink.into_corpus(&name, Format::Directory));
        }
        let input = read_file(path, limits.input_len)?;
        Self::parse_with(&name, &input, format, limits).map_err(ReadError::parse(path))
    }

    /// Reads a container that is already in memory, with the default [`Limits`]: a pure function of
    /// its arguments. Without a format, it is [detected](Format#detection).
    ///
    /// # Errors
    ///
    /// [`ParseError`] when the format cannot be told or the content is damaged.
    pub fn parse(name: &str, input: &Bytes, format: Option<Format>) -> Result<Self, ParseError> {
        Self::parse_with(name, input, format, &Limits::default())
    }

    /// As [`parse`](Self::parse), with limits of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_with(
        name: &str,
        input: &Bytes,
        format: Option<Format>,
        limits: &Limits,
    ) -> Result<Self, ParseError> {
        if input.len() as u64 > limits.input_len {
            return Err(ParseError::InputTooLong {
                given: input.len() as u64,
                max: limits.input_len,
            });
        }
        let format = format
            .or_else(|| format::detect(name, input))
            .ok_or(ParseError::UnknownFormat)?;
        let mut sink = Sink::new(limits);
        match format {
            Format::Msgs => msgs::read(input, &mut sink)?,
            Format::Lines => lines::read(input, &mut sink)?,
            Format::JsonLines => json::read_lines(input, &mut sink)?,
            Format::JsonArray => json::read_array(input, &mut sink)?,
            Format::Pcap => capture::read_pcap(input, &mut sink)?,
            Format::PcapNg => capture::read_pcapng(input, &mut sink)?,
            Format::Directory => return Err(ParseError::DirectoryFromBytes),
        }
        Ok(sink.into_corpus(name, format))
    }

    /// The name it was given: the last part of the path it was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format it was read in; [`Format::Msgs`] for one made in memory.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The messages.
    pub fn messages(&self) -> &[Bytes] {
        &self.messages
    }

    /// The messages, taken out.
    pub fn into_messages(self) -> Vec<Bytes> {
        self.messages
    }

    /// When message `index` was recorded, since the Unix epoch. `None` for formats without times, for
    /// packets without one, and beyond the last message.
    pub fn time(&self, index: usize) -> Option<Time> {
        self.times.get(index).copied().flatten()
    }

    /// Every message with the time at which it was recorded, where there is one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Option<Time>, &Bytes)> {
        let timed = |(index, message)| (self.time(index), message);
        self.messages.iter().enumerate().map(timed)
    }

    /// What was left out, and why.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// How many messages are single fragments of an SCTP message whose other fragments are missing
    /// or came out of order.
    pub fn unjoined_fragments(&self) -> u64 {
        self.unjoined_fragments
    }

    /// Count and lengths of the messages, and what was skipped.
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }

    /// Writes the messages in [`Format::Msgs`]; recorded times are lost. Give a buffered writer.
    ///
    /// # Errors
    ///
    /// What the writer reports, or [`io::ErrorKind::InvalidInput`] for a message of 4 GiB or more.
    pub fn write_msgs(&self, writer: impl Write) -> io::Result<()> {
        msgs::write(&self.messages, writer)
    }
}

/// How much a reader accepts. The defaults fit containers that fit in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    message_len: usize,
    messages: usize,
    input_len: u64,
}

impl Default for Limits {
    /// 64 MiB a message, 16 Mi messages, 4 GiB of input; all three arbitrary.
    fn default() -> Self {
        Self {
            message_len: 64 << 20,
            messages: 16 << 20,
            input_len: 4 << 30,
        }
    }
}

impl Limits {
    /// The longest message accepted, in bytes. Default 64 MiB.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.message_len = bytes;
        self
    }

    /// How many messages are accepted; each costs about 50 bytes besides its content. Default 16 Mi.
    #[must_use]
    pub fn max_messages(mut self, count: usize) -> Self {
        self.messages = count;
        self
    }

    /// The longest input accepted, in bytes, over all files of a directory. Default 4 GiB.
    #[must_use]
    pub fn max_input(mut self, bytes: u64) -> Self {
        self.input_len = bytes;
        self
    }
}

/// The content of a file of at most `max` bytes.
fn read_file(path: &Path, max: u64) -> Result<Bytes, ReadError> {
    let file = File::open(path).map_err(ReadError::io(path))?;
    let mut content = Vec::new();
    // One byte more than allowed tells a file that grew, or has no length, from one that fits.
    (&file)
        .take(max.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(ReadError::io(path))?;
    if content.len() as u64 > max {
        let metadata = file.metadata().map_err(ReadError::io(path))?;
        return Err(ReadError::parse(path)(ParseError::InputTooLong {
            given: metadata.len().max(content.len() as u64),
            max,
        }));
    }
    Ok(Bytes::from(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            input in proptest::collection::vec(any::<u8>(), 0..600),
            format in proptest::option::of(proptest::sample::select(Format::ALL)),
        ) {
            let input = Bytes::from(input);
            let longest = input.len();
            if let Ok(corpus) = Corpus::parse("any", &input, format) {
                prop_assert!(corpus.messages().iter().all(|message| message.len() <= longest));
                let _ = corpus.summary().to_string();
            }
        }
    }

    #[test]
    fn limits_bound_messages_and_input() {
        let input = Bytes::from_static(b"one\nthree\n");
        let parse = |limits: Limits| Corpus::parse_with("a.txt", &input, None, &limits);
        assert!(matches!(
            parse(Limits::default().max_message(4)),
            Err(ParseError::MessageTooLong {
                offset: 4,
                given: 5,
                max: 4
            })
        ));
        assert!(matches!(
            parse(Limits::default().max_messages(1)),
            Err(ParseError::TooManyMessages { offset: 4, max: 1 })
        ));
        assert!(matches!(
            parse(Limits::default().max_input(9)),
            Err(ParseError::InputTooLong { given: 10, max: 9 })
        ));
    }

    #[test]
    fn files_are_read_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.txt");
        std::fs::write(&path, "a\nbb\n").unwrap();
        let corpus = Corpus::read(&path, None).unwrap();
        assert_eq!((corpus.name(), corpus.format()), ("log.txt", Format::Lines));
        assert_eq!(corpus.messages(), ["a", "bb"]);
        assert_eq!(corpus.time(0), None);

        let limits = Limits::default().max_input(4);
        let error = Corpus::read_with(&path, None, &limits).unwrap_err();
        assert!(error.to_string().contains("log.txt"));
        assert!(matches!(
            error,
            ReadError::Parse {
                source: ParseError::InputTooLong { given: 5, max: 4 },
                ..
            }
        ));
        assert!(matches!(
            Corpus::read(directory.path().join("absent"), None),
            Err(ReadError::Io { .. })
        ));
        assert!(matches!(
            Corpus::read(directory.path(), Some(Format::Pcap)),
            Err(ReadError::IsDirectory { .. })
        ));
    }
}
