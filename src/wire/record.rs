//! Records: what a block's body decodes to.
//!
//! ```text
//! head:1 = kk m s l 000   [stream]  [correlation | part]  [message length]  [payload length]  payload
//! ```
//!
//! `kk` kind, `m` more fragments follow, `s` stream named (else that of the record before, in the
//! same group), `l` payload length named (else the payload goes to the end of the block). The
//! correlation stands in the first fragment of requests and replies, and so does what a part is of its message;
//! the message's whole length in the first of several fragments.

use bytes::Bytes;

use super::varint::{put_varint, read_varint};
use super::{StreamId, WireError};

const KIND_SHIFT: u8 = 6;
const MORE: u8 = 0x20;
const STREAM: u8 = 0x10;
pub(super) const LENGTH: u8 = 0x08;
const RESERVED: u8 = 0x07;

/// Bytes of a stream's window that each message takes besides its payload: what a message costs its
/// receiver however short it is, so that empty ones are limited too.
pub const MESSAGE_CHARGE: u64 = 32;

/// What a message is.
///
/// In memory it is two words, which messages are moved with as such. Else the compiler moves it in pieces that overlap, of which processors forward none from one move to the
/// next (docs/benchmarks.md: a message's kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RecordKind {
    /// A message.
    Message,
    /// A message that wants a reply with the same correlation.
    Request {
        /// Chosen by the asker, unique among its open requests on the stream.
        correlation: u64,
    },
    /// The reply to a request.
    Reply {
        /// The request's.
        correlation: u64,
    },
    /// A part of a message that is sent while it is still read or made, by a sender who does not know its length, and may
    /// be longer than either end's memory. For window, credit and order each part is a message; between parts none but replies may come.
    Part(Part),
}

/// What a part is of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Others follow.
    More,
    /// The end of the message.
    Last,
    /// The sender could not go on: what came before is not a whole message. It has no bytes.
    GivenUp,
}

impl Part {
    const fn number(self) -> u64 {
        match self {
            Self::More => 0,
            Self::Last => 1,
            Self::GivenUp => 2,
        }
    }

    const fn from_number(number: u64) -> Result<Self, WireError> {
        match number {
            0 => Ok(Self::More),
            1 => Ok(Self::Last),
            2 => Ok(Self::GivenUp),
            given => Err(WireError::Unknown {
                what: "part",
                given,
            }),
        }
    }
}

impl RecordKind {
    const fn number(self) -> u8 {
        match self {
            Self::Message => 0,
            Self::Request { .. } => 1,
            Self::Reply { .. } => 2,
            Self::Part(_) => 3,
        }
    }

    /// The field that stands with the kind.
    const fn field(self) -> Option<u64> {
        match self {
            Self::Message => None,
            Self::Request { correlation } | Self::Reply { correlation } => Some(correlation),
            Self::Part(part) => Some(part.number()),
        }
    }

    /// Whether a message of this kind may come between the parts of another: there is nothing else that it could be for.
    pub const fn may_interrupt_parts(self) -> bool {
        matches!(self, Self::Part(_) | Self::Reply { .. })
    }

    /// Whether its message goes on, where one that came in parts had `before`.
    pub(crate) const fn goes_on(self, before: bool) -> bool {
        match self {
            Self::Part(part) => matches!(part, Part::More),
            Self::Reply { .. } => before,
            Self::Message | Self::Request { .. } => false,
        }
    }
}

/// A message or a fragment of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its stream.
    pub stream: StreamId,
    /// What the message is; `None` in a fragment that continues one.
    pub kind: Option<RecordKind>,
    /// The whole message's length, in the first of several fragments.
    pub message_len: Option<u64>,
    /// Whether more fragments of the message follow.
    pub more: bool,
    /// The bytes.
    pub payload: Bytes,
}

/// Where in its message a record to be written stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The whole message.
    Whole,
    /// The first of several fragments of a message of so many bytes.
    First { message_len: u64 },
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
}

/// Writes record headers; remembers the group's last stream from block to block.
#[derive(Clone, Debug, Default)]
pub struct RecordWriter {
    last_stream: Option<StreamId>,
}

