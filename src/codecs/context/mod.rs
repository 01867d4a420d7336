//! Codecs with a memory: what was sent before is the past of what comes next.
//!
//! A message of a few hundred bytes has little to repeat within itself and much to repeat of the
//! messages before it. A context keeps these on both ends, in one direction, and encodes each block
//! with them as its history; blocks must therefore be decoded all, once, and in order. What is on the
//! wire is specified in docs/wire.md, "Bodies with history".

mod absent;
#[cfg(feature = "deflate")]
mod deflate;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(all(test, any(feature = "lz4", feature = "zstd", feature = "deflate")))]
mod tests;
#[cfg(feature = "zstd")]
mod zstd;

use super::{Arm, CodecId, DecodeError, EncodeError, Level, corrupt, default_level};

/// Shorter histories than 2^10 bytes are none; zstd's window descriptor cannot say them.
const MIN_WINDOW_LOG: u8 = 10;
/// Longer ones than 2^24 bytes cost either end tens of megabytes.
const MAX_WINDOW_LOG: u8 = 24;

/// Whether this build has contexts of this codec: zstd, LZ4 and deflate, as features say. Snappy has
/// no form with history; bzip2 and xz cannot be flushed at less than a hundred bytes.
pub fn supports(codec: CodecId) -> bool {
    [
        (CodecId::ZSTD, cfg!(feature = "zstd")),
        (CodecId::LZ4, cfg!(feature = "lz4")),
        (CodecId::DEFLATE, cfg!(feature = "deflate")),
    ]
    .contains(&(codec, true))
}

/// About how many bytes a context takes that encodes with `arm`, and the one that decodes it, with
/// a history of 2^`window_log` bytes; both 0 where there is no such context.
///
/// Exact to a tenth, for blocks no longer than the window. A prime adds its length at both
/// ends of zstd, and 27 KiB more where it decodes.
pub fn memory_estimate(arm: Arm, window_log: u8) -> (usize, usize) {
    match (existing(arm), effective(window_log)) {
        #[cfg(feature = "zstd")]
        (Ok(arm), window_log) if arm.codec == CodecId::ZSTD => {
            zstd::memory_estimate(arm.level, window_log)
        }
        #[cfg(feature = "lz4")]
        (Ok(arm), window_log) if arm.codec == CodecId::LZ4 => lz4::memory_estimate(window_log),
        #[cfg(feature = "deflate")]
        (Ok(arm), window_log) if arm.codec == CodecId::DEFLATE => {
            deflate::memory_estimate(window_log)
        }
        _ => (0, 0),
    }
}

/// The arm with its default level filled in, if this build has it.
fn existing(arm: Arm) -> Result<Arm, EncodeError> {
    let level = match arm.level {
        Level(0) => default_level(arm.codec),
        level => level,
    };
    super::existing(Arm { level, ..arm })
}

/// The window log in force.
fn effective(window_log: u8) -> u8 {
    window_log.clamp(MIN_WINDOW_LOG, MAX_WINDOW_LOG)
}

/// The last bytes, at most so many.
#[cfg(any(feature = "lz4", feature = "zstd", feature = "deflate"))]
fn last(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[bytes.len().saturating_sub(most)..]
}

/// What the sender keeps from block to block, in one direction, for one codec and level.
///
/// After an error every further call is one until [`restart`](Self::restart), since the other end
/// cannot have the same history any more.
///
/// ```
/// # #[cfg(feature = "lz4")] {
/// use tautline::codecs::{Arm, CodecId, DecodeContext, EncodeContext};
///
/// let mut encoder = EncodeContext::new(Arm::new(CodecId::LZ4, 0), 16, b"")?;
/// let mut decoder = DecodeContext::new(CodecId::LZ4, 16, b"")?;
/// let mut wire = Vec::new();
/// for plain in [b"GET /v1/items/4711 HTTP/1.1", b"GET /v1/items/4712 HTTP/1.1"] {
///     wire.clear();
///     encoder.encode(plain, &mut wire)?;
///     let mut back = [0; 27];
///     decoder.decode_exact(&wire, &mut back)?;
///     assert_eq!(&back, plain);
/// }
/// assert_eq!(wire.len(), 14);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EncodeContext {
    arm: Arm,
    window_log: u8,
    sound: bool,
    encoder: Encoder,
}

#[derive(Debug)]
enum Encoder {
    #[cfg(feature = "zstd")]
    Zstd(zstd::Encoder),
    #[cfg(feature = "lz4")]
    Lz4(lz4::Encoder),
    #[cfg(feature = "deflate")]
    Deflate(deflate::Encoder),
    Absent(absent::Encoder),
}

