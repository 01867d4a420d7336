//! The handshake: each side sends one hello, without waiting for the other's.
//!
//! ```text
//! magic:4  version max:1  version min:1  body length:2 LE  body  crc:4 LE
//! body = fields of: tag:1  length  value      (tags from 128 on may be skipped)
//! ```

use super::WireError;
use super::check::plain_crc;
use super::dictionary::DictionaryOffer;
use super::header::le_u32;
use super::varint::{Fields, put_varint};
use crate::codecs::CodecId;

/// The first bytes of every connection: not ASCII, then "TLN".
pub const MAGIC: [u8; 4] = [0x8e, b'T', b'L', b'N'];
/// The highest protocol version spoken here.
pub const VERSION_MAX: u8 = 1;
/// The lowest protocol version spoken here.
pub const VERSION_MIN: u8 = 1;
/// Bytes up to and including the body length.
pub const HELLO_PREFIX_LEN: usize = 8;
/// The longest hello that is read.
pub const MAX_HELLO_LEN: usize = 4096;

const CRC_LEN: usize = 4;
const FIRST_IGNORABLE: u8 = 128;
const TAG_SESSION: u8 = 1;
const TAG_CODECS: u8 = 2;
const TAG_FEATURES: u8 = 3;
const TAG_LIMITS: u8 = 4;
const TAG_CREDIT: u8 = 5;
const TAG_HISTORY: u8 = 144;
const TAG_DICTIONARIES: u8 = 145;
const TAG_RESUME: u8 = 146;

/// Which side of a connection one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that connected; opens even streams.
    Connector,
    /// The side that accepted; opens odd streams.
    Acceptor,
}

impl Role {
    fn from_wire(byte: u8) -> Result<Self, WireError> {
        match byte {
            0 => Ok(Self::Connector),
            1 => Ok(Self::Acceptor),
            _ => Err(WireError::Unknown {
                what: "role",
                given: u64::from(byte),
            }),
        }
    }
}

/// What one side says of itself at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lowest and highest version spoken.
    pub versions: (u8, u8),
    /// The side that says this; two sides of one role refuse each other.
    pub role: Role,
    /// Chosen at random by the side that sends it, anew for each session.
    pub session: [u8; 16],
    /// What this side can decode, besides identity.
    pub codecs: Vec<PeerCodec>,
    /// Features that may be used.
    pub offered: Features,
    /// Features without which this side will not go on.
    pub required: Features,
    /// The longest message that this side receives, bytes.
    pub max_message: u64,
    /// The longest block, plain, that this side receives, bytes.
    pub max_block: u64,
    /// How many streams the peer may have open at once.
    pub max_streams: u64,
    /// The window that the peer has at first on each stream, bytes.
    pub window: u64,
    /// The credit that the peer begins with for all streams together, bytes; `None` where nothing bounds them together.
    pub credit: Option<u64>,
    /// Memory that this side keeps for the histories of what the peer sends, bytes.
    pub history_memory: u64,
    /// The dictionaries that this side receives and holds.
    pub dictionaries: DictionaryOffer,
    /// The session that goes on over this connection, or that may go on over another.
    pub resume: Option<Resume>,
}

/// The name of a session that outlives its connections, and how far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// Chosen at random by the acceptor, and a secret: who knows it can take the session over.
    pub token: [u8; 16],
    /// Which connection of the session this is, counted by the connector; 0 is the first.
    pub connection: u64,
    /// Numbered frames of the session that have taken effect at the side that says so.
    pub received: u64,
}

impl core::fmt::Debug for Resume {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Not the token.
        f.debug_struct("Resume")
            .field("connection", &self.connection)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

/// A codec that a side can decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCodec {
    /// The codec.
    pub codec: CodecId,
    /// Binary logarithm of the longest history (window) it holds while decoding.
    pub window_log: u8,
}

/// A set of optional parts of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// Checksums over the plain bytes of blocks.
    pub const CHECKSUMS: Self = Self(1);
    /// Slots that carry history from block to block.
    pub const HISTORY: Self = Self(2);
    /// Slots that stand for a dictionary.
    pub const DICTIONARIES: Self = Self(4);
    /// Sessions that go on over another connection.
    pub const RESUME: Self = Self(8);

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those in both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The version that both sides use: the highest that both speak.
///
/// # Errors
///
/// [`WireError::Version`] if there is none.
pub const fn negotiate_version(peer: (u8, u8)) -> Result<u8, WireError> {
    let (peer_min, peer_max) = peer;
    let version = if peer_max < VERSION_MAX {
        peer_max
    } else {
        VERSION_MAX
    };
    if version < VERSION_MIN || version < peer_min {
        Err(WireError::Version {
            peer_min,
            peer_max,
            min: VERSION_MIN,
            max: VERSION_MAX,
        })
    } else {
        Ok(version)
    }
}

