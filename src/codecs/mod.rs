//! The codec shelf: one file a family, one contract over all.
//!
//! The caller owns every buffer, a codec owns its scratch. [`Codecs`] holds the scratch of all
//! families, makes it on first use and reuses it, so that after warm-up no message allocates.

#[cfg(feature = "bzip2")]
mod bzip2;
mod context;
#[cfg(all(
    test,
    any(
        feature = "lz4",
        feature = "snappy",
        feature = "zstd",
        feature = "deflate",
        feature = "bzip2",
        feature = "xz"
    )
))]
mod contract;
#[cfg(feature = "deflate")]
mod deflate;
mod dictionary;
mod id;
mod identity;
mod info;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "sim")]
pub(crate) mod memo;
mod prior;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(any(feature = "lz4", feature = "snappy", feature = "deflate"))]
mod staging;
mod typical;
#[cfg(feature = "xz")]
mod xz;
#[cfg(feature = "zstd")]
mod zstd;

use core::fmt;

pub use self::context::{
    DecodeContext, EncodeContext, memory_estimate as context_memory_estimate,
    supports as supports_context,
};
use crate::dictionary::DictionaryId;

pub use self::dictionary::takes_dictionary;
pub use self::id::{Arm, CodecId, Level, ParseArmError};
pub use self::info::{CodecInfo, default_level, info, supported};
pub use self::prior::{prior_decode_nanos, prior_encode_nanos};
pub use self::typical::measured_arms;
pub(crate) use self::typical::{
    Length, Row as TypicalRow, Typical, Work, dictionary_arms, strength_deviation, typical,
    typical_dictionary_level, typical_history_level, typical_level,
};

/// What [`Codecs::encode`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// The first so many bytes of the output are the encoded form; fewer than the plain bytes.
    Written(usize),
    /// The encoded form would not be smaller: send the plain bytes. The output's content is unspecified.
    NotSmaller,
}

impl Encoded {
    /// `len` bytes written, if that is less than the plain bytes.
    fn smaller_than(plain_len: usize, len: usize) -> Self {
        if len < plain_len {
            Self::Written(len)
        } else {
            Self::NotSmaller
        }
    }
}

/// Why bytes could not be encoded; the caller's misuse or a failing codec, never the data's fault.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// This build does not have the codec.
    #[error("{codec} is not part of this build")]
    UnknownCodec {
        /// The codec asked for.
        codec: CodecId,
    },
    /// The codec has no such level.
    #[error("{codec} has no level {given} (it has {min} to {max})")]
    UnknownLevel {
        /// The codec asked for.
        codec: CodecId,
        /// The level asked for.
        given: i8,
        /// The lowest level there is.
        min: i8,
        /// The highest level there is.
        max: i8,
    },
    /// The codec does not work with dictionaries.
    #[error("{codec} takes no dictionary")]
    NoDictionary {
        /// The codec asked for.
        codec: CodecId,
    },
    /// The codec cannot use this dictionary.
    #[error("{codec} cannot use the dictionary {id}: {detail}")]
    BadDictionary {
        /// The codec.
        codec: CodecId,
        /// The dictionary.
        id: DictionaryId,
        /// What it said.
        detail: String,
    },
    /// The codec itself reported a failure.
    #[error("{codec} failed to encode {plain_len} bytes: {detail}")]
    Failed {
        /// The codec.
        codec: CodecId,
        /// How many bytes it was given.
        plain_len: usize,
        /// What it said.
        detail: String,
    },
}

