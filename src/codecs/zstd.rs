//! Zstandard frames without what the block's own header says already: no magic number, content
//! size, checksum or dictionary number.
//!
//! ```text
//! +------------+-------------------+---------------------------+
//! | 0x00       | window descriptor | blocks, the last one said |
//! | descriptor | 1 byte            | so in its 3-byte header   |
//! +------------+-------------------+---------------------------+
//! ```
//!
//! Decoding is one-shot, straight into the caller's buffer: unlike the streaming call it needs no
//! window of its own, but it would also ignore the window limit and read several frames in a row.
//! Both are therefore checked here, by walking the headers, before the library sees a byte.

use core::fmt;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, FrameFormat, ResetDirective};

use super::{
    CodecId, DecodeError, DecodeLimits, EncodeError, Encoded, Level, corrupt, encode_failed,
    worthwhile,
};

/// What the library returns when the output is full: minus `ZSTD_error_dstSize_tooSmall`, a number
/// that its `zstd_errors.h` calls stable.
pub(super) const OUTPUT_FULL: ErrorCode = 70_usize.wrapping_neg();

/// Likewise minus `ZSTD_error_memory_allocation`.
pub(super) const NO_MEMORY: ErrorCode = 64_usize.wrapping_neg();

/// Frame descriptor and window descriptor.
const FRAME_HEADER_LEN: usize = 2;
const BLOCK_HEADER_LEN: usize = 3;
/// The smallest window that the descriptor can say (RFC 8878, 3.1.1.1.2).
const MIN_WINDOW_LOG: u8 = 10;

/// Contexts of both directions. Making one costs 2 µs, more than a small message (measured), so
/// they are kept.
///
/// zstd grows the encoding context to the largest message and level seen, and gives memory back
/// after 128 messages in a row that need less than a third of it.
#[derive(Default)]
pub(super) struct Zstd {
    encoder: Option<Encoder>,
    decoder: Option<DCtx<'static>>,
}

pub(super) struct Encoder {
    context: CCtx<'static>,
    /// What the context is set to, so that it is set again only for something else.
    params: Params,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) level: i32,
    /// Binary logarithm; 0 leaves it to the level and the plain length.
    pub(super) window_log: u32,
}

impl Zstd {
    pub(super) fn encode(
        &mut self,
        level: Level,
        plain: &[u8],
        wire: &mut [u8],
        limits: DecodeLimits,
    ) -> Result<Encoded, EncodeError> {
        let failed = |code| encode_failed(CodecId::ZSTD, plain, &zstd_safe::get_error_name(code));
        let params = Params {
            level: i32::from(level.0),
            // zstd cuts the window to the plain length by itself.
            window_log: if plain.len() > limits.window_bytes() {
                u32::from(limits.effective_window_log())
            } else {
                0
            },
        };
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(Encoder::new(params).map_err(failed)?),
        };
        encoder.set(params).map_err(failed)?;
        match encoder.run(plain, worthwhile(plain, wire)) {
            Ok(len) => Ok(Encoded::smaller_than(plain.len(), len)),
            Err(OUTPUT_FULL) => Ok(Encoded::NotSmaller),
            Err(code) => Err(failed(code)),
        }
    }

    pub(super) fn decode(
        &mut self,
        wire: &[u8],
        plain: &mut [u8],
        limits: DecodeLimits,
    ) -> Result<usize, DecodeError> {
        check_frame(wire, limits)?;
        let failed = |code| corrupt(CodecId::ZSTD, wire, &zstd_safe::get_error_name(code));
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(new_decoder(limits).map_err(failed)?),
        };
        let max = plain.len();
        decoder.decompress(plain, wire).map_err(|code| {
            if code == OUTPUT_FULL {
                DecodeError::TooLong { max }
            } else {
                failed(code)
            }
        })
    }

    pub(super) fn memory(&self) -> usize {
        let encoder = self.encoder.as_ref().map_or(0, Encoder::memory);
        let decoder = self.decoder.as_ref().map_or(0, DCtx::sizeof);
        encoder + decoder
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd")
            .field("memory", &self.memory())
            .finish()
    }
}

impl Encoder {
    pub(super) fn new(params: Params) -> Result<Self, ErrorCode> {
        let mut context = CCtx::try_create().ok_or(NO_MEMORY)?;
        for parameter in [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
            CParameter::CompressionLevel(params.level),
            CParameter::WindowLog(params.window_log),
        ] {
            context.set_parameter(parameter)?;
        }
        Ok(Self { context, params })
    }

    pub(super) fn set(&mut self, params: Params) -> Result<(), ErrorCode> {
        if params != self.params {
            self.context
                .set_parameter(CParameter::CompressionLevel(params.level))?;
            self.context
                .set_parameter(CParameter::WindowLog(params.window_log))?;
            self.params = params;
        }
        Ok(())
    }

    /// Takes what every frame from now on refers to; it is digested with the first of them.
    pub(super) fn load(&mut self, dictionary: &[u8]) -> Result<(), ErrorCode> {
        self.context.load_dictionary(dictionary).map(|_| ())
    }

