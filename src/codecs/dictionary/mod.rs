//! Coding with a dictionary: the same bodies as without, whose matches may reach back into bytes that
//! both ends hold beforehand.
//!
//! What a codec makes of a dictionary (tables, digests) costs far more than a small message, so it is
//! kept for the dictionaries used last.

#[cfg(all(test, any(feature = "lz4", feature = "zstd")))]
mod contract;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "zstd")]
mod zstd;

use super::{Arm, CodecId, Codecs, DecodeError, EncodeError, Encoded, corrupt, existing, info};
use crate::dictionary::Dictionary;

/// Prepared forms kept for each codec and direction; those used least lately go first. For a dictionary
/// of 16 KiB, zstd takes 80 to 750 kB by level for encoding and 140 kB for decoding, LZ4 81 kB for
/// encoding (measured, docs/benchmarks.md). Arbitrary: two dictionaries that live at once, at up to four
/// levels.
#[cfg(any(feature = "lz4", feature = "zstd"))]
const MAX_PREPARED: usize = 8;

/// What the codecs made of dictionaries.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    #[cfg(feature = "lz4")]
    lz4: lz4::Lz4Prepared,
    #[cfg(feature = "zstd")]
    zstd: zstd::ZstdPrepared,
}

impl Prepared {
    pub(super) fn memory(&self) -> usize {
        let Self {
            #[cfg(feature = "lz4")]
            lz4,
            #[cfg(feature = "zstd")]
            zstd,
        } = self;
        [
            #[cfg(feature = "lz4")]
            lz4.memory(),
            #[cfg(feature = "zstd")]
            zstd.memory(),
        ]
        .iter()
        .sum()
    }
}

/// Whether bodies of this codec can be encoded with a dictionary, in this build.
pub const fn takes_dictionary(codec: CodecId) -> bool {
    (cfg!(feature = "lz4") && matches!(codec, CodecId::LZ4))
        || (cfg!(feature = "zstd") && matches!(codec, CodecId::ZSTD))
}

impl Codecs {
    /// Encodes `plain` into the front of `wire`, with `dictionary` as what came before. As
    /// [`encode`](Self::encode), and the first call with a dictionary prepares it: up to a few
    /// milliseconds, and memory (see [`memory`](Self::memory)) until eight others have been used since.
    ///
    /// LZ4 uses the last 64 KiB of the dictionary, zstd all of it.
    ///
    /// # Errors
    ///
    /// The codec or level does not exist in this build, takes no dictionary or not this one, or reports
    /// a failure.
    pub fn encode_with(
        &mut self,
        arm: Arm,
        dictionary: &Dictionary,
        plain: &[u8],
        wire: &mut [u8],
    ) -> Result<Encoded, EncodeError> {
        let arm = existing(arm)?;
        if !takes_dictionary(arm.codec) {
            return Err(EncodeError::NoDictionary { codec: arm.codec });
        }
        if plain.len() < 2 || wire.is_empty() {
            return Ok(Encoded::NotSmaller);
        }
        match arm.codec {
            #[cfg(feature = "lz4")]
            CodecId::LZ4 => Ok(self
                .scratch
                .dictionaries
                .lz4
                .encode(dictionary, plain, wire)),
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => {
                let limits = self.limits;
                let zstd = &mut self.scratch.dictionaries.zstd;
                zstd.encode(arm.level, dictionary, plain, wire, limits)
            }
            codec => {
                let _ = dictionary;
                Err(EncodeError::NoDictionary { codec })
            }
        }
    }

    /// Decodes all of `wire`, encoded with the same dictionary, into the front of `plain` and returns
    /// how many bytes it became. As [`decode`](Self::decode).
    ///
    /// Nothing in a body says which dictionary it needs: another one gives other bytes or an error.
    /// Compare a checksum.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and if the codec takes no dictionary or not this one.
    pub fn decode_with(
        &mut self,
        codec: CodecId,
        dictionary: &Dictionary,
        wire: &[u8],
        plain: &mut [u8],
    ) -> Result<usize, DecodeError> {
        match codec {
            codec if info(codec).is_none() => Err(DecodeError::UnknownCodec { codec }),
            codec if !takes_dictionary(codec) => Err(DecodeError::NoDictionary { codec }),
            codec if wire.is_empty() => Err(corrupt(codec, wire, &"there are none")),
            #[cfg(feature = "lz4")]
            CodecId::LZ4 => lz4::decode(dictionary, wire, plain),
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => {
                let limits = self.limits;
                let zstd = &mut self.scratch.dictionaries.zstd;
                zstd.decode(dictionary, wire, plain, limits)
            }
            codec => {
                let _ = (dictionary, plain);
                Err(DecodeError::NoDictionary { codec })
            }
        }
    }

