//! Raw DEFLATE (RFC 1951): no zlib or gzip header, no checksum.

use core::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::staging::Staging;
use super::{CodecId, DecodeError, EncodeError, Encoded, Level, corrupt, encode_failed, unended};

/// Windows, tables and buffers of a compressor with a 32 KiB window (zlib's manual: 256 KiB).
const COMPRESS_BYTES: usize = 268 << 10;
/// Window and tables of a decompressor (zlib's manual: 32 KiB and about 7 KiB).
const DECOMPRESS_BYTES: usize = 40 << 10;

/// The states of both directions; a reset keeps their memory.
#[derive(Default)]
pub(super) struct Deflate {
    encoder: Option<Encoder>,
    decoder: Option<Decompress>,
}

struct Encoder {
    state: Compress,
    level: Level,
}

impl Deflate {
    pub(super) fn encode(
        &mut self,
        level: Level,
        plain: &[u8],
        wire: &mut [u8],
        staging: &mut Staging,
    ) -> Result<Encoded, EncodeError> {
        let failed = |error| encode_failed(CodecId::DEFLATE, plain, &error);
        let compression = Compression::new(u32::from(level.0.unsigned_abs()));
        let encoder = self.encoder.get_or_insert_with(|| Encoder {
            state: Compress::new(compression, false),
            level,
        });
        encoder.state.reset();
        if encoder.level != level {
            encoder.state.set_level(compression).map_err(failed)?;
            encoder.level = level;
        }
        // A stream must come to its end: in zlib-rs 0.6.8, a reset within one leaves the pending
        // buffer's read position where it was, and a later message panics at the end of that
        // buffer. Nothing is lost, since bytes that do not shrink are read to the end anyway.
        let mut ended = true;
        let written = staging.encode(max_wire_len(plain.len()), plain.len(), wire, |output| {
            let status = encoder
                .state
                .compress(plain, output, FlushCompress::Finish)
                .map_err(failed)?;
            ended = status == Status::StreamEnd;
            Ok(if ended {
                encoder.state.total_out() as usize
            } else {
                plain.len()
            })
        });
        if !ended || written.is_err() {
            self.encoder = None;
        }
        written
    }

    pub(super) fn decode(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
        let decoder = self.decoder.get_or_insert_with(|| Decompress::new(false));
        decoder.reset(false);
        let max = plain.len();
        let status = decoder
            .decompress(wire, plain, FlushDecompress::Finish)
            .map_err(|error| corrupt(CodecId::DEFLATE, wire, &error))?;
        let (read, written) = (decoder.total_in() as usize, decoder.total_out() as usize);
        match status {
            Status::StreamEnd if read == wire.len() => Ok(written),
            Status::StreamEnd => Err(corrupt(
                CodecId::DEFLATE,
                wire,
                &"bytes after the last block",
            )),
            Status::Ok | Status::BufError => Err(unended(CodecId::DEFLATE, wire, written, max)),
        }
    }

    pub(super) fn memory(&self) -> usize {
        let encoder = self.encoder.as_ref().map_or(0, |_| COMPRESS_BYTES);
        let decoder = self.decoder.as_ref().map_or(0, |_| DECOMPRESS_BYTES);
        encoder + decoder
    }
}

impl fmt::Debug for Deflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflate")
            .field("memory", &self.memory())
            .finish()
    }
}

/// A size that no stream exceeds: level 1 writes up to nine bits for a byte, the others fall back to
/// stored blocks with five bytes of header.
const fn max_wire_len(plain_len: usize) -> usize {
    plain_len.saturating_add(plain_len / 8).saturating_add(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stream_is_longer_than_the_worst_case() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut deflate = Deflate::default();
        for len in [2, 3, 10, 100, 1000, 16_000, 70_000, 300_000] {
            // Level 1 writes nine bits for each byte from 144 on.
            let plain: Vec<u8> = core::iter::repeat_with(|| rng.u8(144..))
                .take(len)
                .collect();
            for level in 1..=9 {
                let mut wire = vec![0; max_wire_len(len)];
                let encoded =
                    deflate.encode(Level(level), &plain, &mut wire, &mut Staging::default());
                assert!(encoded.is_ok());
                assert!(deflate.encoder.is_some(), "level {level}: {len} bytes");
            }
        }
    }

    #[test]
    fn messages_that_do_not_fit_leave_the_next_alone() {
        let mut rng = fastrand::Rng::with_seed(2);
        let (mut deflate, mut staging) = (Deflate::default(), Staging::default());
        for len in [70_000, 200_000, 65_536, 262_144] {
            let plain: Vec<u8> = core::iter::repeat_with(|| rng.u8(..)).take(len).collect();
            for room in [10, len / 2, len - 1] {
                let mut wire = vec![0; room];
                for level in [1, 6] {
                    let encoded = deflate.encode(Level(level), &plain, &mut wire, &mut staging);
                    assert_eq!(encoded, Ok(Encoded::NotSmaller));
                }
            }
        }
    }
}