/// Why wire bytes could not be decoded; the peer's fault unless the codec is unknown here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// This build does not have the codec.
    #[error("{codec} is not part of this build")]
    UnknownCodec {
        /// The codec asked for.
        codec: CodecId,
    },
    /// The bytes decode to more than the caller's buffer holds.
    #[error("the block decodes to more than {max} bytes")]
    TooLong {
        /// The size of the caller's buffer.
        max: usize,
    },
    /// The bytes decode to less than the caller expected.
    #[error("the block decodes to {given} bytes instead of {expected}")]
    TooShort {
        /// How many bytes it became.
        given: usize,
        /// How many the caller expected.
        expected: usize,
    },
    /// The bytes ask for more memory (window) than the limit.
    #[error("{codec} needs a window of 2^{given_log} bytes, the limit is 2^{max_log}")]
    WindowTooLarge {
        /// The codec.
        codec: CodecId,
        /// Binary logarithm of the window asked for.
        given_log: u8,
        /// Binary logarithm of the limit.
        max_log: u8,
    },
    /// The codec does not work with dictionaries.
    #[error("{codec} takes no dictionary")]
    NoDictionary {
        /// The codec asked for.
        codec: CodecId,
    },
    /// The codec cannot use this dictionary.
    #[error("{codec} cannot use the dictionary {id}: {detail}")]
    BadDictionary {
        /// The codec.
        codec: CodecId,
        /// The dictionary.
        id: DictionaryId,
        /// What it said.
        detail: String,
    },
    /// The bytes are not what the codec writes, or end early.
    #[error("{codec} cannot read the block of {wire_len} bytes: {detail}")]
    Corrupt {
        /// The codec.
        codec: CodecId,
        /// How many bytes it was given.
        wire_len: usize,
        /// What it said.
        detail: String,
    },
}

/// What decoding a block may cost.
///
/// Both ends of a connection use the smaller of their two limits: a shelf also *encodes* within it,
/// so that whatever one writes the other takes. The size of the output needs no limit here, since it
/// is bounded by the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeLimits {
    /// Binary logarithm of the largest window (zstd), block (bzip2) or dictionary (xz), in bytes.
    /// LZ4, snappy and deflate have small fixed windows and do not look at it.
    ///
    /// Values outside 17..=27 count as the nearest of these: 2^17 is the least that every codec can
    /// work with (bzip2's smallest block), 2^27 the most that zstd's own tools accept unasked.
    /// Default 20; it exceeds any block (64 KiB) and most messages, and lets bzip2 use all levels but 9.
    ///
    /// Beside the caller's buffer, a decode takes this and a MiB at most (`tests/decode_memory`).
    pub window_log: u8,
}

impl DecodeLimits {
    const MIN_WINDOW_LOG: u8 = 17;
    const MAX_WINDOW_LOG: u8 = 27;

    /// The limit in force: [`window_log`](Self::window_log) brought into range.
    pub fn effective_window_log(self) -> u8 {
        self.window_log
            .clamp(Self::MIN_WINDOW_LOG, Self::MAX_WINDOW_LOG)
    }

    /// The limit in force, in bytes.
    pub fn window_bytes(self) -> usize {
        1 << self.effective_window_log()
    }
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { window_log: 20 }
    }
}

/// The scratch and contexts of every codec family, made on first use and reused.
///
/// After warm-up, LZ4, snappy, zstd and deflate do not allocate (zstd: see
/// [`memory`](Self::memory)). bzip2 and xz allocate and free their state in every call, since their
/// libraries have no reset; they are for messages where that does not show.
#[derive(Debug, Default)]
pub struct Codecs {
    limits: DecodeLimits,
    scratch: Scratch,
    #[cfg(feature = "sim")]
    memo: Option<memo::Memo>,
}

/// What the families keep between calls; those without anything to keep are not here.
#[derive(Debug, Default)]
struct Scratch {
    #[cfg(any(feature = "lz4", feature = "snappy", feature = "deflate"))]
    staging: staging::Staging,
    #[cfg(feature = "lz4")]
    lz4: lz4::Lz4,
    #[cfg(feature = "snappy")]
    snappy: snappy::Snappy,
    #[cfg(feature = "zstd")]
    zstd: zstd::Zstd,
    #[cfg(feature = "deflate")]
    deflate: deflate::Deflate,
    dictionaries: dictionary::Prepared,
}

