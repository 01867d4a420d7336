//! The codec shelf: one file a family, one contract over all.
//!
//! The caller owns every buffer, a codec owns its scratch. [`Codecs`] holds the scratch of all
//! families, makes it on first use and reuses it, so that after warm-up no message allocates.

mod id;
mod identity;

pub use self::id::{Arm, CodecId, Level, ParseArmError};

/// What [`Codecs::encode`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// The first so many bytes of the output are the encoded form; fewer than the plain bytes.
    Written(usize),
    /// The encoded form would not be smaller: send the plain bytes. The output's content is unspecified.
    NotSmaller,
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

/// The level meant when none is named; 0 for codecs without levels.
pub fn default_level(codec: CodecId) -> Level {
    let _ = codec;
    Level(0)
}

/// The scratch and contexts of every codec family, made on first use and reused.
#[derive(Debug, Default)]
pub struct Codecs {}

impl Codecs {
    /// An empty shelf; nothing is allocated yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Encodes `plain` into the front of `wire`.
    ///
    /// `wire` need not be larger than `plain`: where the encoded form has not fewer bytes than
    /// `plain`, or does not fit `wire`, the answer is [`Encoded::NotSmaller`].
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
        match arm.codec {
            CodecId::IDENTITY => Ok(identity::encode(plain, wire)),
            codec => Err(EncodeError::UnknownCodec { codec }),
        }
    }

    /// Decodes all of `wire` into the front of `plain` and returns how many bytes it became.
    ///
    /// `plain` may hold anything before; nothing of it is read.
    ///
    /// # Errors
    ///
    /// The codec is not in this build, or the bytes are corrupt, truncated, decode to more than
    /// `plain` holds or ask for more memory than allowed.
    pub fn decode(
        &mut self,
        codec: CodecId,
        wire: &[u8],
        plain: &mut [u8],
    ) -> Result<usize, DecodeError> {
        match codec {
            CodecId::IDENTITY => identity::decode(wire, plain),
            codec => Err(DecodeError::UnknownCodec { codec }),
        }
    }
}
