//! What is said of dictionaries: in the hello those that are held already, later those that are new.

use super::WireError;
use super::varint::{Fields, put_varint};
use crate::codecs::CodecId;

/// First bytes of a dictionary's hash, by which a hello names one. They need only tell those apart
/// that two peers share: of a thousand, two have the same with a probability of 3 in 10^14.
pub const DICTIONARY_PREFIX_LEN: usize = 8;
/// Bytes of a dictionary's hash.
const HASH_LEN: usize = 32;

/// What a side says of the dictionaries that it receives, at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DictionaryOffer {
    /// Bytes of one at most; 0: none are accepted.
    pub max_len: u64,
    /// How many it holds at once.
    pub max_held: u64,
    /// Those that it holds, by how their hashes begin. Their numbers are 1, 2, and so on.
    pub held: Vec<[u8; DICTIONARY_PREFIX_LEN]>,
}

impl DictionaryOffer {
    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Self, WireError> {
        let mut offer = Self {
            max_len: fields.varint()?,
            max_held: fields.varint()?,
            held: Vec::new(),
        };
        while !fields.is_empty() {
            let mut prefix = [0; DICTIONARY_PREFIX_LEN];
            prefix.copy_from_slice(fields.bytes(DICTIONARY_PREFIX_LEN)?);
            offer.held.push(prefix);
        }
        let given = offer.held.len() as u64;
        if given > offer.max_held {
            return Err(WireError::FieldTooLarge {
                field: "dictionaries held",
                given,
                max: offer.max_held,
            });
        }
        Ok(offer)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.max_len);
        put_varint(out, self.max_held);
        self.held
            .iter()
            .for_each(|prefix| out.extend_from_slice(prefix));
    }
}

/// What the side that encodes with a dictionary says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryFrame {
    /// The number that stands for the dictionary on this connection, in this direction; from 1 on.
    pub number: u64,
    /// What of it.
    pub what: DictionaryNews,
}

/// What there is to say of a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryNews {
    /// There is one, for the peer to say whether it needs its bytes.
    Offer {
        /// SHA-256 of its bytes.
        hash: [u8; HASH_LEN],
        /// How many those are.
        len: u64,
        /// How they will be encoded on their way.
        codec: CodecId,
        /// How many bytes come then.
        wire_len: u64,
    },
    /// The next of its bytes, as they are encoded.
    Piece(Vec<u8>),
    /// Nothing more is encoded with it.
    Retire,
}

/// What the side that decodes with a dictionary says to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryAnswer {
    /// The dictionary's number.
    pub number: u64,
    /// What it says.
    pub verdict: DictionaryVerdict,
}

/// The answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DictionaryVerdict {
    /// It is held: blocks may be encoded with it.
    Held,
    /// Its bytes should come.
    Wanted,
    /// It will not be used.
    Refused,
}

const OFFER: u8 = 0;
const PIECE: u8 = 1;
const RETIRE: u8 = 2;

impl DictionaryFrame {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, WireError> {
        let what = fields.byte()?;
        let number = number(fields)?;
        let what = match what {
            OFFER => {
                let len = fields.varint()?;
                let codec = CodecId::from_wire(fields.byte()?);
                let wire_len = fields.varint()?;
                let mut hash = [0; HASH_LEN];
                hash.copy_from_slice(fields.bytes(HASH_LEN)?);
                DictionaryNews::Offer {
                    hash,
                    len,
                    codec,
                    wire_len,
                }
            }
            PIECE => {
                let bytes = fields.rest().to_vec();
                if bytes.is_empty() {
                    return Err(WireError::FieldTooSmall {
                        field: "piece of a dictionary",
                        given: 0,
                        min: 1,
                    });
                }
                DictionaryNews::Piece(bytes)
            }
            RETIRE => DictionaryNews::Retire,
            given => {
                return Err(WireError::Unknown {
                    what: "news of a dictionary",
                    given: u64::from(given),
                });
            }
        };
        Ok(Self { number, what })
    }

    pub(super) fn put_body(&self, out: &mut Vec<u8>) {
        out.push(match self.what {
            DictionaryNews::Offer { .. } => OFFER,
            DictionaryNews::Piece(_) => PIECE,
            DictionaryNews::Retire => RETIRE,
        });
        put_varint(out, self.number);
        match &self.what {
            DictionaryNews::Offer {
                hash,
                len,
                codec,
                wire_len,
            } => {
                put_varint(out, *len);
                out.push(codec.to_wire());
                put_varint(out, *wire_len);
                out.extend_from_slice(hash);
            }
            DictionaryNews::Piece(bytes) => out.extend_from_slice(bytes),
            DictionaryNews::Retire => {}
        }
    }
}

impl DictionaryAnswer {
    const VERDICTS: [DictionaryVerdict; 3] = [
        DictionaryVerdict::Held,
        DictionaryVerdict::Wanted,
        DictionaryVerdict::Refused,
    ];

    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, WireError> {
        let number = number(fields)?;
        let given = fields.byte()?;
        let verdict = Self::VERDICTS.get(usize::from(given));
        let verdict = verdict.copied().ok_or(WireError::Unknown {
            what: "answer to a dictionary",
            given: u64::from(given),
        })?;
        Ok(Self { number, verdict })
    }

    pub(super) fn put_body(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        let verdict = Self::VERDICTS
            .iter()
            .position(|known| *known == self.verdict);
        out.push(verdict.unwrap_or_default() as u8);
    }
}

fn number(fields: &mut Fields<'_>) -> Result<u64, WireError> {
    match fields.varint()? {
        0 => Err(WireError::FieldTooSmall {
            field: "number of a dictionary",
            given: 0,
            min: 1,
        }),
        number => Ok(number),
    }
}