impl Scratch {
    fn memory(&self) -> usize {
        let Self {
            #[cfg(any(feature = "lz4", feature = "snappy", feature = "deflate"))]
            staging,
            #[cfg(feature = "lz4")]
            lz4,
            #[cfg(feature = "snappy")]
            snappy,
            #[cfg(feature = "zstd")]
            zstd,
            #[cfg(feature = "deflate")]
            deflate,
            dictionaries,
        } = self;
        [
            #[cfg(any(feature = "lz4", feature = "snappy", feature = "deflate"))]
            staging.memory(),
            #[cfg(feature = "lz4")]
            lz4.memory(),
            #[cfg(feature = "snappy")]
            snappy.memory(),
            #[cfg(feature = "zstd")]
            zstd.memory(),
            #[cfg(feature = "deflate")]
            deflate.memory(),
            dictionaries.memory(),
        ]
        .iter()
        .sum()
    }
}

impl Codecs {
    /// An empty shelf with the default limits; nothing is allocated yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty shelf with these limits; nothing is allocated yet.
    pub fn with_limits(limits: DecodeLimits) -> Self {
        Self {
            limits,
            scratch: Scratch::default(),
            #[cfg(feature = "sim")]
            memo: None,
        }
    }

    /// Asks `memo` before it encodes, and tells it what it has encoded.
    #[cfg(feature = "sim")]
    pub(crate) fn remember_in(&mut self, memo: memo::Memo) {
        self.memo = Some(memo);
    }

    /// The limits given, or the default ones.
    pub fn limits(&self) -> DecodeLimits {
        self.limits
    }

    /// Bytes of scratch and contexts held now, without the shelf itself. Exact for zstd, LZ4 and
    /// snappy, an estimate for deflate.
    ///
    /// Grows to what the largest message and level needed. zstd alone gives memory back: when 128
    /// messages in a row needed less than a third of it, it allocates anew.
    pub fn memory(&self) -> usize {
        self.scratch.memory()
    }

    /// Encodes `plain` into the front of `wire`.
    ///
    /// `wire` need not be larger than `plain`: where the encoded form has not fewer bytes than
    /// `plain`, or does not fit `wire`, the answer is [`Encoded::NotSmaller`]; zstd works a few bytes
    /// ahead and says so slightly early. LZ4, snappy and deflate save a copy where `wire` has room to
    /// spare (a sixth of `plain` and 64 bytes).
    ///
    /// # Errors
    ///
    /// The codec or level does not exist in this build, or the codec reports a failure.
    pub fn encode(
        &mut self,
        arm: Arm,
        plain: &[u8],
        wire: &mut [u8],
    ) -> Result<Encoded, EncodeError> {
        let arm = existing(arm)?;
        // No codec makes a byte of none, or fewer than one of one.
        if plain.len() < 2 || wire.is_empty() {
            return Ok(Encoded::NotSmaller);
        }
        #[cfg(feature = "sim")]
        if let Some(memo) = self.memo.clone() {
            let limits = self.limits;
            return memo.encode(arm, limits, plain, wire, |wire| self.run(arm, plain, wire));
        }
        self.run(arm, plain, wire)
    }