    /// Decodes all of `wire`, encoded with the same dictionary, into all of `plain`.
    ///
    /// # Errors
    ///
    /// As [`decode_with`](Self::decode_with), and if the bytes decode to fewer than `plain` holds.
    pub fn decode_exact_with(
        &mut self,
        codec: CodecId,
        dictionary: &Dictionary,
        wire: &[u8],
        plain: &mut [u8],
    ) -> Result<(), DecodeError> {
        let given = self.decode_with(codec, dictionary, wire, plain)?;
        if given == plain.len() {
            Ok(())
        } else {
            Err(DecodeError::TooShort {
                given,
                expected: plain.len(),
            })
        }
    }

    /// Whether what `arm` makes of `dictionary` to encode is there from before.
    pub(crate) fn has_prepared_encoder(&self, arm: Arm, dictionary: &Dictionary) -> bool {
        let prepared = &self.scratch.dictionaries;
        match existing(arm) {
            #[cfg(feature = "lz4")]
            Ok(arm) if arm.codec == CodecId::LZ4 => prepared.lz4.has_encoder(dictionary.id()),
            #[cfg(feature = "zstd")]
            Ok(arm) if arm.codec == CodecId::ZSTD => {
                prepared.zstd.has_encoder(dictionary.id(), arm.level)
            }
            _ => {
                let _ = (prepared, dictionary);
                true
            }
        }
    }

    /// The same to decode.
    pub(crate) fn has_prepared_decoder(&self, codec: CodecId, dictionary: &Dictionary) -> bool {
        let prepared = &self.scratch.dictionaries;
        match codec {
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => prepared.zstd.has_decoder(dictionary.id(), self.limits),
            // LZ4 decodes without tables.
            _ => {
                let _ = (prepared, dictionary);
                true
            }
        }
    }

    /// Whether `codec` can use `dictionary`: what begins like zstd's own format may be damaged behind.
    /// To be asked before a dictionary from elsewhere is said to be accepted.
    ///
    /// # Errors
    ///
    /// [`DecodeError::NoDictionary`], [`DecodeError::BadDictionary`] or
    /// [`DecodeError::UnknownCodec`].
    pub fn check_dictionary(
        &mut self,
        codec: CodecId,
        dictionary: &Dictionary,
    ) -> Result<(), DecodeError> {
        match self.decode_with(codec, dictionary, &[0], &mut []) {
            Err(
                error @ (DecodeError::UnknownCodec { .. }
                | DecodeError::NoDictionary { .. }
                | DecodeError::BadDictionary { .. }),
            ) => Err(error),
            _ => self.check_encoding(codec, dictionary),
        }
    }

    fn check_encoding(
        &mut self,
        codec: CodecId,
        dictionary: &Dictionary,
    ) -> Result<(), DecodeError> {
        let arm = Arm::new(codec, super::default_level(codec).0);
        match self.encode_with(arm, dictionary, &[0; 16], &mut [0; 16]) {
            Ok(_) => Ok(()),
            Err(error) => Err(DecodeError::BadDictionary {
                codec,
                id: dictionary.id(),
                detail: error.to_string(),
            }),
        }
    }
}

/// The entry that `is_it` finds, brought to the front, or one that `make` makes, for which the one
/// used least lately goes.
#[cfg(any(feature = "lz4", feature = "zstd"))]
fn recent<T, E>(
    entries: &mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&mut T, E> {
    if let Some(at) = entries.iter().position(is_it) {
        entries[..=at].rotate_right(1);
    } else {
        let new = make()?;
        entries.truncate(MAX_PREPARED - 1);
        entries.insert(0, new);
    }
    Ok(&mut entries[0])
}
