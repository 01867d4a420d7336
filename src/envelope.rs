//! One message that stands by itself, for carriers without a connection: a broker, a file, a datagram.
//!
//! ```
//! use bytes::Bytes;
//! use tautline::codecs::Arm;
//! use tautline::envelope::{EnvelopeDecoder, EnvelopeEncoder, NoDictionaries};
//!
//! let mut encoder = EnvelopeEncoder::default();
//! let message = b"status=ok; status=ok; status=ok; status=ok; status=ok".as_slice();
//! # #[cfg(feature = "lz4")]
//! let envelope = encoder.encode("lz4".parse()?, message)?;
//! # #[cfg(not(feature = "lz4"))]
//! # let envelope = encoder.encode(Arm::IDENTITY, message)?;
//! // Encoded once, sent to many: clones share the bytes.
//! let copies: Vec<Bytes> = (0..100).map(|_| envelope.clone()).collect();
//! let mut decoder = EnvelopeDecoder::default();
//! assert_eq!(decoder.decode(&copies[99], &mut NoDictionaries)?, message);
//! # let _ = Arm::IDENTITY;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! ```text
//! +---------+-------+--------------------+---------------+-----------+------+
//! | 0001 ff | codec | name of dictionary | plain length  | CRC-32 of | body |
//! |   00    |   1   |  0, 4, 8 or 32     | varint, or -  | plain, 4  |      |
//! +---------+-------+--------------------+---------------+-----------+------+
//! ```
//!
//! `docs/envelope.md` in the repository specifies every byte. A stored message costs 6 bytes, an encoded
//! one 7 or 8, and 4 or 8 more with a dictionary.
//!
//! # Trust
//!
//! The checksum is against damage, not against people: whoever can write to the carrier can write any
//! message. A dictionary's name says which one is needed, never whether it may be used: that is for the
//! [`Resolver`] to decide, which should know dictionaries of one trust domain only.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::codecs::{
    Arm, CodecId, Codecs, DecodeError, DecodeLimits, EncodeError, Encoded, info, takes_dictionary,
};
use crate::dictionary::{Dictionary, DictionaryId, ID_LEN};
use crate::wire::{WireError, plain_crc, read_varint};

/// High half of the first byte: version 1.
const VERSION: u8 = 0x10;
const VERSION_MASK: u8 = 0xF0;
/// How the dictionary is named.
const NAME_SHIFT: u8 = 2;
const NAME_MASK: u8 = 0x0C;
const RESERVED: u8 = 0x03;
const CRC_LEN: usize = 4;

/// Longest header: first byte, codec, whole name, a length of 64 bits, checksum.
const MAX_HEADER_LEN: usize = 2 + ID_LEN + 10 + CRC_LEN;

/// How much of a dictionary's name an envelope carries.
///
/// The name only picks one among the few that the receiver holds, and the checksum of the message
/// notices a wrong one; it need not prove anything. So a part of it does. By accident, two of a thousand
/// dictionaries share 8 bytes with a probability of 3e-14, 4 bytes with 1e-4. On purpose,
/// a pair that shares 8 bytes takes 2^32 tries: whoever may put dictionaries of his own beside others' in a
/// receiver's hands can so at worst make messages undecodable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameForm {
    /// The first four bytes: for a handful of dictionaries that one hand made.
    Short,
    /// The first eight bytes.
    #[default]
    Medium,
    /// All 32.
    Whole,
}

impl NameForm {
    /// Bytes that it takes.
    pub const fn len(self) -> usize {
        match self {
            Self::Short => 4,
            Self::Medium => 8,
            Self::Whole => ID_LEN,
        }
    }

    /// Never: every form has bytes.
    pub const fn is_empty(self) -> bool {
        false
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Short => 1,
            Self::Medium => 2,
            Self::Whole => 3,
        }
    }
}

/// What an envelope says of the dictionary that it needs: the first bytes of its name, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DictionaryName {
    form: NameForm,
    bytes: [u8; ID_LEN],
}

impl DictionaryName {
    /// The name of `id` in this form.
    pub fn new(id: &DictionaryId, form: NameForm) -> Self {
        let mut bytes = [0; ID_LEN];
        bytes[..form.len()].copy_from_slice(&id.as_bytes()[..form.len()]);
        Self { form, bytes }
    }

    /// How much of the name it is.
    pub const fn form(&self) -> NameForm {
        self.form
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.form.len()]
    }

    /// Whether it may stand for this dictionary.
    pub fn matches(&self, id: &DictionaryId) -> bool {
        id.as_bytes().starts_with(self.as_bytes())
    }
}

