//! Where every reader puts its messages, under the limits, and counts what it leaves out.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use super::{Corpus, Format, Limits, ParseError};
use crate::units::Time;

/// Why a packet, line or directory entry yields no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// The packet is not IPv4 or IPv6: address resolution, spanning tree, MPLS.
    NotIp,
    /// The packet is neither TCP nor UDP nor SCTP.
    OtherTransport,
    /// The packet is a fragment of an IP packet.
    IpFragment,
    /// The packet carries no user data: a pure acknowledgement, or SCTP control chunks.
    NoPayload,
    /// The packet was cut short when it was captured.
    ShortCapture,
    /// A header or a length in the packet is wrong.
    Malformed,
    /// The packet's interface has a link type that is not known.
    UnknownLinkType,
    /// The packet names an interface that its section does not describe.
    UnknownInterface,
    /// A fragment of an SCTP message that had been captured already.
    Retransmission,
    /// The capture ends inside this record, as when the capturing program was stopped.
    CutOff,
    /// The line is empty.
    EmptyLine,
    /// The directory entry is not a file.
    NotAFile,
}

impl SkipReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NotIp => "not IP",
            Self::OtherTransport => "other transport",
            Self::IpFragment => "IP fragment",
            Self::NoPayload => "no payload",
            Self::ShortCapture => "short capture",
            Self::Malformed => "malformed",
            Self::UnknownLinkType => "unknown link type",
            Self::UnknownInterface => "unknown interface",
            Self::Retransmission => "retransmission",
            Self::CutOff => "cut off",
            Self::EmptyLine => "empty line",
            Self::NotAFile => "not a file",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How much was left out, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Skipped(BTreeMap<SkipReason, u64>);

impl Skipped {
    /// How many packets, lines or entries were left out for `reason`.
    pub fn count(&self, reason: SkipReason) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// How many were left out in all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SkipReason, u64)> {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }
}

/// The corpus while it is being read.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    limits: &'a Limits,
    messages: Vec<Bytes>,
    times: Vec<Option<Time>>,
    skipped: Skipped,
    unjoined_fragments: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            messages: Vec::new(),
            times: Vec::new(),
            skipped: Skipped::default(),
            unjoined_fragments: 0,
        }
    }

    /// Whether a message of `len` bytes, which stands at `offset`, is still within the limits.
    pub(super) fn check(&self, offset: usize, len: u64) -> Result<(), ParseError> {
        if len > self.limits.message_len as u64 {
            return Err(ParseError::MessageTooLong {
                offset,
                given: len,
                max: self.limits.message_len,
            });
        }
        if self.messages.len() >= self.limits.messages {
            return Err(ParseError::TooManyMessages {
                offset,
                max: self.limits.messages,
            });
        }
        Ok(())
    }

    /// Takes a message that stands at `offset`.
    pub(super) fn push(&mut self, offset: usize, message: Bytes) -> Result<(), ParseError> {
        self.check(offset, message.len() as u64)?;
        self.messages.push(message);
        Ok(())
    }

    /// Takes a message of a capture, from the record at `offset`, with its time. A reader calls either
    /// this or [`push`](Self::push) for all its messages.
    pub(super) fn push_recorded(
        &mut self,
        offset: usize,
        message: Bytes,
        at: Option<Time>,
    ) -> Result<(), ParseError> {
        self.push(offset, message)?;
        self.times.push(at);
        Ok(())
    }

    pub(super) fn skip(&mut self, reason: SkipReason) {
        *self.skipped.0.entry(reason).or_default() += 1;
    }

    pub(super) fn count_unjoined(&mut self, fragments: usize) {
        self.unjoined_fragments += fragments as u64;
    }

    pub(super) fn max_message(&self) -> usize {
        self.limits.message_len
    }

    pub(super) fn into_corpus(self, name: &str, format: Format) -> Corpus {
        Corpus {
            name: name.to_owned(),
            format,
            messages: self.messages,
            times: self.times,
            skipped: self.skipped,
            unjoined_fragments: self.unjoined_fragments,
        }
    }
}
