//! Snappy raw format: the plain length as a varint, then literals and copies.

use core::fmt;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::staging::Staging;
use super::{CodecId, DecodeError, EncodeError, Encoded, corrupt, encode_failed};

/// The encoder's two match tables: 2 KiB inline, 32 KiB on the heap once it saw more than 1 KiB.
const TABLE_BYTES: usize = (1 << 10) * size_of::<u16>() + (1 << 14) * size_of::<u16>();

/// The encoder; the decoder has no state.
#[derive(Default)]
pub(super) struct Snappy {
    encoder: Option<Box<Encoder>>,
}

impl Snappy {
    pub(super) fn encode(
        &mut self,
        plain: &[u8],
        wire: &mut [u8],
        staging: &mut Staging,
    ) -> Result<Encoded, EncodeError> {
        let worst_case = max_compress_len(plain.len());
        if worst_case == 0 {
            return Err(encode_failed(
                CodecId::SNAPPY,
                plain,
                &"the format ends at 4 GiB",
            ));
        }
        let encoder = self.encoder.get_or_insert_with(|| Box::new(Encoder::new()));
        // The library refuses an output below its worst case at once, so it cannot stop early.
        staging.encode(worst_case, plain.len(), wire, |output| {
            encoder
                .compress(plain, output)
                .map_err(|error| encode_failed(CodecId::SNAPPY, plain, &error))
        })
    }

    pub(super) fn memory(&self) -> usize {
        self.encoder.as_ref().map_or(0, |_| TABLE_BYTES)
    }
}

impl fmt::Debug for Snappy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snappy")
            .field("memory", &self.memory())
            .finish()
    }
}

pub(super) fn decode(wire: &[u8], plain: &mut [u8]) -> Result<usize, DecodeError> {
    let claimed = decompress_len(wire).map_err(|error| corrupt(CodecId::SNAPPY, wire, &error))?;
    if claimed > plain.len() {
        return Err(DecodeError::TooLong { max: plain.len() });
    }
    Decoder::new()
        .decompress(wire, plain)
        .map_err(|error| corrupt(CodecId::SNAPPY, wire, &error))
}