impl RecordWriter {
    /// Appends the header of a whole message. `payload_len` is `None` for the block's last record.
    pub fn put_whole(
        &mut self,
        out: &mut Vec<u8>,
        stream: StreamId,
        kind: RecordKind,
        payload_len: Option<usize>,
    ) {
        self.put(out, stream, kind, Place::Whole, payload_len);
    }

    /// Whether the next record of this stream need not name it.
    pub(crate) fn is_at(&self, stream: StreamId) -> bool {
        self.last_stream == Some(stream)
    }

    #[inline]
    pub(crate) fn put(
        &mut self,
        out: &mut Vec<u8>,
        stream: StreamId,
        kind: RecordKind,
        place: Place,
        payload_len: Option<usize>,
    ) {
        let mut head = 0;
        let first = matches!(place, Place::Whole | Place::First { .. });
        if first {
            head |= kind.number() << KIND_SHIFT;
        }
        if matches!(place, Place::First { .. } | Place::Middle) {
            head |= MORE;
        }
        let names_stream = !self.is_at(stream);
        if names_stream {
            head |= STREAM;
            self.last_stream = Some(stream);
        }
        if payload_len.is_some() {
            head |= LENGTH;
        }
        out.push(head);
        if names_stream {
            put_varint(out, u64::from(stream.get()));
        }
        if let (true, Some(field)) = (first, kind.field()) {
            put_varint(out, field);
        }
        if let Place::First { message_len } = place {
            put_varint(out, message_len);
        }
        if let Some(payload_len) = payload_len {
            put_varint(out, payload_len as u64);
        }
    }
}

/// Reads the records of a group's blocks; remembers the last stream from block to block.
#[derive(Clone, Debug, Default)]
pub struct RecordReader {
    last_stream: Option<StreamId>,
}