impl Hello {
    /// Appends the hello.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.push(self.versions.1);
        out.push(self.versions.0);
        out.extend_from_slice(&[0; 2]);
        put_field(out, TAG_SESSION, |value| {
            value.extend_from_slice(&self.session);
            value.push(self.role as u8);
        });
        put_field(out, TAG_CODECS, |value| {
            for codec in &self.codecs {
                value.extend_from_slice(&[codec.codec.to_wire(), codec.window_log]);
            }
        });
        put_field(out, TAG_FEATURES, |value| {
            put_varint(value, self.offered.0);
            put_varint(value, self.required.0);
        });
        put_field(out, TAG_LIMITS, |value| {
            for limit in [
                self.max_message,
                self.max_block,
                self.max_streams,
                self.window,
            ] {
                put_varint(value, limit);
            }
        });
        if let Some(credit) = self.credit {
            put_field(out, TAG_CREDIT, |value| put_varint(value, credit));
        }
        if self.history_memory > 0 {
            put_field(out, TAG_HISTORY, |value| {
                put_varint(value, self.history_memory);
            });
        }
        if self.dictionaries.max_len > 0 {
            put_field(out, TAG_DICTIONARIES, |value| self.dictionaries.put(value));
        }
        if let Some(resume) = &self.resume {
            put_field(out, TAG_RESUME, |value| {
                value.extend_from_slice(&resume.token);
                put_varint(value, resume.connection);
                put_varint(value, resume.received);
            });
        }
        let body_len = (out.len() - start - HELLO_PREFIX_LEN) as u16;
        out[start + 6..start + HELLO_PREFIX_LEN].copy_from_slice(&body_len.to_le_bytes());
        let crc = plain_crc(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Reads the hello at the front of `bytes`: it and its length, or `None` when more are needed.
    ///
    /// # Errors
    ///
    /// Not a tautline peer, no common version, a hello that is too long, damaged, or lacks a field.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let begins = bytes.len().min(MAGIC.len());
        if bytes[..begins] != MAGIC[..begins] {
            let mut given = [0; 4];
            given[..begins].copy_from_slice(&bytes[..begins]);
            return Err(WireError::WrongMagic {
                given,
                expected: MAGIC,
            });
        }
        let Some(prefix) = bytes.get(..HELLO_PREFIX_LEN) else {
            return Ok(None);
        };
        let versions = (prefix[5], prefix[4]);
        // A version that is not spoken here may lay out what follows differently: judge it first.
        negotiate_version(versions)?;
        let body_end = HELLO_PREFIX_LEN + usize::from(u16::from_le_bytes([prefix[6], prefix[7]]));
        let len = body_end + CRC_LEN;
        if len > MAX_HELLO_LEN {
            return Err(WireError::FieldTooLarge {
                field: "handshake length",
                given: len as u64,
                max: MAX_HELLO_LEN as u64,
            });
        }
        let Some(crc) = bytes.get(body_end..len) else {
            return Ok(None);
        };
        let given = le_u32(crc);
        let computed = plain_crc(&bytes[..body_end]);
        if given != computed {
            return Err(WireError::Checksum {
                what: "handshake",
                given,
                computed,
            });
        }
        let hello = parse_body(versions, &bytes[HELLO_PREFIX_LEN..body_end])?;
        Ok(Some((hello, len)))
    }
}

fn put_field(out: &mut Vec<u8>, tag: u8, put: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    put(&mut value);
    out.push(tag);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(&value);
}

