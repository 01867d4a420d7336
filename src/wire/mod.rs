//! Bytes to types and back: the handshake, block headers, records and control frames.
//!
//! No policy lives here and nothing is decompressed; docs/wire.md specifies every byte. A decoder
//! answers `Ok(None)` when more bytes are needed and checks each length against its limit before
//! anything is reserved.

mod check;
mod control;
mod dictionary;
mod error;
mod header;
mod hello;
mod lane;
mod record;
mod run;
mod varint;

pub use self::check::{Check, plain_crc};
pub use self::control::{
    Ack, Blocked, Close, CloseCode, Control, Credit, DecodeReport, Define, GoAway, GoAwayCode,
    MAX_PRIME, Open, Probe, ProbeReply, Stop, StopReason, Unused, Window,
};
pub use self::dictionary::{
    DICTIONARY_PREFIX_LEN, DictionaryAnswer, DictionaryFrame, DictionaryNews, DictionaryOffer,
    DictionaryVerdict,
};
pub use self::error::WireError;
pub use self::header::{
    BlockHeader, Frame, LONG_CHECK_LEN, MAX_SHORT_BODY, MAX_TINY_BODY, SHORT_CHECK_LEN, SLOTS,
    Slot, parse_frame,
};
pub use self::hello::{
    Features, HELLO_PREFIX_LEN, Hello, MAGIC, MAX_HELLO_LEN, PeerCodec, Resume, Role, VERSION_MAX,
    VERSION_MIN, negotiate_version,
};
pub use self::lane::LaneNumber;
pub(crate) use self::record::Place;
pub use self::record::{MESSAGE_CHARGE, Part, Record, RecordKind, RecordReader, RecordWriter};
pub(crate) use self::run::{Front, Packed, Payloads, Run};
pub use self::varint::{put_varint, read_varint, varint_len};

use core::fmt;

/// A stream within one session. The side that connected opens even ones, the side that accepted odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// The largest number a stream may have: larger ones cost more bytes than they are worth.
    pub const MAX: u32 = (1 << 28) - 1;

    /// The stream with this number, or `None` above [`Self::MAX`].
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The stream's number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether the side that connected (rather than the one that accepted) opened it.
    pub const fn is_connectors(self) -> bool {
        self.0 % 2 == 0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Streams of one connection and direction that share blocks, checksum chain and, where contexts
/// are in use, history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u8);