impl RecordReader {
    /// Takes the next record from the front of `plain`, the decoded rest of a block; `None` at its
    /// end. `continues` says whether a stream has an unfinished message.
    ///
    /// # Errors
    ///
    /// A record that is cut off, has unknown flags, or names no stream where none was named before.
    pub fn next(
        &mut self,
        plain: &mut Bytes,
        continues: impl FnOnce(StreamId) -> bool,
    ) -> Result<Option<Record>, WireError> {
        let bytes: &[u8] = plain;
        let Some(&head) = bytes.first() else {
            return Ok(None);
        };
        if head & RESERVED != 0 {
            return Err(WireError::Unknown {
                what: "record flags",
                given: u64::from(head),
            });
        }
        let mut at = 1;
        let mut varint = || -> Result<u64, WireError> {
            let (value, len) =
                read_varint(&bytes[at..])?.ok_or(WireError::Truncated { what: "record" })?;
            at += len;
            Ok(value)
        };
        let stream = if head & STREAM == 0 {
            self.last_stream.ok_or(WireError::Unexpected {
                what: "a record names no stream and none was named before",
            })?
        } else {
            let given = varint()?;
            let max = u64::from(StreamId::MAX);
            u32::try_from(given)
                .ok()
                .and_then(StreamId::new)
                .ok_or(WireError::FieldTooLarge {
                    field: "stream id",
                    given,
                    max,
                })?
        };
        self.last_stream = Some(stream);
        let more = head & MORE != 0;
        let (kind, message_len) = if continues(stream) {
            if head >> KIND_SHIFT != 0 {
                return Err(WireError::Unexpected {
                    what: "a message begins inside another of its stream",
                });
            }
            (None, None)
        } else {
            let kind = match head >> KIND_SHIFT {
                0 => RecordKind::Message,
                1 => RecordKind::Request {
                    correlation: varint()?,
                },
                2 => RecordKind::Reply {
                    correlation: varint()?,
                },
                _ => RecordKind::Part(Part::from_number(varint()?)?),
            };
            (Some(kind), if more { Some(varint()?) } else { None })
        };
        let payload_len = if head & LENGTH == 0 {
            None
        } else {
            Some(varint()?)
        };
        let available = bytes.len() - at;
        let payload_len = match payload_len {
            None => available,
            Some(given) if given <= available as u64 => given as usize,
            Some(given) => {
                return Err(WireError::FieldTooLarge {
                    field: "payload length",
                    given,
                    max: available as u64,
                });
            }
        };
        let payload = if payload_len == 0 {
            bytes::Buf::advance(plain, at);
            Bytes::new()
        } else if payload_len == available {
            // The last of a block, most often its only one: what is left, without another reference to it.
            bytes::Buf::advance(plain, at);
            core::mem::take(plain)
        } else {
            let payload = plain.slice(at..at + payload_len);
            bytes::Buf::advance(plain, at + payload_len);
            payload
        };
        Ok(Some(Record {
            stream,
            kind,
            message_len,
            more,
            payload,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: u32) -> StreamId {
        StreamId::new(number).expect("in range")
    }

    fn read_all(plain: &[u8]) -> Result<Vec<Record>, WireError> {
        let mut plain = Bytes::copy_from_slice(plain);
        let mut reader = RecordReader::default();
        let mut open = None;
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut plain, |id| open == Some(id))? {
            open = record.more.then_some(record.stream);
            records.push(record);
        }
        Ok(records)
    }

    #[test]
    fn records_read_back_in_every_place_and_kind() {
        let mut writer = RecordWriter::default();
        let mut plain = Vec::new();
        let request = RecordKind::Request { correlation: 300 };
        writer.put(
            &mut plain,
            stream(0),
            RecordKind::Message,
            Place::Whole,
            Some(3),
        );
        plain.extend_from_slice(b"abc");
        writer.put(
            &mut plain,
            stream(0),
            request,
            Place::First { message_len: 4 },
            Some(1),
        );
        plain.extend_from_slice(b"d");
        writer.put(&mut plain, stream(0), request, Place::Middle, Some(2));
        plain.extend_from_slice(b"ef");
        writer.put(&mut plain, stream(0), request, Place::Last, Some(1));
        plain.extend_from_slice(b"g");
        writer.put(
            &mut plain,
            stream(9),
            RecordKind::Reply { correlation: 1 },
            Place::Whole,
            Some(0),
        );
        writer.put(
            &mut plain,
            stream(9),
            RecordKind::Message,
            Place::Whole,
            None,
        );
        plain.extend_from_slice(b"tail");
        let records = read_all(&plain).expect("valid");
        let brief: Vec<_> = records
            .iter()
            .map(|r| {
                (
                    r.stream.get(),
                    r.kind,
                    r.message_len,
                    r.more,
                    core::str::from_utf8(&r.payload).expect("ascii"),
                )
            })
            .collect();
        assert_eq!(
            brief,
            [
                (0, Some(RecordKind::Message), None, false, "abc"),
                (0, Some(request), Some(4), true, "d"),
                (0, None, None, true, "ef"),
                (0, None, None, false, "g"),
                (
                    9,
                    Some(RecordKind::Reply { correlation: 1 }),
                    None,
                    false,
                    ""
                ),
                (9, Some(RecordKind::Message), None, false, "tail"),
            ]
        );
    }

    #[test]
    fn a_lone_record_on_the_same_stream_costs_one_byte() {
        let mut writer = RecordWriter::default();
        let mut plain = Vec::new();
        writer.put_whole(&mut plain, stream(4), RecordKind::Message, None);
        plain.clear();
        writer.put_whole(&mut plain, stream(4), RecordKind::Message, None);
        assert_eq!(plain.len(), 1);
    }

    #[test]
    fn every_cut_of_a_header_and_every_lie_about_a_length_is_an_error() {
        let mut plain = Vec::new();
        let kind = RecordKind::Request {
            correlation: 1 << 20,
        };
        RecordWriter::default().put(
            &mut plain,
            stream(5000),
            kind,
            Place::First {
                message_len: 1 << 30,
            },
            Some(4000),
        );
        for cut in 1..=plain.len() {
            assert!(read_all(&plain[..cut]).is_err(), "cut at {cut}");
        }
        assert!(read_all(&[0x00]).is_err(), "no stream named");
        assert!(read_all(&[0x11, 0]).is_err(), "reserved flag");
        assert!(read_all(&[0xd0, 0, 2]).is_ok() && read_all(&[0xd0, 0, 3]).is_err());
    }
}