impl core::fmt::Display for DictionaryName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut bytes = self.as_bytes().iter();
        bytes.try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a resolver has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name could stand for several dictionaries that are held.
    #[error("{count} dictionaries begin with {name}")]
    Ambiguous {
        /// The name.
        name: DictionaryName,
        /// How many.
        count: usize,
    },
    /// Where dictionaries are kept cannot be read now.
    #[error("dictionaries cannot be looked up: {0}")]
    Unavailable(#[source] std::io::Error),
}

/// Finds the dictionaries that envelopes name.
pub trait Resolver {
    /// The dictionary that `name` stands for, or `None` if it is not held or not to be used.
    ///
    /// # Errors
    ///
    /// Several may be meant, or nobody can tell now.
    fn resolve(&mut self, name: &DictionaryName) -> Result<Option<Dictionary>, ResolveError>;
}

/// Knows no dictionary.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDictionaries;

impl Resolver for NoDictionaries {
    fn resolve(&mut self, _name: &DictionaryName) -> Result<Option<Dictionary>, ResolveError> {
        Ok(None)
    }
}

/// Those in a list.
impl Resolver for &[Dictionary] {
    fn resolve(&mut self, name: &DictionaryName) -> Result<Option<Dictionary>, ResolveError> {
        let mut found = self.iter().filter(|it| name.matches(&it.id()));
        let first = found.next();
        let others = first.map_or(0, |first| found.filter(|it| it.id() != first.id()).count());
        if others == 0 {
            Ok(first.cloned())
        } else {
            Err(ResolveError::Ambiguous {
                name: *name,
                count: 1 + others,
            })
        }
    }
}

/// Makes envelopes; keeps the codecs' scratch and reuses it.
#[derive(Debug, Default)]
pub struct EnvelopeEncoder {
    codecs: Codecs,
    name: NameForm,
    scratch: Vec<u8>,
}

impl EnvelopeEncoder {
    /// One whose envelopes name dictionaries in this form, for receivers with these limits.
    pub fn new(name: NameForm, limits: DecodeLimits) -> Self {
        Self {
            codecs: Codecs::with_limits(limits),
            name,
            scratch: Vec::new(),
        }
    }

    /// The message, encoded with `arm` where that makes the whole envelope smaller, else as it is.
    ///
    /// # Errors
    ///
    /// The arm is not in this build, or its codec reports a failure.
    pub fn encode(&mut self, arm: Arm, plain: &[u8]) -> Result<Bytes, EncodeError> {
        self.make_room(plain.len());
        let encoded = self
            .codecs
            .encode(arm, plain, &mut self.scratch[..plain.len()])?;
        Ok(self.wrap(arm.codec, None, encoded, plain))
    }

    /// The message, encoded with `arm` and this dictionary where that makes the whole envelope smaller,
    /// else as it is.
    ///
    /// Where a receiver may not have the dictionary, [`encode`](Self::encode) is the way that always works.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode), and if the codec takes no dictionary or not this one.
    pub fn encode_with(
        &mut self,
        arm: Arm,
        dictionary: &Dictionary,
        plain: &[u8],
    ) -> Result<Bytes, EncodeError> {
        self.make_room(plain.len());
        let room = &mut self.scratch[..plain.len()];
        let encoded = self.codecs.encode_with(arm, dictionary, plain, room)?;
        let name = DictionaryName::new(&dictionary.id(), self.name);
        Ok(self.wrap(arm.codec, Some(name), encoded, plain))
    }

    fn make_room(&mut self, len: usize) {
        if self.scratch.len() < len {
            self.scratch.resize(len, 0);
        }
    }

    fn wrap(
        &self,
        codec: CodecId,
        name: Option<DictionaryName>,
        encoded: Encoded,
        plain: &[u8],
    ) -> Bytes {
        let crc = plain_crc(plain);
        if let Encoded::Written(len) = encoded {
            let header = Header {
                codec,
                name,
                plain_len: Some(plain.len() as u64),
                crc,
            };
            if header.len() + len < Header::stored(crc).len() + plain.len() {
                return header.before(&self.scratch[..len]);
            }
        }
        Header::stored(crc).before(plain)
    }
}

/// What a decoder allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvelopeLimits {
    /// Plain bytes of a message at most. Default 1 MiB.
    pub max_plain: usize,
    /// What decoding may cost besides.
    pub decode: DecodeLimits,
    /// The least of a dictionary's name that is taken. Default [`NameForm::Short`]: any.
    pub least_name: NameForm,
}