    /// Writes one frame, as far as there is room.
    pub(super) fn run(&mut self, plain: &[u8], wire: &mut [u8]) -> Result<usize, ErrorCode> {
        self.context.compress2(wire, plain).inspect_err(|_| {
            // A failed call leaves the context inside its frame. What the reset itself says is of no
            // use: it fails only for a context with threads.
            let _ = self.context.reset(ResetDirective::SessionOnly);
        })
    }

    pub(super) fn memory(&self) -> usize {
        self.context.sizeof()
    }
}

pub(super) fn new_decoder(limits: DecodeLimits) -> Result<DCtx<'static>, ErrorCode> {
    let mut context = DCtx::try_create().ok_or(NO_MEMORY)?;
    context.set_parameter(DParameter::Format(FrameFormat::Magicless))?;
    context.set_parameter(DParameter::WindowLogMax(u32::from(
        limits.effective_window_log(),
    )))?;
    Ok(context)
}

/// Checks that `wire` is one frame from its first byte to its last, of the form that the encoder
/// writes, with a window within the limit.
pub(super) fn check_frame(wire: &[u8], limits: DecodeLimits) -> Result<(), DecodeError> {
    let broken = |detail: &str| corrupt(CodecId::ZSTD, wire, &detail);
    let (header, mut blocks) = wire
        .split_at_checked(FRAME_HEADER_LEN)
        .ok_or_else(|| broken("ends inside the frame header"))?;
    let [descriptor, window] = *header else {
        return Err(broken("ends inside the frame header"));
    };
    if descriptor != 0 {
        return Err(broken("the frame has fields that have no place here"));
    }
    let given_log = window_log(window);
    if given_log > limits.effective_window_log() {
        return Err(DecodeError::WindowTooLarge {
            codec: CodecId::ZSTD,
            given_log,
            max_log: limits.effective_window_log(),
        });
    }
    loop {
        let (header, rest) = blocks
            .split_at_checked(BLOCK_HEADER_LEN)
            .ok_or_else(|| broken("ends inside a block header"))?;
        let header = header
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | usize::from(byte));
        let (is_last, kind, size) = (header & 1 != 0, header >> 1 & 3, header >> 3);
        // A run-length block says how often its single byte stands.
        let body = if kind == 1 { 1 } else { size };
        blocks = rest
            .get(body..)
            .ok_or_else(|| broken("ends inside a block"))?;
        if is_last {
            break;
        }
    }
    if blocks.is_empty() {
        Ok(())
    } else {
        Err(broken("bytes after the last block"))
    }
}

/// Binary logarithm, rounded up, of the window that a descriptor says (RFC 8878, 3.1.1.1.2).
fn window_log(descriptor: u8) -> u8 {
    let (exponent, mantissa) = (descriptor >> 3, descriptor & 7);
    MIN_WINDOW_LOG + exponent + u8::from(mantissa != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_shot(arm_level: i8, plain: &[u8], limits: DecodeLimits) -> (Zstd, Vec<u8>) {
        let mut zstd = Zstd::default();
        let mut wire = vec![0; plain.len() - 1];
        let encoded = zstd
            .encode(Level(arm_level), plain, &mut wire, limits)
            .expect("encodes");
        let Encoded::Written(len) = encoded else {
            panic!("zeros do not shrink");
        };
        wire.truncate(len);
        (zstd, wire)
    }

    #[test]
    fn frame_headers_are_two_bytes() {
        let (_, wire) = one_shot(1, &[7; 300], DecodeLimits::default());
        assert_eq!(wire.get(..2), Some(&[0, 0][..]));
    }

    #[test]
    fn windows_stay_within_the_limit_where_messages_do_not() {
        let limits = DecodeLimits { window_log: 17 };
        let plain = vec![0; 1 << 20];
        let (mut zstd, wire) = one_shot(19, &plain, limits);
        let mut back = vec![1; plain.len()];
        assert_eq!(zstd.decode(&wire, &mut back, limits), Ok(plain.len()));
        assert_eq!(back, plain);
    }

    #[test]
    fn a_hostile_window_is_refused_before_anything_is_allocated() {
        let limits = DecodeLimits { window_log: 20 };
        // Descriptor 168: exponent 21, mantissa 0, thus 2^31; then an empty last block.
        let wire = [0, 168, 1, 0, 0];
        let mut zstd = Zstd::default();
        assert_eq!(
            zstd.decode(&wire, &mut [0; 64], limits),
            Err(DecodeError::WindowTooLarge {
                codec: CodecId::ZSTD,
                given_log: 31,
                max_log: 20
            })
        );
        assert_eq!(zstd.memory(), 0);
        for descriptor in 0..=u8::MAX {
            let refused = zstd.decode(&[0, descriptor, 1, 0, 0], &mut [0; 64], limits);
            assert_eq!(refused.is_err(), descriptor > 80, "descriptor {descriptor}");
        }
    }

    #[test]
    fn a_second_frame_is_garbage() {
        let limits = DecodeLimits::default();
        let (mut zstd, wire) = one_shot(3, &[7; 300], limits);
        let twice = [wire.as_slice(), wire.as_slice()].concat();
        let mut back = [0; 1000];
        assert!(matches!(
            zstd.decode(&twice, &mut back, limits),
            Err(DecodeError::Corrupt { .. })
        ));
    }
}