    #[cfg_attr(
        not(any(
            feature = "lz4",
            feature = "snappy",
            feature = "zstd",
            feature = "deflate",
            feature = "bzip2",
            feature = "xz"
        )),
        expect(clippy::unused_self, reason = "identity keeps nothing between calls")
    )]
    fn run(&mut self, arm: Arm, plain: &[u8], wire: &mut [u8]) -> Result<Encoded, EncodeError> {
        match arm.codec {
            CodecId::IDENTITY => Ok(identity::encode(plain, wire)),
            #[cfg(feature = "lz4")]
            CodecId::LZ4 => self
                .scratch
                .lz4
                .encode(plain, wire, &mut self.scratch.staging),
            #[cfg(feature = "snappy")]
            CodecId::SNAPPY => self
                .scratch
                .snappy
                .encode(plain, wire, &mut self.scratch.staging),
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => self
                .scratch
                .zstd
                .encode(arm.level, plain, wire, self.limits),
            #[cfg(feature = "deflate")]
            CodecId::DEFLATE => {
                self.scratch
                    .deflate
                    .encode(arm.level, plain, wire, &mut self.scratch.staging)
            }
            #[cfg(feature = "bzip2")]
            CodecId::BZIP2 => bzip2::encode(arm.level, plain, wire, self.limits),
            #[cfg(feature = "xz")]
            CodecId::XZ => xz::encode(arm.level, plain, wire, self.limits),
            codec => Err(EncodeError::UnknownCodec { codec }),
        }
    }

    /// Decodes all of `wire` into the front of `plain` and returns how many bytes it became.
    ///
    /// `wire` must be exactly one encoded unit. `plain` may hold anything before; nothing of it is
    /// read, and after a failure its content is unspecified. The time is bounded by the lengths of
    /// both.
    ///
    /// LZ4 has no end mark, so that a truncated unit can pass for a shorter one: use
    /// [`decode_exact`](Self::decode_exact) where the length is known.
    ///
    /// # Errors
    ///
    /// The codec is not in this build, or the bytes are corrupt, truncated, followed by others,
    /// decode to more than `plain` holds or ask for more memory than allowed. The next call is not
    /// affected.
    pub fn decode(
        &mut self,
        codec: CodecId,
        wire: &[u8],
        plain: &mut [u8],
    ) -> Result<usize, DecodeError> {
        match codec {
            CodecId::IDENTITY => identity::decode(wire, plain),
            codec if info(codec).is_none() => Err(DecodeError::UnknownCodec { codec }),
            codec if wire.is_empty() => Err(corrupt(codec, wire, &"there are none")),
            #[cfg(feature = "lz4")]
            CodecId::LZ4 => lz4::decode(wire, plain),
            #[cfg(feature = "snappy")]
            CodecId::SNAPPY => snappy::decode(wire, plain),
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => self.scratch.zstd.decode(wire, plain, self.limits),
            #[cfg(feature = "deflate")]
            CodecId::DEFLATE => self.scratch.deflate.decode(wire, plain),
            #[cfg(feature = "bzip2")]
            CodecId::BZIP2 => bzip2::decode(wire, plain, self.limits),
            #[cfg(feature = "xz")]
            CodecId::XZ => xz::decode(wire, plain, self.limits),
            codec => Err(DecodeError::UnknownCodec { codec }),
        }
    }

    /// Decodes all of `wire` into all of `plain`: for blocks whose header declares the plain length.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and if the bytes decode to fewer than `plain` holds.
    pub fn decode_exact(
        &mut self,
        codec: CodecId,
        wire: &[u8],
        plain: &mut [u8],
    ) -> Result<(), DecodeError> {
        let given = self.decode(codec, wire, plain)?;
        if given == plain.len() {
            Ok(())
        } else {
            Err(DecodeError::TooShort {
                given,
                expected: plain.len(),
            })
        }
    }
}

/// The arm with its default level filled in, if this build has it.
fn existing(arm: Arm) -> Result<Arm, EncodeError> {
    let info = info(arm.codec).ok_or(EncodeError::UnknownCodec { codec: arm.codec })?;
    if !info.accepts(arm.level) {
        let (min, max) = info.level_range();
        return Err(EncodeError::UnknownLevel {
            codec: arm.codec,
            given: arm.level.0,
            min: min.0,
            max: max.0,
        });
    }
    Ok(match arm.level {
        Level(0) => Arm {
            level: info.default_level,
            ..arm
        },
        _ => arm,
    })
}