impl Encoder {
    fn new(arm: Arm, window_log: u8, prime: &[u8]) -> Result<Self, EncodeError> {
        match arm.codec {
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => zstd::Encoder::new(arm.level, window_log, prime).map(Self::Zstd),
            #[cfg(feature = "lz4")]
            CodecId::LZ4 => Ok(Self::Lz4(lz4::Encoder::new(window_log, prime))),
            #[cfg(feature = "deflate")]
            CodecId::DEFLATE => {
                deflate::Encoder::new(arm.level, window_log, prime).map(Self::Deflate)
            }
            codec => absent::Encoder::new(codec, window_log, prime).map(Self::Absent),
        }
    }
}

impl EncodeContext {
    /// A context whose history begins with `prime`: plain bytes that both ends have, the latest
    /// last. Only the last 2^`window_log` of them count, and fewer where the codec reaches less far.
    ///
    /// `window_log` is the binary logarithm of how many bytes of history are kept; values outside
    /// 10..=24 count as the nearest of these. LZ4 keeps at most 2^16 bytes, deflate 2^15.
    ///
    /// # Errors
    ///
    /// The codec has no contexts in this build or no such level, or it reports a failure, which is
    /// one of memory.
    pub fn new(arm: Arm, window_log: u8, prime: &[u8]) -> Result<Self, EncodeError> {
        let (arm, window_log) = (existing(arm)?, effective(window_log));
        Ok(Self {
            arm,
            window_log,
            sound: true,
            encoder: Encoder::new(arm, window_log, prime)?,
        })
    }

    /// Begins anew, with another history and level. Memory is reused where the codec is the same.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new). Where the arm does not exist, the context is as before.
    pub fn restart(&mut self, arm: Arm, prime: &[u8]) -> Result<(), EncodeError> {
        let arm = existing(arm)?;
        if !supports(arm.codec) {
            return Err(EncodeError::UnknownCodec { codec: arm.codec });
        }
        self.sound = false;
        match &mut self.encoder {
            #[cfg(feature = "zstd")]
            Encoder::Zstd(encoder) if arm.codec == CodecId::ZSTD => {
                encoder.restart(arm.level, prime)?;
            }
            #[cfg(feature = "lz4")]
            Encoder::Lz4(encoder) if arm.codec == CodecId::LZ4 => encoder.restart(prime),
            #[cfg(feature = "deflate")]
            Encoder::Deflate(encoder) if arm.codec == CodecId::DEFLATE => {
                encoder.restart(arm.level, prime)?;
            }
            encoder => *encoder = Encoder::new(arm, self.window_log, prime)?,
        }
        self.arm = arm;
        self.sound = true;
        Ok(())
    }

    /// The most bytes that a block of `plain_len` can take.
    pub const fn bound(plain_len: usize) -> usize {
        // deflate's level 1 writes up to nine bits for a byte; zstd three bytes for each of its
        // blocks, which have 1 KiB in the smallest window; LZ4 one for 255.
        plain_len.saturating_add(plain_len / 8).saturating_add(64)
    }

    /// Appends the encoded block to `wire` and returns its length, at most
    /// [`bound`](Self::bound).
    ///
    /// There is no "not smaller": the history has taken the block in, so it must be sent, unless
    /// the context is restarted. No bytes become none, and change nothing.
    ///
    /// # Errors
    ///
    /// The codec reports a failure, or has before; `wire` is then as it was.
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<usize, EncodeError> {
        if !self.sound {
            return Err(EncodeError::Failed {
                codec: self.arm.codec,
                plain_len: plain.len(),
                detail: "a block before it failed".to_owned(),
            });
        }
        if plain.is_empty() {
            return Ok(0);
        }
        let start = wire.len();
        let encoded = match &mut self.encoder {
            #[cfg(feature = "zstd")]
            Encoder::Zstd(encoder) => encoder.encode(plain, wire),
            #[cfg(feature = "lz4")]
            Encoder::Lz4(encoder) => {
                encoder.encode(plain, wire);
                Ok(())
            }
            #[cfg(feature = "deflate")]
            Encoder::Deflate(encoder) => encoder.encode(plain, wire),
            Encoder::Absent(encoder) => encoder.encode(plain, wire),
        };
        if let Err(error) = encoded {
            self.sound = false;
            wire.truncate(start);
            return Err(error);
        }
        Ok(wire.len() - start)
    }

    /// The codec and level, the default one filled in.
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// Binary logarithm of the bytes of history, as brought into range.
    pub fn window_log(&self) -> u8 {
        self.window_log
    }

    /// Bytes held now, without the context itself. Exact for zstd and LZ4, an estimate for deflate.
    pub fn memory(&self) -> usize {
        match &self.encoder {
            #[cfg(feature = "zstd")]
            Encoder::Zstd(encoder) => encoder.memory(),
            #[cfg(feature = "lz4")]
            Encoder::Lz4(encoder) => encoder.memory(),
            #[cfg(feature = "deflate")]
            Encoder::Deflate(encoder) => encoder.memory(),
            Encoder::Absent(encoder) => encoder.memory(),
        }
    }
}