impl Default for EnvelopeLimits {
    fn default() -> Self {
        Self {
            max_plain: 1 << 20,
            decode: DecodeLimits::default(),
            least_name: NameForm::Short,
        }
    }
}

impl EnvelopeLimits {
    /// The default with messages of `max_plain` bytes at most.
    pub fn new(max_plain: usize) -> Self {
        Self {
            max_plain,
            ..Self::default()
        }
    }
}

/// Why an envelope gives no message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The version is not one that this build knows.
    #[error("an envelope of version {given}, known is 1")]
    Version {
        /// The version received.
        given: u8,
    },
    /// A codec or flag that this build does not know.
    #[error("an envelope with an unknown {what} {given:#x}")]
    Unknown {
        /// What it is.
        what: &'static str,
        /// The number received.
        given: u8,
    },
    /// It ends inside its header.
    #[error("the envelope ends inside its header")]
    Truncated,
    /// A number that is not in its shortest form.
    #[error("the envelope's plain length is malformed")]
    BadVarint,
    /// The message is longer than allowed.
    #[error("a message of {given} bytes, the limit is {max}")]
    TooLong {
        /// Bytes declared, or stored.
        given: u64,
        /// The limit.
        max: usize,
    },
    /// Less of the dictionary's name than this side wants.
    #[error("the dictionary is named by {given} bytes, at least {min} are wanted")]
    NameTooShort {
        /// Bytes of the name.
        given: usize,
        /// Bytes wanted.
        min: usize,
    },
    /// The resolver does not have the dictionary. Ask for the message in another form.
    #[error("the dictionary {name} is not held")]
    NoSuchDictionary {
        /// Its name.
        name: DictionaryName,
    },
    /// The resolver gave another dictionary than it was asked for: its mistake.
    #[error("asked for the dictionary {name}, the resolver gave {given}")]
    WrongDictionary {
        /// The name asked for.
        name: DictionaryName,
        /// What came.
        given: DictionaryId,
    },
    /// The resolver failed.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The body does not decode to what the header declares.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The message is not the one that was put in.
    #[error("checksum mismatch: the envelope says {given:#010x}, the message has {computed:#010x}")]
    Checksum {
        /// The checksum received.
        given: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}

/// Opens envelopes; keeps the codecs' scratch and reuses it.
#[derive(Debug, Default)]
pub struct EnvelopeDecoder {
    codecs: Codecs,
    limits: EnvelopeLimits,
}

impl EnvelopeDecoder {
    /// One with these limits.
    pub fn new(limits: EnvelopeLimits) -> Self {
        Self {
            codecs: Codecs::with_limits(limits.decode),
            limits,
        }
    }

    /// The message in the envelope, which goes from the first byte to the last of `envelope`. One that is
    /// stored as it is shares the envelope's memory.
    ///
    /// Lengths are judged before anything is reserved, and before the resolver is asked.
    ///
    /// # Errors
    ///
    /// The envelope is damaged or beyond the limits, or its dictionary cannot be had. The next call is not
    /// affected.
    pub fn decode(
        &mut self,
        envelope: &Bytes,
        resolver: &mut impl Resolver,
    ) -> Result<Bytes, EnvelopeError> {
        let (header, header_len) = Header::parse(envelope, &self.limits)?;
        let body = envelope.slice(header_len..);
        let plain = match header.plain_len {
            None => body,
            Some(len) => self.decode_body(&header, len as usize, &body, resolver)?,
        };
        let computed = plain_crc(&plain);
        if computed == header.crc {
            Ok(plain)
        } else {
            Err(EnvelopeError::Checksum {
                given: header.crc,
                computed,
            })
        }
    }

    fn decode_body(
        &mut self,
        header: &Header,
        plain_len: usize,
        body: &[u8],
        resolver: &mut impl Resolver,
    ) -> Result<Bytes, EnvelopeError> {
        let codec = header.codec;
        let dictionary = match header.name {
            None => None,
            Some(name) => {
                let found = resolver.resolve(&name)?;
                let dictionary = found.ok_or(EnvelopeError::NoSuchDictionary { name })?;
                if !name.matches(&dictionary.id()) {
                    return Err(EnvelopeError::WrongDictionary {
                        name,
                        given: dictionary.id(),
                    });
                }
                Some(dictionary)
            }
        };
        let mut plain = BytesMut::zeroed(plain_len);
        match dictionary {
            None => self.codecs.decode_exact(codec, body, &mut plain)?,
            Some(dictionary) => {
                self.codecs
                    .decode_exact_with(codec, &dictionary, body, &mut plain)?;
            }
        }
        Ok(plain.freeze())
    }
}

