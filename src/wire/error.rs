//! What can be wrong with bytes from a peer.

use super::GoAwayCode;

/// Bytes from the peer that the wire format does not allow, or that exceed a limit: the peer's
/// fault. Every variant ends the connection; [`WireError::code`] is the reason told to the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The connection does not begin with tautline's magic.
    #[error("not a tautline peer: it began with {given:02x?}, expected {expected:02x?}{}", likely(*given))]
    WrongMagic {
        /// The first bytes received.
        given: [u8; 4],
        /// The magic.
        expected: [u8; 4],
    },
    /// No protocol version in common.
    #[error(
        "no common version: the peer speaks {peer_min} to {peer_max}, this side {min} to {max}"
    )]
    Version {
        /// Lowest version of the peer.
        peer_min: u8,
        /// Highest version of the peer.
        peer_max: u8,
        /// Lowest version here.
        min: u8,
        /// Highest version here.
        max: u8,
    },
    /// The peer requires features that this side does not offer.
    #[error("the peer requires features {required:#x}, this side offers {offered:#x}")]
    Feature {
        /// Bits the peer requires.
        required: u64,
        /// Bits offered here.
        offered: u64,
    },
    /// A length field exceeds its limit.
    #[error("{field} is {given}, the limit is {max}")]
    FieldTooLarge {
        /// The field, as named in docs/wire.md.
        field: &'static str,
        /// The value received.
        given: u64,
        /// The limit.
        max: u64,
    },
    /// A field is below the least value that makes sense.
    #[error("{field} is {given}, the least is {min}")]
    FieldTooSmall {
        /// The field, as named in docs/wire.md.
        field: &'static str,
        /// The value received.
        given: u64,
        /// The least value.
        min: u64,
    },
    /// A number is not in its shortest form or exceeds 64 bits.
    #[error("a variable-length number is malformed")]
    BadVarint,
    /// A frame ends inside one of its fields.
    #[error("the {what} ends inside a field")]
    Truncated {
        /// The frame or body.
        what: &'static str,
    },
    /// A frame is longer than its fields.
    #[error("the {what} has {extra} bytes after its last field")]
    TrailingBytes {
        /// The frame or body.
        what: &'static str,
        /// How many.
        extra: usize,
    },
    /// A text field is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotText {
        /// The field.
        field: &'static str,
    },
    /// A field that must occur does not.
    #[error("the handshake lacks its {field}")]
    MissingField {
        /// The field.
        field: &'static str,
    },
    /// A frame, field or flag that this version does not know and must not skip.
    #[error("unknown {what} {given:#x}")]
    Unknown {
        /// What kind of number it is.
        what: &'static str,
        /// The number received.
        given: u64,
    },
    /// The checksum does not match the bytes.
    #[error("checksum mismatch in a {what}: received {given:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The frame.
        what: &'static str,
        /// The checksum received.
        given: u32,
        /// The checksum of the bytes received.
        computed: u32,
    },
    /// A block's body did not decode.
    #[error("a block of {wire_len} bytes did not decode: {detail}")]
    Undecodable {
        /// Its length on the wire.
        wire_len: usize,
        /// The codec's word.
        detail: String,
    },
    /// A block decoded to another length than it declared.
    #[error("a block declared {declared} plain bytes and decoded to {actual}")]
    WrongPlainLen {
        /// As declared.
        declared: usize,
        /// As decoded.
        actual: usize,
    },
    /// A frame that is not allowed now: before the handshake, after go-away, on a stream that is
    /// not open, or out of its order.
    #[error("{what}")]
    Unexpected {
        /// What came and why it may not.
        what: &'static str,
    },
}

/// What a peer that begins so may speak.
fn likely(given: [u8; 4]) -> &'static str {
    match given {
        // A record (RFC 8446, 5.1).
        [0x14..=0x17, 3, ..] => ": it may speak TLS",
        _ => "",
    }
}

impl WireError {
    /// The reason this error is told to the peer with.
    pub const fn code(&self) -> GoAwayCode {
        match self {
            Self::WrongMagic { .. } | Self::Version { .. } => GoAwayCode::Version,
            Self::Feature { .. } => GoAwayCode::Feature,
            Self::FieldTooLarge { .. } => GoAwayCode::Limit,
            Self::Checksum { .. } => GoAwayCode::Integrity,
            Self::Undecodable { .. } | Self::WrongPlainLen { .. } => GoAwayCode::Undecodable,
            _ => GoAwayCode::Protocol,
        }
    }
}