/// What the receiver keeps from block to block, in one direction, for one codec.
///
/// Memory is bounded by the window, output by the caller's buffer, whatever bytes come. A block
/// that was lost, repeated or moved, or another prime, makes an error or wrong bytes: whether it is the
/// latter, only a checksum over the plain bytes can say.
#[derive(Debug)]
pub struct DecodeContext {
    codec: CodecId,
    window_log: u8,
    sound: bool,
    decoder: Decoder,
}

#[derive(Debug)]
enum Decoder {
    #[cfg(feature = "zstd")]
    Zstd(zstd::Decoder),
    #[cfg(feature = "lz4")]
    Lz4(lz4::Decoder),
    #[cfg(feature = "deflate")]
    Deflate(deflate::Decoder),
    Absent(absent::Decoder),
}

impl DecodeContext {
    /// The other end of a context with this codec, window and prime; levels do not matter.
    ///
    /// # Errors
    ///
    /// The codec has no contexts in this build, or it reports a failure, which is one of memory.
    pub fn new(codec: CodecId, window_log: u8, prime: &[u8]) -> Result<Self, DecodeError> {
        let window_log = effective(window_log);
        let decoder = match codec {
            #[cfg(feature = "zstd")]
            CodecId::ZSTD => Decoder::Zstd(zstd::Decoder::new(window_log, prime)?),
            #[cfg(feature = "lz4")]
            CodecId::LZ4 => Decoder::Lz4(lz4::Decoder::new(window_log, prime)),
            #[cfg(feature = "deflate")]
            CodecId::DEFLATE => Decoder::Deflate(deflate::Decoder::new(window_log, prime)?),
            codec => Decoder::Absent(absent::Decoder::new(codec, window_log, prime)?),
        };
        Ok(Self {
            codec,
            window_log,
            sound: true,
            decoder,
        })
    }

    /// Begins anew with another history, reusing memory.
    ///
    /// # Errors
    ///
    /// The codec reports a failure.
    pub fn restart(&mut self, prime: &[u8]) -> Result<(), DecodeError> {
        self.sound = false;
        match &mut self.decoder {
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.restart(prime)?,
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.restart(prime),
            #[cfg(feature = "deflate")]
            Decoder::Deflate(decoder) => decoder.restart(prime)?,
            Decoder::Absent(decoder) => decoder.restart(prime)?,
        }
        self.sound = true;
        Ok(())
    }

    /// Decodes all of `wire` into the front of `plain` and returns how many bytes it became.
    ///
    /// `plain` may hold anything before; after a failure its content is unspecified. No bytes
    /// become none, and change nothing.
    ///
    /// LZ4 has no end mark, so that a truncated block can pass for a shorter one.
    ///
    /// # Errors
    ///
    /// The bytes are not a whole block with this history, or decode to more than `plain` holds.
    /// From then on every call is an error until [`restart`](Self::restart).
    pub fn decode(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
        if !self.sound {
            return Err(corrupt(self.codec, wire, &"a block before it failed"));
        }
        if wire.is_empty() {
            return Ok(0);
        }
        let decoded = match &mut self.decoder {
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.decode(wire, plain),
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.decode(wire, plain),
            #[cfg(feature = "deflate")]
            Decoder::Deflate(decoder) => decoder.decode(wire, plain),
            Decoder::Absent(decoder) => decoder.decode(wire, plain),
        };
        self.sound = decoded.is_ok();
        decoded
    }

    /// Decodes all of `wire` into all of `plain`: for blocks whose header declares the plain length.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and if the bytes decode to fewer than `plain` holds.
    pub fn decode_exact(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<(), DecodeError> {
        let given = self.decode(wire, plain)?;
        if given == plain.len() {
            Ok(())
        } else {
            self.sound = false;
            Err(DecodeError::TooShort {
                given,
                expected: plain.len(),
            })
        }
    }

    /// The codec.
    pub fn codec(&self) -> CodecId {
        self.codec
    }

    /// Binary logarithm of the bytes of history, as brought into range.
    pub fn window_log(&self) -> u8 {
        self.window_log
    }

    /// Bytes held now, without the context itself. Exact for zstd and LZ4, an estimate for deflate.
    pub fn memory(&self) -> usize {
        match &self.decoder {
            #[cfg(feature = "zstd")]
            Decoder::Zstd(decoder) => decoder.memory(),
            #[cfg(feature = "lz4")]
            Decoder::Lz4(decoder) => decoder.memory(),
            #[cfg(feature = "deflate")]
            Decoder::Deflate(decoder) => decoder.memory(),
            Decoder::Absent(decoder) => decoder.memory(),
        }
    }
}