/// The name of the dictionary that an envelope needs, if any: so that a program can fetch it before it
/// decodes.
///
/// # Errors
///
/// The header is damaged.
pub fn needed_dictionary(envelope: &[u8]) -> Result<Option<DictionaryName>, EnvelopeError> {
    let limits = EnvelopeLimits::new(usize::MAX);
    Header::parse(envelope, &limits).map(|(header, _)| header.name)
}

#[derive(Clone, Copy, Debug)]
struct Header {
    codec: CodecId,
    name: Option<DictionaryName>,
    /// `None` for messages as they are, which go to the end.
    plain_len: Option<u64>,
    crc: u32,
}

impl Header {
    const fn stored(crc: u32) -> Self {
        Self {
            codec: CodecId::IDENTITY,
            name: None,
            plain_len: None,
            crc,
        }
    }

    fn len(&self) -> usize {
        let name = self.name.map_or(0, |name| name.form.len());
        2 + name + self.plain_len.map_or(0, crate::wire::varint_len) + CRC_LEN
    }

    fn before(&self, body: &[u8]) -> Bytes {
        let mut header = Vec::with_capacity(MAX_HEADER_LEN);
        let name = self.name.map_or(0, |name| name.form.bits());
        header.push(VERSION | name << NAME_SHIFT);
        header.push(self.codec.to_wire());
        if let Some(name) = &self.name {
            header.extend_from_slice(name.as_bytes());
        }
        if let Some(len) = self.plain_len {
            crate::wire::put_varint(&mut header, len);
        }
        header.put_u32_le(self.crc);
        let mut envelope = BytesMut::with_capacity(header.len() + body.len());
        envelope.extend_from_slice(&header);
        envelope.extend_from_slice(body);
        envelope.freeze()
    }

    /// The header and how many bytes it has.
    fn parse(envelope: &[u8], limits: &EnvelopeLimits) -> Result<(Self, usize), EnvelopeError> {
        let too_long = |given| EnvelopeError::TooLong {
            given,
            max: limits.max_plain,
        };
        let (&first, rest) = envelope.split_first().ok_or(EnvelopeError::Truncated)?;
        if first & VERSION_MASK != VERSION {
            let given = first >> 4;
            return Err(EnvelopeError::Version { given });
        }
        if first & RESERVED != 0 {
            return Err(unknown("flag", first & RESERVED));
        }
        let (&codec, mut rest) = rest.split_first().ok_or(EnvelopeError::Truncated)?;
        let codec = CodecId::from_wire(codec);
        if info(codec).is_none() {
            return Err(unknown("codec", codec.to_wire()));
        }
        let form = match (first & NAME_MASK) >> NAME_SHIFT {
            0 => None,
            1 => Some(NameForm::Short),
            2 => Some(NameForm::Medium),
            _ => Some(NameForm::Whole),
        };
        let name = match form {
            None => None,
            Some(_) if !takes_dictionary(codec) => {
                return Err(EnvelopeError::Decode(DecodeError::NoDictionary { codec }));
            }
            Some(form) if form < limits.least_name => {
                return Err(EnvelopeError::NameTooShort {
                    given: form.len(),
                    min: limits.least_name.len(),
                });
            }
            Some(form) => {
                let (name, after) = rest
                    .split_at_checked(form.len())
                    .ok_or(EnvelopeError::Truncated)?;
                let mut bytes = [0; ID_LEN];
                bytes[..form.len()].copy_from_slice(name);
                rest = after;
                Some(DictionaryName { form, bytes })
            }
        };
        let plain_len = if codec == CodecId::IDENTITY {
            None
        } else {
            let (len, taken) = read_varint(rest)
                .map_err(|_: WireError| EnvelopeError::BadVarint)?
                .ok_or(EnvelopeError::Truncated)?;
            if len > limits.max_plain as u64 {
                return Err(too_long(len));
            }
            rest = &rest[taken..];
            Some(len)
        };
        let (crc, body) = rest
            .split_first_chunk::<CRC_LEN>()
            .ok_or(EnvelopeError::Truncated)?;
        if plain_len.is_none() && body.len() > limits.max_plain {
            return Err(too_long(body.len() as u64));
        }
        let header = Self {
            codec,
            name,
            plain_len,
            crc: u32::from_le_bytes(*crc),
        };
        Ok((header, envelope.len() - body.len()))
    }
}

const fn unknown(what: &'static str, given: u8) -> EnvelopeError {
    EnvelopeError::Unknown { what, given }
}

#[cfg(test)]
mod tests;