/// The part of `wire` that an encoded form smaller than `plain` can take, so that an encoder stops
/// once it is no longer worth it.
#[cfg(any(feature = "lz4", feature = "zstd", feature = "bzip2", feature = "xz"))]
fn worthwhile<'a>(plain: &[u8], wire: &'a mut [u8]) -> &'a mut [u8] {
    let len = wire.len().min(plain.len().saturating_sub(1));
    &mut wire[..len]
}

/// An encoder's own failure.
#[cfg(any(
    feature = "lz4",
    feature = "snappy",
    feature = "zstd",
    feature = "deflate",
    feature = "bzip2",
    feature = "xz"
))]
fn encode_failed(codec: CodecId, plain: &[u8], detail: &dyn fmt::Display) -> EncodeError {
    EncodeError::Failed {
        codec,
        plain_len: plain.len(),
        detail: detail.to_string(),
    }
}

/// A decoder's complaint.
fn corrupt(codec: CodecId, wire: &[u8], detail: &dyn fmt::Display) -> DecodeError {
    DecodeError::Corrupt {
        codec,
        wire_len: wire.len(),
        detail: detail.to_string(),
    }
}

/// Why a decoder stopped before its end mark: the output was full, or no bytes were left. Where both
/// hold, nobody can tell which.
#[cfg(any(feature = "deflate", feature = "bzip2", feature = "xz"))]
fn unended(codec: CodecId, wire: &[u8], written: usize, max: usize) -> DecodeError {
    if written == max {
        DecodeError::TooLong { max }
    } else {
        corrupt(codec, wire, &"ends early")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_copies_but_never_encodes() {
        let mut codecs = Codecs::new();
        let plain = [7; 300];
        let encoded = codecs.encode(Arm::IDENTITY, &plain, &mut [0; 400]);
        assert_eq!(encoded, Ok(Encoded::NotSmaller));
        let mut back = [0; 400];
        assert_eq!(codecs.decode(CodecId::IDENTITY, &plain, &mut back), Ok(300));
        assert_eq!(back.get(..300), Some(&plain[..]));
        assert_eq!(
            codecs.decode(CodecId::IDENTITY, &plain, &mut [0; 299]),
            Err(DecodeError::TooLong { max: 299 })
        );
        assert_eq!(
            codecs.decode_exact(CodecId::IDENTITY, &plain, &mut back),
            Err(DecodeError::TooShort {
                given: 300,
                expected: 400
            })
        );
        assert_eq!(codecs.decode(CodecId::IDENTITY, &[], &mut []), Ok(0));
        assert_eq!(codecs.memory(), 0);
    }

    #[test]
    fn unknown_codecs_and_levels_are_said_to_be_unknown() {
        let mut codecs = Codecs::new();
        let codec = CodecId::from_wire(77);
        assert_eq!(
            codecs.encode(Arm::new(codec, 0), &[0; 9], &mut [0; 9]),
            Err(EncodeError::UnknownCodec { codec })
        );
        assert_eq!(
            codecs.decode(codec, &[0; 9], &mut [0; 9]),
            Err(DecodeError::UnknownCodec { codec })
        );
        assert_eq!(
            codecs.encode(Arm::new(CodecId::IDENTITY, 1), &[0; 9], &mut [0; 9]),
            Err(EncodeError::UnknownLevel {
                codec: CodecId::IDENTITY,
                given: 1,
                min: 0,
                max: 0
            })
        );
    }

    #[test]
    fn limits_are_brought_into_range() {
        let effective = |window_log| DecodeLimits { window_log }.effective_window_log();
        assert_eq!([0, 17, 20, 27, 255].map(effective), [17, 17, 20, 27, 27]);
        let limits = DecodeLimits { window_log: 18 };
        assert_eq!(Codecs::with_limits(limits).limits(), limits);
        assert_eq!(limits.window_bytes(), 1 << 18);
    }

    #[test]
    fn a_shelf_can_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Codecs>();
    }
}