fn parse_body(versions: (u8, u8), body: &[u8]) -> Result<Hello, WireError> {
    let mut session = None;
    let mut codecs = None;
    let mut features = None;
    let mut limits = None;
    let mut credit = None;
    let mut history_memory = 0;
    let mut dictionaries = DictionaryOffer::default();
    let mut resume = None;
    let mut fields = Fields::new("handshake", body);
    let mut seen = [false; FIRST_IGNORABLE as usize];
    while !fields.is_empty() {
        let tag = fields.byte()?;
        if let Some(seen) = seen.get_mut(usize::from(tag)) {
            if core::mem::replace(seen, true) {
                return Err(WireError::Unexpected {
                    what: "a handshake field that comes twice",
                });
            }
        }
        let len = fields.varint_to("handshake field length", body.len() as u64)? as usize;
        let value = fields.bytes(len)?;
        let mut inner = Fields::new("handshake field", value);
        match tag {
            TAG_SESSION => {
                let mut id = [0; 16];
                id.copy_from_slice(inner.bytes(16)?);
                let role = Role::from_wire(inner.byte()?)?;
                inner.finish()?;
                session = Some((id, role));
            }
            TAG_CODECS => codecs = Some(parse_codecs(value)?),
            TAG_FEATURES => {
                features = Some((Features(inner.varint()?), Features(inner.varint()?)));
                inner.finish()?;
            }
            TAG_LIMITS => {
                limits = Some([
                    inner.varint()?,
                    inner.varint()?,
                    inner.varint()?,
                    inner.varint()?,
                ]);
                inner.finish()?;
            }
            TAG_CREDIT => {
                credit = Some(inner.varint()?);
                inner.finish()?;
            }
            TAG_HISTORY => {
                history_memory = inner.varint()?;
                inner.finish()?;
            }
            TAG_DICTIONARIES => dictionaries = DictionaryOffer::parse(inner)?,
            TAG_RESUME => {
                let mut token = [0; 16];
                token.copy_from_slice(inner.bytes(16)?);
                let (connection, received) = (inner.varint()?, inner.varint()?);
                inner.finish()?;
                resume = Some(Resume {
                    token,
                    connection,
                    received,
                });
            }
            // They may be skipped.
            FIRST_IGNORABLE..=143 | 147.. => {}
            _ => {
                return Err(WireError::Unknown {
                    what: "handshake field",
                    given: u64::from(tag),
                });
            }
        }
    }
    let (offered, required) = features.ok_or(WireError::MissingField { field: "features" })?;
    let [max_message, max_block, max_streams, window] =
        limits.ok_or(WireError::MissingField { field: "limits" })?;
    let (session, role) = session.ok_or(WireError::MissingField {
        field: "session id",
    })?;
    Ok(Hello {
        versions,
        session,
        role,
        codecs: codecs.ok_or(WireError::MissingField { field: "codecs" })?,
        offered,
        required,
        max_message,
        max_block,
        max_streams,
        window,
        credit,
        history_memory,
        dictionaries,
        resume,
    })
}

fn parse_codecs(value: &[u8]) -> Result<Vec<PeerCodec>, WireError> {
    let pairs = value.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(WireError::Truncated {
            what: "handshake field",
        });
    }
    Ok(pairs
        .map(|pair| PeerCodec {
            codec: CodecId::from_wire(pair[0]),
            window_log: pair[1],
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            role: Role::Acceptor,
            session: *b"0123456789abcdef",
            codecs: vec![PeerCodec {
                codec: CodecId::ZSTD,
                window_log: 20,
            }],
            offered: Features::CHECKSUMS,
            required: Features::default(),
            max_message: 16 << 20,
            max_block: 256 << 10,
            max_streams: 1024,
            window: 1 << 20,
            credit: Some(32 << 20),
            history_memory: 0,
            dictionaries: DictionaryOffer::default(),
            resume: None,
        }
    }

    #[test]
    fn a_hello_reads_back_and_waits_for_its_last_byte() {
        let mut bytes = Vec::new();
        hello().put(&mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
        assert_eq!(Hello::parse(&bytes), Ok(Some((hello(), bytes.len()))));
    }

    #[test]
    fn strangers_are_known_by_their_first_byte() {
        assert!(matches!(
            Hello::parse(b"G"),
            Err(WireError::WrongMagic { .. })
        ));
        assert!(matches!(
            Hello::parse(b"\x8eTLX"),
            Err(WireError::WrongMagic { .. })
        ));
    }

    #[test]
    fn versions_meet_at_the_highest_common_one() {
        assert_eq!(negotiate_version((1, 9)), Ok(1));
        assert!(matches!(
            negotiate_version((2, 9)),
            Err(WireError::Version { .. })
        ));
        assert!(matches!(
            negotiate_version((0, 0)),
            Err(WireError::Version { .. })
        ));
    }

    #[test]
    fn later_fields_are_skipped_where_their_tag_allows_it() {
        let reseal = |extra: &[u8]| {
            let mut bytes = Vec::new();
            hello().put(&mut bytes);
            bytes.truncate(bytes.len() - CRC_LEN);
            bytes.extend_from_slice(extra);
            let body_len = (bytes.len() - HELLO_PREFIX_LEN) as u16;
            bytes[6..8].copy_from_slice(&body_len.to_le_bytes());
            let crc = plain_crc(&bytes);
            bytes.extend_from_slice(&crc.to_le_bytes());
            Hello::parse(&bytes)
        };
        assert!(matches!(reseal(&[200, 2, 1, 1]), Ok(Some(_))));
        assert!(matches!(
            reseal(&[100, 2, 1, 1]),
            Err(WireError::Unknown { .. })
        ));
        assert!(matches!(
            reseal(&[3, 2, 0, 0]),
            Err(WireError::Unexpected { .. })
        ));
        assert!(matches!(reseal(&[200, 0, 200, 0]), Ok(Some(_))));
        assert!(matches!(
            reseal(&[200, 9, 1]),
            Err(WireError::Truncated { .. } | WireError::FieldTooLarge { .. })
        ));
    }
}
